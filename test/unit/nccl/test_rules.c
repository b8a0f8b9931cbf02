/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule of src/engine/nccl/rule.def: an input where it must fire, and a near miss where it must not. */
#include "test/unit/golden_json.h"

#include <stdio.h>

#include "engine/nccl/job.h"
#include "kit.h"
#include "service/report/nccl.h"
#include "test/unit/report_sink.h"

CLEANUP_POINTER(NcclJob, nccl_free);

#define ENV(host, pid, text) INFO(host, pid, 0, text)
#define IB(host, pid) ENV(host, pid, "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>")
#define SOCKETS SEND("a", 11, 0, 0, 1, "NET/Socket/0") RECEIVE("b", 12, 0, 0, 1, "NET/Socket/0")
#define PLAIN_IB SEND("a", 11, 0, 0, 1, "NET/IB/0") RECEIVE("b", 12, 0, 0, 1, "NET/IB/0")
#define GDR_IB SEND("a", 11, 0, 0, 1, "NET/IB/0/GDRDMA") RECEIVE("b", 12, 0, 0, 1, "NET/IB/0/GDRDMA")
#define SHM DIRECT("a", 11, 0, 0, 1, "SHM/direct/direct") DIRECT("a", 12, 1, 1, 0, "SHM/direct/direct")
#define P2P DIRECT("a", 11, 0, 0, 1, "P2P/CUMEM") DIRECT("a", 12, 1, 1, 0, "P2P/CUMEM")
#define TIMINGS(total, parts)                                                                                          \
    INFO("a", 11, 0, "Init timings - ncclCommInitRank: rank 0 nranks 2 total " total " (" parts ")")
#define SLOW(part) ONE_NODE TIMINGS("12.50", part " 11.20, alloc 0.10, rest 0.02") ONE_NODE_END
#define QUICK(part) ONE_NODE TIMINGS("9.90", part " 9.20, alloc 0.10, rest 0.02") ONE_NODE_END
#define COLL(host, pid, number, op, count)                                                                             \
    INFO(host, pid, 0,                                                                                                 \
         op ": opCount " number " sendbuff 0x1 recvbuff 0x2 count " count " datatype 7 op 0 root 0 comm 0x" #pid       \
            " [nranks=2] stream 0x3")
#define WATCHDOG(rank, group, seq, op)                                                                                 \
    "[rank" rank "]:[E1105 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID " group " Rank " rank                            \
    "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" seq ", OpType=" op                              \
    ", NumelIn=10, NumelOut=10, Timeout(ms)=10000) ran for 10028 milliseconds before timing out.\n"

/* Topology: attributes of GPU 1 and of the second adapter vary. */
#define GPU(dev, bus, width, speed, inside)                                                                            \
    "<pci busid=\"0000:" bus ":00.0\" class=\"0x030200\" link_speed=\"" speed " GT/s PCIe\" link_width=\"" width "\">" \
    "<gpu dev=\"" dev "\" sm=\"90\" rank=\"" dev "\" gdr=\"1\">" inside "</gpu></pci>"
#define NIC(dev, bus, mbps, gdr)                                                                                       \
    "<pci busid=\"0000:" bus                                                                                           \
    ":00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic><net name=\"mlx5_" dev            \
    "\" dev=\"" dev "\" speed=\"" mbps "\" port=\"1\" guid=\"0x1\" maxconn=\"262144\" gdr=\"" gdr "\"/></nic></pci>"
#define LINKS(count) "<nvlink target=\"fffffff:ffff:ff\" count=\"" count "\" tclass=\"0x068000\"/>"
#define XGMI(count) "<xgmi target=\"0000:0c:00.0\" count=\"" count "\" tclass=\"0x120000\"/>"
#define AMD_GPU(dev, bus, inside)                                                                                      \
    "<pci busid=\"0000:" bus                                                                                           \
    ":00.0\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" dev                       \
    "\" sm=\"304\" gcn=\"gfx942\" arch=\"38911\" rank=\"" dev "\" gdr=\"1\">" inside "</gpu></pci>"
#define SWITCH(bus, inside)                                                                                            \
    "<pci busid=\"0000:" bus ":00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">" inside      \
    "</pci>"
#define CPU(numa, inside)                                                                                              \
    "<cpu numaid=\"" numa                                                                                              \
    "\" affinity=\"ff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">" inside "</cpu>"
#define SYSTEM(inside) "<system version=\"1\">" inside "</system>"
#define GOOD_GPU(dev, bus) GPU(dev, bus, "16", "32.0", LINKS("18"))
#define TWO_GPUS(second)                                                                                               \
    SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", "06") NIC("0", "07", "400000", "1")))                                   \
               CPU("1", SWITCH("15", second NIC("1", "17", "400000", "1"))))
#define TWO_NICS(second)                                                                                               \
    SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", "06") NIC("0", "07", "400000", "1")                                     \
                                     SWITCH("08", GOOD_GPU("1", "09") second))))
#define AMD_GPUS(second) SYSTEM(CPU("0", AMD_GPU("0", "06", XGMI("7")) second))
#define GOOD TWO_GPUS(GOOD_GPU("1", "16"))
#define BARE_GPUS SYSTEM(CPU("0", GPU("0", "06", "16", "32.0", "") GPU("1", "07", "16", "32.0", "")))
#define GRAPH(inter)                                                                                                   \
    "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"16\" speedintra=\"20\" "           \
    "speedinter=\"20\" "                                                                                               \
    "typeintra=\"NVL\" typeinter=\"" inter "\" samechannels=\"1\"/></graphs>"

/* A log whose GPUs are those of a topology. */
#define ON_GPU(host, pid, bus, id)                                                                                     \
    INFO(host, pid, 0,                                                                                                 \
         "ncclCommInitRank comm 0x" #pid " rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId " bus " commId 0x" id             \
         " - Init START")
#define SEAT(pid, dev, rank, nranks, bus)                                                                              \
    INFO("a", pid, dev,                                                                                                \
         "ncclCommInitRank comm 0x" #pid " rank " #rank " nranks " #nranks " cudaDev " #dev " nvmlDev " #dev           \
         " busId " bus " commId 0x77 - Init COMPLETE")                                                                 \
    NODES("a", pid, dev, rank, nranks, 1, nranks)
#define HERE SEAT(11, 0, 0, 2, "6000") SEAT(12, 1, 1, 2, "7000")
#define HERE_ONE SEAT(11, 0, 0, 1, "6000")
#define LISTED(name) ENV("a", 11, "NET/IB : Using [0]" name ":1/IB [RO]; OOB eth0:10.0.0.1<0>")
#define GOOD_HERE(first, second)                                                                                       \
    SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", first) GOOD_GPU("1", second) NIC("0", "09", "400000", "1"))))

/* nccl-tests */
#define BENCH_HEAD                                                                                                     \
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20\n# Using devices\n"
#define BENCH_RANK(rank, host) "#  Rank  " rank " Group  0 Pid 89554 on " host " device  0 [0x18] NVIDIA H100\n"
#define BENCH_COLUMNS                                                                                                  \
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "   \
    "#wrong\n"                                                                                                         \
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)   " \
    "    \n"
#define BENCH_ROW(size, bus, wrong) size " 2 float sum -1 10.0 1.00 " bus " " wrong " 10.0 1.00 " bus " 0\n"
#define BENCH_END(average)                                                                                             \
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : " average                                                 \
    "\n#\n# Collective test concluded: all_reduce_perf\n"
#define RUN2(rows, average) BENCH_HEAD BENCH_RANK("0", "a") BENCH_RANK("1", "a") BENCH_COLUMNS rows BENCH_END(average)
#define RUN4(rows)                                                                                                     \
    BENCH_HEAD BENCH_RANK("0", "a") BENCH_RANK("1", "a") BENCH_RANK("2", "a") BENCH_RANK("3", "a")                     \
        BENCH_COLUMNS rows BENCH_END("90")

/* Flight recorder */
#define CALL(record, seq, op, size, type, state)                                                                       \
    "{\"record_id\":" record ",\"pg_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":" seq        \
    ",\"p2p_seq_id\":0,\"op_id\":1,\"profiling_name\":\"nccl:" op "\",\"input_sizes\":[[" size                         \
    "]],\"input_dtypes\":[\"" type "\"],\"output_sizes\":[[" size "]],\"output_dtypes\":[\"" type                      \
    "\"],\"state\":\"" state "\",\"retired\":false,\"is_p2p\":false}"
#define DUMP(rank, calls)                                                                                              \
    "name=trace_rank_" rank                                                                                            \
    "\n{\"version\":\"2.9\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}},"      \
    "\"pg_status\":{},\"entries\":[" calls "]}"
#define DONE1 CALL("0", "1", "all_reduce", "8", "Float", "completed")
#define CALL2(op, size, type, state) DONE1 "," CALL("1", "2", op, size, type, state)
#define BOTH(second) DUMP("0", CALL2("all_reduce", "8", "Float", "started")) "\f" DUMP("1", second)
#define BOTH_DONE                                                                                                      \
    DUMP("0", CALL2("all_reduce", "8", "Float", "completed"))                                                          \
    "\f" DUMP("1", CALL2("all_reduce", "8", "Float", "completed"))
#define P2P_CALL(op)                                                                                                   \
    "{\"record_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":0,\"p2p_seq_id\":1,\"profiling_"  \
    "name\":\"nccl:" op "\",\"input_sizes\":[[8]],\"output_sizes\":[[8]],\"state\":\"started\",\"is_p2p\":true}"

static const struct {
    const char *id, *fires, *misses;
} cases[] = {
    {"flight-type-mismatch", BOTH(CALL2("broadcast", "8", "Float", "started")),
     BOTH(CALL2("all_reduce", "8", "Float", "started"))},
    {"flight-size-mismatch", BOTH(CALL2("all_reduce", "9", "Float", "started")),
     DUMP("0", CALL2("all_to_all", "8", "Float", "started")) "\f" DUMP("1",
                                                                       CALL2("all_to_all", "9", "Float", "started"))},
    {"flight-dtype-mismatch", BOTH(CALL2("all_reduce", "8", "Half", "started")),
     BOTH(CALL2("all_reduce", "8", "Float", "started"))},
    {"flight-behind", BOTH(DONE1), BOTH(CALL2("all_reduce", "8", "Float", "started"))},
    {"flight-not-started", BOTH(CALL2("all_reduce", "8", "Float", "scheduled")),
     BOTH(CALL2("all_reduce", "8", "Float", "started"))},
    {"flight-open", DUMP("0", CALL2("all_reduce", "8", "Float", "started")),
     BOTH(CALL2("all_reduce", "8", "Float", "started"))},
    {"flight-two-dumps", BOTH_DONE "\f" DUMP("1", DONE1), BOTH_DONE},
    {"log-twice", "name=x\n" ONE_NODE "\fname=y\n" ONE_NODE, "name=x\n" ONE_NODE "\fname=y\n" ONE_NODE_END},
    {"rank-twice", ONE_NODE ONE_NODE_END START("b", 99, 0, 0, 2, 77),
     ONE_NODE ONE_NODE_END START("b", 99, 0, 0, 2, 78)},
    {"two-runs", ONE_NODE ONE_NODE_END ON_GPU("a", 99, "11000", "78"),
     ONE_NODE ONE_NODE_END ON_GPU("a", 99, "13000", "78")},
    {"flight-hung", BOTH(CALL2("all_reduce", "8", "Float", "started")), BOTH_DONE},
    {"flight-p2p-unmatched", DUMP("0", P2P_CALL("send 0->1")) "\f" DUMP("1", DONE1),
     DUMP("0", P2P_CALL("send 0->1")) "\f" DUMP("1", P2P_CALL("recv 1<-0"))},
    {"flight-buffer-wrapped", DUMP("0", CALL("9", "7", "all_reduce", "8", "Float", "started")) "\f" DUMP("1", DONE1),
     DUMP("0", CALL("9", "2", "all_reduce", "8", "Float", "started")) "\f" DUMP("1", DONE1)},
    {"flight-missing-dump", DUMP("0", CALL2("all_reduce", "8", "Float", "started")), DUMP("0", DONE1)},
    {"collective-mismatch",
     TWO_NODES TWO_NODES_END COLL("a", 11, "1f", "AllReduce", "1024") COLL("b", 12, "1f", "AllGather", "1024"),
     TWO_NODES TWO_NODES_END COLL("a", 11, "1f", "AllReduce", "1024") COLL("b", 12, "20", "AllGather", "1024")},
    {"opcount-differs",
     TWO_NODES TWO_NODES_END COLL("a", 11, "1f", "AllReduce", "8") COLL("b", 12, "1e", "AllReduce", "8"),
     TWO_NODES TWO_NODES_END COLL("a", 11, "1f", "AllReduce", "8") COLL("b", 12, "1f", "AllReduce", "8")},
    {"watchdog-timeout", WATCHDOG("0", "0(default_pg)", "2", "ALLREDUCE"),
     "[rank0]:[I ProcessGroupNCCL.cpp:616] Watchdog started\n" ONE_NODE ONE_NODE_END},
    {"watchdog-silent-rank",
     START("a", 11, 0, 0, 4, 77) COMPLETE("a", 11, 0, 0, 4, 77) WATCHDOG("0", "0(g)", "2", "ALLREDUCE")
         WATCHDOG("1", "0(g)", "2", "ALLREDUCE") WATCHDOG("3", "0(g)", "2", "ALLREDUCE"),
     START("a", 11, 0, 0, 4, 77) COMPLETE("a", 11, 0, 0, 4, 77) WATCHDOG("0", "0(g)", "2", "ALLREDUCE")
         WATCHDOG("1", "0(g)", "2", "ALLREDUCE")},
    {"ib-retry-exceeded",
     WARN("a", 11, 0,
          "NET/IB : Got completion from peer 10.0.0.2<5> with status=12 opcode=1 len=0 vendor err 129 (Send)"),
     WARN("a", 11, 0,
          "NET/IB : Got completion from peer 10.0.0.2<5> with status=5 opcode=1 len=0 vendor err 249 (Send)")},
    {"ib-rnr-exceeded", WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with status=13 opcode=1"),
     WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with status=12 opcode=13")},
    {"ib-flushed", WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with error 5, opcode 129"),
     WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with error 12, opcode 5")},
    {"ib-protection", WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with status=4 opcode=1"),
     WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with status=14 opcode=1")},
    {"ib-completion-error", WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with status=11 opcode=1"),
     WARN("a", 11, 0, "NET/IB : Got completion from peer 10.0.0.2<5> with status=4 opcode=11")},
    {"ib-async-event", WARN("a", 11, 0, "NET/IB : mlx5_0:1 Got async event : port error"),
     INFO("a", 11, 0, "NET/IB : Using network, no async event")},
    {"ib-connect", WARN("a", 11, 0, "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1"),
     WARN("a", 11, 0, "Call to connect returned Connection timed out")},
    {"connect-refused", INFO("a", 11, 0, "Call to connect returned Connection refused, retrying"),
     INFO("a", 11, 0, "Connected all rings")},
    {"connect-timeout", WARN("a", 11, 0, "Call to connect returned Connection timed out"),
     INFO("a", 11, 0, "NCCL_IB_TIMEOUT set by environment to 22.")},
    {"no-route", WARN("a", 11, 0, "socketStartConnect: Connect to 10.0.0.2<5> failed : No route to host"),
     INFO("a", 11, 0, "NET/Socket : Using [0]eth0:10.0.0.1<0>")},
    {"peer-closed", WARN("a", 11, 0, "Net : Connection closed by remote peer b<5>"),
     INFO("a", 11, 0, "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Destroy COMPLETE")},
    {"no-interface", WARN("a", 11, 0, "Bootstrap : no socket interface found"),
     INFO("a", 11, 0, "Bootstrap : Using eth0:10.0.0.1<0>")},
    {"net-plugin-failed", WARN("a", 11, 0, "Error: network AWS Libfabric not found."),
     INFO("a", 11, 0, "NET/Plugin : No plugin found (libnccl-net.so), using internal")},
    {"shm-full", WARN("a", 11, 0, "Error while creating shared memory segment /dev/shm/nccl-Ab (size 9637888)"),
     INFO("a", 11, 0, "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")},
    {"memlock", WARN("a", 11, 0, "Call to ibv_reg_mr failed with error Cannot allocate memory"),
     WARN("a", 11, 0, "Call to ibv_reg_mr failed with error Bad address")},
    {"cuda-out-of-memory", WARN("a", 11, 0, "Cuda failure 'out of memory'"),
     WARN("a", 11, 0, "Cuda failure 'invalid argument'")},
    {"cuda-failure", WARN("a", 11, 0, "Cuda failure 700 'an illegal memory access was encountered'"),
     WARN("a", 11, 0, "Cuda failure 'out of memory'")},
    {"cuda-driver-version",
     WARN("a", 11, 0, "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'"),
     INFO("a", 11, 0, "cudaDriverVersion 12040")},
    {"duplicate-gpu", WARN("a", 11, 0, "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000"),
     ONE_NODE P2P ONE_NODE_END},
    {"segfault", "[ 123.4] python[7]: segfault at 8 ip 00007f sp 00007f error 4 in libnccl.so.2[7f+1]\n",
     "[ 123.4] python[7]: segfault at 8 error 4 in libc.so.6\n"},
    {"invalid-usage", WARN("a", 11, 0, "AllReduce : invalid root 4 : Invalid argument"),
     INFO("a", 11, 0, "Connected all trees")},
    {"ras", "Errors: DEAD\n", "Errors: none\n"},
    {"nccl-warned", WARN("a", 11, 0, "something that nobody knows"), INFO("a", 11, 0, "something that nobody knows")},
    {"no-libibverbs", WARN("a", 11, 0, "Failed to open libibverbs.so[.1]"),
     WARN("a", 11, 0, "Failed to open libfoo.so")},
    {"ib-event", WARN("a", 11, 0, "NET/IB : mlx5_0:1 Got async event : GID table change"),
     WARN("a", 11, 0, "NET/IB : mlx5_0:1 Got async event : port error")},
    {"shm-not-shared",
     WARN("a", 11, 0,
          "Error while attaching to shared memory segment /dev/shm/nccl-a (size 9), error: No such file or directory "
          "(2)"),
     WARN("a", 11, 0,
          "Error while attaching to shared memory segment /dev/shm/nccl-a (size 9), error: Permission denied (13)")},
    {"init-missing-rank", START("a", 11, 0, 0, 3, 77) START("a", 12, 1, 1, 3, 77),
     START("a", 11, 0, 0, 3, 77) COMPLETE("a", 11, 0, 0, 3, 77)},
    {"init-incomplete", ONE_NODE COMPLETE("a", 11, 0, 0, 2, 77), ONE_NODE ONE_NODE_END},
    {"slow-init-kernels", SLOW("kernels"), QUICK("kernels")},
    {"slow-init-bootstrap", SLOW("bootstrap"), QUICK("bootstrap")},
    {"slow-init-topology", SLOW("topo"), SLOW("bootstrap")},
    {"slow-init-connections", SLOW("connections"), QUICK("connections")},
    {"slow-init", SLOW("graphs"), QUICK("graphs")},
    {"ib-disabled",
     TWO_NODES ENV("a", 11, "NCCL_IB_DISABLE set by environment to 1.") IB("a", 11) SOCKETS TWO_NODES_END,
     ONE_NODE ENV("a", 11, "NCCL_IB_DISABLE set by environment to 1.") P2P ONE_NODE_END},
    {"net-forced-socket", TWO_NODES ENV("a", 11, "NCCL_NET set by environment to Socket") SOCKETS TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NCCL_NET set by environment to IB") GDR_IB TWO_NODES_END},
    {"net-socket", TWO_NODES IB("a", 11) SOCKETS TWO_NODES_END, TWO_NODES SOCKETS TWO_NODES_END},
    {"net-socket-only", TWO_NODES ENV("a", 11, "NET/IB : No device found.") SOCKETS TWO_NODES_END,
     ONE_NODE ENV("a", 11, "NET/IB : No device found.") P2P ONE_NODE_END},
    {"gdr-disabled",
     TWO_NODES ENV("a", 11, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'") PLAIN_IB TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'") GDR_IB TWO_NODES_END},
    {"gdr-level", TWO_NODES ENV("a", 11, "NCCL_NET_GDR_LEVEL set by environment to LOC") PLAIN_IB TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NCCL_NET_GDR_LEVEL set by environment to SYS") PLAIN_IB TWO_NODES_END},
    {"gdr-distance",
     TWO_NODES ENV("a", 11, "NET/IB : GPU Direct RDMA Disabled for GPU c8000[3] / HCA 0 (distance 5 >= 4)")
         PLAIN_IB TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NET/IB : GPU Direct RDMA Disabled for GPU c8000[3] / HCA 0 (distance 5 >= 4)")
         GDR_IB TWO_NODES_END},
    {"gdr-unused", TWO_NODES ENV("a", 11, "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'") PLAIN_IB TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'") GDR_IB TWO_NODES_END},
    {"gdr-missing", TWO_NODES PLAIN_IB TWO_NODES_END,
     TWO_NODES SEND("a", 11, 0, 0, 1, "NET/IB/0") RECEIVE("b", 12, 0, 0, 1, "NET/IB/0/GDRDMA") TWO_NODES_END},
    {"gdr-partial", TWO_NODES GDR_IB RECEIVE("a", 11, 0, 1, 0, "NET/IB/0") TWO_NODES_END,
     TWO_NODES GDR_IB RECEIVE("a", 11, 0, 1, 0, "NET/IB/0/GDRDMA(PCI)") TWO_NODES_END},
    {"p2p-disabled", ONE_NODE ENV("a", 11, "NCCL_P2P_DISABLE set by environment to 1.") SHM ONE_NODE_END,
     ONE_NODE ENV("a", 11, "NCCL_P2P_DISABLE set by environment to 0.") SHM ONE_NODE_END},
    {"p2p-level", ONE_NODE ENV("a", 11, "NCCL_P2P_LEVEL set by environment to PIX") SHM ONE_NODE_END,
     ONE_NODE ENV("a", 11, "NCCL_P2P_LEVEL set by environment to PIX") P2P ONE_NODE_END},
    {"nvlink-unused", ONE_NODE SHM ONE_NODE_END "\f" GOOD, ONE_NODE SHM ONE_NODE_END "\f" BARE_GPUS},
    {"p2p-missing", ONE_NODE SHM ONE_NODE_END, ONE_NODE P2P ONE_NODE_END},
    {"shm-disabled",
     ONE_NODE ENV("a", 11, "NCCL_SHM_DISABLE set by environment to 1.") DIRECT("a", 11, 0, 0, 1, "NET/Socket/0")
         ONE_NODE_END,
     ONE_NODE ENV("a", 11, "NCCL_SHM_DISABLE set by environment to 1.") P2P ONE_NODE_END},
    {"net-in-node", ONE_NODE DIRECT("a", 11, 0, 0, 1, "NET/Socket/0") ONE_NODE_END,
     TWO_NODES DIRECT("a", 11, 0, 0, 1, "NET/Socket/0") TWO_NODES_END},
    {"nvls-disabled", ONE_NODE ENV("a", 11, "NCCL_NVLS_ENABLE set by environment to 0.") P2P ONE_NODE_END "\f" GOOD,
     ONE_NODE ENV("a", 11, "NCCL_NVLS_ENABLE set by environment to 0.") P2P ONE_NODE_END "\f" BARE_GPUS},
    {"ib-adapter-unused",
     START("a", 11, 0, 0, 3, 77) START("a", 12, 1, 1, 3, 77) START("b", 13, 0, 2, 3, 77)
         ENV("a", 11, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:1<0>")
             RECEIVE("a", 11, 0, 2, 0, "NET/IB/0/GDRDMA") SEND("a", 12, 1, 1, 2, "NET/IB/0/GDRDMA")
                 INFO("a", 12, 1, "Channel 01/0 : 1[0] -> 2[0] [send] via NET/IB/0/GDRDMA"),
     START("a", 11, 0, 0, 3, 77) START("a", 12, 1, 1, 3, 77) START("b", 13, 0, 2, 3, 77)
         ENV("a", 11, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:1<0>")
             RECEIVE("a", 11, 0, 2, 0, "NET/IB/0/GDRDMA") SEND("a", 12, 1, 1, 2, "NET/IB/1/GDRDMA")},
    {"cross-nic",
     TWO_NODES ENV("a", 11, "NCCL_CROSS_NIC set by environment to 1.") SEND("a", 11, 0, 0, 1, "NET/IB/0/GDRDMA")
         RECEIVE("b", 12, 0, 0, 1, "NET/IB/1/GDRDMA") TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NCCL_CROSS_NIC set by environment to 1.") GDR_IB TWO_NODES_END},
    {"interface-virtual", TWO_NODES ENV("a", 11, "Bootstrap : Using docker0:172.17.0.1<0>") GDR_IB TWO_NODES_END,
     ONE_NODE ENV("a", 11, "Bootstrap : Using docker0:172.17.0.1<0>") P2P ONE_NODE_END},
    {"version-differs", ENV("a", 11, "NCCL version 2.21.5+cuda12.4") ENV("b", 12, "NCCL version 2.20.5+cuda12.4"),
     ENV("a", 11, "NCCL version 2.21.5+cuda12.4") ENV("b", 12, "NCCL version 2.21.5+cuda12.4")},
    {"net-differs", ENV("a", 11, "Using network IB") ENV("b", 12, "Using network Socket"),
     ENV("a", 11, "Using network IB") ENV("b", 12, "Using network IB")},
    {"channels-differ",
     ONE_NODE INFO("a", 11, 0,
                   "16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer")
         INFO("a", 12, 1,
              "8 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer")
             ONE_NODE_END,
     ONE_NODE INFO("a", 11, 0,
                   "16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer")
         INFO("a", 12, 1,
              "16 coll channels, 0 collnet channels, 0 nvls channels, 8 p2p channels, 2 p2p channels per peer")
             ONE_NODE_END},
    {"env-differs",
     ENV("a", 11, "NCCL_ALGO set by environment to Ring") ENV("b", 12, "NCCL_ALGO set by environment to Tree"),
     ENV("a", 11, "NCCL_DEBUG_FILE set by environment to /tmp/1")
         ENV("b", 12, "NCCL_DEBUG_FILE set by environment to /tmp/2")},
    {"env-missing", TWO_NODES ENV("a", 11, "NCCL_IB_HCA set by environment to mlx5") GDR_IB TWO_NODES_END,
     TWO_NODES ENV("a", 11, "NCCL_IB_HCA set by environment to mlx5")
         ENV("b", 12, "NCCL_IB_HCA set by environment to mlx5") GDR_IB TWO_NODES_END},
    {"numa-balancing",
     WARN("a", 11, 0, "NUMA auto balancing enabled which can lead to variability in the RCCL performance!"),
     WARN("a", 11, 0, "NUMA node 3 unknown")},
    {"pci-acs",
     WARN("a", 11, 0, "Missing \"iommu=pt\" from kernel command line which can lead to system instability or hang!"),
     INFO("a", 11, 0, "iommu=pt")},
    {"topo-gpu-without-nvlink", TWO_GPUS(GPU("1", "16", "16", "32.0", "")), BARE_GPUS},
    {"topo-gpu-without-xgmi", AMD_GPUS(AMD_GPU("1", "16", "")), AMD_GPUS(AMD_GPU("1", "16", XGMI("6")))},
    {"topo-fewer-nvlinks", TWO_GPUS(GPU("1", "16", "16", "32.0", LINKS("17"))), GOOD},
    {"topo-link-width", TWO_GPUS(GPU("1", "16", "8", "32.0", LINKS("18"))),
     TWO_GPUS(GPU("1", "16", "0", "32.0", LINKS("18")))},
    {"topo-link-speed", TWO_GPUS(GPU("1", "16", "16", "16.0", LINKS("18"))),
     TWO_GPUS(GPU("1", "16", "16", "", LINKS("18")))},
    {"topo-nic-speed", TWO_NICS(NIC("1", "0a", "100000", "1")), TWO_NICS(NIC("1", "0a", "400000", "1"))},
    {"topo-nic-behind-cpu",
     SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", "06") NIC("0", "07", "400000", "1")) GOOD_GPU("1", "16"))), GOOD},
    {"topo-all-nics-behind-cpu", SYSTEM(CPU("0", GOOD_GPU("0", "06") NIC("0", "07", "400000", "1"))),
     SYSTEM(CPU("0", GOOD_GPU("0", "06")))},
    {"topo-gdr-off", TWO_NICS(NIC("1", "0a", "400000", "0")), GOOD},
    {"topo-numa", SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", "06") GOOD_GPU("1", "07"))) CPU("1", "")),
     SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", "06"))) CPU("1", GOOD_GPU("1", "07")))},
    {"topo-rdma-unused", TWO_NODES SOCKETS TWO_NODES_END "\f" GOOD, TWO_NODES SOCKETS TWO_NODES_END "\f" BARE_GPUS},
    {"topo-other-machine", HERE "\f" GOOD_HERE("b6", "b7"), HERE "\f" GOOD_HERE("06", "07")},
    {"topo-gpu-missing", HERE "\f" GOOD_HERE("06", "b7"), HERE "\f" GOOD_HERE("06", "07")},
    {"topo-gpu-unused", HERE_ONE "\f" GOOD_HERE("06", "07"), HERE "\f" GOOD_HERE("06", "07")},
    {"topo-nic-missing", HERE LISTED("mlx5_7") "\f" GOOD_HERE("06", "07"),
     HERE LISTED("mlx5_0") "\f" GOOD_HERE("06", "07")},
    {"topo-nic-unlisted", HERE LISTED("mlx5_7") "\f" GOOD_HERE("06", "07"),
     HERE ENV("a", 11, "NCCL_IB_HCA set by environment to mlx5_7") LISTED("mlx5_7") "\f" GOOD_HERE("06", "07")},
    {"topo-contradicts", HERE SEND("a", 11, 0, 0, 1, "NET/IB/3/GDRDMA") "\f" GOOD_HERE("06", "07"),
     HERE SEND("a", 11, 0, 0, 1, "NET/IB/0/GDRDMA") "\f" GOOD_HERE("06", "07")},
    {"graph-through-cpu", GRAPH("PHB"), GRAPH("PIX")},
    {"bench-wrong-values", RUN2(BENCH_ROW("8", "1.0", "3"), "1.0"), RUN2(BENCH_ROW("8", "1.0", "0"), "1.0")},
    {"bench-out-of-bounds",
     BENCH_HEAD BENCH_RANK("0", "a") BENCH_COLUMNS BENCH_ROW("8", "1.0", "0") "# Out of bounds values : 2 FAILED\n",
     RUN2(BENCH_ROW("8", "1.0", "0"), "1.0")},
    {"bench-one-rank", BENCH_HEAD BENCH_RANK("0", "a") BENCH_COLUMNS BENCH_ROW("8", "0.00", "0") BENCH_END("0"),
     RUN2(BENCH_ROW("8", "0.01", "0"), "0.01")},
    {"bench-zero", RUN2(BENCH_ROW("8", "0.00", "0"), "0"), RUN2(BENCH_ROW("8", "0.01", "0"), "0.01")},
    {"bench-scaling", RUN2(BENCH_ROW("1048576", "100.0", "0"), "90") RUN4(BENCH_ROW("1048576", "79.0", "0")),
     RUN2(BENCH_ROW("1048576", "100.0", "0"), "90") RUN4(BENCH_ROW("1048576", "81.0", "0"))},
    {"bench-dip",
     RUN2(BENCH_ROW("1024", "10.0", "0") BENCH_ROW("2048", "5.0", "0") BENCH_ROW("4096", "12.0", "0"), "9"),
     RUN2(BENCH_ROW("1024", "10.0", "0") BENCH_ROW("2048", "7.0", "0") BENCH_ROW("4096", "12.0", "0"), "9")},
    {"bench-unfinished", BENCH_HEAD BENCH_RANK("0", "a") BENCH_COLUMNS BENCH_ROW("8", "1.0", "0"),
     RUN2(BENCH_ROW("8", "1.0", "0"), "1.0")},
    {"input-trouble", "<system version=\"1\"><cpu numaid=\"0\">", GOOD},
};

static const char *const ids[] = {
#define NCCL_RULE(name, severity, id, title, setting, advice) id,
#include "engine/nccl/rule.def"
#undef NCCL_RULE
};

static void test_each_rule_has_a_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        size_t count = 0;
        for (size_t k = 0; k < ARRAY_LEN(cases); k++)
            count += strcmp(cases[k].id, ids[i]) == 0;
        if (count != 1)
            print_error("%s has %zu cases\n", ids[i], count);
        assert_int_equal(count, 1);
    }
}

static void test_rules_fire(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(cases[k].fires);
        const NcclFinding *f = kit_find(nccl_finish(job), cases[k].id);
        if (!f)
            print_error("%s did not fire\n", cases[k].id);
        assert_non_null(f);
        assert_true(f->evidence_count > 0 && f->total >= f->evidence_count);
        for (unsigned i = 0; i < f->evidence_count; i++)
            assert_true(f->evidence[i].text[0] && f->evidence[i].place.input < nccl_finish(job)->inputs.len);
    }
}

static void test_near_misses_do_not_fire(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(cases[k].misses);
        const NcclFinding *f = kit_find(nccl_finish(job), cases[k].id);
        if (f)
            print_error("%s fired: %s\n", cases[k].id, f->evidence[0].text);
        assert_null(f);
    }
}

static const char bridges[] =
    "Using [0]eth0:10.0.0.1<0> [1]br-5f2a:172.18.0.1<0> [2]cali7:10.1.1.1<0> [3]brother0:10.2.0.1<0>";

/* Bridges of containers among the interfaces are named where nodes talk, or fail to. */
static void test_bridges_among_the_interfaces(void **state)
{
    static const struct {
        const char *text;
        unsigned said;
    } logs[] = {
        {TWO_NODES ENV("a", 11, "NET/Socket : %s") SOCKETS TWO_NODES_END, 2},
        {ENV("a", 11, "NET/Socket : %s") WARN("a", 11, 0, "Connect to 172.18.0.1<39000> failed : Connection refused"),
         2},
        {ONE_NODE ENV("a", 11, "NET/Socket : %s") P2P ONE_NODE_END, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        char *at = strstr(logs[i].text, "%s"), text[4096];

        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - logs[i].text), logs[i].text, bridges, at + 2);
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);
        const NcclFinding *f = kit_find(nccl_finish(job), "interface-virtual");

        assert_int_equal(f ? f->evidence_count : 0, logs[i].said);
        if (f)
            assert_string_equal(f->evidence[0].text, "a: NET/Socket uses br-5f2a");
        if (f)
            assert_non_null(strstr(f->setting, "NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-,veth,cni,flannel,cali"));
    }
}

/* Dies of AMD's packages have 7 and 6 links by turns. */
static void test_links_of_amd_have_a_pattern(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read(SYSTEM(CPU(
        "0", SWITCH("05", AMD_GPU("0", "06", XGMI("7")) AMD_GPU("1", "07", XGMI("6")) AMD_GPU("2", "08", XGMI("7"))))));
    const NcclReport *report = nccl_finish(job);

    (void)state;
    assert_null(kit_find(report, "topo-fewer-nvlinks"));
    assert_null(kit_find(report, "topo-gpu-without-nvlink"));
    assert_null(kit_find(report, "topo-gpu-without-xgmi"));
}

/* However many GPUs and NUMA nodes there are; a node may have one GPU more than another. */
static void test_gpus_of_numa_nodes(void **state)
{
#define THREE(second, third)                                                                                           \
    SYSTEM(CPU("0", SWITCH("05", GOOD_GPU("0", "06") GOOD_GPU("1", "07"))) CPU("1", second) CPU("2", third))
    static const struct {
        const char *text, *said;
    } numa[] = {
        {THREE("", ""), "GPUs: 2 on NUMA node 0, 0 on NUMA node 1, 0 on NUMA node 2"},
        {THREE(GOOD_GPU("2", "16"), ""), "GPUs: 2 on NUMA node 0, 1 on NUMA node 1, 0 on NUMA node 2"},
        {THREE(GOOD_GPU("2", "16"), GOOD_GPU("3", "26")), NULL},
        {SYSTEM(CPU("0", GOOD_GPU("0", "06") GOOD_GPU("1", "07") GOOD_GPU("2", "08")) CPU("1", GOOD_GPU("3", "16"))),
         "GPUs: 3 on NUMA node 0, 1 on NUMA node 1"},
        {SYSTEM(CPU("0", GOOD_GPU("0", "06") GOOD_GPU("1", "07"))), NULL},
        {SYSTEM(CPU("0", GOOD_GPU("0", "06")) CPU("1", "")), NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(numa); i++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(numa[i].text);
        const NcclFinding *f = kit_find(nccl_finish(job), "topo-numa");

        assert_int_equal(f != NULL, numa[i].said != NULL);
        if (f)
            assert_string_equal(f->evidence[0].text, numa[i].said);
    }
}

/* The first number that ran out is what hangs, in whichever order the lines came; escapes in a line are not read. */
static void test_the_first_number_hangs(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(WATCHDOG("0", "0(g)", "5", "ALLREDUCE") "\033[200~\033[1m" WATCHDOG("1", "0(g)", "4", "BROADCAST"));
    const NcclFinding *f = kit_find(nccl_finish(job), "watchdog-timeout");

    (void)state;
    assert_non_null(f);
    assert_string_equal(f->detail, "BROADCAST number 4 of process group 0(g), reported by rank 1");
}

/* A job with as many findings as it may have counts one more with the first of its rule, else with the last of all. */
static void test_more_findings_than_are_kept(void **state)
{
    CLEANUP(nccl_free_at) NcclJob *job = kit_read("");
    const NcclFindings *all = &job->report.findings;
    const uint64_t left_out = job->report.left_out;

    (void)state;
    nccl_add_finding(job, NCCL_RULE_WATCHDOG, "a");
    nccl_add_finding(job, NCCL_RULE_WARNED, "b");
    while (all->len < NCCL_FINDINGS_MAX)
        nccl_add_findingf(job, NCCL_RULE_WARNED, "%zu", all->len);
    const NcclFinding *last = &all->at[NCCL_FINDINGS_MAX - 1];
    assert_ptr_equal(nccl_add_finding(job, NCCL_RULE_WARNED, "c"), &all->at[1]);
    assert_ptr_equal(nccl_add_finding(job, NCCL_RULE_WATCHDOG, "c"), &all->at[0]);
    assert_ptr_equal(nccl_add_finding(job, NCCL_RULE_TWO_RUNS, NULL), last);
    assert_int_equal(job->report.left_out, left_out + 3);
    assert_ptr_equal(nccl_add_finding(job, NCCL_RULE_WARNED, last->detail), last);
    assert_int_equal(all->len, NCCL_FINDINGS_MAX);
}

/* How an input is cut into pieces makes no difference. */
static void test_pieces(void **state)
{
    static const size_t pieces[] = {1, 7, 4096};

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        CLEANUP(nccl_free_at) NcclJob *whole = kit_read(cases[k].fires);
        const NcclReport *a = nccl_finish(whole);
        for (size_t p = 0; p < ARRAY_LEN(pieces); p++) {
            CLEANUP(nccl_free_at) NcclJob *job = kit_read_in_pieces(cases[k].fires, pieces[p]);
            const NcclReport *b = nccl_finish(job);
            assert_int_equal(a->findings.len, b->findings.len);
            for (size_t i = 0; i < a->findings.len; i++) {
                assert_string_equal(a->findings.at[i].id, b->findings.at[i].id);
                assert_string_equal(a->findings.at[i].detail, b->findings.at[i].detail);
                assert_string_equal(a->findings.at[i].evidence[0].text, b->findings.at[i].evidence[0].text);
            }
        }
    }
}

/* The screen of each case, and what JSON has beside it. */
static void test_screens_and_json(void **state)
{
    static const ReportOptions options = {.width = 100, .verbose = true};
    CLEANUP(str_done) Str screens = str_limited(GOLDEN_MAX);
    CLEANUP(str_done) Str all = str_limited(GOLDEN_MAX);

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(cases[k].fires);
        CLEANUP(str_done) Str json = str_limited(GOLDEN_MAX);

        str_addf(&screens, "=== %s\n", cases[k].id);
        assert_int_equal(nccl_report_text(nccl_finish(job), &options, report_sink_str(&screens), NULL), 0);
        str_add(&screens, "\n");
        str_addf(&all, "=== %s\n", cases[k].id);
        assert_int_equal(nccl_report_json(nccl_finish(job), report_sink_str(&json), NULL), 0);
        json_t *root = golden_read_json(&json);
        json_object_del(root, "findings"); /* the screens have them */
        golden_add_object(&all, "", root);
        json_decref(root);
    }
    assert_golden(GOLDEN "/rules.txt", &screens);
    assert_golden(GOLDEN "/rules.json.txt", &all);
}

static void test_outputs_of_all(void **state)
{
    (void)state;
    kit_check_outputs(GOLDEN "/test_rules.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rule_has_a_case),
        cmocka_unit_test(test_rules_fire),
        cmocka_unit_test(test_near_misses_do_not_fire),
        cmocka_unit_test(test_bridges_among_the_interfaces),
        cmocka_unit_test(test_links_of_amd_have_a_pattern),
        cmocka_unit_test(test_gpus_of_numa_nodes),
        cmocka_unit_test(test_the_first_number_hangs),
        cmocka_unit_test(test_more_findings_than_are_kept),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_screens_and_json),
        cmocka_unit_test(test_outputs_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
