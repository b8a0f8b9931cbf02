/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/trace/nsys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "base/str.h"
#include "engine/trace/classify.h"

enum { CSV_MAX = 1 << 30, BLOCK = 256 * 1024 };

int trace_nsys_sqlite(ProfileInput *input, size_t memory_max, const bool *stop, Profile *into, Err *err)
{
    const char *path = profile_input_path(input);

    if (strcmp(path, "-") == 0)
        return err_set(err, -ESPIPE, "a database of Nsight Systems cannot be read from standard input; give its file");
    const int rc = nsys_read_sqlite(path, memory_max, stop, into, err);

    return rc < 0 && rc != -EINTR ? err_add(err, "'%s'", path) : rc;
}

int trace_nsys_csv(ProfileInput *input, const bool *stop, Profile *into, NsysSummary *ret, Arena *arena, Err *err)
{
    CLEANUP(str_done) Str text = {0};
    CLEANUP_FREE char *block = xmalloc(BLOCK);
    ssize_t n;

    str_init(&text, CSV_MAX);
    while ((n = profile_input_read(input, block, BLOCK, text.len, err)) > 0) {
        str_addn(&text, block, (size_t)n);
        if (stop && *stop)
            return err_set(err, -EINTR, "interrupted");
    }
    profile_input_settle(input);
    TRY((int)n);
    TRY(str_check(&text, profile_input_path(input), err));
    const int rc = nsys_read_csv(text.text, text.len, into, ret, arena, err);

    return rc < 0 ? err_add(err, "'%s'", profile_input_path(input)) : rc;
}

static void add_kernel(TraceRank *rank, const NsysSummaryRow *row)
{
    const size_t len = strlen(row->name);
    const TraceKernel kernel = {.name = row->name,
                                .class = trace_classify(PROFILE_KERNEL, row->name, len),
                                .count = row->count,
                                .total_ns = row->total_ns,
                                .min_ns = row->min_ns,
                                .max_ns = row->max_ns,
                                .mean_ns = row->count ? (double)row->total_ns / (double)row->count : 0,
                                .sd_ns = isnan(row->sd_ns) ? 0 : row->sd_ns,
                                .tensor_core = trace_is_tensor_core(row->name, len),
                                .occupancy_percent = (double)NAN,
                                .blocks_per_sm = (double)NAN,
                                .sm_efficiency = (double)NAN,
                                .registers = -1,
                                .shared_bytes = -1};

    vec_push(&rank->kernels, kernel);
}

static void add_copy(TraceRank *rank, const NsysSummaryRow *row)
{
    static const char *const kinds[PROFILE_COPY_KIND_COUNT] = {"unknown", "HtoD", "DtoH", "DtoD",
                                                               "PtoP",    "HtoH", "set"};
    ProfileCopy words;

    profile_copy_words(row->name, strlen(row->name), &words);
    const TraceCopy copy = {.kind = kinds[words.kind],
                            .source = "",
                            .target = "",
                            .count = row->count,
                            .total_ns = row->total_ns,
                            .min_ns = row->min_ns,
                            .max_ns = row->max_ns,
                            .bandwidth_gbs = (double)NAN};

    vec_push(&rank->copies, copy);
}

static void add_call(TraceRank *rank, const NsysSummaryRow *row)
{
    const TraceCall call = {.name = row->name,
                            .inner = "",
                            .outer = "",
                            .class = trace_classify_host(PROFILE_CALL, row->name, strlen(row->name)),
                            .count = row->count,
                            .total_ns = row->total_ns,
                            .min_ns = row->min_ns,
                            .max_ns = row->max_ns};

    vec_push(&rank->calls, call);
}

static void add_range(TraceRank *rank, const NsysSummaryRow *row)
{
    const TraceAnnotation range = {.name = row->name,
                                   .count = row->count,
                                   .total_ns = row->total_ns,
                                   .min_ns = row->min_ns,
                                   .max_ns = row->max_ns,
                                   .busy_ns = -1};

    vec_push(&rank->annotations, range);
}

static void (*const adders[])(TraceRank *rank, const NsysSummaryRow *row) = {[NSYS_TABLE_KERNELS] = add_kernel,
                                                                             [NSYS_TABLE_COPIES] = add_copy,
                                                                             [NSYS_TABLE_CALLS] = add_call,
                                                                             [NSYS_TABLE_RANGES] = add_range};

void trace_nsys_rank(TraceOne *one, const Profile *profile, const NsysSummary *summary, TraceRank *ret)
{
    TraceIndex index;

    trace_index_init(&index, profile, 1); /* no events: what the file says of itself, and its losses */
    const TraceJob job = trace_one_job(one, &index);
    trace_analyse(&job, one->path, one->number, ret);
    trace_index_done(&index);
    for (size_t i = 0; i < summary->rows.len; i++)
        adders[summary->table](ret, &summary->rows.at[i]);
    one->note = arena_printf(one->arena,
                             "%s is a summary: it has names, counts and times, and no single events to analyse; "
                             "for more give the SQLite export or cuda_gpu_trace",
                             one->path);
}
