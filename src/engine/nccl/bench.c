/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output of nccl-tests and rccl-tests. The table's header defines its columns, so old and new versions, tests
 * without redop or root, and per-iteration columns are read alike. And conclusions: wrong values, zeros, the curve
 * over sizes, and runs compared with each other.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

/* A column by its title: what it is, and where in NcclRow, or from CELL_TIME on in NcclFigure. */
struct BenchColumn {
    const char *name; /* NULL: any other */
    enum { CELL_OTHER, CELL_SIZE, CELL_TYPE, CELL_WORD, CELL_ROOT, CELL_TIME, CELL_RATE, CELL_WRONG } is;
    size_t offset;
};

static const BenchColumn columns[] = {{"size", CELL_SIZE, offsetof(NcclRow, size)},
                                      {"count", CELL_SIZE, offsetof(NcclRow, count)},
                                      {"type", CELL_TYPE, offsetof(NcclRow, type)},
                                      {"redop", CELL_WORD, offsetof(NcclRow, redop)},
                                      {"root", CELL_ROOT, offsetof(NcclRow, root)},
                                      {"time", CELL_TIME, offsetof(NcclFigure, time_us)},
                                      {"cputime", CELL_TIME, offsetof(NcclFigure, time_us)},
                                      {"algbw", CELL_RATE, offsetof(NcclFigure, alg_gbs)},
                                      {"busbw", CELL_RATE, offsetof(NcclFigure, bus_gbs)},
                                      {"#wrong", CELL_WRONG, offsetof(NcclFigure, wrong)},
                                      {NULL, CELL_OTHER, 0}};

static const char *const test_names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                         "reduce",     "alltoallv",  "alltoall",       "sendrecv",
                                         "gather",     "scatter",    "hypercube"};

NcclBench *nccl_new_bench(NcclJob *job)
{
    NcclBench bench = {.name = "",
                       .average_gbs = NAN,
                       .out_of_bounds = NCCL_UNKNOWN,
                       .input = job->input,
                       .place = nccl_current_place(job)};

    if (!nccl_has_room(job, job->report.benches.len, NCCL_BENCHES_MAX))
        return NULL;
    vec_push(&job->report.benches, bench);
    return &job->report.benches.at[job->report.benches.len - 1];
}

/* The run that lines of this input belong to; one that is concluded or has rows is over when a new one begins. */
static NcclBench *bench_of(NcclJob *job, bool begin)
{
    NcclBenches *all = &job->report.benches;

    if (job->bench.open && !(begin && (all->at[all->len - 1].rows.len || all->at[all->len - 1].concluded)))
        return &all->at[all->len - 1];
    NcclBench *bench = nccl_new_bench(job);
    job->bench = (BenchReader){.open = bench != NULL};
    return bench;
}

/* A test's name without path: "./build/all_reduce_perf" */
const char *nccl_read_bench_name(NcclJob *job, Span s)
{
    size_t slash = span_find_last(s, "/");

    return nccl_intern(job, slash == SPAN_NOWHERE ? s : span_from(s, slash + 1));
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
    const char *host = nccl_intern(job, span_word(&s));
    for (size_t i = 0; i < b->host_count; i++)
        if (b->hosts[i] == host)
            return true;
    if (b->host_count < ARRAY_LEN(b->hosts))
        b->hosts[b->host_count++] = host;
    bench->nodes++;
    return true;
}

static const BenchColumn *column_of(Span word)
{
    const BenchColumn *column = columns;

    while (column->name && !span_is(word, column->name))
        column++;
    return column;
}

/* "size count type redop root time algbw busbw #wrong time algbw busbw #wrong" */
static bool header_line(NcclJob *job, Span s)
{
    BenchReader *b = &job->bench;

    if (!span_next(&s, "size ") || !span_has(s, "algbw") || !span_has(s, "busbw"))
        return false;
    if (!bench_of(job, false))
        return true;
    b->columns[0] = &columns[0];
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
            bench->average_gbs = value, bench->average_place = nccl_current_place(job);
        return true;
    }
    if (bench && span_next(&s, "Out of bounds values")) {
        if (span_next(&s, ":") && span_i64(&s, &count))
            bench->out_of_bounds = count, bench->bounds_place = nccl_current_place(job);
        return true;
    }
    if (bench && span_next(&s, "Collective test concluded")) {
        if (span_next(&s, ":"))
            bench->name = nccl_read_bench_name(job, span_word(&s));
        bench->concluded = true;
        return true;
    }
    return false;
}

static bool comment_line(NcclJob *job, Span s)
{
    Span t = s;

    if (span_next(&t, "Collective test starting:")) {
        NcclBench *bench = bench_of(job, true);
        if (bench)
            bench->name = nccl_read_bench_name(job, span_word(&t));
        return true;
    }
    if (span_next(&t, "nccl-tests version ") || span_next(&t, "rccl-tests: Version ") ||
        span_next(&t, "rccl-tests version ") || (span_next(&t, "nThread ") && span_has(t, "minBytes")))
        return bench_of(job, true) != NULL;
    return rank_line(job, s) || header_line(job, s) || closing_line(job, s);
}

static double read_figure(Span word)
{
    double value;

    return span_double(&word, &value) && word.len == 0 ? value : NAN;
}

static void set_cell(NcclJob *job, const BenchColumn *column, Span word, NcclRow *row, NcclFigure *figure)
{
    void *at = (column->is < CELL_TIME ? (char *)row : (char *)figure) + column->offset;
    double wrong;

    switch (column->is) {
    case CELL_SIZE:
        span_u64(&word, at);
        break;
    case CELL_TYPE:
    case CELL_WORD:
        *(const char **)at = nccl_intern(job, word);
        break;
    case CELL_ROOT:
        span_i64(&word, at);
        break;
    case CELL_TIME:
    case CELL_RATE:
        *(double *)at = read_figure(word);
        break;
    case CELL_WRONG:
        wrong = read_figure(word);
        *(int64_t *)at = wrong >= 0 && wrong < 1e18 ? (int64_t)wrong : isinf(wrong) ? INT64_MAX : NCCL_UNKNOWN;
        break;
    case CELL_OTHER:
        break;
    }
}

NcclRow nccl_init_row(NcclPlace place)
{
    const NcclFigure none = {.time_us = NAN, .alg_gbs = NAN, .bus_gbs = NAN, .wrong = NCCL_UNKNOWN};

    return (NcclRow){.type = "", .redop = "", .root = NCCL_UNKNOWN, .out = none, .in = none, .place = place};
}

void nccl_add_row(NcclJob *job, NcclBench *bench, const NcclRow *row)
{
    if (nccl_has_room(job, bench->rows.len, NCCL_ROWS_MAX))
        vec_push(&bench->rows, *row);
}

/* Words of a line that may be a row, or a part of one. */
typedef struct Words {
    Span at[BENCH_WORDS_MAX];
    size_t count;
} Words;

static void split_words(Span s, Words *ret)
{
    ret->count = 0;
    for (Span word = span_word(&s); word.len && ret->count < BENCH_WORDS_MAX; word = span_word(&s))
        ret->at[ret->count++] = word;
    if (s.len)
        ret->count = BENCH_WORDS_MAX + 1; /* too many */
}

/* Columns before the first time. */
static size_t front_of(const BenchReader *b)
{
    size_t front = 0;

    while (front < b->count && b->columns[front]->is != CELL_TIME)
        front++;
    return front;
}

/* "8 2 float": what every row begins with. */
static bool starts_row(const BenchReader *b, const Span *words, size_t count)
{
    for (size_t i = 0; i < count && i < 3; i++) {
        Span at = words[i];
        uint64_t value;
        bool text = b->columns[i]->is == CELL_TYPE;
        if (text ? !isalpha((unsigned char)at.at[0]) : !span_u64(&at, &value) || at.len)
            return false;
    }
    return count >= 3;
}

static bool is_figure_word(Span word)
{
    return span_is(word, "N/A") || !isnan(read_figure(word));
}

/* All columns, all and a time stamp's two, or without the first half of the figures. */
static bool whole_row(NcclJob *job, const Span *words, size_t count)
{
    BenchReader *b = &job->bench;
    size_t front = front_of(b), half = (b->count - front) / 2;
    bool only_in = half && count == b->count - half;
    NcclFigure *f = NULL;

    if (half == 0 || (count != b->count && count != b->count + 2 && !only_in) || !starts_row(b, words, count) ||
        isnan(read_figure(words[front])))
        return false;
    NcclRow row = nccl_init_row(nccl_current_place(job));
    for (size_t c = 0; c < b->count; c++) {
        if (only_in && c >= front && c < front + half)
            continue;
        if (b->columns[c]->is == CELL_TIME)
            f = c < front + half ? &row.out : &row.in;
        set_cell(job, b->columns[c], words[only_in && c >= front + half ? c - half : c], &row, f ? f : &row.out);
    }
    nccl_add_row(job, &job->report.benches.at[job->report.benches.len - 1], &row);
    b->torn_len = 0;
    return true;
}

static void keep_torn(BenchReader *b, const Span *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (b->torn_len + words[i].len + 1 < sizeof b->torn) {
            memcpy(b->torn + b->torn_len, words[i].at, words[i].len);
            b->torn_len += words[i].len;
            b->torn[b->torn_len++] = ' ';
        }
}

/* The test writes a row in up to three parts, and NCCL's lines come between them. `labelled`: a word that is no figure
 * stands before. */
static bool torn_row(NcclJob *job, const Span *words, size_t count, bool labelled)
{
    BenchReader *b = &job->bench;
    size_t front = front_of(b), half = (b->count - front) / 2;
    Words joined;

    if (half && count >= front && count < b->count && starts_row(b, words, count)) {
        for (size_t i = front; i < count; i++)
            if (!is_figure_word(words[i]))
                return false;
        b->torn_len = 0;
        keep_torn(b, words, count);
        return true;
    }
    if (!labelled || b->torn_len == 0 || half == 0 || count % half || count > 2 * half)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_figure_word(words[i]))
            return false;
    keep_torn(b, words, count);
    split_words((Span){b->torn, b->torn_len}, &joined);
    if (joined.count == b->count)
        whole_row(job, joined.at, joined.count);
    return true;
}

/* Launchers prefix each line, "[1,0]<stdout>:", "0:", "worker-0 |", a time: a few words that no row begins with. */
static bool row_line(NcclJob *job, Span s)
{
    enum { LABELS_MAX = 5 };
    const BenchReader *b = &job->bench;
    Words words;

    if (!b->open || b->count < 4 || !isnan(job->report.benches.at[job->report.benches.len - 1].average_gbs))
        return false;
    split_words(s, &words);
    for (size_t skip = 0; skip < words.count && skip <= LABELS_MAX; skip++)
        if (words.count <= BENCH_WORDS_MAX && whole_row(job, words.at + skip, words.count - skip))
            return true;
    for (size_t skip = 0; skip < words.count && skip <= LABELS_MAX; skip++)
        if (words.count <= BENCH_WORDS_MAX &&
            torn_row(job, words.at + skip, words.count - skip, skip == 0 || !is_figure_word(words.at[skip - 1])))
            return true;
    return false;
}

bool nccl_read_bench_line(NcclJob *job, Span line)
{
    enum { LABEL_MAX = 96 };
    Span s = line;

    for (int i = 0; i < 4 && s.len && s.at[0] == '['; i++) { /* "[1,0]<stdout>:" touches what follows */
        if (!span_after(&s, "]"))
            break;
        span_skip(&s, "<stdout>");
        span_skip(&s, "<stderr>");
        span_skip(&s, ":");
        span_blanks(&s);
    }
    if (s.len == 0)
        return false;
    for (size_t hash = 0; hash < LABEL_MAX && hash < s.len; hash++) /* "worker-0: # nThread ..." */
        if (s.at[hash] == '#' && comment_line(job, span_from(s, hash + 1)))
            return true;
    return s.at[0] != '#' && row_line(job, s);
}

/* Names a run after its input where the output has no name. */
void nccl_end_bench(NcclJob *job)
{
    Span name = span_of(nccl_input(job)->name);

    for (size_t i = 0; i < job->report.benches.len; i++) {
        NcclBench *b = &job->report.benches.at[i];
        if (b->input != job->input || b->name[0])
            continue;
        for (size_t j = 0; j < ARRAY_LEN(test_names) && !b->name[0]; j++)
            if (span_has(name, test_names[j]))
                b->name = nccl_printf(job, "%s_perf", test_names[j]);
    }
    job->bench.open = false;
}

/* Bus bandwidth relative to the smaller run: reported below these. From one node to several, network replaces NVLink,
 * so more may be lost. */
static const double scaling_low = 0.8, scaling_low_to_net = 0.5;
/* A dip: this part of the lower neighbour; on curves that have reached 1 GB/s. */
static const double dip_low = 0.6, dip_from_gbs = 1;

/* The better half of a row: in place and out of place differ by chance. */
static double bus_of(const NcclRow *row)
{
    return isnan(row->out.bus_gbs) || row->in.bus_gbs > row->out.bus_gbs ? row->in.bus_gbs : row->out.bus_gbs;
}

static void find_peak(NcclBench *b)
{
    b->peak_gbs = NAN;
    for (size_t i = 0; i < b->rows.len; i++) {
        double bus = bus_of(&b->rows.at[i]);
        if (!isnan(bus) && (isnan(b->peak_gbs) || bus > b->peak_gbs))
            b->peak_gbs = bus, b->peak_size = b->rows.at[i].size;
    }
    for (size_t i = 0; i < b->rows.len; i++)
        if (bus_of(&b->rows.at[i]) * 2 >= b->peak_gbs && (b->half_size == 0 || b->rows.at[i].size < b->half_size))
            b->half_size = b->rows.at[i].size;
}

static NcclFinding *add_bench_finding(NcclJob *job, NcclRule rule, const NcclBench *b)
{
    return nccl_add_findingf(job, rule, "%s on %" PRId64 " ranks", b->name[0] ? b->name : "a test", b->ranks);
}

static void check_bench_values(NcclJob *job, const NcclBench *b)
{
    for (size_t i = 0; i < b->rows.len; i++) {
        const NcclRow *row = &b->rows.at[i];
        if (row->out.wrong > 0 || row->in.wrong > 0)
            nccl_add_evidence(job, add_bench_finding(job, NCCL_RULE_BENCH_WRONG, b), row->place,
                              "size %" PRIu64 ": %" PRId64 " wrong out of place, %" PRId64 " in place", row->size,
                              row->out.wrong < 0 ? 0 : row->out.wrong, row->in.wrong < 0 ? 0 : row->in.wrong);
    }
    if (b->out_of_bounds > 0)
        nccl_add_evidence(job, add_bench_finding(job, NCCL_RULE_BENCH_BOUNDS, b), b->bounds_place,
                          "Out of bounds values : %" PRId64, b->out_of_bounds);
}

static void check_bench_end(NcclJob *job, const NcclBench *b)
{
    bool cut = job->report.inputs.at[b->input].trouble[0];

    if (b->rows.len && !b->concluded && isnan(b->average_gbs) && !cut)
        nccl_add_evidence(job, add_bench_finding(job, NCCL_RULE_BENCH_CUT, b), b->rows.at[b->rows.len - 1].place,
                          "the last size is %" PRIu64, b->rows.at[b->rows.len - 1].size);
    if (b->average_gbs == 0) /* NaN where it is not there */
        nccl_add_evidence(job,
                          add_bench_finding(job, b->ranks == 1 ? NCCL_RULE_BENCH_ZERO_ONE : NCCL_RULE_BENCH_ZERO, b),
                          b->average_place, "Avg bus bandwidth    : 0, %zu sizes", b->rows.len);
}

static void check_bench_curve(NcclJob *job, const NcclBench *b)
{
    for (size_t i = 1; i + 1 < b->rows.len; i++) {
        double before = bus_of(&b->rows.at[i - 1]), here = bus_of(&b->rows.at[i]), after = bus_of(&b->rows.at[i + 1]);
        bool rising = b->rows.at[i - 1].size < b->rows.at[i].size && b->rows.at[i].size < b->rows.at[i + 1].size;
        if (rising && before >= dip_from_gbs && here < dip_low * fmin(before, after))
            nccl_add_evidence(job, add_bench_finding(job, NCCL_RULE_BENCH_DIP, b), b->rows.at[i].place,
                              "size %" PRIu64 ": %.2f GB/s, its neighbours %.2f and %.2f", b->rows.at[i].size, here,
                              before, after);
    }
}

static bool are_comparable(const NcclBench *a, const NcclBench *b)
{
    return a->name[0] && strcmp(a->name, b->name) == 0 && a->ranks > 1 && b->ranks > a->ranks && a->rows.len &&
           b->rows.len && strcmp(a->rows.at[0].type, b->rows.at[0].type) == 0;
}

/* A row of each of two runs. */
typedef struct RowPair {
    const NcclRow *base, *bench;
} RowPair;

/* The rows of the largest size that both have; base NULL: none. */
static RowPair find_common_size(const NcclBench *base, const NcclBench *bench)
{
    RowPair found = {NULL, NULL};

    for (size_t i = base->rows.len; i-- > 0;)
        for (size_t k = bench->rows.len; k-- > 0;) {
            const NcclRow *x = &base->rows.at[i], *y = &bench->rows.at[k];
            if (x->size == y->size && (!found.base || x->size > found.base->size) && bus_of(x) > 0 && !isnan(bus_of(y)))
                found = (RowPair){x, y};
        }
    return found;
}

static void add_scaling_evidence(NcclJob *job, NcclFinding *f, const NcclBench *b, const NcclRow *row)
{
    nccl_add_evidence(job, f, row->place, "%" PRId64 " ranks, %" PRId64 " nodes, size %" PRIu64 ": %.2f GB/s", b->ranks,
                      b->nodes, row->size, bus_of(row));
}

/* Each run against the one with the next fewer ranks. */
static void check_scaling(NcclJob *job, uint32_t bench)
{
    const NcclBenches *all = &job->report.benches;
    const NcclBench *b = &all->at[bench];
    uint32_t base = NCCL_NO_INDEX;

    for (uint32_t i = 0; i < all->len; i++)
        if (are_comparable(&all->at[i], b) && (base == NCCL_NO_INDEX || all->at[i].ranks > all->at[base].ranks))
            base = i;
    if (base == NCCL_NO_INDEX)
        return;
    const NcclBench *a = &all->at[base];
    const RowPair rows = find_common_size(a, b);
    if (!rows.base)
        return;
    NcclScaling scaling = {
        .base = base, .bench = bench, .size = rows.base->size, .efficiency = bus_of(rows.bench) / bus_of(rows.base)};
    vec_push(&job->report.scalings, scaling);
    double low = a->nodes <= 1 && b->nodes > 1 ? scaling_low_to_net : scaling_low;
    if (scaling.efficiency >= low)
        return;
    NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_BENCH_SCALING,
                                       "%s: %.0f %% of the bus bandwidth from %" PRId64 " to %" PRId64 " ranks",
                                       b->name, scaling.efficiency * 100, a->ranks, b->ranks);
    add_scaling_evidence(job, f, a, rows.base);
    add_scaling_evidence(job, f, b, rows.bench);
}

/* By name and ranks, so that a series of runs reads upwards. */
static int compare_benches(const void *a, const void *b, void *arg)
{
    const NcclBench *all = arg, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    int by = strcmp(x->name, y->name);

    if (by)
        return by;
    return x->ranks != y->ranks ? (x->ranks > y->ranks) - (x->ranks < y->ranks) : (x > y) - (x < y);
}

void nccl_check_benches(NcclJob *job)
{
    enum { COMPARED_MAX = 64 };
    uint32_t order[COMPARED_MAX], count = 0;

    for (uint32_t i = 0; i < job->report.benches.len; i++) {
        NcclBench *b = &job->report.benches.at[i];
        find_peak(b);
        check_bench_values(job, b);
        check_bench_end(job, b);
        check_bench_curve(job, b);
    }
    while (count < COMPARED_MAX && count < job->report.benches.len)
        order[count] = count, count++;
    qsort_r(order, count, sizeof order[0], compare_benches, job->report.benches.at);
    for (uint32_t i = 0; i < count; i++)
        check_scaling(job, order[i]);
}
