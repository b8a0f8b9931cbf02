/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver shows of itself: proc/driver/nvidia*, sys/module, proc/modules, proc/devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "sim/node/tree_part.h"

enum {
    ARCH_AMPERE = 7,
    ARCH_HOPPER = 9,
    ARCH_BLACKWELL = 10,
    OPEN_SINCE = 560,
    SYS_MINOR = 4323,
    LIBRARY_MAX = 64 << 20
};

typedef struct Module {
    const char *name, *users; /* as in proc/modules: those that use it */
    uint32_t size, refs;
} Module;

static const Module modules[] = {
    {"nvidia_uvm", "-", 4087808, 8},
    {"nvidia_drm", "-", 139264, 0},
    {"nvidia_modeset", "nvidia_drm,", 1814528, 1},
    {"nvidia_peermem", "-", 20480, 0},
    {"nvidia", "nvidia_uvm,nvidia_peermem,nvidia_modeset,", 104140800, 214},
};
static const char other_modules[] = "mlx5_ib 471040 0 - Live 0x0000000000000000\n"
                                    "ib_uverbs 204800 1 mlx5_ib, Live 0x0000000000000000\n"
                                    "ib_core 557056 3 nvidia_peermem,mlx5_ib,ib_uverbs, Live 0x0000000000000000\n"
                                    "mlx5_core 2359296 1 mlx5_ib, Live 0x0000000000000000\n";

static uint32_t branch_of(const SimImage *image)
{
    uint32_t branch = (uint32_t)strtoul(image->driver, NULL, 10);
    return branch ? branch : image->generation;
}

/* The version that the loaded kernel module reports: the image's, or an older one while driver and library differ. */
static const char *node_module_version(const SimImage *image, uint32_t driver)
{
    if (driver != SIM_DRIVER_MISMATCH)
        return image->driver;
    /* the package has been updated, the module loaded before it is still there */
    return branch_of(image) > 580 ? "580.95.05" : branch_of(image) > 535 ? "535.247.01" : "525.147.05";
}

/* The open modules are the only ones for Blackwell, and the installer's choice for newer boards since 560. */
static bool is_open(const SimImage *image)
{
    uint32_t arch = image->gpu_count ? image->boards[image->gpus[0].board].arch : 0;
    return arch >= ARCH_BLACKWELL || (arch >= ARCH_AMPERE && branch_of(image) >= OPEN_SINCE);
}

static void version_file(const NodeTree *tree, Put *put)
{
    const char *version = node_module_version(tree->image, tree->driver);
    static const char gcc[] = "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2)";
    if (is_open(tree->image))
        put_line(put, "version",
                 "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (dvs-builder@U22-I3)\n%s",
                 version, gcc);
    else
        put_line(put, "version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Release Build\n%s", version, gcc);
}

static void params_file(Put *put)
{
    put_line(put, "params",
             "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\n"
             "DeviceFileMode: 438\nInitializeSystemMemoryAllocations: 1\nUsePageAttributeTable: 4294967295\n"
             "EnableMSI: 1\nEnablePCIeGen3: 0\nMemoryPoolSize: 0\nKMallocHeapMaxSize: 0\nVMallocHeapMaxSize: 0\n"
             "IgnoreMMIOCheck: 0\nEnableStreamMemOPs: 0\nEnableUserNUMAManagement: 1\nNvLinkDisable: 0\n"
             "RmProfilingAdminOnly: 1\nPreserveVideoMemoryAllocations: 0\nEnableS0ixPowerManagement: 0\n"
             "S0ixPowerManagementVideoMemoryThreshold: 256\nDynamicPowerManagement: 3\n"
             "DynamicPowerManagementVideoMemoryThreshold: 200\nRegisterPCIDriver: 1\n"
             "EnablePCIERelaxedOrderingMode: 0\nEnableResizableBar: 0\nEnableGpuFirmware: 18\n"
             "EnableGpuFirmwareLogs: 2\nEnableDbgBreakpoint: 0\nOpenRmEnableUnsupportedGpus: 1\nDmaRemapPeerMmio: 1\n"
             "RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"\"\nRmMsg: \"\"\nGpuBlacklist: \"\"\n"
             "TemporaryFilePath: \"\"\nExcludedGpus: \"\"");
}

static void nvswitch_files(const NodeTree *tree, Put *put)
{
    if (!tree->layout.switch_count)
        return;
    put_in(put, "proc/driver/nvidia-nvswitch");
    put_line(put, "permissions", "DeviceFileMode: 438");
    for (uint32_t i = 0; i < tree->layout.switch_count; i++) {
        char bdf[PCI_BDF_MAX];
        pci_bdf(&tree->layout.fn[tree->layout.nvswitch[i]], bdf);
        put_in(put, "proc/driver/nvidia-nvswitch/devices/%s", bdf);
        put_line(put, "information", "BIOS Version: 96.10.6d.00.01");
    }
    put_in(put, "proc/driver/nvidia-nvlink/capabilities");
    tree_capability(put, 0, DEV_MODE_ADMIN); /* fabric-mgmt */
}

static void proc_files(const NodeTree *tree, Put *put)
{
    put_in(put, "proc/driver/nvidia");
    version_file(tree, put);
    params_file(put);
    put_line(put, "registry", "Binary: \"\"");
    put_in(put, "proc/driver/nvidia/gpus");
    put_in(put, "proc/driver/nvidia-caps");
    put_line(put, "nvlink-minors", "fabric-mgmt 0");
    put_line(put, "sys-minors", "fabric-imex-mgmt %d", SYS_MINOR);
    tree_mig_minors(put);
    nvswitch_files(tree, put);
}

static void module_files(const NodeTree *tree, Put *put)
{
    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        put_in(put, "sys/module/%s", modules[i].name);
        put_line(put, "version", "%s", node_module_version(tree->image, tree->driver));
        put_line(put, "initstate", "live");
        put_line(put, "refcnt", "%u", modules[i].refs);
        put_line(put, "taint", is_open(tree->image) ? "OE" : "POE");
    }
}

static void driver_gone(Put *put)
{
    static const char *const folders[] = {"nvidia", "nvidia-caps", "nvidia-nvlink", "nvidia-nvswitch"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        put_gone(put, "proc/driver/%s", folders[i]);
    for (size_t i = 0; i < ARRAY_LEN(modules); i++)
        put_gone(put, "sys/module/%s", modules[i].name);
}

/* The driver's lines come last, so that loading and unloading only lengthen and shorten the file. */
static void modules_file(const NodeTree *tree, Put *put, bool up)
{
    CLEANUP(str_done) Str text;
    str_init(&text, PUT_FILE_MAX);
    str_add(&text, other_modules);
    for (size_t i = 0; up && i < ARRAY_LEN(modules); i++) {
        const Module *m = &modules[i];
        str_addf(&text, "%s %u %u %s Live 0x0000000000000000 (%s)\n", m->name, m->size, m->refs, m->users,
                 is_open(tree->image) ? "OE" : "POE");
    }
    put_over(put, "modules", text.text, text.len);
}

static void devices_file(const NodeTree *tree, Put *put, bool up)
{
    CLEANUP(str_done) Str text;
    str_init(&text, PUT_FILE_MAX);
    str_add(&text, "Block devices:\n  7 loop\n  8 sd\n259 blkext\n\n"
                   "Character devices:\n  1 mem\n  4 tty\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n 10 misc\n"
                   " 13 input\n128 ptm\n136 pts\n231 infiniband_mad\n231 infiniband_verbs\n");
    if (up)
        str_addf(&text, "%d nvidia\n%d nvidia-modeset\n%d nvidiactl\n%d nvidia-uvm\n%d nvidia-caps\n", DEV_MAJOR,
                 DEV_MAJOR, DEV_MAJOR, DEV_MAJOR_UVM, DEV_MAJOR_CAPS);
    if (up && tree->layout.switch_count)
        str_addf(&text, "%d nvidia-nvswitch\n", DEV_MAJOR_NVSWITCH);
    put_over(put, "devices", text.text, text.len);
}

void tree_driver(const NodeTree *tree, Put *put)
{
    bool up = tree->driver != SIM_DRIVER_UNLOADED;
    put_in(put, "proc/driver");
    put_in(put, "sys/module");
    if (up) {
        proc_files(tree, put);
        module_files(tree, put);
    } else {
        driver_gone(put);
    }
    put_in(put, "proc");
    modules_file(tree, put, up);
    devices_file(tree, put, up);
}

int node_tree_add_libraries(const NodeTree *tree, const char *library, Err *err)
{
    CLEANUP(str_done) Str bytes;
    char name[64];
    Put put;
    str_init(&bytes, LIBRARY_MAX);
    TRY(file_read(library, LIBRARY_MAX, &bytes, err));
    TRY(put_begin(&put, tree->root, err));
    put_in(&put, "usr/lib64");
    snprintf(name, sizeof name, "libnvidia-ml.so.%s", tree->image->driver);
    put_bytes(&put, name, bytes.text, bytes.len, 0755);
    put_link(&put, "libnvidia-ml.so.1", name);
    snprintf(name, sizeof name, "libcuda.so.%s", tree->image->driver);
    put_bytes(&put, name, "", 0, 0755);
    put_link(&put, "libcuda.so.1", name);
    put_link(&put, "libcuda.so", "libcuda.so.1");
    return put_end(&put);
}

void tree_driver_gpu(const NodeTree *tree, Put *put, uint32_t gpu)
{
    const SimImage *image = tree->image;
    const SimGpuId *id = &image->gpus[gpu];
    const SimBoard *board = &image->boards[id->board];
    int bits = board->arch >= ARCH_HOPPER ? 52 : 47;
    char bdf[PCI_BDF_MAX];
    pci_bdf(&tree->layout.fn[tree->layout.gpu[gpu]], bdf);
    if (!tree->gpus[gpu].driver) {
        put_gone(put, "proc/driver/nvidia/gpus/%s", bdf);
        return;
    }
    put_in(put, "proc/driver/nvidia/gpus/%s", bdf);
    put_line(put, "information",
             "Model: \t\t %s\nIRQ:   \t\t %u\nGPU UUID: \t %s\nVideo BIOS: \t %s\nBus Type: \t PCIe\n"
             "DMA Size: \t %d bits\nDMA Mask: \t 0x%llx\nBus Location: \t %s\nDevice Minor: \t %u\n"
             "GPU Firmware: \t %s\nGPU Excluded:\t No",
             board->name, 64 + (id->bus & 0xff), id->uuid, board->vbios, bits, (1ull << bits) - 1, bdf, id->minor,
             board->arch >= ARCH_AMPERE ? node_module_version(image, tree->driver) : "N/A");
    put_line(put, "registry", "Binary: \"\"");
    put_line(put, "power",
             "Runtime D3 status:          Disabled by default\nVideo Memory:               Active\n\n"
             "GPU Hardware Support:\n Video Memory Self Refresh: Not Supported\n"
             " Video Memory Off:          Not Supported\n\nPower Limits:\n Default:                   N/A milliwatts\n"
             " GPU Boost:                 N/A milliwatts");
}

/* --- MIG capabilities -------------------------------------------------------------------------------------------- */

/* MIG capabilities: the files that grant access to instances, and the devices behind them. */

enum {
    MINOR_CONFIG = 1,
    MINOR_MONITOR = 2,
    MINOR_FIRST = 3,
    GPU_MINORS = 32, /* GPUs, instances per GPU and compute instances per instance that the driver numbers ahead */
    GI_MINORS = 15,
    CI_MINORS = NODE_TREE_CI_MAX,
};

uint32_t node_mig_minor(uint32_t gpu_minor, uint32_t gi, int32_t ci)
{
    if (gpu_minor >= GPU_MINORS || gi >= GI_MINORS || ci >= CI_MINORS)
        return 0;
    return MINOR_FIRST + (gpu_minor * GI_MINORS + gi) * (1 + CI_MINORS) + (ci == SIM_NONE ? 0 : 1 + (uint32_t)ci);
}

/* The pen stands in the folder of the capability, or above a capability named like its folder. */
static void put_capability(Put *put, const char *name, uint32_t minor_number, uint32_t mode)
{
    put_line(put, name, "DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1", minor_number, mode);
}

void tree_capability(Put *put, uint32_t minor_number, uint32_t mode)
{
    put_capability(put, "fabric-mgmt", minor_number, mode);
}

void tree_mig_minors(Put *put)
{
    CLEANUP(str_done) Str text;
    str_init(&text, PUT_FILE_MAX);
    str_addf(&text, "config %d\nmonitor %d\n", MINOR_CONFIG, MINOR_MONITOR);
    for (uint32_t gpu = 0; gpu < GPU_MINORS; gpu++)
        for (uint32_t gi = 0; gi < GI_MINORS; gi++) {
            str_addf(&text, "gpu%u/gi%u/access %u\n", gpu, gi, node_mig_minor(gpu, gi, SIM_NONE));
            for (int32_t ci = 0; ci < CI_MINORS; ci++)
                str_addf(&text, "gpu%u/gi%u/ci%d/access %u\n", gpu, gi, ci, node_mig_minor(gpu, gi, ci));
        }
    put_bytes(put, "mig-minors", text.text, text.len, 0444);
    put_in(put, "proc/driver/nvidia/capabilities/mig");
    put_capability(put, "config", MINOR_CONFIG, DEV_MODE_ADMIN);
    put_capability(put, "monitor", MINOR_MONITOR, DEV_MODE_ADMIN);
}

static int keeps_gi(const NodeTreeGpu *now, uint32_t gi)
{
    for (uint32_t i = 0; i < now->gi_count; i++)
        if (now->gi[i] == gi)
            return 1;
    return 0;
}

static int keeps_ci(const NodeTreeGpu *now, uint32_t gi, uint32_t ci)
{
    for (uint32_t i = 0; i < now->ci_count; i++)
        if (now->ci[i][0] == gi && now->ci[i][1] == ci)
            return 1;
    return 0;
}

static void remove_gone(Put *put, uint32_t gpu, const NodeTreeGpu *old, const NodeTreeGpu *now)
{
    for (uint32_t i = 0; i < old->ci_count; i++) {
        uint32_t gi = old->ci[i][0], ci = old->ci[i][1];
        if (keeps_ci(now, gi, ci))
            continue;
        put_gone(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci%u", gpu, gi, ci);
        put_gone(put, "dev/nvidia-caps/nvidia-cap%u", node_mig_minor(gpu, gi, (int32_t)ci));
    }
    for (uint32_t i = 0; i < old->gi_count; i++) {
        if (keeps_gi(now, old->gi[i]))
            continue;
        put_gone(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u", gpu, old->gi[i]);
        put_gone(put, "dev/nvidia-caps/nvidia-cap%u", node_mig_minor(gpu, old->gi[i], SIM_NONE));
    }
}

static void put_mig_device(const NodeTree *tree, Put *put, uint32_t minor_number)
{
    char name[32];
    snprintf(name, sizeof name, "nvidia-cap%u", minor_number);
    put_in(put, "dev/nvidia-caps");
    put_device(put, name, DEV_MODE_INSTANCE, tree->flags & NODE_TREE_DEVICES ? DEV_MAJOR_CAPS : 0, minor_number);
}

void tree_mig_gpu(const NodeTree *tree, Put *put, uint32_t gpu, const NodeTreeGpu *old)
{
    const NodeTreeGpu *now = &tree->gpus[gpu];
    uint32_t number = tree->image->gpus[gpu].minor;
    if (old)
        remove_gone(put, number, old, now);
    if (!now->driver) {
        put_gone(put, "proc/driver/nvidia/capabilities/gpu%u", number);
        return;
    }
    if (!tree->image->boards[tree->image->gpus[gpu].board].has_mig)
        return;
    put_in(put, "proc/driver/nvidia/capabilities/gpu%u/mig", number);
    for (uint32_t i = 0; i < now->gi_count; i++) {
        uint32_t at = node_mig_minor(number, now->gi[i], SIM_NONE);
        if (!at)
            continue;
        put_in(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u", number, now->gi[i]);
        put_capability(put, "access", at, DEV_MODE_INSTANCE);
        put_mig_device(tree, put, at);
    }
    for (uint32_t i = 0; i < now->ci_count; i++) {
        uint32_t at = node_mig_minor(number, now->ci[i][0], (int32_t)now->ci[i][1]);
        if (!at)
            continue;
        put_in(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci%u", number, now->ci[i][0], now->ci[i][1]);
        put_capability(put, "access", at, DEV_MODE_INSTANCE);
        put_mig_device(tree, put, at);
    }
}
