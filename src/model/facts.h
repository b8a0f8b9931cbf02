/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of the node beside the driver's readings: the PCI bus, /proc, the logs. Read by the agent itself
 * without any driver call (source/host), so that it stays true while a driver hangs. Zeroed memory is a valid Facts in
 * which nothing is known. Filled in one place, read by the detectors; one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/event.h"
#include "model/node.h"

enum { FACTS_STUCK_MAX = 16, FACTS_WHY_CAP = 160, FACTS_DRIVER_CAP = 32 };

/* Kinds of AER counts in sysfs: aer_dev_correctable, aer_dev_nonfatal, aer_dev_fatal. */
typedef enum FactsAer { FACTS_AER_CORRECTABLE, FACTS_AER_NONFATAL, FACTS_AER_FATAL, FACTS_AER_END } FactsAer;

typedef struct FactsPcie {
    uint32_t speed_mts; /* megatransfers per second: 32000 for "32.0 GT/s"; 0 unknown */
    uint32_t width;     /* lanes; 0 unknown */
} FactsPcie;

/* A GPU as the PCI bus has it. */
typedef struct FactsGpu {
    PciAddress pci;
    bool present;                  /* sysfs has it */
    bool config_lost;              /* its configuration space reads as all ones: off the bus */
    bool asleep;                   /* runtime suspended: the rest is not known then */
    char driver[FACTS_DRIVER_CAP]; /* bound kernel driver: "nvidia", "vfio-pci"; "" none */
    FactsPcie current, max, slot;  /* link now; what the card can do; what the port above it can do */
    bool has_aer;
    uint64_t aer[FACTS_AER_END];      /* totals since boot */
    uint64_t port_aer[FACTS_AER_END]; /* of the port above it */
} FactsGpu;

/* A task that sleeps uninterruptibly and has to do with the driver. */
typedef struct FactsTask {
    pid_t pid;
    char name[EVENT_NAME_CAP];
    char wchan[64];    /* "" unknown */
    uint64_t since_ns; /* agent's clock: since when it was seen so at every look */
    bool ours;         /* a sampler */
} FactsTask;

/* Up to where the logs were processed: kept in the journal, so that the next agent goes on there. */
typedef struct LogPosition {
    char boot_id[40]; /* "" not known */
    bool read;        /* the kernel log of this boot could be read */
    uint64_t next;    /* number of its first record that was not processed; 0: none was. Kernels count from 0 */
    uint64_t fabric_offset, fabric_inode; /* in the fabric manager's file; 0, 0: at its beginning */
} LogPosition;

/* A port of a network adapter that is up, by sysfs: InfiniBand, RoCE, EFA, or an Ethernet device of hardware. */
enum { FACTS_ADAPTERS_MAX = 32, FACTS_ADAPTER_CAP = 32 };
typedef struct FactsAdapter {
    char name[FACTS_ADAPTER_CAP];         /* "mlx5_0", "mlx5_0/2" of a second port, "eth0" */
    double link;                          /* bytes per second in one direction; NaN: not known */
    uint64_t sent_bytes, received_bytes;  /* totals */
    uint64_t retries, congestion_notices; /* totals; 0 where they are not counted */
} FactsAdapter;

typedef enum FactsLog { FACTS_LOG_OFF, FACTS_LOG_KMSG, FACTS_LOG_JOURNAL, FACTS_LOG_DENIED } FactsLog;

typedef struct Facts {
    uint64_t time_ns; /* when the scan began, agent's clock; 0: none yet */
    bool scan_hangs;  /* a newer scan has been at it for long */
    size_t gpu_count; /* NVIDIA GPUs on the bus, those that were there at an earlier look and are gone included */
    FactsGpu gpus[NODE_GPUS_MAX];
    bool proc_known;    /* the rest was read */
    bool module_loaded; /* /proc/driver/nvidia/version is there */
    char module_version[READING_TEXT_CAP];
    bool pressure_known;
    double io_pressure, cpu_pressure; /* share of the last ten seconds in which some task waited for I/O, for a core */
    size_t adapter_count;
    FactsAdapter adapters[FACTS_ADAPTERS_MAX]; /* those whose bytes can be read */
    char boot_id[40];
    uint64_t boot_real_ns;
    size_t stuck_len;
    FactsTask stuck[FACTS_STUCK_MAX];
    size_t stuck_count; /* of all, those beyond the list too */
    /* logs */
    FactsLog log;
    char log_why[FACTS_WHY_CAP];     /* where it is denied */
    uint64_t log_lost;               /* records that were overwritten, since start */
    uint64_t log_silent_ns;          /* how long the reader has not been able to read */
    bool fabric_log;                 /* the fabric manager's file is being read */
    char journal_why[FACTS_WHY_CAP]; /* why the agent's journal cannot be written; "" it can, or there is none */
    /* what belongs to the driver on this machine */
    bool persistenced;   /* nvidia-persistenced runs */
    bool fabric_manager; /* nv-fabricmanager runs */
    bool imex;           /* nvidia-imex runs */
    bool all_tasks;      /* /proc shows the tasks of the whole machine: who is not in it does not run */
    bool has_switches;   /* NVSwitches on the PCI bus */
    bool device_denied;  /* /dev/nvidiactl exists and cannot be opened by us: EPERM of a device cgroup */
} Facts;
