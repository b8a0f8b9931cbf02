/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the steps are. A thread's outermost "ProfilerStep#N" ranges are steps; repeated and nested ones (the profiler
 * writes some twice) fall away. One lane leads, the one with most of them; another lane's ranges count where they lie
 * outside all of its steps. Without any on the host, the GPU's own annotations of one name are joined over streams.
 * Only where there is none at all, annotations that are called steps by others count.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/index.h"

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
    int64_t number = 0;

    while (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9')
        from--;
    if (from == len || len - from > DIGITS_MAX || !ends_in_step_word(name, from))
        return false;
    for (size_t i = from; i < len; i++)
        number = number * 10 + (name[i] - '0');
    *ret_number = number;
    *ret_family = from;
    return true;
}

/* ---- steps of PyTorch ---- */

typedef VEC(TraceStep) Steps;

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

/* Those of one name become one; the result comes by extent. */
static void join_names(Steps *all)
{
    size_t kept = 0;

    if (all->len)
        qsort(all->at, all->len, sizeof(*all->at), by_step_name);
    for (size_t i = 0; i < all->len; i++) {
        TraceStep *last = kept ? &all->at[kept - 1] : NULL;

        if (last && strcmp(last->name, all->at[i].name) == 0)
            last->end = all->at[i].end > last->end ? all->at[i].end : last->end;
        else
            all->at[kept++] = all->at[i];
    }
    all->len = kept;
    if (kept)
        qsort(all->at, kept, sizeof(*all->at), by_extent);
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
    join_names(&all);
    for (size_t i = 0; i < all.len; i++)
        add_outermost(steps, all.at[i]);
    vec_done(&all);
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
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    return memcmp(a->step.name, b->step.name, a->family);
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
    Steps steps = {0};
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
    if (ret->len)
        qsort(ret->at, ret->len, sizeof(*ret->at), by_family_and_extent);
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
static void steps_of_others(const TraceIndex *index, const ProfileEvents *table, bool on_gpu, Steps *steps)
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
        vec_push(steps, likes.at[i].step);
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
    Steps steps = {0};

    if (step_rows->len)
        steps_of_host(index, step_rows, &steps);
    else
        steps_of_gpu(index, &steps);
    if (!steps.len)
        steps_of_others(index, &index->profile->host, false, &steps);
    if (!steps.len)
        steps_of_others(index, &index->profile->mark, true, &steps);
    for (size_t i = 0; i + 1 < steps.len; i++)
        steps.at[i].to = steps.at[i + 1].start;
    if (steps.len)
        steps.at[steps.len - 1].to = last_end(index, &steps.at[steps.len - 1]);
    index->steps.at = steps.at;
    index->steps.len = steps.len;
    index->steps.cap = steps.cap;
}
