/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as its readers fill it. */
#include "model/profile.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "model/profile_inside.h"

enum { ROWS_MIN = 1024, ROWS_GROW = 4, EXCERPT_MAX = 80 };

void profile_init(Profile *profile)
{
    *profile = (Profile){
        .names = xcalloc(1, sizeof(ProfileNames)),
        .rank = -1,
        .world_size = -1,
        .backend = PROFILE_NONE,
        .nccl_version = PROFILE_NONE,
        .host_name = PROFILE_NONE,
        .trace_id = PROFILE_NONE,
        .framework = PROFILE_NONE,
    };
}

static void detail_set_done(ProfileDetailSet *details)
{
    profile_set_done(&details->set);
    vec_done(&details->index);
}

void profile_done(Profile *profile)
{
    profile_events_done(&profile->gpu);
    profile_events_done(&profile->host);
    profile_events_done(&profile->mark);
    if (profile->names) {
        profile_set_done(&profile->names->names);
        detail_set_done(&profile->names->launches);
        detail_set_done(&profile->names->copies);
        detail_set_done(&profile->names->ops);
        detail_set_done(&profile->names->lanes);
        free(profile->names);
    }
    vec_done(&profile->lanes);
    vec_done(&profile->launches);
    vec_done(&profile->copies);
    vec_done(&profile->ops);
    vec_done(&profile->collectives);
    vec_done(&profile->syncs);
    vec_done(&profile->memory);
    vec_done(&profile->devices);
    vec_done(&profile->groups);
    vec_done(&profile->losses);
    *profile = (Profile){0};
}

uint32_t profile_name(Profile *profile, const char *text, size_t len)
{
    bool fresh;

    return profile_set_put(&profile->names->names, text, len, &fresh);
}

const char *profile_text(const Profile *profile, uint32_t name, size_t *ret_len)
{
    const ProfileSet *set = &profile->names->names;
    const bool known = name < set->texts.len;

    if (ret_len)
        *ret_len = known ? set->lens.at[name] : 0;
    return known ? set->texts.at[name] : "";
}

uint32_t profile_name_find(const Profile *profile, const char *text)
{
    return profile_set_find(&profile->names->names, text, strlen(text));
}

size_t profile_name_count(const Profile *profile)
{
    return profile->names->names.texts.len;
}

/* ---- details and lanes: stored once by the bytes of a key without padding ---- */

static uint32_t detail_put(ProfileDetailSet *details, const void *key, size_t len, size_t next, bool *ret_new)
{
    const uint32_t id = profile_set_put(&details->set, key, len, ret_new);

    if (*ret_new)
        vec_push(&details->index, (uint32_t)next);
    return details->index.at[id];
}

static uint32_t lane_put(Profile *profile, const ProfileLane *lane)
{
    struct {
        int64_t pid, tid;
        uint32_t pid_name, tid_name, gpu;
        int32_t device;
    } key = {lane->pid, lane->tid, lane->pid_name, lane->tid_name, lane->gpu, lane->device};
    bool fresh;
    const uint32_t index = detail_put(&profile->names->lanes, &key, sizeof(key), profile->lanes.len, &fresh);

    if (fresh)
        vec_push(&profile->lanes, *lane);
    return index;
}

uint32_t profile_thread(Profile *profile, int64_t pid, uint32_t pid_name, int64_t tid, uint32_t tid_name)
{
    return lane_put(
        profile,
        &(ProfileLane){
            .device = -1, .pid = pid, .tid = tid, .pid_name = pid_name, .tid_name = tid_name, .label = PROFILE_NONE});
}

uint32_t profile_stream(Profile *profile, int32_t device, int64_t stream)
{
    return lane_put(profile, &(ProfileLane){.gpu = true,
                                            .device = device,
                                            .tid = stream,
                                            .pid_name = PROFILE_NONE,
                                            .tid_name = PROFILE_NONE,
                                            .label = PROFILE_NONE});
}

uint32_t profile_launch(Profile *profile, const ProfileLaunch *launch)
{
    bool fresh = true;
    uint32_t index = (uint32_t)profile->launches.len;

    if (launch->collective == PROFILE_NONE) {
        struct {
            uint32_t grid[3], block[3], registers, shared_bytes;
            float occupancy_percent, blocks_per_sm, warps_per_sm;
            uint32_t in_graph;
        } key = {{launch->grid[0], launch->grid[1], launch->grid[2]},
                 {launch->block[0], launch->block[1], launch->block[2]},
                 launch->registers,
                 launch->shared_bytes,
                 launch->occupancy_percent,
                 launch->blocks_per_sm,
                 launch->warps_per_sm,
                 launch->in_graph};

        index = detail_put(&profile->names->launches, &key, sizeof(key), index, &fresh);
    }
    if (fresh)
        vec_push(&profile->launches, *launch);
    return index;
}

uint32_t profile_copy(Profile *profile, const ProfileCopy *copy)
{
    struct {
        int64_t bytes;
        double reported_gbs;
        uint32_t kind;
        uint16_t source, target;
    } key = {copy->bytes, isnan(copy->reported_gbs) ? (double)NAN : copy->reported_gbs, copy->kind, copy->source,
             copy->target};
    bool fresh;
    const uint32_t index = detail_put(&profile->names->copies, &key, sizeof(key), profile->copies.len, &fresh);

    if (fresh)
        vec_push(&profile->copies, *copy);
    return index;
}

uint32_t profile_op(Profile *profile, const ProfileOp *op)
{
    bool fresh = true;
    uint32_t index = (uint32_t)profile->ops.len;

    if (op->collective == PROFILE_NONE) {
        const struct {
            uint32_t dims, types;
            int64_t sequence;
        } key = {op->dims, op->types, op->sequence};

        index = detail_put(&profile->names->ops, &key, sizeof(key), index, &fresh);
    }
    if (fresh)
        vec_push(&profile->ops, *op);
    return index;
}

uint32_t profile_collective(Profile *profile, const ProfileCollective *collective)
{
    vec_push(&profile->collectives, *collective);
    return (uint32_t)profile->collectives.len - 1;
}

/* ---- rows ---- */

void profile_events_done(ProfileEvents *table)
{
    free(table->start);
    free(table->duration);
    free(table->name);
    free(table->lane);
    free(table->link);
    free(table->extra);
    free(table->external);
    free(table->kind);
    *table = (ProfileEvents){0};
}

/* Columns of this size are mappings of their own: growing moves pages and copies nothing, and what is not filled takes
 * no memory. */
void profile_events_reserve(ProfileEvents *table, size_t rows, bool external)
{
    if (rows <= table->cap)
        return;
    size_t cap = table->cap ? table->cap : ROWS_MIN;

    while (cap < rows)
        cap *= ROWS_GROW;
    table->start = xrealloc_large(table->start, cap, sizeof(*table->start));
    table->duration = xrealloc_large(table->duration, cap, sizeof(*table->duration));
    table->name = xrealloc_large(table->name, cap, sizeof(*table->name));
    table->lane = xrealloc_large(table->lane, cap, sizeof(*table->lane));
    table->link = xrealloc_large(table->link, cap, sizeof(*table->link));
    table->extra = xrealloc_large(table->extra, cap, sizeof(*table->extra));
    if (external)
        table->external = xrealloc_large(table->external, cap, sizeof(*table->external));
    table->kind = xrealloc_large(table->kind, cap, sizeof(*table->kind));
    table->cap = cap;
}

static ProfileEvents *table_of(Profile *profile, ProfileKind kind)
{
    if (kind <= PROFILE_SET)
        return &profile->gpu;
    return kind == PROFILE_GPU_ANNOTATION ? &profile->mark : &profile->host;
}

void profile_add(Profile *profile, const ProfileEvent *event)
{
    ProfileEvents *table = table_of(profile, event->kind);
    const size_t row = table->len;

    assert(event->duration >= 0);
    if (row == table->cap)
        profile_events_reserve(table, row + 1, table == &profile->gpu);
    table->start[row] = event->start;
    table->duration[row] = event->duration;
    table->name[row] = event->name;
    table->lane[row] = event->lane;
    table->link[row] = event->link;
    table->extra[row] = event->extra;
    if (table->external)
        table->external[row] = event->external;
    table->kind[row] = (uint8_t)event->kind;
    table->len = row + 1;
}

static void copy_row(ProfileEvents *table, size_t to, size_t from)
{
    table->start[to] = table->start[from];
    table->duration[to] = table->duration[from];
    table->name[to] = table->name[from];
    table->lane[to] = table->lane[from];
    table->link[to] = table->link[from];
    table->extra[to] = table->extra[from];
    if (table->external)
        table->external[to] = table->external[from];
    table->kind[to] = table->kind[from];
}

void profile_filter(Profile *profile, ProfileKeep keep, void *context)
{
    ProfileEvents *tables[] = {&profile->gpu, &profile->host, &profile->mark};

    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        size_t kept = 0;

        for (size_t row = 0; row < tables[t]->len; row++)
            if (keep(context, profile, tables[t], row))
                copy_row(tables[t], kept++, row);
        tables[t]->len = kept;
    }
}

/* ---- losses ---- */

void profile_lose(Profile *profile, ProfileLossReason reason, uint64_t byte, const char *excerpt, size_t len)
{
    profile->lost_by_reason[reason]++;
    if (profile->losses.len >= PROFILE_LOSSES_KEPT)
        return;
    const size_t shown = len < EXCERPT_MAX ? len : EXCERPT_MAX;
    const ProfileLoss loss = {.reason = reason,
                              .byte = byte,
                              .event = profile->events,
                              .detail = excerpt ? profile_name(profile, excerpt, shown) : PROFILE_NONE};

    vec_push(&profile->losses, loss);
}

uint64_t profile_lost(const Profile *profile)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < PROFILE_LOSS_COUNT; i++)
        if (i != PROFILE_LOSS_BAD_DURATION && i != PROFILE_LOSS_PROFILER)
            sum += profile->lost_by_reason[i];
    return sum;
}

const char *profile_loss_word(ProfileLossReason reason)
{
    static const char *const words[PROFILE_LOSS_COUNT] = {
        [PROFILE_LOSS_SYNTAX] = "syntax",
        [PROFILE_LOSS_TRUNCATED] = "truncated",
        [PROFILE_LOSS_COMPRESSION] = "compression",
        [PROFILE_LOSS_NO_TIME] = "no_time",
        [PROFILE_LOSS_BAD_DURATION] = "bad_duration",
        [PROFILE_LOSS_UNPAIRED] = "unpaired",
        [PROFILE_LOSS_DUPLICATE] = "duplicate",
        [PROFILE_LOSS_TOO_LONG] = "too_long",
        [PROFILE_LOSS_PROFILER] = "dropped_by_profiler",
    };

    return words[reason];
}

/* ---- memory ---- */

static size_t events_bytes(const ProfileEvents *table)
{
    return table->len * (PROFILE_EVENT_BYTES + (table->external ? sizeof(*table->external) : 0));
}

size_t profile_bytes(const Profile *profile)
{
    const ProfileNames *names = profile->names;

    return events_bytes(&profile->gpu) + events_bytes(&profile->host) + events_bytes(&profile->mark) +
           profile_set_bytes(&names->names) + profile_set_bytes(&names->launches.set) +
           profile_set_bytes(&names->copies.set) + profile_set_bytes(&names->ops.set) +
           profile_set_bytes(&names->lanes.set) + profile->lanes.cap * sizeof(*profile->lanes.at) +
           profile->launches.cap * sizeof(*profile->launches.at) + profile->copies.cap * sizeof(*profile->copies.at) +
           profile->ops.cap * sizeof(*profile->ops.at) + profile->syncs.cap * sizeof(*profile->syncs.at) +
           profile->collectives.cap * sizeof(*profile->collectives.at) +
           profile->memory.cap * sizeof(*profile->memory.at);
}
