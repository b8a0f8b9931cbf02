/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: all of `stoker trace` behind its files. The bytes choose events from a small grammar, for one to three
 * ranks, and may then change some of the text; what comes of it is analysed, told in every form, compared and cut.
 * Times add up, verdicts stay within their bounds, and what is printed is well-formed. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "engine/trace/analyse.h"
#include "engine/trace/cut.h"
#include "engine/trace/scan/inside.h"
#include "service/report/report.h"
#include "test/fuzz/feed.h"
#include "test/fuzz/share.h"
#include "test/unit/trace_scan/kit.h"

enum { TEXT_MAX = 1 << 20, OUTPUT_MAX = 64 << 20, EVENT_BYTES = 8, LONG_NAME = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the grammar ---- */

typedef struct Kind {
    const char *phase, *category; /* category NULL: none */
    void (*args)(Str *text, unsigned int id, unsigned int how);
} Kind;

static const char *const names[] = {
    NULL, /* none */
    "null",
    "\"\"",
    "\"ProfilerStep#1\"",
    "\"ProfilerStep#2\"",
    "\"ProfilerStep#3\"",
    "\"aten::mm\"",
    "\"aten::convolution\"",
    "\"aten::item\"",
    "\"record_param_comms\"",
    "\"nccl:all_reduce\"",
    "\"c10d::allreduce_\"",
    "\"ampere_fp16_s16816gemm_align8\"",
    "\"ampere_sgemm_128x64_nn\"",
    "\"void at::native::elementwise_kernel<4, Op<float> >(int)\"",
    "\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclWork*)\"",
    "\"ncclDevKernel_SendRecv(ncclWork*)\"",
    "\"cudaLaunchKernel\"",
    "\"cudaGraphLaunch\"",
    "\"cudaMemcpyAsync\"",
    "\"cudaStreamSynchronize\"",
    "\"cudaMalloc\"",
    "\"Memcpy HtoD (Pageable -> Device)\"",
    "\"Memcpy DtoH (Device -> Pinned)\"",
    "\"Memset (Device)\"",
    "\"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\"",
    "\"train.py(10): step\"",
    "\"torch/_inductor/compile_fx.py(1): compile_inner\"",
    "\"$train.py:12 step\"",
    "\"train\"",
    "\"[memory]\"",
    "\"process_name\"",
    "\"thread_name\"",
    "\"\xff\xfe <b>\\u0000\\ud800\"",
    "\"Optimizer.step#SGD.step\"",
    "\"execute_context_0(0)_generation_4(4)\"",
    "\"execute_context_1(9)_generation_2(2)\"",
    "\"step[DECODE bs=3]\"",
};

static const char *const shapes[] = {
    "[[8, 8], [8, 8]]",
    "[[7, 3], [3, 5]]",
    "[[64, 3, 7, 7], [8, 3, 3, 3]]",
    "[[0, -1], []]",
    "[[99999999999999, 2]]",
    "[]",
    "[[4, 8, 16], [4, 16, 2]]",
    "\"x\"",
};
static const char *const types[] = {"[\"float\", \"float\"]", "[\"c10::Half\", \"c10::Half\"]", "[\"c10::BFloat16\"]",
                                    "[\"signed char\", \"signed char\"]"};
static const char *const labels[] = {"/device:GPU:0", "/device:GPU:1", "/host:CPU", "Stream #1(Compute)",
                                     "Steps",         "XLA Ops",       "python",    "[TP01] 7"};
static const char *const collectives[] = {"allreduce", "_allgather_base", "send", "barrier"};

static const int64_t times_us[] = {0,  0,   1, 2,    5,     11, 40,
                                   99, 500, 1, 3000, 50000, 7,  1000000000000000}; /* to the next */
static const char *const durations[] = {"0",     "0.5",  "2",    "4",  "9",       "12",           "35",
                                        "150",   "900",  "5000", "-3", "6000000", "604800000000", "\"NaN\"",
                                        "99999", "0.001"};

/* A number behind a text; with str_addf the writing took as long as the reading. */
static void add_number(Str *text, const char *before, int64_t value)
{
    char digits[NUMBER_I64_MAX];

    str_add(text, before);
    str_addn(text, digits, number_write_i64(digits, value));
}

static void args_none(Str *text, unsigned int id, unsigned int how)
{
    (void)id;
    str_add(text, how & 1 ? "\"x\":{\"y\":[1,{}]}" : "");
}

static void args_place(Str *text, unsigned int id, unsigned int how)
{
    if (how & 1) {
        add_number(text, "\"device\":", how >> 1 & 1);
        add_number(text, ",\"stream\":", how >> 2 & 3 ? 7 * (how >> 2 & 3) : 0);
        str_addc(text, ',');
    }
    add_number(text, "\"correlation\":", id);
    add_number(text, ",\"External id\":", id / 2);
}

static void args_collective(Str *text, unsigned int id, unsigned int how)
{
    str_add(text, ",\"Collective name\":\"");
    str_add(text, collectives[how % ARRAY_LEN(collectives)]);
    add_number(text, "\",\"In msg nelems\":", id << how % 24);
    add_number(text, ",\"Out msg nelems\":", id << how % 20);
    add_number(text, ",\"Group size\":", how % 4);
    add_number(text, ",\"dtype\":\"Float\",\"Process Group Name\":\"", how / 4 % 2);
    add_number(text, "\",\"Process Group Ranks\":\"[0, ", 1 + how / 8 % 2);
    str_add(text, "]\"");
    if (how & 1)
        add_number(text, ",\"Seq\":", id);
}

static void args_kernel(Str *text, unsigned int id, unsigned int how)
{
    args_place(text, id, how);
    if (how & 16) {
        add_number(text, ",\"grid\":[", how);
        add_number(text, ",", id);
        add_number(text, ",1],\"block\":[", how * 4);
        add_number(text, ",1,1],\"registers per thread\":", how);
        add_number(text, ",\"blocks per SM\":", how / 64);
        add_number(text, ".5,\"est. achieved occupancy %\":", how % 101);
    }
    if (how & 32)
        args_collective(text, id, how);
    if (how & 64)
        str_add(text, ",\"graph id\":3");
}

static void args_copy(Str *text, unsigned int id, unsigned int how)
{
    args_place(text, id, how);
    add_number(text, ",\"bytes\":", id << how % 24);
    add_number(text, ",\"memory bandwidth (GB/s)\":", how);
    str_add(text, ".25");
}

static void args_op(Str *text, unsigned int id, unsigned int how)
{
    add_number(text, "\"External id\":", id / 2);
    if (how & 1) {
        str_add(text, ",\"Input Dims\":");
        str_add(text, shapes[how / 2 % ARRAY_LEN(shapes)]);
    }
    if (how & 16) {
        str_add(text, ",\"Input type\":");
        str_add(text, types[how / 32 % ARRAY_LEN(types)]);
    }
    if (how & 128)
        args_collective(text, id, how);
}

static void args_sync(Str *text, unsigned int id, unsigned int how)
{
    args_place(text, id, how);
    str_add(text, ",\"cuda_sync_kind\":\"");
    str_add(text, how & 16 ? "Stream Wait Event" : "Context Sync");
    add_number(text, "\",\"wait_on_stream\":", how / 32 * 7);
    add_number(text, ",\"wait_on_cuda_event_record_corr_id\":", id + 1);
}

static void args_memory(Str *text, unsigned int id, unsigned int how)
{
    add_number(text, "\"Bytes\":", (how & 1 ? -1 : 1) * (int)(id << 9));
    add_number(text, ",\"Addr\":", id);
    add_number(text, ",\"Device Type\":", how / 2 % 2);
    add_number(text, ",\"Device Id\":", how / 4 % 2);
    if (how & 8) {
        add_number(text, ",\"Total Allocated\":", id << 10);
        add_number(text, ",\"Total Reserved\":", how << 20);
    }
}

static void args_label(Str *text, unsigned int id, unsigned int how)
{
    (void)id;
    str_add(text, "\"name\":\"");
    str_add(text, labels[how % ARRAY_LEN(labels)]);
    str_addc(text, '"');
}

/* Of XLA's profiler. */
static void args_bare(Str *text, unsigned int id, unsigned int how)
{
    add_number(text, "\"correlation_id\":", id);
    if (how & 1)
        add_number(text, ",\"step_num\":", id);
    if (how & 2) {
        add_number(text, ",\"kernel_details\":\"regs:", how);
        add_number(text, " static_shared:0 grid:", id);
        add_number(text, ",1,1 block:64,1,1 occ_pct:", how);
        str_addc(text, '"');
    }
    if (how & 4) {
        add_number(text, ",\"memcpy_details\":\"kind_src:pinned kind_dst:device size:", id << 9);
        str_addc(text, '"');
    }
}

static const Kind kinds[] = {
    {"X", "kernel", args_kernel},
    {"X", "kernel", args_kernel},
    {"X", "kernel", args_kernel},
    {"X", "gpu_memcpy", args_copy},
    {"X", "gpu_memset", args_copy},
    {"X", "cuda_runtime", args_place},
    {"X", "cuda_runtime", args_place},
    {"X", "cpu_op", args_op},
    {"X", "cpu_op", args_op},
    {"X", "user_annotation", args_none},
    {"X", "python_function", args_none},
    {"X", "gpu_user_annotation", args_place},
    {"X", "cuda_sync", args_sync},
    {"X", "overhead", args_none},
    {"X", NULL, args_bare},
    {"X", NULL, args_bare},
    {"B", "user_annotation", args_none},
    {"E", "user_annotation", args_none},
    {"B", NULL, args_bare},
    {"E", NULL, args_bare},
    {"i", NULL, args_memory},
    {"M", NULL, args_label},
    {"s", "ac2g", args_none},
    {"X", "collective_comm", args_kernel},
    {"X", "unheard of", args_place},
};

static void add_name(Str *text, const uint8_t bytes[EVENT_BYTES])
{
    const char *name = names[bytes[1] % ARRAY_LEN(names)];

    if (bytes[1] == UINT8_MAX) {
        str_add(text, ",\"name\":\"");
        for (unsigned int i = 0; i < LONG_NAME / 10; i++)
            str_add(text, "0000000000");
        add_number(text, "", bytes[7]);
        str_addc(text, '"');
    } else if (name) {
        str_add(text, ",\"name\":");
        str_add(text, name);
    }
}

/* One event; a later rank does the same a little later each time. */
static void write_event(Str *text, const uint8_t bytes[EVENT_BYTES], int64_t at_us, unsigned int rank)
{
    const Kind *kind = &kinds[bytes[0] % ARRAY_LEN(kinds)];

    str_add(text, "{\"ph\":\"");
    str_add(text, kind->phase);
    add_number(text, "\",\"pid\":", bytes[4] / 8 % 2);
    add_number(text, ",\"tid\":", bytes[4] % 8);
    if (kind->category) {
        str_add(text, ",\"cat\":\"");
        str_add(text, kind->category);
        str_addc(text, '"');
    }
    add_name(text, bytes);
    add_number(text, ",\"ts\":", at_us);
    str_add(text, bytes[2] % 2 ? ".50" : ".00");
    str_addc(text, (char)('0' + rank));
    if (bytes[3] != UINT8_MAX) {
        str_add(text, ",\"dur\":");
        str_add(text, durations[(bytes[3] + (bytes[5] > 200 ? rank : 0)) % ARRAY_LEN(durations)]);
    }
    str_add(text, ",\"args\":{");
    kind->args(text, bytes[6] % 32, bytes[7]);
    str_add(text, "}},\n");
}

static void write_profile(Str *text, const uint8_t *data, size_t size, unsigned int rank)
{
    int64_t at_us = 1000;

    add_number(text, "{\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":", rank);
    str_add(text, ",\"world_size\":3},\"deviceProperties\":[{\"id\":0,\"name\":\"H\",\"numSms\":100,\"warpSize\":32}],"
                  "\"traceEvents\":[\n");
    for (; size >= EVENT_BYTES; size -= EVENT_BYTES, data += EVENT_BYTES) {
        write_event(text, data, at_us, rank);
        at_us += times_us[data[2] % ARRAY_LEN(times_us)] + (data[5] / 64 == rank ? data[5] % 64 : 0);
        if (data[5] % 16 == 15)
            at_us -= 90; /* inside what was before */
    }
    str_add(text, "{\"ph\":\"M\"}],\"traceName\":\"x\"}\n");
}

/* Changes of the text itself: three bytes each. */
static void change_text(Str *text, const uint8_t *data, size_t count)
{
    for (; count > 0; count--, data += 3) {
        const size_t at = ((size_t)data[0] << 8 | data[1]) * text->len >> 16;

        if (data[2] < 128)
            text->text[at] = (char)data[2];
        else if (data[2] < 192)
            str_cut(text, at);
        else
            memmove(text->text + at, text->text + at + 1, text->len - at - 1);
        if (text->len == 0)
            return;
    }
}

/* ---- what must hold ---- */

static void must_hold(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

#define HOLDS(condition) must_hold(condition, #condition)

static int64_t sum_causes(const TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    int64_t sum = 0;

    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++)
        sum = trace_sum(sum, sums[i].total_ns);
    return sum;
}

static void check_times(const TraceRank *rank)
{
    int64_t idle = 0;

    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *d = &rank->devices.at[i];

        HOLDS(d->compute_ns + d->exposed_communication_ns + d->exposed_copy_ns + d->idle_ns == d->span_ns);
        HOLDS(d->busy_ns + d->idle_ns == d->span_ns && d->idle_ns >= 0);
        HOLDS(d->communication_overlapped_ns + d->exposed_communication_ns == d->communication_ns);
        idle = trace_sum(idle, d->idle_ns);
    }
    HOLDS(sum_causes(rank->idle_by_cause) == idle);
    for (size_t i = 0; i < rank->gaps.len; i++) {
        const TraceGap *gap = &rank->gaps.at[i];
        int64_t sum = 0;

        for (size_t c = 0; c < TRACE_CAUSE_COUNT; c++)
            sum += gap->slice_ns[c];
        HOLDS(sum == gap->end - gap->start);
    }
}

static void check_steps(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->steps.len; i++)
        for (size_t k = 0; k < rank->steps.at[i].devices.len; k++) {
            const TraceStepDevice *d = &rank->steps.at[i].devices.at[k];

            HOLDS(d->busy_ns + d->idle_ns == d->window_ns && d->idle_ns >= 0);
            HOLDS(d->compute_ns + d->exposed_communication_ns + d->exposed_copy_ns == d->busy_ns);
            HOLDS(sum_causes(d->idle_by_cause) == d->idle_ns);
        }
    for (size_t i = 0; i < rank->paths.len; i++) {
        int64_t sum = 0;

        for (size_t k = 0; k < TRACE_PATH_KIND_COUNT; k++)
            sum += rank->paths.at[i].by_kind_ns[k];
        HOLDS(sum == rank->paths.at[i].total_ns);
    }
}

static void check_verdicts(const TraceReport *report)
{
    for (size_t i = 0; i < report->verdicts.len; i++) {
        const TraceVerdict *v = &report->verdicts.at[i];

        HOLDS(v->percent_of_step >= 0 && v->percent_of_step <= 100.000001);
        HOLDS(v->gain_percent >= 0 && v->gain_percent <= v->percent_of_step + 1e-6);
        HOLDS(v->cost_ns >= 0 && v->evidence[0] && v->advice[0]);
    }
}

/* ---- outputs ---- */

static int keep_text(void *context, const char *text, size_t len, Err *err)
{
    str_addn(context, text, len);
    return str_check(context, "output", err);
}

static void check_json(Str *out)
{
    json_t *json = json_loadb(out->text, out->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    HOLDS(json);
    json_decref(json);
    str_cut(out, 0);
}

static void check_plain(Str *out)
{
    for (size_t i = 0; i < out->len; i++)
        HOLDS((unsigned char)out->text[i] >= ' ' || out->text[i] == '\n');
    str_cut(out, 0);
}

/* Each form for a share of the inputs, by what it costs: JSON, its reading included, as much as three analyses. */
static void write_report(const TraceReport *report, bool page, uint32_t *dice)
{
    CLEANUP(str_done) Str out = {0};
    const ReportSink sink = {.write = keep_text, .context = &out};
    const ReportOptions style = {.width = 60 + *dice % 100, .utf8 = *dice & 1, .top = 5, .verbose = *dice & 2};

    str_init(&out, OUTPUT_MAX);
    if (share_drawn(dice, 32)) {
        HOLDS(trace_text(report, &style, sink, NULL) == 0);
        check_plain(&out);
    }
    if (share_drawn(dice, 128)) {
        HOLDS(trace_json(report, sink, NULL) == 0);
        check_json(&out);
    }
    for (size_t i = 0; trace_csv_tables[i]; i++)
        if (share_drawn(dice, 512))
            HOLDS(trace_csv(report, trace_csv_tables[i], sink, NULL) == 0);
    if (page)
        HOLDS(trace_html(report, "title", sink, NULL) == 0);
}

static void write_difference(const TraceReport *before, const TraceReport *after, uint32_t *dice)
{
    CLEANUP(str_done) Str out = {0};
    CLEANUP(arena_done) Arena arena = {0};
    const ReportSink sink = {.write = keep_text, .context = &out};
    TraceDiff diff = {0};

    str_init(&out, OUTPUT_MAX);
    trace_diff(before, after, &arena, &diff);
    if (share_drawn(dice, 2)) {
        HOLDS(trace_diff_text(&diff, &(ReportOptions){.width = 60 + *dice % 100}, sink, NULL) == 0);
        check_plain(&out);
    }
    if (share_drawn(dice, 4)) {
        HOLDS(trace_diff_json(&diff, sink, NULL) == 0);
        check_json(&out);
    }
    for (size_t i = 0; trace_diff_csv_tables[i]; i++)
        if (share_drawn(dice, 16))
            HOLDS(trace_diff_csv(&diff, trace_diff_csv_tables[i], sink, NULL) == 0);
    if (share_drawn(dice, 16))
        HOLDS(trace_diff_html(&diff, "title", sink, NULL) == 0);
    trace_diff_done(&diff);
}

/* ---- from texts to a report ---- */

/* What the scanner learned of a text serves all others: learning takes as long as an analysis. No result may depend on
 * it, which the target trace_scan checks. */
static KitWay shared_way;

typedef struct Reading {
    Arena arena;
    TraceReport report;
    bool page; /* with its timeline, which costs more than all the rest */
} Reading;

static void reading_done(Reading *reading)
{
    trace_report_done(&reading->report);
    arena_done(&reading->arena);
}

/* The part that the dice choose of it. */
static TraceAsk choose_part(uint32_t *dice)
{
    static const char *const steps[] = {NULL, NULL, "last", "2", "1-2", "train"};
    TraceAsk ask = {.step = steps[*dice >> 8 & 3 ? 0 : (*dice >> 12) % ARRAY_LEN(steps)],
                    .no_host = (*dice >> 16) % 16 == 0,
                    .no_python = (*dice >> 20) % 16 == 0};

    if (!ask.step && (*dice >> 24) % 8 == 0)
        ask.from = (TraceMoment){.given = true, .relative = true, .ns = (int64_t)(*dice & 0xfffff)};
    if ((*dice >> 4) % 16 == 0)
        ask.streams = (TraceNumbers){.first = {0}, .last = {7}, .len = 1};
    return ask;
}

static void analyse_profile(Reading *reading, const Profile *profile, unsigned int rank)
{
    TraceConfig config = trace_config_default;
    TraceIndex index;
    TraceRank result;

    config.timeline = reading->page;
    trace_index_init(&index, profile, 1);
    const TraceJob job = {
        .index = &index, .config = &config, .arena = &reading->arena, .threads = 1, .memory = SIZE_MAX};

    trace_analyse(&job, "file", rank, &result);
    trace_index_done(&index);
    check_times(&result);
    check_steps(&result);
    vec_push(&reading->report.ranks, result);
}

static void read_profile(Reading *reading, const Str *text, const TraceAsk *ask, unsigned int rank)
{
    CLEANUP(profile_done) Profile profile = {0};
    CLEANUP(trace_pick_done) TracePick pick = {0};
    Err err = {0};

    if (kit_scan(text->text, text->len, NULL, &shared_way, &profile, &err) < 0)
        return;
    if (trace_ask_some(ask)) {
        if (trace_pick_init(&pick, ask, &profile, &err) < 0)
            return;
        trace_pick_apply(&pick, &profile);
    }
    analyse_profile(reading, &profile, rank);
}

static void finish_report(Reading *reading)
{
    if (reading->report.ranks.len == 0)
        return;
    trace_report_drop_copies(&reading->report, &reading->arena);
    trace_across(&reading->report);
    trace_verdicts(&reading->report);
    check_verdicts(&reading->report);
}

/* ---- cut ---- */

static int load_text(void *text_, const TraceScanOptions *options, Profile *into, Err *err)
{
    const Str *text = text_;

    return kit_load(text->text, text->len, options, &shared_way, into, err);
}

static Str cut_written;

static int write_cut(void *context, const char *bytes, size_t len, Err *err)
{
    (void)context;
    return keep_text(&cut_written, bytes, len, err);
}

static void cut_text(Str *text, const TraceAsk *ask)
{
    TraceCut cut = {.ask = ask, .path = "file", .memory = 1 << 24};
    Err err = {0};

    str_init(&cut_written, OUTPUT_MAX);
    if (trace_cut(&cut, &(TraceCutFile){.context = text, .load = load_text, .write = write_cut}, &err) == 0) {
        Reading reading = {0};

        trace_report_init(&reading.report);
        read_profile(&reading, &cut_written, &(TraceAsk){0}, 0);
        finish_report(&reading);
        reading_done(&reading);
    }
    str_done(&cut_written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t ranks_by[] = {1, 2, 3, 1};
    uint32_t dice = share_dice(data, size);

    if (size < EVENT_BYTES)
        return 0;
    if (!shared_way.tools)
        shared_way.tools = scan_tools_new();
    const unsigned int ranks = ranks_by[data[0] % ARRAY_LEN(ranks_by)];
    const size_t changes = data[1] % 16 < 12 || size < 32 ? 0 : data[1] % 4 + 1;
    const TraceAsk ask = data[2] % 4 ? (TraceAsk){0} : choose_part(&(uint32_t){dice});
    CLEANUP(reading_done) Reading reading = {0};
    CLEANUP(reading_done) Reading other = {0};

    trace_report_init(&reading.report);
    trace_report_init(&other.report);
    reading.page = share_drawn(&dice, 2048);
    const bool cut = share_drawn(&dice, 32), compared = share_drawn(&dice, 32);
    for (unsigned int rank = 0; rank < ranks; rank++) {
        CLEANUP(str_done) Str text = {0};

        str_init(&text, TEXT_MAX);
        write_profile(&text, data + 3, size - 3 - 3 * changes, rank);
        change_text(&text, data + size - 3 * changes, rank == 0 ? changes : 0);
        read_profile(&reading, &text, &ask, rank);
        if (rank == 0 && cut)
            cut_text(&text, &ask);
        if (rank == 1 && compared)
            read_profile(&other, &text, &ask, rank);
    }
    finish_report(&reading);
    finish_report(&other);
    if (reading.report.ranks.len)
        write_report(&reading.report, reading.page, &dice);
    if (reading.report.ranks.len && other.report.ranks.len)
        write_difference(&other.report, &reading.report, &dice);
    return 0;
}
