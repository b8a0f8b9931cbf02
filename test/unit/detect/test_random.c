/* SPDX-License-Identifier: Apache-2.0 */
/* Properties: what is missing at random is no fault, the order of GPUs does not matter, nor how many there are. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "rig.h"
#include "../slow.h"

static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* Samples go away for a while for any reason, come back, and jump to a reset counter; GPUs start and are let go. */
static void holes(void **state)
{
    (void)state;
    for (seed = 1; seed < 40; seed += 7) {
        const uint64_t began = seed;
        Rig *rig = rig_new(8, NULL);

        rig_run_quiet(rig, 100, NULL);
        for (int i = 0; i < 1500 / TEST_SLOW; i++) {
            const int gpu = (int)draw(8);
            const MetricId id = (MetricId)draw(METRIC_END);

            for (int k = 0; k < 20; k++)
                if (draw(3))
                    rig_absent(rig, gpu, (MetricId)draw(METRIC_END), (Absence)draw(ABSENCE_END));
            if (draw(4) == 0)
                sample_set_absent(&rig->links[gpu][draw(RIG_LINKS)].active, rig->node.time_ns, ABSENCE_TIMED_OUT);
            if (draw(10) == 0)
                sample_set_absent(&rig->gpus[gpu].process_list, rig->node.time_ns, ABSENCE_TIMED_OUT);
            if (metric_get(id)->type == METRIC_COUNTER && draw(20) == 0)
                rig_set(rig, gpu, id, 0);
            if (draw(8) == 0)
                rig_state(rig, gpu, GPU_UP, "");
            if (draw(60) == 0)
                rig_state(rig, gpu, draw(2) ? GPU_STARTING : GPU_RELEASED, "");
            rig->facts_stale = draw(30) != 0 && rig->facts_stale;
            rig_run_quiet(rig, 1 + (unsigned)draw(3), NULL);
            if (rig->gpus[gpu].state == GPU_STARTING)
                rig_state(rig, gpu, GPU_UP, "");
        }
        rig_free(rig);
        seed = began;
    }
}

static int compare_evidence(const void *a, const void *b)
{
    const RigEvidence *x = a, *y = b;
    const int rule = strcmp(x->rule, y->rule);

    return rule ? rule : x->gpu != y->gpu ? x->gpu - y->gpu : strcmp(x->text, y->text);
}

static void hurt(Rig *rig, int gpu, uint64_t kind)
{
    switch (kind) {
    case 0:
        rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS] = 0.8e9;
        break;
    case 1:
        rig_state(rig, gpu, GPU_HUNG, "nvmlInit has not returned for 3 s");
        break;
    case 2:
        rig_set(rig, gpu, METRIC_PCIE_LINK_WIDTH, 4);
        rig->facts.gpus[gpu].current.width = 4;
        break;
    case 3:
        rig->rate[gpu][METRIC_ECC_SBE_VOL_TOTAL] = 200;
        break;
    case 4:
        rig_set(rig, gpu, METRIC_SM_CLOCK, 900);
        rig_set(rig, gpu, METRIC_CLOCKS_EVENT_REASONS, 0);
        break;
    case 5:
        sample_set_int64(&rig->links[gpu][draw(RIG_LINKS)].active, rig->node.time_ns, 0);
        break;
    case 6:
        rig_state(rig, gpu, GPU_LOST, "the driver says that it is lost");
        break;
    default:
        rig_state(rig, gpu, GPU_UP, "");
    }
}

/* The same life twice, once with the GPUs in another order at every tick. */
static void order(void **state)
{
    Rig *one = rig_new(8, NULL), *other = rig_new(8, NULL);

    (void)state;
    seed = 99;
    for (int i = 0; i < 400 / TEST_SLOW; i++) {
        const int gpu = (int)draw(8);
        const uint64_t kind = draw(12), before = seed;

        hurt(one, gpu, kind);
        seed = before;
        hurt(other, gpu, kind);
        for (int k = 0; k < 15; k++) {
            const size_t a = draw(8), b = draw(8);
            const int was = other->order[a];

            other->order[a] = other->order[b];
            other->order[b] = was;
            rig_tick(one, 1);
            rig_tick(other, 1);
            assert_int_equal(one->evidence_count, other->evidence_count);
            qsort(one->evidence, one->evidence_count, sizeof one->evidence[0], compare_evidence);
            qsort(other->evidence, other->evidence_count, sizeof other->evidence[0], compare_evidence);
            for (size_t s = 0; s < one->evidence_count; s++) {
                assert_string_equal(one->evidence[s].rule, other->evidence[s].rule);
                assert_int_equal(one->evidence[s].gpu, other->evidence[s].gpu);
                assert_string_equal(one->evidence[s].text, other->evidence[s].text);
            }
        }
    }
    rig_free(one);
    rig_free(other);
}

static void any_number(void **state)
{
    static const int counts[] = {1, 2, 3, 5, 16, 33, 64};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        Rig *rig = rig_new(counts[i], NULL);

        rig_run_quiet(rig, 100, NULL);
        rig_set(rig, counts[i] - 1, METRIC_ROW_REMAP_FAILURE, 1);
        rig_until(rig, "remap-failed", counts[i] - 1, 11, NULL);
        rig_state(rig, 0, GPU_HUNG, "nvmlInit has not returned for 3 s");
        rig_until(rig, "driver-hang", 0, 1, "remap-failed");
        rig_free(rig);
    }
}

/* No GPU, and no facts. */
static void nothing(void **state)
{
    Rig *rig = rig_new(0, NULL);

    (void)state;
    rig->facts = (Facts){0};
    rig->facts_stale = true;
    rig_run_quiet(rig, 600, NULL);
    rig->node.tick++;
    detectors_tick(rig->detectors, &rig->node, NULL, &(DetectorSink){0});
    rig->node.driver = NODE_DRIVER_NO_LIBRARY;
    snprintf(rig->node.driver_why, sizeof rig->node.driver_why, "the driver's library cannot be loaded: no such file");
    rig_run_quiet(rig, 600, NULL); /* a node without GPUs needs no driver */
    rig_free(rig);
}

/* For orientation: what a tick costs. */
static void cost(void **state)
{
    Rig *rig = rig_new(8, NULL);
    struct timespec from, to;
    enum { TICKS = 3000 / TEST_SLOW };

    (void)state;
    for (int gpu = 0; gpu < 8; gpu++) {
        rig->gpus[gpu].instance_count = 9;
        for (uint32_t i = 0; i < 9; i++) {
            reading_init(&rig->instances[gpu][i], DEVICE_COMPUTE_INSTANCE);
            rig->instances[gpu][i].device.gpu_instance = i;
            rig->instances[gpu][i].device.compute_instance = 0;
            rig_process(rig, gpu, 6000 + i, 1e9, 10, 10);
        }
    }
    rig_run(rig, 100);
    uint64_t spent_ns = 0;
    for (int i = 0; i < TICKS; i++) {
        rig_tick(rig, 1);
        rig->node.time_ns += 1;
        clock_gettime(CLOCK_MONOTONIC, &from);
        detectors_tick(rig->detectors, &rig->node, &rig->facts, &(DetectorSink){0});
        clock_gettime(CLOCK_MONOTONIC, &to);
        spent_ns += (uint64_t)(to.tv_sec - from.tv_sec) * NS_PER_S + (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
    }
    print_message("a tick of 8 GPUs and 72 MIG devices: %.1f us\n", (double)spent_ns / TICKS / 1000);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes),   cmocka_unit_test(order), cmocka_unit_test(any_number),
        cmocka_unit_test(nothing), cmocka_unit_test(cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
