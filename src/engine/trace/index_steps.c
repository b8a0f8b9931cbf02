/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where the steps are. A thread's outermost "ProfilerStep#N" ranges are steps; repeated and nested ones (the profiler
 * writes some twice) fall away. One lane leads, the one with most of them; another lane's ranges count where they lie
 * outside all of its steps. Without any on the host, the GPU's own annotations of one name are joined over streams.
 */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/index_inside.h"

static const char step_word[] = "ProfilerStep";

typedef VEC(TraceStep) Steps;

bool trace_is_step_name(const char *name, size_t len)
{
    return len >= sizeof(step_word) - 1 && memcmp(name, step_word, sizeof(step_word) - 1) == 0;
}

static int64_t number_of(const char *name)
{
    const char *digits = strchr(name, '#');
    int64_t number = 0;

    if (!digits || digits[1] < '0' || digits[1] > '9')
        return -1;
    for (digits++; *digits >= '0' && *digits <= '9'; digits++) {
        if (number > INT64_MAX / 10 - 1)
            return -1;
        number = number * 10 + (*digits - '0');
    }
    return number;
}

static TraceStep step_of(const Profile *profile, const ProfileEvents *table, size_t row, bool on_gpu)
{
    const char *name = profile_text(profile, table->name[row], NULL);

    return (TraceStep){.name = name,
                       .number = number_of(name),
                       .start = table->start[row],
                       .end = profile_end(table, row),
                       .on_gpu = on_gpu};
}

static int by_extent(const void *a_, const void *b_)
{
    const TraceStep *a = a_, *b = b_;

    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->end != b->end)
        return a->end > b->end ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The lane with most step rows, the first of equals. Rows are ordered by lane. */
static uint32_t leading_lane(const ProfileEvents *host, const TraceRows *rows)
{
    uint32_t best = PROFILE_NONE;
    size_t most = 0;

    for (size_t i = 0, first = 0; i < rows->len; i++) {
        if (host->lane[rows->at[i]] != host->lane[rows->at[first]])
            first = i;
        if (i - first + 1 > most) {
            most = i - first + 1;
            best = host->lane[rows->at[i]];
        }
    }
    return best;
}

/* Appends a step that comes by start, unless it lies in the one before it. */
static void add_outermost(Steps *steps, TraceStep step)
{
    if (!steps->len || step.end > steps->at[steps->len - 1].end)
        vec_push(steps, step);
}

static bool is_outside_all(const Steps *steps, const TraceStep *step)
{
    size_t from = 0, to = steps->len;

    while (from < to) { /* the first that ends behind its start; ends rise with starts */
        size_t middle = from + (to - from) / 2;

        if (steps->at[middle].end <= step->start)
            from = middle + 1;
        else
            to = middle;
    }
    return from == steps->len || steps->at[from].start >= step->end;
}

static void steps_of_host(TraceIndex *index, const TraceRows *rows, Steps *steps)
{
    const ProfileEvents *host = &index->profile->host;
    uint32_t lead = leading_lane(host, rows);
    Steps others = {0};
    size_t led;

    for (size_t i = 0; i < rows->len; i++)
        if (host->lane[rows->at[i]] == lead)
            add_outermost(steps, step_of(index->profile, host, rows->at[i], false));
    led = steps->len;
    for (size_t i = 0; i < rows->len; i++)
        if (host->lane[rows->at[i]] != lead)
            vec_push(&others, step_of(index->profile, host, rows->at[i], false));
    if (others.len) {
        Steps more = {0};

        qsort(others.at, others.len, sizeof(*others.at), by_extent);
        for (size_t i = 0; i < others.len; i++)
            if (is_outside_all(steps, &others.at[i]))
                add_outermost(&more, others.at[i]);
        for (size_t i = 0; i < more.len; i++)
            vec_push(steps, more.at[i]);
        vec_done(&more);
    }
    if (steps->len > led)
        qsort(steps->at, steps->len, sizeof(*steps->at), by_extent);
    vec_done(&others);
}

static int by_step_name(const void *a_, const void *b_)
{
    const TraceStep *a = a_, *b = b_;
    int order = strcmp(a->name, b->name);

    return order ? order : by_extent(a, b);
}

/* GPU annotations of one name, joined. */
static void steps_of_gpu(TraceIndex *index, Steps *steps)
{
    const Profile *profile = index->profile;
    const ProfileEvents *mark = &profile->mark;
    Steps all = {0};

    for (size_t row = 0; row < mark->len; row++) {
        size_t len;
        const char *name = profile_text(profile, mark->name[row], &len);

        if (trace_is_step_name(name, len))
            vec_push(&all, step_of(profile, mark, row, true));
    }
    if (all.len)
        qsort(all.at, all.len, sizeof(*all.at), by_step_name);
    for (size_t i = 0, kept = 0; i < all.len; i++) {
        TraceStep *last = kept ? &all.at[kept - 1] : NULL;

        if (last && strcmp(last->name, all.at[i].name) == 0)
            last->end = all.at[i].end > last->end ? all.at[i].end : last->end;
        else
            all.at[kept++] = all.at[i];
        if (i + 1 == all.len) {
            qsort(all.at, kept, sizeof(*all.at), by_extent);
            for (size_t k = 0; k < kept; k++)
                add_outermost(steps, all.at[k]);
        }
    }
    vec_done(&all);
}

/* The end of the last operation that began to be launched in the step (or, of a GPU's step, that starts in it). */
static int64_t last_end(const TraceIndex *index, const TraceStep *step)
{
    const ProfileEvents *gpu = &index->profile->gpu, *host = &index->profile->host;
    int64_t last = step->end;

    for (size_t row = 0; row < gpu->len; row++) {
        uint32_t call = index->launch[row];
        int64_t begun = step->on_gpu ? gpu->start[row] : call == PROFILE_NONE ? INT64_MIN : host->start[call];

        if (begun >= step->start && begun < step->end && profile_end(gpu, row) > last)
            last = profile_end(gpu, row);
    }
    return last;
}

void trace_index_steps(TraceIndex *index, const TraceRows *step_rows)
{
    Steps steps = {0};

    if (step_rows->len)
        steps_of_host(index, step_rows, &steps);
    else
        steps_of_gpu(index, &steps);
    for (size_t i = 0; i + 1 < steps.len; i++)
        steps.at[i].to = steps.at[i + 1].start;
    if (steps.len)
        steps.at[steps.len - 1].to = last_end(index, &steps.at[steps.len - 1]);
    index->steps.at = steps.at;
    index->steps.len = steps.len;
    index->steps.cap = steps.cap;
}
