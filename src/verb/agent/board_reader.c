/* SPDX-License-Identifier: Apache-2.0 */
/* Entry i of `kept` belongs to Board.gpus[i]; the node's GPUs point into it, in the order of their index.
 */
#include "verb/agent/board_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/vec.h"

typedef struct Kept {
    NodeGpu gpu; /* the latest state; its reading is the last whole copy of the row */
    Reading instances[NODE_INSTANCES_MAX];
    uint32_t fast_head;
    FastReading fast[BOARD_FAST_LEN];
    Sample status[NODE_GPUS_MAX]; /* status of its peers, by entry; the last whole copy */
    NodePeer peers[NODE_GPUS_MAX];
    BoardLinkList links;         /* the last whole copy */
    BoardProcessList processes;  /* the same */
    char gone_why[NODE_WHY_CAP]; /* reason while GONE and not seen since the start, "" none */
    bool torn;                   /* no whole copy in the last read */
    bool recalled;               /* its identity is one of `before` */
} Kept;

struct BoardReader {
    const Board *board;
    Supervisor *supervisor;
    Node node;
    size_t entries; /* of the board; some may be hidden */
    Kept *kept[NODE_GPUS_MAX];
    NodeGpu gpus[NODE_GPUS_MAX];
    NodeSampler samplers[NODE_SAMPLERS_MAX];
    uint32_t event_heads[NODE_SAMPLERS_MAX];
    Reading scratch;
    BoardPlan plan;
    int64_t expected;
    VEC(Device) before; /* GPUs that were there before the start */
};

BoardReader *board_reader_new(const Board *board, Supervisor *supervisor, const char *hostname)
{
    BoardReader *reader = xcalloc(1, sizeof *reader);

    reader->board = board;
    reader->supervisor = supervisor;
    reader->expected = -1;
    snprintf(reader->node.hostname, sizeof reader->node.hostname, "%s", hostname);
    reader->node.gpus = reader->gpus;
    reader->node.samplers = reader->samplers;
    return reader;
}

void board_reader_free(BoardReader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < NODE_GPUS_MAX; i++)
        free(reader->kept[i]);
    vec_done(&reader->before);
    free(reader);
}

void board_reader_set_bus(BoardReader *reader, uint32_t on_bus, int64_t expected)
{
    reader->node.gpus_on_bus = on_bus;
    reader->expected = expected;
}

const Node *board_reader_node(const BoardReader *reader)
{
    return &reader->node;
}

NodeSampler *board_reader_samplers(BoardReader *reader)
{
    return reader->samplers;
}

/* Why the values of a GPU in this state are absent; ABSENCE_END where they are not. */
static Absence absence_of(GpuState state)
{
    switch (state) {
    case GPU_UP:
        return ABSENCE_END;
    case GPU_STARTING:
        return ABSENCE_NOT_YET;
    case GPU_HUNG:
        return ABSENCE_TIMED_OUT;
    case GPU_LOST:
    case GPU_MISSING:
        return ABSENCE_GPU_LOST;
    case GPU_GONE:
        return ABSENCE_GONE;
    case GPU_NO_DRIVER:
        return ABSENCE_NO_LIBRARY;
    case GPU_RELEASED:
        return ABSENCE_RELEASED;
    case GPU_FAILED:
    case GPU_STATE_END:
        break;
    }
    return ABSENCE_FAILED;
}

/* Makes stale values absent. */
static void drop_stale(const BoardReader *reader, Reading *reading)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        Sample *sample = &reading->sample[id];
        MetricPace pace = metric_get(id)->pace;
        uint64_t age;

        if (sample_age(sample, reader->node.time_ns, &age) &&
            age > reading_fresh_ns(pace, reader->plan.period_ns[pace]))
            sample_set_absent(sample, sample->time_ns, ABSENCE_TIMED_OUT);
    }
}

/* FB_USED_PERCENT is used / (total - reserved), as DCGM has it. */
static void derive_used_percent(const BoardReader *reader, Reading *reading)
{
    int64_t used, total, reserved = 0;
    Sample *out = &reading->sample[METRIC_FB_USED_PERCENT];
    const Sample *from = &reading->sample[METRIC_FB_USED];

    sample_int64(&reading->sample[METRIC_FB_RESERVED], &reserved);
    if (sample_int64(from, &used) && sample_int64(&reading->sample[METRIC_FB_TOTAL], &total) && total > reserved)
        sample_set_double(out, from->time_ns, (double)used / (double)(total - reserved));
    else
        sample_set_absent(out, reader->node.time_ns, from->valid ? ABSENCE_NO_DATA : (Absence)from->absence);
}

static void copy_row(BoardReader *reader, const BoardRow *row, Reading *to, bool *torn)
{
    if (!board_copy(row, &reader->scratch)) {
        *torn = true; /* keep the copy before, until it is stale */
        return;
    }
    if (reader->scratch.device.uuid[0])
        *to = reader->scratch;
    else /* not written yet or repaired: keep the identity */
        memcpy(to->sample, reader->scratch.sample, sizeof to->sample);
}

static void take_rows(BoardReader *reader, const BoardGpu *from, Kept *kept)
{
    kept->torn = false;
    copy_row(reader, &from->gpu, &kept->gpu.reading, &kept->torn);
    kept->gpu.reading.device.kind = DEVICE_GPU;
    kept->gpu.reading.device.has_pci = true;
    kept->gpu.reading.device.pci = from->pci;
    const size_t instances = board_instances(from);
    if (instances > 0 || kept->gpu.reading.mig_known || !kept->gpu.reading.mig) /* else it is split as it was */
        kept->gpu.instance_count = instances;
    for (size_t i = 0; i < instances; i++)
        copy_row(reader, &from->instances[i], &kept->instances[i], &kept->torn);
    if (!board_copy_peers(&from->peers, kept->status))
        kept->torn = true;
    if (!board_copy_links(&from->links, &kept->links))
        kept->torn = true;
    if (!board_copy_processes(&from->processes, &kept->processes))
        kept->torn = true;
}

/* Makes a sample absent that is stale or of a GPU that is not up. */
static void check_sample(const BoardReader *reader, Sample *sample, Absence why)
{
    uint64_t age, fresh_ns = reading_fresh_ns(METRIC_PACE_SLOW, reader->plan.period_ns[METRIC_PACE_SLOW]);

    if (!sample->valid && sample->absence == ABSENCE_NOT_YET)
        return;
    if (why != ABSENCE_END)
        sample_set_absent(sample, reader->node.time_ns, why);
    else if (sample_age(sample, reader->node.time_ns, &age) && age > fresh_ns)
        sample_set_absent(sample, sample->time_ns, ABSENCE_TIMED_OUT);
}

static void check_lists(BoardReader *reader, Kept *kept)
{
    const Absence why = absence_of(kept->gpu.state);
    NodeGpu *gpu = &kept->gpu;

    gpu->link_count = kept->links.count;
    gpu->links = kept->links.links;
    for (uint32_t i = 0; i < kept->links.count; i++) {
        check_sample(reader, &kept->links.links[i].active, why);
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++)
            check_sample(reader, &kept->links.links[i].errors[k], why);
        for (size_t k = 0; k < NODE_PORT_COUNTERS; k++)
            check_sample(reader, &kept->links.links[i].ports[k], why);
    }
    check_sample(reader, &kept->processes.count, why);
    gpu->process_list = kept->processes.count;
    gpu->processes = kept->processes.processes;
    gpu->process_count = kept->processes.count.valid ? kept->processes.len : 0;
}

/* The MIG devices as one word; "" where they are not known. A torn copy may be half of one layout and half of the next:
 * the word before stays. */
static void describe_layout(Kept *kept)
{
    const char *names[NODE_INSTANCES_MAX];
    NodeGpu *gpu = &kept->gpu;
    bool known = gpu->reading.mig_known && gpu->state == GPU_UP;

    if (kept->torn)
        return;
    for (size_t i = 0; i < gpu->instance_count; i++) {
        names[i] = kept->instances[i].profile;
        known &= names[i][0] != '\0';
    }
    gpu->mig_layout[0] = '\0';
    if (known)
        mig_layout_word(gpu->reading.mig, names, gpu->instance_count, gpu->mig_layout);
}

static void check_values(BoardReader *reader, Kept *kept)
{
    Absence why = absence_of(kept->gpu.state);

    if (why != ABSENCE_END) {
        reading_lose(&kept->gpu.reading, reader->node.time_ns, why);
        for (size_t i = 0; i < kept->gpu.instance_count; i++)
            reading_lose(&kept->instances[i], reader->node.time_ns, why);
        return;
    }
    drop_stale(reader, &kept->gpu.reading);
    derive_used_percent(reader, &kept->gpu.reading);
    for (size_t i = 0; i < kept->gpu.instance_count; i++) {
        drop_stale(reader, &kept->instances[i]);
        derive_used_percent(reader, &kept->instances[i]);
    }
}

static Kept *kept_of(BoardReader *reader, size_t i)
{
    if (!reader->kept[i]) {
        reader->kept[i] = xcalloc(1, sizeof *reader->kept[i]);
        reading_init(&reader->kept[i]->gpu.reading, DEVICE_GPU);
    }
    return reader->kept[i];
}

void board_reader_know(BoardReader *reader, uint32_t entry, const Device *device, const char *gone_why)
{
    if (entry >= NODE_GPUS_MAX)
        return;
    Kept *kept = kept_of(reader, entry);

    if (!kept->gpu.reading.device.uuid[0])
        kept->gpu.reading.device = *device;
    snprintf(kept->gone_why, sizeof kept->gone_why, "%s", gone_why);
}

void board_reader_recall(BoardReader *reader, const Device *device)
{
    vec_push(&reader->before, *device);
}

void board_reader_disown(BoardReader *reader, const Device *device)
{
    for (size_t i = reader->before.len; i-- > 0;)
        if (strcmp(reader->before.at[i].uuid, device->uuid) == 0)
            vec_remove(&reader->before, i);
}

/* A GPU that says of itself that it has this UUID (NULL: any) and index (DEVICE_NO_NUMBER: any). */
static bool is_claimed(const BoardReader *reader, const char *uuid, uint32_t index)
{
    for (size_t i = 0; i < reader->entries; i++) {
        const Device *device = &reader->kept[i]->gpu.reading.device;

        if (!reader->kept[i]->recalled && device->uuid[0] && (!uuid || strcmp(device->uuid, uuid) == 0) &&
            (index == DEVICE_NO_NUMBER || device->index == index))
            return true;
    }
    return false;
}

/* Once all GPUs were taken: who one is that was tried and does not say it. */
static void recall_identity(BoardReader *reader, Kept *kept)
{
    Device *device = &kept->gpu.reading.device;

    if (device->uuid[0] || kept->gpu.state == GPU_UP || kept->gpu.state == GPU_STARTING)
        return;
    for (size_t i = 0; i < reader->before.len && !kept->recalled; i++) {
        const Device *before = &reader->before.at[i];

        if (pci_compare(before->pci, device->pci) != 0 || is_claimed(reader, before->uuid, DEVICE_NO_NUMBER))
            continue;
        *device = *before;
        kept->recalled = true;
        if (before->index != DEVICE_NO_NUMBER && is_claimed(reader, NULL, before->index))
            device->index = DEVICE_NO_NUMBER;
    }
}

/* What was recalled is decided anew in each tick. */
static void forget_identity(Kept *kept)
{
    if (!kept->recalled)
        return;
    device_init(&kept->gpu.reading.device, DEVICE_GPU);
    kept->recalled = false;
}

static void take_gpu(BoardReader *reader, size_t i)
{
    const BoardGpu *from = &reader->board->gpus[i];
    Kept *kept = kept_of(reader, i);
    uint64_t lost;

    forget_identity(kept);
    supervisor_view_gpu(reader->supervisor, (uint32_t)i, &kept->gpu);
    if (kept->gpu.state != GPU_GONE)
        kept->gone_why[0] = '\0';
    if (kept->gone_why[0])
        memcpy(kept->gpu.why, kept->gone_why, sizeof kept->gpu.why);
    kept->gpu.drained = atomic_load_explicit(&from->drained, memory_order_relaxed) == 2;
    take_rows(reader, from, kept);
    kept->gpu.instances = kept->instances;
    kept->gpu.last_sample_ns = atomic_load_explicit(&from->last_sample_ns, memory_order_relaxed);
    kept->gpu.pass_ns = atomic_load_explicit(&from->pass_ns, memory_order_relaxed);
    kept->gpu.failed_passes = atomic_load_explicit(&from->failed_passes, memory_order_relaxed);
    uint32_t gpm = atomic_load_explicit(&from->gpm, memory_order_relaxed);
    kept->gpu.gpm_known = gpm != 0;
    kept->gpu.gpm = gpm == 2;
    kept->gpu.fast_count = board_read_fast(&from->gpu, &kept->fast_head, kept->fast, &lost);
    kept->gpu.fast = kept->fast;
    kept->gpu.fast_lost += lost;
    describe_layout(kept);
    check_values(reader, kept);
    check_lists(reader, kept);
}

/* A status counts if both GPUs are up and it is fresh. */
static Sample triage_peer(const BoardReader *reader, const Kept *kept, const Sample *said, const NodeGpu *peer)
{
    Sample status = *said;

    check_sample(reader, &status, absence_of(kept->gpu.state));
    if (status.valid && peer->state != GPU_UP)
        sample_set_int64(&status, said->time_ns, PEER_UNKNOWN);
    return status;
}

static int by_peer(const void *a, const void *b)
{
    const NodePeer *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

/* Whether the index means this GPU: one that is gone may have had the index that another has now. */
static bool is_named(const BoardReader *reader, size_t i)
{
    const NodeGpu *gpu = &reader->kept[i]->gpu;

    for (size_t k = 0; k < reader->entries; k++) {
        if (supervisor_gpu_is_hidden(reader->supervisor, (uint32_t)k))
            continue;
        const NodeGpu *other = &reader->kept[k]->gpu;
        bool better = (other->state == GPU_UP) != (gpu->state == GPU_UP) ? other->state == GPU_UP : k < i;

        if (other->reading.device.index == gpu->reading.device.index && better)
            return false;
    }
    return gpu->reading.device.index != DEVICE_NO_NUMBER;
}

/* Once all GPUs were taken. A peer is known by its index alone, so each index comes once, and never the GPU's own. */
static void take_peers(BoardReader *reader, const bool named[NODE_GPUS_MAX], size_t of)
{
    Kept *kept = reader->kept[of];

    kept->gpu.peers = kept->peers;
    kept->gpu.peer_count = 0;
    for (size_t i = 0; i < reader->entries; i++) {
        const NodeGpu *peer = &reader->kept[i]->gpu;

        if (i != of && named[i] && peer->reading.device.index != kept->gpu.reading.device.index)
            kept->peers[kept->gpu.peer_count++] =
                (NodePeer){peer->reading.device.index, triage_peer(reader, kept, &kept->status[i], peer)};
    }
    qsort(kept->peers, kept->gpu.peer_count, sizeof kept->peers[0], by_peer);
}

static int by_index(const void *a, const void *b)
{
    const Device *x = &((const NodeGpu *)a)->reading.device, *y = &((const NodeGpu *)b)->reading.device;

    if (x->index != y->index)
        return x->index < y->index ? -1 : 1; /* DEVICE_NO_NUMBER is the largest */
    return pci_compare(x->pci, y->pci);
}

/* XIDs that were overwritten before they could be read; the triage reads the others. */
static void count_lost_events(BoardReader *reader)
{
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        XidEvent some[BOARD_EVENTS_LEN];
        uint64_t lost;

        board_read_events(&reader->board->samplers[i], &reader->event_heads[i], some, &lost);
        reader->node.events_lost += lost;
    }
}

static void take_versions(BoardReader *reader)
{
    Node *node = &reader->node;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const Reading *r = &reader->gpus[i].reading;

        if (r->text[READING_DRIVER_VERSION][0])
            memcpy(node->driver_version, r->text[READING_DRIVER_VERSION], sizeof node->driver_version);
        if (r->text[READING_NVML_VERSION][0])
            memcpy(node->nvml_version, r->text[READING_NVML_VERSION], sizeof node->nvml_version);
    }
}

const Node *board_reader_read(BoardReader *reader, uint64_t time_ns, uint64_t real_ns)
{
    Node *node = &reader->node;
    const SupervisorView *view = supervisor_view(reader->supervisor);
    uint32_t count = atomic_load_explicit(&reader->board->gpu_count, memory_order_acquire);
    bool named[NODE_GPUS_MAX];

    node->tick++;
    node->time_ns = time_ns;
    node->real_ns = real_ns;
    reader->entries = count > NODE_GPUS_MAX ? NODE_GPUS_MAX : count;
    (void)board_get_plan(reader->board, &reader->plan);
    for (size_t i = 0; i < reader->entries; i++)
        take_gpu(reader, i);
    for (size_t i = 0; i < reader->entries; i++)
        recall_identity(reader, reader->kept[i]);
    for (size_t i = 0; i < reader->entries; i++)
        named[i] = !supervisor_gpu_is_hidden(reader->supervisor, (uint32_t)i) && is_named(reader, i);
    for (size_t i = 0; i < reader->entries; i++)
        take_peers(reader, named, i);
    node->gpu_count = 0;
    for (size_t i = 0; i < reader->entries; i++)
        if (!supervisor_gpu_is_hidden(reader->supervisor, (uint32_t)i))
            reader->gpus[node->gpu_count++] = reader->kept[i]->gpu;
    qsort(reader->gpus, node->gpu_count, sizeof reader->gpus[0], by_index);
    take_versions(reader);
    node->sampler_count = supervisor_view_samplers(reader->supervisor, reader->samplers);
    node->driver = view->driver;
    node->driver_code = view->driver_code;
    memcpy(node->driver_why, view->driver_why, sizeof node->driver_why);
    node->probe = view->probe;
    node->samplers_started = view->started;
    node->samplers_abandoned = view->abandoned;
    node->gpus_found = view->found;
    node->gpus_expected = reader->expected < 0 ? node->gpus_on_bus : (uint32_t)reader->expected;
    if (reader->expected < 0 && node->gpus_expected < node->gpus_found)
        node->gpus_expected = node->gpus_found; /* no PCI bus is visible */
    node->release_until_ns = atomic_load_explicit(&reader->board->release_until_ns, memory_order_relaxed);
    count_lost_events(reader);
    return node;
}
