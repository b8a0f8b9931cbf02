/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside this folder: what a panel is. Const data.
 *
 * Queries and legends have words between % that each dashboard and naming fills in:
 *   %gpu%    matchers for the series of the GPUs that are chosen (of the work, on the dashboard of one job)
 *   %node%   matchers for series of a node: cluster, scrape job and instance alone
 *   %by%     the labels that tell GPUs apart, whatever else their series have: MIG instances, replicas and jobs repeat
 * what belongs to the board, so everything of a GPU is "max by (%by%)" %inst%   the same for MIG instances %owner%
 * namespace, pod and job      %pod% %namespace% %container%   their labels %name%, %mig%, %host%                in
 * legends: a GPU, an instance, a node
 */
#include <stdint.h>

#include "service/dashboard/dashboard.h"

enum { PANEL_QUERIES = 6, PANEL_COLUMNS = 12, PANEL_STEPS = 3, PANEL_VALUES = 5, GRID_WIDTH = 24 };

typedef enum PanelKind {
    PANEL_STAT,
    PANEL_TIME,
    PANEL_STACK,
    PANEL_BARS,
    PANEL_TABLE,
    PANEL_STATES,
    PANEL_KIND_END
} PanelKind;

/* `both`, or one for each naming; a naming that has none has no such query. */
typedef struct PanelQuery {
    const char *both, *stoker, *dcgm, *legend;
} PanelQuery;

/* A column of a table: a label, or "Value" ("Value #A" where there are several queries). */
typedef struct PanelColumn {
    const char *field, *title, *unit;
} PanelColumn;

typedef struct PanelValue {
    double value;
    const char *text, *color;
} PanelValue;

/* From which value on which colour. */
typedef struct PanelStep {
    double from;
    const char *color;
} PanelStep;

/* How a number is shown: colours and words. */
typedef struct PanelLook {
    const char *base; /* colour below the first step; NULL: the text's own */
    PanelStep steps[PANEL_STEPS];
    PanelValue values[PANEL_VALUES];
} PanelLook;

typedef struct Panel {
    const char *title, *text, *unit;
    PanelKind kind;
    uint8_t width; /* of GRID_WIDTH, before a line of panels is made to fill it */
    const PanelLook *look;
    const char *empty; /* what stands there without data; NULL: "no data", as on a healthy GPU there always is some */
    PanelQuery queries[PANEL_QUERIES];
    PanelColumn columns[PANEL_COLUMNS];
} Panel;

typedef enum PanelId {
#define PANEL(id, ...) PANEL_OF_##id,
#include "service/dashboard/panels.def"
#undef PANEL
    PANEL_END,
} PanelId;

const Panel *panel_get(PanelId id);

enum { SECTION_PANELS = 24, BOARD_SECTIONS = 10 };

/* `last` of a section's panels is PANEL_END. */
typedef struct Section {
    const char *title;
    bool folded; /* its panels ask for nothing until it is opened */
    PanelId panels[SECTION_PANELS];
} Section;

/* What there is to choose beside cluster, scrape job and node. */
typedef enum BoardScope {
    BOARD_NODES,
    BOARD_GPUS, /* several GPUs */
    BOARD_GPU,  /* one GPU of one node */
    BOARD_WORK, /* namespace, pod, job */
} BoardScope;

struct Dashboard {
    const char *name, *title, *text;
    BoardScope scope;
    bool priced; /* has a variable for the price of a GPU hour */
    const char *from, *refresh;
    Section sections[BOARD_SECTIONS];
};

extern const Dashboard boards[];
extern const size_t board_count;

/* Whether a panel has anything to show under a naming; the i-th query that it has then, NULL behind the last. On the
 * dashboard of a job queries go over the series that have owners, which ours of the board do not: DCGM's where there
 * are. */
const char *panel_query(const Panel *panel, size_t i, const Dashboard *board, DashboardNames names,
                        const char **ret_legend);

/* The text with its %words% filled in. */
const char *expand(const char *text, const Dashboard *board, const DashboardOptions *options, Arena *arena);

/* Panels of a section under a naming, laid out in lines that fill the grid. */
typedef struct Place {
    const Panel *panel;
    int x, y, width, height;
} Place;

/* Fills `places`, whose y begins at `y`; returns how many there are, and the first line below in *ret_y. */
size_t layout(const Section *section, const Dashboard *board, DashboardNames names, int y, Place places[SECTION_PANELS],
              int *ret_y);

/* Adds a panel, its targets and all, to an array of panels; `id` is its own. */
struct json_t;
void grafana_panel(struct json_t *panels, const Place *place, int id, const Dashboard *board,
                   const DashboardOptions *options, Arena *arena);
/* {"type": "prometheus", "uid": ...}, a new reference */
struct json_t *grafana_source(const DashboardOptions *options);

/* The metrics of the catalogue that a query names, as bits by MetricId. */
enum { NEEDS_WORDS = 16 };
typedef struct Needs {
    uint64_t bits[NEEDS_WORDS];
} Needs;
void needs_of(const char *query, Needs *needs);
/* Names of those that have to be switched on, ", " between them; "" where the defaults are enough. */
const char *needs_text(const Needs *needs, Arena *arena);
