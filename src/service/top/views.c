/* SPDX-License-Identifier: Apache-2.0 */
/* The table of views: the list that the arrows move, the action of Enter, search. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "service/top/inside.h"

/* --- the cursor --------------------------------------------------------------------------------------------------- */

static void gpus_moved(Top *top)
{
    const size_t at = top->gpu_list.selected;

    if (at < top->gpus.len)
        top->gpu_thing = gpu_row_thing(&top->gpus.at[at]);
    else if (at - top->gpus.len < top->processes.len)
        top->gpu_thing = process_row_thing(&top->processes.at[at - top->gpus.len]);
}

static void processes_moved(Top *top)
{
    if (top->process_list.selected < top->processes.len)
        top->process_thing = process_row_thing(&top->processes.at[top->process_list.selected]);
}

static void incidents_moved(Top *top)
{
    if (top->incident_list.selected < top->incidents.len)
        top->incident_selected = incident_thing(top->incidents.at[top->incident_list.selected]);
}

/* --- search ------------------------------------------------------------------------------------------------------- */

static bool gpus_has(const Top *top, size_t row, const char *word)
{
    if (row < top->gpus.len)
        return gpu_row_has(&top->gpus.at[row], word);
    return row - top->gpus.len < top->processes.len && process_row_has(&top->processes.at[row - top->gpus.len], word);
}

static bool processes_has(const Top *top, size_t row, const char *word)
{
    return row < top->processes.len && process_row_has(&top->processes.at[row], word);
}

static bool incidents_has(const Top *top, size_t row, const char *word)
{
    return row < top->incidents.len && incident_has(top->incidents.at[row], word);
}

/* --- Enter -------------------------------------------------------------------------------------------------------- */

static void open_process(Top *top)
{
    const ProcessRow *row = top_process(top);

    if (!row)
        return;
    top->target = process_row_thing(row);
    memset(&top->target_owner, 0, sizeof top->target_owner);
    if (row->owner)
        top->target_owner = *row->owner;
    top_open(top, OVERLAY_PROCESS);
}

static void gpus_enter(Top *top)
{
    if (top->gpu_list.selected < top->gpus.len)
        top_go(top, VIEW_GPU);
    else
        open_process(top);
}

static void incidents_enter(Top *top)
{
    if (top->incident_list.selected >= top->incidents.len)
        return;
    top->target = incident_thing(top->incidents.at[top->incident_list.selected]);
    top_open(top, OVERLAY_INCIDENT);
}

static void topology_enter(Top *top)
{
    const Node *node = top->snapshot->node;

    if (top->matrix.selected < node->gpu_count) {
        top_follow(top, &node->gpus[top->matrix.selected].reading.device);
        top_go(top, VIEW_GPU);
    }
}

const View top_views[VIEW_END] = {
    [VIEW_GPUS] = {"gpus", "GPUs", "GPUs", "all GPUs: what is wrong, what they really do; below, who uses them",
                   offsetof(Top, gpu_list), gpus_moved, gpus_has, gpus_enter, view_gpus_draw},
    [VIEW_GPU] = {"gpu", "GPU", "GPU", "one GPU or MIG instance: its history and all its numbers",
                  offsetof(Top, numbers), NULL, NULL, NULL, view_gpu_draw},
    [VIEW_PROCESSES] = {"processes", "Processes", "Procs", "who uses the GPUs: job, pod, container, user, command",
                        offsetof(Top, process_list), processes_moved, processes_has, open_process, view_processes_draw},
    [VIEW_INCIDENTS] = {"incidents", "Incidents", "Faults", "what is wrong and was, why, and what to do",
                        offsetof(Top, incident_list), incidents_moved, incidents_has, incidents_enter,
                        view_incidents_draw},
    [VIEW_TOPOLOGY] = {"topology", "Topology", "Topo", "how the GPUs are joined", offsetof(Top, matrix), NULL, NULL,
                       topology_enter, view_topology_draw},
};

List *top_list(Top *top)
{
    return (List *)(void *)((char *)top + top_views[top->view].list);
}

void top_follow(Top *top, const Device *device)
{
    top->followed = (Thing){.kind = THING_DEVICE, .device = *device};
    top->numbers = (List){.page = 1};
}

void top_go(Top *top, ViewId view)
{
    const size_t room = sizeof top->back / sizeof top->back[0];

    if (view == VIEW_GPU && (top->view == VIEW_GPUS || top->followed.kind == THING_NONE) &&
        top->gpu_list.selected < top->gpus.len)
        top_follow(top, &top->gpus.at[top->gpu_list.selected].reading->device);
    if (view == top->view)
        return;
    if (top->back_count == room) {
        memmove(top->back, top->back + 1, (room - 1) * sizeof top->back[0]);
        top->back_count--;
    }
    top->back[top->back_count++] = top->view;
    top->view = view;
}

void top_open(Top *top, OverlayId overlay)
{
    top->overlay = overlay;
    top->confirming = false;
    top->overlay_list = (List){.page = 1};
    if (overlay == OVERLAY_SORT)
        top->overlay_list.selected = top->sort;
}

void top_say(Top *top, Ink ink, const char *text)
{
    snprintf(top->said, sizeof top->said, "%s", text);
    top->said_ink = ink;
    top->said_left = TOP_SAY_LOOKS;
}
