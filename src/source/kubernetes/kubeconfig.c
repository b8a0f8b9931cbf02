/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/kubeconfig.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

CLEANUP_POINTER(json_t, json_decref);

enum { WORDS_MAX = 256 };
#define VERSION_1 "client.authentication.k8s.io/v1"
#define VERSION_1BETA1 "client.authentication.k8s.io/v1beta1"

/* -- the file --------------------------------------------------------------------------------------------------------
 */

typedef struct Reading {
    Arena *arena;
    const char *name;
    Kubeconfig *config;
    Err *err;
} Reading;

/* *ret is NULL where the key is absent, null or empty. */
static int read_text(Reading *r, const YamlNode *map, const char *key, const char **ret)
{
    const YamlNode *node = yaml_get(map, key);

    *ret = NULL;
    if (yaml_is_null(node))
        return 0;
    TRY(yaml_want(node, YAML_SCALAR, key, r->err));
    *ret = node->len ? node->text : NULL;
    return 0;
}

static int read_bool(Reading *r, const YamlNode *map, const char *key, bool *ret)
{
    const char *text;

    TRY(read_text(r, map, key, &text));
    *ret = text && strcmp(text, "true") == 0;
    return !text || *ret || strcmp(text, "false") == 0
               ? 0
               : yaml_fail(yaml_get(map, key), r->err, "'%s' must be true or false, not '%.40s'", key, text);
}

/* `path` beside the kubeconfig, where it is relative. */
static const char *resolve_path(Reading *r, const char *path)
{
    const char *slash = strrchr(r->name, '/');

    return path && *path != '/' && slash ? arena_printf(r->arena, "%.*s/%s", (int)(slash - r->name), r->name, path)
                                         : path;
}

static int read_pem(Reading *r, const YamlNode *map, const char *key, KubePem *ret)
{
    ret->key = key;
    TRY(read_text(r, map, key, &ret->file));
    ret->file = resolve_path(r, ret->file);
    return read_text(r, map, arena_printf(r->arena, "%s-data", key), &ret->base64);
}

static bool has_pem(const KubePem *pem)
{
    return pem->file || pem->base64;
}

static int refuse_keys(Reading *r, const YamlNode *map, const char *const *keys, const char *instead)
{
    for (; *keys; keys++)
        if (!yaml_is_null(yaml_get(map, *keys)))
            return yaml_fail(yaml_get(map, *keys), r->err, "'%s' is not supported: %s", *keys, instead);
    return 0;
}

static int read_cluster(Reading *r, const YamlNode *cluster)
{
    static const char *const refused[] = {"proxy-url", NULL};
    Kubeconfig *config = r->config;

    TRY(refuse_keys(r, cluster, refused, "set https_proxy in the environment"));
    TRY(read_text(r, cluster, "server", &config->server));
    if (!config->server)
        return yaml_fail(cluster, r->err, "the cluster has no 'server'");
    size_t len = strlen(config->server);
    while (len && config->server[len - 1] == '/')
        len--;
    config->server = arena_strndup(r->arena, config->server, len);
    TRY(read_text(r, cluster, "tls-server-name", &config->server_name));
    TRY(read_bool(r, cluster, "insecure-skip-tls-verify", &config->insecure));
    TRY(read_pem(r, cluster, "certificate-authority", &config->ca));
    if (config->insecure && has_pem(&config->ca))
        return yaml_fail(cluster, r->err, "'certificate-authority' and 'insecure-skip-tls-verify' exclude each other");
    return 0;
}

static int read_plugin_env(Reading *r, const YamlNode *list, const char **env)
{
    size_t count = 0;

    for (size_t i = 0; !yaml_is_null(list) && i < list->len; i++) {
        const char *name, *value;

        TRY(read_text(r, list->items[i], "name", &name));
        TRY(read_text(r, list->items[i], "value", &value));
        if (!name || strchr(name, '='))
            return yaml_fail(list->items[i], r->err, "an entry of 'env' needs a name without '='");
        env[count++] = arena_printf(r->arena, "%s=%s", name, value ? value : "");
    }
    return 0;
}

/* At most WORDS_MAX items. */
static int want_list(Reading *r, const YamlNode *list, const char *key)
{
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, key, r->err));
    return list->len < WORDS_MAX ? 0 : yaml_fail(list, r->err, "'%s' has more than %d entries", key, WORDS_MAX);
}

static int read_plugin_words(Reading *r, const YamlNode *exec, const char *command)
{
    const YamlNode *args = yaml_get(exec, "args"), *env = yaml_get(exec, "env");
    const char **argv = arena_calloc(r->arena, WORDS_MAX + 2, sizeof *argv);
    const char **envp = arena_calloc(r->arena, WORDS_MAX + 1, sizeof *envp);

    TRY(want_list(r, args, "args"));
    TRY(want_list(r, env, "env"));
    argv[0] = strchr(command, '/') ? resolve_path(r, command) : command;
    for (size_t i = 0; !yaml_is_null(args) && i < args->len; i++) {
        TRY(yaml_want(args->items[i], YAML_SCALAR, "args", r->err));
        argv[i + 1] = args->items[i]->text;
    }
    TRY(read_plugin_env(r, env, envp));
    r->config->plugin.argv = argv;
    r->config->plugin.env = envp;
    return 0;
}

static int read_plugin(Reading *r, const YamlNode *exec)
{
    KubePlugin *plugin = &r->config->plugin;
    const char *command, *mode;

    if (yaml_is_null(exec))
        return 0;
    TRY(yaml_want(exec, YAML_MAP, "exec", r->err));
    TRY(read_text(r, exec, "command", &command));
    TRY(read_text(r, exec, "apiVersion", &plugin->version));
    TRY(read_text(r, exec, "installHint", &plugin->hint));
    TRY(read_text(r, exec, "interactiveMode", &mode));
    TRY(read_bool(r, exec, "provideClusterInfo", &plugin->cluster));
    plugin->hint = plugin->hint ? plugin->hint : "";
    if (!command)
        return yaml_fail(exec, r->err, "'exec' has no 'command'");
    if (!plugin->version || (strcmp(plugin->version, VERSION_1) != 0 && strcmp(plugin->version, VERSION_1BETA1) != 0))
        return yaml_fail(exec, r->err, "the 'apiVersion' of 'exec' must be %s or v1beta1, not '%.60s'", VERSION_1,
                         plugin->version ? plugin->version : "");
    if (mode && strcmp(mode, "Always") == 0)
        return yaml_fail(yaml_get(exec, "interactiveMode"), r->err,
                         "'interactiveMode' Always is not supported: there is no terminal");
    return read_plugin_words(r, exec, command);
}

static int read_user(Reading *r, const YamlNode *user)
{
    static const char *const refused[] = {"auth-provider", "username",  "password",      "as",
                                          "as-uid",        "as-groups", "as-user-extra", NULL};
    Kubeconfig *config = r->config;

    TRY(refuse_keys(r, user, refused, "use a token, a client certificate or 'exec'"));
    TRY(read_text(r, user, "token", &config->token));
    TRY(read_text(r, user, "tokenFile", &config->token_file));
    config->token_file = resolve_path(r, config->token_file);
    TRY(read_pem(r, user, "client-certificate", &config->cert));
    TRY(read_pem(r, user, "client-key", &config->client_key));
    if (has_pem(&config->cert) != has_pem(&config->client_key))
        return yaml_fail(user, r->err, "'client-certificate' and 'client-key' need each other");
    return read_plugin(r, yaml_get(user, "exec"));
}

/* The entry `name` of the list `list`, of which `key` is what counts. */
static int find_entry(Reading *r, const YamlNode *root, const char *list, const char *key, const char *name,
                      const YamlNode **ret)
{
    const YamlNode *all = yaml_get(root, list);

    if (!yaml_is_null(all))
        TRY(yaml_want(all, YAML_SEQ, list, r->err));
    for (size_t i = 0; !yaml_is_null(all) && i < all->len; i++) {
        const char *has;

        TRY(read_text(r, all->items[i], "name", &has));
        if (!has || strcmp(has, name) != 0)
            continue;
        *ret = yaml_get(all->items[i], key);
        return *ret ? yaml_want(*ret, YAML_MAP, key, r->err)
                    : yaml_fail(all->items[i], r->err, "'%s' has no '%s'", name, key);
    }
    return err_set(r->err, -EINVAL, "%s: '%s' has no entry '%.100s'", r->name, list, name);
}

int kubeconfig_read(const char *name, const char *text, size_t len, Arena *arena, Kubeconfig *ret, Err *err)
{
    Kubeconfig config = {.server = NULL};
    Reading r = {.arena = arena, .name = name, .config = &config, .err = err};
    const YamlNode *root, *context, *cluster, *user;
    const char *current, *of_cluster, *of_user;

    TRY(yaml_load(name, text, len, arena, &root, err));
    TRY(read_text(&r, root, "current-context", &current));
    if (!current)
        return err_set(err, -EINVAL, "%s: 'current-context' names no context", name);
    TRY(find_entry(&r, root, "contexts", "context", current, &context));
    TRY(read_text(&r, context, "cluster", &of_cluster));
    TRY(read_text(&r, context, "user", &of_user));
    if (!of_cluster || !of_user)
        return yaml_fail(context, err, "the context '%.100s' needs a 'cluster' and a 'user'", current);
    TRY(find_entry(&r, root, "clusters", "cluster", of_cluster, &cluster));
    TRY(find_entry(&r, root, "users", "user", of_user, &user));
    TRY(read_cluster(&r, cluster));
    TRY(read_user(&r, user));
    *ret = config;
    return 0;
}

/* -- a plug-in's answer ----------------------------------------------------------------------------------------------
 */

static const char *copy_text(Arena *arena, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && *text ? arena_strdup(arena, text) : NULL;
}

int kubeconfig_read_ticket(const char *text, size_t len, const char *version, Arena *arena, KubeTicket *ret, Err *err)
{
    json_error_t error;
    CLEANUP(json_decref_at) json_t *answer = json_loadb(text, len, 0, &error);
    const json_t *status = json_object_get(answer, "status");
    const char *kind = json_string_value(json_object_get(answer, "kind"));
    const char *has = json_string_value(json_object_get(answer, "apiVersion"));
    KubeTicket ticket = {.token = copy_text(arena, status, "token"),
                         .cert = copy_text(arena, status, "clientCertificateData"),
                         .client_key = copy_text(arena, status, "clientKeyData")};
    const char *expires = copy_text(arena, status, "expirationTimestamp");

    if (!answer)
        return err_set(err, -EBADMSG, "its answer is no JSON: %.100s", error.text);
    if (!kind || strcmp(kind, "ExecCredential") != 0 || !has || strcmp(has, version) != 0)
        return err_set(err, -EBADMSG, "its answer is no ExecCredential of %s", version);
    if ((!ticket.token && !ticket.cert) || !ticket.cert != !ticket.client_key)
        return err_set(err, -EBADMSG,
                       "its answer has neither 'token' nor 'clientCertificateData' with 'clientKeyData'");
    if (expires && clock_parse(expires, &ticket.expires_ns, err) < 0)
        return err_add(err, "expirationTimestamp");
    *ret = ticket;
    return 0;
}
