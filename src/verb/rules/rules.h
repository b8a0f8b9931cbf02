/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker rules`: the fault catalogue as Prometheus' alerting rules, and promtool's test cases for them. Pure: a
 * catalogue in, YAML out. One thread.
 */

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/health/catalogue.h"

enum { ALERT_SERIES = 3 };

/* A series of a test, in promtool's notation; `labels` are those beside the thing's own. */
typedef struct AlertSeries {
    const char *name, *labels, *values;
} AlertSeries;

/* One alerting rule with what tests it. Texts lie in an arena. */
typedef struct Alert {
    const char *group, *name, *expr;
    uint64_t for_ns, keep_ns;
    const char *severity, *route; /* NULL: as the series has it */
    const char *class, *cause;    /* as the next */
    const char *text, *advice, *runbook;
    bool of_node;                    /* the series has no GPU */
    AlertSeries sick[ALERT_SERIES];  /* name NULL: no more. With these it fires, */
    AlertSeries quiet[ALERT_SERIES]; /* with these beside them it does not, */
    AlertSeries well[ALERT_SERIES];  /* and these are near it and do not raise it */
    bool ends;                       /* `sick` ends after a while, and the alert after it */
} Alert;

typedef VEC(Alert) AlertList;

extern const char *const rules_groups[]; /* NULL-ended */

/* Alerts of all groups that go with these metrics. */
void rules_incidents(const Catalogue *catalogue, Arena *arena, AlertList *list);
void rules_readings(const Catalogue *catalogue, bool dcgm, Arena *arena, AlertList *list);
void rules_monitor(Arena *arena, AlertList *list);

/* The rule file, and the test file that names it. `group` NULL: all. */
void rules_write(const AlertList *list, const char *group, const char *about, Str *out);
void rules_write_tests(const AlertList *list, const char *group, const char *rule_file, Str *out);
