/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tree `alerts` of the configuration, read and checked: receivers, routes, labels. Owns its texts and secrets. One
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"
#include "base/yaml.h"
#include "engine/health/catalogue.h"
#include "model/incident.h"
#include "wire/fetch/fetch.h"

/* --- labels.c: labels of an alert, name and value, sorted by name, each name once. They are what an Alertmanager knows
 * an alert by, and what routes match. Plain data over texts of others' (an arena). --- */

enum {
    ALERT_LABELS_MAX = 48,
    ALERT_LABEL_NAME_MAX = 64,
    ALERT_LABEL_VALUE_MAX = 512,
    ALERT_NAME_CAP = INCIDENT_CLASS_CAP
};

typedef struct AlertLabel {
    const char *name, *value;
} AlertLabel;

typedef struct AlertLabels {
    AlertLabel at[ALERT_LABELS_MAX];
    size_t len;
} AlertLabels;

/* Sets one; an empty value removes it (as in Prometheus an empty label is none). Without more room it is left out. */
void alert_labels_set(AlertLabels *labels, const char *name, const char *value);
/* "" where there is none. */
const char *alert_labels_get(const AlertLabels *labels, const char *name);
/* Whether a label's value, or one of several owners', fits. */
bool alert_label_fits(const char *glob, const AlertLabels *labels, const char *name);
/* [a-zA-Z_][a-zA-Z0-9_]* */
bool alert_label_name_fits(const char *name);
/* {"a":"b",...} */
void alert_labels_json(const AlertLabels *labels, Str *out);

/* Those of an incident itself: alertname, class, severity, cause, action, route, hostname, gpu, UUID, pci_bus_id, ...
 */
void alert_labels_of(const Incident *incident, const char *hostname, Arena *arena, AlertLabels *ret);

/* --- config.c --- */

enum { ALERT_RECEIVERS_MAX = 32, ALERT_ROUTES_MAX = 256, ALERT_URLS_MAX = 8, ALERT_HEADERS_MAX = 16 };

typedef enum ReceiverKind {
    RECEIVER_ALERTMANAGER,
    RECEIVER_WEBHOOK,
    RECEIVER_COMMAND,
    RECEIVER_JOURNALD,
    RECEIVER_KIND_END,
} ReceiverKind;

/* Each stands in a file of its own. */
typedef enum ReceiverSecret { SECRET_PASSWORD, SECRET_BEARER, SECRET_SIGNING, SECRET_END } ReceiverSecret;

typedef struct ReceiverConfig {
    const char *name;
    ReceiverKind kind;
    uint64_t keep_ns; /* how long a cleared incident is retried */
    uint64_t timeout_ns;
    bool gets_reports; /* of jobs that have ended */
    /* Alertmanager and webhook */
    OptList urls;
    FetchRequest request; /* what does not change from one to the next, without secrets */
    const char *secret_files[SECRET_END];
    char *secrets[SECRET_END];              /* NULL: none */
    const char *headers[ALERT_HEADERS_MAX]; /* "Name: value" */
    size_t header_count;
    uint64_t resend_ns; /* Alertmanager */
    /* command */
    const char *const *argv, *const *env; /* NULL-terminated */
    /* journald */
    const char *socket;
} ReceiverConfig;

typedef struct RouteConfig {
    /* what it matches */
    unsigned int routes, causes; /* bits by FaultRoute and FaultCause */
    FaultSeverity severity;      /* at least */
    OptList classes, gpus;       /* globs of classes; indices and UUIDs; none: any */
    AlertLabels match;           /* values are globs */
    bool go_on;                  /* the next routes are tried too */
    /* what it does */
    size_t receivers[ALERT_RECEIVERS_MAX];
    size_t receiver_count;
    AlertLabels labels;  /* added */
    const char *runbook; /* instead of the catalogue's, "{class}" stands for the class; NULL */
    uint64_t repeat_ns;  /* how often an open incident is sent again; 0 never */
} RouteConfig;

typedef struct AlertTree {
    Arena arena;
    const Catalogue *catalogue; /* while it is read; NULL: classes are not checked */
    const char *external_url;   /* NULL: the caller's */
    AlertLabels labels;         /* of every alert */
    ReceiverConfig receivers[ALERT_RECEIVERS_MAX];
    size_t receiver_count;
    RouteConfig *routes;
    size_t route_count;
} AlertTree;

/* NULL gives an empty one: no receivers. Classes must be of the catalogue (borrowed for the call; NULL: any may be).
 * The error names file, line and column. Files of secrets are read too, those of TLS must be there. */
int alert_tree_new(const YamlNode *node, const Catalogue *catalogue, AlertTree **ret, Err *err);
/* Appends what is allowed and hardly meant, a line each: receivers that no route leads to, commands that are not
 * there, routes behind one that takes all they match, incidents that reach nobody, by class and severity of the
 * catalogue (NULL: none), indices of GPUs that a node of so many does not have (0: not known). */
void alert_tree_add_notes(const AlertTree *tree, const Catalogue *catalogue, uint32_t gpus, Str *out);
void alert_tree_free(AlertTree *tree);

/* Reads the files of secrets anew; where one cannot be read, the old ones stay. */
void receiver_read_secrets(ReceiverConfig *receiver);
const char *receiver_kind_key(ReceiverKind kind);
/* Of http or https, with a host. */
bool alert_is_url(const char *text);

/* Whether the route matches an incident whose labels, the general ones among them, are `labels`. */
bool alert_route_matches(const RouteConfig *route, const Incident *incident, const AlertLabels *labels);
