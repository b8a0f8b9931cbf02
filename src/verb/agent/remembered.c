/* SPDX-License-Identifier: Apache-2.0 */
/* See remembered.h. A GPU is its UUID; its address only says where it was. */
#include "verb/agent/remembered.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"

#define NAMED_NS (10 * NS_PER_S) /* how long those that are here have to say who they are */
#define PUT_NS NS_PER_H

/* The state of a GPU that has not been up since the start. */
typedef enum Fate {
    FATE_UNKNOWN,  /* something sits at its address and has not said what, or is given to a virtual machine */
    FATE_REPLACED, /* another has its address */
    FATE_ABSENT,   /* nothing is there */
} Fate;

static bool is_at(const Device *device, PciAddress pci)
{
    return device->has_pci && pci_compare(device->pci, pci) == 0;
}

/* It has said in this run who it is. */
static bool is_named(const NodeGpu *gpu)
{
    return gpu->state != GPU_GONE && gpu->last_sample_ns > 0 && gpu->reading.device.uuid[0] &&
           gpu->reading.device.has_pci;
}

/* The GPU that has said that it is at this address (NULL: anywhere) or has this UUID (NULL: any). */
static const NodeGpu *find_named(const Node *node, const PciAddress *pci, const char *uuid)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (is_named(gpu) && (!pci || is_at(&gpu->reading.device, *pci)) &&
            (!uuid || strcmp(gpu->reading.device.uuid, uuid) == 0))
            return gpu;
    }
    return NULL;
}

static bool is_on_bus(const Remembered *r, PciAddress pci)
{
    for (size_t i = 0; i < r->sampling->bus_count; i++)
        if (pci_compare(r->sampling->bus[i], pci) == 0)
            return true;
    return false;
}

/* --- the journal -------------------------------------------------------------------------------------------------- */

static void log_gpu(const Remembered *r, const RememberedGpu *gpu, const char *what)
{
    const Device *device = &gpu->row.device;
    char pci[PCI_TEXT_CAP], when[CLOCK_TEXT_MAX];

    clock_format(when, gpu->row.last_real_ns);
    log_write(r->log, LOG_LEVEL_INFO, "GPU %s of %s (%s, serial %s), last here at %s, %s", device->uuid,
              pci_format(device->pci, PCI_FORM_SYSFS, pci), device->name[0] ? device->name : "unknown model",
              device->serial[0] ? device->serial : "unknown", when, what);
}

static void forget_gpu(Remembered *r, size_t i)
{
    const RememberedGpu *gpu = &r->gpus.at[i];

    journal_put_gpu(r->journal, &gpu->row, true);
    board_reader_disown(r->sampling->reader, &gpu->row.device);
    if (gpu->missed)
        supervisor_hide_gone_gpu(r->sampling->supervisor, gpu->row.device.pci);
    r->kept_count -= gpu->kept;
    vec_remove(&r->gpus, i);
}

static RememberedGpu *find_gpu(Remembered *r, const char *uuid)
{
    for (size_t i = 0; i < r->gpus.len; i++)
        if (strcmp(r->gpus.at[i].row.device.uuid, uuid) == 0)
            return &r->gpus.at[i];
    return NULL;
}

/* What the GPU says of itself now. Returns whether any of it changed. */
static bool update_row(JournalGpu *row, const NodeGpu *from)
{
    const Device *device = &from->reading.device;
    const char *serial = device->serial[0] ? device->serial : from->reading.text[READING_SERIAL];
    const JournalGpu before = *row;

    row->device.has_pci = true;
    row->device.pci = device->pci;
    row->device.index = device->index;
    row->device.minor = device->minor;
    row->drained = from->drained;
    (void)sample_int64(&from->reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], (int64_t *)&row->energy_mj);
    snprintf(row->device.name, sizeof row->device.name, "%s", device->name);
    snprintf(row->device.serial, sizeof row->device.serial, "%.*s", DEVICE_SERIAL_CAP - 1, serial);
    return !is_at(&before.device, device->pci) || before.drained != row->drained ||
           before.device.index != row->device.index || before.device.minor != row->device.minor ||
           strcmp(before.device.name, row->device.name) != 0 || strcmp(before.device.serial, row->device.serial) != 0;
}

/* The first reading of this run against the journal's. */
static void compare_energy(Remembered *r, RememberedGpu *gpu, const NodeGpu *from)
{
    const uint64_t kept_mj = gpu->kept_mj;
    int64_t now_mj;

    if (kept_mj == 0 || !sample_int64(&from->reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], &now_mj))
        return;
    gpu->kept_mj = 0;
    if (now_mj < (int64_t)kept_mj)
        r->reset(r->self, from, gpu->row.last_real_ns);
}

static void put_gpu(Remembered *r, RememberedGpu *gpu, uint64_t real_ns)
{
    gpu->row.last_real_ns = real_ns;
    journal_put_gpu(r->journal, &gpu->row, false);
}

static void note_gpus(Remembered *r, const Node *node)
{
    const bool due = node->real_ns < r->put_real_ns || node->real_ns - r->put_real_ns >= PUT_NS;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *from = &node->gpus[i];
        RememberedGpu *gpu = is_named(from) ? find_gpu(r, from->reading.device.uuid) : NULL;

        if (!is_named(from) || (from->state != GPU_UP && !gpu))
            continue;
        if (!gpu) {
            gpu = vec_add(&r->gpus);
            device_init(&gpu->row.device, DEVICE_GPU);
            memcpy(gpu->row.device.uuid, from->reading.device.uuid, sizeof gpu->row.device.uuid);
            gpu->row.first_real_ns = node->real_ns;
        }
        gpu->here = true;
        gpu->missed = false;
        compare_energy(r, gpu, from);
        if (update_row(&gpu->row, from) || due)
            put_gpu(r, gpu, node->real_ns);
    }
    if (due)
        r->put_real_ns = node->real_ns;
}

/* A GPU that is in another slot now left an entry where it was. */
static void hide_moved(const Remembered *r, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *device = &node->gpus[i].reading.device;

        if (node->gpus[i].state == GPU_GONE && device->uuid[0] && find_named(node, NULL, device->uuid))
            supervisor_hide_gone_gpu(r->sampling->supervisor, device->pci);
    }
}

/* --- those that are not here -------------------------------------------------------------------------------------- */

static bool is_open(const RememberedGpu *gpu)
{
    return gpu->kept && !gpu->here;
}

static Fate find_fate(const Remembered *r, const Node *node, const RememberedGpu *gpu)
{
    if (find_named(node, &gpu->row.device.pci, NULL))
        return FATE_REPLACED;
    return is_on_bus(r, gpu->row.device.pci) ? FATE_UNKNOWN : FATE_ABSENT;
}

/* In this run: another is where it was, and it is nowhere. */
static void forget_replaced(Remembered *r, const Node *node)
{
    for (size_t i = r->gpus.len; i-- > 0;) {
        const RememberedGpu *gpu = &r->gpus.at[i];
        const NodeGpu *there = is_open(gpu) ? NULL : find_named(node, &gpu->row.device.pci, NULL);

        if (!there || there->state != GPU_UP || strcmp(there->reading.device.uuid, gpu->row.device.uuid) == 0 ||
            find_named(node, NULL, gpu->row.device.uuid))
            continue;
        log_gpu(r, gpu, "was replaced by another");
        forget_gpu(r, i);
    }
}

static void forget_all(Remembered *r)
{
    size_t count = 0;

    for (size_t i = r->gpus.len; i-- > 0;) {
        if (!is_open(&r->gpus.at[i]))
            continue;
        forget_gpu(r, i);
        count++;
    }
    log_write(
        r->log, LOG_LEVEL_INFO,
        "none of the %zu GPUs that the journal knows is here, but others are: it is another machine's, or all were "
        "replaced. They are not missed.",
        count);
}

static void report_missing(Remembered *r, RememberedGpu *gpu)
{
    char why[NODE_WHY_CAP], when[CLOCK_TEXT_MAX];

    gpu->missed = true;
    log_gpu(r, gpu, "is not on the PCI bus");
    const uint32_t entry = supervisor_add_gone_gpu(r->sampling->supervisor, gpu->row.device.pci, gpu->row.drained);
    if (entry == UINT32_MAX)
        return;
    clock_format(when, gpu->row.last_real_ns);
    snprintf(why, sizeof why, "last seen at %s, before the agent was started", when);
    board_reader_know(r->sampling->reader, entry, &gpu->row.device, why);
}

/* As many GPUs are present as expected, or as before: absent ones were replaced or removed on purpose. */
static bool is_complete(const Remembered *r, const Node *node)
{
    const int64_t expected = r->sampling->expected >= 0 ? r->sampling->expected : (int64_t)r->kept_count;
    const size_t found = node->gpus_found, present = r->sampling->bus_count > found ? r->sampling->bus_count : found;

    return (int64_t)present >= expected;
}

static void check_each(Remembered *r, const Node *node)
{
    const bool complete = is_complete(r, node);

    for (size_t i = r->gpus.len; i-- > 0;) {
        RememberedGpu *gpu = &r->gpus.at[i];
        const Fate fate = is_open(gpu) ? find_fate(r, node, gpu) : FATE_UNKNOWN;

        if (fate == FATE_REPLACED) {
            log_gpu(r, gpu, "was replaced by another");
            forget_gpu(r, i);
        } else if (fate == FATE_ABSENT && complete && !gpu->missed) {
            log_gpu(r, gpu, "is not here, but as many are as there should be; it is forgotten");
            forget_gpu(r, i);
        } else if (fate == FATE_ABSENT && !gpu->missed) {
            report_missing(r, gpu);
        }
    }
}

static void check_missing(Remembered *r, const Node *node)
{
    size_t named = 0, unnamed = 0, open = 0, here = 0, unknown = 0;

    for (size_t i = 0; i < node->gpu_count; i++) {
        named += is_named(&node->gpus[i]);
        unnamed += node->gpus[i].state != GPU_GONE && !is_named(&node->gpus[i]);
    }
    for (size_t i = 0; i < r->gpus.len; i++) {
        const RememberedGpu *gpu = &r->gpus.at[i];

        open += is_open(gpu);
        here += gpu->kept && gpu->here;
        unknown += is_open(gpu) && find_fate(r, node, gpu) == FATE_UNKNOWN;
    }
    const bool early = node->time_ns - r->began_ns < NAMED_NS;
    /* A driver may know GPUs of which this machine shows no bus. */
    if (open == 0 || !r->sampling->bus_seen || (early && (unnamed > 0 || named == 0)))
        return;
    if (here > 0 || unknown > 0 || (unnamed == 0 && named == 0))
        check_each(r, node);
    else if (unnamed == 0)
        forget_all(r);
    /* else: strangers at other addresses, so far */
}

/* --- for the triage ----------------------------------------------------------------------------------------------- */

void remembered_open(Remembered *r, const JournalKept *kept, Journal *journal, Sampling *sampling, const Log *log,
                     RememberedReset reset, void *self)
{
    *r = (Remembered){.log = log,
                      .sampling = sampling,
                      .journal = journal,
                      .began_ns = board_now(sampling->board),
                      .reset = reset,
                      .self = self};
    for (size_t i = 0; i < kept->gpus.len; i++) {
        const JournalGpu *row = &kept->gpus.at[i];

        vec_push(&r->gpus, ((RememberedGpu){.row = *row, .kept = true, .kept_mj = row->energy_mj}));
        board_reader_recall(sampling->reader, &row->device);
    }
    r->kept_count = (uint32_t)r->gpus.len;
}

void remembered_note_reboot(Remembered *r)
{
    for (size_t i = 0; i < r->gpus.len; i++)
        r->gpus.at[i].kept_mj = 0;
}

void remembered_done(Remembered *r)
{
    vec_done(&r->gpus);
}

void remembered_tick(Remembered *r, const Node *node)
{
    note_gpus(r, node);
    hide_moved(r, node);
    forget_replaced(r, node);
    check_missing(r, node);
}

void remembered_put(Remembered *r, const Node *node, const Device *device, uint64_t real_ns)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *from = &node->gpus[i];
        RememberedGpu *gpu = is_named(from) ? find_gpu(r, from->reading.device.uuid) : NULL;

        /* until it was compared, the journal's energy stays there */
        if (!gpu || !gpu->here || gpu->kept_mj > 0 || (device->has_pci && !is_at(&from->reading.device, device->pci)))
            continue;
        update_row(&gpu->row, from);
        put_gpu(r, gpu, real_ns);
    }
}

void remembered_set_idle(Remembered *r, const char *uuid, uint64_t idle_mw, bool held)
{
    RememberedGpu *gpu = idle_mw > 0 ? find_gpu(r, uuid) : NULL;

    if (!gpu)
        return;
    const bool fresh = gpu->row.idle_mw == 0 || gpu->row.idle_held != held;
    gpu->row.idle_mw = idle_mw;
    gpu->row.idle_held = held;
    if (fresh)
        journal_put_gpu(r->journal, &gpu->row, false);
}

void remembered_set_layout(Remembered *r, const char *uuid, const char *layout, const char *change, uint64_t real_ns)
{
    RememberedGpu *gpu = find_gpu(r, uuid);

    if (!gpu)
        return;
    snprintf(gpu->row.mig_layout, sizeof gpu->row.mig_layout, "%s", layout);
    if (change) {
        clock_format(gpu->row.mig_changed, real_ns);
        snprintf(gpu->row.mig_change, sizeof gpu->row.mig_change, "%s", change);
    }
    journal_put_gpu(r->journal, &gpu->row, false);
}

void remembered_show_changes(const Remembered *r, const Node *node)
{
    for (size_t i = 0; i < r->gpus.len; i++) {
        const JournalGpu *row = &r->gpus.at[i].row;

        for (size_t k = 0; row->mig_change[0] && k < node->gpu_count; k++) {
            NodeGpu *gpu = &node->gpus[k];

            if (strcmp(gpu->reading.device.uuid, row->device.uuid) != 0)
                continue;
            memcpy(gpu->mig_changed, row->mig_changed, sizeof gpu->mig_changed);
            memcpy(gpu->mig_change, row->mig_change, sizeof gpu->mig_change);
        }
    }
}

void remembered_refill(Remembered *r)
{
    for (size_t i = 0; i < r->gpus.len; i++)
        journal_put_gpu(r->journal, &r->gpus.at[i].row, false);
}

static bool is_off_bus(const Remembered *r, const NodeGpu *gpu)
{
    return gpu->state == GPU_GONE ||
           (r->sampling->bus_seen && gpu->state != GPU_UP && !is_on_bus(r, gpu->reading.device.pci));
}

size_t remembered_forget(Remembered *r, const Node *node, const Device *device, const char *who)
{
    char name[PCI_TEXT_CAP];
    size_t count = 0;

    sampling_scan_bus(r->sampling);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *gone = &node->gpus[i].reading.device;

        if (!is_off_bus(r, &node->gpus[i]) || (device->has_pci && !is_at(gone, device->pci)))
            continue;
        log_write(r->log, LOG_LEVEL_INFO, "GPU %s of %s is not missed any more, says %s",
                  gone->uuid[0] ? gone->uuid : "without a UUID", pci_format(gone->pci, PCI_FORM_SYSFS, name), who);
        supervisor_hide_gone_gpu(r->sampling->supervisor, gone->pci);
        for (size_t k = r->gpus.len; k-- > 0;)
            if (is_at(&r->gpus.at[k].row.device, gone->pci))
                forget_gpu(r, k);
        count++;
    }
    return count;
}
