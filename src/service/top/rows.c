/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of devices and problems from a snapshot, and the cursor on the selected object. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "service/incident/incident.h"
#include "service/top/inside.h"
#include "service/top/value.h"

static bool on_gpu(const Incident *incident, const NodeGpu *gpu)
{
    return incident->device.kind != DEVICE_NODE && incident->scope != SCOPE_FABRIC && incident->device.has_pci &&
           pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

bool trouble_about(const TroubleRow *row, const NodeGpu *gpu)
{
    return on_gpu(row->incident, gpu);
}

static bool is_wrong(const Incident *incident)
{
    return incident->state == INCIDENT_OPEN && incident->severity >= SEVERITY_WARNING;
}

/* The problem of a GPU; incidents are sorted by urgency. A program's fault is shown, but does not mark its GPU as
 * faulty. */
static void judge_gpu(const Top *top, GpuRow *row)
{
    for (size_t i = 0; i < top->urgent.len && !row->incident; i++)
        if (is_wrong(top->urgent.at[i]) && on_gpu(top->urgent.at[i], row->gpu))
            row->incident = top->urgent.at[i];
    if (row->incident) {
        row->wrong = row->incident->title;
        row->severity = row->incident->cause == CAUSE_APPLICATION ? SEVERITY_INFO : row->incident->severity;
    }
}

static void add_gpu(Top *top, const NodeGpu *gpu)
{
    static const Activity unknown;
    GpuRow row = {.gpu = gpu, .reading = &gpu->reading, .activity = &gpu->activity};

    judge_gpu(top, &row);
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

static void add_troubles(Top *top)
{
    vec_clear(&top->troubles);
    for (size_t i = 0; i < top->urgent.len; i++) {
        TroubleRow row = {.incident = top->urgent.at[i],
                          .severity = top->urgent.at[i]->severity,
                          .wrong = is_wrong(top->urgent.at[i])};
        vec_push(&top->troubles, row);
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

static void find_trouble(Top *top)
{
    top->trouble_list.count = top->troubles.len;
    if (top->trouble_thing.kind == THING_NONE)
        top->trouble_list.selected = 0;
    for (size_t i = 0; i < top->troubles.len; i++) {
        const Thing thing = trouble_row_thing(&top->troubles.at[i]);

        if (thing_equal(&thing, &top->trouble_thing)) {
            top->trouble_list.selected = i;
            return;
        }
    }
    list_move(&top->trouble_list, 0);
}

void rows_see(Top *top)
{
    const Snapshot *status = top->snapshot;

    vec_clear(&top->gpus);
    vec_clear(&top->urgent);
    vec_reserve(&top->urgent, status->incident_count);
    if (status->incident_count > 0)
        top->urgent.len =
            incidents_urgent(status->incidents, status->incident_count, top->urgent.at, status->incident_count);
    for (size_t i = 0; status->node && i < status->node->gpu_count; i++)
        add_gpu(top, &status->node->gpus[i]);
    add_troubles(top);
    find_cursor(top, &top->gpu_list, &top->gpu_thing);
    find_trouble(top);
}

/* --- what a row is ------------------------------------------------------------------------------------------------ */

Thing gpu_row_thing(const GpuRow *row)
{
    return (Thing){.kind = THING_DEVICE, .device = row->reading->device};
}

Thing trouble_row_thing(const TroubleRow *row)
{
    Thing thing = {.kind = THING_INCIDENT};

    snprintf(thing.text, sizeof thing.text, "%s", row->incident->id);
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

bool trouble_row_has(const TroubleRow *row, const char *word)
{
    char where[TOP_TEXT_CAP];

    return text_has(trouble_title(row), word) || text_has(trouble_where(row, where), word) ||
           text_has(row->incident->class, word) || text_has(row->incident->id, word);
}

const char *trouble_title(const TroubleRow *row)
{
    return row->incident->title;
}

const char *trouble_action(const TroubleRow *row)
{
    return fault_actions[row->incident->action].text;
}

const char *trouble_where(const TroubleRow *row, char out[TOP_TEXT_CAP])
{
    const Device *d = &row->incident->device;
    char pci[PCI_TEXT_CAP] = "?";

    if (d->has_pci)
        pci_format(d->pci, PCI_FORM_SYSFS, pci);
    if (row->incident->scope == SCOPE_FABRIC)
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
