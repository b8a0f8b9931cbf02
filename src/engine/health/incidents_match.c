/* SPDX-License-Identifier: Apache-2.0 */
/* Which device, class and work evidence is about, and which incident explains another: pure look-ups. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "engine/health/incidents_entry.h"

#define PLACE_PCI (UINT64_C(1) << 63)

uint64_t incident_hash(const char *text)
{
    return text[0] != '\0' ? map_hash(text, strlen(text), 0) | 1 : 0;
}

uint64_t incident_place(const Device *device)
{
    if (device->kind == DEVICE_NODE)
        return 0;
    if (device->has_pci)
        return PLACE_PCI | (uint64_t)device->pci.domain << 16 | (uint64_t)device->pci.bus << 8 |
               (uint64_t)device->pci.device << 3 | device->pci.function;
    return incident_hash(device_whole_uuid(device)) & ~PLACE_PCI;
}

IncidentGpu *incidents_find_gpu(const Incidents *incidents, uint64_t place)
{
    for (size_t i = 0; i < incidents->gpu_count; i++)
        if (place != 0 && incident_place(&incidents->gpus[i].device) == place)
            return &incidents->gpus[i];
    return NULL;
}

/* Finds the GPU of a device by its address or, without one, by its UUID. */
static const IncidentGpu *find_gpu_of(const Incidents *incidents, const Device *device)
{
    const char *uuid = device_whole_uuid(device);

    if (device->has_pci)
        return incidents_find_gpu(incidents, incident_place(device));
    for (size_t i = 0; uuid[0] != '\0' && i < incidents->gpu_count; i++)
        if (strcmp(incidents->gpus[i].device.uuid, uuid) == 0)
            return &incidents->gpus[i];
    return NULL;
}

/* Makes a part of a device the whole device. */
static void widen_device(Device *device, DeviceKind kind)
{
    if (device_is_part(device)) {
        memcpy(device->uuid, device->parent_uuid, sizeof device->uuid);
        device->parent_uuid[0] = '\0';
    }
    device->kind = kind;
    device->gpu_instance = device->compute_instance = device->link = DEVICE_NO_NUMBER;
}

static void narrow_device(FaultScope scope, Device *device)
{
    bool link = device->link != DEVICE_NO_NUMBER, on_switch = device_is_switch(device);

    if (device->kind == DEVICE_NODE)
        return;
    if (scope == SCOPE_NODE || scope == SCOPE_FABRIC)
        device_init(device, DEVICE_NODE);
    else if (scope == SCOPE_LINK && link && !device_is_part(device))
        device_make_part(device, on_switch ? DEVICE_SWITCH_LINK : DEVICE_LINK);
    else if (scope == SCOPE_LINK && link && (device->kind == DEVICE_LINK || on_switch))
        return;
    else if (scope == SCOPE_INSTANCE && !on_switch && device->gpu_instance != DEVICE_NO_NUMBER) {
        device_make_part(device,
                         device->compute_instance != DEVICE_NO_NUMBER ? DEVICE_COMPUTE_INSTANCE : DEVICE_GPU_INSTANCE);
        device->link = DEVICE_NO_NUMBER;
    } else
        widen_device(device, on_switch ? DEVICE_SWITCH : DEVICE_GPU);
}

void incidents_complete_device(const Incidents *incidents, FaultScope scope, Device *device)
{
    const IncidentGpu *gpu;
    Device whole;

    narrow_device(scope, device);
    if (device->kind != DEVICE_NODE && incident_place(device) == 0)
        device_init(device, DEVICE_NODE); /* no GPU is named */
    if (device->kind == DEVICE_NODE || device_is_switch(device))
        return;
    gpu = find_gpu_of(incidents, device);
    if (!gpu)
        return;
    whole = gpu->device;
    whole.kind = device->kind;
    whole.gpu_instance = device->gpu_instance;
    whole.compute_instance = device->compute_instance;
    whole.link = device->link;
    if (device_is_part(device)) {
        memcpy(whole.parent_uuid, gpu->device.uuid, sizeof whole.parent_uuid);
        memcpy(whole.uuid, device->uuid, sizeof whole.uuid);
    }
    *device = whole;
}

/* The GPUs below a PCIe port: how many, and the first. *ret_next: nothing is between the port and that one. */
static size_t find_below(const Incidents *incidents, PciAddress port, const IncidentGpu **ret_first, bool *ret_next)
{
    char address[PCI_TEXT_CAP], above[PCI_TEXT_CAP + 1];
    size_t count = 0;

    snprintf(above, sizeof above, "%s/", pci_format(port, PCI_FORM_SYSFS, address));
    for (size_t i = 0; i < incidents->gpu_count; i++) {
        const char *at = strstr(incidents->gpus[i].path, above);

        if (!at || count++ > 0)
            continue;
        *ret_first = &incidents->gpus[i];
        *ret_next = !strchr(at + strlen(above), '/');
    }
    return count;
}

bool incidents_find_reporter(const Incidents *incidents, const Event *event, Device *device)
{
    const bool down = event->kind == EVENT_PORT_DOWN || event->word == EVENT_FATAL;
    const IncidentGpu *gpu = NULL;
    bool next = false;

    if ((event->kind != EVENT_AER && event->kind != EVENT_PORT_DOWN) || !event->has_pci || incidents->gpu_count == 0 ||
        incidents_find_gpu(incidents, incident_place(device)))
        return true;
    const size_t count = find_below(incidents, event->pci, &gpu, &next);
    if (count == 0 || (!down && !next) || (event->kind == EVENT_PORT_DOWN && gpu->let_go))
        return false;
    if (count == 1)
        *device = gpu->device;
    else
        device_init(device, DEVICE_NODE);
    return true;
}

/* --- whose work is hit, found at the first evidence: the fault may end the process ----------------------------------
 */

/* Of a fault of one program: its own owner or, where the process is not known, the only one there is. */
static uint32_t choose_owner(const Evidence *in, const Owner *owners, uint32_t count)
{
    if (count > 0 && in->pid >= 0 && owners[0].pid == in->pid)
        return 1;
    return in->device.kind != DEVICE_NODE && count == 1;
}

uint32_t incidents_find_owners(const Incidents *incidents, const Evidence *in, Owner out[INCIDENT_OWNERS])
{
    const bool by_process = in->verdict.fault->by_process;
    uint32_t count;

    if (in->owner) {
        out[0] = *in->owner;
        return 1;
    }
    if (!incidents->owners_of || in->before ||
        (in->device.kind == DEVICE_NODE && !by_process && in->verdict.severity < SEVERITY_ERROR))
        return 0;
    count = incidents->owners_of(incidents->owners_self, &in->device, in->pid, out);
    return by_process ? choose_owner(in, out, count) : count;
}

void incident_set_owners(Incident *it, const Owner *owners, uint32_t count)
{
    it->owner_count = count;
    if (count == 0)
        return;
    memcpy(it->owners, owners, number_min_u64(count, INCIDENT_OWNERS) * sizeof *owners);
    if (owners->job[0] != '\0' || owners->pod[0] == '\0')
        snprintf(it->job, sizeof it->job, "%s", owners->job);
    else
        snprintf(it->job, sizeof it->job, "%.31s/%.31s", owners->namespace, owners->pod);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

IncidentKey incident_key(const FaultClass *class, const Device *device, int32_t code, const char *process,
                         const Owner *owner)
{
    /* Two users' programs of one name are two. Only of moments: who runs a process may be found out while a condition
     * holds. */
    const bool by_owner =
        owner && (class->by_owner || (class->by_process && class->clear == CLEAR_QUIET && process[0] != '\0'));

    return (IncidentKey){
        .class = class,
        .place = incident_place(device),
        .process = (class->by_process ? incident_hash(process) : 0) ^ (by_owner ? owner_hash(owner) : 0),
        .kind = device->kind,
        .link = device->link,
        .gpu_instance = device->gpu_instance,
        .compute_instance = device->compute_instance,
        .code = class->by_code ? code : 0,
    };
}

bool incident_key_equal(const IncidentKey *a, const IncidentKey *b)
{
    return a->class == b->class && a->place == b->place && a->process == b->process && a->kind == b->kind &&
           a->link == b->link && a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance &&
           a->code == b->code;
}

bool incident_is_wide(const IncidentKey *key)
{
    return key->kind == DEVICE_NODE || key->kind == DEVICE_SWITCH || key->kind == DEVICE_SWITCH_LINK;
}

static bool is_same_part(const IncidentKey *a, const IncidentKey *b)
{
    return a->kind == b->kind && a->link == b->link && a->gpu_instance == b->gpu_instance &&
           a->compute_instance == b->compute_instance;
}

bool incidents_related(const IncidentKey *parent, const IncidentKey *child, bool *ret_peer)
{
    bool wide = incident_is_wide(parent);

    *ret_peer = false;
    if (wide && parent->place == child->place)
        return parent->kind != DEVICE_SWITCH_LINK || child->kind == DEVICE_SWITCH || is_same_part(parent, child);
    if (wide || child->kind == DEVICE_NODE) /* one switch is not above another */
        return parent->kind == DEVICE_NODE || (child->kind != DEVICE_SWITCH && child->kind != DEVICE_SWITCH_LINK);
    if (parent->place == child->place) /* a GPU and its parts, in both directions; not one part and another */
        return parent->kind == DEVICE_GPU || child->kind == DEVICE_GPU || is_same_part(parent, child) ||
               (parent->kind == DEVICE_GPU_INSTANCE && parent->gpu_instance == child->gpu_instance);
    *ret_peer = parent->kind == DEVICE_GPU && child->kind == DEVICE_LINK;
    return *ret_peer;
}

bool incidents_is_ancestor(const FaultClass *parent, const FaultClass *child)
{
    for (size_t i = 0; parent != child && i < child->parent_count; i++)
        if (child->parents[i] == parent ||
            (child->parents[i] != child && incidents_is_ancestor(parent, child->parents[i])))
            return true;
    return false;
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

IncidentEntry *incidents_find_live(const Incidents *incidents, const IncidentKey *key)
{
    for (size_t i = incidents->count; i-- > 0;) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state != INCIDENT_CLEARED && incident_key_equal(&entry->key, key))
            return entry;
    }
    return NULL;
}

IncidentEntry *incidents_find_cleared(const Incidents *incidents, const IncidentKey *key)
{
    IncidentEntry *best = NULL;

    for (size_t i = incidents->count; i-- > 0;) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state == INCIDENT_CLEARED && entry->it.end != INCIDENT_END_MERGED &&
            entry->it.end != INCIDENT_END_REPLACED && incident_key_equal(&entry->key, key) &&
            (!best || entry->cleared_ns > best->cleared_ns))
            best = entry;
    }
    return best;
}

bool incident_stands(const IncidentEntry *entry)
{
    return entry->it.state == INCIDENT_OPEN || (entry->it.state == INCIDENT_PENDING && entry->stage == STAGE_DUE);
}

bool incident_has_code(const Incident *it, int32_t code)
{
    for (uint32_t i = 0; i < it->code_count; i++)
        if (it->codes[i] == code)
            return true;
    return false;
}

void incidents_find_unnamed(const Incidents *incidents, const FaultClass *class, Device *device)
{
    uint64_t latest_ns = 0;

    for (size_t i = 0; i < incidents->count; i++) {
        const IncidentEntry *entry = incidents->entries[i];

        if (entry->it.state == INCIDENT_CLEARED || entry->key.class != class || entry->key.kind != DEVICE_GPU ||
            entry->near_ns < latest_ns)
            continue;
        latest_ns = entry->near_ns;
        *device = entry->it.device;
    }
}

bool incidents_is_said_twice(const Incidents *incidents, const Evidence *in)
{
    const IncidentEntry *entry =
        in->origin == EVENT_FROM_FABRIC_LOG && in->code ? incidents_find_live(incidents, &in->key) : NULL;

    for (uint32_t i = 0; entry && i < entry->it.first_len + entry->it.last_len; i++) {
        const IncidentEvidence *evidence =
            i < entry->it.first_len ? &entry->it.first[i] : &entry->it.last[i - entry->it.first_len];

        if ((evidence->origin == EVENT_FROM_KMSG || evidence->origin == EVENT_FROM_JOURNAL) &&
            evidence->code == in->code && evidence->real_ns <= in->real_ns + INCIDENTS_DECIDE_NS &&
            in->real_ns <= evidence->real_ns + INCIDENTS_DECIDE_NS)
            return true;
    }
    return false;
}

/* --- parents ------------------------------------------------------------------------------------------------------ */

static uint64_t distance_ns(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Whether what began at `from` happened while `parent` was seen, or within `window` before or after. */
static bool is_near(const IncidentEntry *parent, uint64_t from, bool peer, uint64_t window)
{
    if (peer)
        return parent->it.severity == SEVERITY_FATAL && distance_ns(parent->onset_ns, from) <= window;
    if (from < parent->onset_ns)
        return parent->onset_ns - from <= window;
    return from <= parent->near_ns || from - parent->near_ns <= window;
}

static bool is_hardware(const IncidentEntry *entry)
{
    return entry->it.cause != CAUSE_APPLICATION && entry->it.cause != CAUSE_OPERATOR &&
           entry->it.cause != CAUSE_CONFIGURATION && entry->key.place != 0;
}

/* Whether the evidence itself names the entry: by the code it follows, or as the fault that the driver acts on. */
static bool is_named(const IncidentEntry *entry, const Evidence *in, bool peer)
{
    if (peer || entry->key.kind == DEVICE_NODE)
        return false;
    if (in->caused_by != 0 && incident_has_code(&entry->it, in->caused_by) &&
        is_near(entry, in->time_ns, false, INCIDENTS_QUIET_NS))
        return true;
    return in->decides && is_hardware(entry) && in->key.place == entry->key.place &&
           is_near(entry, in->time_ns, false, INCIDENTS_DECIDE_NS);
}

static bool is_parent(const IncidentEntry *entry, const Evidence *in, uint64_t from)
{
    const FaultClass *class = entry->key.class;
    bool peer;

    if (!class || class->observe || class == in->key.class || !incidents_related(&entry->key, &in->key, &peer))
        return false;
    return is_named(entry, in, peer) ||
           (incidents_is_ancestor(class, in->key.class) && is_near(entry, from, peer, in->key.class->parent_ns));
}

/* A count as it is first seen says not when it came about. */
static bool is_undated(const Evidence *in)
{
    return !in->holds && in->counter_count > 0 && isnan(in->counters[0].before);
}

static bool may_explain(const IncidentEntry *entry, const Evidence *in)
{
    if (is_undated(in) && entry->it.end == INCIDENT_END_QUIET)
        return true;
    return incident_stands(entry) && (is_undated(in) || is_near(entry, in->time_ns, false, in->key.class->parent_ns));
}

const IncidentEntry *incidents_find_explanation(const Incidents *incidents, const Evidence *in, const FaultClass *class)
{
    for (size_t i = incidents->count; class && i-- > 0;) {
        const IncidentEntry *entry = incidents->entries[i];
        bool peer;

        if (entry->key.class == class && incidents_related(&entry->key, &in->key, &peer) && !peer &&
            may_explain(entry, in))
            return entry;
    }
    return NULL;
}

/* Of several parents: the one that is named, then one of the same GPU, then the worst, then the latest. */
static bool is_better_parent(const IncidentEntry *a, const IncidentEntry *b, const Evidence *in)
{
    bool a_named = in->caused_by != 0 && incident_has_code(&a->it, in->caused_by);
    bool b_named = in->caused_by != 0 && incident_has_code(&b->it, in->caused_by);
    bool a_same = a->key.place == in->key.place, b_same = b->key.place == in->key.place;

    if (a_named != b_named)
        return a_named;
    if (a_same != b_same)
        return a_same;
    if (a->it.severity != b->it.severity)
        return a->it.severity > b->it.severity;
    return a->near_ns > b->near_ns;
}

IncidentEntry *incidents_find_parent(const Incidents *incidents, const Evidence *in, const IncidentEntry *pending)
{
    uint64_t from = pending && pending->stage != STAGE_SILENT ? pending->onset_ns : in->time_ns;
    IncidentEntry *best = NULL;

    for (size_t i = incidents->count; i-- > 0;) {
        IncidentEntry *entry = incidents->entries[i];

        if (incident_stands(entry) && is_parent(entry, in, from) && (!best || is_better_parent(entry, best, in)))
            best = entry;
    }
    return best;
}

bool incidents_is_consequence(const IncidentEntry *parent, const IncidentEntry *child)
{
    const FaultClass *above = parent->key.class, *below = child->key.class;
    uint64_t from = child->stage == STAGE_SILENT ? child->near_ns : child->onset_ns;
    bool peer;

    if (child == parent || !below || !above || above->observe || child->it.state == INCIDENT_CLEARED ||
        !incidents_related(&parent->key, &child->key, &peer))
        return false;
    if (child->caused_by != 0 && !peer && incident_has_code(&parent->it, child->caused_by))
        return is_near(parent, from, false, INCIDENTS_QUIET_NS);
    if (incidents_is_ancestor(above, below))
        return is_near(parent, from, peer, below->parent_ns);
    return strcmp(below->id, INCIDENTS_RESET_CLASS) == 0 && child->key.place == parent->key.place &&
           is_hardware(parent) && is_near(parent, from, false, INCIDENTS_DECIDE_NS);
}
