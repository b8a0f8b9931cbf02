/* SPDX-License-Identifier: Apache-2.0 */
/* What must be seen, where, and after how long; and what comes near to it and must not be. */
#include <math.h>
#include <stdio.h>

#include "rig.h"
#include "test/unit/golden.h"

#define MIB 1048576.0

/* ---- a change of one thing, and what is seen of it ---- */

typedef void (*Change)(Rig *rig);

typedef struct Case {
    const char *name;
    Change change;
    const char *rule; /* NULL: nothing must be seen */
    int gpu;
    unsigned seconds; /* after the change: when it is seen, or how long nothing is */
    const char *says;
    const char *allowed;
} Case;

static void lose(Rig *rig)
{
    rig_state(rig, 3, GPU_LOST, "the driver says that it is lost, it fell off the bus");
}
static void need_reset(Rig *rig)
{
    rig_state(rig, 3, GPU_LOST, "the driver says that it needs a reset");
    rig->gpus[3].trouble = GPU_TROUBLE_RESET;
}
static void refuse(Rig *rig)
{
    rig_state(rig, 3, GPU_FAILED, "the driver refuses it with NVML error 999");
}
static void sampler_ended(Rig *rig)
{
    rig_state(rig, 3, GPU_FAILED, "the sampler ended 3 times in a row; next try in 4 s");
    rig->gpus[3].trouble = GPU_TROUBLE_NO_SAMPLER;
}
static void miss(Rig *rig)
{
    rig_state(rig, 3, GPU_MISSING, "");
    rig->node.gpus_found = 7;
}
static void give_to_vm(Rig *rig)
{
    miss(rig);
    snprintf(rig->facts.gpus[3].driver, sizeof rig->facts.gpus[3].driver, "vfio-pci");
}
static void unplug(Rig *rig)
{
    rig_state(rig, 3, GPU_GONE, gpu_states[GPU_GONE].text);
    rig->facts.gpus[3] = (FactsGpu){.pci = rig_pci(3)};
    rig->node.gpus_on_bus = rig->node.gpus_found = 7;
}
static void lose_off_bus(Rig *rig)
{
    rig_state(rig, 3, GPU_LOST, "the driver says that it is lost, it fell off the bus");
    rig->facts.gpus[3] = (FactsGpu){.pci = rig_pci(3)};
}
static void lose_before_a_scan(Rig *rig)
{
    rig->facts_stale = true;
    rig_tick(rig, 1);
    lose(rig);
}
static void lose_while_scans_hang(Rig *rig)
{
    lose_before_a_scan(rig);
    rig->facts.scan_hangs = true;
}
static void hang_briefly(Rig *rig)
{
    for (int i = 0; i < 60; i++) { /* it hangs for two seconds, and is slow in between */
        const bool late = i % 8 < 2;

        for (int gpu = 0; gpu < 8; gpu++) {
            if (late && i % 8 == 0)
                rig_state(rig, gpu, GPU_HUNG, "nvmlDeviceGetPowerUsage has not returned for 1 s");
            else if (i % 8 == 2)
                rig_state(rig, gpu, GPU_UP, "");
            rig->gpus[gpu].pass_ns = 1600 * NS_PER_MS;
        }
        rig_run_quiet(rig, 1, "driver-hang driver-slow");
    }
    for (int gpu = 0; gpu < 8; gpu++)
        rig->gpus[gpu].pass_ns = 1600 * NS_PER_MS;
}
static void expect_more(Rig *rig)
{
    rig->node.gpus_expected = 10;
}
static void ones(Rig *rig)
{
    rig->facts.gpus[3].config_lost = true;
}
static void sleep_with_ones(Rig *rig)
{
    rig->facts.gpus[3].config_lost = rig->facts.gpus[3].asleep = true;
}
static void hang(Rig *rig)
{
    rig_state(rig, 2, GPU_HUNG, "nvmlDeviceGetPowerUsage has not returned for 3 s");
}
static void hang_most(Rig *rig)
{
    for (int gpu = 0; gpu < 6; gpu++)
        rig_state(rig, gpu, GPU_HUNG, "nvmlDeviceGetPowerUsage has not returned for 3 s");
}
static void driver_why(Rig *rig, NodeDriver driver, const char *why, bool loaded)
{
    rig->node.driver = driver;
    snprintf(rig->node.driver_why, sizeof rig->node.driver_why, "%s", why);
    rig->facts.module_loaded = loaded;
    for (int gpu = 0; gpu < rig->count; gpu++)
        rig_state(rig, gpu, GPU_NO_DRIVER, why);
}
static void driver_hangs(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_HANGS, "nvmlInitWithFlags has not returned for 10 s", true);
}
static void unload(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_UNLOADED, "the NVIDIA kernel driver is not loaded: 'modprobe nvidia'", false);
}
static void unload_released(Rig *rig)
{
    unload(rig);
    rig->node.release_until_ns = rig->node.time_ns + NS_PER_H;
}
static void unknown_error(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_REFUSES, "the driver does not start: Unknown Error (error 999)", true);
}
static void mismatch(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_MISMATCH, "driver and library are of different versions", true);
}
static void deny(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_REFUSES, "the driver does not start: Unknown Error (error 999)", true);
    rig->facts.device_denied = true;
}
static void deny_new_ones(Rig *rig)
{
    rig->facts.device_denied = true;
}
static void no_library(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_NO_LIBRARY, "the driver's library cannot be loaded: libnvidia-ml.so.1", true);
}
/* Words for a person decide nothing. */
static void strange_words(Rig *rig)
{
    driver_why(rig, NODE_DRIVER_NOT_READY, "has not returned, not loaded, no permission (error 999), sampler", true);
    rig_state(rig, 3, GPU_FAILED, "it refuses, and needs a reset");
    rig->gpus[3].trouble = GPU_TROUBLE_NO_SAMPLER;
}
static void refuse_clients(Rig *rig, NodeDriver driver, uint32_t count)
{
    rig->node.probe = (NodeProbe){.driver = driver, .code = 999, .count = count};
    snprintf(rig->node.probe.why, sizeof rig->node.probe.why, "new clients are refused: Unknown Error (error 999)");
}
static void refuse_one_client(Rig *rig)
{
    refuse_clients(rig, NODE_DRIVER_REFUSES, 1);
}
static void refuse_new_clients(Rig *rig)
{
    refuse_clients(rig, NODE_DRIVER_REFUSES, 2);
}
static void refuse_released(Rig *rig)
{
    refuse_new_clients(rig);
    rig->node.release_until_ns = rig->node.time_ns + NS_PER_H;
}
static void hang_new_clients(Rig *rig)
{
    refuse_clients(rig, NODE_DRIVER_HANGS, 2);
}
static void mismatch_new_clients(Rig *rig)
{
    refuse_clients(rig, NODE_DRIVER_MISMATCH, 2);
}
static void unplug_drained(Rig *rig)
{
    rig->gpus[3].drained = true;
    unplug(rig);
}
static void unplug_released(Rig *rig)
{
    rig->node.release_until_ns = rig->node.time_ns + NS_PER_H;
    unplug(rig);
}
static void drain_another(Rig *rig)
{
    rig->gpus[2].drained = true;
    unplug(rig);
}
static void miss_drained(Rig *rig)
{
    rig->gpus[3].drained = true;
    miss(rig);
}
static void lose_drained(Rig *rig)
{
    rig->gpus[3].drained = true;
    lose(rig);
}
static void refuse_drained(Rig *rig)
{
    rig->gpus[3].drained = true;
    refuse(rig);
}
static void drain_only(Rig *rig)
{
    rig->gpus[3].drained = true;
}
static void slow_all(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig->gpus[gpu].pass_ns = 1600 * NS_PER_MS;
}
static void slow_one(Rig *rig)
{
    rig->gpus[5].pass_ns = 1600 * NS_PER_MS;
}
static void half_slow(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig->gpus[gpu].pass_ns = 500 * NS_PER_MS;
}
static void stick(Rig *rig)
{
    rig->facts.stuck_len = rig->facts.stuck_count = 2;
    rig->facts.stuck[0] =
        (FactsTask){.pid = 77, .name = "stoker", .since_ns = rig->node.time_ns - NS_PER_H, .ours = true};
    rig->facts.stuck[1] = (FactsTask){.pid = 4711, .name = "python", .wchan = "nv_open", .since_ns = rig->node.time_ns};
}
static void stick_ours(Rig *rig)
{
    stick(rig);
    rig->facts.stuck_len = rig->facts.stuck_count = 1;
}
static void no_persistence(Rig *rig)
{
    rig->facts.persistenced = false;
    rig_set(rig, 1, METRIC_PERSISTENCE_MODE, 0);
}
static void persistenced(Rig *rig)
{
    rig_set(rig, 1, METRIC_PERSISTENCE_MODE, 0);
}
static void recover(Rig *rig)
{
    rig_set(rig, 6, METRIC_GPU_RECOVERY_ACTION, 2);
}

/* memory */
static void double_bit(Rig *rig)
{
    rig_set(rig, 2, METRIC_ECC_DBE_VOL_TOTAL, 1);
}
static void storm(Rig *rig)
{
    rig->rate[2][METRIC_ECC_SBE_VOL_TOTAL] = 180;
}
static void storm_everywhere(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig->rate[gpu][METRIC_ECC_SBE_VOL_TOTAL] = 20;
}
static void flood_everywhere(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig->rate[gpu][METRIC_ECC_SBE_VOL_TOTAL] = 18000;
}
static void single_bit(Rig *rig)
{
    rig_set(rig, 2, METRIC_ECC_SBE_VOL_TOTAL, 4);
}
static void one_burst(Rig *rig)
{
    rig_set(rig, 2, METRIC_ECC_SBE_VOL_TOTAL, 3000);
}
static void few_a_minute(Rig *rig)
{
    rig->rate[2][METRIC_ECC_SBE_VOL_TOTAL] = 0.5;
}
static void remap_waits(Rig *rig)
{
    rig_set(rig, 4, METRIC_ROW_REMAP_PENDING, 1);
    rig_set(rig, 4, METRIC_UNCORRECTABLE_REMAPPED_ROWS, 7);
}
static void remap_fails(Rig *rig)
{
    rig_set(rig, 4, METRIC_ROW_REMAP_FAILURE, 1);
}
static void beyond_repair(Rig *rig)
{
    rig_set(rig, 4, METRIC_UNREPAIRABLE_MEMORY, 1);
}
static void remap_done(Rig *rig)
{
    rig_set(rig, 4, METRIC_CORRECTABLE_REMAPPED_ROWS, 2);
}
static void bank_low(Rig *rig)
{
    rig_set(rig, 4, METRIC_BANKS_REMAP_ROWS_AVAIL_LOW, 1);
}
static void many_rows(Rig *rig)
{
    rig_set(rig, 4, METRIC_UNCORRECTABLE_REMAPPED_ROWS, 512);
}
static void pages_wait(Rig *rig)
{
    rig_set(rig, 1, METRIC_RETIRED_DBE, 14);
    rig_set(rig, 1, METRIC_RETIRED_PENDING, 1);
}
static void pages_fifteen(Rig *rig)
{
    rig_set(rig, 1, METRIC_RETIRED_DBE, 15);
}
static void pages_seventeen(Rig *rig)
{
    rig_set(rig, 1, METRIC_RETIRED_DBE, 17);
}
static void pages_sixty(Rig *rig)
{
    rig_set(rig, 1, METRIC_RETIRED_DBE, 10);
    rig_set(rig, 1, METRIC_RETIRED_SBE, 50);
}
static void sram_flag(Rig *rig)
{
    rig_set(rig, 1, METRIC_SRAM_THRESHOLD, 1);
    rig_set(rig, 1, METRIC_ECC_SRAM_UNC_AGGREGATE, 5);
}
static void inforom_bad(Rig *rig)
{
    rig_set(rig, 1, METRIC_INFOROM_VALID, 0);
}

/* heat, power, clocks */
static void heat(Rig *rig)
{
    rig_set(rig, 5, METRIC_GPU_TEMP, 91);
    rig->rate[5][METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS] = 0.7e9;
    rig->rate[5][METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS] = 0.2e9;
}
static void heat_by_bits(Rig *rig)
{
    static const MetricId counters[] = {METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS,
                                        METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS};

    for (size_t i = 0; i < ARRAY_LEN(counters); i++)
        rig_absent(rig, 5, counters[i], ABSENCE_DRIVER_LACKS);
    rig_set(rig, 5, METRIC_CLOCKS_EVENT_REASONS, 0x44);
}
/* What the GPU did within a second counts, not what it does at its end. */
static void read_fast(Rig *rig, MetricId id, double usual, double other, size_t others)
{
    static FastReading fast[11];
    const int at = metric_fast_index(id);

    memset(fast, 0, sizeof fast);
    for (size_t i = 0; i < ARRAY_LEN(fast); i++) {
        fast[i].valid = i == 0 ? 0 : 1u << at; /* the first was not read */
        fast[i].value[at] = i == 0 || i > others ? usual : other;
    }
    rig->gpus[5].fast = fast;
    rig->gpus[5].fast_count = ARRAY_LEN(fast);
}
static void heat_between(Rig *rig)
{
    heat_by_bits(rig);
    rig_set(rig, 5, METRIC_CLOCKS_EVENT_REASONS, 0x4);
    read_fast(rig, METRIC_CLOCKS_EVENT_REASONS, 0x4, 0x44, 8);
}
static void heat_at_an_end(Rig *rig)
{
    heat_by_bits(rig);
    read_fast(rig, METRIC_CLOCKS_EVENT_REASONS, 0x4, 0x44, 1);
}
static void warm(Rig *rig)
{
    rig->rate[5][METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS] = 0.05e9;
}
static void heat_all(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS] = 0.6e9;
}
static void brake(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++) {
        rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS] = 1e9;
        rig_set(rig, gpu, METRIC_CLOCKS_EVENT_REASONS, 0x88);
    }
}
static void brake_briefly(Rig *rig)
{
    brake(rig);
    rig_run_quiet(rig, 2, NULL);
    for (int gpu = 0; gpu < 8; gpu++) {
        rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS] = 0;
        rig_set(rig, gpu, METRIC_CLOCKS_EVENT_REASONS, 0x4);
    }
}
static void cap_all(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS] = 1e9;
}
static void lower_limit(Rig *rig)
{
    rig_set(rig, 4, METRIC_ENFORCED_POWER_LIMIT, 400);
}
static void lower_limit_idle(Rig *rig)
{
    lower_limit(rig);
    rig->rate[4][METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS] = 0;
    rig_set(rig, 4, METRIC_CLOCKS_EVENT_REASONS, 1);
}
static void lower_limits(Rig *rig, int gpus, int idle)
{
    for (int gpu = 0; gpu < gpus; gpu++) {
        rig_set(rig, gpu, METRIC_ENFORCED_POWER_LIMIT, 400);
        if (gpu < idle) {
            rig->rate[gpu][METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS] = 0;
            rig_set(rig, gpu, METRIC_CLOCKS_EVENT_REASONS, 1);
        }
    }
}
static void lower_all_limits(Rig *rig)
{
    lower_limits(rig, 8, 0);
}
static void lower_all_limits_half_idle(Rig *rig)
{
    lower_limits(rig, 8, 4);
}
static void lower_most_limits(Rig *rig)
{
    lower_limits(rig, 5, 0);
}
static void lower_limit_a_bit(Rig *rig)
{
    rig_set(rig, 4, METRIC_ENFORCED_POWER_LIMIT, 650);
}
static void little_margin(Rig *rig)
{
    rig_set(rig, 4, METRIC_GPU_TEMP_LIMIT, 1);
}
static void little_margin_old(Rig *rig)
{
    rig_absent(rig, 4, METRIC_GPU_TEMP_LIMIT, ABSENCE_DRIVER_LACKS);
    rig_set(rig, 4, METRIC_GPU_TEMP, 88);
}
static void warm_summer(Rig *rig)
{
    rig_set_all(rig, METRIC_GPU_TEMP, 70);
    rig_set_all(rig, METRIC_GPU_TEMP_LIMIT, 17);
}
static void lock_clock(Rig *rig)
{
    rig_set(rig, 5, METRIC_SM_CLOCK, 1200);
    rig_set(rig, 5, METRIC_CLOCKS_EVENT_REASONS, 0x2);
}
static void low_between(Rig *rig)
{
    lock_clock(rig);
    rig_set(rig, 5, METRIC_SM_CLOCK, 1755);
    read_fast(rig, METRIC_SM_CLOCK, 1755, 1200, 9);
}
static void low_at_an_end(Rig *rig)
{
    lock_clock(rig);
    read_fast(rig, METRIC_SM_CLOCK, 1755, 1200, 1);
}
static void low_by_power(Rig *rig)
{
    rig_set(rig, 5, METRIC_SM_CLOCK, 1200);
}
static void low_and_idle(Rig *rig)
{
    lock_clock(rig);
    rig_set(rig, 5, METRIC_GPU_UTIL, 10);
}
static void low_other_board(Rig *rig)
{
    lock_clock(rig);
    snprintf(rig->gpus[5].reading.device.name, DEVICE_NAME_CAP, "NVIDIA L40S");
}
static void all_low(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++) {
        rig_set(rig, gpu, METRIC_SM_CLOCK, 1200);
        rig_set(rig, gpu, METRIC_CLOCKS_EVENT_REASONS, 0);
    }
}
static void fan_stands(Rig *rig)
{
    rig_set(rig, 1, METRIC_FAN_SLOWEST, 0);
}
static void fan_stops_cool(Rig *rig)
{
    rig_set(rig, 1, METRIC_FAN_SLOWEST, 0);
    rig_set(rig, 1, METRIC_FAN_SPEED, 0);
    rig_set(rig, 1, METRIC_FAN_TARGET, 0);
    rig_set(rig, 1, METRIC_GPU_TEMP, 41);
}
static void no_fan(Rig *rig)
{
    rig_set(rig, 1, METRIC_FANS, 0);
    rig_set(rig, 1, METRIC_FAN_SLOWEST, 0);
    rig_set(rig, 1, METRIC_GPU_TEMP, 80);
}

/* links and bus */
static void narrow_link(Rig *rig)
{
    rig_set(rig, 2, METRIC_PCIE_LINK_WIDTH, 8);
    rig->facts.gpus[2].current.width = 8;
}
static void narrow_by_bus(Rig *rig)
{
    rig_absent(rig, 2, METRIC_PCIE_LINK_WIDTH, ABSENCE_NOT_SUPPORTED);
    rig->facts.gpus[2].current.width = 4;
}
static void narrow_slot(Rig *rig)
{
    narrow_link(rig);
    rig->facts.gpus[2].slot.width = 8;
}
static void slow_link(Rig *rig)
{
    rig_set(rig, 2, METRIC_PCIE_LINK_GEN, 1);
    rig->facts.gpus[2].current.speed_mts = 2500;
}
static void slow_link_idle(Rig *rig)
{
    slow_link(rig);
    rig_set(rig, 2, METRIC_GPU_UTIL, 0);
    rig->rate[2][METRIC_PCIE_TX_BYTES_COUNT] = rig->rate[2][METRIC_PCIE_RX_BYTES_COUNT] = 1e5;
}
static void slow_link_traffic(Rig *rig)
{
    slow_link(rig);
    rig_set(rig, 2, METRIC_GPU_UTIL, 2);
    rig->rate[2][METRIC_PCIE_TX_BYTES_COUNT] = 3e9;
}
static void slow_slot(Rig *rig)
{
    slow_link(rig);
    rig->facts.gpus[2].slot.speed_mts = 2500;
}
static void replays(Rig *rig)
{
    rig->rate[0][METRIC_PCIE_REPLAY_COUNTER] = 3;
}
static void few_replays(Rig *rig)
{
    rig->rate[0][METRIC_PCIE_REPLAY_COUNTER] = 0.3;
}
static void aer_many(Rig *rig)
{
    rig->aer_rate[0] = 1.2;
}
static void aer_few(Rig *rig)
{
    rig->aer_rate[0] = 0.2;
}
static void aer_fatal(Rig *rig)
{
    rig->facts.gpus[0].port_aer[FACTS_AER_NONFATAL] = 1;
}
static void link_down(Rig *rig)
{
    sample_set_int64(&rig->links[1][4].active, rig->node.time_ns, 0);
}
static void link_errors(Rig *rig)
{
    rig->link_rate[3][7][NODE_LINK_CRC_FLIT] = 5;
}
static void link_many_errors(Rig *rig)
{
    rig->link_rate[3][7][NODE_LINK_CRC_FLIT] = 200;
}
static void link_recovers(Rig *rig)
{
    rig->link_rate[3][7][NODE_LINK_RECOVERY] = 1;
}
static void link_some_errors(Rig *rig)
{
    rig->link_rate[3][7][NODE_LINK_CRC_FLIT] = 0.2;
}
static void fabric_waits(Rig *rig)
{
    rig_set_all(rig, METRIC_FABRIC_MANAGER_STATUS, 2);
    rig->facts.fabric_manager = false;
}
static void fabric_fails(Rig *rig)
{
    rig_set(rig, 2, METRIC_FABRIC_MANAGER_STATUS, 4);
}
static void fabric_ill(Rig *rig)
{
    rig_set_all(rig, METRIC_FABRIC_HEALTH_MASK, 0x19a);
}
static void fabric_absent(Rig *rig)
{
    for (int gpu = 0; gpu < 8; gpu++)
        rig_absent(rig, gpu, METRIC_FABRIC_MANAGER_STATUS, ABSENCE_NOT_SUPPORTED);
}

/* processes */
static void leak(Rig *rig)
{
    rig->growth[0][0] = 2 * MIB;
}
static void load_model(Rig *rig)
{
    rig_process(rig, 0, 4000, 500 * MIB, 0, 0);
    rig_set(rig, 0, METRIC_FB_USED, 500);
    rig_set(rig, 0, METRIC_FB_FREE, 80000);
    rig_set(rig, 0, METRIC_GPU_UTIL, 0);
    rig->growth[0][0] = 60 * MIB;
}
static void leak_slowly(Rig *rig)
{
    rig->growth[0][0] = 0.02 * MIB;
}
static void orphan(Rig *rig)
{
    rig_no_process(rig, 6, 4006);
    rig_set(rig, 6, METRIC_GPU_UTIL, 0);
}
static void hidden(Rig *rig)
{
    rig_no_process(rig, 6, 4006);
}
static void idle_used(Rig *rig)
{
    rig_no_process(rig, 6, 4006);
    rig_set(rig, 6, METRIC_GPU_UTIL, 0);
    rig_set(rig, 6, METRIC_FB_USED, 300);
}

/* the watchers */
static void old_samples(Rig *rig)
{
    rig_state(rig, 6, GPU_STARTING, "");
}
static void no_log(Rig *rig)
{
    rig->facts.log = FACTS_LOG_DENIED;
    snprintf(rig->facts.log_why, sizeof rig->facts.log_why, "/dev/kmsg: Operation not permitted");
}
static void log_off(Rig *rig)
{
    rig->facts.log = FACTS_LOG_OFF;
}
static void fill_disk(Rig *rig)
{
    snprintf(rig->facts.journal_why, sizeof rig->facts.journal_why, "the journal: database or disk is full");
}
static void abandon(Rig *rig)
{
    rig->samplers[0] = (NodeSampler){.state = SAMPLER_ABANDONED,
                                     .pid = 900,
                                     .function = "nvmlDeviceGetPowerUsage",
                                     .gpu = "0000:12:00.0",
                                     .wchan = "nv_wait"};
    rig->node.sampler_count = 1;
}
static void stop_looking(Rig *rig)
{
    rig->facts_stale = true;
}

/* ---- what active tests found ---- */

static const NodeTest wrong_sm = {.rung = "ready", .wrong = true, .text = "SM 97 computes wrong"},
                      slow_memory = {.rung = "memory", .text = "memory triad 2,802 GB/s, 6.0 % behind its own 5 runs"},
                      broken_memory = {.rung = "memory", .grave = true, .text = "memory 6.0 % behind"};

static void test_wrong(Rig *rig)
{
    rig->gpus[2].test_wrong = &wrong_sm;
}

static void test_slow(Rig *rig)
{
    rig->gpus[5].test_slow = &slow_memory;
}

static void test_very_slow(Rig *rig)
{
    rig->gpus[5].test_slow = &broken_memory;
}

static void test_most_slow(Rig *rig)
{
    for (int i = 0; i < 4; i++)
        rig->gpus[i].test_slow = &slow_memory;
}

static const Case cases[] = {
    {"lost", lose, "gpu-state-lost", 3, 1, "fell off the bus", NULL},
    {"needs a reset", need_reset, "gpu-state-reset", 3, 1, "needs a reset", NULL},
    {"refused", refuse, "gpu-state-refused", 3, 1, "NVML error 999", NULL},
    {"our sampler's end is not the driver's", sampler_ended, NULL, 3, 60, NULL, NULL},
    {"missing", miss, "gpu-bus", 3, 1, "not among the 7 GPUs", NULL},
    {"given to a virtual machine", give_to_vm, NULL, 3, 60, NULL, NULL},
    {"off the bus", unplug, "gpu-bus", 3, 1, "no longer on the PCI bus; 7 GPUs are, 8 expected", NULL},
    {"called lost, but off the bus", lose_off_bus, "gpu-bus", 3, 1, "no longer on the PCI bus", NULL},
    {"lost, and the bus was scanned before", lose_before_a_scan, NULL, 3, 100, NULL, NULL},
    {"lost while scans hang", lose_while_scans_hang, "gpu-state-lost", 3, 1, "fell off the bus", NULL},
    {"drained and taken out", unplug_drained, "gpu-taken-out", 3, 1, "drained it before it left the PCI bus", NULL},
    {"taken out in a release", unplug_released, "gpu-taken-out", 3, 1, "had the driver let go before", NULL},
    {"another one was drained", drain_another, "gpu-bus", 3, 1, "no longer on the PCI bus", NULL},
    {"drained and not listed", miss_drained, "gpu-taken-out", 3, 1, "left the driver's list", NULL},
    {"drained and lost", lose_drained, "gpu-taken-out", 3, 1, "drained it before it stopped answering", NULL},
    {"drained and refused", refuse_drained, "gpu-taken-out", 3, 1, "stopped answering", NULL},
    {"drained and there", drain_only, NULL, 3, 300, NULL, NULL},
    {"late again and again", hang_briefly, "driver-slow", RIG_NODE, 1, "8 of 8 GPUs", NULL},
    {"fewer than expected", expect_more, "gpu-bus", RIG_NODE, 1, "8 GPUs on the PCI bus, 10 expected", NULL},
    {"all ones", ones, "gpu-bus-ones", 3, 1, "all ones", NULL},
    {"asleep", sleep_with_ones, NULL, 3, 60, NULL, NULL},
    {"hang", hang, "driver-hang", 2, 1, "has not returned for 3 s", NULL},
    {"hang of most", hang_most, "driver-hang", RIG_NODE, 1, "6 of 8 GPUs", NULL},
    {"driver hangs", driver_hangs, "driver-hang", RIG_NODE, 1, "nvmlInitWithFlags", NULL},
    {"unloaded", unload, "driver-unloaded", RIG_NODE, 1, "8 GPUs on the PCI bus", NULL},
    {"unloaded on purpose", unload_released, NULL, RIG_NODE, 300, NULL, NULL},
    {"unknown error", unknown_error, "driver-error", RIG_NODE, 1, "Unknown Error", NULL},
    {"mismatch", mismatch, "driver-mismatch", RIG_NODE, 1, "the loaded module is 590.48.01", NULL},
    {"access denied", deny, "access-denied", RIG_NODE, 1, "EPERM", NULL},
    {"access denied to others", deny_new_ones, "access-denied", RIG_NODE, 1, "still works", NULL},
    {"no library", no_library, "monitor-data", RIG_NODE, 1, "cannot be loaded", NULL},
    {"strange words", strange_words, NULL, 0, 100, NULL, NULL},
    {"one new client is refused", refuse_one_client, NULL, 0, 300, NULL, NULL},
    {"new clients are refused", refuse_new_clients, "driver-error", RIG_NODE, 1, "new clients are refused", NULL},
    {"new clients of a driver that is let go", refuse_released, NULL, 0, 300, NULL, NULL},
    {"new clients hang", hang_new_clients, "driver-hang", RIG_NODE, 1, "new clients", NULL},
    {"new clients find another version", mismatch_new_clients, "driver-mismatch", RIG_NODE, 1, "new clients", NULL},
    {"slow", slow_all, "driver-slow", RIG_NODE, 31, "8 of 8 GPUs", "driver-slow-gpu"},
    {"one is slow", slow_one, "driver-slow-gpu", 5, 31, "1.6", NULL},
    {"half as slow", half_slow, NULL, 0, 200, NULL, NULL},
    {"stuck", stick, "stuck-task", RIG_NODE, 120, "python (pid 4711)", NULL},
    {"our own stuck task", stick_ours, NULL, 0, 300, NULL, NULL},
    {"no persistence", no_persistence, "persistence", 1, 1, "persistence mode is off", NULL},
    {"nvidia-persistenced", persistenced, NULL, 1, 60, NULL, NULL},
    {"recovery action", recover, "recovery-action", 6, 1, "a reboot of the node", NULL},

    {"double bit error", double_bit, "ecc-uncorrectable", 2, 4, "1 uncorrectable", NULL},
    {"ecc storm", storm, "ecc-rate", 2, 30, "corrected memory errors per second", NULL},
    {"as many everywhere", storm_everywhere, NULL, 2, 300, NULL, NULL},
    {"far too many everywhere", flood_everywhere, "ecc-rate", 2, 30, NULL, NULL},
    {"single bit error", single_bit, NULL, 2, 120, NULL, NULL},
    {"one burst", one_burst, NULL, 2, 120, NULL, NULL},
    {"few a minute", few_a_minute, NULL, 2, 300, NULL, NULL},
    {"remap waits", remap_waits, "remap-pending", 4, 1, "7 for uncorrectable errors", NULL},
    {"remap fails", remap_fails, "remap-failed", 4, 1, "could not be remapped", NULL},
    {"beyond repair", beyond_repair, "remap-failed", 4, 1, "beyond repair", NULL},
    {"remapped", remap_done, NULL, 4, 60, NULL, NULL},
    {"bank low", bank_low, "remap-rows", 4, 1, "1 banks have few", NULL},
    {"many rows", many_rows, "remap-rows", 4, 1, "513 memory rows", NULL},
    {"pages wait", pages_wait, "retired-pages-pending", 1, 1, "reload", NULL},
    {"fifteen pages", pages_fifteen, NULL, 1, 60, NULL, NULL},
    {"seventeen pages", pages_seventeen, "retired-pages-limit", 1, 1, "17 pages", NULL},
    {"sixty pages", pages_sixty, "retired-pages-limit", 1, 1, "50 for single", NULL},
    {"sram", sram_flag, "sram-threshold", 1, 1, "5 uncorrected", NULL},
    {"inforom", inforom_bad, "inforom", 1, 1, "checksums", NULL},

    {"heat", heat, "throttle-thermal", 5, 24, "91 C", NULL},
    {"heat, without counters", heat_by_bits, "throttle-thermal", 5, 17, "heat held", NULL},
    {"heat between the samples", heat_between, "throttle-thermal", 5, 20, "heat held", NULL},
    {"heat at the samples alone", heat_at_an_end, NULL, 5, 300, NULL, NULL},
    {"warm", warm, NULL, 5, 300, NULL, NULL},
    {"hot aisle", heat_all, "throttle-thermal-node", RIG_NODE, 27, "8 of 8 GPUs; GPU 0", NULL},
    {"brake", brake, "throttle-brake", RIG_NODE, 16, "8 of 8 GPUs", NULL},
    {"brake for two seconds", brake_briefly, NULL, 0, 120, NULL, NULL},
    {"power cap", cap_all, NULL, 0, 300, NULL, NULL},
    {"limit set low", lower_limit, "power-limit", 4, 1, "400 W where the board's own is 700 W", NULL},
    {"all limits set low", lower_all_limits, "power-limit-node", RIG_NODE, 1, "8 of 8 GPUs", NULL},
    {"all limits set low, half idle", lower_all_limits_half_idle, "power-limit-node", RIG_NODE, 1, " of 8 GPUs", NULL},
    {"five limits set low", lower_most_limits, "power-limit", 4, 1, "400 W", NULL},
    {"limit set low, idle", lower_limit_idle, NULL, 4, 0, NULL, "power-limit"},
    {"limit a bit lower", lower_limit_a_bit, NULL, 4, 200, NULL, NULL},
    {"little margin", little_margin, "thermal-margin", 4, 1, "1 °C below slowdown", NULL},
    {"little margin, old driver", little_margin_old, "thermal-margin", 4, 1, "at 88 °C", NULL},
    {"warm summer", warm_summer, NULL, 0, 300, NULL, NULL},
    {"locked clock", lock_clock, "clocks-peers", 5, 53, "below the median of 7 peers", NULL},
    {"locked clock between the samples", low_between, "clocks-peers", 5, 53, "SM clock 1354 MHz", NULL},
    {"low clock at the samples alone", low_at_an_end, NULL, 5, 300, NULL, NULL},
    {"low clock by power", low_by_power, NULL, 5, 300, NULL, NULL},
    {"low clock, idle", low_and_idle, NULL, 5, 300, NULL, NULL},
    {"low clock of another board", low_other_board, NULL, 5, 300, NULL, NULL},
    {"all low", all_low, NULL, 0, 300, NULL, NULL},
    {"fan", fan_stands, "fan", 1, 31, "should at 55 %", NULL},
    {"fan stops when cool", fan_stops_cool, NULL, 1, 200, NULL, NULL},
    {"no fan", no_fan, NULL, 1, 200, NULL, NULL},

    {"eight lanes", narrow_link, "pcie-width", 2, 1, "8 of 16 PCIe lanes, at 98 %", NULL},
    {"four lanes, by sysfs", narrow_by_bus, "pcie-width", 2, 1, "4 of 16", NULL},
    {"slot of eight lanes", narrow_slot, NULL, 2, 100, NULL, "pcie-width"},
    {"generation 1 under load", slow_link, "pcie-speed", 2, 31, "generation 1 of 5", NULL},
    {"generation 1, idle", slow_link_idle, NULL, 2, 300, NULL, NULL},
    {"generation 1 with traffic", slow_link_traffic, "pcie-speed", 2, 37, "3.1 GB/s", NULL},
    {"slot of generation 1", slow_slot, NULL, 2, 100, NULL, NULL},
    {"replays", replays, "pcie-replay", 0, 20, "replays a minute", NULL},
    {"few replays", few_replays, NULL, 0, 300, NULL, NULL},
    {"corrected AER", aer_many, "aer-correctable", 0, 141, "corrected PCIe errors", NULL},
    {"few corrected AER", aer_few, NULL, 0, 600, NULL, NULL},
    {"uncorrected AER", aer_fatal, "aer-uncorrected", 0, 1, "1 uncorrected", NULL},
    {"link down", link_down, "nvlink-state", 1, 6, "NVLink 4 of 18 is down, 17 are up", NULL},
    {"link errors", link_errors, "nvlink-crc", 3, 20, "NVLink 7 has", NULL},
    {"many link errors", link_many_errors, "nvlink-crc-many", 3, 30, "NVLink 7 has", "nvlink-crc"},
    {"link recoveries", link_recovers, "nvlink-crc", 3, 30, "recoveries", NULL},
    {"some link errors", link_some_errors, NULL, 3, 300, NULL, NULL},
    {"fabric waits", fabric_waits, "fabric-state", RIG_NODE, 61, "8 of 8 GPUs", NULL},
    {"fabric fails", fabric_fails, "fabric-state", RIG_NODE, 1, "1 of 8 GPUs; GPU 2", NULL},
    {"fabric is ill", fabric_ill, "fabric-state", RIG_NODE, 1, "its route is unhealthy", NULL},
    {"no fabric", fabric_absent, NULL, 0, 120, NULL, NULL},

    {"leak", leak, "memory-leak", 0, 520, "pid 4000 has grown by", NULL},
    {"model is loaded", load_model, NULL, 0, 240, NULL, NULL},
    {"slow leak", leak_slowly, NULL, 0, 1500, NULL, NULL},
    {"orphaned memory", orphan, "memory-orphaned", 6, 61, "belong to none of its 0 processes", NULL},
    {"hidden process", hidden, NULL, 6, 300, NULL, NULL},
    {"idle driver memory", idle_used, NULL, 6, 300, NULL, NULL},

    {"old samples", old_samples, "monitor-data", RIG_NODE, 120, "1 of 8 GPUs; of GPU 6 for 2m", NULL},
    {"no log", no_log, "monitor-log", RIG_NODE, 1, "Operation not permitted", NULL},
    {"log off", log_off, NULL, 0, 100, NULL, NULL},
    {"abandoned", abandon, "monitor-self", RIG_NODE, 1, "sampler 900", NULL},
    {"disk full", fill_disk, "monitor-journal", RIG_NODE, 1, "not written: the journal: database or disk is full",
     NULL},
    {"no look at the host", stop_looking, "monitor-data", RIG_NODE, 112, "has not come back", NULL},

    {"wrong in a test", test_wrong, "test-wrong-values", 2, 1, "SM 97 computes wrong", NULL},
    {"slow in a test", test_slow, "test-slow", 5, 1, "6.0 % behind", NULL},
    {"very slow in a test", test_very_slow, "test-slow", 5, 1, "6.0 % behind", NULL},
    {"most slow in a test", test_most_slow, "test-slow-node", RIG_NODE, 1, "4 of 8 GPUs; GPU 0", NULL},
};

static Str texts; /* of all cases, a line each */

static void add_text(const char *name, const RigEvidence *evidence)
{
    assert_non_null(evidence);
    str_addf(&texts, "%s: %s", name, evidence->text);
    if (evidence->counter.name[0])
        str_addf(&texts, " | %s %.10g -> %.10g", evidence->counter.name, evidence->counter.before,
                 evidence->counter.after);
    if (evidence->pid > 0)
        str_addf(&texts, " | pid %d", evidence->pid);
    str_addf(&texts, " | %s%s\n", fault_actions[evidence->action].key, evidence->holds ? ", holds" : "");
}

static void run_case(void **state)
{
    const Case *one = *state;
    Rig *rig = rig_new(8, NULL);

    rig_run_quiet(rig, 200, NULL);
    one->change(rig);
    if (!one->rule) {
        rig_run_quiet(rig, one->seconds ? one->seconds : 120, one->allowed);
        if (one->allowed) { /* what may be seen until the window is over is gone then */
            rig_run_quiet(rig, 200, NULL);
        }
    } else {
        const unsigned took = rig_until(rig, one->rule, one->gpu, one->seconds + 60, one->allowed);
        if (took != one->seconds)
            fail_msg("%s: seen after %u s, not after %u", one->name, took, one->seconds);
        if (one->says)
            rig_says(rig_evidence(rig, one->rule, one->gpu), one->says);
        add_text(one->name, rig_evidence(rig, one->rule, one->gpu));
    }
    rig_free(rig);
}

/* What users read of each case, with its counter and what it asks for. */
static void texts_are_whole(void **state)
{
    (void)state;
    assert_golden(TEXTS, &texts);
    str_done(&texts);
}

/* ---- stories: several of these changes, one after the other, and how they end ---- */

enum { STORIES = 24, CHANGES = 6, SHOWN_MAX = 64 };

typedef struct Story {
    Rig *rig;
    uint64_t seed, began_ns;
    size_t count;
    RigEvidence shown[SHOWN_MAX];
    Str *out;
} Story;

static uint32_t draw(Story *s, size_t below)
{
    s->seed ^= s->seed << 13;
    s->seed ^= s->seed >> 7;
    s->seed ^= s->seed << 17;
    return (uint32_t)((s->seed >> 20) % below);
}

static const RigEvidence *find_same(const RigEvidence *all, size_t count, const RigEvidence *one)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].rule, one->rule) == 0 && device_equal(&all[i].device, &one->device))
            return &all[i];
    return NULL;
}

static void write_evidence(Story *s, const char *how, const RigEvidence *it)
{
    str_addf(s->out, " %llu %s %s of GPU %d: %s", (unsigned long long)((s->rig->node.time_ns - s->began_ns) / NS_PER_S),
             how, it->rule, it->gpu, it->text);
    if (it->counter.name[0])
        str_addf(s->out, " | %.10g to %.10g", it->counter.before, it->counter.after);
    str_addf(s->out, "%s\n", it->holds ? "" : " | a moment");
}

/* Evidence is written where it begins and where it ends. */
static void write_tick(Story *s)
{
    const Rig *rig = s->rig;

    for (size_t i = 0; i < rig->evidence_count; i++)
        if (!rig->evidence[i].holds || !find_same(s->shown, s->count, &rig->evidence[i]))
            write_evidence(s, "+", &rig->evidence[i]);
    for (size_t i = 0; i < s->count; i++)
        if (s->shown[i].holds && !find_same(rig->evidence, rig->evidence_count, &s->shown[i]))
            write_evidence(s, "-", &s->shown[i]);
    s->count = rig->evidence_count < SHOWN_MAX ? rig->evidence_count : SHOWN_MAX;
    memcpy(s->shown, rig->evidence, s->count * sizeof s->shown[0]);
}

static void write_story(Story *s)
{
    s->rig = rig_new(8, NULL);
    s->rig->any_evidence = true;
    s->began_ns = s->rig->node.time_ns;
    for (int i = 0; i < CHANGES; i++) {
        const Case *one = &cases[draw(s, ARRAY_LEN(cases))];
        const bool ends = draw(s, 3) > 0;
        uint32_t seconds = 30 + draw(s, 100);

        str_addf(s->out, "%s%s\n", one->name, ends ? "" : ", and it goes on");
        one->change(s->rig);
        for (write_tick(s); seconds > 0; seconds--) {
            rig_tick(s->rig, 1);
            write_tick(s);
        }
        if (!ends)
            continue;
        rig_mend(s->rig);
        for (seconds = 20 + draw(s, 100); seconds > 0; seconds--) {
            rig_tick(s->rig, 1);
            write_tick(s);
        }
    }
    rig_free(s->rig);
}

static void stories_are_whole(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);

    (void)state;
    for (uint64_t i = 1; i <= STORIES; i++) {
        Story story = {.seed = i * 88172645463325252u, .out = &out};

        str_addf(&out, "story %llu\n", (unsigned long long)i);
        write_story(&story);
    }
    assert_golden(STORIES_TEXT, &out);
}

int main(void)
{
    struct CMUnitTest tests[ARRAY_LEN(cases) + 2];
    Case copies[ARRAY_LEN(cases)];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        copies[i] = cases[i];
        tests[i] = (struct CMUnitTest){.name = cases[i].name, .test_func = run_case, .initial_state = &copies[i]};
    }
    tests[ARRAY_LEN(cases)] = (struct CMUnitTest)cmocka_unit_test(texts_are_whole);
    tests[ARRAY_LEN(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(stories_are_whole);
    str_init(&texts, GOLDEN_MAX);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
