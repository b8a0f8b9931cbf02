/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays the scenarios in process, under a clock that is pushed: simulated driver, samplers, board, view, detectors and
 * incidents are the agent's own; what the agent concludes is held against each scenario's truth. What is planted must
 * be found with its cause, action and route, and nothing else may be told. Where a scenario says whose the time of its
 * GPUs is, the ledger of each second is held against that. `why` tells checkpoints where they are planted, and nowhere
 * else. One process per scenario.
 *
 * With --restarts the agent has a journal and is ended at random moments, by SIGKILL or as SIGTERM ends it; the next
 * one comes up to a minute later, with that journal or a fresh one. Sometimes all GPUs are reset while none runs, also
 * before the first one. What an agent tells has to be planted, and what a reset repairs must not stand behind it.
 *
 * With --late-loop the agent's loop turns at every seventh tick alone, as after a stall: what waits in it is older than
 * the ticks.
 *
 * A scenario is played for LATE_NS behind its last truth, in which nothing false may be told. With --soon it ends five
 * minutes behind it, if all that is planted was found, and only every Nth scenario is played.
 *
 *     truths SCENARIOS BOARDS LIBRARIES SAMPLER [--save FOLDER | --restarts SEED | --late-loop | --soon N] [NAME...]
 *
 * LIBRARIES holds r535, r550, r590, r610.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/file.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/node/node.h"
#include "sim/scenario/scenario.h"
#include "test/scenario/truths/clock.h"
#include "test/scenario/truths/samplers.h"
#include "test/scenario/truths/whose.h"
#include "test/unit/memory_folder.h"
#include "engine/activity/activity.h"
#include "engine/why/why.h"
#include "verb/agent/triage.h"

#define STEP_NS NS_PER_S
#define LATE_NS (15 * NS_PER_MIN) /* longest `for` of a class, and the time that detectors look back */
#define SOON_NS (10 * NS_PER_MIN) /* of these, what --soon leaves out */
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

/* An incident as it was last, and by which of the agents that came one after another. */
typedef struct Seen {
    Incident incident;
    int agent;
} Seen;

/* What was done to the agents of a scenario. */
typedef struct Restarts {
    int kills, stops, fresh; /* SIGKILL, SIGTERM; of those, followed by a journal that is empty */
    int repairs, early;      /* all GPUs were reset while no agent ran; of those, before the first one */
    int pages, tickets;      /* false ones */
} Restarts;

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
    Catalogue *catalogue;
    const char *journal;
    Activities *activities;
    Whys *whys;
    Whose *whose;     /* NULL: the scenario says nothing of owners */
    uint64_t time_ns; /* since the start */
    int wrong_activities;
    Seen seen[SEEN_MAX];
    size_t seen_count;
    int agent;            /* counts those that were started, where they are restarted; else 0 */
    uint64_t repaired_ns; /* all GPUs were reset at this time; 0: never */
    uint64_t earlier_ns;  /* and the time before that */
    uint64_t draw;        /* of random moments */
    Restarts restarts;
    uint64_t turn_ns;              /* the loop turns this often; 0: at every tick */
    bool met[SCENARIO_TRUTHS_MAX]; /* truths for which an incident stood with their verdict, at some time */
} Play;

typedef struct Paths {
    const char *scenarios[2], *boards[2], *libraries, *sampler, *save;
    bool restarts, late_loop;
    uint64_t seed;
    size_t soon; /* the N of --soon; 0: not given */
} Paths;

/* --- a scenario's run --- */

PRINTF_LIKE(1, 2) static void fail(const char *format, ...)
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
    play->whose = paths->restarts ? NULL : whose_new(play->scenario, play->image, root);
    play->journal = "none";
}

static void load_catalogue(Play *play)
{
    char *argv[] = {"agent"};
    AgentConfig *config = NULL;
    Err err = {0};

    if (agent_config_load(1, argv, NULL, &config, &err) < 0 ||
        faults_load(&config->o.fault_files, &config->set, &play->catalogue, &err) < 0)
        fail("%s", err.text);
}

static void open_agent(Play *play, const Paths *paths, const char *name)
{
    char *library = arena_printf(&play->arena, "%s/r%u/libnvidia-ml.so.1", paths->libraries, play->image->generation);
    char *argv[22] = {"agent",
                      "--journal",
                      (char *)(uintptr_t)play->journal,
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
                      "--journal-patience",
                      "60s", /* the disk works in real time */
                      "--sampler-program",
                      (char *)(uintptr_t)paths->sampler};
    int argc = 17;
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
    whys_add_wanted(plan.wanted);
    metric_set_add(plan.wanted, METRIC_TOTAL_ENERGY_CONSUMPTION); /* as the agent does: it tells resets */
    play->activities = activities_new();
    play->whys = whys_new();
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
    if (none && incident->device.kind == DEVICE_GPU &&
        incident->device.has_pci) /* an agent that began behind the fault may know its address alone */
        return truth->gpus != 0;
    if (none)
        return truth->gpus == 0 || truth->gpus == all || strcmp(incident->class, "gpu-missing") == 0;
    return incident->device.index < 64 && truth->gpus >> incident->device.index & 1;
}

static void list_seen(const Play *play)
{
    for (size_t i = 0; i < play->seen_count; i++) {
        const Incident *in = &play->seen[i].incident;

        printf("  seen%s: %s, gpu %d, code %d, %s, %s, route %s, %s, ended: %s: %s\n",
               play->agent ? arena_printf((Arena *)(uintptr_t)&play->arena, " by %d", play->seen[i].agent) : "",
               in->class, (int)in->device.index, in->code, fault_causes[in->cause].key, fault_actions[in->action].key,
               fault_routes[in->route].key, incident_states[in->state].key, incident_ends[in->end].key, in->title);
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
           strcmp(fault_routes[incident->route].key, truth_route_name(truth->route)) != 0 ||
           (truth->severity && strcmp(fault_severities[incident->severity].key, truth->severity) != 0);
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
        while (k < play->seen_count && strcmp(play->seen[k].incident.id, now->id) != 0)
            k++;
        if (k == SEEN_MAX)
            fail("more than %d incidents", SEEN_MAX);
        play->seen[k] = (Seen){*now, play->agent};
        play->seen_count += k == play->seen_count;
    }
}

static void note_met(Play *play)
{
    for (size_t k = 0; k < play->scenario->truth_count; k++)
        for (size_t i = 0; i < play->seen_count && !play->met[k]; i++)
            play->met[k] = answers(play, &play->seen[i].incident, &play->scenario->truths[k]);
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
        printf("  GPU %u, %s, is %s (%s) after %llu s: %s\n", index, job_activities[i].class,
               activity_words[a->word].key, activity_causes[a->cause].key,
               (unsigned long long)(play->time_ns / NS_PER_S), a->text);
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

/* From a minute after the truth's time on, each second. */
static void check_checkpoints(Play *play, const NodeGpu *gpu)
{
    const uint32_t index = gpu->reading.device.index;
    bool planted = false, settled = false, told = false;

    for (size_t k = 0; k < play->scenario->truth_count; k++) {
        const ScenarioTruth *truth = &play->scenario->truths[k];

        if (strcmp(truth_class_name(truth->fault), "checkpointing") != 0 || !(truth->gpus >> index & 1))
            continue;
        planted = true;
        settled = play->time_ns > truth->from_ns + SETTLE_NS;
    }
    for (uint32_t i = 0; i < gpu->verdicts->count; i++)
        told |= gpu->verdicts->verdicts[i].cause == WHY_CHECKPOINT;
    if ((told ? planted : !settled) || play->wrong_activities++ > 0)
        return;
    printf("  GPU %u: checkpoints are %s after %llu s\n", index, told ? "told and not planted" : "planted and not told",
           (unsigned long long)(play->time_ns / NS_PER_S));
}

static void decide_activities(Play *play, const Node *node)
{
    const Incident *open[INCIDENTS_MAX];
    Snapshot snapshot = {.node = node,
                         .incidents = open,
                         .processes = host_processes(play->triage.host),
                         .allocations = play->triage.declared.allocations};

    for (size_t i = 0; i < incidents_count(play->triage.incidents); i++)
        if (incidents_at(play->triage.incidents, i)->state == INCIDENT_OPEN)
            open[snapshot.incident_count++] = incidents_at(play->triage.incidents, i);
    store_add_node(play->store, node);
    activities_update(play->activities, &snapshot, play->store);
    whys_update(play->whys, &snapshot, play->store, 1);
    for (size_t i = 0; i < node->gpu_count && !play->agent; i++) { /* one that has just begun has no window yet */
        check_activity(play, &node->gpus[i], &snapshot);
        check_checkpoints(play, &node->gpus[i]);
    }
}

static void check_owners(Play *play, const Node *node)
{
    holdings_decide_states(play->triage.holdings, node);
    whose_tick(play->whose, node, play->triage.holdings, play->time_ns);
}

static void play_node(Play *play)
{
    play->time_ns += STEP_NS;
    advance_clocks(STEP_NS);
    sim_clock_advance(play->image, STEP_NS);
    tend_node(play);
}

static void play_agent(Play *play)
{
    const Node *node;

    samplers_turn();
    for (int i = 0; i < 3 && (!play->turn_ns || play->time_ns % play->turn_ns == 0); i++)
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
    return catalogue_class(play->catalogue, truth_class_name(truth->fault)) != NULL;
}

static bool is_missing(const Play *play, size_t k)
{
    return is_held(play, &play->scenario->truths[k]) && !play->met[k];
}

/* Returns how many complaints were printed. */
static int check_truths(const Play *play)
{
    int wrong = 0;

    for (size_t k = 0; k < play->scenario->truth_count; k++) {
        const ScenarioTruth *truth = &play->scenario->truths[k];

        if (is_missing(play, k)) {
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
        const Incident *incident = &play->seen[i].incident;
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

/* --- with restarts ------------------------------------------------------------------------------------------------ */

#define UP_MAX_S 400
#define DOWN_MAX_S 60
#define DISK_S 20
#define ENERGY_NS NS_PER_MIN
#define LAST_NS (7 * NS_PER_MIN)   /* the last agent has so long at least */
#define JUDGED_NS (4 * NS_PER_MIN) /* behind a repair: longer than readings are waited for */

/* Less than `limit`. */
static uint64_t draw_number(Play *play, uint64_t limit)
{
    play->draw = map_hash(&play->draw, sizeof play->draw, 1);
    return play->draw % limit;
}

static void note_closed(void *self)
{
    *(bool *)self = true;
}

/* As SIGTERM ends it. */
static void close_agent(Play *play)
{
    bool triage_closed = false, stopped = false;

    triage_close(&play->triage, note_closed, &triage_closed);
    sampling_stop(&play->sampling, note_closed, &stopped);
    while (!triage_closed || !stopped) {
        advance_clocks(NS_PER_MS);
        uv_run(&play->loop, UV_RUN_NOWAIT);
    }
}

/* The disk works in real time: not while this clock runs on for more than a few seconds. */
static void wait_for_disk(Play *play, int *waited_s)
{
    JournalState state;

    journal_state(play->triage.journal, &state);
    *waited_s = state.queued > 0 ? *waited_s + 1 : 0;
    while (*waited_s > DISK_S && state.queued > 0) {
        usleep(200);
        journal_state(play->triage.journal, &state);
    }
}

/* An agent's life, a second for each byte of `fd`; ends the process. 'c' in place of a second closes it. */
static void live(Play *play, const Paths *paths, const char *name, int fd)
{
    int waited_s = 0;
    char word;

    open_agent(play, paths, name);
    while (recv(fd, &word, 1, 0) == 1 && word == 's') {
        advance_clocks(STEP_NS);
        play_agent(play);
        wait_for_disk(play, &waited_s);
        if (send(fd, &word, 1, MSG_NOSIGNAL) != 1)
            break;
    }
    if (word == 'c')
        close_agent(play);
    fflush(NULL);
    _exit(0);
}

/* Starts an agent and lets it run for so many seconds. */
static pid_t run_agent(Play *play, const Paths *paths, const char *name, uint64_t seconds, int *ret_fd)
{
    int pair[2];
    char word = 's';

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        fail("make a socket pair: %s", strerror(errno));
    play->agent++;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        live(play, paths, name, pair[1]);
    }
    close(pair[1]);
    while (seconds-- > 0) {
        play_node(play);
        if (send(pair[0], &word, 1, MSG_NOSIGNAL) != 1 || recv(pair[0], &word, 1, 0) != 1)
            fail("agent %d ended by itself", play->agent);
    }
    *ret_fd = pair[0];
    return pid;
}

static void end_agent(Play *play, pid_t pid, int fd, bool kill_it)
{
    int status;

    if (kill_it)
        kill(pid, SIGKILL);
    else
        (void)send(fd, "c", 1, MSG_NOSIGNAL);
    if (waitpid(pid, &status, 0) != pid || (!kill_it && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)))
        fail("agent %d did not end as it should", play->agent);
    close(fd);
}

static void remove_journal(const Play *play)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(tails); i++)
        if (snprintf(path, sizeof path, "%s%s", play->journal, tails[i]) < (int)sizeof path)
            unlink(path);
}

static void reset_all(Play *play)
{
    const char *const words[] = {"reset", "gpu=all"};
    ScenarioOp ops[SIM_GPU_MAX];
    size_t count;
    Err err = {0};

    if (scenario_step_parse(play->image, 2, words, ops, ARRAY_LEN(ops), &count, &play->arena, &err) < 0)
        fail("%s", err.text);
    for (size_t i = 0; i < count; i++) {
        ops[i].op.t_ns = sim_clock_now(play->image);
        ops[i].op.origin = SIM_FROM_INJECT;
        (void)sim_op_apply(play->image, &ops[i].op, ops[i].text, 0, NULL);
    }
    play->earlier_ns = play->repaired_ns;
    play->repaired_ns = play->time_ns;
    play->restarts.repairs++;
}

static void play_alone(Play *play, uint64_t seconds)
{
    while (seconds-- > 0)
        play_node(play);
}

/* No agent runs for a while; one time of three the GPUs are repaired then, a moment before the next one. */
static void play_down(Play *play, uint64_t seconds)
{
    play_alone(play, seconds);
    if (draw_number(play, 3) != 0)
        return;
    reset_all(play);
    play->restarts.early += play->agent == 0;
    play_alone(play, 5);
}

/* Ends the last agent too. */
static void play_restarts(Play *play, const Paths *paths, const char *name, uint64_t end_ns)
{
    if (draw_number(play, 3) == 0)
        play_down(play, draw_number(play, end_ns / STEP_NS));
    for (;;) {
        const uint64_t left_ns = play->time_ns < end_ns ? end_ns - play->time_ns : 0;
        const bool last = left_ns < LAST_NS, kill_it = draw_number(play, 2) == 0;
        const uint64_t seconds = 2 + draw_number(play, UP_MAX_S);
        int fd;
        const pid_t pid = run_agent(play, paths, name, last ? LAST_NS / STEP_NS : seconds, &fd);

        end_agent(play, pid, fd, last || kill_it);
        if (last)
            return;
        play->restarts.kills += kill_it;
        play->restarts.stops += !kill_it;
        if (draw_number(play, 3) == 0) {
            remove_journal(play);
            play->restarts.fresh++;
        }
        play_down(play, draw_number(play, DOWN_MAX_S));
    }
}

/* Old lines of programs' errors, read by an agent without a journal: nothing that can be read of the GPU now tells
 * whether it was reset since. */
static bool can_be_known(const Incident *incident)
{
    return !(incident->before && strcmp(incident->class, "gpu-fault-suspected") == 0);
}

/* A reset ended it, and nothing was seen of it since. No log has a reset: it is known by an energy counter that is
 * lower than it was, so only where the GPU had run for a while (ENERGY_NS) since the reset before. */
static bool is_repaired(const Play *play, const Seen *seen)
{
    const FaultClass *class = catalogue_class(play->catalogue, seen->incident.class);
    const uint64_t seen_ns = seen->incident.last_evidence_ns, start_ns = clock_base_ns[CLOCK_MONOTONIC];

    return play->repaired_ns > 0 && play->time_ns > play->repaired_ns + JUDGED_NS && seen->agent == play->agent &&
           seen->incident.state == INCIDENT_OPEN && seen->incident.device.kind == DEVICE_GPU && class &&
           class->clear == CLEAR_RESET && can_be_known(&seen->incident) && seen_ns < start_ns + play->repaired_ns &&
           seen_ns > start_ns + play->earlier_ns + ENERGY_NS;
}

/* It is of a class that follows from the planted one. A page is one only behind a reset of the GPUs, which ends the
 * cause and not what follows from it (a fabric that has to be started anew). */
static bool is_consequence(const Play *play, const Incident *incident, const ScenarioTruth *truth)
{
    const FaultClass *class = catalogue_class(play->catalogue, incident->class);

    if (incident->route == ROUTE_PAGE && play->repaired_ns == 0)
        return false;
    for (size_t i = 0; class && i < class->parent_count; i++)
        if (strcmp(class->parents[i]->id, truth_class_name(truth->fault)) == 0)
            return true;
    return false;
}

static bool is_planted(const Play *play, const Incident *incident)
{
    for (size_t k = 0; k < play->scenario->truth_count; k++) {
        const ScenarioTruth *truth = &play->scenario->truths[k];

        if (!is_held(play, truth))
            continue;
        if (fits(play, incident, truth) &&
            (incident->route != ROUTE_PAGE || strcmp(truth_route_name(truth->route), "page") == 0))
            return true;
        if (is_consequence(play, incident, truth))
            return true;
    }
    return false;
}

/* What is told and nobody planted, and what a reset has repaired. */
static int check_restarts(Play *play)
{
    int wrong = 0;

    for (size_t i = 0; i < play->seen_count; i++) {
        const Incident *incident = &play->seen[i].incident;
        const bool repaired = is_repaired(play, &play->seen[i]);

        if (!is_told(incident) || incident->end == INCIDENT_END_MERGED || (is_planted(play, incident) && !repaired))
            continue;
        printf("  agent %d of %d, %s: %s (after %lld s, all GPUs reset after %llu s)\n", play->seen[i].agent,
               play->agent, repaired ? "told, though a reset had repaired it" : "told, but not planted",
               incident->title,
               (long long)(incident->last_evidence_ns - clock_base_ns[CLOCK_MONOTONIC]) / (long long)NS_PER_S,
               (unsigned long long)(play->repaired_ns / NS_PER_S));
        play->restarts.pages += incident->route == ROUTE_PAGE;
        play->restarts.tickets += incident->route != ROUTE_PAGE;
        wrong++;
    }
    return wrong;
}

/* The last line of its output, for the sum (end_job). */
static const char restarts_line[] = "restarts %d %d %d repairs %d %d false %d %d\n";

static int play_and_check_restarts(Play *play, const Paths *paths, const char *name, const char *folder)
{
    const Restarts *r = &play->restarts;

    play->draw = map_hash(name, strlen(name), paths->seed);
    play->journal = arena_printf(&play->arena, "%s/journal.db", folder);
    play_restarts(play, paths, name, length_ns(play, name));
    const int wrong = check_restarts(play);
    if (wrong)
        list_seen(play);
    printf(restarts_line, r->kills, r->stops, r->fresh, r->repairs, r->early, r->pages, r->tickets);
    return wrong;
}

/* --- one of them -------------------------------------------------------------------------------------------------- */

static bool is_all_met(const Play *play)
{
    for (size_t k = 0; k < play->scenario->truth_count; k++)
        if (is_missing(play, k))
            return false;
    return true;
}

static int play_and_check(Play *play, const Paths *paths, const char *name)
{
    const uint64_t end = length_ns(play, name), soon = paths->soon && !play->whose ? end - SOON_NS : end;

    open_agent(play, paths, name);
    play->turn_ns = paths->late_loop ? 7 * STEP_NS : 0;
    for (uint64_t t = 0; t < end && !(t >= soon && is_all_met(play)); t += STEP_NS) {
        play_node(play);
        play_agent(play);
    }
    const int wrong = check_truths(play) + check_incidents(play) + play->wrong_activities +
                      (play->whose ? whose_end(play->whose) : 0);
    if (wrong)
        list_seen(play);
    if (paths->save)
        save_seen(play, paths->save, name);
    return wrong;
}

/* In a process of its own; ends it. */
static void play_scenario(const Paths *paths, const char *name, const char *folder)
{
    Play *play = mmap(NULL, sizeof *play, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int wrong;

    if (play == MAP_FAILED)
        fail("no memory: %s", strerror(errno));
    alarm(paths->restarts ? 4 * LIMIT_S : LIMIT_S);
    stop_clocks();
    arena_init(&play->arena, 64 << 10);
    build_node(play, paths, name, folder);
    load_catalogue(play);
    tend_node(play);
    wrong = paths->restarts ? play_and_check_restarts(play, paths, name, folder) : play_and_check(play, paths, name);
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
    snprintf(job->folder, sizeof job->folder, "%s/truths.XXXXXX", memory_folder());
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

static Restarts all_restarts;

/* Adds up what the line says. False: it is another line. */
static bool add_restarts(const char *line)
{
    Restarts r;

    if (sscanf(line, restarts_line, &r.kills, &r.stops, &r.fresh, &r.repairs, &r.early, &r.pages, &r.tickets) != 7)
        return false;
    all_restarts.kills += r.kills;
    all_restarts.stops += r.stops;
    all_restarts.fresh += r.fresh;
    all_restarts.repairs += r.repairs;
    all_restarts.early += r.early;
    all_restarts.pages += r.pages;
    all_restarts.tickets += r.tickets;
    return true;
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
    while (fgets(line, sizeof line, job->output))
        if (!add_restarts(line) && !passed)
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
    if (paths->restarts)
        printf("# seed %llu: %zu scenarios, %d restarts by SIGKILL and %d by SIGTERM, after %d of them a fresh "
               "journal; all "
               "GPUs repaired %d times while no agent ran, %d of them before the first one; %d false pages, %d false "
               "tickets\n",
               (unsigned long long)paths->seed, count, all_restarts.kills, all_restarts.stops, all_restarts.fresh,
               all_restarts.repairs, all_restarts.early, all_restarts.pages, all_restarts.tickets);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    CLEANUP(arena_done) Arena arena;
    Paths paths = {0};
    size_t count;

    arena_init(&arena, 64 << 10);
    if (argc < 5) {
        fprintf(
            stderr,
            "usage: %s SCENARIOS BOARDS LIBRARIES SAMPLER [--save FOLDER | --restarts SEED | --late-loop | --soon N] "
            "[NAME...]\n",
            argv[0]);
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
    } else if (argc >= 2 && strcmp(argv[0], "--restarts") == 0) {
        paths.restarts = true;
        paths.seed = strtoull(argv[1], NULL, 10);
        argc -= 2;
        argv += 2;
    } else if (argc >= 2 && strcmp(argv[0], "--soon") == 0) {
        paths.soon = strtoul(argv[1], NULL, 10);
        argc -= 2;
        argv += 2;
    } else if (argc >= 1 && strcmp(argv[0], "--late-loop") == 0) {
        paths.late_loop = true;
        argc--;
        argv++;
    }
    if (argc > 0)
        return play_all(&paths, (const char *const *)argv, (size_t)argc);
    const char *const *names = library_names(paths.scenarios, &arena, &count);
    const char **played = arena_alloc(&arena, count * sizeof *played);
    size_t kept = 0;
    for (size_t i = 0; i < count; i += paths.soon ? paths.soon : 1)
        played[kept++] = names[i];
    return play_all(&paths, played, kept);
}
