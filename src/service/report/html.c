/* SPDX-License-Identifier: Apache-2.0 */
/* The page: web/trace with the report as data in it. Nothing is asked for from anywhere when it is opened; what it may
 * run and how it may look is fixed by hashes in its Content-Security-Policy, so that no name can become code. */
#include <string.h>

#include "service/report/clean.h"
#include "service/report/page.h"
#include "trace_page.h"

enum { HTML_VERSION = 1 };

#define TABLE(page, key, fields, vec, limit, rank)                                                                     \
    page_table((page), (key), (fields), (vec).at, (vec).len, sizeof(*(vec).at), (limit), (rank))

static void write_words(Page *page, const char *key, const char *const *words, size_t count)
{
    out_open(&page->out, key, '[');
    for (size_t i = 0; i < count; i++)
        page_json_text(page, NULL, words[i]);
    out_close(&page->out, ']');
}

static void write_causes(Page *page, const char *key, const TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    page_table(page, key, field_cause_sum, sums, TRACE_CAUSE_COUNT, sizeof(*sums), TRACE_CAUSE_COUNT, NULL);
}

/* A step's devices together: what the page shows of it, then its idle time by cause. */
static void write_step(Page *page, const TraceRank *rank, const TraceStepRow *step)
{
    int64_t sums[7] = {0}, causes[TRACE_CAUSE_COUNT] = {0};

    for (size_t i = 0; i < step->devices.len; i++) {
        const TraceStepDevice *device = &step->devices.at[i];
        const int64_t own[7] = {device->window_ns,
                                device->busy_ns,
                                device->idle_ns,
                                device->compute_ns,
                                device->exposed_communication_ns,
                                device->exposed_copy_ns,
                                device->operation_count};

        for (int j = 0; j < 7; j++)
            sums[j] += own[j];
        for (int j = 0; j < TRACE_CAUSE_COUNT; j++)
            causes[j] += device->idle_by_cause[j].total_ns;
    }
    out_open(&page->out, NULL, '[');
    out_json_u64(&page->out, NULL, page_text(page, step->name));
    out_json_i64(&page->out, NULL, step->number);
    out_json_i64(&page->out, NULL, page_time(page, rank, step->start));
    out_json_i64(&page->out, NULL, page_time(page, rank, step->to));
    out_json_i64(&page->out, NULL, step->duration_ns);
    for (int i = 0; i < 7; i++)
        out_json_i64(&page->out, NULL, sums[i]);
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++)
        out_json_i64(&page->out, NULL, causes[i]);
    out_close(&page->out, ']');
}

static void write_steps(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_STEPS / page->ranks + 20, shown = rank->steps.len < limit ? rank->steps.len : limit;

    out_open(&page->out, "steps", '[');
    for (size_t i = 0; i < shown; i++)
        write_step(page, rank, &rank->steps.at[i]);
    out_close(&page->out, ']');
    out_json_u64(&page->out, "steps_left_out", rank->steps.len - shown);
}

/* The critical path of all steps together: sums by kind, and each step's own. */
static void write_paths(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_STEPS / page->ranks / 8 + 4;

    out_open(&page->out, "paths", '[');
    for (size_t i = 0; i < rank->paths.len && i < limit; i++) {
        const TracePath *path = &rank->paths.at[i];

        out_open(&page->out, NULL, '{');
        out_json_u64(&page->out, "what", page_text(page, path->what));
        out_json_i64(&page->out, "total_ns", path->total_ns);
        out_open(&page->out, "by_kind_ns", '[');
        for (int kind = 0; kind < TRACE_PATH_KIND_COUNT; kind++)
            out_json_i64(&page->out, NULL, path->by_kind_ns[kind]);
        out_close(&page->out, ']');
        TABLE(page, "names", field_path_name, path->names, 20, rank);
        out_close(&page->out, '}');
    }
    out_close(&page->out, ']');
}

static void write_memory(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_POINTS / page->ranks / (rank->memory.len + 1) + 16;

    out_open(&page->out, "memory", '[');
    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &rank->memory.at[i];

        out_open(&page->out, NULL, '{');
        page_table(page, "sums", field_memory, memory, 1, sizeof(*memory), 1, rank);
        TABLE(page, "points", field_memory_point, memory->points, limit, rank);
        out_close(&page->out, '}');
    }
    out_close(&page->out, ']');
}

static void write_rank(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_ROWS / page->ranks + 10;

    out_open(&page->out, NULL, '{');
    page_table(page, "about", field_rank, rank, 1, sizeof(*rank), 1, NULL);
    TABLE(page, "losses", field_loss, rank->losses, limit, rank);
    TABLE(page, "devices", field_device, rank->devices, limit, rank);
    write_causes(page, "idle_by_cause", rank->idle_by_cause);
    write_steps(page, rank);
    TABLE(page, "kernels", field_kernel, rank->kernels, limit, rank);
    TABLE(page, "operators", field_operator, rank->operators, limit, rank);
    TABLE(page, "calls", field_call, rank->calls, limit, rank);
    TABLE(page, "annotations", field_annotation, rank->annotations, limit, rank);
    TABLE(page, "copies", field_copy, rank->copies, limit, rank);
    page_table(page, "launch", field_launch, &rank->launch, 1, sizeof(rank->launch), 1, rank);
    TABLE(page, "queues", field_queue, rank->queues, limit, rank);
    TABLE(page, "queue_points", field_queue_point, rank->queue_points, PAGE_POINTS / page->ranks + 16, rank);
    write_paths(page, rank);
    write_memory(page, rank);
    page_gaps(page, rank);
    page_lanes(page, rank);
    out_close(&page->out, '}');
}

static void write_report(Page *page, const TraceReport *report)
{
    out_json_double(&page->out, "step_ns", report->step_ns);
    out_json_double(&page->out, "seconds", report->seconds);
    write_words(page, "causes", trace_cause_words, TRACE_CAUSE_COUNT);
    write_words(page, "classes", trace_class_words, TRACE_CLASS_COUNT);
    write_words(page, "hosts", trace_host_words, TRACE_HOST_CLASS_COUNT);
    write_words(page, "path_kinds", trace_path_words, TRACE_PATH_KIND_COUNT);
    write_words(page, "notes", report->notes.at, report->notes.len);
    TABLE(page, "verdicts", field_verdict, report->verdicts, PAGE_ROWS, NULL);
    page_table(page, "straggler", field_straggler, &report->straggler, 1, sizeof(report->straggler), 1, NULL);
    TABLE(page, "collectives", field_collective_sum, report->collectives, PAGE_ROWS, NULL);
    TABLE(page, "rank_times", field_rank_time, report->rank_times, PAGE_ROWS, NULL);
    out_open(&page->out, "ranks", '[');
    for (size_t i = 0; i < report->ranks.len; i++)
        write_rank(page, &report->ranks.at[i]);
    out_close(&page->out, ']');
}

/* Text between tags. */
static void write_markup(Out *out, const char *text)
{
    Str clean;

    str_init(&clean, (size_t)1 << 30);
    clean_add(&clean, text, true);
    for (const char *c = clean.text; *c; c++) {
        const char *name = *c == '<' ? "&lt;" : *c == '&' ? "&amp;" : *c == '>' ? "&gt;" : NULL;

        if (name)
            out_add(out, name);
        else
            out_addc(out, *c);
    }
    str_done(&clean);
}

static void begin_page(Page *page, const char *title)
{
    out_addn(&page->out, (const char *)trace_page_head, sizeof(trace_page_head));
    write_markup(&page->out, title);
    out_addn(&page->out, (const char *)trace_page_middle, sizeof(trace_page_middle));
    page->out.script = true;
    out_open(&page->out, NULL, '{');
    out_json_i64(&page->out, "version", HTML_VERSION);
    page_json_text(page, "title", title);
}

static int end_page(Page *page)
{
    page_texts(page);
    out_close(&page->out, '}');
    out_addn(&page->out, (const char *)trace_page_tail, sizeof(trace_page_tail));
    return page_done(page);
}

int trace_html(const TraceReport *report, const char *title, ReportSink sink, Err *err)
{
    Page page;

    page_init(&page, report, sink, err);
    begin_page(&page, title);
    write_report(&page, report);
    return end_page(&page);
}

int trace_diff_html(const TraceDiff *diff, const char *title, ReportSink sink, Err *err)
{
    Page page;

    page_init(&page, NULL, sink, err);
    begin_page(&page, title);
    out_open(&page.out, "diff", '{');
    field_json(&page.out, field_diff, diff);
    TABLE(&page, "kernels", field_diff_row, diff->kernels, PAGE_ROWS, NULL);
    TABLE(&page, "operators", field_diff_row, diff->operators, PAGE_ROWS, NULL);
    out_close(&page.out, '}');
    return end_page(&page);
}
