/* SPDX-License-Identifier: Apache-2.0 */
/* Output of nccl-tests and rccl-tests as text. The table's own header says which columns it has, so that old and new
 * versions, tests without redop or root, and per-iteration columns are all the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/bench.h"

static const struct {
    const char *name;
    BenchColumn column;
} columns[] = {{"size", BENCH_SIZE}, {"count", BENCH_COUNT},  {"type", BENCH_TYPE},    {"redop", BENCH_REDOP},
               {"root", BENCH_ROOT}, {"time", BENCH_TIME},    {"cputime", BENCH_TIME}, {"algbw", BENCH_ALG},
               {"busbw", BENCH_BUS}, {"#wrong", BENCH_WRONG}, {"error", BENCH_ERROR}};

static const char *const perf_names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                         "reduce",     "alltoallv",  "alltoall",       "sendrecv",
                                         "gather",     "scatter",    "hypercube"};

NcclBench *nccl_bench_new(NcclJob *job)
{
    NcclBench bench = {.name = "",
                       .version = "",
                       .ranks = 0,
                       .nodes = 0,
                       .average_gbs = NAN,
                       .out_of_bounds = NCCL_UNKNOWN,
                       .input = job->input,
                       .place = nccl_here(job)};

    if (job->report.benches.len >= NCCL_BENCHES_MAX) {
        job->report.left_out++;
        return NULL;
    }
    vec_push(&job->report.benches, bench);
    return &job->report.benches.at[job->report.benches.len - 1];
}

/* The run that lines of this input belong to; one that is concluded or has rows is over when a new one begins. */
static NcclBench *bench_of(NcclJob *job, bool begin)
{
    NcclBenches *all = &job->report.benches;

    if (job->bench.open && !(begin && (all->at[all->len - 1].rows.len || all->at[all->len - 1].concluded)))
        return &all->at[all->len - 1];
    NcclBench *bench = nccl_bench_new(job);
    job->bench = (BenchReader){.open = bench != NULL};
    return bench;
}

/* A test's name without path: "./build/all_reduce_perf" */
const char *nccl_bench_name(NcclJob *job, Span s)
{
    size_t slash = span_find_last(s, "/");

    return nccl_word(job, slash == SPAN_NOWHERE ? s : span_from(s, slash + 1));
}

/* "Rank  0 Group  0 Pid 895544 on node-a device  0 [0x18] NVIDIA H100" */
static bool rank_line(NcclJob *job, Span s)
{
    int64_t rank;
    BenchReader *b = &job->bench;

    if (!span_next(&s, "Rank ") || !span_i64(&s, &rank) || rank < 0 || rank >= NCCL_MEMBERS_MAX ||
        !span_after(&s, " on "))
        return false;
    NcclBench *bench = bench_of(job, rank == 0);
    if (!bench)
        return true;
    if (rank + 1 > bench->ranks)
        bench->ranks = rank + 1;
    const char *host = nccl_word(job, span_word(&s));
    for (size_t i = 0; i < b->host_count; i++)
        if (b->hosts[i] == host)
            return true;
    if (b->host_count < ARRAY_LEN(b->hosts))
        b->hosts[b->host_count++] = host;
    bench->nodes++;
    return true;
}

static BenchColumn column_of(Span word)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (span_is(word, columns[i].name))
            return columns[i].column;
    return BENCH_OTHER;
}

/* "size count type redop root time algbw busbw #wrong time algbw busbw #wrong" */
static bool header_line(NcclJob *job, Span s)
{
    BenchReader *b = &job->bench;

    if (!span_next(&s, "size ") || !span_has(s, "algbw") || !span_has(s, "busbw"))
        return false;
    if (!bench_of(job, false))
        return true;
    b->columns[0] = BENCH_SIZE;
    for (b->count = 1; b->count < BENCH_COLUMNS_MAX; b->count++) {
        Span word = span_word(&s);
        if (word.len == 0 || span_is(word, "timestamp"))
            break;
        b->columns[b->count] = column_of(word);
    }
    return true;
}

static bool closing_line(NcclJob *job, Span s)
{
    NcclBench *bench = job->bench.open ? bench_of(job, false) : NULL;
    double value;
    int64_t count;

    if (bench && span_next(&s, "Avg bus bandwidth")) {
        if (span_next(&s, ":") && span_double(&s, &value))
            bench->average_gbs = value, bench->average_place = nccl_here(job);
        return true;
    }
    if (bench && span_next(&s, "Out of bounds values")) {
        if (span_next(&s, ":") && span_i64(&s, &count))
            bench->out_of_bounds = count, bench->bounds_place = nccl_here(job);
        return true;
    }
    if (bench && span_next(&s, "Collective test concluded")) {
        if (span_next(&s, ":"))
            bench->name = nccl_bench_name(job, span_word(&s));
        bench->concluded = true;
        return true;
    }
    return false;
}

static bool comment_line(NcclJob *job, Span s)
{
    Span t = s;

    if (span_next(&t, "nccl-tests version ") || span_next(&t, "rccl-tests: Version ") ||
        span_next(&t, "rccl-tests version ")) {
        NcclBench *bench = bench_of(job, true);
        if (bench)
            bench->version = nccl_word(job, span_word(&t));
        return true;
    }
    if (span_next(&t, "Collective test starting:")) {
        NcclBench *bench = bench_of(job, true);
        if (bench)
            bench->name = nccl_bench_name(job, span_word(&t));
        return true;
    }
    if (span_next(&t, "nThread ") && span_has(t, "minBytes"))
        return bench_of(job, true) != NULL;
    return rank_line(job, s) || header_line(job, s) || closing_line(job, s);
}

static double figure(Span word)
{
    double value;

    return span_double(&word, &value) && word.len == 0 ? value : NAN;
}

static void put_cell(NcclJob *job, NcclRow *row, BenchColumn column, Span word, NcclFigure *f)
{
    Span at = word;
    uint64_t size = 0;
    double value;

    switch (column) {
    case BENCH_SIZE:
    case BENCH_COUNT:
        span_u64(&at, &size);
        *(column == BENCH_SIZE ? &row->size : &row->count) = size;
        break;
    case BENCH_TYPE:
        row->type = nccl_word(job, word);
        break;
    case BENCH_REDOP:
        row->redop = nccl_word(job, word);
        break;
    case BENCH_ROOT:
        span_i64(&at, &row->root);
        break;
    case BENCH_TIME:
        f->time_us = figure(word);
        break;
    case BENCH_ALG:
        f->alg_gbs = figure(word);
        break;
    case BENCH_BUS:
        f->bus_gbs = figure(word);
        break;
    case BENCH_WRONG:
        value = figure(word);
        f->wrong = value >= 0 && value < 1e18 ? (int64_t)value : isinf(value) ? INT64_MAX : NCCL_UNKNOWN;
        break;
    default:
        break;
    }
}

NcclRow nccl_bench_row(NcclPlace place)
{
    const NcclFigure none = {.time_us = NAN, .alg_gbs = NAN, .bus_gbs = NAN, .wrong = NCCL_UNKNOWN};

    return (NcclRow){.type = "", .redop = "", .root = NCCL_UNKNOWN, .out = none, .in = none, .place = place};
}

void nccl_bench_add(NcclJob *job, NcclBench *bench, const NcclRow *row)
{
    if (bench->rows.len < NCCL_ROWS_MAX)
        vec_push(&bench->rows, *row);
    else
        job->report.left_out++;
}

/* Words of a row against the columns: all of them, all and a time stamp's two, or without the first half of figures. */
static bool row_line(NcclJob *job, Span s)
{
    BenchReader *b = &job->bench;
    Span words[BENCH_COLUMNS_MAX + 2];
    size_t count = 0, front = 0;
    NcclFigure *f = NULL;

    if (!b->open || b->count < 4 || s.at[0] < '0' || s.at[0] > '9')
        return false;
    for (Span word = span_word(&s); word.len && count < ARRAY_LEN(words); word = span_word(&s))
        words[count++] = word;
    while (front < b->count && b->columns[front] != BENCH_TIME)
        front++;
    size_t half = (b->count - front) / 2;
    bool only_in = count == b->count - half;
    if (half == 0)
        return false; /* a header without times */
    if (s.len || (count != b->count && count != b->count + 2 && !only_in) || isnan(figure(words[0])) ||
        isnan(figure(words[front])))
        return false;
    NcclRow row = nccl_bench_row(nccl_here(job));
    for (size_t c = 0; c < b->count; c++) {
        if (only_in && c >= front && c < front + half)
            continue;
        if (b->columns[c] == BENCH_TIME)
            f = c < front + half ? &row.out : &row.in;
        put_cell(job, &row, b->columns[c], words[only_in && c >= front + half ? c - half : c], f ? f : &row.out);
    }
    nccl_bench_add(job, &job->report.benches.at[job->report.benches.len - 1], &row);
    return true;
}

bool nccl_bench_line(NcclJob *job, Span line)
{
    Span s = line;

    for (int i = 0; i < 4 && s.len && s.at[0] == '['; i++) { /* "[1,0]<stdout>:", "[0]" */
        if (!span_after(&s, "]"))
            break;
        span_skip(&s, "<stdout>");
        span_skip(&s, ":");
        span_blanks(&s);
    }
    size_t hash = span_find(s, "# ");
    if (s.len && s.at[0] != '#' && hash != SPAN_NOWHERE && hash < 64 && (s.at[0] < '0' || s.at[0] > '9'))
        s = span_from(s, hash); /* "worker-0: # nThread ..." */
    if (s.len == 0)
        return false;
    if (s.at[0] == '#')
        return comment_line(job, span_from(s, 1));
    return row_line(job, s);
}

/* A name for a run whose output does not say it, from the input's. */
void nccl_bench_end(NcclJob *job)
{
    Span name = span_of(nccl_input(job)->name);

    for (size_t i = 0; i < job->report.benches.len; i++) {
        NcclBench *b = &job->report.benches.at[i];
        if (b->input != job->input || b->name[0])
            continue;
        for (size_t j = 0; j < ARRAY_LEN(perf_names) && !b->name[0]; j++)
            if (span_has(name, perf_names[j]))
                b->name = nccl_printf(job, "%s_perf", perf_names[j]);
    }
    job->bench.open = false;
}
