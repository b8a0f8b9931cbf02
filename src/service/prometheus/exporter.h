/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The /metrics page: dcgm-exporter's series from a Node, then our own. Made at most once per tick and format and shared
 * by all who ask; the part that depends on the scraper (what happened since its last scrape) is appended per scraper.
 * Prefixes `name{labels} ` are kept between pages and remade only when devices, owners or jobs change.
 * Pure but for memory: time and inputs are arguments. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/health/catalogue.h"
#include "engine/store/window.h"
#include "model/event.h"
#include "model/snapshot.h"
#include "service/alert/alert.h"
#include "service/journal/journal.h"
#include "service/prometheus/counters.h"
#include "service/prometheus/counts.h"

/* Which dcgm-exporter we look like. */
typedef enum ExporterProfile {
    EXPORTER_4_8_3, /* 4.8.3 and 4.8.4: `hostname`, shortest numbers, sorted. The default */
    EXPORTER_4_8_2, /* up to 4.8.2: `Hostname`, %d and %f, template order */
    EXPORTER_4_9,   /* new names and base units where they are known */
    EXPORTER_BOTH,  /* 4.8.3's series and 4.9's beside them, for a migration */
} ExporterProfile;
extern const char *const exporter_profile_names[]; /* "4.8.3", "4.8.2", "4.9", "both", NULL: for option tables */

typedef enum ExporterFormat { EXPORTER_TEXT, EXPORTER_OPENMETRICS } ExporterFormat;

/* Devices to show: dcgm-exporter's selector. */
typedef struct ExporterDevices {
    bool flex;            /* f: MIG devices where MIG is on, else the GPU */
    bool gpus, instances; /* g, i */
    uint64_t gpu_ids;     /* bit per index; 0: all */
    struct {
        uint32_t gpu, instance;
    } instance_ids[64]; /* i:0.7 or i:7, none: all; gpu DEVICE_NO_NUMBER: of any GPU */
    size_t instance_id_count;
} ExporterDevices;
/* Parses "f", "g", "g:0,2-4", "i", "i:7", "g:0+i:7". -EINVAL with what is allowed. */
int exporter_devices_parse(const char *text, ExporterDevices *ret, Err *err);
/* Appends the devices that are named and that the node lacks: "GPU 9, instance 99 of GPU 0"; nothing where all are
 * there. */
void exporter_devices_add_missing(const ExporterDevices *devices, const Node *node, Str *out);

typedef struct ExporterConfig {
    ExporterProfile profile;
    ExporterDevices devices;
    ExporterDevices links; /* the same grammar: f or i[:LINK], i:GPU.LINK: NVLinks, counted from 1; g alone: none */
    bool no_hostname, old_namespace, replace_blanks;
    bool kubernetes;   /* pod labels from allocations; both kinds of device id (uid, device-name) are understood */
    bool pod_uid;      /* label pod_uid where it is known; with virtual_gpus always */
    bool virtual_gpus; /* label vgpu; without it that label appears only where a device has several allocations */
    bool mig_totals;   /* our own series per physical GPU that count nothing twice */
    uint64_t owners_max; /* holdings of devices that have series of their own; 0: none */
    uint64_t xid_window_ns, clock_events_window_ns;
    uint64_t period_ns[METRIC_PACE_END]; /* of the sampling, for the age at which a value is no longer shown */
} ExporterConfig;

/* What only the agent knows, for the self metrics. */
typedef struct ExporterSelf {
    const char *version;
    uint64_t rss_bytes, cpu_ns, open_fds, start_real_ns; /* 0: not known */
    uint64_t ticks, late_ticks;
    uint64_t store_series, store_refused, store_bytes;
    uint64_t http_requests, http_connections, http_refused, http_auth_failures;
    uint64_t config_reloads, config_reload_failures; /* since start */
    bool config_fine;                                /* the last reload succeeded */
    uint64_t counters_left_out;                      /* rows of the CSV that were not understood */
    const char *pods_state;                          /* "off", "ok", "unreachable", ... */
    uint64_t pods_age_ns, pods_failures, pods_count; /* age UINT64_MAX: never learned */
    struct {
        const char *read, *state;
    } api_reads[4]; /* what the API server is asked for, and how that is doing */
    size_t api_read_count;
    struct {
        const char *outcome;
        uint64_t count;
    } placed[4]; /* containers that got GPUs, by whether a scheduler had chosen these */
    size_t placed_count;
    uint64_t kernel_log_lost;
    EventOrigin log_origin; /* where lines of the kernel log come from */
} ExporterSelf;

/* What a page is made from; borrowed for the page. */
typedef struct ExporterInput {
    const Snapshot *snapshot;
    const JobAllocation *jobs;
    size_t job_count;
    ExporterSelf self;
    const Catalogue *catalogue;           /* names XIDs; NULL: none */
    const JournalState *journal;          /* NULL: none is kept */
    const AlertsReceiverState *receivers; /* as alerts_receivers gives them */
    size_t receiver_count;
} ExporterInput;

typedef struct Exporter Exporter;

/* `counters` is taken over by value (the caller's is empty afterwards), and `before`, an exporter of another
 * configuration or NULL, with what it has counted. */
Exporter *exporter_new(const ExporterConfig *config, Counters *counters, Exporter *before);
void exporter_free(Exporter *exporter);

/* The metrics that the rows need, as the sampler's plan wants them: a bit per MetricId, what derived rows need
 * included. */
void exporter_wanted(const Exporter *exporter, uint64_t wanted[METRIC_SET_WORDS]);

/* Once, before anything is counted: counters begin with the values that an exporter before gave to `keep`. `resumed`:
 * events from before the agent's start are counted too, as no agent has seen them. */
void exporter_restore(Exporter *exporter, const JournalCount *counts, size_t count, bool resumed,
                      const CountKeep *keep);

/* Counts an event, and an XID among those of its GPU; not those from before the agent's start. */
void exporter_event(Exporter *exporter, const Event *event);
/* A change of an incident that was told. */
void exporter_incident(Exporter *exporter, const Incident *incident, IncidentChange change);
/* Once per tick: counts clock events. */
void exporter_tick(Exporter *exporter, const Node *node);

/* Appends the whole shared page to `out`; what does not fit is left out by whole lines, and out->overflow set. */
void exporter_page(Exporter *exporter, const ExporterInput *input, ExporterFormat format, Str *out);
/* Appends the part of one scraper, made after the exporter_page of the same node: stoker_..._min, _mean, _max since its
 * last scrape (none where count is 0) and, in OpenMetrics, the line "# EOF" that ends its page. */
void exporter_window(Exporter *exporter, const Node *node, const WindowGpu *windows, size_t count, uint64_t span_ns,
                     ExporterFormat format, Str *out);
