/* SPDX-License-Identifier: Apache-2.0 */
/* What a log and the topology of its node say of the same things, and do not say alike. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/machine.h"
#include "engine/nccl/node.h"

static void contradict(const Machine *machine, const char *about, NcclPlace log, const char *said, NcclPlace topology,
                       const char *written)
{
    NcclFinding *f =
        nccl_findf(machine->job, NCCL_RULE_TOPO_CONTRADICTS, "%s against %s: %s", machine->file, machine->host, about);

    if (f->evidence_count)
        return; /* once per kind */
    nccl_evidence(machine->job, f, log, "%s", said);
    nccl_evidence(machine->job, f, topology, "%s", written);
}

/* The PCI device above a net, NULL. */
static const NcclNode *pci_of(const NcclTopology *t, const NcclNode *net)
{
    uint32_t n = net->parent;

    while (n != NCCL_NO_INDEX && t->nodes.at[n].part != NCCL_PART_PCI)
        n = t->nodes.at[n].parent;
    return n == NCCL_NO_INDEX ? NULL : &t->nodes.at[n];
}

/* Speed and place of each adapter as NCCL's NET lines describe it. Of the place the function does not count: NCCL takes
 * the ports of one adapter for one device. */
static void check_described(const Machine *machine)
{
    enum { FUNCTION_BITS = 4 };
    char said[200], written[200];

    for (size_t i = 0; i < machine->job->adapters.len; i++) {
        const NcclAdapter *a = &machine->job->adapters.at[i];
        const NcclNode *net = a->host == machine->host ? machine_net(machine, a->name) : NULL;
        const NcclNode *pci = net ? pci_of(machine->t, net) : NULL;
        uint64_t bus;
        if (!net || strchr(net->name, '+'))
            continue;
        if (a->mbps > 0 && net->net_mbps > 0 && a->mbps != net->net_mbps) {
            snprintf(said, sizeof said, "%.80s has %" PRId64 " Mb/s", a->name, a->mbps);
            snprintf(written, sizeof written, "%.80s has %" PRId64 " Mb/s", net->name, net->net_mbps);
            contradict(machine, "speed of an adapter", a->place, said, net->place, written);
        }
        if (a->bus && pci && nccl_bus_number(pci->bus_id, &bus) && bus >> FUNCTION_BITS != a->bus >> FUNCTION_BITS) {
            snprintf(said, sizeof said, "%.80s is PCI device %" PRIx64, a->name, a->bus);
            snprintf(written, sizeof written, "%.80s is PCI device %.40s", net->name, pci->bus_id);
            contradict(machine, "place of an adapter", a->place, said, pci->place, written);
        }
    }
}

static const NcclNode *net_of_device(const NcclTopology *t, int device)
{
    for (size_t i = 0; i < t->nodes.len; i++)
        if (t->nodes.at[i].part == NCCL_PART_NET && t->nodes.at[i].dev == device)
            return &t->nodes.at[i];
    return NULL;
}

/* Adapters that connections name by number, and GPUDirect. */
static void check_edge(const Machine *machine, const NcclEdge *e)
{
    const NcclReport *r = &machine->job->report;
    const NcclMember *m = &r->members.at[e->member];
    const NcclWay *way = &r->ways.at[e->way];
    uint32_t pci = machine_gpu(machine, m);
    uint32_t gpu = pci == NCCL_NO_INDEX ? pci : nccl_node_gpu(machine->t, pci);
    const NcclNode *net = net_of_device(machine->t, way->device);
    char said[200], written[200];

    snprintf(said, sizeof said, "rank %" PRId64 " -> rank %" PRId64 " via %.80s/%d%s", e->from, e->to, way->name,
             way->device, way->gdr ? "/GDRDMA" : "");
    if (!net) {
        snprintf(written, sizeof written, "no adapter has the number %d", way->device);
        contradict(machine, "number of an adapter", e->place, said, (NcclPlace){machine->t->input, 0}, written);
    } else if (way->gdr && net->gdr == 0) {
        snprintf(written, sizeof written, "%.80s: gdr=0", net->name);
        contradict(machine, "GPUDirect", e->place, said, net->place, written);
    } else if (way->gdr && gpu != NCCL_NO_INDEX && machine->t->nodes.at[gpu].gdr == 0) {
        snprintf(written, sizeof written, "GPU %.40s: gdr=0", machine->t->nodes.at[pci].bus_id);
        contradict(machine, "GPUDirect", e->place, said, machine->t->nodes.at[gpu].place, written);
    }
}

static void check_edges(const Machine *machine)
{
    const NcclReport *r = &machine->job->report;
    CLEANUP(map_done) Map done;

    map_u64_init(&done);
    for (size_t i = 0; i < r->edges.len; i++) {
        const NcclEdge *e = &r->edges.at[i];
        const NcclMember *m = &r->members.at[e->member];
        bool net = r->ways.at[e->way].via == NCCL_VIA_RDMA && r->ways.at[e->way].device >= 0;
        if (!net || !machine_has(machine, m) ||
            map_u64_put(&done, (uint64_t)e->way << 32 | machine_gpu(machine, m), machine->job))
            continue;
        check_edge(machine, e);
    }
}

/* How the GPUs of a communicator on this node are joined. */
typedef struct Joined {
    uint32_t count, at_switch, links;
} Joined;

static Joined join_gpus(const Machine *machine, uint32_t comm)
{
    Joined joined = {0};

    for (size_t i = 0; i < machine->job->report.members.len; i++) {
        const NcclMember *m = &machine->job->report.members.at[i];
        uint32_t gpu = m->comm == comm && machine_has(machine, m) ? machine_gpu(machine, m) : NCCL_NO_INDEX;
        if (gpu == NCCL_NO_INDEX)
            continue;
        joined.count++;
        joined.at_switch += nccl_node_at_switch(machine->t, gpu);
        joined.links += nccl_node_links(machine->t, gpu);
    }
    return joined;
}

/* "Pattern 4, crossNic 0, nChannels 16, bw 20.0/20.0, type NVL/PIX, sameChannels 1": the longest paths it goes. */
static void check_pattern(const Machine *machine, const NcclComm *c, unsigned which, const Joined *joined)
{
    const char *pattern = c->patterns[which];
    const NcclPlace place = c->pattern_places[which];
    const NcclPlace topology = {machine->t->input, 0};
    Span s = span_of(pattern);
    char written[200];

    if (!span_after(&s, "type "))
        return;
    Span within = span_until(&s, '/'), between = span_until(&s, ',');
    if (joined->count > 1 && span_is(within, "NVL") && joined->links == 0)
        contradict(machine, "NVLink", place, pattern, topology, "these GPUs have no NVLink");
    bool far = span_is(within, "PIX") || span_is(within, "PXB") || span_is(within, "PHB") || span_is(within, "SYS");
    bool forbidden = nccl_env_find(machine->job, "NCCL_P2P_DISABLE") || nccl_env_find(machine->job, "NCCL_P2P_LEVEL");
    if (joined->count > 1 && far && joined->at_switch == joined->count && !forbidden)
        contradict(machine, "NVLink", place, pattern, topology, "all of these GPUs have NVLinks to an NVSwitch");
    if ((span_is(between, "PIX") || span_is(between, "PXB")) && machine->t->nics && machine->t->near_gpus == 0) {
        snprintf(written, sizeof written, "none of %u GPUs shares a PCI switch with an adapter", machine->t->gpus);
        contradict(machine, "path to an adapter", place, pattern, topology, written);
    }
}

static void check_comm(const Machine *machine, uint32_t comm)
{
    const NcclComm *c = &machine->job->report.comms.at[comm];

    if (c->pattern_count == 0 && !c->nvls)
        return;
    const Joined joined = join_gpus(machine, comm);
    for (unsigned k = 0; k < c->pattern_count && joined.count; k++)
        check_pattern(machine, c, k, &joined);
    if (c->nvls && joined.count > 1 && joined.at_switch == 0)
        contradict(machine, "NVLS", c->nvls_place, "NVLS is set up", (NcclPlace){machine->t->input, 0},
                   "these GPUs have no NVLink to an NVSwitch");
}

void machine_contradictions(const Machine *machine, bool nets)
{
    enum { COMMS_CHECKED = 64 };

    check_described(machine);
    if (nets)
        check_edges(machine);
    for (uint32_t i = 0; i < machine->job->report.comms.len && i < COMMS_CHECKED; i++)
        check_comm(machine, i);
}
