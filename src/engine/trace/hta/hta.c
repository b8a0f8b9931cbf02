/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/hta/hta.h"

#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/classify.h"
#include "engine/trace/hta/frame.h"

const HtaOptions hta_options_default = {
    .kernel_delay_ns = 30000,
    .duration_ratio = 0.8,
    .kernel_count = 10,
    .queue_length = 1024,
    .runtime_cutoff_ns = 50000,
    .delay_cutoff_ns = 100000,
    .straggler_count = 2,
};

/* HTA looks at the names of steps of all ranks together. */
static int64_t count_steps(const HtaRows *const *rows, size_t count)
{
    Map names;
    int64_t found;

    map_init(&names);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rows[i]->names.len; k++)
            if (strncmp(rows[i]->names.at[k].text, "ProfilerStep", 12) == 0)
                map_put(&names, rows[i]->names.at[k].text, &names);
    found = (int64_t)names.len;
    map_done(&names);
    return found;
}

static ProfileKind kind_of(const char *name)
{
    if (strncmp(name, "Memcpy", 6) == 0)
        return PROFILE_COPY;
    return strncmp(name, "Memset", 6) == 0 ? PROFILE_SET : PROFILE_KERNEL;
}

/* The count of rows of names that `differs` picks, and the name that takes longest. */
static int64_t count_names(const HtaFrame *frame, Arena *arena, bool (*differs)(HtaType, TraceClass), const char **ret)
{
    size_t name_count = frame->rows->names.len, best = 0;
    CLEANUP_FREE int64_t *times = xcalloc(name_count, sizeof *times);
    CLEANUP_FREE bool *picked = xcalloc(name_count, sizeof *picked);
    int64_t count = 0;

    for (size_t i = 1; i < name_count; i++) {
        const HtaName *name = &frame->rows->names.at[i];
        picked[i] = differs(name->type, trace_classify(kind_of(name->text), name->text, strlen(name->text)));
    }
    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);

        if (!picked[row->name] || !(row->flags & HTA_IDLE))
            continue;
        count++;
        times[row->name] = hta_sum(times[row->name], row->duration);
        best = best == 0 || times[row->name] > times[best] ? row->name : best;
    }
    *ret = arena_strdup(arena, frame->rows->names.at[best].text);
    return count;
}

static bool unknown(HtaType hta, TraceClass own)
{
    return own == TRACE_COMMUNICATION && hta != HTA_COMMUNICATION;
}

static bool misnamed(HtaType hta, TraceClass own)
{
    return !unknown(hta, own) && (own == TRACE_COMPUTE) != (hta == HTA_COMPUTATION);
}

static void count_rows(const HtaFrame *frame, HtaReport *report, HtaCounts *counts)
{
    uint32_t before = UINT32_MAX;

    counts->gpu_rows = (int64_t)frame->gpu.len;
    for (size_t i = 0; i < frame->rows->rows.len; i++) {
        const HtaRow *row = &frame->rows->rows.at[i];
        counts->dropped += row->stream != -1 && row->flags & HTA_IDLE;
    }
    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);
        bool again = frame->gpu.at[i] == before;

        before = frame->gpu.at[i];
        counts->repeated += again;
        counts->dropped -= !again && row->flags & HTA_IDLE;
        counts->sync_rows += (row->flags & HTA_SYNC) != 0;
        counts->host_rows += (row->flags & HTA_HOST) != 0;
        counts->negative += row->duration < 0;
    }
    counts->unknown_count = count_names(frame, &report->arena, unknown, &counts->unknown_name);
    counts->misnamed_count = count_names(frame, &report->arena, misnamed, &counts->misnamed_name);
}

static void add_rank(const HtaFrame *frame, HtaReport *report)
{
    HtaRank *rank = vec_add(&report->ranks);

    rank->rank = frame->rows->rank;
    rank->file = arena_strdup(&report->arena, frame->rows->file ? frame->rows->file : "");
    report->ns |= frame->rows->ns;
    count_rows(frame, report, &rank->counts);
    hta_temporal(frame, rank);
    hta_idle(frame, &report->options, rank);
    hta_queues(frame, &report->options, rank);
    hta_bandwidth(frame, &report->arena, rank);
    hta_launches(frame, &report->options, rank);
    hta_kernels(frame, report);
}

void hta_report_init(HtaReport *report, const HtaRows *const *rows, size_t count, const HtaOptions *options)
{
    CLEANUP_FREE HtaFrame *frames = xcalloc(count + 1, sizeof *frames);

    *report = (HtaReport){.options = options ? *options : hta_options_default};
    arena_init(&report->arena, 0);
    report->step_names = count_steps(rows, count);
    report->filtered = report->step_names > 1;
    for (size_t i = 0; i < count; i++)
        hta_frame_init(&frames[i], rows[i], report->filtered, report->options.last_step);
    for (size_t i = 0; i < count; i++)
        add_rank(&frames[i], report);
    hta_types(frames, count, report);
    hta_stragglers(frames, count, report);
    for (size_t i = 0; i < count; i++)
        hta_frame_done(&frames[i]);
}

void hta_report_done(HtaReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++) {
        HtaRank *rank = &report->ranks.at[i];
        for (size_t k = 0; k < rank->bandwidth.len; k++)
            vec_done(&rank->bandwidth.at[k].points);
        vec_done(&rank->bandwidth);
        vec_done(&rank->idle);
        vec_done(&rank->queues);
    }
    vec_done(&report->ranks);
    vec_done(&report->types);
    vec_done(&report->kernels);
    vec_done(&report->straggler_counts);
    vec_done(&report->stragglers);
    arena_done(&report->arena);
    *report = (HtaReport){0};
}
