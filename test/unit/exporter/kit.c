/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes to make pages of (kit.h). */

#include "kit.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"

static void name_gpu(Kit *kit, size_t i)
{
    NodeGpu *gpu = &kit->gpus[i];
    Device *device = &gpu->reading.device;

    reading_init(&gpu->reading, DEVICE_GPU);
    device->vendor = DEVICE_NVIDIA;
    device->arch = DEVICE_ARCH_HOPPER;
    device->index = (uint32_t)i;
    device->minor = (uint32_t)i;
    device->has_pci = true;
    device->pci = (PciAddress){.bus = (uint8_t)(0x1a + i)};
    snprintf(device->uuid, sizeof device->uuid, "GPU-%zu", i);
    snprintf(device->name, sizeof device->name, "NVIDIA H100 80GB HBM3");
    snprintf(device->serial, sizeof device->serial, "165%zu", i);
    snprintf(gpu->reading.text[READING_DRIVER_VERSION], READING_TEXT_CAP, "535.129.03");
    gpu->state = GPU_UP;
    gpu->state_since_ns = KIT_NOW - 10 * NS_PER_S;
    gpu->last_sample_ns = KIT_NOW - NS_PER_S / 2;
    gpu->pass_ns = 2500000;
}

void kit_node(Kit *kit, size_t count)
{
    Node *node = &kit->node;

    memset(kit, 0, sizeof *kit);
    allocation_table_init(&kit->allocations);
    for (size_t i = 0; i < count; i++)
        name_gpu(kit, i);
    node->time_ns = KIT_NOW;
    node->real_ns = KIT_REAL;
    snprintf(node->hostname, sizeof node->hostname, "node-1");
    snprintf(node->driver_version, sizeof node->driver_version, "535.129.03");
    node->gpus_on_bus = node->gpus_expected = node->gpus_found = (uint32_t)count;
    node->gpu_count = count;
    node->gpus = kit->gpus;
    node->samplers = kit->samplers;
    kit->config = (ExporterConfig){
        .devices = {.flex = true},
        .xid_window_ns = 5 * NS_PER_MIN,
        .clock_events_window_ns = 5 * NS_PER_MIN,
        .period_ns =
            {[METRIC_PACE_FAST] = NS_PER_S / 10, [METRIC_PACE_NORMAL] = NS_PER_S, [METRIC_PACE_SLOW] = 10 * NS_PER_S},
    };
    kit->input.self =
        (ExporterSelf){.version = "0.1.0", .pods_state = "off", .rss_bytes = 9437184, .start_real_ns = KIT_REAL};
}

void kit_done(Kit *kit)
{
    allocation_table_done(&kit->allocations);
}

void kit_split(Kit *kit, size_t gpu, size_t count)
{
    NodeGpu *of = &kit->gpus[gpu];

    of->reading.mig = true;
    of->instances = kit->instances[gpu];
    of->instance_count = count;
    for (size_t i = 0; i < count; i++) {
        Reading *instance = &of->instances[i];

        reading_init(instance, DEVICE_COMPUTE_INSTANCE);
        instance->device.gpu_instance = (uint32_t)(7 + i);
        instance->device.compute_instance = 0;
        instance->device.has_pci = true;
        instance->device.pci = of->reading.device.pci;
        instance->instance_head = true;
        snprintf(instance->device.uuid, sizeof instance->device.uuid, "MIG-%zu-%zu", gpu, i);
        memcpy(instance->device.parent_uuid, of->reading.device.uuid, sizeof instance->device.parent_uuid);
        snprintf(instance->profile, sizeof instance->profile, "1g.10gb");
    }
}

void kit_set_reading(Reading *reading, MetricId id, double value, uint64_t time_ns)
{
    if (metric_get(id)->value == METRIC_INT64)
        sample_set_int64(&reading->sample[id], time_ns, (int64_t)value);
    else
        sample_set_double(&reading->sample[id], time_ns, value);
}

void kit_set(Kit *kit, size_t gpu, MetricId id, double value)
{
    kit_set_reading(&kit->gpus[gpu].reading, id, value, kit->node.time_ns);
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static void fill(Reading *reading, uint64_t *seed, uint64_t now)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        if (metric->type != METRIC_LABEL && metric->source.kind != METRIC_FROM_DERIVED)
            kit_set_reading(reading, id,
                            metric->unit == UNIT_RATIO ? (double)(next(seed) % 100000) / 99999
                                                       : (double)(next(seed) % 100000) / 8,
                            now);
    }
}

void kit_fill(Kit *kit, uint64_t seed)
{
    for (size_t i = 0; i < kit->node.gpu_count; i++) {
        fill(&kit->gpus[i].reading, &seed, kit->node.time_ns);
        for (size_t k = 0; k < kit->gpus[i].instance_count; k++)
            fill(&kit->gpus[i].instances[k], &seed, kit->node.time_ns);
    }
}

void kit_peers(Kit *kit, size_t of, PeerStatus status)
{
    NodeGpu *gpu = &kit->gpus[of];
    NodePeer *peers = kit->peers[of];

    gpu->peers = peers;
    gpu->peer_count = 0;
    for (size_t i = 0; i < kit->node.gpu_count; i++) {
        if (i == of)
            continue;
        peers[gpu->peer_count].index = (uint32_t)i;
        sample_set_int64(&peers[gpu->peer_count++].status, kit->node.time_ns, status);
    }
}

void kit_owner(Kit *kit, const char *device_id, const char *pod, const char *container)
{
    Allocation owner = {.pod = pod, .namespace = "team", .container = container, .pod_uid = "uid-1"};

    assert_int_equal(allocation_device_parse(device_id, &owner.device), 0);
    allocation_table_add(&kit->allocations, &owner);
}

Event kit_xid(const Kit *kit, size_t gpu, uint64_t xid, uint64_t time_ns)
{
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_NVML);
    event.has_pci = true;
    event.pci = kit->gpus[gpu].reading.device.pci;
    event.code = (int32_t)xid;
    event.time_ns = time_ns;
    event.real_ns = kit->node.real_ns - (kit->node.time_ns - time_ns);
    return event;
}

void kit_event(const Kit *kit, Exporter *exporter, size_t gpu, uint64_t xid, uint64_t time_ns)
{
    const Event event = kit_xid(kit, gpu, xid, time_ns);

    exporter_event(exporter, &event);
}

void kit_advance(Kit *kit, uint64_t ns)
{
    kit->node.time_ns += ns;
    kit->node.real_ns += ns;
    for (size_t i = 0; i < kit->node.gpu_count; i++)
        kit->gpus[i].fast_count = 0;
}

Exporter *kit_reload(const Kit *kit, const char *csv, Exporter *before)
{
    Counters counters;
    Err err = {0};

    counters_init(&counters);
    if (csv)
        assert_int_equal(counters_read(&counters, csv, strlen(csv), "kit.csv", false, &err), 0);
    else
        counters_default(&counters);
    return exporter_new(&kit->config, &counters, before);
}

Exporter *kit_exporter(const Kit *kit, const char *csv)
{
    return kit_reload(kit, csv, NULL);
}

void kit_add_page(Kit *kit, Exporter *exporter, ExporterFormat format, Str *out)
{
    kit->snapshot.node = &kit->node;
    kit->snapshot.allocations = &kit->allocations;
    kit->input.snapshot = &kit->snapshot;
    exporter_page(exporter, &kit->input, format, out);
}

char *kit_page_of(Kit *kit, Exporter *exporter, ExporterFormat format)
{
    Str page;

    str_init(&page, 64 << 20);
    kit_add_page(kit, exporter, format, &page);
    assert_false(page.overflow);
    if (!page.len)
        str_add(&page, "");
    return str_take(&page);
}

char *kit_page(Kit *kit, const char *csv, ExporterFormat format)
{
    Exporter *exporter = kit_exporter(kit, csv);
    char *page = kit_page_of(kit, exporter, format);

    exporter_free(exporter);
    return page;
}

char *kit_dcgm(char *page)
{
    static const char *const firsts[] = {"# HELP process_", "# HELP stoker_"};
    char *end = page + strlen(page);

    for (size_t i = 0; i < 2; i++) {
        char *at = strstr(page, firsts[i]);

        if (at && at < end)
            end = at;
    }
    *end = '\0';
    return page;
}

char *kit_lines(const char *page, const char *name)
{
    size_t len = strlen(name);
    Str lines;

    str_init(&lines, 64 << 20);
    for (const char *at = page; *at;) {
        const char *end = strchr(at, '\n') + 1;

        if (strncmp(at, name, len) == 0 && (at[len] == ' ' || at[len] == '{'))
            str_addn(&lines, at, (size_t)(end - at));
        at = end;
    }
    return lines.len ? str_take(&lines) : xstrdup("");
}
