/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_gpu(Device *device, uint32_t index)
{
    device_init(device, DEVICE_GPU);
    device->index = index;
    device->has_pci = true;
    device->pci = (PciAddress){.bus = (uint8_t)(0x1b + index)};
    snprintf(device->uuid, sizeof device->uuid, "GPU-%u", index);
    snprintf(device->serial, sizeof device->serial, "1650%u", index);
    snprintf(device->name, sizeof device->name, "NVIDIA H100 80GB HBM3");
}

static void put_evidence(IncidentEvidence *evidence, const char *text, int32_t code, bool echo)
{
    *evidence = (IncidentEvidence){.real_ns = KIT_REAL, .origin = EVENT_FROM_KMSG, .code = code, .echo = echo};
    snprintf(evidence->text, sizeof evidence->text, "%s", text);
}

Incident kit_incident(void)
{
    Incident incident = kit_incident_of("gpu-lost", SEVERITY_FATAL, INCIDENT_OPEN, 3);

    snprintf(incident.id, sizeof incident.id, "1jf8v3k2m0");
    incident.revision = 2;
    snprintf(incident.rule, sizeof incident.rule, "xid-79");
    incident.code = 79;
    incident.code_count = 2;
    incident.codes[0] = 79;
    incident.codes[1] = 154;
    incident.cause = CAUSE_BUS;
    incident.action = ACTION_DRAIN_AND_REBOOT;
    incident.route = ROUTE_PAGE;
    snprintf(incident.title, sizeof incident.title, "GPU 3 (0000:1e:00.0) has fallen off the bus");
    snprintf(incident.verdict, sizeof incident.verdict, "XID 79 in the kernel log. Reboot the node.");
    snprintf(incident.runbook, sizeof incident.runbook, "https://example.org/gpu-lost");
    snprintf(incident.driver_version, sizeof incident.driver_version, "590.48.01");
    incident.count = 20;
    incident.echo_count = 1;
    incident.first_len = 1;
    put_evidence(&incident.first[0], "Xid (PCI:0000:1e:00): 79, GPU has fallen off the bus.", 79, false);
    incident.last_len = 1;
    put_evidence(&incident.last[0], "Xid (PCI:0000:1e:00): 154, GPU recovery action changed", 154, true);
    incident.counter_len = 2;
    incident.counters[0] = (IncidentCounter){.name = "aer_fatal", .before = 0, .after = 2};
    incident.counters[1] = (IncidentCounter){.name = "pcie_width", .before = 16, .after = (double)NAN};
    return incident;
}

Incident kit_incident_of(const char *class, FaultSeverity severity, IncidentState state, uint32_t index)
{
    Incident incident = {.pid = -1, .state = state, .severity = severity, .scope = SCOPE_GPU, .route = ROUTE_TICKET};

    snprintf(incident.id, sizeof incident.id, "id-%s", class);
    snprintf(incident.class, sizeof incident.class, "%s", class);
    snprintf(incident.title, sizeof incident.title, "GPU %u: %s", index, class);
    put_gpu(&incident.device, index);
    incident.first_real_ns = incident.opened_real_ns = incident.updated_real_ns = KIT_REAL;
    incident.count = 1;
    if (state == INCIDENT_CLEARED) {
        incident.cleared_real_ns = KIT_REAL + 60 * NS_PER_S;
        incident.end = INCIDENT_END_GONE;
    }
    return incident;
}

Event kit_event(void)
{
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    event.real_ns = KIT_REAL;
    event.code = 79;
    event.has_pci = true;
    event.pci = (PciAddress){.bus = 0x1e};
    snprintf(event.text, sizeof event.text, "GPU has fallen off the bus.");
    return event;
}

Node kit_node(NodeGpu *gpus, size_t count)
{
    Node node = {.gpus = gpus, .gpu_count = count, .time_ns = 1000 * NS_PER_S, .real_ns = KIT_REAL + 90 * NS_PER_S};

    memset(gpus, 0, count * sizeof *gpus);
    for (size_t i = 0; i < count; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        put_gpu(&gpus[i].reading.device, (uint32_t)i);
        gpus[i].state = GPU_UP;
    }
    snprintf(node.hostname, sizeof node.hostname, "node-7");
    snprintf(node.driver_version, sizeof node.driver_version, "590.48.01");
    return node;
}

uint64_t kit_next(uint64_t *seed)
{
    *seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Words with what hurts JSON; UTF-8 that is whole, so that it comes back as it was. */
static void any_text(uint64_t *seed, char *out, size_t cap)
{
    static const char *const parts[] = {"a", "\"", "\\", "\n", "\x01", "ä", "€", "}", "],\"node\":", "{\"id\":\"", " "};
    size_t len = 0, count = kit_next(seed) % 12;

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *part = parts[kit_next(seed) % (sizeof parts / sizeof parts[0])];

        if (len + strlen(part) < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s", part);
    }
}

static uint64_t any_time(uint64_t *seed)
{
    return kit_next(seed) % 4 ? (1 + kit_next(seed) % 4000000000000) * NS_PER_MS : 0;
}

Incident kit_random(uint64_t *seed)
{
    Incident i = kit_incident_of("any", (FaultSeverity)(kit_next(seed) % SEVERITY_END),
                                 (IncidentState)(kit_next(seed) % INCIDENT_STATE_END), (uint32_t)(kit_next(seed) % 16));

    i.revision = kit_next(seed) >> 1;
    if (i.revision > INT64_MAX)
        i.revision = INT64_MAX;
    any_text(seed, i.title, sizeof i.title);
    any_text(seed, i.verdict, sizeof i.verdict);
    any_text(seed, i.process, sizeof i.process);
    any_text(seed, i.job, sizeof i.job);
    i.cause = (FaultCause)(kit_next(seed) % CAUSE_END);
    i.scope = (FaultScope)(kit_next(seed) % SCOPE_END);
    i.action = (FaultAction)(kit_next(seed) % ACTION_END);
    i.route = (FaultRoute)(kit_next(seed) % ROUTE_END);
    i.end = (IncidentEnd)(kit_next(seed) % INCIDENT_END_END);
    i.code = (int32_t)(kit_next(seed) % 3 ? kit_next(seed) % 30000 : 0);
    for (i.code_count = 0; i.code_count < kit_next(seed) % INCIDENT_CODES; i.code_count++)
        i.codes[i.code_count] = (int32_t)(1 + kit_next(seed) % 30000);
    i.pid = kit_next(seed) % 2 ? (int32_t)(kit_next(seed) >> 34) : -1;
    i.first_real_ns = any_time(seed);
    i.opened_real_ns = any_time(seed);
    i.updated_real_ns = any_time(seed);
    i.cleared_real_ns = any_time(seed);
    i.count = kit_next(seed) >> 2;
    i.before = kit_next(seed) % 2;
    i.silenced = kit_next(seed) % 2;
    if (i.silenced)
        snprintf(i.window, sizeof i.window, "cfg-1");
    if (kit_next(seed) % 3 == 0) {
        i.device.kind = DEVICE_COMPUTE_INSTANCE;
        memcpy(i.device.parent_uuid, i.device.uuid, sizeof i.device.uuid);
        snprintf(i.device.uuid, sizeof i.device.uuid, "MIG-7");
        i.device.gpu_instance = 7;
        i.device.compute_instance = 0;
    } else if (kit_next(seed) % 3 == 0) {
        i.device.kind = DEVICE_LINK;
        memcpy(i.device.parent_uuid, i.device.uuid, sizeof i.device.uuid);
        i.device.uuid[0] = '\0';
        i.device.link = 11;
    }
    i.first_len = INCIDENT_FIRST;
    i.last_len = (uint32_t)(kit_next(seed) % INCIDENT_LAST);
    for (size_t k = 0; k < INCIDENT_FIRST; k++) {
        i.first[k].real_ns = i.last[k].real_ns = any_time(seed);
        any_text(seed, i.first[k].text, sizeof i.first[k].text);
        i.last[k].echo = kit_next(seed) % 2;
        i.last[k].origin = (EventOrigin)(kit_next(seed) % EVENT_ORIGIN_END);
    }
    i.counter_len = 1;
    i.counters[0] =
        (IncidentCounter){.name = "x", .before = (double)(int64_t)kit_next(seed) / 1024., .after = (double)NAN};
    return i;
}
