/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses of one rank, and what its file says about itself. */
#include "engine/trace/analyse.h"

#include <string.h>

static const char *copy_text(const TraceJob *job, uint32_t name)
{
    size_t len;
    const char *text = profile_text(job->index->profile, name, &len);

    return len > 0 ? arena_strndup(job->arena, text, len) : "";
}

static void copy_losses(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;

    rank->lost = profile_lost(profile);
    memcpy(rank->lost_by_reason, profile->lost_by_reason, sizeof rank->lost_by_reason);
    for (size_t i = 0; i < profile->losses.len; i++) {
        const ProfileLoss *loss = &profile->losses.at[i];

        vec_push(&rank->losses, ((TraceLossRow){.reason = profile_loss_word(loss->reason),
                                                .excerpt = copy_text(job, loss->detail),
                                                .byte = loss->byte,
                                                .event = loss->event}));
    }
}

static void copy_words(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *rank)
{
    const Profile *profile = job->index->profile;

    rank->rank_known = profile->rank >= 0;
    rank->rank = rank->rank_known ? profile->rank : rank_if_unknown;
    rank->file = arena_strdup(job->arena, file ? file : "");
    rank->world_size = profile->world_size > 0 ? profile->world_size : -1;
    rank->framework = copy_text(job, profile->framework);
    rank->backend = copy_text(job, profile->backend);
    rank->host = copy_text(job, profile->host_name);
    rank->bytes = profile->bytes;
    rank->events = profile->events;
    rank->ignored = profile->ignored;
    rank->with_stack = profile->with_stack;
    rank->with_shapes = profile->with_shapes;
    rank->with_memory = profile->with_memory;
    rank->rocm = profile->rocm;
    rank->microseconds = profile->microseconds;
    rank->base_ns = profile->base_ns;
    rank->windows = 1;
    rank->memory_bytes = profile_bytes(profile);
}

/* What the file says of the devices that were found at work. */
static void copy_device_words(const Profile *profile, TraceRank *rank)
{
    for (size_t i = 0; i < rank->devices.len; i++) {
        TraceDevice *device = &rank->devices.at[i];

        device->major = device->minor = -1;
        device->sm_count = device->memory_bytes = -1;
        for (size_t j = 0; j < profile->devices.len; j++) {
            const ProfileDevice *known = &profile->devices.at[j];

            if (known->id != device->device)
                continue;
            if (known->major > 0) {
                device->major = known->major;
                device->minor = known->minor;
            }
            if (known->sm_count > 0)
                device->sm_count = known->sm_count;
            if (known->memory_bytes > 0 && known->memory_bytes <= INT64_MAX)
                device->memory_bytes = (int64_t)known->memory_bytes;
        }
    }
}

void trace_analyse(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *ret)
{
    memset(ret, 0, sizeof *ret);
    copy_words(job, file, rank_if_unknown, ret);
    copy_losses(job, ret);
    trace_devices(job, ret);
    copy_device_words(job->index->profile, ret);
    trace_gaps(job, ret);
    trace_steps(job, ret);
    trace_launches(job, ret);
    trace_queues(job, ret);
    trace_kernels(job, ret);
    trace_copies(job, ret);
    trace_operators(job, ret);
    trace_calls(job, ret);
    trace_annotations(job, ret);
    trace_memory(job, ret);
    trace_collectives(job, ret);
    if (job->config->paths)
        trace_paths(job, ret);
    if (job->config->timeline)
        trace_timeline(job, ret);
}
