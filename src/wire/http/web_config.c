/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a web-config: the keys by a table, then what belongs together. */
#include "wire/http/web_config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "wire/http/tls.h"

#define TLS_KEY "tls_server_config."

enum { WEB_CONFIG_MAX = 1024 * 1024, HEADER_VALUE_MAX = 4096 };

static const char *const client_auth_names[] = {"NoClientCert",
                                                "RequestClientCert",
                                                "RequireAnyClientCert",
                                                "VerifyClientCertIfGiven",
                                                "RequireAndVerifyClientCert",
                                                NULL};
static const char *const version_names[] = {"TLS10", "TLS11", "TLS12", "TLS13", NULL};

#define AT(field) .off = offsetof(WebFile, field), .flags = OPT_CONFIG_ONLY
static const OptSpec web_opts[] = {
    {.key = TLS_KEY "cert", .type = OPT_STRING, AT(cert), .help = "certificate chain as PEM text"},
    {.key = TLS_KEY "key", .type = OPT_STRING, AT(key), .help = "private key as PEM text"},
    {.key = TLS_KEY "client_ca", .type = OPT_STRING, AT(client_ca), .help = "CA of clients as PEM text"},
    {.key = TLS_KEY "cert_file", .type = OPT_STRING, AT(cert_file), .help = "file of the certificate chain"},
    {.key = TLS_KEY "key_file", .type = OPT_STRING, AT(key_file), .help = "file of the private key"},
    {.key = TLS_KEY "client_ca_file", .type = OPT_STRING, AT(client_ca_file), .help = "file of the CA of clients"},
    {.key = TLS_KEY "client_auth_type",
     .type = OPT_ENUM,
     AT(client_auth),
     .names = client_auth_names,
     .def = "NoClientCert",
     .help = "which certificate a client must show"},
    {.key = TLS_KEY "client_allowed_sans",
     .type = OPT_LIST,
     AT(client_allowed_sans),
     .help = "names of which a client's certificate must have one"},
    {.key = TLS_KEY "min_version",
     .type = OPT_ENUM,
     AT(min_version),
     .names = version_names,
     .def = "TLS12",
     .help = "oldest TLS version"},
    {.key = TLS_KEY "max_version",
     .type = OPT_ENUM,
     AT(max_version),
     .names = version_names,
     .def = "TLS13",
     .help = "newest TLS version"},
    {.key = TLS_KEY "cipher_suites", .type = OPT_LIST, AT(cipher_suites), .help = "allowed suites"},
    {.key = TLS_KEY "curve_preferences", .type = OPT_LIST, AT(curves), .help = "allowed curves"},
    {.key = TLS_KEY "prefer_server_cipher_suites",
     .type = OPT_BOOL,
     AT(prefer_server_ciphers),
     .def = "true",
     .help = "the server's order of suites decides"},
    {.key = "http_server_config.http2", .type = OPT_BOOL, AT(http2), .def = "true", .help = "accepted, has no effect"},
    {.key = "http_server_config.headers", .type = OPT_NODE, AT(headers_node), .help = "headers to add to every answer"},
    {.key = "basic_auth_users", .type = OPT_NODE, AT(users_node), .help = "user: bcrypt hash"},
    {.key = "auth_excluded_paths", .type = OPT_LIST, AT(excluded_paths), .help = "paths that need no password"},
    {.key = "rate_limit.interval",
     .type = OPT_DURATION,
     AT(rate_interval_ns),
     .def = "0",
     .help = "time between two requests; 0: no limit"},
    {.key = "rate_limit.burst",
     .type = OPT_UINT,
     AT(rate_burst),
     .def = "20",
     .min = 1,
     .max = 1e6,
     .help = "requests at once"},
};
#undef AT

/* Headers that may be added, and their values where only some make sense. */
static const struct AllowedHeader {
    const char *name;
    const char *values[3];
} allowed_headers[] = {
    {.name = "Content-Security-Policy"},
    {.name = "Strict-Transport-Security"},
    {.name = "X-Content-Type-Options", .values = {"nosniff"}},
    {.name = "X-Frame-Options", .values = {"deny", "sameorigin"}},
    {.name = "X-XSS-Protection"},
};

static int check_header(const struct AllowedHeader *allowed, const YamlNode *value, Err *err)
{
    for (const char *c = value->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return yaml_fail(value, err, "header '%s' has a control character in its value", allowed->name);
    if (value->len > HEADER_VALUE_MAX)
        return yaml_fail(value, err, "header '%s' is longer than %d bytes", allowed->name, HEADER_VALUE_MAX);
    if (!allowed->values[0])
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(allowed->values) && allowed->values[i]; i++)
        if (!strcmp(allowed->values[i], value->text))
            return 0;
    return yaml_fail(value, err, "header '%s' is '%.60s', allowed: %s%s%s", allowed->name, value->text,
                     allowed->values[0], allowed->values[1] ? ", " : "", allowed->values[1] ? allowed->values[1] : "");
}

static int read_header(const YamlPair *pair, WebFile *file, Err *err)
{
    size_t i = 0;

    while (i < ARRAY_LEN(allowed_headers) && strcasecmp(allowed_headers[i].name, pair->key->text) != 0)
        i++;
    if (i == ARRAY_LEN(allowed_headers))
        return yaml_fail(pair->key, err,
                         "header '%.60s' cannot be added; allowed: Content-Security-Policy, Strict-Transport-Security, "
                         "X-Content-Type-Options, X-Frame-Options, X-XSS-Protection",
                         pair->key->text);
    if (yaml_is_null(pair->value))
        return 0;
    TRY(yaml_want(pair->value, YAML_SCALAR, allowed_headers[i].name, err));
    if (!pair->value->len)
        return 0; /* as where it were not there */
    TRY(check_header(&allowed_headers[i], pair->value, err));
    if (strcmp(allowed_headers[i].name, "X-Content-Type-Options") != 0) /* that one goes out always */
        file->headers[file->header_count++] = (HttpField){allowed_headers[i].name, pair->value->text};
    return 0;
}

static int read_headers(Arena *arena, WebFile *file, Err *err)
{
    const YamlNode *node = file->headers_node;

    if (yaml_is_null(node))
        return 0;
    TRY(yaml_want(node, YAML_MAP, "headers", err));
    file->headers = arena_calloc(arena, node->len + 1, sizeof(*file->headers));
    for (size_t i = 0; i < node->len; i++)
        TRY(read_header(&node->pairs[i], file, err));
    return 0;
}

static int read_users(Arena *arena, WebFile *file, Err *err)
{
    const YamlNode *node = file->users_node;

    if (yaml_is_null(node))
        return 0;
    TRY(yaml_want(node, YAML_MAP, "basic_auth_users", err));
    file->users = arena_calloc(arena, node->len + 1, sizeof(*file->users));
    for (size_t i = 0; i < node->len; i++) {
        const YamlPair *pair = &node->pairs[i];

        if (!pair->key->len || strchr(pair->key->text, ':'))
            return yaml_fail(pair->key, err, "a user's name is empty or has a ':' in it");
        TRY(yaml_want(pair->value, YAML_SCALAR, "basic_auth_users", err));
        if (!auth_is_hash(pair->value->text))
            return yaml_fail(pair->value, err,
                             "user '%.60s': not a bcrypt hash such as $2y$10$..., with a cost of %d to %d (a password "
                             "itself must not stand here)",
                             pair->key->text, AUTH_COST_MIN, AUTH_COST_MAX);
        file->users[file->user_count++] = (AuthUser){.name = pair->key->text, .hash = pair->value->text};
    }
    return 0;
}

/* One of text and file, not both. */
static int check_pem(const YamlNode *tls, const char *text, const char *file, const char *key, bool needed, Err *err)
{
    if (text && file)
        return yaml_fail(yaml_get(tls, key), err, "'%s' and '%s_file' are both there, one is enough", key, key);
    if (needed && !text && !file)
        return yaml_fail(tls, err, "'tls_server_config' needs '%s_file' (or '%s')", key, key);
    return 0;
}

static int check_tls(const YamlNode *tls, Arena *arena, WebFile *file, Err *err)
{
    const bool ca = file->client_ca || file->client_ca_file;
    const OptSet *set = &file->set;

    file->has_tls = !yaml_is_null(tls) && tls->len > 0;
    if (!file->has_tls)
        return 0;
    TRY(check_pem(tls, file->cert, file->cert_file, "cert", true, err));
    TRY(check_pem(tls, file->key, file->key_file, "key", true, err));
    TRY(check_pem(tls, file->client_ca, file->client_ca_file, "client_ca", false, err));
    if (ca && file->client_auth == WEB_NO_CLIENT_CERT)
        return opt_fail(set, file->client_ca ? TLS_KEY "client_ca" : TLS_KEY "client_ca_file", 0, err,
                        "a client CA without 'client_auth_type' checks nothing");
    if (!ca && file->client_auth >= WEB_VERIFY_CLIENT_CERT_IF_GIVEN)
        return opt_fail(set, TLS_KEY "client_auth_type", 0, err, "%s needs 'client_ca_file'",
                        client_auth_names[file->client_auth]);
    if (file->client_allowed_sans.len && file->client_auth == WEB_NO_CLIENT_CERT)
        return opt_fail(set, TLS_KEY "client_allowed_sans", 0, err, "without 'client_auth_type' it checks nothing");
    if (file->min_version > file->max_version)
        return opt_fail(set, TLS_KEY "max_version", 0, err, "%s is under 'min_version' %s",
                        version_names[file->max_version], version_names[file->min_version]);
    return tls_priority(file, arena, &file->priority, err);
}

int web_file_read(const char *name, const char *text, size_t len, Arena *arena, WebFile *ret, Err *err)
{
    WebFile file = {0};
    OptPlace *places = arena_calloc(arena, ARRAY_LEN(web_opts), sizeof(*places));
    OptSet set = {.opts = web_opts, .count = ARRAY_LEN(web_opts), .into = &file, .arena = arena, .places = places};
    const YamlNode *root = NULL;

    TRY(opt_defaults(&set, err));
    TRY(yaml_load(name, text, len, arena, &root, err));
    TRY(opt_yaml(&set, root, err));
    file.set = set;
    file.set.into = NULL;
    TRY(check_tls(yaml_get(root, "tls_server_config"), arena, &file, err));
    TRY(read_headers(arena, &file, err));
    TRY(read_users(arena, &file, err));
    *ret = file;
    return 0;
}

/* A file is named relative to the web-config. */
static void list_files(const char *path, WebConfig *web)
{
    const char *const named[] = {web->file.cert_file, web->file.key_file, web->file.client_ca_file};
    const char *slash = strrchr(path, '/');
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (named[i])
            web->files[count++] = arena_printf(
                &web->arena, "%.*s%s", named[i][0] != '/' && slash ? (int)(slash - path) + 1 : 0, path, named[i]);
}

static int load_config(const char *path, WebConfig *web, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(WEB_CONFIG_MAX);

    TRY(file_read(path, WEB_CONFIG_MAX, &text, err));
    TRY(web_file_read(path, text.text, text.len, &web->arena, &web->file, err));
    list_files(path, web);
    if (web->file.has_tls)
        TRY(tls_new(&web->file, path, &web->tls, err));
    if (web->file.user_count)
        web->auth = auth_new(web->file.users, web->file.user_count);
    return 0;
}

CLEANUP_POINTER(WebConfig, web_config_unref);

int web_config_load(const char *path, WebConfig **ret, Err *err)
{
    CLEANUP(web_config_unref_at) WebConfig *web = xcalloc(1, sizeof(*web));

    web->refs = 1;
    arena_init(&web->arena, 0);
    if (path)
        TRY(load_config(path, web, err));
    web->tokens = (double)web->file.rate_burst;
    web->tokens_at_ns = uv_hrtime();
    *ret = TAKE(web);
    return 0;
}

WebConfig *web_config_ref(WebConfig *web)
{
    web->refs++;
    return web;
}

void web_config_unref(WebConfig *web)
{
    if (!web || --web->refs > 0)
        return;
    tls_free(web->tls);
    auth_free(web->auth);
    arena_done(&web->arena);
    free(web);
}

bool web_config_admit(WebConfig *web, uint64_t now_ns)
{
    const WebFile *file = &web->file;

    if (!file->rate_interval_ns)
        return true;
    web->tokens += (double)(now_ns - web->tokens_at_ns) / (double)file->rate_interval_ns;
    web->tokens_at_ns = now_ns;
    if (web->tokens > (double)file->rate_burst)
        web->tokens = (double)file->rate_burst;
    if (web->tokens < 1)
        return false;
    web->tokens--;
    return true;
}

bool web_config_excludes(const WebConfig *web, const char *path)
{
    for (size_t i = 0; i < web->file.excluded_paths.len; i++)
        if (!strcmp(web->file.excluded_paths.items[i], path))
            return true;
    return false;
}
