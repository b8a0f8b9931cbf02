/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Something that happened, as a log line, the driver or the agent itself tells it: one XID, one SXid, one kill for
 * memory. What it means is the catalogue's business (engine/health/catalogue.h). Plain values without pointers, any
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/device.h"
#include "model/pci.h"

/* WORD(id, key, text) */
#define EVENT_TABLE(WORD)                                                                                              \
    WORD(EVENT_XID, "xid", "an XID of the GPU driver")                                                                 \
    WORD(EVENT_SXID, "sxid", "an SXid of an NVSwitch")                                                                 \
    WORD(EVENT_OFF_BUS, "off-bus", "the driver says that a GPU fell off the bus, without an XID")                      \
    WORD(EVENT_INIT_FAILED, "init-failed", "the driver could not start a GPU (RmInitAdapter)")                         \
    WORD(EVENT_API_MISMATCH, "api-mismatch", "a program has another driver version than the kernel module")            \
    WORD(EVENT_MODULE_LOADED, "module-loaded", "the kernel module was loaded")                                         \
    WORD(EVENT_MODULE_UNLOADED, "module-unloaded", "the kernel module was unloaded")                                   \
    WORD(EVENT_GSP_SLOW, "gsp-slow", "the GPU's firmware answers late")                                                \
    WORD(EVENT_GSP_DEAD, "gsp-dead", "the GPU's firmware did not answer several times, the GPU waits for a reset")     \
    WORD(EVENT_RESET_NEEDED, "reset-needed", "the driver refuses work because a GPU needs a reset")                    \
    WORD(EVENT_UVM_FATAL, "uvm-fatal", "the driver's memory management (UVM) has failed until a reboot")               \
    WORD(EVENT_AER, "aer", "the kernel reports an error of PCIe")                                                      \
    WORD(EVENT_PORT_DOWN, "port-down", "a PCIe port has cut its link (DPC, hotplug)")                                  \
    WORD(EVENT_MCE, "mce", "the kernel reports a machine check or a memory error of the host")                         \
    WORD(EVENT_OOM_KILL, "oom-kill", "the kernel killed a process for memory")                                         \
    WORD(EVENT_HUNG_TASK, "hung-task", "a task is blocked in the kernel")                                              \
    WORD(EVENT_LOCKUP, "lockup", "a processor is stuck in the kernel")                                                 \
    WORD(EVENT_RCU_STALL, "rcu-stall", "a processor does not answer the kernel (RCU)")                                 \
    WORD(EVENT_OOPS, "oops", "the kernel ended a task for an error of its own")                                        \
    WORD(EVENT_PANIC, "panic", "the kernel panicked; found after the reboot")                                          \
    WORD(EVENT_SEGFAULT, "segfault", "a program crashed in a library of the GPU")                                      \
    WORD(EVENT_PEERMEM, "peermem", "nvidia-peermem reports an error")                                                  \
    WORD(EVENT_NVLINK_DRIVER, "nvlink-driver", "the driver reports a problem of an NVLink without an XID")             \
    WORD(EVENT_FABRIC_LOG, "fabric-log", "the fabric manager reports an error")                                        \
    WORD(EVENT_LINE, "line", "a line that a rule of the site looks for")                                               \
    WORD(EVENT_LOG_LOST, "log-lost", "lines of the kernel log were overwritten before they could be read")             \
    WORD(EVENT_REBOOT, "reboot", "the node was started")                                                               \
    WORD(EVENT_RESET, "reset", "a GPU was reset")                                                                      \
    WORD(EVENT_REPLACED, "replaced", "another GPU is in the place of one")                                             \
    WORD(EVENT_MIG_LAYOUT, "mig-layout", "the MIG layout of a GPU was changed")                                        \
    WORD(EVENT_AGENT_START, "agent-start", "this agent was started")

typedef enum EventKind { EVENT_TABLE(WORD_ID) EVENT_KIND_END } EventKind;

#define EVENT_ORIGIN_TABLE(WORD)                                                                                       \
    WORD(EVENT_FROM_KMSG, "kmsg")                                                                                      \
    WORD(EVENT_FROM_JOURNAL, "journal")       /* systemd's journal, where the kernel log is denied */                  \
    WORD(EVENT_FROM_NVML, "nvml")             /* an event that the driver's library delivered */                       \
    WORD(EVENT_FROM_FABRIC_LOG, "fabric-log") /* the fabric manager's own file */                                      \
    WORD(EVENT_FROM_AGENT, "agent")           /* what the agent itself saw */

typedef enum EventOrigin { EVENT_ORIGIN_TABLE(WORD_ID) EVENT_ORIGIN_END } EventOrigin;

/* The driver's own word in the line, which stands above every table. */
#define EVENT_WORD_TABLE(WORD)                                                                                         \
    WORD(EVENT_NO_WORD, "")                                                                                            \
    WORD(EVENT_CORRECTABLE, "correctable")                                                                             \
    WORD(EVENT_NONFATAL, "nonfatal")                                                                                   \
    WORD(EVENT_FATAL, "fatal")

typedef enum EventWord { EVENT_WORD_TABLE(WORD_ID) EVENT_WORD_END } EventWord;

enum { EVENT_TEXT_CAP = 240, EVENT_NAME_CAP = 32, EVENT_UNIT_CAP = 24, EVENT_REGISTERS = 7, EVENT_NO_ACTION = -1 };

/* Start from event_init, not from zeroes. */
typedef struct Event {
    EventKind kind;
    EventOrigin origin;
    EventWord word;
    bool before;  /* it is from before the agent's start, read from what the log still holds */
    bool undated; /* and its line does not say when: the times are those of the start */
    bool older;   /* and so long ago at least: it is dated beside the newest line of a file, taken as of the start */
    uint64_t time_ns;  /* the agent's monotonic clock; of one from before, what it would have been (0: earlier) */
    uint64_t real_ns;  /* wall clock */
    uint64_t sequence; /* of the kernel's record, 0: none */
    /* what it is about */
    bool has_pci;
    PciAddress pci;                          /* GPU, switch (SXid, fabric log) or any function (AER) */
    uint32_t gpu_instance, compute_instance; /* DEVICE_NO_NUMBER: none named */
    uint32_t link;                           /* NVLink or switch port; DEVICE_NO_NUMBER: none named */
    /* what it is */
    int32_t code;                        /* XID, SXid; else 0 */
    uint32_t count;                      /* so many of it in one line (EDAC); else 1 */
    int32_t caused_by;                   /* XID that it says it follows ("caused by previous Xid 149"), 0: none */
    int32_t recovery_action;             /* XID 154: the new action's number, else EVENT_NO_ACTION */
    int32_t gpc, tpc, sm;                /* XID 13: where, -1 unknown */
    uint32_t registers[EVENT_REGISTERS]; /* XID 74: the seven in brackets; XID 144-150: intrInfo, errorStatus, ... */
    uint32_t register_count;
    char unit[EVENT_UNIT_CAP];       /* XID 144-150: "NETIR_LINK_EVT"; "" otherwise */
    int32_t pid;                     /* -1: unknown */
    char process[EVENT_NAME_CAP];    /* "" unknown */
    char uuid[DEVICE_UUID_CAP];      /* where the line itself names it, else "" */
    char version[2][EVENT_NAME_CAP]; /* API_MISMATCH: of the program, of the module; MODULE_LOADED: [1] */
    char text[EVENT_TEXT_CAP];       /* the line without its prefix; UTF-8 without control characters, cut */
} Event;

/* An event of this kind about which nothing else is known. */
void event_init(Event *event, EventKind kind, EventOrigin origin);

extern const WordRow event_kinds[EVENT_KIND_END], event_origins[EVENT_ORIGIN_END], event_words[EVENT_WORD_END];
