/* SPDX-License-Identifier: Apache-2.0 */
/* Two scans of one text become one, as if the first had gone on. */
#include "base/owner.h"
#include "engine/trace/scan/inside.h"

static uint32_t same_name(Profile *into, const Profile *part, uint32_t name)
{
    size_t len;

    if (name == PROFILE_NONE)
        return PROFILE_NONE;
    const char *text = profile_text(part, name, &len);

    return profile_name(into, text, len);
}

static ThreadKey same_thread(Profile *into, const Profile *part, ThreadKey key)
{
    key.pid_name = same_name(into, part, key.pid_name);
    key.tid_name = same_name(into, part, key.tid_name);
    return key;
}

static void join_halves(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->halves.len; i++) {
        Half half = part->halves.at[i];

        half.thread = same_thread(scan->profile, part->profile, half.thread);
        half.event.name = same_name(scan->profile, part->profile, half.event.name);
        if (half.on_gpu && half.wanted) {
            const ProfileLane *lane = &part->profile->lanes.at[half.event.lane];

            half.event.lane = profile_stream(scan->profile, lane->device, lane->tid);
        }
        vec_push(&scan->halves, half);
    }
}

static void join_labels(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->labels.len; i++) {
        Label label = part->labels.at[i];

        label.thread = same_thread(scan->profile, part->profile, label.thread);
        label.text = same_name(scan->profile, part->profile, label.text);
        vec_push(&scan->labels, label);
    }
}

static void join_bares(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->bares.len; i++) {
        Bare bare = part->bares.at[i];

        bare.row += scan->profile->host.len;
        bare.kernel = same_name(scan->profile, part->profile, bare.kernel);
        bare.copy = same_name(scan->profile, part->profile, bare.copy);
        vec_push(&scan->bares, bare);
    }
    scan->bare_links |= part->bare_links;
}

/* Rows of the part come behind those that are there. */
static void join_wides(TraceScan *scan, const TraceScan *part)
{
    const size_t before[] = {
        [WIDE_GPU_LINK] = scan->profile->gpu.len,    [WIDE_GPU_EXTERNAL] = scan->profile->gpu.len,
        [WIDE_HOST_LINK] = scan->profile->host.len,  [WIDE_SYNC_LINK] = scan->profile->syncs.len,
        [WIDE_SYNC_WAIT] = scan->profile->syncs.len,
    };

    for (size_t i = 0; i < part->wides.len; i++) {
        Wide wide = part->wides.at[i];

        wide.row += before[wide.field];
        vec_push(&scan->wides, wide);
    }
}

static void join_losses(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->losses.len && scan->losses.len < PROFILE_LOSSES_KEPT; i++) {
        Loss loss = part->losses.at[i];

        loss.event += scan->profile->events;
        vec_push(&scan->losses, loss);
    }
}

/* Of what is said twice the last one counts, as it does within one scan; profile_append would keep the first. */
static void forget_older(Profile *into, const Profile *part)
{
    uint32_t *const mine[] = {&into->backend, &into->nccl_version, &into->host_name, &into->trace_id, &into->framework};
    const uint32_t theirs[] = {part->backend, part->nccl_version, part->host_name, part->trace_id, part->framework};

    for (size_t i = 0; i < ARRAY_LEN(mine); i++)
        if (theirs[i] != PROFILE_NONE)
            *mine[i] = PROFILE_NONE;
    into->rank = part->rank < 0 ? into->rank : part->rank;
    into->world_size = part->world_size < 0 ? into->world_size : part->world_size;
    into->base_ns = part->base_ns ? part->base_ns : into->base_ns;
}

#define SWAP(a, b)                                                                                                     \
    do {                                                                                                               \
        __typeof__(a) swap_ = (a);                                                                                     \
        (a) = (b);                                                                                                     \
        (b) = swap_;                                                                                                   \
    } while (0)

/* The text goes on where the part stands. */
static void take_place(TraceScan *scan, TraceScan *part)
{
    SWAP(scan->buffer, part->buffer);
    SWAP(scan->len, part->len);
    SWAP(scan->cap, part->cap);
    SWAP(scan->at, part->at);
    SWAP(scan->origin, part->origin);
    scan->wait = part->wait;
    scan->final = part->final;
    scan->state = part->state;
    scan->credit = part->credit;
    scan->credit_at = part->credit_at;
    scan->lost_skip = part->lost_skip;
    scan->stops = part->stops;
    scan->arrived = part->arrived;
}

void scan_join(TraceScan *scan, TraceScan *part)
{
    Profile *into = scan->profile, *from = part->profile;

    join_halves(scan, part);
    join_labels(scan, part);
    join_wides(scan, part);
    join_bares(scan, part);
    join_losses(scan, part);
    take_place(scan, part);
    if (part->object_told)
        scan->object = part->object;
    scan->fraction |= part->fraction;
    scan->timed |= part->timed;
    forget_older(into, from);
    profile_append(into, from);
}
