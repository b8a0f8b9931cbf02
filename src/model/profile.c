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

enum { SLOTS_MIN = 64 };

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
        arena_init(&set->arena, 0);
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
#define COLUMN(column) free(table->column);
    PROFILE_COLUMNS(COLUMN)
    COLUMN(external)
#undef COLUMN
    *table = (ProfileEvents){0};
}

/* A profile as its readers fill it. */

enum { ROWS_MIN = 256, ROWS_GROW = 4 };

void profile_init(Profile *profile)
{
    *profile = (Profile){
        .rank = -1,
        .world_size = -1,
        .backend = PROFILE_NONE,
        .nccl_version = PROFILE_NONE,
        .host_name = PROFILE_NONE,
        .trace_id = PROFILE_NONE,
        .framework = PROFILE_NONE,
    };
}

void profile_done(Profile *profile)
{
    profile_events_done(&profile->gpu);
    profile_events_done(&profile->host);
    profile_events_done(&profile->mark);
    profile_set_done(&profile->names);
    profile_set_done(&profile->lane_keys);
    profile_set_done(&profile->launch_keys);
    profile_set_done(&profile->copy_keys);
    profile_set_done(&profile->op_keys);
    vec_done(&profile->lanes);
    vec_done(&profile->launches);
    vec_done(&profile->copies);
    vec_done(&profile->ops);
    vec_done(&profile->collectives);
    vec_done(&profile->nodes);
    vec_done(&profile->places);
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

    return profile_set_put(&profile->names, text, len, &fresh);
}

const char *profile_text(const Profile *profile, uint32_t name, size_t *ret_len)
{
    const ProfileSet *set = &profile->names;
    const bool known = name < set->texts.len;

    if (ret_len)
        *ret_len = known ? set->lens.at[name] : 0;
    return known ? set->texts.at[name] : "";
}

uint32_t profile_name_find(const Profile *profile, const char *text)
{
    return profile_set_find(&profile->names, text, strlen(text));
}

size_t profile_name_count(const Profile *profile)
{
    return profile->names.texts.len;
}

/* ---- details and lanes: stored once by the bytes of a key without padding ---- */

/* The index of a row in its list, which has as many rows as `keys` has keys. */
#define PUT_ROW(keys, key, list, row)                                                                                  \
    __extension__({                                                                                                    \
        bool fresh_;                                                                                                   \
        const uint32_t index_ = profile_set_put((keys), (key), sizeof(*(key)), &fresh_);                               \
        if (fresh_)                                                                                                    \
            vec_push((list), (row));                                                                                   \
        index_;                                                                                                        \
    })

static uint32_t lane_put(Profile *profile, const ProfileLane *lane)
{
    const int64_t key[] = {lane->pid, lane->tid, (int64_t)((uint64_t)lane->pid_name << 32 | lane->tid_name),
                           lane->gpu ? INT64_C(1) << 32 | (uint32_t)lane->device : 0};

    return PUT_ROW(&profile->lane_keys, &key, &profile->lanes, *lane);
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

_Static_assert(sizeof(ProfileLaunch) == 13 * sizeof(uint32_t), "its bytes are its key");
_Static_assert(sizeof(ProfileCopy) == 3 * sizeof(int64_t), "its bytes are its key");

uint32_t profile_launch(Profile *profile, const ProfileLaunch *launch)
{
    return PUT_ROW(&profile->launch_keys, launch, &profile->launches, *launch);
}

uint32_t profile_copy(Profile *profile, const ProfileCopy *copy)
{
    return PUT_ROW(&profile->copy_keys, copy, &profile->copies, *copy);
}

uint32_t profile_op(Profile *profile, const ProfileOp *op)
{
    const int64_t key[] = {(int64_t)((uint64_t)op->dims << 32 | op->types),
                           (int64_t)((uint64_t)op->arguments << 32 | op->collective), op->sequence};

    return PUT_ROW(&profile->op_keys, &key, &profile->ops, *op);
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
#define COLUMN(column) table->column = xrealloc_large(table->column, cap, sizeof(*table->column));
    PROFILE_COLUMNS(COLUMN)
    if (external)
        COLUMN(external)
#undef COLUMN
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
    table->name[row] = event->name != PROFILE_NONE ? event->name : profile_name(profile, "", 0);
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
#define COLUMN(column) table->column[to] = table->column[from];
    PROFILE_COLUMNS(COLUMN)
    if (table->external)
        COLUMN(external)
#undef COLUMN
}

void profile_filter(Profile *profile, ProfileKeep keep, void *context)
{
    ProfileEvents *tables[] = {&profile->gpu, &profile->host, &profile->mark};

    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        const size_t len = tables[t]->len;
        size_t kept = 0;

        for (size_t row = 0; row < len; row++)
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
    ProfileLoss loss = {.reason = reason, .byte = byte, .event = profile->events};

    if (excerpt)
        memcpy(loss.excerpt, excerpt, len < PROFILE_EXCERPT_MAX ? len : PROFILE_EXCERPT_MAX);
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

const char *const profile_loss_words[PROFILE_LOSS_COUNT] = {
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

/* ---- memory ---- */

static size_t events_bytes(const ProfileEvents *table)
{
    return table->len * (PROFILE_EVENT_BYTES + (table->external ? sizeof(*table->external) : 0));
}

size_t profile_bytes(const Profile *profile)
{
    return events_bytes(&profile->gpu) + events_bytes(&profile->host) + events_bytes(&profile->mark) +
           profile_set_bytes(&profile->names) + profile_set_bytes(&profile->launch_keys) +
           profile_set_bytes(&profile->copy_keys) + profile_set_bytes(&profile->op_keys) +
           profile_set_bytes(&profile->lane_keys) + profile->lanes.cap * sizeof(*profile->lanes.at) +
           profile->launches.cap * sizeof(*profile->launches.at) + profile->copies.cap * sizeof(*profile->copies.at) +
           profile->ops.cap * sizeof(*profile->ops.at) + profile->syncs.cap * sizeof(*profile->syncs.at) +
           profile->collectives.cap * sizeof(*profile->collectives.at) +
           profile->nodes.cap * sizeof(*profile->nodes.at) + profile->places.cap * sizeof(*profile->places.at) +
           profile->memory.cap * sizeof(*profile->memory.at);
}

/* ---- words of copies ---- */

/* The words in names of copies, as CUPTI, roctracer and Nsight Systems write them. */

typedef struct Word {
    const char *text;
    uint8_t value;
} Word;

static const Word directions[] = {
    {"memset", PROFILE_COPY_SET},          {"fill", PROFILE_COPY_SET},
    {"memcpyd2h", PROFILE_COPY_DTOH}, /* XLA's; A is an array of the device */
    {"memcpyh2d", PROFILE_COPY_HTOD},      {"memcpyd2d", PROFILE_COPY_DTOD},
    {"memcpyp2p", PROFILE_COPY_PTOP},      {"memcpyh2h", PROFILE_COPY_HTOH},
    {"memcpya2a", PROFILE_COPY_DTOD},      {"memcpyh2a", PROFILE_COPY_HTOD},
    {"memcpya2h", PROFILE_COPY_DTOH},      {"memcpyd2a", PROFILE_COPY_DTOD},
    {"memcpya2d", PROFILE_COPY_DTOD},      {"htod", PROFILE_COPY_HTOD},
    {"hosttodevice", PROFILE_COPY_HTOD},   {"host-to-device", PROFILE_COPY_HTOD},
    {"dtoh", PROFILE_COPY_DTOH},           {"devicetohost", PROFILE_COPY_DTOH},
    {"device-to-host", PROFILE_COPY_DTOH}, {"dtod", PROFILE_COPY_DTOD},
    {"devicetodevice", PROFILE_COPY_DTOD}, {"device-to-device", PROFILE_COPY_DTOD},
    {"ptop", PROFILE_COPY_PTOP},           {"peertopeer", PROFILE_COPY_PTOP},
    {"peer-to-peer", PROFILE_COPY_PTOP},   {"htoh", PROFILE_COPY_HTOH},
    {"hosttohost", PROFILE_COPY_HTOH},     {"host-to-host", PROFILE_COPY_HTOH},
};

static const Word memories[] = {
    {"pageable", PROFILE_MEMORY_PAGEABLE}, {"pinned", PROFILE_MEMORY_PINNED},   {"device", PROFILE_MEMORY_DEVICE},
    {"array", PROFILE_MEMORY_ARRAY},       {"managed", PROFILE_MEMORY_MANAGED}, {"unified", PROFILE_MEMORY_MANAGED},
};

static unsigned int word_in(const Word *words, size_t count, const char *text, size_t len)
{
    for (size_t w = 0; w < count; w++) {
        const size_t size = strlen(words[w].text);

        for (size_t i = 0; i + size <= len; i++)
            if (strncasecmp(text + i, words[w].text, size) == 0)
                return words[w].value;
    }
    return 0;
}

ProfileMemoryKind profile_memory_word(const char *text, size_t len)
{
    return (ProfileMemoryKind)word_in(memories, ARRAY_LEN(memories), text, len);
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

    copy->source = (uint16_t)profile_memory_word(open, left);
    if (arrow)
        copy->target = (uint16_t)profile_memory_word(arrow, len - head - left);
    else if (copy->kind == PROFILE_COPY_SET) {
        copy->target = copy->source;
        copy->source = PROFILE_MEMORY_UNKNOWN;
    }
}

/* ---- names of everything ---- */

static void rename_one(uint32_t *name, const uint32_t *to)
{
    if (*name != PROFILE_NONE)
        *name = to[*name];
}

void profile_rename(Profile *profile, const uint32_t *to)
{
    const ProfileEvents *const tables[] = {&profile->gpu, &profile->host, &profile->mark};
    uint32_t *const words[] = {&profile->backend, &profile->nccl_version, &profile->host_name, &profile->trace_id,
                               &profile->framework};

    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (size_t i = 0; i < tables[t]->len; i++)
            rename_one(&tables[t]->name[i], to);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        rename_one(words[i], to);
#define RENAME(list, member)                                                                                           \
    for (size_t i = 0; i < profile->list.len; i++)                                                                     \
        rename_one(&profile->list.at[i].member, to);
    RENAME(lanes, pid_name)
    RENAME(lanes, tid_name)
    RENAME(lanes, label)
    RENAME(ops, dims)
    RENAME(ops, types)
    RENAME(ops, arguments)
    RENAME(places, modules)
    RENAME(collectives, name)
    RENAME(collectives, dtype)
    RENAME(collectives, group)
    RENAME(collectives, group_label)
    RENAME(collectives, ranks)
    RENAME(syncs, name)
    RENAME(devices, name)
    RENAME(groups, name)
    RENAME(groups, label)
    RENAME(groups, ranks)
#undef RENAME
}

/* ---- appending a part ---- */

/* Joining the parts of a profile that several threads read. */

/* Indices of the part in the whole. */
typedef struct Renumber {
    uint32_t *lanes, *launches, *copies, *ops;
} Renumber;

static void append_names(Profile *into, Profile *part)
{
    const size_t count = profile_name_count(part);
    CLEANUP_FREE uint32_t *to = xmalloc((count + 1) * sizeof(*to));

    for (size_t i = 0; i < count; i++)
        to[i] = profile_name(into, part->names.texts.at[i], part->names.lens.at[i]);
    profile_rename(part, to);
}

static void append_lanes(Profile *into, const Profile *part, Renumber *to)
{
    to->lanes = xmalloc((part->lanes.len + 1) * sizeof(*to->lanes));
    for (size_t i = 0; i < part->lanes.len; i++) {
        const ProfileLane *lane = &part->lanes.at[i];
        const uint32_t at = to->lanes[i] = lane_put(into, lane);
        ProfileLane *same = &into->lanes.at[at];

        same->label = lane->label != PROFILE_NONE ? lane->label : same->label;
    }
}

static void append_details(Profile *into, Profile *part, Renumber *to)
{
    const uint32_t before = (uint32_t)into->collectives.len;

    for (size_t i = 0; i < part->collectives.len; i++)
        profile_collective(into, &part->collectives.at[i]);
    to->launches = xmalloc((part->launches.len + 1) * sizeof(*to->launches));
    for (size_t i = 0; i < part->launches.len; i++) {
        ProfileLaunch *launch = &part->launches.at[i];

        launch->collective += launch->collective == PROFILE_NONE ? 0 : before;
        to->launches[i] = profile_launch(into, launch);
    }
    to->copies = xmalloc((part->copies.len + 1) * sizeof(*to->copies));
    for (size_t i = 0; i < part->copies.len; i++)
        to->copies[i] = profile_copy(into, &part->copies.at[i]);
    to->ops = xmalloc((part->ops.len + 1) * sizeof(*to->ops));
    for (size_t i = 0; i < part->ops.len; i++) {
        ProfileOp *op = &part->ops.at[i];

        op->collective += op->collective == PROFILE_NONE ? 0 : before;
        to->ops[i] = profile_op(into, op);
    }
}

/* Moves one column over and frees the part's, so that no two whole copies exist at a time. */
static void move_column(void *into, size_t len, void *part, size_t part_len, size_t size)
{
    if (part_len)
        memcpy((char *)into + len * size, part, part_len * size);
    free(part);
}

/* `extra`: the details of a row's kind in the whole. */
static void append_table(ProfileEvents *into, ProfileEvents *part, const Renumber *to)
{
    const uint32_t *const extra[PROFILE_KIND_COUNT] = {[PROFILE_KERNEL] = to->launches,
                                                       [PROFILE_COPY] = to->copies,
                                                       [PROFILE_SET] = to->copies,
                                                       [PROFILE_OP] = to->ops};

    for (size_t i = 0; i < part->len; i++) {
        part->lane[i] = to->lanes[part->lane[i]];
        if (part->extra[i] != PROFILE_NONE)
            part->extra[i] = extra[part->kind[i]][part->extra[i]];
    }
    if (!into->len) {
        profile_events_done(into);
        *into = *part;
        *part = (ProfileEvents){0};
        return;
    }
    profile_events_reserve(into, into->len + part->len, into->external != NULL);
#define COLUMN(column) move_column(into->column, into->len, TAKE(part->column), part->len, sizeof(*into->column));
    PROFILE_COLUMNS(COLUMN)
    if (into->external)
        COLUMN(external)
#undef COLUMN
    into->len += part->len;
    profile_events_done(part);
}

#define APPEND(list)                                                                                                   \
    for (size_t i = 0; i < part->list.len; i++)                                                                        \
        vec_push(&into->list, part->list.at[i]);

static void append_records(Profile *into, Profile *part, const Renumber *to)
{
    for (size_t i = 0; i < part->memory.len; i++)
        part->memory.at[i].lane = to->lanes[part->memory.at[i].lane];
    APPEND(memory)
    APPEND(nodes)
    APPEND(places)
    APPEND(syncs)
    APPEND(devices)
    APPEND(groups)
    for (size_t i = 0; i < part->losses.len; i++)
        part->losses.at[i].event += into->events;
    APPEND(losses)
    into->losses.len = into->losses.len < PROFILE_LOSSES_KEPT ? into->losses.len : PROFILE_LOSSES_KEPT;
    for (size_t i = 0; i < PROFILE_LOSS_COUNT; i++)
        into->lost_by_reason[i] += part->lost_by_reason[i];
}
#undef APPEND

/* Of repeated metadata the last one counts. */
static void append_words(Profile *into, const Profile *part)
{
    uint32_t *const mine[] = {&into->backend, &into->nccl_version, &into->host_name, &into->trace_id, &into->framework};
    const uint32_t theirs[] = {part->backend, part->nccl_version, part->host_name, part->trace_id, part->framework};

    for (size_t i = 0; i < ARRAY_LEN(mine); i++)
        *mine[i] = theirs[i] != PROFILE_NONE ? theirs[i] : *mine[i];
    into->rank = part->rank >= 0 ? part->rank : into->rank;
    into->world_size = part->world_size >= 0 ? part->world_size : into->world_size;
    into->base_ns = part->base_ns ? part->base_ns : into->base_ns;
    into->rocm |= part->rocm;
    into->with_stack |= part->with_stack;
    into->with_shapes |= part->with_shapes;
    into->with_memory |= part->with_memory;
    into->microseconds &= part->microseconds;
    into->bytes += part->bytes;
    into->events += part->events;
    into->ignored += part->ignored;
    into->counter_ranges += part->counter_ranges;
}

void profile_append(Profile *into, Profile *part)
{
    Renumber to = {0};

    append_names(into, part);
    append_lanes(into, part, &to);
    append_details(into, part, &to);
    append_table(&into->gpu, &part->gpu, &to);
    append_table(&into->host, &part->host, &to);
    append_table(&into->mark, &part->mark, &to);
    append_records(into, part, &to);
    append_words(into, part);
    free(to.lanes);
    free(to.launches);
    free(to.copies);
    free(to.ops);
    profile_done(part);
    profile_init(part);
}
