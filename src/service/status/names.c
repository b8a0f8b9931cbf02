/* SPDX-License-Identifier: Apache-2.0 */
/* Words that the screens of `stoker status` and `stoker top` share: what an incident is about, why clocks are low,
 * a model's name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/health/incidents.h"
#include "service/status/status.h"

const char *status_name_place(const Incident *incident, char out[STATUS_NAME_CAP])
{
    const Device *d = &incident->device;
    char pci[PCI_TEXT_CAP] = "?";

    if (d->has_pci)
        pci_format(d->pci, PCI_FORM_SYSFS, pci);
    if (incident->scope == SCOPE_FABRIC)
        snprintf(out, STATUS_NAME_CAP, "fabric");
    else if (d->kind == DEVICE_NODE)
        snprintf(out, STATUS_NAME_CAP, "node");
    else if (d->kind == DEVICE_SWITCH || d->kind == DEVICE_SWITCH_LINK)
        snprintf(out, STATUS_NAME_CAP, "switch %s", pci);
    else if (d->index != DEVICE_NO_NUMBER)
        snprintf(out, STATUS_NAME_CAP, "GPU %" PRIu32, d->index);
    else
        snprintf(out, STATUS_NAME_CAP, "GPU %s", pci);
    return out;
}

/* "GPU 3", or the program that caused it: "a program on GPU 3". */
static void name_subject(const Incident *incident, char out[STATUS_NAME_CAP])
{
    char place[STATUS_NAME_CAP];

    status_name_place(incident, place);
    if (incident->cause != CAUSE_APPLICATION)
        snprintf(out, STATUS_NAME_CAP, "%s", place);
    else if (strcmp(place, "node") == 0)
        snprintf(out, STATUS_NAME_CAP, "a program");
    else
        snprintf(out, STATUS_NAME_CAP, "a program on %.60s", place);
}

StatusNames status_name_problems(const Incident *const *incidents, size_t count)
{
    StatusNames names = {0};
    char name[STATUS_NAME_CAP];

    for (size_t i = 0; i < count; i++) {
        bool known = !incident_is_problem(incidents[i]);

        name_subject(incidents[i], name);
        for (size_t k = 0; k < names.len; k++)
            known |= strcmp(names.at[k], name) == 0;
        if (!known && names.len < STATUS_NAMES)
            memcpy(names.at[names.len++], name, sizeof name);
        names.all += !known;
    }
    return names;
}

bool status_incident_on(const Incident *incident, const NodeGpu *gpu)
{
    return incident->device.kind != DEVICE_NODE && incident->scope != SCOPE_FABRIC && incident->device.has_pci &&
           pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

FaultSeverity status_severity(const Incident *const *incidents, size_t count, const NodeGpu *gpu)
{
    FaultSeverity worst = SEVERITY_INFO;

    for (size_t i = 0; i < count; i++)
        if (incident_is_problem(incidents[i]) && incidents[i]->cause != CAUSE_APPLICATION &&
            status_incident_on(incidents[i], gpu) && incidents[i]->severity > worst)
            worst = incidents[i]->severity;
    return worst;
}

void status_add_scope(const MaintenanceWindow *window, Str *out)
{
    const char *between = "of GPU ";

    if (!window->gpus && !window->uuids[0][0])
        str_add(out, "of the node");
    for (int gpu = 0; gpu < 64; gpu++)
        if (window->gpus >> gpu & 1) {
            str_addf(out, "%s%d", between, gpu);
            between = ",";
        }
    for (size_t i = 0; !window->gpus && i < MAINTENANCE_UUIDS && window->uuids[i][0]; i++)
        str_addf(out, "%s%s", i ? "," : between, window->uuids[i]);
}

const char *status_model(const Device *device)
{
    static const char *const fronts[] = {"NVIDIA ", "Tesla "};
    const char *name = device->name;

    for (size_t i = 0; i < ARRAY_LEN(fronts); i++)
        if (strncmp(name, fronts[i], strlen(fronts[i])) == 0)
            name += strlen(fronts[i]);
    return name;
}

const ThrottleReason throttle_reasons[] = {
    {0x40, "hot (hw)", "heat (hardware)"},
    {0x80, "power brake", "power brake"},
    {0x08, "hw slowdown", "hardware slowdown"},
    {0x20, "hot", "heat (driver)"},
    {0x04, "power limit", "power limit"},
    {0x10, "sync boost", "sync boost"},
    {0x02, "clocks set", "clocks set by hand"},
    {0x100, "display", "display clocks"},
    {0x01, "", "idle"},
};
const size_t throttle_reason_count = ARRAY_LEN(throttle_reasons);

const char *status_throttle(const Reading *reading)
{
    double bits;

    if (!sample_double(&reading->sample[METRIC_CLOCKS_EVENT_REASONS], &bits))
        return "";
    for (size_t i = 0; i < ARRAY_LEN(throttle_reasons); i++)
        if ((unsigned)(int64_t)bits & throttle_reasons[i].bit)
            return throttle_reasons[i].brief;
    return "";
}

const char *status_no_driver(const Node *node)
{
    return node->gpu_count == 0 && node->driver_why[0]
               ? "No NVIDIA driver: install it, or try 'stoker sim run default -- stoker agent'"
               : NULL;
}
