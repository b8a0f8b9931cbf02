/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/hta.h"

#include "service/report/out.h"

enum { JSON_VERSION = 1 };

static void write_describe(Out *out, const char *key, const HtaDescribe *numbers)
{
    out_open(out, key, '{');
    out_json_i64(out, "count", numbers->count);
    out_json_double(out, "mean", numbers->mean);
    out_json_double(out, "std", numbers->std);
    out_json_double(out, "min", numbers->min);
    out_json_double(out, "p25", numbers->p25);
    out_json_double(out, "p50", numbers->p50);
    out_json_double(out, "p75", numbers->p75);
    out_json_double(out, "max", numbers->max);
    out_close(out, '}');
}

static void write_temporal(Out *out, const HtaRank *rank)
{
    const HtaTemporal *temporal = &rank->temporal;

    if (!rank->has_gpu) {
        out_json_null(out, "temporal_breakdown");
        return;
    }
    out_open(out, "temporal_breakdown", '{');
    out_json_i64(out, "idle_time_ns", temporal->idle_ns);
    out_json_i64(out, "compute_time_ns", temporal->compute_ns);
    out_json_i64(out, "non_compute_time_ns", temporal->non_compute_ns);
    out_json_i64(out, "kernel_time_ns", temporal->kernel_ns);
    out_json_double(out, "idle_time_pctg", temporal->idle_pctg);
    out_json_double(out, "compute_time_pctg", temporal->compute_pctg);
    out_json_double(out, "non_compute_time_pctg", temporal->non_compute_pctg);
    out_close(out, '}');
}

static void write_idle(Out *out, const HtaRank *rank)
{
    out_open(out, "idle_time_breakdown", '[');
    for (size_t i = 0; i < rank->idle.len; i++) {
        const HtaIdleRow *row = &rank->idle.at[i];

        out_open(out, NULL, '{');
        out_json_i64(out, "stream", row->stream);
        out_json_text(out, "idle_category", row->category);
        out_json_i64(out, "idle_time_ns", row->idle_ns);
        out_json_double(out, "idle_time_ratio", row->ratio);
        write_describe(out, "intervals_ns", &row->intervals);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_queues(Out *out, const HtaRank *rank)
{
    if (rank->queue_why[0]) {
        out_json_null(out, "queue_length");
        out_json_text(out, "queue_length_error", rank->queue_why);
        return;
    }
    out_open(out, "queue_length", '[');
    for (size_t i = 0; i < rank->queues.len; i++) {
        const HtaQueueRow *row = &rank->queues.at[i];

        out_open(out, NULL, '{');
        out_json_i64(out, "stream", row->stream);
        write_describe(out, "queue_length", &row->length);
        out_json_i64(out, "duration_at_max_queue_length_ns", row->full_ns);
        out_json_double(out, "relative_duration_at_max_queue_length", row->full_share);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_bandwidth(Out *out, const HtaRank *rank)
{
    out_open(out, "memory_bandwidth", '[');
    for (size_t i = 0; i < rank->bandwidth.len; i++) {
        const HtaBandwidthRow *row = &rank->bandwidth.at[i];

        out_open(out, NULL, '{');
        out_json_text(out, "name", row->name);
        write_describe(out, "memory_bw_gbps", &row->gbs);
        out_open(out, "series", '[');
        for (size_t k = 0; k < row->points.len; k++) {
            out_open(out, NULL, '{');
            out_json_i64(out, "ts_ns", row->points.at[k].start);
            out_json_double(out, "memory_bw_gbps", row->points.at[k].gbs);
            out_close(out, '}');
        }
        out_close(out, ']');
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_launches(Out *out, const HtaRank *rank)
{
    const HtaLaunches *launches = &rank->launches;

    out_open(out, "cuda_kernel_launch_stats", '{');
    out_json_i64(out, "count", launches->cpu_ns.count);
    write_describe(out, "cpu_duration_ns", &launches->cpu_ns);
    write_describe(out, "gpu_duration_ns", &launches->gpu_ns);
    write_describe(out, "launch_delay_ns", &launches->delay_ns);
    out_json_i64(out, "short_kernels", launches->short_kernels);
    out_json_i64(out, "runtime_outliers", launches->runtime_outliers);
    out_json_i64(out, "launch_delay_outliers", launches->delay_outliers);
    out_close(out, '}');
}

static void write_rank(Out *out, const HtaRank *rank)
{
    out_open(out, NULL, '{');
    out_json_i64(out, "rank", rank->rank);
    out_json_text(out, "file", rank->file);
    out_open(out, "rows", '{');
    out_json_i64(out, "gpu", rank->counts.gpu_rows);
    out_json_i64(out, "dropped", rank->counts.dropped);
    out_json_i64(out, "repeated", rank->counts.repeated);
    out_json_i64(out, "synchronisations", rank->counts.sync_rows);
    out_json_i64(out, "host_with_stream", rank->counts.host_rows);
    out_close(out, '}');
    write_temporal(out, rank);
    out_json_double(out, "comp_comm_overlap_pctg", rank->overlap_pctg);
    write_idle(out, rank);
    write_queues(out, rank);
    write_bandwidth(out, rank);
    write_launches(out, rank);
    out_close(out, '}');
}

static void write_kernels(Out *out, const HtaReport *report)
{
    out_open(out, "kernel_types", '[');
    for (size_t i = 0; i < report->types.len; i++) {
        out_open(out, NULL, '{');
        out_json_text(out, "kernel_type", report->types.at[i].type);
        out_json_i64(out, "sum_ns", report->types.at[i].sum_ns);
        out_json_double(out, "percentage", report->types.at[i].percentage);
        out_close(out, '}');
    }
    out_close(out, ']');
    out_open(out, "kernels", '[');
    for (size_t i = 0; i < report->kernels.len; i++) {
        const HtaKernelRow *row = &report->kernels.at[i];

        out_open(out, NULL, '{');
        out_json_text(out, "name", row->name);
        out_json_text(out, "kernel_type", row->type);
        out_json_i64(out, "rank", row->rank);
        out_json_i64(out, "sum_ns", row->sum_ns);
        out_json_i64(out, "max_ns", row->max_ns);
        out_json_i64(out, "min_ns", row->min_ns);
        out_json_double(out, "mean_ns", row->mean_ns);
        out_json_double(out, "stddev_ns", row->std_ns);
        out_close(out, '}');
    }
    out_close(out, ']');
}

static void write_stragglers(Out *out, const HtaReport *report)
{
    out_open(out, "potential_stragglers", '{');
    out_open(out, "ranks", '[');
    for (size_t i = 0; i < report->stragglers.len; i++)
        out_json_i64(out, NULL, report->stragglers.at[i]);
    out_close(out, ']');
    out_open(out, "counts", '[');
    for (size_t i = 0; i < report->straggler_counts.len; i++) {
        out_open(out, NULL, '{');
        out_json_i64(out, "rank", report->straggler_counts.at[i].rank);
        out_json_i64(out, "count", report->straggler_counts.at[i].count);
        out_close(out, '}');
    }
    out_close(out, ']');
    out_json_text(out, "error", report->straggler_why[0] ? report->straggler_why : NULL);
    out_close(out, '}');
}

static void write_differences(Out *out, const HtaDifferences *differences)
{
    out_open(out, "differences", '[');
    for (size_t i = 0; i < differences->len; i++) {
        const HtaDifference *row = &differences->at[i];

        out_open(out, NULL, '{');
        if (row->rank >= 0)
            out_json_i64(out, "rank", row->rank);
        else
            out_json_null(out, "rank");
        out_json_text(out, "what", row->what);
        out_json_double(out, "hta", row->hta);
        out_json_double(out, "own", row->own);
        out_json_text(out, "why", row->why);
        out_close(out, '}');
    }
    out_close(out, ']');
}

int hta_json(const HtaReport *report, const HtaDifferences *differences, ReportSink sink, Err *err)
{
    Out out;

    out_init(&out, sink, err);
    out_open(&out, NULL, '{');
    out_json_i64(&out, "version", JSON_VERSION);
    out_json_text(&out, "as", "hta");
    out_json_text(&out, "hta_version", "0.6.1");
    out_json_bool(&out, "filtered", report->filtered);
    out_json_bool(&out, "include_last_profiler_step", report->options.last_step);
    out_json_i64(&out, "consecutive_kernel_delay_ns", report->options.kernel_delay_ns);
    out_open(&out, "ranks", '[');
    for (size_t i = 0; i < report->ranks.len; i++)
        write_rank(&out, &report->ranks.at[i]);
    out_close(&out, ']');
    write_kernels(&out, report);
    write_stragglers(&out, report);
    write_differences(&out, differences);
    out_close(&out, '}');
    out_add(&out, "\n");
    return out_done(&out);
}
