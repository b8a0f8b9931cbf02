/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules have in common: names, hints, times and gaps in words. */
#include "engine/trace/verdict.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/tables.h"

const char *verdict_shorten_name(char out[VERDICT_NAME_ROOM], const char *name)
{
    size_t len = strlen(name);

    if (len <= VERDICT_NAME_BYTES)
        return name;
    for (len = VERDICT_NAME_BYTES; len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80; len--)
        ;
    snprintf(out, VERDICT_NAME_ROOM, "%.*s...", (int)len, name);
    return out;
}

const char *verdict_spell_word(char out[VERDICT_NAME_ROOM], const char *word)
{
    snprintf(out, VERDICT_NAME_ROOM, "%s", word);
    for (char *c = out; *c; c++)
        if (*c == '_')
            *c = ' ';
    return out;
}

double verdict_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Whether calls are of CUDA's or HIP's runtime or driver; without calls it is not known otherwise. */
static bool is_cuda_or_hip(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->calls.len; i++)
        if (strncmp(rank->calls.at[i].name, "cu", 2) == 0 || strncmp(rank->calls.at[i].name, "hip", 3) == 0)
            return true;
    return rank->calls.len == 0;
}

VerdictPlatform verdict_platform(const TraceRank *rank)
{
    if (strcmp(rank->framework, "xla") == 0)
        return PLATFORM_XLA;
    if (strcmp(rank->framework, "nsys") == 0 || strcmp(rank->framework, "rocprofv3") == 0 || !is_cuda_or_hip(rank))
        return PLATFORM_PLAIN;
    return rank->rocm ? PLATFORM_ROCM : PLATFORM_TORCH;
}

const char *verdict_advice(VerdictId id, VerdictPlatform platform)
{
    static const struct {
        VerdictPlatform platform;
        VerdictId id;
        const char *text;
    } others[] = {
#define ADVICE(platform, NAME, text) {PLATFORM_##platform, VERDICT_##NAME, text},
#include "engine/trace/verdict.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (others[i].platform == platform && others[i].id == id)
            return others[i].text;
    return verdict_rules[id].advice;
}

void verdict_add_hint(VerdictFinding *finding, VerdictHint hint)
{
    static const char *const texts[VERDICT_HINT_COUNT] = {
#define HINT(NAME, text) [VERDICT_HINT_##NAME] = text,
#include "engine/trace/verdict.def"
    };

    static const bool anywhere[VERDICT_HINT_COUNT] = {
#define ANYWHERE(NAME) [VERDICT_HINT_##NAME] = true,
#include "engine/trace/verdict.def"
    };

    if (finding->platform >= PLATFORM_XLA && !anywhere[hint])
        return;
    str_addf(&finding->hints, "%s%s", finding->hints.len > 0 ? " " : "", texts[hint]);
}

void verdict_add_time(const TraceFacts *facts, VerdictFinding *finding, const char *what, double ns)
{
    str_addf(&finding->evidence, "%s%s of %s%s (%.1f %%)", what, TIME_TEXT(ns), facts->steps > 0 ? "a step of " : "",
             TIME_TEXT(facts->step_ns), verdict_percent(ns, facts->step_ns));
}

void verdict_add_cost(const TraceFacts *facts, VerdictFinding *finding, const char *what)
{
    verdict_add_time(facts, finding, what, finding->cost_ns);
}

bool verdict_begin_name(Str *out, size_t *said, const char *first)
{
    if ((double)*said >= verdict_limits.NAMED)
        return false;
    str_add(out, (*said)++ == 0 ? first : ", ");
    return true;
}

/* Times by name, the largest first. */
typedef struct NameTime {
    const char *name;
    int64_t ns, count;
} NameTime;

static int by_time(const void *a, const void *b)
{
    const NameTime *x = a, *y = b;
    const int64_t keys[][2] = {{y->ns, x->ns}, {strcmp(x->name, y->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

void verdict_add_gaps(Str *out, const TraceFacts *facts, TraceCause cause)
{
    CLEANUP(map_done) Map rows;
    VEC(NameTime) names = {0};
    TraceIdleCursor cursor = {0};
    size_t said = 0;

    map_init(&rows);
    for (const TraceGap *gap; (gap = trace_next_idle(facts->rank, &cursor));) {
        if (!*gap->host || gap->cause != cause || verdict_gap_ns(facts, gap, cause) == 0)
            continue;
        const size_t row = trace_number_of(&rows, gap->host);

        if (row == names.len)
            vec_push(&names, ((NameTime){.name = gap->host}));
        names.at[row].ns = trace_sum(names.at[row].ns, gap->host_ns);
        names.at[row].count++;
    }
    vec_sort(&names, by_time);
    for (size_t i = 0; i < names.len && verdict_begin_name(out, &said, "; in the gaps the host was in "); i++)
        str_addf(out, "%s (%s in %lld gap%s)", NAME_TEXT(names.at[i].name), TIME_TEXT(names.at[i].ns),
                 (long long)names.at[i].count, names.at[i].count == 1 ? "" : "s");
    vec_done(&names);
}

int64_t verdict_memory_peak(const TraceMemoryDevice *memory)
{
    if (memory->device < 0 || memory->capacity_bytes <= 0 || !memory->totals)
        return -1;
    return memory->peak_reserved >= 0 ? memory->peak_reserved : memory->peak_allocated;
}
