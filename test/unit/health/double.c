/* SPDX-License-Identifier: Apache-2.0 */
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000000)
#define M (60 * S)

#define CLASS(name, says, c, sev, sc, act, r, cl, ...)                                                                 \
    {                                                                                                                  \
        .id = name, .text = says, .advice = "Do as the page of " name " says.", .runbook = "", .cause = CAUSE_##c,     \
        .severity = SEVERITY_##sev, .scope = SCOPE_##sc, .action = ACTION_##act, .route = ROUTE_##r,                   \
        .clear = CLEAR_##cl, .parent_ns = 60 * S, .reopen_ns = 10 * M, __VA_ARGS__                                     \
    }
#define PLAIN .parent_count = 0
#define PARENTS(count, ...) .parent_count = (count), .source = #__VA_ARGS__ /* by name; make() finds them */

static FaultClass classes[] = {
    CLASS("gpu-lost", "the GPU has fallen off the bus", BUS, FATAL, GPU, DRAIN_AND_REBOOT, PAGE, RESET, PLAIN),
    CLASS("ecc-uncorrectable", "the GPU has an uncorrectable memory error", MEMORY, ERROR, GPU, RESET_GPU, TICKET,
          RESET, PARENTS(1, "gpu-lost")),
    CLASS("row-remap-pending", "a row waits to be remapped", MEMORY, WARNING, GPU, DRAIN_AND_RESET, TICKET, RESET,
          PARENTS(1, "ecc-uncorrectable")),
    CLASS("row-remap-failed", "a row cannot be remapped", MEMORY, FATAL, GPU, DRAIN_AND_RMA, PAGE, REPLACED,
          PARENTS(1, "ecc-uncorrectable")),
    CLASS("ecc-contained", "a memory error was contained", MEMORY, WARNING, GPU, RESTART_APP, USER, QUIET,
          .quiet_ns = 10 * M, PARENTS(1, "ecc-uncorrectable")),
    CLASS("gsp-failure", "the GPU's firmware does not answer", FIRMWARE, FATAL, GPU, DRAIN_AND_RESET, PAGE, RESET,
          PARENTS(1, "gpu-lost")),
    CLASS("reset-required", "the driver asks for a reset", DRIVER, ERROR, GPU, RESET_GPU, TICKET, RESET,
          PARENTS(4, "gpu-lost", "ecc-uncorrectable", "gsp-failure", "nvlink-down")),
    CLASS("nvlink-down", "the NVLink is down", LINK, ERROR, LINK, INSPECT_LINK, TICKET, RESET,
          PARENTS(2, "nvswitch", "gpu-lost")),
    CLASS("nvlink-errors", "the NVLink has errors", LINK, WARNING, LINK, INSPECT_LINK, TICKET, GONE, .for_ns = 60 * S,
          .keep_ns = 120 * S, PARENTS(1, "nvlink-down")),
    CLASS("nvswitch", "the switch has failed", FABRIC, FATAL, SWITCH, DRAIN_AND_REBOOT, PAGE, RESET, PLAIN),
    CLASS("fabric", "the fabric is not ready", FABRIC, FATAL, FABRIC, RESTART_FABRIC, PAGE, GONE, .for_ns = 30 * S,
          .keep_ns = 60 * S, PARENTS(1, "nvswitch")),
    CLASS("app-fault", "a program failed", APPLICATION, INFO, INSTANCE, CHECK_APP, USER, QUIET, .quiet_ns = 10 * M,
          .by_code = true, .by_process = true,
          PARENTS(6, "gpu-lost", "ecc-uncorrectable", "gsp-failure", "nvswitch", "nvlink-down", "gpu-fault-suspected")),
    CLASS("gpu-fault-suspected", "the GPU is suspected", MEMORY, WARNING, GPU, DRAIN_AND_RESET, TICKET, HAND, PLAIN),
    CLASS("pcie-degraded", "the GPU has a narrow link to the host", BUS, WARNING, GPU, RESEAT, TICKET, GONE,
          .for_ns = 60 * S, .keep_ns = 120 * S),
    CLASS("inforom-corrupt", "the GPU has a corrupt InfoROM", FIRMWARE, WARNING, GPU, DRAIN_AND_RMA, TICKET, REPLACED,
          PLAIN),
    CLASS("driver-error", "the driver has failed", DRIVER, ERROR, GPU, DRAIN_AND_REBOOT, TICKET, DRIVER, PLAIN),
    CLASS("host-memory", "the host has memory errors", HOST, ERROR, NODE, DRAIN_AND_REBOOT, TICKET, REBOOT, PLAIN),
    CLASS("host-oom", "the kernel killed a process for memory", APPLICATION, WARNING, NODE, CHECK_APP, USER, QUIET,
          .quiet_ns = 10 * M, .by_process = true),
    CLASS("gpu-held-idle", "the GPU is held idle", APPLICATION, INFO, INSTANCE, CHECK_APP, USER, GONE,
          .keep_ns = 30 * S, .by_owner = true),
    CLASS("pcie-errors", "the GPU has errors on its link to the host", BUS, WARNING, GPU, WATCH, TICKET, QUIET,
          .quiet_ns = 30 * M),
    CLASS("trial", "a check is on trial", DRIVER, FATAL, GPU, DRAIN_AND_RMA, PAGE, RESET, .observe = true),
    CLASS("under-trial", "something under a check on trial", DRIVER, ERROR, GPU, WATCH, TICKET, RESET,
          PARENTS(1, "trial")),
    CLASS("off", "a check that is off", DRIVER, FATAL, GPU, DRAIN_AND_RMA, PAGE, RESET, PLAIN),
    CLASS("xid-unknown", "an XID that nothing is known of", UNKNOWN, WARNING, GPU, REPORT_VENDOR, TICKET, QUIET,
          .quiet_ns = 60 * M, .by_code = true),
};

enum { CLASSES = sizeof classes / sizeof classes[0] };

static bool hidden[CLASSES];

static const struct {
    EventKind kind;
    int32_t code;
    const char *class;
    bool silent;
} rows[] = {
    {EVENT_XID, 79, "gpu-lost", false},
    {EVENT_XID, 48, "ecc-uncorrectable", false},
    {EVENT_XID, 95, "ecc-uncorrectable", false},
    {EVENT_XID, 171, "ecc-uncorrectable", false},
    {EVENT_XID, 172, "ecc-uncorrectable", false},
    {EVENT_XID, 63, "row-remap-pending", false},
    {EVENT_XID, 64, "row-remap-failed", false},
    {EVENT_XID, 94, "ecc-contained", false},
    {EVENT_XID, 119, "gsp-failure", false},
    {EVENT_XID, 154, "reset-required", true},
    {EVENT_XID, 45, "app-fault", true},
    {EVENT_XID, 43, "app-fault", true},
    {EVENT_XID, 31, "app-fault", false},
    {EVENT_XID, 13, "app-fault", false},
    {EVENT_XID, 74, "nvlink-down", false},
    {EVENT_XID, 149, "nvlink-down", false},
    {EVENT_XID, 109, "trial", false},
    {EVENT_XID, 110, "under-trial", false},
    {EVENT_XID, 120, "off", false},
    {EVENT_XID, 46, "driver-error", false},
    {EVENT_SXID, 20034, "nvswitch", false},
    {EVENT_SXID, 20035, "fabric", false},
    {EVENT_OFF_BUS, 0, "gpu-lost", false},
    {EVENT_OOM_KILL, 0, "host-oom", false},
    {EVENT_MCE, 0, "host-memory", false},
    {EVENT_AER, 0, "pcie-errors", false},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static FaultRule rules[ROWS], conditions[CLASSES], unknown;
static char names[ROWS + CLASSES][48];

static void fill(FaultRule *rule, const FaultClass *fault, char *name)
{
    *rule = (FaultRule){
        .id = name,
        .name = fault->text,
        .text = "",
        .fault = fault,
        .cause = fault->cause,
        .severity = fault->severity,
        .scope = fault->scope,
        .action = fault->action,
        .route = fault->observe ? ROUTE_NONE : fault->route,
        .for_ns = fault->for_ns,
        .keep_ns = fault->keep_ns,
    };
}

static const FaultClass *class_of(const char *id)
{
    for (size_t i = 0; i < CLASSES; i++)
        if (strcmp(classes[i].id, id) == 0)
            return &classes[i];
    abort();
}

static void find_parents(FaultClass *class)
{
    const char *at = class->source;

    for (size_t i = 0; i < class->parent_count; i++) {
        char name[48];

        at = strchr(at, '"') + 1;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\""), at);
        at = strchr(at, '"') + 1;
        class->parents[i] = class_of(name);
    }
    class->source = "";
}

static void make(void)
{
    static bool made;

    if (made)
        return;
    made = true;
    for (size_t i = 0; i < CLASSES; i++)
        classes[i].enabled = strcmp(classes[i].id, "off") != 0;
    for (size_t i = 0; i < CLASSES; i++)
        find_parents(&classes[i]);
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(names[i], sizeof names[i], "%s-%d", rows[i].kind == EVENT_XID ? "xid" : "event", rows[i].code);
        fill(&rules[i], class_of(rows[i].class), names[i]);
        rules[i].silent = rows[i].silent;
    }
    for (size_t i = 0; i < CLASSES; i++) {
        snprintf(names[ROWS + i], sizeof names[0], "cond-%.40s", classes[i].id);
        fill(&conditions[i], &classes[i], names[ROWS + i]);
        if (strcmp(classes[i].id, "ecc-uncorrectable") == 0)
            conditions[i].explained_by = class_of("ecc-contained");
    }
    fill(&unknown, class_of("xid-unknown"), (char[]){"xid-unknown"});
    unknown.id = "xid-unknown";
}

size_t double_classes(void)
{
    return CLASSES;
}

const FaultClass *double_class_at(size_t i)
{
    make();
    return &classes[i];
}

const FaultRule *double_condition(const char *class)
{
    make();
    for (size_t i = 0; i < CLASSES; i++)
        if (strcmp(classes[i].id, class) == 0)
            return &conditions[i];
    abort();
}

void double_hide(const char *class, bool hide)
{
    for (size_t i = 0; i < CLASSES; i++)
        if (strcmp(classes[i].id, class) == 0)
            hidden[i] = hide;
}

const FaultClass *catalogue_class(const Catalogue *catalogue, const char *id)
{
    (void)catalogue;
    make();
    for (size_t i = 0; i < CLASSES; i++)
        if (!hidden[i] && strcmp(classes[i].id, id) == 0)
            return &classes[i];
    return NULL;
}

const FaultRule *catalogue_next_counted(const Catalogue *catalogue, const Event *event, uint32_t driver_major,
                                        uint32_t arch, const FaultRule *after)
{
    (void)catalogue;
    (void)event;
    (void)driver_major;
    (void)arch;
    (void)after;
    return NULL;
}

const FaultRule *catalogue_next_repeat(const Catalogue *catalogue, const FaultClass *class, const FaultRule *after)
{
    (void)catalogue;
    (void)class;
    (void)after;
    return NULL;
}

bool catalogue_match(const Catalogue *catalogue, const Event *event, uint32_t driver_major, uint32_t arch,
                     FaultVerdict *ret_verdict)
{
    const FaultRule *rule = event->kind == EVENT_XID ? &unknown : NULL;

    (void)catalogue;
    (void)driver_major;
    (void)arch;
    make();
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].kind == event->kind && rows[i].code == event->code)
            rule = &rules[i];
    if (!rule)
        return false;
    *ret_verdict = fault_verdict(rule);
    if (event->word == EVENT_FATAL && ret_verdict->severity < SEVERITY_ERROR)
        ret_verdict->severity = SEVERITY_ERROR;
    return true;
}
