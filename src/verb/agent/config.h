/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's configuration: defaults, then the YAML file, then the environment, then the command line. One load makes
 * one AgentConfig with an arena of its own; a reload makes another and the old one stays in force until the new one is
 * known to be good. All of dcgm-exporter's flags and variables are rows of the table; those that mean nothing here are
 * accepted and said so.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/opt.h"
#include "engine/health/catalogue.h"
#include "engine/ledger/idle.h"
#include "engine/ledger/price.h"
#include "service/prometheus/counters.h"
#include "service/prometheus/exporter.h"
#include "source/sampler/supervisor.h"
#include "verb/verb.h"

typedef struct AgentOptions {
    const char *config;
    bool check_config;
    /* doors */
    OptList listen, hosts;
    bool systemd_sockets;
    const char *web_config, *control;
    uint64_t max_connections, read_timeout_ns, write_timeout_ns;
    /* the page */
    int profile; /* ExporterProfile */
    const char *counters, *devices, *cpu_devices, *switch_devices;
    bool strict_counters, no_hostname, old_namespace, replace_blanks, mig_totals, self_metrics;
    uint64_t owner_series;
    uint64_t collect_interval_ms, xid_window_ms, clock_events_window_ms;
    const char *hpc_dir, *scontrol, *configmap, *hostengine;
    /* Kubernetes */
    bool kubernetes, pod_labels, pod_uid, virtual_gpus, dra, container_labels;
    int gpu_id_type;
    const char *kubelet_socket, *pod_logs, *account, *kubeconfig, *runtime_socket;
    OptList resource_names, pod_label_regex;
    uint64_t pods_period_ns;
    /* sampling */
    uint64_t fast_ns, normal_ns, slow_ns, blocking_ns;
    uint64_t call_ns, attach_ns, kill_ns, abandon_ns, retry_max_ns, rejoin_ns, probe_ns;
    const char *library, *sampler, *sampler_socket, *root;
    bool dcgm;
    const char *dcgm_library, *dcgm_address;
    int64_t gpus_expected; /* below 0: as many as on the bus */
    uint64_t history_series;
    double clock_speed;
    /* faults */
    OptList fault_files;
    const YamlNode *alerts, *maintenance;
    const char *external_url, *kmsg, *journalctl, *fabric_log;
    const char *journal; /* file; NULL: where it belongs, "none": none */
    uint64_t journal_keep_ns, journal_max_bytes, journal_patience_ns;
    uint64_t ledger_keep_ns, jobs_keep_ns;
    const YamlNode *prices, *idle;
    /* log */
    int log_level, log_format;
    bool debug;
    /* accepted, without effect */
    bool fake_gpus, dcgm_log, dump, dump_compression, no_startup_validate, bind_watch, pprof;
    const char *dcgm_log_level, *dump_dir, *bind_interval, *dcgm_config;
    uint64_t dump_retention;
} AgentOptions;

extern const OptSpec agent_opts[];
extern const size_t agent_opt_count;

typedef struct AgentConfig {
    Arena arena;
    AgentOptions o;
    OptSet set; /* of `o`, with the places of its values */
    ExporterConfig exporter;
    SupervisorLimits limits;
    const Prices *prices;     /* NULL: none */
    const IdlePolicies *idle; /* NULL: none */
    SupervisorDcgm dcgm;      /* where it is turned on */
    Counters counters;        /* taken over by the exporter that is made from it */
    size_t counter_rows, counters_left_out;
    const char *counters_file; /* "" for the built-in list */
    const char *counters_text; /* of the ConfigMap, where it is in force; else NULL */
    const char *notes[32];     /* what a user should know: options without effect, rows left out */
    size_t note_count;
} AgentConfig;

/* Reads everything anew. `argv` as the verb got them. `configmap`: what the ConfigMap of counters says, which stands
 * above --collectors; NULL: not known yet. *ret is untouched on an error, which names file, line and key, or the
 * variable, or the flag. */
int agent_config_load(int argc, char **argv, const char *configmap, AgentConfig **ret, Err *err);
/* The defaults alone, for a look without an agent: no file, no variable, no list of metrics. */
int agent_config_defaults(AgentConfig **ret, Err *err);
void agent_config_free(AgentConfig *config); /* accepts NULL */

/* The key of the row that named the list of metrics in force. */
const char *agent_counters_key(const AgentConfig *config);

/* "NAMESPACE:NAME" of the ConfigMap of counters; NULL: none. */
const char *agent_configmap(const AgentOptions *options);

/* The keys of the rows with OPT_RESTART that differ, with commas between; NULL if none does. The text lies in the arena
 * of `now`. */
const char *agent_config_needs_restart(const AgentConfig *before, AgentConfig *now);

/* dcgm-exporter's spellings (Go's flag package: -flag, --f, --flag=value, -k=true) as GNU ones; the array lies in the
 * arena and has argc entries. */
char **agent_rewrite_args(Arena *arena, int argc, char **argv);

/* Files of the node's faults that are not named: below `root` where one is given; "" for none. */
const char *agent_journal_path(AgentConfig *config);
/* The same for who has no configuration: what was said (NULL: nothing; "none": none) and the root (NULL: /). */
const char *agent_journal_file(Arena *arena, const char *said, const char *root);
/* By which names clients may call the agent: the host's own (hostname, /etc/hosts, and in the domains of
 * /etc/resolv.conf; no name server is asked), `name` (of the node), that of --external-url, and --web-hosts. In the
 * arena; NULL ends it. */
const char *const *agent_host_names(AgentConfig *config, const char *name);
/* journald's socket. */
const char *agent_journald_path(AgentConfig *config);
const char *agent_kmsg_path(AgentConfig *config);
const char *agent_fabric_log_path(AgentConfig *config);

enum { FAULTS_FILES_MAX = 256, FAULTS_BYTES_MAX = 1024 * 1024 };

/* The built-in catalogue with the files of `paths` over it, in their order; a folder stands for its *.yaml and *.yml in
 * the order of their names. -ENOENT, -EACCES and so on name the path, and where `set` (NULL: none) has it from, as
 * faults.files; -E2BIG more than FAULTS_FILES_MAX files, or one over FAULTS_BYTES_MAX; -EINVAL names file, line and
 * column. */
int faults_load(const OptList *paths, const OptSet *set, Catalogue **ret, Err *err);

/* The verb (verb/agent.c). */
int agent_run(VerbCall *call, const void *options);
