/* SPDX-License-Identifier: Apache-2.0 */
/* Which rule is meant by an event: the most special one that matches. */
#include <limits.h>
#include <string.h>

#include "engine/health/catalogue.h"

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

static int worth_range(FaultRange range, uint32_t known)
{
    if (!range.from && !range.below)
        return 0;
    if (!known)
        return WORTH_GUESS;
    return known >= range.from && (!range.below || known < range.below) ? WORTH_RANGE : NO_MATCH;
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
    bool old = rule->intr_old.mask && (intr & rule->intr_old.mask) == rule->intr_old.value;
    bool new = rule->intr_new.mask && (intr & rule->intr_new.mask) == rule->intr_new.value;

    if (!driver)
        return old || new;
    return driver < INTR_NEW ? old : new;
}

static bool has_registers(const FaultRule *rule)
{
    return rule->intr_old.mask || rule->intr_new.mask;
}

/* Some bits are set, and all of them are in `only`. */
static bool has_only(const Event *event, uint32_t only)
{
    uint32_t others = 0;

    for (uint32_t i = 1; i < event->register_count; i++)
        others |= event->registers[i];
    return event->register_count > 0 && event->registers[0] && !(event->registers[0] & ~only) && !others;
}

static int worth_registers(const FaultRule *rule, const Event *event, uint32_t driver)
{
    const uint32_t status = event->register_count > 1 ? event->registers[1] : 0;

    if ((has_registers(rule) && (event->register_count < 1 || !intr_is(rule, event->registers[0], driver))) ||
        (rule->status_bit && !(status & rule->status_bit)) || (rule->status_is && status != rule->status_is) ||
        (rule->only && !has_only(event, rule->only)))
        return NO_MATCH;
    return (has_registers(rule) ? WORTH_INTR : 0) + (rule->status_bit ? WORTH_STATUS : 0) +
           (rule->status_is ? WORTH_STATUS_WHOLE : 0) + (rule->only ? WORTH_STATUS : 0);
}

/* Of what does not stand in the line itself. */
static int worth_place(const FaultRule *rule, uint32_t driver, uint32_t arch)
{
    int of_driver = worth_range(rule->driver, driver), of_arch = worth_range(rule->arch, arch);

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
    } else if (rule->unit[0] && !has_registers(rule)) {
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
    if (rule->event != kind || rule->remedies)
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
    if (rule->driver.from != best->driver.from)
        return rule->driver.from > best->driver.from;
    return rule->severity >= best->severity;
}

/* `by_word`: only rules that want the line's word; else those over several codes that do are left out. */
static const FaultRule *find_by_code(const Catalogue *catalogue, const Event *event, uint32_t driver, uint32_t arch,
                                     bool by_word)
{
    const FaultRule *best = NULL;
    int best_value = NO_MATCH;

    for (size_t i = 0; i < catalogue->event_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];
        const bool words_rule = rule->word != EVENT_NO_WORD, wide = rule->code_from != rule->code_to;

        if (rule->many || (by_word ? !words_rule : words_rule && wide))
            continue;
        const int value = rate_match(rule, event, driver, arch);
        if (value != NO_MATCH && is_better(rule, value, best, best_value)) {
            best = rule;
            best_value = value;
        }
    }
    return best;
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

bool catalogue_match(const Catalogue *catalogue, const Event *event, uint32_t driver_major, uint32_t arch,
                     FaultVerdict *ret_verdict)
{
    const FaultRule *rule = rule_of(catalogue, event, driver_major, arch);

    if (!rule)
        return false;
    *ret_verdict = fault_verdict(rule);
    if (rule->fault && event->word == EVENT_FATAL)
        raise_verdict(rule->fault, ret_verdict);
    else if (rule->fault && event->word == EVENT_NONFATAL)
        lower_verdict(SEVERITY_ERROR, ret_verdict);
    else if (rule->fault && event->word == EVENT_CORRECTABLE)
        lower_verdict(SEVERITY_WARNING, ret_verdict);
    return true;
}

const FaultRule *catalogue_next_counted(const Catalogue *catalogue, const Event *event, uint32_t driver_major,
                                        uint32_t arch, const FaultRule *after)
{
    for (size_t i = after ? (size_t)(after - catalogue->rules) + 1 : 0; i < catalogue->event_count; i++)
        if (catalogue->rules[i].many && rate_match(&catalogue->rules[i], event, driver_major, arch) != NO_MATCH)
            return &catalogue->rules[i];
    return NULL;
}

const FaultRule *catalogue_next_repeat(const Catalogue *catalogue, const FaultClass *class, const FaultRule *after)
{
    for (size_t i = after ? (size_t)(after - catalogue->rules) + 1 : 0; i < catalogue->event_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];

        if (rule->remedies && rule->enabled && (!rule->fault || rule->fault == class))
            return rule;
    }
    return NULL;
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
        if (value > first_value || (value == first_value && first && rule->driver.from > first->driver.from)) {
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
