/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log: the texts of XIDs, the driver's lines around them, and the writer. */
#include "sim/node/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/num.h"
#include "sim/core/state.h"

/* What a line is made from. */
typedef struct XidLine {
    SimImage *image;
    const SimEvent *event;
    const SimBoard *board;
    uint32_t branch;  /* driver version, first number */
    uint64_t random;  /* the same for the same event */
    uint32_t channel; /* the same for all lines about one process on this GPU */
    uint64_t address; /* memory address that errors of one incident share */
    uint32_t before;  /* XID 154: the recovery action until then */
} XidLine;

/* --- texts of XIDs ----------------------------------------------------------------------------------------------- */

/*
 * One row per XID and range of driver versions. Shapes follow the open driver's format strings and lines that users
 * have published; numbers in them are drawn from the event's hash. A code without a row names its channel, as most
 * engine errors do.
 */

#define ANY_LATER UINT32_MAX

typedef struct XidRow {
    uint32_t xid, since, until; /* driver branches [since, until) */
    bool channel;
    bool (*add)(const XidLine *line, Str *out); /* false: not printed; NULL: `text` */
    const char *text;
} XidRow;

/* Bits of the event's hash: small numbers for a line. */
static uint32_t pick_number(const XidLine *l, uint32_t shift, uint32_t count)
{
    return (uint32_t)(l->random >> shift) % count;
}

static uint32_t link_of(const XidLine *l)
{
    return (uint32_t)(l->event->extra & 0xff);
}

static bool add_idle_channel(const XidLine *l, Str *out)
{
    str_addf(out, "Channel %08x", l->channel);
    return true;
}

static bool add_channel(const XidLine *l, Str *out)
{
    str_addf(out, "Ch %08x", l->channel);
    return true;
}

static bool add_exception(const XidLine *l, Str *out)
{
    uint32_t gpc = pick_number(l, 8, 7), tpc = pick_number(l, 12, 8), sm = pick_number(l, 16, 2);
    uint32_t base = 0x500000 + gpc * 0x8000 + tpc * 0x800 + sm * 0x80;
    str_addf(out, "Graphics SM Warp Exception on (GPC %u, TPC %u, SM %u): Out Of Range Address\n", gpc, tpc, sm);
    str_addf(out, "Graphics Exception: ESR 0x%x=0x%x 0x%x=0x0 0x%x=0xf81eb60 0x%x=0x1174\n", base + 0x730,
             0xeu | pick_number(l, 20, 16) << 16, base + 0x734, base + 0x728, base + 0x72c);
    str_addf(out, "Graphics Exception: ChID %04x, Class 0000%s, Offset 00000000, Data 00000000", l->channel,
             l->board->arch >= 9   ? "cbc0"
             : l->board->arch >= 7 ? "c6c0"
                                   : "c5c0");
    return true;
}

static bool add_mmu_fault(const XidLine *l, Str *out)
{
    str_addf(out,
             "Ch %08x, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_%u faulted @ 0x%x_%08x. "
             "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
             l->channel, pick_number(l, 8, 16), 0x7f00 + pick_number(l, 16, 256),
             (uint32_t)(l->random >> 24) & 0xfffff000u);
    return true;
}

static bool add_pbdma(const XidLine *l, Str *out)
{
    str_addf(out, "Channel ID %08x intr0 %08x", l->channel, 0x00040000u);
    return true;
}

static bool add_dbe(const XidLine *l, Str *out)
{
    str_addf(out,
             "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr 0x%llx "
             "partition %u, subpartition %u.",
             (unsigned long long)l->address, pick_number(l, 8, 20), pick_number(l, 16, 4));
    return true;
}

static bool add_dbe_old(const XidLine *l, Str *out)
{
    str_addf(out,
             "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition %u, "
             "subpartition %u.",
             pick_number(l, 8, 8), pick_number(l, 16, 2));
    return true;
}

static bool add_microcontroller(const XidLine *l, Str *out)
{
    str_addf(out, "%04x(%04x) %08x %08x", 0x0c00 + pick_number(l, 0, 0x400), 0x2000 + pick_number(l, 10, 0x1000),
             (uint32_t)(l->random >> 22), 0u);
    return true;
}

static bool add_retired(const XidLine *l, Str *out)
{
    unsigned long long address = l->address, page = address >> 12;
    if (l->board->has_remap)
        str_addf(out, "Row Remapper: New row (0x%016llx) marked for remapping, reset gpu to activate.", address);
    else
        str_addf(out, "Dynamic Page Retirement: New retired page, reload the driver to activate. (0x%016llx)", page);
    return true;
}

static bool add_not_retired(const XidLine *l, Str *out)
{
    unsigned long long address = l->address, page = address >> 12;
    if (l->board->has_remap)
        str_addf(out, "Row Remapper Error: (0x%016llx) - All reserved rows for bank are remapped", address);
    else
        str_addf(out, "Dynamic Page Retirement: FATAL, unable to retire page (0x%016llx)", page);
    return true;
}

static bool add_class_error(const XidLine *l, Str *out)
{
    str_addf(out, "Class Error: ChId %04x, Class 0000cbc0, Offset 00000000, Data 00000000, ErrorCode 00000004",
             l->channel);
    return true;
}

static bool add_link(const XidLine *l, Str *out)
{
    str_addf(out, "NVLink: fatal error detected on link %u(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", link_of(l));
    return true;
}

static bool add_switch_timeout(const XidLine *l, Str *out)
{
    str_addf(out, "Ch %08x, errorString CTX SWITCH TIMEOUT, Info 0x%x", l->channel, 0x58005 + pick_number(l, 8, 4));
    return true;
}

/* ---- the GPU's own processor: the words changed at 535, 550 and 595 ---- */

static bool add_rpc_first(const XidLine *l, Str *out)
{
    str_addf(out, "Timeout waiting for RPC from GSP! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x%x).",
             0x580 + pick_number(l, 4, 16));
    return true;
}

static bool add_rpc_numbered(const XidLine *l, Str *out)
{
    str_addf(out, "Timeout waiting for RPC from GSP%d! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x%x).",
             l->event->gpu, 0x580 + pick_number(l, 4, 16));
    return true;
}

static bool add_rpc_timed(const XidLine *l, Str *out)
{
    str_addf(out,
             "Timeout after 6s of waiting for RPC response from GPU%d GSP! Expected function 76 (GSP_RM_CONTROL) "
             "(0x20803032 0x%x).",
             l->event->gpu, 0x580 + pick_number(l, 4, 16));
    return true;
}

static bool add_rpc_sequence(const XidLine *l, Str *out)
{
    str_addf(out,
             "Timeout after 6s of waiting for RPC response from GPU%d GSP! Expected function 76 (GSP_RM_CONTROL) "
             "sequence %u (0x20803032 0x%x).",
             l->event->gpu, 100 + pick_number(l, 8, 4000), 0x580 + pick_number(l, 4, 16));
    return true;
}

static bool add_task(const XidLine *l, Str *out)
{
    str_addf(out, "GSP Error: Task %u raised error code 0x%x for reason 0x%x at 0x%x (%u more errors skipped)%s",
             1 + pick_number(l, 0, 4), 0x8 + pick_number(l, 4, 8), 0x0u, 0x4b0000u + pick_number(l, 8, 0xffff),
             pick_number(l, 28, 4), l->branch >= 545 ? " The GPU likely needs to be reset." : "");
    return true;
}

static bool add_ecc_unhandled(const XidLine *l, Str *out)
{
    str_addf(out,
             "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:%u, LTC:%u, MMU:%u, "
             "PCIE:%u",
             0u, 1u, pick_number(l, 4, 2), 0u);
    return true;
}

static bool add_boot(const XidLine *l, Str *out)
{
    str_addf(out, "Error status 0x%x while polling for FSP boot complete, 0x%x, 0x%x, 0x%x, 0x%x, 0x%x", 0x65u,
             pick_number(l, 0, 256), 0u, 0u, 0u, 0u);
    return true;
}

/* ---- NVLink 5: "SUBCODE severity cross-contain injected Link" ---- */

static bool add_nvlink5(const XidLine *l, Str *out)
{
    static const struct {
        uint32_t xid;
        const char *subcode, *severity;
        uint32_t info, status;
    } rows[] = {
        {144, "SAW_MVB", "Nonfatal", 0x00000421, 0x00000001},
        {145, "RLW_SRC_TRACK", "Nonfatal", 0x040868e2, 0x00000008},
        {146, "TLW_RX", "Nonfatal", 0x00000c62, 0x00000010},
        {147, "TREX", "Fatal", 0x00000861, 0x00000002},
        {148, "NVLPW_CTRL", "Nonfatal", 0x00000462, 0x00000001},
        {149, "NETIR_LINK_EVT", "Fatal", 0x004505c6, 0x00000000},
        {150, "MSE_WATCHDOG", "Fatal", 0x00000be7, 0x00000001},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].xid == l->event->data)
            str_addf(out, "%s %s XC0 i0 Link %02u (0x%08x 0x%08x 0x00000000 0x00000000 0x00000000 0x00000000)",
                     rows[i].subcode, rows[i].severity, link_of(l), rows[i].info, rows[i].status);
    return true;
}

static const char *action_name(uint64_t action)
{
    static const char *const names[] = {"None",      "GPU Reset Required", "Node Reboot Required",
                                        "Drain P2P", "Drain and Reset",    "Recover IMEX Domain"};
    return action < ARRAY_LEN(names) ? names[action] : "Unknown";
}

static bool add_recovery(const XidLine *l, Str *out)
{
    if (l->before == l->event->extra)
        return false; /* the driver tells changes */
    str_addf(out, "GPU recovery action changed from 0x%x (%s) to 0x%llx (%s)", l->before, action_name(l->before),
             (unsigned long long)l->event->extra, action_name(l->event->extra));
    return true;
}

/* clang-format off */
static const XidRow rows[] = {
    {8, 0, ANY_LATER, true, add_idle_channel, NULL},
    {13, 0, ANY_LATER, true, add_exception, NULL},
    {31, 0, ANY_LATER, true, add_mmu_fault, NULL},
    {32, 0, ANY_LATER, true, add_pbdma, NULL},
    {43, 0, ANY_LATER, true, add_channel, NULL},
    {45, 0, ANY_LATER, true, add_channel, NULL},
    {48, 0, 515, false, add_dbe_old, NULL},
    {48, 515, ANY_LATER, false, add_dbe, NULL},
    {61, 0, ANY_LATER, false, add_microcontroller, NULL},
    {62, 0, ANY_LATER, false, add_microcontroller, NULL},
    {63, 0, ANY_LATER, false, add_retired, NULL},
    {64, 0, ANY_LATER, false, add_not_retired, NULL},
    {69, 0, ANY_LATER, true, add_class_error, NULL},
    {74, 0, ANY_LATER, false, add_link, NULL},
    {79, 0, ANY_LATER, false, NULL, "GPU has fallen off the bus."},
    {92, 0, ANY_LATER, false, NULL, "High single-bit ECC error rate"},
    {94, 0, ANY_LATER, true, NULL, "Contained: CE User Channel (0x9). RST: No, D-RST: No"},
    {95, 0, ANY_LATER, false, NULL, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"},
    {109, 0, ANY_LATER, true, add_switch_timeout, NULL},
    {119, 0, 535, false, add_rpc_first, NULL},
    {119, 535, 550, false, add_rpc_numbered, NULL},
    {119, 550, 595, false, add_rpc_timed, NULL},
    {119, 595, ANY_LATER, false, add_rpc_sequence, NULL},
    {120, 0, ANY_LATER, false, add_task, NULL},
    {140, 0, ANY_LATER, false, add_ecc_unhandled, NULL},
    {143, 0, ANY_LATER, false, add_boot, NULL},
    {144, 560, ANY_LATER, false, add_nvlink5, NULL},
    {145, 560, ANY_LATER, false, add_nvlink5, NULL},
    {146, 560, ANY_LATER, false, add_nvlink5, NULL},
    {147, 560, ANY_LATER, false, add_nvlink5, NULL},
    {148, 560, ANY_LATER, false, add_nvlink5, NULL},
    {149, 560, ANY_LATER, false, add_nvlink5, NULL},
    {150, 560, ANY_LATER, false, add_nvlink5, NULL},
    {154, 0, ANY_LATER, false, add_recovery, NULL},
    {171, 0, ANY_LATER, false, NULL, "HBM, Uncorrectable DRAM error"},
    {172, 0, ANY_LATER, false, NULL, "GSP-RISCV, Uncorrectable SRAM error"},
};
/* clang-format on */

/* The message of the event's XID, without pid and name, several lines separated by '
'; false where this driver prints
 * nothing. *ret_channel: it belongs to a channel, so the driver names its process. */
static bool xid_message(const XidLine *line, Str *out, bool *ret_channel)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const XidRow *row = &rows[i];
        if (row->xid != line->event->data || line->branch < row->since || line->branch >= row->until)
            continue;
        *ret_channel = row->channel;
        if (row->add)
            return row->add(line, out);
        str_add(out, row->text);
        return true;
    }
    *ret_channel = true;
    return add_channel(line, out);
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

/* The driver's frame around an XID's message: where, which, whose. */

enum {
    EVENT_XID = 0x8,
    EVENT_RECOVERY = 0x8000,
    NAMES_SINCE = 515,   /* process names beside pids */
    UNNAMED_UNTIL = 560, /* before, errors without a process say so; later they say nothing */
    CAUSE_SINCE = 575,   /* XID 45 names the one before it */
    LOOK_BACK = 1024,    /* events */
    TEXT_CUT = 2048,     /* bytes of a scenario's text */
    COMM_MAX = 15,       /* characters of a process name that the kernel keeps */
};
#define INCIDENT_NS (5 * SIM_NS) /* what belongs together comes within this time */

static uint32_t branch_of(const SimImage *image)
{
    uint32_t branch = (uint32_t)strtoul(image->driver, NULL, 10);
    return branch ? branch : image->generation;
}

static bool cause_of(const SimEvent *e)
{
    return e->type == EVENT_XID && e->data != 45 && e->data != 154;
}

static bool is_double_bit(const SimEvent *e)
{
    return e->type == EVENT_XID && e->data == 48;
}

static bool is_recovery(const SimEvent *e)
{
    return e->type == EVENT_RECOVERY;
}

/* The last event of this GPU before `event` (or beside it, in the same instant) that fits, within the incident. */
static bool find_before(SimImage *image, const SimEvent *event, bool (*fits)(const SimEvent *), SimEvent *ret)
{
    uint32_t end = sim_event_index_after(image, event->t_ns), low = end > LOOK_BACK ? end - LOOK_BACK : 0;
    for (uint32_t i = end; i > low; i--) {
        if (!sim_event_next(image, i - 1, event->t_ns, ret, NULL))
            continue;
        if (event->t_ns - ret->t_ns > INCIDENT_NS)
            return false;
        if (ret->gpu == event->gpu && fits(ret))
            return true;
    }
    return false;
}

static uint64_t address_of(SimImage *image, const SimEvent *event, const SimBoard *board)
{
    SimEvent first = *event, found;
    if (event->data != 48 && event->extra == 0 && find_before(image, event, is_double_bit, &found))
        first = found;
    if (first.extra)
        return first.extra;
    uint64_t bytes = (uint64_t)board->memory_mib << 20;
    uint64_t random = sim_hash(image->seed ^ (uint64_t)first.gpu, first.t_ns, 48);
    return (bytes ? random % bytes : random & 0xffffffff) & ~0xffull;
}

/* What the recovery action was before the change that this XID 154 tells. */
static uint32_t action_before(SimImage *image, const SimEvent *event)
{
    SimEvent change;
    SimNow now;
    if (!find_before(image, event, is_recovery, &change) || change.t_ns == 0)
        return 0;
    sim_state_at(image, (uint32_t)event->gpu, change.t_ns - 1, &now);
    return now.cond.set[SIM_KEY_RECOVERY_ACTION];
}

static void add_attribution(const SimEvent *event, const SimGpuId *id, Str *out)
{
    str_addf(out, "NVRM: Xid (PCI:%04x:%02x:%02x", id->domain, id->bus, id->device);
    if (event->gi != SIM_NONE)
        str_addf(out, " GPU-I:%02d", event->gi);
    if (event->gi != SIM_NONE && event->ci != SIM_NONE)
        str_addf(out, " GPU-CI:%02d", event->ci);
    str_addf(out, "): %llu, ", (unsigned long long)event->data);
}

static void add_process(const XidLine *line, bool channel, Str *out)
{
    const SimEvent *event = line->event;
    if (event->work >= 0 && event->work < SIM_WORK_MAX) {
        str_addf(out, "pid=%u, ", sim_work_pid(line->image, event->work));
        if (line->branch >= NAMES_SINCE)
            str_addf(out, "name=%.*s, ", COMM_MAX, line->image->works[event->work].name);
    } else if (line->branch >= NAMES_SINCE && (channel || line->branch < UNNAMED_UNTIL)) {
        str_add(out, "pid='<unknown>', name=<unknown>, ");
    }
}

/* Every line of the message gets the whole frame. */
static void add_framed(const XidLine *line, const SimGpuId *id, bool channel, const char *message, Str *out)
{
    SimEvent cause;
    bool named = strncmp(message, "pid=", 4) == 0;
    for (const char *part = message;;) {
        size_t len = strcspn(part, "\n");
        add_attribution(line->event, id, out);
        if (!named)
            add_process(line, channel, out);
        str_addn(out, part, len);
        if (line->event->data == 45 && line->branch >= CAUSE_SINCE &&
            find_before(line->image, line->event, cause_of, &cause))
            str_addf(out, " caused by previous Xid %llu", (unsigned long long)cause.data);
        if (!part[len])
            return;
        str_addc(out, '\n');
        part += len + 1;
    }
}

/* A text of the scenario is one line whatever it holds. */
static void add_flat(const char *text, Str *out)
{
    size_t from = out->len, len = strlen(text);
    str_addn(out, text, len < TEXT_CUT ? len : TEXT_CUT);
    for (size_t i = from; i < out->len; i++)
        if ((unsigned char)out->text[i] < ' ')
            out->text[i] = ' ';
}

static void add_xid(SimImage *image, const SimEvent *event, Str *out)
{
    const SimGpuId *id = &image->gpus[event->gpu];
    const SimBoard *board = &image->boards[id->board];
    XidLine line = {.image = image,
                    .event = event,
                    .board = board,
                    .branch = branch_of(image),
                    .random = sim_hash(image->seed, event->t_ns, (uint64_t)event->gpu << 32 | event->data),
                    .channel = 2 + (uint32_t)(sim_hash(image->seed, (uint64_t)event->gpu, (uint64_t)event->work) % 30),
                    .address = address_of(image, event, board),
                    .before = event->data == 154 ? action_before(image, event) : 0};
    char room[KERNEL_LINES_MAX];
    Str message;
    bool channel = false;
    str_init_room(&message, room, sizeof room);
    if (event->text)
        add_flat(sim_text(image, event->text), &message);
    else if (!xid_message(&line, &message, &channel))
        return;
    add_framed(&line, id, channel, message.text, out);
    if (event->data == 79) {
        str_addf(out, "\nNVRM: GPU %04x:%02x:%02x.0: GPU has fallen off the bus.", id->domain, id->bus, id->device);
        if (id->serial[0])
            str_addf(out, "\nNVRM: GPU %04x:%02x:%02x.0: GPU serial number is %s.", id->domain, id->bus, id->device,
                     id->serial);
    }
}

static int copy_lines(const Str *text, char *buf, size_t n)
{
    size_t len = text->len < n ? text->len : n - 1;
    memcpy(buf, text->text, len);
    buf[len] = '\0';
    return (int)len;
}

int kernel_log_line(SimImage *image, const SimEvent *event, char *buf, size_t n)
{
    CLEANUP(str_done) Str out = str_limited(8 * KERNEL_LINES_MAX);
    if (n == 0)
        return 0;
    if (event->type == EVENT_XID && event->gpu >= 0 && (uint32_t)event->gpu < image->gpu_count)
        add_xid(image, event, &out);
    else if (event->type == 0 && event->text)
        add_flat(sim_text(image, event->text), &out);
    return copy_lines(&out, buf, n);
}

int kernel_log_first_seen(const SimImage *image, uint32_t gpu, char *buf, size_t n)
{
    const SimGpuId *id = &image->gpus[gpu];
    char room[KERNEL_LINES_MAX];
    Str out;
    if (n == 0)
        return 0;
    str_init_room(&out, room, sizeof room);
    str_addf(&out, "NVRM: GPU at PCI:%04x:%02x:%02x: %s", id->domain, id->bus, id->device, id->uuid);
    if (id->serial[0])
        str_addf(&out, "\nNVRM: GPU Board Serial Number: %s", id->serial);
    return copy_lines(&out, buf, n);
}

/* --- the writer -------------------------------------------------------------------------------------------------- */

/*
 * The writer. Past events never move in the image, so the index of the next one is all there is to remember; what went
 * before (record numbers, GPUs introduced) is counted again from the events when a writer starts in the middle.
 */

enum {
    PRIORITY = 4,      /* facility kernel, level warning, as the driver's lines */
    DEVICE_LINE = 900, /* /dev/kmsg refuses longer lines */
};
#define MARK " (stoker-sim)"
#define AWAY ".away"

static void add_line(KernelLog *log, const char *text, size_t len, uint64_t us)
{
    Str *out = &log->text;
    switch (log->format) {
    case KERNEL_LOG_KMSG:
        str_addf(out, "%d,%llu,%llu,-;", PRIORITY, (unsigned long long)log->lines, (unsigned long long)us);
        str_addn(out, text, len);
        break;
    case KERNEL_LOG_DMESG:
        str_addf(out, "[%5llu.%06u] ", (unsigned long long)(us / 1000000), (unsigned)(us % 1000000));
        str_addn(out, text, len);
        break;
    case KERNEL_LOG_DEVICE:
        str_addf(out, "<%d>", PRIORITY);
        str_addn(out, text, len < DEVICE_LINE ? len : DEVICE_LINE);
        str_add(out, MARK);
        break;
    }
    str_addc(out, '\n');
    log->lines++;
}

static void add_lines(KernelLog *log, const char *text, uint64_t us)
{
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        add_line(log, p, len, us);
        p += len + (p[len] == '\n');
    }
}

/* Writes the lines of an event into log->text. */
static void write_event(KernelLog *log, const SimEvent *event)
{
    char lines[KERNEL_LINES_MAX];
    uint64_t us = log->boot_us + event->t_ns / 1000;
    str_clear(&log->text);
    if (event->type == 0)
        log->lines += event->extra; /* overwritten: their numbers are gone */
    int n = kernel_log_line(log->image, event, lines, sizeof lines);
    if (n == 0)
        return;
    if (event->type == EVENT_XID && !(log->seen >> event->gpu & 1)) {
        char first[KERNEL_LINES_MAX];
        kernel_log_first_seen(log->image, (uint32_t)event->gpu, first, sizeof first);
        add_lines(log, first, us);
        log->seen |= 1u << event->gpu;
    }
    add_lines(log, lines, us);
}

int kernel_log_open(KernelLog *log, SimImage *image, const KernelLogSpec *spec, Err *err)
{
    SimEvent event;
    *log = (KernelLog){.image = image, .fd = -1, .format = spec->format, .boot_us = spec->boot_us};
    str_init(&log->text, 16 * KERNEL_LINES_MAX);
    while (log->next < spec->from && sim_event_next(image, log->next, SIM_FOREVER, &event, NULL)) {
        write_event(log, &event);
        log->next++;
    }
    int flags = spec->format == KERNEL_LOG_DEVICE ? O_WRONLY : O_WRONLY | O_CREAT | O_APPEND;
    if (spec->format != KERNEL_LOG_DEVICE &&
        snprintf(log->path, sizeof log->path, "%s", spec->path) >= (int)sizeof log->path - (int)strlen(AWAY))
        return err_set(err, -ENAMETOOLONG, "'%.40s...' is too long for a kernel log", spec->path);
    log->fd = open(spec->path, flags | O_CLOEXEC | O_NOCTTY, 0644);
    return log->fd < 0 ? err_errno(err, "open kernel log '%s'", spec->path) : 0;
}

void kernel_log_done(KernelLog *log)
{
    if (!log->image)
        return;
    fd_close(&log->fd);
    str_done(&log->text);
    log->image = NULL;
}

/* /dev/kmsg takes one line per write; a file gets all or nothing. */
static int device_write(KernelLog *log, Err *err)
{
    for (const char *p = log->text.text; *p;) {
        size_t len = strcspn(p, "\n") + 1;
        ssize_t n = write(log->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, "write kernel log");
        p += len;
    }
    return 0;
}

static int file_append(KernelLog *log, Err *err)
{
    struct stat st;
    size_t done = 0;
    bool regular = fstat(log->fd, &st) == 0 && S_ISREG(st.st_mode);
    while (done < log->text.len) {
        ssize_t n = write(log->fd, log->text.text + done, log->text.len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EINTR)
            break;
    }
    if (done == log->text.len)
        return 0;
    int rc = err_errno(err, "write kernel log");
    if (regular && done > 0 && ftruncate(log->fd, st.st_size) < 0)
        err_add(err, "a line is cut");
    return rc;
}

/* Renames a log that shall not be opened for a while; lines of that time are in it. */
static int hide_device(KernelLog *log, uint64_t t_ns, Err *err)
{
    char aside[KERNEL_PATH_MAX + sizeof AWAY];
    SimNodeSeg node;
    sim_node_at(log->image, t_ns, &node);
    const bool away = node.key[SIM_NODE_LOG_AWAY] != 0;
    if (!log->path[0] || away == log->away)
        return 0;
    snprintf(aside, sizeof aside, "%s" AWAY, log->path);
    if (rename(away ? log->path : aside, away ? aside : log->path) < 0)
        return err_errno(err, "rename kernel log '%s'", log->path);
    log->away = away;
    return 0;
}

int kernel_log_write(KernelLog *log, uint64_t until_ns, uint64_t *ret_next_ns, Err *err)
{
    SimEvent event;
    uint64_t next_ns = SIM_FOREVER;
    int written = 0;
    TRY(hide_device(log, until_ns, err));
    while (sim_event_next(log->image, log->next, until_ns, &event, &next_ns)) {
        uint64_t lines = log->lines;
        uint32_t seen = log->seen;
        const uint64_t lost = event.type == 0 ? event.extra : 0;
        write_event(log, &event);
        int rc = log->text.len == 0                 ? 0
                 : log->format == KERNEL_LOG_DEVICE ? device_write(log, err)
                                                    : file_append(log, err);
        if (rc < 0) {
            log->lines = lines;
            log->seen = seen;
            return rc;
        }
        log->next++;
        written += (int)(log->lines - lines - lost);
    }
    if (ret_next_ns)
        *ret_next_ns = next_ns;
    return written;
}

uint32_t kernel_log_next(const KernelLog *log)
{
    return log->next;
}
