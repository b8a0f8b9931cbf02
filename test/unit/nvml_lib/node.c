/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/core/state.h"
#include "test/unit/memory_folder.h"

static char node_path[64];

static void fill_profiles(SimBoard *b)
{
    static const SimProfile profiles[] = {
        {.name = "1g.10gb",
         .index = 0,
         .id = 19,
         .slices = 1,
         .max_instances = 7,
         .sm = 16,
         .memory_mib = 9984,
         .copy = 1,
         .place_size = 1,
         .place_count = 7,
         .place_start = {0, 1, 2, 3, 4, 5, 6}},
        {.name = "3g.40gb",
         .index = 2,
         .id = 9,
         .slices = 3,
         .max_instances = 2,
         .sm = 60,
         .memory_mib = 40448,
         .copy = 3,
         .place_size = 4,
         .place_count = 2,
         .place_start = {0, 4}},
    };
    memcpy(b->profiles, profiles, sizeof profiles);
    b->profile_count = sizeof profiles / sizeof *profiles;
    b->has_mig = 1;
    b->mig_grid = 8;
    b->mig_slices = b->mig_max_devices = 7;
}

static void fill_server(SimBoard *b)
{
    *b = (SimBoard){.key = "server",
                    .name = "NVIDIA H100 80GB HBM3",
                    .part_number = "900-21001",
                    .vbios = "96.00.30.00.01",
                    .inforom_image = "G520.0200.00.05",
                    .inforom_oem = "2.1",
                    .inforom_ecc = "7.16",
                    .brand = 14,
                    .arch = 9,
                    .cc_major = 9,
                    .pci_device_id = 0x233010DE,
                    .pci_subsystem_id = 0x16C110DE,
                    .pci_class = 0x030200,
                    .memory_mib = 81559,
                    .reserved_mib = 479,
                    .bar1_mib = 131072,
                    .bus_width_bits = 5120,
                    .sm_count = 132,
                    .cores_per_sm = 128,
                    .sm_clock_max = 1980,
                    .sm_clock_idle = 345,
                    .sm_clock_base = 1590,
                    .sm_clock_step = 15,
                    .sm_clock_min = 345,
                    .mem_clock_max = 2619,
                    .mem_clock_idle = 2619,
                    .video_clock_max = 1545,
                    .video_clock_idle = 765,
                    .mem_clock_count = 2,
                    .mem_clocks = {2619, 1593},
                    .power_min_mw = 200000,
                    .power_default_mw = 700000,
                    .power_max_mw = 700000,
                    .idle_w = 70,
                    .context_w = 110,
                    .watt_sm = 200,
                    .watt_tensor = 150,
                    .watt_fp = 50,
                    .watt_dram = 120,
                    .watt_link = 20,
                    .temp_shutdown = 95,
                    .temp_slowdown = 89,
                    .temp_gpu_max = 87,
                    .temp_mem_max = 95,
                    .tlimit_shutdown = -8,
                    .tlimit_slowdown = -2,
                    .ambient_c = 30,
                    .kelvin_per_watt = 0.06,
                    .tau_s = 20,
                    .mem_temp_offset_c = 8,
                    .has_tlimit = 1,
                    .has_mem_temp = 1,
                    .has_ecc = 1,
                    .has_remap = 1,
                    .has_gpm = 1,
                    .has_instant_power = 1,
                    .remap_banks = 2560,
                    .pcie_gen = 5,
                    .pcie_width = 16,
                    .gpu_max_pcie_gen = 5,
                    .link_count = NODE_LINKS,
                    .link_version = 6,
                    .link_mbytes_per_s = 26562,
                    .link_to_switch = 1,
                    .has_fabric = 1,
                    .copy_engines = 8,
                    .dec_engines = 7,
                    .jpg_engines = 7,
                    .ofa_engines = 1};
    fill_profiles(b);
}

static void fill_desk(SimBoard *b)
{
    *b = (SimBoard){.key = "desk",
                    .name = "NVIDIA GeForce RTX 4080 SUPER",
                    .vbios = "95.03.3C.00.01",
                    .brand = 5,
                    .arch = 8,
                    .cc_major = 8,
                    .cc_minor = 9,
                    .pci_device_id = 0x270210DE,
                    .pci_subsystem_id = 0x185110DE,
                    .pci_class = 0x030000,
                    .memory_mib = 16376,
                    .reserved_mib = 434,
                    .bar1_mib = 16384,
                    .bus_width_bits = 256,
                    .sm_count = 80,
                    .cores_per_sm = 128,
                    .sm_clock_max = 3165,
                    .sm_clock_idle = 210,
                    .sm_clock_base = 2295,
                    .sm_clock_step = 15,
                    .sm_clock_min = 210,
                    .mem_clock_max = 11501,
                    .mem_clock_idle = 405,
                    .video_clock_max = 2415,
                    .video_clock_idle = 1185,
                    .mem_clock_count = 2,
                    .mem_clocks = {11501, 405},
                    .power_min_mw = 150000,
                    .power_default_mw = 320000,
                    .power_max_mw = 400000,
                    .idle_w = 12,
                    .context_w = 30,
                    .watt_sm = 200,
                    .watt_tensor = 40,
                    .watt_fp = 40,
                    .watt_dram = 60,
                    .temp_shutdown = 101,
                    .temp_slowdown = 96,
                    .temp_gpu_max = 90,
                    .ambient_c = 28,
                    .kelvin_per_watt = 0.12,
                    .tau_s = 30,
                    .has_display = 1,
                    .addressing_mode = 1,
                    .pcie_gen = 4,
                    .pcie_width = 16,
                    .gpu_max_pcie_gen = 4,
                    .fans = 2,
                    .dec_engines = 1,
                    .enc_engines = 2,
                    .copy_engines = 2};
}

static void fill_gpus(SimImage *image)
{
    static const struct {
        uint32_t board, bus, numa, root, group;
        const char *cpulist;
    } rows[NODE_GPUS] = {
        {0, 0x83, 1, 2, 2, "32-63,96-127"},
        {0, 0x1b, 0, 0, 0, "0-31,64-95"},
        {0, 0x43, 0, 0, 0, "0-31,64-95"},
        {1, 0x63, 0, 1, 1, "0-31,64-95"},
    };
    for (uint32_t g = 0; g < NODE_GPUS; g++) {
        SimGpuId *id = &image->gpus[g];
        *id = (SimGpuId){.board = rows[g].board,
                         .bus = rows[g].bus,
                         .minor = g,
                         .module_id = g + 1,
                         .numa_node = rows[g].numa,
                         .root = rows[g].root,
                         .switch_group = rows[g].group,
                         .leak = 1,
                         .cool = 1};
        snprintf(id->uuid, sizeof id->uuid, "GPU-0000000%u-1111-2222-3333-44445555666%u", g, g);
        if (rows[g].board == 0)
            snprintf(id->serial, sizeof id->serial, "165302303000%u", g);
        snprintf(id->cpulist, sizeof id->cpulist, "%s", rows[g].cpulist);
    }
}

SimImage *node_new(unsigned int generation)
{
    snprintf(node_path, sizeof node_path, "%s/nvml-lib-XXXXXX", memory_folder());
    const int fd = mkstemp(node_path);
    assert_true(fd >= 0);
    close(fd);
    SimImage *image = sim_image_create(node_path, NODE_GPUS);
    assert_non_null(image);
    image->generation = generation;
    snprintf(image->driver, sizeof image->driver, "%u.48.01", generation);
    snprintf(image->nvml, sizeof image->nvml, "13.%u.48.01", generation);
    snprintf(image->hostname, sizeof image->hostname, "node-a");
    image->cuda_version = 13010;
    image->gpu_count = NODE_GPUS;
    image->board_count = 2;
    image->seed = 42;
    image->epoch_us = 1700000000000000ull;
    fill_server(&image->boards[0]);
    fill_desk(&image->boards[1]);
    fill_gpus(image);
    sim_plan_build(image);
    sim_clock_advance(image, 3 * SIM_NS);
    setenv("STOKER_SIM", node_path, 1);
    return image;
}

void node_free(SimImage *image)
{
    sim_image_close(image);
    unlink(node_path);
    unsetenv("STOKER_SIM");
}

void node_op(SimImage *image, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    assert_int_equal(sim_op_apply(image, &op, NULL, 0, NULL), SIM_OK);
    sim_clock_advance(image, SIM_TICK_NS); /* into the next tick of the sensors */
}
