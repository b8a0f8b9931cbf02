/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue: made from drafts, and looked up. */
#include "engine/health/catalogue_draft.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/opt.h"
#include "engine/health/catalogue.h"

/* --- from drafts ----------------------------------------------------------------------------------------------------
 */

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

/* Refuses circles among the parents of `at`. A class may be its own parent (that of a wider device). */
static int check_parents(CatalogueReader *reader, const ClassDraft *at, uint8_t *marks, Err *err)
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
            TRY(check_parents(reader, map_get(&reader->class_by_id, at->fault.parents[i]), marks, err));
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
        TRY(check_parents(reader, reader->classes.at[i], marks, err));
    for (size_t i = 0; i < count; i++)
        catalogue->classes[i] = reader->classes.at[i]->fault;
    return 0;
}

/* Fields that the rule does not set come from its class. */
static void inherit_from_class(FaultRule *rule)
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
    inherit_from_class(rule);
    return 0;
}

/* Rules over several codes first, then those of events by kind and code, then those of detectors; else as read. */
static int compare_rules(const void *left, const void *right)
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

/* Drafts into the catalogue: inherits from the class, finds classes, refuses circles among parents. */
static int finish_drafts(CatalogueReader *reader, Catalogue *catalogue, Err *err)
{
    TRY(settle_classes(reader, catalogue, err));
    for (size_t i = 0; i < reader->rules.len; i++)
        TRY(settle_rule(reader, catalogue, reader->rules.at[i], err));
    if (reader->rules.len)
        qsort(reader->rules.at, reader->rules.len, sizeof reader->rules.at[0], compare_rules);
    index_rules(reader, catalogue);
    return 0;
}

/* --- making and looking up ------------------------------------------------------------------------------------------
 */

/* The trees are large and short-lived: blocks of this size come from the kernel and go back to it. */
enum { SCRATCH_BLOCK = 512 * 1024, KEEP_BLOCK = 32 * 1024 };

CLEANUP_POINTER(Catalogue, catalogue_free);

static void reader_done(CatalogueReader *reader)
{
    map_done(&reader->class_by_id);
    map_done(&reader->rule_by_id);
    vec_done(&reader->classes);
    vec_done(&reader->rules);
    vec_done(&reader->texts);
}

static int read_all(CatalogueReader *reader, const YamlNode *const *site, size_t count, Err *err)
{
    for (size_t i = 0; i < catalogue_text_count; i++) {
        const CatalogueText *text = &catalogue_texts[i];
        const YamlNode *root;
        TRY(yaml_load(text->name, text->text, text->len, reader->scratch, &root, err));
        TRY(catalogue_read(reader, root, err));
    }
    for (size_t i = 0; i < count; i++)
        TRY(catalogue_read(reader, site[i], err));
    return 0;
}

int catalogue_new(const YamlNode *const *site, size_t count, const DetectorSpec *detectors, size_t detector_count,
                  Catalogue **ret, Err *err)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = xcalloc(1, sizeof *catalogue);
    CLEANUP(arena_done) Arena scratch = {0};
    CLEANUP(reader_done)
    CatalogueReader reader = {
        .keep = &catalogue->keep, .scratch = &scratch, .detectors = detectors, .detector_count = detector_count};

    arena_init(&scratch, SCRATCH_BLOCK);
    arena_init(&catalogue->keep, KEEP_BLOCK);
    map_init(&reader.class_by_id);
    map_init(&reader.rule_by_id);
    TRY(read_all(&reader, site, count, err));
    TRY(finish_drafts(&reader, catalogue, err));
    catalogue->unknown_xid = catalogue_rule(catalogue, "xid-unknown");
    catalogue->unknown_sxid = catalogue_rule(catalogue, "sxid-unknown");
    *ret = TAKE(catalogue);
    return 0;
}

void catalogue_free(Catalogue *catalogue)
{
    if (!catalogue)
        return;
    arena_done(&catalogue->keep);
    free(catalogue);
}

void catalogue_open_at_once(Catalogue *catalogue)
{
    for (size_t i = 0; i < catalogue->class_count; i++)
        catalogue->classes[i].for_ns = 0;
    for (size_t i = 0; i < catalogue->rule_count; i++)
        catalogue->rules[i].for_ns = 0;
}

size_t catalogue_class_count(const Catalogue *catalogue)
{
    return catalogue->class_count;
}

const FaultClass *catalogue_class_at(const Catalogue *catalogue, size_t i)
{
    return i < catalogue->class_count ? &catalogue->classes[i] : NULL;
}

const FaultClass *catalogue_class(const Catalogue *catalogue, const char *id)
{
    for (size_t i = 0; i < catalogue->class_count; i++)
        if (strcmp(catalogue->classes[i].id, id) == 0)
            return &catalogue->classes[i];
    return NULL;
}

size_t catalogue_rule_count(const Catalogue *catalogue)
{
    return catalogue->rule_count;
}

const FaultRule *catalogue_rule_at(const Catalogue *catalogue, size_t i)
{
    return i < catalogue->rule_count ? &catalogue->rules[i] : NULL;
}

const FaultRule *catalogue_rule(const Catalogue *catalogue, const char *id)
{
    size_t low = 0, high = catalogue->rule_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int side = strcmp(catalogue->rules[catalogue->by_id[middle]].id, id);
        if (side == 0)
            return &catalogue->rules[catalogue->by_id[middle]];
        if (side < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* The weight of a condition that matches. An unknown driver or GPU matches every range, behind rules without one. Since
 * R575 XIDs 144-150 lay out intrInfo anew (the decode sheet of NVIDIA's XID catalogue). */
enum {
    NO_MATCH = -1,
    WORTH_BASE = 16,
    WORTH_CODE = 256,
    WORTH_UNIT = 64,
    WORTH_CONTAINS = 64,
    WORTH_STATUS = 32,
    WORTH_STATUS_WHOLE = 40,
    WORTH_INTR = 24,
    WORTH_WORD = 8,
    WORTH_RANGE = 4,
    WORTH_GUESS = -4,
    INTR_NEW = 575,
};

static int worth_range(uint32_t from, uint32_t below, uint32_t known)
{
    if (!from && !below)
        return 0;
    if (!known)
        return WORTH_GUESS;
    return known >= from && (!below || known < below) ? WORTH_RANGE : NO_MATCH;
}

/* "NETIR_LINK_EVT/NETIR_LINK_DOWN": either. A line that names none is known by its registers. */
static bool unit_is(const char *names, const char *unit)
{
    size_t len = strlen(unit);

    for (const char *at = names; *at; at += strspn(at, "/")) {
        size_t word = strcspn(at, "/");
        if (word == len && strncmp(at, unit, len) == 0)
            return true;
        at += word;
    }
    return false;
}

static bool intr_is(const FaultRule *rule, uint32_t intr, uint32_t driver)
{
    bool old = rule->intr_mask_old && (intr & rule->intr_mask_old) == rule->intr_value_old;
    bool new = rule->intr_mask_new && (intr & rule->intr_mask_new) == rule->intr_value_new;

    if (!driver)
        return old || new;
    return driver < INTR_NEW ? old : new;
}

static int worth_registers(const FaultRule *rule, const Event *event, uint32_t driver)
{
    int worth = 0;

    if (rule->intr_mask_old || rule->intr_mask_new) {
        if (event->register_count < 1 || !intr_is(rule, event->registers[0], driver))
            return NO_MATCH;
        worth += WORTH_INTR;
    }
    if (rule->status_mask) {
        uint32_t status = event->register_count > 1 ? event->registers[1] : 0;
        if (rule->status_whole ? status != rule->status_mask : !(status & rule->status_mask))
            return NO_MATCH;
        worth += rule->status_whole ? WORTH_STATUS_WHOLE : WORTH_STATUS;
    }
    return worth;
}

/* Of what does not stand in the line itself. */
static int worth_place(const FaultRule *rule, uint32_t driver, uint32_t arch)
{
    int of_driver = worth_range(rule->driver_from, rule->driver_below, driver);
    int of_arch = worth_range(rule->arch_from, rule->arch_below, arch);

    if (of_driver == NO_MATCH || of_arch == NO_MATCH)
        return NO_MATCH;
    return WORTH_BASE + of_driver + of_arch + (rule->code_from == rule->code_to && rule->code_from ? WORTH_CODE : 0);
}

static int worth_line(const FaultRule *rule, const Event *event, uint32_t driver)
{
    int worth = 0;

    if (rule->unit[0] && event->unit[0]) {
        if (!unit_is(rule->unit, event->unit))
            return NO_MATCH;
        worth += WORTH_UNIT;
    } else if (rule->unit[0] && !rule->intr_mask_old && !rule->intr_mask_new) {
        return NO_MATCH;
    }
    if (rule->contains[0]) {
        if (!strstr(event->text, rule->contains))
            return NO_MATCH;
        worth += WORTH_CONTAINS;
    }
    if (rule->word != EVENT_NO_WORD) {
        if (rule->word != event->word)
            return NO_MATCH;
        worth += WORTH_WORD;
    }
    int registers = worth_registers(rule, event, driver);
    return registers == NO_MATCH ? NO_MATCH : worth + registers;
}

static bool has_code(const FaultRule *rule, EventKind kind, int32_t code)
{
    if (rule->event != kind)
        return false;
    if (kind != EVENT_XID && kind != EVENT_SXID && !rule->code_from && !rule->code_to)
        return true;
    return code >= rule->code_from && code <= rule->code_to;
}

static int rate_match(const FaultRule *rule, const Event *event, uint32_t driver, uint32_t arch)
{
    int place = has_code(rule, event->kind, event->code) ? worth_place(rule, driver, arch) : NO_MATCH;
    int line = place == NO_MATCH ? NO_MATCH : worth_line(rule, event, driver);

    return line == NO_MATCH ? NO_MATCH : place + line;
}

/* Of two that are worth as much: the newer driver's, then the worse (several bits of a status), then the later read. */
static bool is_better(const FaultRule *rule, int value, const FaultRule *best, int best_value)
{
    if (!best || value != best_value)
        return value > best_value;
    if (rule->driver_from != best->driver_from)
        return rule->driver_from > best->driver_from;
    return rule->severity >= best->severity;
}

/* The first rule of events at or after `kind` and `code`, beyond those over several codes. */
static size_t first_of(const Catalogue *catalogue, EventKind kind, int32_t code)
{
    size_t low = catalogue->wide_count, high = catalogue->event_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const FaultRule *rule = &catalogue->rules[middle];
        if (rule->event < kind || (rule->event == kind && rule->code_from < code))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct Best {
    const FaultRule *rule;
    int value;
    bool by_word; /* only rules that want the line's word; else those over several codes that do are left out */
} Best;

static void try_rules(const Catalogue *catalogue, size_t from, size_t below, const Event *event, uint32_t driver,
                      uint32_t arch, Best *best)
{
    for (size_t i = from; i < below && (i < catalogue->wide_count || catalogue->rules[i].event == event->kind); i++) {
        const FaultRule *rule = &catalogue->rules[i];
        if (i >= catalogue->wide_count && rule->code_from > event->code && rule->code_from)
            break;
        bool words_rule = rule->word != EVENT_NO_WORD;
        if (best->by_word ? !words_rule : words_rule && i < catalogue->wide_count)
            continue;
        int value = rate_match(rule, event, driver, arch);
        if (value != NO_MATCH && is_better(rule, value, best->rule, best->value))
            *best = (Best){rule, value, best->by_word};
    }
}

static const FaultRule *find_by_code(const Catalogue *catalogue, const Event *event, uint32_t driver, uint32_t arch,
                                     bool by_word)
{
    bool numbered = event->kind == EVENT_XID || event->kind == EVENT_SXID;
    Best best = {NULL, NO_MATCH, by_word};

    try_rules(catalogue, 0, catalogue->wide_count, event, driver, arch, &best);
    try_rules(catalogue, first_of(catalogue, event->kind, numbered ? event->code : 0), catalogue->event_count, event,
              driver, arch, &best);
    return best.rule;
}

/* Whether the line's own word differs from the table. */
static bool word_differs(const FaultRule *rule, EventWord word)
{
    if (!rule->fault)
        return false;
    return word == EVENT_FATAL ? rule->severity < SEVERITY_ERROR
                               : word != EVENT_NO_WORD && rule->severity == SEVERITY_FATAL;
}

/* A rule for just this word is better than the table's with its severity bent. */
static const FaultRule *rule_of(const Catalogue *catalogue, const Event *event, uint32_t driver, uint32_t arch)
{
    const FaultRule *rule = find_by_code(catalogue, event, driver, arch, false);

    if (!rule)
        rule = event->kind == EVENT_XID    ? catalogue->unknown_xid
               : event->kind == EVENT_SXID ? catalogue->unknown_sxid
                                           : NULL;
    if (rule && word_differs(rule, event->word)) {
        const FaultRule *other = find_by_code(catalogue, event, driver, arch, true);
        return other ? other : rule;
    }
    return rule;
}

/* The driver says it is worse than the table knows: the class's own words, at the least. */
static void raise_verdict(const FaultClass *fault, FaultVerdict *verdict)
{
    if (verdict->severity >= SEVERITY_ERROR)
        return;
    verdict->severity = SEVERITY_ERROR;
    if (verdict->route < fault->route && !fault->observe)
        verdict->route = fault->route;
    if (verdict->action <= ACTION_WATCH)
        verdict->action = fault->action;
}

/* The line says that the device still works: an action that drains it is lowered. */
static void lower_verdict(FaultSeverity most, FaultVerdict *verdict)
{
    if (verdict->severity <= most)
        return;
    if (verdict->severity == SEVERITY_FATAL) {
        verdict->action = ACTION_WATCH;
        if (verdict->route > ROUTE_TICKET)
            verdict->route = ROUTE_TICKET;
    }
    verdict->severity = most;
}

bool catalogue_judge(const Catalogue *catalogue, const Event *event, uint32_t driver_major, uint32_t arch,
                     FaultVerdict *ret_verdict)
{
    const FaultRule *rule = rule_of(catalogue, event, driver_major, arch);

    if (!rule)
        return false;
    *ret_verdict = (FaultVerdict){
        .rule = rule, .cause = rule->cause, .severity = rule->severity, .action = rule->action, .route = rule->route};
    if (rule->fault && event->word == EVENT_FATAL)
        raise_verdict(rule->fault, ret_verdict);
    else if (rule->fault && event->word == EVENT_NONFATAL)
        lower_verdict(SEVERITY_ERROR, ret_verdict);
    else if (rule->fault && event->word == EVENT_CORRECTABLE)
        lower_verdict(SEVERITY_WARNING, ret_verdict);
    return true;
}

size_t catalogue_find_code(const Catalogue *catalogue, EventKind kind, int32_t code, uint32_t driver_major,
                           const FaultRule **out, size_t cap)
{
    size_t count = 0, kept = 0;
    const FaultRule *first = NULL;
    int first_value = INT_MIN;

    for (size_t i = 0; i < catalogue->event_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];
        if (!has_code(rule, kind, code))
            continue;
        count++;
        int value = worth_place(rule, driver_major, 0) * 2 - (rule->contains[0] || rule->unit[0] || rule->word);
        if (value > first_value || (value == first_value && first && rule->driver_from > first->driver_from)) {
            first = rule;
            first_value = value;
        }
        if (kept < cap)
            out[kept++] = rule;
    }
    for (size_t i = 1; i < kept; i++)
        if (out[i] == first) {
            memmove(out + 1, out, i * sizeof(const FaultRule *));
            out[0] = first;
        }
    return count;
}
