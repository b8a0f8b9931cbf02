/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>

static void on_told(void *self, const Incident *incident, IncidentChange change)
{
    Kit *kit = self;

    assert_true(kit->told_count < KIT_TOLD_MAX);
    kit->told[kit->told_count++] = (KitTold){change, *incident};
}

PciAddress kit_pci(int gpu)
{
    return (PciAddress){0, (uint8_t)(0x10 + gpu), 0, 0};
}

void kit_init(Kit *kit)
{
    memset(kit, 0, sizeof *kit);
    kit->now_ns = 100 * HOUR;
    kit->real_ns = UINT64_C(1767225600) * SECOND; /* 2026-01-01 */
    kit->told = malloc(KIT_TOLD_MAX * sizeof *kit->told);
    kit->maintenance = maintenance_new();
    kit->incidents = incidents_new((const Catalogue *)&kit->node, kit->maintenance, on_told, kit);
    kit->node.gpus = kit->gpus;
    kit->node.gpu_count = KIT_GPUS;
    strcpy(kit->node.driver_version, "570.86.15");
    for (int i = 0; i < KIT_GPUS; i++) {
        Device *device = &kit->gpus[i].reading.device;

        device_init(device, DEVICE_GPU);
        device->index = (uint32_t)i;
        device->has_pci = true;
        device->pci = kit_pci(i);
        snprintf(device->uuid, sizeof device->uuid, "GPU-%08d", i);
        snprintf(device->serial, sizeof device->serial, "S%d", i);
        kit->gpus[i].state = GPU_UP;
    }
}

void kit_done(Kit *kit)
{
    incidents_free(kit->incidents);
    maintenance_free(kit->maintenance);
    free(kit->told);
}

void kit_restart(Kit *kit)
{
    incidents_free(kit->incidents);
    kit->incidents = incidents_new((const Catalogue *)&kit->node, kit->maintenance, on_told, kit);
}

int kit_open(void **state)
{
    Kit *kit = malloc(sizeof *kit);

    kit_init(kit);
    kit_tick(kit, 0);
    *state = kit;
    return 0;
}

int kit_close(void **state)
{
    kit_done(*state);
    free(*state);
    return 0;
}

void kit_advance(Kit *kit, uint64_t ns)
{
    kit->now_ns += ns;
    kit->real_ns += ns;
}

void kit_turn(Kit *kit)
{
    maintenance_advance(kit->maintenance, kit->real_ns);
    incidents_advance(kit->incidents, kit->now_ns, kit->real_ns);
}

static void look(Kit *kit)
{
    kit->node.time_ns = kit->now_ns;
    kit->node.real_ns = kit->real_ns;
    incidents_set_node(kit->incidents, &kit->node);
}

void kit_tick(Kit *kit, uint64_t ns)
{
    kit_advance(kit, ns);
    look(kit);
    kit_turn(kit);
}

Event kit_xid(const Kit *kit, int gpu, int32_t code)
{
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    event.time_ns = kit->now_ns;
    event.real_ns = kit->real_ns;
    event.has_pci = true;
    event.pci = kit_pci(gpu);
    event.code = code;
    snprintf(event.text, sizeof event.text, "XID %d of GPU %d", code, gpu);
    return event;
}

void kit_give(Kit *kit, const Event *event)
{
    incidents_add_event(kit->incidents, event);
}

void kit_say(Kit *kit, int gpu, int32_t code)
{
    Event event = kit_xid(kit, gpu, code);

    kit_give(kit, &event);
    kit_turn(kit);
}

void kit_app(Kit *kit, int gpu, int32_t code, int32_t pid, const char *process)
{
    Event event = kit_xid(kit, gpu, code);

    event.pid = pid;
    strcpy(event.process, process);
    kit_give(kit, &event);
    kit_turn(kit);
}

void kit_hold(Kit *kit, const char *class, int gpu, uint32_t link)
{
    const FaultRule *rule = double_condition(class);
    Evidence evidence = {
        .verdict = fault_verdict(rule),
        .holds = true,
        .time_ns = kit->now_ns,
        .real_ns = kit->real_ns,
        .pid = -1,
    };

    device_init(&evidence.device, gpu < 0 ? DEVICE_NODE : link != DEVICE_NO_NUMBER ? DEVICE_LINK : DEVICE_GPU);
    if (gpu >= 0) {
        evidence.device.has_pci = true;
        evidence.device.pci = kit_pci(gpu);
        evidence.device.link = link;
    }
    snprintf(evidence.text, sizeof evidence.text, "%s holds", class);
    incidents_add_evidence(kit->incidents, &evidence);
}

void kit_hold_for(Kit *kit, const char *class, int gpu, uint32_t link, uint64_t ns)
{
    for (uint64_t past = 0; past < ns; past += SECOND) {
        kit_advance(kit, SECOND);
        look(kit);
        kit_hold(kit, class, gpu, link);
        kit_turn(kit);
    }
}

size_t kit_told(const Kit *kit, IncidentChange change, const char *class)
{
    size_t count = 0;

    for (size_t i = 0; i < kit->told_count; i++)
        if (kit->told[i].change == change && (!class || strcmp(kit->told[i].incident.class, class) == 0))
            count++;
    return count;
}

static bool is_on(const Incident *incident, int gpu)
{
    return gpu < 0 ? !incident->device.has_pci || incident->device.kind == DEVICE_SWITCH
                   : incident->device.has_pci && pci_compare(incident->device.pci, kit_pci(gpu)) == 0;
}

const Incident *kit_find(const Kit *kit, const char *class, int gpu)
{
    for (size_t i = 0; i < incidents_count(kit->incidents); i++) {
        const Incident *incident = incidents_at(kit->incidents, i);

        if (incident->state != INCIDENT_PENDING && strcmp(incident->class, class) == 0 && is_on(incident, gpu))
            return incident;
    }
    return NULL;
}

const Incident *kit_open_one(const Kit *kit, const char *class, int gpu)
{
    const Incident *incident = kit_find(kit, class, gpu);

    assert_non_null(incident);
    assert_int_equal(incident->state, INCIDENT_OPEN);
    return incident;
}

size_t kit_open_count(const Kit *kit)
{
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(kit->incidents); i++)
        count += incidents_at(kit->incidents, i)->state == INCIDENT_OPEN;
    return count;
}
