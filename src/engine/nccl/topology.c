/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topology and graph XML as NCCL and RCCL write them (NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE), and conclusions:
 * devices that differ from others of their kind, and paths through the CPU. Documents that define entities are
 * refused; depth and number of elements are bounded.
 */
#include <expat.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "engine/nccl/job.h"

enum { CLASS_3D = 0x0302, CLASS_DISPLAY = 0x0380, CLASS_ACCELERATOR = 0x1200, CLASS_NET = 0x02, LINKS_MAX = 4096 };

static uint32_t child_of(const NcclTopology *t, uint32_t node, NcclPart part)
{
    for (uint32_t c = t->nodes.at[node].child; c != NCCL_NO_INDEX; c = t->nodes.at[c].sibling)
        if (t->nodes.at[c].part == part)
            return c;
    return NCCL_NO_INDEX;
}

uint32_t nccl_node_gpu(const NcclTopology *t, uint32_t node)
{
    return child_of(t, node, NCCL_PART_GPU);
}

bool nccl_node_is_gpu(const NcclTopology *t, uint32_t node)
{
    const NcclNode *n = &t->nodes.at[node];
    uint32_t class = n->pci_class >> 8;

    if (n->part != NCCL_PART_PCI)
        return false;
    return class == CLASS_3D || class == CLASS_DISPLAY || class == CLASS_ACCELERATOR ||
           nccl_node_gpu(t, node) != NCCL_NO_INDEX;
}

bool nccl_node_is_nic(const NcclTopology *t, uint32_t node)
{
    const NcclNode *n = &t->nodes.at[node];

    return n->part == NCCL_PART_PCI &&
           (n->pci_class >> 16 == CLASS_NET || child_of(t, node, NCCL_PART_NIC) != NCCL_NO_INDEX);
}

uint32_t nccl_node_net(const NcclTopology *t, uint32_t node)
{
    uint32_t nic = t->nodes.at[node].part == NCCL_PART_NIC ? node : child_of(t, node, NCCL_PART_NIC);

    return nic == NCCL_NO_INDEX ? NCCL_NO_INDEX : child_of(t, nic, NCCL_PART_NET);
}

bool nccl_net_is_rdma(const NcclNode *net)
{
    static const char *const fronts[] = {"eth", "en", "ib", "bond", "docker", "lo", "veth", "br-", "em", "p1p", "p2p"};

    Span name = span_of(net->name);

    /* ibp12s0: a port's name where adapters are renamed */
    return span_starts(name, "ibp") || (name.len && !span_starts_any(name, fronts, ARRAY_LEN(fronts)));
}

/* The first link of a GPU's PCI device, NCCL_NO_INDEX; the others are its siblings. */
static uint32_t first_link(const NcclTopology *t, uint32_t node)
{
    uint32_t gpu = nccl_node_gpu(t, node);

    return gpu == NCCL_NO_INDEX ? NCCL_NO_INDEX : t->nodes.at[gpu].child;
}

static bool is_link(const NcclNode *n)
{
    return (n->part == NCCL_PART_NVLINK || n->part == NCCL_PART_XGMI) && n->count > 0;
}

uint32_t nccl_node_links(const NcclTopology *t, uint32_t node)
{
    uint32_t links = 0;

    for (uint32_t c = first_link(t, node); c != NCCL_NO_INDEX; c = t->nodes.at[c].sibling)
        if (is_link(&t->nodes.at[c]) && t->nodes.at[c].count < LINKS_MAX && links < LINKS_MAX)
            links += (uint32_t)t->nodes.at[c].count;
    return links;
}

/* The cpu element above, NCCL_NO_INDEX. */
static uint32_t find_cpu_above(const NcclTopology *t, uint32_t node)
{
    while (node != NCCL_NO_INDEX && t->nodes.at[node].part != NCCL_PART_CPU)
        node = t->nodes.at[node].parent;
    return node;
}

bool nccl_parse_bus_id(const char *bus_id, uint64_t *ret)
{
    char digits[NUMBER_HEX_MAX];
    size_t len = 0;

    for (; *bus_id; bus_id++) {
        if (*bus_id == ':' || *bus_id == '.')
            continue;
        if (len == sizeof digits)
            return false;
        digits[len++] = *bus_id;
    }
    return number_parsen_hex(digits, len, UINT64_MAX, ret, NULL) == 0;
}

bool nccl_node_at_switch(const NcclTopology *t, uint32_t node)
{
    for (uint32_t c = first_link(t, node); c != NCCL_NO_INDEX; c = t->nodes.at[c].sibling)
        if (t->nodes.at[c].part == NCCL_PART_NVLINK && strncmp(t->nodes.at[c].target, "fffffff", 7) == 0)
            return true;
    return false;
}

static bool links_to(const NcclTopology *t, uint32_t a, uint32_t b)
{
    for (uint32_t c = first_link(t, a); c != NCCL_NO_INDEX; c = t->nodes.at[c].sibling)
        if (is_link(&t->nodes.at[c]) && strcasecmp(t->nodes.at[c].target, t->nodes.at[b].bus_id) == 0)
            return true;
    return false;
}

bool nccl_node_linked(const NcclTopology *t, uint32_t a, uint32_t b)
{
    return (nccl_node_at_switch(t, a) && nccl_node_at_switch(t, b)) || links_to(t, a, b) || links_to(t, b, a);
}

enum { TOPO_BYTES_MAX = 64 << 20 };

struct NcclTopoReader {
    NcclJob *job;
    XML_Parser parser;
    uint32_t depth, topology;      /* topology: index, NCCL_NO_INDEX */
    uint32_t path[NCCL_DEPTH_MAX]; /* the open elements */
    uint32_t last[NCCL_DEPTH_MAX]; /* the newest child of each */
    uint64_t bytes;
    bool graph, stopped;
};

static void stop_reading(NcclTopoReader *reader, const char *why)
{
    if (!reader->stopped)
        nccl_input(reader->job)->trouble = why;
    reader->stopped = true;
    XML_StopParser(reader->parser, XML_FALSE);
}

static NcclPlace current_place(const NcclTopoReader *reader)
{
    return (NcclPlace){reader->job->input, XML_GetCurrentLineNumber64(reader->parser)};
}

static const char *find_attribute(const char **attributes, const char *name)
{
    for (size_t i = 0; attributes[i]; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1];
    return "";
}

static int attribute_int(const char **attributes, const char *name, int other)
{
    Span s = span_of(find_attribute(attributes, name));
    int value;

    return span_int(&s, &value) ? value : other;
}

static double attribute_double(const char **attributes, const char *name)
{
    Span s = span_of(find_attribute(attributes, name));
    double value;

    return span_double(&s, &value) && value >= 0 && value < 1e9 ? value : 0;
}

static NcclPart part_of(const char *name)
{
    NcclPart part = 0;

    while (part < NCCL_PART_OTHER && strcmp(name, nccl_part_words[part]) != 0)
        part++;
    return part;
}

static void read_node(const NcclTopoReader *reader, NcclNode *n, const char **a)
{
    NcclJob *job = reader->job;
    Span class = span_of(find_attribute(a, "class"));
    const char *numa = find_attribute(a, "numaid");
    uint64_t value = 0;

    n->bus_id = nccl_intern(job, span_of(find_attribute(a, "busid")));
    n->name = nccl_intern(job, span_of(find_attribute(a, "name")));
    n->target = nccl_intern(job, span_of(find_attribute(a, "target")));
    n->arch = nccl_intern(job, span_of(find_attribute(a, n->part == NCCL_PART_GPU ? "gcn" : "arch")));
    n->vendor = nccl_intern(job, span_of(find_attribute(a, "vendor")));
    n->pci_class = span_hex(&class, &value) && value <= UINT32_MAX ? (uint32_t)value : 0;
    n->gts = attribute_double(a, "link_speed");
    n->gts = n->gts > 0 ? n->gts : NAN;
    n->width = attribute_int(a, "link_width", NCCL_UNKNOWN);
    n->width = n->width > 0 ? n->width : NCCL_UNKNOWN;
    n->numa = numa[0] ? attribute_int(a, "numaid", NCCL_UNKNOWN) : NCCL_UNKNOWN;
    n->dev = attribute_int(a, "dev", NCCL_UNKNOWN);
    n->rank = attribute_int(a, "rank", NCCL_UNKNOWN);
    n->sm = attribute_int(a, "sm", NCCL_UNKNOWN);
    n->gdr = attribute_int(a, "gdr", NCCL_UNKNOWN);
    n->count = attribute_int(a, "count", NCCL_UNKNOWN);
    n->net_mbps = attribute_int(a, n->part == NCCL_PART_C2C ? "bw" : "speed", NCCL_UNKNOWN);
}

static void begin_node(NcclTopoReader *reader, const char *name, const char **attributes)
{
    NcclNodes *nodes = &reader->job->report.topologies.at[reader->topology].nodes;
    uint32_t index = (uint32_t)nodes->len;

    if (nodes->len >= NCCL_NODES_MAX || reader->depth >= NCCL_DEPTH_MAX) {
        stop_reading(reader, nodes->len >= NCCL_NODES_MAX ? "too many elements" : "nested too deeply");
        return;
    }
    NcclNode node = {.part = part_of(name),
                     .parent = reader->depth ? reader->path[reader->depth - 1] : NCCL_NO_INDEX,
                     .child = NCCL_NO_INDEX,
                     .sibling = NCCL_NO_INDEX,
                     .place = current_place(reader)};
    read_node(reader, &node, attributes);
    vec_push(nodes, node);
    if (node.parent != NCCL_NO_INDEX) {
        uint32_t *link = &nodes->at[node.parent].child;
        if (*link == NCCL_NO_INDEX)
            *link = index;
        else
            nodes->at[reader->last[reader->depth - 1]].sibling = index;
        reader->last[reader->depth - 1] = index;
    }
    reader->path[reader->depth] = index;
    nccl_input(reader->job)->used++;
}

static void begin_graph(NcclTopoReader *reader, const char **a)
{
    NcclJob *job = reader->job;
    NcclGraph graph = {.input = job->input,
                       .id = attribute_int(a, "id", NCCL_UNKNOWN),
                       .pattern = attribute_int(a, "pattern", NCCL_UNKNOWN),
                       .channels = attribute_int(a, "nchannels", NCCL_UNKNOWN),
                       .intra_gbs = attribute_double(a, "speedintra"),
                       .inter_gbs = attribute_double(a, "speedinter"),
                       .type_intra = nccl_intern(job, span_of(find_attribute(a, "typeintra"))),
                       .type_inter = nccl_intern(job, span_of(find_attribute(a, "typeinter"))),
                       .place = current_place(reader)};

    if (job->report.graphs.len < NCCL_BENCHES_MAX)
        vec_push(&job->report.graphs, graph);
    nccl_input(job)->used++;
}

/* The root element decides: topology or graph. */
static void begin_root(NcclTopoReader *reader, const char *name)
{
    NcclJob *job = reader->job;

    if (strcmp(name, "graphs") == 0) {
        reader->graph = true;
        nccl_input(job)->kind = NCCL_KIND_GRAPH;
        return;
    }
    if (strcmp(name, "system") != 0 || job->report.topologies.len >= NCCL_BENCHES_MAX) {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        stop_reading(reader, strcmp(name, "system") != 0 ? "XML, but neither a topology nor a graph of NCCL"
                                                         : "too many topologies");
        return;
    }
    NcclTopology topology = {.input = job->input};
    reader->topology = (uint32_t)job->report.topologies.len;
    vec_push(&job->report.topologies, topology);
}

static void XMLCALL on_begin(void *context, const char *name, const char **attributes)
{
    NcclTopoReader *reader = context;

    if (reader->stopped)
        return;
    if (reader->depth == 0)
        begin_root(reader, name);
    if (reader->graph && strcmp(name, "graph") == 0)
        begin_graph(reader, attributes);
    if (!reader->stopped && reader->topology != NCCL_NO_INDEX)
        begin_node(reader, name, attributes);
    reader->depth++;
}

static void XMLCALL on_end(void *context, const char *name)
{
    NcclTopoReader *reader = context;

    (void)name;
    if (!reader->stopped)
        reader->depth--;
}

static void XMLCALL on_doctype(void *context, const char *name, const char *system, const char *public, int subset)
{
    (void)name, (void)system, (void)public, (void)subset;
    stop_reading(context, "a document type is not allowed");
}

NcclTopoReader *nccl_topo_new(NcclJob *job)
{
    NcclTopoReader *reader = xcalloc(1, sizeof *reader);

    reader->job = job;
    reader->topology = NCCL_NO_INDEX;
    reader->parser = XML_ParserCreate(NULL);
    if (!reader->parser)
        abort();
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, on_begin, on_end);
    XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
    return reader;
}

static void parse_xml(NcclTopoReader *reader, const char *bytes, size_t len, bool last)
{
    if (reader->stopped)
        return;
    if (XML_Parse(reader->parser, bytes, (int)len, last) != XML_STATUS_ERROR || reader->stopped)
        return;
    reader->stopped = true;
    nccl_input(reader->job)->trouble =
        nccl_printf(reader->job, "line %lu: %s", (unsigned long)XML_GetCurrentLineNumber64(reader->parser),
                    XML_ErrorString(XML_GetErrorCode(reader->parser)));
}

void nccl_topo_feed(NcclTopoReader *reader, const char *bytes, size_t len)
{
    reader->bytes += len;
    if (reader->bytes > TOPO_BYTES_MAX && !reader->stopped)
        stop_reading(reader, "larger than any topology");
    parse_xml(reader, bytes, len, false);
}

void nccl_topo_end(NcclTopoReader *reader, bool whole)
{
    if (whole)
        parse_xml(reader, "", 0, true);
    XML_ParserFree(reader->parser);
    free(reader);
}

enum { GPU_LANES = 16, SM_NVLS = 90 };

typedef VEC(uint32_t) Indices;

/* What is compared within one topology. */
typedef struct TopoCheck {
    NcclJob *job;
    const NcclTopology *t;
    Indices gpus, nics; /* PCI devices; nics: with an RDMA net, or without a net but of the class */
    bool *above;        /* nodes: it is a PCI node above an adapter */
} TopoCheck;

static void topo_check_done(TopoCheck *topo)
{
    vec_done(&topo->gpus);
    vec_done(&topo->nics);
}

static const NcclNode *node_at(const TopoCheck *topo, uint32_t node)
{
    return &topo->t->nodes.at[node];
}

/* The PCI node that this one is in, NCCL_NO_INDEX. */
static uint32_t pci_above(const TopoCheck *topo, uint32_t node)
{
    uint32_t n = node_at(topo, node)->parent;

    return n != NCCL_NO_INDEX && node_at(topo, n)->part == NCCL_PART_PCI ? n : NCCL_NO_INDEX;
}

/* Whether one adapter hangs below a switch that `gpu` hangs below too. */
static bool shares_switch(const TopoCheck *topo, uint32_t gpu)
{
    for (uint32_t n = pci_above(topo, gpu); n != NCCL_NO_INDEX; n = pci_above(topo, n))
        if (topo->above[n])
            return true;
    return false;
}

static TopoCheck find_devices(NcclJob *job, const NcclTopology *t)
{
    TopoCheck topo = {.job = job, .t = t, .above = arena_calloc(&job->arena, t->nodes.len + 1, sizeof *topo.above)};

    for (uint32_t i = 0; i < t->nodes.len; i++) {
        if (nccl_node_is_gpu(t, i)) {
            vec_push(&topo.gpus, i);
        } else if (nccl_node_is_nic(t, i)) {
            uint32_t net = nccl_node_net(t, i);
            if (net == NCCL_NO_INDEX || nccl_net_is_rdma(&t->nodes.at[net]))
                vec_push(&topo.nics, i);
        }
    }
    for (size_t i = 0; i < topo.nics.len; i++)
        for (uint32_t n = pci_above(&topo, topo.nics.at[i]); n != NCCL_NO_INDEX; n = pci_above(&topo, n))
            topo.above[n] = true;
    return topo;
}

void nccl_count_topologies(NcclJob *job)
{
    for (size_t k = 0; k < job->report.topologies.len; k++) {
        NcclTopology *t = &job->report.topologies.at[k];
        CLEANUP(topo_check_done) TopoCheck topo = find_devices(job, t);
        t->gpus = (uint32_t)topo.gpus.len;
        t->nics = (uint32_t)topo.nics.len;
        for (size_t i = 0; i < t->nodes.len; i++)
            t->numa_nodes += t->nodes.at[i].part == NCCL_PART_CPU;
        for (size_t i = 0; i < topo.gpus.len; i++) {
            uint32_t pci = topo.gpus.at[i], gpu = nccl_node_gpu(t, pci);
            t->links += nccl_node_links(t, pci);
            t->near_gpus += shares_switch(&topo, pci);
            t->nvls_able |= gpu != NCCL_NO_INDEX && t->nodes.at[gpu].sm >= SM_NVLS && nccl_node_at_switch(t, pci);
        }
    }
}

/* The gpu element of a PCI device, or else its first net; NULL. */
static const NcclNode *find_end(const TopoCheck *topo, uint32_t node)
{
    uint32_t gpu = nccl_node_gpu(topo->t, node), end = gpu != NCCL_NO_INDEX ? gpu : nccl_node_net(topo->t, node);

    return end == NCCL_NO_INDEX ? NULL : node_at(topo, end);
}

/* "GPU 3 (0000:1b:00.0)", "mlx5_0 (0000:1c:00.0)" */
static const char *device_title(const TopoCheck *topo, uint32_t node)
{
    const NcclNode *end = find_end(topo, node);
    const char *bus_id = node_at(topo, node)->bus_id;

    if (end && end->part == NCCL_PART_GPU)
        return nccl_printf(topo->job, "GPU %d (%.40s)", end->dev, bus_id);
    return nccl_printf(topo->job, "%.60s (%.40s)", end ? end->name : "device", bus_id);
}

/* Links of AMD's GPUs differ by the board's pattern (two dies of one package, say); only none at all is a fault. */
static NcclRule link_rule(const TopoCheck *topo, uint32_t gpu, uint32_t links)
{
    const bool amd = *topo->t->nodes.at[nccl_node_gpu(topo->t, gpu)].arch;

    if (amd)
        return links ? NCCL_RULE_COUNT : NCCL_RULE_TOPO_NO_XGMI;
    return links ? NCCL_RULE_TOPO_FEWER_LINKS : NCCL_RULE_TOPO_NO_NVLINK;
}

static void check_links(const TopoCheck *topo)
{
    uint32_t most = 0;

    for (size_t i = 0; i < topo->gpus.len; i++) {
        uint32_t links = nccl_node_links(topo->t, topo->gpus.at[i]);
        most = links > most ? links : most;
    }
    for (size_t i = 0; i < topo->gpus.len && most; i++) {
        uint32_t gpu = topo->gpus.at[i], links = nccl_node_links(topo->t, gpu);
        if (links == most || nccl_node_gpu(topo->t, gpu) == NCCL_NO_INDEX)
            continue;
        const NcclRule rule = link_rule(topo, gpu, links);

        if (rule == NCCL_RULE_COUNT)
            continue;
        nccl_add_evidence(topo->job, nccl_add_finding(topo->job, rule, NULL), node_at(topo, gpu)->place,
                          "%s has %u links, others have %u", device_title(topo, gpu), links, most);
    }
}

static void check_pci(const TopoCheck *topo, const Indices *devices, int lanes, const char *what)
{
    double fastest = 0;
    int widest = lanes;

    for (size_t i = 0; i < devices->len; i++) {
        const NcclNode *n = node_at(topo, devices->at[i]);
        fastest = n->gts > fastest ? n->gts : fastest;
        widest = n->width > widest ? n->width : widest;
    }
    for (size_t i = 0; i < devices->len; i++) {
        const NcclNode *n = node_at(topo, devices->at[i]);
        if (n->width > 0 && n->width < widest)
            nccl_report(topo->job, NCCL_RULE_TOPO_WIDTH, n->place, "%s has x%d, %s x%d",
                        device_title(topo, devices->at[i]), n->width, what, widest);
        if (n->gts > 0 && n->gts < fastest)
            nccl_report(topo->job, NCCL_RULE_TOPO_SPEED, n->place, "%s has %g GT/s, %s up to %g",
                        device_title(topo, devices->at[i]), n->gts, what, fastest);
    }
}

static void check_nets(const TopoCheck *topo)
{
    const NcclNode *fast = NULL;

    for (size_t i = 0; i < topo->nics.len; i++) {
        const NcclNode *net = find_end(topo, topo->nics.at[i]);
        if (net && (!fast || net->net_mbps > fast->net_mbps))
            fast = net;
    }
    for (size_t i = 0; i < topo->nics.len; i++) {
        const NcclNode *net = find_end(topo, topo->nics.at[i]);
        if (net && net->net_mbps > 0 && net->net_mbps < fast->net_mbps)
            nccl_report(topo->job, NCCL_RULE_TOPO_NIC_SPEED, net->place, "%s has %" PRId64 " Mb/s, %s has %" PRId64,
                        net->name, net->net_mbps, fast->name, fast->net_mbps);
    }
}

static void check_gdr(const TopoCheck *topo, const Indices *devices)
{
    for (size_t i = 0; i < devices->len && topo->nics.len; i++) {
        const NcclNode *end = find_end(topo, devices->at[i]);
        if (end && end->gdr == 0)
            nccl_report(topo->job, NCCL_RULE_TOPO_NO_GDR, end->place, "%s: gdr=0", device_title(topo, devices->at[i]));
    }
}

static void check_paths(const TopoCheck *topo)
{
    size_t far = topo->gpus.len - topo->t->near_gpus;

    if (topo->nics.len == 0 || topo->gpus.len == 0 || far == 0)
        return;
    bool all = far == topo->gpus.len;
    NcclFinding *f = nccl_add_findingf(topo->job, all ? NCCL_RULE_TOPO_CPU_PATH_ALL : NCCL_RULE_TOPO_CPU_PATH,
                                       "%zu of %zu GPUs", far, topo->gpus.len);
    for (size_t i = 0; i < topo->gpus.len; i++)
        if (!shares_switch(topo, topo->gpus.at[i]))
            nccl_add_evidence(topo->job, f, node_at(topo, topo->gpus.at[i])->place,
                              "%s shares no PCI switch with an adapter", device_title(topo, topo->gpus.at[i]));
}

static void check_numa(const TopoCheck *topo)
{
    size_t low = SIZE_MAX, high = 0;
    NcclPlace place = {topo->t->input, 0};
    Str text;
    char room[256];

    if (topo->t->numa_nodes < 2 || topo->gpus.len < 2)
        return;
    str_init_room(&text, room, sizeof room);
    size_t *gpus = arena_calloc(&topo->job->arena, topo->t->nodes.len, sizeof *gpus);
    for (size_t i = 0; i < topo->gpus.len; i++) {
        uint32_t cpu = find_cpu_above(topo->t, topo->gpus.at[i]);
        if (cpu != NCCL_NO_INDEX)
            gpus[cpu]++;
    }
    for (uint32_t i = 0; i < topo->t->nodes.len; i++) {
        size_t here = gpus[i];
        if (node_at(topo, i)->part != NCCL_PART_CPU)
            continue;
        low = here < low ? here : low;
        high = here > high ? here : high;
        str_addf(&text, "%s%zu on NUMA node %d", text.len ? ", " : "", here, node_at(topo, i)->numa);
    }
    /* Sub-NUMA clustering leaves nodes without GPUs: only unevenness beyond one GPU counts. */
    if (high > low + 1)
        nccl_report(topo->job, NCCL_RULE_TOPO_NUMA, place, "GPUs: %s", text.text);
}

static void check_graphs(NcclJob *job)
{
    for (size_t i = 0; i < job->report.graphs.len; i++) {
        const NcclGraph *g = &job->report.graphs.at[i];
        if (strcmp(g->type_inter, "SYS") == 0 || strcmp(g->type_inter, "PHB") == 0)
            nccl_report(job, NCCL_RULE_GRAPH_CPU, g->place, "graph %d: %d channels, %g GB/s to the network, path %s",
                        g->id, g->channels, g->inter_gbs, g->type_inter);
    }
}

void nccl_check_topologies(NcclJob *job)
{
    for (size_t i = 0; i < job->report.topologies.len; i++) {
        CLEANUP(topo_check_done) TopoCheck topo = find_devices(job, &job->report.topologies.at[i]);
        check_links(&topo);
        check_pci(&topo, &topo.gpus, GPU_LANES, "GPUs have");
        check_pci(&topo, &topo.nics, 0, "adapters have");
        check_nets(&topo);
        check_gdr(&topo, &topo.nics);
        check_gdr(&topo, &topo.gpus);
        check_paths(&topo);
        check_numa(&topo);
    }
    check_graphs(job);
}
