/* SPDX-License-Identifier: Apache-2.0 */
/* Joining the parts of a profile that several threads read. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "model/profile_inside.h"

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
