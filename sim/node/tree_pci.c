/* SPDX-License-Identifier: Apache-2.0 */
/* sys/devices/pciDDDD:BB, sys/bus/pci: one folder per function, in the shapes of Linux 6. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/num.h"
#include "sim/node/tree_part.h"

enum { ALL_ONES_GEN = 15, ALL_ONES_WIDTH = 63, LINK_GEN_MAX = 6 };

static const char *const driver_names[] = {
    [PCI_ROOT_PORT] = "pcieport", [PCI_UPSTREAM] = "pcieport", [PCI_DOWNSTREAM] = "pcieport",
    [PCI_GPU] = "nvidia",         [PCI_NIC] = "mlx5_core",     [PCI_NVSWITCH] = "nvidia-nvswitch",
};

static bool has_driver(const NodeTree *tree, const PciFn *fn)
{
    if (fn->kind == PCI_GPU)
        return tree->gpus[fn->which].driver;
    return fn->kind != PCI_NVSWITCH || tree->driver != SIM_DRIVER_UNLOADED;
}

static PciLink gpu_link(const NodeTree *tree, uint32_t gpu)
{
    const SimBoard *board = &tree->image->boards[tree->image->gpus[gpu].board];
    const NodeTreeGpu *now = &tree->gpus[gpu];
    uint32_t max_gen = board->gpu_max_pcie_gen > board->pcie_gen ? board->gpu_max_pcie_gen : board->pcie_gen;
    return (PciLink){now->pcie_gen, now->pcie_width, max_gen, board->pcie_width};
}

/* The link of a function as sysfs and its configuration space show it. */
static PciLink tree_pci_link(const NodeTree *tree, int at)
{
    const PciFn *fn = &tree->layout.fn[at];
    PciLink link = {5, 16, 5, 16};
    if (fn->kind == PCI_GPU)
        return gpu_link(tree, fn->which);
    if (fn->kind == PCI_NVSWITCH)
        return (PciLink){2, 1, 2, 1};
    if (fn->of == SIM_NONE)
        return link;
    const PciFn *below = &tree->layout.fn[fn->of];
    PciLink end = tree_pci_link(tree, fn->of);
    bool gone = below->kind == PCI_GPU && (!tree->gpus[below->which].present || tree->gpus[below->which].lost);
    link.gen = gone ? 1 : end.gen;
    link.width = gone ? 0 : end.width; /* nothing answers at the other end */
    if (below->kind == PCI_GPU) {
        const NodeTreeGpu *gpu = &tree->gpus[below->which];
        link.max_gen = gpu->slot_gen ? gpu->slot_gen : link.max_gen;
        link.max_width = gpu->slot_width ? gpu->slot_width : link.max_width;
    }
    return link;
}

static const char *speed_text(uint32_t gen)
{
    static const char *const texts[] = {"Unknown",        "2.5 GT/s PCIe",  "5.0 GT/s PCIe", "8.0 GT/s PCIe",
                                        "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"};
    return gen < ARRAY_LEN(texts) ? texts[gen] : texts[0];
}

static void link_files(const NodeTree *tree, Put *put, int at)
{
    const PciFn *fn = &tree->layout.fn[at];
    bool lost = fn->kind == PCI_GPU && (tree->gpus[fn->which].lost || tree->gpus[fn->which].asleep);
    PciLink link = tree_pci_link(tree, at);
    uint8_t config[PCI_CONFIG_MAX];
    uint32_t size = pci_config(tree->image, fn, &link, config);
    if (lost) { /* every read of a device that is gone or without power gives ones; the kernel shows what they mean */
        memset(config, 0xff, size);
        link = (PciLink){ALL_ONES_GEN, ALL_ONES_WIDTH, LINK_GEN_MAX, ALL_ONES_WIDTH};
    }
    put_bytes(put, "config", config, size, 0644);
    put_line(put, "current_link_speed", "%s", speed_text(link.gen));
    put_line(put, "current_link_width", "%u", link.width);
    put_line(put, "max_link_speed", "%s", speed_text(link.max_gen));
    put_line(put, "max_link_width", "%u", link.max_width);
}

/* ---- AER ---- */

static const char *const correctable[] = {"RxErr",   "BadTLP",      "BadDLLP",    "Rollover",
                                          "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF"};
static const char *const uncorrectable[] = {"Undefined",     "DLP",
                                            "SDES",          "TLP",
                                            "FCP",           "CmpltTO",
                                            "CmpltAbrt",     "UnxCmplt",
                                            "RxOF",          "MalfTLP",
                                            "ECRC",          "UnsupReq",
                                            "ACSViol",       "UncorrIntErr",
                                            "BlockedTLP",    "AtomicOpBlocked",
                                            "TLPBlockedErr", "PoisonTLPBlocked"};

static void aer_file(Put *put, const char *name, const char *total, const uint64_t count[16], int kind)
{
    const char *const *names = kind ? uncorrectable : correctable;
    size_t n = kind ? ARRAY_LEN(uncorrectable) : ARRAY_LEN(correctable);
    CLEANUP(str_done) Str text;
    uint64_t sum = 0;
    str_init(&text, PUT_FILE_MAX);
    for (size_t i = 0; i < n; i++) {
        uint64_t value = i < 16 ? count[i] : 0;
        str_addf(&text, "%s %llu\n", names[i], (unsigned long long)value);
        sum += value;
    }
    put_line(put, name, "%s%s %llu", text.text, total, (unsigned long long)sum);
}

static void aer_files(const NodeTree *tree, Put *put, const PciFn *fn)
{
    static const uint64_t none[3][16];
    const PciFn *below = fn->of != SIM_NONE ? &tree->layout.fn[fn->of] : NULL;
    const uint64_t(*count)[16] = fn->kind == PCI_GPU ? tree->gpus[fn->which].aer : none;
    if (below && below->kind == PCI_GPU)
        count = tree->gpus[below->which].port_aer;
    aer_file(put, "aer_dev_correctable", "TOTAL_ERR_COR", count[0], 0);
    aer_file(put, "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", count[1], 1);
    aer_file(put, "aer_dev_fatal", "TOTAL_ERR_FATAL", count[2], 1);
    if (fn->kind == PCI_ROOT_PORT) {
        put_line(put, "aer_rootport_total_err_cor", "0");
        put_line(put, "aer_rootport_total_err_nonfatal", "0");
        put_line(put, "aer_rootport_total_err_fatal", "0");
    }
}

/* ---- what does not change ---- */

/* CPUs and memory near the function: those of a GPU, for NVSwitches those of the first. */
static const SimGpuId *nearest_gpu(const NodeTree *tree, const PciFn *fn)
{
    if (fn->kind == PCI_NIC)
        fn = &tree->layout.fn[fn->parent];
    uint32_t gpu = fn->kind == PCI_NVSWITCH || fn->which >= tree->image->gpu_count ? 0 : fn->which;
    return &tree->image->gpus[gpu];
}

static void identity_files(const NodeTree *tree, Put *put, const PciFn *fn)
{
    PciIds ids = pci_ids(tree->image, fn);
    put_line(put, "vendor", "0x%04x", ids.vendor);
    put_line(put, "device", "0x%04x", ids.device);
    put_line(put, "class", "0x%06x", ids.class_code);
    put_line(put, "subsystem_vendor", "0x%04x", ids.subsystem_vendor);
    put_line(put, "subsystem_device", "0x%04x", ids.subsystem_device);
    put_line(put, "revision", "0x%02x", ids.revision);
    put_line(put, "modalias", "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", ids.vendor, ids.device,
             ids.subsystem_vendor, ids.subsystem_device, ids.class_code >> 16, (ids.class_code >> 8) & 0xff,
             ids.class_code & 0xff);
    put_line(put, "numa_node", "%u", nearest_gpu(tree, fn)->numa_node);
    put_line(put, "local_cpulist", "%s", nearest_gpu(tree, fn)->cpulist);
    put_line(put, "irq", "%u", 64 + (fn->bus & 0xff));
    put_line(put, "power_state", "D0");
    CLEANUP(str_done) Str regions;
    str_init(&regions, PUT_FILE_MAX);
    pci_resources(tree->image, fn, &regions);
    put_text(put, "resource", "%s", regions.text);
    if (fn->kind <= PCI_DOWNSTREAM) {
        put_line(put, "secondary_bus_number", "%u", fn->secondary);
        put_line(put, "subordinate_bus_number", "%u", fn->last);
    }
}

static void up_link(Put *put, const char *name, uint32_t depth, const char *to)
{
    Str target;
    char room[PUT_PATH_MAX];
    str_init_room(&target, room, sizeof room);
    for (uint32_t i = 0; i < depth; i++)
        str_add(&target, "../");
    str_add(&target, to);
    put_link(put, name, target.text);
}

static void driver_files(const NodeTree *tree, Put *put, const PciFn *fn, const char *dir, uint32_t depth)
{
    PciIds ids = pci_ids(tree->image, fn);
    char bdf[PCI_BDF_MAX], to[PCI_PATH_MAX + 32];
    bool bound = has_driver(tree, fn);
    pci_bdf(fn, bdf);
    put_line(put, "enable", "%d", bound);
    put_text(put, "uevent",
             "%s%s%sPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\n"
             "MODALIAS=pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X\n",
             bound ? "DRIVER=" : "", bound ? driver_names[fn->kind] : "", bound ? "\n" : "", ids.class_code, ids.vendor,
             ids.device, ids.subsystem_vendor, ids.subsystem_device, bdf, ids.vendor, ids.device, ids.subsystem_vendor,
             ids.subsystem_device, ids.class_code >> 16, (ids.class_code >> 8) & 0xff, ids.class_code & 0xff);
    if (!bound) {
        put_gone(put, "sys/devices/%s/driver", dir);
        put_gone(put, "sys/bus/pci/drivers/%s/%s", driver_names[fn->kind], bdf);
        return;
    }
    snprintf(to, sizeof to, "bus/pci/drivers/%s", driver_names[fn->kind]);
    up_link(put, "driver", depth, to);
    put_in(put, "sys/bus/pci/drivers/%s", driver_names[fn->kind]);
    snprintf(to, sizeof to, "devices/%s", dir);
    up_link(put, bdf, 4, to);
}

static void power_files(const NodeTree *tree, Put *put, const PciFn *fn, const char *dir)
{
    const bool asleep = fn->kind == PCI_GPU && tree->gpus[fn->which].asleep;
    put_in(put, "sys/devices/%s/power", dir);
    put_line(put, "runtime_status", asleep ? "suspended" : "active");
    put_line(put, "control", asleep ? "auto" : "on");
}

void tree_pci_fn(const NodeTree *tree, Put *put, int at, uint32_t what)
{
    const PciFn *fn = &tree->layout.fn[at];
    char dir[PCI_PATH_MAX], bdf[PCI_BDF_MAX], to[PCI_PATH_MAX + 32];
    uint32_t depth = pci_path(&tree->layout, fn, dir) + 1;
    pci_bdf(fn, bdf);
    if (what & FN_LINK)
        power_files(tree, put, fn, dir);
    put_in(put, "sys/devices/%s", dir);
    if (what == FN_ALL) {
        identity_files(tree, put, fn);
        up_link(put, "subsystem", depth, "bus/pci");
    }
    if (what & FN_LINK)
        link_files(tree, put, at);
    if (what & FN_AER)
        aer_files(tree, put, fn);
    if (what & FN_DRIVER)
        driver_files(tree, put, fn, dir, depth);
    if (what == FN_ALL) { /* last: who finds it finds it whole */
        put_in(put, "sys/bus/pci/devices");
        snprintf(to, sizeof to, "devices/%s", dir);
        up_link(put, bdf, 3, to);
    }
}

void tree_pci_gpu_gone(const NodeTree *tree, Put *put, uint32_t gpu)
{
    const PciFn *fn = &tree->layout.fn[tree->layout.gpu[gpu]];
    char dir[PCI_PATH_MAX], bdf[PCI_BDF_MAX];
    pci_path(&tree->layout, fn, dir);
    pci_bdf(fn, bdf);
    put_gone(put, "sys/bus/pci/devices/%s", bdf);
    put_gone(put, "sys/bus/pci/drivers/%s/%s", driver_names[PCI_GPU], bdf);
    put_gone(put, "sys/devices/%s", dir);
}

void tree_pci_drivers(const NodeTree *tree, Put *put)
{
    static const char *const ours[] = {"nvidia", "nvidia-nvswitch"};
    bool up = tree->driver != SIM_DRIVER_UNLOADED;
    put_in(put, "sys/bus/pci/devices");
    put_in(put, "sys/bus/pci/drivers/pcieport");
    put_in(put, "sys/bus/pci/drivers/mlx5_core");
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (!up || (i == 1 && !tree->layout.switch_count)) {
            put_gone(put, "sys/bus/pci/drivers/%s", ours[i]);
            continue;
        }
        put_in(put, "sys/bus/pci/drivers/%s", ours[i]);
        put_link(put, "module", "../../../../module/nvidia");
    }
}

/* --- network adapters -------------------------------------------------------------------------------------------- */

/* sys/class/infiniband: the network adapters beside the GPUs, with a port that is up. */

static const char *const counters[] = {
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
};
static const char *const hw_counters[] = {
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
};

enum { LINK_GBITS = 400 };

static void put_guid(Put *put, const char *name, uint64_t value)
{
    put_line(put, name, "%04x:%04x:%04x:%04x", (unsigned)(value >> 48), (unsigned)(value >> 32) & 0xffff,
             (unsigned)(value >> 16) & 0xffff, (unsigned)value & 0xffff);
}

/* What a port has carried in each direction by now, in words of four octets. */
static uint64_t words_carried(const NodeTree *tree)
{
    return (uint64_t)(LINK_GBITS * 1e9 / 32 * tree->image->network_permille / 1000 * (double)tree->carried_ns / SIM_NS);
}

static void port_traffic(const NodeTree *tree, Put *put, const char *dir)
{
    const uint64_t words = words_carried(tree);

    put_in(put, "%s/ports/1/counters", dir);
    put_line(put, "port_xmit_data", "%" PRIu64, words);
    put_line(put, "port_rcv_data", "%" PRIu64, words);
}

static void port_files(const NodeTree *tree, Put *put, const char *dir, uint32_t which, uint64_t port_guid)
{
    put_in(put, "%s/ports/1", dir);
    put_line(put, "state", "4: ACTIVE");
    put_line(put, "phys_state", "5: LinkUp");
    put_line(put, "rate", "%d Gb/sec (4X NDR)", LINK_GBITS);
    put_line(put, "link_layer", "InfiniBand");
    put_line(put, "lid", "0x%x", 0x11 + which);
    put_line(put, "sm_lid", "0x1");
    put_line(put, "cap_mask", "0xa651e848");
    put_in(put, "%s/ports/1/gids", dir);
    put_line(put, "0", "fe80:0000:0000:0000:%04x:%04x:%04x:%04x", (unsigned)(port_guid >> 48),
             (unsigned)(port_guid >> 32) & 0xffff, (unsigned)(port_guid >> 16) & 0xffff, (unsigned)port_guid & 0xffff);
    put_in(put, "%s/ports/1/counters", dir);
    for (size_t i = 0; i < ARRAY_LEN(counters); i++)
        put_line(put, counters[i], "0");
    port_traffic(tree, put, dir);
    put_in(put, "%s/ports/1/hw_counters", dir);
    for (size_t i = 0; i < ARRAY_LEN(hw_counters); i++)
        put_line(put, hw_counters[i], i == 2 ? "10" : "0"); /* lifespan: milliseconds that readings are kept */
}

static void put_adapter(const NodeTree *tree, Put *put, uint32_t which)
{
    const PciFn *fn = &tree->layout.fn[tree->layout.nic[which]];
    char path[PCI_PATH_MAX], bdf[PCI_BDF_MAX], dir[PCI_PATH_MAX + 64], to[PCI_PATH_MAX + 64], name[16];
    uint64_t id = 0xa088c20300000000ull | (sim_hash(tree->image->seed, which, 0x696200) & 0xffffff) << 8;
    pci_path(&tree->layout, fn, path);
    pci_bdf(fn, bdf);
    snprintf(name, sizeof name, "mlx5_%u", which);
    snprintf(dir, sizeof dir, "sys/devices/%s/infiniband/%s", path, name);
    port_files(tree, put, dir, which, id);
    put_in(put, "%s", dir);
    snprintf(to, sizeof to, "../../../%s", bdf);
    put_link(put, "device", to);
    put_guid(put, "node_guid", id);
    put_guid(put, "sys_image_guid", id);
    put_line(put, "node_type", "1: CA");
    put_line(put, "node_desc", "%s %s", tree->image->hostname, name);
    put_line(put, "fw_ver", "28.39.1002");
    put_line(put, "hw_rev", "0");
    put_line(put, "hca_type", "MT4129");
    put_line(put, "board_id", "MT_0000000838");
    put_in(put, "sys/class/infiniband");
    snprintf(to, sizeof to, "../../devices/%s/infiniband/%s", path, name);
    put_link(put, name, to);
}

void tree_infiniband(const NodeTree *tree, Put *put)
{
    put_in(put, "sys/class/infiniband");
    for (uint32_t i = 0; i < tree->layout.nic_count; i++)
        put_adapter(tree, put, i);
}

void tree_traffic(const NodeTree *tree, Put *put)
{
    for (uint32_t i = 0; i < tree->layout.nic_count; i++) {
        char path[PCI_PATH_MAX], dir[PCI_PATH_MAX + 64];

        pci_path(&tree->layout, &tree->layout.fn[tree->layout.nic[i]], path);
        snprintf(dir, sizeof dir, "sys/devices/%s/infiniband/mlx5_%u", path, i);
        port_traffic(tree, put, dir);
    }
}
