/* SPDX-License-Identifier: Apache-2.0 */
/* From drafts to the catalogue: every word said or taken from the class, every class found, no circle among parents,
 * the rules in the order in which they are looked up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/opt.h"
#include "base/cleanup.h"
#include "engine/health/catalogue_inside.h"

typedef VEC(const char *) Names;

static void names_done(Names *names)
{
    vec_done(names);
}

static int fail_class(CatalogueReader *reader, const YamlNode *node, const char *text, Err *err)
{
    CLEANUP(names_done) Names names = {0};

    for (size_t i = 0; i < reader->classes.len; i++)
        vec_push(&names, reader->classes.at[i]->fault.id);
    const char *nearest = opt_nearest(text, names.at, names.len);
    if (nearest)
        return yaml_fail(node, err, "there is no class '%.60s', did you mean '%s'?", text, nearest);
    return yaml_fail(node, err, "there is no class '%.60s'", text);
}

static int check_class(CatalogueReader *reader, const ClassDraft *draft, Err *err)
{
    const FaultClass *c = &draft->fault;
    const char *missing = !c->text                      ? "text"
                          : !c->advice                  ? "advice"
                          : c->cause == CAUSE_END       ? "cause"
                          : c->severity == SEVERITY_END ? "severity"
                          : c->scope == SCOPE_END       ? "scope"
                          : c->action == ACTION_END     ? "action"
                          : c->route == ROUTE_END       ? "route"
                          : c->clear == CLEAR_END       ? "clear"
                                                        : NULL;
    if (missing)
        return yaml_fail(draft->at, err, "class '%s' says nothing of its '%s'", c->id, missing);
    if (c->clear == CLEAR_QUIET && !c->quiet_ns)
        return yaml_fail(draft->at, err, "class '%s' clears when it is quiet, and has no time 'quiet'", c->id);
    for (size_t i = 0; i < c->parent_count; i++)
        if (!map_get(&reader->class_by_id, c->parents[i]))
            return fail_class(reader, draft->parents->kind == YAML_SEQ ? draft->parents->items[i] : draft->parents,
                              c->parents[i], err);
    return 0;
}

/* Follows the parents of `at`; `path` marks the way. A class among its own parents is meant (a wider thing's). */
static int walk(CatalogueReader *reader, const ClassDraft *at, uint8_t *marks, Err *err)
{
    enum { NEW, ON_THE_WAY, DONE };
    size_t number = at->number;

    if (marks[number] == DONE)
        return 0;
    if (marks[number] == ON_THE_WAY)
        return yaml_fail(at->parents, err, "the parents of '%s' lead back to it", at->fault.id);
    marks[number] = ON_THE_WAY;
    for (size_t i = 0; i < at->fault.parent_count; i++)
        if (strcmp(at->fault.parents[i], at->fault.id) != 0)
            TRY(walk(reader, map_get(&reader->class_by_id, at->fault.parents[i]), marks, err));
    marks[number] = DONE;
    return 0;
}

static int settle_classes(CatalogueReader *reader, Catalogue *catalogue, Err *err)
{
    size_t count = reader->classes.len;
    uint8_t *marks = arena_alloc(reader->scratch, count + 1);

    catalogue->classes = arena_calloc(reader->keep, count + 1, sizeof *catalogue->classes);
    catalogue->class_count = count;
    for (size_t i = 0; i < count; i++)
        TRY(check_class(reader, reader->classes.at[i], err));
    for (size_t i = 0; i < count; i++)
        TRY(walk(reader, reader->classes.at[i], marks, err));
    for (size_t i = 0; i < count; i++)
        catalogue->classes[i] = reader->classes.at[i]->fault;
    return 0;
}

/* What the rule leaves to its class. */
static void inherit(FaultRule *rule)
{
    static const FaultClass nothing = {.cause = CAUSE_UNKNOWN, .scope = SCOPE_GPU};
    const FaultClass *c = rule->fault ? rule->fault : &nothing;

    if (rule->cause == CAUSE_END)
        rule->cause = c->cause;
    if (rule->severity == SEVERITY_END)
        rule->severity = c->severity;
    if (rule->scope == SCOPE_END)
        rule->scope = c->scope;
    if (rule->action == ACTION_END)
        rule->action = c->action;
    if (rule->route == ROUTE_END || c->observe)
        rule->route = c->observe ? ROUTE_NONE : c->route;
    if (rule->for_ns == UINT64_MAX)
        rule->for_ns = c->for_ns;
    if (rule->keep_ns == UINT64_MAX)
        rule->keep_ns = c->keep_ns;
    if (!rule->source[0] && c->source)
        rule->source = c->source;
}

static int settle_rule(CatalogueReader *reader, Catalogue *catalogue, RuleDraft *draft, Err *err)
{
    FaultRule *rule = &draft->rule;

    if (!draft->on)
        return yaml_fail(draft->at, err, "rule '%s' has no 'on': what it looks at", rule->id);
    if (!draft->class_id)
        return yaml_fail(draft->at, err, "rule '%s' has no 'class'; 'none' where it is no fault", rule->id);
    if (!rule->name)
        rule->name = rule->id;
    const FaultClass *fault = catalogue_class(catalogue, draft->class_id);
    if (!fault && strcmp(draft->class_id, "none") != 0)
        return fail_class(reader, draft->class_node, draft->class_id, err);
    if (rule->explained_by[0] && !catalogue_class(catalogue, rule->explained_by))
        return fail_class(reader, draft->at, rule->explained_by, err);
    rule->fault = draft->enabled ? fault : NULL;
    TRY(catalogue_read_with(reader, draft, err));
    if (!draft->enabled)
        rule->route = ROUTE_NONE;
    inherit(rule);
    return 0;
}

/* Rules over several codes first, then those of events by kind and code, then those of detectors; else as read. */
static int order(const void *left, const void *right)
{
    const RuleDraft *const *a = left, *const *b = right;
    const FaultRule *x = &(*a)->rule, *y = &(*b)->rule;
    int wide_x = x->code_from != x->code_to, wide_y = y->code_from != y->code_to;
    int late_x = x->match == FAULT_ON_DETECTOR, late_y = y->match == FAULT_ON_DETECTOR;

    if (wide_x != wide_y)
        return wide_y - wide_x;
    if (late_x != late_y)
        return late_x - late_y;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    if (x->code_from != y->code_from)
        return x->code_from < y->code_from ? -1 : 1;
    return (*a)->number < (*b)->number ? -1 : 1;
}

static int by_id(const void *left, const void *right, void *self)
{
    const Catalogue *catalogue = self;
    const uint16_t *a = left, *b = right;

    return strcmp(catalogue->rules[*a].id, catalogue->rules[*b].id);
}

static void index_rules(CatalogueReader *reader, Catalogue *catalogue)
{
    size_t n = 0;

    catalogue->rules = arena_calloc(reader->keep, reader->rules.len + 1, sizeof *catalogue->rules);
    catalogue->by_id = arena_calloc(reader->keep, reader->rules.len + 1, sizeof *catalogue->by_id);
    for (size_t i = 0; i < reader->rules.len; i++) {
        const RuleDraft *draft = reader->rules.at[i];
        if (draft->rule.match == FAULT_ON_DETECTOR && !draft->enabled)
            continue;
        catalogue->by_id[n] = (uint16_t)n;
        catalogue->rules[n++] = draft->rule;
        catalogue->event_count += draft->rule.match != FAULT_ON_DETECTOR;
        catalogue->wide_count += draft->rule.code_from != draft->rule.code_to;
    }
    catalogue->rule_count = n;
    qsort_r(catalogue->by_id, n, sizeof catalogue->by_id[0], by_id, catalogue);
}

int catalogue_settle(CatalogueReader *reader, Catalogue *catalogue, Err *err)
{
    TRY(settle_classes(reader, catalogue, err));
    for (size_t i = 0; i < reader->rules.len; i++)
        TRY(settle_rule(reader, catalogue, reader->rules.at[i], err));
    if (reader->rules.len)
        qsort(reader->rules.at, reader->rules.len, sizeof reader->rules.at[0], order);
    index_rules(reader, catalogue);
    return 0;
}
