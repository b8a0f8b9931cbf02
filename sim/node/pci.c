/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI functions of a node: their buses and configuration spaces. */
#include "sim/node/pci.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sim/core/control.h"

/* --- configuration space ----------------------------------------------------------------------------------------- */

/* Laid out as on data-centre GPUs. Register offsets: PCI Express Base Specification, 7.5-7.8. */

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

static void write_u16(uint8_t *c, uint32_t at, uint32_t v)
{
    c[at] = (uint8_t)v;
    c[at + 1] = (uint8_t)(v >> 8);
}

static void write_u32(uint8_t *c, uint32_t at, uint32_t v)
{
    write_u16(c, at, v & 0xffff);
    write_u16(c, at + 2, v >> 16);
}

static uint64_t place_region(uint64_t *next, uint64_t size)
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
        out[0] = (Region){0, place_region(&high, 32 * MIB), 32 * MIB, 1, fn->kind == PCI_NIC};
        return 1;
    }
    const SimBoard *board = &image->boards[image->gpus[fn->which].board];
    uint64_t bar1 = MIB;
    while (bar1 < board->bar1_mib * MIB)
        bar1 *= 2;
    uint32_t newer = board->arch >= ARCH_HOPPER;
    uint64_t frame = place_region(&high, bar1), rest = place_region(&high, 32 * MIB);
    out[0] = (Region){0, newer ? place_region(&high, 16 * MIB) : low, 16 * MIB, newer, newer};
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

static void write_header(const SimImage *image, const PciFn *fn, uint8_t *c)
{
    PciIds ids = pci_ids(image, fn);
    int bridge = fn->kind <= PCI_DOWNSTREAM;
    write_u16(c, 0x00, ids.vendor);
    write_u16(c, 0x02, ids.device);
    write_u16(c, 0x04, 0x0406 | (bridge ? 0x0100 : 0)); /* memory, bus master, no INTx */
    write_u16(c, 0x06, 0x0010);                         /* there are capabilities */
    write_u32(c, 0x08, ids.class_code << 8 | ids.revision);
    c[0x0c] = 0x10;
    c[0x0e] = bridge ? 1 : 0;
    c[0x34] = CAP_PM;
    if (bridge) {
        c[0x18] = (uint8_t)fn->bus;
        c[0x19] = (uint8_t)fn->secondary;
        c[0x1a] = (uint8_t)fn->last;
        return;
    }
    write_u16(c, 0x2c, ids.subsystem_vendor);
    write_u16(c, 0x2e, ids.subsystem_device);
    Region regions[3];
    uint32_t n = regions_of(image, fn, regions);
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = &regions[i];
        write_u32(c, 0x10 + 4 * r->bar, (uint32_t)r->start | (r->wide ? 4 : 0) | (r->prefetch ? 8 : 0));
        if (r->wide)
            write_u32(c, 0x14 + 4 * r->bar, (uint32_t)(r->start >> 32));
    }
}

static void write_express(const PciFn *fn, const PciLink *link, uint8_t *c)
{
    static const uint8_t port_type[] = {[PCI_ROOT_PORT] = 4, [PCI_UPSTREAM] = 5, [PCI_DOWNSTREAM] = 6};
    uint32_t type = fn->kind <= PCI_DOWNSTREAM ? port_type[fn->kind] : 0;
    uint8_t *e = c + CAP_EXP;
    e[0] = 0x10;
    write_u16(e, 0x02, 2 | type << 4);
    write_u32(e, 0x04, 0x112c8de1); /* 256-byte payload, extended tags, function-level reset */
    write_u16(e, 0x08, 0x2930);
    write_u32(e, 0x0c, link->max_gen | link->max_width << 4 | 0x00455000);
    write_u16(e, 0x10, 0x0140); /* common clock, clock power management */
    write_u16(e, 0x12, link->gen | link->width << 4 | 0x1000);
    write_u32(e, 0x2c, ((1u << link->max_gen) - 1) << 1);
    write_u16(e, 0x30, link->max_gen);
}

uint32_t pci_config(const SimImage *image, const PciFn *fn, const PciLink *link, uint8_t out[PCI_CONFIG_MAX])
{
    memset(out, 0, PCI_CONFIG_MAX);
    write_header(image, fn, out);
    write_u32(out, CAP_PM, 0x48030001 | CAP_MSI << 8);
    write_u16(out, CAP_PM + 4, 0x0008); /* D0 */
    write_u32(out, CAP_MSI, 0x00810005 | CAP_EXP << 8);
    write_express(fn, link, out);
    if (fn->kind <= PCI_DOWNSTREAM)
        return BRIDGE_CONFIG;
    write_u32(out, EXT_VC, 0x00010002 | (uint32_t)EXT_AER << 20);
    write_u32(out, EXT_AER, 0x00020001 | (uint32_t)EXT_SECONDARY << 20);
    write_u32(out, EXT_AER + 0x08, 0x00100000); /* masked: unsupported request */
    write_u32(out, EXT_AER + 0x0c, 0x00462030);
    write_u32(out, EXT_AER + 0x14, 0x0000a000);
    write_u32(out, EXT_SECONDARY, 0x00010019);
    return PCI_CONFIG_MAX;
}

/* --- buses ------------------------------------------------------------------------------------------------------- */

/*
 * Buses: the GPUs' are given; the ports above take the nearest free ones below, adapters the nearest above, as firmware
 * that counts depth-first would have it.
 */

enum {
    ARCH_AMPERE = 7,
    BUS_COUNT = 256,
};

typedef struct Build {
    const SimImage *image;
    PciLayout *out;
    uint32_t domains[SIM_GPU_MAX + 1], domain_count;
    uint8_t used[SIM_GPU_MAX + 1][BUS_COUNT];
} Build;

static uint8_t *used_of(Build *b, uint32_t domain)
{
    uint32_t i = 0;
    while (i < b->domain_count && b->domains[i] != domain)
        i++;
    if (i == b->domain_count) {
        assert(b->domain_count < SIM_GPU_MAX + 1);
        b->domains[b->domain_count++] = domain;
        b->used[i][0] = 1; /* the machine's own devices */
    }
    return b->used[i];
}

static uint32_t bus_take(Build *b, uint32_t domain, uint32_t near, int step)
{
    uint8_t *used = used_of(b, domain);
    for (int bus = (int)near + step; bus > 0 && bus < BUS_COUNT; bus += step)
        if (!used[bus]) {
            used[bus] = 1;
            return (uint32_t)bus;
        }
    for (uint32_t bus = BUS_COUNT - 1; bus > 0; bus--)
        if (!used[bus]) {
            used[bus] = 1;
            return bus;
        }
    return 0;
}

static int fn_add(Build *b, const PciFn *fn)
{
    assert(b->out->count < PCI_FN_MAX);
    int at = (int)b->out->count++;
    b->out->fn[at] = *fn;
    b->out->fn[at].of = SIM_NONE;
    return at;
}

/* A device at the end of a downstream port of its own. */
static int device_add(Build *b, int upstream, uint32_t port, PciFn device)
{
    const PciFn *up = &b->out->fn[upstream];
    uint32_t slot = port * 4 % 32;
    if (port * 4 >= 32)
        slot += port * 4 / 32;
    PciFn down = {.kind = PCI_DOWNSTREAM,
                  .domain = up->domain,
                  .bus = up->secondary,
                  .device = slot,
                  .root_bus = up->root_bus,
                  .parent = upstream,
                  .secondary = device.bus,
                  .last = device.bus,
                  .which = up->which};
    device.root_bus = up->root_bus;
    device.parent = fn_add(b, &down);
    int at = fn_add(b, &device);
    b->out->fn[device.parent].of = at;
    return at;
}

static int has_nic_of_its_own(const SimBoard *board)
{
    return board->link_count > 0 && board->link_to_switch && board->arch >= ARCH_HOPPER;
}

static int same_root(const SimGpuId *a, const SimGpuId *b)
{
    return a->domain == b->domain && a->root == b->root && a->numa_node == b->numa_node;
}

static int same_group(const SimGpuId *a, const SimGpuId *b)
{
    return same_root(a, b) && a->switch_group == b->switch_group;
}

static void nic_add(Build *b, int upstream, uint32_t port, uint32_t gpu)
{
    const SimGpuId *id = &b->image->gpus[gpu];
    uint32_t bus = bus_take(b, id->domain, id->bus, 1), which = b->out->nic_count++;
    b->out->nic[which] =
        device_add(b, upstream, port, (PciFn){.kind = PCI_NIC, .domain = id->domain, .bus = bus, .which = which});
}

/* The GPUs of first's group below one switch, with an adapter for each or one for all. */
static void group_add(Build *b, uint32_t first, uint32_t root_bus, uint32_t slot, uint32_t up_bus, uint32_t down_bus)
{
    const SimImage *image = b->image;
    const SimGpuId *id = &image->gpus[first];
    PciFn port = {.kind = PCI_ROOT_PORT,
                  .domain = id->domain,
                  .bus = root_bus,
                  .device = slot,
                  .root_bus = root_bus,
                  .parent = SIM_NONE,
                  .secondary = up_bus,
                  .which = first};
    PciFn up = port;
    up.kind = PCI_UPSTREAM;
    up.bus = up_bus;
    up.device = 0;
    up.secondary = down_bus;
    up.parent = fn_add(b, &port);
    int upstream = fn_add(b, &up);
    uint32_t ports = 0;
    for (uint32_t g = first; g < image->gpu_count; g++) {
        const SimGpuId *gpu = &image->gpus[g];
        if (!same_group(id, gpu) || gpu->bus == 0)
            continue;
        b->out->gpu[g] = device_add(
            b, upstream, ports++,
            (PciFn){.kind = PCI_GPU, .domain = gpu->domain, .bus = gpu->bus, .device = gpu->device, .which = g});
        if (g == first || has_nic_of_its_own(&image->boards[gpu->board]))
            nic_add(b, upstream, ports++, g);
    }
}

static uint32_t lowest_bus(const SimImage *image, const SimGpuId *id)
{
    uint32_t low = id->bus;
    for (uint32_t g = 0; g < image->gpu_count; g++)
        if (same_group(id, &image->gpus[g]) && image->gpus[g].bus && image->gpus[g].bus < low)
            low = image->gpus[g].bus;
    return low;
}

static int first_where(const SimImage *image, uint32_t gpu, int (*same)(const SimGpuId *, const SimGpuId *))
{
    for (uint32_t g = 0; g < gpu; g++)
        if (image->gpus[g].bus && same(&image->gpus[g], &image->gpus[gpu]))
            return 0;
    return 1;
}

static void root_add(Build *b, uint32_t first)
{
    const SimImage *image = b->image;
    const SimGpuId *id = &image->gpus[first];
    uint32_t groups[SIM_GPU_MAX], up[SIM_GPU_MAX], down[SIM_GPU_MAX], count = 0, low = BUS_COUNT;
    for (uint32_t g = first; g < image->gpu_count; g++) {
        if (!image->gpus[g].bus || !same_root(id, &image->gpus[g]) || !first_where(image, g, same_group))
            continue;
        down[count] = bus_take(b, id->domain, lowest_bus(image, &image->gpus[g]), -1);
        up[count] = bus_take(b, id->domain, down[count], -1);
        low = up[count] < low ? up[count] : low;
        groups[count++] = g;
    }
    uint32_t root_bus = bus_take(b, id->domain, low, -1);
    for (uint32_t i = 0; i < count; i++)
        group_add(b, groups[i], root_bus, 1 + 2 * i, up[i], down[i]);
}

/* The board whose links end in switches, NULL where none has any on the bus. */
static const SimBoard *switch_board(const SimImage *image)
{
    for (uint32_t g = 0; g < image->gpu_count; g++)
        if (sim_switch_count(&image->boards[image->gpus[g].board]))
            return &image->boards[image->gpus[g].board];
    return NULL;
}

static void switches_add(Build *b)
{
    const SimBoard *board = switch_board(b->image);
    uint32_t n = board ? sim_switch_count(board) : 0, first = board ? sim_switch_bus(board, 0) : 0;
    uint8_t *used = used_of(b, 0);
    uint32_t buses[PCI_SWITCH_MAX];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t want = sim_switch_bus(board, i);
        buses[i] = used[want] ? bus_take(b, 0, first + n, 1) : want;
        used[buses[i]] = 1;
    }
    uint32_t root_bus = n ? bus_take(b, 0, first, -1) : 0;
    for (uint32_t i = 0; i < n; i++) {
        PciFn port = {.kind = PCI_ROOT_PORT,
                      .bus = root_bus,
                      .device = 1 + i,
                      .root_bus = root_bus,
                      .parent = SIM_NONE,
                      .secondary = buses[i],
                      .last = buses[i]};
        PciFn fn = {.kind = PCI_NVSWITCH, .bus = buses[i], .root_bus = root_bus, .which = i};
        fn.parent = fn_add(b, &port);
        b->out->nvswitch[i] = fn_add(b, &fn);
        b->out->fn[fn.parent].of = b->out->nvswitch[i];
        b->out->switch_count++;
    }
}

/* Every bridge passes on the highest bus below it. */
static void set_spans(PciLayout *out)
{
    for (uint32_t i = out->count; i-- > 0;) {
        const PciFn *fn = &out->fn[i];
        uint32_t high = fn->kind <= PCI_DOWNSTREAM ? (fn->last > fn->secondary ? fn->last : fn->secondary) : fn->bus;
        if (fn->kind <= PCI_DOWNSTREAM)
            out->fn[i].last = high;
        if (fn->parent != SIM_NONE && out->fn[fn->parent].last < high)
            out->fn[fn->parent].last = high;
    }
}

void pci_layout(const SimImage *image, PciLayout *ret)
{
    Build b = {.image = image, .out = ret};
    memset(ret, 0, sizeof *ret);
    ret->gpu_count = image->gpu_count;
    for (uint32_t g = 0; g < image->gpu_count; g++)
        used_of(&b, image->gpus[g].domain)[image->gpus[g].bus % BUS_COUNT] = 1;
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        const SimGpuId *id = &image->gpus[g];
        if (id->bus == 0)
            ret->gpu[g] = fn_add(
                &b,
                &(PciFn){.kind = PCI_GPU, .domain = id->domain, .device = id->device, .parent = SIM_NONE, .which = g});
    }
    switches_add(&b); /* first: their buses are spoken for */
    for (uint32_t g = 0; g < image->gpu_count; g++)
        if (image->gpus[g].bus && first_where(image, g, same_root))
            root_add(&b, g);
    set_spans(ret);
}

PciIds pci_ids(const SimImage *image, const PciFn *fn)
{
    if (fn->kind == PCI_GPU) {
        const SimBoard *board = &image->boards[image->gpus[fn->which].board];
        return (PciIds){board->pci_device_id & 0xffff, board->pci_device_id >> 16, board->pci_subsystem_id & 0xffff,
                        board->pci_subsystem_id >> 16, board->pci_class,           0xa1};
    }
    if (fn->kind == PCI_NIC)
        return (PciIds){0x15b3, 0x1021, 0x15b3, 0x0041, 0x020700, 0}; /* ConnectX-7, InfiniBand */
    if (fn->kind == PCI_NVSWITCH) {
        const SimBoard *board = switch_board(image);
        uint32_t device = board && board->arch <= ARCH_AMPERE ? 0x1af1 : 0x22a3;
        return (PciIds){0x10de, device, 0x10de, device == 0x1af1 ? 0x147e : 0x1796, 0x068000, 0xa1};
    }
    if (fn->kind == PCI_ROOT_PORT)
        return (PciIds){0x8086, 0x352a, 0x8086, 0, 0x060400, 0x30};
    return (PciIds){0x1000, 0xc030, 0x1000, 0x100b, 0x060400, 0xb0}; /* the ports of a PCIe switch */
}

void pci_bdf(const PciFn *fn, char out[PCI_BDF_MAX])
{
    snprintf(out, PCI_BDF_MAX, "%04x:%02x:%02x.0", fn->domain & 0xffffff, fn->bus & 0xff, fn->device & 0x1f);
}

uint32_t pci_path(const PciLayout *layout, const PciFn *fn, char out[PCI_PATH_MAX])
{
    const PciFn *chain[8];
    uint32_t n = 0;
    for (const PciFn *p = fn; n < 8; p = &layout->fn[p->parent]) {
        chain[n++] = p;
        if (p->parent == SIM_NONE)
            break;
    }
    Str s;
    str_init_room(&s, out, PCI_PATH_MAX);
    str_addf(&s, "pci%04x:%02x", fn->domain, fn->root_bus);
    for (uint32_t i = n; i-- > 0;) {
        char bdf[PCI_BDF_MAX];
        pci_bdf(chain[i], bdf);
        str_addf(&s, "/%s", bdf);
    }
    return n + 1;
}
