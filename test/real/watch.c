/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known kernels and what Stoker says about them. Each step waits until the GPU has been quiet for so long that its last
 * minute no longer counts, runs one kind of work in a process of its own, looks at the agent each second, holds it
 * beside nvidia-smi in the middle, and at the end holds what Stoker said against what was meant.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "real.h"
#include "verbs.h"

enum {
    QUIET_MS = 22 * 1000, /* a pause of 20 s ends what was before (engine/activity/decide.c) */
    WORK_MS = 32 * 1000,  /* a word changes after ten seconds, and GPM's second is one behind */
    FREE_MS = 8 * 1000,
    BENCH_MS = 100 * 1000,
    LOOKS_MAX = 256,
    CHECKS_MAX = 8,
    END_MS = 15 * 1000, /* for the process to end by itself after its time */
};

/* What is meant: a metric of the second half of the work lies between `low` and `high`. */
typedef struct Check {
    const char *metric;
    double low, high;
    const char *why;
} Check;

typedef struct Work {
    const char *kind, *word; /* of the activity */
    const char *why;
    Check checks[CHECKS_MAX];
    bool record; /* what the library answers meanwhile */
} Work;

/* The limits leave room for boards from Volta on; a metric that the GPU does not report is not judged. */
static const Work spin = {.kind = "spin",
                          .word = "waiting",
                          .why =
                              "one block keeps a kernel running and one multiprocessor busy; the rest of the GPU waits",
                          .checks = {{"DCGM_FI_DEV_GPU_UTIL", 95, 100, "a kernel runs all the time"},
                                     {"DCGM_FI_PROF_SM_ACTIVE", 0.002, 0.06, "one multiprocessor of 40 to 200"},
                                     {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0, 0.005, "no tensor work"},
                                     {"DCGM_FI_PROF_DRAM_ACTIVE", 0, 0.02, "no memory traffic"}}};
static const Work launch = {.kind = "launch",
                            .word = "waiting",
                            .why = "kernels that do nothing: the GPU waits for launches",
                            .checks = {{"DCGM_FI_DEV_GPU_UTIL", 5, 100, "kernels run for a part of the time"},
                                       {"DCGM_FI_PROF_SM_ACTIVE", 0, 0.25, "one thread at a time"},
                                       {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0, 0.005, "no tensor work"},
                                       {"DCGM_FI_PROF_DRAM_ACTIVE", 0, 0.05, "no memory traffic to speak of"}}};
static const Work copy = {
    .kind = "copy",
    .word = "working",
    .why = "all multiprocessors move memory",
    .checks = {{"DCGM_FI_DEV_GPU_UTIL", 95, 100, "a kernel runs all the time"},
               {"DCGM_FI_DEV_MEM_COPY_UTIL", 40, 100, "the memory is busy"},
               {"DCGM_FI_PROF_SM_ACTIVE", 0.8, 1.01, "blocks on all multiprocessors"},
               {"DCGM_FI_PROF_DRAM_ACTIVE", 0.6, 1.01, "a copy reaches 80 to 95 % of the memory's peak"},
               {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0, 0.005, "no tensor work"}}};
static const Work matmul = {
    .kind = "matmul",
    .word = "working",
    .why = "all tensor cores multiply",
    .checks = {{"DCGM_FI_DEV_GPU_UTIL", 95, 100, "a kernel runs all the time"},
               {"DCGM_FI_PROF_SM_ACTIVE", 0.8, 1.01, "blocks on all multiprocessors"},
               {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.3, 1.01, "mma.sync reaches 60 to 100 % of the tensor cores' peak"},
               {"DCGM_FI_PROF_DRAM_ACTIVE", 0, 0.05, "all of it in registers"},
               {"power_share", 0.3, 1.1, "tensor work draws power"}},
    .record = true};
static const Work holder = {.kind = "hold",
                            .word = "idle held",
                            .why = "a process holds memory and runs nothing",
                            .checks = {{"DCGM_FI_DEV_GPU_UTIL", 0, 5, "nothing runs"},
                                       {"DCGM_FI_PROF_SM_ACTIVE", 0, 0.01, "nothing runs"},
                                       {"DCGM_FI_PROF_DRAM_ACTIVE", 0, 0.02, "nothing runs"}}};

/* What was seen each second. */
typedef struct Looks {
    double values[CHECKS_MAX][LOOKS_MAX];
    size_t count;
    char word[32], text[512];
    bool listed;         /* the process was among those of the GPU */
    double listed_bytes; /* its memory, as the agent has it */
} Looks;

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* --- a GPU for the work ------------------------------------------------------------------------------------------- */

/* The first GPU that is up and has no process; -1: none. */
static int find_free_gpu(json_t *status)
{
    const json_t *gpu;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(status, "node"), "gpus"), i,
                       gpu) if (strcmp(text_of(gpu, "state"), "up") == 0 &&
                                !json_is_true(json_object_get(gpu, "mig")) &&
                                json_integer_value(json_object_get(gpu, "process_count")) ==
                                    0) return (int)json_integer_value(json_object_get(gpu, "index"));
    return -1;
}

/* The GPU's index, its address in `pci`; below 0 where none becomes free: the last step's process takes a moment to go.
 */
static int choose_gpu(const Real *real, char pci[64], Err *err)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    int index;

    for (;;) {
        json_t *status = command_ask_agent(real, err);

        index = status ? find_free_gpu(status) : -1;
        if (index >= 0)
            snprintf(pci, 64, "%s", text_of(command_find_gpu(status, index), "pci"));
        json_decref(status);
        if (index >= 0 || clock_monotonic(clock_kernel()) - start > FREE_MS * NS_PER_MS)
            return index;
        clock_sleep(clock_kernel(), 500 * NS_PER_MS);
    }
}

/* Until the GPU has been quiet for long enough that what was before no longer counts. */
static void await_quiet(const Real *real, int gpu)
{
    const uint64_t wait = real_paced(real, QUIET_MS) * NS_PER_MS, start = clock_monotonic(clock_kernel());
    uint64_t since = start;

    while (clock_monotonic(clock_kernel()) - since < wait && clock_monotonic(clock_kernel()) - start < 2 * wait) {
        json_t *status = command_ask_agent(real, NULL);

        if (command_read_metric(command_find_gpu(status, gpu), "DCGM_FI_DEV_GPU_UTIL") > 5)
            since = clock_monotonic(clock_kernel());
        json_decref(status);
        clock_sleep(clock_kernel(), NS_PER_S);
    }
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void look_for_process(const json_t *gpu, pid_t pid, Looks *looks)
{
    const json_t *process;
    size_t i;

    json_array_foreach(json_object_get(gpu, "processes"), i,
                       process) if (json_integer_value(json_object_get(process, "pid")) == pid)
    {
        looks->listed = true;
        looks->listed_bytes = json_number_value(json_object_get(process, "used_bytes"));
    }
}

static void take_look(const Real *real, const Work *work, int index, pid_t pid, Looks *looks)
{
    json_t *status = command_ask_agent(real, NULL);
    const json_t *gpu = status ? command_find_gpu(status, index) : NULL;

    if (gpu && looks->count < LOOKS_MAX) {
        for (size_t i = 0; i < CHECKS_MAX && work->checks[i].metric; i++)
            looks->values[i][looks->count] = command_read_metric(gpu, work->checks[i].metric);
        snprintf(looks->word, sizeof looks->word, "%s", text_of(json_object_get(gpu, "activity"), "word"));
        snprintf(looks->text, sizeof looks->text, "%s", text_of(json_object_get(gpu, "activity"), "text"));
        look_for_process(gpu, pid, looks);
        looks->count++;
    }
    json_decref(status);
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median of the second half's readings; NAN where there is none. */
static double middle_of(const double *values, size_t count)
{
    double known[LOOKS_MAX];
    size_t n = 0;

    for (size_t i = count / 2; i < count; i++)
        if (isfinite(values[i]))
            known[n++] = values[i];
    qsort(known, n, sizeof known[0], compare_numbers);
    return n ? known[n / 2] : NAN;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static bool judge_check(const Check *check, double value, json_t *list, json_t *result)
{
    const bool known = isfinite(value), meant = !known || (value >= check->low && value <= check->high);
    const char *verdict = !known ? "not reported" : meant ? "as meant" : "not as meant";

    json_array_append_new(list, json_pack("{s:s, s:o, s:f, s:f, s:s, s:s}", "metric", check->metric, "value",
                                          known ? json_real(value) : json_null(), "low", check->low, "high",
                                          check->high, "why", check->why, "verdict", verdict));
    real_add_line(result, "%-36s %10.4g  meant %g to %g: %s (%s)", check->metric, value, check->low, check->high,
                  verdict, check->why);
    return meant;
}

static StepEnd judge_work(const Work *work, const Looks *looks, const json_t *done, json_t *result)
{
    const bool word = strcmp(looks->word, work->word) == 0;
    json_t *list = json_array();
    unsigned int wrong = 0;
    size_t checks = 0;

    json_object_set_new(result, "checks", list);
    json_object_set_new(result, "word", json_string(looks->word));
    json_object_set_new(result, "meant", json_string(work->word));
    json_object_set_new(result, "reason", json_string(looks->text));
    json_object_set_new(result, "looks", json_integer((json_int_t)looks->count));
    json_object_set_new(result, "process_seen", json_boolean(looks->listed));
    json_object_set_new(result, "process_bytes", json_real(looks->listed_bytes));
    real_add_line(result, "meant: %s (%s)", work->word, work->why);
    real_add_line(result, "Stoker said: %s: %s", looks->word, looks->text);
    for (; checks < CHECKS_MAX && work->checks[checks].metric; checks++)
        wrong += !judge_check(&work->checks[checks], middle_of(looks->values[checks], looks->count), list, result);
    real_add_line(result, "the process %s among the GPU's processes, with %.0f MiB", looks->listed ? "is" : "is NOT",
                  looks->listed_bytes / 1048576);
    if (!json_is_true(json_object_get(done, "right")))
        return real_end(result, STEP_FINDING, "the kernel's own result is wrong: %s", text_of(done, "error"));
    if (!word)
        return real_end(result, STEP_FINDING, "meant '%s', and Stoker said '%s': %s", work->word, looks->word,
                        looks->text);
    if (wrong || !looks->listed)
        return real_end(result, STEP_FINDING, "'%s' as meant; of %zu values not as meant: %u; the process was %sseen",
                        looks->word, checks, wrong, looks->listed ? "" : "not ");
    return real_end(result, STEP_OK, "'%s' as meant: %s", looks->word, looks->text);
}

/* --- the work ----------------------------------------------------------------------------------------------------- */

static int start_work(const Real *real, const Work *work, const char *pci, double seconds, Subproc *ret, Err *err)
{
    CLEANUP(str_done) Str program = str_limited(4096);
    char number[32];
    const char *argv[] = {NULL, "--work", work->kind, "--gpu", pci, "--seconds", number, NULL};
    const SubprocSpec spec = {.argv = argv, .pipe_out = true, .die_with_us = true};

    str_addf(&program, "%s/stoker-real", real->bin);
    argv[0] = program.text;
    snprintf(number, sizeof number, "%.1f", seconds);
    return subproc_start(&spec, ret, err);
}

/* The comparison and GPM in the middle of the work, which take a few seconds, and of a busy GPU a recording too. */
static StepEnd hold_beside(const Real *real, const Work *work, int gpu, json_t *result)
{
    json_t *beside = json_object(), *gpm = json_object();
    StepEnd recorded = STEP_OK, end, of_gpm;
    Err err = {0};

    json_object_set_new(result, "beside", beside);
    json_object_set_new(result, "gpm", gpm);
    if (work->record) {
        json_t *busy = json_object();

        json_object_set_new(result, "busy", busy);
        recorded = verbs_record_as(real, "-busy", busy, &err);
        real_add_line(result, "recorded while it runs: %s%s", text_of(busy, "text"), err.text);
    }
    err = (Err){0};
    end = real_worse(recorded, compare_run(real, 1, beside, &err));
    real_add_line(result, "beside nvidia-smi: %s%s", text_of(beside, "text"), err.text);
    err = (Err){0};
    of_gpm = compare_read_gpm(real, gpu, gpm, &err);
    real_add_line(result, "GPM: %s%s", text_of(gpm, "text"), json_object_get(gpm, "text") ? "" : err.text);
    return real_worse(end, of_gpm == STEP_IMPOSSIBLE ? STEP_OK : of_gpm);
}

/* Looks each second until the process has ended, or its time is over. The comparison is held once, in the middle. */
static StepEnd watch_process(const Real *real, const Work *work, int gpu, uint64_t ms, Subproc *process,
                             SubprocEnd *ret_end, Looks *looks, json_t *result)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    StepEnd end = STEP_OK;
    bool held = false;

    while (subproc_wait(process, 1000, ret_end, NULL) == SUBPROC_RUNNING) {
        const uint64_t passed = (clock_monotonic(clock_kernel()) - start) / NS_PER_MS;

        if (passed > ms + END_MS) {
            subproc_stop(process, 1000, ret_end, NULL);
            real_add_line(result, "the process did not end by itself and was killed");
            return STEP_FAILED;
        }
        if (passed < ms)
            take_look(real, work, gpu, process->pid, looks);
        if (!held && passed >= ms / 2) {
            end = hold_beside(real, work, gpu, result);
            held = true;
        }
    }
    return end;
}

static json_t *read_answer(int fd, json_t *result)
{
    char text[8192];
    const ssize_t n = read(fd, text, sizeof text - 1);
    json_t *done = n > 0 ? json_loadb(text, (size_t)n, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

    if (!done)
        done = json_pack("{s:s}", "error", "its process ended without a word");
    json_object_set(result, "work", done);
    json_decref(done);
    return json_object_get(result, "work");
}

static StepEnd watch_work(const Real *real, const Work *work, json_t *result, Err *err)
{
    const uint64_t ms = real_paced(real, WORK_MS);
    CLEANUP(subproc_done) Subproc process = {0};
    SubprocEnd process_end = {0};
    static Looks looks;
    char pci[64] = "";
    const json_t *done;
    StepEnd end;
    int gpu;

    gpu = choose_gpu(real, pci, err);
    if (gpu < 0)
        return real_end(result, STEP_IMPOSSIBLE, "no GPU without a process and without MIG: %s", err->text);
    await_quiet(real, gpu);
    if (start_work(real, work, pci, (double)ms / 1000, &process, err) < 0)
        return STEP_FAILED;
    end = watch_process(real, work, gpu, ms, &process, &process_end, &looks, result);
    done = read_answer(process.out_fd, result);
    if (process_end.exited && process_end.exit_code == 3)
        return real_end(result, STEP_IMPOSSIBLE, "%s", text_of(done, "error"));
    if (looks.count == 0)
        return real_end(result, STEP_FAILED, "the agent said nothing while it ran; %s", text_of(done, "error"));
    return real_worse(end, judge_work(work, &looks, done, result));
}

StepEnd watch_spin(const Real *real, json_t *result, Err *err)
{
    return watch_work(real, &spin, result, err);
}

StepEnd watch_launch(const Real *real, json_t *result, Err *err)
{
    return watch_work(real, &launch, result, err);
}

StepEnd watch_copy(const Real *real, json_t *result, Err *err)
{
    return watch_work(real, &copy, result, err);
}

StepEnd watch_matmul(const Real *real, json_t *result, Err *err)
{
    return watch_work(real, &matmul, result, err);
}

StepEnd watch_holder(const Real *real, json_t *result, Err *err)
{
    return watch_work(real, &holder, result, err);
}

/* --- Stoker's own tests ------------------------------------------------------------------------------------------- */

static StepEnd run_bench(const Real *real, const char *rung, const char *pci, json_t *result)
{
    CLEANUP(str_done) Str file = str_limited(4096), out = str_limited(REAL_TEXT_MAX);
    char *save = NULL;
    Err err = {0};
    int code = -1;

    str_addf(&file, "%s/bench-%s.json", real->out, rung);
    const char *const argv[] = {"stoker", "bench",     rung,          "--gpu",    pci,       "--limit",
                                "90s",    "--control", real->control, "--output", file.text, NULL};
    command_run_own(real, argv, BENCH_MS, &out, &code, &err);
    real_add_line(result, "stoker bench %s: exit code %d %s", rung, code, err.text);
    for (char *line = strtok_r(out.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        real_add_line(result, "    %s", line);
    return code == 0 ? STEP_OK : code == 1 ? STEP_FINDING : STEP_FAILED;
}

StepEnd watch_bench(const Real *real, json_t *result, Err *err)
{
    char pci[64] = "";

    if (choose_gpu(real, pci, err) < 0)
        return real_end(result, STEP_IMPOSSIBLE, "no GPU without a process and without MIG: %s", err->text);
    const StepEnd end = real_worse(run_bench(real, "ready", pci, result), run_bench(real, "roof", pci, result));
    return real_end(result, end,
                    end == STEP_OK        ? "the GPU is fit"
                    : end == STEP_FINDING ? "something of it is slow or wrong"
                                          : "it could not be told");
}
