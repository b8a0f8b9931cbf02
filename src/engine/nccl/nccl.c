/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a job: which reader an input is for, the order of the checks, and the order of the findings. */
#include "engine/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/nccl/job.h"

enum { ARENA_BLOCK = 16 * 1024, DECIDE_MAX = 4096, PART_MAX = 1 << 16 };

static void call_on_maps(NcclJob *job, void (*on_texts)(Map *), void (*on_numbers)(Map *))
{
    Map *texts[] = {&job->words,        &job->comm_by_id,   &job->process_by_key, &job->setting_by_key,
                    &job->group_by_key, &job->host_by_name, &job->adapter_known};
    Map *numbers[] = {&job->member_by_address, &job->member_by_thread, &job->edge_by_key,
                      &job->signatures,        &job->member_by_rank,   &job->gpu_by_bus};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        on_texts(texts[i]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        on_numbers(numbers[i]);
}

NcclJob *nccl_new(void)
{
    NcclJob *job = xcalloc(1, sizeof *job);

    arena_init(&job->arena, ARENA_BLOCK);
    call_on_maps(job, map_init, map_u64_init);
    str_init(&job->head, DECIDE_MAX);
    str_init(&job->line, NCCL_WHOLE_MAX);
    str_init(&job->scratch, NCCL_LINE_MAX);
    str_init(&job->bare, NCCL_LINE_MAX);
    job->report.world = NCCL_NO_INDEX;
    return job;
}

static void report_done(NcclReport *r)
{
    for (size_t i = 0; i < r->comms.len; i++) {
        vec_done(&r->comms.at[i].rings);
        vec_done(&r->comms.at[i].members);
    }
    for (size_t i = 0; i < r->benches.len; i++)
        vec_done(&r->benches.at[i].rows);
    for (size_t i = 0; i < r->topologies.len; i++)
        vec_done(&r->topologies.at[i].nodes);
    vec_done(&r->inputs);
    vec_done(&r->processes);
    vec_done(&r->members);
    vec_done(&r->comms);
    vec_done(&r->ways);
    vec_done(&r->edges);
    vec_done(&r->classes);
    vec_done(&r->settings);
    vec_done(&r->benches);
    vec_done(&r->scalings);
    vec_done(&r->topologies);
    vec_done(&r->graphs);
    vec_done(&r->dumps);
    vec_done(&r->calls);
    vec_done(&r->groups);
    vec_done(&r->findings);
}

void nccl_free(NcclJob *job)
{
    if (!job)
        return;
    if (job->topo)
        nccl_topo_end(job->topo, false);
    report_done(&job->report);
    vec_done(&job->hosts);
    vec_done(&job->env);
    vec_done(&job->timeouts);
    vec_done(&job->adapters);
    vec_done(&job->statuses);
    vec_done(&job->early);
    call_on_maps(job, map_done, map_done);
    str_done(&job->head);
    str_done(&job->line);
    str_done(&job->scratch);
    str_done(&job->bare);
    arena_done(&job->arena);
    free(job);
}

void nccl_begin(NcclJob *job, const char *name)
{
    NcclInput input = {.name = nccl_copy_text(job, span_of(name)), .trouble = ""};

    if (job->report.inputs.len >= NCCL_INPUTS_MAX) {
        job->report.left_out++;
        job->reading = false;
        return;
    }
    job->input = (uint32_t)job->report.inputs.len;
    vec_push(&job->report.inputs, input);
    job->reading = true;
    job->decided = false;
    job->line_number = 0;
    job->banner = (NcclBanner){.process = NCCL_NO_INDEX};
    str_clear(&job->head);
    str_clear(&job->line);
    job->bench = (BenchReader){0};
}

/* JSON and not a log line that begins with a bracket ("[0] NCCL INFO", "[1,0]<stdout>:", "{"log":..."). */
static bool is_json(Span s)
{
    if (nccl_is_wrapped(s) || !(span_starts(s, "{") || span_starts(s, "[")))
        return false;
    bool list = s.at[0] == '[';
    s = span_from(s, 1);
    span_blanks(&s);
    return s.len && (list ? s.at[0] == '{' || s.at[0] == ']' : s.at[0] == '"' || s.at[0] == '}');
}

static NcclKind kind_of(Span s)
{
    if (s.len >= 2 && (unsigned char)s.at[0] == 0x80 && s.at[1] >= 2 && s.at[1] <= 5)
        return NCCL_KIND_FLIGHT;
    span_skip(&s, "\xef\xbb\xbf");
    span_blanks(&s);
    if (s.len == 0)
        return NCCL_KIND_EMPTY;
    if (span_starts(s, "<?xml") || span_starts(s, "<!--") || span_starts(s, "<system") || span_starts(s, "<graphs"))
        return NCCL_KIND_TOPOLOGY;
    return is_json(s) ? NCCL_KIND_BENCH : NCCL_KIND_TEXT;
}

static void read_line(NcclJob *job, Span line)
{
    job->line_number++;
    nccl_input(job)->lines++;
    nccl_read_line(job, line);
}

/* Text: whole lines go on at once, the rest waits. Of a line that is too long the front is read. */
static void feed_text(NcclJob *job, Span bytes)
{
    while (bytes.len) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        Span part = end ? span_cut(bytes, 0, (size_t)(end - bytes.at)) : bytes;
        if (job->line.len || !end) {
            size_t room = NCCL_LINE_MAX - job->line.len;
            str_addn(&job->line, part.at, part.len < room ? part.len : room);
            part = (Span){job->line.text, job->line.len};
        }
        if (!end)
            return;
        read_line(job, part.len > NCCL_LINE_MAX ? span_cut(part, 0, NCCL_LINE_MAX) : part);
        str_clear(&job->line);
        bytes = span_from(bytes, (size_t)(end - bytes.at) + 1);
    }
}

static void feed_reader(NcclJob *job, Span bytes)
{
    NcclKind kind = nccl_input(job)->kind;

    if (kind == NCCL_KIND_TEXT)
        feed_text(job, bytes);
    else if (kind == NCCL_KIND_TOPOLOGY || kind == NCCL_KIND_GRAPH) {
        if (job->topo)
            nccl_topo_feed(job->topo, bytes.at, bytes.len);
    } else
        str_addn(&job->line, bytes.at, bytes.len);
}

static void decide_kind(NcclJob *job)
{
    NcclKind kind = kind_of((Span){job->head.text, job->head.len});

    job->decided = true;
    nccl_input(job)->kind = kind;
    if (kind == NCCL_KIND_TOPOLOGY)
        job->topo = nccl_topo_new(job);
    if (kind != NCCL_KIND_EMPTY)
        feed_reader(job, (Span){job->head.text, job->head.len});
}

void nccl_feed(NcclJob *job, const void *bytes, size_t len)
{
    Span s = {bytes, len};

    if (!job->reading || len == 0)
        return;
    nccl_input(job)->bytes += len;
    if (!job->decided) {
        size_t n = DECIDE_MAX - job->head.len;
        if (n > s.len)
            n = s.len;
        str_addn(&job->head, s.at, n);
        s = span_from(s, n);
        if (job->head.len < DECIDE_MAX)
            return;
        decide_kind(job);
    }
    while (s.len) { /* in parts, so that a reader's buffers stay small */
        size_t n = s.len < PART_MAX ? s.len : PART_MAX;
        feed_reader(job, span_cut(s, 0, n));
        s = span_from(s, n);
    }
}

static void end_whole(NcclJob *job, NcclInput *input)
{
    if (job->line.overflow) {
        input->trouble = "larger than can be held at once";
        return;
    }
    if (input->kind == NCCL_KIND_FLIGHT)
        nccl_read_pickle(job, (Span){job->line.text, job->line.len});
    else if (input->kind == NCCL_KIND_BENCH)
        nccl_read_json(job, (Span){job->line.text, job->line.len});
}

static void end_early(NcclJob *job, const char *trouble)
{
    nccl_input(job)->trouble = nccl_copy_text(job, span_of(trouble));
    for (size_t i = 0; i < job->report.processes.len; i++)
        job->report.processes.at[i].cut |= job->report.processes.at[i].input == job->input;
}

void nccl_end(NcclJob *job, const char *trouble)
{
    if (!job->reading)
        return;
    if (!job->decided)
        decide_kind(job);
    if (nccl_input(job)->kind == NCCL_KIND_TEXT) {
        if (job->line.len)
            read_line(job, (Span){job->line.text, job->line.len});
        nccl_end_bench(job);
        nccl_end_banner(job);
    } else if (job->topo) {
        nccl_topo_end(job->topo, trouble == NULL);
        job->topo = NULL;
    } else
        end_whole(job, nccl_input(job));
    if (trouble)
        end_early(job, trouble);
    str_clear(&job->head);
    str_done(&job->line);
    job->reading = false;
}

/* Worst first, then in the table's order, then by where the first case stands. */
static int compare_findings(const void *a, const void *b)
{
    const NcclFinding *x = a, *y = b;

    if (x->severity != y->severity)
        return (int)x->severity - (int)y->severity;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    const NcclPlace *p = &x->evidence[0].place, *q = &y->evidence[0].place;
    if (p->input != q->input)
        return p->input < q->input ? -1 : 1;
    if (p->line != q->line)
        return p->line < q->line ? -1 : 1;
    return strcmp(x->detail, y->detail);
}

/* Inputs of which nothing was understood, and what the readers left open. */
static void close_inputs(NcclJob *job)
{
    NcclReport *r = &job->report;

    for (size_t i = 0; i < r->inputs.len; i++) {
        NcclInput *in = &r->inputs.at[i];
        if (in->kind == NCCL_KIND_TEXT && in->used == 0)
            in->kind = NCCL_KIND_OTHER;
        if (in->trouble[0])
            nccl_report(job, NCCL_RULE_INPUT_TROUBLE, ((NcclPlace){(uint32_t)i, 0}), "%s", in->trouble);
    }
}

const NcclReport *nccl_finish(NcclJob *job)
{
    NcclReport *r = &job->report;

    if (job->finished)
        return r;
    job->finished = true;
    nccl_apply_early_lines(job);
    nccl_count_topologies(job);
    nccl_index_gpus(job);
    nccl_check_comms(job);
    nccl_check_ways(job);
    nccl_check_settings(job);
    nccl_check_timeouts(job);
    nccl_check_topologies(job);
    nccl_check_machines(job);
    nccl_check_benches(job);
    nccl_check_flight(job);
    close_inputs(job);
    vec_sort(&r->findings, compare_findings);
    return r;
}

int nccl_exit_code(const NcclReport *report)
{
    bool read = false;

    for (size_t i = 0; i < report->inputs.len; i++)
        read |= report->inputs.at[i].kind != NCCL_KIND_OTHER && report->inputs.at[i].kind != NCCL_KIND_EMPTY;
    for (size_t i = 0; i < report->findings.len; i++)
        if (report->findings.at[i].severity != NCCL_NOTE)
            return read ? 1 : 3;
    return read ? 0 : 3;
}

const char *const nccl_kind_words[] = {"empty", "text", "topology", "graph", "bench", "flight-recorder", "unknown"};
const char *const nccl_part_words[] = {"system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "c2c", "xgmi", "other"};
const char *const nccl_severity_words[] = {"error", "warning", "note"};
