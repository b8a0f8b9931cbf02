/* SPDX-License-Identifier: Apache-2.0 */
/* The engine as a whole: its making, what the node looks like, what the journal gives back. */
#include "engine/health/incidents_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"

Incidents *incidents_new(const Catalogue *catalogue, const Maintenance *maintenance, IncidentTold told, void *self)
{
    Incidents *incidents = xcalloc(1, sizeof *incidents);

    incidents->catalogue = catalogue;
    incidents->maintenance = maintenance;
    incidents->told = told;
    incidents->self = self;
    incidents->tick = 1;
    return incidents;
}

void incidents_free(Incidents *incidents)
{
    if (!incidents)
        return;
    for (size_t i = 0; i < INCIDENTS_MAX; i++)
        free(incidents->entries[i]);
    free(incidents->followers);
    free(incidents->gpus);
    free(incidents);
}

void incidents_set_catalogue(Incidents *incidents, const Catalogue *catalogue)
{
    incidents->catalogue = catalogue;
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];
        const FaultClass *class;

        if (!entry)
            continue;
        class = catalogue_class(catalogue, entry->it.class);
        entry->class = class && class->enabled ? class : NULL;
        if (!entry->class && entry->it.state != INCIDENT_CLEARED)
            incidents_close(incidents, entry, INCIDENT_END_HAND);
    }
    incidents_arrange(incidents);
}

/* --- restoring --- */

static bool is_whole(const Device *device)
{
    return device->kind == DEVICE_GPU || device->kind == DEVICE_SWITCH || device->kind == DEVICE_NODE;
}

/* The wall clock of the last sign of its own, and (with `echoes`) of any. The instants within an incident are of one
 * clock, so they tell it whatever the wall clock did in between. */
static uint64_t last_real(const Incident *it, bool echoes)
{
    uint64_t last = it->first_real_ns;

    if (it->first_ns > 0 && it->last_sign_ns >= it->first_ns)
        last += it->last_sign_ns - it->first_ns;
    for (uint32_t i = 0; i < it->first_len + it->last_len; i++) {
        const IncidentSign *sign = i < it->first_len ? &it->first[i] : &it->last[i - it->first_len];

        if (sign->echo ? echoes : it->first_ns == 0)
            last = number_max_u64(last, sign->real_ns);
    }
    return last;
}

/* The agent's instant of one of the wall clock; 0 what is older than its clock. */
static uint64_t instant(uint64_t then_real, uint64_t now_ns, uint64_t real_ns)
{
    uint64_t ago = real_ns > then_real ? real_ns - then_real : 0;

    return now_ns > ago ? now_ns - ago : 0;
}

static void restore_instants(IncidentEntry *entry, uint64_t now_ns, uint64_t real_ns)
{
    Incident *it = &entry->it;

    uint64_t near_real_ns = last_real(it, true);

    entry->last_real_ns = last_real(it, false);
    it->first_ns = instant(it->first_real_ns, now_ns, real_ns);
    it->opened_ns = instant(it->opened_real_ns, now_ns, real_ns);
    it->updated_ns = instant(it->updated_real_ns, now_ns, real_ns);
    it->last_sign_ns = instant(entry->last_real_ns, now_ns, real_ns);
    entry->onset_ns = it->first_ns;
    entry->near_ns = instant(near_real_ns, now_ns, real_ns);
    entry->cleared_ns = instant(it->cleared_real_ns, now_ns, real_ns);
}

static bool has_condition(const Incident *it)
{
    for (uint32_t i = 0; i < it->first_len; i++)
        if (it->first[i].origin == EVENT_FROM_AGENT && !it->first[i].echo)
            return true;
    for (uint32_t i = 0; i < it->last_len; i++)
        if (it->last[i].origin == EVENT_FROM_AGENT && !it->last[i].echo)
            return true;
    return false;
}

static void restore_one(Incidents *incidents, const Incident *kept, uint64_t now_ns, uint64_t real_ns)
{
    const FaultClass *class = catalogue_class(incidents->catalogue, kept->class);
    IncidentEntry *entry;
    size_t at = incidents->order_count;

    if (!class || !class->enabled || kept->state == INCIDENT_PENDING || at == INCIDENTS_MAX ||
        incidents_find(incidents, kept->id))
        return;
    entry = xcalloc(1, sizeof *entry);
    entry->it = *kept;
    entry->class = class;
    entry->key = incidents_key(class, &kept->device, kept->code, kept->process, false);
    entry->restored = true;
    entry->keep_ns = class->keep_ns;
    entry->grace_ns = now_ns + number_max_u64(class->keep_ns, INCIDENTS_GRACE_NS);
    restore_instants(entry, now_ns, real_ns);
    entry->fed = has_condition(kept);
    for (uint32_t i = 0; i < kept->code_count; i++)
        entry->decided = entry->decided || kept->codes[i] == 154;
    if (kept->state == INCIDENT_OPEN && incidents_live(incidents, &entry->key)) {
        free(entry); /* two of one key: the journal was not ours */
        return;
    }
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        if (incidents->entries[i])
            continue;
        incidents->entries[i] = entry;
        break;
    }
    incidents->order[incidents->order_count++] = entry;
    incidents->disordered = true;
}

void incidents_restore(Incidents *incidents, const Incident *kept, size_t count, uint64_t now_ns, uint64_t real_ns)
{
    incidents->now_ns = number_max_u64(incidents->now_ns, now_ns);
    incidents->real_ns = real_ns;
    for (size_t i = 0; i < count; i++)
        incidents->last_id = number_max_u64(incidents->last_id, incident_id_number(kept[i].id));
    for (int pass = 0; pass < 2; pass++) /* open ones first: they need their places */
        for (size_t i = 0; i < count; i++)
            if ((kept[i].state == INCIDENT_OPEN) == (pass == 0))
                restore_one(incidents, &kept[i], now_ns, real_ns);
    incidents_arrange(incidents);
}

/* --- the node --- */

static bool differs(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0;
}

static bool other_board(const Device *a, const Device *b)
{
    return a->uuid[0] != '\0' && b->uuid[0] != '\0' ? strcmp(a->uuid, b->uuid) != 0 : differs(a->serial, b->serial);
}

static IncidentGpu *gpu_at(Incidents *incidents, const Device *device)
{
    for (size_t i = 0; i < incidents->gpu_count; i++)
        if (pci_compare(incidents->gpus[i].device.pci, device->pci) == 0)
            return &incidents->gpus[i];
    if (incidents->gpu_count == NODE_GPUS_MAX)
        return NULL;
    incidents->gpus = xrealloc(incidents->gpus, incidents->gpu_count + 1, sizeof *incidents->gpus);
    incidents->gpus[incidents->gpu_count] = (IncidentGpu){0};
    device_init(&incidents->gpus[incidents->gpu_count].device, DEVICE_GPU);
    return &incidents->gpus[incidents->gpu_count++];
}

static const char *board_uuid(const Device *device)
{
    return device->kind == DEVICE_GPU ? device->uuid : device->parent_uuid;
}

/* A board that sits in another slot now takes its incidents with it; another board in a slot ends those of the old. */
static void settle_board(Incidents *incidents, const Node *node, IncidentEntry *entry)
{
    const char *uuid = board_uuid(&entry->it.device);

    for (size_t i = 0; uuid[0] != '\0' && i < node->gpu_count; i++) {
        const Device *gpu = &node->gpus[i].reading.device;

        if (!gpu->has_pci || strcmp(gpu->uuid, uuid) != 0)
            continue;
        if (pci_compare(gpu->pci, entry->it.device.pci) != 0) {
            IncidentKey key = entry->key;

            key.place = incidents_place(gpu);
            if (!incidents_live(incidents, &key)) {
                entry->it.device.pci = gpu->pci;
                entry->it.device.index = gpu->index;
                entry->key = key;
            }
        }
        return;
    }
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *gpu = &node->gpus[i].reading.device;

        if (gpu->has_pci && incidents_place(gpu) == entry->key.place &&
            (differs(uuid, gpu->uuid) ||
             (uuid[0] == '\0' && is_whole(&entry->it.device) && differs(entry->it.device.serial, gpu->serial)))) {
            incidents_close(incidents, entry, INCIDENT_END_REPLACED);
            return;
        }
    }
}

static void settle_boards(Incidents *incidents, const Node *node)
{
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry && entry->it.state != INCIDENT_CLEARED && entry->key.place != 0 && entry->it.device.has_pci)
            settle_board(incidents, node, entry);
    }
}

/* Who came to be known only after the incident had begun. */
static void name_devices(Incidents *incidents, const IncidentGpu *gpu, uint64_t place)
{
    for (size_t i = 0; i < incidents->order_count; i++) {
        IncidentEntry *entry = incidents->order[i];
        Device *device = &entry->it.device;

        if (entry->it.state == INCIDENT_CLEARED || entry->key.place != place || board_uuid(device)[0] != '\0' ||
            entry->key.kind == DEVICE_SWITCH || entry->key.kind == DEVICE_SWITCH_LINK)
            continue;
        incidents_normalise(incidents, entry->it.scope, device);
        if (device->kind == DEVICE_GPU)
            memcpy(device->uuid, gpu->device.uuid, sizeof device->uuid);
    }
}

#define ANSWERS_NS (10 * NS_PER_S)

static bool was_lost(GpuState state)
{
    return state == GPU_LOST || state == GPU_GONE || state == GPU_MISSING;
}

/* It was read well some time after the last sign that it is lost: the reset fell between two looks. */
static bool answers_since(const NodeGpu *now, const IncidentEntry *entry)
{
    return now->last_sample_ns > entry->it.last_sign_ns + ANSWERS_NS;
}

/* The driver never takes back by itself what it has lost: a GPU that answers again was reset. That holds as well for
 * one that answers while the journal has it as lost. */
static bool came_back(const Incidents *incidents, const IncidentGpu *gpu, const NodeGpu *now, uint64_t place)
{
    if (gpu->lost)
        return true;
    for (size_t i = 0; i < incidents->order_count; i++) {
        const IncidentEntry *entry = incidents->order[i];

        if ((entry->restored || answers_since(now, entry)) && entry->it.state == INCIDENT_OPEN &&
            entry->key.place == place && strcmp(entry->it.class, INCIDENTS_LOST_CLASS) == 0)
            return true;
    }
    return false;
}

/* Whatever its class waits for: that it is lost is no longer true. */
static void found_again(Incidents *incidents, const Node *node, uint64_t place)
{
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry && entry->it.state != INCIDENT_CLEARED && entry->key.place == place &&
            strcmp(entry->it.class, INCIDENTS_LOST_CLASS) == 0)
            incidents_close(incidents, entry, INCIDENT_END_RESET);
    }
    incidents_end_by(incidents, EVENT_RESET, place, node->time_ns, node->real_ns);
}

static void look_at(Incidents *incidents, const Node *node, const NodeGpu *now, bool *ret_changed)
{
    const Device *device = &now->reading.device;
    IncidentGpu *gpu = device->has_pci ? gpu_at(incidents, device) : NULL;
    uint64_t place = incidents_place(device);
    bool known, changed;

    if (!gpu)
        return;
    known = gpu->device.has_pci;
    if (known && other_board(&gpu->device, device)) {
        incidents_end_by(incidents, EVENT_REPLACED, place, node->time_ns, node->real_ns);
        gpu->lost = false;
        known = false;
    }
    changed = !known || (gpu->device.uuid[0] == '\0' && device->uuid[0] != '\0') || gpu->device.index != device->index;
    if (changed && (!known || device->uuid[0] != '\0' || gpu->device.uuid[0] == '\0'))
        gpu->device = *device; /* a GPU that is lost keeps the name that it had */
    if (changed) {
        name_devices(incidents, gpu, place);
        *ret_changed = true;
    }
    if (was_lost(now->state)) {
        gpu->lost = true;
    } else if (now->state == GPU_UP && came_back(incidents, gpu, now, place)) {
        gpu->lost = false;
        found_again(incidents, node, place);
    }
}

/* Another version was loaded since: live, or while the agent was away. */
static void look_at_driver(Incidents *incidents, const Node *node)
{
    bool reloaded = differs(incidents->driver_version, node->driver_version);

    if (node->driver_version[0] == '\0' || strcmp(incidents->driver_version, node->driver_version) == 0)
        return;
    memcpy(incidents->driver_version, node->driver_version, sizeof incidents->driver_version);
    incidents->driver_major = (uint32_t)strtoul(node->driver_version, NULL, 10);
    if (reloaded)
        incidents_end_by(incidents, EVENT_MODULE_LOADED, 0, node->time_ns, node->real_ns);
    for (size_t i = 0; i < INCIDENTS_MAX; i++) {
        IncidentEntry *entry = incidents->entries[i];

        if (entry && entry->it.state == INCIDENT_OPEN && entry->restored && entry->class &&
            (entry->class->clear == CLEAR_RESET || entry->class->clear == CLEAR_DRIVER) &&
            differs(entry->it.driver_version, node->driver_version))
            incidents_close(incidents, entry, INCIDENT_END_DRIVER_RELOAD);
    }
}

void incidents_look(Incidents *incidents, const Node *node)
{
    bool changed = false;

    incidents->now_ns = number_max_u64(incidents->now_ns, node->time_ns);
    incidents->real_ns = node->real_ns;
    incidents->looked = true;
    incidents->tick++;
    look_at_driver(incidents, node);
    for (size_t i = 0; i < node->gpu_count; i++)
        look_at(incidents, node, &node->gpus[i], &changed);
    if (changed)
        settle_boards(incidents, node);
    incidents_arrange(incidents);
}
