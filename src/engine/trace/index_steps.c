/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the steps are. A thread's outermost "ProfilerStep#N" ranges are steps; repeated and nested ones (the profiler
 * writes some twice) fall away. One lane leads, the one with most of them; another lane's ranges count where they lie
 * outside all of its steps. Without any on the host, the GPU's own annotations of one name are joined over streams.
 * Only where there is none at all, ranges of inference engines (inference.def) count, numbered in their order, and only
 * without these annotations that are called steps by others.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/* ---- names of steps ---- */

/* What steps are called. */

enum { DIGITS_MAX = 15 };

bool trace_is_step_name(const char *name, size_t len)
{
    static const char word[] = "ProfilerStep";

    return len >= sizeof(word) - 1 && memcmp(name, word, sizeof(word) - 1) == 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The last word of what stands before the number, without what joins the two. */
static bool ends_in_step_word(const char *name, size_t len)
{
    static const char *const words[] = {"step", "iteration", "iter", "train", "batch"};
    size_t from;

    while (len > 0 && strchr(" #_-:=", name[len - 1]) && name[len - 1])
        len--;
    for (from = len; from > 0 && is_letter(name[from - 1]);)
        from--;
    if (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (len - from == strlen(words[i]) && strncasecmp(name + from, words[i], len - from) == 0)
            return true;
    return false;
}

/* "step 5", "Iteration #5", "train_step_5", "iter5", "train 5": a word for a step and a number, and nothing behind it.
 * *ret_family: length of what stands before the number. */
static bool trace_is_step_like(const char *name, size_t len, int64_t *ret_number, size_t *ret_family)
{
    size_t from = len;

    while (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9')
        from--;
    if (from == len || len - from > DIGITS_MAX || !ends_in_step_word(name, from))
        return false;
    *ret_number = strtoll(name + from, NULL, 10);
    *ret_family = from;
    return true;
}

/* ---- steps of PyTorch ---- */

static int64_t number_of(const char *name)
{
    const char *mark = strchr(name, '#');

    if (!mark || mark[1] < '0' || mark[1] > '9')
        return -1;
    const int64_t number = strtoll(mark + 1, NULL, 10);

    return number / 10 < INT64_MAX / 10 ? number : -1;
}

static TraceStep step_of(const Profile *profile, const ProfileEvents *table, size_t row, bool on_gpu)
{
    const char *name = profile_text(profile, table->name[row], NULL);

    return (TraceStep){.name = name,
                       .number = number_of(name),
                       .start = table->start[row],
                       .end = profile_end(table, row),
                       .batch = {.sequences = -1, .tokens = -1},
                       .on_gpu = on_gpu};
}

static int by_extent(const void *a_, const void *b_)
{
    const TraceStep *a = a_, *b = b_;
    const int64_t keys[][2] = {
        {a->start, b->start}, {b->end, a->end}, {a->number, b->number}, {strcmp(a->name, b->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
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
static void add_outermost(TraceSteps *steps, TraceStep step)
{
    if (!steps->len || step.end > steps->at[steps->len - 1].end)
        vec_push(steps, step);
}

static bool is_outside_all(const TraceStep *steps, size_t len, const TraceStep *step)
{
    /* the first that ends behind its start; ends rise with starts */
    const size_t at = trace_find_after(&steps->end, sizeof(*steps), 0, len, step->start);

    return at == len || steps[at].start >= step->end;
}

static void steps_of_host(TraceIndex *index, const TraceRows *rows)
{
    const ProfileEvents *host = &index->profile->host;
    uint32_t lead = leading_lane(host, rows);
    TraceSteps *steps = &index->steps, led = {0}, others = {0};

    for (size_t i = 0; i < rows->len; i++) {
        const TraceStep step = step_of(index->profile, host, rows->at[i], false);

        if (host->lane[rows->at[i]] == lead)
            add_outermost(&led, step);
        else
            vec_push(&others, step);
    }
    vec_sort(&others, by_extent);
    for (size_t i = 0; i < others.len; i++)
        if (is_outside_all(led.at, led.len, &others.at[i]))
            add_outermost(steps, others.at[i]);
    for (size_t i = 0; i < led.len; i++)
        vec_push(steps, led.at[i]);
    vec_sort(steps, by_extent);
    vec_done(&led);
    vec_done(&others);
}

static int by_step_name(const void *a_, const void *b_)
{
    const TraceStep *a = a_, *b = b_;
    int order = strcmp(a->name, b->name);

    return order ? order : by_extent(a, b);
}

/* Those of one name become one; the result comes by extent. */
static void join_names(TraceSteps *all)
{
    size_t kept = 0;

    vec_sort(all, by_step_name);
    for (size_t i = 0; i < all->len; i++) {
        TraceStep *last = kept ? &all->at[kept - 1] : NULL;

        if (last && strcmp(last->name, all->at[i].name) == 0)
            last->end = all->at[i].end > last->end ? all->at[i].end : last->end;
        else
            all->at[kept++] = all->at[i];
    }
    all->len = kept;
    vec_sort(all, by_extent);
}

/* GPU annotations of one name, joined. */
static void steps_of_gpu(TraceIndex *index)
{
    const Profile *profile = index->profile;
    const ProfileEvents *mark = &profile->mark;
    TraceSteps all = {0};

    for (size_t row = 0; row < mark->len; row++) {
        size_t len;
        const char *name = profile_text(profile, mark->name[row], &len);

        if (trace_is_step_name(name, len))
            vec_push(&all, step_of(profile, mark, row, true));
    }
    join_names(&all);
    for (size_t i = 0; i < all.len; i++)
        add_outermost(&index->steps, all.at[i]);
    vec_done(&all);
}

/* ---- steps of inference engines ---- */

static void steps_of_inference(TraceIndex *index)
{
    const Profile *profile = index->profile;
    TraceSteps *steps = &index->steps;
    TraceRows rows = {0};
    TraceBatch batch;

    for (uint32_t row = 0; row < profile->host.len; row++)
        if (profile->host.kind[row] == PROFILE_ANNOTATION &&
            trace_read_batch(profile_text(profile, profile->host.name[row], NULL), &batch))
            vec_push(&rows, row);
    steps_of_host(index, &rows);
    for (size_t i = 0; i < steps->len; i++) {
        trace_read_batch(steps->at[i].name, &steps->at[i].batch);
        steps->at[i].number = (int64_t)i;
    }
    vec_done(&rows);
}

/* ---- steps of other names ---- */

typedef struct Like {
    TraceStep step;
    uint32_t lane;
    size_t family; /* bytes of the name before the number */
} Like;

typedef VEC(Like) Likes;

static int by_family(const Like *a, const Like *b)
{
    const int64_t keys[][2] = {{a->lane, b->lane}, {(int64_t)a->family, (int64_t)b->family}};
    const int order = trace_compare(keys, ARRAY_LEN(keys));
    return order ? order : memcmp(a->step.name, b->step.name, a->family);
}

static int by_family_and_extent(const void *a, const void *b)
{
    const int order = by_family(a, b);

    return order ? order : by_extent(&((const Like *)a)->step, &((const Like *)b)->step);
}

/* Annotations of the host with its lanes, or of the GPU as if of one lane and those of one name joined. */
static void find_likes(const TraceIndex *index, const ProfileEvents *table, bool on_gpu, Likes *ret)
{
    const Profile *profile = index->profile;
    TraceSteps steps = {0};
    VEC(uint32_t) lanes = {0};

    for (size_t row = 0; row < table->len; row++) {
        size_t len, family;
        int64_t number;

        if (table->kind[row] != PROFILE_ANNOTATION && table->kind[row] != PROFILE_GPU_ANNOTATION)
            continue;
        const char *text = profile_text(profile, table->name[row], &len);

        if (!trace_is_step_like(text, len, &number, &family))
            continue;
        vec_push(&steps, step_of(profile, table, row, on_gpu));
        vec_push(&lanes, on_gpu ? 0 : table->lane[row]);
    }
    if (on_gpu)
        join_names(&steps);
    for (size_t i = 0; i < steps.len; i++) {
        Like like = {.step = steps.at[i], .lane = lanes.at[i]};

        trace_is_step_like(like.step.name, strlen(like.step.name), &like.step.number, &like.family);
        vec_push(ret, like);
    }
    vec_done(&steps);
    vec_done(&lanes);
    vec_sort(ret, by_family_and_extent);
}

/* Two at least, numbers that go up, and on a thread one behind the other. The time that they cover, 0: no steps. */
static int64_t worth_of(const Like *likes, size_t len)
{
    int64_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        const TraceStep *step = &likes[i].step;

        if (i > 0 && step->number <= likes[i - 1].step.number)
            return 0;
        if (i > 0 && !step->on_gpu && step->start < likes[i - 1].step.end - TRACE_JITTER_NS)
            return 0;
        if (__builtin_add_overflow(sum, step->end - step->start, &sum))
            sum = INT64_MAX;
    }
    return len > 1 ? sum : 0;
}

/* The ranges of one name but for the number that cover most; of equal ones the first. */
static void steps_of_others(TraceIndex *index, const ProfileEvents *table, bool on_gpu)
{
    Likes likes = {0};
    size_t best = 0, best_len = 0;
    int64_t most = 0;

    find_likes(index, table, on_gpu, &likes);
    for (size_t first = 0, last; first < likes.len; first = last) {
        for (last = first + 1; last < likes.len && by_family(&likes.at[first], &likes.at[last]) == 0;)
            last++;
        const int64_t worth = worth_of(&likes.at[first], last - first);

        if (worth > most) {
            most = worth;
            best = first;
            best_len = last - first;
        }
    }
    for (size_t i = best; i < best + best_len; i++)
        vec_push(&index->steps, likes.at[i].step);
    vec_done(&likes);
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
    const TraceSteps *steps = &index->steps;

    if (step_rows->len)
        steps_of_host(index, step_rows);
    else
        steps_of_gpu(index);
    if (!steps->len)
        steps_of_inference(index);
    if (!steps->len)
        steps_of_others(index, &index->profile->host, false);
    if (!steps->len)
        steps_of_others(index, &index->profile->mark, true);
    for (size_t i = 0; i + 1 < steps->len; i++)
        steps->at[i].to = steps->at[i + 1].start;
    if (steps->len)
        steps->at[steps->len - 1].to = last_end(index, &steps->at[steps->len - 1]);
}
