/* SPDX-License-Identifier: Apache-2.0 */
/* Section `alerts`: the top, the receivers, labels. Routes are read by config_route.c. */
#include "service/alert/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/owner.h"

enum { NAME_MAX_BYTES = 64, RATE_MAX = 1000000 };

static const char *const kinds[] = {"alertmanager", "webhook", "command", "journald"};

const char *receiver_kind_key(ReceiverKind kind)
{
    return kinds[kind];
}

/* What stands beside the kind. */
typedef struct Common {
    const char *name, *rate;
    uint64_t keep_ns;
    const YamlNode *kinds[RECEIVER_KIND_END];
} Common;

#define AT(field) .off = offsetof(Common, field)
static const OptSpec common_opts[] = {
    {.key = "name", .type = OPT_STRING, AT(name), .help = "how routes call it"},
    {.key = "rate", .type = OPT_STRING, AT(rate), .help = "notifications per time, 0: no limit"},
    {.key = "keep", .type = OPT_DURATION, AT(keep_ns), .def = "1d", .help = "how long what is over is tried"},
    {.key = "alertmanager", .type = OPT_NODE, AT(kinds[RECEIVER_ALERTMANAGER]), .help = "an Alertmanager"},
    {.key = "webhook", .type = OPT_NODE, AT(kinds[RECEIVER_WEBHOOK]), .help = "an HTTP server"},
    {.key = "command", .type = OPT_NODE, AT(kinds[RECEIVER_COMMAND]), .help = "a program"},
    {.key = "journald", .type = OPT_NODE, AT(kinds[RECEIVER_JOURNALD]), .help = "systemd's journal"},
};
#undef AT

/* The sections of the kinds; what only one pass needs lies behind the receiver. */
typedef struct Section {
    ReceiverConfig r;
    const char *url;
    const YamlNode *headers, *env;
    OptList argv;
} Section;

#define OF(field) .off = offsetof(Section, r.field)
#define AT(field) .off = offsetof(Section, field)
#define HTTP_OPTS                                                                                                      \
    {.key = "unix_socket", .type = OPT_STRING, OF(unix_socket), .help = "connect here instead of the URL's host"},     \
        {.key = "timeout",                                                                                             \
         .type = OPT_DURATION,                                                                                         \
         OF(timeout_ns),                                                                                               \
         .def = "10s",                                                                                                 \
         .min = 1e8,                                                                                                   \
         .max = 3e11,                                                                                                  \
         .help = "of one try"},                                                                                        \
        {.key = "tls.ca_file", .type = OPT_STRING, OF(ca_file), .help = "authorities, as PEM"},                        \
        {.key = "tls.cert_file", .type = OPT_STRING, OF(cert_file), .help = "our certificate, as PEM"},                \
        {.key = "tls.key_file", .type = OPT_STRING, OF(key_file), .help = "its key"},                                  \
        {.key = "tls.server_name", .type = OPT_STRING, OF(server_name), .help = "name in the server's certificate"},   \
        {.key = "tls.insecure_skip_verify", .type = OPT_BOOL, OF(insecure), .help = "any certificate will do"},        \
        {.key = "basic_auth.username", .type = OPT_STRING, OF(user), .help = "user"},                                  \
        {.key = "basic_auth.password_file", .type = OPT_STRING, OF(password_file), .help = "file of the password"},    \
        {.key = "bearer_file", .type = OPT_STRING, OF(bearer_file), .help = "file of a bearer token"},                 \
    {                                                                                                                  \
        .key = "headers", .type = OPT_NODE, AT(headers), .help = "headers to add"                                      \
    }

static const OptSpec alertmanager_opts[] = {
    {.key = "urls", .type = OPT_LIST, OF(urls), .help = "each gets every alert"},
    {.key = "resend",
     .type = OPT_DURATION,
     OF(resend_ns),
     .def = "1m",
     .min = 1e9,
     .max = 3.6e12,
     .help = "how often one that lasts is sent"},
    HTTP_OPTS,
};
static const OptSpec webhook_opts[] = {
    {.key = "url", .type = OPT_STRING, AT(url), .help = "where to POST"},
    {.key = "secret_file", .type = OPT_STRING, OF(secret_file), .help = "file of the secret that signs"},
    HTTP_OPTS,
};
static const OptSpec command_opts[] = {
    {.key = "argv", .type = OPT_LIST, AT(argv), .flags = OPT_WHOLE, .help = "program and arguments"},
    {.key = "timeout",
     .type = OPT_DURATION,
     OF(timeout_ns),
     .def = "30s",
     .min = 1e8,
     .max = 3.6e12,
     .help = "after which it is killed"},
    {.key = "env", .type = OPT_NODE, AT(env), .help = "environment to add"},
};
static const OptSpec journald_opts[] = {
    {.key = "socket",
     .type = OPT_STRING,
     OF(socket),
     .def = "/run/systemd/journal/socket",
     .help = "the journal's socket"},
};
#undef AT
#undef OF

static const struct KindRow {
    const OptSpec *opts;
    size_t count;
} kind_rows[] = {
    {alertmanager_opts, ARRAY_LEN(alertmanager_opts)},
    {webhook_opts, ARRAY_LEN(webhook_opts)},
    {command_opts, ARRAY_LEN(command_opts)},
    {journald_opts, ARRAY_LEN(journald_opts)},
};

/* "30/m", "100/h", "5/10s", "0" */
static int read_rate(const YamlNode *node, const char *text, ReceiverConfig *ret, Err *err)
{
    const char *slash = strchr(text, '/');
    char per[DURATION_TEXT_MAX];
    size_t count_len = slash ? (size_t)(slash - text) : 0;

    if (!strcmp(text, "0"))
        return 0;
    if (!slash || strlen(slash + 1) + 2 > sizeof(per) ||
        number_parsen_u64(text, count_len, 1, RATE_MAX, &ret->rate_count, NULL) < 0)
        return yaml_fail(node, err, "'rate': '%.40s' is not a number per time such as 30/m, or 0", text);
    stpcpy(stpcpy(per, slash[1] >= '0' && slash[1] <= '9' ? "" : "1"), slash + 1);
    if (duration_parse(per, &ret->rate_ns, NULL) < 0 || !ret->rate_ns)
        return yaml_fail(node, err, "'rate': '%.40s' is not a number per time such as 30/m, or 0", text);
    return 0;
}

int alert_labels_read(const YamlNode *map, const char *what, Arena *arena, AlertLabels *ret, Err *err)
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
            return yaml_fail(pair->value, err, "a label's value has at most %d bytes", ALERT_LABEL_VALUE_MAX);
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

static int check_url(const YamlNode *node, const char *url, Err *err)
{
    size_t scheme = !strncmp(url, "http://", 7) ? 7 : !strncmp(url, "https://", 8) ? 8 : 0;

    if (!scheme || !url[scheme] || strchr("/:?#", url[scheme]) || strpbrk(url, " \t\r\n"))
        return yaml_fail(node, err, "'%.120s' is not a URL of http or https", url);
    return 0;
}

/* A file is named relative to the configuration's. */
static void place(const YamlNode *node, Arena *arena, const char **path)
{
    const char *slash = strrchr(node->file, '/');

    if (*path && **path != '/' && slash)
        *path = arena_printf(arena, "%.*s/%s", (int)(slash - node->file), node->file, *path);
}

static int check_http(const YamlNode *node, const Section *in, Arena *arena, ReceiverConfig *ret, Err *err)
{
    const char **const files[] = {&ret->ca_file,       &ret->cert_file,   &ret->key_file,
                                  &ret->password_file, &ret->bearer_file, &ret->secret_file};

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        place(node, arena, files[i]);
    if (!ret->urls.len)
        return yaml_fail(node, err, "'%s' needs '%s'", receiver_kind_key(ret->kind),
                         ret->kind == RECEIVER_WEBHOOK ? "url" : "urls");
    if (ret->urls.len > ALERT_URLS_MAX)
        return yaml_fail(node, err, "more than %d URLs", ALERT_URLS_MAX);
    for (size_t i = 0; i < ret->urls.len; i++)
        TRY(check_url(node, ret->urls.items[i], err));
    if (!ret->user != !ret->password_file)
        return yaml_fail(node, err, "'basic_auth' needs 'username' and 'password_file'");
    if (ret->user && ret->bearer_file)
        return yaml_fail(node, err, "'basic_auth' and 'bearer_file' are both there, one is enough");
    if (!ret->cert_file != !ret->key_file)
        return yaml_fail(node, err, "'tls' needs 'cert_file' and 'key_file', or neither");
    return read_headers(in->headers, arena, ret, err);
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
    OptSet set = {.opts = kind_rows[ret->kind].opts, .count = kind_rows[ret->kind].count, .into = &in, .arena = arena};
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
    return ret->kind == RECEIVER_JOURNALD ? 0 : check_http(node, &in, arena, ret, err);
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
            return yaml_fail(node, err, "receiver '%s' has '%s' and '%s': make two of it", name, kinds[kind], kinds[i]);
        kind = i;
    }
    if (kind < 0)
        return yaml_fail(node, err, "receiver '%s' needs one of alertmanager, webhook, command, journald", name);
    *receiver = (ReceiverConfig){
        .name = arena_strdup(&tree->arena, name), .kind = (ReceiverKind)kind, .keep_ns = common.keep_ns};
    TRY(read_rate(node, common.rate ? common.rate : kind == RECEIVER_JOURNALD ? "0" : "30/m", receiver, err));
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

typedef struct Top {
    const YamlNode *receivers, *routes, *labels;
    const char *external_url;
} Top;

static const OptSpec top_opts[] = {
    {.key = "receivers", .type = OPT_NODE, .off = offsetof(Top, receivers), .help = "who can be told"},
    {.key = "routes", .type = OPT_NODE, .off = offsetof(Top, routes), .help = "who is told of what"},
    {.key = "labels", .type = OPT_NODE, .off = offsetof(Top, labels), .help = "labels of every alert"},
    {.key = "external_url", .type = OPT_STRING, .off = offsetof(Top, external_url), .help = "where people find us"},
};

static int read_tree(const YamlNode *node, AlertTree *tree, Err *err)
{
    Top top = {0};
    OptSet set = {.opts = top_opts, .count = ARRAY_LEN(top_opts), .into = &top, .arena = &tree->arena};

    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, node, err));
    if (top.external_url)
        TRY(check_url(yaml_get(node, "external_url"), top.external_url, err));
    tree->external_url = top.external_url;
    TRY(alert_labels_read(top.labels, "labels", &tree->arena, &tree->labels, err));
    TRY(read_receivers(top.receivers, tree, err));
    return alert_routes_read(top.routes, tree, err);
}

OWNER_POINTER(AlertTree, alert_tree_free);

int alert_tree_new(const YamlNode *node, AlertTree **ret, Err *err)
{
    CLEANUP(alert_tree_free_at) AlertTree *tree = xcalloc(1, sizeof(*tree));

    arena_init(&tree->arena, 2048);
    if (!yaml_is_null(node))
        TRY(read_tree(node, tree, err));
    *ret = TAKE(tree);
    return 0;
}

void alert_tree_free(AlertTree *tree)
{
    if (!tree)
        return;
    arena_done(&tree->arena);
    free(tree);
}
