/* SPDX-License-Identifier: Apache-2.0 */
/* A job's life, its texts, and which reader an input is for. */
#include "engine/nccl/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "base/utf8.h"

enum { ARENA_BLOCK = 16 * 1024, DECIDE_MAX = 4096, PART_MAX = 1 << 16 };

NcclJob *nccl_new(void)
{
    NcclJob *job = xcalloc(1, sizeof *job);
    Map *texts[] = {&job->words,        &job->comm_by_id, &job->process_by_key, &job->setting_by_key,
                    &job->group_by_key, &job->way_by_key, &job->host_known,     &job->adapter_known};
    Map *numbers[] = {&job->member_by_address, &job->member_by_thread, &job->edge_by_key,
                      &job->signatures,        &job->member_by_rank,   &job->gpu_by_bus};

    arena_init(&job->arena, ARENA_BLOCK);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        map_init(texts[i]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        map_u64_init(numbers[i]);
    str_init(&job->head, DECIDE_MAX);
    str_init(&job->line, NCCL_WHOLE_MAX);
    str_init(&job->scratch, NCCL_LINE_MAX);
    str_init(&job->bare, NCCL_LINE_MAX);
    job->report.world = NCCL_NO_INDEX;
    return job;
}

static void report_done(NcclReport *r)
{
    for (size_t i = 0; i < r->comms.len; i++)
        vec_done(&r->comms.at[i].rings);
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
    Map *maps[] = {
        &job->words,      &job->comm_by_id,     &job->process_by_key,    &job->setting_by_key,   &job->group_by_key,
        &job->way_by_key, &job->host_known,     &job->member_by_address, &job->member_by_thread, &job->edge_by_key,
        &job->signatures, &job->member_by_rank, &job->adapter_known,     &job->gpu_by_bus};

    if (job->topo)
        nccl_topo_end(job->topo, false);
    report_done(&job->report);
    vec_done(&job->env);
    vec_done(&job->timeouts);
    vec_done(&job->adapters);
    vec_done(&job->statuses);
    vec_done(&job->early);
    for (size_t i = 0; i < ARRAY_LEN(maps); i++)
        map_done(maps[i]);
    str_done(&job->head);
    str_done(&job->line);
    str_done(&job->scratch);
    str_done(&job->bare);
    arena_done(&job->arena);
    free(job);
}

NcclInput *nccl_input(NcclJob *job)
{
    return &job->report.inputs.at[job->input];
}

/* Bytes of the UTF-8 character at `s`, 0 where there is none that may be shown. */
static size_t shown(Span s)
{
    uint32_t c = 0;
    const size_t bytes = utf8_read(s.at, s.len, &c);
    const bool turns = (c >= 0x80 && c < 0xa0) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
                       (c >= 0x2066 && c <= 0x2069);

    return bytes == 0 || c < 0x20 || c == 0x7f || turns ? 0 : bytes;
}

/* `text` into `out` without what a terminal or JSON must not see. */
static size_t clean(Span text, char out[NCCL_WORD_MAX])
{
    size_t len = 0;

    while (text.len) {
        size_t n = shown(text);
        if (len + (n ? n : 1) > NCCL_WORD_MAX)
            break;
        if (n)
            memcpy(out + len, text.at, n);
        else
            out[len] = text.at[0] == '\t' ? ' ' : '?';
        len += n ? n : 1;
        text = span_from(text, n ? n : 1);
    }
    return len;
}

const char *nccl_keep(NcclJob *job, Span text)
{
    char room[NCCL_WORD_MAX];

    return arena_strndup(&job->arena, room, clean(text, room));
}

const char *nccl_word(NcclJob *job, Span text)
{
    char room[NCCL_WORD_MAX];
    size_t len = clean(text, room);

    if (len == 0)
        return "";
    char *known = map_getn(&job->words, room, len);
    if (known)
        return known;
    if (job->words.len >= NCCL_WORDS_MAX) {
        job->report.left_out++;
        return "";
    }
    known = arena_strndup(&job->arena, room, len);
    map_putn(&job->words, known, len, known);
    return known;
}

const char *nccl_text(NcclJob *job, const char *text)
{
    return nccl_word(job, span_of(text));
}

const char *nccl_printf(NcclJob *job, const char *fmt, ...)
{
    va_list args;

    str_clear(&job->scratch);
    va_start(args, fmt);
    str_addv(&job->scratch, fmt, args);
    va_end(args);
    return arena_strndup(&job->arena, job->scratch.text, job->scratch.len);
}

static int compare_ranks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Appends ranks as "0-3 7"; at most `most` groups. `ranks` is sorted. */
static void add_ranks(Str *out, const int64_t *ranks, size_t count, size_t most)
{
    size_t groups = 0;

    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && ranks[last + 1] - ranks[last] <= 1)
            last++;
        if (groups++ == most) {
            str_addf(out, " and %zu more", count - i);
            return;
        }
        str_addf(out, "%s%lld", i ? " " : "", (long long)ranks[i]);
        if (ranks[last] != ranks[i])
            str_addf(out, "%c%lld", ranks[last] - ranks[i] == 1 ? ' ' : '-', (long long)ranks[last]);
        i = last + 1;
    }
}

const char *nccl_ranks(NcclJob *job, int64_t *ranks, size_t count)
{
    enum { GROUPS_MAX = 24 };

    if (count)
        qsort(ranks, count, sizeof *ranks, compare_ranks);
    str_clear(&job->scratch);
    add_ranks(&job->scratch, ranks, count, GROUPS_MAX);
    return arena_strndup(&job->arena, job->scratch.text, job->scratch.len);
}

/* Inputs. */

void nccl_begin(NcclJob *job, const char *name)
{
    NcclInput input = {.name = nccl_keep(job, span_of(name)), .trouble = ""};

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
    job->line_long = false;
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

static void take_line(NcclJob *job, Span line)
{
    job->line_number++;
    nccl_input(job)->lines++;
    nccl_line(job, line);
}

/* Text: whole lines go on at once, the rest waits. Of a line that is too long the front is read. */
static void take_text(NcclJob *job, Span bytes)
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
        take_line(job, part.len > NCCL_LINE_MAX ? span_cut(part, 0, NCCL_LINE_MAX) : part);
        str_clear(&job->line);
        bytes = span_from(bytes, (size_t)(end - bytes.at) + 1);
    }
}

static void take(NcclJob *job, Span bytes)
{
    NcclKind kind = nccl_input(job)->kind;

    if (kind == NCCL_KIND_TEXT)
        take_text(job, bytes);
    else if (kind == NCCL_KIND_TOPOLOGY || kind == NCCL_KIND_GRAPH) {
        if (job->topo)
            nccl_topo_feed(job->topo, bytes.at, bytes.len);
    } else
        str_addn(&job->line, bytes.at, bytes.len);
}

static void decide(NcclJob *job)
{
    NcclKind kind = kind_of((Span){job->head.text, job->head.len});

    job->decided = true;
    nccl_input(job)->kind = kind;
    if (kind == NCCL_KIND_TOPOLOGY)
        job->topo = nccl_topo_new(job);
    if (kind != NCCL_KIND_EMPTY)
        take(job, (Span){job->head.text, job->head.len});
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
        decide(job);
    }
    while (s.len) { /* in parts, so that a reader's buffers stay small */
        size_t n = s.len < PART_MAX ? s.len : PART_MAX;
        take(job, span_cut(s, 0, n));
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
        nccl_pickle(job, (Span){job->line.text, job->line.len});
    else if (input->kind == NCCL_KIND_BENCH)
        nccl_json(job, (Span){job->line.text, job->line.len});
}

static void end_early(NcclJob *job, const char *trouble)
{
    nccl_input(job)->trouble = nccl_keep(job, span_of(trouble));
    for (size_t i = 0; i < job->report.processes.len; i++)
        job->report.processes.at[i].cut |= job->report.processes.at[i].input == job->input;
}

void nccl_end(NcclJob *job, const char *trouble)
{
    if (!job->reading)
        return;
    if (!job->decided)
        decide(job);
    if (nccl_input(job)->kind == NCCL_KIND_TEXT) {
        if (job->line.len)
            take_line(job, (Span){job->line.text, job->line.len});
        nccl_bench_end(job);
        nccl_banner_end(job);
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

const char *nccl_kind_name(NcclKind kind)
{
    static const char *const names[] = {"empty", "text", "topology", "graph", "bench", "flight-recorder", "unknown"};

    return names[kind];
}

const char *nccl_severity_name(NcclSeverity severity)
{
    static const char *const names[] = {"error", "warning", "note"};

    return names[severity];
}
