/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The words of faults: cause, severity, action, route. Each is a table, and everything that reads or writes a word
 * (catalogue, JSON, labels, help) uses it. Plain data, any thread.
 */

#include "model/word.h"

/* CAUSE(id, key, text): where the fault lies. */
#define FAULT_CAUSE_TABLE(CAUSE)                                                                                       \
    CAUSE(CAUSE_APPLICATION, "application", "the program")                                                             \
    CAUSE(CAUSE_DRIVER, "driver", "kernel module, library or their versions")                                          \
    CAUSE(CAUSE_MEMORY, "memory", "the GPU's memory or caches")                                                        \
    CAUSE(CAUSE_BUS, "bus", "PCIe: slot, riser, switch or the GPU's end of it")                                        \
    CAUSE(CAUSE_LINK, "link", "an NVLink or C2C link")                                                                 \
    CAUSE(CAUSE_THERMAL, "thermal", "cooling or air")                                                                  \
    CAUSE(CAUSE_POWER, "power", "power supply or cabling")                                                             \
    CAUSE(CAUSE_FIRMWARE, "firmware", "the GPU's own firmware")                                                        \
    CAUSE(CAUSE_FABRIC, "fabric", "NVSwitches, fabric manager, IMEX")                                                  \
    CAUSE(CAUSE_HOST, "host", "the server itself or its kernel")                                                       \
    CAUSE(CAUSE_CONFIGURATION, "configuration", "a setting that somebody made")                                        \
    CAUSE(CAUSE_OPERATOR, "operator", "somebody is at work on the node")                                               \
    CAUSE(CAUSE_UNKNOWN, "unknown", "not known")

/* SEVERITY(id, key, text), the mildest first. */
#define FAULT_SEVERITY_TABLE(SEVERITY)                                                                                 \
    SEVERITY(SEVERITY_INFO, "info", "for information")                                                                 \
    SEVERITY(SEVERITY_WARNING, "warning", "work goes on, something is not as it should be")                            \
    SEVERITY(SEVERITY_ERROR, "error", "work was lost or is slow; the device goes on")                                  \
    SEVERITY(SEVERITY_FATAL, "fatal", "the device cannot be used until somebody acts")

/* ACTION(id, key, text): what to do, in the words of a person who does it. */
#define FAULT_ACTION_TABLE(ACTION)                                                                                     \
    ACTION(ACTION_NONE, "none", "Nothing to do")                                                                       \
    ACTION(ACTION_WATCH, "watch", "Keep watching it")                                                                  \
    ACTION(ACTION_CHECK_APP, "check-app", "Check the program and its input")                                           \
    ACTION(ACTION_RESTART_APP, "restart-app", "Restart the program")                                                   \
    ACTION(ACTION_RESET_GPU, "reset-gpu", "Reset the GPU when it is idle")                                             \
    ACTION(ACTION_DRAIN_AND_RESET, "drain-and-reset", "Drain and reset this GPU")                                      \
    ACTION(ACTION_REBOOT_NODE, "reboot-node", "Reboot this node")                                                      \
    ACTION(ACTION_DRAIN_AND_REBOOT, "drain-and-reboot", "Drain and reboot this node")                                  \
    ACTION(ACTION_DRAIN_AND_INSPECT, "drain-and-inspect", "Drain this node and have its hardware inspected")           \
    ACTION(ACTION_DRAIN_AND_RMA, "drain-and-rma", "Drain and replace this GPU")                                        \
    ACTION(ACTION_RESET_FABRIC, "reset-fabric", "Reset all GPUs and switches of the fabric together")                  \
    ACTION(ACTION_RESTART_FABRIC, "restart-fabric", "Restart the fabric manager")                                      \
    ACTION(ACTION_UPDATE_DRIVER, "update-driver", "Update the driver")                                                 \
    ACTION(ACTION_FIX_DRIVER, "fix-driver", "Load the NVIDIA kernel module (its version must match libnvidia-ml)")     \
    ACTION(ACTION_INSPECT_LINK, "inspect-link", "Check both ends of the link, its cable or bridge")                    \
    ACTION(ACTION_RESEAT, "reseat", "Reseat card, riser or cable")                                                     \
    ACTION(ACTION_CHECK_COOLING, "check-cooling", "Check fans and airflow")                                            \
    ACTION(ACTION_CHECK_POWER, "check-power", "Check power supplies and cables")                                       \
    ACTION(ACTION_FIX_SETTING, "fix-setting", "Correct the setting")                                                   \
    ACTION(ACTION_RESTART_CONTAINER, "restart-container", "Restart the container")                                     \
    ACTION(ACTION_RESTART_VM, "restart-vm", "Restart the virtual machine")                                             \
    ACTION(ACTION_CHECK_MONITOR, "check-monitor", "Check the agent, what it reads and what it writes")                 \
    ACTION(ACTION_REPORT_VENDOR, "report-vendor", "Report it to the vendor with its bundle")

/* ROUTE(id, key, text), the quietest first. */
#define FAULT_ROUTE_TABLE(ROUTE)                                                                                       \
    ROUTE(ROUTE_NONE, "none", "recorded only")                                                                         \
    ROUTE(ROUTE_USER, "user", "the owner of the work")                                                                 \
    ROUTE(ROUTE_TICKET, "ticket", "the operations queue")                                                              \
    ROUTE(ROUTE_PAGE, "page", "on call, now")

/* SCOPE(id, key): what an incident of the class is about. */
#define FAULT_SCOPE_TABLE(SCOPE)                                                                                       \
    SCOPE(SCOPE_NODE, "node")                                                                                          \
    SCOPE(SCOPE_GPU, "gpu")                                                                                            \
    SCOPE(SCOPE_INSTANCE, "instance") /* a MIG instance; the GPU where the event names none */                         \
    SCOPE(SCOPE_LINK, "link")         /* a link of a GPU or switch; that device where the event names none */          \
    SCOPE(SCOPE_SWITCH, "switch")                                                                                      \
    SCOPE(SCOPE_FABRIC, "fabric") /* all GPUs and switches of the node together */

/* CLEAR(id, key, text): when an incident of the class is over. */
#define FAULT_CLEAR_TABLE(CLEAR)                                                                                       \
    CLEAR(CLEAR_GONE, "gone", "when its condition no longer holds, and keep_firing_for has passed")                    \
    CLEAR(CLEAR_QUIET, "quiet", "when no further evidence came for `quiet`")                                           \
    CLEAR(CLEAR_RESET, "reset", "by a reset of the GPU, or anything stronger")                                         \
    CLEAR(CLEAR_DRIVER, "driver-reload", "by a reload of the driver, or anything stronger")                            \
    CLEAR(CLEAR_REBOOT, "reboot", "by a reboot, or a replacement")                                                     \
    CLEAR(CLEAR_REPLACED, "replaced", "when another board is in its place (serial or UUID)")                           \
    CLEAR(CLEAR_HAND, "hand", "by hand alone: stoker incidents clear ID")

typedef enum FaultCause { FAULT_CAUSE_TABLE(WORD_ID) CAUSE_END } FaultCause;

typedef enum FaultSeverity { FAULT_SEVERITY_TABLE(WORD_ID) SEVERITY_END } FaultSeverity;

typedef enum FaultAction { FAULT_ACTION_TABLE(WORD_ID) ACTION_END } FaultAction;

typedef enum FaultRoute { FAULT_ROUTE_TABLE(WORD_ID) ROUTE_END } FaultRoute;

typedef enum FaultScope { FAULT_SCOPE_TABLE(WORD_ID) SCOPE_END } FaultScope;

typedef enum FaultClear { FAULT_CLEAR_TABLE(WORD_ID) CLEAR_END } FaultClear;

/* What is said of a fault: by its class, by a rule, by a piece of evidence, in an incident. As members of a struct, one
 * by one and together as `says`. */
#define FAULT_SAYS_MEMBERS                                                                                             \
    {                                                                                                                  \
        FaultCause cause;                                                                                              \
        FaultSeverity severity;                                                                                        \
        FaultScope scope;                                                                                              \
        FaultAction action;                                                                                            \
        FaultRoute route;                                                                                              \
    }
typedef struct FaultSays FAULT_SAYS_MEMBERS FaultSays;
#define FAULT_SAYS                                                                                                     \
    union {                                                                                                            \
        struct FAULT_SAYS_MEMBERS;                                                                                     \
        FaultSays says;                                                                                                \
    }

/* How an action is done, in a sentence or two; for an incident whose action is not its class's. */
extern const char *const fault_steps[ACTION_END];

extern const WordRow fault_causes[CAUSE_END], fault_severities[SEVERITY_END], fault_actions[ACTION_END],
    fault_routes[ROUTE_END], fault_scopes[SCOPE_END], fault_clears[CLEAR_END];

/* What the driver asks for to recover, by its number (XID 154, nvmlDeviceGpuRecoveryAction_t); 0 nothing. */
enum { FAULT_RECOVERIES = 6 };
extern const struct FaultRecovery {
    const char *text;
    FaultAction action;
} fault_recoveries[FAULT_RECOVERIES];
