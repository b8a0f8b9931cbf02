/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a test: look at the GPUs, refuse or lock, test all GPUs at once by themselves, then what they do
 * together, look again. One loop serves the records of the processes and the samplers.
 */
#include "verb/bench/test.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "engine/bench/refuse.h"
#include "service/api/api.h"
#include "service/api/snapshot_read.h"
#include "source/cuda/options.h"
#include "verb/agent/control.h"
#include "verb/bench/agent.h"
#include "verb/bench/lock.h"
#include "version.h"

enum {
    TURN_MS = 100, /* between two looks at the GPUs */
    FIRST_MS = 5000,
    AFTER_MS = 3000, /* for counters that were read after the last stage */
    RAMP_MS = 200,   /* between the burns of two GPUs: many steps of load at once trip power supplies */
    ASK_MS = 1000,
    XIDS_MAX = 64,
    OPTIONS_MAX = 12,
    NEWCOMER_LOOKS = 2,
    AGENT_MORE_S = 60,        /* beyond the limit, for processes that end late */
    REASON_HW_THERMAL = 0x40, /* nvmlClocksEventReasonHwThermalSlowdown */
};

/* How long a stage may take, beside what it is told to take. */
static const uint32_t stage_limit_s[BENCH_STAGE_COUNT] = {
    [BENCH_STAGE_START] = 30,  [BENCH_STAGE_PATTERNS] = 20, [BENCH_STAGE_MEMORY] = 15,
    [BENCH_STAGE_PROBES] = 30, [BENCH_STAGE_GEMM] = 30,     [BENCH_STAGE_BURN] = 15,
    [BENCH_STAGE_HOST] = 20,   [BENCH_STAGE_PAIRS] = 60,    [BENCH_STAGE_COLLECTIVES] = 30,
    [BENCH_STAGE_FRESH] = 10,  [BENCH_STAGE_VICTIM] = 20,   [BENCH_STAGE_FILL] = 10,
    [BENCH_STAGE_FLOOD] = 60,  [BENCH_STAGE_LIBRARY] = 30,  [BENCH_STAGE_END_OF_WORK] = 10,
};

/* A GPU or MIG device that is tested. */
typedef struct Target {
    PciAddress pci;
    uint32_t gpu_instance, compute_instance; /* DEVICE_NO_NUMBER: the whole GPU */
    int lock_fd;
    uint32_t strangers; /* looks in a row that saw another process on it */
    double clocks[256]; /* of the watch that is under way */
    bool out;           /* it is not tested further */
} Target;

struct BenchTest {
    const BenchPlan *plan;
    Arena *arena;
    BenchRun *run;
    LocalNode *local;
    const Snapshot *seen;
    Target targets[BENCH_GPUS_MAX];
    BenchWorker workers[2 * BENCH_GPUS_MAX + 2]; /* of each GPU, of their links, started early or again, and after */
    size_t worker_count, link_count;
    uint32_t order[BENCH_GPUS_MAX]; /* of the links' process: its numbers are places here */
    uint64_t start_ns;
    bool after; /* the test is over: what happens now is no part of it */
};

static volatile sig_atomic_t interrupted;

static void interrupt_test(int UNUSED number)
{
    interrupted = 1;
}

static uint64_t now_ns(void)
{
    return clock_monotonic(clock_kernel());
}

/* --- which GPUs --------------------------------------------------------------------------------------------------- */

static void add_target(BenchTest *t, const NodeGpu *gpu, const Reading *instance)
{
    const Device *device = instance ? &instance->device : &gpu->reading.device;
    Target *target = &t->targets[t->run->gpus.len];
    BenchGpu *to;

    for (size_t i = 0; i < t->run->gpus.len; i++)
        if (strcmp(t->run->gpus.at[i].device.uuid, device->uuid) == 0)
            return;
    if (t->run->gpus.len == BENCH_GPUS_MAX)
        return;
    *target = (Target){.pci = gpu->reading.device.pci,
                       .gpu_instance = instance ? device->gpu_instance : DEVICE_NO_NUMBER,
                       .compute_instance = instance ? device->compute_instance : DEVICE_NO_NUMBER,
                       .lock_fd = -1};
    to = vec_add(&t->run->gpus);
    to->index = gpu->reading.device.index;
    snprintf(to->device.uuid, sizeof to->device.uuid, "%s", device->uuid);
    snprintf(to->device.name, sizeof to->device.name, "%.60s%s%.24s", gpu->reading.device.name, instance ? " MIG " : "",
             instance ? instance->profile : "");
    snprintf(to->vbios, sizeof to->vbios, "%.31s", gpu->reading.text[READING_VBIOS_VERSION]);
    to->limit_w = reading_value(&gpu->reading, METRIC_ENFORCED_POWER_LIMIT);
    to->temp_slowdown_c = bench_slowdown_c(&gpu->reading);
}

static void add_gpu(BenchTest *t, const NodeGpu *gpu)
{
    if (!gpu->reading.mig)
        add_target(t, gpu, NULL);
    for (size_t i = 0; gpu->reading.mig && i < gpu->instance_count; i++)
        add_target(t, gpu, &gpu->instances[i]);
}

static int choose_gpus(BenchTest *t, Err *err)
{
    const Node *node = t->seen->node;
    OptList chosen = t->plan->gpus;
    const OptList *wanted = &chosen;

    if (node->driver_why[0] || node->gpu_count == 0) {
        err_set(err, -ENODEV, "%s", node->driver_why[0] ? node->driver_why : "there is no GPU here");
        return BENCH_NO_GPU;
    }
    if (t->plan->course) {
        const int rc = t->plan->course->choose(t->plan->course->self, node, &chosen, err);
        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; wanted->len == 0 && i < node->gpu_count; i++)
        add_gpu(t, &node->gpus[i]);
    for (size_t i = 0; i < wanted->len; i++) {
        const NodeGpu *gpu;
        const Reading *found = api_find(node, wanted->items[i], &gpu);

        if (!found)
            return err_set(err, -EINVAL, "--gpu: there is no GPU '%.64s' here", wanted->items[i]);
        if (found == &gpu->reading)
            add_gpu(t, gpu);
        else
            add_target(t, gpu, found);
    }
    if (t->run->gpus.len == 0) {
        err_set(err, -ENODEV, "no GPU can be tested: those here are in MIG mode and have no MIG device");
        return BENCH_NO_GPU;
    }
    return 0;
}

static const NodeGpu *find_gpu(const BenchTest *t, const Snapshot *snapshot, size_t i)
{
    return node_find_gpu(snapshot->node, t->targets[i].pci);
}

static const Reading *find_instance(const BenchTest *t, const NodeGpu *gpu, size_t i)
{
    const Target *target = &t->targets[i];

    return target->gpu_instance == DEVICE_NO_NUMBER
               ? NULL
               : node_find_instance(gpu, target->gpu_instance, target->compute_instance);
}

/* --- refuse, lock ------------------------------------------------------------------------------------------------- */

/* Every GPU that must not be tested, in one text. */
static int refuse_any(BenchTest *t, const Snapshot *snapshot, bool jobs_only, Err *err)
{
    Str text = str_limited(ERR_TEXT_MAX);
    char why[256], pci[PCI_TEXT_CAP];

    for (size_t i = 0; i < t->run->gpus.len; i++) {
        const NodeGpu *gpu = find_gpu(t, snapshot, i);
        const BenchRefuseQuery query = {.snapshot = snapshot,
                                        .gpu = gpu,
                                        .instance = gpu ? find_instance(t, gpu, i) : NULL,
                                        .in_use = t->plan->in_use,
                                        .jobs_only = jobs_only,
                                        .job = getenv("SLURM_JOB_ID"),
                                        .pod = getenv("HOSTNAME")};
        if (!gpu || !bench_refuse(&query, why, sizeof why))
            continue;
        str_add(&text, text.len ? "; GPU " : "GPU ");
        if (t->run->gpus.at[i].index == DEVICE_NO_NUMBER) /* the driver does not know it */
            str_addf(&text, "%s: %s", pci_format(t->targets[i].pci, PCI_FORM_SYSFS, pci), why);
        else
            str_addf(&text, "%" PRIu32 ": %s", t->run->gpus.at[i].index, why);
    }
    const int rc = text.len ? BENCH_REFUSED : 0;
    if (rc)
        err_set(err, -EBUSY, "%s", text.text);
    str_done(&text);
    return rc;
}

/* Whom the agent knows to have a GPU, where one runs: pods and jobs may be there before their processes. */
static int refuse_by_agent(BenchTest *t, Err *err)
{
    const LookOptions *look = t->plan->look;
    SnapshotBuffer *buffer = snapshot_buffer_new();
    int code, rc = 0;

    if (!look->alone &&
        control_ask(control_path(look->control, t->arena), "status json", ASK_MS, &buffer->text, &code, NULL) == 0 &&
        snapshot_read(buffer, buffer->text.text, buffer->text.len, NULL) == 0)
        rc = refuse_any(t, &buffer->snapshot, true, err);
    snapshot_buffer_free(buffer);
    return rc;
}

static int lock_gpus(BenchTest *t, Err *err)
{
    for (size_t i = 0; i < t->run->gpus.len; i++) {
        const int rc =
            bench_lock(t->plan->look->root, t->run->gpus.at[i].device.uuid, t->arena, &t->targets[i].lock_fd, err);

        if (rc == BENCH_LOCKED)
            return BENCH_REFUSED;
        TRY(rc);
    }
    return 0;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

static void add_error(BenchTest *t, const BenchError *error)
{
    vec_push(&t->run->errors, *error);
}

static BenchError error_of(BenchErrorKind kind, BenchStage stage, uint32_t gpu)
{
    return (BenchError){
        .kind = kind, .stage = stage, .gpu = gpu, .peer = BENCH_NONE, .sm = BENCH_NONE, .measure = BENCH_MEASURE_END};
}

/* The place in the run of a number that a worker uses. */
static uint32_t place_of(const BenchTest *t, const BenchWorker *worker, uint32_t number)
{
    if (number == BENCH_NONE || !worker->spec.links)
        return number == BENCH_NONE ? BENCH_NONE : worker->spec.tag;
    return number < t->link_count ? t->order[number] : BENCH_NONE;
}

static void take_stage(BenchTest *t, const BenchWorker *worker)
{
    if (!worker->spec.links)
        t->run->gpus.at[worker->spec.tag].ended |= worker->ended_stages;
    for (size_t i = 0; worker->spec.links && i < t->link_count; i++)
        t->run->gpus.at[t->order[i]].ended |= worker->ended_stages;
    if (t->plan->progress && (worker->spec.links || worker->spec.tag == t->workers[0].spec.tag))
        t->plan->progress(t->plan->self, bench_stages[worker->stage].text);
}

static void end_worker(BenchTest *t, const BenchWorker *worker)
{
    BenchError error = error_of(worker->stuck || worker->killed ? BENCH_ERROR_HUNG : BENCH_ERROR_ENDED, worker->stage,
                                worker->spec.links ? BENCH_NONE : worker->spec.tag);

    if (worker->waits)
        return;
    for (size_t i = 0; !worker->killed && i < t->run->errors.len; i++) /* it was told to, and did */
        if (t->run->errors.at[i].gpu == error.gpu && t->run->errors.at[i].kind == BENCH_ERROR_STOPPED)
            return;
    if (bench_worker_ended_well(worker))
        return;
    if (worker->stuck)
        snprintf(error.what, sizeof error.what, "it does not end on SIGKILL either");
    else if (!worker->killed)
        snprintf(error.what, sizeof error.what, "%s %d", worker->end.exited ? "exit code" : "signal",
                 worker->end.exited ? worker->end.exit_code : worker->end.signal);
    add_error(t, &error);
}

void bench_test_record(void *self, BenchWorker *worker, const BenchRecord *record)
{
    BenchTest *t = self;

    if (!record) {
        end_worker(t, worker);
        return;
    }
    if (worker->waits) /* if its start fails, one that is started later says it again */
        return;
    const uint32_t gpu = place_of(t, worker, record->gpu);
    switch (record->kind) {
    case BENCH_RECORD_DEVICE:
        if (gpu < t->run->gpus.len && !t->run->gpus.at[gpu].known) {
            BenchGpu *to = &t->run->gpus.at[gpu];
            const BenchDevice own = to->device;

            to->device = record->device;
            memcpy(to->device.uuid, own.uuid, sizeof own.uuid);
            memcpy(to->device.name, own.name, sizeof own.name);
            to->known = true;
        }
        break;
    case BENCH_RECORD_STAGE:
        take_stage(t, worker);
        break;
    case BENCH_RECORD_MEASURE:
        if ((unsigned)record->measure.id < BENCH_MEASURE_END && record->measure.count <= BENCH_SAMPLES_MAX) {
            BenchMeasure measure = record->measure;

            measure.gpu = gpu;
            measure.peer = place_of(t, worker, record->measure.peer);
            vec_push(&t->run->measures, measure);
        }
        break;
    case BENCH_RECORD_ERROR:
        if (worker->kill_at_ns && record->error.kind == BENCH_ERROR_STOPPED)
            break; /* why is known better here */
        if ((unsigned)record->error.kind < BENCH_ERROR_END) {
            BenchError error = record->error;

            error.gpu = gpu;
            error.peer = place_of(t, worker, record->error.peer);
            error.what[sizeof error.what - 1] = '\0';
            add_error(t, &error);
        }
        break;
    default:
        break;
    }
}

/* --- the watch ---------------------------------------------------------------------------------------------------- */

static BenchStage stage_of(const BenchTest *t, size_t gpu)
{
    for (size_t i = t->worker_count; i-- > 0;) {
        const BenchWorker *w = &t->workers[i];

        if (!w->ended && !w->stuck && !w->waits && (w->spec.links || w->spec.tag == gpu))
            return w->stage;
    }
    return BENCH_STAGE_END_OF_WORK;
}

static double larger_of(double a, double b)
{
    return isnan(a) || b > a ? b : a;
}

static BenchWatch *find_watch(BenchGpu *gpu, BenchStage stage)
{
    for (uint32_t i = 0; i < gpu->watch_count; i++)
        if (gpu->watch[i].stage == stage)
            return &gpu->watch[i];
    BenchWatch *watch = &gpu->watch[gpu->watch_count++];
    *watch = (BenchWatch){
        .stage = stage, .sm_mhz = NAN, .power_w = NAN, .temp_c = NAN, .memory_temp_c = NAN, .limit_w = NAN};
    return watch;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void note_watch(Target *target, BenchWatch *watch, const Reading *r)
{
    const double reasons = reading_value(r, METRIC_CLOCKS_EVENT_REASONS), clock = reading_value(r, METRIC_SM_CLOCK);
    const double gen = reading_value(r, METRIC_PCIE_LINK_GEN), width = reading_value(r, METRIC_PCIE_LINK_WIDTH);
    double sorted[ARRAY_LEN(target->clocks)];

    target->clocks[watch->samples % ARRAY_LEN(target->clocks)] = clock;
    watch->samples++;
    const size_t count = watch->samples < ARRAY_LEN(target->clocks) ? watch->samples : ARRAY_LEN(target->clocks);
    memcpy(sorted, target->clocks, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_numbers);
    watch->sm_mhz = sorted[count / 2];
    watch->power_w = larger_of(watch->power_w, reading_value(r, METRIC_POWER_USAGE));
    watch->temp_c = larger_of(watch->temp_c, reading_value(r, METRIC_GPU_TEMP));
    watch->memory_temp_c = larger_of(watch->memory_temp_c, reading_value(r, METRIC_MEMORY_TEMP));
    watch->limit_w = reading_value(r, METRIC_ENFORCED_POWER_LIMIT);
    watch->reasons |= reasons > 0 ? (uint64_t)reasons : 0;
    watch->pcie_gen = gen > watch->pcie_gen ? (uint32_t)gen : watch->pcie_gen;
    watch->pcie_width = width > watch->pcie_width ? (uint32_t)width : watch->pcie_width;
}

static void stop_gpu(BenchTest *t, size_t gpu, const char *why)
{
    BenchError error = error_of(BENCH_ERROR_STOPPED, stage_of(t, gpu), (uint32_t)gpu);

    if (t->targets[gpu].out)
        return;
    t->targets[gpu].out = true;
    snprintf(error.what, sizeof error.what, "%s", why);
    error.count = (now_ns() - t->start_ns) / NS_PER_MS;
    if (!t->after)
        add_error(t, &error);
    for (size_t i = 0; i < t->worker_count; i++)
        if (t->workers[i].spec.links || t->workers[i].spec.tag == gpu)
            bench_worker_stop(&t->workers[i], BENCH_WORKER_GRACE_MS);
}

static void stop_all(BenchTest *t, const char *why)
{
    for (size_t i = 0; i < t->run->gpus.len; i++)
        if (stage_of(t, i) != BENCH_STAGE_END_OF_WORK)
            stop_gpu(t, i, why);
}

static bool is_mps_server(const BenchTest *t, uint32_t pid)
{
    CLEANUP(str_done) Str name = str_limited(64);
    char path[64];

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/comm", pid);
    return t->plan->mps && file_read(path, 64, &name, NULL) == 0 && strncmp(name.text, "nvidia-cuda-mps", 15) == 0;
}

/* Another process has come: it has the right of way. */
static void check_strangers(BenchTest *t, size_t i, const NodeGpu *gpu)
{
    Target *target = &t->targets[i];
    const Reading *instance = find_instance(t, gpu, i);
    size_t strangers = 0;

    for (size_t k = 0; k < gpu->process_count; k++) {
        bool ours = is_mps_server(t, gpu->processes[k].pid);

        for (size_t w = 0; w < t->worker_count; w++)
            ours |= (pid_t)gpu->processes[k].pid == t->workers[w].pid;
        strangers += !ours && (!instance || node_process_is_on(&gpu->processes[k], &instance->device));
    }
    target->strangers = strangers && gpu->process_list.valid ? target->strangers + 1 : 0;
    if (target->strangers < NEWCOMER_LOOKS)
        return;
    t->run->gpus.at[i].shared = true;
    if (!t->plan->in_use)
        stop_gpu(t, i, "another process came onto the GPU");
}

static void check_heat(BenchTest *t, size_t i, const Reading *r)
{
    const double reasons = reading_value(r, METRIC_CLOCKS_EVENT_REASONS);

    if (reading_value(r, METRIC_GPU_TEMP) >= t->run->gpus.at[i].temp_slowdown_c - BENCH_STOP_BELOW_C)
        stop_gpu(t, i, "too hot");
    else if (reasons > 0 && ((uint64_t)reasons & REASON_HW_THERMAL))
        stop_gpu(t, i, "the hardware slows it down for heat");
}

static BenchXid describe_xid(const BenchTest *t, const XidEvent *event)
{
    BenchXid xid = {.code = (uint32_t)event->xid, .cause = CAUSE_UNKNOWN, .severity = SEVERITY_INFO};
    FaultVerdict verdict;

    if (!local_node_explain(t->local, event, &verdict))
        return xid;
    xid.fault = !verdict.silent;
    xid.cause = verdict.cause;
    xid.severity = verdict.severity;
    snprintf(xid.name, sizeof xid.name, "%s", verdict.rule->name);
    return xid;
}

static void collect_xids(BenchTest *t)
{
    XidEvent events[XIDS_MAX];
    const size_t count = local_node_xids(t->local, events, XIDS_MAX);

    for (size_t e = 0; e < count; e++)
        for (size_t i = 0; i < t->run->gpus.len; i++) {
            BenchGpu *gpu = &t->run->gpus.at[i];
            const Target *target = &t->targets[i];

            if (pci_compare(events[e].gpu, target->pci) == 0 && gpu->xid_count < BENCH_XIDS_MAX &&
                (target->gpu_instance == DEVICE_NO_NUMBER || events[e].gpu_instance == DEVICE_NO_NUMBER ||
                 events[e].gpu_instance == target->gpu_instance))
                gpu->xids[gpu->xid_count++] = describe_xid(t, &events[e]);
        }
}

static void watch_gpus(BenchTest *t)
{
    t->seen = local_node_read(t->local);
    for (size_t i = 0; i < t->run->gpus.len; i++) {
        const NodeGpu *gpu = find_gpu(t, t->seen, i);
        const BenchStage stage = stage_of(t, i);

        if (!gpu || stage == BENCH_STAGE_END_OF_WORK)
            continue;
        if (!t->after)
            note_watch(&t->targets[i], find_watch(&t->run->gpus.at[i], stage), &gpu->reading);
        check_strangers(t, i, gpu);
        check_heat(t, i, &gpu->reading);
    }
    if (!t->after)
        collect_xids(t);
}

/* --- the processes ------------------------------------------------------------------------------------------------ */

/* With more time in all, each stage has more. */
static uint64_t limit_of(const BenchTest *t, BenchStage stage)
{
    const double more = fmax(1, (double)t->plan->limit_ns / (double)t->plan->usual_limit_ns);

    return (stage == BENCH_STAGE_BURN ? t->plan->burn_ns : 0) + (uint64_t)(stage_limit_s[stage] * more * NS_PER_S);
}

/* True: all have ended. */
static bool check_workers(BenchTest *t)
{
    bool all = true;

    for (size_t i = 0; i < t->worker_count; i++) {
        BenchWorker *w = &t->workers[i];

        if (!w->ended && !w->stuck && !w->waits && now_ns() - w->stage_since_ns > limit_of(t, w->stage))
            bench_worker_stop(w, BENCH_WORKER_GRACE_MS);
        all &= bench_worker_check(w) || w->waits;
    }
    return all;
}

static const char *stage_words(BenchTest *t, uint32_t stages)
{
    Str text = str_limited(256);

    for (int i = 0; i < BENCH_STAGE_COUNT; i++)
        if (stages & 1u << i)
            str_addf(&text, "%s%s", text.len ? "," : "stages=", bench_stages[i].key);
    const char *words = arena_strdup(t->arena, text.text);
    str_done(&text);
    return words;
}

static const char **make_options(BenchTest *t, uint32_t stages, uint64_t delay_ms)
{
    const BenchPlan *p = t->plan;
    const char **options = arena_calloc(t->arena, OPTIONS_MAX, sizeof *options);
    size_t n = 0;

    options[n++] = stage_words(t, stages);
    if (p->burn_ns)
        options[n++] = arena_printf(t->arena, "seconds=%" PRIu64, (p->burn_ns + NS_PER_S - 1) / NS_PER_S);
    options[n++] = arena_printf(t->arena, "windows=%" PRIu32, p->windows);
    options[n++] = arena_printf(t->arena, "memory_percent=%" PRIu32, p->memory_percent);
    options[n++] = arena_printf(t->arena, "delay_ms=%" PRIu64, delay_ms);
    if (p->mps)
        options[n++] = arena_printf(t->arena, "mps=%s", p->mps);
    if (p->probes)
        options[n++] = arena_printf(t->arena, "probes=%s", p->probes);
    if (p->shape)
        options[n++] = arena_printf(t->arena, "shape=%s", p->shape);
    if (p->look->root)
        options[n++] = arena_printf(t->arena, "root=%s", p->look->root);
    return options;
}

/* Before anything is touched. */
static int check_options(BenchTest *t, Err *err)
{
    const char *const *options = make_options(t, t->plan->gpu_stages, 0);
    char *argv[OPTIONS_MAX + 2] = {"stoker-bench", "gpu"};
    BenchOptions parsed;
    int argc = 2;

    for (; options[argc - 2]; argc++)
        argv[argc] = arena_strdup(t->arena, options[argc - 2]);
    return t->plan->gpu_stages ? bench_options_parse(argc, argv, &parsed, err) : 0;
}

static int start_worker(BenchTest *t, const BenchWorkerSpec *spec, Err *err)
{
    BenchWorker *worker = &t->workers[t->worker_count++];
    Err why = {0};
    const int rc = bench_worker_start(worker, local_node_loop(t->local), spec, &why);

    if (rc < 0) {
        t->worker_count--;
        return err_set(err, rc, "start of %s: %s", spec->program, why.text);
    }
    return 0;
}

/* GPUs that can still do something together: their UUIDs, and t->order. */
static const char *list_links(BenchTest *t)
{
    Str text = str_limited((size_t)BENCH_GPUS_MAX * (BENCH_NAME_CAP + 1));

    t->link_count = 0;
    for (size_t i = 0; i < t->run->gpus.len; i++) {
        bool fine = !t->targets[i].out && t->targets[i].gpu_instance == DEVICE_NO_NUMBER;

        for (size_t w = 0; w < t->worker_count; w++)
            fine &= t->workers[w].spec.tag != i || !t->workers[w].ended || bench_worker_ended_well(&t->workers[w]);
        if (!fine)
            continue;
        str_addf(&text, "%s%s", text.len ? "," : "", t->run->gpus.at[i].device.uuid);
        t->order[t->link_count++] = (uint32_t)i;
    }
    const char *list = arena_strdup(t->arena, text.text ? text.text : "");
    str_done(&text);
    return list;
}

static int start_links(BenchTest *t, bool waits, Err *err)
{
    const char *devices = list_links(t);
    const uint32_t stages = t->link_count > 1 ? t->plan->link_stages : t->plan->link_stages & (1u << BENCH_STAGE_HOST);

    if (!stages || t->link_count == 0)
        return 0;
    return start_worker(t,
                        &(BenchWorkerSpec){.program = verb_child_program(t->arena, "src/source/cuda", "stoker-bench"),
                                           .links = true,
                                           .waits = waits,
                                           .options = make_options(t, stages, 0),
                                           .devices = devices,
                                           .library = t->plan->cuda_library,
                                           .give = bench_test_record,
                                           .self = t,
                                           .tag = BENCH_NONE},
                        err);
}

/* The start of the contexts of all GPUs takes seconds: it is done while they burn. */
static void start_links_early(BenchTest *t)
{
    Err ignored = {0}; /* it is tried again, and told, after the burn */

    for (size_t i = 0; i < t->worker_count; i++)
        if (t->workers[i].spec.links || t->workers[i].stage != BENCH_STAGE_BURN)
            return;
    if (t->worker_count > 0)
        start_links(t, true, &ignored);
}

bool bench_test_turn(BenchTest *t)
{
    if (check_workers(t))
        return false;
    start_links_early(t);
    local_node_run(t->local, TURN_MS * NS_PER_MS);
    watch_gpus(t);
    if (interrupted)
        stop_all(t, "interrupted");
    else if (now_ns() - t->start_ns > t->plan->limit_ns)
        stop_all(t, "its time was over");
    return true;
}

static void run_workers(BenchTest *t)
{
    while (bench_test_turn(t))
        ;
}

bool bench_test_is_over(const BenchTest *t)
{
    bool over = interrupted;

    for (size_t i = 0; i < t->run->gpus.len; i++)
        over |= t->targets[i].out;
    return over;
}

BenchRun *bench_test_result(BenchTest *t)
{
    return t->run;
}

bool bench_test_ended_well(const BenchTest *t, uint32_t gpu)
{
    for (size_t i = 0; i < t->worker_count; i++)
        if (!t->workers[i].spec.links && t->workers[i].spec.tag == gpu)
            return bench_worker_ended_well(&t->workers[i]);
    return false;
}

int bench_test_start(BenchTest *t, const BenchTask *task, BenchWorker **ret, Err *err)
{
    const char **options = make_options(t, task->stages, 0);
    size_t n = 0;

    if (t->worker_count == ARRAY_LEN(t->workers))
        return err_set(err, -ENOSPC, "too many processes");
    while (options[n])
        n++;
    options[n] = task->more;
    *ret = &t->workers[t->worker_count];
    return start_worker(t,
                        &(BenchWorkerSpec){.program = verb_child_program(t->arena, "src/source/cuda", "stoker-bench"),
                                           .options = options,
                                           .devices = t->run->gpus.at[task->gpu].device.uuid,
                                           .library = t->plan->cuda_library,
                                           .give = task->give,
                                           .self = task->self,
                                           .tag = task->gpu},
                        err);
}

static int test_gpus(BenchTest *t, Err *err)
{
    const char *program = verb_child_program(t->arena, "src/source/cuda", "stoker-bench");

    for (size_t i = 0; t->plan->gpu_stages && i < t->run->gpus.len; i++)
        TRY(start_worker(t,
                         &(BenchWorkerSpec){.program = program,
                                            .options = make_options(t, t->plan->gpu_stages, i * RAMP_MS),
                                            .devices = t->run->gpus.at[i].device.uuid,
                                            .library = t->plan->cuda_library,
                                            .give = bench_test_record,
                                            .self = t,
                                            .tag = (uint32_t)i},
                         err));
    run_workers(t);
    return 0;
}

/* The process that was started early goes on, or ends where it is not needed or a GPU has failed meanwhile. */
static void take_early(BenchTest *t, BenchWorker *early)
{
    if (early->heard && !interrupted && strcmp(early->spec.devices, list_links(t)) == 0)
        bench_worker_go(early);
    else
        bench_worker_stop(early, BENCH_WORKER_GRACE_MS);
    while (early->waits && !bench_worker_check(early))
        local_node_run(t->local, TURN_MS / 4 * NS_PER_MS);
}

static int test_links(BenchTest *t, Err *err)
{
    BenchWorker *last = t->worker_count ? &t->workers[t->worker_count - 1] : NULL;

    if (last && last->waits)
        take_early(t, last);
    if (interrupted)
        return 0;
    if (!last || !last->spec.links || last->waits)
        TRY(start_links(t, false, err));
    run_workers(t);
    return 0;
}

/* --- before and after --------------------------------------------------------------------------------------------- */

static double sum_links(const NodeGpu *gpu, bool down)
{
    double sum = NAN, value;

    for (uint32_t l = 0; l < gpu->link_count; l++) {
        if (down && sample_double(&gpu->links[l].active, &value))
            sum = (isnan(sum) ? 0 : sum) + (value < 1);
        for (int e = 0; !down && e < NODE_LINK_ERROR_END; e++)
            if (sample_double(&gpu->links[l].errors[e], &value))
                sum = (isnan(sum) ? 0 : sum) + value;
    }
    return sum;
}

static void read_counters(const NodeGpu *gpu, double to[BENCH_COUNTER_END])
{
    const Reading *r = &gpu->reading;

    to[BENCH_ECC_CORRECTED] = reading_value(r, METRIC_ECC_SBE_VOL_TOTAL);
    to[BENCH_ECC_UNCORRECTED] = reading_value(r, METRIC_ECC_DBE_VOL_TOTAL);
    to[BENCH_REMAPPED] =
        reading_value(r, METRIC_CORRECTABLE_REMAPPED_ROWS) + reading_value(r, METRIC_UNCORRECTABLE_REMAPPED_ROWS);
    to[BENCH_REMAP_PENDING] = reading_value(r, METRIC_ROW_REMAP_PENDING);
    to[BENCH_PCIE_REPLAYS] = reading_value(r, METRIC_PCIE_REPLAY_COUNTER);
    to[BENCH_NVLINK_ERRORS] = sum_links(gpu, false);
    to[BENCH_NVLINKS_DOWN] = sum_links(gpu, true);
}

static void note_counters(BenchTest *t, bool after)
{
    for (size_t i = 0; i < t->run->gpus.len; i++) {
        BenchGpu *gpu = &t->run->gpus.at[i];
        double *to = after ? gpu->after : gpu->before;
        const NodeGpu *now = find_gpu(t, t->seen, i);

        for (int c = 0; c < BENCH_COUNTER_END; c++)
            to[c] = NAN;
        if (now)
            read_counters(now, to);
    }
}

/* Whether the slow readings of all GPUs that answer are from after `since_ns`. */
static bool is_read_since(const BenchTest *t, uint64_t since_ns)
{
    for (size_t i = 0; i < t->run->gpus.len; i++) {
        const NodeGpu *gpu = find_gpu(t, t->seen, i);
        const Sample *sample = gpu ? &gpu->reading.sample[METRIC_COMPUTE_MODE] : NULL;

        if (gpu && gpu->state == GPU_UP && sample->valid && sample->time_ns < since_ns)
            return false;
    }
    return true;
}

static void look_after(BenchTest *t)
{
    const uint64_t from = now_ns(), since = t->seen->node->time_ns;

    do {
        local_node_run(t->local, TURN_MS * NS_PER_MS);
        t->seen = local_node_read(t->local);
    } while (!is_read_since(t, since) && now_ns() - from < AFTER_MS * NS_PER_MS);
    collect_xids(t);
    note_counters(t, true);
}

static bool is_known(const Node *node)
{
    if (node->driver_why[0])
        return true;
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_STARTING ||
            (node->gpus[i].state == GPU_UP && !node->gpus[i].process_list.valid &&
             node->gpus[i].process_list.absence == ABSENCE_NOT_YET))
            return false;
    return node->gpu_count > 0;
}

static void look_before(BenchTest *t)
{
    do {
        local_node_run(t->local, TURN_MS / 4 * NS_PER_MS);
        t->seen = local_node_read(t->local);
    } while (!is_known(t->seen->node) && now_ns() - t->start_ns < FIRST_MS * NS_PER_MS && !interrupted);
}

static void run_after(BenchTest *t)
{
    if (!t->plan->after || bench_test_is_over(t))
        return;
    t->after = true;
    t->plan->after(t);
}

static int run_test(BenchTest *t, Err *err)
{
    int rc;

    TRY(check_options(t, err));
    look_before(t);
    if ((rc = choose_gpus(t, err)) != 0 || (rc = refuse_any(t, t->seen, false, err)) != 0 ||
        (rc = refuse_by_agent(t, err)) != 0 || (rc = lock_gpus(t, err)) != 0)
        return rc;
    snprintf(t->run->node, sizeof t->run->node, "%s", t->seen->node->hostname);
    snprintf(t->run->driver, sizeof t->run->driver, "%s", t->seen->node->driver_version);
    note_counters(t, false);
    (void)bench_agent_begin(t->plan->look, t->arena, t->run, t->plan->limit_ns / NS_PER_S + AGENT_MORE_S, NULL);
    if (t->plan->course)
        rc = t->plan->course->run(t->plan->course->self, t, err);
    else if ((rc = test_gpus(t, err)) == 0)
        rc = test_links(t, err);
    if (rc < 0 || t->plan->course) /* of other tests the result ends it */
        (void)bench_agent_begin(t->plan->look, t->arena, t->run, 0, NULL);
    if (rc < 0)
        return rc;
    look_after(t);
    run_after(t);
    return 0;
}

static void free_test(BenchTest *t)
{
    for (size_t i = 0; i < t->worker_count; i++)
        bench_worker_close(&t->workers[i]);
    for (size_t i = 0; i < t->run->gpus.len; i++)
        if (t->targets[i].lock_fd >= 0)
            close(t->targets[i].lock_fd);
    local_node_free(t->local);
    free(t);
}

int bench_test_run(const BenchPlan *plan, Arena *arena, BenchRun *ret, Err *err)
{
    const struct sigaction action = {.sa_handler = interrupt_test};
    BenchTest *t = xcalloc(1, sizeof *t);

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    *ret = (BenchRun){.data = "normal", .version = STOKER_VERSION, .real_ns = clock_real(clock_kernel())};
    ret->stages = plan->gpu_stages | plan->link_stages;
    snprintf(ret->rung, sizeof ret->rung, "%s", plan->rung);
    *t = (BenchTest){.plan = plan, .arena = arena, .run = ret, .start_ns = now_ns()};
    int rc = local_node_new(plan->look->library, plan->look->root, 0, &t->local, err);
    if (rc == 0) {
        local_node_hurry(t->local);
        rc = run_test(t, err);
    }
    ret->seconds = (double)(now_ns() - t->start_ns) / (double)NS_PER_S;
    free_test(t);
    return rc;
}
