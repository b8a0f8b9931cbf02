/* SPDX-License-Identifier: Apache-2.0 */
/* The table of panels, and which query of one belongs to a naming. Pure, any thread. */
#include "service/dashboard/panel.h"

#include "base/owner.h"

/* A GPU holds something from this many MiB of memory on: a context alone takes less. */
#define HELD_MIB "1024"
/* Below this share of the time nothing runs. */
#define IDLE "0.01"
/* Over this long, so that a pause between two steps is none. */
#define IDLE_OVER "15m"

/* Share of the time in which a kernel ran, per GPU. The driver has no utilisation with MIG, but its engines have. */
#define BUSY                                                                                                           \
    "(max by (%by%) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{%gpu%}) or max by (%by%) (DCGM_FI_DEV_GPU_UTIL{%gpu%}) / 100)"
#define BUSY_OVER(range)                                                                                               \
    "(max by (%by%) (avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{%gpu%}[" range "])) or "                              \
    "max by (%by%) (avg_over_time(DCGM_FI_DEV_GPU_UTIL{%gpu%}[" range "])) / 100)"
/* MiB of memory in use, per GPU. */
#define HELD "sum by (%by%) (max by (%inst%) (DCGM_FI_DEV_FB_USED{%gpu%}))"
/* 1 for a GPU whose memory is held while nothing runs, else 0 */
#define HELD_IDLE "((" HELD " >= bool " HELD_MIB ") * (" BUSY_OVER(IDLE_OVER) " < bool " IDLE "))"
#define HELD_BUSY "((" HELD " >= bool " HELD_MIB ") * (" BUSY_OVER(IDLE_OVER) " >= bool " IDLE "))"
#define PER_BOARD(metric) "max by (%by%) (" metric "{%gpu%})"
#define RATE(metric) "max by (%by%) (rate(" metric "{%gpu%}[$__rate_interval]))"
#define PER_INSTANCE(metric) "max by (%inst%) (" metric "{%gpu%})"
/* Share of the time in which a cause held the clocks down, over all GPUs that are chosen. */
#define HELD_DOWN(cause) "avg(" RATE("DCGM_FI_DEV_CLOCKS_EVENT_REASON_" cause "_NS") ") / 1e9"
#define SLOWED                                                                                                         \
    "(" RATE("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS") " + " RATE(                                       \
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS") " + " RATE("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_" \
                                                                           "BRAKE_SLOWDOWN_NS") ") / 1e9"
#define MARGIN "(" PER_BOARD("DCGM_FI_DEV_SLOWDOWN_TEMP") " - " PER_BOARD("DCGM_FI_DEV_GPU_TEMP") ")"

/* --- looks -------------------------------------------------------------------------------------------------------- */

static const PanelLook none_is_good = {.base = "green", .steps = {{1, "red"}}};
static const PanelLook none_is_better = {.base = "green", .steps = {{1, "orange"}}};
static const PanelLook share_low_is_bad = {.base = "red", .steps = {{0.3, "orange"}, {0.6, "green"}}};
static const PanelLook share_all_is_good = {.base = "red", .steps = {{0.97, "orange"}, {0.999, "green"}}};
static const PanelLook memory_full = {.base = "green", .steps = {{0.9, "orange"}, {0.98, "red"}}};
static const PanelLook slowed_down = {.base = "green", .steps = {{0.05, "orange"}, {0.25, "red"}}};
static const PanelLook near_slowdown = {.base = "red", .steps = {{2, "orange"}, {10, "green"}}};
static const PanelLook hot = {.base = "green", .steps = {{80, "orange"}, {87, "red"}}};
static const PanelLook aged = {.base = "green", .steps = {{5, "orange"}, {30, "red"}}};
static const PanelLook severity = {
    .base = "green",
    .steps = {{1, "yellow"}, {2, "orange"}, {3, "red"}},
    .values = {{0, "fine", "green"}, {1, "warning", "yellow"}, {2, "error", "orange"}, {3, "fatal", "red"}},
};
static const PanelLook up_or_not = {
    .base = "red", .steps = {{1, "green"}}, .values = {{0, "not up", "red"}, {1, "up", "green"}}};

#define COLUMN_NODE                                                                                                    \
    {"hostname", "Node", NULL}, {"Hostname", "Node ", NULL},                                                           \
    {                                                                                                                  \
        "instance", "Instance", NULL                                                                                   \
    }
#define COLUMN_GPU                                                                                                     \
    COLUMN_NODE,                                                                                                       \
    {                                                                                                                  \
        "gpu", "GPU", NULL                                                                                             \
    }
#define COLUMN_OWNER                                                                                                   \
    {"%namespace%", "Namespace", NULL}, {"%pod%", "Pod", NULL},                                                        \
    {                                                                                                                  \
        "hpc_job", "Job", NULL                                                                                         \
    }

static const Panel panels[] = {
#define PANEL(id, ...) [PANEL_OF_##id] = {__VA_ARGS__},
#include "service/dashboard/panels.def"
#undef PANEL
};
_Static_assert(ARRAY_LEN(panels) == PANEL_END, "a panel per id");

const Panel *panel_get(PanelId id)
{
    return &panels[id];
}

static const char *query_for(const PanelQuery *query, const Dashboard *board, DashboardNames names)
{
    if (query->both)
        return query->both;
    if (names == DASHBOARD_DCGM || (board->scope == BOARD_WORK && query->dcgm))
        return query->dcgm;
    return query->stoker;
}

const char *panel_query(const Panel *panel, size_t i, const Dashboard *board, DashboardNames names,
                        const char **ret_legend)
{
    for (size_t q = 0; q < PANEL_QUERIES; q++) {
        const char *text = query_for(&panel->queries[q], board, names);

        if (text && i-- == 0) {
            *ret_legend = panel->queries[q].legend;
            return text;
        }
    }
    return NULL;
}
