/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The shared image: one file that every process of a simulated node maps. It holds the compiled boards, the compiled
 * scenario (works and timed ops) and the plan that follows from them (segments per GPU, patterns, events). All of it is
 * plain data without pointers, so that it can be mapped anywhere. Nobody serves it: readers evaluate closed forms at
 * the virtual time of their call; writers append an op and re-plan the future under a robust process-shared lock.
 *
 * Publication: the plan is guarded by a sequence counter (odd while a writer works). Readers copy with relaxed atomic
 * loads and retry (core/seq.h); they never take the lock unless a writer died.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define SIM_MAGIC 0x314d49534b4f5453ull /* "STOKSIM1" */
#define SIM_LAYOUT 7u                   /* raise with every change of a struct below */

enum {
    SIM_BOARD_MAX = 8,
    SIM_GPU_MAX = 16,
    SIM_LINK_MAX = 36,
    SIM_PROFILE_MAX = 20,
    SIM_PLACE_MAX = 8,
    SIM_GI_MAX = 8,
    SIM_CI_MAX = 16,
    SIM_WORK_MAX = 256,
    SIM_PHASE_MAX = 32,
    SIM_SLOT_MAX = 16,  /* works resident on one GPU at one time */
    SIM_SEG_MAX = 2048, /* segments per GPU */
    SIM_NODE_SEG_MAX = 1024,
    SIM_PATTERN_MAX = 8192,
    SIM_OP_MAX = 16384,
    SIM_EVENT_MAX = 1 << 18,
    SIM_TEXT_MAX = 4 << 20,
    SIM_HANG_MAX = 16,
    SIM_NAME_MAX = 64,
};
#define SIM_NONE (-1)
#define SIM_NS 1000000000ull
#define SIM_FOREVER UINT64_MAX

/* ---- activity channels: what a work causes, per second. All readings that accumulate are integrals of these. ---- */
typedef enum SimChannel {
    SIM_CH_KERNEL, /* a kernel is resident: fraction of time (NVML gpu utilisation) */
    SIM_CH_SM,     /* SMs with a warp resident, fraction of the instance's SMs */
    SIM_CH_OCC,    /* warps resident, fraction of the maximum */
    SIM_CH_TENSOR, /* any tensor pipe active, fraction of peak cycles */
    SIM_CH_HMMA,   /* half-precision tensor pipe */
    SIM_CH_IMMA,   /* integer tensor pipe */
    SIM_CH_DFMA,   /* double-precision tensor pipe */
    SIM_CH_FP64,
    SIM_CH_FP32,
    SIM_CH_FP16,
    SIM_CH_INT,
    SIM_CH_DRAM,   /* DRAM interface active, fraction of peak bandwidth */
    SIM_CH_DRAM_T, /* fraction of time in which DRAM was read or written (NVML memory utilisation) */
    SIM_CH_ENC,
    SIM_CH_DEC,
    SIM_CH_JPG,
    SIM_CH_OFA,
    SIM_CH_PCIE_TX, /* bytes out of the GPU */
    SIM_CH_PCIE_RX,
    SIM_CH_NVL_TX,
    SIM_CH_NVL_RX,
    SIM_CH_SW_CAP, /* fraction of time in which the power limit held the clocks down */
    SIM_CH_CLOCK,  /* SM cycles elapsed, in MHz-seconds */
    SIM_CH_STEPS,  /* steps or requests finished */
    SIM_CH_WATT,   /* power above the GPU's idle power */
    SIM_CH_COUNT
} SimChannel;

/* ---- boards: one data file each (sim/data/boards), compiled ---- */
typedef struct SimProfile {
    char name[24];  /* "1g.10gb+me" */
    uint32_t index; /* NVML_GPU_INSTANCE_PROFILE_* */
    uint32_t id;    /* what nvidia-smi -lgip shows and what Create takes */
    uint32_t slices, max_instances, sm, memory_mib;
    uint32_t copy, dec, enc, jpg, ofa;
    uint32_t capabilities; /* 1 P2P, 2 graphics */
    uint32_t place_size, place_count;
    uint8_t place_start[SIM_PLACE_MAX];
} SimProfile;

typedef struct SimBoard {
    char key[SIM_NAME_MAX];  /* file name without .yaml: "h100-sxm-80gb" */
    char name[SIM_NAME_MAX]; /* "NVIDIA H100 80GB HBM3" */
    char part_number[32], vbios[32], inforom_image[32], inforom_oem[16], inforom_ecc[16], inforom_power[16];
    uint32_t brand, arch, cc_major, cc_minor;
    uint32_t pci_device_id, pci_subsystem_id; /* device << 16 | vendor */
    uint32_t pci_class;                       /* 0x030200 3D controller, 0x030000 VGA */
    uint32_t memory_mib, reserved_mib, bar1_mib, bus_width_bits;
    uint32_t sm_count, cores_per_sm;
    uint32_t sm_clock_max, sm_clock_idle, sm_clock_base, sm_clock_step, sm_clock_min; /* MHz */
    uint32_t mem_clock_max, mem_clock_idle, video_clock_max, video_clock_idle;
    uint32_t mem_clock_count, mem_clocks[8];
    uint32_t power_min_mw, power_default_mw, power_max_mw;
    double idle_w, context_w;                                   /* nothing resident; a context open but no kernel */
    double watt_sm, watt_tensor, watt_fp, watt_dram, watt_link; /* at full activity and full clock, see pattern.c */
    int32_t temp_shutdown, temp_slowdown, temp_gpu_max, temp_mem_max;         /* degrees Celsius */
    int32_t tlimit_shutdown, tlimit_slowdown, tlimit_mem_max, tlimit_gpu_max; /* T.Limit margins (FI 193-196) */
    double ambient_c, kelvin_per_watt, tau_s, mem_temp_offset_c;
    uint32_t has_tlimit, has_mem_temp, has_ecc, has_remap, has_retired_pages, has_gpm, has_mig, has_instant_power;
    uint32_t has_module_power, has_c2c, has_display, addressing_mode; /* 0 none 1 HMM 2 ATS */
    uint32_t remap_banks;
    uint32_t pcie_gen, pcie_width, gpu_max_pcie_gen, fans;
    uint32_t idle_pstate, idle_pcie_gen; /* at rest, without clients */
    uint32_t link_count, link_version;   /* NVLink: 0 links = none; NVML_NVLINK_VERSION_* */
    uint32_t link_mbytes_per_s;          /* per link and direction */
    uint32_t link_to_switch;             /* 1 NVSwitch, 0 peer GPU */
    uint32_t has_fabric;
    uint32_t copy_engines, dec_engines, enc_engines, jpg_engines, ofa_engines;
    uint32_t mig_grid, mig_slices, mig_max_devices, mig_needs_reset; /* 8, 7, 7; enabling needs a reset (Ampere) */
    uint32_t profile_count;
    SimProfile profiles[SIM_PROFILE_MAX];
} SimBoard;

/* ---- fixed properties of a GPU of the node ---- */
typedef struct SimGpuId {
    uint32_t board; /* index in SimImage.boards */
    uint32_t domain, bus, device, minor, module_id;
    uint32_t numa_node, root; /* PCI root complex / switch group: topology distance */
    uint32_t switch_group;
    char uuid[48], serial[24], cpulist[64];
    double leak, cool; /* silicon and cooling spread around 1.0 */
    double ambient_offset_c;
} SimGpuId;

/* ---- works: one process on one GPU (or on one MIG device) ---- */
typedef enum SimBound { SIM_BOUND_FIXED, SIM_BOUND_CORE, SIM_BOUND_DRAM, SIM_BOUND_PCIE, SIM_BOUND_LINK } SimBound;
enum { SIM_PHASE_BARRIER = 1 }; /* ranks of a job wait here for the slowest */

typedef struct SimPhase {
    double seconds; /* at full clocks, alone on the GPU */
    uint32_t bound; /* SimBound: what stretches it */
    uint32_t flags;
    double act[SIM_CH_WATT]; /* activity while in this phase, instance-relative; *_TX/RX in bytes per second */
} SimPhase;

typedef enum SimCgroups { SIM_CGROUPS_SYSTEMD, SIM_CGROUPS_CGROUPFS, SIM_CGROUPS_V1 } SimCgroups; /* who names them */

/* Where a monitor sees the processes of works: in /proc and in the driver's lists, in the lists alone, or in neither.
 * For a caller in another pid namespace the driver leaves out processes that have no pid there
 * (open-gpu-kernel-modules, gpuGetProcWithObject_IMPL). */
typedef enum SimPids { SIM_PIDS_SEEN, SIM_PIDS_UNSEEN, SIM_PIDS_UNLISTED } SimPids;

typedef enum SimProcType { SIM_PROC_COMPUTE, SIM_PROC_GRAPHICS, SIM_PROC_MPS } SimProcType;

/* What the kernel tells of a process: below /proc, and in whose name it runs. */
typedef struct SimOwner {
    char user[32];         /* "": the node has no name for it */
    char command[256];     /* a blank between two arguments */
    char cgroup[320];      /* the path of it */
    char pod[208];         /* "<namespace>_<name>_<UID>", as the kubelet names folders; "": in none */
    double rss_mib, cores; /* memory of the host; how much of a core it takes */
    double writes_mib;     /* to storage, per second in which no kernel of it runs */
} SimOwner;
enum { SIM_PID_FIRST = 4194304 }; /* the kernel's own limit: none of its processes has such a number */

typedef struct SimWork {
    char entry[32], kind[32], name[32]; /* the scenario's name for it; its kind; the process name */
    int32_t gpu;
    int32_t mig; /* index of the MIG device on that GPU, or SIM_NONE */
    int32_t job; /* ranks of one job wait for each other; SIM_NONE */
    uint32_t rank;
    uint32_t proc_type; /* SimProcType */
    uint32_t uid;
    SimOwner owner;
    int32_t before;            /* the same process until from_ns, which did something else then; SIM_NONE */
    uint64_t from_ns;          /* when it begins by the scenario */
    uint32_t fixed_pid;        /* deterministic pid, shown without a lent live one: from SIM_PID_FIRST on */
    _Atomic uint32_t live_pid; /* lent by `sim run`; 0 = none */
    double memory_mib, leak_mib_per_s;
    double slow;     /* > 1: this rank computes slower (straggler) */
    double offset_s; /* pattern offset, so that works do not march in step */
    uint32_t phase_count;
    SimPhase phases[SIM_PHASE_MAX];
} SimWork;

/* ---- ops: everything that happens to the node, from the scenario, from `sim inject` or from a client ---- */
typedef enum SimOpType {
    SIM_OP_NONE,
    SIM_OP_WORK_START, /* a0 work, a1 1 + the work whose process it goes on with, 0: a new process */
    SIM_OP_WORK_STOP,  /* a0 work */
    SIM_OP_SET,        /* a0 SimKey, u value */
    SIM_OP_XID, /* a0 xid, a1 gi id, a2 ci id, a3 work or SIM_NONE; u extra (link, address); text payload; side effects
                   by number */
    SIM_OP_EVENT,  /* u NVML event type, a0 data; no side effect */
    SIM_OP_ECC,    /* a0 SimEccLoc, a1 0 corrected 1 uncorrected, a2 count now, x per second from now on */
    SIM_OP_REMAP,  /* a0 0 corrected 1 uncorrected, a1 rows, a2 1 = failed (bank exhausted) */
    SIM_OP_RETIRE, /* a0 0 multiple single bit, 1 double bit; a1 pages */
    SIM_OP_LOST,   /* fallen off the bus */
    SIM_OP_RESET,  /* GPU reset */
    SIM_OP_LINK,   /* a0 link or SIM_NONE for all, a1 SimLinkOp, a2 error counter (NVML_NVLINK_ERROR_*), u count, x per
                      second */
    SIM_OP_PCIE,   /* a0 current gen or 0 = as is, a1 width or 0, a2 replays now, x replays per second */
    SIM_OP_AER,    /* a0 0 correctable 1 non-fatal 2 fatal, a1 SimAer, a2 count, a3 1: of the port above */
    SIM_OP_HANG, /* a0 rule slot 0..15, a1 function (NVML_FN_*) or SIM_NONE, a2 after n calls, u delay ns (SIM_FOREVER),
                    gpu or SIM_NONE; a3 = 0 removes */
    SIM_OP_NODE, /* a0 SimNodeKey, u value */
    SIM_OP_MIG_MODE,    /* a0 0/1 */
    SIM_OP_GI_CREATE,   /* a0 profile position in the board, a1 start or SIM_NONE */
    SIM_OP_GI_DESTROY,  /* a0 gi id */
    SIM_OP_CI_CREATE,   /* a0 gi id, a1 CI profile index, a2 start or SIM_NONE */
    SIM_OP_CI_DESTROY,  /* a0 gi id, a1 ci id */
    SIM_OP_CLEAR_ECC,   /* a0 0 volatile 1 aggregate */
    SIM_OP_KMSG,        /* text: one raw kernel line */
    SIM_OP_PLUG,        /* a0 0 removed from the bus, 1 added */
    SIM_OP_WORK_MEMORY, /* a0 work, x MiB that it holds from now on */
    SIM_OP_COUNT
} SimOpType;

typedef enum SimKey { /* per-GPU settings, SIM_OP_SET */
                      SIM_KEY_PERSISTENCE,
                      SIM_KEY_COMPUTE_MODE,
                      SIM_KEY_ECC_PENDING,
                      SIM_KEY_POWER_LIMIT_MW,
                      SIM_KEY_APP_SM_MHZ, /* 0 = default */
                      SIM_KEY_APP_MEM_MHZ,
                      SIM_KEY_LOCK_SM_MIN,
                      SIM_KEY_LOCK_SM_MAX, /* 0 = not locked */
                      SIM_KEY_LOCK_MEM_MIN,
                      SIM_KEY_LOCK_MEM_MAX,
                      SIM_KEY_ACCOUNTING,
                      SIM_KEY_AUTO_BOOST,
                      SIM_KEY_API_APP_CLOCKS, /* restricted API 0 */
                      SIM_KEY_API_AUTO_BOOST, /* restricted API 1 */
                      SIM_KEY_GOM_PENDING,
                      SIM_KEY_FAN_PERCENT, /* SIM_FAN_AUTO */
                      SIM_KEY_RESET_REQUIRED,
                      SIM_KEY_RECOVERY_ACTION,
                      SIM_KEY_AMBIENT_MC,       /* added to the inlet temperature, milli-kelvin (signed) */
                      SIM_KEY_COOLING_PERMILLE, /* 1000 = as built; 500 = half the heat transport */
                      SIM_KEY_POWER_BRAKE,
                      SIM_KEY_HW_SLOWDOWN, /* forced hardware thermal slowdown */
                      SIM_KEY_FAN_FAILED,
                      SIM_KEY_FABRIC_STATE, /* NVML_GPU_FABRIC_STATE_* */
                      SIM_KEY_FABRIC_STATUS,
                      SIM_KEY_FABRIC_HEALTH,    /* health mask */
                      SIM_KEY_ACCOUNTING_EPOCH, /* op time = accounting pids cleared */
                      SIM_KEY_DRAIN,
                      SIM_KEY_INFOROM_BAD,
                      SIM_KEY_WORKLOAD_PROFILES, /* low 32 bits of the requested mask */
                      SIM_KEY_TEMP_ACOUSTIC,
                      SIM_KEY_PAGE_PENDING,
                      SIM_KEY_REMAP_PENDING,
                      SIM_KEY_SRAM_THRESHOLD,
                      SIM_KEY_SLOT_GEN,    /* capability of the port above; 0: the board's */
                      SIM_KEY_SLOT_WIDTH,  /* the same */
                      SIM_KEY_ORPHAN_MIB,  /* memory that no process holds */
                      SIM_KEY_NOT_STARTED, /* on the bus, but not among the GPUs that new clients find */
                      SIM_KEY_ASLEEP,      /* runtime suspend: nothing answers on the bus */
                      /* what the simulated libcuda does wrong (sim/cuda); 0: nothing */
                      SIM_KEY_MEMORY_PERMILLE, /* speed of the memory */
                      SIM_KEY_MEMORY_MIG,      /* 1 + the MIG device whose memory that is; 0: all */
                      SIM_KEY_SLOW_SM,         /* 1 + its number */
                      SIM_KEY_SLOW_PERMILLE,   /* its speed */
                      SIM_KEY_MISSING_SM,      /* 1 + its number */
                      SIM_KEY_WRONG_RATE,      /* wrong results for each operation: the bits of a float */
                      SIM_KEY_WRONG_SM,        /* 1 + the number of the SM that makes them; 0: SM 0 */
                      SIM_KEY_WRONG_HOW,       /* SimWrong */
                      SIM_KEY_BAD_PAGE,        /* 1 + the number of a page of 4 KiB whose first word has a stuck bit */
                      SIM_KEY_CUDA_RESULT,     /* CUresult: of cuInit, a context, a module or, if sticky, a launch */
                      SIM_KEY_CUDA_AFTER,      /* launches that go well before a sticky one */
                      SIM_KEY_MEMORY_ROOM,     /* permille of the memory that can be allocated */
                      SIM_KEY_CUDA_HANG,       /* 1: kernels never end; 2 + CudaFunction: that call */
                      SIM_KEY_PEER_NONE,       /* bit for each GPU that cannot be reached from here */
                      SIM_KEY_PEER_STAGED,     /* that copies from here reach through the host alone */
                      SIM_KEY_PEER_CORRUPT,    /* that gets wrong data from here */
                      SIM_KEY_COUNT
} SimKey;
#define SIM_FAN_AUTO 1000u
typedef enum SimWrong { SIM_WRONG_REPEATS = 1, SIM_WRONG_NAN = 2 } SimWrong; /* the same each time; not a number */

typedef enum SimNodeKey {
    SIM_NODE_DRIVER,         /* SimDriver */
    SIM_NODE_FABRIC_MANAGER, /* 1 running 0 down */
    SIM_NODE_PERSISTENCED,   /* the same of nvidia-persistenced */
    SIM_NODE_STUCK,          /* tasks that hang in the driver */
    SIM_NODE_LOG_AWAY,       /* the kernel log cannot be opened */
    SIM_NODE_KEY_COUNT
} SimNodeKey;
typedef enum SimDriver {
    SIM_DRIVER_LOADED,
    SIM_DRIVER_UNLOADED,
    SIM_DRIVER_MISMATCH,
    SIM_DRIVER_UNKNOWN_ERROR,
    SIM_DRIVER_NO_PERMISSION,
} SimDriver;
typedef enum SimEccLoc { /* NVML_MEMORY_LOCATION_* */
                         SIM_ECC_L1,
                         SIM_ECC_L2,
                         SIM_ECC_DRAM,
                         SIM_ECC_REG,
                         SIM_ECC_TEX,
                         SIM_ECC_SHM,
                         SIM_ECC_CBU,
                         SIM_ECC_SRAM,
                         SIM_ECC_LOCS
} SimEccLoc;
typedef enum SimLinkOp { SIM_LINK_DOWN, SIM_LINK_UP, SIM_LINK_SLEEP, SIM_LINK_ERRORS, SIM_LINK_CLEAR } SimLinkOp;

/* Places in the lists of the kernel's aer_dev_correctable and aer_dev_nonfatal (the same as aer_dev_fatal). */
typedef enum SimAer {
    SIM_AER_RX_ERR,
    SIM_AER_BAD_TLP,
    SIM_AER_BAD_DLLP,
    SIM_AER_ROLLOVER,
    SIM_AER_TIMEOUT,
    SIM_AER_UNSUPPORTED = 11, /* uncorrectable */
    SIM_AER_MAX = 16,
} SimAer;

typedef enum SimOrigin { SIM_FROM_SCENARIO, SIM_FROM_INJECT, SIM_FROM_CLIENT, SIM_FROM_PLAN } SimOrigin;

typedef struct SimOp {
    uint64_t t_ns; /* virtual time since the scenario's start */
    uint32_t type; /* SimOpType */
    int32_t gpu;   /* SIM_NONE = node */
    int32_t a[4];
    uint64_t u;
    double x;
    uint64_t every_ns; /* a train: the op happens `times` times, every_ns apart (times 0 or 1: once) */
    uint32_t times;
    uint32_t text; /* offset in SimImage texts, 0 = none */
    uint32_t origin;
    uint32_t pad;
} SimOp;

/* ---- events, as NVML and the kernel log show them, in time order ---- */
typedef struct SimEvent {
    uint64_t t_ns;
    uint64_t type; /* NVML event type bit; 0 = kernel log only */
    uint64_t data; /* XID number, clock, ... */
    uint64_t extra;
    int32_t gpu;
    int32_t gi, ci; /* SIM_NONE when not attributable */
    int32_t work;   /* process named in the line, SIM_NONE */
    uint32_t text;  /* payload of the kernel line (XID) or the whole line (type 0); 0 = the default for this XID */
    uint32_t origin;
} SimEvent;

/* ---- the discrete condition of one GPU during a segment ---- */
typedef struct SimGi {
    uint8_t used, profile, start, size; /* profile: position in the board's list */
    uint32_t id;
} SimGi;
typedef struct SimCi {
    uint8_t used, profile, start, size; /* profile: NVML_COMPUTE_INSTANCE_PROFILE_* index */
    uint32_t gi_id, id, sm;
} SimCi;
typedef struct SimLink {
    uint32_t state;  /* 0 down 1 up 2 sleep */
    double count[5]; /* replay, recovery, crc flit, crc data, ecc data at the segment's start */
    double rate[5];  /* per second */
} SimLink;
typedef struct SimCond {
    uint32_t present, lost, reset_required, mig_mode, mig_pending, ecc_mode;
    uint32_t set[SIM_KEY_COUNT]; /* the settings above, by SimKey */
    uint64_t ecc_volatile[2][SIM_ECC_LOCS],
        ecc_aggregate[2][SIM_ECC_LOCS]; /* [corrected, uncorrected] at the segment's start */
    double ecc_rate[2][SIM_ECC_LOCS];
    double ecc_part[2][SIM_ECC_LOCS]; /* fraction of an error carried into the segment */
    uint32_t remap_cor, remap_unc, remap_pending, remap_failed;
    uint32_t bank_spent[5]; /* banks with max, high, partial, low, none rows left */
    uint32_t retired[2], retired_pending;
    uint32_t pcie_gen, pcie_width; /* under load */
    double replays, replay_rate;
    uint64_t aer[3][SIM_AER_MAX];      /* correctable, non-fatal, fatal */
    uint64_t port_aer[3][SIM_AER_MAX]; /* of the port above */
    SimLink link[SIM_LINK_MAX];
    SimGi gi[SIM_GI_MAX];
    SimCi ci[SIM_CI_MAX];
    uint64_t volatile_since_ns; /* driver load or last reset: what volatile counters and energy count from */
    uint64_t accounting_since_ns;
} SimCond;

/* ---- the plan ---- */
typedef struct SimPatternPhase {
    uint64_t start_ns;           /* in the period */
    double rate[SIM_CH_COUNT];   /* per second */
    double before[SIM_CH_COUNT]; /* integral from the period's start to this phase's start */
    double heat;                 /* heat at this phase's start when the period began with none, in kelvin */
    double sm_mhz, mem_mhz, video_mhz;
} SimPatternPhase;
typedef struct SimPattern {
    uint64_t period_ns;
    uint32_t phase_count, pad;
    double total[SIM_CH_COUNT]; /* integral over one period */
    double heat;                /* heat after one period that began with none */
    double kelvin_per_watt, tau_s;
    SimPatternPhase phases[SIM_PHASE_MAX];
} SimPattern;

typedef struct SimSlot {
    int32_t work, pattern;
    int32_t gi, ci;           /* ids of its instance, SIM_NONE = whole GPU */
    double share;             /* of the GPU's SMs */
    double gi_part;           /* of its GPU instance's SMs */
    double mem_share;         /* of the GPU's memory system */
    int64_t origin_ns;        /* a period began here (may lie before the segment, and before zero) */
    uint64_t started_ns;      /* the process' start */
    double mem_mib;           /* at the segment's start */
    double mem_rate;          /* MiB per second */
    double cum[SIM_CH_COUNT]; /* integral since the process' start, extrapolated back to origin_ns */
    double heat;              /* kelvin at the segment's start, without the pattern's since origin_ns */
    double peak_mib;
} SimSlot;

typedef struct SimSeg {
    uint64_t t_ns;
    SimCond cond;
    double base_w;    /* power without any work: idle, or context open */
    double base_heat; /* kelvin above ambient at t_ns that belong to no slot */
    double ambient_c, kelvin_per_watt, tau_s;
    double energy_j;                          /* at t_ns, without the energy of the slots since their start */
    double gone[SIM_CH_COUNT];                /* integrals of works that ended, GPU-relative */
    double gi_gone[SIM_GI_MAX][SIM_CH_COUNT]; /* the same per GPU instance, instance-relative */
    double throttle_ns[8];    /* counters at t_ns: power, thermal, sync boost, board limit, low util, reliability, hw
                                 thermal, brake */
    double clock_ratio;       /* of the SM clock, 1 = the highest allowed */
    uint64_t reasons;         /* NVML clocks event reasons that hold during the whole segment */
    uint64_t dyn_ns;          /* when the GPU's own course next changes it: too hot, out of memory; SIM_FOREVER */
    uint32_t dyn_what, level; /* SimDyn; thermal level: 0 free, 1 slowed by the driver, 2 by the hardware */
    uint32_t sm_cap_mhz, mem_mhz, idle; /* idle: no context open */
    uint32_t slot_count;
    SimSlot slots[SIM_SLOT_MAX];
} SimSeg;

typedef struct SimHang {
    uint32_t used;
    int32_t gpu, fn;
    uint32_t after;
    uint64_t delay_ns; /* SIM_FOREVER: until the rule goes */
} SimHang;
typedef struct SimNodeSeg {
    uint64_t t_ns;
    uint32_t key[SIM_NODE_KEY_COUNT];
    SimHang hang[SIM_HANG_MAX];
} SimNodeSeg;

/* ---- the file ---- */
typedef struct SimImage {
    uint64_t magic;
    uint32_t layout, generation; /* driver generation: 535, 550, 590, 610 */
    uint64_t bytes;
    char scenario[SIM_NAME_MAX], driver[32], nvml[48], hostname[SIM_NAME_MAX], kernel_log[256], root[256];
    uint32_t cuda_version;     /* 13010 */
    uint32_t cgroups;          /* SimCgroups */
    uint32_t pids;             /* SimPids */
    uint32_t network_permille; /* of its link that each network adapter carries in each direction, from time 0 on */
    uint32_t gpu_count, board_count, work_count;
    uint64_t seed;
    uint64_t epoch_us; /* wall time of virtual zero, microseconds since 1970 */

    /* clock: virtual = virtual_ns + (monotonic - mono_ns) * speed. Two copies: clock_turn / 2 % 2 is
     * the one in force; clock_turn is odd while the other one is written. */
    _Atomic uint32_t clock_turn, pad0;
    struct {
        _Atomic uint64_t mono_ns, virtual_ns, speed_bits; /* speed: double as bits; 0 = paused */
    } clock[2];

    pthread_mutex_t lock;      /* robust, process-shared: writers only */
    _Atomic uint32_t plan_seq; /* odd while the plan is rewritten */
    _Atomic uint32_t wake;     /* futex word: raised with every change of plan or clock */
    _Atomic uint32_t hang_calls[SIM_HANG_MAX];
    _Atomic uint32_t hang_any; /* 1 once any hang rule exists: spares the look-up otherwise */
    uint32_t op_count, pattern_count, node_seg_count, text_used;
    uint32_t event_count, events_dropped, segs_dropped;
    uint32_t seg_count[SIM_GPU_MAX];

    SimBoard boards[SIM_BOARD_MAX];
    SimGpuId gpus[SIM_GPU_MAX];
    SimWork works[SIM_WORK_MAX];
    SimNodeSeg node_segs[SIM_NODE_SEG_MAX];
    SimOp ops[SIM_OP_MAX];    /* append-only, in order of arrival */
    char texts[SIM_TEXT_MAX]; /* NUL-ended strings; offset 0 is the empty one */
    SimPattern patterns[SIM_PATTERN_MAX];
    SimEvent events[SIM_EVENT_MAX];
    SimSeg segs[]; /* gpu_count * SIM_SEG_MAX */
} SimImage;
