/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of the node at one instant: its GPUs with their readings and states, its samplers, its counts. Filled
 * once per tick by the agent from the board; every output reads it and none changes it. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "model/activity.h"
#include "model/mig.h"
#include "model/reading.h"
#include "model/why.h"

enum {
    NODE_GPUS_MAX = 64,
    NODE_INSTANCES_MAX = 15,
    NODE_SAMPLERS_MAX = 96,
    NODE_WHY_CAP = 160,
    NODE_WCHAN_CAP = 64,
    NODE_CHANGE_CAP = 240, /* as EVENT_TEXT_CAP */
    NODE_TEST_CAP = 200,
};

/* What happened in a longer time without a tick is not known: it is nobody's, and nothing ran or was idle in it. */
#define NODE_GAP_NS (UINT64_C(10) * 1000000000)

/* WORD(id, key, text): the state of a GPU as Stoker sees it; the key is for labels and JSON. */
#define GPU_STATE_TABLE(WORD)                                                                                          \
    WORD(GPU_STARTING, "starting", "not sampled yet")                                                                  \
    WORD(GPU_UP, "up", "sampled as it should be")                                                                      \
    WORD(GPU_HUNG, "hung", "the driver does not answer for it")                                                        \
    WORD(GPU_LOST, "lost", "the driver has lost it: it fell off the bus or needs a reset")                             \
    WORD(GPU_MISSING, "missing", "on the PCI bus, but the driver does not know it")                                    \
    WORD(GPU_GONE, "gone", "no longer on the PCI bus")                                                                 \
    WORD(GPU_NO_DRIVER, "no_driver", "the driver or its library cannot be used")                                       \
    WORD(GPU_RELEASED, "released", "let go for maintenance")                                                           \
    WORD(GPU_FAILED, "failed", "the driver reports an error for it")

typedef enum GpuState { GPU_STATE_TABLE(WORD_ID) GPU_STATE_END } GpuState;

/* WORD(id, key, label): what the driver says of peer to peer over NVLink between two GPUs, with the numbers that
 * it has there (nvmlGpuP2PStatus_t); the key is for JSON, the label is dcgm-exporter's link_status. */
#define PEER_STATUS_TABLE(WORD)                                                                                        \
    WORD(PEER_OK, "ok", "OK")                                                                                          \
    WORD(PEER_CHIPSET_NOT_SUPPORTED, "chipset_not_supported", "ChipsetNotSupported")                                   \
    WORD(PEER_GPU_NOT_SUPPORTED, "gpu_not_supported", "GPUNotSupported")                                               \
    WORD(PEER_TOPOLOGY_NOT_SUPPORTED, "topology_not_supported", "TopologyNotSupported")                                \
    WORD(PEER_DISABLED_BY_REGKEY, "disabled_by_regkey", "DisabledByRegKey")                                            \
    WORD(PEER_NOT_SUPPORTED, "not_supported", "NotSupported")                                                          \
    WORD(PEER_UNKNOWN, "unknown", "Unknown")

typedef enum PeerStatus { PEER_STATUS_TABLE(WORD_ID) PEER_STATUS_END } PeerStatus;

/* Another GPU as one GPU sees it. */
typedef struct NodePeer {
    uint32_t index; /* NVML's, of the other */
    Sample status;  /* a PeerStatus; UNKNOWN where the other cannot be asked about, as it is in trouble or apart */
} NodePeer;

/* WORD(id, key): error counters of one NVLink, since the driver was loaded or the GPU reset. */
#define NODE_LINK_ERROR_TABLE(WORD)                                                                                    \
    WORD(NODE_LINK_CRC_FLIT, "crc_flit")                                                                               \
    WORD(NODE_LINK_CRC_DATA, "crc_data")                                                                               \
    WORD(NODE_LINK_REPLAY, "replay")                                                                                   \
    WORD(NODE_LINK_RECOVERY, "recovery")

typedef enum NodeLinkError { NODE_LINK_ERROR_TABLE(WORD_ID) NODE_LINK_ERROR_END } NodeLinkError;

/* Counters of the port of one NVLink: those of METRIC_NVLINK_PPCNT_FIRST and the metrics behind it. */
enum { NODE_LINKS_MAX = 18, NODE_PORT_COUNTERS = 5, NODE_PROCESSES_MAX = 64 };
#define METRIC_NVLINK_PPCNT_FIRST METRIC_NVLINK_PPCNT_RECOVERY_TIME_SINCE_LAST

/* One NVLink of a GPU. */
typedef struct NodeLink {
    Sample active;                      /* 1 up, 0 down; NOT_SUPPORTED: the board has no such link */
    Sample errors[NODE_LINK_ERROR_END]; /* totals */
    Sample ports[NODE_PORT_COUNTERS];   /* NOT_YET where nobody wants them */
    Sample remote;                      /* PCI address of what it leads to, a GPU or a switch (pci_unpack) */
} NodeLink;

/* A process that the driver lists on a GPU. */
typedef struct NodeProcess {
    uint32_t pid;                            /* as the driver says it: of the host's pid namespace */
    uint32_t gpu_instance, compute_instance; /* DEVICE_NO_NUMBER without MIG */
    bool graphics;                           /* listed as a graphics process, else compute */
    uint64_t used_bytes;                     /* UINT64_MAX: the driver does not tell */
    uint8_t sm_percent, memory_percent;      /* share in the last second or so; UINT8_MAX: not told */
} NodeProcess;

/* What stands behind a GPU that is LOST or FAILED. */
typedef enum GpuTrouble {
    GPU_TROUBLE_NONE,
    GPU_TROUBLE_FELL_OFF,   /* the driver says that it is lost */
    GPU_TROUBLE_RESET,      /* the driver says that it needs a reset */
    GPU_TROUBLE_REFUSED,    /* the driver refuses it with another error */
    GPU_TROUBLE_NO_SAMPLER, /* nobody samples it: its sampler ended, or none can be started */
} GpuTrouble;

/* What the last test of a GPU (`stoker bench`) found wrong with it. */
typedef struct NodeTest {
    char uuid[DEVICE_UUID_CAP]; /* of the GPU, or of a MIG device of it */
    char rung[16];              /* which test: "ready" */
    bool wrong;                 /* values came out wrong; else it is slow */
    bool grave;                 /* of what is slow: very much so */
    uint64_t real_ns;           /* when the test began */
    char text[NODE_TEST_CAP];   /* a sentence */
} NodeTest;

typedef struct NodeGpu {
    Reading reading; /* values of a GPU that is not UP are absent, each with its reason */
    size_t instance_count;
    Reading *instances;               /* instance_count MIG devices by (GI, CI); borrowed from the node */
    Activity *instance_activity;      /* of each instance, or NULL: not decided; borrowed from the one who decides */
    char mig_layout[MIG_LAYOUT_CAP];  /* mig_layout_word of its MIG devices; "" not known, or a board without MIG */
    char mig_changed[CLOCK_TEXT_MAX]; /* when its layout was last changed (RFC 3339), and the text of that event; */
    char mig_change[NODE_CHANGE_CAP]; /* "" not known */
    Activity activity;
    const Why *verdicts, *instance_verdicts; /* what takes its time, and that of each instance; NULL: not decided */
    const NodeTest *test_wrong, *test_slow;  /* found by its last tests; NULL: nothing. Borrowed from the agent */
    GpuState state;
    uint64_t state_since_ns; /* monotonic */
    char why[NODE_WHY_CAP];  /* what was seen, for a person: "nvmlDeviceGetPowerUsage has not returned for 3 s" */
    GpuTrouble trouble;      /* the same for programs */
    int32_t code;            /* the driver's own number behind it (nvmlReturn_t); 0: none */
    bool drained;            /* when last asked, an operator kept new clients off it (the driver's drain state) */
    uint64_t last_sample_ns; /* monotonic instant of the last successful pass; 0: never */
    uint64_t pass_ns;        /* duration of the last complete pass over this GPU */
    uint64_t missed_calls;   /* calls that missed their deadline, since start */
    uint64_t failed_passes;  /* passes in which the driver refused the GPU, since start */
    bool own_sampler;        /* isolated from the others */
    bool gpm, gpm_known;     /* GPU performance monitoring: supported; asked yet */
    size_t fast_count;       /* fast readings since the tick before */
    const FastReading *fast; /* oldest first */
    uint64_t fast_lost;      /* fast readings that were overwritten before they were read, since start */
    size_t peer_count;
    const NodePeer *peers;        /* by index; borrowed from the node. All NOT_YET where nobody asks for them */
    uint32_t link_count;          /* NVLinks that the driver tells of; 0: none, or not known */
    const NodeLink *links;        /* by number; borrowed from the node */
    Sample process_list;          /* the number of processes listed; absent where the list could not be had */
    size_t process_count;         /* of them, those that fit */
    const NodeProcess *processes; /* borrowed from the node */
} NodeGpu;

/* WORD(id, key) */
#define SAMPLER_STATE_TABLE(WORD)                                                                                      \
    WORD(SAMPLER_FREE, "free")         /* no process */                                                                \
    WORD(SAMPLER_STARTING, "starting") /* the process was made, it has not sampled yet */                              \
    WORD(SAMPLER_RUNNING, "running")                                                                                   \
    WORD(SAMPLER_STUCK, "stuck")         /* in a call that missed its deadline; may come back */                       \
    WORD(SAMPLER_KILLED, "killed")       /* SIGKILL was sent, it has not ended yet */                                  \
    WORD(SAMPLER_ABANDONED, "abandoned") /* does not end even on SIGKILL */

typedef enum SamplerState { SAMPLER_STATE_TABLE(WORD_ID) SAMPLER_STATE_END } SamplerState;

typedef struct NodeSampler {
    SamplerState state;
    pid_t pid;
    uint64_t since_ns;          /* of the state */
    uint32_t gpu_count;         /* GPUs it samples now */
    char gpu[PCI_TEXT_CAP];     /* the GPU whose call it is stuck in, or "" */
    char function[48];          /* that call, or "" */
    char wchan[NODE_WCHAN_CAP]; /* kernel wait channel of a stuck one, "" where unknown */
    uint64_t rss_bytes, cpu_ns; /* of the process, read now and then; 0 where unknown */
} NodeSampler;

/* Whether the driver can be used, and if not, why. */
typedef enum NodeDriver {
    NODE_DRIVER_FINE,
    NODE_DRIVER_HANGS, /* a call about no one GPU does not return */
    NODE_DRIVER_UNLOADED,
    NODE_DRIVER_MISMATCH, /* library and kernel module are of different versions */
    NODE_DRIVER_DENIED,   /* this user may not open the device files */
    NODE_DRIVER_NOT_READY,
    NODE_DRIVER_REFUSES,    /* with an error of its own */
    NODE_DRIVER_NO_LIBRARY, /* its library cannot be loaded */
    NODE_DRIVER_NO_SAMPLER, /* nobody asks it: no sampler can be started */
    NODE_DRIVER_END,
} NodeDriver;

/* What the driver tells a client that comes now, which those that came earlier do not feel: of the last probes. */
typedef struct NodeProbe {
    NodeDriver driver;      /* FINE: nothing is known against it */
    int32_t code;           /* nvmlReturn_t; 0: none */
    uint32_t count;         /* probes in a row that said so */
    char why[NODE_WHY_CAP]; /* a sentence; "" where it is FINE */
} NodeProbe;

typedef struct Node {
    uint64_t tick;      /* number of this view; the page made from it may be shared while it stays the same */
    uint64_t time_ns;   /* monotonic */
    uint64_t real_ns;   /* wall clock */
    char hostname[256]; /* NODE_NAME, else the kernel's */
    char driver_version[READING_TEXT_CAP], nvml_version[READING_TEXT_CAP]; /* "" where unknown */
    char driver_why[NODE_WHY_CAP]; /* why the driver cannot be used, "" where it can */
    NodeDriver driver;             /* the same for programs */
    int32_t driver_code;           /* nvmlReturn_t behind it; 0: none */
    NodeProbe probe;
    uint32_t gpus_on_bus;      /* PCI functions of NVIDIA's display and 3D classes */
    uint32_t gpus_expected;    /* configured, or those on the bus */
    uint32_t gpus_found;       /* those that the driver gave a handle for */
    uint64_t release_until_ns; /* the driver is let go until then; 0: it is not */
    size_t gpu_count;          /* used entries of gpus, by NVML index, those without one last by PCI address */
    NodeGpu *gpus;
    size_t sampler_count;
    const NodeSampler *samplers;
    uint64_t samplers_started, samplers_abandoned; /* since start */
    uint64_t events_lost;                          /* XIDs that no reader of the board has seen */
} Node;

/* The pids of the processes that the driver lists on the GPUs, in no order, one on several GPUs as often; at most
 * `cap`. Returns how many. */
size_t node_pids(const Node *node, uint32_t *out, size_t cap);

/* Whether a process of the GPU works in this MIG instance; one of which only the GPU instance is known may. */
bool node_process_is_on(const NodeProcess *process, const Device *instance);
/* The GPU at this address; NULL. */
const NodeGpu *node_find_gpu(const Node *node, PciAddress pci);

/* Whether an operator has drained the GPU and it went: no fault of the node's. */
bool node_is_taken_out(const NodeGpu *gpu);

/* The instance of the GPU with these numbers; NULL. */
const Reading *node_find_instance(const NodeGpu *gpu, uint32_t gpu_instance, uint32_t compute_instance);
/* Why it is not known which processes are on the GPU; NULL: it is known. */
const char *node_unread_why(const NodeGpu *gpu);
/* Why a GPU that was named may be there although it is not listed: the driver told the names of not all. NULL: no. */
const char *node_unnamed_why(const Node *node);
/* What the GPU does, or this instance of it (NULL: the GPU itself), and what takes its time: all zero where that is not
 * decided. Never NULL. */
const Activity *node_activity(const NodeGpu *gpu, const Reading *instance);
const Why *node_why(const NodeGpu *gpu, const Reading *instance);
/* The verdict that is told without being asked for: of a device that somebody has and that does not work the first, of
 * one that works one that concerns others, beside another or not; NULL: none. */
const WhyVerdict *node_notice(const NodeGpu *gpu, const Reading *instance);
/* Whether the device is told of: it has such a verdict, or it is held and does not work and none is made yet. Of a
 * split GPU the instances are told of, never the GPU. */
bool node_is_noticed(const NodeGpu *gpu, const Reading *instance);

/* The wall clock at an instant of the node's monotonic clock; one to come is now. */
uint64_t node_real_ns(const Node *node, uint64_t time_ns);
extern const WordRow gpu_states[GPU_STATE_END], peer_statuses[PEER_STATUS_END], node_link_errors[NODE_LINK_ERROR_END],
    sampler_states[SAMPLER_STATE_END];
