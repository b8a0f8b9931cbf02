/* SPDX-License-Identifier: Apache-2.0 */
#include "service/alert/config.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/number.h"
#include "base/cleanup.h"

enum { NAME_MAX_BYTES = 64, SECRET_BYTES_MAX = 4096 };

#define REPEAT_INTERVAL "4h" /* as Alertmanager */

/* What stands beside the kind. */
typedef struct Common {
    const char *name;
    uint64_t keep_ns;
    const YamlNode *kinds[RECEIVER_KIND_END];
} Common;

#define KIND(name, id, help_text) OPT_ROW(name, OPT_NODE, Common, kinds[RECEIVER_##id], .help = help_text)
static const OptSpec common_opts[] = {
    OPT_ROW("name", OPT_STRING, Common, name, .help = "its name in routes"),
    OPT_ROW("keep", OPT_DURATION, Common, keep_ns, .def = "1d", .help = "how long a cleared incident is retried"),
    KIND("alertmanager", ALERTMANAGER, "an Alertmanager"),
    KIND("webhook", WEBHOOK, "an HTTP server"),
    KIND("command", COMMAND, "a program"),
    KIND("journald", JOURNALD, "systemd's journal"),
};
#undef KIND

/* The sections of the kinds; what only one pass needs lies behind the receiver. */
typedef struct Section {
    ReceiverConfig r;
    const char *url;
    const YamlNode *headers, *env;
    OptList argv;
} Section;

#define HTTP_OPTS                                                                                                      \
    OPT_ROW("unix_socket", OPT_STRING, Section, r.request.unix_socket,                                                 \
            .help = "connect here instead of the URL's host"),                                                         \
        OPT_ROW("timeout", OPT_DURATION, Section, r.timeout_ns, .def = "10s", .min = 1e8, .max = 3e11,                 \
                .help = "of one try"),                                                                                 \
        OPT_ROW("tls.ca_file", OPT_STRING, Section, r.request.tls.ca_file, .help = "authorities, as PEM"),             \
        OPT_ROW("tls.cert_file", OPT_STRING, Section, r.request.tls.cert_file, .help = "our certificate, as PEM"),     \
        OPT_ROW("tls.key_file", OPT_STRING, Section, r.request.tls.key_file, .help = "its key"),                       \
        OPT_ROW("tls.server_name", OPT_STRING, Section, r.request.tls.server_name,                                     \
                .help = "name in the server's certificate"),                                                           \
        OPT_ROW("tls.insecure_skip_verify", OPT_BOOL, Section, r.request.tls.insecure,                                 \
                .help = "accept any certificate"),                                                                     \
        OPT_ROW("basic_auth.username", OPT_STRING, Section, r.request.user, .help = "user"),                           \
        OPT_ROW("basic_auth.password_file", OPT_STRING, Section, r.secret_files[SECRET_PASSWORD],                      \
                .help = "file of the password"),                                                                       \
        OPT_ROW("bearer_file", OPT_STRING, Section, r.secret_files[SECRET_BEARER], .help = "file of a bearer token"),  \
        OPT_ROW("headers", OPT_NODE, Section, headers, .help = "headers to add")

static const OptSpec alertmanager_opts[] = {
    OPT_ROW("urls", OPT_LIST, Section, r.urls, .help = "each gets every alert"),
    OPT_ROW("resend", OPT_DURATION, Section, r.resend_ns, .def = "1m", .min = 1e9, .max = 3.6e12,
            .help = "how often an open alert is sent again"),
    HTTP_OPTS,
};
static const OptSpec webhook_opts[] = {
    OPT_ROW("url", OPT_STRING, Section, url, .help = "where to POST"),
    OPT_ROW("secret_file", OPT_STRING, Section, r.secret_files[SECRET_SIGNING],
            .help = "file of the secret that signs"),
    HTTP_OPTS,
};
static const OptSpec command_opts[] = {
    OPT_ROW("argv", OPT_LIST, Section, argv, .flags = OPT_WHOLE, .help = "program and arguments"),
    OPT_ROW("timeout", OPT_DURATION, Section, r.timeout_ns, .def = "30s", .min = 1e8, .max = 3.6e12,
            .help = "after which it is killed"),
    OPT_ROW("env", OPT_NODE, Section, env, .help = "environment to add"),
};
static const OptSpec journald_opts[] = {
    OPT_ROW("socket", OPT_STRING, Section, r.socket, .def = "/run/systemd/journal/socket",
            .help = "the journal's socket"),
};

static const struct KindRow {
    const char *key;
    const OptSpec *opts;
    size_t count;
} kinds[RECEIVER_KIND_END] = {
    [RECEIVER_ALERTMANAGER] = {"alertmanager", alertmanager_opts, ARRAY_LEN(alertmanager_opts)},
    [RECEIVER_WEBHOOK] = {"webhook", webhook_opts, ARRAY_LEN(webhook_opts)},
    [RECEIVER_COMMAND] = {"command", command_opts, ARRAY_LEN(command_opts)},
    [RECEIVER_JOURNALD] = {"journald", journald_opts, ARRAY_LEN(journald_opts)},
};

const char *receiver_kind_key(ReceiverKind kind)
{
    return kinds[kind].key;
}

/* --- secrets ------------------------------------------------------------------------------------------------------ */

static const char *const secret_keys[SECRET_END] = {"basic_auth.password_file", "bearer_file", "secret_file"};

static void wipe_secrets(char *secrets[SECRET_END])
{
    for (size_t i = 0; i < SECRET_END; i++) {
        if (secrets[i])
            explicit_bzero(secrets[i], strlen(secrets[i]));
        free(TAKE(secrets[i]));
    }
}

/* Reads one line of text. */
static int read_secret(const char *path, char **ret, Err *err)
{
    CLEANUP(str_done) Str text = {0};

    if (!path)
        return 0;
    str_init(&text, SECRET_BYTES_MAX);
    TRY(file_read(path, SECRET_BYTES_MAX, &text, err));
    while (text.len && strchr("\r\n", text.text[text.len - 1]))
        str_cut(&text, text.len - 1);
    if (!text.len || strlen(text.text) != text.len || strpbrk(text.text, "\r\n"))
        return err_set(err, -EINVAL, "'%s' is not one line of text", path);
    *ret = str_take(&text);
    return 0;
}

/* On an error the old ones stay, and *ret_bad is the one that could not be read. */
static int read_secrets(ReceiverConfig *receiver, size_t *ret_bad, Err *err)
{
    char *fresh[SECRET_END] = {NULL};

    for (size_t i = 0; i < SECRET_END; i++) {
        const int rc = read_secret(receiver->secret_files[i], &fresh[i], err);

        if (rc < 0) {
            wipe_secrets(fresh);
            *ret_bad = i;
            return rc;
        }
    }
    wipe_secrets(receiver->secrets);
    memcpy(receiver->secrets, fresh, sizeof fresh);
    return 0;
}

void receiver_read_secrets(ReceiverConfig *receiver)
{
    size_t bad;

    (void)read_secrets(receiver, &bad, NULL);
}

/* --- receivers ---------------------------------------------------------------------------------------------------- */

/* Reads a mapping of labels; values are texts. */
static int read_labels(const YamlNode *map, const char *what, Arena *arena, AlertLabels *ret, Err *err)
{
    if (yaml_is_null(map))
        return 0;
    TRY(yaml_want(map, YAML_MAP, what, err));
    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];

        if (!alert_label_name_fits(pair->key->text))
            return yaml_fail(pair->key, err, "'%.60s' is no name of a label", pair->key->text);
        TRY(yaml_want(pair->value, YAML_SCALAR, pair->key->text, err));
        if (pair->value->len > ALERT_LABEL_VALUE_MAX)
            return yaml_fail(pair->value, err, "'%.60s': a label's value has at most %d bytes", pair->key->text,
                             ALERT_LABEL_VALUE_MAX);
        if (ret->len == ALERT_LABELS_MAX / 2)
            return yaml_fail(pair->key, err, "more than %d labels", ALERT_LABELS_MAX / 2);
        alert_labels_set(ret, arena_strdup(arena, pair->key->text), arena_strdup(arena, pair->value->text));
    }
    return 0;
}

static int read_headers(const YamlNode *map, Arena *arena, ReceiverConfig *ret, Err *err)
{
    if (yaml_is_null(map))
        return 0;
    TRY(yaml_want(map, YAML_MAP, "headers", err));
    if (map->len > ALERT_HEADERS_MAX)
        return yaml_fail(map, err, "more than %d headers", ALERT_HEADERS_MAX);
    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];

        TRY(yaml_want(pair->value, YAML_SCALAR, pair->key->text, err));
        if (!pair->key->len || strpbrk(pair->key->text, ": \t\r\n") || strpbrk(pair->value->text, "\r\n"))
            return yaml_fail(pair->key, err, "'%.60s' is no header", pair->key->text);
        ret->headers[ret->header_count++] = arena_printf(arena, "%s: %s", pair->key->text, pair->value->text);
    }
    return 0;
}

bool alert_is_url(const char *text)
{
    const size_t scheme = !strncmp(text, "http://", 7) ? 7 : !strncmp(text, "https://", 8) ? 8 : 0;

    return scheme && text[scheme] && !strchr("/:?#", text[scheme]) && !strpbrk(text, " \t\r\n");
}

static int check_url(const OptSet *set, const char *key, size_t item, const char *url, Err *err)
{
    return alert_is_url(url) ? 0 : opt_fail(set, key, item, err, "'%.120s' is not a URL of http or https", url);
}

/* Paths are relative to the configuration file. */
static void make_absolute(const YamlNode *node, Arena *arena, const char **path)
{
    const char *slash = strrchr(node->file, '/');

    if (*path && **path != '/' && slash)
        *path = arena_printf(arena, "%.*s/%s", (int)(slash - node->file), node->file, *path);
}

/* Two of a kind: fails at the one that is there. */
static int check_pair(const OptSet *set, const char *key, const char *value, const char *other_key, const char *other,
                      Err *err)
{
    if (!value == !other)
        return 0;
    return opt_fail(set, value ? key : other_key, 0, err, "needs '%s' beside it", value ? other_key : key);
}

/* Files must be there; secrets are read. */
static int read_files(const YamlNode *node, const OptSet *set, ReceiverConfig *ret, Err *err)
{
    static const char *const keys[] = {"tls.ca_file", "tls.cert_file", "tls.key_file"};
    const char **const files[] = {&ret->request.tls.ca_file, &ret->request.tls.cert_file, &ret->request.tls.key_file};
    size_t bad;

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        make_absolute(node, set->arena, files[i]);
        if (*files[i] && access(*files[i], R_OK) < 0) {
            (void)err_errno(err, "open '%s'", *files[i]);
            return opt_add_place(set, keys[i], 0, err);
        }
    }
    for (size_t i = 0; i < SECRET_END; i++)
        make_absolute(node, set->arena, &ret->secret_files[i]);
    return read_secrets(ret, &bad, err) < 0 ? opt_add_place(set, secret_keys[bad], 0, err) : 0;
}

static int check_http(const YamlNode *node, const OptSet *set, const Section *in, ReceiverConfig *ret, Err *err)
{
    const char *urls = ret->kind == RECEIVER_WEBHOOK ? "url" : "urls";

    if (!ret->urls.len)
        return yaml_fail(node, err, "'%s' needs '%s'", receiver_kind_key(ret->kind), urls);
    if (ret->urls.len > ALERT_URLS_MAX)
        return opt_fail(set, urls, 0, err, "more than %d URLs", ALERT_URLS_MAX);
    for (size_t i = 0; i < ret->urls.len; i++)
        TRY(check_url(set, urls, i, ret->urls.items[i], err));
    TRY(check_pair(set, "basic_auth.username", ret->request.user, "basic_auth.password_file",
                   ret->secret_files[SECRET_PASSWORD], err));
    if (ret->request.user && ret->secret_files[SECRET_BEARER])
        return opt_fail(set, "bearer_file", 0, err, "'basic_auth' is there too, one is enough");
    TRY(check_pair(set, "tls.cert_file", ret->request.tls.cert_file, "tls.key_file", ret->request.tls.key_file, err));
    TRY(read_headers(in->headers, set->arena, ret, err));
    return read_files(node, set, ret, err);
}

static int read_env(const YamlNode *map, Arena *arena, ReceiverConfig *ret, Err *err)
{
    size_t count = yaml_is_null(map) ? 0 : map->len;
    const char **env = arena_calloc(arena, count + 1, sizeof(*env));

    if (count)
        TRY(yaml_want(map, YAML_MAP, "env", err));
    for (size_t i = 0; i < count; i++) {
        const YamlPair *pair = &map->pairs[i];

        TRY(yaml_want(pair->value, YAML_SCALAR, pair->key->text, err));
        if (!alert_label_name_fits(pair->key->text))
            return yaml_fail(pair->key, err, "'%.60s' is no name of a variable", pair->key->text);
        env[i] = arena_printf(arena, "%s=%s", pair->key->text, pair->value->text);
    }
    ret->env = env;
    return 0;
}

static int check_command(const YamlNode *node, const Section *in, Arena *arena, ReceiverConfig *ret, Err *err)
{
    const char **argv = arena_calloc(arena, in->argv.len + 1, sizeof(*argv));

    if (!in->argv.len || !*in->argv.items[0])
        return yaml_fail(node, err, "'command' needs 'argv', the program and its arguments");
    memcpy(argv, in->argv.items, in->argv.len * sizeof(*argv));
    ret->argv = argv;
    return read_env(in->env, arena, ret, err);
}

/* The section of a receiver's kind. A command may be its list of arguments alone, a webhook its URL alone. */
static int read_kind(const YamlNode *node, Arena *arena, ReceiverConfig *ret, Err *err)
{
    Section in = {.r = *ret};
    const struct KindRow *kind = &kinds[ret->kind];
    OptPlace *places = arena_calloc(arena, kind->count, sizeof(*places));
    const OptSet set = {.opts = kind->opts, .count = kind->count, .into = &in, .arena = arena, .places = places};
    const char *brief = node->kind == YAML_SEQ && ret->kind == RECEIVER_COMMAND      ? "argv"
                        : node->kind == YAML_SCALAR && ret->kind == RECEIVER_WEBHOOK ? "url"
                                                                                     : NULL;
    YamlNode key = {.kind = YAML_SCALAR, .text = brief, .line = node->line, .column = node->column, .file = node->file};
    YamlPair pair = {&key, node};
    YamlNode map = {.kind = YAML_MAP, .line = node->line, .column = node->column, .file = node->file, .len = 1};

    key.len = brief ? strlen(brief) : 0;
    map.pairs = &pair;
    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, brief && !yaml_is_null(node) ? &map : node, err));
    *ret = in.r;
    if (in.url) {
        const char **urls = arena_calloc(arena, 1, sizeof(*urls));

        urls[0] = in.url;
        ret->urls = (OptList){urls, 1};
    }
    if (ret->kind == RECEIVER_COMMAND)
        return check_command(node, &in, arena, ret, err);
    return ret->kind == RECEIVER_JOURNALD ? 0 : check_http(node, &set, &in, ret, err);
}

static int add_receiver(const YamlNode *node, const char *name, AlertTree *tree, Err *err)
{
    Common common = {0};
    OptSet set = {.opts = common_opts, .count = ARRAY_LEN(common_opts), .into = &common, .arena = &tree->arena};
    ReceiverConfig *receiver = &tree->receivers[tree->receiver_count];
    int kind = -1;

    if (tree->receiver_count == ALERT_RECEIVERS_MAX)
        return yaml_fail(node, err, "more than %d receivers", ALERT_RECEIVERS_MAX);
    TRY(yaml_want(node, YAML_MAP, "receivers", err));
    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, node, err));
    if (!name)
        name = common.name;
    else if (common.name)
        return yaml_fail(node, err, "receiver '%.60s' has its name already", name);
    if (!name || !*name || strlen(name) > NAME_MAX_BYTES)
        return yaml_fail(node, err, "a receiver needs a 'name' of at most %d bytes", NAME_MAX_BYTES);
    for (size_t i = 0; i < tree->receiver_count; i++)
        if (!strcmp(tree->receivers[i].name, name))
            return yaml_fail(node, err, "receiver '%s' is there twice", name);
    for (int i = 0; i < RECEIVER_KIND_END; i++) {
        if (!common.kinds[i])
            continue;
        if (kind >= 0)
            return yaml_fail(node, err, "receiver '%s' has '%s' and '%s': make two of it", name, kinds[kind].key,
                             kinds[i].key);
        kind = i;
    }
    if (kind < 0)
        return yaml_fail(node, err, "receiver '%s' needs one of alertmanager, webhook, command, journald", name);
    *receiver = (ReceiverConfig){
        .name = arena_strdup(&tree->arena, name), .kind = (ReceiverKind)kind, .keep_ns = common.keep_ns};
    TRY(read_kind(common.kinds[kind], &tree->arena, receiver, err));
    tree->receiver_count++;
    return 0;
}

static int read_receivers(const YamlNode *node, AlertTree *tree, Err *err)
{
    if (yaml_is_null(node))
        return 0;
    if (node->kind == YAML_SCALAR)
        return yaml_want(node, YAML_SEQ, "receivers", err);
    for (size_t i = 0; i < node->len; i++) {
        bool list = node->kind == YAML_SEQ;

        TRY(add_receiver(list ? node->items[i] : node->pairs[i].value, list ? NULL : node->pairs[i].key->text, tree,
                         err));
    }
    return 0;
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static const char *const severity_names[] = {
#define SEVERITY(id, key, text) key,
    FAULT_SEVERITY_TABLE(SEVERITY)
#undef SEVERITY
        NULL,
};

/* What only one pass needs lies behind the route. */
typedef struct RouteSection {
    RouteConfig r;
    OptList routes, causes, receivers;
    const YamlNode *match, *labels;
    const char *receiver;
} RouteSection;

static const OptSpec route_opts[] = {
    OPT_ROW("match.route", OPT_LIST, RouteSection, routes, .help = "page, ticket, user, none"),
    OPT_ROW("match.class", OPT_LIST, RouteSection, r.classes, .help = "classes, with * and ?"),
    OPT_ROW("match.cause", OPT_LIST, RouteSection, causes, .help = "causes"),
    OPT_ROW("match.severity", OPT_ENUM, RouteSection, r.severity, .names = severity_names, .def = "info",
            .help = "at least"),
    OPT_ROW("match.gpu", OPT_LIST, RouteSection, r.gpus, .help = "indices or UUIDs"),
    OPT_ROW("match.labels", OPT_NODE, RouteSection, match, .help = "labels and their values, with * and ?"),
    OPT_ROW("receiver", OPT_STRING, RouteSection, receiver, .help = "receivers by name"),
    OPT_ROW("receivers", OPT_LIST, RouteSection, receivers, .help = "receivers by name"),
    OPT_ROW("labels", OPT_NODE, RouteSection, labels, .help = "labels to add"),
    OPT_ROW("runbook", OPT_STRING, RouteSection, r.runbook, .help = "URL instead of the catalogue's"),
    OPT_ROW("continue", OPT_BOOL, RouteSection, r.go_on, .help = "try the next routes too"),
    OPT_ROW("repeat_interval", OPT_DURATION, RouteSection, r.repeat_ns, .def = REPEAT_INTERVAL, .help = "0: never"),
};

static int read_words(const OptSet *set, const char *key, const OptList *words, const WordRow *table, size_t count,
                      const char *what, unsigned int *ret, Err *err)
{
    for (size_t i = 0; i < words->len; i++) {
        int found = word_find(table, count, words->items[i]);

        if (found < 0)
            return opt_fail(set, key, i, err, "'%.40s' is no %s", words->items[i], what);
        *ret |= 1U << found;
    }
    return 0;
}

static int add_route_receiver(const AlertTree *tree, const char *name, RouteConfig *route, Err *err)
{
    for (size_t i = 0; i < tree->receiver_count; i++) {
        if (strcmp(tree->receivers[i].name, name) != 0)
            continue;
        for (size_t k = 0; k < route->receiver_count; k++)
            if (route->receivers[k] == i)
                return 0;
        route->receivers[route->receiver_count++] = i;
        return 0;
    }
    return err_set(err, -EINVAL, "there is no receiver '%.60s'", name);
}

static int read_route_receivers(const YamlNode *node, const OptSet *set, const AlertTree *tree, const RouteSection *in,
                                RouteConfig *route, Err *err)
{
    if (in->receiver && add_route_receiver(tree, in->receiver, route, err) < 0)
        return opt_add_place(set, "receiver", 0, err);
    for (size_t i = 0; i < in->receivers.len; i++)
        if (add_route_receiver(tree, in->receivers.items[i], route, err) < 0)
            return opt_add_place(set, "receivers", i, err);
    if (!in->receiver && !yaml_get(node, "receivers"))
        return yaml_fail(node, err, "a route needs 'receiver' or 'receivers' ([] for nobody)");
    return 0;
}

static int check_classes(const OptSet *set, const OptList *globs, const Catalogue *catalogue, Err *err)
{
    for (size_t i = 0; catalogue && i < globs->len; i++) {
        size_t k = 0;

        while (k < catalogue->class_count && fnmatch(globs->items[i], catalogue->classes[k].id, 0) != 0)
            k++;
        if (k == catalogue->class_count)
            return opt_fail(set, "match.class", i, err, "there is no class '%.60s'", globs->items[i]);
    }
    return 0;
}

static int check_gpus(const OptSet *set, const OptList *gpus, Err *err)
{
    for (size_t i = 0; i < gpus->len; i++) {
        const char *text = gpus->items[i];

        if (number_parse_u64(text, 0, 4096, &(uint64_t){0}, NULL) < 0 && strncmp(text, "GPU-", 4) != 0)
            return opt_fail(set, "match.gpu", i, err, "'%.60s' is neither a GPU's index nor its UUID", text);
    }
    return 0;
}

static int read_route(const YamlNode *node, AlertTree *tree, RouteConfig *route, Err *err)
{
    RouteSection in = {0};
    OptPlace places[ARRAY_LEN(route_opts)] = {0};
    const OptSet set = {
        .opts = route_opts, .count = ARRAY_LEN(route_opts), .into = &in, .arena = &tree->arena, .places = places};

    TRY(yaml_want(node, YAML_MAP, "routes", err));
    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, node, err));
    *route = in.r;
    TRY(read_words(&set, "match.route", &in.routes, fault_routes, ROUTE_END, "route (page, ticket, user, none)",
                   &route->routes, err));
    TRY(read_words(&set, "match.cause", &in.causes, fault_causes, CAUSE_END, "cause", &route->causes, err));
    if (!in.routes.len)
        route->routes = ~(1U << ROUTE_NONE);
    if (!in.causes.len)
        route->causes = ~0U;
    TRY(check_classes(&set, &route->classes, tree->catalogue, err));
    TRY(check_gpus(&set, &route->gpus, err));
    TRY(read_labels(in.match, "match.labels", &tree->arena, &route->match, err));
    TRY(read_labels(in.labels, "labels", &tree->arena, &route->labels, err));
    return read_route_receivers(node, &set, tree, &in, route, err);
}

/* Without routes every receiver gets everything but route `none`. */
static int add_default_route(AlertTree *tree, Err *err)
{
    RouteConfig *route = arena_calloc(&tree->arena, 1, sizeof(*route));
    RouteSection in = {0};
    OptSet set = {.opts = route_opts, .count = ARRAY_LEN(route_opts), .into = &in, .arena = &tree->arena};

    TRY(opt_defaults(&set, err));
    *route = (RouteConfig){.routes = ~(1U << ROUTE_NONE), .causes = ~0U, .repeat_ns = in.r.repeat_ns};
    for (; route->receiver_count < tree->receiver_count; route->receiver_count++)
        route->receivers[route->receiver_count] = route->receiver_count;
    tree->routes = route;
    tree->route_count = 1;
    return 0;
}

static int read_routes(const YamlNode *list, AlertTree *tree, Err *err)
{
    if (yaml_is_null(list))
        return tree->receiver_count ? add_default_route(tree, err) : 0;
    TRY(yaml_want(list, YAML_SEQ, "routes", err));
    if (list->len > ALERT_ROUTES_MAX)
        return yaml_fail(list, err, "more than %d routes", ALERT_ROUTES_MAX);
    tree->routes = arena_calloc(&tree->arena, list->len + 1, sizeof(*tree->routes));
    for (; tree->route_count < list->len; tree->route_count++)
        TRY(read_route(list->items[tree->route_count], tree, &tree->routes[tree->route_count], err));
    return 0;
}

static bool matches_any(const OptList *globs, const char *text)
{
    for (size_t i = 0; i < globs->len; i++)
        if (fnmatch(globs->items[i], text, 0) == 0)
            return true;
    return !globs->len;
}

static bool matches_gpu(const OptList *gpus, const AlertLabels *labels)
{
    const char *index = alert_labels_get(labels, "gpu"), *uuid = alert_labels_get(labels, "UUID");

    for (size_t i = 0; i < gpus->len; i++)
        if ((*index && !strcmp(gpus->items[i], index)) || (*uuid && !strcmp(gpus->items[i], uuid)))
            return true;
    return !gpus->len;
}

bool alert_route_matches(const RouteConfig *route, const Incident *incident, const AlertLabels *labels)
{
    if (!(route->routes & 1U << incident->route) || !(route->causes & 1U << incident->cause) ||
        incident->severity < route->severity)
        return false;
    for (size_t i = 0; i < route->match.len; i++)
        if (!alert_label_fits(route->match.at[i].value, labels, route->match.at[i].name))
            return false;
    return matches_any(&route->classes, incident->class) && matches_gpu(&route->gpus, labels);
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

typedef struct Top {
    const YamlNode *receivers, *routes, *labels;
    OptList job_reports;
    const char *external_url;
} Top;

static const OptSpec top_opts[] = {
    OPT_ROW("receivers", OPT_NODE, Top, receivers, .help = "receivers by name"),
    OPT_ROW("routes", OPT_NODE, Top, routes, .help = "which incidents go to which receiver"),
    OPT_ROW("job_reports", OPT_LIST, Top, job_reports, .help = "webhooks that get the report of each job that ended"),
    OPT_ROW("labels", OPT_NODE, Top, labels, .help = "labels of every alert"),
    OPT_ROW("external_url", OPT_STRING, Top, external_url, .help = "URL of this agent in links"),
};

/* Marks the receivers of job reports. */
static int mark_report_receiver(AlertTree *tree, const char *name, Err *err)
{
    for (size_t i = 0; i < tree->receiver_count; i++) {
        ReceiverConfig *receiver = &tree->receivers[i];

        if (strcmp(receiver->name, name) != 0)
            continue;
        if (receiver->kind != RECEIVER_WEBHOOK)
            return err_set(err, -EINVAL, "receiver '%.60s' is no webhook", name);
        receiver->gets_reports = true;
        return 0;
    }
    return err_set(err, -EINVAL, "there is no receiver '%.60s'", name);
}

static int read_tree(const YamlNode *node, AlertTree *tree, Err *err)
{
    Top top = {0};
    OptPlace places[ARRAY_LEN(top_opts)] = {0};
    const OptSet set = {
        .opts = top_opts, .count = ARRAY_LEN(top_opts), .into = &top, .arena = &tree->arena, .places = places};

    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, node, err));
    if (top.external_url)
        TRY(check_url(&set, "external_url", 0, top.external_url, err));
    tree->external_url = top.external_url;
    TRY(read_labels(top.labels, "labels", &tree->arena, &tree->labels, err));
    TRY(read_receivers(top.receivers, tree, err));
    for (size_t i = 0; i < top.job_reports.len; i++)
        if (mark_report_receiver(tree, top.job_reports.items[i], err) < 0)
            return opt_add_place(&set, "job_reports", i, err);
    return read_routes(top.routes, tree, err);
}

CLEANUP_POINTER(AlertTree, alert_tree_free);

int alert_tree_new(const YamlNode *node, const Catalogue *catalogue, AlertTree **ret, Err *err)
{
    CLEANUP(alert_tree_free_at) AlertTree *tree = xcalloc(1, sizeof(*tree));

    arena_init(&tree->arena, 2048);
    tree->catalogue = catalogue;
    if (!yaml_is_null(node))
        TRY(read_tree(node, tree, err));
    tree->catalogue = NULL;
    *ret = TAKE(tree);
    return 0;
}

static bool is_routed(const AlertTree *tree, size_t receiver)
{
    for (size_t i = 0; i < tree->route_count; i++)
        for (size_t k = 0; k < tree->routes[i].receiver_count; k++)
            if (tree->routes[i].receivers[k] == receiver)
                return true;
    return false;
}

/* Whether incidents of this class that are said to be so reach somebody, be it those of some GPUs or labels alone. */
static bool is_received(const AlertTree *tree, const char *class, const FaultSays *says)
{
    for (size_t i = 0; i < tree->route_count; i++) {
        const RouteConfig *route = &tree->routes[i];

        if (!(route->routes & 1U << says->route) || !(route->causes & 1U << says->cause) ||
            says->severity < route->severity || !matches_any(&route->classes, class))
            continue;
        if (route->receiver_count)
            return true;
        if (!route->go_on && !route->gpus.len && !route->match.len)
            return false;
    }
    return false;
}

enum { UNHEARD_SHOWN = 6 };

/* What of a route reaches nobody. */
typedef struct Unheard {
    FaultRoute route;
    size_t heard, count;
    const char *last_class;
    FaultSeverity last_severity;
    Str names;
} Unheard;

static void add_says(const AlertTree *tree, const FaultClass *class, const FaultSays *says, Unheard *to)
{
    if (says->route != to->route || class->observe || !class->enabled)
        return;
    if (is_received(tree, class->id, says)) {
        to->heard++;
        return;
    }
    if (to->last_class == class->id && to->last_severity == says->severity)
        return;
    to->last_class = class->id;
    to->last_severity = says->severity;
    if (to->count++ < UNHEARD_SHOWN)
        str_addf(&to->names, "%s%s (%s)", to->count > 1 ? ", " : "", class->id, fault_severities[says->severity].key);
}

static void add_route_notes(const AlertTree *tree, const Catalogue *catalogue, FaultRoute route, Str *out)
{
    char room[1024];
    Unheard unheard = {.route = route};

    str_init_room(&unheard.names, room, sizeof room);
    for (size_t i = 0; i < catalogue->class_count; i++) {
        const FaultClass *class = &catalogue->classes[i];

        add_says(tree, class, &class->says, &unheard);
        for (size_t k = 0; k < catalogue->rule_count; k++)
            if (catalogue->rules[k].fault == class && catalogue->rules[k].enabled && !catalogue->rules[k].silent)
                add_says(tree, class, &catalogue->rules[k].says, &unheard);
    }
    if (unheard.count && !unheard.heard)
        str_addf(out, "alerts: incidents of route '%s' reach nobody\n", fault_routes[route].key);
    else if (unheard.count)
        str_addf(out,
                 "alerts: of the incidents of route '%s' these reach nobody: %s%s; a last route {match: {route: %s}} "
                 "with a receiver catches them\n",
                 fault_routes[route].key, unheard.names.text, unheard.count > UNHEARD_SHOWN ? ", ..." : "",
                 fault_routes[route].key);
}

static void add_gpu_notes(const AlertTree *tree, uint32_t gpus, Str *out)
{
    for (size_t i = 0; i < tree->route_count; i++)
        for (size_t k = 0; k < tree->routes[i].gpus.len; k++) {
            const char *text = tree->routes[i].gpus.items[k];
            uint64_t index;

            if (number_parse_u64(text, 0, 4096, &index, NULL) == 0 && index >= gpus)
                str_addf(out, "alerts: a route names GPU %s, this node has %u GPUs\n", text, gpus);
        }
}

/* As execvpe finds it; `false` with errno. */
static bool is_there(const char *program)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];

    if (strchr(program, '/'))
        return access(program, X_OK) == 0;
    for (const char *at = path ? path : "/bin:/usr/bin", *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, ':');
        snprintf(file, sizeof file, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", program);
        if (access(file, X_OK) == 0)
            return true;
    }
    errno = ENOENT;
    return false;
}

/* Whether `first` ends the search for everything that `later` matches. */
static bool takes_all_of(const RouteConfig *first, const RouteConfig *later)
{
    return !first->go_on && !first->classes.len && !first->gpus.len && !first->match.len &&
           !(later->routes & ~first->routes) && !(later->causes & ~first->causes) && first->severity <= later->severity;
}

static void add_order_notes(const AlertTree *tree, Str *out)
{
    for (size_t i = 1; i < tree->route_count; i++)
        for (size_t k = 0; k < i; k++)
            if (takes_all_of(&tree->routes[k], &tree->routes[i])) {
                str_addf(out, "alerts: route %zu gets nothing: route %zu takes all that it matches\n", i + 1, k + 1);
                break;
            }
}

void alert_tree_add_notes(const AlertTree *tree, const Catalogue *catalogue, uint32_t gpus, Str *out)
{
    for (size_t i = 0; i < tree->receiver_count; i++) {
        const ReceiverConfig *receiver = &tree->receivers[i];

        if (!is_routed(tree, i) && !receiver->gets_reports)
            str_addf(out, "alerts: no route leads to receiver '%s'\n", receiver->name);
        if (receiver->kind == RECEIVER_COMMAND && !is_there(receiver->argv[0]))
            str_addf(out, "alerts: receiver '%s': '%s': %s\n", receiver->name, receiver->argv[0], strerror(errno));
    }
    add_order_notes(tree, out);
    for (FaultRoute route = ROUTE_NONE + 1; catalogue && tree->receiver_count && route < ROUTE_END; route++)
        add_route_notes(tree, catalogue, route, out);
    if (gpus > 0)
        add_gpu_notes(tree, gpus, out);
}

void alert_tree_free(AlertTree *tree)
{
    if (!tree)
        return;
    for (size_t i = 0; i < tree->receiver_count; i++)
        wipe_secrets(tree->receivers[i].secrets);
    arena_done(&tree->arena);
    free(tree);
}
