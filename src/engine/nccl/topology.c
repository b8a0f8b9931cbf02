/* SPDX-License-Identifier: Apache-2.0 */
/* Topology and graph XML as NCCL and RCCL write them (NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE). Documents that define
 * entities are refused; depth and number of elements are bounded. */
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/nccl/job.h"

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

static const struct {
    const char *name;
    NcclPart part;
} parts[] = {{"system", NCCL_PART_SYSTEM}, {"cpu", NCCL_PART_CPU}, {"pci", NCCL_PART_PCI},
             {"gpu", NCCL_PART_GPU},       {"nic", NCCL_PART_NIC}, {"net", NCCL_PART_NET},
             {"nvlink", NCCL_PART_NVLINK}, {"c2c", NCCL_PART_C2C}, {"xgmi", NCCL_PART_XGMI}};

static void stop(NcclTopoReader *reader, const char *why)
{
    if (!reader->stopped)
        nccl_input(reader->job)->trouble = why;
    reader->stopped = true;
    XML_StopParser(reader->parser, XML_FALSE);
}

static NcclPlace here(const NcclTopoReader *reader)
{
    return (NcclPlace){reader->job->input, XML_GetCurrentLineNumber(reader->parser)};
}

static const char *attribute(const char **attributes, const char *name)
{
    for (size_t i = 0; attributes[i]; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1];
    return "";
}

static int attribute_int(const char **attributes, const char *name, int other)
{
    Span s = span_of(attribute(attributes, name));
    int value;

    return span_int(&s, &value) ? value : other;
}

static double attribute_double(const char **attributes, const char *name)
{
    Span s = span_of(attribute(attributes, name));
    double value;

    return span_double(&s, &value) && value >= 0 && value < 1e9 ? value : 0;
}

static NcclPart part_of(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(name, parts[i].name) == 0)
            return parts[i].part;
    return NCCL_PART_OTHER;
}

static void read_node(const NcclTopoReader *reader, NcclNode *n, const char **a)
{
    NcclJob *job = reader->job;
    Span class = span_of(attribute(a, "class"));
    const char *numa = attribute(a, "numaid");
    uint64_t value = 0;

    n->bus_id = nccl_text(job, attribute(a, "busid"));
    n->name = nccl_text(job, attribute(a, "name"));
    n->target = nccl_text(job, attribute(a, "target"));
    n->arch = nccl_text(job, attribute(a, n->part == NCCL_PART_GPU ? "gcn" : "arch"));
    n->vendor = nccl_text(job, attribute(a, "vendor"));
    n->pci_class = span_hex(&class, &value) && value <= UINT32_MAX ? (uint32_t)value : 0;
    n->gts = attribute_double(a, "link_speed");
    n->width = attribute_int(a, "link_width", 0);
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
        stop(reader, nodes->len >= NCCL_NODES_MAX ? "too many elements" : "nested too deeply");
        return;
    }
    NcclNode node = {.part = part_of(name),
                     .depth = reader->depth,
                     .parent = reader->depth ? reader->path[reader->depth - 1] : NCCL_NO_INDEX,
                     .child = NCCL_NO_INDEX,
                     .sibling = NCCL_NO_INDEX,
                     .place = here(reader)};
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
                       .cross_nic = attribute_int(a, "crossnic", NCCL_UNKNOWN),
                       .channels = attribute_int(a, "nchannels", NCCL_UNKNOWN),
                       .intra_gbs = attribute_double(a, "speedintra"),
                       .inter_gbs = attribute_double(a, "speedinter"),
                       .type_intra = nccl_text(job, attribute(a, "typeintra")),
                       .type_inter = nccl_text(job, attribute(a, "typeinter")),
                       .place = here(reader)};

    if (job->report.graphs.len < NCCL_BENCHES_MAX)
        vec_push(&job->report.graphs, graph);
    nccl_input(job)->used++;
}

/* The root says what it is. */
static void begin_root(NcclTopoReader *reader, const char *name, const char **attributes)
{
    NcclJob *job = reader->job;

    if (strcmp(name, "graphs") == 0) {
        reader->graph = true;
        nccl_input(job)->kind = NCCL_KIND_GRAPH;
        return;
    }
    if (strcmp(name, "system") != 0 || job->report.topologies.len >= NCCL_BENCHES_MAX) {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        stop(reader,
             strcmp(name, "system") != 0 ? "XML, but neither a topology nor a graph of NCCL" : "too many topologies");
        return;
    }
    NcclTopology topology = {.input = job->input, .version = nccl_text(job, attribute(attributes, "version"))};
    reader->topology = (uint32_t)job->report.topologies.len;
    vec_push(&job->report.topologies, topology);
}

static void XMLCALL on_begin(void *context, const char *name, const char **attributes)
{
    NcclTopoReader *reader = context;

    if (reader->stopped)
        return;
    if (reader->depth == 0)
        begin_root(reader, name, attributes);
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
    stop(context, "a document type is not allowed");
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

static void parse(NcclTopoReader *reader, const char *bytes, size_t len, bool last)
{
    if (reader->stopped)
        return;
    if (XML_Parse(reader->parser, bytes, (int)len, last) != XML_STATUS_ERROR || reader->stopped)
        return;
    reader->stopped = true;
    nccl_input(reader->job)->trouble =
        nccl_printf(reader->job, "line %lu: %s", (unsigned long)XML_GetCurrentLineNumber(reader->parser),
                    XML_ErrorString(XML_GetErrorCode(reader->parser)));
}

void nccl_topo_feed(NcclTopoReader *reader, const char *bytes, size_t len)
{
    reader->bytes += len;
    if (reader->bytes > TOPO_BYTES_MAX && !reader->stopped)
        stop(reader, "larger than any topology");
    parse(reader, bytes, len, false);
}

void nccl_topo_end(NcclTopoReader *reader, bool whole)
{
    if (whole)
        parse(reader, "", 0, true);
    XML_ParserFree(reader->parser);
    free(reader);
}
