/* SPDX-License-Identifier: Apache-2.0 */
/* Stoker's own programs on this machine: the recorder, the verbs with and without an agent, and the agent's events. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

enum {
    RECORD_MS = 40 * 1000,
    RECORD_AGAIN_MS = 55 * 1000,
    VERB_MS = 12 * 1000,
    AGENT_READY_MS = 25 * 1000,
    LINES_SHOWN = 60
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* --- the recorder ------------------------------------------------------------------------------------------------- */

/* "in FUNCTION" at the end of what the recorder printed; NULL: it printed none. Points into the text. */
static char *read_function(Str *out)
{
    char *at = out->len > 3 && strncmp(out->text, "in ", 3) == 0 ? out->text + 3 : NULL;

    if (at)
        at[strcspn(at, "\n")] = '\0';
    return at;
}

/* Records; a function in which the recorder crashes or hangs is left out, and it begins again. */
static int record_library(const Real *real, const char *path, Str *without, Err *err)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    const char *argv[] = {"nvml-record", path, real->library, NULL, NULL};
    const char *function;
    int code = 1, rc;

    do {
        CLEANUP(str_done) Str out = str_limited(REAL_TEXT_MAX);

        argv[3] = without->text;
        rc = command_run_own(real, argv, RECORD_MS, &out, &code, err);
        function = rc < 0 || code != 0 ? read_function(&out) : NULL;
        if (function)
            str_addf(without, "%s%s", without->len ? "," : "", function);
    } while (function && clock_monotonic(clock_kernel()) - start < RECORD_AGAIN_MS * NS_PER_MS);
    return rc < 0 ? rc : code == 0 ? 0 : err_set(err, -EIO, "nvml-record ended with %d", code);
}

StepEnd verbs_record_as(const Real *real, const char *suffix, json_t *result, Err *err)
{
    const json_t *earlier = real_result(real, "record");
    CLEANUP(str_done) Str name = str_limited(256);
    CLEANUP(str_done) Str path = str_limited(4096);
    CLEANUP(str_done) Str without = str_limited(4096);
    struct stat file;
    json_t *recording;
    size_t calls;

    str_add(&without, earlier ? text_of(earlier, "without") : "");
    str_addf(&name, "nvml-%s-%.10s%s.json", text_of(real->root, "driver"), text_of(real->root, "date"), suffix);
    str_addf(&path, "%s/%s", real->out, name.text);
    if (record_library(real, path.text, &without, err) < 0)
        return STEP_FAILED;
    recording = json_load_file(path.text, 0, NULL);
    if (!recording || stat(path.text, &file) < 0)
        return real_end(result, STEP_FAILED, "nvml-record left no JSON");
    calls = json_array_size(json_object_get(recording, "calls"));
    json_object_set_new(result, "file", json_string(name.text));
    json_object_set_new(result, "calls", json_integer((json_int_t)calls));
    json_object_set_new(result, "without", json_string(without.text));
    return real_end(result, without.len ? STEP_FINDING : STEP_OK, "%zu answers in %s, %lld kB%s%s", calls, name.text,
                    (long long)file.st_size / 1000, without.len ? "; crashes or hangs: " : "", without.text);
}

StepEnd verbs_record(const Real *real, json_t *result, Err *err)
{
    return verbs_record_as(real, "", result, err);
}

/* --- the verbs ---------------------------------------------------------------------------------------------------- */

/* Runs a verb; its text goes to the report, its code and time to result.verbs. Codes 0 and 1 are answers. */
static StepEnd run_verb(const Real *real, const char *const *argv, json_t *result)
{
    CLEANUP(str_done) Str out = str_limited(REAL_TEXT_MAX);
    const uint64_t start = clock_monotonic(clock_kernel());
    json_t *list = json_object_get(result, "verbs");
    char *save = NULL, *line;
    Err err = {0};
    int code = -1, shown = 0;
    double ms;

    if (!list) {
        list = json_array();
        json_object_set_new(result, "verbs", list);
    }
    command_run_own(real, argv, VERB_MS, &out, &code, &err);
    ms = (double)(clock_monotonic(clock_kernel()) - start) / 1e6;
    json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:f, s:s}", "verb", argv[1], "option", argv[2], "code", code,
                                          "ms", ms, "error", err.text));
    real_add_line(result, "stoker %s %s: exit code %d after %.0f ms %s", argv[1], argv[2], code, ms, err.text);
    for (line = strtok_r(out.text, "\n", &save); line && shown < LINES_SHOWN;
         line = strtok_r(NULL, "\n", &save), shown++)
        real_add_line(result, "    %s", line);
    return code == 0 ? STEP_OK : code == 1 ? STEP_FINDING : STEP_FAILED;
}

/* The verbs that look at the node, each as somebody would type it. `how` and `what` say whom they ask. */
static StepEnd run_verbs(const Real *real, const char *how, const char *what, json_t *result)
{
    const char *const list[][12] = {
        {"stoker", "status", "--all", how, what},
        {"stoker", "top", "--once", "--size", "140x45", how, what},
        {"stoker", "top", "--once", "--view", "processes", "--size", "140x30", how, what},
        {"stoker", "check", "--profile=slurm", "--timeout=10s", how, what},
        {"stoker", "check", "--profile=prolog", "--timeout=10s", how, what},
    };
    StepEnd end = STEP_OK;

    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        end = real_worse(end, run_verb(real, list[i], result));
    return real_end(result, end,
                    end == STEP_OK        ? "all say that the node is well"
                    : end == STEP_FINDING ? "they answer, and find something wrong"
                                          : "one of them could not tell");
}

StepEnd verbs_run_alone(const Real *real, json_t *result, Err *err)
{
    (void)err;
    return run_verbs(real, "--alone", NULL, result);
}

StepEnd verbs_run_asking(const Real *real, json_t *result, Err *err)
{
    (void)err;
    return run_verbs(real, "--control", real->control, result);
}

/* --- the agent ---------------------------------------------------------------------------------------------------- */

int verbs_start_agent(const Real *real, Subproc ret[VERBS_COMPANIONS], Err *err)
{
    CLEANUP(str_done) Str program = str_limited(4096);
    CLEANUP(str_done) Str file = str_limited(4096);
    CLEANUP(str_done) Str counters = str_limited(65536);
    CLEANUP(str_done) Str csv = str_limited(4096);
    const char *options[] = {"--collectors", NULL, NULL};
    const char *top[] = {program.text, "top", "--record", NULL, "--control", real->control, NULL};
    const SubprocSpec spec = {.argv = top, .die_with_us = true};

    compare_add_counters(&counters);
    str_addf(&csv, "%s/counters.csv", real->scratch);
    TRY(file_write(csv.text, counters.text, counters.len, 0644, err));
    options[1] = csv.text;
    TRY(command_start_agent(real, options, &ret[0], err));
    str_addf(&program, "%s/stoker", real->bin);
    str_addf(&file, "%s/top.json.gz", real->out);
    top[0] = program.text;
    top[3] = file.text;
    for (int i = 0; i < 50 && access(real->control, F_OK) < 0; i++) /* else it would look for itself */
        clock_sleep(clock_kernel(), 100 * NS_PER_MS);
    return subproc_start(&spec, &ret[1], err);
}

void verbs_stop_agent(Subproc companions[VERBS_COMPANIONS])
{
    SubprocEnd end;

    for (int i = VERBS_COMPANIONS - 1; i >= 0; i--) {
        if (companions[i].pid > 0)
            subproc_stop(&companions[i], 3000, &end, NULL);
        subproc_done(&companions[i]);
    }
}

static bool has_samples(const json_t *gpus)
{
    const json_t *gpu;
    size_t i;

    json_array_foreach(gpus, i, gpu) if (strcmp(text_of(gpu, "state"), "up") != 0 ||
                                         !json_object_get(gpu, "last_sample_age_seconds")) return false;
    return json_array_size(gpus) > 0;
}

StepEnd verbs_await_agent(const Real *real, json_t *result, Err *err)
{
    const uint64_t start = clock_monotonic(clock_kernel());

    while (clock_monotonic(clock_kernel()) - start < AGENT_READY_MS * NS_PER_MS) {
        json_t *status = access(real->control, F_OK) == 0 ? command_ask_agent(real, err) : NULL;
        const json_t *gpus = json_object_get(json_object_get(status, "node"), "gpus");
        const size_t count = json_array_size(gpus);
        const bool ready = has_samples(gpus);

        json_decref(status);
        if (ready)
            return real_end(result, STEP_OK, "%zu GPUs have samples %.1f s after the first question", count,
                            (double)(clock_monotonic(clock_kernel()) - start) / 1e9);
        clock_sleep(clock_kernel(), 200 * NS_PER_MS);
    }
    return real_end(result, STEP_FAILED, "no samples of all GPUs within %d s: %s", AGENT_READY_MS / 1000,
                    err->code ? err->text : "the agent answers, and log.txt says why");
}

StepEnd verbs_read_events(const Real *real, json_t *result, Err *err)
{
    json_t *status = command_ask_agent(real, err);
    const json_t *incidents = json_object_get(status, "incidents"), *one;
    size_t i, count = json_array_size(incidents);

    if (!status)
        return STEP_FAILED;
    json_array_foreach(incidents, i, one)
        real_add_line(result, "incident: %s: %s", text_of(one, "class"), text_of(one, "title"));
    json_object_set_new(result, "incidents", json_integer((json_int_t)count));
    json_decref(status);
    return real_end(result, count ? STEP_FINDING : STEP_OK, "%zu open incidents after all this", count);
}
