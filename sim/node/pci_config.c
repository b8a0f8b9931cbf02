/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration space, laid out as on data-centre GPUs. Register offsets: PCI Express Base Specification, 7.5-7.8.
 */
#include <string.h>

#include "sim/node/pci.h"

enum {
    CAP_PM = 0x60,
    CAP_MSI = 0x68,
    CAP_EXP = 0x78,
    EXT_VC = 0x100,
    EXT_AER = 0x420,
    EXT_SECONDARY = 0x900,
    BRIDGE_CONFIG = 256,
    ARCH_HOPPER = 9,
    REGIONS = 13,
};
#define MIB (1024ull * 1024)

/* The memory regions of an endpoint; a 64-bit one takes two registers. */
typedef struct Region {
    uint32_t bar; /* register */
    uint64_t start, size;
    uint32_t wide, prefetch;
} Region;

static void put16(uint8_t *c, uint32_t at, uint32_t v)
{
    c[at] = (uint8_t)v;
    c[at + 1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *c, uint32_t at, uint32_t v)
{
    put16(c, at, v & 0xffff);
    put16(c, at + 2, v >> 16);
}

static uint64_t place(uint64_t *next, uint64_t size)
{
    uint64_t at = (*next + size - 1) / size * size;
    *next = at + size;
    return at;
}

/* Windows: one of 8 TiB per endpoint above 32 TiB, 32 MiB below 4 GiB. */
static uint32_t regions_of(const SimImage *image, const PciFn *fn, Region out[3])
{
    uint64_t high = (32ull + 8ull * (fn->kind == PCI_GPU ? fn->which : 32 + fn->which)) << 40;
    uint32_t low = 0x90000000u + fn->bus * 0x02000000u % 0x60000000u;
    if (fn->kind == PCI_NIC || fn->kind == PCI_NVSWITCH) {
        out[0] = (Region){0, place(&high, 32 * MIB), 32 * MIB, 1, fn->kind == PCI_NIC};
        return 1;
    }
    const SimBoard *board = &image->boards[image->gpus[fn->which].board];
    uint64_t bar1 = MIB;
    while (bar1 < board->bar1_mib * MIB)
        bar1 *= 2;
    uint32_t newer = board->arch >= ARCH_HOPPER;
    uint64_t frame = place(&high, bar1), rest = place(&high, 32 * MIB);
    out[0] = (Region){0, newer ? place(&high, 16 * MIB) : low, 16 * MIB, newer, newer};
    out[1] = (Region){newer ? 2 : 1, frame, bar1, 1, 1};
    out[2] = (Region){newer ? 4 : 3, rest, 32 * MIB, 1, 1};
    return 3;
}

void pci_resources(const SimImage *image, const PciFn *fn, Str *out)
{
    uint64_t line[REGIONS][3] = {{0}};
    Region regions[3];
    uint32_t n = fn->kind < PCI_GPU ? 0 : regions_of(image, fn, regions);
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = &regions[i];
        line[r->bar][0] = r->start;
        line[r->bar][1] = r->start + r->size - 1;
        /* the kernel's IORESOURCE_ bits: memory, prefetchable, 64-bit, aligned to its size, and the BAR's own */
        line[r->bar][2] = 0x40200u | (r->prefetch ? 0x2008u : 0) | (r->wide ? 0x100004u : 0);
    }
    for (uint32_t i = 0; i < REGIONS; i++)
        str_addf(out, "0x%016llx 0x%016llx 0x%016llx\n", (unsigned long long)line[i][0], (unsigned long long)line[i][1],
                 (unsigned long long)line[i][2]);
}

static void header(const SimImage *image, const PciFn *fn, uint8_t *c)
{
    PciIds ids = pci_ids(image, fn);
    int bridge = fn->kind <= PCI_DOWNSTREAM;
    put16(c, 0x00, ids.vendor);
    put16(c, 0x02, ids.device);
    put16(c, 0x04, 0x0406 | (bridge ? 0x0100 : 0)); /* memory, bus master, no INTx */
    put16(c, 0x06, 0x0010);                         /* there are capabilities */
    put32(c, 0x08, ids.class_code << 8 | ids.revision);
    c[0x0c] = 0x10;
    c[0x0e] = bridge ? 1 : 0;
    c[0x34] = CAP_PM;
    if (bridge) {
        c[0x18] = (uint8_t)fn->bus;
        c[0x19] = (uint8_t)fn->secondary;
        c[0x1a] = (uint8_t)fn->last;
        return;
    }
    put16(c, 0x2c, ids.subsystem_vendor);
    put16(c, 0x2e, ids.subsystem_device);
    Region regions[3];
    uint32_t n = regions_of(image, fn, regions);
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = &regions[i];
        put32(c, 0x10 + 4 * r->bar, (uint32_t)r->start | (r->wide ? 4 : 0) | (r->prefetch ? 8 : 0));
        if (r->wide)
            put32(c, 0x14 + 4 * r->bar, (uint32_t)(r->start >> 32));
    }
}

static void express(const PciFn *fn, const PciLink *link, uint8_t *c)
{
    static const uint8_t port_type[] = {[PCI_ROOT_PORT] = 4, [PCI_UPSTREAM] = 5, [PCI_DOWNSTREAM] = 6};
    uint32_t type = fn->kind <= PCI_DOWNSTREAM ? port_type[fn->kind] : 0;
    uint8_t *e = c + CAP_EXP;
    e[0] = 0x10;
    put16(e, 0x02, 2 | type << 4);
    put32(e, 0x04, 0x112c8de1); /* 256-byte payload, extended tags, function-level reset */
    put16(e, 0x08, 0x2930);
    put32(e, 0x0c, link->max_gen | link->max_width << 4 | 0x00455000);
    put16(e, 0x10, 0x0140); /* common clock, clock power management */
    put16(e, 0x12, link->gen | link->width << 4 | 0x1000);
    put32(e, 0x2c, ((1u << link->max_gen) - 1) << 1);
    put16(e, 0x30, link->max_gen);
}

uint32_t pci_config(const SimImage *image, const PciFn *fn, const PciLink *link, uint8_t out[PCI_CONFIG_MAX])
{
    memset(out, 0, PCI_CONFIG_MAX);
    header(image, fn, out);
    put32(out, CAP_PM, 0x48030001 | CAP_MSI << 8);
    put16(out, CAP_PM + 4, 0x0008); /* D0 */
    put32(out, CAP_MSI, 0x00810005 | CAP_EXP << 8);
    express(fn, link, out);
    if (fn->kind <= PCI_DOWNSTREAM)
        return BRIDGE_CONFIG;
    put32(out, EXT_VC, 0x00010002 | (uint32_t)EXT_AER << 20);
    put32(out, EXT_AER, 0x00020001 | (uint32_t)EXT_SECONDARY << 20);
    put32(out, EXT_AER + 0x08, 0x00100000); /* masked: unsupported request */
    put32(out, EXT_AER + 0x0c, 0x00462030);
    put32(out, EXT_AER + 0x14, 0x0000a000);
    put32(out, EXT_SECONDARY, 0x00010019);
    return PCI_CONFIG_MAX;
}
