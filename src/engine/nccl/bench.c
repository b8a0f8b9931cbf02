/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output of nccl-tests and rccl-tests. The table's header defines its columns, so old and new versions, tests
 * without redop or root, and per-iteration columns are read alike. And conclusions: wrong values, zeros, the curve
 * over sizes, and runs compared with each other.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

static const struct {
    const char *name;
    BenchColumn column;
} columns[] = {{"size", BENCH_SIZE}, {"count", BENCH_COUNT},  {"type", BENCH_TYPE},    {"redop", BENCH_REDOP},
               {"root", BENCH_ROOT}, {"time", BENCH_TIME},    {"cputime", BENCH_TIME}, {"algbw", BENCH_ALG},
               {"busbw", BENCH_BUS}, {"#wrong", BENCH_WRONG}, {"error", BENCH_ERROR}};

static const char *const test_names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                         "reduce",     "alltoallv",  "alltoall",       "sendrecv",
                                         "gather",     "scatter",    "hypercube"};

NcclBench *nccl_new_bench(NcclJob *job)
{
    NcclBench bench = {.name = "",
                       .version = "",
                       .ranks = 0,
                       .nodes = 0,
                       .average_gbs = NAN,
                       .out_of_bounds = NCCL_UNKNOWN,
                       .input = job->input,
                       .place = nccl_current_place(job)};

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

    if (span_next(&t, "nccl-tests version ") || span_next(&t, "rccl-tests: Version ") ||
        span_next(&t, "rccl-tests version ")) {
        NcclBench *bench = bench_of(job, true);
        if (bench)
            bench->version = nccl_intern(job, span_word(&t));
        return true;
    }
    if (span_next(&t, "Collective test starting:")) {
        NcclBench *bench = bench_of(job, true);
        if (bench)
            bench->name = nccl_read_bench_name(job, span_word(&t));
        return true;
    }
    if (span_next(&t, "nThread ") && span_has(t, "minBytes"))
        return bench_of(job, true) != NULL;
    return rank_line(job, s) || header_line(job, s) || closing_line(job, s);
}

static double read_figure(Span word)
{
    double value;

    return span_double(&word, &value) && word.len == 0 ? value : NAN;
}

static void set_cell(NcclJob *job, NcclRow *row, BenchColumn column, Span word, NcclFigure *f)
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
        row->type = nccl_intern(job, word);
        break;
    case BENCH_REDOP:
        row->redop = nccl_intern(job, word);
        break;
    case BENCH_ROOT:
        span_i64(&at, &row->root);
        break;
    case BENCH_TIME:
        f->time_us = read_figure(word);
        break;
    case BENCH_ALG:
        f->alg_gbs = read_figure(word);
        break;
    case BENCH_BUS:
        f->bus_gbs = read_figure(word);
        break;
    case BENCH_WRONG:
        value = read_figure(word);
        f->wrong = value >= 0 && value < 1e18 ? (int64_t)value : isinf(value) ? INT64_MAX : NCCL_UNKNOWN;
        break;
    default:
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
    if (bench->rows.len < NCCL_ROWS_MAX)
        vec_push(&bench->rows, *row);
    else
        job->report.left_out++;
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

static bool is_type_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Columns before the first time. */
static size_t front_of(const BenchReader *b)
{
    size_t front = 0;

    while (front < b->count && b->columns[front] != BENCH_TIME)
        front++;
    return front;
}

/* "8 2 float": what every row begins with. */
static bool starts_row(const BenchReader *b, const Span *words, size_t count)
{
    for (size_t i = 0; i < count && i < 3; i++) {
        Span at = words[i];
        uint64_t value;
        bool text = b->columns[i] == BENCH_TYPE;
        if (text ? !is_type_letter(at.at[0]) : !span_u64(&at, &value) || at.len)
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
        if (b->columns[c] == BENCH_TIME)
            f = c < front + half ? &row.out : &row.in;
        set_cell(job, &row, b->columns[c], words[only_in && c >= front + half ? c - half : c], f ? f : &row.out);
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

static const char *bench_title(const NcclBench *b)
{
    return b->name[0] ? b->name : "a test";
}

static void check_bench_values(NcclJob *job, const NcclBench *b)
{
    for (size_t i = 0; i < b->rows.len; i++) {
        const NcclRow *row = &b->rows.at[i];
        if (row->out.wrong > 0 || row->in.wrong > 0)
            nccl_add_evidence(
                job, nccl_add_findingf(job, NCCL_RULE_BENCH_WRONG, "%s on %" PRId64 " ranks", bench_title(b), b->ranks),
                row->place, "size %" PRIu64 ": %" PRId64 " wrong out of place, %" PRId64 " in place", row->size,
                row->out.wrong < 0 ? 0 : row->out.wrong, row->in.wrong < 0 ? 0 : row->in.wrong);
    }
    if (b->out_of_bounds > 0)
        nccl_add_evidence(
            job, nccl_add_findingf(job, NCCL_RULE_BENCH_BOUNDS, "%s on %" PRId64 " ranks", bench_title(b), b->ranks),
            b->bounds_place, "Out of bounds values : %" PRId64, b->out_of_bounds);
}

static void check_bench_end(NcclJob *job, const NcclBench *b)
{
    bool cut = job->report.inputs.at[b->input].trouble[0];

    if (b->rows.len && !b->concluded && isnan(b->average_gbs) && !cut)
        nccl_add_evidence(
            job, nccl_add_findingf(job, NCCL_RULE_BENCH_CUT, "%s on %" PRId64 " ranks", bench_title(b), b->ranks),
            b->rows.at[b->rows.len - 1].place, "the last size is %" PRIu64, b->rows.at[b->rows.len - 1].size);
    if (b->average_gbs == 0) /* NaN where it is not there */
        nccl_add_evidence(job,
                          nccl_add_findingf(job, b->ranks == 1 ? NCCL_RULE_BENCH_ZERO_ONE : NCCL_RULE_BENCH_ZERO,
                                            "%s on %" PRId64 " ranks", bench_title(b), b->ranks),
                          b->average_place, "Avg bus bandwidth    : 0, %zu sizes", b->rows.len);
}

static void check_bench_curve(NcclJob *job, const NcclBench *b)
{
    for (size_t i = 1; i + 1 < b->rows.len; i++) {
        double before = bus_of(&b->rows.at[i - 1]), here = bus_of(&b->rows.at[i]), after = bus_of(&b->rows.at[i + 1]);
        bool rising = b->rows.at[i - 1].size < b->rows.at[i].size && b->rows.at[i].size < b->rows.at[i + 1].size;
        if (rising && before >= dip_from_gbs && here < dip_low * fmin(before, after))
            nccl_add_evidence(
                job, nccl_add_findingf(job, NCCL_RULE_BENCH_DIP, "%s on %" PRId64 " ranks", bench_title(b), b->ranks),
                b->rows.at[i].place, "size %" PRIu64 ": %.2f GB/s, its neighbours %.2f and %.2f", b->rows.at[i].size,
                here, before, after);
    }
}

static bool are_comparable(const NcclBench *a, const NcclBench *b)
{
    return a->name[0] && strcmp(a->name, b->name) == 0 && a->ranks > 1 && b->ranks > a->ranks && a->rows.len &&
           b->rows.len && strcmp(a->rows.at[0].type, b->rows.at[0].type) == 0;
}

/* The largest size that both have. */
static bool common_size(const NcclBench *a, const NcclBench *b, const NcclRow **ret_a, const NcclRow **ret_b)
{
    *ret_a = NULL;
    for (size_t i = a->rows.len; i-- > 0;)
        for (size_t k = b->rows.len; k-- > 0;) {
            const NcclRow *x = &a->rows.at[i], *y = &b->rows.at[k];
            if (x->size == y->size && (!*ret_a || x->size > (*ret_a)->size) && bus_of(x) > 0 && !isnan(bus_of(y)))
                *ret_a = x, *ret_b = y;
        }
    return *ret_a != NULL;
}

/* Each run against the one with the next fewer ranks. */
static void check_scaling(NcclJob *job, uint32_t bench)
{
    const NcclBenches *all = &job->report.benches;
    const NcclBench *b = &all->at[bench];
    uint32_t base = NCCL_NO_INDEX;
    const NcclRow *x, *y;

    for (uint32_t i = 0; i < all->len; i++)
        if (are_comparable(&all->at[i], b) && (base == NCCL_NO_INDEX || all->at[i].ranks > all->at[base].ranks))
            base = i;
    if (base == NCCL_NO_INDEX || !common_size(&all->at[base], b, &x, &y))
        return;
    const NcclBench *a = &all->at[base];
    NcclScaling scaling = {.base = base, .bench = bench, .size = x->size, .efficiency = bus_of(y) / bus_of(x)};
    vec_push(&job->report.scalings, scaling);
    double low = a->nodes <= 1 && b->nodes > 1 ? scaling_low_to_net : scaling_low;
    if (scaling.efficiency >= low)
        return;
    NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_BENCH_SCALING,
                                       "%s: %.0f %% of the bus bandwidth from %" PRId64 " to %" PRId64 " ranks",
                                       b->name, scaling.efficiency * 100, a->ranks, b->ranks);
    nccl_add_evidence(job, f, x->place, "%" PRId64 " ranks, %" PRId64 " nodes, size %" PRIu64 ": %.2f GB/s", a->ranks,
                      a->nodes, x->size, bus_of(x));
    nccl_add_evidence(job, f, y->place, "%" PRId64 " ranks, %" PRId64 " nodes, size %" PRIu64 ": %.2f GB/s", b->ranks,
                      b->nodes, y->size, bus_of(y));
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
