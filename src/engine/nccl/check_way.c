/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from the ways that data takes between ranks. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

/* What the edges between nodes and within them add up to. */
typedef struct Ways {
    const NcclEdge *socket, *host_shm, *host_net; /* first of each kind; NULL: none */
    const NcclEdge *plain_receive, *plain_send;   /* RDMA without GPUDirect */
    uint32_t socket_count, shm_count, host_net_count, p2p_count, plain_count, gdr_receive, gdr_send;
} Ways;

static NcclScope scope_of(const NcclJob *job, const NcclEdge *e)
{
    const NcclReport *r = &job->report;
    const NcclMember *m = &r->members.at[e->member], *peer = nccl_find_edge_peer(job, e);
    const NcclWay *way = &r->ways.at[e->way];

    if (way->via == NCCL_VIA_COLLNET)
        return NCCL_SCOPE_NET;
    if (peer)
        return nccl_host_of(job, m) == nccl_host_of(job, peer) ? NCCL_SCOPE_NODE : NCCL_SCOPE_NET;
    if (way->via == NCCL_VIA_P2P || way->via == NCCL_VIA_SHM)
        return strcmp(way->name, "P2P/MNNVL") == 0 ? NCCL_SCOPE_NET : NCCL_SCOPE_NODE;
    int64_t nodes = m->nodes > 0 ? m->nodes : m->comm == NCCL_NO_INDEX ? NCCL_UNKNOWN : r->comms.at[m->comm].nodes;
    return nodes == 1 ? NCCL_SCOPE_NODE : nodes > 1 ? NCCL_SCOPE_NET : NCCL_SCOPE_UNKNOWN;
}

static NcclClass *class_of(NcclReport *r, const NcclEdge *e)
{
    const NcclWay *way = &r->ways.at[e->way];

    for (size_t i = 0; i < r->classes.len; i++)
        if (r->classes.at[i].name == way->name && r->classes.at[i].gdr == way->gdr &&
            r->classes.at[i].scope == e->scope)
            return &r->classes.at[i];
    NcclClass class = {.name = way->name,
                       .via = way->via,
                       .gdr = way->gdr,
                       .scope = e->scope,
                       .place = e->place,
                       .channels_min = UINT32_MAX};
    vec_push(&r->classes, class);
    return &r->classes.at[r->classes.len - 1];
}

static void sum_up_classes(NcclJob *job, Map *seen)
{
    NcclReport *r = &job->report;

    for (size_t i = 0; i < r->edges.len; i++) {
        NcclEdge *e = &r->edges.at[i];
        const NcclMember *m = &r->members.at[e->member];
        e->scope = scope_of(job, e);
        NcclClass *class = class_of(r, e);
        uint32_t channels = (uint32_t)__builtin_popcountll(e->channels);
        if (channels < class->channels_min)
            class->channels_min = channels;
        if (channels > class->channels_max)
            class->channels_max = channels;
        uint64_t words[] = {m->comm == NCCL_NO_INDEX ? 1ull << 32 | e->member : m->comm,
                            (uint64_t)e->from << 32 | (uint64_t)e->to, (uint64_t)(class - r->classes.at)};
        class->pairs += !map_putn(seen, (const char *)words, sizeof words, job);
    }
}

static void first_of(const NcclEdge **slot, const NcclEdge *e)
{
    if (!*slot)
        *slot = e;
}

static void gather_ways(const NcclJob *job, Ways *w)
{
    *w = (Ways){0};
    for (size_t i = 0; i < job->report.edges.len; i++) {
        const NcclEdge *e = &job->report.edges.at[i];
        const NcclWay *way = &job->report.ways.at[e->way];
        bool net = e->scope == NCCL_SCOPE_NET;
        if (e->scope == NCCL_SCOPE_NODE && (way->via == NCCL_VIA_SOCKET || way->via == NCCL_VIA_RDMA))
            first_of(&w->host_net, e), w->host_net_count++;
        else if (way->via == NCCL_VIA_SHM)
            first_of(&w->host_shm, e), w->shm_count++;
        else if (way->via == NCCL_VIA_P2P)
            w->p2p_count++;
        else if (net && way->via == NCCL_VIA_SOCKET)
            first_of(&w->socket, e), w->socket_count++;
        else if (net && way->via == NCCL_VIA_RDMA) {
            if (way->gdr)
                *(e->receive ? &w->gdr_receive : &w->gdr_send) += 1;
            else
                first_of(e->receive ? &w->plain_receive : &w->plain_send, e), w->plain_count++;
        }
    }
}

static void add_edge_evidence(NcclJob *job, NcclFinding *f, const NcclEdge *e)
{
    const NcclReport *r = &job->report;
    const NcclProcess *p = &r->processes.at[r->members.at[e->member].process];

    nccl_add_evidence(job, f, e->place, "%s: rank %" PRId64 " -> rank %" PRId64 " via %s%s", p->host, e->from, e->to,
                      r->ways.at[e->way].name, r->ways.at[e->way].gdr ? "/GDRDMA" : "");
}

/* The first process with the place at this offset, NULL. */
static const NcclProcess *process_with(const NcclJob *job, size_t place)
{
    for (size_t i = 0; i < job->report.processes.len; i++) {
        const NcclProcess *p = &job->report.processes.at[i];
        if (((const NcclPlace *)((const char *)p + place))->line)
            return p;
    }
    return NULL;
}

static const NcclTopology *topology_with(const NcclJob *job, bool links)
{
    for (size_t i = 0; i < job->report.topologies.len; i++) {
        const NcclTopology *t = &job->report.topologies.at[i];
        if (links ? t->links > 0 : t->nics > 0)
            return t;
    }
    return NULL;
}

/* A finding for which a variable that is set is the reason; its evidence. */
static NcclFinding *blame_env(NcclJob *job, NcclRule rule, const NcclEnv *env, const char *detail)
{
    NcclFinding *f = nccl_add_finding(job, rule, detail);

    nccl_add_evidence(job, f, env->place, "%s set by environment to %s", env->name, env->value);
    return f;
}

static void check_socket(NcclJob *job, const Ways *w)
{
    const NcclProcess *p = process_with(job, offsetof(NcclProcess, ib_place));
    const NcclTopology *t = topology_with(job, false);
    const char *detail = nccl_printf(job, "%u connections over sockets", w->socket_count);
    const NcclEnv *env;
    NcclFinding *f;

    if (!w->socket)
        return;
    if ((env = nccl_find_env(job, "NCCL_IB_DISABLE", "1"))) {
        f = blame_env(job, NCCL_RULE_IB_DISABLED, env, detail);
    } else if ((env = nccl_find_env(job, "NCCL_NET", "Socket"))) {
        f = blame_env(job, NCCL_RULE_SOCKET_FORCED, env, detail);
    } else if (p) {
        f = nccl_add_finding(job, NCCL_RULE_SOCKET_WITH_IB, detail);
        nccl_add_evidence(job, f, p->ib_place, "%s: NET/IB : Using %s", p->host, p->ib);
    } else if (t) {
        f = nccl_add_findingf(job, NCCL_RULE_TOPO_IB_UNUSED, "%u RDMA adapters, %s", t->nics, detail);
        nccl_add_evidence(job, f, (NcclPlace){t->input, 0}, "%u RDMA adapters", t->nics);
    } else if ((p = process_with(job, offsetof(NcclProcess, ib_missing)))) {
        f = nccl_add_finding(job, NCCL_RULE_SOCKET_NO_IB, detail);
        nccl_add_evidence(job, f, p->ib_missing, "%s: NET/IB : No device found", p->host);
    } else
        return;
    add_edge_evidence(job, f, w->socket);
}

static bool gdr_forbidden(const NcclEnv *env)
{
    return env && (strcasecmp(env->value, "LOC") == 0 || strcmp(env->value, "0") == 0);
}

/* Levels are names in any case, or older numbers, of which 4 and more are SYS. */
static bool any_distance(const char *level)
{
    return strcasecmp(level, "SYS") == 0 || (level[0] >= '4' && level[0] <= '9');
}

/* All plain: why. */
static NcclFinding *why_no_gdr(NcclJob *job, const Ways *w)
{
    const NcclProcess *off = process_with(job, offsetof(NcclProcess, gdr_off)),
                      *far = process_with(job, offsetof(NcclProcess, gdr_far)),
                      *on = process_with(job, offsetof(NcclProcess, gdr_on));
    const NcclEnv *level = nccl_find_env(job, "NCCL_NET_GDR_LEVEL", NULL);
    const char *detail = nccl_printf(job, "%u connections", w->plain_count);
    bool limited = level && far && !any_distance(level->value);
    NcclFinding *f;

    if (gdr_forbidden(level) || (limited && !off))
        f = blame_env(job, NCCL_RULE_GDR_LEVEL, level, detail);
    else if (off)
        f = nccl_add_finding(job, NCCL_RULE_GDR_OFF, detail);
    else
        f = nccl_add_finding(job, far ? NCCL_RULE_GDR_FAR : on ? NCCL_RULE_GDR_UNUSED : NCCL_RULE_GDR_MISSING, detail);
    if (off && !gdr_forbidden(level))
        nccl_add_evidence(job, f, off->gdr_off, "%s: GPU Direct RDMA disabled for an adapter", off->host);
    else if (far && !gdr_forbidden(level))
        nccl_add_evidence(job, f, far->gdr_far, "%s: GPU Direct RDMA disabled by distance", far->host);
    const NcclEdge *plain = w->plain_receive ? w->plain_receive : w->plain_send;
    if (strstr(job->report.ways.at[plain->way].name, "Libfabric"))
        f->setting = "FI_EFA_USE_DEVICE_RDMA=1, FI_PROVIDER=efa; nvidia-peermem or DMA-BUF";
    return f;
}

/* Sends without GPUDirect beside receives with it are how NCCL reads over PCIe on purpose. */
static void check_gdr(NcclJob *job, const Ways *w)
{
    const NcclEdge *plain = w->plain_receive ? w->plain_receive : w->plain_send;
    uint32_t gdr = w->gdr_receive + w->gdr_send;

    if (!plain || (!w->plain_receive && w->gdr_receive))
        return;
    NcclFinding *f =
        gdr ? nccl_add_findingf(job, NCCL_RULE_GDR_PARTIAL, "%u connections without, %u with", w->plain_count, gdr)
            : why_no_gdr(job, w);
    add_edge_evidence(job, f, plain);
}

/* Shared memory between GPUs that are linked, by a topology that has both, or that has links and knows neither. */
typedef struct Unlinked {
    const NcclEdge *first;
    const NcclTopology *topology;
    uint32_t count;
} Unlinked;

static Unlinked gather_unlinked(const NcclJob *job, const Ways *w)
{
    Unlinked u = {0};
    bool known = false;

    for (size_t i = 0; i < job->report.edges.len; i++) {
        const NcclEdge *e = &job->report.edges.at[i];
        const NcclTopology *t;
        if (job->report.ways.at[e->way].via != NCCL_VIA_SHM)
            continue;
        NcclTie tie = nccl_find_edge_tie(job, e, &t);
        known |= tie != NCCL_TIE_UNKNOWN;
        if (tie != NCCL_TIE_LINKED)
            continue;
        if (u.count++ == 0)
            u.first = e, u.topology = t;
    }
    const NcclTopology *links = topology_with(job, true);
    return known || !links ? u : (Unlinked){w->host_shm, links, w->shm_count};
}

static void check_host(NcclJob *job, const Ways *w)
{
    const NcclEnv *level = nccl_find_env(job, "NCCL_P2P_LEVEL", NULL),
                  *off = nccl_find_env(job, "NCCL_P2P_DISABLE", "1");
    const char *detail = nccl_printf(job, "%u connections over shared memory", w->shm_count);
    const NcclEdge *edge = w->host_shm;
    NcclFinding *f;

    if (!edge)
        return;
    const Unlinked u = gather_unlinked(job, w);
    if (off)
        f = blame_env(job, NCCL_RULE_P2P_DISABLED, off, detail);
    else if (level && !any_distance(level->value))
        f = blame_env(job, NCCL_RULE_P2P_LEVEL, level, detail);
    else if (u.count) {
        f = nccl_add_findingf(job, NCCL_RULE_NVLINK_UNUSED,
                              "%u links in the topology, %u connections over shared memory", u.topology->links,
                              u.count);
        nccl_add_evidence(job, f, (NcclPlace){u.topology->input, 0}, "%u NVLinks or xGMI links", u.topology->links);
        edge = u.first;
    } else {
        f = nccl_add_findingf(job, NCCL_RULE_SHM_IN_NODE, "%s, %u direct", detail, w->p2p_count);
        if (level)
            f->setting = "ACS and IOMMU off; nvidia-smi topo -p2p r"; /* the level allows all */
    }
    add_edge_evidence(job, f, edge);
}

static void check_host_net(NcclJob *job, const Ways *w)
{
    const char *detail = nccl_printf(job, "%u connections over the network within a node", w->host_net_count);
    const NcclEnv *off = nccl_find_env(job, "NCCL_SHM_DISABLE", "1");

    if (!w->host_net)
        return;
    NcclFinding *f = off ? blame_env(job, NCCL_RULE_SHM_DISABLED, off, detail)
                         : nccl_add_finding(job, NCCL_RULE_NET_IN_NODE, detail);
    add_edge_evidence(job, f, w->host_net);
}

/* NCCL logs nothing about NVLS where it is off, so another process or the topology has to show it. */
static void check_nvls(NcclJob *job)
{
    const NcclProcess *p = process_with(job, offsetof(NcclProcess, nvls_available));
    const NcclEnv *off = nccl_find_env(job, "NCCL_NVLS_ENABLE", "0");
    const NcclTopology *able = NULL;

    for (size_t i = 0; i < job->report.topologies.len && !able; i++)
        able = job->report.topologies.at[i].nvls_able ? &job->report.topologies.at[i] : NULL;
    if (!off || (!p && !able))
        return;
    NcclFinding *f = blame_env(job, NCCL_RULE_NVLS_DISABLED, off, NULL);
    if (p)
        nccl_add_evidence(job, f, p->nvls_available, "%s: NVLS multicast support is available", p->host);
    else
        nccl_add_evidence(job, f, (NcclPlace){able->input, 0}, "GPUs of generation 9.0 or later behind NVSwitch");
}

static void gather_adapters(NcclJob *job)
{
    const NcclReport *r = &job->report;

    for (size_t i = 0; i < r->processes.len; i++) {
        const NcclProcess *p = &r->processes.at[i];
        NcclHost *host = &job->hosts.at[p->host_index];
        if (p->ib_devices > host->listed) {
            host->listed = p->ib_devices;
            host->listed_place = p->ib_place;
        }
    }
    for (size_t i = 0; i < r->edges.len; i++) {
        const NcclEdge *e = &r->edges.at[i];
        const NcclWay *way = &r->ways.at[e->way];
        if (e->scope == NCCL_SCOPE_NET && way->via == NCCL_VIA_RDMA && way->device < 64) {
            NcclHost *host = nccl_host_of(job, &r->members.at[e->member]);
            host->used |= 1ull << way->device;
            host->channels |= e->channels;
        }
    }
}

/* With fewer channels than adapters some have nothing to carry. */
static void check_adapters(NcclJob *job)
{
    gather_adapters(job);
    for (size_t i = 0; i < job->hosts.len; i++) {
        const NcclHost *host = &job->hosts.at[i];
        unsigned used = (unsigned)__builtin_popcountll(host->used);
        if (used && used < host->listed && host->listed <= host->world && host->listed < 64 &&
            (unsigned)__builtin_popcountll(host->channels) >= host->listed && host->used >> host->listed == 0)
            nccl_report(job, NCCL_RULE_IB_UNUSED, host->listed_place, "%s: %u of %u adapters carry data for %u ranks",
                        host->name, used, host->listed, host->world);
    }
}

/* With NCCL_CROSS_NIC=1: the same connection on another adapter at its other end. */
static void check_cross(NcclJob *job)
{
    const NcclReport *r = &job->report;
    CLEANUP(map_done) Map sends;

    map_init(&sends);
    if (!nccl_find_env(job, "NCCL_CROSS_NIC", "1"))
        return;
    for (int receive = 0; receive < 2; receive++)
        for (size_t i = 0; i < r->edges.len; i++) {
            const NcclEdge *e = &r->edges.at[i];
            const NcclWay *way = &r->ways.at[e->way];
            if (e->scope != NCCL_SCOPE_NET || way->via != NCCL_VIA_RDMA || e->receive != (receive != 0))
                continue;
            uint64_t key[] = {r->members.at[e->member].comm, (uint64_t)e->from << 32 | (uint64_t)e->to, e->channels};
            if (!receive) {
                map_putn(&sends, (const char *)key, sizeof key, nccl_box((uint32_t)i));
                continue;
            }
            uint32_t send = nccl_unbox(map_getn(&sends, (const char *)key, sizeof key));
            if (send != NCCL_NO_INDEX && r->ways.at[r->edges.at[send].way].device != way->device)
                nccl_report(job, NCCL_RULE_CROSS_RAIL, e->place,
                            "rank %" PRId64 " sends on adapter %d, rank %" PRId64 " receives on adapter %d", e->from,
                            r->ways.at[r->edges.at[send].way].device, e->to, way->device);
        }
}

/* Made for the containers and virtual machines of one node. */
static bool is_virtual(Span name)
{
    static const char *const fronts[] = {"docker", "virbr", "veth", "br-", "cni", "flannel", "cali"};

    return span_starts_any(name, fronts, ARRAY_LEN(fronts)) || span_is(name, "lo");
}

/* Whether processes of different nodes talk, or try to. */
static bool is_apart(const NcclJob *job)
{
    const NcclReport *r = &job->report;

    if (job->hosts.len > 1 || (r->world != NCCL_NO_INDEX && r->comms.at[r->world].nodes > 1))
        return true;
    for (size_t i = 0; i < r->edges.len; i++)
        if (r->edges.at[i].scope == NCCL_SCOPE_NET)
            return true;
    for (size_t i = 0; i < r->findings.len; i++) {
        const NcclRule rule = r->findings.at[i].rule;

        if (rule == NCCL_RULE_CONNECT_REFUSED || rule == NCCL_RULE_CONNECT_TIMEOUT || rule == NCCL_RULE_UNREACHABLE)
            return true;
    }
    return false;
}

/* "[0]eth0:10.0.0.1<0> [1]br-5f2a:172.18.0.1<0>" */
static void check_sockets(NcclJob *job, const NcclProcess *p)
{
    Span rest = span_of(p->sockets);

    while (span_after(&rest, "]")) {
        const Span name = span_until(&rest, ':');

        if (is_virtual(name))
            nccl_report(job, NCCL_RULE_IFNAME, p->sockets_place, "%s: NET/Socket uses %.*s", p->host,
                        (int)(name.len < 40 ? name.len : 40), name.at);
    }
}

static void check_interface(NcclJob *job)
{
    const NcclReport *r = &job->report;

    for (size_t i = 0; i < r->processes.len && is_apart(job); i++) {
        const NcclProcess *p = &r->processes.at[i];

        if (is_virtual(span_of(p->oob)))
            nccl_report(job, NCCL_RULE_IFNAME, p->oob_place, "%s: bootstrap uses %s", p->host, p->oob);
        check_sockets(job, p);
    }
}

void nccl_check_ways(NcclJob *job)
{
    CLEANUP(map_done) Map seen;
    Ways ways;

    map_init(&seen);
    sum_up_classes(job, &seen);
    gather_ways(job, &ways);
    check_socket(job, &ways);
    check_gdr(job, &ways);
    check_host(job, &ways);
    check_host_net(job, &ways);
    check_nvls(job);
    check_adapters(job);
    check_cross(job);
    check_interface(job);
}
