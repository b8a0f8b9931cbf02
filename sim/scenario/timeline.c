/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline: entries of `at` become occurrences in time order, and these become ops. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "sim/scenario/parse.h"

typedef struct Occurrence {
    uint64_t t_ns;
    uint32_t entry, order;
    int undo, train; /* train: its ops carry the repeats */
} Occurrence;
typedef VEC(Occurrence) Occurrences;

typedef struct Entry {
    const Step *step;
    StepArgs args;
} Entry;

static int by_time(const void *a, const void *b)
{
    const Occurrence *x = a, *y = b;
    if (x->t_ns != y->t_ns)
        return x->t_ns < y->t_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int occur(Occurrences *list, const Entry *entry, uint32_t index, Err *err)
{
    const StepArgs *a = &entry->args;
    int train = a->times > 1 && !a->for_ns && !(entry->step->flags & STEP_STATE);
    uint32_t times = train ? 1 : a->times;
    uint64_t last = (uint64_t)(a->times - 1) * (a->every_ns / 1000); /* microseconds: cannot overflow */
    if (last > UINT64_C(1000000000) * 1000000 || a->time_ns > UINT64_C(1000000000) * 1000000000)
        return field_fail(a->node, err, "the timeline may last at most 1000000000 s");
    if (a->for_ns && a->times > 1 && a->for_ns >= a->every_ns)
        return field_fail(a->node, err, "'for' must be shorter than 'every'");
    for (uint32_t i = 0; i < times; i++) {
        if (list->len + 2 > SCENARIO_OPS_MAX)
            return field_fail(a->node, err, "the timeline has more than %d occurrences", SCENARIO_OPS_MAX);
        Occurrence o = {
            .t_ns = a->time_ns + i * a->every_ns, .entry = index, .order = (uint32_t)list->len, .train = train};
        vec_push(list, o);
        if (!a->for_ns)
            continue;
        o.t_ns += a->for_ns;
        o.order++;
        o.undo = 1;
        vec_push(list, o);
    }
    return 0;
}

static int ops_make(Parse *parse, const Entry *entries, const Occurrences *list, Err *err)
{
    for (size_t i = 0; i < list->len; i++) {
        const Occurrence *o = &list->at[i];
        const Entry *e = &entries[o->entry];
        size_t from = parse->ops.len;
        TRY(step_make(e->step, &e->args, &parse->node, o->t_ns, o->undo, parse->arena, &parse->ops, err));
        for (size_t k = from; o->train && k < parse->ops.len; k++) {
            parse->ops.at[k].op.times = e->args.times;
            parse->ops.at[k].op.every_ns = e->args.every_ns;
        }
        if (parse->ops.len > SCENARIO_OPS_MAX)
            return field_fail(e->args.node, err, "the scenario has more than %d ops", SCENARIO_OPS_MAX);
    }
    return 0;
}

static int read_all(Parse *parse, const YamlNode *list, Entry *entries, Occurrences *occurrences, Err *err)
{
    for (size_t i = 0; i < list->len; i++) {
        TRY(step_read_map(list->items[i], &parse->node, parse->arena, &entries[i].step, &entries[i].args, err));
        TRY(occur(occurrences, &entries[i], (uint32_t)i, err));
    }
    if (occurrences->len)
        qsort(occurrences->at, occurrences->len, sizeof *occurrences->at, by_time);
    return ops_make(parse, entries, occurrences, err);
}

int parse_timeline(Parse *parse, const YamlNode *list, Err *err)
{
    Occurrences occurrences = {0};
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "at", err));
    if (list->len > SCENARIO_STEPS_MAX)
        return field_fail(list, err, "'at' must have at most %d entries", SCENARIO_STEPS_MAX);
    Entry *entries = arena_calloc(parse->arena, list->len ? list->len : 1, sizeof *entries);
    int rc = read_all(parse, list, entries, &occurrences, err);
    vec_done(&occurrences);
    return rc;
}
