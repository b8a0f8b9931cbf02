/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Grafana dashboards over the exporter's page: const tables of panels in, JSON model out. Pure, any thread.
 *
 * A panel is a row of panels.def: what it shows, the query under each naming, the unit, what the number means and what
 * to do about it. A dashboard is a row of boards.c: sections of panels. Positions, variables, legends, ids and the list
 * of metrics that have to be switched on for them follow from these two tables.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

/* Whose metric names the queries use. */
typedef enum DashboardNames {
    DASHBOARD_STOKER, /* ours where we have them, else DCGM's */
    DASHBOARD_DCGM,   /* those alone that dcgm-exporter has too */
} DashboardNames;

extern const char *const dashboard_names[]; /* "stoker", "dcgm", NULL: in the order of DashboardNames */

typedef struct DashboardOptions {
    DashboardNames names;
    const char *datasource; /* uid of a data source of Grafana's; NULL: a variable to choose it */
    bool exported;          /* pod, namespace and container are called exported_... (a scrape without honor_labels) */
} DashboardOptions;

typedef struct Dashboard Dashboard;

size_t dashboard_count(void);
const Dashboard *dashboard_at(size_t i);
const Dashboard *dashboard_find(const char *name); /* NULL: there is none */
const char *dashboard_name(const Dashboard *dashboard);
const char *dashboard_title(const Dashboard *dashboard);
const char *dashboard_text(const Dashboard *dashboard);

/* "stoker-executive", "stoker-dcgm-executive": the uid, and the name of the file without its ending. */
const char *dashboard_uid(const Dashboard *dashboard, DashboardNames names, Arena *arena);

/* Appends the JSON model, for import in Grafana 10 and later. */
void dashboard_write(const Dashboard *dashboard, const DashboardOptions *options, Str *out);

/* Appends every panel of every dashboard as Markdown: title, unit, whether only ours has it, what it needs, what it
 * says. */
void dashboard_write_markdown(Str *out);

/* Appends a list of counters (CSV) with which no panel is without data for want of a metric: the exporter's default
 * rows and those that the panels ask for beyond them. dcgm-exporter takes it too. */
void dashboard_write_counters(Str *out);
