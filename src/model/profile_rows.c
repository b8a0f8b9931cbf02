/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a sealed profile's rows: by time, those of the GPUs within their device, the others within their lane.
 * The rows of a lane mostly come in a few runs that rise but for rows that are a little late (an operator is written
 * behind those that it calls): late rows are put in their places and runs are merged. A wild order is sorted by radix.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "model/profile_inside.h"

enum { THREAD_ROWS_MIN = 1 << 16 }; /* fewer are not worth a thread */

typedef struct RowOrder {
    const ProfileEvents *table;
    const uint32_t *group; /* lane -> what comes before time: the device, or the lane itself */
} RowOrder;

#define COMPARE(x, y)                                                                                                  \
    if ((x) != (y))                                                                                                    \
    return (x) < (y) ? -1 : 1

/* Of rows of one group that start together. */
__attribute__((noinline)) static int tie_order(const ProfileEvents *t, uint32_t a, uint32_t b)
{
    COMPARE(t->duration[b], t->duration[a]);
    COMPARE(t->lane[a], t->lane[b]);
    COMPARE(t->kind[b], t->kind[a]); /* Python, annotation, operator, call: what encloses the others comes first */
    COMPARE(t->name[a], t->name[b]);
    COMPARE(t->link[a], t->link[b]);
    if (t->external)
        COMPARE(t->external[a], t->external[b]);
    return 0;
}

/* Below 0: row a comes first. Complete but for rows that are equal in all their columns. */
static inline int row_order(const RowOrder *order, uint32_t a, uint32_t b)
{
    const ProfileEvents *t = order->table;

    COMPARE(order->group[t->lane[a]], order->group[t->lane[b]]);
    COMPARE(t->start[a], t->start[b]);
    return tie_order(t, a, b);
}
#undef COMPARE

static void merge_runs(const RowOrder *order, const uint32_t *from, size_t left, size_t middle, size_t right,
                       uint32_t *to)
{
    size_t a = left, b = middle, out = left;

    while (a < middle && b < right)
        to[out++] = row_order(order, from[b], from[a]) < 0 ? from[b++] : from[a++];
    memcpy(to + out, from + a, (middle - a) * sizeof(*to));
    out += middle - a;
    memcpy(to + out, from + b, (right - b) * sizeof(*to));
}

typedef VEC(size_t) Runs;

enum { LATE_MAX = 16 };

/* Puts rows[i] in its place among the rows before it, back to `from` at most. False: it would belong before that. */
static bool put_late(const RowOrder *order, uint32_t *rows, size_t from, size_t i)
{
    const uint32_t row = rows[i];
    size_t at = i - 1;

    while (at > from && row_order(order, row, rows[at - 1]) < 0)
        at--;
    if (at == from && i - from >= LATE_MAX)
        return false;
    memmove(rows + at + 1, rows + at, (i - at) * sizeof(*rows));
    rows[at] = row;
    return true;
}

/* Ends of the rising runs of rows as `rows` lists them, once late ones are in their places. */
static void find_runs(const RowOrder *order, uint32_t *rows, size_t len, Runs *runs)
{
    size_t first = 0;

    vec_clear(runs);
    for (size_t i = 1; i < len; i++) {
        if (row_order(order, rows[i], rows[i - 1]) >= 0)
            continue;
        if (!put_late(order, rows, i - first > LATE_MAX ? i - LATE_MAX : first, i)) {
            vec_push(runs, i);
            first = i;
        }
    }
    if (len)
        vec_push(runs, len);
}

/* Bottom-up merging of neighbouring runs until one is left; returns the array that holds the result. */
static uint32_t *merge_all(const RowOrder *order, uint32_t *rows, uint32_t *room, Runs *runs)
{
    while (runs->len > 1) {
        size_t kept = 0, left = 0;

        for (size_t i = 0; i < runs->len; i += 2) {
            const size_t middle = runs->at[i], right = i + 1 < runs->len ? runs->at[i + 1] : middle;

            merge_runs(order, rows, left, middle, right, room);
            left = right;
            runs->at[kept++] = right;
        }
        runs->len = kept;
        uint32_t *swap = rows;

        rows = room;
        room = swap;
    }
    return rows;
}

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS, RADIX_RUNS = 24, RUNS_EACH = 4 };

/* One pass: rows by RADIX_BITS of key(row) from `shift` on, stable. */
static void radix_pass(const ProfileEvents *t, const uint32_t *group, int64_t base, unsigned int shift, bool by_group,
                       const uint32_t *from, uint32_t *to, size_t len)
{
    size_t count[RADIX + 1] = {0};

#define DIGIT(row)                                                                                                     \
    ((by_group ? (uint64_t)group[t->lane[row]] : (uint64_t)t->start[row] - (uint64_t)base) >> shift & (RADIX - 1))
    for (size_t i = 0; i < len; i++)
        count[DIGIT(from[i]) + 1]++;
    for (size_t i = 0; i < RADIX; i++)
        count[i + 1] += count[i];
    for (size_t i = 0; i < len; i++)
        to[count[DIGIT(from[i])]++] = from[i];
#undef DIGIT
}

/* Many runs: by start, then by group; what is equal in both is put right by the merging that follows. */
static uint32_t *radix_sort(const RowOrder *order, uint32_t *rows, uint32_t *room, size_t len)
{
    const ProfileEvents *t = order->table;
    int64_t least = INT64_MAX, most = INT64_MIN;
    uint32_t groups = 0;

    for (size_t i = 0; i < len; i++) {
        const int64_t start = t->start[rows[i]];
        const uint32_t group = order->group[t->lane[rows[i]]];

        least = start < least ? start : least;
        most = start > most ? start : most;
        groups = group > groups ? group : groups;
    }
    const uint64_t ranges[] = {(uint64_t)most - (uint64_t)least, groups};

    for (unsigned int by_group = 0; by_group < 2; by_group++)
        for (unsigned int shift = 0; shift < 64 && ranges[by_group] >> shift; shift += RADIX_BITS) {
            radix_pass(t, order->group, least, shift, by_group, rows, room, len);
            uint32_t *swap = rows;

            rows = room;
            room = swap;
        }
    return rows;
}

/* Sorts stretches of rows of equal group and start, which the radix passes left as they came. */
static void sort_ties(const RowOrder *order, uint32_t *rows, size_t len)
{
    for (size_t i = 1; i < len; i++) {
        const uint32_t row = rows[i];
        size_t at = i;

        for (; at && row_order(order, row, rows[at - 1]) < 0; at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

/* Stretches of ties over this length are merged, so that hostile input costs n log n. */
enum { TIES_INSERTION_MAX = 32 };

static void order_ties(const RowOrder *order, uint32_t *rows, uint32_t *room, size_t len)
{
    const ProfileEvents *t = order->table;
    Runs runs = {0};

    for (size_t first = 0, i = 1; i <= len; i++) {
        if (i < len && t->start[rows[i]] == t->start[rows[first]] &&
            order->group[t->lane[rows[i]]] == order->group[t->lane[rows[first]]])
            continue;
        if (i - first <= TIES_INSERTION_MAX) {
            sort_ties(order, rows + first, i - first);
        } else {
            find_runs(order, rows + first, i - first, &runs);
            const uint32_t *sorted = merge_all(order, rows + first, room + first, &runs);

            if (sorted != rows + first)
                memcpy(rows + first, sorted, (i - first) * sizeof(*rows));
        }
        first = i;
    }
    vec_done(&runs);
}

/* Puts a column in its order into `room`, which is of the same width, and leaves its old memory there. */
#define TAKE_ORDER(column, room)                                                                                       \
    do {                                                                                                               \
        __typeof__(table->column) fresh_ = (room);                                                                     \
        for (size_t i_ = 0; i_ < len; i_++)                                                                            \
            fresh_[i_] = table->column[order[i_]];                                                                     \
        (room) = table->column;                                                                                        \
        table->column = fresh_;                                                                                        \
    } while (0)

/* A table and the order that its rows come to. */
typedef struct Ordering {
    ProfileEvents *table;
    const uint32_t *order;
    size_t len;
} Ordering;

static void *order_times(void *context)
{
    const Ordering *ordering = context;
    ProfileEvents *table = ordering->table;
    const uint32_t *order = ordering->order;
    const size_t len = ordering->len;
    int64_t *times = xmalloc_large((len + 1) * sizeof(*times));
    uint8_t *kinds = xmalloc_large(len + 1);

    TAKE_ORDER(start, times);
    TAKE_ORDER(duration, times);
    TAKE_ORDER(kind, kinds);
    free(times);
    free(kinds);
    return NULL;
}

static void *order_numbers(void *context)
{
    const Ordering *ordering = context;
    ProfileEvents *table = ordering->table;
    const uint32_t *order = ordering->order;
    const size_t len = ordering->len;
    uint32_t *numbers = xmalloc_large((len + 1) * sizeof(*numbers));

    TAKE_ORDER(name, numbers);
    TAKE_ORDER(lane, numbers);
    TAKE_ORDER(link, numbers);
    TAKE_ORDER(extra, numbers);
    if (table->external)
        TAKE_ORDER(external, numbers);
    free(numbers);
    return NULL;
}

/* Both, the first one in a thread of its own where there may be one. */
static void side_by_side(bool threads, void *(*first)(void *), void *(*second)(void *), void *context)
{
    pthread_t helper;
    const bool helped = threads && pthread_create(&helper, NULL, first, context) == 0;

    if (!helped)
        first(context);
    second(context);
    if (helped)
        pthread_join(helper, NULL);
}

static bool same_row(const ProfileEvents *t, uint32_t a, uint32_t b)
{
    return t->start[a] == t->start[b] && t->duration[a] == t->duration[b] && t->lane[a] == t->lane[b] &&
           t->kind[a] == t->kind[b] && t->name[a] == t->name[b] && t->link[a] == t->link[b];
}

/* The same operation or call, with its correlation, is one that was written twice. */
static size_t drop_duplicates(const ProfileEvents *t, uint32_t *rows, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0; i < len; i++) {
        const uint32_t row = rows[i];
        const bool told_apart = t->kind[row] <= PROFILE_CALL && t->link[row] != 0;

        if (!kept || !told_apart || !same_row(t, rows[kept - 1], row))
            rows[kept++] = row;
    }
    return kept;
}

static size_t measure_imbalance(size_t part, size_t whole)
{
    return part > whole - part ? part - (whole - part) : whole - part - part;
}

/* All rows, those of a group together, in the order that they came in. */
/* Returns where a group begins that has about as many rows before it as behind. */
static size_t list_rows(const RowOrder *order, size_t groups, uint32_t *rows)
{
    const ProfileEvents *t = order->table;
    CLEANUP_FREE size_t *next = xcalloc(groups + 1, sizeof(*next));
    size_t half = 0;

    for (size_t i = 0; i < t->len; i++)
        next[order->group[t->lane[i]] + 1]++;
    for (size_t i = 0; i < groups; i++) {
        next[i + 1] += next[i];
        half = measure_imbalance(next[i + 1], t->len) < measure_imbalance(half, t->len) ? next[i + 1] : half;
    }
    for (size_t i = 0; i < t->len; i++)
        rows[next[order->group[t->lane[i]]]++] = (uint32_t)i;
    return half;
}

static bool is_in_order(const uint32_t *rows, size_t len)
{
    size_t i = 0;

    while (i < len && rows[i] == i)
        i++;
    return i == len;
}

/* Groups of lanes in the gpu table: the devices, ascending as lanes are. */
static uint32_t *device_groups(const Profile *profile)
{
    uint32_t *group = xcalloc(profile->lanes.len + 1, sizeof(*group));

    for (size_t i = 1; i < profile->lanes.len; i++)
        group[i] = group[i - 1] + (profile->lanes.at[i].device != profile->lanes.at[i - 1].device ||
                                   profile->lanes.at[i].gpu != profile->lanes.at[i - 1].gpu);
    return group;
}

static uint32_t *lane_groups(const Profile *profile)
{
    uint32_t *group = xcalloc(profile->lanes.len + 1, sizeof(*group));

    for (size_t i = 0; i < profile->lanes.len; i++)
        group[i] = (uint32_t)i;
    return group;
}

typedef struct Sealing {
    Profile *profile;
    const uint32_t *devices, *lanes; /* groups */
    bool threads;
    uint64_t duplicates[2]; /* of the host's table, of the others */
} Sealing;

/* Whole groups of rows, to be put in order. */
typedef struct Sorting {
    const RowOrder *order;
    uint32_t *rows, *room; /* room: NULL unless they were not in order */
    size_t len, groups;
} Sorting;

static void *sort_rows(void *context)
{
    Sorting *s = context;
    uint32_t *sorted = s->rows;
    Runs runs = {0};

    find_runs(s->order, s->rows, s->len, &runs);
    if (runs.len > 1)
        s->room = xmalloc_large((s->len + 1) * sizeof(*s->room));
    if (runs.len > RADIX_RUNS + s->groups * RUNS_EACH) {
        sorted = radix_sort(s->order, s->rows, s->room, s->len);
        order_ties(s->order, sorted, sorted == s->rows ? s->room : s->rows, s->len);
    } else if (runs.len > 1) {
        sorted = merge_all(s->order, s->rows, s->room, &runs);
    }
    vec_done(&runs);
    if (sorted != s->rows)
        memcpy(s->rows, sorted, s->len * sizeof(*sorted));
    return NULL;
}

typedef struct Halves {
    Sorting first, second;
} Halves;

static void *sort_first(void *halves)
{
    return sort_rows(&((Halves *)halves)->first);
}

static void *sort_second(void *halves)
{
    return sort_rows(&((Halves *)halves)->second);
}

/* Returns how many rows were there twice. */
static uint64_t seal_table(const Sealing *sealing, ProfileEvents *table, const uint32_t *group, bool threads)
{
    const RowOrder order = {.table = table, .group = group};
    const size_t len = table->len, groups = sealing->profile->lanes.len;
    CLEANUP_FREE uint32_t *rows = xmalloc_large((len + 1) * sizeof(*rows));

    assert(len < PROFILE_NONE);
    const size_t half = list_rows(&order, groups, rows);
    Halves halves = {.first = {.order = &order, .rows = rows, .len = half, .groups = groups},
                     .second = {.order = &order, .rows = rows + half, .len = len - half, .groups = groups}};

    side_by_side(threads && half, sort_first, sort_second, &halves);
    free(halves.first.room);
    free(halves.second.room);
    Ordering ordering = {.table = table, .order = rows, .len = drop_duplicates(table, rows, len)};

    if (ordering.len == len && is_in_order(rows, len))
        return 0;
    side_by_side(threads, order_numbers, order_times, &ordering);
    table->len = ordering.len;
    table->cap = ordering.len ? ordering.len : 1;
    return len - ordering.len;
}

static void *seal_host(void *context)
{
    Sealing *sealing = context;

    sealing->duplicates[0] = seal_table(sealing, &sealing->profile->host, sealing->lanes, sealing->threads);
    return NULL;
}

static void *seal_others(void *context)
{
    Sealing *sealing = context;

    sealing->duplicates[1] = seal_table(sealing, &sealing->profile->gpu, sealing->devices, false) +
                             seal_table(sealing, &sealing->profile->mark, sealing->lanes, false);
    return NULL;
}

void profile_seal_tables(Profile *profile, unsigned int threads)
{
    CLEANUP_FREE uint32_t *devices = device_groups(profile);
    CLEANUP_FREE uint32_t *lanes = lane_groups(profile);
    Sealing sealing = {.profile = profile,
                       .devices = devices,
                       .lanes = lanes,
                       .threads = threads > 1 && profile->gpu.len + profile->host.len >= THREAD_ROWS_MIN};

    side_by_side(sealing.threads, seal_others, seal_host, &sealing);
    profile->lost_by_reason[PROFILE_LOSS_DUPLICATE] += sealing.duplicates[0] + sealing.duplicates[1];
}
