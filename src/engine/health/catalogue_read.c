/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of the catalogue: keys are rows of two tables, one for classes and one for rules. A document says of an
 * entry only what it wants different from the documents before it. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/duration.h"
#include "base/opt.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "engine/health/catalogue_inside.h"

enum { KEYS_MAX = 32, ID_MAX = 64, NAMES_SHOWN = 24, ENTRIES_MAX = 4096 };

typedef enum KeyType {
    KEY_TEXT,   /* const char *, kept */
    KEY_SHARED, /* const char *, kept once for all */
    KEY_WORD,   /* an enum of model/fault.h */
    KEY_TIME,   /* uint64_t ns */
    KEY_BOOL,
    KEY_PARENTS,
    KEY_BY,
    KEY_CLASS,
    KEY_ON,
    KEY_WITH,
} KeyType;

typedef struct Key {
    const char *name;
    KeyType type;
    size_t off;
    const FaultWord *words;
    int word_count;
} Key;

#define IN_CLASS(member) offsetof(ClassDraft, fault.member)
#define IN_RULE(member) offsetof(RuleDraft, rule.member)
static const Key class_keys[] = {
    {"text", KEY_TEXT, IN_CLASS(text), NULL, 0},
    {"advice", KEY_TEXT, IN_CLASS(advice), NULL, 0},
    {"runbook", KEY_TEXT, IN_CLASS(runbook), NULL, 0},
    {"cause", KEY_WORD, IN_CLASS(cause), fault_causes, CAUSE_END},
    {"severity", KEY_WORD, IN_CLASS(severity), fault_severities, SEVERITY_END},
    {"scope", KEY_WORD, IN_CLASS(scope), fault_scopes, SCOPE_END},
    {"action", KEY_WORD, IN_CLASS(action), fault_actions, ACTION_END},
    {"route", KEY_WORD, IN_CLASS(route), fault_routes, ROUTE_END},
    {"clear", KEY_WORD, IN_CLASS(clear), fault_clears, CLEAR_END},
    {"for", KEY_TIME, IN_CLASS(for_ns), NULL, 0},
    {"keep_firing_for", KEY_TIME, IN_CLASS(keep_ns), NULL, 0},
    {"quiet", KEY_TIME, IN_CLASS(quiet_ns), NULL, 0},
    {"reopen", KEY_TIME, IN_CLASS(reopen_ns), NULL, 0},
    {"by", KEY_BY, 0, NULL, 0},
    {"parents", KEY_PARENTS, 0, NULL, 0},
    {"parent_window", KEY_TIME, IN_CLASS(parent_ns), NULL, 0},
    {"observe", KEY_BOOL, IN_CLASS(observe), NULL, 0},
    {"enabled", KEY_BOOL, IN_CLASS(enabled), NULL, 0},
    {"source", KEY_SHARED, IN_CLASS(source), NULL, 0},
};
static const Key rule_keys[] = {
    {"name", KEY_TEXT, IN_RULE(name), NULL, 0},
    {"text", KEY_TEXT, IN_RULE(text), NULL, 0},
    {"on", KEY_ON, 0, NULL, 0},
    {"with", KEY_WITH, 0, NULL, 0},
    {"class", KEY_CLASS, 0, NULL, 0},
    {"cause", KEY_WORD, IN_RULE(cause), fault_causes, CAUSE_END},
    {"severity", KEY_WORD, IN_RULE(severity), fault_severities, SEVERITY_END},
    {"scope", KEY_WORD, IN_RULE(scope), fault_scopes, SCOPE_END},
    {"action", KEY_WORD, IN_RULE(action), fault_actions, ACTION_END},
    {"route", KEY_WORD, IN_RULE(route), fault_routes, ROUTE_END},
    {"for", KEY_TIME, IN_RULE(for_ns), NULL, 0},
    {"keep_firing_for", KEY_TIME, IN_RULE(keep_ns), NULL, 0},
    {"silent", KEY_BOOL, IN_RULE(silent), NULL, 0},
    {"explained_by", KEY_SHARED, IN_RULE(explained_by), NULL, 0},
    {"enabled", KEY_BOOL, offsetof(RuleDraft, enabled), NULL, 0},
    {"source", KEY_SHARED, IN_RULE(source), NULL, 0},
};

const char *catalogue_keep(CatalogueReader *reader, const char *text)
{
    for (size_t i = reader->texts.len; i-- > 0;)
        if (strcmp(reader->texts.at[i], text) == 0)
            return reader->texts.at[i];
    const char *kept = arena_strdup(reader->keep, text);
    vec_push(&reader->texts, kept);
    return kept;
}

int catalogue_unknown(const YamlNode *node, const char *what, const char *const *names, size_t count, Err *err)
{
    char room[ERR_TEXT_MAX];
    Str text;

    str_init_room(&text, room, sizeof room);
    str_addf(&text, "unknown %s '%.60s'", what, node->text);
    const char *nearest = count ? opt_nearest(node->text, names, count) : NULL;
    if (nearest)
        str_addf(&text, ", did you mean '%s'?", nearest);
    if (count && count <= NAMES_SHOWN) {
        str_add(&text, nearest ? " Allowed: " : "; allowed: ");
        for (size_t i = 0; i < count; i++)
            str_addf(&text, "%s%s", i ? ", " : "", names[i]);
    }
    return yaml_fail(node, err, "%s", text.text);
}

int catalogue_word(const YamlNode *node, const char *what, const FaultWord *words, int count, unsigned *ret, Err *err)
{
    const char *names[KEYS_MAX];

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    int number = fault_word_find(words, count, node->text);
    if (number >= 0) {
        *ret = (unsigned)number;
        return 0;
    }
    for (int i = 0; i < count; i++)
        names[i] = words[i].key;
    return catalogue_unknown(node, what, names, (size_t)count, err);
}
_Static_assert((int)ACTION_END <= (int)KEYS_MAX && (int)CAUSE_END <= (int)KEYS_MAX, "raise KEYS_MAX");

static int read_bool(const YamlNode *node, const char *what, bool *ret, Err *err)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on"};

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(node->text, words[i]) == 0) {
            *ret = i & 1;
            return 0;
        }
    return yaml_fail(node, err, "'%s' must be yes or no, not '%.40s'", what, node->text);
}

static int read_time(const YamlNode *node, const char *what, uint64_t *ret, Err *err)
{
    Err why = {0};

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    if (duration_parse(node->text, ret, &why) < 0)
        return yaml_fail(node, err, "'%s': %s", what, why.text);
    if (*ret > NS_PER_YEAR)
        return yaml_fail(node, err, "'%s': at most a year", what);
    return 0;
}

/* A list of texts, or one text alone. */
static size_t list_len(const YamlNode *node)
{
    return yaml_is_null(node) ? 0 : node->kind == YAML_SEQ ? node->len : 1;
}

static const YamlNode *list_at(const YamlNode *node, size_t i)
{
    return node->kind == YAML_SEQ ? node->items[i] : node;
}

static int read_by(const YamlNode *node, FaultClass *fault, Err *err)
{
    static const char *const names[] = {"code", "process"};

    fault->by_code = fault->by_process = false;
    for (size_t i = 0; i < list_len(node); i++) {
        const YamlNode *item = list_at(node, i);
        TRY(yaml_want(item, YAML_SCALAR, "by", err));
        if (strcmp(item->text, "code") == 0)
            fault->by_code = true;
        else if (strcmp(item->text, "process") == 0)
            fault->by_process = true;
        else
            return catalogue_unknown(item, "part of 'by'", names, ARRAY_LEN(names), err);
    }
    return 0;
}

static int read_parents(CatalogueReader *reader, const YamlNode *node, ClassDraft *draft, Err *err)
{
    size_t count = list_len(node);

    if (count > CATALOGUE_PARENTS)
        return yaml_fail(node, err, "a class has at most %d parents", CATALOGUE_PARENTS);
    for (size_t i = 0; i < count; i++) {
        TRY(yaml_want(list_at(node, i), YAML_SCALAR, "a parent", err));
        draft->fault.parents[i] = catalogue_keep(reader, list_at(node, i)->text);
    }
    draft->fault.parent_count = count;
    draft->parents = node;
    return 0;
}

static int read_text(CatalogueReader *reader, const Key *key, const YamlNode *node, const char **ret, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, key->name, err));
    *ret = key->type == KEY_SHARED ? catalogue_keep(reader, node->text) : arena_strdup(reader->keep, node->text);
    return 0;
}

static int read_class_name(const YamlNode *node, RuleDraft *draft, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, "class", err));
    draft->class_id = node->text;
    draft->class_node = node;
    return 0;
}

static int read_with(CatalogueReader *reader, const YamlNode *node, RuleDraft *draft, Err *err)
{
    TRY(yaml_want(node, YAML_MAP, "with", err));
    const WithNote note = {.map = node, .before = draft->with};
    draft->with = arena_memdup(reader->scratch, &note, sizeof note);
    return 0;
}

static int read_key(CatalogueReader *reader, const Key *key, const YamlNode *node, void *draft, Err *err)
{
    void *into = (char *)draft + key->off;

    if (yaml_is_null(node) && key->type != KEY_PARENTS && key->type != KEY_BY)
        return yaml_fail(node, err, "'%s' has no value", key->name);
    switch (key->type) {
    case KEY_TEXT:
    case KEY_SHARED:
        return read_text(reader, key, node, into, err);
    case KEY_WORD:
        return catalogue_word(node, key->name, key->words, key->word_count, into, err);
    case KEY_TIME:
        return read_time(node, key->name, into, err);
    case KEY_BOOL:
        return read_bool(node, key->name, into, err);
    case KEY_PARENTS:
        return read_parents(reader, node, draft, err);
    case KEY_BY:
        return read_by(node, &((ClassDraft *)draft)->fault, err);
    case KEY_CLASS:
        return read_class_name(node, draft, err);
    case KEY_ON:
        return catalogue_read_on(reader, node, draft, err);
    case KEY_WITH:
        return read_with(reader, node, draft, err);
    }
    return 0;
}
_Static_assert(sizeof(FaultCause) == sizeof(unsigned) && sizeof(FaultClear) == sizeof(unsigned), "words are unsigned");

static int read_entry(CatalogueReader *reader, const Key *keys, size_t count, const YamlNode *map, void *draft,
                      Err *err)
{
    const char *names[KEYS_MAX];

    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];
        size_t k = 0;
        while (k < count && strcmp(keys[k].name, pair->key->text) != 0)
            k++;
        for (size_t n = 0; k == count && n < count; n++)
            names[n] = keys[n].name;
        if (k == count)
            return catalogue_unknown(pair->key, "key", names, count, err);
        TRY(read_key(reader, &keys[k], pair->value, draft, err));
    }
    return 0;
}

static int check_id(const YamlNode *key, Err *err)
{
    if (key->len == 0 || key->len > ID_MAX || strspn(key->text, "abcdefghijklmnopqrstuvwxyz0123456789-") != key->len)
        return yaml_fail(key, err, "'%.80s' is no name: lower-case letters, digits and '-', at most %d", key->text,
                         ID_MAX);
    return 0;
}

static ClassDraft *class_draft(CatalogueReader *reader, const YamlNode *key)
{
    ClassDraft *draft = map_get(&reader->class_by_id, key->text);

    if (draft)
        return draft;
    draft = arena_alloc(reader->scratch, sizeof *draft);
    draft->at = key;
    draft->number = reader->classes.len;
    draft->fault = (FaultClass){.id = arena_strdup(reader->keep, key->text),
                                .runbook = "",
                                .source = "",
                                .file = catalogue_keep(reader, key->file),
                                .line = key->line,
                                .cause = CAUSE_END,
                                .severity = SEVERITY_END,
                                .scope = SCOPE_END,
                                .action = ACTION_END,
                                .route = ROUTE_END,
                                .clear = CLEAR_END,
                                .reopen_ns = 10 * NS_PER_MIN,
                                .parent_ns = 2 * NS_PER_MIN,
                                .enabled = true};
    map_put(&reader->class_by_id, key->text, draft);
    vec_push(&reader->classes, draft);
    return draft;
}

static RuleDraft *rule_draft(CatalogueReader *reader, const YamlNode *key)
{
    RuleDraft *draft = map_get(&reader->rule_by_id, key->text);

    if (draft)
        return draft;
    draft = arena_alloc(reader->scratch, sizeof *draft);
    draft->at = key;
    draft->number = reader->rules.len;
    draft->enabled = true;
    draft->rule = (FaultRule){.id = arena_strdup(reader->keep, key->text),
                              .text = "",
                              .contains = "",
                              .unit = "",
                              .explained_by = "",
                              .detector = "",
                              .source = "",
                              .file = catalogue_keep(reader, key->file),
                              .line = key->line,
                              .match = FAULT_MATCH_END,
                              .cause = CAUSE_END,
                              .severity = SEVERITY_END,
                              .scope = SCOPE_END,
                              .action = ACTION_END,
                              .route = ROUTE_END,
                              .for_ns = UINT64_MAX,
                              .keep_ns = UINT64_MAX};
    map_put(&reader->rule_by_id, key->text, draft);
    vec_push(&reader->rules, draft);
    return draft;
}

static int read_section(CatalogueReader *reader, const YamlNode *map, bool classes, Err *err)
{
    if (yaml_is_null(map))
        return 0;
    TRY(yaml_want(map, YAML_MAP, classes ? "classes" : "rules", err));
    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];
        TRY(check_id(pair->key, err));
        TRY(yaml_want(pair->value, YAML_MAP, pair->key->text, err));
        if (classes)
            TRY(read_entry(reader, class_keys, ARRAY_LEN(class_keys), pair->value, class_draft(reader, pair->key),
                           err));
        else
            TRY(read_entry(reader, rule_keys, ARRAY_LEN(rule_keys), pair->value, rule_draft(reader, pair->key), err));
        if (reader->rules.len > ENTRIES_MAX || reader->classes.len > ENTRIES_MAX)
            return yaml_fail(pair->key, err, "more than %d entries", ENTRIES_MAX);
    }
    return 0;
}

int catalogue_read(CatalogueReader *reader, const YamlNode *root, Err *err)
{
    static const char *const names[] = {"classes", "rules"};

    if (yaml_is_null(root))
        return 0;
    TRY(yaml_want(root, YAML_MAP, "a fault catalogue", err));
    for (size_t i = 0; i < root->len; i++) {
        const YamlNode *key = root->pairs[i].key;
        if (strcmp(key->text, names[0]) != 0 && strcmp(key->text, names[1]) != 0)
            return catalogue_unknown(key, "key", names, ARRAY_LEN(names), err);
        TRY(read_section(reader, root->pairs[i].value, key->text[0] == 'c', err));
    }
    return 0;
}
