/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a sealed profile: names by their bytes, lanes by their numbers, rows by time, details by first use.
 * The rows of a lane mostly come in a few runs that rise but for rows that are a little late (an operator is written
 * behind those that it calls): late rows are put in their places and runs are merged. A wild order is sorted by radix.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "model/profile_inside.h"

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

static void rename_one(uint32_t *name, const uint32_t *rank)
{
    if (*name != PROFILE_NONE)
        *name = rank[*name];
}

static void rename_rows(ProfileEvents *table, const uint32_t *rank)
{
    for (size_t i = 0; i < table->len; i++)
        rename_one(&table->name[i], rank);
}

static void rename_details(Profile *profile, const uint32_t *rank)
{
    for (size_t i = 0; i < profile->ops.len; i++) {
        rename_one(&profile->ops.at[i].dims, rank);
        rename_one(&profile->ops.at[i].types, rank);
    }
    for (size_t i = 0; i < profile->collectives.len; i++) {
        ProfileCollective *c = &profile->collectives.at[i];

        rename_one(&c->name, rank);
        rename_one(&c->dtype, rank);
        rename_one(&c->group, rank);
        rename_one(&c->group_label, rank);
        rename_one(&c->ranks, rank);
    }
    for (size_t i = 0; i < profile->syncs.len; i++)
        rename_one(&profile->syncs.at[i].name, rank);
    for (size_t i = 0; i < profile->devices.len; i++)
        rename_one(&profile->devices.at[i].name, rank);
    for (size_t i = 0; i < profile->losses.len; i++)
        rename_one(&profile->losses.at[i].detail, rank);
    for (size_t i = 0; i < profile->groups.len; i++) {
        rename_one(&profile->groups.at[i].name, rank);
        rename_one(&profile->groups.at[i].label, rank);
        rename_one(&profile->groups.at[i].ranks, rank);
    }
    for (size_t i = 0; i < profile->lanes.len; i++) {
        rename_one(&profile->lanes.at[i].pid_name, rank);
        rename_one(&profile->lanes.at[i].tid_name, rank);
        rename_one(&profile->lanes.at[i].label, rank);
    }
    uint32_t *const words[] = {&profile->backend, &profile->nccl_version, &profile->host_name, &profile->trace_id,
                               &profile->framework};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        rename_one(words[i], rank);
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

    rename_rows(&profile->gpu, rank);
    rename_rows(&profile->host, rank);
    rename_rows(&profile->mark, rank);
    rename_details(profile, rank);
    rename_set(&profile->names->names, rank);
}

/* ---- lanes ---- */

typedef struct LaneKey {
    ProfileLane lane;
    uint32_t index;
} LaneKey;

static int by_lane(const void *a_, const void *b_)
{
    const LaneKey *x = a_, *y = b_;
    const ProfileLane *a = &x->lane, *b = &y->lane;

#define COMPARE(member)                                                                                                \
    if (a->member != b->member)                                                                                        \
    return a->member < b->member ? -1 : 1
    COMPARE(gpu);
    COMPARE(device);
    COMPARE(pid);
    COMPARE(pid_name);
    COMPARE(tid);
    COMPARE(tid_name);
#undef COMPARE
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

/* ---- rows ---- */

typedef struct RowOrder {
    const ProfileEvents *table;
    const uint32_t *group; /* lane -> what comes before time: the device, or the lane itself */
} RowOrder;

/* Below 0: row a comes first. Complete but for rows that are equal in all their columns. */
static int row_order(const RowOrder *order, uint32_t a, uint32_t b)
{
    const ProfileEvents *t = order->table;

#define COMPARE(x, y)                                                                                                  \
    if ((x) != (y))                                                                                                    \
    return (x) < (y) ? -1 : 1
    COMPARE(order->group[t->lane[a]], order->group[t->lane[b]]);
    COMPARE(t->start[a], t->start[b]);
    COMPARE(t->duration[b], t->duration[a]);
    COMPARE(t->lane[a], t->lane[b]);
    COMPARE(t->kind[b], t->kind[a]); /* Python, annotation, operator, call: what encloses the others comes first */
    COMPARE(t->name[a], t->name[b]);
    COMPARE(t->link[a], t->link[b]);
    if (t->external)
        COMPARE(t->external[a], t->external[b]);
#undef COMPARE
    return 0;
}

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
        least = t->start[i] < least ? t->start[i] : least;
        most = t->start[i] > most ? t->start[i] : most;
        groups = order->group[t->lane[i]] > groups ? order->group[t->lane[i]] : groups;
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

#define TAKE_ORDER(column)                                                                                             \
    do {                                                                                                               \
        __typeof__(table->column) fresh_ = xmalloc((len ? len : 1) * sizeof(*fresh_));                                 \
        for (size_t i_ = 0; i_ < len; i_++)                                                                            \
            fresh_[i_] = table->column[order[i_]];                                                                     \
        free(table->column);                                                                                           \
        table->column = fresh_;                                                                                        \
    } while (0)

/* Rows in the order of `order`. */
static void order_rows(ProfileEvents *table, const uint32_t *order, size_t len)
{
    TAKE_ORDER(start);
    TAKE_ORDER(duration);
    TAKE_ORDER(name);
    TAKE_ORDER(lane);
    TAKE_ORDER(link);
    TAKE_ORDER(extra);
    if (table->external)
        TAKE_ORDER(external);
    TAKE_ORDER(kind);
    table->len = len;
    table->cap = len ? len : 1;
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

/* All rows, those of a group together, in the order that they came in. */
static void list_rows(const RowOrder *order, size_t groups, uint32_t *rows)
{
    const ProfileEvents *t = order->table;
    CLEANUP_FREE size_t *next = xcalloc(groups + 1, sizeof(*next));

    for (size_t i = 0; i < t->len; i++)
        next[order->group[t->lane[i]] + 1]++;
    for (size_t i = 0; i < groups; i++)
        next[i + 1] += next[i];
    for (size_t i = 0; i < t->len; i++)
        rows[next[order->group[t->lane[i]]]++] = (uint32_t)i;
}

static bool is_in_order(const uint32_t *rows, size_t len)
{
    size_t i = 0;

    while (i < len && rows[i] == i)
        i++;
    return i == len;
}

static void seal_table(Profile *profile, ProfileEvents *table, const uint32_t *group)
{
    const RowOrder order = {.table = table, .group = group};
    const size_t len = table->len, groups = profile->lanes.len;
    CLEANUP_FREE uint32_t *rows = xmalloc((len + 1) * sizeof(*rows));
    CLEANUP_FREE uint32_t *room = NULL;
    uint32_t *sorted = rows;
    Runs runs = {0};

    assert(len < PROFILE_NONE);
    list_rows(&order, groups, rows);
    find_runs(&order, rows, len, &runs);
    const bool ordered = runs.len <= 1 && is_in_order(rows, len);

    if (runs.len > 1)
        room = xmalloc((len + 1) * sizeof(*room));
    if (runs.len > RADIX_RUNS + groups * RUNS_EACH) {
        vec_done(&runs);
        sorted = radix_sort(&order, rows, room, len);
        order_ties(&order, sorted, sorted == rows ? room : rows, len);
    } else if (runs.len > 1) {
        sorted = merge_all(&order, rows, room, &runs);
    }
    vec_done(&runs);
    const size_t kept = drop_duplicates(table, sorted, len);

    profile->lost_by_reason[PROFILE_LOSS_DUPLICATE] += len - kept;
    if (!ordered || kept < len)
        order_rows(table, sorted, kept);
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

static void use(Uses *uses, uint32_t *index)
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
        use(profile->gpu.kind[i] == PROFILE_KERNEL ? &launches : &copies, &profile->gpu.extra[i]);
    for (size_t i = 0; i < profile->host.len; i++)
        if (profile->host.kind[i] == PROFILE_OP)
            use(&ops, &profile->host.extra[i]);
    TAKE_USES(&profile->launches, &launches);
    TAKE_USES(&profile->copies, &copies);
    TAKE_USES(&profile->ops, &ops);
    for (size_t i = 0; i < profile->launches.len; i++)
        use(&collectives, &profile->launches.at[i].collective);
    for (size_t i = 0; i < profile->ops.len; i++)
        use(&collectives, &profile->ops.at[i].collective);
    TAKE_USES(&profile->collectives, &collectives);
}

/* ---- the rest ---- */

#define BY(member)                                                                                                     \
    if (a->member != b->member)                                                                                        \
    return a->member < b->member ? -1 : 1

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

/* qsort of glibc merges, with memory of its own; a list that is in order already is left alone. */
static void sort_unless_sorted(void *at, size_t len, size_t size, int (*compare)(const void *, const void *))
{
    for (size_t i = 1; i < len; i++)
        if (compare((char *)at + (i - 1) * size, (char *)at + i * size) > 0) {
            qsort(at, len, size, compare);
            return;
        }
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

void profile_seal(Profile *profile)
{
    assert(!profile->sealed);
    seal_names(profile);
    seal_lanes(profile);
    CLEANUP_FREE uint32_t *devices = device_groups(profile);
    CLEANUP_FREE uint32_t *lanes = lane_groups(profile);

    seal_table(profile, &profile->gpu, devices);
    seal_table(profile, &profile->host, lanes);
    seal_table(profile, &profile->mark, lanes);
    seal_details(profile);
    sort_unless_sorted(profile->memory.at, profile->memory.len, sizeof(ProfileMemory), by_memory);
    sort_unless_sorted(profile->syncs.at, profile->syncs.len, sizeof(ProfileSync), by_sync);
    sort_unless_sorted(profile->devices.at, profile->devices.len, sizeof(ProfileDevice), by_device);
    profile->sealed = true;
}
