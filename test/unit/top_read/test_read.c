/* SPDX-License-Identifier: Apache-2.0 */
/* service/api/{node_json,snapshot_read,history_read}.c: what is written, that it is read back as it was, and that
 * errors name what is wrong. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "random.h"
#include "engine/health/maintenance.h"
#include "service/api/api.h"
#include "service/api/snapshot_read.h"
#include "service/status/status.h"

#define NOW_NS (1767614400 * NS_PER_S + 250 * NS_PER_MS) /* 2026-01-05T12:00:00.250Z */

enum { GPUS = 6, INSTANCES = 4, PROCESSES = 5, LINKS = 18, HOLDINGS = 8 };

/* --- a node of any kind --------------------------------------------------------------------------------------------
 */

typedef struct World {
    Random random;
    Node node;
    NodeGpu gpus[GPUS];
    Reading instances[GPUS][INSTANCES];
    Activity activities[GPUS][INSTANCES];
    Why verdicts[GPUS][INSTANCES + 1];
    FastReading fast[2];
    NodePeer peers[GPUS][GPUS];
    NodeLink links[GPUS][LINKS];
    NodeProcess processes[GPUS][PROCESSES];
    NodeSampler samplers[3];
    ProcessOwner who[GPUS * PROCESSES];
    size_t who_count;
    Place places[GPUS + 3];
    size_t place_count;
    AllocationTable allocations;
    Maintenance *maintenance;
    Incident incident;
    const Incident *incidents[1];
    Holding holdings[HOLDINGS];
    HoldingProcess held[HOLDINGS][2];
    size_t holding_count;
    JobInfo jobs[2];
    size_t job_count;
} World;

static uint64_t below(World *w, uint64_t end)
{
    return random_below(&w->random, end);
}

static bool once(World *w, uint64_t every)
{
    return random_once(&w->random, every);
}

static uint64_t ago(World *w)
{
    return w->node.time_ns - below(w, 100000) * NS_PER_MS;
}

static void any_sample(World *w, const Metric *metric, Sample *sample)
{
    const uint64_t kind = below(w, 4);

    if (kind == 0)
        sample_set_absent(sample, ago(w), (Absence)below(w, ABSENCE_END));
    else if (metric->value == METRIC_INT64)
        sample_set_int64(sample, ago(w), (int64_t)random_u64(&w->random) >> below(w, 63));
    else
        sample_set_double(sample, ago(w), (double)(1 + below(w, 100000000)) / (double)(1 + below(w, 1000)));
}

static void any_samples(World *w, Reading *reading)
{
    for (MetricId id = 0; id < METRIC_END; id++)
        if (metric_get(id)->type != METRIC_LABEL && !once(w, 5))
            any_sample(w, metric_get(id), &reading->sample[id]);
}

#define TEXT(w, field, format, ...)                                                                                    \
    do {                                                                                                               \
        if (!once(w, 4))                                                                                               \
            snprintf(field, sizeof(field), format, __VA_ARGS__);                                                       \
    } while (0)

static void any_instance(World *w, const Device *gpu, uint32_t k, Reading *instance)
{
    reading_init(instance, DEVICE_COMPUTE_INSTANCE);
    Device *d = &instance->device;
    d->index = once(w, 2) ? DEVICE_NO_NUMBER : 8 + k;
    d->has_pci = gpu->has_pci;
    d->pci = gpu->pci;
    d->gpu_instance = 7 + k / 2;
    d->compute_instance = k % 2;
    snprintf(d->uuid, sizeof d->uuid, "MIG-%.64s-%u", gpu->uuid, k);
    TEXT(w, instance->profile, "%ug.10gb", 1 + k);
    any_samples(w, instance);
}

static void any_links(World *w, NodeGpu *gpu, NodeLink *links)
{
    gpu->links = links;
    gpu->link_count = (uint32_t)below(w, LINKS + 1);
    for (uint32_t i = 0; i < gpu->link_count; i++) {
        if (once(w, 4))
            sample_set_absent(&links[i].active, 1, (Absence)below(w, ABSENCE_END));
        else
            sample_set_int64(&links[i].active, 1, (int64_t)below(w, 2));
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++)
            if (once(w, 2))
                sample_set_int64(&links[i].errors[k], 1, (int64_t)below(w, 100));
        if (once(w, 2))
            sample_set_int64(
                &links[i].remote, 1,
                pci_pack((PciAddress){.domain = (uint32_t)below(w, 1 << 20), .bus = (uint8_t)below(w, 256)}));
    }
}

static void any_who(World *w, uint32_t pid)
{
    ProcessOwner *who = &w->who[w->who_count++];

    process_owner_init(who, pid);
    if (once(w, 5))
        return; /* not found */
    who->start_ns = (1 + below(w, 1000000)) * 10 * NS_PER_MS;
    who->uid = once(w, 3) ? UINT32_MAX : (uint32_t)below(w, 70000);
    who->rss_bytes = below(w, 1ULL << 40);
    who->cpu_ns = below(w, 1ULL << 36) * NS_PER_MS;
    who->state = "RSDTZ"[below(w, 5)];
    TEXT(w, who->name, "python \"%u\"", pid);
    TEXT(w, who->user, "user-%u", pid % 3);
    TEXT(w, who->runtime, "%s", "containerd");
    TEXT(w, who->container, "%064u", pid);
    TEXT(w, who->pod_uid, "uid-%u", pid);
    TEXT(w, who->job, "%u.0", pid);
    TEXT(w, who->command, "train --secret\t%u", pid);
}

static void any_processes(World *w, NodeGpu *gpu, NodeProcess *processes, uint32_t first)
{
    if (once(w, 4)) {
        sample_set_absent(&gpu->process_list, ago(w), (Absence)below(w, ABSENCE_END));
        return;
    }
    gpu->processes = processes;
    gpu->process_count = below(w, PROCESSES + 1);
    sample_set_int64(&gpu->process_list, ago(w), (int64_t)(gpu->process_count + below(w, 3)));
    for (uint32_t i = 0; i < gpu->process_count; i++) {
        processes[i] = (NodeProcess){.pid = first + i,
                                     .gpu_instance = once(w, 2) ? DEVICE_NO_NUMBER : 7,
                                     .compute_instance = once(w, 2) ? DEVICE_NO_NUMBER : 0,
                                     .graphics = once(w, 3),
                                     .used_bytes = once(w, 3) ? UINT64_MAX : below(w, 1ULL << 40),
                                     .sm_percent = once(w, 3) ? UINT8_MAX : (uint8_t)below(w, 101),
                                     .memory_percent = once(w, 3) ? UINT8_MAX : (uint8_t)below(w, 101)};
        any_who(w, processes[i].pid);
    }
}

static void any_owner(World *w, const Device *device)
{
    Allocation owner = {
        .device = {.minor = DEVICE_NO_NUMBER, .gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER},
        .pod = "pod-\xc3\xa4",
        .namespace = "ml",
        .container = "main",
        .pod_uid = once(w, 2) ? "" : "u-1"};

    snprintf(owner.device.uuid, sizeof owner.device.uuid, "%s", device->uuid);
    TEXT(w, owner.device.replica, "%d", 2);
    if (once(w, 2))
        allocation_table_add(&w->allocations, &owner);
}

static double any_share(World *w)
{
    return once(w, 4) ? (double)NAN : (double)below(w, 1001) / 1000;
}

static void any_activity(World *w, Activity *a)
{
    *a = (Activity){.word = (ActivityWord)below(w, ACTIVITY_END),
                    .cause = (ActivityCause)below(w, ACTIVITY_CAUSE_END),
                    .basis = (ActivityBasis)below(w, ACTIVITY_BASIS_END),
                    .held = once(w, 2),
                    .window_s = 1 + (uint32_t)below(w, 60),
                    .since_ns = ago(w),
                    .sm_active = any_share(w),
                    .utilization = any_share(w),
                    .power_share = any_share(w),
                    .clock_share = any_share(w),
                    .tensor = any_share(w),
                    .dram = any_share(w),
                    .waiters = (uint32_t)below(w, 8),
                    .waiters_speed = any_share(w),
                    .incident = "1jf8v3k2m0"};
    for (size_t i = 0; i < ACTIVITY_END; i++)
        a->day_s[i] = (uint32_t)below(w, 86400);
    TEXT(w, a->text, "SM active \"%u\" %%", a->window_s);
}

static void any_verdict(World *w, Why *why)
{
    *why = (Why){.window_s = (uint32_t)below(w, 61), .count = (uint32_t)below(w, WHY_VERDICTS_MAX + 1)};
    for (uint32_t i = 0; i < why->count; i++) {
        why->verdicts[i] = (WhyVerdict){.cause = (WhyCause)below(w, WHY_END),
                                        .confidence = (WhyConfidence)below(w, WHY_CONFIDENCE_END),
                                        .share = any_share(w)};
        TEXT(w, why->verdicts[i].text, "100 %% busy, \"%u\" s", why->window_s + i);
    }
    if (why->count == 0 || below(w, 2))
        return;
    why->roof = (Roof){.nearest = (RoofKind)below(w, ROOF_END),
                       .window_s = why->window_s,
                       .flops = any_share(w) * 1e15,
                       .flops_low = any_share(w),
                       .flops_high = any_share(w),
                       .flops_peak = any_share(w),
                       .flops_share = any_share(w),
                       .bytes = any_share(w) * 1e12,
                       .bytes_share = any_share(w),
                       .intensity = any_share(w),
                       .position = any_share(w),
                       .type = "fp16",
                       .absent = "memory activity: \"stale\""};
    TEXT(w, why->roof.text, "about %u TFLOP/s", why->window_s);
}

static void any_gpu(World *w, uint32_t i)
{
    NodeGpu *gpu = &w->gpus[i];
    Reading *reading = &gpu->reading;
    Device *d = &reading->device;

    reading_init(reading, DEVICE_GPU);
    d->index = once(w, 8) ? DEVICE_NO_NUMBER : i;
    d->has_pci = true;
    d->pci = (PciAddress){.domain = i, .bus = (uint8_t)(0x10 + i)};
    snprintf(d->uuid, sizeof d->uuid, "GPU-%u", i);
    TEXT(w, d->name, "NVIDIA H%u", 100 + i);
    TEXT(w, d->serial, "%u", 16500 + i);
    TEXT(w, d->board, "692-%u", i);
    for (int t = 0; t < READING_TEXT_END; t++)
        if (t != READING_SERIAL)
            TEXT(w, reading->text[t], "text \"%d\"", t);
    gpu->state = (GpuState)below(w, GPU_STATE_END);
    gpu->state_since_ns = ago(w);
    TEXT(w, gpu->why, "nvmlDeviceGetPowerUsage has not returned for %u s", i);
    gpu->last_sample_ns = once(w, 3) ? 0 : ago(w);
    gpu->missed_calls = below(w, 10);
    gpu->failed_passes = below(w, 10);
    gpu->own_sampler = once(w, 2);
    gpu->drained = once(w, 2);
    gpu->gpm_known = once(w, 2);
    gpu->gpm = gpu->gpm_known && once(w, 2);
    any_samples(w, reading);
    gpu->peers = w->peers[i];
    gpu->peer_count = once(w, 2) ? 0 : GPUS - 1;
    for (uint32_t k = 0; k < gpu->peer_count; k++) {
        w->peers[i][k].index = k;
        if (once(w, 3))
            sample_set_absent(&w->peers[i][k].status, ago(w), (Absence)below(w, ABSENCE_END));
        else
            sample_set_int64(&w->peers[i][k].status, ago(w), (int64_t)below(w, PEER_STATUS_END));
    }
    any_links(w, gpu, w->links[i]);
    any_processes(w, gpu, w->processes[i], 1000 + i * 10);
    reading->mig = once(w, 3);
    any_activity(w, &gpu->activity);
    gpu->instances = w->instances[i];
    gpu->instance_activity = w->activities[i];
    gpu->verdicts = w->verdicts[i];
    gpu->instance_verdicts = w->verdicts[i] + 1;
    any_verdict(w, &w->verdicts[i][0]);
    gpu->instance_count = reading->mig ? below(w, INSTANCES + 1) : 0;
    any_owner(w, d);
    for (uint32_t k = 0; k < gpu->instance_count; k++) {
        any_instance(w, d, k, &gpu->instances[k]);
        any_activity(w, &gpu->instance_activity[k]);
        any_verdict(w, &w->verdicts[i][k + 1]);
        any_owner(w, &gpu->instances[k].device);
    }
}

static void any_place(World *w, Place place)
{
    char path[64];

    snprintf(path, sizeof path, "pci%04x:%02x/%04x:%02x:01.0/%04x:%02x:00.0", place.pci.domain,
             (unsigned)below(w, 4) << 4, place.pci.domain, (unsigned)below(w, 4), place.pci.domain, place.pci.bus);
    if (!once(w, 4))
        assert_true(place_set_path(&place, path));
    place.numa_node = once(w, 3) ? -1 : (int32_t)below(w, 4);
    TEXT(w, place.cpus, "%u-%u", 8 * place.pci.bus, 8 * place.pci.bus + 7);
    if (place.adapter[0] || place.path[0] || place.cpus[0] || place.numa_node >= 0)
        w->places[w->place_count++] = place;
}

static void any_places(World *w)
{
    for (size_t i = 0; i < w->node.gpu_count; i++)
        any_place(w, (Place){.pci = w->gpus[i].reading.device.pci});
    for (uint8_t i = (uint8_t)below(w, 4); i > 0; i--) {
        Place place = {.pci = {.bus = (uint8_t)(0x80 + i)}};

        snprintf(place.adapter, sizeof place.adapter, "mlx5_%u", i);
        any_place(w, place);
    }
}

static void any_samplers(World *w)
{
    w->node.samplers = w->samplers;
    w->node.sampler_count = below(w, 4);
    for (size_t i = 0; i < w->node.sampler_count; i++) {
        NodeSampler *s = &w->samplers[i];

        *s = (NodeSampler){.state = (SamplerState)below(w, SAMPLER_STATE_END),
                           .pid = (pid_t)below(w, 100000),
                           .since_ns = ago(w),
                           .gpu_count = (uint32_t)below(w, 9),
                           .rss_bytes = below(w, 1 << 24)};
        TEXT(w, s->gpu, "0000:%02x:00.0", (unsigned)i & 0xff);
        TEXT(w, s->function, "%s", "nvmlDeviceGetPowerUsage");
        TEXT(w, s->wchan, "%s", "rm_ioctl");
    }
}

static void any_trouble(World *w)
{
    w->maintenance = maintenance_new();
    for (size_t i = below(w, 3); i > 0; i--) {
        MaintenanceWindow window = {.gpus = once(w, 2) ? 0 : 1 + below(w, 250),
                                    .from_real_ns = NOW_NS - NS_PER_H + below(w, 7200) * NS_PER_S,
                                    .until_real_ns = NOW_NS + NS_PER_DAY,
                                    .recurring = once(w, 2),
                                    .active = once(w, 2)};

        for (size_t k = below(w, 3); k-- > 0;)
            snprintf(window.uuids[k], sizeof window.uuids[k], "GPU-%zu-%zu", i, k);
        snprintf(window.id, sizeof window.id, "w%u", (unsigned)i);
        TEXT(w, window.reason, "because of %zu", i);
        assert_int_equal(maintenance_add(w->maintenance, &window, NULL), 0);
    }
    w->incident = (Incident){.id = "1jf8v3k2m0",
                             .state = INCIDENT_OPEN,
                             .class = "gpu-lost",
                             .code = 79,
                             .pid = -1,
                             .severity = SEVERITY_FATAL,
                             .title = "GPU 3 has \"fallen\" off the bus",
                             .first_real_ns = NOW_NS - NS_PER_MIN,
                             .opened_real_ns = NOW_NS - NS_PER_MIN};
    w->incident.device = w->gpus[0].reading.device;
    w->incidents[0] = &w->incident;
}

/* Who holds what: of GPUs and of their instances. */
static void any_holdings(World *w)
{
    for (size_t i = 0; i < w->node.gpu_count && w->holding_count < HOLDINGS; i++) {
        Holding *holding = &w->holdings[w->holding_count];

        if (once(w, 3))
            continue;
        *holding = (Holding){.gpu = i,
                             .gpu_instance = once(w, 2) ? DEVICE_NO_NUMBER : (uint32_t)below(w, 15),
                             .owner.pid = once(w, 4) ? -1 : (int32_t)below(w, 100000),
                             .state = (HoldingState)below(w, HOLDING_STATE_END),
                             .attribution = (Attribution)below(w, ATTRIBUTION_END),
                             .share = (double)(1 + below(w, 7)) / 7,
                             .sm_share = once(w, 3) ? (double)NAN : (double)below(w, 101) / 100,
                             .memory_bytes = below(w, UINT64_C(1) << 40),
                             .process_count = below(w, 3),
                             .processes = w->held[w->holding_count]};
        holding->compute_instance =
            holding->gpu_instance == DEVICE_NO_NUMBER ? DEVICE_NO_NUMBER : (uint32_t)below(w, 3);
        TEXT(w, holding->owner.user, "u%llu", (unsigned long long)below(w, 100));
        TEXT(w, holding->owner.job, "%llu", (unsigned long long)below(w, 100));
        TEXT(w, holding->owner.account, "%s", "physics");
        TEXT(w, holding->owner.pod, "%s", "chat-0");
        TEXT(w, holding->owner.namespace, "%s", "serving");
        TEXT(w, holding->owner.container, "%s", "main");
        TEXT(w, holding->owner.process, "%s", "python \"3\"");
        for (size_t k = 0; k < holding->process_count; k++) {
            w->held[w->holding_count][k] = (HoldingProcess){.pid = (uint32_t)below(w, 100000)};
            TEXT(w, w->held[w->holding_count][k].name, "%s", "python");
            TEXT(w, w->held[w->holding_count][k].user, "%s", "alice");
        }
        w->holding_count++;
    }
}

static World *world_new(uint64_t seed)
{
    World *w = calloc(1, sizeof *w);

    w->random.state = seed;
    w->node =
        (Node){.tick = seed, .time_ns = 1000000 * NS_PER_S, .real_ns = NOW_NS + below(w, NS_PER_DAY), .gpus = w->gpus};
    w->node.gpu_count = below(w, GPUS + 1);
    TEXT(w, w->node.hostname, "node-%llu", (unsigned long long)seed);
    TEXT(w, w->node.driver_version, "590.%02d", 48);
    TEXT(w, w->node.driver_why, "%s", "the driver's library cannot be loaded");
    w->node.gpus_expected = (uint32_t)below(w, 9);
    w->node.gpus_found = (uint32_t)below(w, 9);
    w->node.release_until_ns = once(w, 4) ? w->node.time_ns + below(w, 1000000) * NS_PER_MS : 0;
    allocation_table_init(&w->allocations);
    for (uint32_t i = 0; i < w->node.gpu_count; i++)
        any_gpu(w, i);
    any_places(w);
    any_samplers(w);
    any_trouble(w);
    any_holdings(w);
    w->job_count = below(w, 3);
    for (size_t i = 0; i < w->job_count; i++) {
        w->jobs[i] = (JobInfo){.job = "4711", .nodes = (uint32_t)below(w, 3), .limit_s = below(w, 3) * 3600};
        TEXT(w, w->jobs[i].name, "%s", "train");
        TEXT(w, w->jobs[i].user, "%s", "alice");
        TEXT(w, w->jobs[i].account, "%s", "physics");
        TEXT(w, w->jobs[i].partition, "%s", "gpu");
    }
    return w;
}

static void world_free(World *w)
{
    allocation_table_done(&w->allocations);
    maintenance_free(w->maintenance);
    free(w);
}

static void write_world(const World *w, Str *out)
{
    const Snapshot seen = {.node = &w->node,
                           .allocations = &w->allocations,
                           .processes = {.at = w->who, .len = w->who_count},
                           .places = {w->places, w->place_count},
                           .incidents = w->incidents,
                           .incident_count = w->node.tick % 2,
                           .holdings = w->holdings,
                           .holding_count = w->holding_count,
                           .job_infos = {w->jobs, w->job_count},
                           .maintenance = w->maintenance};

    status_json(&seen, out);
}

/* --- one node with one of everything -------------------------------------------------------------------------------
 */

static void make_gpu(World *w)
{
    NodeGpu *gpu = &w->gpus[0];
    Reading *reading = &gpu->reading, *instance = &w->instances[0][0];
    const uint64_t now = w->node.time_ns;

    reading_init(reading, DEVICE_GPU);
    reading->device.index = 0;
    reading->device.has_pci = true;
    reading->device.pci = (PciAddress){.bus = 0x1e};
    memcpy(reading->device.uuid, "GPU-3", 6);
    memcpy(reading->device.name, "NVIDIA H100", 12);
    gpu->state = GPU_HUNG;
    gpu->state_since_ns = now - 7 * NS_PER_S;
    gpu->last_sample_ns = now - 8 * NS_PER_S;
    memcpy(gpu->why, "it hangs", 9);
    gpu->missed_calls = 2;
    gpu->gpm_known = reading->mig = true;
    gpu->activity = (Activity){.word = ACTIVITY_WORKING,
                               .window_s = 60,
                               .sm_active = 0.98765,
                               .utilization = NAN,
                               .power_share = 1,
                               .clock_share = NAN,
                               .tensor = NAN,
                               .dram = NAN,
                               .waiters_speed = NAN};
    memcpy(reading->text[READING_VBIOS_VERSION], "96.00", 6);
    sample_set_int64(&reading->sample[METRIC_GPU_TEMP], now - NS_PER_S, 61);
    sample_set_double(&reading->sample[METRIC_POWER_USAGE], now, 512.5);
    sample_set_absent(&reading->sample[METRIC_SM_CLOCK], now, ABSENCE_TIMED_OUT);
    gpu->peers = w->peers[0];
    gpu->peer_count = 2;
    w->peers[0][0].index = 1;
    sample_set_int64(&w->peers[0][0].status, now - 2 * NS_PER_S, PEER_OK);
    w->peers[0][1].index = 2;
    sample_set_absent(&w->peers[0][1].status, now, ABSENCE_NOT_SUPPORTED);
    w->fast[0] = (FastReading){.time_ns = now - 500 * NS_PER_MS, .valid = 1, .value[0] = 1755};
    w->fast[1] = (FastReading){.time_ns = now - 250 * NS_PER_MS};
    gpu->fast = w->fast;
    gpu->fast_count = 2;
    gpu->links = w->links[0];
    gpu->link_count = 3;
    sample_set_int64(&w->links[0][0].active, now, 1);
    sample_set_int64(&w->links[0][0].errors[NODE_LINK_REPLAY], now, 4);
    sample_set_int64(&w->links[0][0].remote, now, pci_pack((PciAddress){.bus = 0xc1}));
    sample_set_absent(&w->links[0][1].active, now, ABSENCE_GPU_LOST);
    sample_set_absent(&w->links[0][2].active, now, ABSENCE_NOT_SUPPORTED);
    gpu->instances = w->instances[0];
    gpu->instance_count = 1;
    gpu->instance_activity = w->activities[0];
    w->activities[0][0] = (Activity){.word = ACTIVITY_FREE};
    reading_init(instance, DEVICE_COMPUTE_INSTANCE);
    instance->device.gpu_instance = 7;
    instance->device.compute_instance = 0;
    memcpy(instance->device.uuid, "MIG-1", 6);
    memcpy(instance->profile, "1g.10gb", 8);
    sample_set_int64(&instance->sample[METRIC_FB_USED], now, 14);
}

static void make_processes(World *w)
{
    NodeGpu *gpu = &w->gpus[0];

    gpu->processes = w->processes[0];
    gpu->process_count = 3;
    sample_set_int64(&gpu->process_list, w->node.time_ns, 4);
    for (uint32_t i = 0; i < 3; i++)
        w->processes[0][i] = (NodeProcess){.pid = 70 + i,
                                           .gpu_instance = DEVICE_NO_NUMBER,
                                           .compute_instance = DEVICE_NO_NUMBER,
                                           .graphics = i == 2,
                                           .used_bytes = 1 << 20,
                                           .sm_percent = 30,
                                           .memory_percent = UINT8_MAX};
    w->who_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        process_owner_init(&w->who[i], 70 + i);
        w->who[i].start_ns = 5 * NS_PER_S;
        w->who[i].state = 'S';
        memcpy(w->who[i].name, "python", 7);
    }
    memcpy(w->who[0].pod_uid, "u-9", 4);
    w->who[0].cpu_ns = 1500 * NS_PER_MS;
}

static World *one_of_everything(void)
{
    World *w = calloc(1, sizeof *w);

    w->node = (Node){.tick = 42,
                     .time_ns = 1000000 * NS_PER_S,
                     .real_ns = NOW_NS,
                     .gpus = w->gpus,
                     .gpu_count = 1,
                     .gpus_expected = 8,
                     .gpus_found = 1,
                     .gpus_on_bus = 2,
                     .samplers = w->samplers,
                     .sampler_count = 1};
    w->node.release_until_ns = w->node.time_ns + 90 * NS_PER_S;
    memcpy(w->node.hostname, "node-7", 7);
    memcpy(w->node.driver_version, "590.48.01", 10);
    w->samplers[0] = (NodeSampler){.state = SAMPLER_ABANDONED,
                                   .pid = 900,
                                   .gpu_count = 1,
                                   .since_ns = w->node.time_ns - NS_PER_S,
                                   .function = "nvmlDeviceGetPowerUsage"};
    allocation_table_init(&w->allocations);
    w->maintenance = maintenance_new();
    make_gpu(w);
    make_processes(w);
    for (uint8_t i = 0; i < 2; i++) {
        Place *place = &w->places[w->place_count++];

        *place = (Place){.pci = {.bus = i ? 0x80 : 0x1e}, .numa_node = i, .cpus = "0-7"};
        assert_true(place_set_path(place, i ? "pci0000:80/0000:80:00.0" : "pci0000:10/0000:10:01.0/0000:1e:00.0"));
    }
    memcpy(w->places[1].adapter, "mlx5_1", 7);
    return w;
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */

static void test_a_node_as_it_is_documented(void **state)
{
    World *w = one_of_everything();
    CLEANUP(str_done) Str text = {0};
    const Snapshot seen = {.node = &w->node,
                           .allocations = &w->allocations,
                           .processes = {.at = w->who, .len = w->who_count},
                           .places = {w->places, w->place_count}};

    (void)state;
    str_init(&text, 1 << 20);
    api_gpus(&seen, &text);
    assert_string_equal(
        text.text,
        "{\"time\":\"2026-01-05T12:00:00.250Z\",\"tick\":42,\"node\":{\"hostname\":\"node-7\","
        "\"driver_version\":\"590.48.01\",\"gpus_expected\":8,\"gpus_found\":1,\"gpus_on_bus\":2,"
        "\"released_for_seconds\":90.000,\"adapters\":[{\"name\":\"mlx5_1\",\"pci\":\"0000:80:00.0\","
        "\"numa_node\":1,\"cpus\":\"0-7\",\"pcie_path\":\"pci0000:80/0000:80:00.0\"}]},"
        "\"gpus\":[{\"index\":0,\"uuid\":\"GPU-3\",\"name\":\"NVIDIA H100\",\"pci\":\"00000000:1E:00.0\","
        "\"numa_node\":0,\"cpus\":\"0-7\",\"pcie_path\":\"pci0000:10/0000:10:01.0/0000:1e:00.0\","
        "\"state\":\"hung\",\"activity\":{\"word\":\"working\",\"basis\":\"none\",\"held\":false,"
        "\"window_s\":60,\"sm_active\":0.9877,\"power_share\":1,\"day_seconds\":{\"unknown\":0,\"working\":0,"
        "\"waiting\":0,\"idle held\":0,\"free\":0,\"unusable\":0}},\"last_sample_age_seconds\":8.000,"
        "\"since\":\"2026-01-05T11:59:53.250Z\",\"why\":\"it hangs\",\"mig\":true,\"own_sampler\":false,"
        "\"missed_calls\":2,\"failed_passes\":0,\"gpm\":false,\"DCGM_FI_DEV_VBIOS_VERSION\":\"96.00\","
        "\"metrics\":{\"DCGM_FI_DEV_SM_CLOCK\":{\"value\":null,\"absent\":\"timed_out\","
        "\"text\":\"the driver did not answer in time\"},\"DCGM_FI_DEV_GPU_TEMP\":{\"value\":61,"
        "\"unit\":\"C\",\"age_seconds\":1.000},\"DCGM_FI_DEV_POWER_USAGE\":{\"value\":512.5,\"unit\":\"W\","
        "\"age_seconds\":0.000}},\"peers\":[{\"gpu\":1,\"nvlink_status\":\"ok\",\"age_seconds\":2.000},"
        "{\"gpu\":2,\"nvlink_status\":null,\"absent\":\"not_supported\"}],\"nvlinks\":[{\"link\":0,"
        "\"active\":true,\"remote\":\"0000:c1:00.0\",\"errors\":{\"replay\":4}},{\"link\":1,\"active\":null,"
        "\"absent\":\"gpu_lost\",\"errors\":{}}],\"process_count\":4,\"processes\":[{\"kind\":\"compute\","
        "\"pid\":70,\"used_bytes\":1048576,\"sm_percent\":30,\"name\":\"python\",\"pod_uid\":\"u-9\","
        "\"state\":\"S\",\"rss_bytes\":0,\"cpu_seconds\":1.500,\"start_seconds\":5.000},"
        "{\"kind\":\"compute\",\"pid\":71,\"used_bytes\":1048576,\"sm_percent\":30,\"name\":\"python\","
        "\"state\":\"S\",\"rss_bytes\":0,\"cpu_seconds\":0.000,\"start_seconds\":5.000},"
        "{\"kind\":\"graphics\",\"pid\":72,\"used_bytes\":1048576,\"sm_percent\":30}],"
        "\"instances\":[{\"index\":null,\"uuid\":\"MIG-1\",\"gpu_instance\":7,\"compute_instance\":0,"
        "\"profile\":\"1g.10gb\",\"activity\":{\"word\":\"free\",\"basis\":\"none\",\"held\":false,"
        "\"window_s\":0,\"day_seconds\":{\"unknown\":0,\"working\":0,\"waiting\":0,\"idle held\":0,"
        "\"free\":0,\"unusable\":0}},\"metrics\":{\"DCGM_FI_DEV_FB_USED\":{\"value\":14,\"unit\":\"MiB\","
        "\"age_seconds\":0.000}}}]}],\"samplers\":[{\"state\":\"abandoned\",\"pid\":900,\"gpus\":1,"
        "\"since\":\"2026-01-05T11:59:59.250Z\",\"stuck_function\":\"nvmlDeviceGetPowerUsage\"}]}"
        "\n");
    str_clear(&text);
    api_tick(&w->node, &text);
    assert_string_equal(
        text.text,
        "{\"time\":\"2026-01-05T12:00:00.250Z\",\"tick\":42,\"gpus\":[{\"index\":0,\"uuid\":\"GPU-3\","
        "\"name\":\"NVIDIA H100\",\"pci\":\"00000000:1E:00.0\",\"state\":\"hung\",\"why\":\"it hangs\","
        "\"activity\":{\"word\":\"working\",\"basis\":\"none\",\"held\":false,\"window_s\":60,"
        "\"sm_active\":0.9877,\"power_share\":1,\"day_seconds\":{\"unknown\":0,\"working\":0,\"waiting\":0,"
        "\"idle held\":0,\"free\":0,\"unusable\":0}},\"metrics\":{\"DCGM_FI_DEV_SM_CLOCK\":null,"
        "\"DCGM_FI_DEV_GPU_TEMP\":61,\"DCGM_FI_DEV_POWER_USAGE\":512.5},\"fast\":{\"age_seconds\":[0.500,"
        "0.250],\"DCGM_FI_DEV_SM_CLOCK\":[1755,null],\"DCGM_FI_DEV_MEM_CLOCK\":[null,null],"
        "\"DCGM_FI_DEV_POWER_USAGE\":[null,null],\"DCGM_FI_DEV_POWER_USAGE_INSTANT\":[null,null],"
        "\"DCGM_FI_DEV_GPU_UTIL\":[null,null],\"DCGM_FI_DEV_MEM_COPY_UTIL\":[null,null],"
        "\"DCGM_FI_DEV_CLOCKS_EVENT_REASONS\":[null,null]},\"instances\":[{\"index\":null,\"uuid\":\"MIG-1\","
        "\"gpu_instance\":7,\"compute_instance\":0,\"activity\":{\"word\":\"free\",\"basis\":\"none\","
        "\"held\":false,\"window_s\":0,\"day_seconds\":{\"unknown\":0,\"working\":0,\"waiting\":0,"
        "\"idle held\":0,\"free\":0,\"unusable\":0}},\"metrics\":{\"DCGM_FI_DEV_FB_USED\":14}}]}]}");
    world_free(w);
}

/* What `stoker kubelet` reads: what is wrong, which devices there are, and their size alone of all readings. */
static void test_devices_alone_are_short(void **state)
{
    static const char pods[] = "\"nvlinks\":[{\"link\":0,\"active\":true,\"remote\":\"0000:c1:00.0\",\"errors\":{"
                               "\"replay\":4}},{\"link\":1,\"active\":null,\"absent\":\"gpu_lost\",\"errors\":{}}],";
    World *w = one_of_everything();
    CLEANUP(str_done) Str text = str_limited(1 << 20), wanted = str_limited(1 << 20);
    Snapshot seen = {.node = &w->node, .places = {w->places, w->place_count}, .incidents = w->incidents};

    (void)state;
    status_devices_json(&seen, true, &text);
    str_addf(
        &wanted,
        "{\"incidents\":[],\"node\":{\"time\":\"2026-01-05T12:00:00.250Z\",\"node\":{\"hostname\":\"node-7\","
        "\"driver_version\":\"590.48.01\",\"adapters\":[{\"name\":\"mlx5_1\",\"pci\":\"0000:80:00.0\",\"numa_node\":1,"
        "\"cpus\":\"0-7\",\"pcie_path\":\"pci0000:80/0000:80:00.0\"}]},"
        "\"gpus\":[{\"index\":0,\"uuid\":\"GPU-3\",\"name\":\"NVIDIA H100\","
        "\"pci\":\"00000000:1E:00.0\",\"numa_node\":0,\"cpus\":\"0-7\","
        "\"pcie_path\":\"pci0000:10/0000:10:01.0/0000:1e:00.0\",\"state\":\"hung\",\"mig\":true,"
        "\"drained\":false,\"metrics\":{},%s\"instances\":[{\"index\":null,\"uuid\":\"MIG-1\",\"gpu_instance\":7,"
        "\"compute_instance\":0,\"profile\":\"1g.10gb\"}]}]}}",
        pods);
    assert_string_equal(text.text, wanted.text);
    w->incident = (Incident){.state = INCIDENT_OPEN, .id = "1abc"};
    seen.incidents = (const Incident *[]){&w->incident};
    seen.incident_count = 1;
    sample_set_int64(&w->gpus[0].reading.sample[METRIC_FB_TOTAL], w->node.time_ns, 81559);
    str_clear(&text);
    status_devices_json(&seen, false, &text);
    assert_non_null(strstr(text.text, "{\"incidents\":[{\"id\":\"1abc\","));
    assert_non_null(strstr(text.text, "}],\"node\":{\"node\":{\"hostname\":\"node-7\","));
    assert_non_null(strstr(text.text, "\"metrics\":{\"DCGM_FI_DEV_FB_TOTAL\":{\"value\":81559}},\"nvlinks\""));
    sample_set_absent(&w->gpus[0].reading.sample[METRIC_FB_TOTAL], w->node.time_ns, ABSENCE_GPU_LOST);
    str_clear(&text);
    status_devices_json(&seen, false, &text);
    assert_non_null(strstr(text.text, "\"metrics\":{\"DCGM_FI_DEV_FB_TOTAL\":{\"absent\":\"gpu_lost\"}},\"nvlinks\""));
    world_free(w);
}

static void test_holdings_and_jobs_are_told(void **state)
{
    World *w = one_of_everything();
    CLEANUP(str_done) Str text = str_limited(1 << 20);
    Snapshot seen = {.node = &w->node};

    (void)state;
    api_gpus(&seen, &text);
    assert_null(strstr(text.text, "\"holdings\""));
    assert_null(strstr(text.text, "\"jobs\""));
    assert_null(strstr(text.text, "unlisted_why"));
    w->processes[0][1].sm_percent = UINT8_MAX; /* not known */
    str_clear(&text);
    api_gpus(&seen, &text);
    assert_non_null(strstr(text.text, "\"pid\":71,\"used_bytes\":1048576}"));
    w->holdings[0] = (Holding){.owner = {.user = "ada", .job = "17", .pid = 70},
                               .gpu_instance = 7,
                               .compute_instance = DEVICE_NO_NUMBER,
                               .share = 1,
                               .sm_share = NAN,
                               .memory_bytes = 5,
                               .workload = {.name = "train", .derived = true},
                               .processes = w->held[0],
                               .process_count = 1};
    w->held[0][0] = (HoldingProcess){.pid = 70, .name = "python", .user = "ada"};
    w->holdings[1] = (Holding){
        .owner = {.pid = -1}, .gpu_instance = 7, .compute_instance = 1, .workload = {.kind = "Job", .name = "serve"}};
    w->jobs[0] = (JobInfo){.job = "17", .name = "pretrain", .limit_s = 60};
    seen.holdings = w->holdings;
    seen.holding_count = 2;
    seen.holders_why = "no /proc";
    seen.job_infos.at = w->jobs;
    seen.job_infos.len = 1;
    str_clear(&text);
    api_gpus(&seen, &text);
    const char *tail = strstr(text.text, ",\"unlisted_why\"");
    assert_non_null(tail);
    assert_string_equal(tail,
                        ",\"unlisted_why\":\"no /proc\",\"holdings\":[{\"gpu\":0,\"uuid\":\"GPU-3\",\"instance\":{\""
                        "gpu_instance\":7,\"compute_instance\":null},\"owner\":{\"user\":\"ada\",\"job\":\"17\",\"a"
                        "ccount\":null,\"pod\":null,\"namespace\":null,\"container\":null,\"process\":null,\"text\""
                        ":\"job 17 of ada\",\"pid\":70},\"workload\":{\"kind\":null,\"name\":\"train\",\"derived\":"
                        "true},\"state\":\"used\",\"basis\":\"process\",\"grant\":\"none\",\"attribution\":\"unknow"
                        "n\",\"activity\":\"unknown\",\"share\":1,\"sm_share\":null,\"memory_bytes\":5,\"processes\""
                        ":[{\"pid\":70,\"name\":\"python\",\"user\":\"ada\"}]},{\"gpu\":0,\"uuid\":\"GPU-3\",\"inst"
                        "ance\":{\"gpu_instance\":7,\"compute_instance\":1},\"owner\":{\"user\":null,\"job\":null,\""
                        "account\":null,\"pod\":null,\"namespace\":null,\"container\":null,\"process\":null,\"text\""
                        ":\"unknown\",\"pid\":null},\"workload\":{\"kind\":\"Job\",\"name\":\"serve\",\"derived\":f"
                        "alse},\"state\":\"used\",\"basis\":\"process\",\"grant\":\"none\",\"attribution\":\"unknow"
                        "n\",\"activity\":\"unknown\",\"share\":0,\"sm_share\":0,\"memory_bytes\":0,\"processes\":["
                        "]}],\"jobs\":[{\"job\":\"17\",\"name\":\"pretrain\",\"limit_seconds\":60}]}\n");
    world_free(w);
}

static void allot(World *w, const char *pod, const char *namespace, const char *uid)
{
    Allocation owner = {
        .device = {.minor = DEVICE_NO_NUMBER, .gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER},
        .pod = pod,
        .namespace = namespace,
        .container = "main",
        .pod_uid = uid};

    snprintf(owner.device.uuid, sizeof owner.device.uuid, "GPU-3");
    allocation_table_add(&w->allocations, &owner);
}

/* What the JSON holds of the process in a pod (its UID is u-9), and that the one in none has no pod. */
static void assert_pod(World *w, const char *wanted)
{
    CLEANUP(str_done) Str text = {0};

    str_init(&text, 1 << 20);
    write_world(w, &text);
    if (!strstr(text.text, wanted))
        fail_msg("'%s' is not in:\n%s", wanted, text.text);
    assert_non_null(
        strstr(text.text, "\"pid\":71,\"used_bytes\":1048576,\"sm_percent\":30,\"name\":\"python\",\"state\""));
}

static void test_a_process_is_in_the_only_pod(void **state)
{
    static const char none[] = "\"pod_uid\":\"u-9\",\"state\"";
    World *w = one_of_everything();

    (void)state;
    assert_pod(w, none);
    allot(w, "train", "ml", "");
    assert_pod(w, "\"owners\":[{\"kind\":\"pod\",\"pod\":\"train\",\"namespace\":\"ml\",\"container\":\"main\"}]");
    assert_pod(w, "\"pod_uid\":\"u-9\",\"pod\":\"train\",\"namespace\":\"ml\",\"state\"");
    allot(w, "train", "ml", ""); /* another container of it */
    assert_pod(w, "\"pod_uid\":\"u-9\",\"pod\":\"train\",\"namespace\":\"ml\",\"state\"");
    allot(w, "other", "ml", "u-8"); /* its UID is known, and another one */
    assert_pod(w, "\"pod_uid\":\"u-9\",\"pod\":\"train\",\"namespace\":\"ml\",\"state\"");
    allot(w, "train", "ml-2", "");
    assert_pod(w, none);
    allot(w, "third", "ml", "u-9"); /* its own UID */
    assert_pod(w, "\"pod_uid\":\"u-9\",\"pod\":\"third\",\"namespace\":\"ml\",\"state\"");
    world_free(w);
    w = one_of_everything();
    allot(w, "train", "ml", "");
    allot(w, "infer", "ml", "");
    assert_pod(w, none);
    world_free(w);
}

static void test_what_was_written_is_read(void **state)
{
    SnapshotBuffer *read = snapshot_buffer_new();

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        World *w = world_new(seed);
        CLEANUP(str_done) Str first = {0}, second = {0};
        Err err = {0};

        str_init(&first, 1 << 22);
        str_init(&second, 1 << 22);
        write_world(w, &first);
        assert_null(memchr(first.text, '\n', first.len - 1)); /* a snapshot is a line */
        if (snapshot_read(read, first.text, first.len, &err) < 0)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        assert_int_equal(read->node.real_ns / NS_PER_MS, w->node.real_ns / NS_PER_MS);
        status_json(&read->snapshot, &second);
        if (first.len != second.len || memcmp(first.text, second.text, first.len) != 0) {
            size_t at = 0;

            while (first.text[at] == second.text[at])
                at++;
            at = at > 80 ? at - 80 : 0;
            fail_msg("seed %llu:\n%.200s\n%.200s", (unsigned long long)seed, first.text + at, second.text + at);
        }
        world_free(w);
    }
    snapshot_buffer_free(read);
}

static void test_a_gpu_is_known_again(void **state)
{
    World *w = world_new(9);
    CLEANUP(str_done) Str text = {0};
    SnapshotBuffer *read = snapshot_buffer_new();

    (void)state;
    str_init(&text, 1 << 22);
    assert_null(read->snapshot.node); /* nothing yet */
    write_world(w, &text);
    assert_int_equal(snapshot_read(read, text.text, text.len, NULL), 0);
    assert_true(w->node.gpu_count > 2);
    for (size_t i = 0; i < w->node.gpu_count; i++) {
        const NodeGpu *was = &w->gpus[i], *is = &read->node.gpus[i];

        assert_true(device_equal(&was->reading.device, &is->reading.device));
        assert_int_equal(was->state, is->state);
        for (size_t k = 0; k < was->instance_count; k++) {
            assert_true(device_equal(&was->instances[k].device, &is->instances[k].device));
            assert_int_equal(is->instances[k].instance_head, k % 2 == 0);
        }
        for (size_t k = 0; k < is->process_count; k++) {
            const ProcessOwner *who = process_list_find(&read->snapshot.processes, is->processes[k].pid);

            assert_true(!who || who->pid == is->processes[k].pid);
        }
    }
    snapshot_buffer_free(read);
    world_free(w);
}

#define HEAD "\"time\":\"2026-01-05T12:00:00Z\""
#define GPU "\"index\":0,\"uuid\":\"GPU-0\",\"state\":\"up\""

static const struct {
    const char *text, *wanted;
} wrongs[] = {
    {"[]", "node: 'this' is no JSON of a node"},
    {"{\"node\":3}", "node: 'this' is no JSON of a node"},
    {"{\"gpus\":[]}", "node: 'time' is no time"},
    {"{\"time\":\"yesterday\",\"gpus\":[]}", "node: 'time' is no time"},
    {"{" HEAD "}", "node: 'this' is no JSON of a node"},
    {"{\"node\":{" HEAD "}}", "node: 'gpus' is no list"},
    {"{" HEAD ",\"gpus\":[{}]}", "gpus[0]: 'state' is no state of a GPU"},
    {"{" HEAD ",\"gpus\":[{" GPU "},{\"state\":\"odd\"}]}", "gpus[1]: 'state' is no state of a GPU"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"pci\":\"x\"}]}", "gpus[0]: 'pci' is no PCI address"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"why\":3}]}", "gpus[0]: 'why' is no text"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"mig\":1}]}", "gpus[0]: 'mig' is no true or false"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"missed_calls\":-1}]}", "gpus[0]: 'missed_calls' is no number that it can be"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"metrics\":[]}]}", "gpus[0]: 'metrics' is no object"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"metrics\":{\"DCGM_FI_DEV_GPU_TEMP\":{\"value\":\"hot\"}}}]}",
     "gpus[0]: 'DCGM_FI_DEV_GPU_TEMP' is no value of a metric"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"nvlinks\":[{\"link\":18}]}]}", "gpus[0]: 'link' is no number that it can be"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"nvlinks\":[{\"link\":0,\"remote\":\"x\"}]}]}",
     "gpus[0]: 'remote' is no PCI address"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"pci\":\"0000:1b:00.0\",\"pcie_path\":\"x\"}]}",
     "gpus[0]: 'pcie_path' is no path of PCI functions"},
    {"{\"node\":{" HEAD ",\"node\":{\"adapters\":[{\"pci\":\"0000:1b:00.0\"}]},\"gpus\":[]}}",
     "adapters: 'name' is no name and PCI address of an adapter"},
    {"{\"node\":{" HEAD ",\"node\":{\"adapters\":[{\"name\":\"mlx5_0\",\"pci\":\"x\"}]},\"gpus\":[]}}",
     "adapters: 'pci' is no name and PCI address of an adapter"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"processes\":[{}]}]}", "gpus[0]: 'pid' is no number of a process"},
    {"{" HEAD ",\"gpus\":[{" GPU ",\"peers\":[{}]}]}", "gpus[0]: 'gpu' is no number of a GPU"},
    {"{" HEAD ",\"gpus\":[],\"samplers\":[{}]}", "samplers: 'state' is no state of a sampler"},
    {"{" HEAD ",\"gpus\":[{" GPU "}],\"holdings\":[{\"gpu\":0,\"owner\":3}]}", "holdings[0]: 'owner' is no object"},
    {"{" HEAD ",\"gpus\":[{" GPU "}],\"holdings\":[{\"gpu\":0,\"share\":\"all\"}]}",
     "holdings[0]: 'share' is no number"},
    {"{\"incidents\":[{}],\"node\":{" HEAD ",\"gpus\":[]}}", "an incident in the JSON has no id or state"},
};

static void test_what_is_wrong_is_said(void **state)
{
    SnapshotBuffer *read = snapshot_buffer_new();

    (void)state;
    assert_int_equal(snapshot_read(read, "{\"node\":", 8, NULL), -EINVAL);
    for (size_t i = 0; i < ARRAY_LEN(wrongs); i++) {
        Err err = {0};

        assert_true(snapshot_read(read, wrongs[i].text, strlen(wrongs[i].text), &err) < 0);
        assert_string_equal(err.text, wrongs[i].wanted);
        assert_null(read->snapshot.node);
    }
    snapshot_buffer_free(read);
}

/* By its UUID, else by its index; what nobody has is left out. */
static void test_a_holding_finds_its_gpu(void **state)
{
    static const struct {
        const char *holding;
        size_t count, gpu;
    } cases[] = {
        {"\"gpu\":1", 1, 1},
        {"\"gpu\":2", 0, 0},
        {"\"gpu\":null", 0, 0},
        {"\"gpu\":0,\"uuid\":\"GPU-x\"", 1, 2},
        {"\"gpu\":0,\"uuid\":\"GPU-9\"", 0, 0},
    };
    SnapshotBuffer *read = snapshot_buffer_new();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(str_done) Str text = str_limited(10000);
        Err err = {0};

        str_addf(&text,
                 "{" HEAD ",\"gpus\":[{" GPU "},{\"index\":1,\"uuid\":\"GPU-1\",\"state\":\"up\"},{\"index\":null,"
                 "\"uuid\":\"GPU-x\",\"state\":\"lost\"}],\"holdings\":[{%s,\"owner\":{\"user\":\"ada\"}}]}",
                 cases[i].holding);
        if (snapshot_read(read, text.text, text.len, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(read->snapshot.holding_count, cases[i].count);
        if (cases[i].count)
            assert_int_equal(read->snapshot.holdings[0].gpu, cases[i].gpu);
    }
    snapshot_buffer_free(read);
}

/* Of another version, or by hand: what is missing says nothing, what is not known is passed over. */
static void test_older_and_newer_ones_are_read(void **state)
{
    static const char text[] =
        "{\"new\":[{}],\"incidents\":null,\"causes\":[{\"cause\":\"odd\",\"text\":\"x\"}],\"node\":{" HEAD
        ",\"gpus\":[{" GPU ",\"colour\":{},\"metrics\":{\"DCGM_FI_DEV_NEW\":{\"value\":1},\"DCGM_FI_DEV_POWER_USAGE\":"
        "{\"value\":7},\"DCGM_FI_DEV_GPU_TEMP\":{\"value\":null,\"absent\":\"odd\"}}}]}}";
    Err err = {0};
    double value;
    SnapshotBuffer *read = snapshot_buffer_new();

    (void)state;
    if (snapshot_read(read, text, strlen(text), &err) < 0)
        fail_msg("%s", err.text);
    const Node *node = read->snapshot.node;
    assert_int_equal(node->gpu_count, 1);
    assert_true(sample_double(&node->gpus[0].reading.sample[METRIC_POWER_USAGE], &value) && fabs(value - 7) < 1e-9);
    assert_int_equal(node->gpus[0].reading.sample[METRIC_GPU_TEMP].absence, ABSENCE_FAILED);
    assert_int_equal(node->gpus[0].process_list.absence, ABSENCE_NOT_YET);
    snapshot_buffer_free(read);
}

/* --- history -------------------------------------------------------------------------------------------------------
 */

static void test_a_history_is_read(void **state)
{
    static const char seconds[] =
        "{\"resolution\":\"second\",\"series\":[{\"metric\":\"DCGM_FI_DEV_POWER_USAGE\",\"points\":[[100.000,5.5],"
        "[101.000,null,\"gpu_lost\"]]},{\"metric\":\"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\",\"points\":[[100.000,10],"
        "[101.000,null,\"gpu_lost\"],[102.000,30],[103.000,5]]},{\"metric\":\"NEW\",\"points\":[[1,2]]}]}";
    static const char minutes[] =
        "{\"resolution\":\"minute\",\"series\":[{\"metric\":\"DCGM_FI_DEV_POWER_USAGE\",\"points\":[[60.000,1,2,3,60],"
        "[120.000,null,null,null,0]]},{\"metric\":\"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\",\"points\":[[60.000,99,120,"
        "60],[120.000,null,null,0],[180.000,99,120,60],[240.000,99,60,20]]}]}";
    HistoryPoints points = {0};

    (void)state;
    assert_int_equal(history_read(seconds, strlen(seconds), &points, NULL), 0);
    assert_int_equal(points.len, 2); /* gauges alone, and no unknown metric */
    assert_true(fabsf(points.at[0].mean - 5.5F) < 1e-6F && isnan(points.at[1].mean));
    assert_int_equal(points.at[1].real_ns, 101 * NS_PER_S);
    assert_int_equal(history_read(minutes, strlen(minutes), &points, NULL), 0);
    assert_int_equal(points.len, 4);
    assert_true(fabsf(points.at[2].min - 1) < 1e-6F && fabsf(points.at[2].mean - 2) < 1e-6F);
    assert_true(fabsf(points.at[2].max - 3) < 1e-6F && isnan(points.at[3].mean));
    vec_done(&points);
    HistoryPoints full = {.len = (1 << 22) - 1}; /* one more fits, two do not */
    Err err;
    assert_int_equal(history_read(seconds, strlen(seconds), &full, &err), -EINVAL);
    assert_string_equal(err.text, "the history has more than 4194304 points");
    assert_int_equal(full.len, (1 << 22) - 1);
}

static void test_what_is_no_history(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "{\"series\":[]}",
        "{\"resolution\":\"second\",\"series\":[{}]}",
        "{\"resolution\":\"second\",\"series\":[{\"metric\":\"DCGM_FI_DEV_POWER_USAGE\",\"points\":[[\"x\",1]]}]}",
        "{\"resolution\":\"second\",\"series\":[{\"metric\":\"DCGM_FI_DEV_POWER_USAGE\",\"points\":[[1,1],[-1,1]]}]}",
    };
    HistoryPoints points = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_true(history_read(texts[i], strlen(texts[i]), &points, NULL) < 0);
        assert_int_equal(points.len, 0);
    }
    vec_done(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_as_it_is_documented),
        cmocka_unit_test(test_devices_alone_are_short),
        cmocka_unit_test(test_holdings_and_jobs_are_told),
        cmocka_unit_test(test_a_process_is_in_the_only_pod),
        cmocka_unit_test(test_what_was_written_is_read),
        cmocka_unit_test(test_a_gpu_is_known_again),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_a_holding_finds_its_gpu),
        cmocka_unit_test(test_older_and_newer_ones_are_read),
        cmocka_unit_test(test_a_history_is_read),
        cmocka_unit_test(test_what_is_no_history),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
