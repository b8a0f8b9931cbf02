/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels of an alert: name and value, sorted by name, each name once. They are what an Alertmanager knows an alert by,
 * and what routes match and group by. Plain data over texts of others' (an arena). One thread.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"
#include "model/incident.h"

enum { ALERT_LABELS_MAX = 48, ALERT_LABEL_NAME_MAX = 64, ALERT_LABEL_VALUE_MAX = 512, ALERT_NAME_CAP = 64 };

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
/* [a-zA-Z_][a-zA-Z0-9_]* */
bool alert_label_name_fits(const char *name);
/* {"a":"b",...} */
void alert_labels_json(const AlertLabels *labels, Str *out);

/* Those of an incident itself: alertname, class, severity, cause, action, route, hostname, gpu, UUID, pci_bus_id, ...
 */
void alert_labels_of(const Incident *incident, const char *hostname, Arena *arena, AlertLabels *ret);
