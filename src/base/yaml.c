/* SPDX-License-Identifier: Apache-2.0 */
/* A tree from libyaml's events. Recursion is bounded by YAML_DEPTH_MAX. */
#include "base/yaml.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"

typedef struct Loader {
    yaml_parser_t parser;
    Arena *arena;
    const char *file;
    const char *input;
    size_t nodes;
    int depth;
    Err *err;
} Loader;

typedef VEC(const YamlNode *) NodeVec;
typedef VEC(YamlPair) PairVec;

static int fail_at(const Loader *loader, const yaml_mark_t *mark, int code, const char *what)
{
    return err_set(loader->err, code, "%s:%zu:%zu: %s", loader->file, mark->line + 1, mark->column + 1, what);
}

/* An error of libyaml's reader carries only an offset. */
static yaml_mark_t mark_of_offset(const char *input, size_t offset)
{
    yaml_mark_t mark = {.index = offset};

    for (size_t i = 0; i < offset; i++) {
        if (input[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else {
            mark.column += ((unsigned char)input[i] & 0xc0) != 0x80;
        }
    }
    return mark;
}

static int fail_parser(const Loader *loader)
{
    const yaml_parser_t *parser = &loader->parser;
    const char *problem = parser->problem ? parser->problem : "not YAML";
    yaml_mark_t mark;

    if (parser->error == YAML_READER_ERROR) {
        mark = mark_of_offset(loader->input, parser->problem_offset);
        return fail_at(loader, &mark, -EINVAL, problem);
    }
    mark = parser->problem_mark;
    if (!parser->context)
        return fail_at(loader, &mark, -EINVAL, problem);
    return err_set(loader->err, -EINVAL, "%s:%zu:%zu: %s (%s from line %zu)", loader->file, mark.line + 1,
                   mark.column + 1, problem, parser->context, parser->context_mark.line + 1);
}

static int next_event(Loader *loader, yaml_event_t *ret)
{
    if (!yaml_parser_parse(&loader->parser, ret))
        return fail_parser(loader);
    return 0;
}

static void event_done(yaml_event_t *event)
{
    yaml_event_delete(event);
}

/* A message if an event is not plain data, else NULL. */
static const char *describe_objection(const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (event->type == YAML_ALIAS_EVENT)
        return "aliases (*name) are not accepted, write the value out";
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor)
        return "anchors (&name) are not accepted";
    if (tag && strcmp((const char *)tag, YAML_STR_TAG) != 0)
        return "tags (!name) are not accepted";
    return NULL;
}

static int load_node(Loader *loader, const yaml_event_t *event, const YamlNode **ret);

static int load_scalar(Loader *loader, const yaml_event_t *event, YamlNode *node)
{
    const char *text = (const char *)event->data.scalar.value;

    node->len = event->data.scalar.length;
    if (memchr(text, 0, node->len))
        return fail_at(loader, &event->start_mark, -EINVAL, "a text with a NUL byte inside");
    node->kind = YAML_SCALAR;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || event->data.scalar.tag;
    node->text = arena_strndup(loader->arena, text, node->len);
    return 0;
}

static int load_items(Loader *loader, NodeVec *items)
{
    for (;;) {
        CLEANUP(event_done) yaml_event_t event = {0};
        const YamlNode *item = NULL;

        TRY(next_event(loader, &event));
        if (event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        TRY(load_node(loader, &event, &item));
        vec_push(items, item);
    }
}

static int load_seq(Loader *loader, YamlNode *node)
{
    CLEANUP_VEC NodeVec items = {0};

    node->kind = YAML_SEQ;
    TRY(load_items(loader, &items));
    node->len = items.len;
    node->items = arena_memdup(loader->arena, items.at, items.len * sizeof(*items.at));
    return 0;
}

static int load_pair(Loader *loader, const yaml_event_t *key_event, PairVec *pairs, Map *seen)
{
    CLEANUP(event_done) yaml_event_t event = {0};
    YamlPair pair;
    const YamlNode *twin;

    if (key_event->type != YAML_SCALAR_EVENT && !describe_objection(key_event))
        return fail_at(loader, &key_event->start_mark, -EINVAL, "a key must be a text");
    TRY(load_node(loader, key_event, &pair.key));
    twin = map_put(seen, pair.key->text, (void *)(uintptr_t)pair.key); /* which only hands it back */
    if (twin)
        return yaml_fail(pair.key, loader->err, "key '%.100s' is already in line %u", pair.key->text, twin->line);
    TRY(next_event(loader, &event));
    TRY(load_node(loader, &event, &pair.value));
    vec_push(pairs, pair);
    return 0;
}

static int load_pairs(Loader *loader, PairVec *pairs, Map *seen)
{
    for (;;) {
        CLEANUP(event_done) yaml_event_t event = {0};

        TRY(next_event(loader, &event));
        if (event.type == YAML_MAPPING_END_EVENT)
            return 0;
        TRY(load_pair(loader, &event, pairs, seen));
    }
}

static int load_map(Loader *loader, YamlNode *node)
{
    CLEANUP_VEC PairVec pairs = {0};
    CLEANUP(map_done) Map seen;

    map_init(&seen);
    node->kind = YAML_MAP;
    TRY(load_pairs(loader, &pairs, &seen));
    node->len = pairs.len;
    node->pairs = arena_memdup(loader->arena, pairs.at, pairs.len * sizeof(*pairs.at));
    return 0;
}

static int load_node(Loader *loader, const yaml_event_t *event, const YamlNode **ret)
{
    const char *why = describe_objection(event);
    YamlNode *node;
    int rc;

    if (why)
        return fail_at(loader, &event->start_mark, -EINVAL, why);
    if (++loader->nodes > YAML_NODES_MAX)
        return fail_at(loader, &event->start_mark, -E2BIG, "too large, more than 200000 values");
    if (loader->depth >= YAML_DEPTH_MAX)
        return fail_at(loader, &event->start_mark, -E2BIG, "nested deeper than 64 levels");
    node = arena_alloc(loader->arena, sizeof(*node));
    node->file = loader->file;
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    loader->depth++;
    if (event->type == YAML_SCALAR_EVENT)
        rc = load_scalar(loader, event, node);
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        rc = load_seq(loader, node);
    else
        rc = load_map(loader, node);
    loader->depth--;
    *ret = node;
    return rc;
}

/* Events of a whole stream: start, at most one document, end. */
static int load_stream(Loader *loader, const YamlNode **ret)
{
    const YamlNode *root = NULL;

    for (;;) {
        CLEANUP(event_done) yaml_event_t event = {0};

        TRY(next_event(loader, &event));
        if (event.type == YAML_STREAM_END_EVENT) {
            *ret = root;
            return 0;
        }
        if (event.type == YAML_DOCUMENT_START_EVENT && root)
            return fail_at(loader, &event.start_mark, -EINVAL, "a second document, only one is accepted");
        if (event.type == YAML_STREAM_START_EVENT || event.type == YAML_DOCUMENT_START_EVENT ||
            event.type == YAML_DOCUMENT_END_EVENT)
            continue;
        TRY(load_node(loader, &event, &root));
    }
}

int yaml_load(const char *name, const char *text, size_t len, Arena *arena, const YamlNode **ret_root, Err *err)
{
    Loader loader = {.arena = arena, .input = text, .err = err};
    int rc;

    if (len > YAML_BYTES_MAX)
        return err_set(err, -E2BIG, "%s: larger than %d bytes", name, YAML_BYTES_MAX);
    loader.file = arena_strdup(arena, name);
    if (!yaml_parser_initialize(&loader.parser))
        return err_set(err, -ENOMEM, "%s: no memory for the parser", name);
    yaml_parser_set_encoding(&loader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&loader.parser, (const unsigned char *)text, len);
    rc = load_stream(&loader, ret_root);
    yaml_parser_delete(&loader.parser);
    return rc;
}

int yaml_load_file(const char *path, Arena *arena, const YamlNode **ret_root, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(YAML_BYTES_MAX);

    TRY(file_read(path, YAML_BYTES_MAX, &text, err));
    return yaml_load(path, text.text, text.len, arena, ret_root, err);
}

const YamlNode *yaml_get(const YamlNode *map, const char *key)
{
    if (!map || map->kind != YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->len; i++)
        if (!strcmp(map->pairs[i].key->text, key))
            return map->pairs[i].value;
    return NULL;
}

const char *yaml_text(const YamlNode *node)
{
    return node ? node->text : NULL;
}

bool yaml_is_null(const YamlNode *node)
{
    if (!node)
        return true;
    if (node->kind != YAML_SCALAR || node->quoted)
        return false;
    return !node->len || !strcmp(node->text, "~") || !strcmp(node->text, "null");
}

const char *yaml_kind_name(YamlKind kind)
{
    static const char *const names[] = {[YAML_SCALAR] = "a text", [YAML_SEQ] = "a list", [YAML_MAP] = "a mapping"};

    return names[kind];
}

int yaml_fail(const YamlNode *node, Err *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)err_setv(err, -EINVAL, fmt, args);
    va_end(args);
    (void)err_add(err, "%s:%u:%u", node->file, node->line, node->column);
    return -EINVAL;
}

int yaml_want(const YamlNode *node, YamlKind kind, const char *what, Err *err)
{
    if (node->kind == kind)
        return 0;
    return yaml_fail(node, err, "'%s' must be %s, not %s", what, yaml_kind_name(kind), yaml_kind_name(node->kind));
}
