/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of byte strings: open addressing over a power of two, at most half full. */
#include "model/profile.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "model/profile_inside.h"

enum { SLOTS_MIN = 256, TEXT_BLOCK = 64 * 1024 };

static struct ProfileSlot *slot_of(const ProfileSet *set, uint32_t hash, const void *bytes, size_t len)
{
    const size_t mask = set->slot_count - 1;

    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct ProfileSlot *slot = &set->slots[i];

        if (!slot->id)
            return slot;
        if (slot->hash == hash && set->lens.at[slot->id - 1] == len &&
            memcmp(set->texts.at[slot->id - 1], bytes, len) == 0)
            return slot;
    }
}

static void grow_slots(ProfileSet *set)
{
    const size_t old = set->slot_count;
    struct ProfileSlot *slots = set->slots;

    set->slot_count = old ? old * 2 : SLOTS_MIN;
    set->slots = xcalloc(set->slot_count, sizeof(*set->slots));
    for (size_t i = 0; i < old; i++) {
        if (!slots[i].id)
            continue;
        size_t at = slots[i].hash & (set->slot_count - 1);

        while (set->slots[at].id)
            at = (at + 1) & (set->slot_count - 1);
        set->slots[at] = slots[i];
    }
    free(slots);
}

/* Number of the string, added (ret_new true) where it is new. */
static uint32_t profile_set_put(ProfileSet *set, const void *bytes, size_t len, bool *ret_new)
{
    if (!set->arena.block_bytes) {
        arena_init(&set->arena, TEXT_BLOCK);
        set->seed = (uint64_t)(uintptr_t)set ^ 0x9e3779b97f4a7c15U;
    }
    if ((set->texts.len + 1) * 2 > set->slot_count)
        grow_slots(set);
    const uint32_t hash = (uint32_t)map_hash(bytes, len, set->seed);
    struct ProfileSlot *slot = slot_of(set, hash, bytes, len);

    *ret_new = !slot->id;
    if (!slot->id) {
        char *copy = arena_alloc(&set->arena, len + 1);

        memcpy(copy, bytes, len);
        vec_push(&set->texts, copy);
        vec_push(&set->lens, (uint32_t)len);
        set->bytes += len + 1;
        *slot = (struct ProfileSlot){.hash = hash, .id = (uint32_t)set->texts.len};
    }
    return slot->id - 1;
}

/* PROFILE_NONE */
static uint32_t profile_set_find(const ProfileSet *set, const void *bytes, size_t len)
{
    if (!set->slot_count)
        return PROFILE_NONE;
    const struct ProfileSlot *slot = slot_of(set, (uint32_t)map_hash(bytes, len, set->seed), bytes, len);

    return slot->id ? slot->id - 1 : PROFILE_NONE;
}

static void profile_set_done(ProfileSet *set)
{
    arena_done(&set->arena);
    vec_done(&set->texts);
    vec_done(&set->lens);
    free(set->slots);
    *set = (ProfileSet){0};
}

static size_t profile_set_bytes(const ProfileSet *set)
{
    const size_t per_text = sizeof(const char *) + sizeof(uint32_t) + ARENA_ALIGN;

    return set->bytes + set->texts.len * per_text + set->slot_count * sizeof(*set->slots);
}

/* ---- texts, lanes ---- */

static void profile_events_done(ProfileEvents *table)
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

/* A profile as its readers fill it. */

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

/* Columns of this size are mappings of their own: growing moves pages and copies nothing, and what is not filled takes
 * no memory. */
static void profile_events_reserve(ProfileEvents *table, size_t rows, bool external)
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

/* ---- words of copies ---- */

/* The words in names of copies, as CUPTI, roctracer and Nsight Systems write them. */

typedef struct Word {
    const char *text;
    uint8_t value;
} Word;

static const Word directions[] = {
    {"memset", PROFILE_COPY_SET},
    {"fill", PROFILE_COPY_SET},
    {"htod", PROFILE_COPY_HTOD},
    {"hosttodevice", PROFILE_COPY_HTOD},
    {"host-to-device", PROFILE_COPY_HTOD},
    {"dtoh", PROFILE_COPY_DTOH},
    {"devicetohost", PROFILE_COPY_DTOH},
    {"device-to-host", PROFILE_COPY_DTOH},
    {"dtod", PROFILE_COPY_DTOD},
    {"devicetodevice", PROFILE_COPY_DTOD},
    {"device-to-device", PROFILE_COPY_DTOD},
    {"ptop", PROFILE_COPY_PTOP},
    {"peertopeer", PROFILE_COPY_PTOP},
    {"peer-to-peer", PROFILE_COPY_PTOP},
    {"htoh", PROFILE_COPY_HTOH},
    {"hosttohost", PROFILE_COPY_HTOH},
    {"host-to-host", PROFILE_COPY_HTOH},
};

static const Word memories[] = {
    {"pageable", PROFILE_MEMORY_PAGEABLE}, {"pinned", PROFILE_MEMORY_PINNED},   {"device", PROFILE_MEMORY_DEVICE},
    {"array", PROFILE_MEMORY_ARRAY},       {"managed", PROFILE_MEMORY_MANAGED}, {"unified", PROFILE_MEMORY_MANAGED},
};

static uint8_t word_in(const Word *words, size_t count, const char *text, size_t len)
{
    for (size_t w = 0; w < count; w++) {
        const size_t size = strlen(words[w].text);

        for (size_t i = 0; i + size <= len; i++)
            if (strncasecmp(text + i, words[w].text, size) == 0)
                return words[w].value;
    }
    return 0;
}

void profile_copy_words(const char *name, size_t len, ProfileCopy *copy)
{
    const char *open = memchr(name, '(', len);
    const size_t head = open ? (size_t)(open - name) : len;

    copy->kind = word_in(directions, ARRAY_LEN(directions), name, head);
    copy->source = copy->target = PROFILE_MEMORY_UNKNOWN;
    if (!open)
        return;
    const char *arrow = memmem(open, len - head, "->", 2);
    const size_t left = arrow ? (size_t)(arrow - open) : len - head;

    copy->source = word_in(memories, ARRAY_LEN(memories), open, left);
    if (arrow)
        copy->target = word_in(memories, ARRAY_LEN(memories), arrow, len - head - left);
    else if (copy->kind == PROFILE_COPY_SET) {
        copy->target = copy->source;
        copy->source = PROFILE_MEMORY_UNKNOWN;
    }
}

/* ---- appending a part ---- */

/* Joining the parts of a profile that several threads read. */

/* What the numbers of the part are called in the whole. */
typedef struct Renumber {
    uint32_t *names, *lanes, *launches, *copies, *ops;
    uint32_t collectives; /* added */
} Renumber;

static uint32_t renumber_name(const Renumber *to, uint32_t name)
{
    return name == PROFILE_NONE ? PROFILE_NONE : to->names[name];
}

static void append_names(Profile *into, const Profile *part, Renumber *to)
{
    const size_t count = profile_name_count(part);

    to->names = xcalloc(count + 1, sizeof(*to->names));
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *text = profile_text(part, (uint32_t)i, &len);

        to->names[i] = profile_name(into, text, len);
    }
}

static void append_lanes(Profile *into, const Profile *part, Renumber *to)
{
    to->lanes = xcalloc(part->lanes.len + 1, sizeof(*to->lanes));
    for (size_t i = 0; i < part->lanes.len; i++) {
        const ProfileLane *lane = &part->lanes.at[i];
        const uint32_t at = lane->gpu ? profile_stream(into, lane->device, lane->tid)
                                      : profile_thread(into, lane->pid, renumber_name(to, lane->pid_name), lane->tid,
                                                       renumber_name(to, lane->tid_name));

        to->lanes[i] = at;
        if (lane->label != PROFILE_NONE)
            into->lanes.at[at].label = renumber_name(to, lane->label);
        if (lane->sort)
            into->lanes.at[at].sort = lane->sort;
    }
}

static void append_details(Profile *into, const Profile *part, Renumber *to)
{
    to->collectives = (uint32_t)into->collectives.len;
    for (size_t i = 0; i < part->collectives.len; i++) {
        ProfileCollective collective = part->collectives.at[i];

        collective.name = renumber_name(to, collective.name);
        collective.dtype = renumber_name(to, collective.dtype);
        collective.group = renumber_name(to, collective.group);
        collective.group_label = renumber_name(to, collective.group_label);
        collective.ranks = renumber_name(to, collective.ranks);
        profile_collective(into, &collective);
    }
    to->launches = xcalloc(part->launches.len + 1, sizeof(*to->launches));
    for (size_t i = 0; i < part->launches.len; i++) {
        ProfileLaunch launch = part->launches.at[i];

        if (launch.collective != PROFILE_NONE)
            launch.collective += to->collectives;
        to->launches[i] = profile_launch(into, &launch);
    }
    to->copies = xcalloc(part->copies.len + 1, sizeof(*to->copies));
    for (size_t i = 0; i < part->copies.len; i++)
        to->copies[i] = profile_copy(into, &part->copies.at[i]);
    to->ops = xcalloc(part->ops.len + 1, sizeof(*to->ops));
    for (size_t i = 0; i < part->ops.len; i++) {
        ProfileOp op = part->ops.at[i];

        op.dims = renumber_name(to, op.dims);
        op.types = renumber_name(to, op.types);
        if (op.collective != PROFILE_NONE)
            op.collective += to->collectives;
        to->ops[i] = profile_op(into, &op);
    }
}

static uint32_t detail_renumbered(const Renumber *to, uint8_t kind, uint32_t extra)
{
    if (extra == PROFILE_NONE)
        return PROFILE_NONE;
    switch ((ProfileKind)kind) {
    case PROFILE_KERNEL:
        return to->launches[extra];
    case PROFILE_COPY:
    case PROFILE_SET:
        return to->copies[extra];
    case PROFILE_OP:
        return to->ops[extra];
    case PROFILE_CALL:
    case PROFILE_ANNOTATION:
    case PROFILE_PYTHON:
    case PROFILE_OVERHEAD:
    case PROFILE_OTHER:
    case PROFILE_GPU_ANNOTATION:
    case PROFILE_KIND_COUNT:
        break;
    }
    return PROFILE_NONE;
}

/* Moves one column over and frees the part's, so that no two whole copies exist at a time. */
static void move_column(void *into, size_t len, void **part, size_t part_len, size_t size)
{
    if (part_len)
        memcpy((char *)into + len * size, *part, part_len * size);
    free(*part);
    *part = NULL;
}
#define MOVE(column)                                                                                                   \
    do {                                                                                                               \
        void *from_ = part->column;                                                                                    \
        part->column = NULL;                                                                                           \
        move_column(into->column, into->len, &from_, part->len, sizeof(*into->column));                                \
    } while (0)

static void append_table(ProfileEvents *into, ProfileEvents *part, const Renumber *to)
{
    for (size_t i = 0; i < part->len; i++) {
        part->name[i] = renumber_name(to, part->name[i]);
        part->lane[i] = to->lanes[part->lane[i]];
        part->extra[i] = detail_renumbered(to, part->kind[i], part->extra[i]);
    }
    if (!into->len) {
        profile_events_done(into);
        *into = *part;
        *part = (ProfileEvents){0};
        return;
    }
    profile_events_reserve(into, into->len + part->len, into->external != NULL);
    MOVE(start);
    MOVE(duration);
    MOVE(name);
    MOVE(lane);
    MOVE(link);
    MOVE(extra);
    if (into->external)
        MOVE(external);
    MOVE(kind);
    into->len += part->len;
    profile_events_done(part);
}

static void append_records(Profile *into, const Profile *part, const Renumber *to)
{
    for (size_t i = 0; i < part->syncs.len; i++) {
        vec_push(&into->syncs, part->syncs.at[i]);
        into->syncs.at[into->syncs.len - 1].name = renumber_name(to, part->syncs.at[i].name);
    }
    for (size_t i = 0; i < part->memory.len; i++) {
        vec_push(&into->memory, part->memory.at[i]);
        into->memory.at[into->memory.len - 1].lane = to->lanes[part->memory.at[i].lane];
    }
    for (size_t i = 0; i < part->devices.len; i++) {
        vec_push(&into->devices, part->devices.at[i]);
        into->devices.at[into->devices.len - 1].name = renumber_name(to, part->devices.at[i].name);
    }
    for (size_t i = 0; i < part->groups.len; i++) {
        const ProfileGroup *group = &part->groups.at[i];

        vec_push(&into->groups, ((ProfileGroup){renumber_name(to, group->name), renumber_name(to, group->label),
                                                renumber_name(to, group->ranks), group->size}));
    }
    for (size_t i = 0; i < part->losses.len && into->losses.len < PROFILE_LOSSES_KEPT; i++) {
        ProfileLoss loss = part->losses.at[i];

        loss.event += into->events;
        loss.detail = renumber_name(to, loss.detail);
        vec_push(&into->losses, loss);
    }
    for (size_t i = 0; i < PROFILE_LOSS_COUNT; i++)
        into->lost_by_reason[i] += part->lost_by_reason[i];
}

static void append_words(Profile *into, const Profile *part, const Renumber *to)
{
    uint32_t *const mine[] = {&into->backend, &into->nccl_version, &into->host_name, &into->trace_id, &into->framework};
    const uint32_t theirs[] = {part->backend, part->nccl_version, part->host_name, part->trace_id, part->framework};

    for (size_t i = 0; i < ARRAY_LEN(mine); i++)
        if (*mine[i] == PROFILE_NONE)
            *mine[i] = renumber_name(to, theirs[i]);
    into->rank = into->rank < 0 ? part->rank : into->rank;
    into->world_size = into->world_size < 0 ? part->world_size : into->world_size;
    into->base_ns = into->base_ns ? into->base_ns : part->base_ns;
    into->rocm |= part->rocm;
    into->with_stack |= part->with_stack;
    into->with_shapes |= part->with_shapes;
    into->with_memory |= part->with_memory;
    into->microseconds &= part->microseconds;
    into->bytes += part->bytes;
    into->events += part->events;
    into->ignored += part->ignored;
}

void profile_append(Profile *into, Profile *part)
{
    Renumber to = {0};

    append_names(into, part, &to);
    append_lanes(into, part, &to);
    append_details(into, part, &to);
    append_table(&into->gpu, &part->gpu, &to);
    append_table(&into->host, &part->host, &to);
    append_table(&into->mark, &part->mark, &to);
    append_records(into, part, &to);
    append_words(into, part, &to);
    free(to.names);
    free(to.lanes);
    free(to.launches);
    free(to.copies);
    free(to.ops);
    profile_done(part);
    profile_init(part);
}
