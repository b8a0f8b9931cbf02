/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTA's search for stragglers: of the last long NCCL kernel of each (rank, stream, step, name), those of the stream and
 * name whose durations differ most over ranks; the ranks that start latest in a step are counted. Clocks of ranks are
 * taken as equal.
 */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"

static const double MIN_SHARE = 0.01;

typedef struct Step {
    int64_t start, end, number;
    uint32_t row;
} Step;

typedef VEC(Step) Steps;

/* The last long kernel of its kind. */
typedef struct Last {
    const char *name;
    int64_t rank, stream, step, start, duration;
    uint32_t row;
} Last;

typedef VEC(Last) Lasts;

typedef struct Span {
    bool any;
    int64_t first, end;
} Span;

/* ---- steps ---- */

static bool step_number(const char *name, int64_t *ret)
{
    long long number;

    if (sscanf(name, "ProfilerStep # %18lld", &number) != 1 || number < 0)
        return false;
    *ret = number;
    return true;
}

static void read_steps(const HtaFrame *frame, Steps *ret)
{
    for (size_t i = 0; i < frame->rows->rows.len; i++) {
        const HtaRow *row = &frame->rows->rows.at[i];
        Step step = {.start = row->start, .end = hta_end(row), .row = (uint32_t)i};

        if (row->flags & HTA_STEP && step_number(hta_name(frame->rows, row), &step.number))
            vec_push(ret, step);
    }
}

static int by_number(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return left < right ? -1 : left > right;
}

typedef VEC(int64_t) Sorted;

static void sort_unique(Sorted *numbers)
{
    size_t kept = 0;

    if (numbers->len)
        qsort(numbers->at, numbers->len, sizeof *numbers->at, by_number);
    for (size_t i = 0; i < numbers->len; i++)
        if (i == 0 || numbers->at[i] != numbers->at[i - 1])
            numbers->at[kept++] = numbers->at[i];
    numbers->len = kept;
}

/* How many are at or before `number`. */
static size_t rank_of(const Sorted *numbers, int64_t number)
{
    size_t low = 0, high = numbers->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (numbers->at[middle] <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Between two neighbouring borders of steps a time has one answer: the last step in the file that holds it. */
typedef struct Borders {
    Sorted at;
    int64_t *number; /* from at[i] on; -1 none */
    bool *seen;      /* some row starts there */
} Borders;

/* The first piece from i on that has no number yet. */
static size_t free_piece(size_t *next, size_t i)
{
    size_t root = i;

    while (next[root] != root)
        root = next[root];
    while (next[i] != root) {
        size_t up = next[i];
        next[i] = root;
        i = up;
    }
    return root;
}

static void make_borders(const Steps *steps, Borders *ret)
{
    CLEANUP_FREE size_t *next = NULL;
    size_t count;

    for (size_t i = 0; i < steps->len; i++) {
        vec_push(&ret->at, steps->at[i].start);
        vec_push(&ret->at, steps->at[i].end);
    }
    sort_unique(&ret->at);
    count = ret->at.len;
    ret->number = xmalloc((count + 1) * sizeof *ret->number);
    ret->seen = xcalloc(count + 1, sizeof *ret->seen);
    next = xmalloc((count + 1) * sizeof *next);
    for (size_t i = 0; i <= count; i++) {
        ret->number[i] = -1;
        next[i] = i;
    }
    for (size_t k = steps->len; k-- > 0;) {
        const Step *step = &steps->at[k];
        if (step->end <= step->start)
            continue;
        size_t end = rank_of(&ret->at, step->end) - 1;
        for (size_t i = free_piece(next, rank_of(&ret->at, step->start) - 1); i < end; i = free_piece(next, i)) {
            ret->number[i] = step->number;
            next[i] = i + 1;
        }
    }
}

/* Leaves those steps alone that are in `valid`. */
static void keep_valid(Borders *borders, const Sorted *valid)
{
    for (size_t i = 0; i < borders->at.len; i++) {
        size_t rank = rank_of(valid, borders->number[i]);
        if (rank == 0 || valid->at[rank - 1] != borders->number[i])
            borders->number[i] = -1;
    }
}

/* The piece that holds a time, SIZE_MAX none. */
static size_t piece_at(const Borders *borders, int64_t time)
{
    size_t rank = rank_of(&borders->at, time);

    return rank && borders->number[rank - 1] >= 0 ? rank - 1 : SIZE_MAX;
}

/* The piece of a row's iteration as HTA has it: of its own start on the host, of its call's on a stream above 0; none
 * on stream 0. */
static size_t iteration(const HtaFrame *frame, const Borders *borders, uint32_t row)
{
    const HtaRow *of = &frame->rows->rows.at[row], *call;

    if (of->stream < 0 || (of->stream == 0 && of->flags & HTA_CPU_OP))
        return piece_at(borders, of->start);
    if (of->stream == 0 || !hta_linked(frame, row))
        return SIZE_MAX;
    call = &frame->rows->rows.at[frame->partner[row]];
    return call->stream < 0 ? piece_at(borders, call->start) : SIZE_MAX;
}

/* ---- rows of the steps ---- */

static void see_row(Span *span, const HtaRow *row, Borders *borders, size_t piece)
{
    if (piece == SIZE_MAX)
        return;
    span->first = !span->any || row->start < span->first ? row->start : span->first;
    span->end = !span->any || hta_end(row) > span->end ? hta_end(row) : span->end;
    span->any = true;
    borders->seen[piece] = true;
}

static void see_rows(const HtaFrame *frame, Borders *borders, Span *span)
{
    for (size_t i = 0; i < frame->rows->rows.len; i++) {
        const HtaRow *row = &frame->rows->rows.at[i];

        if (hta_kept_host(frame, row))
            see_row(span, row, borders, piece_at(borders, row->start));
    }
    for (size_t i = 0; i < frame->gpu.len; i++)
        see_row(span, hta_gpu(frame, i), borders, iteration(frame, borders, frame->gpu.at[i]));
}

static void add_lasts(const HtaFrame *frame, const Borders *borders, double shortest, Lasts *ret)
{
    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);
        const char *name = hta_name(frame->rows, row);
        size_t piece;

        if (row->stream <= 0 || (double)row->duration < shortest || strncmp(name, "ncclKernel", 10) != 0)
            continue;
        piece = iteration(frame, borders, frame->gpu.at[i]);
        if (piece != SIZE_MAX && borders->number[piece] > 0)
            vec_push(ret, ((Last){name, frame->rows->rank, row->stream, borders->number[piece], row->start,
                                  row->duration, frame->gpu.at[i]}));
    }
}

static int by_kind(const Last *left, const Last *right)
{
    int order;

    if (left->stream != right->stream)
        return left->stream < right->stream ? -1 : 1;
    order = strcmp(left->name, right->name);
    if (order != 0)
        return order;
    if (left->step != right->step)
        return left->step < right->step ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int by_place(const void *a, const void *b)
{
    const Last *left = a, *right = b;
    int order = by_kind(left, right);

    return order != 0 ? order : left->row < right->row ? -1 : left->row > right->row;
}

static void keep_last(Lasts *lasts)
{
    size_t kept = 0;

    if (lasts->len)
        qsort(lasts->at, lasts->len, sizeof *lasts->at, by_place);
    for (size_t i = 0; i < lasts->len; i++)
        if (i + 1 == lasts->len || by_kind(&lasts->at[i], &lasts->at[i + 1]) != 0)
            lasts->at[kept++] = lasts->at[i];
    lasts->len = kept;
}

/* ---- which kernel ---- */

static bool same_kernel(const Last *a, const Last *b)
{
    return a->stream == b->stream && strcmp(a->name, b->name) == 0;
}

static size_t step_end(const Lasts *lasts, size_t first)
{
    size_t i = first;

    while (i < lasts->len && same_kernel(&lasts->at[first], &lasts->at[i]) &&
           lasts->at[i].step == lasts->at[first].step)
        i++;
    return i;
}

static double spread(const Last *lasts, size_t count, double step_ns)
{
    double mean = 0, squares = 0;

    if (count < 2)
        return NAN;
    for (size_t i = 0; i < count; i++)
        mean += (double)lasts[i].duration / step_ns / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += pow((double)lasts[i].duration / step_ns - mean, 2);
    return sqrt(squares / (double)(count - 1));
}

/* The rows of the kernel with the largest mean spread over ranks, at *ret_first. Their number, 0: none has a spread. */
static size_t choose(const Lasts *lasts, double step_ns, size_t *ret_first)
{
    double best = NAN;
    size_t count = 0;

    for (size_t first = 0, at = 0; first < lasts->len; first = at) {
        double sum = 0;
        size_t steps = 0;

        while (at < lasts->len && same_kernel(&lasts->at[first], &lasts->at[at])) {
            size_t end = step_end(lasts, at);
            double one = spread(lasts->at + at, end - at, step_ns);
            sum += isnan(one) ? 0 : one;
            steps += isnan(one) ? 0 : 1;
            at = end;
        }
        if (steps && (isnan(best) || sum / (double)steps > best)) {
            best = sum / (double)steps;
            *ret_first = first;
            count = at - first;
        }
    }
    return count;
}

/* ---- who ---- */

static int latest_first(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return left > right ? -1 : left < right;
}

static HtaStraggler *counter(HtaReport *report, int64_t rank)
{
    for (size_t i = 0; i < report->straggler_counts.len; i++)
        if (report->straggler_counts.at[i].rank == rank)
            return &report->straggler_counts.at[i];
    vec_push(&report->straggler_counts, ((HtaStraggler){rank, 0}));
    return &report->straggler_counts.at[report->straggler_counts.len - 1];
}

/* The rows of one step: those that start as late as the k-th latest, or later. False where there are fewer than k. */
static bool count_step(const Last *lasts, size_t count, HtaReport *report)
{
    size_t wanted = report->options.straggler_count;
    CLEANUP_FREE int64_t *starts = xmalloc(count * sizeof *starts);

    if (count < wanted)
        return false;
    for (size_t i = 0; i < count; i++)
        starts[i] = lasts[i].start;
    qsort(starts, count, sizeof *starts, latest_first);
    for (size_t i = 0; i < count; i++)
        counter(report, lasts[i].rank)->count += lasts[i].start >= starts[wanted - 1];
    return true;
}

static int by_rank(const void *a, const void *b)
{
    const HtaStraggler *left = a, *right = b;

    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int by_count(const void *a, const void *b)
{
    const HtaStraggler *left = a, *right = b;

    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return by_rank(a, b);
}

static const char *count_all(const Lasts *lasts, double step_ns, HtaReport *report)
{
    size_t first = 0, count = choose(lasts, step_ns, &first);
    CLEANUP_FREE HtaStraggler *sorted = NULL;

    if (lasts->len == 0)
        return "HTA stops with an error: no kernel named \"ncclKernel...\" lasts 1 % of a step";
    if (count == 0)
        return "HTA stops with an error: no NCCL kernel is on two ranks";
    for (size_t at = first, end; at < first + count; at = end) {
        end = step_end(lasts, at);
        if (!count_step(lasts->at + at, end - at, report)) {
            vec_clear(&report->straggler_counts);
            return "HTA stops with an IndexError: a step has the kernel on fewer ranks than candidates are asked for";
        }
    }
    qsort(report->straggler_counts.at, report->straggler_counts.len, sizeof *sorted, by_rank);
    sorted = xmalloc(report->straggler_counts.len * sizeof *sorted);
    memcpy(sorted, report->straggler_counts.at, report->straggler_counts.len * sizeof *sorted);
    qsort(sorted, report->straggler_counts.len, sizeof *sorted, by_count);
    for (size_t i = 0; i < report->straggler_counts.len && i < report->options.straggler_count; i++)
        vec_push(&report->stragglers, sorted[i].rank);
    return "";
}

/* Numbers of the steps that are left on some rank. */
static void find_valid(const HtaFrame *frames, const Steps *steps, size_t count, Sorted *ret)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < steps[i].len; k++)
            if (hta_kept_host(&frames[i], &frames[i].rows->rows.at[steps[i].at[k].row]))
                vec_push(ret, steps[i].at[k].number);
    sort_unique(ret);
}

static size_t count_seen(const Borders *borders, size_t count)
{
    Sorted numbers = {0};
    size_t found;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < borders[i].at.len; k++)
            if (borders[i].seen[k])
                vec_push(&numbers, borders[i].number[k]);
    sort_unique(&numbers);
    found = numbers.len;
    vec_done(&numbers);
    return found;
}

static const char *find(const HtaFrame *frames, Borders *borders, size_t count, HtaReport *report)
{
    Span span = {0};
    Lasts lasts = {0};
    const char *why;
    double step_ns;

    for (size_t i = 0; i < count; i++)
        see_rows(&frames[i], &borders[i], &span);
    if (!span.any)
        return "HTA stops with an error: no steps are left";
    step_ns = (double)(span.end - span.first) / (double)count_seen(borders, count);
    for (size_t i = 0; i < count; i++)
        add_lasts(&frames[i], &borders[i], step_ns * MIN_SHARE, &lasts);
    keep_last(&lasts);
    why = count_all(&lasts, step_ns, report);
    vec_done(&lasts);
    return why;
}

void hta_stragglers(const HtaFrame *frames, size_t count, HtaReport *report)
{
    CLEANUP_FREE Steps *steps = xcalloc(count + 1, sizeof *steps);
    CLEANUP_FREE Borders *borders = xcalloc(count + 1, sizeof *borders);
    Sorted valid = {0};

    for (size_t i = 0; i < count; i++)
        read_steps(&frames[i], &steps[i]);
    find_valid(frames, steps, count, &valid);
    for (size_t i = 0; i < count; i++) {
        make_borders(&steps[i], &borders[i]);
        keep_valid(&borders[i], &valid);
    }
    report->straggler_why = find(frames, borders, count, report);
    for (size_t i = 0; i < count; i++) {
        vec_done(&steps[i]);
        vec_done(&borders[i].at);
        free(borders[i].number);
        free(borders[i].seen);
    }
    vec_done(&valid);
}
