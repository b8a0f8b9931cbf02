/* SPDX-License-Identifier: Apache-2.0 */
/* The chosen window of time, and the events in it. */
#include "engine/trace/pick.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "base/str.h"
#include "engine/trace/index.h"

bool trace_ask_some(const TraceAsk *ask)
{
    return ask->from.given || ask->to.given || ask->step || ask->streams.len > 0 || ask->devices.len > 0 ||
           ask->no_host || ask->no_python;
}

static bool has_window(const TraceAsk *ask)
{
    return ask->from.given || ask->to.given || ask->step;
}

/* The first event of the GPU or of a host thread. */
static int64_t first_event(const Profile *profile)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    trace_widen(&profile->gpu, &first, &last);
    trace_widen(&profile->host, &first, &last);
    return first == INT64_MAX ? 0 : first;
}

static bool step_meant(const char *word, const TraceNumbers *numbers, const TraceStep *step, bool last)
{
    if (strcmp(word, "last") == 0)
        return last;
    return strcmp(word, step->name) == 0 || (numbers->len > 0 && trace_numbers_has(numbers, step->number));
}

static int no_step(const char *word, const TraceIndex *index, Err *err)
{
    if (index->steps.len == 0)
        return err_set(
            err, -ENOENT,
            "there is no step '%s': the profile has no steps (ProfilerStep ranges, or others named as steps)", word);
    return err_set(err, -ENOENT, "there is no step '%s'; the profile has %zu, from '%.60s' to '%.60s'", word,
                   index->steps.len, index->steps.at[0].name, index->steps.at[index->steps.len - 1].name);
}

/* Narrows the window to the steps that are meant. */
static int pick_steps(TracePick *pick, const Profile *profile, Err *err)
{
    const char *word = pick->ask->step;
    TraceNumbers numbers = {0};
    TraceIndex index;
    int64_t from = INT64_MAX, to = INT64_MIN;
    int rc = 0;

    trace_numbers_parse(word, "--step", &numbers, NULL); /* a name leaves the set empty */
    trace_index_init(&index, profile, 1);
    for (size_t i = 0; i < index.steps.len; i++) {
        const TraceStep *step = &index.steps.at[i];
        if (!step_meant(word, &numbers, step, i + 1 == index.steps.len))
            continue;
        from = step->start < from ? step->start : from;
        to = step->to > to ? step->to : to;
    }
    if (from == INT64_MAX)
        rc = no_step(word, &index, err);
    trace_index_done(&index);
    if (rc < 0)
        return rc;
    pick->from = from > pick->from ? from : pick->from;
    pick->to = to < pick->to ? to : pick->to;
    return 0;
}

static int compare_links(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

bool trace_pick_link(const TracePick *pick, uint32_t link)
{
    return link && pick->links.len > 0 &&
           bsearch(&link, pick->links.at, pick->links.len, sizeof link, compare_links) != NULL;
}

static bool lane_meant(const TracePick *pick, int32_t device, int64_t stream)
{
    return (device < 0 || trace_numbers_has(&pick->ask->devices, device)) &&
           (stream < 0 || trace_numbers_has(&pick->ask->streams, stream));
}

static void collect_links(TracePick *pick, const Profile *profile)
{
    const ProfileEvents *gpu = &profile->gpu;

    for (size_t i = 0; i < gpu->len; i++) {
        const ProfileLane *lane = &profile->lanes.at[gpu->lane[i]];
        if (gpu->link[i] && trace_pick_moment(pick, gpu->start[i]) && lane_meant(pick, lane->device, lane->tid))
            vec_push(&pick->links, gpu->link[i]);
    }
    vec_sort(&pick->links, compare_links);
}

int trace_pick_init(TracePick *pick, const TraceAsk *ask, const Profile *profile, Err *err)
{
    TracePick made = {.ask = ask, .from = INT64_MIN, .to = INT64_MAX};
    int64_t zero = ask->from.relative || ask->to.relative ? first_event(profile) : 0;

    if (ask->from.given)
        made.from = ask->from.ns + (ask->from.relative ? zero : 0);
    if (ask->to.given)
        made.to = ask->to.ns + (ask->to.relative ? zero : 0);
    if (ask->step)
        TRY(pick_steps(&made, profile, err));
    if (has_window(ask))
        collect_links(&made, profile);
    *pick = made;
    return 0;
}

void trace_pick_done(TracePick *pick)
{
    vec_done(&pick->links);
}

bool trace_pick_moment(const TracePick *pick, int64_t start)
{
    return start >= pick->from && start < pick->to;
}

static bool touches_window(const TracePick *pick, int64_t start, int64_t duration)
{
    return start < pick->to && (start >= pick->from || start + duration > pick->from);
}

bool trace_pick_event(const TracePick *pick, const TracePicked *event)
{
    if (event->kind <= PROFILE_SET)
        return trace_pick_moment(pick, event->start) && lane_meant(pick, event->device, event->stream);
    if (event->kind == PROFILE_GPU_ANNOTATION)
        return touches_window(pick, event->start, event->duration) && lane_meant(pick, event->device, event->stream);
    if (pick->ask->no_host && event->kind != PROFILE_ANNOTATION)
        return false;
    if (pick->ask->no_python && event->kind == PROFILE_PYTHON)
        return false;
    return touches_window(pick, event->start, event->duration) ||
           (event->kind == PROFILE_CALL && trace_pick_link(pick, event->link));
}

static bool keep_row(void *context, const Profile *profile, const ProfileEvents *table, size_t row)
{
    const TracePick *pick = context;
    const ProfileLane *lane = &profile->lanes.at[table->lane[row]];

    return trace_pick_event(pick, &(TracePicked){.kind = (ProfileKind)table->kind[row],
                                                 .start = table->start[row],
                                                 .duration = table->duration[row],
                                                 .link = table->link[row],
                                                 .device = lane->gpu ? lane->device : -1,
                                                 .stream = lane->gpu ? lane->tid : -1});
}

void trace_pick_apply(const TracePick *pick, Profile *profile)
{
    size_t kept = 0;

    profile_filter(profile, keep_row, (void *)(uintptr_t)pick);
    for (size_t i = 0; i < profile->syncs.len; i++) {
        const ProfileSync *sync = &profile->syncs.at[i];
        if (touches_window(pick, sync->start, sync->duration) && lane_meant(pick, sync->device, sync->stream))
            profile->syncs.at[kept++] = *sync;
    }
    profile->syncs.len = kept;
    kept = 0;
    for (size_t i = 0; i < profile->memory.len; i++) {
        const ProfileMemory *memory = &profile->memory.at[i];
        if (trace_pick_moment(pick, memory->start))
            profile->memory.at[kept++] = *memory;
    }
    profile->memory.len = kept;
}

static void add_numbers(Str *out, const char *what, const TraceNumbers *numbers)
{
    for (size_t i = 0; i < numbers->len; i++) {
        str_addf(out, "%s%s%" PRId64, i ? "," : out->len ? ", " : "", i ? "" : what, numbers->first[i]);
        if (numbers->last[i] > numbers->first[i])
            str_addf(out, "-%" PRId64, numbers->last[i]);
    }
}

static void add_moment(Str *out, const char *what, const TraceMoment *moment)
{
    char span[DURATION_TEXT_MAX];

    if (!moment->given)
        return;
    str_addf(out, "%s%s", out->len ? ", " : "", what);
    if (!moment->relative) {
        str_addf(out, "%" PRId64 " ns", moment->ns);
        return;
    }
    duration_format(span, (uint64_t)moment->ns);
    str_add(out, span);
}

void trace_ask_words(const TraceAsk *ask, char *room, size_t size)
{
    Str out;

    str_init_room(&out, room, size);
    if (ask->step)
        str_addf(&out, "step %s", ask->step);
    add_moment(&out, "from ", &ask->from);
    add_moment(&out, "to ", &ask->to);
    add_numbers(&out, "rank ", &ask->ranks);
    add_numbers(&out, "device ", &ask->devices);
    add_numbers(&out, "stream ", &ask->streams);
    if (ask->no_host || ask->no_python)
        str_addf(&out, "%swithout %s", out.len ? ", " : "", ask->no_host ? "CPU events" : "Python functions");
}

/* ---- sets of numbers and moments from text ---- */

static const int64_t moment_max = INT64_C(1) << 61; /* as the scanner's */

/* Reads digits into *ret; returns what follows, NULL where there are none or too many. Times since 1970 have 19. */
static const char *read_digits(const char *at, int64_t *ret)
{
    const size_t n = strspn(at, "0123456789");
    uint64_t value;

    if (number_parsen_u64(at, n, 0, (uint64_t)moment_max, &value, NULL) < 0)
        return NULL;
    *ret = (int64_t)value;
    return at + n;
}

int trace_numbers_parse(const char *text, const char *what, TraceNumbers *ret, Err *err)
{
    TraceNumbers numbers = {0};

    for (const char *at = text; at;) {
        int64_t first = 0, last;
        const char *end = read_digits(at, &first);
        last = first;
        if (end && *end == '-')
            end = read_digits(end + 1, &last);
        if (!end || (*end && *end != ',') || last < first)
            return err_set(err, -EINVAL, "%s: '%s' is no number, range (3-7) or list of these (0,4-6)", what, text);
        if (numbers.len == TRACE_RANGES_MAX)
            return err_set(err, -EINVAL, "%s: more than %d ranges", what, TRACE_RANGES_MAX);
        numbers.first[numbers.len] = first;
        numbers.last[numbers.len++] = last;
        at = *end ? end + 1 : NULL;
    }
    *ret = numbers;
    return 0;
}

bool trace_numbers_has(const TraceNumbers *numbers, int64_t number)
{
    for (size_t i = 0; i < numbers->len; i++)
        if (number >= numbers->first[i] && number <= numbers->last[i])
            return true;
    return numbers->len == 0;
}

/* "1.5s": a decimal number and one unit. False where it is something else. */
static bool read_decimal_time(const char *text, int64_t *ret)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    const size_t len = strspn(text, "0123456789.");
    char *end;
    const long double number = strtold(text, &end);

    for (size_t i = 0; end == text + len && text[0] != '.' && i < ARRAY_LEN(units); i++)
        if (strcmp(end, units[i].name) == 0 && number * (long double)units[i].ns <= (long double)moment_max) {
            *ret = llroundl(number * (long double)units[i].ns);
            return true;
        }
    return false;
}

int trace_moment_parse(const char *text, const char *what, TraceMoment *ret, Err *err)
{
    bool minus = text && text[0] == '-';
    uint64_t span;
    int64_t ns;

    if (!text) {
        *ret = (TraceMoment){0};
        return 0;
    }
    const char *rest = read_digits(text + minus, &ns);
    if (rest && !*rest)
        *ret = (TraceMoment){.given = true, .ns = minus ? -ns : ns};
    else if (read_decimal_time(text, &ns))
        *ret = (TraceMoment){.given = true, .relative = true, .ns = ns};
    else if (duration_parse(text, &span, NULL) == 0 && span < (uint64_t)moment_max)
        *ret = (TraceMoment){.given = true, .relative = true, .ns = (int64_t)span};
    else
        return err_set(err, -EINVAL,
                       "%s: '%s' is no time; give one after the profile's first event, such as 1.5s or 200ms, or "
                       "nanoseconds of the profile's own clock as a whole number",
                       what, text);
    return 0;
}
