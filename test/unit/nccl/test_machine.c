/* SPDX-License-Identifier: Apache-2.0 */
/* A topology against the log of its node: each contradiction, and what looks like one and is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "kit.h"

CLEANUP_POINTER(NcclJob, nccl_free);

#define SEAT(host, pid, dev, rank, bus, id)                                                                            \
    INFO(host, pid, dev,                                                                                               \
         "ncclCommInitRank comm 0x" #pid #id " rank " #rank " nranks 2 cudaDev " #dev " nvmlDev " #dev " busId " bus   \
         " commId 0x" #id " - Init COMPLETE")
#define LOG SEAT("a", 11, 0, 0, "6000", 77) SEAT("a", 12, 1, 1, "7000", 77)
#define SAYS(text) INFO("a", 11, 0, text)
#define NVSWITCH "<nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/>"
#define TO(bus) "<nvlink target=\"0000:" bus ":00.0\" count=\"4\" tclass=\"0x030200\"/>"
#define GPU(dev, bus, gdr, inside)                                                                                     \
    "<pci busid=\"0000:" bus                                                                                           \
    ":00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" dev                       \
    "\" sm=\"90\" rank=\"" dev "\" gdr=\"" gdr "\">" inside "</gpu></pci>"
#define NIC(dev, bus, name, mbps, gdr)                                                                                 \
    "<pci busid=\"0000:" bus                                                                                           \
    ":00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic><net name=\"" name                \
    "\" dev=\"" dev "\" speed=\"" mbps "\" port=\"1\" guid=\"0x1\" maxconn=\"1\" gdr=\"" gdr "\"/></nic></pci>"
#define BOX(inside)                                                                                                    \
    "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">" inside "</cpu></system>"
#define SWITCH(inside) "<pci busid=\"0000:05:00.0\" class=\"0x060400\">" inside "</pci>"
#define GPUS(links) GPU("0", "06", "1", links) GPU("1", "07", "1", links)
#define ONE_NIC NIC("0", "09", "mlx5_0", "400000", "1")
#define GOOD BOX(SWITCH(GPUS(NVSWITCH) ONE_NIC))
#define PATTERN(within, between)                                                                                       \
    SAYS("Pattern 4, crossNic 0, nChannels 16, bw 20.0/20.0, type " within "/" between ", sameChannels 1")
#define ADAPTER(mbps, bus)                                                                                             \
    SAYS("NET/IB: [0] mlx5_0:uverbs0:1/RoCE provider=Mlx5 speed=" mbps                                                 \
         " context=0x1 pciPath=/sys/devices/pci0000:00/" bus " ar=0")
#define RDMA(dev) SEND("a", 11, 0, 0, 1, "NET/IB/" dev "/GDRDMA")

static const struct {
    const char *about, *fires, *misses;
} contradictions[] = {
    {"number of an adapter", LOG RDMA("1") "\f" GOOD, LOG RDMA("0") "\f" GOOD},
    {"GPUDirect", LOG RDMA("0") "\f" BOX(SWITCH(GPUS(NVSWITCH) NIC("0", "09", "mlx5_0", "400000", "0"))),
     LOG SEND("a", 11, 0, 0, 1, "NET/IB/0") "\f" BOX(SWITCH(GPUS(NVSWITCH) NIC("0", "09", "mlx5_0", "400000", "0")))},
    {"GPUDirect", LOG RDMA("0") "\f" BOX(SWITCH(GPU("0", "06", "0", "") GPU("1", "07", "1", "") ONE_NIC)),
     LOG RDMA("0") "\f" BOX(SWITCH(GPU("0", "06", "1", "") GPU("1", "07", "0", "") ONE_NIC))},
    {"NVLink", LOG PATTERN("NVL", "PIX") "\f" BOX(SWITCH(GPUS("") ONE_NIC)), LOG PATTERN("NVL", "PIX") "\f" GOOD},
    {"NVLink", LOG PATTERN("PHB", "PIX") "\f" GOOD,
     LOG SAYS("NCCL_P2P_DISABLE set by environment to 1.") PATTERN("PHB", "PIX") "\f" GOOD},
    {"NVLS", LOG SAYS("NVLS Head 0: 0 1") "\f" BOX(SWITCH(GPUS("") ONE_NIC)), LOG SAYS("NVLS Head 0: 0 1") "\f" GOOD},
    {"path to an adapter", LOG PATTERN("NVL", "PIX") "\f" BOX(GPUS(NVSWITCH) ONE_NIC),
     LOG PATTERN("NVL", "PHB") "\f" BOX(GPUS(NVSWITCH) ONE_NIC)},
    {"speed of an adapter", LOG ADAPTER("200000", "0000:09:00.0") "\f" GOOD,
     LOG ADAPTER("400000", "0000:09:00.0") "\f" GOOD},
    {"place of an adapter", LOG ADAPTER("400000", "0000:0a:00.0") "\f" GOOD,
     LOG ADAPTER("400000", "0000:09:00.1") "\f" GOOD},
};

static void test_contradictions(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(contradictions); i++) {
        CLEANUP(nccl_free_at) NcclJob *fires = kit_read(contradictions[i].fires);
        CLEANUP(nccl_free_at) NcclJob *misses = kit_read(contradictions[i].misses);
        const NcclFinding *f = kit_find(nccl_finish(fires), "topo-contradicts");
        if (!f)
            print_error("case %zu, %s, does not fire\n", i, contradictions[i].about);
        assert_non_null(f);
        assert_non_null(strstr(f->detail, contradictions[i].about));
        assert_int_equal(f->evidence_count, 2);
        assert_int_equal(f->evidence[0].place.input, 0); /* the log */
        assert_int_equal(f->evidence[1].place.input, 1);
        f = kit_find(nccl_finish(misses), "topo-contradicts");
        if (f)
            print_error("case %zu fires: %s: %s\n", i, f->detail, f->evidence[0].text);
        assert_null(f);
    }
}

static void quiet(const char *text, const char *id)
{
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);
    const NcclFinding *f = kit_find(nccl_finish(job), id);

    if (f)
        print_error("%s: %s: %s\n", id, f->detail, f->evidence[0].text);
    assert_null(f);
}

/* NCCL writes the GPUs of one communicator only. */
static void test_the_topology_of_a_smaller_communicator(void **state)
{
    (void)state;
    quiet(LOG SEAT("a", 13, 2, 0, "8000", 88) SEAT("a", 14, 3, 1, "9000", 88) "\f" GOOD, "topo-gpu-missing");
    quiet(LOG SEAT("a", 13, 2, 0, "8000", 88) SEAT("a", 14, 3, 1, "9000", 88) "\f" GOOD, "topo-other-machine");
}

/* Of nodes alike each topology is of one, and the name of its file tells which. */
static void test_two_nodes_with_a_topology_each(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(LOG SEAT("node-b", 21, 0, 0, "6000", 88) SEAT("node-b", 22, 1, 1, "7000", 88)
                     INFO("node-b", 21, 0, "NET/IB : Using [0]mlx5_9:1/IB [RO]; OOB eth0:1<0>")
                         SAYS("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:1<0>") "\fname=topo-node-b.xml\n" BOX(
                             SWITCH(GPUS(NVSWITCH) NIC("0", "09", "mlx5_9", "400000", "1"))) "\f" GOOD);
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_null(kit_find(r, "topo-nic-missing"));
    assert_null(kit_find(r, "topo-nic-unlisted"));
}

/* Adapters that are used as one stand under one number and one name. */
static void test_merged_adapters(void **state)
{
    const char *text = LOG SAYS("NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB eth0:1<0>")
        RDMA("0") "\f" BOX(SWITCH(GPUS(NVSWITCH) NIC("0", "09", "mlx5_0+mlx5_1", "800000", "1")));
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);

    (void)state;
    assert_int_equal(nccl_finish(job)->processes.at[0].ib_devices, 1);
    quiet(text, "topo-nic-missing");
    quiet(text, "topo-nic-unlisted");
    quiet(text, "topo-contradicts");
}

/* Shared memory between GPUs that no link joins is what there is. */
static void test_shared_memory_between_pairs(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *linked = kit_read(LOG DIRECT("a", 11, 0, 0, 1, "SHM/direct/direct") "\f" BOX(
        SWITCH(GPU("0", "06", "1", TO("07")) GPU("1", "07", "1", TO("06")))));
    CLEANUP(nccl_free_at)
    NcclJob *apart = kit_read(LOG DIRECT("a", 11, 0, 0, 1, "SHM/direct/direct") "\f" BOX(
        SWITCH(GPU("0", "06", "1", TO("08")) GPU("1", "07", "1", TO("09")) GPU("2", "08", "1", TO("06")))));

    (void)state;
    assert_non_null(kit_find(nccl_finish(linked), "nvlink-unused"));
    assert_null(kit_find(nccl_finish(apart), "nvlink-unused"));
    assert_non_null(kit_find(nccl_finish(apart), "p2p-missing"));
}

static void test_outputs_of_all(void **state)
{
    (void)state;
    kit_check_outputs(GOLDEN "/test_machine.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_the_topology_of_a_smaller_communicator),
        cmocka_unit_test(test_two_nodes_with_a_topology_each),
        cmocka_unit_test(test_merged_adapters),
        cmocka_unit_test(test_shared_memory_between_pairs),
        cmocka_unit_test(test_outputs_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
