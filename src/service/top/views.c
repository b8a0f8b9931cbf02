/* SPDX-License-Identifier: Apache-2.0 */
/* The table of views: the list that the arrows move, what its rows are, the action of Enter; going from view to view.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "service/top/inside.h"

/* --- views -------------------------------------------------------------------------------------------------------- */

/* A row of a list: one of them, or none. */
typedef struct Row {
    const GpuRow *gpu;
    const ProcessRow *process;
    const Incident *incident;
} Row;

static Row row_at(const Top *top, ViewId view, size_t i)
{
    const size_t gpus = view == VIEW_GPUS ? top->gpus.len : 0;
    const ProcessRows *rows = top_processes(top, view);

    if (view == VIEW_INCIDENTS)
        return (Row){.incident = i < top->incidents.len ? top->incidents.at[i] : NULL};
    if (view != VIEW_GPUS && view != VIEW_PROCESSES)
        return (Row){0};
    if (i < gpus)
        return (Row){.gpu = &top->gpus.at[i]};
    return (Row){.process = i - gpus < rows->len ? &rows->at[i - gpus] : NULL};
}

static Thing thing_at(const Top *top, ViewId view, size_t i)
{
    const Row row = row_at(top, view, i);

    return row.gpu        ? (Thing){.kind = THING_DEVICE, .device = row.gpu->reading->device}
           : row.process  ? process_row_thing(row.process)
           : row.incident ? incident_thing(row.incident)
                          : (Thing){0};
}

void top_enter(Top *top)
{
    const Row row = row_at(top, top->view, top_list(top)->selected);
    const Node *node = top->snapshot->node;
    const bool joined = top->view == VIEW_TOPOLOGY && top->matrix.selected < node->gpu_count;

    if (joined)
        top_follow(top, &node->gpus[top->matrix.selected].reading.device);
    if (joined || row.gpu)
        top_go(top, VIEW_GPU);
    if (top->view == VIEW_GPUS && row.process && row.process->group) {
        top->process_list.thing = process_row_thing(row.process);
        top_go(top, VIEW_PROCESSES);
        top_find_things(top);
    }
    if (!row.incident && (!row.process || row.process->group))
        return;
    top->target = row.incident ? incident_thing(row.incident) : process_row_thing(row.process);
    if (row.process)
        top->target_owner = row.process->owner ? *row.process->owner : (ProcessOwner){0};
    top_open(top, row.incident ? OVERLAY_INCIDENT : OVERLAY_PROCESS);
}

const View top_views[VIEW_END] = {
    [VIEW_GPUS] = {"gpus", "GPUs", "GPUs", "all GPUs: what is wrong, what they really do; below, who uses them",
                   offsetof(Top, gpu_list), view_gpus_draw},
    [VIEW_GPU] = {"gpu", "GPU", "GPU", "one GPU or MIG instance: its history and all its numbers",
                  offsetof(Top, numbers), view_gpu_draw},
    [VIEW_PROCESSES] = {"processes", "Processes", "Procs", "who uses the GPUs: job, pod, container, user, command",
                        offsetof(Top, process_list), view_processes_draw},
    [VIEW_INCIDENTS] = {"incidents", "Incidents", "Faults", "what is wrong and was, why, and what to do",
                        offsetof(Top, incident_list), view_incidents_draw},
    [VIEW_TOPOLOGY] = {"topology", "Topology", "Topo", "how the GPUs are joined", offsetof(Top, matrix),
                       view_topology_draw},
};

static List *view_list(Top *top, ViewId view)
{
    return (List *)(void *)((char *)top + top_views[view].list);
}

List *top_list(Top *top)
{
    return view_list(top, top->view);
}

void top_follow(Top *top, const Device *device)
{
    top->followed = (Thing){.kind = THING_DEVICE, .device = *device};
    top->numbers = (List){.page = 1};
}

void top_go(Top *top, ViewId view)
{
    if (view == VIEW_GPU && (top->view == VIEW_GPUS || top->followed.kind == THING_NONE) &&
        top->gpu_list.selected < top->gpus.len)
        top_follow(top, &top->gpus.at[top->gpu_list.selected].reading->device);
    if (view == top->view)
        return;
    top->back = top->view;
    top->view = view;
}

void top_open(Top *top, OverlayId overlay)
{
    top->overlay = overlay;
    if (overlay == OVERLAY_CONFIRM) /* asks about what was chosen */
        return;
    top->overlay_list = (List){.page = 1};
}

void top_say(Top *top, Ink ink, const char *text)
{
    snprintf(top->said, sizeof top->said, "%s", text);
    top->said_ink = ink;
    top->said_left = TOP_SAY_LOOKS;
}

/* --- the cursors -------------------------------------------------------------------------------------------------- */

static bool thing_equal(const Thing *a, const Thing *b)
{
    return a->kind == b->kind && a->pid == b->pid && a->start_ns == b->start_ns && a->gpu_instance == b->gpu_instance &&
           a->compute_instance == b->compute_instance && strcmp(a->text, b->text) == 0 &&
           (a->kind == THING_GROUP || a->kind == THING_INCIDENT || device_equal(&a->device, &b->device));
}

void top_moved(Top *top, ViewId view)
{
    List *list = view_list(top, view);

    if (list->selected < list->count)
        list->thing = thing_at(top, view, list->selected);
}

/* Puts the cursor on its object, or remembers what is there now if the object is gone. */
static void find_thing(Top *top, ViewId view, size_t count)
{
    List *list = view_list(top, view);

    list->count = count;
    list_move(list, 0);
    if (list->thing.kind == THING_NONE)
        return;
    for (size_t i = 0; i < count; i++) {
        const Thing thing = thing_at(top, view, i);

        if (thing_equal(&thing, &list->thing)) {
            list->selected = i;
            return;
        }
    }
    top_moved(top, view);
}

void top_find_things(Top *top)
{
    find_thing(top, VIEW_GPUS, top->gpus.len + top_processes(top, VIEW_GPUS)->len);
    find_thing(top, VIEW_PROCESSES, top->processes.len);
    find_thing(top, VIEW_INCIDENTS, top->incidents.len);
}

void top_order(Top *top)
{
    processes_see(top);
    top_find_things(top);
}
