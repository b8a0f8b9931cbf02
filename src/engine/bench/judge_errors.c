/* SPDX-License-Identifier: Apache-2.0 */
/* What is no number: calls that failed, wrong values, GPUs that do not answer, memory that cannot be had. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "engine/bench/judge_inside.h"

enum { SMS_NAMED = 8, CUDA_ECC = 214, CUDA_NVLINK = 220, CUDA_CONTAINED = 226 };
static const double HELD_SHARE = 0.05; /* of the memory, above which jobs of the usual size do not fit */

/* CUresult (cuda.h) and what stands behind it, for an operator. */
static const struct {
    int32_t code;
    bool kernel; /* a kernel of the test failed, which ends well on a GPU that is fine */
    const char *words;
} causes[] = {
    {2, false, "no memory is left on the GPU"},
    {34, false, "libcuda.so.1 is the stub of the toolkit; install the driver's library"},
    {36, false, "the driver is older than its library needs"},
    {46, false, "the GPU is in exclusive use by another process, or was lost"},
    {100, false, "CUDA sees no GPU: CUDA_VISIBLE_DEVICES is empty, or MIG is on without an instance"},
    {101, false, "CUDA does not know this GPU"},
    {209, false, "the driver has no code for this GPU"},
    {218, false, "the driver refuses the text of the kernels"},
    {221, false,
     "libnvidia-ptxjitcompiler.so.1 is missing; give the container the driver capability 'compute', or install it"},
    {222, false, "the driver is too old for the kernels; update it"},
    {223, false, "the compilation of kernels is switched off (CUDA_DISABLE_PTX_JIT)"},
    {304, false, "the operating system refuses the device files; look at /dev/nvidia* and the container's devices"},
    {700, true, "a kernel met a wrong address"},
    {702, true, "a kernel ran too long for the driver's watchdog"},
    {714, true, "a kernel met a hardware stack error"},
    {715, true, "a kernel met an illegal instruction"},
    {716, true, "a kernel met a misaligned address"},
    {717, true, "a kernel met a wrong address space"},
    {718, true, "a kernel met a wrong program counter"},
    {719, true, "a kernel failed"},
    {802, false, "the fabric manager is not running or not done yet; start nvidia-fabricmanager and read its log"},
    {803, false, "the driver's library and its kernel module are of different versions; reboot or reload the module"},
    {804, false, "the forward compatibility package does not support this GPU; remove it"},
    {805, false, "the MPS server does not answer"},
    {999, false, "an unknown error of the driver; read the kernel log"},
};

static uint32_t place_of(const Judge *j, uint32_t gpu)
{
    return gpu < j->gpu_count ? gpu : BENCH_NONE;
}

static const BenchError *find_error(const Judge *j, BenchErrorKind kind, uint32_t gpu)
{
    for (size_t i = 0; i < j->run->errors.len; i++)
        if (j->run->errors.at[i].kind == kind && place_of(j, j->run->errors.at[i].gpu) == gpu)
            return &j->run->errors.at[i];
    return NULL;
}

/* --- the test's process ------------------------------------------------------------------------------------------- */

/* Another GPU came to the end of the stage in which this one failed. */
static bool has_ended_elsewhere(const Judge *j, const BenchError *e)
{
    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (i != e->gpu && j->run->gpus.at[i].ended & 1u << e->stage)
            return true;
    return false;
}

static void judge_call(Judge *j, uint32_t gpu, const BenchError *e)
{
    const char *words = "CUDA failed";
    bool kernel = false;

    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (causes[i].code == e->code) {
            words = causes[i].words;
            kernel = causes[i].kernel;
        }
    const bool fault = kernel && has_ended_elsewhere(j, e);
    BenchFinding *f = judge_add(j, fault ? BENCH_FAULT : BENCH_UNTESTED, BENCH_CALL_FAILED,
                                kernel ? BENCH_PART_COMPUTE : BENCH_PART_START, gpu);
    f->error = e->kind;
    f->code = e->code;
    f->gpus = gpu == BENCH_NONE ? judge_all(j) : f->gpus;
    if (e->stage == BENCH_STAGE_START)
        judge_say(f, "CUDA does not start: ");
    if (strcmp(e->what, "dlopen") == 0) {
        judge_say(f, "libcuda.so.1 cannot be loaded: it comes with the driver; --cuda-library names another one");
        return;
    }
    judge_say(f, "%s (%s: error %" PRId32, words, e->what[0] ? e->what : "a call", e->code);
    if (e->stage != BENCH_STAGE_START)
        judge_say(f, ", during '%s'", bench_stages[e->stage].text);
    judge_say(f, ")");
    if (fault)
        judge_say(f, "; it ends well on other GPUs of this node");
}

/* "in 'burn'", and whose process it was. */
static void say_process(BenchFinding *f, const BenchError *e, const char *what)
{
    judge_say(f, "%s%s during '%s'", f->gpu == BENCH_NONE ? "the test of links between GPUs " : "", what,
              bench_stages[e->stage].text);
    if (e->what[0])
        judge_say(f, " (%s)", e->what);
}

static void judge_hung(Judge *j, uint32_t gpu, const BenchError *e)
{
    BenchFinding *f = judge_add(j, BENCH_UNTESTED, BENCH_HUNG, BENCH_PART_START, gpu);

    f->error = e->kind;
    f->gpus = gpu == BENCH_NONE ? judge_all(j) : f->gpus; /* their links are not known */
    say_process(f, e, "gave no answer");
    judge_say(f, "; its process was killed, and the rest was not tested");
}

static void judge_ended(Judge *j, uint32_t gpu, const BenchError *e)
{
    BenchFinding *f = judge_add(j, BENCH_UNTESTED, BENCH_PROCESS_ENDED, BENCH_PART_START, gpu);

    f->error = e->kind;
    f->gpus = gpu == BENCH_NONE ? judge_all(j) : f->gpus;
    say_process(f, e, gpu == BENCH_NONE ? "ended" : "the process that tests it ended");
}

/* Of several the one that says why. */
static const BenchError *find_stop(const Judge *j, uint32_t gpu)
{
    const BenchError *first = NULL;

    for (size_t i = 0; i < j->run->errors.len; i++) {
        const BenchError *e = &j->run->errors.at[i];

        if (e->kind != BENCH_ERROR_STOPPED || place_of(j, e->gpu) != gpu)
            continue;
        if (e->what[0])
            return e;
        first = first ? first : e;
    }
    return first;
}

static bool is_for_heat(const BenchError *stop)
{
    return strstr(stop->what, "hot") || strstr(stop->what, "heat");
}

static void judge_stopped(Judge *j, uint32_t gpu, const BenchError *e)
{
    const bool hot = is_for_heat(e);
    BenchFinding *f = judge_add(j, hot ? BENCH_DEGRADED : BENCH_UNTESTED, hot ? BENCH_HOT : BENCH_STOPPED,
                                hot ? BENCH_PART_CLOCK : BENCH_PART_START, gpu);
    const BenchWatch *watch = gpu == BENCH_NONE ? NULL : judge_watch(&j->run->gpus.at[gpu], e->stage);

    f->error = e->kind;
    f->gpus = gpu == BENCH_NONE ? judge_all(j) : f->gpus;
    f->reason = hot ? BENCH_REASON_HEAT : BENCH_NO_REASON;
    judge_say(f, "stopped during '%s'", bench_stages[e->stage].text);
    if (e->count > 0)
        judge_say(f, " after %.1f s", (double)e->count / 1e3);
    if (e->what[0])
        judge_say(f, ": %s", e->what);
    if (hot && watch && isfinite(watch->temp_c))
        judge_say(f, " (%.0f C); check fans and airflow", watch->temp_c);
}

/* One reason why the test did not come to its end is enough. */
static void judge_process(Judge *j, uint32_t gpu)
{
    const BenchError *call = NULL, *stop = find_stop(j, gpu), *hung = find_error(j, BENCH_ERROR_HUNG, gpu),
                     *ended = find_error(j, BENCH_ERROR_ENDED, gpu);
    bool memory = false;

    for (size_t i = 0; i < j->run->errors.len; i++) {
        const BenchError *e = &j->run->errors.at[i];

        if (e->kind != BENCH_ERROR_CALL || place_of(j, e->gpu) != gpu)
            continue;
        if (e->code == CUDA_ECC || e->code == CUDA_NVLINK || e->code == CUDA_CONTAINED)
            memory = true; /* judge_counters.c, with what the driver counted */
        else if (!call)
            call = e;
    }
    if (memory)
        return;
    if (stop && is_for_heat(stop))
        judge_stopped(j, gpu, stop);
    else if (call)
        judge_call(j, gpu, call);
    else if (hung)
        judge_hung(j, gpu, hung);
    else if (stop)
        judge_stopped(j, gpu, stop);
    else if (ended)
        judge_ended(j, gpu, ended);
}

/* --- wrong values ------------------------------------------------------------------------------------------------- */

/* Wrong values of one kind on one GPU. */
typedef struct Wrong {
    const BenchError *first;
    uint64_t count;
    bool repeats, many; /* each that was repeated came again; not of one SM */
    uint32_t sms[SMS_NAMED], sm_count;
} Wrong;

static bool is_wrong_in(const Judge *j, const BenchError *e, uint32_t gpu, BenchPart part)
{
    const bool host = e->measure < BENCH_MEASURE_END ? bench_measures[e->measure].part == BENCH_PART_HOST_LINK
                                                     : e->stage == BENCH_STAGE_HOST;

    if (e->kind != BENCH_ERROR_MISCOMPARE || place_of(j, e->gpu) != gpu)
        return false;
    if (e->path)
        return part == BENCH_PART_HOST_LINK && host;
    return part == (e->stage == BENCH_STAGE_PATTERNS || e->stage == BENCH_STAGE_MEMORY ? BENCH_PART_MEMORY
                                                                                       : BENCH_PART_COMPUTE);
}

static void add_sm(Wrong *wrong, uint32_t sm)
{
    for (uint32_t i = 0; i < wrong->sm_count && i < SMS_NAMED; i++)
        if (wrong->sms[i] == sm)
            return;
    if (wrong->sm_count < SMS_NAMED)
        wrong->sms[wrong->sm_count] = sm;
    wrong->sm_count++;
}

static bool gather_wrong(const Judge *j, uint32_t gpu, BenchPart part, Wrong *ret)
{
    *ret = (Wrong){.repeats = true};
    for (size_t i = 0; i < j->run->errors.len; i++) {
        const BenchError *e = &j->run->errors.at[i];

        if (!is_wrong_in(j, e, gpu, part))
            continue;
        ret->first = ret->first ? ret->first : e;
        ret->count += e->count;
        ret->repeats &= e->repeats;
        ret->many |= e->sm == BENCH_NONE;
        if (e->sm != BENCH_NONE)
            add_sm(ret, e->sm);
    }
    return ret->first != NULL;
}

static bool has_grown(const BenchGpu *gpu, BenchCounter counter)
{
    return gpu->after[counter] > gpu->before[counter];
}

static bool is_silent(const BenchGpu *gpu)
{
    return gpu->xid_count == 0 && !has_grown(gpu, BENCH_ECC_UNCORRECTED) && !has_grown(gpu, BENCH_ECC_CORRECTED);
}

static void say_wrong(const Judge *j, BenchFinding *f, const Wrong *wrong)
{
    const BenchError *e = wrong->first;
    char count[HUMAN_MAX];

    judge_say(f, "%s wrong value%s (%s: should be 0x%" PRIx64 ", is 0x%" PRIx64 ")",
              human_count(count, (int64_t)(wrong->count & INT64_MAX)), human_plural(wrong->count),
              e->what[0] ? e->what : bench_stages[e->stage].key, e->want, e->got);
    f->repeats = wrong->repeats;
    f->silent = is_silent(&j->run->gpus.at[f->gpu]);
    if (f->repeats)
        judge_say(f, ", the same wrong value each time");
    if (f->silent)
        judge_say(f, "; silent: no XID and no ECC error");
}

static BenchFinding *add_wrong(Judge *j, uint32_t gpu, BenchSymptom symptom, BenchPart part, const Wrong *wrong)
{
    BenchFinding *f = judge_add(j, BENCH_FAULT, symptom, part, gpu);

    f->error = BENCH_ERROR_MISCOMPARE;
    f->measure = wrong->first->measure;
    f->sm = wrong->sm_count == 1 && !wrong->many ? wrong->sms[0] : BENCH_NONE;
    return f;
}

static void judge_memory(Judge *j, uint32_t gpu)
{
    Wrong wrong;

    if (!gather_wrong(j, gpu, BENCH_PART_MEMORY, &wrong))
        return;
    BenchFinding *f = add_wrong(j, gpu, BENCH_WRONG_VALUES, BENCH_PART_MEMORY, &wrong);
    judge_say(f, "memory gives back wrong values, the first at byte %" PRIu64 " of the test's buffer: ",
              wrong.first->address);
    say_wrong(j, f, &wrong);
    if (f->sm != BENCH_NONE)
        judge_say(f, "; all seen by SM %" PRIu32, f->sm);
    else if (j->run->gpus.at[gpu].device.ecc)
        judge_say(f, "; ECC is on: not a memory cell, but the way to it is bad");
}

/* A product is made from memory: where that is wrong, so may it be. */
static void judge_compute(Judge *j, uint32_t gpu)
{
    Wrong wrong;

    if (!gather_wrong(j, gpu, BENCH_PART_COMPUTE, &wrong))
        return;
    if (judge_find(j, gpu, BENCH_WRONG_VALUES) && wrong.first->stage != BENCH_STAGE_PROBES)
        return;
    BenchFinding *f = add_wrong(j, gpu, BENCH_WRONG_VALUES, BENCH_PART_COMPUTE, &wrong);
    if (f->sm != BENCH_NONE)
        judge_say(f, "SM %" PRIu32 " computes wrong: ", f->sm);
    else if (wrong.sm_count > 0 && !wrong.many)
        judge_say(f, "%" PRIu32 " SMs compute wrong, SM %" PRIu32 " first: ", wrong.sm_count, wrong.sms[0]);
    else
        judge_say(f, "computes wrong: ");
    say_wrong(j, f, &wrong);
}

static void judge_host_copies(Judge *j, uint32_t gpu)
{
    Wrong wrong;

    if (!gather_wrong(j, gpu, BENCH_PART_HOST_LINK, &wrong))
        return;
    BenchFinding *f = add_wrong(j, gpu, BENCH_CORRUPTS, BENCH_PART_HOST_LINK, &wrong);
    judge_say(f, "copies between it and the host are corrupted: ");
    say_wrong(j, f, &wrong);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static void judge_missing_sms(Judge *j, uint32_t gpu)
{
    const BenchError *e = find_error(j, BENCH_ERROR_MISSING_SM, gpu);

    if (!e)
        return;
    BenchFinding *f = judge_add(j, BENCH_FAULT, BENCH_MISSING_SM, BENCH_PART_COMPUTE, gpu);
    f->error = e->kind;
    f->value = (double)e->got;
    f->reference = (double)e->want;
    f->sm = e->sm;
    judge_say(f, "%" PRIu64 " of its %" PRIu64 " SMs did no work", e->count, e->want);
}

static void judge_less_memory(Judge *j, uint32_t gpu)
{
    const BenchError *e = find_error(j, BENCH_ERROR_LESS_MEMORY, gpu);
    char less[HUMAN_MAX], got[HUMAN_MAX];

    if (!e)
        return;
    const bool much = (double)e->got < (1 - HELD_SHARE) * (double)e->want;
    BenchFinding *f = judge_add(j, much ? BENCH_DEGRADED : BENCH_NOTICE, BENCH_HELD_MEMORY, BENCH_PART_MEMORY, gpu);
    f->error = e->kind;
    f->value = (double)e->got;
    f->reference = (double)e->want;
    judge_say(f, "%s of its memory cannot be had and is held by nobody; %s were tested; a reset of the GPU frees it",
              human_bytes(less, (double)e->want - (double)e->got), human_bytes(got, (double)e->got));
}

static void judge_older_text(Judge *j, uint32_t gpu)
{
    const BenchError *e = find_error(j, BENCH_ERROR_OLDER_TEXT, gpu);

    if (!e)
        return;
    BenchFinding *f = judge_add(j, BENCH_NOTICE, BENCH_OLDER_TEXT, BENCH_PART_COMPUTE, gpu);
    f->error = e->kind;
    judge_say(f, "the driver takes only older kernels: rates of arithmetic are those of their instructions, not the "
                 "most that the chip can do");
}

void judge_errors(Judge *j)
{
    judge_process(j, BENCH_NONE);
    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++) {
        judge_process(j, gpu);
        judge_memory(j, gpu);
        judge_compute(j, gpu);
        judge_host_copies(j, gpu);
        judge_missing_sms(j, gpu);
        judge_less_memory(j, gpu);
        judge_older_text(j, gpu);
    }
}
