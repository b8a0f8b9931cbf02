/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster_rules.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"

enum { TEXT_MAX = 64 << 10, TAINTS_SHOWN = 4, LIST_KEY_MAX = 128, WORD_BITS = 64 };

static const ClusterRule no_rule;

void kube_rules_init(KubeRules *rules, const KubeRuleNode *nodes, size_t node_count, Arena *arena)
{
    *rules = (KubeRules){.nodes = nodes, .node_count = node_count, .arena = arena};
    map_init(&rules->rules);
    map_init(&rules->lists);
}

void kube_rules_done(KubeRules *rules)
{
    map_done(&rules->rules);
    map_done(&rules->lists);
}

/* -- expressions --------------------------------------------------------------------------------------------------- */

typedef struct Expression {
    const char *key;
    size_t operator; /* of `operators` */
    const json_t *values;
} Expression;

static bool has_value(const Expression *e, const char *value)
{
    for (size_t i = 0; value && i < json_array_size(e->values); i++)
        if (strcmp(json_string_value(json_array_get(e->values, i)), value) == 0)
            return true;
    return false;
}

static bool lacks_value(const Expression *e, const char *value)
{
    return !has_value(e, value);
}

static bool is_there(const Expression *e, const char *value)
{
    (void)e;
    return value != NULL;
}

static bool is_absent(const Expression *e, const char *value)
{
    (void)e;
    return !value;
}

/* Below 0, 0 or above 0; 0 too where one of both is no number. */
static int compare_first(const Expression *e, const char *value)
{
    const char *other = json_string_value(json_array_get(e->values, 0));
    int64_t a, b;

    if (!value || !other || number_parse_i64(value, INT64_MIN, INT64_MAX, &a, NULL) < 0 ||
        number_parse_i64(other, INT64_MIN, INT64_MAX, &b, NULL) < 0)
        return 0;
    return (a > b) - (a < b);
}

static bool is_greater(const Expression *e, const char *value)
{
    return compare_first(e, value) > 0;
}

static bool is_less(const Expression *e, const char *value)
{
    return compare_first(e, value) < 0;
}

static const struct {
    const char *name, *text;
    bool (*matches)(const Expression *e, const char *value); /* `value` NULL: there is no such label */
    bool list;                                               /* of values, as its text shows it */
} operators[] = {
    {"In", " in ", has_value, true},        {"NotIn", " not in ", lacks_value, true},
    {"Exists", " exists", is_there, false}, {"DoesNotExist", " does not exist", is_absent, false},
    {"Gt", " > ", is_greater, true},        {"Lt", " < ", is_less, true},
};

static int read_values(const KubeField *field, Expression *ret, Err *err)
{
    KubeField values, value;

    TRY(kube_field_get(field, "values", JSON_ARRAY, &values, err));
    for (size_t i = 0; i < kube_field_len(&values); i++)
        TRY(kube_field_item(&values, i, JSON_STRING, &value, err));
    ret->values = values.json;
    return 0;
}

static int read_expression(const KubeField *field, Expression *ret, Err *err)
{
    const char *name = "";

    *ret = (Expression){.key = ""};
    TRY(kube_field_text(field, "key", &ret->key, err));
    TRY(kube_field_text(field, "operator", &name, err));
    TRY(read_values(field, ret, err));
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (strcmp(operators[i].name, name) == 0) {
            ret->operator= i;
            return 0;
        }
    return kube_field_fail(field, err, "operator '%.40s' is not known", name);
}

static void add_expression(const Expression *e, const char *key, Str *text)
{
    const size_t count = json_array_size(e->values);
    const bool many = strstr(operators[e->operator].text, "in ") != NULL;

    str_add(text, key);
    str_add(text, operators[e->operator].text);
    if (!operators[e->operator].list)
        return;
    str_add(text, many ? "(" : "");
    for (size_t i = 0; i < count; i++)
        str_addf(text, "%s%s", i > 0 ? ", " : "", json_string_value(json_array_get(e->values, i)));
    str_add(text, many ? ")" : "");
}

static const char *label_value(const json_t *labels, const char *key)
{
    return json_string_value(json_object_get(labels, key));
}

int kube_selector_matches(const KubeField *selector, const json_t *labels, Err *err)
{
    KubeField wanted, list, item;
    Expression e;
    const char *key;
    json_t *value;

    TRY(kube_field_get(selector, "matchLabels", JSON_OBJECT, &wanted, err));
    TRY(kube_field_get(selector, "matchExpressions", JSON_ARRAY, &list, err));
    json_object_foreach((json_t *)(uintptr_t)wanted.json, key, value)
    {
        const char *has = label_value(labels, key), *needs = json_string_value(value);

        if (!has || !needs || strcmp(has, needs) != 0)
            return 0;
    }
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(read_expression(&item, &e, err));
        if (!operators[e.operator].matches(&e, label_value(labels, e.key)))
            return 0;
    }
    return 1;
}

/* -- rules --------------------------------------------------------------------------------------------------------- */

typedef struct Draft {
    KubeRules *rules;
    uint64_t *nodes; /* a bit per node that is allowed */
    Str text;
} Draft;

static size_t count_words(const KubeRules *rules)
{
    return (rules->node_count + WORD_BITS - 1) / WORD_BITS + !rules->node_count;
}

static void set_bit(uint64_t *bits, size_t i)
{
    bits[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
}

static void draft_done(Draft *draft)
{
    str_done(&draft->text);
}

/* The rule of `key`, if it is known; *ret_rule NULL: it forbids nothing. */
static bool find_rule(const KubeRules *rules, const char *key, const ClusterRule **ret_rule)
{
    const ClusterRule *rule = map_get(&rules->rules, key);

    *ret_rule = rule == &no_rule ? NULL : rule;
    return rule != NULL;
}

static int keep_rule(Draft *draft, const char *key, bool forbids, const KubeField *field, const ClusterRule **ret_rule,
                     Err *err)
{
    KubeRules *rules = draft->rules;
    ClusterRule *rule = NULL;

    if (rules->rules.len >= KUBE_RULES_MAX)
        return kube_field_fail(field, err, "the pods have more than %d different rules for nodes", KUBE_RULES_MAX);
    if (draft->text.overflow)
        return kube_field_fail(field, err, "is longer than %d bytes", TEXT_MAX);
    if (forbids) {
        rule = arena_alloc(rules->arena, sizeof *rule);
        rule->nodes = draft->nodes;
        rule->text = arena_strdup(rules->arena, draft->text.text);
    }
    map_put(&rules->rules, key, forbids ? rule : (void *)(uintptr_t)&no_rule);
    *ret_rule = rule;
    return 0;
}

static void init_draft(KubeRules *rules, Draft *ret)
{
    *ret = (Draft){.rules = rules, .text = str_limited(TEXT_MAX)};
}

static bool selects_node(const json_t *selector, const KubeRuleNode *node)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)selector, key, value)
    {
        const char *has = label_value(node->labels, key);

        if (!has || strcmp(has, json_string_value(value)) != 0)
            return false;
    }
    return true;
}

static int read_selector(KubeRules *rules, const KubeField *spec, const ClusterRule **ret, Err *err)
{
    CLEANUP(draft_done) Draft draft;
    KubeField selector;
    const char *key, *between = "node selector ";
    json_t *value;

    *ret = NULL;
    init_draft(rules, &draft);
    TRY(kube_field_get(spec, "nodeSelector", JSON_OBJECT, &selector, err));
    json_object_foreach((json_t *)(uintptr_t)selector.json, key, value)
    {
        if (!json_is_string(value))
            return kube_field_fail(&selector, err, "the value of '%.100s' must be a text", key);
        str_addf(&draft.text, "%s%s=%s", between, key, json_string_value(value));
        between = ", ";
    }
    if (draft.text.len == 0 || find_rule(rules, draft.text.text, ret))
        return 0;
    draft.nodes = arena_calloc(rules->arena, count_words(rules), sizeof *draft.nodes);
    for (size_t i = 0; i < rules->node_count; i++)
        if (selects_node(selector.json, &rules->nodes[i]))
            set_bit(draft.nodes, i);
    return keep_rule(&draft, draft.text.text, true, &selector, ret, err);
}

/* -- affinity ------------------------------------------------------------------------------------------------------ */

typedef VEC(Expression) ExpressionVec;

/* Expressions of one term, of fields those whose key is "" afterwards: the only field is metadata.name. */
static int read_expressions(const KubeField *term, const char *path, bool fields, ExpressionVec *ret, Str *text,
                            Err *err)
{
    KubeField list, item;
    Expression e;

    TRY(kube_field_get(term, path, JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(read_expression(&item, &e, err));
        if (fields && strcmp(e.key, "metadata.name") != 0)
            return kube_field_fail(&item, err, "key must be metadata.name, not '%.60s'", e.key);
        str_add(text, ret->len > 0 ? " and " : "");
        add_expression(&e, fields ? "node name" : e.key, text);
        e.key = fields ? NULL : e.key;
        vec_push(ret, e);
    }
    return 0;
}

static bool matches_all(const ExpressionVec *all, const KubeRuleNode *node)
{
    for (size_t i = 0; i < all->len; i++) {
        const Expression *e = &all->at[i];

        if (!operators[e->operator].matches(e, e->key ? label_value(node->labels, e->key) : node->name))
            return false;
    }
    return all->len > 0; /* a term that demands nothing matches nothing */
}

/* Appends the term's text and, with `nodes`, allows the nodes that it matches. */
static int read_term(const KubeRules *rules, const KubeField *term, uint64_t *nodes, Str *text, Err *err)
{
    CLEANUP_VEC ExpressionVec all = {0};

    TRY(read_expressions(term, "matchExpressions", false, &all, text, err));
    TRY(read_expressions(term, "matchFields", true, &all, text, err));
    str_add(text, all.len > 0 ? "" : "that matches no node");
    for (size_t i = 0; nodes && i < rules->node_count; i++)
        if (matches_all(&all, &rules->nodes[i]))
            set_bit(nodes, i);
    return 0;
}

static int read_terms(const KubeRules *rules, const KubeField *terms, uint64_t *nodes, Str *text, Err *err)
{
    KubeField term;

    for (size_t i = 0; i < kube_field_len(terms); i++) {
        TRY(kube_field_item(terms, i, JSON_OBJECT, &term, err));
        str_add(text, i > 0 ? " or " : "node affinity ");
        TRY(read_term(rules, &term, nodes, text, err));
    }
    return 0;
}

static int read_affinity(KubeRules *rules, const KubeField *spec, const ClusterRule **ret, Err *err)
{
    CLEANUP(draft_done) Draft draft;
    CLEANUP(str_done) Str again = str_limited(TEXT_MAX);
    KubeField terms;

    *ret = NULL;
    init_draft(rules, &draft);
    TRY(kube_field_get(spec, "affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms",
                       JSON_ARRAY, &terms, err));
    TRY(read_terms(rules, &terms, NULL, &draft.text, err));
    if (draft.text.len == 0 || find_rule(rules, draft.text.text, ret))
        return 0;
    draft.nodes = arena_calloc(rules->arena, count_words(rules), sizeof *draft.nodes);
    TRY(read_terms(rules, &terms, draft.nodes, &again, err));
    return keep_rule(&draft, draft.text.text, true, &terms, ret, err);
}

/* -- taints -------------------------------------------------------------------------------------------------------- */

typedef struct Taint {
    const char *key, *value, *effect;
} Taint;

static int read_taint(const KubeField *field, Taint *ret, Err *err)
{
    *ret = (Taint){"", "", ""};
    TRY(kube_field_text(field, "key", &ret->key, err));
    TRY(kube_field_text(field, "value", &ret->value, err));
    return kube_field_text(field, "effect", &ret->effect, err);
}

/* A toleration has the fields of a taint, each empty for any, and `operator`. */
static int is_tolerated(const KubeField *tolerations, const Taint *taint, Err *err)
{
    KubeField field;
    Taint t;

    for (size_t i = 0; i < kube_field_len(tolerations); i++) {
        const char *operator= "Equal";

        TRY(kube_field_item(tolerations, i, JSON_OBJECT, &field, err));
        TRY(read_taint(&field, &t, err));
        TRY(kube_field_text(&field, "operator", &operator, err));
        const bool exists = strcmp(operator, "Exists") == 0;
        const bool key = strcmp(t.key, taint->key) == 0 || (!*t.key && exists);
        const bool effect = !*t.effect || strcmp(t.effect, taint->effect) == 0;
        if (key && effect && (exists || strcmp(t.value, taint->value) == 0))
            return 1;
    }
    return 0;
}

/* A closed node's own taints say nothing that `closed` does not. */
static bool is_ignored(const Taint *taint)
{
    return (strcmp(taint->effect, "NoSchedule") != 0 && strcmp(taint->effect, "NoExecute") != 0) ||
           strcmp(taint->key, "node.kubernetes.io/unschedulable") == 0 ||
           strcmp(taint->key, "node.kubernetes.io/not-ready") == 0 ||
           strcmp(taint->key, "node.kubernetes.io/unreachable") == 0;
}

static void add_taint(const Taint *taint, Str *text, size_t *shown)
{
    char name[1024];

    snprintf(name, sizeof name, "%s%s%s:%s", taint->key, *taint->value ? "=" : "", taint->value, taint->effect);
    if (*shown > TAINTS_SHOWN || strstr(text->text, name))
        return;
    str_addf(text, "%s%s", *shown > 0 ? ", " : "", *shown < TAINTS_SHOWN ? name : "...");
    ++*shown;
}

/* The first taint of a node that is not tolerated: 1; none: 0. */
static int find_taint(const KubeRuleNode *node, const KubeField *tolerations, Taint *ret, Err *err)
{
    KubeField field;

    for (size_t i = 0; i < kube_field_len(&node->taints); i++) {
        TRY(kube_field_item(&node->taints, i, JSON_OBJECT, &field, err));
        TRY(read_taint(&field, ret, err));
        const int tolerated = is_ignored(ret) ? 1 : is_tolerated(tolerations, ret, err);
        TRY(tolerated);
        if (!tolerated)
            return 1;
    }
    return 0;
}

static int make_taints(Draft *draft, const KubeField *tolerations, const char *key, const ClusterRule **ret, Err *err)
{
    KubeRules *rules = draft->rules;
    CLEANUP(str_done) Str list = str_limited(TEXT_MAX);
    size_t shown = 0;
    Taint taint;

    draft->nodes = arena_calloc(rules->arena, count_words(rules), sizeof *draft->nodes);
    for (size_t i = 0; i < rules->node_count; i++) {
        const int found = find_taint(&rules->nodes[i], tolerations, &taint, err);

        TRY(found);
        if (found)
            add_taint(&taint, &list, &shown);
        else
            set_bit(draft->nodes, i);
    }
    str_addf(&draft->text, "taint%s %s %s not tolerated", shown > 1 ? "s" : "", list.text, shown > 1 ? "are" : "is");
    return keep_rule(draft, key, shown > 0, tolerations, ret, err);
}

static int read_taints(KubeRules *rules, const KubeField *spec, const ClusterRule **ret, Err *err)
{
    CLEANUP(draft_done) Draft draft;
    CLEANUP(str_done) Str key = str_limited(TEXT_MAX);
    CLEANUP_FREE char *dump = NULL;
    KubeField tolerations;

    *ret = NULL;
    init_draft(rules, &draft);
    TRY(kube_field_get(spec, "tolerations", JSON_ARRAY, &tolerations, err));
    dump = tolerations.json ? json_dumps(tolerations.json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    str_addf(&key, "tolerations %s", dump ? dump : "[]");
    if (key.overflow)
        return kube_field_fail(&tolerations, err, "is longer than %d bytes", TEXT_MAX);
    return find_rule(rules, key.text, ret) ? 0 : make_taints(&draft, &tolerations, key.text, ret, err);
}

/* -- a pod's list -------------------------------------------------------------------------------------------------- */

int kube_rules_read(KubeRules *rules, const KubeField *spec, const ClusterRule **ret, uint8_t *ret_count, Err *err)
{
    const ClusterRule *found[3];
    ClusterRule list[ARRAY_LEN(found)];
    CLEANUP(str_done) Str key = str_limited(LIST_KEY_MAX);
    uint8_t count = 0;

    TRY(read_selector(rules, spec, &found[0], err));
    TRY(read_affinity(rules, spec, &found[1], err));
    TRY(read_taints(rules, spec, &found[2], err));
    for (size_t i = 0; i < ARRAY_LEN(found); i++)
        if (found[i]) {
            list[count++] = *found[i];
            str_addf(&key, "%p ", (const void *)found[i]);
        }
    *ret = count > 0 ? map_get(&rules->lists, key.text) : NULL;
    if (count > 0 && !*ret) {
        *ret = arena_memdup(rules->arena, list, count * sizeof *list);
        map_put(&rules->lists, key.text, (void *)(uintptr_t)*ret);
    }
    *ret_count = count;
    return 0;
}
