/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of devices and problems from a snapshot, and the cursor on the selected object. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "service/incident/incident.h"
#include "service/top/inside.h"
#include "service/top/value.h"

bool incident_is_on(const Incident *incident, const NodeGpu *gpu)
{
    return incident->device.kind != DEVICE_NODE && incident->scope != SCOPE_FABRIC && incident->device.has_pci &&
           pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

/* The problem of a GPU; incidents are sorted by urgency. A program's fault is shown, but does not mark its GPU as
 * faulty. */
static void find_problem(const Top *top, GpuRow *row)
{
    for (size_t i = 0; i < top->incidents.len && !row->incident; i++)
        if (incident_is_problem(top->incidents.at[i]) && incident_is_on(top->incidents.at[i], row->gpu))
            row->incident = top->incidents.at[i];
    if (row->incident) {
        row->wrong = row->incident->title;
        row->severity = row->incident->cause == CAUSE_APPLICATION ? SEVERITY_INFO : row->incident->severity;
    }
}

static void add_gpu(Top *top, const NodeGpu *gpu)
{
    static const Activity unknown;
    GpuRow row = {.gpu = gpu, .reading = &gpu->reading, .activity = &gpu->activity};

    find_problem(top, &row);
    vec_push(&top->gpus, row);
    for (size_t i = 0; i < gpu->instance_count; i++) {
        row = (GpuRow){.gpu = gpu,
                       .reading = &gpu->instances[i],
                       .activity = gpu->instance_activity ? &gpu->instance_activity[i] : &unknown,
                       .instance = true,
                       .last = i + 1 == gpu->instance_count};
        vec_push(&top->gpus, row);
    }
}

static void find_cursor(const Top *top, List *list, Thing *selected)
{
    list->count = top->gpus.len + top->processes.len;
    for (size_t i = 0; i < list->count; i++) {
        const Thing thing = i < top->gpus.len ? gpu_row_thing(&top->gpus.at[i])
                                              : process_row_thing(&top->processes.at[i - top->gpus.len]);
        if (thing_equal(&thing, selected)) {
            list->selected = i;
            return;
        }
    }
    list_move(list, 0);
}

static void find_incident(Top *top)
{
    top->incident_list.count = top->incidents.len;
    if (top->incident_selected.kind == THING_NONE)
        top->incident_list.selected = 0;
    for (size_t i = 0; i < top->incidents.len; i++) {
        const Thing thing = incident_thing(top->incidents.at[i]);

        if (thing_equal(&thing, &top->incident_selected)) {
            top->incident_list.selected = i;
            return;
        }
    }
    list_move(&top->incident_list, 0);
}

void rows_see(Top *top)
{
    const Snapshot *status = top->snapshot;

    vec_clear(&top->gpus);
    vec_clear(&top->incidents);
    vec_reserve(&top->incidents, status->incident_count);
    if (status->incident_count > 0)
        top->incidents.len =
            incidents_urgent(status->incidents, status->incident_count, top->incidents.at, status->incident_count);
    for (size_t i = 0; status->node && i < status->node->gpu_count; i++)
        add_gpu(top, &status->node->gpus[i]);
    find_cursor(top, &top->gpu_list, &top->gpu_thing);
    find_incident(top);
}

/* --- what a row is ------------------------------------------------------------------------------------------------ */

Thing gpu_row_thing(const GpuRow *row)
{
    return (Thing){.kind = THING_DEVICE, .device = row->reading->device};
}

Thing incident_thing(const Incident *incident)
{
    Thing thing = {.kind = THING_INCIDENT};

    snprintf(thing.text, sizeof thing.text, "%s", incident->id);
    return thing;
}

bool gpu_row_has(const GpuRow *row, const char *word)
{
    const Device *device = &row->reading->device;
    char text[TOP_TEXT_CAP], pci[PCI_TEXT_CAP];

    snprintf(text, sizeof text, "GPU %" PRIu32, device->index);
    return text_has(text, word) || text_has(device->name, word) || text_has(device->uuid, word) ||
           text_has(row->reading->profile, word) || text_has(pci_format(device->pci, PCI_FORM_SYSFS, pci), word);
}

bool incident_has(const Incident *incident, const char *word)
{
    char where[TOP_TEXT_CAP];

    return text_has(incident->title, word) || text_has(incident_where(incident, where), word) ||
           text_has(incident->class, word) || text_has(incident->id, word);
}

const char *incident_where(const Incident *incident, char out[TOP_TEXT_CAP])
{
    const Device *d = &incident->device;
    char pci[PCI_TEXT_CAP] = "?";

    if (d->has_pci)
        pci_format(d->pci, PCI_FORM_SYSFS, pci);
    if (incident->scope == SCOPE_FABRIC)
        snprintf(out, TOP_TEXT_CAP, "fabric");
    else if (d->kind == DEVICE_NODE)
        snprintf(out, TOP_TEXT_CAP, "node");
    else if (d->kind == DEVICE_SWITCH || d->kind == DEVICE_SWITCH_LINK)
        snprintf(out, TOP_TEXT_CAP, "switch %s", pci);
    else if (d->index != DEVICE_NO_NUMBER)
        snprintf(out, TOP_TEXT_CAP, "GPU %" PRIu32, d->index);
    else
        snprintf(out, TOP_TEXT_CAP, "GPU %s", pci);
    return out;
}

const GpuRow *top_followed(const Top *top)
{
    for (size_t i = 0; i < top->gpus.len; i++) {
        const Thing thing = gpu_row_thing(&top->gpus.at[i]);

        if (thing_equal(&thing, &top->followed))
            return &top->gpus.at[i];
    }
    return top->gpus.len && top->followed.kind == THING_NONE ? &top->gpus.at[0] : NULL;
}
