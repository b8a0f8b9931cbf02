/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The words of faults: cause, severity, action, route. Each is a table, and everything that reads or writes a word
 * (catalogue, JSON, labels, help) uses it. Plain data, any thread.
 */

#include <stdbool.h>
#include <stdint.h>

/* CAUSE(id, key, text): where the fault lies. */
#define FAULT_CAUSE_TABLE(CAUSE)                                                                                       \
    CAUSE(APPLICATION, "application", "the program")                                                                   \
    CAUSE(DRIVER, "driver", "kernel module, library or their versions")                                                \
    CAUSE(MEMORY, "memory", "the GPU's memory or caches")                                                              \
    CAUSE(BUS, "bus", "PCIe: slot, riser, switch or the GPU's end of it")                                              \
    CAUSE(LINK, "link", "an NVLink or C2C link")                                                                       \
    CAUSE(THERMAL, "thermal", "cooling or air")                                                                        \
    CAUSE(POWER, "power", "power supply or cabling")                                                                   \
    CAUSE(FIRMWARE, "firmware", "the GPU's own firmware")                                                              \
    CAUSE(FABRIC, "fabric", "NVSwitches, fabric manager, IMEX")                                                        \
    CAUSE(HOST, "host", "the server itself or its kernel")                                                             \
    CAUSE(CONFIGURATION, "configuration", "a setting that somebody made")                                              \
    CAUSE(OPERATOR, "operator", "somebody is at work on the node")                                                     \
    CAUSE(UNKNOWN, "unknown", "not known")

/* SEVERITY(id, key, text), the mildest first. */
#define FAULT_SEVERITY_TABLE(SEVERITY)                                                                                 \
    SEVERITY(INFO, "info", "for information")                                                                          \
    SEVERITY(WARNING, "warning", "work goes on, something is not as it should be")                                     \
    SEVERITY(ERROR, "error", "work was lost or is slow; the device goes on")                                           \
    SEVERITY(FATAL, "fatal", "the device cannot be used until somebody acts")

/* ACTION(id, key, text): what to do, in the words of a person who does it. */
#define FAULT_ACTION_TABLE(ACTION)                                                                                     \
    ACTION(NONE, "none", "Nothing to do")                                                                              \
    ACTION(WATCH, "watch", "Keep watching it")                                                                         \
    ACTION(CHECK_APP, "check-app", "Check the program and its input")                                                  \
    ACTION(RESTART_APP, "restart-app", "Restart the program")                                                          \
    ACTION(RESET_GPU, "reset-gpu", "Reset the GPU when it is idle")                                                    \
    ACTION(DRAIN_AND_RESET, "drain-and-reset", "Drain and reset this GPU")                                             \
    ACTION(REBOOT_NODE, "reboot-node", "Reboot this node")                                                             \
    ACTION(DRAIN_AND_REBOOT, "drain-and-reboot", "Drain and reboot this node")                                         \
    ACTION(DRAIN_AND_RMA, "drain-and-rma", "Drain and replace this GPU")                                               \
    ACTION(RESET_FABRIC, "reset-fabric", "Reset all GPUs and switches of the fabric together")                         \
    ACTION(RESTART_FABRIC, "restart-fabric", "Restart the fabric manager")                                             \
    ACTION(UPDATE_DRIVER, "update-driver", "Update the driver")                                                        \
    ACTION(FIX_DRIVER, "fix-driver", "Load the NVIDIA kernel module (its version must match libnvidia-ml)")            \
    ACTION(INSPECT_LINK, "inspect-link", "Check both ends of the link, its cable or bridge")                           \
    ACTION(RESEAT, "reseat", "Reseat card, riser or cable")                                                            \
    ACTION(CHECK_COOLING, "check-cooling", "Check fans and airflow")                                                   \
    ACTION(CHECK_POWER, "check-power", "Check power supplies and cables")                                              \
    ACTION(FIX_SETTING, "fix-setting", "Correct the setting")                                                          \
    ACTION(RESTART_CONTAINER, "restart-container", "Restart the container")                                            \
    ACTION(RESTART_VM, "restart-vm", "Restart the virtual machine")                                                    \
    ACTION(CHECK_MONITOR, "check-monitor", "Check the agent: it gets no data")                                         \
    ACTION(REPORT_VENDOR, "report-vendor", "Report it to the vendor with its bundle")

/* ROUTE(id, key, text), the quietest first. */
#define FAULT_ROUTE_TABLE(ROUTE)                                                                                       \
    ROUTE(NONE, "none", "recorded only")                                                                               \
    ROUTE(USER, "user", "the owner of the work")                                                                       \
    ROUTE(TICKET, "ticket", "the operations queue")                                                                    \
    ROUTE(PAGE, "page", "on call, now")

/* SCOPE(id, key): what an incident of the class is about. */
#define FAULT_SCOPE_TABLE(SCOPE)                                                                                       \
    SCOPE(NODE, "node")                                                                                                \
    SCOPE(GPU, "gpu")                                                                                                  \
    SCOPE(INSTANCE, "instance") /* a MIG instance; the GPU where the event names none */                               \
    SCOPE(LINK, "link")         /* a link of a GPU or switch; that device where the event names none */                \
    SCOPE(SWITCH, "switch")                                                                                            \
    SCOPE(FABRIC, "fabric") /* all GPUs and switches of the node together */

/* CLEAR(id, key, text): when an incident of the class is over. */
#define FAULT_CLEAR_TABLE(CLEAR)                                                                                       \
    CLEAR(GONE, "gone", "when its condition no longer holds, and keep_firing_for has passed")                          \
    CLEAR(QUIET, "quiet", "when no further evidence came for `quiet`")                                                 \
    CLEAR(RESET, "reset", "by a reset of the GPU, or anything stronger")                                               \
    CLEAR(DRIVER, "driver-reload", "by a reload of the driver, or anything stronger")                                  \
    CLEAR(REBOOT, "reboot", "by a reboot, or a replacement")                                                           \
    CLEAR(REPLACED, "replaced", "when another board is in its place (serial or UUID)")                                 \
    CLEAR(HAND, "hand", "by hand alone: stoker incidents clear ID")

typedef enum FaultCause {
#define CAUSE(id, key, text) CAUSE_##id,
    FAULT_CAUSE_TABLE(CAUSE)
#undef CAUSE
        CAUSE_END,
} FaultCause;

typedef enum FaultSeverity {
#define SEVERITY(id, key, text) SEVERITY_##id,
    FAULT_SEVERITY_TABLE(SEVERITY)
#undef SEVERITY
        SEVERITY_END,
} FaultSeverity;

typedef enum FaultAction {
#define ACTION(id, key, text) ACTION_##id,
    FAULT_ACTION_TABLE(ACTION)
#undef ACTION
        ACTION_END,
} FaultAction;

typedef enum FaultRoute {
#define ROUTE(id, key, text) ROUTE_##id,
    FAULT_ROUTE_TABLE(ROUTE)
#undef ROUTE
        ROUTE_END,
} FaultRoute;

typedef enum FaultScope {
#define SCOPE(id, key) SCOPE_##id,
    FAULT_SCOPE_TABLE(SCOPE)
#undef SCOPE
        SCOPE_END,
} FaultScope;

typedef enum FaultClear {
#define CLEAR(id, key, text) CLEAR_##id,
    FAULT_CLEAR_TABLE(CLEAR)
#undef CLEAR
        CLEAR_END,
} FaultClear;

/* The tables as arrays of words, in the order of the enums. */
typedef struct FaultWord {
    const char *key, *text; /* text NULL for scopes */
} FaultWord;

extern const FaultWord fault_causes[CAUSE_END], fault_severities[SEVERITY_END], fault_actions[ACTION_END],
    fault_routes[ROUTE_END], fault_scopes[SCOPE_END], fault_clears[CLEAR_END];

/* What the driver asks for to recover, by its number (XID 154, nvmlDeviceGpuRecoveryAction_t); 0 nothing. */
enum { FAULT_RECOVERIES = 6 };
extern const struct FaultRecovery {
    const char *text;
    FaultAction action;
} fault_recoveries[FAULT_RECOVERIES];

/* The number of the word with this key among `count`; -1 where there is none. */
int fault_word_find(const FaultWord *words, int count, const char *key);
