/* SPDX-License-Identifier: Apache-2.0 */
/* A topology against the log of the node it describes: are they of one machine, and does what NCCL chose fit what the
 * topology says? With fewer than half of the GPUs in common nothing else is compared. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/machine.h"
#include "engine/nccl/node.h"

enum { TOPOLOGIES_MAX = 64 };

/* A node by the log. */
typedef struct Host {
    const char *name;
    uint32_t gpus, known;        /* that ranks use; of them in the topology at hand */
    uint32_t world;              /* ranks of the world that were seen here */
    int64_t local_ranks, lowest; /* ranks of the world that are here; the lowest that was seen */
    bool taken;                  /* a topology is compared with it */
} Host;

typedef VEC(Host) Hosts;

static void hosts_done(Hosts *hosts)
{
    vec_done(hosts);
}

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
            if (nccl_node_is_gpu(t, n) && nccl_bus_number(t->nodes.at[n].bus_id, &bus))
                map_u64_put(&job->gpu_by_bus, bus_key(i, bus), nccl_boxed(n));
    }
}

/* The PCI device of a rank's GPU in a topology, NCCL_NO_INDEX. */
static uint32_t gpu_of(const NcclJob *job, uint32_t topology, const NcclMember *m)
{
    uint64_t bus;

    return nccl_bus_number(m->bus_id, &bus) ? nccl_unboxed(map_u64_get(&job->gpu_by_bus, bus_key(topology, bus)))
                                            : NCCL_NO_INDEX;
}

NcclTie nccl_edge_tie(const NcclJob *job, const NcclEdge *edge, const NcclTopology **ret_topology)
{
    const NcclMember *m = &job->report.members.at[edge->member], *peer = nccl_edge_peer(job, edge);

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

static const char *host_of(const NcclJob *job, const NcclMember *m)
{
    return job->report.processes.at[m->process].host;
}

bool machine_has(const Machine *machine, const NcclMember *m)
{
    return m->comm != NCCL_NO_INDEX && host_of(machine->job, m) == machine->host;
}

uint32_t machine_gpu(const Machine *machine, const NcclMember *m)
{
    return gpu_of(machine->job, machine->index, m);
}

/* ---- which node ---- */

static Host *find_host(Hosts *hosts, Map *by_name, const char *name)
{
    uint32_t index = nccl_unboxed(map_get(by_name, name));

    if (index == NCCL_NO_INDEX) {
        Host host = {.name = name, .local_ranks = NCCL_UNKNOWN, .lowest = INT64_MAX};
        index = (uint32_t)hosts->len;
        vec_push(hosts, host);
        map_put(by_name, name, nccl_boxed(index));
    }
    return &hosts->at[index];
}

static void gather_hosts(const NcclJob *job, Hosts *hosts, Map *by_name)
{
    for (size_t i = 0; i < job->report.members.len; i++) {
        const NcclMember *m = &job->report.members.at[i];
        if (m->comm == NCCL_NO_INDEX)
            continue;
        Host *host = find_host(hosts, by_name, host_of(job, m));
        if (m->comm != job->report.world)
            continue;
        host->world++;
        host->local_ranks = m->local_ranks > 0 ? m->local_ranks : host->local_ranks;
        host->lowest = m->rank < host->lowest ? m->rank : host->lowest;
    }
}

/* A GPU counts once on a node, in however many communicators it is. */
static void count_gpus(const NcclJob *job, uint32_t topology, Hosts *hosts, Map *by_name)
{
    CLEANUP(map_done) Map seen;
    char key[192];

    map_init(&seen);
    for (size_t i = 0; i < hosts->len; i++)
        hosts->at[i].gpus = hosts->at[i].known = 0;
    for (size_t i = 0; i < job->report.members.len; i++) {
        const NcclMember *m = &job->report.members.at[i];
        uint64_t bus;
        if (m->comm == NCCL_NO_INDEX || !nccl_bus_number(m->bus_id, &bus))
            continue;
        snprintf(key, sizeof key, "%.128s %" PRIx64, host_of(job, m), bus);
        if (map_put(&seen, key, hosts))
            continue;
        Host *host = find_host(hosts, by_name, host_of(job, m));
        host->gpus++;
        host->known += gpu_of(job, topology, m) != NCCL_NO_INDEX;
    }
}

/* The node with most of its GPUs; of nodes alike the one that the file's name tells, one that no other topology has,
 * the one of the lowest rank, which writes the topology. */
static Host *choose_host(Hosts *hosts, const char *file)
{
    Host *best = NULL;
    unsigned best_points = 0;

    for (size_t i = 0; i < hosts->len; i++) {
        Host *host = &hosts->at[i];
        unsigned points = host->known * 4 + (strstr(file, host->name) ? 2 : 0) + !host->taken;
        if (host->gpus == 0)
            continue;
        if (!best || points > best_points || (points == best_points && host->lowest < best->lowest))
            best = host, best_points = points;
    }
    return best;
}

/* ---- what is there ---- */

/* Whether the topology is that of one communicator, of whose GPUs alone NCCL writes it. */
static bool is_of_comm(const Machine *machine)
{
    const NcclReport *r = &machine->job->report;
    uint32_t *in = arena_calloc(&machine->job->arena, r->comms.len + 1, sizeof *in);
    bool *out = arena_calloc(&machine->job->arena, r->comms.len + 1, sizeof *out);

    for (size_t i = 0; i < r->members.len; i++) {
        const NcclMember *m = &r->members.at[i];
        if (!machine_has(machine, m))
            continue;
        bool known = machine_gpu(machine, m) != NCCL_NO_INDEX;
        in[m->comm] += known;
        out[m->comm] |= !known;
    }
    for (size_t i = 0; i < r->comms.len; i++)
        if (in[i] && !out[i] && in[i] >= machine->t->gpus)
            return true;
    return false;
}

static void check_missing_gpus(const Machine *machine, const Host *host)
{
    NcclJob *job = machine->job;
    NcclFinding *f = nccl_findf(job, NCCL_RULE_TOPO_GPU_MISSING, "%s has %u of the %u GPUs that the log has on %s",
                                machine->file, host->known, host->gpus, machine->host);

    for (size_t i = 0; i < job->report.members.len; i++) {
        const NcclMember *m = &job->report.members.at[i];
        uint64_t bus;
        if (machine_has(machine, m) && nccl_bus_number(m->bus_id, &bus) && machine_gpu(machine, m) == NCCL_NO_INDEX)
            nccl_evidence(job, f, m->started ? m->start_place : m->complete_place,
                          "rank %" PRId64 " of communicator %s: GPU %s", m->rank, job->report.comms.at[m->comm].id,
                          m->bus_id);
    }
}

/* Only where all ranks of the node are in the log. */
static void check_unused_gpus(const Machine *machine, const Host *host)
{
    NcclJob *job = machine->job;
    CLEANUP(map_done) Map used;

    map_u64_init(&used);
    for (size_t i = 0; i < job->report.members.len; i++)
        if (machine_has(machine, &job->report.members.at[i]))
            map_u64_put(&used, machine_gpu(machine, &job->report.members.at[i]), job);
    for (uint32_t n = 0; n < machine->t->nodes.len; n++) {
        const NcclNode *gpu = &machine->t->nodes.at[n];
        if (!nccl_node_is_gpu(machine->t, n) || map_u64_get(&used, n))
            continue;
        NcclFinding *f = nccl_findf(job, NCCL_RULE_TOPO_GPU_UNUSED, "%s: %u GPUs, the log uses %u on %s", machine->file,
                                    machine->t->gpus, host->known, machine->host);
        nccl_evidence(job, f, gpu->place, "GPU %s: no rank", gpu->bus_id);
    }
}

/* "mlx5_0", or "mlx5_0+mlx5_1" for adapters that NCCL uses as one. */
static bool names(const char *net, const char *name)
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

const NcclNode *machine_net(const Machine *machine, const char *name)
{
    const NcclNodes *nodes = &machine->t->nodes;

    for (size_t i = 0; i < nodes->len; i++)
        if (nodes->at[i].part == NCCL_PART_NET && names(nodes->at[i].name, name))
            return &nodes->at[i];
    return NULL;
}

static bool has_nets(const NcclTopology *t)
{
    for (size_t i = 0; i < t->nodes.len; i++)
        if (t->nodes.at[i].part == NCCL_PART_NET)
            return true;
    return false;
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
        if (names(net, room))
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
        const char *text = nccl_word(job, name);
        if (machine_net(machine, text))
            continue;
        same = false;
        nccl_evidence(job, nccl_findf(job, NCCL_RULE_TOPO_NIC_MISSING, "%s against %s", machine->file, machine->host),
                      p->ib_place, "%s is not in the topology", text);
    }
    for (size_t i = 0; i < machine->t->nodes.len; i++) {
        const NcclNode *net = &machine->t->nodes.at[i];
        if (net->part != NCCL_PART_NET || !nccl_net_is_rdma(net) || is_listed(p, net->name))
            continue;
        same = false;
        if (nccl_env_find(job, "NCCL_IB_HCA"))
            continue; /* left out on purpose */
        NcclFinding *f = nccl_findf(job, NCCL_RULE_TOPO_NIC_UNLISTED, "%s against %s", machine->file, machine->host);
        if (f->evidence_count == 0)
            nccl_evidence(job, f, p->ib_place, "%s: NET/IB : Using %s", p->host, p->ib);
        nccl_evidence(job, f, net->place, "%s is not in the list", net->name);
    }
    return same;
}

static void tell_other(const Machine *machine, const Host *host)
{
    const NcclReport *r = &machine->job->report;
    NcclFinding *f = nccl_findf(machine->job, NCCL_RULE_TOPO_OTHER, "%s has %u of the %u GPUs that the log has on %s",
                                machine->file, host->known, host->gpus, machine->host);

    for (size_t i = 0; i < machine->t->nodes.len; i++)
        if (nccl_node_is_gpu(machine->t, (uint32_t)i)) {
            nccl_evidence(machine->job, f, machine->t->nodes.at[i].place, "GPU %s", machine->t->nodes.at[i].bus_id);
            break;
        }
    for (size_t i = 0; i < r->members.len; i++)
        if (machine_has(machine, &r->members.at[i]) && r->members.at[i].bus_id[0]) {
            const NcclMember *m = &r->members.at[i];
            nccl_evidence(machine->job, f, m->started ? m->start_place : m->complete_place,
                          "%s: rank %" PRId64 " has GPU %s", machine->host, m->rank, m->bus_id);
            break;
        }
}

static void check_machine(const Machine *machine, const Host *host)
{
    const NcclProcess *lister = lister_of(machine);

    bool lacks = host->known < host->gpus && !is_of_comm(machine);
    if (lacks && host->known * 2 < host->gpus) {
        tell_other(machine, host);
        return;
    }
    if (lacks)
        check_missing_gpus(machine, host);
    else if (host->known < machine->t->gpus && (int64_t)host->world == host->local_ranks)
        check_unused_gpus(machine, host);
    bool nets = has_nets(machine->t);
    bool same = !nets || !lister || check_adapters(machine, lister);
    machine_contradictions(machine, nets && same);
}

static bool has_gpus(const NcclTopology *t)
{
    uint64_t bus;

    for (uint32_t n = 0; n < t->nodes.len; n++)
        if (nccl_node_is_gpu(t, n) && nccl_bus_number(t->nodes.at[n].bus_id, &bus))
            return true;
    return false;
}

void nccl_check_machines(NcclJob *job)
{
    CLEANUP(hosts_done) Hosts hosts = {0};
    CLEANUP(map_done) Map by_name;

    map_init(&by_name);
    if (job->report.topologies.len == 0)
        return;
    gather_hosts(job, &hosts, &by_name);
    for (uint32_t i = 0; i < job->report.topologies.len && i < TOPOLOGIES_MAX; i++) {
        Machine machine = {.job = job, .t = &job->report.topologies.at[i], .index = i};
        machine.file = job->report.inputs.at[machine.t->input].name;
        const char *slash = strrchr(machine.file, '/');
        machine.file = slash && slash[1] ? slash + 1 : machine.file;
        if (!has_gpus(machine.t))
            continue;
        count_gpus(job, i, &hosts, &by_name);
        Host *host = choose_host(&hosts, machine.file);
        if (!host)
            return;
        host->taken = true;
        machine.host = host->name;
        check_machine(&machine, host);
    }
}
