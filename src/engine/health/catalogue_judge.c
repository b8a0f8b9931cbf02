/* SPDX-License-Identifier: Apache-2.0 */
/* From an event to its rule, the most special one that matches, and what the driver's own word makes of it. */
#include <limits.h>
#include <string.h>

#include "engine/health/catalogue_inside.h"

/* What a condition is worth that holds. What is not known of driver or GPU lets every range pass, but behind rules that
 * have none. Since R575 XIDs 144-150 lay out intrInfo anew (the decode sheet of NVIDIA's XID catalogue). */
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

static int worth(const FaultRule *rule, const Event *event, uint32_t driver, uint32_t arch)
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
        int value = worth(rule, event, driver, arch);
        if (value != NO_MATCH && is_better(rule, value, best->rule, best->value))
            *best = (Best){rule, value, best->by_word};
    }
}

static const FaultRule *find(const Catalogue *catalogue, const Event *event, uint32_t driver, uint32_t arch,
                             bool by_word)
{
    bool numbered = event->kind == EVENT_XID || event->kind == EVENT_SXID;
    Best best = {NULL, NO_MATCH, by_word};

    try_rules(catalogue, 0, catalogue->wide_count, event, driver, arch, &best);
    try_rules(catalogue, first_of(catalogue, event->kind, numbered ? event->code : 0), catalogue->event_count, event,
              driver, arch, &best);
    return best.rule;
}

/* Whether the line's own word is another verdict than the table's. */
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
    const FaultRule *rule = find(catalogue, event, driver, arch, false);

    if (!rule)
        rule = event->kind == EVENT_XID    ? catalogue->unknown_xid
               : event->kind == EVENT_SXID ? catalogue->unknown_sxid
                                           : NULL;
    if (rule && word_differs(rule, event->word)) {
        const FaultRule *other = find(catalogue, event, driver, arch, true);
        return other ? other : rule;
    }
    return rule;
}

/* The driver says it is worse than the table knows: the class's own words, at the least. */
static void raise(const FaultClass *fault, FaultVerdict *verdict)
{
    if (verdict->severity >= SEVERITY_ERROR)
        return;
    verdict->severity = SEVERITY_ERROR;
    if (verdict->route < fault->route && !fault->observe)
        verdict->route = fault->route;
    if (verdict->action <= ACTION_WATCH)
        verdict->action = fault->action;
}

/* It says that the device goes on: nothing that takes it out of work. */
static void calm(FaultSeverity most, FaultVerdict *verdict)
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
        raise(rule->fault, ret_verdict);
    else if (rule->fault && event->word == EVENT_NONFATAL)
        calm(SEVERITY_ERROR, ret_verdict);
    else if (rule->fault && event->word == EVENT_CORRECTABLE)
        calm(SEVERITY_WARNING, ret_verdict);
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
