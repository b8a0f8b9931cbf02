/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker agent`: samples the GPUs and serves what it sees. Start in one order, stop in the reverse. */
#include <fcntl.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "service/status/status.h"
#include "verb/agent/agent.h"
#include "verb/verb.h"
#include "version.h"

#define START_NS (5 * NS_PER_S)

enum { GRACE_MS = 1000, START_TICK_MS = 20, LARGE_BYTES = 64 * 1024, WHY_TICKS = 5 };

static const int signals_taken[] = {SIGHUP, SIGINT, SIGTERM};

/* Closes what is still open on the loop, once. */
static void close_handles(void *self)
{
    Agent *agent = self;

    if (agent->handles_closed)
        return;
    agent->handles_closed = true;
    for (size_t i = 0; i < ARRAY_LEN(agent->signals); i++)
        uv_close((uv_handle_t *)&agent->signals[i], NULL);
    uv_close((uv_handle_t *)&agent->tick_timer, NULL);
    uv_close((uv_handle_t *)&agent->reload_timer, NULL);
    sampling_close(&agent->sampling);
}

static void triage_closed(void *self)
{
    Agent *agent = self;

    sampling_stop(&agent->sampling, close_handles, agent);
}

static void stop_agent(Agent *agent)
{
    if (agent->stopping)
        return;
    agent->stopping = true;
    uv_timer_stop(&agent->tick_timer);
    uv_timer_stop(&agent->reload_timer);
    control_close(TAKE(agent->control));
    if (agent->http)
        http_server_close(TAKE(agent->http), GRACE_MS * NS_PER_MS, NULL, NULL);
    if (agent->pods)
        podresources_close(TAKE(agent->pods));
    cluster_close(agent);
    agent_stop_jobs(agent);
    triage_close(&agent->triage, triage_closed, agent);
}

static void signal_came(uv_signal_t *handle, int signum)
{
    Agent *agent = handle->data;

    if (signum == SIGHUP && !agent->has_terminal)
        agent_reload(agent, "SIGHUP");
    else
        stop_agent(agent);
}

/* Real milliseconds of a second of the agent's clock. */
static uint64_t tick_ms(const Agent *agent)
{
    double ms = 1000 / agent->started->o.clock_speed;

    return ms < 1 ? 1 : (uint64_t)ms;
}

/* True while a GPU was not sampled yet: the next tick then comes early. */
static bool is_starting(const Agent *agent)
{
    const Node *node = board_reader_node(agent->sampling.reader);

    if (node->time_ns - agent->start_ns > START_NS)
        return false;
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_STARTING)
            return true;
    return node->gpu_count == 0;
}

/* The HPC job files. */
static void read_jobs(Agent *agent)
{
    Err err;

    agent->jobs_told = hpc_update(&agent->jobs, &err) >= 0;
    if (!agent->jobs_told && log_limit(&agent->jobs_limit, clock_monotonic(clock_kernel()), &(uint64_t){0})) {
        (void)opt_add_place(&agent->config->set, "hpc_job_mapping_dir", 0, &err);
        log_write(&agent->log, LOG_LEVEL_WARN, "%s", err.text);
    }
}

/* One second: the node is read, faults are found, all is kept and shown. */
static void make_tick(Agent *agent)
{
    const Node *node = sampling_read(&agent->sampling);
    const Incident *incidents[INCIDENTS_MAX];
    uint64_t now = node->time_ns;

    agent->ticks++;
    if (agent->last_tick_ns && now - agent->last_tick_ns > 2 * NS_PER_S)
        agent->late_ticks++;
    agent->last_tick_ns = now;
    if (agent->jobs.dir)
        read_jobs(agent);
    store_add_node(agent->store, node);
    agent->triage.declared = agent_snapshot(agent, NULL);
    agent_show_tests(agent, node);
    triage_tick(&agent->triage, node);
    const Snapshot snapshot = agent_snapshot(agent, incidents);
    activities_update(agent->activities, &snapshot, agent->store);
    holdings_decide_states(agent->triage.holdings, node);
    triage_watch_idle(&agent->triage, &snapshot);
    if (agent->slurm)
        slurm_tick(agent->slurm, snapshot.holdings, snapshot.holding_count, now);
    agent_tick_ledger(agent, &snapshot);
    whys_update(agent->whys, &snapshot, agent->store, WHY_TICKS);
    agent_tick_jobs(agent, &snapshot);
    agent_tick_self(agent);
    windows_add(agent->windows, node);
    exporter_tick(agent->exporter, node);
    pages_clear(&agent->pages);
    agent_stream_tick(agent);
    if (agent->control)
        control_wake(agent->control);
}

/* Once for each configuration, when all GPUs are known. */
static void warn_of_missing_devices(Agent *agent)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    CLEANUP(str_done) Str missing = str_limited(4096);

    agent->looked = agent->config;
    if (status_no_driver(node))
        log_write(&agent->log, LOG_LEVEL_WARN, "%s", status_no_driver(node));
    exporter_devices_add_missing(&agent->config->exporter.devices, node, &missing);
    if (missing.len)
        log_write(&agent->log, LOG_LEVEL_WARN, "devices: '%s' names what this node lacks: %s", agent->config->o.devices,
                  missing.text);
}

static void tick_due(uv_timer_t *timer)
{
    Agent *agent = timer->data;
    const bool starts = is_starting(agent);
    uint64_t next = starts ? START_TICK_MS : tick_ms(agent);

    make_tick(agent);
    if (!starts && agent->looked != agent->config)
        warn_of_missing_devices(agent);
    uv_timer_set_repeat(timer, next < tick_ms(agent) ? next : tick_ms(agent));
}

/* True if SIGHUP means that the terminal was closed: there is one, and the agent was not started by nohup. */
static bool has_terminal(void)
{
    struct sigaction hangup;
    CLEANUP_FD int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    return fd >= 0 && sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN;
}

static void init_handles(Agent *agent)
{
    uv_timer_t *const timers[] = {&agent->tick_timer, &agent->reload_timer};

    agent->has_terminal = has_terminal();
    uv_loop_init(&agent->loop);
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        uv_timer_init(&agent->loop, timers[i]);
        timers[i]->data = agent;
    }
    for (size_t i = 0; i < ARRAY_LEN(agent->signals); i++) {
        uv_signal_init(&agent->loop, &agent->signals[i]);
        agent->signals[i].data = agent;
        uv_signal_start(&agent->signals[i], signal_came, signals_taken[i]);
    }
}

/* The URL of listener `i` with `host` in the place of all addresses; NULL behind the last. */
static const char *make_url(const Agent *agent, size_t i, const char *host)
{
    const char *url = http_server_url(agent->http, i);
    const char *any = !url                        ? NULL
                      : strstr(url, "//[::]:")    ? "//[::]:"
                      : strstr(url, "//0.0.0.0:") ? "//0.0.0.0:"
                                                  : NULL;
    const char *from = any ? strstr(url, any) : NULL;

    return any ? arena_printf(&agent->started->arena, "%.*s//%s:%s", (int)(from - url), url, host, from + strlen(any))
               : url;
}

/* Alerts link to the first listener that is no socket in the file system. */
static void place_alerts(Agent *agent)
{
    const char *url, *name = board_reader_node(agent->sampling.reader)->hostname;

    for (size_t i = 0; (url = make_url(agent, i, name)); i++) {
        if (strncmp(url, "http", 4) != 0)
            continue;
        alerts_place(agent->triage.alerts, url);
        return;
    }
}

static int open_doors(Agent *agent, Err *err)
{
    const AgentOptions *o = &agent->config->o;
    const OptSet *set = &agent->config->set;
    size_t failed = SIZE_MAX;
    static const char *const kept[] = {"/health", "/healthz", "/readyz", "/metrics", NULL};
    HttpConfig http = {.kept = kept,
                       .hosts = agent_host_names(agent->config, board_reader_node(agent->sampling.reader)->hostname),
                       .listen = o->listen.items,
                       .listen_count = o->listen.len,
                       .systemd_sockets = o->systemd_sockets,
                       .failed = &failed,
                       .web_config = o->web_config && o->web_config[0] ? o->web_config : NULL,
                       .limits = http_default_limits,
                       .handler = agent_handle,
                       .self = agent,
                       .log = &agent->log};

    http.limits.connections = (unsigned)o->max_connections;
    http.limits.head_timeout_ns = o->read_timeout_ns;
    http.limits.answer_timeout_ns = o->write_timeout_ns;
    const int rc = http_server_new(&agent->loop, &http, &agent->http, err);
    if (rc < 0)
        return failed == SIZE_MAX
                   ? rc
                   : opt_add_place(set, o->systemd_sockets ? "web.systemd_socket" : "listen", failed, err);
    place_alerts(agent);
    const char *path = control_path(o->control, &agent->config->arena);
    if (control_listen(&agent->loop, path, agent_control, agent, &agent->control, err) < 0) {
        /* without the control socket the agent still serves HTTP */
        (void)opt_add_place(set, "control", 0, err);
        log_write(&agent->log, LOG_LEVEL_WARN, "%s; 'stoker status' and 'stoker release' cannot reach this agent",
                  err->text);
    }
    return 0;
}

static void open_log(Agent *agent)
{
    const AgentOptions *o = &agent->config->o;
    const bool journal = o->log_format == LOG_FORMAT_JOURNAL;
    Err err = {0};

    log_init(&agent->log, (LogLevel)o->log_level, journal ? LOG_FORMAT_TEXT : (LogFormat)o->log_format, "stoker",
             clock_kernel());
    if (journal && log_open_journal(&agent->log, agent_journald_path(agent->config), &err) < 0)
        log_write(&agent->log, LOG_LEVEL_WARN, "%s; the log goes to stderr", err.text);
}

static int start_agent(Agent *agent, Err *err)
{
    const AgentOptions *o = &agent->config->o;

    open_log(agent);
    agent->start_real_ns = clock_real(clock_kernel());
    agent->store = store_new(o->history_series);
    agent->windows = windows_new();
    agent->activities = activities_new();
    agent->whys = whys_new();
    agent->jobs_limit = (LogLimit){.window_ns = 60 * NS_PER_S, .burst = 1};
    if (runbook_open(&agent->runbooks, verb_data_path(&agent->started->arena, RUNBOOK_FILE), err) < 0)
        log_write(&agent->log, LOG_LEVEL_WARN, "%s; no runbooks under /" RUNBOOK_PLACE "/", err->text);
    TRY(sampling_open(&agent->sampling, &agent->loop, agent->config, &agent->log, err));
    TRY(triage_open(&agent->triage, &agent->loop, agent->config, &agent->sampling, agent->store, &agent->log, err));
    agent->triage.changed = agent_incident_changed;
    agent->triage.happened = agent_event_happened;
    agent->triage.self = agent;
    agent_open_ledger(agent);
    agent_open_jobs(agent);
    agent_open_bench(agent);
    TRY(agent_apply(agent, err));
    exporter_restore(agent->exporter, agent->triage.counts.at, agent->triage.counts.len, agent->triage.resumed,
                     &(CountKeep){.put = triage_put_count, .self = &agent->triage});
    vec_done(&agent->triage.counts);
    TRY(open_doors(agent, err));
    agent_watch_files(agent);
    agent->config_fine = true;
    agent->start_ns = board_now(agent->sampling.board);
    make_tick(agent);
    uv_timer_start(&agent->tick_timer, tick_due, 1, START_TICK_MS);
    return 0;
}

static void free_agent(Agent *agent)
{
    exporter_free(agent->exporter);
    hpc_done(&agent->jobs);
    slurm_free(agent->slurm);
    windows_free(agent->windows);
    whys_free(agent->whys);
    activities_free(agent->activities);
    agent_close_ledger(agent);
    agent_close_jobs(agent);
    agent_close_bench(agent);
    agent_close_self(agent);
    store_free(agent->store);
    pages_clear(&agent->pages);
    str_done(&agent->runbooks);
    if (agent->config != agent->started)
        agent_config_free(agent->config);
    agent_config_free(agent->started);
    log_done(&agent->log);
}

static void print_addresses(const Agent *agent)
{
    const char *url;

    for (size_t i = 0; (url = make_url(agent, i, "localhost")); i++) /* one that can be opened */
        printf("stoker agent %s: %s\n", STOKER_VERSION, url);
    fflush(stdout);
    clearerr(stdout); /* a terminal that is gone or a full disk is no reason to end */
}

static int check_config(VerbCall *call, const AgentConfig *config)
{
    CLEANUP(str_done) Str notes = str_limited(65536);

    if (triage_check(config, &notes, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    for (size_t i = 0; i < config->note_count; i++)
        printf("note: %s\n", config->notes[i]);
    for (char *rest = notes.text, *line; (line = strsep(&rest, "\n")) && *line;)
        printf("note: %s\n", line);
    printf("the configuration is fine: %s, %zu metrics from %s\n",
           config->o.config ? config->o.config : "no file, defaults", config->counter_rows,
           config->counters_file[0] ? config->counters_file : "the built-in list");
    return EXIT_FINE;
}

/* As many descriptors as may be had: connections are limited by the configuration instead. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int agent_run(VerbCall *call, const void *options)
{
    static Agent agent; /* as long as the process */

    (void)options; /* read again, with file and environment below the command line */
    agent.argc = call->argc;
    agent.argv = call->argv;
    if (agent_config_load(call->argc, call->argv, NULL, &agent.config, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    agent.started = agent.config;
    if (agent.config->o.check_config) {
        const int code = check_config(call, agent.config);
        agent_config_free(agent.config);
        return code;
    }
    raise_limit();
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES); /* a fixed one: what is larger is given back when it is freed */
    signal(SIGPIPE, SIG_IGN);
    init_handles(&agent);
    int rc = start_agent(&agent, &call->err), code = EXIT_FINE;
    if (rc < 0) {
        code = verb_fail(call, EXIT_UNKNOWN);
        stop_agent(&agent);
    } else {
        print_addresses(&agent);
    }
    uv_run(&agent.loop, UV_RUN_DEFAULT);
    uv_loop_close(&agent.loop);
    free_agent(&agent);
    return code;
}
