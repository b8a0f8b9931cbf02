/* SPDX-License-Identifier: Apache-2.0 */
/* The tree as it is first written. Covers tree.c, tree_driver.c, tree_pci.c, tree_mig.c, tree_ib.c and put.c. */
#include "tree_kit.h"

#include <inttypes.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

#define HEAD "about: x\ntruth: []\nwork: []\n"
#define H100 HEAD "node: {driver: \"590.48.01\"}\ngpus: {board: h100-sxm-80gb, count: 8}\n"

static void write_tree(Kit *kit, const char *name, uint64_t t_ns, uint32_t flags, NodeTree *tree)
{
    kit_ok(node_tree_write(kit->image, kit_path(kit, "%s", name), t_ns, flags, tree, &kit->err), kit);
}

static void test_driver_files(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    char expected[256];
    const SimGpuId *id = &kit->image->gpus[2];
    write_tree(kit, "n", 0, 0, &tree);
    const char *version = kit_read(kit, "n/proc/driver/nvidia/version");
    assert_int_equal(strncmp(version, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  ", 67), 0);
    assert_non_null(strstr(version, "\nGCC version:  gcc version "));
    assert_non_null(strstr(kit_read(kit, "n/proc/driver/nvidia/params"), "\nDeviceFileMode: 438\n"));
    const char *info = kit_read(kit, "n/proc/driver/nvidia/gpus/0000:52:00.0/information");
    assert_int_equal(strncmp(info, "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t ", 42), 0);
    snprintf(expected, sizeof expected, "\nGPU UUID: \t %s\nVideo BIOS: \t %s\n", id->uuid,
             kit->image->boards[0].vbios);
    assert_non_null(strstr(info, expected));
    assert_non_null(strstr(info, "\nBus Location: \t 0000:52:00.0\nDevice Minor: \t 2\nGPU Firmware: \t 590.48.01\n"));
    assert_string_equal(kit_read(kit, "n/proc/driver/nvidia/gpus/0000:52:00.0/registry"), "Binary: \"\"\n");
    assert_true(kit_exists(kit, "n/proc/driver/nvidia/gpus/0000:52:00.0/power"));
    assert_non_null(strstr(kit_read(kit, "n/proc/modules"), "\nnvidia_uvm "));
    assert_non_null(strstr(kit_read(kit, "n/proc/modules"), "\nnvidia "));
    assert_non_null(strstr(kit_read(kit, "n/proc/devices"), "\n195 nvidia\n"));
    assert_string_equal(kit_read(kit, "n/sys/module/nvidia/version"), "590.48.01\n");
    assert_string_equal(kit_read(kit, "n/sys/module/nvidia_uvm/initstate"), "live\n");
    kit_free(kit);
}

static void test_older_driver_is_proprietary(void **state)
{
    (void)state;
    Kit *kit = kit_new_driver(HEAD "gpus: {board: t4}\n", "535.261.03");
    NodeTree tree;
    write_tree(kit, "n", 0, 0, &tree);
    const char *version = kit_read(kit, "n/proc/driver/nvidia/version");
    assert_int_equal(strncmp(version, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  ", 59), 0);
    assert_non_null(
        strstr(kit_read(kit, "n/proc/driver/nvidia/gpus/0000:17:00.0/information"), "DMA Size: \t 47 bits"));
    kit_free(kit);
}

/* A reader of sysfs: the folder that a PCI device's link leads to, inside the tree. */
static void device_dir(Kit *kit, const char *bdf, char out[PATH_MAX])
{
    char root[PATH_MAX];
    assert_non_null(realpath(kit_path(kit, "n/sys/devices"), root));
    if (!realpath(kit_path(kit, "n/sys/bus/pci/devices/%s", bdf), out))
        fail_msg("no such device: %s", bdf);
    assert_int_equal(strncmp(out, root, strlen(root)), 0);
}

static void test_pci_devices(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    char dir[PATH_MAX], target[PATH_MAX];
    write_tree(kit, "n", 0, 0, &tree);
    device_dir(kit, "0000:1b:00.0", dir);
    assert_non_null(strstr(dir, "/pci0000:18/0000:18:01.0/0000:19:00.0/0000:1a:00.0/0000:1b:00.0"));
    static const char *const files[][2] = {
        {"vendor", "0x10de\n"},
        {"device", "0x2330\n"},
        {"class", "0x030200\n"},
        {"subsystem_vendor", "0x10de\n"},
        {"subsystem_device", "0x16c1\n"},
        {"revision", "0xa1\n"},
        {"numa_node", "0\n"},
        {"local_cpulist", "0-55,112-167\n"},
        {"current_link_speed", "32.0 GT/s PCIe\n"},
        {"current_link_width", "16\n"},
        {"max_link_speed", "32.0 GT/s PCIe\n"},
        {"max_link_width", "16\n"},
        {"power/runtime_status", "active\n"},
        {"enable", "1\n"},
        {"modalias", "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/%s", files[i][0]), files[i][1]);
    assert_non_null(strstr(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/uevent"),
                           "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\n"));
    assert_non_null(realpath(kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/driver"), target));
    assert_non_null(strstr(target, "/n/sys/bus/pci/drivers/nvidia"));
    assert_non_null(realpath(kit_path(kit, "n/sys/bus/pci/drivers/nvidia/0000:1b:00.0"), target));
    assert_string_equal(target, dir);
    assert_non_null(realpath(kit_path(kit, "n/sys/bus/pci/drivers/nvidia/module"), target));
    assert_non_null(strstr(target, "/n/sys/module/nvidia"));
    /* the port above is a bridge that leads to the GPU's bus */
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1a:00.0/class"), "0x060400\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1a:00.0/secondary_bus_number"), "27\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1a:00.0/current_link_speed"), "32.0 GT/s PCIe\n");
    kit_free(kit);
}

static void test_every_function_is_listed(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    char dir[PATH_MAX], bdf[PCI_BDF_MAX];
    write_tree(kit, "n", 0, 0, &tree);
    for (uint32_t i = 0; i < tree.layout.count; i++) {
        pci_bdf(&tree.layout.fn[i], bdf);
        device_dir(kit, bdf, dir);
        assert_string_equal(strrchr(dir, '/') + 1, bdf);
    }
    CLEANUP_FREE char *text = tree_text(kit_path(kit, "n/sys/bus/pci/devices"));
    uint32_t lines = 0;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, tree.layout.count);
    kit_free(kit);
}

static void test_nvswitches(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    write_tree(kit, "n", 0, 0, &tree);
    /* where SXid lines place them */
    for (int i = 0; i < 4; i++) {
        assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:%02x:00.0/class", 5 + i), "0x068000\n");
        assert_true(kit_exists(kit, "n/proc/driver/nvidia-nvswitch/devices/0000:%02x:00.0/information", 5 + i));
        assert_true(kit_exists(kit, "n/dev/nvidia-nvswitch%d", i));
    }
    assert_false(kit_exists(kit, "n/dev/nvidia-nvswitch4"));
    kit_free(kit);
    kit = kit_new(HEAD "gpus: {board: l40s, count: 2}\n");
    write_tree(kit, "n", 0, 0, &tree);
    assert_false(kit_exists(kit, "n/proc/driver/nvidia-nvswitch"));
    assert_false(kit_exists(kit, "n/dev/nvidia-nvswitchctl"));
    kit_free(kit);
}

static void test_config_is_what_the_link_files_say(void **state)
{
    (void)state;
    Kit *kit = kit_new(HEAD "gpus: {board: l40s, count: 2}\n"
                            "at: [{time: 1m, do: pcie, gpu: 1, gen: 2, width: 4}]\n");
    static const char *const speeds[] = {"", "2.5 GT/s PCIe\n", "5.0 GT/s PCIe\n", "8.0 GT/s PCIe\n",
                                         "16.0 GT/s PCIe\n"};
    NodeTree tree;
    write_tree(kit, "n", 120 * SIM_NS, 0, &tree);
    for (uint32_t g = 0; g < 2; g++) {
        Str c;
        char room[8192], bdf[PCI_BDF_MAX];
        SimNow now;
        sim_state_at(kit->image, g, 120 * SIM_NS, &now);
        pci_bdf(&tree.layout.fn[tree.layout.gpu[g]], bdf);
        str_init_room(&c, room, sizeof room);
        kit_ok(file_read(kit_path(kit, "n/sys/bus/pci/devices/%s/config", bdf), 8000, &c, &kit->err), kit);
        assert_int_equal(c.len, 4096);
        uint32_t status = (uint8_t)room[0x78 + 0x12] | (uint32_t)(uint8_t)room[0x78 + 0x13] << 8;
        assert_int_equal(room[0x78], 0x10);
        assert_int_equal(status & 0xf, now.pcie_gen);
        assert_int_equal(status >> 4 & 0x3f, now.pcie_width);
        assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/%s/current_link_speed", bdf), speeds[now.pcie_gen]);
        assert_int_equal(atoi(kit_read(kit, "n/sys/bus/pci/devices/%s/current_link_width", bdf)), now.pcie_width);
    }
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:18:00.0/current_link_width"), "4\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:18:00.0/max_link_width"), "16\n");
    kit_free(kit);
}

static void test_a_lost_gpu_reads_ones(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100 "at: [{time: 1m, do: lost, gpu: 3}]\n");
    NodeTree tree;
    Str c;
    char room[8192];
    write_tree(kit, "n", 60 * SIM_NS, 0, &tree);
    str_init_room(&c, room, sizeof room);
    kit_ok(file_read(kit_path(kit, "n/sys/bus/pci/devices/0000:61:00.0/config"), 8000, &c, &kit->err), kit);
    assert_int_equal(c.len, 4096);
    for (size_t i = 0; i < c.len; i++)
        assert_int_equal((uint8_t)room[i], 0xff);
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:61:00.0/current_link_speed"), "Unknown\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:61:00.0/current_link_width"), "63\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:61:00.0/vendor"), "0x10de\n"); /* the kernel's copy */
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:60:00.0/current_link_width"), "0\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:52:00.0/current_link_width"), "16\n");
    assert_true(kit_exists(kit, "n/proc/driver/nvidia/gpus/0000:61:00.0/information"));
    kit_free(kit);
}

static void test_aer(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100 "at:\n"
                            "  - {time: 1m, do: aer, gpu: 1, severity: correctable, error: BadTLP, count: 7}\n"
                            "  - {time: 1m, do: aer, gpu: 1, severity: correctable, error: Timeout, count: 2}\n"
                            "  - {time: 1m, do: aer, gpu: 1, severity: nonfatal, error: CmpltTO, count: 3}\n");
    NodeTree tree;
    write_tree(kit, "n", 60 * SIM_NS, 0, &tree);
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:43:00.0/aer_dev_correctable"),
                        "RxErr 0\nBadTLP 7\nBadDLLP 0\nRollover 0\nTimeout 2\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\n"
                        "TOTAL_ERR_COR 9\n");
    const char *nonfatal = kit_read(kit, "n/sys/bus/pci/devices/0000:43:00.0/aer_dev_nonfatal");
    assert_int_equal(strncmp(nonfatal, "Undefined 0\nDLP 0\n", 18), 0);
    assert_non_null(strstr(nonfatal, "\nCmpltTO 3\n"));
    assert_non_null(strstr(nonfatal, "\nPoisonTLPBlocked 0\nTOTAL_ERR_NONFATAL 3\n"));
    assert_non_null(strstr(kit_read(kit, "n/sys/bus/pci/devices/0000:43:00.0/aer_dev_fatal"), "TOTAL_ERR_FATAL 0\n"));
    assert_non_null(strstr(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/aer_dev_correctable"), "ERR_COR 0\n"));
    kit_free(kit);
}

static uint32_t minor_in(const char *minors, const char *name)
{
    char line[96];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(minors, line);
    return at ? (uint32_t)atoi(at + strlen(line)) : 0;
}

static void test_mig_minors(void **state)
{
    (void)state;
    Kit *kit = kit_new(HEAD "gpus: {board: h100-sxm-80gb, count: 2, mig: [3g.40gb, 2g.20gb, 1g.10gb]}\n");
    NodeTree tree;
    SimNow now;
    write_tree(kit, "n", 0, 0, &tree);
    CLEANUP(str_done) Str minors;
    str_init(&minors, 1 << 20);
    kit_ok(file_read(kit_path(kit, "n/proc/driver/nvidia-caps/mig-minors"), 1 << 20, &minors, &kit->err), kit);
    assert_int_equal(strncmp(minors.text, "config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n", 58), 0);
    assert_int_equal(minor_in(minors.text, "gpu0/gi3/access"), 30); /* as k8s clients have seen it */
    assert_int_equal(minor_in(minors.text, "gpu0/gi3/ci0/access"), 31);
    assert_int_equal(minor_in(minors.text, "gpu31/gi14/ci7/access"), 4322);
    assert_string_equal(kit_read(kit, "n/proc/driver/nvidia-caps/sys-minors"), "fabric-imex-mgmt 4323\n");
    uint32_t found = 0;
    for (uint32_t g = 0; g < 2; g++) {
        sim_state_at(kit->image, g, 0, &now);
        for (uint32_t i = 0, gi, ci; sim_mig_device(&now.cond, i, &gi, &ci); i++, found++) {
            char name[64], expected[128];
            uint32_t gi_id = now.cond.gi[gi].id, ci_id = now.cond.ci[ci].id;
            snprintf(name, sizeof name, "gpu%u/gi%u/ci%u/access", g, gi_id, ci_id);
            uint32_t number = minor_in(minors.text, name);
            assert_int_equal(number, node_mig_minor(g, gi_id, (int32_t)ci_id));
            snprintf(expected, sizeof expected, "DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
                     number);
            assert_string_equal(
                kit_read(kit, "n/proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci%u/access", g, gi_id, ci_id),
                expected);
            assert_true(kit_exists(kit, "n/dev/nvidia-caps/nvidia-cap%u", number));
            snprintf(name, sizeof name, "gpu%u/gi%u/access", g, gi_id);
            snprintf(expected, sizeof expected, "DeviceFileMinor: %u\n", minor_in(minors.text, name));
            assert_non_null(
                strstr(kit_read(kit, "n/proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/access", g, gi_id), expected));
        }
    }
    assert_int_equal(found, 6);
    assert_int_equal(node_mig_minor(32, 0, SIM_NONE), 0);
    assert_int_equal(node_mig_minor(0, 15, SIM_NONE), 0);
    assert_int_equal(node_mig_minor(0, 0, 8), 0);
    kit_free(kit);
}

static void test_infiniband(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    char target[PATH_MAX];
    write_tree(kit, "n", 0, 0, &tree);
    assert_int_equal(tree.layout.nic_count, 8);
    for (int i = 0; i < 8; i++) {
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_%d/ports/1/state", i), "4: ACTIVE\n");
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_%d/ports/1/phys_state", i), "5: LinkUp\n");
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_%d/ports/1/rate", i), "400 Gb/sec (4X NDR)\n");
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_%d/ports/1/counters/link_downed", i), "0\n");
        assert_true(kit_exists(kit, "n/sys/class/infiniband/mlx5_%d/ports/1/hw_counters/out_of_sequence", i));
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_%d/device/vendor", i), "0x15b3\n");
    }
    /* the first adapter shares a switch with the first GPU */
    assert_non_null(realpath(kit_path(kit, "n/sys/class/infiniband/mlx5_0/device"), target));
    assert_non_null(strstr(target, "/0000:18:01.0/0000:19:00.0/"));
    kit_free(kit);
}

/* Each adapter carries the planted part of its link in each direction: 400 Gb/s are 12.5e9 words of four octets. */
static void test_network_traffic(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: traffic\nnode: {network: 0.5}\ngpus: {board: h100-sxm-80gb, count: 8}\ntruth: []\n");
    NodeTree tree;

    write_tree(kit, "n", 0, 0, &tree);
    for (uint64_t seconds = 0; seconds <= 20; seconds += 10) {
        char words[32];

        if (seconds > 0)
            assert_int_equal(node_tree_update(&tree, seconds * SIM_NS, NULL), NODE_TREE_CHANGED);
        snprintf(words, sizeof words, "%" PRIu64 "\n", seconds * 6250000000U);
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_7/ports/1/counters/port_xmit_data"), words);
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_7/ports/1/counters/port_rcv_data"), words);
        assert_string_equal(kit_read(kit, "n/sys/class/infiniband/mlx5_7/ports/1/counters/port_xmit_wait"), "0\n");
    }
    kit_free(kit);
}

static void test_without_the_driver(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100 "at: [{time: 0s, do: driver, state: unloaded}]\n");
    NodeTree tree;
    write_tree(kit, "n", 0, 0, &tree);
    assert_false(kit_exists(kit, "n/proc/driver/nvidia"));
    assert_false(kit_exists(kit, "n/proc/driver/nvidia-caps"));
    assert_false(kit_exists(kit, "n/sys/module/nvidia"));
    assert_false(kit_exists(kit, "n/sys/bus/pci/drivers/nvidia"));
    assert_false(kit_exists(kit, "n/sys/bus/pci/devices/0000:1b:00.0/driver"));
    assert_null(strstr(kit_read(kit, "n/proc/modules"), "\nnvidia"));
    assert_null(strstr(kit_read(kit, "n/proc/devices"), "195"));
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/vendor"),
                        "0x10de\n"); /* the hardware stays */
    kit_free(kit);
}

static void test_devices(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    struct stat st;
    write_tree(kit, "n", 0, 0, &tree);
    assert_int_equal(stat(kit_path(kit, "n/dev/nvidia7"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    write_tree(kit, "n", 0, NODE_TREE_DEVICES, &tree);
    assert_int_equal(stat(kit_path(kit, "n/dev/nvidia7"), &st), 0);
    if (geteuid() == 0) {
        assert_true(S_ISCHR(st.st_mode));
        assert_true(st.st_rdev == makedev(195, 7));
        assert_int_equal(stat(kit_path(kit, "n/dev/nvidiactl"), &st), 0);
        assert_true(st.st_rdev == makedev(195, 255));
    } else {
        assert_true(S_ISREG(st.st_mode)); /* nobody else may make devices */
    }
    kit_free(kit);
}

static void test_same_image_same_bytes(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100 "at: [{time: 1m, do: xid, gpu: 3, code: 79}]\n");
    NodeTree tree;
    write_tree(kit, "a", 90 * SIM_NS, 0, &tree);
    write_tree(kit, "b", 0, 0, &tree);
    write_tree(kit, "b", 90 * SIM_NS, 0, &tree); /* over an older one */
    tree_assert_same(kit_path(kit, "a"), kit_path(kit, "b"));
    kit_free(kit);
}

/* By the version in their names; those of another driver go with the tree that had them. */
static void test_libraries(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    char to[PATH_MAX];
    kit_ok(file_write(kit_path(kit, "library"), "bytes", 5, 0644, &kit->err), kit);
    write_tree(kit, "n", 0, 0, &tree);
    kit_ok(node_tree_add_libraries(&tree, kit_path(kit, "library"), &kit->err), kit);
    assert_string_equal(kit_read(kit, "n/usr/lib64/libnvidia-ml.so.590.48.01"), "bytes");
    assert_string_equal(kit_read(kit, "n/usr/lib64/libcuda.so.590.48.01"), "");
    ssize_t n = readlink(kit_path(kit, "n/usr/lib64/libnvidia-ml.so.1"), to, sizeof to - 1);
    assert_true(n > 0);
    to[n] = '\0';
    assert_string_equal(to, "libnvidia-ml.so.590.48.01");
    snprintf(kit->image->driver, sizeof kit->image->driver, "550.54.15");
    write_tree(kit, "n", 0, 0, &tree);
    kit_ok(node_tree_add_libraries(&tree, kit_path(kit, "library"), &kit->err), kit);
    assert_true(kit_exists(kit, "n/usr/lib64/libcuda.so.550.54.15"));
    assert_false(kit_exists(kit, "n/usr/lib64/libcuda.so.590.48.01"));
    assert_int_equal(node_tree_add_libraries(&tree, kit_path(kit, "none"), &kit->err), -ENOENT);
    kit_free(kit);
}

static void test_foreign_folders_are_left_alone(void **state)
{
    (void)state;
    Kit *kit = kit_new(H100);
    NodeTree tree;
    kit_ok(file_make_dirs(kit_path(kit, "home/proc"), 0755, &kit->err), kit);
    assert_int_equal(node_tree_write(kit->image, kit_path(kit, "home"), 0, 0, &tree, &kit->err), -EEXIST);
    assert_non_null(strstr(kit->err.text, "holds other files"));
    assert_true(kit_exists(kit, "home/proc"));
    assert_int_equal(node_tree_write(kit->image, "/", 0, 0, &tree, &kit->err), -EEXIST);
    char longer[400];
    memset(longer, 'a', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(node_tree_write(kit->image, longer, 0, 0, &tree, &kit->err), -ENAMETOOLONG);
    kit_free(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver_files),
        cmocka_unit_test(test_older_driver_is_proprietary),
        cmocka_unit_test(test_pci_devices),
        cmocka_unit_test(test_every_function_is_listed),
        cmocka_unit_test(test_nvswitches),
        cmocka_unit_test(test_config_is_what_the_link_files_say),
        cmocka_unit_test(test_a_lost_gpu_reads_ones),
        cmocka_unit_test(test_aer),
        cmocka_unit_test(test_mig_minors),
        cmocka_unit_test(test_infiniband),
        cmocka_unit_test(test_network_traffic),
        cmocka_unit_test(test_without_the_driver),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_same_image_same_bytes),
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_foreign_folders_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
