/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays the scenarios in process, under a clock that is pushed: simulated driver, samplers, board, view, detectors and
 * incidents are the agent's own; what the agent concludes is held against each scenario's truth. What is planted must
 * be found with its cause, action and route, and nothing else may be told. Where a scenario says whose the time of its
 * GPUs is, the ledger of each second is held against that. One process per scenario.
 *
 *     truths SCENARIOS BOARDS LIBRARIES SAMPLER [--save FOLDER] [NAME...]    LIBRARIES holds r535, r550, r590, r610
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/node/node.h"
#include "sim/scenario/scenario.h"
#include "test/scenario/truths/clock.h"
#include "test/scenario/truths/samplers.h"
#include "test/scenario/truths/whose.h"
#include "engine/activity/activity.h"
#include "verb/agent/triage.h"

#define STEP_NS NS_PER_S
#define LATE_NS (15 * NS_PER_MIN) /* longest `for` of a class, and the time that detectors look back */
#define MOST_NS (40 * NS_PER_MIN) /* of a scenario without faults, so much is played at most */
#define SETTLE_NS NS_PER_MIN      /* then the word stands, and never changes */
#define BOOT_US UINT64_C(100000000)
#define LIMIT_S 240 /* real seconds for one scenario, after which it hangs */

/* What a job's truth means for the activity of its GPUs: a minute after the truth's time it is this word each second.
 */
static const struct {
    const char *class;
    ActivityWord word;
    ActivityCause cause, or_cause;
} job_activities[] = {
    {"starved", ACTIVITY_WAITING, ACTIVITY_CAUSE_INPUT, ACTIVITY_CAUSE_INPUT},
    {"tiny-kernels", ACTIVITY_WAITING, ACTIVITY_CAUSE_LAUNCHES, ACTIVITY_CAUSE_LAUNCHES},
    {"hung-collective", ACTIVITY_WAITING, ACTIVITY_CAUSE_COLLECTIVE, ACTIVITY_CAUSE_OTHER_RANK},
    {"idle-memory", ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE, ACTIVITY_CAUSE_NONE},
    {"memory-bound", ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE, ACTIVITY_CAUSE_NONE},
    {"no-tensor-cores", ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE, ACTIVITY_CAUSE_NONE},
};

enum { SEEN_MAX = 512, WHY_CAP = 4096, JOBS_MAX = 64 };

/* What is not played, and why. */
static const struct {
    const char *name, *why;
} left_out[] = {
    {"a-bad-week", "days; test_long plays them"},
    {"slow-driver", "driver calls sleep in real time"},
    {"slow-calls-one-gpu", "driver calls sleep in real time"},
    {"hung-driver-call", "a driver call that hangs would hang this process"},
};

/* Asked once an hour, or a trend that needs one. */
static const struct {
    const char *name;
    uint64_t later_ns;
} later[] = {{"inforom-corrupt", NS_PER_H}, {"leaking-memory", NS_PER_H}};

static const struct {
    const char *name, *option, *value;
} extra[] = {{"gpu-missing-after-boot", "--gpus-expected", "8"},
             {"log-unreadable", "--journalctl", "/nowhere/journalctl"}};

typedef struct Play {
    Arena arena;
    const Scenario *scenario;
    SimImage *image;
    NodeTree tree;
    KernelLog log;
    Log agent_log;
    uv_loop_t loop;
    AgentConfig *config;
    Sampling sampling;
    Store *store;
    Triage triage;
    Activities *activities;
    Whose *whose; /* NULL: the scenario says nothing of owners */
    uint64_t time_ns; /* since the start */
    int wrong_activities;
    Incident seen[SEEN_MAX]; /* each as it was last */
    size_t seen_count;
    bool met[SCENARIO_TRUTHS_MAX]; /* truths for which an incident stood with their verdict, at some time */
} Play;

typedef struct Paths {
    const char *scenarios[2], *boards[2], *libraries, *sampler, *save;
} Paths;

/* --- a scenario's run --- */

static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    exit(1);
}

static void build_node(Play *play, const Paths *paths, const char *name, const char *folder)
{
    CLEANUP(board_set_done) BoardSet boards;
    Err err = {0};
    const char *image = arena_printf(&play->arena, "%s/node.img", folder);
    const char *root = arena_printf(&play->arena, "%s/tree", folder);
    KernelLogSpec log = {
        .path = arena_printf(&play->arena, "%s/dev/kmsg", root), .format = KERNEL_LOG_KMSG, .boot_us = BOOT_US};

    board_set_init(&boards, paths->boards);
    if (scenario_load(paths->scenarios, name, &boards, &play->arena, &play->scenario, &err) < 0 ||
        scenario_build(play->scenario, &(ScenarioBuild){0}, image, &play->image, &err) < 0 ||
        node_tree_write(play->image, root, 0, 0, &play->tree, &err) < 0 ||
        file_make_dirs(arena_printf(&play->arena, "%s/dev", root), 0755, &err) < 0)
        fail("%s", err.text);
    unlink(log.path);
    if (kernel_log_open(&play->log, play->image, &log, &err) < 0)
        fail("%s", err.text);
    setenv("STOKER_SIM", image, 1);
    setenv("STOKER_ROOT", root, 1);
    play->whose = whose_new(play->scenario, play->image, root);
}

static void open_agent(Play *play, const Paths *paths, const char *name)
{
    char *library = arena_printf(&play->arena, "%s/r%u/libnvidia-ml.so.1", paths->libraries, play->image->generation);
    char *argv[20] = {"agent",
                      "--journal",
                      "none",
                      "--driver-library",
                      library,
                      "--sample-fast",
                      "1s",
                      "--sample-normal",
                      "2s",
                      "--sample-slow",
                      "10s",
                      "--sample-blocking",
                      "60s",
                      "--sampler-program",
                      (char *)(uintptr_t)paths->sampler};
    int argc = 15;
    BoardPlan plan = {0};
    Err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(extra); i++)
        if (strcmp(extra[i].name, name) == 0) {
            argv[argc++] = (char *)(uintptr_t)extra[i].option;
            argv[argc++] = (char *)(uintptr_t)extra[i].value;
        }
    uv_loop_init(&play->loop);
    log_init(&play->agent_log, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, "stoker", clock_kernel());

    if (agent_config_load(argc, argv, NULL, &play->config, &err) < 0)
        fail("%s", err.text);
    play->store = store_new(play->config->o.history_series);
    if (sampling_open(&play->sampling, &play->loop, play->config, &play->agent_log, &err) < 0 ||
        triage_open(&play->triage, &play->loop, play->config, &play->sampling, play->store, &play->agent_log, &err) < 0)
        fail("%s", err.text);
    triage_add_wanted(&play->triage, &plan);
    activities_add_wanted(plan.wanted);
    play->activities = activities_new();
    memcpy(plan.period_ns, play->config->exporter.period_ns, sizeof plan.period_ns);
    board_set_plan(play->sampling.board, &plan);
}

/* --- its truth --- */

static bool is_told(const Incident *incident)
{
    return incident->route != ROUTE_NONE;
}

static bool fits(const Play *play, const Incident *incident, const ScenarioTruth *truth)
{
    const uint64_t all = play->scenario->gpu_count >= 64 ? UINT64_MAX : (UINT64_C(1) << play->scenario->gpu_count) - 1;
    const bool none = incident->device.index == DEVICE_NO_NUMBER;

    if (strcmp(incident->class, truth_class_name(truth->fault)) != 0)
        return false;
    if (none)
        return truth->gpus == 0 || truth->gpus == all || strcmp(incident->class, "gpu-missing") == 0;
    return incident->device.index < 64 && truth->gpus >> incident->device.index & 1;
}

static void list_seen(const Play *play)
{
    for (size_t i = 0; i < play->seen_count; i++) {
        const Incident *in = &play->seen[i];

        printf("  seen: %s, gpu %d, code %d, %s, %s, route %s, %s, ended: %s: %s\n", in->class, (int)in->device.index,
               in->code, fault_causes[in->cause].key, fault_actions[in->action].key, fault_routes[in->route].key,
               incident_states[in->state].key, incident_ends[in->end].key, in->title);
    }
}

static bool has_code(const Incident *incident, int32_t code)
{
    for (uint32_t i = 0; i < incident->code_count; i++)
        if (incident->codes[i] == code)
            return true;
    return false;
}

static bool differs(const Incident *incident, const ScenarioTruth *truth)
{
    return strcmp(fault_causes[incident->cause].key, truth_cause_name(truth->cause)) != 0 ||
           strcmp(fault_actions[incident->action].key, truth_action_name(truth->action)) != 0 ||
           strcmp(fault_routes[incident->route].key, truth_route_name(truth->route)) != 0;
}

/* Whether the incident is what the truth says. */
static bool answers(const Play *play, const Incident *incident, const ScenarioTruth *truth)
{
    return fits(play, incident, truth) && !differs(incident, truth) &&
           (truth->xid == 0 || has_code(incident, (int32_t)truth->xid));
}

static void keep_seen(Play *play)
{
    for (size_t i = 0; i < incidents_count(play->triage.incidents); i++) {
        const Incident *now = incidents_at(play->triage.incidents, i);
        size_t k = 0;

        if (now->state == INCIDENT_PENDING)
            continue;
        while (k < play->seen_count && strcmp(play->seen[k].id, now->id) != 0)
            k++;
        if (k == SEEN_MAX)
            fail("more than %d incidents", SEEN_MAX);
        play->seen[k] = *now;
        play->seen_count += k == play->seen_count;
    }
}

static void note_met(Play *play)
{
    for (size_t k = 0; k < play->scenario->truth_count; k++)
        for (size_t i = 0; i < play->seen_count && !play->met[k]; i++)
            play->met[k] = answers(play, &play->seen[i], &play->scenario->truths[k]);
}

/* What lies around the driver: /proc, /sys and the kernel log. */
static void tend_node(Play *play)
{
    const uint64_t now = sim_clock_now(play->image);
    Err err = {0};

    if (node_tree_update(&play->tree, now, &err) < 0 || kernel_log_write(&play->log, now, NULL, &err) < 0)
        fail("%s", err.text);
}

static void check_job(Play *play, const NodeGpu *gpu, const ScenarioTruth *truth)
{
    const Activity *a = &gpu->activity;
    const uint32_t index = gpu->reading.device.index;
    size_t i = 0;

    while (i < ARRAY_LEN(job_activities) && strcmp(truth_class_name(truth->fault), job_activities[i].class) != 0)
        i++;
    if (i == ARRAY_LEN(job_activities) || play->time_ns <= truth->from_ns + SETTLE_NS || !(truth->gpus >> index & 1))
        return;
    if (a->word == job_activities[i].word &&
        (a->cause == job_activities[i].cause || a->cause == job_activities[i].or_cause ||
         a->basis == ACTIVITY_BASIS_UTILIZATION)) /* utilisation tells no cause */
        return;
    if (job_activities[i].cause == ACTIVITY_CAUSE_COLLECTIVE &&
        (a->word == ACTIVITY_FREE || a->word == ACTIVITY_UNUSABLE)) /* the rank that the others wait for */
        return;
    if (play->wrong_activities++ == 0)
        printf("  GPU %u, %s, is %s (%s) after %llu s: %s\n", index, job_activities[i].class, activity_words[a->word].key,
               activity_causes[a->cause].key, (unsigned long long)(play->time_ns / NS_PER_S), a->text);
}

/* A GPU that a fatal incident takes out of use is unusable, and no other is; a job's truth is its GPUs' word. */
static void check_activity(Play *play, const NodeGpu *gpu, const Snapshot *snapshot)
{
    const Activity *a = &gpu->activity;
    bool fatal = false;

    for (size_t i = 0; i < snapshot->incident_count; i++)
        fatal |= incident_use(snapshot->incidents[i]) == INCIDENT_USE_NONE &&
                 incident_hits(snapshot->incidents[i], &gpu->reading.device);
    if ((fatal && a->word != ACTIVITY_UNUSABLE) || (a->word == ACTIVITY_UNUSABLE && !a->incident[0])) {
        if (play->wrong_activities++ == 0)
            printf("  GPU %u is %s\n", gpu->reading.device.index, activity_words[a->word].key);
    }
    for (size_t k = 0; k < play->scenario->truth_count; k++)
        check_job(play, gpu, &play->scenario->truths[k]);
}

static void decide_activities(Play *play, const Node *node)
{
    const Incident *open[INCIDENTS_MAX];
    Snapshot snapshot = {.node = node, .incidents = open, .processes = host_processes(play->triage.host),
                         .allocations = play->triage.declared.allocations};

    for (size_t i = 0; i < incidents_count(play->triage.incidents); i++)
        if (incidents_at(play->triage.incidents, i)->state == INCIDENT_OPEN)
            open[snapshot.incident_count++] = incidents_at(play->triage.incidents, i);
    store_add_node(play->store, node);
    activities_update(play->activities, &snapshot, play->store);
    for (size_t i = 0; i < node->gpu_count; i++)
        check_activity(play, &node->gpus[i], &snapshot);
}

static void check_owners(Play *play, const Node *node)
{
    holdings_decide_states(play->triage.holdings, node);
    whose_tick(play->whose, node, play->triage.holdings, play->time_ns);
}

static void play_second(Play *play)
{
    const Node *node;

    play->time_ns += STEP_NS;
    advance_clocks(STEP_NS);
    sim_clock_advance(play->image, STEP_NS);
    tend_node(play);
    samplers_turn();
    for (int i = 0; i < 3; i++)
        uv_run(&play->loop, UV_RUN_NOWAIT);
    node = sampling_read(&play->sampling);
    if (play->whose)
        whose_declare(play->whose, node, play->time_ns, &play->triage.declared);
    triage_tick(&play->triage, node);
    decide_activities(play, node);
    if (play->whose)
        check_owners(play, node);
    keep_seen(play);
    note_met(play);
}

/* Truths of classes that the catalogue has not yet (what a job does) are not held here. */
static bool is_held(const Play *play, const ScenarioTruth *truth)
{
    return catalogue_class(play->triage.catalogue, truth_class_name(truth->fault)) != NULL;
}

/* Returns how many complaints were printed. */
static int check_truths(const Play *play)
{
    int wrong = 0;

    for (size_t k = 0; k < play->scenario->truth_count; k++) {
        const ScenarioTruth *truth = &play->scenario->truths[k];

        if (is_held(play, truth) && !play->met[k]) {
            printf("  not found: %s, %s, %s, route %s\n", truth_class_name(truth->fault),
                   truth_cause_name(truth->cause), truth_action_name(truth->action), truth_route_name(truth->route));
            wrong++;
        }
    }
    return wrong;
}

/* What is told in the end is planted, with the verdict of one of the truths about it. */
static int check_incidents(const Play *play)
{
    int wrong = 0;

    for (size_t i = 0; i < play->seen_count; i++) {
        const Incident *incident = &play->seen[i];
        bool planted = !is_told(incident) || incident->end == INCIDENT_END_MERGED;

        for (size_t k = 0; k < play->scenario->truth_count && !planted; k++)
            planted = is_held(play, &play->scenario->truths[k]) && fits(play, incident, &play->scenario->truths[k]) &&
                      !differs(incident, &play->scenario->truths[k]);
        if (!planted) {
            printf("  told, but not planted so: %s\n", incident->title);
            wrong++;
        }
    }
    return wrong;
}

/* How long it is played, in virtual time. */
static uint64_t length_ns(const Play *play, const char *name)
{
    uint64_t last = 0, extra_ns = 0;
    bool any = false;

    for (size_t i = 0; i < play->scenario->truth_count; i++)
        if (is_held(play, &play->scenario->truths[i])) {
            any = true;
            if (play->scenario->truths[i].from_ns > last)
                last = play->scenario->truths[i].from_ns;
        }
    for (size_t i = 0; !any && i < play->scenario->truth_count; i++)
        if (play->scenario->truths[i].from_ns > last)
            last = play->scenario->truths[i].from_ns;
    for (size_t i = 0; !any && i < play->scenario->op_count; i++)
        if (play->scenario->ops[i].op.t_ns > last)
            last = play->scenario->ops[i].op.t_ns;
    for (size_t i = 0; i < ARRAY_LEN(later); i++)
        if (strcmp(later[i].name, name) == 0)
            extra_ns = later[i].later_ns;
    if (!any && last > MOST_NS)
        last = MOST_NS;
    if (play->whose)
        return last + NS_PER_MIN;
    return last + LATE_NS + extra_ns;
}

static void save_seen(const Play *play, const char *folder, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    if (!freopen(path, "w", stdout))
        fail("write '%s': %s", path, strerror(errno));
    list_seen(play);
    fflush(stdout);
}

/* In a process of its own; ends it. */
static void play_scenario(const Paths *paths, const char *name, const char *folder)
{
    static Play play;
    int wrong;

    alarm(LIMIT_S);
    stop_clocks();
    arena_init(&play.arena, 64 << 10);
    build_node(&play, paths, name, folder);
    tend_node(&play);
    open_agent(&play, paths, name);
    for (uint64_t t = 0, end = length_ns(&play, name); t < end; t += STEP_NS)
        play_second(&play);
    wrong = check_truths(&play) + check_incidents(&play) + play.wrong_activities + (play.whose ? whose_end(play.whose) : 0);
    if (wrong)
        list_seen(&play);
    if (paths->save)
        save_seen(&play, paths->save, name);
    fflush(NULL);
    _exit(wrong ? 1 : 0); /* what it holds is the kernel's to free */
}

/* --- all of them --- */

typedef struct Job {
    pid_t pid; /* 0: unused */
    const char *name;
    char folder[64];
    FILE *output;
} Job;

static void start_job(Job *job, const Paths *paths, const char *name)
{
    *job = (Job){.name = name};
    snprintf(job->folder, sizeof job->folder, "%s/truths.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(job->folder))
        fail("make '%s': %s", job->folder, strerror(errno));
    job->output = tmpfile();
    if (!job->output)
        fail("make a file for output: %s", strerror(errno));
    fflush(stdout);
    job->pid = fork();
    if (job->pid == 0) {
        dup2(fileno(job->output), STDOUT_FILENO);
        play_scenario(paths, name, job->folder);
    }
}

/* TAP of one that ended. Returns whether it passed. */
static bool end_job(Job *job, int status, int number)
{
    const bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const char *slash = strrchr(job->folder, '/');
    char line[1024];

    printf("%sok %d - %s\n", passed ? "" : "not ", number, job->name);
    if (WIFSIGNALED(status))
        printf("# ended by signal %d\n", WTERMSIG(status));
    rewind(job->output);
    while (!passed && fgets(line, sizeof line, job->output))
        printf("# %s", line);
    fclose(job->output);
    fflush(stdout);
    *strrchr(job->folder, '/') = '\0';
    file_remove_tree(job->folder, slash + 1, NULL);
    job->pid = 0;
    return passed;
}

static const char *why_left_out(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
        if (strcmp(left_out[i].name, name) == 0)
            return left_out[i].why;
    return NULL;
}

static bool wait_for_one(Job *jobs, int *number)
{
    int status;
    const pid_t pid = wait(&status);

    for (size_t i = 0; i < JOBS_MAX; i++)
        if (jobs[i].pid == pid)
            return end_job(&jobs[i], status, ++*number);
    return true;
}

static int play_all(const Paths *paths, const char *const *names, size_t count)
{
    static Job jobs[JOBS_MAX];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t running = 0;
    int number = 0, failed = 0;

    printf("1..%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        const char *why = why_left_out(names[i]);

        if (why) {
            printf("ok %d - %s # SKIP %s\n", ++number, names[i], why);
            continue;
        }
        if (running == (size_t)cores || running == JOBS_MAX) {
            failed += !wait_for_one(jobs, &number);
            running--;
        }
        for (size_t k = 0; k < JOBS_MAX; k++)
            if (!jobs[k].pid) {
                start_job(&jobs[k], paths, names[i]);
                break;
            }
        running++;
    }
    for (; running > 0; running--)
        failed += !wait_for_one(jobs, &number);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    CLEANUP(arena_done) Arena arena;
    Paths paths = {0};
    size_t count;

    arena_init(&arena, 64 << 10);
    if (argc < 5) {
        fprintf(stderr, "usage: %s SCENARIOS BOARDS LIBRARIES SAMPLER [--save FOLDER] [NAME...]\n", argv[0]);
        return 2;
    }
    paths.scenarios[0] = argv[1];
    paths.boards[0] = argv[2];
    paths.libraries = argv[3];
    paths.sampler = argv[4];
    argc -= 5;
    argv += 5;
    if (argc >= 2 && strcmp(argv[0], "--save") == 0) {
        paths.save = argv[1];
        argc -= 2;
        argv += 2;
    }
    if (argc > 0)
        return play_all(&paths, (const char *const *)argv, (size_t)argc);
    const char *const *names = library_names(paths.scenarios, &arena, &count);
    return play_all(&paths, names, count);
}
