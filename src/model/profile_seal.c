/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a sealed profile: names by their bytes, lanes by their numbers, rows by time (profile_rows.c), details
 * by first use. */
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

void profile_seal(Profile *profile)
{
    profile_seal_by(profile, 1);
}

void profile_seal_by(Profile *profile, unsigned int threads)
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
