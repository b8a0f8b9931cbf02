/* SPDX-License-Identifier: Apache-2.0 */
/* A topology against the log of the node it describes: are they of one machine, and does what NCCL chose fit what the
 * topology says? With fewer than half of the GPUs in common nothing else is compared. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

/* A topology and the node of the log that it describes. */
typedef struct Machine {
    NcclJob *job;
    const NcclTopology *t;
    uint32_t index; /* of the topology */
    const char *file;
    const char *host; /* interned */
} Machine;

enum { TOPOLOGIES_MAX = 64 };

static uint64_t bus_key(uint32_t topology, uint64_t bus)
{
    return map_hash(&bus, sizeof bus, topology);
}

void nccl_index_gpus(NcclJob *job)
{
    uint64_t bus;

    for (uint32_t i = 0; i < job->report.topologies.len && i < TOPOLOGIES_MAX; i++) {
        const NcclTopology *t = &job->report.topologies.at[i];
        for (uint32_t n = 0; n < t->nodes.len; n++)
            if (nccl_node_is_gpu(t, n) && nccl_parse_bus_id(t->nodes.at[n].bus_id, &bus))
                map_u64_put(&job->gpu_by_bus, bus_key(i, bus), nccl_box(n));
    }
}

/* The PCI device of a rank's GPU in a topology, NCCL_NO_INDEX. */
static uint32_t gpu_of(const NcclJob *job, uint32_t topology, const NcclMember *m)
{
    uint64_t bus;

    return nccl_parse_bus_id(m->bus_id, &bus) ? nccl_unbox(map_u64_get(&job->gpu_by_bus, bus_key(topology, bus)))
                                              : NCCL_NO_INDEX;
}

const NcclMember *nccl_find_edge_peer(const NcclJob *job, const NcclEdge *e)
{
    const NcclMember *m = &job->report.members.at[e->member];

    return m->comm == NCCL_NO_INDEX ? NULL : nccl_find_rank(job, m->comm, e->receive ? e->from : e->to);
}

NcclTie nccl_find_edge_tie(const NcclJob *job, const NcclEdge *edge, const NcclTopology **ret_topology)
{
    const NcclMember *m = &job->report.members.at[edge->member], *peer = nccl_find_edge_peer(job, edge);

    for (uint32_t i = 0; i < job->report.topologies.len && i < TOPOLOGIES_MAX && peer; i++) {
        const NcclTopology *t = &job->report.topologies.at[i];
        uint32_t a = gpu_of(job, i, m), b = gpu_of(job, i, peer);
        if (a == NCCL_NO_INDEX || b == NCCL_NO_INDEX)
            continue;
        *ret_topology = t;
        return nccl_node_linked(t, a, b) ? NCCL_TIE_LINKED : NCCL_TIE_NONE;
    }
    return NCCL_TIE_UNKNOWN;
}

static bool is_on_machine(const Machine *machine, const NcclMember *m)
{
    return m->comm != NCCL_NO_INDEX && nccl_host_of(machine->job, m)->name == machine->host;
}

static uint32_t find_machine_gpu(const Machine *machine, const NcclMember *m)
{
    return gpu_of(machine->job, machine->index, m);
}

/* ---- which node ---- */

/* A GPU counts once on a node, in however many communicators it is. */
static void count_gpus(NcclJob *job, uint32_t topology)
{
    CLEANUP(map_done) Map seen;
    char key[192];

    map_init(&seen);
    for (size_t i = 0; i < job->hosts.len; i++)
        job->hosts.at[i].gpus = job->hosts.at[i].known = 0;
    for (size_t i = 0; i < job->report.members.len; i++) {
        const NcclMember *m = &job->report.members.at[i];
        uint64_t bus;
        if (m->comm == NCCL_NO_INDEX || !nccl_parse_bus_id(m->bus_id, &bus))
            continue;
        snprintf(key, sizeof key, "%.128s %" PRIx64, nccl_host_of(job, m)->name, bus);
        if (map_put(&seen, key, job))
            continue;
        NcclHost *host = nccl_host_of(job, m);
        host->gpus++;
        host->known += gpu_of(job, topology, m) != NCCL_NO_INDEX;
    }
}

/* The host with most of the topology's GPUs. Of equal hosts: the one named in the file's name, one without a topology,
 * the one of the lowest rank (which writes the topology). */
static NcclHost *choose_host(NcclJob *job, const char *file)
{
    NcclHost *best = NULL;
    unsigned best_points = 0;

    for (size_t i = 0; i < job->hosts.len; i++) {
        NcclHost *host = &job->hosts.at[i];
        unsigned points = host->known * 4 + (strstr(file, host->name) ? 2 : 0) + !host->taken;
        if (host->gpus == 0)
            continue;
        if (!best || points > best_points || (points == best_points && host->lowest < best->lowest))
            best = host, best_points = points;
    }
    return best;
}

/* ---- what is there ---- */

/* Whether the topology is of one communicator: NCCL writes the GPUs of that communicator only. */
static bool is_of_comm(const Machine *machine)
{
    const NcclReport *r = &machine->job->report;
    uint32_t *in = arena_calloc(&machine->job->arena, r->comms.len + 1, sizeof *in);
    bool *out = arena_calloc(&machine->job->arena, r->comms.len + 1, sizeof *out);

    for (size_t i = 0; i < r->members.len; i++) {
        const NcclMember *m = &r->members.at[i];
        if (!is_on_machine(machine, m))
            continue;
        bool known = find_machine_gpu(machine, m) != NCCL_NO_INDEX;
        in[m->comm] += known;
        out[m->comm] |= !known;
    }
    for (size_t i = 0; i < r->comms.len; i++)
        if (in[i] && !out[i] && in[i] >= machine->t->gpus)
            return true;
    return false;
}

static void check_missing_gpus(const Machine *machine, const NcclHost *host)
{
    NcclJob *job = machine->job;
    NcclFinding *f =
        nccl_add_findingf(job, NCCL_RULE_TOPO_GPU_MISSING, "%s has %u of the %u GPUs that the log has on %s",
                          machine->file, host->known, host->gpus, machine->host);

    for (size_t i = 0; i < job->report.members.len; i++) {
        const NcclMember *m = &job->report.members.at[i];
        uint64_t bus;
        if (is_on_machine(machine, m) && nccl_parse_bus_id(m->bus_id, &bus) &&
            find_machine_gpu(machine, m) == NCCL_NO_INDEX)
            nccl_add_evidence(job, f, m->started ? m->start_place : m->complete_place,
                              "rank %" PRId64 " of communicator %s: GPU %s", m->rank, job->report.comms.at[m->comm].id,
                              m->bus_id);
    }
}

/* Only where all ranks of the node are in the log. */
static void check_unused_gpus(const Machine *machine, const NcclHost *host)
{
    NcclJob *job = machine->job;
    CLEANUP(map_done) Map used;

    map_u64_init(&used);
    for (size_t i = 0; i < job->report.members.len; i++)
        if (is_on_machine(machine, &job->report.members.at[i]))
            map_u64_put(&used, find_machine_gpu(machine, &job->report.members.at[i]), job);
    for (uint32_t n = 0; n < machine->t->nodes.len; n++) {
        const NcclNode *gpu = &machine->t->nodes.at[n];
        if (!nccl_node_is_gpu(machine->t, n) || map_u64_get(&used, n))
            continue;
        NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_TOPO_GPU_UNUSED, "%s: %u GPUs, the log uses %u on %s",
                                           machine->file, machine->t->gpus, host->known, machine->host);
        nccl_add_evidence(job, f, gpu->place, "GPU %s: no rank", gpu->bus_id);
    }
}

/* "mlx5_0", or "mlx5_0+mlx5_1" for adapters that NCCL uses as one. */
static bool net_has_name(const char *net, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = net; *at; at += *at == '+') {
        size_t n = strcspn(at, "+");
        if (n == len && memcmp(at, name, n) == 0)
            return true;
        at += n;
    }
    return false;
}

/* The first net of this name (NULL: any) and number (NCCL_UNKNOWN: any), NULL. */
static const NcclNode *find_net(const NcclTopology *t, const char *name, int device)
{
    for (size_t i = 0; i < t->nodes.len; i++) {
        const NcclNode *n = &t->nodes.at[i];
        if (n->part == NCCL_PART_NET && (!name || net_has_name(n->name, name)) &&
            (device == NCCL_UNKNOWN || n->dev == device))
            return n;
    }
    return NULL;
}

/* The process of this node that lists adapters. */
static const NcclProcess *lister_of(const Machine *machine)
{
    for (size_t i = 0; i < machine->job->report.processes.len; i++) {
        const NcclProcess *p = &machine->job->report.processes.at[i];
        if (p->host == machine->host && p->ib_devices)
            return p;
    }
    return NULL;
}

static bool is_listed(const NcclProcess *p, const char *net)
{
    Span list = span_of(p->ib), name;
    char room[80];

    while (nccl_next_adapter(&list, &name)) {
        snprintf(room, sizeof room, "%.*s", name.len < 64 ? (int)name.len : 64, name.at);
        if (net_has_name(net, room))
            return true;
    }
    return false;
}

/* Adapters by name, both ways. False where the two do not have the same ones. */
static bool check_adapters(const Machine *machine, const NcclProcess *p)
{
    NcclJob *job = machine->job;
    Span list = span_of(p->ib), name;
    bool same = true;

    while (nccl_next_adapter(&list, &name)) {
        const char *text = nccl_intern(job, name);
        if (find_net(machine->t, text, NCCL_UNKNOWN))
            continue;
        same = false;
        nccl_add_evidence(
            job, nccl_add_findingf(job, NCCL_RULE_TOPO_NIC_MISSING, "%s against %s", machine->file, machine->host),
            p->ib_place, "%s is not in the topology", text);
    }
    for (size_t i = 0; i < machine->t->nodes.len; i++) {
        const NcclNode *net = &machine->t->nodes.at[i];
        if (net->part != NCCL_PART_NET || !nccl_net_is_rdma(net) || is_listed(p, net->name))
            continue;
        same = false;
        if (nccl_find_env(job, "NCCL_IB_HCA", NULL))
            continue; /* left out on purpose */
        NcclFinding *f =
            nccl_add_findingf(job, NCCL_RULE_TOPO_NIC_UNLISTED, "%s against %s", machine->file, machine->host);
        if (f->evidence_count == 0)
            nccl_add_evidence(job, f, p->ib_place, "%s: NET/IB : Using %s", p->host, p->ib);
        nccl_add_evidence(job, f, net->place, "%s is not in the list", net->name);
    }
    return same;
}

static void report_contradiction(const Machine *machine, const char *about, NcclPlace log, const char *said,
                                 NcclPlace topology, const char *written)
{
    NcclFinding *f = nccl_add_findingf(machine->job, NCCL_RULE_TOPO_CONTRADICTS, "%s against %s: %s", machine->file,
                                       machine->host, about);

    if (f->evidence_count)
        return; /* once per kind */
    nccl_add_evidence(machine->job, f, log, "%s", said);
    nccl_add_evidence(machine->job, f, topology, "%s", written);
}

/* The PCI device above a net, NULL. */
static const NcclNode *pci_of(const NcclTopology *t, const NcclNode *net)
{
    uint32_t n = net->parent;

    while (n != NCCL_NO_INDEX && t->nodes.at[n].part != NCCL_PART_PCI)
        n = t->nodes.at[n].parent;
    return n == NCCL_NO_INDEX ? NULL : &t->nodes.at[n];
}

/* Speed and PCI address of each adapter by NCCL's NET lines. The PCI function is ignored: NCCL treats the ports of one
 * adapter as one device. */
static void check_described(const Machine *machine)
{
    enum { FUNCTION_BITS = 4 };
    NcclJob *job = machine->job;

    for (size_t i = 0; i < job->adapters.len; i++) {
        const NcclAdapter *a = &job->adapters.at[i];
        const NcclNode *net = a->host == machine->host ? find_net(machine->t, a->name, NCCL_UNKNOWN) : NULL;
        const NcclNode *pci = net ? pci_of(machine->t, net) : NULL;
        uint64_t bus;
        if (!net || strchr(net->name, '+'))
            continue;
        if (a->mbps > 0 && net->net_mbps > 0 && a->mbps != net->net_mbps) {
            report_contradiction(machine, "speed of an adapter", a->place,
                                 nccl_printf(job, "%.80s has %" PRId64 " Mb/s", a->name, a->mbps), net->place,
                                 nccl_printf(job, "%.80s has %" PRId64 " Mb/s", net->name, net->net_mbps));
        }
        if (a->bus && pci && nccl_parse_bus_id(pci->bus_id, &bus) && bus >> FUNCTION_BITS != a->bus >> FUNCTION_BITS) {
            report_contradiction(machine, "place of an adapter", a->place,
                                 nccl_printf(job, "%.80s is PCI device %" PRIx64, a->name, a->bus), pci->place,
                                 nccl_printf(job, "%.80s is PCI device %.40s", net->name, pci->bus_id));
        }
    }
}

/* Adapters that connections name by number, and GPUDirect. */
static void check_machine_edge(const Machine *machine, const NcclEdge *e)
{
    const NcclReport *r = &machine->job->report;
    const NcclMember *m = &r->members.at[e->member];
    const NcclWay *way = &r->ways.at[e->way];
    uint32_t pci = find_machine_gpu(machine, m);
    uint32_t gpu = pci == NCCL_NO_INDEX ? pci : nccl_node_gpu(machine->t, pci);
    const NcclNode *net = find_net(machine->t, NULL, way->device);
    NcclJob *job = machine->job;
    const char *said = nccl_printf(job, "rank %" PRId64 " -> rank %" PRId64 " via %.80s/%d%s", e->from, e->to,
                                   way->name, way->device, way->gdr ? "/GDRDMA" : "");

    if (!net)
        report_contradiction(machine, "number of an adapter", e->place, said, (NcclPlace){machine->t->input, 0},
                             nccl_printf(job, "no adapter has the number %d", way->device));
    else if (way->gdr && net->gdr == 0)
        report_contradiction(machine, "GPUDirect", e->place, said, net->place,
                             nccl_printf(job, "%.80s: gdr=0", net->name));
    else if (way->gdr && gpu != NCCL_NO_INDEX && machine->t->nodes.at[gpu].gdr == 0)
        report_contradiction(machine, "GPUDirect", e->place, said, machine->t->nodes.at[gpu].place,
                             nccl_printf(job, "GPU %.40s: gdr=0", machine->t->nodes.at[pci].bus_id));
}

static void check_machine_edges(const Machine *machine)
{
    const NcclReport *r = &machine->job->report;
    CLEANUP(map_done) Map done;

    map_u64_init(&done);
    for (size_t i = 0; i < r->edges.len; i++) {
        const NcclEdge *e = &r->edges.at[i];
        const NcclMember *m = &r->members.at[e->member];
        bool net = r->ways.at[e->way].via == NCCL_VIA_RDMA && r->ways.at[e->way].device >= 0;
        if (!net || !is_on_machine(machine, m) ||
            map_u64_put(&done, (uint64_t)e->way << 32 | find_machine_gpu(machine, m), machine->job))
            continue;
        check_machine_edge(machine, e);
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
        uint32_t gpu = m->comm == comm && is_on_machine(machine, m) ? find_machine_gpu(machine, m) : NCCL_NO_INDEX;
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
    const char *pattern = c->patterns[which].text;
    const NcclPlace place = c->patterns[which].place;
    const NcclPlace topology = {machine->t->input, 0};
    Span s = span_of(pattern);
    char written[200];

    if (!span_after(&s, "type "))
        return;
    Span within = span_until(&s, '/'), between = span_until(&s, ',');
    if (joined->count > 1 && span_is(within, "NVL") && joined->links == 0)
        report_contradiction(machine, "NVLink", place, pattern, topology, "these GPUs have no NVLink");
    bool far = span_is(within, "PIX") || span_is(within, "PXB") || span_is(within, "PHB") || span_is(within, "SYS");
    bool forbidden =
        nccl_find_env(machine->job, "NCCL_P2P_DISABLE", NULL) || nccl_find_env(machine->job, "NCCL_P2P_LEVEL", NULL);
    if (joined->count > 1 && far && joined->at_switch == joined->count && !forbidden)
        report_contradiction(machine, "NVLink", place, pattern, topology,
                             "all of these GPUs have NVLinks to an NVSwitch");
    if ((span_is(between, "PIX") || span_is(between, "PXB")) && machine->t->nics && machine->t->near_gpus == 0) {
        snprintf(written, sizeof written, "none of %u GPUs shares a PCI switch with an adapter", machine->t->gpus);
        report_contradiction(machine, "path to an adapter", place, pattern, topology, written);
    }
}

static void check_patterns(const Machine *machine, uint32_t comm)
{
    const NcclComm *c = &machine->job->report.comms.at[comm];

    if (c->pattern_count == 0 && !c->nvls)
        return;
    const Joined joined = join_gpus(machine, comm);
    for (unsigned k = 0; k < c->pattern_count && joined.count; k++)
        check_pattern(machine, c, k, &joined);
    if (c->nvls && joined.count > 1 && joined.at_switch == 0)
        report_contradiction(machine, "NVLS", c->nvls_place, "NVLS is set up", (NcclPlace){machine->t->input, 0},
                             "these GPUs have no NVLink to an NVSwitch");
}

static void check_contradictions(const Machine *machine, bool nets)
{
    enum { COMMS_CHECKED = 64 };

    check_described(machine);
    if (nets)
        check_machine_edges(machine);
    for (uint32_t i = 0; i < machine->job->report.comms.len && i < COMMS_CHECKED; i++)
        check_patterns(machine, i);
}

static void report_other_machine(const Machine *machine, const NcclHost *host)
{
    const NcclReport *r = &machine->job->report;
    NcclFinding *f =
        nccl_add_findingf(machine->job, NCCL_RULE_TOPO_OTHER, "%s has %u of the %u GPUs that the log has on %s",
                          machine->file, host->known, host->gpus, machine->host);

    for (size_t i = 0; i < machine->t->nodes.len; i++)
        if (nccl_node_is_gpu(machine->t, (uint32_t)i)) {
            nccl_add_evidence(machine->job, f, machine->t->nodes.at[i].place, "GPU %s", machine->t->nodes.at[i].bus_id);
            break;
        }
    for (size_t i = 0; i < r->members.len; i++)
        if (is_on_machine(machine, &r->members.at[i]) && r->members.at[i].bus_id[0]) {
            const NcclMember *m = &r->members.at[i];
            nccl_add_evidence(machine->job, f, m->started ? m->start_place : m->complete_place,
                              "%s: rank %" PRId64 " has GPU %s", machine->host, m->rank, m->bus_id);
            break;
        }
}

static void check_machine(const Machine *machine, const NcclHost *host)
{
    const NcclProcess *lister = lister_of(machine);

    bool lacks = host->known < host->gpus && !is_of_comm(machine);
    if (lacks && host->known * 2 < host->gpus) {
        report_other_machine(machine, host);
        return;
    }
    if (lacks)
        check_missing_gpus(machine, host);
    else if (host->known < machine->t->gpus && (int64_t)host->world == host->local_ranks)
        check_unused_gpus(machine, host);
    bool nets = find_net(machine->t, NULL, NCCL_UNKNOWN);
    bool same = !nets || !lister || check_adapters(machine, lister);
    check_contradictions(machine, nets && same);
}

static bool has_gpus(const NcclTopology *t)
{
    uint64_t bus;

    for (uint32_t n = 0; n < t->nodes.len; n++)
        if (nccl_node_is_gpu(t, n) && nccl_parse_bus_id(t->nodes.at[n].bus_id, &bus))
            return true;
    return false;
}

void nccl_check_machines(NcclJob *job)
{
    for (uint32_t i = 0; i < job->report.topologies.len && i < TOPOLOGIES_MAX; i++) {
        Machine machine = {.job = job, .t = &job->report.topologies.at[i], .index = i};
        machine.file = job->report.inputs.at[machine.t->input].name;
        const char *slash = strrchr(machine.file, '/');
        machine.file = slash && slash[1] ? slash + 1 : machine.file;
        if (!has_gpus(machine.t))
            continue;
        count_gpus(job, i);
        NcclHost *host = choose_host(job, machine.file);
        if (!host)
            return;
        host->taken = true;
        machine.host = host->name;
        check_machine(&machine, host);
    }
}
