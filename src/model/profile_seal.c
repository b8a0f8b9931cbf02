/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a sealed profile's rows: by time, those of the GPUs within their device, the others within their lane.
 * The rows of a lane mostly come in a few runs that rise but for rows that are a little late (an operator is written
 * behind those that it calls): late rows are put in their places and runs are merged. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "model/profile.h"

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

/* Both, the first one in a thread of its own if possible. */
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

/* The same operation or call with the same correlation was written twice. */
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
    if (runs.len > 1) {
        s->room = xmalloc_large((s->len + 1) * sizeof(*s->room));
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

/* Brings the rows of all tables into order and drops those that are there twice, counted as lost. Names
 * and lanes are sealed before. Up to two threads. */
static void profile_seal_tables(Profile *profile, unsigned int threads)
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

/* ---- sealing ---- */

/* The order of a sealed profile: names by their bytes, lanes by their numbers, rows by time, details
 * by first use. */

/* ---- names ---- */

typedef struct NameKey {
    const char *text;
    uint32_t len, name;
} NameKey;

static int by_text(const void *a_, const void *b_)
{
    const NameKey *a = a_, *b = b_;
    const int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Numbers of the texts in the order of their bytes: ret[old] = new. The caller frees. */
static uint32_t *rank_names(const Profile *profile)
{
    const size_t count = profile_name_count(profile);
    CLEANUP_FREE NameKey *keys = xcalloc(count + 1, sizeof(*keys));
    uint32_t *rank = xcalloc(count + 1, sizeof(*rank));

    for (size_t i = 0; i < count; i++) {
        size_t len;

        keys[i].text = profile_text(profile, (uint32_t)i, &len);
        keys[i].len = (uint32_t)len;
        keys[i].name = (uint32_t)i;
    }
    qsort(keys, count, sizeof(*keys), by_text);
    for (size_t i = 0; i < count; i++)
        rank[keys[i].name] = (uint32_t)i;
    return rank;
}

/* The set itself in the new order; its hash slots go, since a sealed profile is only searched (slots made anew). */
static void rename_set(ProfileSet *set, const uint32_t *rank)
{
    const size_t count = set->texts.len;
    const char **texts = xcalloc(count + 1, sizeof(*texts));
    uint32_t *lens = xcalloc(count + 1, sizeof(*lens));

    for (size_t i = 0; i < count; i++) {
        texts[rank[i]] = set->texts.at[i];
        lens[rank[i]] = set->lens.at[i];
    }
    free(set->texts.at);
    free(set->lens.at);
    set->texts.at = texts;
    set->lens.at = lens;
    set->texts.cap = set->lens.cap = count + 1;
    for (size_t i = 0; i < set->slot_count; i++)
        if (set->slots[i].id)
            set->slots[i].id = rank[set->slots[i].id - 1] + 1;
}

static void seal_names(Profile *profile)
{
    CLEANUP_FREE uint32_t *rank = rank_names(profile);

    profile_rename(profile, rank);
    rename_set(&profile->names, rank);
}

/* ---- lanes ---- */

/* Of two rows `a` and `b`. */
#define BY(member)                                                                                                     \
    if (a->member != b->member)                                                                                        \
    return a->member < b->member ? -1 : 1

typedef struct LaneKey {
    ProfileLane lane;
    uint32_t index;
} LaneKey;

static int by_lane(const void *a_, const void *b_)
{
    const LaneKey *x = a_, *y = b_;
    const ProfileLane *a = &x->lane, *b = &y->lane;

    BY(gpu);
    BY(device);
    BY(pid);
    BY(pid_name);
    BY(tid);
    BY(tid_name);
    return 0;
}

static void seal_lanes(Profile *profile)
{
    const size_t count = profile->lanes.len;
    CLEANUP_FREE LaneKey *keys = xcalloc(count + 1, sizeof(*keys));
    CLEANUP_FREE uint32_t *to = xcalloc(count + 1, sizeof(*to));
    ProfileEvents *const tables[] = {&profile->gpu, &profile->host, &profile->mark};

    for (size_t i = 0; i < count; i++)
        keys[i] = (LaneKey){profile->lanes.at[i], (uint32_t)i};
    qsort(keys, count, sizeof(*keys), by_lane);
    for (size_t i = 0; i < count; i++) {
        profile->lanes.at[i] = keys[i].lane;
        to[keys[i].index] = (uint32_t)i;
    }
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (size_t i = 0; i < tables[t]->len; i++)
            tables[t]->lane[i] = to[tables[t]->lane[i]];
    for (size_t i = 0; i < profile->memory.len; i++)
        profile->memory.at[i].lane = to[profile->memory.at[i].lane];
}

/* ---- details, numbered by first use ---- */

typedef struct Uses {
    uint32_t *to; /* old -> new, PROFILE_NONE: not met yet */
    size_t used;
} Uses;

static Uses uses_of(size_t count)
{
    Uses uses = {.to = xmalloc((count + 1) * sizeof(uint32_t))};

    memset(uses.to, 0xff, (count + 1) * sizeof(uint32_t));
    return uses;
}

static void use_detail(Uses *uses, uint32_t *index)
{
    if (*index == PROFILE_NONE)
        return;
    if (uses->to[*index] == PROFILE_NONE)
        uses->to[*index] = (uint32_t)uses->used++;
    *index = uses->to[*index];
}

/* Puts the used ones of a vector in their new order; the others go. */
#define TAKE_USES(vec, uses)                                                                                           \
    do {                                                                                                               \
        __typeof__((vec)->at) fresh_ = xcalloc((uses)->used + 1, sizeof(*fresh_));                                     \
        for (size_t i_ = 0; i_ < (vec)->len; i_++)                                                                     \
            if ((uses)->to[i_] != PROFILE_NONE)                                                                        \
                fresh_[(uses)->to[i_]] = (vec)->at[i_];                                                                \
        free((vec)->at);                                                                                               \
        (vec)->at = fresh_;                                                                                            \
        (vec)->len = (uses)->used;                                                                                     \
        (vec)->cap = (uses)->used + 1;                                                                                 \
        free((uses)->to);                                                                                              \
    } while (0)

static void seal_details(Profile *profile)
{
    Uses launches = uses_of(profile->launches.len), copies = uses_of(profile->copies.len);
    Uses ops = uses_of(profile->ops.len), collectives = uses_of(profile->collectives.len);

    for (size_t i = 0; i < profile->gpu.len; i++)
        use_detail(profile->gpu.kind[i] == PROFILE_KERNEL ? &launches : &copies, &profile->gpu.extra[i]);
    for (size_t i = 0; i < profile->host.len; i++)
        if (profile->host.kind[i] == PROFILE_OP)
            use_detail(&ops, &profile->host.extra[i]);
    TAKE_USES(&profile->launches, &launches);
    TAKE_USES(&profile->copies, &copies);
    TAKE_USES(&profile->ops, &ops);
    for (size_t i = 0; i < profile->launches.len; i++)
        use_detail(&collectives, &profile->launches.at[i].collective);
    for (size_t i = 0; i < profile->ops.len; i++)
        use_detail(&collectives, &profile->ops.at[i].collective);
    TAKE_USES(&profile->collectives, &collectives);
}

/* ---- the rest ---- */

static int by_memory(const void *a_, const void *b_)
{
    const ProfileMemory *a = a_, *b = b_;

    BY(start);
    BY(device_type);
    BY(device);
    BY(lane);
    BY(bytes);
    BY(address);
    BY(allocated);
    BY(reserved);
    return 0;
}

static int by_sync(const void *a_, const void *b_)
{
    const ProfileSync *a = a_, *b = b_;

    BY(start);
    BY(duration);
    BY(device);
    BY(stream);
    BY(name);
    BY(link);
    BY(wait_stream);
    BY(wait_link);
    return 0;
}

static int by_device(const void *a_, const void *b_)
{
    const ProfileDevice *a = a_, *b = b_;

    BY(id);
    BY(name);
    return 0;
}
#undef BY

/* glibc's qsort allocates memory for merging; a list already in order is left alone. */
static void sort_unless_sorted(void *at, size_t len, size_t size, int (*compare)(const void *, const void *))
{
    for (size_t i = 1; i < len; i++)
        if (compare((char *)at + (i - 1) * size, (char *)at + i * size) > 0) {
            qsort(at, len, size, compare);
            return;
        }
}

void profile_seal(Profile *profile, unsigned int threads)
{
    assert(!profile->sealed);
    seal_names(profile);
    seal_lanes(profile);
    profile_seal_tables(profile, threads);
    seal_details(profile);
    sort_unless_sorted(profile->memory.at, profile->memory.len, sizeof(ProfileMemory), by_memory);
    sort_unless_sorted(profile->syncs.at, profile->syncs.len, sizeof(ProfileSync), by_sync);
    sort_unless_sorted(profile->devices.at, profile->devices.len, sizeof(ProfileDevice), by_device);
    profile->sealed = true;
}
