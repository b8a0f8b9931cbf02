/* SPDX-License-Identifier: Apache-2.0 */
/* What detectors remember: without data, over resets and reloads, of many GPUs at once, from one catalogue to the next.
 */
#include <stdio.h>

#include "rig.h"

#define MIB 1048576.0

static void heat(Rig *rig, int gpu, double share)
{
    rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS] = share * 1e9;
}

/* ---- silence proves nothing ---- */

static void silence_keeps(void **state)
{
    static const GpuState away[] = {GPU_HUNG, GPU_LOST, GPU_NO_DRIVER, GPU_STARTING, GPU_MISSING};
    static const char *const others = "driver-hang gpu-state-lost gpu-bus monitor-data";

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(away); i++) {
        Rig *rig = rig_new(8, NULL);
        char allowed[128];

        rig_run_quiet(rig, 100, NULL);
        heat(rig, 5, 0.9);
        rig_set(rig, 5, METRIC_ROW_REMAP_PENDING, 1);
        rig_until(rig, "throttle-thermal", 5, 60, "remap-pending");
        rig_state(rig, 5, away[i], "has not returned for 3 s");
        snprintf(allowed, sizeof allowed, "%s throttle-thermal remap-pending", others);
        rig_run_quiet(rig, 600, allowed);
        assert_non_null(rig_evidence(rig, "throttle-thermal", 5));
        assert_non_null(rig_evidence(rig, "remap-pending", 5));
        for (int minute = 0; minute < 1440; minute++) /* not for ever */
            rig_tick(rig, 60);
        assert_null(rig_evidence(rig, "throttle-thermal", 5));
        rig_free(rig);
    }
}

/* It answers again, and is fine: the verdict ends once there is enough to judge by, not before. */
static void silence_ends(void **state)
{
    Rig *rig = *state = rig_new(8, NULL);

    rig_run_quiet(rig, 100, NULL);
    heat(rig, 5, 0.9);
    rig_until(rig, "throttle-thermal", 5, 60, NULL);
    rig_state(rig, 5, GPU_HUNG, "has not returned for 3 s");
    rig_run(rig, 600);
    rig_state(rig, 5, GPU_UP, "");
    rig_run_quiet(rig, 10, "throttle-thermal");
    assert_non_null(rig_evidence(rig, "throttle-thermal", 5));
    rig_run_quiet(rig, 60, "throttle-thermal");
    rig_run_quiet(rig, 60, NULL);
}

/* One value is missing of a GPU that answers: for some minutes; what the driver does not have: not at all. */
static void value_missing(void **state)
{
    Rig *rig = *state = rig_new(8, NULL);

    rig_run_quiet(rig, 100, NULL);
    rig_set(rig, 1, METRIC_GPU_TEMP_LIMIT, 0);
    rig_set(rig, 2, METRIC_GPU_TEMP_LIMIT, 0);
    rig_run(rig, 2);
    assert_int_equal(rig_count(rig, "thermal-margin"), 2);
    for (int gpu = 1; gpu <= 2; gpu++) {
        rig_absent(rig, gpu, METRIC_GPU_TEMP_LIMIT, ABSENCE_NO_DATA);
        rig_absent(rig, gpu, METRIC_SLOWDOWN_TEMP, ABSENCE_NO_DATA);
        rig_absent(rig, gpu, METRIC_GPU_TEMP, gpu == 1 ? ABSENCE_TIMED_OUT : ABSENCE_NOT_SUPPORTED);
    }
    rig_run(rig, 240);
    assert_non_null(rig_evidence(rig, "thermal-margin", 1));
    assert_null(rig_evidence(rig, "thermal-margin", 2));
    rig_run(rig, 120);
    assert_null(rig_evidence(rig, "thermal-margin", 1));
}

/* A value that is valid but was not read for long is none. */
static void stale_value(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);

    rig_run_quiet(rig, 30, NULL);
    rig_set(rig, 1, METRIC_GPU_TEMP_LIMIT, -3);
    for (MetricId id = 0; id < METRIC_END; id++) {
        rig->frozen[1][id] = true;
        rig->gpus[1].reading.sample[id].time_ns -= 16 * NS_PER_MIN;
    }
    rig_set(rig, 1, METRIC_SLOWDOWN_TEMP, 0); /* of a pace that does not age */
    rig_run_quiet(rig, 200, NULL);
}

/* ---- counters that begin anew ---- */

static void reset_is_no_rate(void **state)
{
    Rig *rig = *state = rig_new(8, NULL);

    rig_run_quiet(rig, 100, NULL);
    rig_set_all(rig, METRIC_ECC_SBE_VOL_TOTAL, 54.7e9);
    rig_set_all(rig, METRIC_PCIE_REPLAY_COUNTER, 1e6);
    rig_run(rig, 300); /* as if it had always been so */
    rig_run_quiet(rig, 100, NULL);
    rig_set_all(rig, METRIC_ECC_SBE_VOL_TOTAL, 0);
    rig_set_all(rig, METRIC_PCIE_REPLAY_COUNTER, 0);
    rig_set_all(rig, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, 0);
    for (int gpu = 0; gpu < 8; gpu++)
        for (int link = 0; link < RIG_LINKS; link++)
            sample_set_int64(&rig->links[gpu][link].errors[NODE_LINK_CRC_FLIT], rig->node.time_ns, 0);
    rig_run_quiet(rig, 300, NULL);
}

static void uncorrectable_counts(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_set(rig, 0, METRIC_ECC_DBE_VOL_TOTAL, 2); /* from before our time: told once */
    rig_until(rig, "ecc-uncorrectable", 0, 5, NULL);
    assert_false(rig_evidence(rig, "ecc-uncorrectable", 0)->holds);
    assert_true(rig_evidence(rig, "ecc-uncorrectable", 0)->counter.after == 2);
    rig_run_quiet(rig, 100, NULL);
    rig_set(rig, 0, METRIC_ECC_DBE_VOL_TOTAL, 3);
    rig_until(rig, "ecc-uncorrectable", 0, 14, NULL);
    rig_says(rig_evidence(rig, "ecc-uncorrectable", 0),
             "3 uncorrectable memory errors since the driver was loaded, 2 before");
    rig_run_quiet(rig, 100, NULL);
    rig_set(rig, 0, METRIC_ECC_DBE_VOL_TOTAL, 0); /* the GPU was reset */
    rig_run_quiet(rig, 100, NULL);
    rig_set(rig, 0, METRIC_ECC_DBE_VOL_TOTAL, 1);
    rig_until(rig, "ecc-uncorrectable", 0, 14, NULL);
    rig_run_quiet(rig, 100, NULL);
}

/* ---- another board in the same place ---- */

static void replaced(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_run_quiet(rig, 100, NULL);
    sample_set_int64(&rig->links[1][4].active, rig->node.time_ns, 0);
    rig_set(rig, 1, METRIC_ROW_REMAP_FAILURE, 1);
    rig_until(rig, "nvlink-state", 1, 20, "remap-failed");
    rig_state(rig, 1, GPU_GONE, "");
    rig_run(rig, 60);
    rig_state(rig, 1, GPU_UP, "");
    snprintf(rig->gpus[1].reading.device.uuid, DEVICE_UUID_CAP, "GPU-new");
    rig_run_quiet(rig, 200, NULL);
}

/* ---- many at once ---- */

static void one_more_or_less(void **state)
{
    Rig *rig = *state = rig_new(8, NULL);

    rig_run_quiet(rig, 100, NULL);
    for (int gpu = 0; gpu < 6; gpu++)
        heat(rig, gpu, 0.9);
    rig_until(rig, "throttle-thermal-node", RIG_NODE, 60, "throttle-thermal");
    rig_run_quiet(rig, 60, "throttle-thermal-node"); /* none of single GPUs */
    for (int i = 0; i < 12; i++) {                   /* around the half, now and then one more or less */
        heat(rig, i % 2 ? 3 : 4, i % 4 < 2 ? 0 : 0.9);
        heat(rig, 5, i % 3 ? 0 : 0.9);
        for (int k = 0; k < 60; k++) {
            rig_tick(rig, 1);
            assert_int_equal(rig_count(rig, "throttle-thermal-node"), 1);
            assert_int_equal(rig_count(rig, "throttle-thermal"), 0);
        }
    }
    for (int gpu = 0; gpu < 8; gpu++)
        heat(rig, gpu, gpu == 7 ? 0.9 : 0);
    rig_run(rig, 120);
    assert_int_equal(rig_count(rig, "throttle-thermal-node"), 0);
    assert_int_equal(rig_count(rig, "throttle-thermal"), 1);
    assert_non_null(rig_evidence(rig, "throttle-thermal", 7));
}

/* A node of one or two GPUs with a hot one is not a hot node. */
static void few_gpus(void **state)
{
    (void)state;
    for (int gpus = 1; gpus <= 3; gpus++) {
        Rig *rig = rig_new(gpus, NULL);

        rig_run_quiet(rig, 100, NULL);
        heat(rig, 0, 0.9);
        rig_until(rig, "throttle-thermal", 0, 60, NULL);
        rig_run_quiet(rig, 60, "throttle-thermal");
        rig_free(rig);
    }
}

/* ---- the driver ---- */

static void driver_reload(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_run_quiet(rig, 60, NULL);
    rig->facts.module_loaded = false;
    rig->facts.module_version[0] = '\0';
    for (int gpu = 0; gpu < 4; gpu++)
        rig_state(rig, gpu, GPU_NO_DRIVER, "not loaded");
    rig_until(rig, "driver-unloaded", RIG_NODE, 11, NULL); /* whatever the samplers say of it */
    rig->facts.module_loaded = true;
    snprintf(rig->facts.module_version, sizeof rig->facts.module_version, "595.10");
    rig_until(rig, "driver-reload", RIG_NODE, 11, "driver-unloaded");
    rig_says(rig_evidence(rig, "driver-reload", RIG_NODE), "version 595.10, before it was 590.48.01");
    assert_false(rig_evidence(rig, "driver-reload", RIG_NODE)->holds);
    for (int gpu = 0; gpu < 4; gpu++)
        rig_state(rig, gpu, GPU_UP, "");
    rig_run_quiet(rig, 100, NULL);
}

/* Known on a node with switches whose whole /proc is seen. */
static void a_fabric_manager_that_is_missed(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig->facts.has_switches = true;
    rig->facts.fabric_manager = false;
    rig_run_quiet(rig, 100, NULL); /* a container sees its own processes alone */
    rig->facts.all_tasks = true;
    rig->facts.has_switches = false;
    rig_run_quiet(rig, 100, NULL);
    rig->facts.has_switches = true;
    rig_until(rig, "fabric-manager", RIG_NODE, 2, NULL);
    rig->facts.fabric_manager = true;
    rig_tick(rig, 1);
    rig_run_quiet(rig, 100, NULL);
}

/* Only under programs that had it. */
static void an_imex_that_is_missed(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig->facts.all_tasks = rig->facts.fabric_manager = true;
    rig_run_quiet(rig, 100, NULL); /* it never ran */
    rig->facts.imex = true;
    rig_run_quiet(rig, 10, NULL);
    rig->facts.imex = false;
    rig_until(rig, "imex", RIG_NODE, 2, NULL);
    for (int gpu = 0; gpu < 4; gpu++)
        rig->gpus[gpu].process_count = 0; /* the job is over */
    rig_tick(rig, 1);
    rig_run_quiet(rig, 100, NULL);
}

/* A few errors are another rule's. */
static void a_hundred_errors_of_a_link(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_run_quiet(rig, 60, NULL);
    rig->link_rate[3][7][NODE_LINK_CRC_FLIT] = 98;
    rig_run_quiet(rig, 300, "nvlink-crc");
    assert_non_null(rig_evidence(rig, "nvlink-crc", 3));
    rig->link_rate[3][7][NODE_LINK_CRC_FLIT] = 102;
    rig_until(rig, "nvlink-crc-many", 3, 120, "nvlink-crc");
}

/* Systems without /proc/driver/nvidia have drivers too. */
static void never_in_proc(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig->facts.module_loaded = false;
    rig->facts.module_version[0] = '\0';
    rig_run_quiet(rig, 200, NULL);
}

/* The samplers go on with the driver that they have, and the module's file says another version. */
static void two_versions(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    for (int gpu = 0; gpu < 4; gpu++)
        snprintf(rig->gpus[gpu].reading.text[READING_DRIVER_VERSION], READING_TEXT_CAP, "590.48.01");
    snprintf(rig->node.driver_version, sizeof rig->node.driver_version, "590.48.01");
    rig_run_quiet(rig, 60, NULL);
    snprintf(rig->facts.module_version, sizeof rig->facts.module_version, "595.10");
    rig_run_quiet(rig, 20, NULL); /* one is read before the other */
    for (int gpu = 0; gpu < 4; gpu++)
        snprintf(rig->gpus[gpu].reading.text[READING_DRIVER_VERSION], READING_TEXT_CAP, "595.10");
    rig_run_quiet(rig, 60, NULL);
    snprintf(rig->facts.module_version, sizeof rig->facts.module_version, "600.1");
    assert_in_range(rig_until(rig, "driver-mismatch", RIG_NODE, 50, NULL), 30, 45);
    rig_says(rig_evidence(rig, "driver-mismatch", RIG_NODE), "the kernel module is 600.1, but");
}

static void refused_before_it_worked(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig->node.driver = NODE_DRIVER_DENIED;
    snprintf(rig->node.driver_why, sizeof rig->node.driver_why, "no permission to use the driver");
    for (int gpu = 0; gpu < 4; gpu++)
        rig_state(rig, gpu, GPU_NO_DRIVER, "no permission");
    rig_run_quiet(rig, 100, "monitor-data"); /* it was never allowed: nothing was lost */
    assert_non_null(rig_evidence(rig, "monitor-data", RIG_NODE));
    rig->node.driver = NODE_DRIVER_FINE;
    rig->node.driver_why[0] = '\0';
    for (int gpu = 0; gpu < 4; gpu++)
        rig_state(rig, gpu, GPU_UP, "");
    rig_run_quiet(rig, 100, NULL);
    rig->node.driver = NODE_DRIVER_DENIED;
    snprintf(rig->node.driver_why, sizeof rig->node.driver_why, "no permission to use the driver");
    rig_until(rig, "access-denied", RIG_NODE, 2, "monitor-data");
}

static void take_from_bus(Rig *rig, int gpu)
{
    rig_state(rig, gpu, GPU_GONE, "");
    rig->facts.gpus[gpu].present = false;
    rig->node.gpus_on_bus = rig->node.gpus_found = (uint32_t)rig->count - 1;
}

static void put_back(Rig *rig, int gpu)
{
    rig_state(rig, gpu, GPU_UP, "");
    rig->facts.gpus[gpu].present = true;
    rig->node.gpus_on_bus = rig->node.gpus_found = (uint32_t)rig->count;
}

/* Who drains a GPU that has failed already has announced nothing; that it is pulled then is announced. */
static void drained_too_late(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_run_quiet(rig, 100, NULL);
    rig_state(rig, 1, GPU_LOST, "the driver says that it is lost, it fell off the bus");
    rig_until(rig, "gpu-state-lost", 1, 12, NULL);
    rig->gpus[1].drained = true;
    rig_run_quiet(rig, 100, "gpu-state-lost");
    assert_non_null(rig_evidence(rig, "gpu-state-lost", 1));
    take_from_bus(rig, 1);
    rig_run_quiet(rig, 300, "gpu-taken-out");
    assert_non_null(rig_evidence(rig, "gpu-taken-out", 1));
}

/* It holds while it is away, for as long as that takes, and is forgotten when it comes back undrained. */
static void drained_once(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_run_quiet(rig, 100, NULL);
    rig->gpus[1].drained = true;
    rig_run_quiet(rig, 60, NULL);
    take_from_bus(rig, 1);
    rig_run_quiet(rig, 7200, "gpu-taken-out");
    assert_non_null(rig_evidence(rig, "gpu-taken-out", 1));
    put_back(rig, 1);
    rig_run_quiet(rig, 60, NULL);
    rig->gpus[1].drained = false;
    rig_run_quiet(rig, 60, NULL);
    take_from_bus(rig, 1);
    rig_until(rig, "gpu-bus", 1, 1, NULL);
    rig_run_quiet(rig, 60, "gpu-bus");
}

/* The drain state ends, or the driver is taken up again, and the GPU is not there. */
static void announced_no_longer(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig_run_quiet(rig, 100, NULL);
    rig->gpus[1].drained = true;
    rig_state(rig, 1, GPU_MISSING, "on the PCI bus, but the driver does not know it");
    rig_run_quiet(rig, 60, "gpu-taken-out");
    rig->gpus[1].drained = false;
    rig_until(rig, "gpu-bus", 1, 1, NULL);
    put_back(rig, 1);
    rig_run_quiet(rig, 60, NULL);
    rig->node.release_until_ns = rig->node.time_ns + NS_PER_MIN;
    take_from_bus(rig, 1);
    rig_run_quiet(rig, 58, "gpu-taken-out");
    rig_until(rig, "gpu-bus", 1, 5, "gpu-taken-out");
    rig_run_quiet(rig, 60, "gpu-bus");
}

static void recovery_says_what(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);

    rig_set(rig, 0, METRIC_GPU_RECOVERY_ACTION, 2);
    rig_set(rig, 1, METRIC_GPU_RECOVERY_ACTION, 77);
    rig_run(rig, 2);
    assert_int_equal(rig_evidence(rig, "recovery-action", 0)->action, ACTION_REBOOT_NODE);
    assert_int_equal(rig_evidence(rig, "recovery-action", 1)->action, ACTION_RESET_GPU);
}

/* Flags are read every ten seconds at most; the reset that they waited for is seen before. */
static void a_reset_ends_what_was_before(void **state)
{
    static const MetricId flags[] = {METRIC_ROW_REMAP_PENDING, METRIC_GPU_RECOVERY_ACTION};
    Rig *rig = *state = rig_new(2, NULL);

    rig_set_all(rig, METRIC_TOTAL_ENERGY_CONSUMPTION, 1e9);
    for (int gpu = 0; gpu < 2; gpu++)
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
            rig_set(rig, gpu, flags[i], 1);
    rig_run(rig, 20);
    assert_non_null(rig_evidence(rig, "remap-pending", 0));
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        rig->frozen[0][flags[i]] = true;
    rig_tick(rig, 1);
    rig_set(rig, 0, METRIC_TOTAL_ENERGY_CONSUMPTION, 5000);
    rig_tick(rig, 1);
    assert_null(rig_evidence(rig, "remap-pending", 0));
    assert_null(rig_evidence(rig, "recovery-action", 0));
    assert_non_null(rig_evidence(rig, "remap-pending", 1));
    rig_run(rig, 20);
    assert_null(rig_evidence(rig, "remap-pending", 0));
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        rig->frozen[0][flags[i]] = false;
    rig_run(rig, 2); /* and here the reset has not helped */
    assert_non_null(rig_evidence(rig, "remap-pending", 0));
    assert_non_null(rig_evidence(rig, "recovery-action", 0));
}

/* ---- links ---- */

/* 12 of 18 links on all GPUs, as some clouds have it; one GPU without a bridge; no NVLink at all. */
static void links_that_never_were(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        Rig *rig = rig_new(8, NULL);

        rig->facts.has_switches = kind != 1;
        for (int gpu = 0; gpu < 8; gpu++)
            for (int link = 0; link < RIG_LINKS; link++) {
                Sample *active = &rig->links[gpu][link].active;

                if (kind == 2)
                    sample_set_absent(active, rig->node.time_ns, ABSENCE_NOT_SUPPORTED);
                else
                    sample_set_int64(active, rig->node.time_ns, kind == 0 ? link < 12 : gpu != 7);
            }
        rig_run_quiet(rig, 300, NULL);
        rig_free(rig);
    }
}

static void link_down_from_the_start(void **state)
{
    Rig *rig = *state = rig_new(8, NULL);

    sample_set_int64(&rig->links[1][4].active, rig->node.time_ns, 0);
    assert_in_range(rig_until(rig, "nvlink-state", 1, 90, NULL), 60, 70);
}

/* Without switches the links to a GPU that is away are down with it. */
static void peer_is_away(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    rig->facts.has_switches = false;
    rig_run_quiet(rig, 100, NULL);
    rig_state(rig, 0, GPU_LOST, "the driver says that it is lost");
    for (int gpu = 1; gpu < 4; gpu++)
        sample_set_int64(&rig->links[gpu][0].active, rig->node.time_ns, 0);
    rig_run_quiet(rig, 100, "gpu-state-lost");
}

/* ---- processes ---- */

static void mig_goes_away(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);
    NodeGpu *gpu = &rig->gpus[0];

    gpu->reading.mig = true;
    gpu->instance_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        Reading *instance = &rig->instances[0][i];

        reading_init(instance, DEVICE_COMPUTE_INSTANCE);
        instance->device.has_pci = true;
        instance->device.pci = rig_pci(0);
        instance->device.gpu_instance = i + 1;
        instance->device.compute_instance = 0;
        snprintf(instance->device.uuid, DEVICE_UUID_CAP, "MIG-%u", i);
        snprintf(instance->profile, sizeof instance->profile, "3g.40gb");
    }
    rig->processes[0][0].gpu_instance = 2;
    rig->processes[0][0].compute_instance = 0;
    rig_run_quiet(rig, 60, NULL);
    rig->instances[0][0] = rig->instances[0][1]; /* the first, which was empty */
    gpu->instance_count = 1;
    rig_run_quiet(rig, 60, NULL);
    gpu->instance_count = 0;
    rig_tick(rig, 1);
    rig_says(rig_evidence(rig, "mig-changed", 0), "MIG device 3g.40gb (GI 2, CI 0) went away with 1 process on it");
    assert_int_equal(rig_evidence(rig, "mig-changed", 0)->device.kind, DEVICE_COMPUTE_INSTANCE);
    assert_int_equal(rig_evidence(rig, "mig-changed", 0)->pid, 4000);
    rig_run_quiet(rig, 60, NULL);
    gpu->instance_count = 1;
    rig_run_quiet(rig, 60, NULL);
    rig_state(rig, 0, GPU_RELEASED, ""); /* what goes while the driver is let go, goes on purpose */
    rig_run_quiet(rig, 10, NULL);
    gpu->instance_count = 0;
    rig_state(rig, 0, GPU_UP, "");
    rig_run_quiet(rig, 60, NULL);
}

static void noisy(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);

    rig_process(rig, 0, 4000, 60000 * MIB, 55, 30);
    rig_run_quiet(rig, 600, NULL);
    rig_process(rig, 0, 5000, 10 * MIB, 70, 80);
    rig_process(rig, 0, 4000, 60000 * MIB, 28, 10);
    assert_in_range(rig_until(rig, "noisy-neighbour", 0, 400, NULL), 90, 240);
    rig_says(rig_evidence(rig, "noisy-neighbour", 0), "pid 5000 has 70 %");
    rig_says(rig_evidence(rig, "noisy-neighbour", 0), "pid 4000 fell from 55 % to");
    rig_no_process(rig, 0, 5000);
    rig_run(rig, 20);
    assert_int_equal(rig_count(rig, "noisy-neighbour"), 0);
}

/* Two that share and are both content; one that does less by itself; two that were always there. */
static void good_neighbours(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        Rig *rig = rig_new(2, NULL);

        rig_process(rig, 0, 4000, 60000 * MIB, 55, 30);
        if (kind == 2)
            rig_process(rig, 0, 5000, 10 * MIB, 70, 80);
        rig_run_quiet(rig, 600, NULL);
        rig_process(rig, 0, 5000, 10 * MIB, kind == 1 ? 20 : kind == 0 ? 45 : 70, kind == 1 ? 10 : kind == 0 ? 45 : 80);
        rig_process(rig, 0, 4000, 60000 * MIB, kind == 0 ? 50 : kind == 3 ? 0 : 20, 10);
        rig_run_quiet(rig, 600, NULL);
        rig_free(rig);
    }
}

static void leak_ends(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);

    rig_run_quiet(rig, 60, NULL);
    rig->growth[0][0] = 5 * MIB;
    rig_until(rig, "memory-leak", 0, 900, NULL);
    assert_int_equal(rig_evidence(rig, "memory-leak", 0)->pid, 4000);
    rig->growth[0][0] = 0;
    rig_run_quiet(rig, 600, "memory-leak");
    rig_run_quiet(rig, 300, NULL);
    rig->growth[0][0] = 5 * MIB;
    rig_until(rig, "memory-leak", 0, 900, NULL);
    rig_no_process(rig, 0, 4000);
    rig_run_quiet(rig, 11, "memory-leak");
    rig_run_quiet(rig, 30, NULL);
}

/* The instance is named, by both its numbers where the driver gives both. */
static void a_leak_in_an_instance(void **state)
{
    for (uint32_t instance = 1; instance <= 2; instance++) {
        Rig *rig = *state = rig_new(2, NULL);
        NodeProcess *process = &rig->processes[0][0];

        process->gpu_instance = 7;
        process->compute_instance = instance == 1 ? 0 : DEVICE_NO_NUMBER;
        rig_run_quiet(rig, 60, NULL);
        rig->growth[0][0] = 5 * MIB;
        rig_until(rig, "memory-leak", 0, 900, NULL);
        const Device *device = &rig_evidence(rig, "memory-leak", 0)->device;
        assert_int_equal(device->kind, instance == 1 ? DEVICE_COMPUTE_INSTANCE : DEVICE_GPU_INSTANCE);
        assert_int_equal(device->gpu_instance, 7);
        if (instance == 1)
            rig_close(state);
    }
}

/* Memory that grows and shrinks by requests, and a step that stays. */
static void no_leak(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);

    for (int i = 0; i < 60; i++) {
        rig->growth[0][0] = i % 2 ? 20 * MIB : -19 * MIB;
        rig->growth[1][0] = i % 15 == 0 ? 30 * MIB : 0;
        rig_run_quiet(rig, 60, NULL);
    }
}

/* A list that is empty on every GPU hides the processes: no memory is orphaned by that. */
static void lists_that_hide(void **state)
{
    Rig *rig = *state = rig_new(4, NULL);

    for (int gpu = 0; gpu < 4; gpu++) {
        rig_no_process(rig, gpu, 4000 + (uint32_t)gpu);
        rig_set(rig, gpu, METRIC_GPU_UTIL, 0);
    }
    rig_run_quiet(rig, 600, NULL);
}

/* ---- the site's own rules, and a reload of them ---- */

static const char hot_memory[] = "rules:\n"
                                 "  hot-memory:\n"
                                 "    on: {detector: metric}\n"
                                 "    with: {metric: DCGM_FI_DEV_MEMORY_TEMP, above: 90, back: 85}\n"
                                 "    class: thermal-margin\n"
                                 "    name: memory is hot\n"
                                 "  grows:\n"
                                 "    on: {detector: metric}\n"
                                 "    with: {metric: DCGM_FI_DEV_PCIE_REPLAY_COUNTER, increase: 5, window: 5m}\n"
                                 "    class: pcie-errors\n"
                                 "    name: any replays\n"
                                 "  throttle-thermal: {with: {share: 0.5}}\n"
                                 "  fan: {enabled: no}\n";

/* The share of the rule holds, a little less does not; once it holds, it ends below 0.6 of the share. */
static void a_share_is_reached_and_left(void **state)
{
    static const struct {
        double share, later;
        bool holds, stays;
    } rows[] = {{0.2498, 0.2498, false, false},
                {0.25, 0.25, true, true},
                {0.25, 0.151, true, true},
                {0.25, 0.149, true, false}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Rig *rig = rig_new(2, NULL);

        rig_run_quiet(rig, 100, NULL);
        heat(rig, 0, rows[i].share);
        rig_run(rig, 200);
        assert_int_equal(rig_evidence(rig, "throttle-thermal", 0) != NULL, rows[i].holds);
        heat(rig, 0, rows[i].later);
        rig_run(rig, 200);
        assert_int_equal(rig_evidence(rig, "throttle-thermal", 0) != NULL, rows[i].stays);
        rig_free(rig);
    }
}

static void site_rules(void **state)
{
    Rig *rig = *state = rig_new(2, hot_memory);
    uint64_t wanted[(METRIC_END + 63) / 64] = {0};

    detectors_wanted(rig->detectors, wanted);
    assert_true(wanted[METRIC_MEMORY_TEMP / 64] >> METRIC_MEMORY_TEMP % 64 & 1);
    rig_set(rig, 1, METRIC_MEMORY_TEMP, 80);
    rig_set(rig, 1, METRIC_FAN_SLOWEST, 0);
    rig_run_quiet(rig, 100, NULL);
    rig_set(rig, 1, METRIC_MEMORY_TEMP, 91);
    rig_until(rig, "hot-memory", 1, 1, NULL);
    rig_says(rig_evidence(rig, "hot-memory", 1), "DCGM_FI_DEV_MEMORY_TEMP is 91, above 90");
    rig_set(rig, 1, METRIC_MEMORY_TEMP, 88);
    rig_run_quiet(rig, 10, "hot-memory");
    assert_non_null(rig_evidence(rig, "hot-memory", 1));
    rig_set(rig, 1, METRIC_MEMORY_TEMP, 84);
    rig_run_quiet(rig, 10, NULL);
    rig_set(rig, 1, METRIC_PCIE_REPLAY_COUNTER, rig_get(rig, 1, METRIC_PCIE_REPLAY_COUNTER) + 6);
    rig_until(rig, "grows", 1, 11, NULL);
    heat(rig, 0, 0.4);
    rig_run_quiet(rig, 200, "grows");
}

static void reload_keeps(void **state)
{
    Rig *rig = *state = rig_new(2, NULL);
    Rig *other = rig_new(2, hot_memory);
    Catalogue *before = rig->catalogue;

    rig_run_quiet(rig, 100, NULL);
    heat(rig, 0, 0.9);
    sample_set_int64(&rig->links[1][4].active, rig->node.time_ns, 0);
    rig_run(rig, 60);
    rig->detectors = detectors_new(other->catalogue, rig->detectors);
    rig->catalogue = other->catalogue;
    rig_tick(rig, 1);
    assert_non_null(rig_evidence(rig, "throttle-thermal", 0)); /* of 0.5, by what was seen before */
    assert_non_null(rig_evidence(rig, "nvlink-state", 1));     /* that was up in the time of the other one */
    detectors_free(other->detectors);
    other->detectors = NULL;
    rig->detectors = detectors_new(before, rig->detectors);
    rig->catalogue = before;
    rig_tick(rig, 1);
    assert_non_null(rig_evidence(rig, "nvlink-state", 1));
    rig_free(other);
}

/* Every row has what the catalogue needs of it, and every built-in rule of a detector its row. */
static void table(void **state)
{
    const DetectorSpec *specs = detector_specs;
    const size_t count = detector_spec_count;

    (void)state;
    assert_in_range(count, 38, 60);
    for (size_t i = 0; i < count; i++) {
        assert_true(specs[i].name[0] && specs[i].help[0] && specs[i].param_count <= CATALOGUE_PARAMS);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(specs[i].name, specs[k].name);
        for (size_t k = 0; k < specs[i].param_count; k++) {
            const DetectorParam *param = &specs[i].params[k];

            assert_true(param->name[0] && param->help[0]);
            if (param->max > param->min)
                assert_true(param->value >= param->min && param->value <= param->max);
        }
    }
    detectors_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_keeps),
        cmocka_unit_test_teardown(silence_ends, rig_close),
        cmocka_unit_test_teardown(value_missing, rig_close),
        cmocka_unit_test_teardown(stale_value, rig_close),
        cmocka_unit_test_teardown(reset_is_no_rate, rig_close),
        cmocka_unit_test_teardown(uncorrectable_counts, rig_close),
        cmocka_unit_test_teardown(replaced, rig_close),
        cmocka_unit_test_teardown(one_more_or_less, rig_close),
        cmocka_unit_test(few_gpus),
        cmocka_unit_test_teardown(driver_reload, rig_close),
        cmocka_unit_test_teardown(a_fabric_manager_that_is_missed, rig_close),
        cmocka_unit_test_teardown(an_imex_that_is_missed, rig_close),
        cmocka_unit_test_teardown(a_hundred_errors_of_a_link, rig_close),
        cmocka_unit_test_teardown(never_in_proc, rig_close),
        cmocka_unit_test_teardown(two_versions, rig_close),
        cmocka_unit_test_teardown(refused_before_it_worked, rig_close),
        cmocka_unit_test_teardown(drained_too_late, rig_close),
        cmocka_unit_test_teardown(drained_once, rig_close),
        cmocka_unit_test_teardown(announced_no_longer, rig_close),
        cmocka_unit_test_teardown(recovery_says_what, rig_close),
        cmocka_unit_test_teardown(a_reset_ends_what_was_before, rig_close),
        cmocka_unit_test(links_that_never_were),
        cmocka_unit_test_teardown(link_down_from_the_start, rig_close),
        cmocka_unit_test_teardown(peer_is_away, rig_close),
        cmocka_unit_test_teardown(mig_goes_away, rig_close),
        cmocka_unit_test_teardown(noisy, rig_close),
        cmocka_unit_test(good_neighbours),
        cmocka_unit_test_teardown(leak_ends, rig_close),
        cmocka_unit_test_teardown(a_leak_in_an_instance, rig_close),
        cmocka_unit_test_teardown(no_leak, rig_close),
        cmocka_unit_test_teardown(lists_that_hide, rig_close),
        cmocka_unit_test(a_share_is_reached_and_left),
        cmocka_unit_test_teardown(site_rules, rig_close),
        cmocka_unit_test_teardown(reload_keeps, rig_close),
        cmocka_unit_test(table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
