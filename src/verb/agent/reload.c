/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the configuration again, on SIGHUP or when a file changed. Everything is read and checked before anything is
 * put in force.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "verb/agent/agent.h"

enum { LOOK_MS = 1000, PODS_KEPT = 12 /* periods without an answer; a minute by default */ };

static bool are_same(const AgentOptions *a, const AgentOptions *b, const char *const *keys)
{
    bool same = true;

    for (; same && *keys; keys++)
        same = opt_same(opt_find(agent_opts, agent_opt_count, *keys), a, b);
    return same;
}

/* NULL if no label needs it. The text lies in the configuration's arena. */
static const char *pod_logs(Agent *agent)
{
    const char *root = agent->started->o.root, *dir = agent->config->o.pod_logs;

    if (!agent->config->exporter.pod_uid || !dir || !dir[0])
        return NULL;
    return root ? arena_printf(&agent->config->arena, "%s%s%s", root, dir[0] == '/' ? "" : "/", dir) : dir;
}

/* Asks the kubelet anew only if its options changed, so that no scrape lacks the pods. */
static int apply_pods(Agent *agent, const AgentOptions *before, Err *err)
{
    const AgentOptions *o = &agent->config->o;
    PodResourcesConfig pods = {.socket = o->kubelet_socket,
                               .resource_names = o->resource_names.items,
                               .resource_name_count = o->resource_names.len,
                               .period_ns = o->pods_period_ns,
                               .timeout_ns = 5 * NS_PER_S,
                               .keep_ns = PODS_KEPT * o->pods_period_ns,
                               .reply_bytes = 64 << 20,
                               .pod_logs = pod_logs(agent),
                               .log = &agent->log,
                               .on_table = cluster_want_pods,
                               .add_labels = o->pod_labels ? cluster_label_row : NULL,
                               .find_device = o->dra ? cluster_find_device : NULL,
                               .self = agent};

    static const char *const keys[] = {"kubernetes.enabled",    "kubernetes.period",
                                       "kubernetes.socket",     "kubernetes.resource_names",
                                       "kubernetes.pod_uid",    "kubernetes.virtual_gpus",
                                       "kubernetes.pod_logs",   "kubernetes.enable_pod_labels",
                                       "kubernetes.enable_dra", NULL};

    if (before && are_same(before, o, keys))
        return 0;
    if (agent->pods)
        podresources_close(TAKE(agent->pods));
    return o->kubernetes ? podresources_new(&agent->loop, &pods, &agent->pods, err) : 0;
}

static void use_counters(Agent *agent, const char *text);

static int apply_cluster(Agent *agent, const AgentOptions *before, Err *err)
{
    static const char *const keys[] = {"kubernetes.enabled",
                                       "kubernetes.period",
                                       "kubernetes.account",
                                       "kubernetes.kubeconfig",
                                       "kubernetes.enable_pod_labels",
                                       "kubernetes.pod_label_allowlist_regex",
                                       "kubernetes.enable_dra",
                                       "configmap_data",
                                       NULL};

    if (before && are_same(before, &agent->config->o, keys))
        return 0;
    cluster_close(agent);
    return cluster_open(agent, use_counters, err);
}

static void apply_jobs(Agent *agent, const AgentOptions *before)
{
    const AgentOptions *o = &agent->config->o;
    const char *scontrol = o->scontrol && o->scontrol[0] ? o->scontrol : o->root ? "none" : "scontrol";
    Err err;

    if (before && are_same(before, o, (const char *const[]){"hpc_job_mapping_dir", "slurm_scontrol", NULL}))
        return;
    slurm_free(TAKE(agent->slurm));
    if (strcmp(scontrol, "none") != 0 && slurm_new(scontrol, SLURM_TIMEOUT_MS, &agent->log, &agent->slurm, &err) < 0)
        log_write(&agent->log, LOG_LEVEL_WARN, "%s; Slurm is not asked about jobs", err.text);
    hpc_done(&agent->jobs);
    if (o->hpc_dir && o->hpc_dir[0])
        hpc_init(&agent->jobs, o->hpc_dir);
}

/* What the agent itself wants, whatever is exported: for the history, `stoker status` and the JSON. */
static const MetricId wanted[] = {
    METRIC_SM_CLOCK,
    METRIC_MEM_CLOCK,
    METRIC_MAX_SM_CLOCK,
    METRIC_GPU_TEMP,
    METRIC_MEMORY_TEMP,
    METRIC_SLOWDOWN_TEMP,
    METRIC_POWER_USAGE,
    METRIC_ENFORCED_POWER_LIMIT,
    METRIC_TOTAL_ENERGY_CONSUMPTION,
    METRIC_GPU_UTIL,
    METRIC_MEM_COPY_UTIL,
    METRIC_ENC_UTIL,
    METRIC_DEC_UTIL,
    METRIC_FB_TOTAL,
    METRIC_FB_USED,
    METRIC_FB_FREE,
    METRIC_FB_RESERVED,
    METRIC_CLOCKS_EVENT_REASONS,
    METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS,
    METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS,
    METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS,
    METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS,
    METRIC_XID_ERRORS,
    METRIC_ECC_SBE_VOL_TOTAL,
    METRIC_ECC_DBE_VOL_TOTAL,
    METRIC_UNCORRECTABLE_REMAPPED_ROWS,
    METRIC_CORRECTABLE_REMAPPED_ROWS,
    METRIC_ROW_REMAP_FAILURE,
    METRIC_ROW_REMAP_PENDING,
    METRIC_GPU_RECOVERY_ACTION,
    METRIC_PCIE_REPLAY_COUNTER,
    METRIC_PCIE_LINK_GEN,
    METRIC_PCIE_LINK_WIDTH,
    METRIC_PCIE_MAX_LINK_GEN,
    METRIC_PCIE_MAX_LINK_WIDTH,
    METRIC_PROF_GR_ENGINE_ACTIVE,
    METRIC_PROF_SM_ACTIVE,
    METRIC_PROF_SM_OCCUPANCY,
    METRIC_PROF_PIPE_TENSOR_ACTIVE,
    METRIC_PROF_DRAM_ACTIVE,
    METRIC_PCIE_TX_BYTES_COUNT,
    METRIC_PCIE_RX_BYTES_COUNT,
    METRIC_NVLINK_TX_BYTES_COUNT,
    METRIC_NVLINK_RX_BYTES_COUNT,
    METRIC_DRIVER_VERSION,
    METRIC_NVML_VERSION,
    METRIC_VBIOS_VERSION,
    METRIC_SERIAL,
    METRIC_BRAND,
    METRIC_MIG_MODE,
    METRIC_PERSISTENCE_MODE,
};

/* Sets the board's plan from the exporter and what the agent itself wants. */
static void set_plan(Agent *agent)
{
    BoardPlan plan = {0};
    const ExporterConfig *e = &agent->config->exporter;

    exporter_wanted(agent->exporter, plan.wanted);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        metric_set_add(plan.wanted, wanted[i]);
    triage_add_wanted(&agent->triage, &plan);
    activities_add_wanted(plan.wanted);
    ledger_add_wanted(plan.wanted);
    whys_add_wanted(plan.wanted);
    jobs_add_wanted(plan.wanted);
    memcpy(plan.period_ns, e->period_ns, sizeof plan.period_ns);
    board_set_plan(agent->sampling.board, &plan);
}

int agent_apply(Agent *agent, Err *err)
{
    const AgentOptions *o = &agent->config->o;

    agent->log.level = (LogLevel)o->log_level;
    for (size_t i = 0; i < agent->config->note_count; i++)
        log_write(&agent->log, LOG_LEVEL_WARN, "%s", agent->config->notes[i]);
    ledger_set_prices(agent->ledger, agent->config->prices);
    agent->exporter = exporter_new(&agent->config->exporter, &agent->config->counters, agent->exporter);
    pages_clear(&agent->pages);
    set_plan(agent);
    const AgentOptions *options_before = agent->applied ? &agent->applied->o : NULL;
    agent->applied = NULL;
    apply_jobs(agent, options_before);
    TRY(apply_cluster(agent, options_before, err));
    TRY(apply_pods(agent, options_before, err));
    agent->applied = agent->config;
    return 0;
}

/* A file that lost all its rows is one that is being written, or was cut short: every DCGM series would vanish. */
static int check_rows(const AgentConfig *before, const AgentConfig *now, Err *err)
{
    if (now->counter_rows || !before->counter_rows)
        return 0;
    return opt_fail(&now->set, agent_counters_key(now), 0, err,
                    "%s: no metric is in it any more; only a start of the agent takes such a file", now->counters_file);
}

static void reload_agent(Agent *agent, const char *why, const char *configmap)
{
    AgentConfig *now = NULL;
    Err err = {0};

    agent->reloads++;
    agent->config_fine = false;
    if (agent_config_load(agent->argc, agent->argv, configmap, &now, &err) < 0 ||
        check_rows(agent->config, now, &err) < 0 || triage_check(now, NULL, &err) < 0) {
        agent_config_free(now);
        agent->reload_failures++;
        log_write(&agent->log, LOG_LEVEL_ERROR, "reload (%s): %s; the configuration of before stays in force", why,
                  err.text);
        return;
    }
    const char *later = agent_config_needs_restart(agent->started, now);
    AgentConfig *before = agent->config;
    agent->looked = NULL;
    agent->config = now;
    int rc = agent_apply(agent, &err);
    if (before != agent->started)
        agent_config_free(before);
    if (rc == 0)
        rc = triage_reload(&agent->triage, now, &err);
    set_plan(agent);
    if (rc == 0 && (rc = http_server_reload(agent->http, &err)) < 0)
        (void)opt_add_place(&agent->started->set, "web.config_file", 0, &err);
    if (rc < 0) {
        agent->reload_failures++;
        log_write(&agent->log, LOG_LEVEL_ERROR, "reload (%s): %s; what it is about stays as it was", why, err.text);
        return;
    }
    agent->config_fine = true;
    log_write(&agent->log, LOG_LEVEL_INFO, "reloaded (%s): %zu metrics%s%s", why, now->counter_rows,
              later ? "; only a restart changes " : "", later ? later : "");
}

void agent_reload(Agent *agent, const char *why)
{
    reload_agent(agent, why, agent->config->counters_text);
}

static void use_counters(Agent *agent, const char *text)
{
    reload_agent(agent, "the counters' ConfigMap changed", text);
}

/* Adds what tells one state of a file from another; ConfigMaps and certificate tools replace files by renaming. */
static uint64_t fold_file(uint64_t sum, const char *path)
{
    uint64_t facts[4] = {0};
    struct stat st;

    if (path && path[0] && stat(path, &st) == 0) {
        facts[0] = st.st_ino;
        facts[1] = (uint64_t)st.st_size;
        facts[2] = (uint64_t)st.st_ctim.tv_sec;
        facts[3] = (uint64_t)st.st_ctim.tv_nsec;
    }
    return map_hash(facts, sizeof facts, sum);
}

/* A number that changes when one of the files does that are read at a reload. */
static uint64_t files_sum(const Agent *agent)
{
    const char *file;
    uint64_t sum = 0;

    sum = fold_file(sum, agent->config->o.config);
    sum = fold_file(sum, agent->config->counters_file);
    for (size_t i = 0; i < agent->config->o.fault_files.len; i++)
        sum = fold_file(sum, agent->config->o.fault_files.items[i]);
    for (size_t i = 0; (file = http_server_file(agent->http, i)); i++)
        sum = fold_file(sum, file);
    return sum;
}

static void check_files(uv_timer_t *timer)
{
    Agent *agent = timer->data;
    uint64_t sum = files_sum(agent);

    if (sum == agent->files_sum)
        return;
    agent->files_sum = sum; /* a file that is still bad is not read again before it changes */
    agent_reload(agent, "a file changed");
    agent->files_sum = files_sum(agent); /* other files may be named now */
}

void agent_watch_files(Agent *agent)
{
    agent->files_sum = files_sum(agent);
    uv_timer_start(&agent->reload_timer, check_files, LOOK_MS, LOOK_MS);
}
