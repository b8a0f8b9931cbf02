/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB 1048576.0

static const SimProfile hopper_profiles[] = {
    {.name = "1g.10gb",
     .index = 0,
     .id = 19,
     .slices = 1,
     .max_instances = 7,
     .sm = 16,
     .memory_mib = 9984,
     .copy = 1,
     .dec = 1,
     .jpg = 1,
     .place_size = 1,
     .place_count = 7,
     .place_start = {0, 1, 2, 3, 4, 5, 6}},
    {.name = "1g.10gb+me",
     .index = 7,
     .id = 20,
     .slices = 1,
     .max_instances = 1,
     .sm = 16,
     .memory_mib = 9984,
     .copy = 1,
     .dec = 1,
     .jpg = 1,
     .ofa = 1,
     .place_size = 1,
     .place_count = 7,
     .place_start = {0, 1, 2, 3, 4, 5, 6}},
    {.name = "2g.20gb",
     .index = 1,
     .id = 14,
     .slices = 2,
     .max_instances = 3,
     .sm = 32,
     .memory_mib = 20096,
     .copy = 2,
     .dec = 2,
     .jpg = 2,
     .place_size = 2,
     .place_count = 3,
     .place_start = {0, 2, 4}},
    {.name = "3g.40gb",
     .index = 2,
     .id = 9,
     .slices = 3,
     .max_instances = 2,
     .sm = 60,
     .memory_mib = 40448,
     .copy = 3,
     .dec = 3,
     .jpg = 3,
     .place_size = 4,
     .place_count = 2,
     .place_start = {0, 4}},
    {.name = "7g.80gb",
     .index = 4,
     .id = 0,
     .slices = 7,
     .max_instances = 1,
     .sm = 132,
     .memory_mib = 81152,
     .copy = 8,
     .dec = 7,
     .jpg = 7,
     .ofa = 1,
     .capabilities = 1,
     .place_size = 8,
     .place_count = 1,
     .place_start = {0}},
};

static void fill_hopper(SimBoard *b)
{
    *b = (SimBoard){.key = "hopper",
                    .name = "NVIDIA H100 80GB HBM3",
                    .inforom_image = "G520.0200.00.05",
                    .brand = 14,
                    .arch = 9,
                    .cc_major = 9,
                    .memory_mib = 81559,
                    .reserved_mib = 479,
                    .bar1_mib = 131072,
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
                    .watt_tensor = 100,
                    .watt_fp = 50,
                    .watt_dram = 100,
                    .watt_link = 10,
                    .temp_shutdown = 95,
                    .temp_slowdown = 89,
                    .temp_gpu_max = 87,
                    .temp_mem_max = 95,
                    .tlimit_shutdown = -8,
                    .tlimit_slowdown = -2,
                    .ambient_c = 30,
                    .kelvin_per_watt = 0.05,
                    .tau_s = 20,
                    .mem_temp_offset_c = 8,
                    .has_tlimit = 1,
                    .has_mem_temp = 1,
                    .has_ecc = 1,
                    .has_remap = 1,
                    .has_gpm = 1,
                    .has_mig = 1,
                    .has_instant_power = 1,
                    .remap_banks = 2560,
                    .pcie_gen = 5,
                    .pcie_width = 16,
                    .gpu_max_pcie_gen = 5,
                    .link_count = 18,
                    .link_version = 6,
                    .link_mbytes_per_s = 26562,
                    .link_to_switch = 1,
                    .copy_engines = 8,
                    .dec_engines = 7,
                    .jpg_engines = 7,
                    .ofa_engines = 1,
                    .mig_grid = 8,
                    .mig_slices = 7,
                    .mig_max_devices = 7};
    memcpy(b->profiles, hopper_profiles, sizeof hopper_profiles);
    b->profile_count = sizeof hopper_profiles / sizeof *hopper_profiles;
}

static void fill_desk(SimBoard *b)
{
    *b = (SimBoard){.key = "desk",
                    .name = "NVIDIA GeForce RTX 4080 SUPER",
                    .brand = 5,
                    .arch = 8,
                    .cc_major = 8,
                    .cc_minor = 9,
                    .memory_mib = 16376,
                    .reserved_mib = 434,
                    .bar1_mib = 16384,
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
                    .watt_dram = 60,
                    .temp_shutdown = 101,
                    .temp_slowdown = 96,
                    .temp_gpu_max = 90,
                    .ambient_c = 28,
                    .kelvin_per_watt = 0.1,
                    .tau_s = 30,
                    .has_display = 1,
                    .pcie_gen = 4,
                    .pcie_width = 16,
                    .gpu_max_pcie_gen = 4,
                    .fans = 2,
                    .dec_engines = 1,
                    .enc_engines = 2,
                    .copy_engines = 2};
}

static void fill_boards(SimImage *image)
{
    SimBoard *b = image->boards;
    fill_hopper(&b[0]);
    fill_hopper(&b[1]); /* Ampere: a change of mode needs a reset, pages are retired, no GPM */
    snprintf(b[1].key, sizeof b[1].key, "ampere");
    b[1].arch = 7;
    b[1].link_version = 4;
    b[1].link_count = 12;
    b[1].mig_needs_reset = 1;
    b[1].has_gpm = b[1].has_tlimit = b[1].has_instant_power = 0;
    fill_desk(&b[2]);
    fill_hopper(&b[3]); /* Blackwell: links count otherwise, power profiles */
    snprintf(b[3].key, sizeof b[3].key, "blackwell");
    b[3].arch = 10;
    b[3].link_version = 7;
    image->board_count = 4;
}

static void fill_gpus(SimImage *image)
{
    static const uint8_t board[RIG_GPUS] = {0, 0, 1, 2, 3};
    for (uint32_t g = 0; g < RIG_GPUS; g++) {
        image->gpus[g] = (SimGpuId){
            .board = board[g], .bus = 0x10 + g, .device = 1, .minor = g, .module_id = g, .leak = 1, .cool = 1};
        snprintf(image->gpus[g].uuid, sizeof image->gpus[g].uuid, "GPU-%08x-0000-0000-0000-000000000000", g);
        snprintf(image->gpus[g].cpulist, sizeof image->gpus[g].cpulist, "0,64-127");
    }
    image->gpu_count = RIG_GPUS;
}

static SimWork *fill_work(SimImage *image, uint32_t at, const char *name, int32_t gpu, uint32_t pid, double memory_mib)
{
    SimWork *w = &image->works[at];
    *w = (SimWork){.gpu = gpu,
                   .mig = SIM_NONE,
                   .job = SIM_NONE,
                   .fixed_pid = pid,
                   .memory_mib = memory_mib,
                   .slow = 1,
                   .phase_count = 1};
    snprintf(w->kind, sizeof w->kind, "steady");
    snprintf(w->name, sizeof w->name, "%s", name);
    w->phases[0].seconds = 0.1;
    w->phases[0].bound = SIM_BOUND_FIXED;
    return w;
}

static void fill_works(SimImage *image)
{
    SimWork *w = fill_work(image, WORK_TRAINER, "trainer", RIG_BUSY, PID_TRAINER, 1000);
    double *act = w->phases[0].act;
    act[SIM_CH_KERNEL] = TRAINER_KERNEL;
    act[SIM_CH_SM] = TRAINER_SM;
    act[SIM_CH_TENSOR] = act[SIM_CH_HMMA] = TRAINER_TENSOR;
    act[SIM_CH_DRAM] = 0.3;
    act[SIM_CH_DRAM_T] = TRAINER_DRAM_T;
    act[SIM_CH_PCIE_TX] = TRAINER_PCIE_MIB * MIB;
    act[SIM_CH_NVL_RX] = act[SIM_CH_NVL_TX] = TRAINER_LINK_MIB * MIB;
    w = fill_work(image, WORK_DECODER, "decoder", RIG_BLACKWELL, PID_DECODER, 300); /* holds memory, does nothing */
    w->proc_type = SIM_PROC_MPS;
    w = fill_work(image, WORK_DESKTOP, "desktop", RIG_DESK, PID_DESKTOP, 200);
    w->proc_type = SIM_PROC_GRAPHICS;
    w->phases[0].act[SIM_CH_KERNEL] = 0.2;
    w->phases[0].act[SIM_CH_ENC] = 0.1;
    w = fill_work(image, WORK_TENANT, "tenant", RIG_HOPPER, PID_TENANT, 100); /* on the first MIG device, if any */
    w->mig = 0;
    w->phases[0].act[SIM_CH_KERNEL] = 0.5;
    w->phases[0].act[SIM_CH_SM] = 0.5;
    image->work_count = WORK_COUNT;
    for (int32_t i = 0; i < WORK_TENANT; i++)
        assert_int_equal(sim_op_add(image, &(SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {i}}), 0);
}

int rig_setup(void **state)
{
    Rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    snprintf(rig->path, sizeof rig->path, "/tmp/nvml-instances-XXXXXX");
    int fd = mkstemp(rig->path);
    assert_true(fd >= 0);
    close(fd);
    SimImage *image = rig->image = sim_image_create(rig->path, RIG_GPUS);
    assert_non_null(image);
    image->generation = 610;
    image->cuda_version = 13010;
    image->seed = 7;
    image->epoch_us = 1700000000000000ull;
    fill_boards(image);
    fill_gpus(image);
    fill_works(image);
    sim_plan_build(image);
    rig_step_ms(rig, 3000);
    setenv("STOKER_SIM", rig->path, 1);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    for (unsigned int i = 0; i < RIG_GPUS; i++) /* addresses are in order: an index is a number in the image */
        assert_int_equal(nvmlDeviceGetHandleByIndex_v2(i, &rig->gpu[i]), NVML_SUCCESS);
    *state = rig;
    return 0;
}

int rig_teardown(void **state)
{
    Rig *rig = *state;
    nvmlShutdown();
    sim_image_close(rig->image);
    unlink(rig->path);
    unsetenv("STOKER_SIM");
    free(rig);
    return 0;
}

void rig_op(const Rig *rig, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    assert_int_equal(sim_op_apply(rig->image, &op, NULL, 0, NULL), SIM_OK);
}

void rig_step_ms(const Rig *rig, uint64_t ms)
{
    assert_int_equal(sim_clock_advance(rig->image, ms * 1000000), 0);
}

void rig_need_root(void)
{
    if (geteuid() != 0)
        skip();
}

nvmlReturn_t rig_as_nobody(const Rig *rig, nvmlReturn_t (*call)(const Rig *rig))
{
    enum { NOBODY = 65534 };
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(geteuid() == 0 && seteuid(NOBODY) != 0 ? 255 : (int)call(rig));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (nvmlReturn_t)WEXITSTATUS(status);
}
