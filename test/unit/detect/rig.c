/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/yaml.h"

#define MIB 1048576.0

/* A GPU that trains: near its power limit, at full load. */
static const struct {
    MetricId id;
    double value, rate;
} healthy[] = {
    {METRIC_SM_CLOCK, 1755, 0},
    {METRIC_MAX_SM_CLOCK, 1980, 0},
    {METRIC_GPU_UTIL, 98, 0},
    {METRIC_GPU_TEMP, 62, 0},
    {METRIC_SLOWDOWN_TEMP, 89, 0},
    {METRIC_GPU_TEMP_LIMIT, 25, 0},
    {METRIC_CLOCKS_EVENT_REASONS, 0x4, 0},
    {METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, 5e9, 0.6e9},
    {METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, 0, 0},
    {METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, 3e9, 0},
    {METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, 2e9, 0},
    {METRIC_ENFORCED_POWER_LIMIT, 700, 0},
    {METRIC_POWER_MGMT_LIMIT_DEF, 700, 0},
    {METRIC_ECC_SBE_VOL_TOTAL, 3, 0},
    {METRIC_ECC_DBE_VOL_TOTAL, 0, 0},
    {METRIC_ROW_REMAP_PENDING, 0, 0},
    {METRIC_ROW_REMAP_FAILURE, 0, 0},
    {METRIC_UNCORRECTABLE_REMAPPED_ROWS, 0, 0},
    {METRIC_CORRECTABLE_REMAPPED_ROWS, 1, 0},
    {METRIC_BANKS_REMAP_ROWS_AVAIL_LOW, 0, 0},
    {METRIC_BANKS_REMAP_ROWS_AVAIL_NONE, 0, 0},
    {METRIC_SRAM_THRESHOLD, 0, 0},
    {METRIC_ECC_SRAM_UNC_AGGREGATE, 0, 0},
    {METRIC_INFOROM_VALID, 1, 0},
    {METRIC_RETIRED_SBE, 0, 0},
    {METRIC_RETIRED_DBE, 0, 0},
    {METRIC_RETIRED_PENDING, 0, 0},
    {METRIC_PERSISTENCE_MODE, 1, 0},
    {METRIC_GPU_RECOVERY_ACTION, 0, 0},
    {METRIC_FANS, 2, 0},
    {METRIC_FAN_SPEED, 55, 0},
    {METRIC_FAN_SLOWEST, 54, 0},
    {METRIC_FAN_TARGET, 55, 0},
    {METRIC_PCIE_LINK_GEN, 5, 0},
    {METRIC_PCIE_MAX_LINK_GEN, 5, 0},
    {METRIC_PCIE_LINK_WIDTH, 16, 0},
    {METRIC_PCIE_MAX_LINK_WIDTH, 16, 0},
    {METRIC_PCIE_REPLAY_COUNTER, 12, 0},
    {METRIC_PCIE_TX_BYTES_COUNT, 1e9, 1e8},
    {METRIC_PCIE_RX_BYTES_COUNT, 1e9, 1e8},
    {METRIC_FABRIC_MANAGER_STATUS, 3, 0},
    {METRIC_FABRIC_HEALTH_MASK, 0x1aa, 0},
    {METRIC_FABRIC_HEALTH_SUMMARY, 1, 0},
    {METRIC_FB_TOTAL, 81559, 0},
    {METRIC_FB_RESERVED, 479, 0},
    {METRIC_FB_USED, 60050, 0},
    {METRIC_FB_FREE, 21030, 0},
};

PciAddress rig_pci(int gpu)
{
    return (PciAddress){.domain = (uint32_t)gpu / 32, .bus = (uint8_t)(0x10 + gpu % 32)};
}

static void put(Sample *sample, uint64_t time_ns, MetricId id, double value)
{
    if (metric_get(id)->value == METRIC_DOUBLE)
        sample_set_double(sample, time_ns, value);
    else
        sample_set_int64(sample, time_ns, (int64_t)value);
}

void rig_set(Rig *rig, int gpu, MetricId id, double value)
{
    rig->exact[gpu][id] = value;
    put(&rig->gpus[gpu].reading.sample[id], rig->node.time_ns, id, value);
}

void rig_set_all(Rig *rig, MetricId id, double value)
{
    for (int gpu = 0; gpu < rig->count; gpu++)
        rig_set(rig, gpu, id, value);
}

void rig_absent(Rig *rig, int gpu, MetricId id, Absence why)
{
    sample_set_absent(&rig->gpus[gpu].reading.sample[id], rig->node.time_ns, why);
}

double rig_get(const Rig *rig, int gpu, MetricId id)
{
    double value = NAN;

    sample_double(&rig->gpus[gpu].reading.sample[id], &value);
    return value;
}

void rig_heal(Rig *rig, int gpu)
{
    for (size_t i = 0; i < ARRAY_LEN(healthy); i++) {
        rig->rate[gpu][healthy[i].id] = healthy[i].rate;
        rig_set(rig, gpu, healthy[i].id, healthy[i].value);
    }
    rig->gpus[gpu].pass_ns = 20 * NS_PER_MS;
}

void rig_state(Rig *rig, int gpu, GpuState state, const char *why)
{
    NodeGpu *it = &rig->gpus[gpu];

    it->state = state;
    it->state_since_ns = rig->node.time_ns;
    snprintf(it->why, sizeof it->why, "%s", why);
    it->trouble = state == GPU_LOST     ? GPU_TROUBLE_FELL_OFF
                  : state == GPU_FAILED ? GPU_TROUBLE_REFUSED
                                        : GPU_TROUBLE_NONE;
    if (state == GPU_UP) {
        rig_heal(rig, gpu);
        for (int i = 0; i < RIG_LINKS; i++) {
            sample_set_int64(&rig->links[gpu][i].active, rig->node.time_ns, 1);
            for (int k = 0; k < NODE_LINK_ERROR_END; k++)
                sample_set_int64(&rig->links[gpu][i].errors[k], rig->node.time_ns, 0);
        }
        sample_set_int64(&it->process_list, rig->node.time_ns, (int64_t)it->process_count);
        return;
    }
    reading_lose(&it->reading, rig->node.time_ns, ABSENCE_GPU_LOST);
    for (int i = 0; i < RIG_LINKS; i++) {
        sample_set_absent(&rig->links[gpu][i].active, rig->node.time_ns, ABSENCE_GPU_LOST);
        for (int k = 0; k < NODE_LINK_ERROR_END; k++)
            sample_set_absent(&rig->links[gpu][i].errors[k], rig->node.time_ns, ABSENCE_GPU_LOST);
    }
    sample_set_absent(&it->process_list, rig->node.time_ns, ABSENCE_GPU_LOST);
}

void rig_process(Rig *rig, int gpu, uint32_t pid, double bytes, uint8_t sm, uint8_t memory)
{
    NodeGpu *it = &rig->gpus[gpu];
    size_t at = 0;

    while (at < it->process_count && rig->processes[gpu][at].pid != pid)
        at++;
    assert_true(at < RIG_PROCESSES);
    rig->processes[gpu][at] = (NodeProcess){.pid = pid,
                                            .gpu_instance = DEVICE_NO_NUMBER,
                                            .compute_instance = DEVICE_NO_NUMBER,
                                            .used_bytes = (uint64_t)bytes,
                                            .sm_percent = sm,
                                            .memory_percent = memory};
    if (at == it->process_count)
        it->process_count++;
    sample_set_int64(&it->process_list, it->process_list.time_ns, (int64_t)it->process_count);
}

void rig_no_process(Rig *rig, int gpu, uint32_t pid)
{
    NodeGpu *it = &rig->gpus[gpu];

    for (size_t i = 0; i < it->process_count; i++)
        if (rig->processes[gpu][i].pid == pid) {
            rig->processes[gpu][i] = rig->processes[gpu][--it->process_count];
            sample_set_int64(&it->process_list, it->process_list.time_ns, (int64_t)it->process_count);
            return;
        }
}

static void make_gpu(Rig *rig, int gpu)
{
    NodeGpu *it = &rig->gpus[gpu];
    Device *device = &it->reading.device;

    reading_init(&it->reading, DEVICE_GPU);
    device->index = (uint32_t)gpu;
    device->has_pci = true;
    device->pci = rig_pci(gpu);
    snprintf(device->uuid, sizeof device->uuid, "GPU-%08d", gpu);
    snprintf(device->name, sizeof device->name, "NVIDIA H100 80GB HBM3");
    it->instances = rig->instances[gpu];
    it->link_count = RIG_LINKS;
    it->links = rig->links[gpu];
    it->processes = rig->processes[gpu];
    rig->order[gpu] = gpu;
    rig_state(rig, gpu, GPU_UP, "");
    rig_process(rig, gpu, 4000 + (uint32_t)gpu, 60000 * MIB, 95, 40);
    rig->facts.gpus[gpu] = (FactsGpu){.pci = rig_pci(gpu),
                                      .present = true,
                                      .driver = "nvidia",
                                      .current = {32000, 16},
                                      .max = {32000, 16},
                                      .slot = {32000, 16},
                                      .has_aer = true};
}

static Catalogue *load(const char *site)
{
    CLEANUP(arena_done) Arena arena = {0};
    const YamlNode *root = NULL;
    Catalogue *catalogue = NULL;
    Err err = {0};

    if (site && yaml_load("site.yaml", site, strlen(site), &arena, &root, &err) < 0)
        fail_msg("%s", err.text);
    if (catalogue_new(&root, site ? 1 : 0, &catalogue, &err) < 0)
        fail_msg("%s", err.text);
    return catalogue;
}

void rig_mend(Rig *rig)
{
    const uint64_t looked_ns = rig->facts.time_ns;

    memset(rig->rate, 0, sizeof rig->rate);
    memset(rig->frozen, 0, sizeof rig->frozen);
    memset(rig->link_rate, 0, sizeof rig->link_rate);
    memset(rig->growth, 0, sizeof rig->growth);
    memset(rig->aer_rate, 0, sizeof rig->aer_rate);
    memset(rig->samplers, 0, sizeof rig->samplers);
    rig->facts = (Facts){.time_ns = looked_ns,
                         .gpu_count = (size_t)rig->count,
                         .proc_known = true,
                         .module_loaded = true,
                         .has_switches = true,
                         .fabric_manager = true,
                         .persistenced = true,
                         .log = FACTS_LOG_KMSG,
                         .module_version = "590.48.01"};
    rig->facts_stale = false;
    rig->node = (Node){.tick = rig->node.tick,
                       .time_ns = rig->node.time_ns,
                       .real_ns = rig->node.real_ns,
                       .gpus = rig->shown,
                       .gpu_count = (size_t)rig->count,
                       .samplers = rig->samplers,
                       .gpus_on_bus = (uint32_t)rig->count,
                       .gpus_expected = (uint32_t)rig->count,
                       .gpus_found = (uint32_t)rig->count};
    for (int gpu = 0; gpu < rig->count; gpu++) {
        memset(&rig->gpus[gpu], 0, sizeof rig->gpus[gpu]);
        make_gpu(rig, gpu);
    }
}

Rig *rig_new(int gpus, const char *site)
{
    Rig *rig = xcalloc(1, sizeof *rig);

    rig->count = gpus;
    rig->period_slow_ns = 10 * NS_PER_S;
    rig->catalogue = load(site);
    rig->detectors = detectors_new(rig->catalogue, NULL);
    rig->node.time_ns = 100000 * NS_PER_S;
    rig->node.real_ns = UINT64_C(1700000000) * NS_PER_S;
    rig_mend(rig);
    return rig;
}

void rig_free(Rig *rig)
{
    if (!rig)
        return;
    detectors_free(rig->detectors);
    catalogue_free(rig->catalogue);
    free(rig);
}

int rig_close(void **state)
{
    rig_free(*state);
    *state = NULL;
    return 0;
}

static void note(void *self, const Evidence *evidence)
{
    Rig *rig = self;
    RigEvidence *kept;

    assert_true(rig->evidence_count < RIG_EVIDENCE_MAX);
    kept = &rig->evidence[rig->evidence_count++];
    *kept = (RigEvidence){.gpu = RIG_NODE,
                          .device = evidence->device,
                          .action = evidence->verdict.action,
                          .holds = evidence->holds,
                          .pid = evidence->pid};
    snprintf(kept->rule, sizeof kept->rule, "%s", evidence->verdict.rule->id);
    memcpy(kept->text, evidence->text, sizeof kept->text);
    assert_true(evidence->text[0] != '\0' && strlen(evidence->text) < EVENT_TEXT_CAP - 1);
    assert_null(strstr(evidence->text, "nan"));
    if (evidence->counter_count)
        kept->counter = evidence->counters[0];
    for (int gpu = 0; evidence->device.kind != DEVICE_NODE && gpu < rig->count; gpu++)
        if (pci_compare(rig_pci(gpu), evidence->device.pci) == 0)
            kept->gpu = gpu;
    assert_int_equal(evidence->time_ns, rig->node.time_ns);
}

static void read_values(Rig *rig, int gpu, double seconds)
{
    NodeGpu *it = &rig->gpus[gpu];

    for (MetricId id = 0; id < METRIC_END; id++) {
        Sample *sample = &it->reading.sample[id];
        const bool slow = metric_get(id)->pace == METRIC_PACE_SLOW;

        rig->exact[gpu][id] += rig->rate[gpu][id] * seconds;
        if (sample->valid && !rig->frozen[gpu][id] &&
            (!slow || rig->node.time_ns - sample->time_ns >= rig->period_slow_ns))
            put(sample, rig->node.time_ns, id, rig->exact[gpu][id]);
    }
    if (it->state == GPU_UP)
        it->last_sample_ns = rig->node.time_ns;
}

static void read_lists(Rig *rig, int gpu)
{
    NodeGpu *it = &rig->gpus[gpu];
    const double period = (double)rig->period_slow_ns / NS_PER_S;

    for (int i = 0; i < RIG_LINKS; i++) {
        NodeLink *link = &rig->links[gpu][i];
        int64_t value;

        if (link->active.valid)
            link->active.time_ns = rig->node.time_ns;
        for (int k = 0; k < NODE_LINK_ERROR_END; k++)
            if (sample_int64(&link->errors[k], &value) &&
                rig->node.time_ns - link->errors[k].time_ns >= rig->period_slow_ns)
                sample_set_int64(&link->errors[k], rig->node.time_ns,
                                 value + (int64_t)(rig->link_rate[gpu][i][k] * period));
    }
    if (!it->process_list.valid || rig->node.time_ns - it->process_list.time_ns < rig->period_slow_ns)
        return;
    it->process_list.time_ns = rig->node.time_ns;
    for (size_t i = 0; i < it->process_count; i++) {
        const double bytes = rig->growth[gpu][i] * period;

        rig->processes[gpu][i].used_bytes = (uint64_t)((double)rig->processes[gpu][i].used_bytes + bytes);
        rig_set(rig, gpu, METRIC_FB_USED, rig->exact[gpu][METRIC_FB_USED] + bytes / MIB);
        rig_set(rig, gpu, METRIC_FB_FREE, fmax(0, rig->exact[gpu][METRIC_FB_FREE] - bytes / MIB));
    }
}

void rig_tick(Rig *rig, double seconds)
{
    const uint64_t step_ns = (uint64_t)(seconds * NS_PER_S);

    rig->node.tick++;
    rig->node.time_ns += step_ns;
    rig->node.real_ns += step_ns;
    for (int gpu = 0; gpu < rig->count; gpu++) {
        read_values(rig, gpu, seconds);
        read_lists(rig, gpu);
    }
    if (!rig->facts_stale && rig->node.time_ns - rig->facts.time_ns >= 10 * NS_PER_S) {
        for (int gpu = 0; gpu < rig->count && rig->facts.time_ns; gpu++)
            rig->facts.gpus[gpu].aer[FACTS_AER_CORRECTABLE] +=
                (uint64_t)(rig->aer_rate[gpu] * (double)(rig->node.time_ns - rig->facts.time_ns) / NS_PER_S);
        rig->facts.time_ns = rig->node.time_ns;
    }
    for (int i = 0; i < rig->count; i++)
        rig->shown[i] = rig->gpus[rig->order[i]];
    rig->evidence_count = 0;
    detectors_tick(rig->detectors, &rig->node, &rig->facts, &(DetectorSink){.evidence = note, .self = rig});
}

void rig_run(Rig *rig, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++)
        rig_tick(rig, 1);
}

static bool is_allowed(const RigEvidence *evidence, const char *rule, const char *allowed)
{
    return (rule && strcmp(evidence->rule, rule) == 0) || (allowed && strstr(allowed, evidence->rule));
}

static void check(const Rig *rig, const char *rule, const char *allowed)
{
    for (size_t i = 0; i < rig->evidence_count && !rig->any_evidence; i++)
        if (!is_allowed(&rig->evidence[i], rule, allowed))
            fail_msg("%s on GPU %d: %s", rig->evidence[i].rule, rig->evidence[i].gpu, rig->evidence[i].text);
}

void rig_run_quiet(Rig *rig, unsigned seconds, const char *allowed)
{
    for (unsigned i = 0; i < seconds; i++) {
        rig_tick(rig, 1);
        check(rig, NULL, allowed);
    }
}

unsigned rig_until(Rig *rig, const char *rule, int gpu, unsigned max, const char *allowed)
{
    for (unsigned i = 1; i <= max; i++) {
        rig_tick(rig, 1);
        check(rig, rule, allowed);
        if (rig_evidence(rig, rule, gpu))
            return i;
    }
    fail_msg("no evidence of %s on GPU %d within %u s", rule, gpu, max);
    return 0;
}

const RigEvidence *rig_evidence(const Rig *rig, const char *rule, int gpu)
{
    for (size_t i = 0; i < rig->evidence_count; i++)
        if (strcmp(rig->evidence[i].rule, rule) == 0 && rig->evidence[i].gpu == gpu)
            return &rig->evidence[i];
    return NULL;
}

size_t rig_count(const Rig *rig, const char *rule)
{
    size_t count = 0;

    for (size_t i = 0; i < rig->evidence_count; i++)
        count += strcmp(rig->evidence[i].rule, rule) == 0;
    return count;
}

void rig_says(const RigEvidence *evidence, const char *part)
{
    assert_non_null(evidence);
    if (!strstr(evidence->text, part))
        fail_msg("'%s' is not in '%s'", part, evidence->text);
}
