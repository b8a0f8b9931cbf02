/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/why: labelled scenarios (cases.def) through engine/activity and the rules, with the confusion matrix; and what
 * holds for any numbers. `test_why matrix` prints the matrix for `make bench-verdicts`.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/why/why.h"
#include "sim/core/kinds.h"
#include "sim/core/num.h"
#include "test/unit/golden.h"

enum { PHASES = 4, PROCESSES = 4, PEERS = 8, SLOTS = 100, STALLS = 5, SIBLINGS = 2, ADAPTERS = 3 };

typedef enum Board { H100, A100_DCGM, A100, T4, MIG, BLIND } Board;

/* Seconds of one kind, means; link in GB/s. */
typedef struct Phase {
    double seconds, util, sm, occ, tensor, fp32, fp64, dram, power, link, pcie, video;
} Phase;

typedef struct Labelled {
    const char *name;
    Board board;
    WhyCause cause;
    const char *kind; /* of the simulator; else phases */
    double load;
    Phase phases[PHASES];
    int quiet_s, unseen_s; /* at the beginning: nothing runs; nothing is read */
    bool free, unclear;    /* unclear: even this board cannot tell */
    WhyProcess processes[PROCESSES];
    double io, memory, memory_rise, limit, clock, reasons;
    double pcie; /* GB/s received, over those of the kind */
    double peers[PEERS];
    WhyStall stalls[STALLS];
    WhyAdapter adapters[ADAPTERS];
    WhySibling siblings[SIBLINGS]; /* beside a slice that has a seventh of the board */
    ActivityWord activity_word;    /* put in by incidents and peers; 0: what the readings say */
    ActivityCause activity_cause;
    WhyCause beside;          /* must be told too; 0: no rank may be blamed */
    WhyConfidence confidence; /* at least */
} Labelled;

#define CASE(text, where, truth, ...) {.name = text, .board = where, .cause = WHY_##truth, __VA_ARGS__},
static const Labelled cases[] = {
#include "cases.def"
};
#undef CASE

/* Profiling counters; NVLink; utilisation and power. */
static const struct {
    const char *name;
    bool profiled, linked, whole, any;
} boards[] = {
    [H100] = {"H100", true, true, true, true},
    [A100_DCGM] = {"A100 with DCGM", true, true, true, true},
    [A100] = {"A100", false, true, true, true},
    [T4] = {"T4", false, false, true, true},
    [MIG] = {"MIG slice of H100", true, false, false, true},
    [BLIND] = {"blind", false, false, false, false},
};

/* --- what the counters show --------------------------------------------------------------------------------------- */

static size_t phases_of_kind(const Labelled *l, Phase *out)
{
    static SimWork work;
    const SimBoard board = {.pcie_gen = 5, .pcie_width = 16, .link_count = 18, .link_mbytes_per_s = 26562};
    const SimKindParam param = {.ranks = 8, .load = l->load, .seed = 7};

    memset(&work, 0, sizeof work);
    snprintf(work.kind, sizeof work.kind, "%s", l->kind);
    assert_int_equal(sim_kind_fill(&work, &board, &param), 0);
    for (uint32_t i = 0; i < work.phase_count; i++) {
        const double *act = work.phases[i].act;

        out[i] =
            (Phase){.seconds = work.phases[i].seconds,
                    .util = act[SIM_CH_KERNEL],
                    .sm = act[SIM_CH_SM],
                    .occ = act[SIM_CH_OCC],
                    .tensor = act[SIM_CH_TENSOR],
                    .fp32 = act[SIM_CH_FP32],
                    .fp64 = act[SIM_CH_FP64],
                    .dram = act[SIM_CH_DRAM],
                    .power = fmin(1, .12 + .45 * act[SIM_CH_SM] + .5 * act[SIM_CH_TENSOR] + .25 * act[SIM_CH_DRAM]),
                    .link = (act[SIM_CH_NVL_TX] + act[SIM_CH_NVL_RX]) / 1e9,
                    .pcie = act[SIM_CH_PCIE_RX] / 1e9,
                    .video = fmax(act[SIM_CH_ENC], act[SIM_CH_DEC])};
    }
    return work.phase_count;
}

/* The means of one second that begins at `from`, of phases that repeat; two per cent of noise. */
static Phase second_of(const Phase *phases, size_t count, double from, uint64_t seed)
{
    double step = 0, sum[sizeof(Phase) / sizeof(double)] = {0};
    Phase mean;

    for (size_t i = 0; i < count; i++)
        step += phases[i].seconds;
    for (int slot = 0; slot < SLOTS; slot++) {
        double at = fmod(from + (double)slot / SLOTS, step);
        size_t i = 0;

        while (i + 1 < count && at >= phases[i].seconds)
            at -= phases[i++].seconds;
        for (size_t k = 0; k < ARRAY_LEN(sum); k++)
            sum[k] += ((const double *)&phases[i])[k] / SLOTS;
    }
    for (size_t k = 0; k < ARRAY_LEN(sum); k++)
        sum[k] *= 1 + 0.02 * (2 * sim_unit(seed, k, 3) - 1);
    memcpy(&mean, sum, sizeof mean);
    mean.util = fmin(mean.util, 1);
    return mean;
}

typedef struct Rig {
    ActivitySeconds seconds;
    Activity activity;
    WhyPeer peers[PEERS];
    WhyInput in;
} Rig;

static void put_second(const Labelled *l, Rig *rig, int i, Phase p)
{
    const bool profiled = boards[l->board].profiled, linked = boards[l->board].linked, whole = boards[l->board].whole;
    const double no = (double)NAN;
    const double clock = l->clock > 0 ? l->clock : 1;
    const double values[WHY_SERIES_END] = {
        [WHY_OF_SM] = profiled ? p.sm : no,
        [WHY_OF_UTIL] = whole || profiled ? p.util : no,
        [WHY_OF_TENSOR] = profiled ? p.tensor : no,
        [WHY_OF_FP32] = profiled ? p.fp32 : no,
        [WHY_OF_FP64] = profiled ? p.fp64 : no,
        [WHY_OF_OCCUPANCY] = profiled ? p.occ : no,
        [WHY_OF_DRAM] = profiled ? p.dram : no,
        [WHY_OF_COPY] = whole ? p.dram : no,
        [WHY_OF_POWER] = whole ? p.power : no,
        [WHY_OF_CLOCK] = boards[l->board].any ? clock : no,
        [WHY_OF_REASONS] = boards[l->board].any ? l->reasons : no,
        [WHY_OF_LINK] = linked ? p.link * 1e9 : no,
        [WHY_OF_PCIE_TX] = profiled ? .1e9 : no,
        [WHY_OF_PCIE_RX] = profiled ? fmax(p.pcie, l->pcie) * 1e9 : no,
        [WHY_OF_PCIE_GEN] = whole ? 5 : no,
        [WHY_OF_VIDEO] = whole ? p.video : no,
    };
    static const struct {
        ActivitySeries to;
        WhySeries from;
    } same[] = {{ACTIVITY_OF_SM, WHY_OF_SM},         {ACTIVITY_OF_UTIL, WHY_OF_UTIL}, {ACTIVITY_OF_VIDEO, WHY_OF_VIDEO},
                {ACTIVITY_OF_TENSOR, WHY_OF_TENSOR}, {ACTIVITY_OF_DRAM, WHY_OF_DRAM}, {ACTIVITY_OF_POWER, WHY_OF_POWER},
                {ACTIVITY_OF_CLOCK, WHY_OF_CLOCK},   {ACTIVITY_OF_LINK, WHY_OF_LINK}};

    for (size_t k = 0; k < WHY_SERIES_END; k++)
        rig->in.rows[k][i] = i < l->unseen_s || !boards[l->board].any ? no : values[k];
    for (size_t k = 0; k < ARRAY_LEN(same); k++)
        rig->seconds.at[same[k].to][i] = rig->in.rows[same[k].from][i];
}

static void set_activity(const Labelled *l, Rig *rig)
{
    const Activity none = {0};

    rig->seconds.held = !l->free;
    activity_decide(&rig->seconds, &none, &rig->activity);
    if (l->activity_word)
        rig->activity.word = l->activity_word;
    if (l->activity_cause) {
        rig->activity.cause = l->activity_cause;
        snprintf(rig->activity.text, sizeof rig->activity.text, "waits in a collective for GPU 3, which is idle held");
    }
    if (l->activity_word == ACTIVITY_UNUSABLE) {
        snprintf(rig->activity.incident, sizeof rig->activity.incident, "1jf8v3k2m0");
        snprintf(rig->activity.text, sizeof rig->activity.text, "it fell off the bus");
    }
}

static void judge(const Labelled *l, Rig *rig, Why *ret)
{
    static Phase phases[SIM_PHASE_MAX];
    size_t count = 0;

    memset(rig, 0, sizeof *rig);
    if (l->kind)
        count = phases_of_kind(l, phases);
    for (; !l->kind && count < PHASES && l->phases[count].seconds > 0; count++)
        phases[count] = l->phases[count];
    for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
        put_second(l, rig, i, i < l->quiet_s ? (Phase){.power = .1} : second_of(phases, count, i, (uint64_t)i + 1));
    set_activity(l, rig);
    rig->in.activity = &rig->activity;
    rig->in.instance = l->board == MIG;
    rig->in.pcie_lanes = 16;
    rig->in.limit_share = l->limit > 0 ? l->limit : 1;
    rig->in.memory_total = 80e9;
    rig->in.memory_used = 80e9 * (l->memory > 0 ? l->memory : .7);
    rig->in.memory_rise = l->memory_rise;
    rig->in.io_pressure = l->io;
    rig->in.cpu_pressure = NAN;
    rig->in.processes = l->processes;
    while (rig->in.process_count < PROCESSES && l->processes[rig->in.process_count].pid)
        rig->in.process_count++;
    for (; rig->in.peer_count < PEERS && l->peers[rig->in.peer_count] > 0; rig->in.peer_count++)
        rig->peers[rig->in.peer_count] = (WhyPeer){(uint32_t)rig->in.peer_count + 1, l->peers[rig->in.peer_count]};
    rig->in.peers = rig->peers;
    rig->in.stalls = l->stalls;
    while (rig->in.stall_count < STALLS && l->stalls[rig->in.stall_count].length_s > 0)
        rig->in.stall_count++;
    rig->in.siblings = l->siblings;
    while (rig->in.sibling_count < SIBLINGS && l->siblings[rig->in.sibling_count].owner)
        rig->in.sibling_count++;
    rig->in.adapters = l->adapters;
    while (rig->in.adapter_count < ADAPTERS && l->adapters[rig->in.adapter_count].name)
        rig->in.adapter_count++;
    rig->in.board_sm = rig->activity.sm_active / 7;
    rig->in.board_power = NAN;
    why_decide(&rig->in, ret);
}

static bool has_between(const WhyVerdict *v, WhyCause cause)
{
    for (uint32_t i = 0; i < v->between_count; i++)
        if (v->between[i] == cause)
            return true;
    return false;
}

/* The board tells the cause, or says that it cannot and names it. */
static bool is_right(const Labelled *l, const WhyVerdict *v)
{
    const bool told = v->cause == l->cause && !l->unclear;
    const bool honest = v->cause == WHY_UNCLEAR && has_between(v, l->cause) && v->confidence == WHY_LOW;

    return told || (honest && (l->unclear || !boards[l->board].profiled));
}

static const char *explain(const Labelled *l, const Why *why)
{
    static char text[600];

    snprintf(text, sizeof text, "%s on %s: %s (%s), in truth %s: %s", l->name, boards[l->board].name,
             why_causes[why->verdicts[0].cause].key, why_confidences[why->verdicts[0].confidence].key,
             why_causes[l->cause].key, why->verdicts[0].text);
    return text;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void each_case_has_its_cause(void **state)
{
    static Rig rig;
    Why why;

    (void)state;
    assert_true(ARRAY_LEN(cases) >= 40);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const Labelled *l = &cases[i];
        bool rank = false, rhythm = false, beside = l->beside == 0;

        judge(l, &rig, &why);
        const WhyVerdict *v = &why.verdicts[0];
        if (!is_right(l, v))
            fail_msg("%s", explain(l, &why));
        if (v->cause == l->cause && v->confidence < l->confidence)
            fail_msg("not sure enough: %s", explain(l, &why));
        for (uint32_t k = 1; k < why.count; k++) {
            rank |= why.verdicts[k].cause == WHY_OTHER_RANK || why.verdicts[k].cause == WHY_STRAGGLER;
            rhythm |= why.verdicts[k].cause == WHY_CHECKPOINT;
            beside |= why.verdicts[k].cause == l->beside;
        }
        if (!beside || (rhythm && l->beside != WHY_CHECKPOINT) ||
            (rank && l->beside != WHY_OTHER_RANK && l->beside != WHY_STRAGGLER))
            fail_msg("what is told beside is wrong: %s", explain(l, &why));
    }
}

static void what_is_busy_and_idle_is_said_so(void **state)
{
    static Rig rig;
    Why why;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        judge(&cases[i], &rig, &why);
        if (rig.activity.word == ACTIVITY_WAITING && rig.activity.utilization >= .95 &&
            cases[i].cause != WHY_SMALL_BATCH && cases[i].cause != WHY_NETWORK)
            assert_non_null(strstr(why.verdicts[0].text, "100 % busy by utilisation, yet"));
        if (cases[i].cause == WHY_UNUSABLE)
            assert_non_null(strstr(why.verdicts[0].text, "1jf8v3k2m0"));
    }
}

static void add_verdict(const WhyVerdict *v, Str *out)
{
    str_addf(out, "  %s, %s", why_causes[v->cause].key, why_confidences[v->confidence].key);
    if (isfinite(v->share))
        str_addf(out, ", %.0f %% of the time", 100 * v->share);
    str_addf(out, ": %s\n   ", v->text);
    for (uint32_t i = 0; i < v->evidence_count; i++) {
        const WhyEvidence *e = &v->evidence[i];

        str_addf(out, "%s %s%s%s %s = %.3g", i ? "," : "", e->label, e->name ? " of " : "",
                 e->name ? v->names[e->name - 1] : "", e->counter, e->value);
    }
    for (uint32_t i = 0; i < v->between_count; i++)
        str_addf(out, "%s %s", i ? "," : "; or", why_causes[v->between[i]].key);
    str_addc(out, '\n');
}

/* What is said of each case: all verdicts, with their numbers. */
static void each_case_is_told_whole(void **state)
{
    static Rig rig;
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);
    Why why;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        judge(&cases[i], &rig, &why);
        str_addf(&out, "%s on %s\n", cases[i].name, boards[cases[i].board].name);
        for (uint32_t k = 0; k < why.count; k++)
            add_verdict(&why.verdicts[k], &out);
    }
    assert_golden(TEXTS, &out);
}

/* Causes that may answer for a word of engine/activity. */
static bool may_answer(const Activity *a, WhyCause cause)
{
    const bool waits = cause == WHY_INPUT || cause == WHY_LAUNCHES;

    switch (a->word) {
    case ACTIVITY_UNKNOWN:
        return cause == WHY_UNKNOWN;
    case ACTIVITY_FREE:
        return cause == WHY_FREE;
    case ACTIVITY_UNUSABLE:
        return cause == WHY_UNUSABLE;
    case ACTIVITY_IDLE_HELD:
        return cause == WHY_IDLE_HELD || cause == WHY_STUCK || cause == WHY_CHECKPOINT || cause == WHY_PCIE;
    case ACTIVITY_WORKING:
        return cause != WHY_UNKNOWN && cause != WHY_FREE && cause != WHY_UNUSABLE && cause != WHY_IDLE_HELD &&
               cause != WHY_STUCK && cause != WHY_LAUNCHES && cause != WHY_COLLECTIVE && cause != WHY_OTHER_RANK;
    default:
        if (a->cause == ACTIVITY_CAUSE_COLLECTIVE)
            return cause == WHY_COLLECTIVE || cause == WHY_STUCK || cause == WHY_NETWORK;
        if (a->cause == ACTIVITY_CAUSE_OTHER_RANK)
            return cause == WHY_OTHER_RANK;
        if (a->cause == ACTIVITY_CAUSE_INPUT && cause == WHY_LAUNCHES)
            return false;
        if (a->cause == ACTIVITY_CAUSE_LAUNCHES && cause == WHY_INPUT)
            return false;
        return waits || (cause != WHY_UNKNOWN && cause != WHY_FREE && cause != WHY_UNUSABLE && cause != WHY_IDLE_HELD &&
                         cause != WHY_TENSOR_CORES && cause != WHY_NO_TENSOR_CORES && cause != WHY_FP64 &&
                         cause != WHY_VIDEO && cause != WHY_COLLECTIVE && cause != WHY_OTHER_RANK);
    }
}

/* Any numbers: one answer at least, with numbers that are numbers, and none against the word of the GPU. */
static void it_never_contradicts_the_activity(void **state)
{
    static Rig rig;
    Why why;

    (void)state;
    for (uint64_t n = 0; n < 20000; n++) {
        WhyProcess process = {.pid = 1,
                              .owner = "a",
                              .state = "RSDT"[n % 4],
                              .state_s = 200 * sim_unit(n, 1, 1),
                              .cores = 2 * sim_unit(n, 1, 2),
                              .sm = sim_unit(n, 1, 3),
                              .children = NAN,
                              .child_cores = NAN,
                              .written = 1e8 * sim_unit(n, 1, 4)};

        memset(&rig, 0, sizeof rig);
        for (size_t k = 0; k < WHY_SERIES_END; k++)
            for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
                rig.in.rows[k][i] = sim_unit(n, k, 5) < .2 ? (double)NAN : 1.2 * sim_unit(n, k, 6);
        rig.activity = (Activity){.word = (ActivityWord)(n % ACTIVITY_END), .window_s = (uint32_t)(n % 70)};
        if (rig.activity.word == ACTIVITY_WAITING)
            rig.activity.cause = (ActivityCause)(n / 7 % ACTIVITY_CAUSE_END);
        rig.in.activity = &rig.activity;
        rig.in.processes = &process;
        rig.in.process_count = n % 3 > 0;
        rig.in.memory_total = 1;
        rig.in.memory_used = sim_unit(n, 1, 7);
        rig.in.limit_share = NAN;
        rig.in.io_pressure = NAN;
        rig.in.cpu_pressure = NAN;
        why_decide(&rig.in, &why);
        assert_in_range(why.count, 1, WHY_VERDICTS_MAX);
        if (!may_answer(&rig.activity, why.verdicts[0].cause))
            fail_msg("%s %s: %s", activity_words[rig.activity.word].key, activity_causes[rig.activity.cause].key,
                     why_causes[why.verdicts[0].cause].key);
        for (uint32_t i = 0; i < why.count; i++) {
            assert_true(why.verdicts[i].text[0]);
            for (uint32_t k = 0; k < why.verdicts[i].evidence_count; k++)
                assert_true(isfinite(why.verdicts[i].evidence[k].value));
            for (uint32_t k = 0; k < i; k++)
                assert_int_not_equal(why.verdicts[i].cause, why.verdicts[k].cause);
        }
    }
}

/* The first seconds say it, and not with certainty. */
static void a_short_window_is_never_certain(void **state)
{
    static Rig rig;
    Labelled l = {.name = "kernels", .board = H100, .cause = WHY_LAUNCHES, .kind = "tiny-kernels"};
    Why why;

    (void)state;
    judge(&l, &rig, &why);
    assert_int_equal(why.verdicts[0].confidence, WHY_HIGH);
    l.unseen_s = ACTIVITY_WINDOW_S - 10;
    judge(&l, &rig, &why);
    assert_int_equal(why.verdicts[0].confidence, WHY_HIGH);
    assert_int_equal(why.window_s, 10);
    l.unseen_s++;
    judge(&l, &rig, &why);
    assert_int_equal(why.verdicts[0].cause, WHY_LAUNCHES);
    assert_int_equal(why.verdicts[0].confidence, WHY_MEDIUM);
}

/* Advice names what to set, not only what to want. */
static void advice_names_the_setting(void **state)
{
    static const struct {
        WhyCause cause;
        const char *settings[3];
    } named[] = {
        {WHY_CHECKPOINT, {"checkpoint interval", "async_save"}},
        {WHY_NO_TENSOR_CORES, {"torch.autocast", "set_float32_matmul_precision"}},
        {WHY_DEVICE_MEMORY, {"larger batch", "torch.compile"}},
        {WHY_SMALL_BATCH, {"batch size", "MPS"}},
        {WHY_LAUNCHES, {"torch.compile", "CUDA graphs"}},
        {WHY_INPUT, {"num_workers", "cpus-per-task", "fewer replicas"}},
        {WHY_THROTTLED, {"the limit and its default"}},
        {WHY_PCIE, {"pin_memory", "numactl", "non_blocking"}},
        {WHY_NETWORK, {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "bucket_cap_mb"}},
        {WHY_COLLECTIVE, {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT"}},
        {WHY_THROTTLED, {"nvidia-smi -pl"}},
        {WHY_NEIGHBOUR, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "MIG"}},
        {WHY_MEMORY_FULL, {"PYTORCH_CUDA_ALLOC_CONF", "gpu_memory_utilization"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        for (size_t k = 0; k < ARRAY_LEN(named[i].settings) && named[i].settings[k]; k++)
            if (!strstr(why_causes[named[i].cause].advice, named[i].settings[k]))
                fail_msg("%s does not name %s", why_causes[named[i].cause].key, named[i].settings[k]);
}

static void each_cause_is_known_by_its_key(void **state)
{
    (void)state;
    for (int i = 0; i < WHY_END; i++) {
        assert_int_equal(why_find(why_causes[i].key), i);
        assert_true(why_causes[i].title[0]);
    }
    assert_int_equal(why_find("no such cause"), -1);
    assert_int_equal(why_find(NULL), -1);
}

/* --- the matrix --------------------------------------------------------------------------------------------------- */

/* Rows are what was planted, columns what was found, by number of row; then what was wrong. */
static int print_matrix(void)
{
    static Rig rig;
    int cells[WHY_END][WHY_END] = {{0}}, wrong = 0, sure = 0, unclear = 0;
    Why why;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        judge(&cases[i], &rig, &why);
        const WhyVerdict *v = &why.verdicts[0];
        const bool right = is_right(&cases[i], v);

        cells[cases[i].cause][v->cause]++;
        wrong += !right;
        unclear += right && v->cause != cases[i].cause;
        sure += !right && v->confidence != WHY_LOW;
        if (!right)
            fprintf(stderr, "%s\n", explain(&cases[i], &why));
    }
    printf("%-20s", "");
    for (int k = 0; k < WHY_END; k++)
        printf("%3d", k + 1);
    for (int i = 0; i < WHY_END; i++) {
        printf("\n%2d %-17s", i + 1, why_causes[i].key);
        for (int k = 0; k < WHY_END; k++)
            printf(cells[i][k] ? "%3d" : "  .", cells[i][k]);
    }
    printf("\n%zu scenarios: %d wrong, %d of them with confidence; %d on boards that cannot tell, and say so\n",
           ARRAY_LEN(cases), wrong, sure, unclear);
    return wrong > 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_has_its_cause),           cmocka_unit_test(what_is_busy_and_idle_is_said_so),
        cmocka_unit_test(it_never_contradicts_the_activity), cmocka_unit_test(a_short_window_is_never_certain),
        cmocka_unit_test(each_cause_is_known_by_its_key),    cmocka_unit_test(advice_names_the_setting),
        cmocka_unit_test(each_case_is_told_whole),
    };

    if (argc > 1 && strcmp(argv[1], "matrix") == 0)
        return print_matrix();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
