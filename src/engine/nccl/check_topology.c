/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from a topology: devices that are not like their like, and ways through the CPU. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/job.h"
#include "engine/nccl/node.h"

enum { GPU_LANES = 16, SM_NVLS = 90 };

typedef VEC(uint32_t) Indices;

/* What is compared within one topology. */
typedef struct Look {
    NcclJob *job;
    const NcclTopology *t;
    Indices gpus, nics; /* PCI devices; nics: with an RDMA net, or without a net but of the class */
} Look;

static void look_done(Look *look)
{
    vec_done(&look->gpus);
    vec_done(&look->nics);
}

static const NcclNode *at(const Look *look, uint32_t node)
{
    return &look->t->nodes.at[node];
}

/* The PCI nodes above each adapter. */
static const bool *marks_of(const Look *look)
{
    bool *mark = arena_calloc(&look->job->arena, look->t->nodes.len + 1, sizeof *mark);

    for (size_t i = 0; i < look->nics.len; i++)
        for (uint32_t n = at(look, look->nics.at[i])->parent; n != NCCL_NO_INDEX && at(look, n)->part == NCCL_PART_PCI;
             n = at(look, n)->parent)
            mark[n] = true;
    return mark;
}

/* Whether one adapter hangs below a switch that `gpu` hangs below too. `mark` has the PCI nodes above each adapter. */
static bool shares_switch(const Look *look, const bool *mark, uint32_t gpu)
{
    for (uint32_t n = at(look, gpu)->parent; n != NCCL_NO_INDEX && at(look, n)->part == NCCL_PART_PCI;
         n = at(look, n)->parent)
        if (mark[n])
            return true;
    return false;
}

static void count(NcclTopology *t, Look *look)
{
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        t->numa_nodes += t->nodes.at[i].part == NCCL_PART_CPU;
        if (nccl_node_is_gpu(t, i)) {
            uint32_t gpu = nccl_node_gpu(t, i);
            vec_push(&look->gpus, i);
            t->links += nccl_node_links(t, i);
            t->nvls_able |= gpu != NCCL_NO_INDEX && t->nodes.at[gpu].sm >= SM_NVLS && nccl_node_at_switch(t, i);
        } else if (nccl_node_is_nic(t, i)) {
            uint32_t net = nccl_node_net(t, i);
            if (net == NCCL_NO_INDEX || nccl_net_is_rdma(&t->nodes.at[net]))
                vec_push(&look->nics, i);
        }
    }
    t->gpus = (uint32_t)look->gpus.len;
    t->nics = (uint32_t)look->nics.len;
    const bool *mark = marks_of(look);
    for (size_t i = 0; i < look->gpus.len; i++)
        t->near_gpus += shares_switch(look, mark, look->gpus.at[i]);
}

/* "GPU 3 (0000:1b:00.0)", "mlx5_0 (0000:1c:00.0)" */
static const char *name_of(const Look *look, uint32_t node, char out[160])
{
    uint32_t gpu = nccl_node_gpu(look->t, node), net = nccl_node_net(look->t, node);

    if (gpu != NCCL_NO_INDEX)
        snprintf(out, 160, "GPU %d (%.40s)", at(look, gpu)->dev, at(look, node)->bus_id);
    else
        snprintf(out, 160, "%.60s (%.40s)", net != NCCL_NO_INDEX ? at(look, net)->name : "device",
                 at(look, node)->bus_id);
    return out;
}

static void check_links(const Look *look)
{
    uint32_t most = 0;
    char room[160];

    for (size_t i = 0; i < look->gpus.len; i++) {
        uint32_t links = nccl_node_links(look->t, look->gpus.at[i]);
        most = links > most ? links : most;
    }
    for (size_t i = 0; i < look->gpus.len && most; i++) {
        uint32_t gpu = look->gpus.at[i], links = nccl_node_links(look->t, gpu);
        if (links == most || nccl_node_gpu(look->t, gpu) == NCCL_NO_INDEX)
            continue;
        NcclFinding *f = nccl_find(look->job, links ? NCCL_RULE_TOPO_FEWER_LINKS : NCCL_RULE_TOPO_NO_NVLINK, NULL);
        nccl_evidence(look->job, f, at(look, gpu)->place, "%s has %u links, others have %u", name_of(look, gpu, room),
                      links, most);
    }
}

static void check_pci(const Look *look, const Indices *devices, int lanes, const char *what)
{
    double fastest = 0;
    int widest = lanes;
    char room[160];

    for (size_t i = 0; i < devices->len; i++) {
        const NcclNode *n = at(look, devices->at[i]);
        fastest = n->gts > fastest ? n->gts : fastest;
        widest = n->width > widest ? n->width : widest;
    }
    for (size_t i = 0; i < devices->len; i++) {
        const NcclNode *n = at(look, devices->at[i]);
        if (n->width > 0 && n->width < widest)
            nccl_evidence(look->job, nccl_find(look->job, NCCL_RULE_TOPO_WIDTH, NULL), n->place, "%s has x%d, %s x%d",
                          name_of(look, devices->at[i], room), n->width, what, widest);
        if (n->gts > 0 && n->gts < fastest)
            nccl_evidence(look->job, nccl_find(look->job, NCCL_RULE_TOPO_SPEED, NULL), n->place,
                          "%s has %g GT/s, %s up to %g", name_of(look, devices->at[i], room), n->gts, what, fastest);
    }
}

static void check_nets(const Look *look)
{
    const NcclNode *fast = NULL;
    char room[160];

    for (size_t i = 0; i < look->nics.len; i++) {
        uint32_t net = nccl_node_net(look->t, look->nics.at[i]);
        if (net != NCCL_NO_INDEX && (!fast || at(look, net)->net_mbps > fast->net_mbps))
            fast = at(look, net);
    }
    for (size_t i = 0; i < look->nics.len && fast; i++) {
        uint32_t index = nccl_node_net(look->t, look->nics.at[i]);
        if (index == NCCL_NO_INDEX)
            continue;
        const NcclNode *net = at(look, index);
        if (net->net_mbps > 0 && net->net_mbps < fast->net_mbps)
            nccl_evidence(look->job, nccl_find(look->job, NCCL_RULE_TOPO_NIC_SPEED, NULL), net->place,
                          "%s has %" PRId64 " Mb/s, %s has %" PRId64, net->name, net->net_mbps, fast->name,
                          fast->net_mbps);
        if (net->gdr == 0)
            nccl_evidence(look->job, nccl_find(look->job, NCCL_RULE_TOPO_NO_GDR, NULL), net->place, "%s: gdr=0",
                          name_of(look, look->nics.at[i], room));
    }
    for (size_t i = 0; i < look->gpus.len && look->nics.len; i++) {
        uint32_t gpu = nccl_node_gpu(look->t, look->gpus.at[i]);
        if (gpu != NCCL_NO_INDEX && at(look, gpu)->gdr == 0)
            nccl_evidence(look->job, nccl_find(look->job, NCCL_RULE_TOPO_NO_GDR, NULL), at(look, gpu)->place,
                          "%s: gdr=0", name_of(look, look->gpus.at[i], room));
    }
}

static void check_paths(const Look *look)
{
    const bool *mark = marks_of(look);
    size_t far = look->gpus.len - look->t->near_gpus;
    char room[160];

    if (look->nics.len == 0 || look->gpus.len == 0 || far == 0)
        return;
    bool all = far == look->gpus.len;
    NcclFinding *f = nccl_findf(look->job, all ? NCCL_RULE_TOPO_CPU_PATH_ALL : NCCL_RULE_TOPO_CPU_PATH,
                                "%zu of %zu GPUs", far, look->gpus.len);
    for (size_t i = 0; i < look->gpus.len; i++)
        if (!shares_switch(look, mark, look->gpus.at[i]))
            nccl_evidence(look->job, f, at(look, look->gpus.at[i])->place, "%s shares no PCI switch with an adapter",
                          name_of(look, look->gpus.at[i], room));
}

static void check_numa(const Look *look)
{
    size_t low = SIZE_MAX, high = 0;
    NcclPlace place = {look->t->input, 0};
    Str text;
    char room[256];

    if (look->t->numa_nodes < 2 || look->gpus.len < 2)
        return;
    str_init_room(&text, room, sizeof room);
    size_t *gpus = arena_calloc(&look->job->arena, look->t->nodes.len, sizeof *gpus);
    for (size_t i = 0; i < look->gpus.len; i++) {
        uint32_t cpu = nccl_node_cpu(look->t, look->gpus.at[i]);
        if (cpu != NCCL_NO_INDEX)
            gpus[cpu]++;
    }
    for (uint32_t i = 0; i < look->t->nodes.len; i++) {
        size_t here = gpus[i];
        if (at(look, i)->part != NCCL_PART_CPU)
            continue;
        low = here < low ? here : low;
        high = here > high ? here : high;
        str_addf(&text, "%s%zu on NUMA node %d", text.len ? ", " : "", here, at(look, i)->numa);
    }
    /* Sub-NUMA clustering leaves nodes without GPUs: only unevenness beyond one GPU counts. */
    if (high > low + 1)
        nccl_evidence(look->job, nccl_find(look->job, NCCL_RULE_TOPO_NUMA, NULL), place, "GPUs: %s", text.text);
}

static void check_graphs(NcclJob *job)
{
    for (size_t i = 0; i < job->report.graphs.len; i++) {
        const NcclGraph *g = &job->report.graphs.at[i];
        if (strcmp(g->type_inter, "SYS") == 0 || strcmp(g->type_inter, "PHB") == 0)
            nccl_evidence(job, nccl_find(job, NCCL_RULE_GRAPH_CPU, NULL), g->place,
                          "graph %d: %d channels, %g GB/s to the network, path %s", g->id, g->channels, g->inter_gbs,
                          g->type_inter);
    }
}

/* Counting comes before the log's checks need it; see nccl_count_topologies. */
static void each(NcclJob *job, bool check)
{
    for (size_t i = 0; i < job->report.topologies.len; i++) {
        NcclTopology *t = &job->report.topologies.at[i];
        CLEANUP(look_done) Look look = {.job = job, .t = t};
        if (check)
            t->numa_nodes = t->links = t->near_gpus = 0;
        count(t, &look);
        if (!check)
            continue;
        check_links(&look);
        check_pci(&look, &look.gpus, GPU_LANES, "GPUs have");
        check_pci(&look, &look.nics, 0, "adapters have");
        check_nets(&look);
        check_paths(&look);
        check_numa(&look);
    }
}

void nccl_count_topologies(NcclJob *job)
{
    each(job, false);
}

void nccl_check_topologies(NcclJob *job)
{
    each(job, true);
    check_graphs(job);
}
