/* SPDX-License-Identifier: Apache-2.0 */
/* Reads gres.conf as Slurm's parser does (src/common/parse_config.c, src/interfaces/gres.c of Slurm): comments,
 * continued lines, quoted values, keys in any case, host lists. */
#include "engine/gres/gres.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum { CONF_MAX = 1 << 20, NAME_MAX_LEN = 512, HOSTS_MAX = 65536 };

const GresFindingRow gres_findings[GRES_FINDING_END] = {
#define FINDING(id, finding_key, is_fatal, is_text, has_effect)                                                        \
    [id] = {.key = finding_key, .text = is_text, .effect = has_effect, .fatal = is_fatal},
#include "engine/gres/finding.def"
#undef FINDING
};

typedef struct Reader {
    GresConf *conf;
    Arena *arena;
    const char *node_name;
    GresReadFile read;
    const char *global, *local; /* AutoDetect */
    unsigned global_line, local_line;
    unsigned includes;
    /* the line that is read */
    const char *file;
    unsigned line;
} Reader;

void gres_conf_add(GresConf *conf, GresFinding kind, const char *file, unsigned line, const char *configured,
                   const char *hardware)
{
    if (conf->problem_count < GRES_FINDINGS_MAX)
        conf->problems[conf->problem_count++] = (GresProblem){kind, file, line, configured, hardware};
}

/* --- host lists --------------------------------------------------------------------------------------------------- */

typedef struct Expansion {
    size_t left;
    int (*each)(void *at, const char *name);
    void *at;
} Expansion;

static int give_name(Expansion *out, const char *name)
{
    if (out->left == 0)
        return -E2BIG;
    out->left--;
    return out->each(out->at, name);
}

/* One range within brackets: "3", "0-3", "00-15" with its zeros. Sets *end behind it. */
static int expand_range(Expansion *out, const char *prefix, int prefix_len, const char *range, const char **end,
                        const char *suffix, int suffix_len)
{
    char name[NAME_MAX_LEN], *after;
    if (!isdigit((unsigned char)*range))
        return -EINVAL;
    const unsigned long first = strtoul(range, &after, 10);
    const int width = (int)(after - range);
    unsigned long last = first;
    if (*after == '-') {
        if (!isdigit((unsigned char)after[1]))
            return -EINVAL;
        last = strtoul(after + 1, &after, 10);
    }
    *end = after;
    if (last < first || last > UINT32_MAX || width > 9)
        return -EINVAL;
    for (unsigned long number = first; number <= last; number++) {
        if (snprintf(name, sizeof name, "%.*s%0*lu%.*s", prefix_len, prefix, width, number, suffix_len, suffix) >=
            (int)sizeof name)
            return -EINVAL;
        const int rc = give_name(out, name);
        if (rc)
            return rc;
    }
    return 0;
}

/* One element of a list, without commas outside of brackets. */
static int expand_element(Expansion *out, const char *text, size_t len)
{
    char name[NAME_MAX_LEN];
    const char *open = memchr(text, '[', len), *close = memchr(text, ']', len);
    if (len >= sizeof name || (!open && close))
        return -EINVAL;
    if (!open) {
        snprintf(name, sizeof name, "%.*s", (int)len, text);
        return len ? give_name(out, name) : 0;
    }
    if (!close || close < open || memchr(open + 1, '[', len - (size_t)(open + 1 - text)))
        return -EINVAL;
    for (const char *range = open; range < close;) {
        const int rc =
            expand_range(out, text, (int)(open - text), range + 1, &range, close + 1, (int)(text + len - close - 1));
        if (rc)
            return rc;
        if (*range != ',' && range != close)
            return -EINVAL;
    }
    return 0;
}

int gres_expand(const char *list, size_t max, int (*each)(void *at, const char *name), void *at)
{
    Expansion out = {.left = max, .each = each, .at = at};
    while (*list) {
        size_t len = 0;
        for (bool inside = false; list[len] && (inside || list[len] != ','); len++)
            inside = list[len] == '[' || (inside && list[len] != ']');
        const int rc = expand_element(&out, list, len);
        if (rc)
            return rc;
        list += len + (list[len] == ',');
    }
    return 0;
}

static int is_name(void *at, const char *name)
{
    return strcmp(at, name) == 0;
}

/* --- keys and values ---------------------------------------------------------------------------------------------- */

/* The next "key=value" of *at, which goes on behind it. False where none is there. */
static bool next_pair(Arena *arena, const char **at, const char **ret_key, const char **ret_value)
{
    const char *c = *at + strspn(*at, " \t\r\n");
    const char *key = c;
    while (isalnum((unsigned char)*c) || *c == '_' || *c == '.')
        c++;
    const size_t key_len = (size_t)(c - key);
    c += strspn(c, " \t\r\n");
    if (*c && strchr("-*+/", *c))
        c++;
    if (!key_len || *c != '=')
        return false;
    c += 1 + strspn(c + 1, " \t\r\n");
    const char *quote = *c == '"' ? strchr(c + 1, '"') : NULL;
    const size_t len = quote ? (size_t)(quote - c) - 1 : strcspn(c, " \t\r\n");
    if (!len && !quote)
        return false;
    *ret_key = arena_strndup(arena, key, key_len);
    *ret_value = arena_strndup(arena, quote ? c + 1 : c, len);
    *at = quote ? quote + 1 : c + len;
    return true;
}

static void add_problem(Reader *r, GresFinding kind, const char *configured)
{
    gres_conf_add(r->conf, kind, r->file, r->line, configured, "");
}

/* What stands at `text`, without blanks around it. */
static const char *trim_text(Arena *arena, const char *text)
{
    text += strspn(text, " \t\r\n");
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return arena_strndup(arena, text, len);
}

/* Where the value of a key goes; NULL: Slurm does not know the key. */
static const char **find_field(GresRecord *record, const char **autodetect, const char **ignored, const char *key)
{
    const struct {
        const char *key;
        const char **field;
    } fields[] = {{"AutoDetect", autodetect}, {"Count", &record->count}, {"CPUs", &record->cores},
                  {"Cores", &record->cores},  {"File", &record->files},  {"Files", &record->files},
                  {"Flags", ignored},         {"Link", &record->links},  {"Links", &record->links},
                  {"Name", &record->name},    {"Type", &record->type},   {"MultipleFiles", &record->multiple}};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (strcasecmp(fields[i].key, key) == 0)
            return fields[i].field;
    return NULL;
}

/* A line that begins with NodeName and names this node may set AutoDetect; all such lines have to agree. */
static void set_local(Reader *r, const char *autodetect)
{
    if (r->local && strcasecmp(r->local, autodetect) != 0)
        add_problem(r, GRES_AUTODETECT_DIFFERS, autodetect);
    if (r->local)
        return;
    r->local = autodetect;
    r->local_line = r->line;
}

/* The rest of a line behind Name or NodeName. */
static void read_record(Reader *r, const char *rest, const char *name, const char *node_list)
{
    GresRecord record = {.file = r->file, .line = r->line, .name = name};
    const char *key, *value, *before = rest, *autodetect = NULL, *ignored = NULL;
    while (next_pair(r->arena, &rest, &key, &value)) {
        const char **field = find_field(&record, &autodetect, &ignored, key);
        if (!field) {
            rest = before;
            break;
        }
        *field = value;
        before = rest;
    }
    if (*trim_text(r->arena, rest)) {
        add_problem(r, GRES_SYNTAX, trim_text(r->arena, rest));
        return;
    }
    if (node_list && gres_expand(node_list, HOSTS_MAX, is_name, arena_strdup(r->arena, r->node_name)) != 1)
        return;
    if (autodetect && node_list)
        set_local(r, autodetect);
    else if (autodetect)
        add_problem(r, GRES_AUTODETECT_INLINE, autodetect);
    if (record.name && r->conf->record_count < GRES_RECORDS_MAX)
        r->conf->records[r->conf->record_count++] = record;
    else if (!record.name && !autodetect)
        add_problem(r, GRES_SYNTAX, "no Name");
}

static void read_text(Reader *r, const char *file, char *text);

static void read_include(Reader *r, const char *name)
{
    CLEANUP(str_done) Str text = str_limited(CONF_MAX);
    const char *slash = strrchr(r->conf->path, '/');
    const char *file = name[0] == '/' || !slash
                           ? name
                           : arena_printf(r->arena, "%.*s/%s", (int)(slash - r->conf->path), r->conf->path, name);
    if (r->includes == GRES_INCLUDES_MAX || r->read(file, &text, NULL) < 0) {
        add_problem(r, GRES_INCLUDE, file);
        return;
    }
    const Reader before = *r;
    r->includes++;
    read_text(r, file, arena_strndup(r->arena, text.len ? text.text : "", text.len));
    r->file = before.file;
    r->line = before.line;
}

static void read_line(Reader *r, const char *line)
{
    const char *key, *value, *rest = line + strspn(line, " \t\r\n");
    if (!*rest)
        return;
    if (strncasecmp(rest, "include", 7) == 0 && isspace((unsigned char)rest[7])) {
        read_include(r, trim_text(r->arena, rest + 7));
        return;
    }
    if (!next_pair(r->arena, &rest, &key, &value)) {
        add_problem(r, GRES_SYNTAX, trim_text(r->arena, line));
    } else if (strcasecmp(key, "Name") == 0) {
        read_record(r, rest, value, NULL);
    } else if (strcasecmp(key, "NodeName") == 0) {
        read_record(r, rest, NULL, value);
    } else if (strcasecmp(key, "AutoDetect") == 0 && !*trim_text(r->arena, rest)) {
        r->global = value;
        r->global_line = r->line;
    } else {
        add_problem(r, GRES_SYNTAX, trim_text(r->arena, line));
    }
}

/* Cuts a comment; true where the line goes on in the next one. */
static bool end_line(char *line)
{
    size_t slashes = 0;
    for (char *c = line; *c; c++) {
        if (*c == '#' && slashes % 2 == 0) {
            *c = '\0';
            break;
        }
        slashes = *c == '\\' ? slashes + 1 : 0;
    }
    char *last = line + strlen(line);
    while (last > line && isspace((unsigned char)last[-1]))
        last--;
    if (last == line || last[-1] != '\\')
        return false;
    last[-1] = '\0';
    return true;
}

static void read_text(Reader *r, const char *file, char *text)
{
    CLEANUP(str_done) Str whole = str_limited(CONF_MAX);
    unsigned number = 0;
    r->file = file;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        if (!whole.len)
            r->line = number;
        const bool more = end_line(line);
        str_add(&whole, line);
        if (more && next) {
            str_addc(&whole, ' ');
            continue;
        }
        read_line(r, whole.len ? whole.text : "");
        str_clear(&whole);
    }
}

int gres_conf_read(const char *path, const char *node_name, GresReadFile read, Arena *arena, GresConf **ret, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(CONF_MAX);
    TRY(read(path, &text, err));
    GresConf *conf = arena_calloc(arena, 1, sizeof *conf);
    Reader r = {.conf = conf, .arena = arena, .node_name = node_name, .read = read};
    conf->path = arena_strdup(arena, path);
    read_text(&r, conf->path, arena_strndup(arena, text.len ? text.text : "", text.len));
    char *autodetect = arena_strdup(arena, r.local ? r.local : r.global ? r.global : "");
    for (char *c = autodetect; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    conf->autodetect = autodetect;
    conf->autodetect_line = r.local ? r.local_line : r.global_line;
    *ret = conf;
    return 0;
}
