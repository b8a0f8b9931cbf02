/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The /metrics page: 8 GPUs with the default rows, 8 GPUs in 7 MIG instances each, 72 instances, beside pages with as
 * many series made by printf.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "service/prometheus/exporter.h"

enum { GPUS_MAX = 12, INSTANCES = 7, PAGE_MAX = 64 << 20, PRINTF_MAX = 8 << 20 };
#define NOW (1000 * NS_PER_S)

typedef struct Made {
    Node node;
    NodeGpu gpus[GPUS_MAX];
    Reading instances[GPUS_MAX][INSTANCES];
    Exporter *exporter;
    AllocationTable allocations;
    Snapshot snapshot;
    ExporterInput input;
    size_t series; /* DCGM_ lines of a page */
} Made;

static Made whole, split, many;
static Str page;
static char *printed;

static void fill(Reading *reading, unsigned seed)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        seed = seed * 1664525 + 1013904223;
        if (metric->type == METRIC_LABEL || metric->source.kind == METRIC_FROM_DERIVED)
            continue;
        if (metric->value == METRIC_DOUBLE)
            sample_set_double(&reading->sample[id], NOW,
                              metric->unit == UNIT_RATIO ? (seed >> 8) / 16777216.0 : (seed >> 12) / 1000.0);
        else
            sample_set_int64(&reading->sample[id], NOW,
                             metric->type == METRIC_COUNTER ? (int64_t)seed * 1000 : seed >> 20);
    }
}

static void name(Reading *reading, size_t i)
{
    reading_init(reading, DEVICE_GPU);
    reading->device.index = (uint32_t)i;
    reading->device.has_pci = true;
    reading->device.pci.bus = (uint8_t)(16 + i);
    snprintf(reading->device.uuid, sizeof reading->device.uuid, "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e%02zu", i);
    snprintf(reading->device.name, sizeof reading->device.name, "NVIDIA H100 80GB HBM3");
    snprintf(reading->text[READING_DRIVER_VERSION], READING_TEXT_CAP, "590.48.01");
    fill(reading, (unsigned)i);
}

static size_t count_series(void)
{
    size_t count = 0;

    for (const char *at = page.text; *at; at = strchr(at, '\n') + 1)
        count += strncmp(at, "DCGM_", 5) == 0;
    return count;
}

static void make_page(Made *made)
{
    str_clear(&page);
    exporter_page(made->exporter, &made->input, EXPORTER_TEXT, &page);
    bench_use(page.text);
}

static void make(Made *made, size_t gpus, size_t instances)
{
    const ExporterConfig config = {
        .devices = {.flex = true},
        .kubernetes = true,
        .xid_window_ns = 5 * NS_PER_MIN,
        .clock_events_window_ns = 5 * NS_PER_MIN,
        .period_ns = {NS_PER_S / 10, NS_PER_S, 10 * NS_PER_S},
    };
    Counters counters;

    made->node = (Node){.time_ns = NOW, .real_ns = NOW, .gpu_count = gpus, .gpus = made->gpus};
    snprintf(made->node.hostname, sizeof made->node.hostname, "gpu-node-17.example");
    for (size_t i = 0; i < gpus; i++) {
        NodeGpu *gpu = &made->gpus[i];

        name(&gpu->reading, i);
        gpu->state = GPU_UP;
        gpu->instances = made->instances[i];
        gpu->instance_count = instances - (instances && i >= 2 && gpus > 8 ? 1 : 0); /* 12 GPUs: 2*7 + 10*6 - 2 = 72 */
        for (size_t k = 0; k < gpu->instance_count; k++) {
            Reading *instance = &gpu->instances[k];

            reading_init(instance, DEVICE_COMPUTE_INSTANCE);
            instance->device.gpu_instance = (uint32_t)(7 + k);
            instance->instance_head = true;
            snprintf(instance->profile, sizeof instance->profile, "1g.10gb");
            fill(instance, (unsigned)(i * 10 + k));
        }
    }
    allocation_table_init(&made->allocations);
    made->snapshot = (Snapshot){.node = &made->node, .allocations = &made->allocations};
    made->input = (ExporterInput){.snapshot = &made->snapshot,
                                  .self = {.version = "0.1.0", .rss_bytes = 9437184, .pods_state = "ok"}};
    counters_init(&counters);
    counters_default(&counters);
    made->exporter = exporter_new(&config, &counters, NULL);
    make_page(made);
    made->series = count_series();
}

static void drop(Made *made)
{
    exporter_free(made->exporter);
    allocation_table_done(&made->allocations);
}

/* As many series of the same shape, each printed anew. */
static void print_page(const Made *made)
{
    char *at = printed;

    for (size_t i = 0; i < made->series; i++) {
        const NodeGpu *gpu = &made->gpus[i % made->node.gpu_count];
        const Device *device = &gpu->reading.device;
        double value = 0;

        sample_double(&gpu->reading.sample[i % 8], &value);
        at +=
            snprintf(at, (size_t)(printed + PRINTF_MAX - at),
                     "%s{DCGM_FI_DRIVER_VERSION=\"%s\",UUID=\"%s\",device=\"nvidia%" PRIu32 "\",gpu=\"%" PRIu32
                     "\",hostname=\"%s\",modelName=\"%s\",pci_bus_id=\"00000000:%02X:00.0\"} %.17g\n",
                     metric_get((MetricId)(i % 8))->name, gpu->reading.text[READING_DRIVER_VERSION], device->uuid,
                     device->index, device->index, made->node.hostname, device->name, (unsigned)device->pci.bus, value);
    }
    bench_use(printed);
}

static void page_whole(size_t n)
{
    for (size_t i = 0; i < n; i++)
        make_page(&whole);
}

static void page_split(size_t n)
{
    for (size_t i = 0; i < n; i++)
        make_page(&split);
}

static void page_many(size_t n)
{
    for (size_t i = 0; i < n; i++)
        make_page(&many);
}

/* The labels have to be made anew for each. */
static void page_changed(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        whole.node.hostname[0] = (char)('a' + i % 26);
        make_page(&whole);
    }
}

static void tick(size_t n)
{
    for (size_t i = 0; i < n; i++)
        exporter_tick(whole.exporter, &whole.node);
}

static void printf_whole(size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_page(&whole);
}

static void printf_split(size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_page(&split);
}

static void printf_many(size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_page(&many);
}

int main(void)
{
    static const Bench list[] = {
        {"page, 8 GPUs", page_whole, NULL, 0},
        {"page, 8 GPUs, labels made anew", page_changed, NULL, 0},
        {"page, 8 GPUs in 56 instances", page_split, NULL, 0},
        {"page, 72 instances", page_many, NULL, 0},
        {"exporter_tick, 8 GPUs", tick, NULL, 0},
        {"as many series with printf", printf_whole, NULL, 0},
        {"as many series of 56 instances with printf", printf_split, NULL, 0},
        {"as many series of 72 instances with printf", printf_many, NULL, 0},
    };

    str_init(&page, PAGE_MAX);
    printed = malloc(PRINTF_MAX);
    if (!printed)
        abort();
    make(&whole, 8, 0);
    make(&split, 8, INSTANCES);
    make(&many, 12, INSTANCES);
    bench_all(list, sizeof list / sizeof list[0]);
    drop(&whole);
    drop(&split);
    drop(&many);
    str_done(&page);
    free(printed);
    return 0;
}
