/* SPDX-License-Identifier: Apache-2.0 */
/* sys/class/infiniband: the network adapters beside the GPUs, with a port that is up. */
#include <stdio.h>

#include "base/owner.h"
#include "sim/core/num.h"
#include "sim/node/tree_part.h"

static const char *const counters[] = {
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
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

static void guid(Put *put, const char *name, uint64_t value)
{
    put_line(put, name, "%04x:%04x:%04x:%04x", (unsigned)(value >> 48), (unsigned)(value >> 32) & 0xffff,
             (unsigned)(value >> 16) & 0xffff, (unsigned)value & 0xffff);
}

static void port_files(Put *put, const char *dir, uint32_t which, uint64_t port_guid)
{
    put_in(put, "%s/ports/1", dir);
    put_line(put, "state", "4: ACTIVE");
    put_line(put, "phys_state", "5: LinkUp");
    put_line(put, "rate", "400 Gb/sec (4X NDR)");
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
    put_in(put, "%s/ports/1/hw_counters", dir);
    for (size_t i = 0; i < ARRAY_LEN(hw_counters); i++)
        put_line(put, hw_counters[i], i == 2 ? "10" : "0"); /* lifespan: milliseconds that readings are kept */
}

static void adapter(const NodeTree *tree, Put *put, uint32_t which)
{
    const PciFn *fn = &tree->layout.fn[tree->layout.nic[which]];
    char path[PCI_PATH_MAX], bdf[PCI_BDF_MAX], dir[PCI_PATH_MAX + 64], to[PCI_PATH_MAX + 64], name[16];
    uint64_t id = 0xa088c20300000000ull | (sim_hash(tree->image->seed, which, 0x696200) & 0xffffff) << 8;
    pci_path(&tree->layout, fn, path);
    pci_bdf(fn, bdf);
    snprintf(name, sizeof name, "mlx5_%u", which);
    snprintf(dir, sizeof dir, "sys/devices/%s/infiniband/%s", path, name);
    port_files(put, dir, which, id);
    put_in(put, "%s", dir);
    snprintf(to, sizeof to, "../../../%s", bdf);
    put_link(put, "device", to);
    guid(put, "node_guid", id);
    guid(put, "sys_image_guid", id);
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
        adapter(tree, put, i);
}
