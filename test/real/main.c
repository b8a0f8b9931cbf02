/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker-real: measures Stoker on a machine with NVIDIA's driver, unattended. Runs the steps in their order, each in a
 * process of its own that is killed at its deadline, and writes results.json and report.txt after each, so that a run
 * that is cut short leaves what it had. The last step is run in every case: it looks whether a setting changed.
 */
#include "real.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "verbs.h"

enum {
    BUDGET_S = 560, /* of a whole run: ten minutes with room for unpacking */
    LAST_S = 15,    /* of that, kept for the last step */
    RESULT_MAX = 64 << 20,
    WAIT_STEP_MS = 20,
};

enum {
    STARTS_AGENT = 1, /* before the step begins */
    ALWAYS = 2,       /* even where the time is used up */
};

typedef struct Step {
    const char *name, *about;
    StepEnd (*run)(const Real *real, json_t *result, Err *err);
    unsigned int deadline_s;
    unsigned int flags;
} Step;

static const Step steps[] = {
    {"machine", "what this machine is", library_read_machine, 30, ALWAYS},
    {"settings", "the settings before anything is done", library_read_settings, 20, ALWAYS},
    {"record", "all that the driver's library answers", verbs_record, 100, 0},
    {"calls", "times of the library's calls", library_measure_calls, 60, 0},
    {"alone", "status, top and check without an agent", verbs_run_alone, 45, 0},
    {"cost-1hz", "cost of one sample a second", cost_of_1hz, 50, 0},
    {"cost-10hz", "cost of ten samples a second", cost_of_10hz, 50, 0},
    {"cost-default", "cost as shipped, with a scrape a second", cost_as_shipped, 50, 0},
    {"agent", "an agent starts", verbs_await_agent, 30, STARTS_AGENT},
    {"verbs", "status, top and check with the agent", verbs_run_asking, 30, 0},
    {"compare", "Stoker beside nvidia-smi", compare_read_idle, 60, 0},
    {"gpm", "GPM beside nvidia-smi dmon and NVML", compare_read_gpm_idle, 40, 0},
    {"spin", "a kernel of one block that spins", watch_spin, 110, 0},
    {"launch", "one tiny kernel after another", watch_launch, 110, 0},
    {"copy", "a memory copy", watch_copy, 110, 0},
    {"matmul", "matrix products on tensor cores", watch_matmul, 110, 0},
    {"holder", "a process that holds memory and does nothing", watch_holder, 110, 0},
    {"bench", "active tests of the GPU", watch_bench, 210, 0},
    {"events", "what the agent noticed in all this", verbs_read_events, 20, 0},
    {"settings-after", "the settings are as before", library_compare_settings, LAST_S, ALWAYS},
};

static FILE *progress; /* for who looks on */

static const char *const end_words[] = {"ok", "finding", "not possible", "failed"};

/* --- what steps share --------------------------------------------------------------------------------------------- */

uint64_t real_paced(const Real *real, uint64_t ms)
{
    const double paced = (double)ms * real->pace;

    return paced < 1000 ? 1000 : (uint64_t)paced;
}

const json_t *real_result(const Real *real, const char *step)
{
    const json_t *list = json_object_get(real->root, "steps"), *one;
    size_t i;

    json_array_foreach(list, i, one) if (strcmp(json_string_value(json_object_get(one, "name")), step) == 0) return one;
    return NULL;
}

void real_add_line(json_t *result, const char *fmt, ...)
{
    CLEANUP(str_done) Str line = str_limited(4096);
    json_t *lines = json_object_get(result, "lines");
    va_list args;

    va_start(args, fmt);
    str_addv(&line, fmt, args);
    va_end(args);
    if (!lines) {
        lines = json_array();
        json_object_set_new(result, "lines", lines);
    }
    json_array_append_new(lines, json_string(line.text));
}

StepEnd real_end(json_t *result, StepEnd end, const char *fmt, ...)
{
    CLEANUP(str_done) Str text = str_limited(2048);
    va_list args;

    va_start(args, fmt);
    str_addv(&text, fmt, args);
    va_end(args);
    json_object_set_new(result, "text", json_string(text.text));
    return end;
}

StepEnd real_worse(StepEnd a, StepEnd b)
{
    return a > b ? a : b;
}

/* --- one step ----------------------------------------------------------------------------------------------------- */

static void run_child(const Real *real, const Step *step, int fd)
{
    json_t *result = json_object();
    Err err = {0};
    StepEnd end;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    end = step->run(real, result, &err);
    if (err.code < 0 && !json_object_get(result, "text"))
        json_object_set_new(result, "text", json_string(err.text));
    json_object_set_new(result, "status", json_string(end_words[end]));
    _exit(json_dumpfd(result, fd, JSON_COMPACT) == 0 ? 0 : 1);
}

static json_t *read_result(int fd)
{
    json_t *result = lseek(fd, 0, SEEK_SET) == 0 ? json_loadfd(fd, 0, NULL) : NULL;

    return result ? result : json_object();
}

/* Waits for a child until the deadline and kills it then. Its wait status; -1: it was killed here. */
static int await_child(pid_t pid, double deadline_s)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if ((double)(clock_monotonic(clock_kernel()) - start) > deadline_s * 1e9) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            for (int i = 0; i < 100 && waitpid(pid, &status, WNOHANG) == 0; i++)
                clock_sleep(clock_kernel(), WAIT_STEP_MS * NS_PER_MS);
            return -1; /* one in state D is left behind: the parent goes on */
        }
        clock_sleep(clock_kernel(), WAIT_STEP_MS * NS_PER_MS);
    }
    return status;
}

static json_t *run_step(const Real *real, const Step *step, double deadline_s)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    CLEANUP_FD int fd = memfd_create("result", MFD_CLOEXEC);
    json_t *result;
    int status;
    pid_t pid;

    pid = fd >= 0 ? fork() : -1;
    if (pid == 0)
        run_child(real, step, fd);
    status = pid > 0 ? await_child(pid, deadline_s) : 1;
    result = pid > 0 ? read_result(fd) : json_object();
    if (status == -1) {
        json_object_set_new(result, "status", json_string("timed out"));
        real_end(result, STEP_FAILED, "not done after %.0f s: killed", deadline_s);
    } else if (!json_object_get(result, "status")) {
        json_object_set_new(result, "status", json_string("failed"));
        if (pid < 0)
            real_end(result, STEP_FAILED, "no process could be started: %s", strerror(errno));
        else
            real_end(result, STEP_FAILED, "its process ended without a result: %s %d",
                     WIFSIGNALED(status) ? "signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    json_object_set_new(result, "name", json_string(step->name));
    json_object_set_new(result, "about", json_string(step->about));
    json_object_set_new(result, "seconds",
                        json_real(round((double)(clock_monotonic(clock_kernel()) - start) / 1e8) / 10));
    return result;
}

static json_t *skip_step(const Step *step)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i}", "name", step->name, "about", step->about, "status", "not reached",
                     "text", "the run's time was used up", "seconds", 0);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void add_report(Str *out, const json_t *root)
{
    const json_t *list = json_object_get(root, "steps"), *step, *line;
    size_t i, k;

    str_addf(out, "Stoker on a real machine, %s, driver %s\n\n", text_of(root, "date"), text_of(root, "driver"));
    json_array_foreach(list, i, step)
        str_addf(out, "%-14s %-12s %5.1f s  %s\n", text_of(step, "name"), text_of(step, "status"),
                 json_number_value(json_object_get(step, "seconds")), text_of(step, "text"));
    json_array_foreach(list, i, step)
    {
        str_addf(out, "\n== %s: %s (%s) ==\n%s\n", text_of(step, "name"), text_of(step, "about"),
                 text_of(step, "status"), text_of(step, "text"));
        json_array_foreach(json_object_get(step, "lines"), k, line) str_addf(out, "  %s\n", json_string_value(line));
    }
}

/* Lines are what programs printed, with names of users and hosts: they are in the report alone. */
static json_t *copy_without_lines(const json_t *root)
{
    static const char *const inner[] = {"beside", "gpm"};
    json_t *copy = json_deep_copy(root), *step;
    size_t i;

    json_array_foreach(json_object_get(copy, "steps"), i, step)
    {
        json_object_del(step, "lines");
        for (size_t k = 0; k < ARRAY_LEN(inner); k++)
            json_object_del(json_object_get(step, inner[k]), "lines");
    }
    return copy;
}

static int write_results(const Real *real, Err *err)
{
    CLEANUP(str_done) Str report = str_limited(RESULT_MAX);
    json_t *copy = copy_without_lines(real->root);
    CLEANUP_FREE char *text = json_dumps(copy, JSON_INDENT(1) | JSON_REAL_PRECISION(9));

    json_decref(copy);
    add_report(&report, real->root);
    TRY(command_save(real, "report.txt", &report, err));
    str_clear(&report);
    str_add(&report, text);
    return command_save(real, "results.json", &report, err);
}

/* The driver's version is at the top too, where file names and readers look for it. */
static void lift_driver(const Real *real)
{
    const json_t *machine = real_result(real, "machine");
    const json_t *driver = machine ? json_object_get(machine, "driver") : NULL;

    if (driver)
        json_object_set_new(real->root, "driver", json_string(json_string_value(driver)));
}

static int exit_code(const Real *real)
{
    const json_t *list = json_object_get(real->root, "steps"), *step;
    size_t i;

    json_array_foreach(list, i, step) if (strcmp(text_of(step, "status"), "ok") != 0 &&
                                          strcmp(text_of(step, "status"), "not possible") != 0) return 1;
    return 0;
}

static bool is_chosen(const char *chosen, const char *name)
{
    const size_t len = strlen(name);

    for (const char *at = chosen; at && (at = strstr(at, name)); at += len)
        if ((at == chosen || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
            return true;
    return !chosen;
}

/* Steps that are chosen, those that are always run, and the agent's start where a later one asks it. */
static bool is_wanted(const char *chosen, size_t at)
{
    if ((steps[at].flags & ALWAYS) || is_chosen(chosen, steps[at].name))
        return true;
    for (size_t i = at + 1; (steps[at].flags & STARTS_AGENT) && i < ARRAY_LEN(steps); i++)
        if (is_chosen(chosen, steps[i].name))
            return true;
    return false;
}

/* The first word of the list that is no step's name; NULL: all are. */
static const char *find_unknown(const char *chosen)
{
    for (const char *at = chosen; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        bool known = false;

        for (size_t i = 0; i < ARRAY_LEN(steps); i++)
            known = known || (strlen(steps[i].name) == strcspn(at, ",") &&
                              strncmp(steps[i].name, at, strlen(steps[i].name)) == 0);
        if (!known)
            return at;
    }
    return NULL;
}

static int run_all(const Real *real, double budget_s, const char *chosen)
{
    const uint64_t start = clock_monotonic(clock_kernel());
    json_t *list = json_object_get(real->root, "steps");
    Subproc agent[VERBS_COMPANIONS] = {{0}};
    Err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        const double left = budget_s - (double)(clock_monotonic(clock_kernel()) - start) / 1e9 - LAST_S;
        const Step *step = &steps[i];
        json_t *result;

        if (!is_wanted(chosen, i))
            continue;
        if ((step->flags & STARTS_AGENT) && verbs_start_agent(real, agent, &err) < 0)
            fprintf(stderr, "stoker-real: %s\n", err.text);
        if ((step->flags & ALWAYS) || left > 1)
            result = run_step(real, step, (step->flags & ALWAYS) || left > step->deadline_s ? step->deadline_s : left);
        else
            result = skip_step(step);
        json_array_append_new(list, result);
        fprintf(progress, "%-14s %-12s %5.1f s  %s\n", step->name, text_of(result, "status"),
                json_number_value(json_object_get(result, "seconds")), text_of(result, "text"));
        fflush(progress);
        lift_driver(real);
        if (write_results(real, &err) < 0)
            fprintf(stderr, "stoker-real: %s\n", err.text);
    }
    verbs_stop_agent(agent);
    return exit_code(real);
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static const char usage[] =
    "usage: stoker-real [--bin DIR] [--library FILE] [--pace SHARE] [--budget SECONDS] [--steps NAME,...] FOLDER\n"
    "       stoker-real --work KIND --gpu PCI --seconds N\n"
    "\n"
    "Measures Stoker on this machine's GPUs and writes results.json, report.txt and recordings into FOLDER.\n"
    "--pace 0.1 measures for a tenth of the usual time; --budget ends the run early.\n"
    "The second form runs one kernel (spin, launch, copy, matmul, hold) and is what the first one starts.\n"
    "Exit codes: 0 all as meant or not possible here, 1 something is not, 2 the command line is wrong.\n";

typedef struct Options {
    const char *bin, *library, *work, *gpu, *steps, *folder;
    double pace, seconds, budget;
} Options;

static int read_options(int argc, char **argv, Options *o)
{
    static const struct option rows[] = {{"bin", 1, NULL, 'b'},     {"library", 1, NULL, 'l'}, {"pace", 1, NULL, 'p'},
                                         {"budget", 1, NULL, 'B'},  {"work", 1, NULL, 'w'},    {"gpu", 1, NULL, 'g'},
                                         {"seconds", 1, NULL, 's'}, {"steps", 1, NULL, 'S'},   {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", rows, NULL)) >= 0) {
        const char **texts[] = {
            ['b'] = &o->bin, ['l'] = &o->library, ['w'] = &o->work, ['g'] = &o->gpu, ['S'] = &o->steps};
        double *numbers[] = {['p'] = &o->pace, ['B'] = &o->budget, ['s'] = &o->seconds};

        if ((size_t)c < ARRAY_LEN(texts) && texts[c])
            *texts[c] = optarg;
        else if ((size_t)c < ARRAY_LEN(numbers) && numbers[c])
            *numbers[c] = atof(optarg);
        else
            return -1;
    }
    o->folder = optind < argc ? argv[optind] : NULL;
    return o->pace > 0 && o->budget > 0 && (o->work ? o->gpu && o->seconds > 0 : o->folder != NULL) ? 0 : -1;
}

static json_t *make_root(double pace)
{
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return json_pack("{s:i, s:s, s:s, s:f, s:b, s:[]}", "format", 1, "date", date, "driver", "unknown", "pace", pace,
                     "simulated", getenv("STOKER_SIM") != NULL, "steps");
}

static const char *program_dir(char out[4096])
{
    const ssize_t n = readlink("/proc/self/exe", out, 4095);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return slash ? out : ".";
}

/* What the steps and the programs that they start print goes into the folder; `progress` stays where stdout was. */
static int open_log(const char *folder, Err *err)
{
    const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    CLEANUP(str_done) Str path = str_limited(4096);

    str_addf(&path, "%s/log.txt", folder);
    if (!freopen(path.text, "w", stderr))
        return err_errno(err, "open '%s'", path.text);
    setvbuf(stderr, NULL, _IOLBF, 0);
    progress = out >= 0 ? fdopen(out, "w") : NULL;
    if (!progress || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_errno(err, "keep standard output");
    return 0;
}

int main(int argc, char **argv)
{
    Options o = {.library = "libnvidia-ml.so.1", .pace = 1, .budget = BUDGET_S};
    char dir[4096], scratch[] = "/tmp/stoker-real.XXXXXX", control[64], http[64];
    Err err = {0};
    int code;

    if (read_options(argc, argv, &o) < 0) {
        fputs(usage, stderr);
        return 2;
    }
    if (find_unknown(o.steps)) {
        fprintf(stderr, "stoker-real: --steps: no step is called '%s'; they are", find_unknown(o.steps));
        for (size_t i = 0; i < ARRAY_LEN(steps); i++)
            fprintf(stderr, " %s", steps[i].name);
        fputc('\n', stderr);
        return 2;
    }
    if (o.work)
        return work_run(o.work, o.gpu, o.seconds);
    if (file_make_dirs(o.folder, 0755, &err) < 0 || !mkdtemp(scratch) || open_log(o.folder, &err) < 0) {
        fprintf(stderr, "stoker-real: %s\n", err.code ? err.text : "no folder can be made in /tmp");
        return 2;
    }
    snprintf(control, sizeof control, "%s/control.sock", scratch);
    snprintf(http, sizeof http, "%s/http.sock", scratch);
    Real real = {.bin = o.bin ? o.bin : program_dir(dir),
                 .out = o.folder,
                 .scratch = scratch,
                 .library = o.library,
                 .control = control,
                 .http = http,
                 .pace = o.pace,
                 .root = make_root(o.pace)};
    code = run_all(&real, o.budget, o.steps);
    file_remove_tree("/tmp", scratch + strlen("/tmp/"), NULL);
    json_decref(real.root);
    return code;
}
