/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Alerts: incidents on their way to people. Receivers are Alertmanagers (API v2), webhooks (signed JSON), commands and
 * journald; routes say which incident goes to which, with labels and a runbook, and how often it is repeated. One
 * notification is about one incident: grouping, throttling and inhibition are left to Alertmanager. Webhooks may get
 * reports of jobs too. What is on its way is kept in the journal's outbox, so that an outage or a restart loses nothing
 * and sends nothing twice: each notification has a key (incident and state), which receivers get as an Idempotency-Key.
 *
 * An Alertmanager gets every alert again and again while it is open and after its end, as it expects of Prometheus; the
 * others get each change of state once. A silenced incident is not sent; if it is still open when its window ends, it
 * is. A receiver that heard of the beginning before the window hears of the end, and an Alertmanager keeps the alert
 * during the window. One thread.
 */

#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/yaml.h"
#include "engine/health/catalogue.h"
#include "model/incident.h"
#include "model/node.h"
#include "service/journal/journal.h"
#include "wire/fetch/fetch.h"

typedef struct Alerts Alerts;

typedef struct AlertsConfig {
    const YamlNode *tree;       /* the configuration's `alerts`; NULL: no receivers. Borrowed for the call */
    const Catalogue *catalogue; /* whose classes routes may name; NULL: any. Borrowed for the call */
    const char *hostname;       /* label `hostname`, and of the generator URL where no external one is given */
    const char *external_url;   /* "http://node:9400/", "" none: see alerts_place */
    const Clock *clock;         /* the agent's; borrowed */
    double clock_speed;         /* its, for timers */
    Journal *journal;           /* borrowed */
    const JournalKept *kept;    /* whose outbox is taken up; NULL: none. Borrowed for the call */
    const Log *log;
} AlertsConfig;

/* Reads and checks the configuration alone: the error names file, line, column. Files of secrets are read too, those
 * of TLS must be there. What is allowed and hardly meant is appended to `notes` (NULL: not told), a line each; the
 * other functions log it. */
int alerts_check(const YamlNode *tree, const Catalogue *catalogue, uint32_t gpus, Str *notes, Err *err);
/* Takes up what the outbox still holds. */
int alerts_new(uv_loop_t *loop, const AlertsConfig *config, Alerts **ret, Err *err);
/* Where this node's pages are found ("http://node:9400/"), where no external URL is given: known once the doors are
 * open. */
void alerts_place(Alerts *alerts, const char *url);
/* After a reload: what is on its way is kept; on an error the old configuration stays in force. */
int alerts_reconfigure(Alerts *alerts, const YamlNode *tree, const Catalogue *catalogue, Err *err);
/* Tries to deliver what is due for at most `grace_ms`, keeps the rest, and frees when the loop has closed its handles.
 * Accepts NULL. */
void alerts_close(Alerts *alerts, uint64_t grace_ms, void (*closed)(void *self), void *self);

/* The incidents that are open at the start, from the journal, before anything ends them. Call it once, with none too:
 * nothing is sent before. What a receiver has heard is not sent again; what it has not (the end came between journal
 * and alert, or the receiver is new) is; what it heard as open and is not among these is sent as cleared. */
void alerts_resume(Alerts *alerts, const Incident *const *open, size_t count);
/* A change, once the journal has acknowledged it. What is sent follows from the incident's state and from what each
 * receiver has heard, so that changes may be left out between two calls. */
void alerts_update(Alerts *alerts, const Incident *incident);

/* The report of a job, pod or container that has ended, which is known since then; its JSON is copied, `id` is its own.
 * Each receiver of `job_reports` gets it once. Call it before it is kept as ended, so that a kill in between sends it
 * twice under one key, and not never. */
void alerts_report(Alerts *alerts, const char *id, uint64_t known_real_ns, const char *json, size_t len);

typedef struct AlertsReceiverState {
    const char *name, *kind; /* "alertmanager", "webhook", "command", "journald" */
    uint64_t sent, failed, dropped, queued;
    uint64_t last_ok_real_ns; /* 0 never */
    bool fine;
    char why[160];
} AlertsReceiverState;
size_t alerts_receivers(const Alerts *alerts, AlertsReceiverState *out, size_t cap);
