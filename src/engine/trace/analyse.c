/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses of one rank, several at a time, and what its file says about itself. */
#include "engine/trace/analyse.h"

#include <string.h>

#include "base/owner.h"
#include "engine/trace/steps.h"
#include "engine/trace/tasks.h"

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

static void copy_file_words(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *rank)
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

/* ---- the analyses ---- */

static void draw_timeline(const TraceJob *job, TraceRank *rank)
{
    if (job->config->timeline)
        trace_timeline(job, rank);
}

typedef struct Analysis {
    void (*run)(const TraceJob *job, TraceRank *rank);
    uint32_t after;                /* as in TraceTask */
    uint8_t host_bytes, gpu_bytes; /* memory for each event and operation */
} Analysis;

enum { AFTER_DEVICES = 1 << 0 };

/* Those that take longest first, but for the one that another waits for. */
static const Analysis analyses[] = {
    {.run = trace_devices},
    {.run = draw_timeline, .host_bytes = 16, .gpu_bytes = 16},
    {.run = trace_gaps, .after = AFTER_DEVICES, .gpu_bytes = 8},
    {.run = trace_operators, .host_bytes = 9},
    {.run = trace_paths, .host_bytes = 17, .gpu_bytes = 4},
    {.run = trace_kernels},
    {.run = trace_queues, .gpu_bytes = 16},
    {.run = trace_launches, .host_bytes = 8, .gpu_bytes = 8},
    {.run = trace_steps},
    {.run = trace_calls, .host_bytes = 4},
    {.run = trace_collectives, .gpu_bytes = 48},
    {.run = trace_annotations, .host_bytes = 24, .gpu_bytes = 4},
    {.run = trace_memory, .host_bytes = 8},
    {.run = trace_copies},
};

_Static_assert(ARRAY_LEN(analyses) <= TRACE_TASKS_MAX, "a task each");

typedef struct Analysing {
    const TraceJob *job;
    TraceRank *rank;
} Analysing;

static void run_analysis(void *analysing_, size_t place, unsigned int thread)
{
    const Analysing *analysing = analysing_;
    TraceJob job = *analysing->job;

    job.arena += thread;
    analyses[place].run(&job, analysing->rank);
}

static void run_analyses(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    Analysing analysing = {.job = job, .rank = rank};
    TraceTask tasks[ARRAY_LEN(analyses)];

    for (size_t i = 0; i < ARRAY_LEN(analyses); i++)
        tasks[i] =
            (TraceTask){.run = run_analysis,
                        .after = analyses[i].after,
                        .bytes = analyses[i].host_bytes * profile->host.len + analyses[i].gpu_bytes * profile->gpu.len};
    trace_tasks_run(tasks, ARRAY_LEN(tasks), &analysing, job->threads, job->memory);
}

void trace_analyse(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *ret)
{
    memset(ret, 0, sizeof *ret);
    copy_file_words(job, file, rank_if_unknown, ret);
    copy_losses(job, ret);
    trace_steps_prepare(job, ret);
    run_analyses(job, ret);
    copy_device_words(job->index->profile, ret);
}
