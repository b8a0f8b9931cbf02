/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per XID and range of driver versions. Shapes follow the open driver's format strings and lines that users
 * have published; numbers in them are drawn from the event's hash. A code without a row names its channel, as most
 * engine errors do.
 */
#include "sim/node/xid_text.h"

#include "base/owner.h"

#define ANY_LATER UINT32_MAX

typedef struct XidRow {
    uint32_t xid, since, until; /* driver branches [since, until) */
    bool channel;
    bool (*add)(const XidLine *line, Str *out); /* false: not printed; NULL: `text` */
    const char *text;
} XidRow;

/* Bits of the event's hash: small numbers for a line. */
static uint32_t pick(const XidLine *l, uint32_t shift, uint32_t count)
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
    uint32_t gpc = pick(l, 8, 7), tpc = pick(l, 12, 8), sm = pick(l, 16, 2);
    uint32_t base = 0x500000 + gpc * 0x8000 + tpc * 0x800 + sm * 0x80;
    str_addf(out, "Graphics SM Warp Exception on (GPC %u, TPC %u, SM %u): Out Of Range Address\n", gpc, tpc, sm);
    str_addf(out, "Graphics Exception: ESR 0x%x=0x%x 0x%x=0x0 0x%x=0xf81eb60 0x%x=0x1174\n", base + 0x730,
             0xeu | pick(l, 20, 16) << 16, base + 0x734, base + 0x728, base + 0x72c);
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
             l->channel, pick(l, 8, 16), 0x7f00 + pick(l, 16, 256), (uint32_t)(l->random >> 24) & 0xfffff000u);
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
             (unsigned long long)l->address, pick(l, 8, 20), pick(l, 16, 4));
    return true;
}

static bool add_dbe_old(const XidLine *l, Str *out)
{
    str_addf(out,
             "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition %u, "
             "subpartition %u.",
             pick(l, 8, 8), pick(l, 16, 2));
    return true;
}

static bool add_microcontroller(const XidLine *l, Str *out)
{
    str_addf(out, "%04x(%04x) %08x %08x", 0x0c00 + pick(l, 0, 0x400), 0x2000 + pick(l, 10, 0x1000),
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
    str_addf(out, "Ch %08x, errorString CTX SWITCH TIMEOUT, Info 0x%x", l->channel, 0x58005 + pick(l, 8, 4));
    return true;
}

/* ---- the GPU's own processor: the words changed at 535, 550 and 595 ---- */

static bool add_rpc_first(const XidLine *l, Str *out)
{
    str_addf(out, "Timeout waiting for RPC from GSP! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x%x).",
             0x580 + pick(l, 4, 16));
    return true;
}

static bool add_rpc_numbered(const XidLine *l, Str *out)
{
    str_addf(out, "Timeout waiting for RPC from GSP%d! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x%x).",
             l->event->gpu, 0x580 + pick(l, 4, 16));
    return true;
}

static bool add_rpc_timed(const XidLine *l, Str *out)
{
    str_addf(out,
             "Timeout after 6s of waiting for RPC response from GPU%d GSP! Expected function 76 (GSP_RM_CONTROL) "
             "(0x20803032 0x%x).",
             l->event->gpu, 0x580 + pick(l, 4, 16));
    return true;
}

static bool add_rpc_sequence(const XidLine *l, Str *out)
{
    str_addf(out,
             "Timeout after 6s of waiting for RPC response from GPU%d GSP! Expected function 76 (GSP_RM_CONTROL) "
             "sequence %u (0x20803032 0x%x).",
             l->event->gpu, 100 + pick(l, 8, 4000), 0x580 + pick(l, 4, 16));
    return true;
}

static bool add_task(const XidLine *l, Str *out)
{
    str_addf(out, "GSP Error: Task %u raised error code 0x%x for reason 0x%x at 0x%x (%u more errors skipped)%s",
             1 + pick(l, 0, 4), 0x8 + pick(l, 4, 8), 0x0u, 0x4b0000u + pick(l, 8, 0xffff), pick(l, 28, 4),
             l->branch >= 545 ? " The GPU likely needs to be reset." : "");
    return true;
}

static bool add_ecc_unhandled(const XidLine *l, Str *out)
{
    str_addf(out,
             "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:%u, LTC:%u, MMU:%u, "
             "PCIE:%u",
             0u, 1u, pick(l, 4, 2), 0u);
    return true;
}

static bool add_boot(const XidLine *l, Str *out)
{
    str_addf(out, "Error status 0x%x while polling for FSP boot complete, 0x%x, 0x%x, 0x%x, 0x%x, 0x%x", 0x65u,
             pick(l, 0, 256), 0u, 0u, 0u, 0u);
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

bool xid_message(const XidLine *line, Str *out, bool *ret_channel)
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
