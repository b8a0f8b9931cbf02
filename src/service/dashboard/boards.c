/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dashboards: for whom, which panels, in which order. Const data. */
#include "service/dashboard/panel.h"

#include <string.h>

#include "base/owner.h"

#define P(id) PANEL_OF_##id
#define PANELS(...)                                                                                                    \
    {                                                                                                                  \
        __VA_ARGS__, PANEL_END                                                                                         \
    }

const Dashboard boards[] = {
    {
        .name = "executive",
        .title = "GPUs: capacity, use and cost",
        .text =
            "For those who pay: is the fleet well, does it work or is it only occupied, what does it cost, who has it.",
        .scope = BOARD_NODES,
        .priced = true,
        .from = "now-24h",
        .refresh = "5m",
        .sections =
            {
                {.title = "Is everything well",
                 .panels = PANELS(P(GPUS), P(NODES), P(USABLE), P(FAULTY), P(EXCHANGE), P(INCIDENTS), P(SCRAPES))},
                {.title = "Is everything working",
                 .panels = PANELS(P(BUSY_SHARE), P(WORK_SHARE), P(TENSOR_SHARE), P(MEMORY_SHARE), P(HELD_IDLE_COUNT),
                                  P(FREE_COUNT), P(CAPACITY), P(WASTE_BY_NODE))},
                {.title = "What it costs",
                 .panels = PANELS(P(WASTED_HOURS), P(WASTED_COST), P(ENERGY), P(ENERGY_IDLE), P(POWER_NOW),
                                  P(POWER_OVER_TIME))},
                {.title = "Who has it", .panels = PANELS(P(BY_NAMESPACE), P(BUSY_BY_NAMESPACE), P(HELD_IDLE_LIST))},
                {.title = "What went wrong", .panels = PANELS(P(INCIDENTS_OVER_TIME), P(INCIDENTS_BY_CLASS))},
            },
    },
    {
        .name = "on-call",
        .title = "GPUs: what is wrong now",
        .text = "For whoever was woken: what is broken, where, since when, what to do. Only what is wrong is shown, "
                "however large the fleet.",
        .scope = BOARD_NODES,
        .from = "now-3h",
        .refresh = "30s",
        .sections =
            {
                {.title = "Now",
                 .panels = PANELS(P(PAGES), P(FAULTY), P(INCIDENTS), P(MISSING), P(NOT_UP), P(EXCHANGE), P(RESET),
                                  P(SCRAPES), P(HELD_IDLE_COUNT), P(MONITOR))},
                {.title = "What is wrong, and what to do",
                 .panels = PANELS(P(INCIDENT_LIST), P(ALERTS), P(STATE_LIST), P(UNHEALTHY_OVER_TIME), P(XID_LIST),
                                  P(XID_OVER_TIME))},
                {.title = "Signs of trouble",
                 .panels = PANELS(P(HOT_NOW), P(SLOWED_NOW), P(ECC_NOW), P(PCIE_NOW), P(NVLINK_NOW),
                                  P(INCIDENTS_OVER_TIME), P(INCIDENTS_BY_CLASS))},
                {.title = "Can we see everything", .panels = PANELS(P(SAMPLED_LATE), P(UNAVAILABLE))},
            },
    },
    {
        .name = "debug",
        .title = "GPUs: everything",
        .text = "For whoever looks for a cause, by kind of failure: health, throughput, bottlenecks, and the "
                "monitoring itself.",
        .scope = BOARD_GPUS,
        .from = "now-1h",
        .refresh = "30s",
        .sections =
            {
                {.title = "Health: is it broken",
                 .panels = PANELS(P(HEALTH_OVER_TIME), P(INCIDENT_LIST), P(ALERTS), P(MEMORY_ERRORS), P(XID_LIST),
                                  P(XID_OVER_TIME), P(STATE_LIST))},
                {.title = "Throughput: does it work, or is it only occupied",
                 .panels = PANELS(P(UTILISATION), P(SM_ACTIVE), P(OCCUPIED_GAP), P(SPREAD), P(TENSOR), P(OCCUPANCY))},
                {.title = "Bottlenecks: memory", .panels = PANELS(P(MEMORY), P(MEMORY_LEFT), P(DRAM), P(MEMORY_CLOCK))},
                {.title = "Bottlenecks: heat, power and clocks",
                 .panels = PANELS(P(THROTTLE), P(SLOWED_GPUS), P(TEMPERATURE), P(THERMAL_MARGIN), P(MEMORY_TEMPERATURE),
                                  P(CLOCK), P(POWER), P(POWER_SHARE))},
                {.title = "Bottlenecks: PCIe and NVLink",
                 .panels =
                     PANELS(P(PCIE), P(NVLINK), P(PCIE_WIDTH), P(PCIE_GENERATION), P(PCIE_REPLAYS), P(NVLINK_ERRORS))},
                {.title = "Errors before failures",
                 .folded = true,
                 .panels = PANELS(P(ECC_CORRECTED), P(ECC_UNCORRECTED), P(RETIRED), P(FAN))},
                {.title = "MIG", .folded = true, .panels = PANELS(P(MIG_COUNT), P(MIG_BUSY), P(MIG_MEMORY))},
                {.title = "Units and engines", .folded = true, .panels = PANELS(P(PIPES), P(MEDIA))},
                {.title = "The monitoring itself",
                 .folded = true,
                 .panels =
                     PANELS(P(MONITOR), P(SAMPLE_AGE), P(UNAVAILABLE), P(SCRAPE_TIME), P(AGENT_CPU), P(AGENT_MEMORY))},
            },
    },
    {
        .name = "gpu",
        .title = "One GPU",
        .text = "Everything about one GPU, the time between two scrapes included.",
        .scope = BOARD_GPU,
        .from = "now-1h",
        .refresh = "10s",
        .sections =
            {
                {.title = "Now",
                 .panels = PANELS(P(UP), P(HEALTH), P(TEMPERATURE_NOW), P(POWER_NOW), P(MEMORY_NOW), P(BUSY_SHARE),
                                  P(WORK_SHARE), P(ENERGY))},
                {.title = "What is wrong",
                 .panels = PANELS(P(HEALTH_OVER_TIME), P(INCIDENT_LIST), P(ALERTS), P(XID_LIST), P(XID_OVER_TIME))},
                {.title = "Is it busy, or only occupied",
                 .panels = PANELS(P(BUSY_OR_WORKING), P(UTILISATION_BAND), P(PIPES), P(DRAM), P(MEMORY), P(MEDIA))},
                {.title = "Heat, power and clocks",
                 .panels = PANELS(P(POWER_BAND), P(POWER_SHARE), P(CLOCK_BAND), P(CLOCK), P(MEMORY_CLOCK), P(THROTTLE),
                                  P(TEMPERATURE), P(MEMORY_TEMPERATURE), P(THERMAL_MARGIN), P(FAN))},
                {.title = "PCIe and NVLink",
                 .panels =
                     PANELS(P(PCIE), P(NVLINK), P(PCIE_WIDTH), P(PCIE_GENERATION), P(PCIE_REPLAYS), P(NVLINK_ERRORS))},
                {.title = "Memory errors",
                 .panels = PANELS(P(MEMORY_ERRORS), P(ECC_CORRECTED), P(ECC_UNCORRECTED), P(RETIRED))},
                {.title = "MIG", .panels = PANELS(P(MIG_COUNT), P(MIG_BUSY), P(MIG_MEMORY))},
            },
    },
    {
        .name = "job",
        .title = "One job",
        .text = "For the owner of the work: what it has, what it uses of that, which of its devices holds it up. "
                "Choose a job, or a "
                "namespace and pod; with nothing chosen it is all there is.",
        .scope = BOARD_WORK,
        .from = "now-6h",
        .refresh = "30s",
        .sections =
            {
                {.title = "What it has and uses",
                 .panels =
                     PANELS(P(WORK_DEVICES), P(BUSY_SHARE), P(WORK_SHARE), P(TENSOR_SHARE), P(MEMORY_SHARE),
                            P(HELD_IDLE_COUNT), P(WORK_HOURS), P(WORK_USED_HOURS), P(ENERGY), P(POWER_NOW))},
                {.title = "Device by device", .panels = PANELS(P(WORK_LIST), P(INCIDENTS_OF_WORK))},
                {.title = "Why is it slow",
                 .panels = PANELS(P(UTILISATION), P(SM_ACTIVE), P(WORK_PACE), P(WORK_CLOCKS), P(TENSOR), P(DRAM),
                                  P(OCCUPANCY), P(SPREAD))},
                {.title = "Memory", .panels = PANELS(P(MEMORY), P(MEMORY_LEFT))},
                {.title = "What slows its GPUs down",
                 .panels = PANELS(P(THROTTLE), P(SLOWED_GPUS), P(CLOCK), P(TEMPERATURE), P(POWER), P(XID_OVER_TIME))},
                {.title = "What it moves", .panels = PANELS(P(PCIE), P(NVLINK))},
            },
    },
};
const size_t board_count = ARRAY_LEN(boards);

const char *const dashboard_names[] = {"stoker", "dcgm", NULL};

size_t dashboard_count(void)
{
    return board_count;
}

const Dashboard *dashboard_at(size_t i)
{
    return &boards[i];
}

const Dashboard *dashboard_find(const char *name)
{
    for (size_t i = 0; i < board_count; i++)
        if (strcmp(boards[i].name, name) == 0)
            return &boards[i];
    return NULL;
}

const char *dashboard_name(const Dashboard *dashboard)
{
    return dashboard->name;
}

const char *dashboard_title(const Dashboard *dashboard)
{
    return dashboard->title;
}

const char *dashboard_text(const Dashboard *dashboard)
{
    return dashboard->text;
}

const char *dashboard_uid(const Dashboard *dashboard, DashboardNames names, Arena *arena)
{
    return arena_printf(arena, "stoker-%s%s", names == DASHBOARD_DCGM ? "dcgm-" : "", dashboard->name);
}
