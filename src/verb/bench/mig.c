/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker bench mig`: what a neighbour costs. One process measures, alone, beside a neighbour that floods one thing
 * after the other, and alone again; a process each for every round and flood, so that none of them is left with
 * anything of the one before.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "service/api/api.h"
#include "verb/bench/bench_verbs.h"
#include "verb/bench/test.h"

enum { REPORT_MAX = 1 << 20, WINDOWS = 5, MEMORY_PERCENT = 90, LIMIT_S = 60, FLOOD_S = 60, END_MS = 10000 };
#define MPS_FOLDER "/tmp/nvidia-mps" /* where the daemon makes its pipes without CUDA_MPS_PIPE_DIRECTORY */

#define STAGE(name) (1u << BENCH_STAGE_##name)

typedef struct MigOptions {
    LookOptions look;
    const char *gpu, *neighbour, *library, *output;
    uint64_t limit_ns;
    bool json, in_use;
} MigOptions;

static const OptSpec mig_opts[] = {
    OPT_ROW("gpu", OPT_STRING, MigOptions, gpu, .short_flag = 'g', .metavar = "DEVICE",
            .help = "the MIG device or GPU that is measured: an index, a UUID or a PCI address; without: the first GPU "
                    "with several MIG devices, else the first GPU"),
    OPT_ROW("neighbour", OPT_STRING, MigOptions, neighbour, .metavar = "DEVICE",
            .help = "a MIG device of the same GPU, or the same device; without: another MIG device, one of the same "
                    "size rather than another one"),
    OPT_ROW("in-use", OPT_BOOL, MigOptions, in_use,
            .help = "also where something runs or that a job has; it is slowed down, and results with it"),
    OPT_ROW("limit", OPT_DURATION, MigOptions, limit_ns, .def = "1m", .min = NS_PER_S, .max = 86400 * NS_PER_S,
            .help = "stop after so long"),
    OPT_ROW("output", OPT_STRING, MigOptions, output, .short_flag = 'o', .metavar = "FILE",
            .help = "also keep the result as JSON in FILE"),
    OPT_ROW("json", OPT_BOOL, MigOptions, json, .help = "as JSON"),
    OPT_ROW("cuda-library", OPT_STRING, MigOptions, library, .env = "STOKER_CUDA_LIBRARY", .metavar = "FILE",
            .help = "libcuda, instead of the one that the linker finds"),
    LOOK_OPTS(MigOptions),
};

typedef struct Mig {
    const MigOptions *options;
    IsolationRun values;
    const char *uuids[2]; /* the victim's and the neighbour's; they lie in `names` */
    char names[2][DEVICE_UUID_CAP];
    IsolationRound round;   /* under way */
    BenchWorker *aggressor; /* NULL: none in this round */
    bool flooding;          /* it said that its load runs */
} Mig;

/* --- which -------------------------------------------------------------------------------------------------------- */

static bool is_twin(const Reading *a, const Reading *b)
{
    return strcmp(a->profile, b->profile) == 0;
}

/* Another MIG device of the GPU: one of the same profile, else any; NULL: there is none. */
static const Reading *find_other(const NodeGpu *gpu, const Reading *victim)
{
    const Reading *other = NULL;

    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *at = &gpu->instances[i];

        if (at != victim && (!other || (is_twin(victim, at) && !is_twin(victim, other))))
            other = at;
    }
    return other;
}

/* A GPU in MIG mode stands for its first MIG device. */
static const Reading *first_of(const NodeGpu *gpu)
{
    return !gpu->reading.mig ? &gpu->reading : gpu->instance_count ? &gpu->instances[0] : NULL;
}

static int find_device(const Node *node, const char *option, const char *id, const NodeGpu **ret_gpu,
                       const Reading **ret, Err *err)
{
    const Reading *found = api_find(node, id, ret_gpu);

    if (!found)
        return err_set(err, -EINVAL, "%s: there is no GPU or MIG device '%.64s' here", option, id);
    *ret = found == &(*ret_gpu)->reading ? first_of(*ret_gpu) : found;
    if (*ret)
        return 0;
    err_set(err, -ENODEV, "GPU '%.64s' is in MIG mode and has no MIG device", id);
    return BENCH_NO_GPU;
}

static int find_default(const Node *node, const NodeGpu **ret_gpu, const Reading **ret, Err *err)
{
    *ret_gpu = &node->gpus[0];
    for (size_t i = node->gpu_count; i-- > 0;)
        if (node->gpus[i].instance_count > 1)
            *ret_gpu = &node->gpus[i];
    *ret = first_of(*ret_gpu);
    if (*ret)
        return 0;
    err_set(err, -ENODEV, "the first GPU is in MIG mode and has no MIG device");
    return BENCH_NO_GPU;
}

static IsolationSetup setup_of(const Reading *victim, const Reading *neighbour, bool mps)
{
    if (victim == neighbour)
        return mps ? ISOLATION_MPS : ISOLATION_ONE_DEVICE;
    return victim->device.gpu_instance == neighbour->device.gpu_instance ? ISOLATION_ONE_INSTANCE
                                                                         : ISOLATION_TWO_INSTANCES;
}

static int find_neighbour(const Mig *m, const Node *node, const NodeGpu *gpu, const Reading *victim,
                          const Reading **ret, Err *err)
{
    const NodeGpu *its_gpu = gpu;

    if (!m->options->neighbour) {
        const Reading *other = find_other(gpu, victim);

        *ret = other ? other : victim;
        return 0;
    }
    const int rc = find_device(node, "--neighbour", m->options->neighbour, &its_gpu, ret, err);
    if (rc == 0 && its_gpu != gpu)
        return err_set(err, -EINVAL, "--neighbour: '%.64s' is not on the same GPU", m->options->neighbour);
    return rc;
}

static int choose_pair(void *self, const Node *node, OptList *ret, Err *err)
{
    Mig *m = self;
    const NodeGpu *gpu;
    const Reading *victim, *neighbour;
    int rc;

    rc = m->options->gpu ? find_device(node, "--gpu", m->options->gpu, &gpu, &victim, err)
                         : find_default(node, &gpu, &victim, err);
    if (rc != 0 || (rc = find_neighbour(m, node, gpu, victim, &neighbour, err)) != 0)
        return rc;
    snprintf(m->names[0], sizeof m->names[0], "%s", victim->device.uuid);
    snprintf(m->names[1], sizeof m->names[1], "%s", neighbour->device.uuid);
    for (int i = 0; i < 2; i++)
        m->uuids[i] = m->names[i];
    m->values.setup = setup_of(victim, neighbour, m->values.setup == ISOLATION_MPS);
    m->values.twins = victim != neighbour && is_twin(victim, neighbour);
    *ret = (OptList){.items = m->uuids, .len = victim == neighbour ? 1 : 2};
    return 0;
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

static const struct {
    BenchMeasureId id;
    IsolationMeasure measure;
} kept[] = {
    {BENCH_MEMORY_READ, ISOLATION_READ}, {BENCH_L2_READ, ISOLATION_L2},    {BENCH_MMA_BF16, ISOLATION_COMPUTE},
    {BENCH_MMA_FP16, ISOLATION_COMPUTE}, {BENCH_LAUNCH, ISOLATION_LAUNCH}, {BENCH_LAUNCH_P99, ISOLATION_LAUNCH_P99},
    {BENCH_HOST_TO_GPU, ISOLATION_COPY},
};

static void keep_measure(Mig *m, const BenchMeasure *measure)
{
    double *values = m->values.value[m->round];

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].id == measure->id)
            values[kept[i].measure] = bench_measure_median(measure);
    if (measure->id == BENCH_MMA_BF16 || measure->id == BENCH_MMA_FP16)
        values[ISOLATION_CLOCK] = measure->sm_mhz;
    if (measure->id == BENCH_L2_READ)
        m->values.l2_mhz[m->round] = measure->sm_mhz;
    if (measure->id == BENCH_FOREIGN) {
        m->values.checked_bytes += (double)measure->bytes;
        m->values.foreign_words += bench_measure_median(measure);
    }
}

static void give_record(void *self, BenchWorker *worker, const BenchRecord *record);

typedef struct Side {
    Mig *mig;
    BenchTest *test;
} Side;

/* The neighbour is stopped at the end of each round: that is no news. */
static bool is_news(const Mig *m, const BenchWorker *worker, const BenchRecord *record)
{
    if (!record || record->kind != BENCH_RECORD_ERROR)
        return record && record->kind == BENCH_RECORD_MEASURE ? false : true;
    return record->error.kind != BENCH_ERROR_OLDER_TEXT &&
           !(worker == m->aggressor && record->error.kind == BENCH_ERROR_STOPPED);
}

static void give_record(void *self, BenchWorker *worker, const BenchRecord *record)
{
    Side *side = self;
    Mig *m = side->mig;

    if (record && record->kind == BENCH_RECORD_MEASURE && record->measure.count <= BENCH_SAMPLES_MAX) {
        if (worker != m->aggressor)
            keep_measure(m, &record->measure);
        else if (worker->stage == BENCH_STAGE_FLOOD)
            m->flooding = true;
    }
    if (is_news(m, worker, record))
        bench_test_record(side->test, worker, record);
}

static bool has_ended(const BenchWorker *worker)
{
    return worker->ended || worker->stuck;
}

static void forget_round(Mig *m)
{
    for (IsolationMeasure i = 0; i < ISOLATION_MEASURE_END; i++)
        m->values.value[m->round][i] = NAN;
    m->values.l2_mhz[m->round] = NAN;
}

static int start_flood(Side *side, uint32_t gpu, Err *err)
{
    static const char *const options[BENCH_FLOOD_END] = {
#define FLOOD_OPTION(id, key, text) [id] = "flood=" key,
        BENCH_FLOOD_TABLE(FLOOD_OPTION)
#undef FLOOD_OPTION
    };
    Mig *m = side->mig;

    TRY(bench_test_start(side->test,
                         &(BenchTask){.gpu = gpu,
                                      .stages = STAGE(FILL) | STAGE(FLOOD),
                                      .more = options[m->round - ISOLATION_MEMORY],
                                      .give = give_record,
                                      .self = side},
                         &m->aggressor, err));
    while (!m->flooding && !has_ended(m->aggressor) && bench_test_turn(side->test))
        ;
    return 0;
}

static int run_victim(Side *side, uint32_t gpu, Err *err)
{
    BenchWorker *victim;

    TRY(bench_test_start(
        side->test, &(BenchTask){.gpu = gpu, .stages = STAGE(FRESH) | STAGE(VICTIM), .give = give_record, .self = side},
        &victim, err));
    while (!has_ended(victim) && bench_test_turn(side->test))
        ;
    return 0;
}

/* A round counts where the neighbour's load ran all the time. */
static int run_round(Side *side, IsolationRound round, uint32_t victim, uint32_t neighbour, Err *err)
{
    const bool alone = round == ISOLATION_BEFORE || round == ISOLATION_AFTER || round == ISOLATION_OTHER;
    Mig *m = side->mig;
    int rc = 0;

    m->round = round;
    m->flooding = false;
    m->aggressor = NULL;
    if (!alone)
        TRY(start_flood(side, neighbour, err));
    if ((alone || m->flooding) && !bench_test_is_over(side->test))
        rc = run_victim(side, victim, err);
    if (alone)
        return rc;
    if (has_ended(m->aggressor))
        forget_round(m);
    bench_worker_stop(m->aggressor, END_MS); /* it is the usual end of a round */
    while (bench_test_turn(side->test))
        ;
    return rc;
}

static int run_course(void *self, BenchTest *test, Err *err)
{
    Side side = {.mig = self, .test = test};
    const uint32_t neighbour = strcmp(side.mig->names[0], side.mig->names[1]) != 0;

    for (IsolationRound round = ISOLATION_BEFORE; round <= ISOLATION_AFTER && !bench_test_is_over(test); round++)
        TRY(run_round(&side, round, 0, neighbour, err));
    if (side.mig->values.twins && !bench_test_is_over(test))
        TRY(run_round(&side, ISOLATION_OTHER, neighbour, 0, err));
    return 0;
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static void show_progress(void *self, const char *text)
{
    const Mig *m = self;

    fprintf(stderr, "\r\033[K%s: %s ...", isolation_rounds[m->round].text, text);
}

static const char *find_mps(Arena *arena)
{
    const char *named = getenv("CUDA_MPS_PIPE_DIRECTORY");
    const char *folder = named && named[0] ? named : MPS_FOLDER;

    return access(arena_printf(arena, "%s/control", folder), F_OK) == 0 ? arena_strdup(arena, folder) : NULL;
}

static int show_result(VerbCall *call, const Mig *m, const BenchRun *run)
{
    CLEANUP(str_done) Str json = str_limited(REPORT_MAX), text = str_limited(REPORT_MAX);
    const Str *shown = m->options->json ? &json : &text;
    IsolationJudgement judgement;

    isolation_judge(&m->values, &judgement);
    isolation_write_json(run, &m->values, &judgement, &json);
    isolation_write_text(run, &m->values, &judgement, &text);
    fwrite(shown->text, 1, shown->len, stdout);
    if (m->options->output && file_write(m->options->output, json.text, json.len, 0644, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (judgement.leaks)
        return EXIT_FINDING;
    if (run->errors.len || judgement.verdict == ISOLATION_UNKNOWN)
        return EXIT_UNKNOWN;
    return isolation_is_fine(&judgement) ? EXIT_FINE : EXIT_FINDING;
}

static int mig_run(VerbCall *call, const void *options)
{
    CLEANUP(bench_run_done) BenchRun run = {0};
    Mig m = {.options = options};
    const BenchCourse course = {.choose = choose_pair, .run = run_course, .self = &m};
    BenchPlan plan = {.rung = "mig",
                      .windows = WINDOWS,
                      .memory_percent = MEMORY_PERCENT,
                      .burn_ns = FLOOD_S * NS_PER_S,
                      .limit_ns = m.options->limit_ns,
                      .usual_limit_ns = LIMIT_S * NS_PER_S,
                      .course = &course,
                      .in_use = m.options->in_use,
                      .mps = find_mps(call->arena),
                      .cuda_library = m.options->library,
                      .look = &m.options->look,
                      .self = &m};

    for (m.round = 0; m.round < ISOLATION_ROUND_END; m.round++)
        forget_round(&m);
    m.round = ISOLATION_BEFORE;
    m.values.setup = plan.mps ? ISOLATION_MPS : ISOLATION_ONE_DEVICE;
    if (!m.options->json && isatty(STDERR_FILENO))
        plan.progress = show_progress;
    const int rc = bench_test_run(&plan, call->arena, &run, &call->err);
    if (plan.progress)
        fputs("\r\033[K", stderr);
    if (rc != 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    return show_result(call, &m, &run);
}

const Verb verb_bench_mig = {
    .name = "mig",
    .summary = "prove what a neighbour costs: on another MIG device, by time-slicing, or under MPS",
    .usage = "[--gpu DEVICE] [--neighbour DEVICE] [--json] [--output FILE]",
    .description =
        "Measures a MIG device or GPU alone, then beside a neighbour that floods memory, the L2 cache, the tensor "
        "cores "
        "and the link to the host in turn, then alone again, each as a process of its own: read bandwidth, L2, work "
        "per "
        "clock, the clock, the launch of one block, and copies from the host. Says of each, and in all, whether it is "
        "isolated, shares power, shares memory or is time-shared. New memory is searched for what the neighbour "
        "wrote.\n\n"
        "The neighbour is on another MIG device of the same GPU; where there is none, on the same device, where the "
        "two "
        "take turns, or share it under MPS if its daemon's pipe directory is there (CUDA_MPS_PIPE_DIRECTORY, else "
        "/tmp/nvidia-mps). A running MPS server counts as a process on the GPU: then --in-use is needed. Refuses, "
        "stops "
        "for newcomers and heat, and changes no setting, as 'stoker bench ready' does. Takes less than a minute.",
    .examples = "stoker bench mig\n"
                "stoker bench mig --gpu MIG-0d1c --neighbour MIG-77aa --json | jq .verdict\n"
                "stoker bench mig --gpu 3                  # of a GPU without MIG: what time-slicing costs",
    .exit_codes = "0  isolated, or but for the board's power\n"
                  "1  the neighbour takes memory, SMs or time, its data were seen, or the device is slow by itself\n"
                  "2  the command line is wrong\n"
                  "3  not tested (in use, refused), or it could not be told",
    VERB_OPTS(mig_opts, MigOptions),
    .no_args = "",
    .run = mig_run,
};
