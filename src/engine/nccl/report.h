/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was read about a job's collective communication, and the findings: plain data that outputs print. It lies in the
 * job (nccl.h) and lives as long as it. Every text is valid UTF-8 without control characters. Unknown numbers are
 * NCCL_UNKNOWN; unknown texts are "".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum { NCCL_UNKNOWN = -1, NCCL_EVIDENCE_MAX = 4, NCCL_CHANNELS_MAX = 64 };
#define NCCL_NO_INDEX UINT32_MAX

/* A line of an input; line 0 is the input as a whole. */
typedef struct NcclPlace {
    uint32_t input;
    uint64_t line;
} NcclPlace;

typedef enum NcclKind { /* names: nccl_kind_words */
                        NCCL_KIND_EMPTY,
                        NCCL_KIND_TEXT, /* a log, or the output of nccl-tests, or both */
                        NCCL_KIND_TOPOLOGY,
                        NCCL_KIND_GRAPH,
                        NCCL_KIND_BENCH,  /* nccl-tests -J */
                        NCCL_KIND_FLIGHT, /* a dump of PyTorch's flight recorder */
                        NCCL_KIND_OTHER,  /* nothing that is known here */
                        NCCL_KIND_COUNT
} NcclKind;

typedef struct NcclInput {
    const char *name;
    NcclKind kind;
    uint64_t bytes, lines;
    uint64_t used;       /* lines, rows or entries with data */
    uint64_t torn;       /* lines of NCCL that could not be read to their end */
    const char *trouble; /* why not all of it was read, "" */
} NcclInput;

/* One process of the job, as its lines name it. */
typedef struct NcclProcess {
    const char *host;
    uint32_t host_index; /* in the job */
    uint64_t pid;
    const char *version; /* "2.21.5+cuda12.4" */
    const char *network; /* "IB", "Socket", "AWS Libfabric" */
    const char *plugin;  /* net plug-in that was loaded */
    const char *oob;     /* interface of the bootstrap, "eth0" */
    const char *sockets; /* "[0]eth0:10.0.0.1<0>" */
    const char *ib;      /* "[0]mlx5_0:1/IB" */
    unsigned ib_devices; /* listed in `ib` */
    bool complete;       /* a communicator of it came up */
    bool cut;            /* an input with lines of it was not read to its end */
    uint32_t input;      /* the last one with lines of it */
    NcclPlace version_place, network_place, oob_place, sockets_place;
    /* The first lines that say so; line 0: none. gdr_off of an adapter, gdr_far of the distance to one. */
    NcclPlace ib_place, ib_missing, gdr_on, gdr_off, gdr_far, nvls_available;
} NcclProcess;

/* Where a rank stands in the tree of one channel. */
typedef struct NcclTree {
    unsigned channel;
    int parent, children[3]; /* ranks, -1: none */
} NcclTree;

/* What one rank of one communicator logged. */
typedef struct NcclMember {
    uint32_t comm; /* NCCL_NO_INDEX before it is known */
    uint32_t process;
    int64_t rank;
    int64_t cuda_dev, nvml_dev;
    const char *bus_id;
    int64_t nranks, nodes, local_ranks;
    bool started, complete, destroyed, aborted, mnnvl;
    int coll_channels, nvls_channels, p2p_channels;
    double init_s, init_part_s; /* total, its largest part; NaN unknown */
    const char *init_part;
    int64_t op_count; /* of the last call */
    uint64_t calls;
    const char *op;
    bool p2p_calls;
    struct {
        const NcclTree *at;
        size_t len;
    } trees;
    NcclPlace start_place, complete_place, init_place, op_place, channels_place;
} NcclMember;

typedef struct NcclRing {
    unsigned channel;
    const char *order; /* ranks, "0 1 2 3" */
} NcclRing;

typedef struct NcclPattern {
    const char *text; /* "Pattern 4, ..." as it stands */
    NcclPlace place;
} NcclPattern;

typedef struct NcclComm {
    const char *id; /* commId, or a made-up "nranks=16" where the log has none */
    int64_t nranks, nodes;
    uint32_t seen, complete;   /* members */
    VEC(NcclMember *) members; /* those seen, in the order of the log */
    const char *parent;
    VEC(NcclRing) rings;
    unsigned ring_channels, trees; /* channels of trees */
    NcclPattern patterns[4];
    unsigned pattern_count;
    bool nvls, collnet, mnnvl;
    bool is_world; /* the one at NcclReport.world */
    NcclPlace place, nvls_place;
} NcclComm;

typedef enum NcclVia {
    NCCL_VIA_P2P,
    NCCL_VIA_SHM,
    NCCL_VIA_RDMA,
    NCCL_VIA_SOCKET,
    NCCL_VIA_COLLNET,
    NCCL_VIA_OTHER
} NcclVia;

typedef enum NcclScope { NCCL_SCOPE_UNKNOWN, NCCL_SCOPE_NODE, NCCL_SCOPE_NET } NcclScope;

/* A transport, as "via ..." names it, without what differs from channel to channel. */
typedef struct NcclWay {
    const char *name; /* "P2P/CUMEM", "SHM", "NET/IB", "NET/AWS Libfabric" */
    NcclVia via;
    bool gdr;
    int device; /* of NET */
} NcclWay;

/* One direction between two ranks of a communicator over one transport, as one of the two logged it. */
typedef struct NcclEdge {
    uint32_t member, way;
    int64_t from, to; /* ranks of the member's communicator */
    bool receive;     /* the receiver logged it */
    uint64_t channels;
    NcclScope scope;
    NcclPlace place;
} NcclEdge;

/* Edges by way and scope. */
typedef struct NcclClass {
    const char *name;
    NcclVia via;
    bool gdr;
    NcclScope scope;
    uint32_t pairs; /* of ranks, each direction */
    uint32_t channels_min, channels_max;
    NcclPlace place;
} NcclClass;

typedef struct NcclSetting {
    const char *name, *value;
    uint32_t processes;
    NcclPlace place;
} NcclSetting;

/* nccl-tests. */
typedef struct NcclFigure {
    double time_us, alg_gbs, bus_gbs; /* NaN: not measured */
    int64_t wrong;
} NcclFigure;

typedef struct NcclRow {
    uint64_t size, count;
    const char *type, *redop;
    int64_t root;
    NcclFigure out, in; /* out of place, in place */
    NcclPlace place;
} NcclRow;

typedef struct NcclBench {
    const char *name; /* "all_reduce_perf", "" */
    int64_t ranks, nodes;
    VEC(NcclRow) rows;
    double average_gbs; /* NaN: not there */
    int64_t out_of_bounds;
    bool concluded;
    uint32_t input;
    NcclPlace place, average_place, bounds_place;
    /* worked out */
    double peak_gbs;
    uint64_t peak_size, half_size; /* size of the peak; smallest size with half of it */
} NcclBench;

/* Two runs of one test: bus bandwidth at the largest size both have. */
typedef struct NcclScaling {
    uint32_t base, bench;
    uint64_t size;
    double efficiency;
} NcclScaling;

typedef enum NcclPart { /* elements of the XML; names: nccl_part_words */
                        NCCL_PART_SYSTEM,
                        NCCL_PART_CPU,
                        NCCL_PART_PCI,
                        NCCL_PART_GPU,
                        NCCL_PART_NIC,
                        NCCL_PART_NET,
                        NCCL_PART_NVLINK,
                        NCCL_PART_C2C,
                        NCCL_PART_XGMI,
                        NCCL_PART_OTHER,
                        NCCL_PART_COUNT
} NcclPart;

typedef struct NcclNode {
    NcclPart part;
    uint32_t parent;
    uint32_t child, sibling; /* first child, next sibling; NCCL_NO_INDEX */
    NcclPlace place;
    const char *bus_id, *name, *target, *arch, *vendor;
    uint32_t pci_class;
    double gts; /* GT/s; NaN unknown */
    int width;  /* lanes */
    int numa, dev, rank, sm, gdr, count;
    int64_t net_mbps; /* of net; c2c: bw */
} NcclNode;

typedef VEC(NcclNode) NcclNodes;

typedef struct NcclTopology {
    uint32_t input;
    NcclNodes nodes;
    uint32_t gpus, nics;        /* RDMA adapters with a net, see topology.h */
    uint32_t numa_nodes, links; /* links: NVLink and xGMI, counted at both ends */
    uint32_t near_gpus;         /* that share a PCI switch with an RDMA adapter */
    bool nvls_able;             /* GPUs of generation 9.0 or later behind NVSwitch */
} NcclTopology;

typedef struct NcclGraph {
    uint32_t input;
    int id, pattern, channels;
    double intra_gbs, inter_gbs;
    const char *type_intra, *type_inter;
    NcclPlace place;
} NcclGraph;

/* Flight recorder. */
typedef struct NcclDump {
    uint32_t input;
    int64_t rank;
    bool rank_known; /* from the file's name */
    bool used;       /* not left out for another one of this rank */
    const char *version, *nccl_version;
    uint32_t calls;
} NcclDump;

/* Of a call; and of a rank that never called it, or whose dump is not here. */
typedef enum NcclState {
    NCCL_SCHEDULED,
    NCCL_STARTED,
    NCCL_COMPLETED,
    NCCL_BEHIND,
    NCCL_MISSING,
    NCCL_STATE_COUNT
} NcclState;

typedef struct NcclCall {
    uint32_t dump, group;
    int64_t record, seq; /* seq: of the group's collectives, or of its sends and receives */
    bool p2p;
    bool timed; /* the dump has the time when it began */
    NcclState state;
    const char *op, *sizes, *dtypes, *frames;
    int64_t numel_in, numel_out;
    int64_t created_ns;
} NcclCall;

typedef struct NcclGroup {
    const char *name, *desc, *members; /* members: "0 1 2", "" unknown */
    int64_t *ranks;
    size_t nranks;
    uint32_t calls;
    /* the verdict */
    bool stuck;
    int64_t seq;            /* first not completed everywhere */
    int64_t last_completed; /* last completed everywhere that is known, NCCL_UNKNOWN */
    const char *op;
    const char *ranks_by[NCCL_STATE_COUNT]; /* "3 5-7" */
    const char *finding;                    /* detail of the finding about the ranks behind */
    const char *waits_for;                  /* name of another group that the ranks behind are stuck in, "" */
} NcclGroup;

typedef enum NcclSeverity { NCCL_ERROR, NCCL_WARNING, NCCL_NOTE, NCCL_SEVERITY_COUNT } NcclSeverity;

typedef struct NcclEvidence {
    NcclPlace place;
    const char *text;
} NcclEvidence;

typedef struct NcclFinding {
    unsigned rule;
    NcclSeverity severity;
    const char *id;      /* "net-socket" */
    const char *title;   /* what is wrong, of the rule */
    const char *detail;  /* what was seen */
    const char *setting; /* what to set or change, "" */
    const char *advice;  /* why and how */
    NcclEvidence evidence[NCCL_EVIDENCE_MAX];
    unsigned evidence_count;
    uint64_t total; /* how often it was met */
    bool retried;   /* each time it was tried again */
} NcclFinding;

typedef VEC(NcclSetting) NcclSettings;
typedef VEC(NcclBench) NcclBenches;
typedef VEC(NcclFinding) NcclFindings;

typedef struct NcclReport {
    VEC(NcclInput) inputs;
    VEC(NcclProcess) processes;
    VEC(NcclMember) members;
    VEC(NcclComm) comms;
    uint32_t world; /* the communicator with the most ranks; NCCL_NO_INDEX */
    VEC(NcclWay) ways;
    VEC(NcclEdge) edges;
    VEC(NcclClass) classes;
    NcclSettings settings; /* by name, then value */
    NcclBenches benches;
    VEC(NcclScaling) scalings;
    VEC(NcclTopology) topologies;
    VEC(NcclGraph) graphs;
    VEC(NcclDump) dumps;
    VEC(NcclCall) calls;
    VEC(NcclGroup) groups;
    NcclFindings findings; /* worst first */
    uint64_t left_out;     /* things over a cap, not kept */
} NcclReport;

/* A PCI device that is a GPU (by its gpu element, or by class where the file has none) or a network adapter. */
bool nccl_node_is_gpu(const NcclTopology *t, uint32_t node);
bool nccl_node_is_nic(const NcclTopology *t, uint32_t node);
/* A net that RDMA goes through, by its name: not eth0, ens5, bond0, ... */
bool nccl_net_is_rdma(const NcclNode *net);
/* The first net below `node`, NCCL_NO_INDEX. */
uint32_t nccl_node_net(const NcclTopology *t, uint32_t node);
/* The gpu element of a GPU's PCI device, NCCL_NO_INDEX. */
uint32_t nccl_node_gpu(const NcclTopology *t, uint32_t node);
/* NVLinks and xGMI links of a GPU's PCI device. */
uint32_t nccl_node_links(const NcclTopology *t, uint32_t node);
/* "0000:1a:00.0" as the number that a log writes: 1a000. */
bool nccl_parse_bus_id(const char *bus_id, uint64_t *ret);
/* A GPU's PCI device with NVLinks to an NVSwitch. */
bool nccl_node_at_switch(const NcclTopology *t, uint32_t node);
/* Whether NVLink or xGMI joins two GPUs' PCI devices, directly or through an NVSwitch. */
bool nccl_node_linked(const NcclTopology *t, uint32_t a, uint32_t b);
