/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log: communicators, their ranks, rings and trees, transports, and calls (NCCL_DEBUG_SUBSYS=COLL). Calls with the
 * same count on one communicator must be the same; the last NCCL_CALLS_KEPT of them are compared.
 *
 *     Channel 03/0 : 1[1] -> 2[2] via P2P/CUMEM/read
 *     Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/2(6)/GDRDMA/Shared
 *     Ring 00 : 3 -> 4 [receive] via NET/Socket/0
 *     AllReduce: opCount 1f sendbuff 0x.. recvbuff 0x.. count 1024 datatype 7 op 0 root 0 comm 0x.. [nranks=8] ...
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/nccl/job.h"

static uint64_t make_address_key(const NcclJob *job, uint64_t address)
{
    return map_hash(&address, sizeof address, job->from.process);
}

/* "comm 0x... rank 3 nranks 16 ... - Init START" */
typedef struct CommLine {
    uint64_t address, id;
    int64_t rank, nranks;
    Span text; /* behind the address */
    bool start, complete, destroyed, aborted;
} CommLine;

static bool read_comm_line(Span message, CommLine *c)
{
    Span s = message;

    *c = (CommLine){.rank = NCCL_UNKNOWN, .nranks = NCCL_UNKNOWN};
    if (!span_after(&s, "comm 0x") || !span_hex(&s, &c->address) || !span_starts(s, " "))
        return false;
    c->text = s;
    span_i64_after(s, " rank ", &c->rank);
    span_i64_after(s, " nranks ", &c->nranks);
    span_i64_after(s, " nRanks ", &c->nranks);
    c->start = span_has(s, "Init START");
    c->complete = span_has(s, "Init COMPLETE");
    c->destroyed = span_has(s, "Destroy COMPLETE");
    c->aborted = span_has(s, "Abort COMPLETE");
    if (span_after(&s, " commId "))
        span_hex(&s, &c->id);
    return c->rank >= 0 && c->nranks > c->rank && c->nranks <= NCCL_MEMBERS_MAX;
}

static uint32_t comm_of(NcclJob *job, const char *id, int64_t nranks)
{
    uint32_t index = nccl_unbox(map_get(&job->comm_by_id, id));

    if (index != NCCL_NO_INDEX || job->report.comms.len >= NCCL_COMMS_MAX)
        return index;
    NcclComm comm = {.id = nccl_intern(job, span_of(id)),
                     .nranks = nranks,
                     .nodes = NCCL_UNKNOWN,
                     .parent = "",
                     .place = nccl_current_place(job)};
    index = (uint32_t)job->report.comms.len;
    vec_push(&job->report.comms, comm);
    map_put(&job->comm_by_id, id, nccl_box(index));
    return index;
}

/* Versions without commId: the first communicator of this size that this rank is not yet in. */
static uint32_t comm_without_id(NcclJob *job, int64_t nranks, int64_t rank)
{
    enum { GENERATIONS_MAX = 256 };
    char id[64], seat[96];

    for (int i = 1; i < GENERATIONS_MAX; i++) {
        snprintf(id, sizeof id, i == 1 ? "nranks=%" PRId64 : "nranks=%" PRId64 "#%d", nranks, i);
        snprintf(seat, sizeof seat, "%s/%" PRId64, id, rank);
        if (map_get(&job->comm_by_id, seat))
            continue;
        map_put(&job->comm_by_id, seat, nccl_box(0));
        return comm_of(job, id, nranks);
    }
    return NCCL_NO_INDEX;
}

static uint32_t comm_known(const NcclJob *job, uint64_t id)
{
    char text[32];

    snprintf(text, sizeof text, "0x%" PRIx64, id);
    return nccl_unbox(map_get(&job->comm_by_id, text));
}

/* Whether a line at the address of `m` is about a later communicator. A log that is read twice is the same one. */
static bool is_another(const NcclJob *job, const NcclMember *m, const CommLine *c)
{
    if (m->rank != c->rank || m->nranks != c->nranks)
        return true;
    if (c->id && m->comm != NCCL_NO_INDEX)
        return comm_known(job, c->id) != m->comm;
    if (c->start && m->started && m->start_place.input != job->input && m->start_place.line == job->line_number)
        return false; /* a copy, and not a communicator at the address of an older one */
    return c->start || ((m->destroyed || m->aborted) && !c->destroyed && !c->aborted);
}

/* The member that a line is about: by its address; or the one its thread has begun; or a new one. */
static NcclMember *member_for(NcclJob *job, const CommLine *c)
{
    uint64_t key = make_address_key(job, c->address);
    NcclMember *m = nccl_unbox_member(job, map_u64_get(&job->member_by_address, key));

    if (m && !is_another(job, m, c))
        return m;
    m = c->start ? NULL : nccl_find_member(job);
    if (!m || m->rank != NCCL_UNKNOWN)
        m = nccl_new_member(job);
    if (!m)
        return NULL;
    nccl_set_member(job, m);
    map_u64_put(&job->member_by_address, key, nccl_box_member(job, m));
    return m;
}

static void join_comm(NcclJob *job, NcclMember *m, const CommLine *c)
{
    Span parent = c->text;
    char id[32];

    if (m->comm != NCCL_NO_INDEX)
        return;
    if (c->id) {
        snprintf(id, sizeof id, "0x%" PRIx64, c->id);
        m->comm = comm_of(job, id, c->nranks);
    } else if (c->complete || c->start)
        m->comm = comm_without_id(job, c->nranks, c->rank);
    if (m->comm != NCCL_NO_INDEX && span_after(&parent, " parent "))
        job->report.comms.at[m->comm].parent = nccl_intern(job, span_word(&parent));
}

/* A line that a rank logs once is in two inputs: the same lines were given twice. Where one log continues in another,
 * each line is in one of them. */
static void check_copy(NcclJob *job, const NcclMember *m, const CommLine *c)
{
    const NcclPlace *before = c->start && m->started       ? &m->start_place
                              : c->complete && m->complete ? &m->complete_place
                                                           : NULL;

    if (!before || before->input == job->input)
        return;
    NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_LOG_TWICE, "%s", nccl_input(job)->name);
    nccl_add_evidence(job, f, nccl_current_place(job),
                      "rank %" PRId64 " of %" PRId64 " says here what it says in %s, line %" PRIu64, c->rank, c->nranks,
                      job->report.inputs.at[before->input].name, before->line);
}

bool nccl_read_comm_line(NcclJob *job, Span message)
{
    int64_t mnnvl = 0;
    CommLine c;

    if (job->from.process == NCCL_NO_INDEX || !span_has(message, "comm 0x") || span_has(message, "opCount") ||
        !read_comm_line(message, &c))
        return false;
    NcclMember *m = member_for(job, &c);
    if (!m)
        return true;
    check_copy(job, m, &c);
    m->rank = c.rank;
    m->nranks = c.nranks;
    Span bus = c.text;
    if (span_after(&bus, " busId "))
        m->bus_id = nccl_intern(job, span_word(&bus));
    span_i64_after(c.text, " cudaDev ", &m->cuda_dev);
    span_i64_after(c.text, " nvmlDev ", &m->nvml_dev);
    span_i64_after(c.text, " nNodes ", &m->nodes);
    span_i64_after(c.text, " localRanks ", &m->local_ranks);
    span_i64_after(c.text, " MNNVL ", &mnnvl);
    m->mnnvl |= mnnvl > 0;
    if (c.start)
        m->started = true, m->start_place = nccl_current_place(job);
    if (c.complete)
        m->complete = true, m->complete_place = nccl_current_place(job),
        job->report.processes.at[job->from.process].complete = true;
    m->destroyed |= c.destroyed;
    m->aborted |= c.aborted;
    join_comm(job, m, &c);
    return true;
}

/* "Init timings - ncclCommInitRank: rank 2 nranks 16 total 1.08 (kernels 0.51, alloc 0.10, ...)" */
static bool timings_line(NcclJob *job, Span s)
{
    double total, part;

    if (!span_after(&s, "Init timings") || !span_after(&s, "total ") || !span_double(&s, &total))
        return false;
    NcclMember *m = nccl_add_member(job);
    if (!m)
        return true;
    m->init_s = total;
    m->init_place = nccl_current_place(job);
    m->init_part_s = 0;
    if (!span_after(&s, "("))
        return true;
    while (s.len) {
        Span name = span_word(&s);
        if (!span_double(&s, &part))
            break;
        if (part > m->init_part_s)
            m->init_part_s = part, m->init_part = nccl_intern(job, name);
        if (!span_next(&s, ","))
            break;
    }
    return true;
}

/* "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer" */
static bool channels_line(NcclJob *job, Span s)
{
    int coll, value;

    if (!span_int(&s, &coll) || !span_next(&s, "coll channels"))
        return false;
    NcclMember *m = nccl_add_member(job);
    if (!m)
        return true;
    m->coll_channels = coll;
    m->channels_place = nccl_current_place(job);
    while (span_skip(&s, ",") && span_int(&s, &value)) {
        if (span_next(&s, "nvls channels"))
            m->nvls_channels = value;
        else if (span_starts(s, " p2p channels per") || !span_next(&s, "p2p channels"))
            span_after(&s, "channels");
        else
            m->p2p_channels = value;
    }
    return true;
}

static NcclComm *comm_of_member(const NcclJob *job, const NcclMember *m)
{
    return m && m->comm != NCCL_NO_INDEX ? &job->report.comms.at[m->comm] : NULL;
}

/* The ranks at the front of `s`, however many, with one blank between them. */
static const char *order_of(NcclJob *job, Span s)
{
    uint64_t rank;

    str_clear(&job->scratch);
    while (span_blanks(&s), span_u64(&s, &rank))
        str_addf(&job->scratch, "%s%" PRIu64, job->scratch.len ? " " : "", rank);
    return arena_strndup(&job->arena, job->scratch.len ? job->scratch.text : "", job->scratch.len);
}

/* "Channel 00/16 : 0 1 2 3" */
static bool ring_line(NcclJob *job, NcclComm *comm, Span s)
{
    uint64_t channel, of;
    Span rest = s;

    if (!span_skip(&rest, "Channel ") || !span_u64(&rest, &channel) || !span_skip(&rest, "/") ||
        !span_u64(&rest, &of) || !span_next(&rest, ":"))
        return false;
    Span order = span_trim(rest);
    if (channel >= NCCL_CHANNELS_MAX || of > NCCL_CHANNELS_MAX || !order.len || span_has(order, "->"))
        return false;
    if (!comm)
        return true;
    if (of > comm->ring_channels)
        comm->ring_channels = (unsigned)of;
    for (size_t i = 0; i < comm->rings.len; i++)
        if (comm->rings.at[i].channel == channel)
            return true;
    NcclRing ring = {.channel = (unsigned)channel, .order = order_of(job, order)};
    vec_push(&comm->rings, ring);
    return true;
}

/* "[0] 1/-1/-1->0->-1": children, itself, parent */
static bool read_tree(Span *s, NcclTree *ret)
{
    uint64_t channel;
    int self;

    if (!span_next(s, "[") || !span_u64(s, &channel) || channel >= NCCL_CHANNELS_MAX || !span_next(s, "] "))
        return false;
    ret->channel = (unsigned)channel;
    for (int i = 0; i < 3; i++)
        if ((i && !span_skip(s, "/")) || !span_int(s, &ret->children[i]))
            return false;
    return span_skip(s, "->") && span_int(s, &self) && span_skip(s, "->") && span_int(s, &ret->parent);
}

static void read_trees(NcclJob *job, NcclMember *m, Span s)
{
    NcclTree trees[NCCL_CHANNELS_MAX];
    unsigned count = 0;

    span_skip(&s, "Trees");
    while (count < NCCL_CHANNELS_MAX && read_tree(&s, &trees[count]))
        count++;
    if (!m || count <= m->trees.len)
        return;
    m->trees.at = arena_memdup(&job->arena, trees, count * sizeof trees[0]);
    m->trees.len = count;
}

/* "Ring 00 : 3 -> 0 -> 1": a rank's neighbours, which the order of the ring says too. */
static bool neighbours_line(Span s)
{
    uint64_t value;

    return span_skip(&s, "Ring ") && span_u64(&s, &value) && span_next(&s, ": ") && span_u64(&s, &value) &&
           span_next(&s, "-> ") && span_u64(&s, &value) && span_next(&s, "-> ") && span_u64(&s, &value);
}

static bool pattern_line(NcclJob *job, NcclComm *comm, Span s, NcclPlace place)
{
    if (!span_starts(s, "Pattern "))
        return false;
    const char *text = nccl_intern(job, s);
    for (unsigned i = 0; comm && i < comm->pattern_count; i++)
        if (comm->patterns[i].text == text)
            return true;
    if (comm && comm->pattern_count < ARRAY_LEN(comm->patterns))
        comm->patterns[comm->pattern_count++] = (NcclPattern){text, place};
    return true;
}

static void keep_early(NcclJob *job, const NcclMember *m, Span text)
{
    enum { LINES_MAX = 65536, BYTES_MAX = 16 << 20 };

    if (!m || job->early.len >= LINES_MAX || job->early_bytes + text.len > BYTES_MAX) {
        job->report.left_out++;
        return;
    }
    job->early_bytes += text.len;
    NcclEarly early = {.member = (uint32_t)(m - job->report.members.at),
                       .text = {arena_memdup(&job->arena, text.at, text.len), text.len},
                       .place = nccl_current_place(job)};
    vec_push(&job->early, early);
}

enum { NVLS_SHAPES = 3, COLLNET_SHAPES = 2 };

/* How lines about the shape of a communicator begin: first those about NVLS, then about CollNet. */
static const char *const shapes[] = {"NVLS comm", "NVLS Head", "Connected NVLS tree", "CollNet ", "Connected collnet",
                                     "Channel ",  "Pattern "};

static bool offload_line(NcclComm *comm, Span s, NcclPlace place)
{
    bool nvls = span_starts_any(s, shapes, NVLS_SHAPES),
         collnet = span_starts_any(s, shapes + NVLS_SHAPES, COLLNET_SHAPES);

    if (comm && nvls && !comm->nvls)
        comm->nvls_place = place;
    if (comm) {
        comm->nvls |= nvls;
        comm->collnet |= collnet;
    }
    return nvls || collnet;
}

/* A line about the shape of a communicator, NULL where it is not known yet. */
static bool read_shape(NcclJob *job, NcclComm *comm, Span s, NcclPlace place)
{
    return offload_line(comm, s, place) || ring_line(job, comm, s) || pattern_line(job, comm, s, place);
}

bool nccl_read_shape_line(NcclJob *job, Span message)
{
    if (job->from.process == NCCL_NO_INDEX)
        return false;
    if (timings_line(job, message) || channels_line(job, message) || neighbours_line(message))
        return true;
    if (span_starts(message, "Trees [")) {
        read_trees(job, nccl_add_member(job), message);
        return true;
    }
    if (!span_starts_any(message, shapes, ARRAY_LEN(shapes)))
        return false;
    const NcclMember *m = nccl_add_member(job);
    NcclComm *comm = comm_of_member(job, m);
    bool used = read_shape(job, comm, message, nccl_current_place(job));
    if (used && !comm)
        keep_early(job, m, message);
    return used;
}

void nccl_apply_early_lines(NcclJob *job)
{
    for (size_t i = 0; i < job->early.len; i++) {
        const NcclEarly *early = &job->early.at[i];
        NcclComm *comm = comm_of_member(job, &job->report.members.at[early->member]);
        if (comm)
            read_shape(job, comm, early->text, early->place);
    }
}

enum { MEMBER_SHIFT = 31, PEER_SHIFT = 11, WAY_BITS = 10 };

static NcclVia via_of_net(Span name)
{
    for (size_t i = 0; i + 6 <= name.len; i++)
        if (strncasecmp(name.at + i, "socket", 6) == 0)
            return NCCL_VIA_SOCKET;
    return NCCL_VIA_RDMA;
}

/* "NET/IB/2(6)/GDRDMA(PCI)/Shared"; false where it is torn. */
static bool read_net(NcclJob *job, Span s, NcclWay *way)
{
    Span name = s;
    int64_t proxy;

    span_skip(&s, "NET/");
    Span net = span_until(&s, '/');
    if (net.len == 0 || net.len > 64 || !span_int(&s, &way->device) || way->device < 0)
        return false;
    way->name = nccl_intern(job, span_cut(name, 0, strlen("NET/") + net.len));
    way->via = via_of_net(net);
    if (span_skip(&s, "(") && (!span_i64(&s, &proxy) || !span_skip(&s, ")")))
        return false;
    way->gdr = span_skip(&s, "/GDRDMA");
    span_skip(&s, "(PCI)");
    span_skip(&s, "/Shared");
    /* Where another message begins, "/GDRDMA" may have stood behind. */
    return !span_starts(s, "/") && !(job->cut && !way->gdr && way->via == NCCL_VIA_RDMA);
}

static bool read_way(NcclJob *job, Span s, NcclWay *way)
{
    static const struct {
        const char *front, *name;
        NcclVia via;
    } kinds[] = {{"P2P/CUMEM", "P2P/CUMEM", NCCL_VIA_P2P},
                 {"P2P/IPC", "P2P/IPC", NCCL_VIA_P2P},
                 {"P2P/direct pointer", "P2P/direct pointer", NCCL_VIA_P2P},
                 {"P2P/MNNVL", "P2P/MNNVL", NCCL_VIA_P2P},
                 {"P2P/indirect", "P2P/indirect", NCCL_VIA_P2P},
                 {"P2P/direct", "P2P/direct", NCCL_VIA_P2P},
                 {"SHM", "SHM", NCCL_VIA_SHM},
                 {"direct shared memory", "SHM", NCCL_VIA_SHM}, /* before 2.12 */
                 {"COLLNET", "COLLNET", NCCL_VIA_COLLNET}};

    *way = (NcclWay){.device = NCCL_UNKNOWN};
    if (span_starts(s, "NET/"))
        return read_net(job, s, way);
    for (size_t i = 0; i < ARRAY_LEN(kinds) && !way->name; i++)
        if (span_starts(s, kinds[i].front)) {
            way->name = nccl_intern(job, span_of(kinds[i].name));
            way->via = kinds[i].via;
        }
    return way->name;
}

static uint32_t add_way(NcclJob *job, const NcclWay *way)
{
    for (uint32_t i = 0; i < job->report.ways.len; i++) {
        const NcclWay *known = &job->report.ways.at[i];
        if (known->name == way->name && known->device == way->device && known->gdr == way->gdr)
            return i;
    }
    if (job->report.ways.len >= NCCL_WAYS_MAX)
        return NCCL_NO_INDEX;
    vec_push(&job->report.ways, *way);
    return (uint32_t)job->report.ways.len - 1;
}

/* "12[3]", "12[c7000]", "12" */
static bool read_rank(Span *s, int64_t *ret)
{
    if (!span_i64(s, ret) || *ret < 0 || *ret >= NCCL_MEMBERS_MAX)
        return false;
    if (span_starts(*s, "["))
        return span_after(s, "]");
    return true;
}

static void keep_edge(NcclJob *job, const NcclMember *m, NcclEdge *edge, uint64_t channel)
{
    int64_t self = edge->receive ? edge->to : edge->from, peer = edge->receive ? edge->from : edge->to;
    edge->member = (uint32_t)(m - job->report.members.at);
    uint64_t key = (uint64_t)edge->member << MEMBER_SHIFT | (uint64_t)peer << PEER_SHIFT |
                   (uint64_t)edge->receive << WAY_BITS | edge->way;
    uint32_t index = nccl_unbox(map_u64_get(&job->edge_by_key, key));

    if (m->rank != NCCL_UNKNOWN && m->rank != self)
        return; /* a line of another communicator of this thread, or torn */
    if (index == NCCL_NO_INDEX) {
        if (!nccl_has_room(job, job->report.edges.len, NCCL_EDGES_MAX))
            return;
        index = (uint32_t)job->report.edges.len;
        edge->place = nccl_current_place(job);
        vec_push(&job->report.edges, *edge);
        map_u64_put(&job->edge_by_key, key, nccl_box(index));
    }
    job->report.edges.at[index].channels |= 1ull << (channel & (NCCL_CHANNELS_MAX - 1));
}

bool nccl_read_edge_line(NcclJob *job, Span s)
{
    uint64_t channel, part;
    NcclEdge edge = {0};
    NcclWay way;

    if (!(span_skip(&s, "Channel ") || span_skip(&s, "Ring ")) || !span_u64(&s, &channel))
        return false;
    if (span_skip(&s, "/") && !span_u64(&s, &part))
        return false;
    if (!span_next(&s, ":") || !read_rank(&s, &edge.from) || !span_next(&s, "->") || !read_rank(&s, &edge.to))
        return false;
    edge.receive = span_next(&s, "[receive]");
    span_next(&s, "[send]");
    if (!span_next(&s, "via ") || !read_way(job, s, &way))
        return false;
    const NcclMember *m = nccl_add_member(job);
    edge.way = add_way(job, &way);
    if (m && edge.way != NCCL_NO_INDEX)
        keep_edge(job, m, &edge, channel);
    return true;
}

static bool read_call(Span s, Span *ret_op, uint64_t *ret_address, NcclSignature *c)
{
    *ret_op = span_until(&s, ':');
    if (ret_op->len == 0 || ret_op->len > 32 || !span_next(&s, "opCount ") || !span_hex(&s, &c->number) ||
        !span_after(&s, " count ") || !span_u64(&s, &c->count) || !span_next(&s, "datatype ") ||
        !span_i64(&s, &c->datatype))
        return false;
    if (span_after(&s, " root "))
        span_i64(&s, &c->root);
    return span_after(&s, " comm ") && span_hex(&s, ret_address);
}

static bool is_collective_name(Span op)
{
    static const char *const collectives[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                              "Reduce",    "AlltoAll",  "Gather",        "Scatter"};

    for (size_t i = 0; i < ARRAY_LEN(collectives); i++)
        if (span_is(op, collectives[i]))
            return true;
    return false;
}

/* What cannot differ between ranks. */
static bool same_call(const NcclSignature *a, const NcclSignature *b)
{
    return a->op == b->op && a->count == b->count && a->datatype == b->datatype && a->root == b->root;
}

static void add_call_evidence(NcclJob *job, NcclFinding *f, const NcclSignature *c)
{
    nccl_add_evidence(job, f, c->place,
                      "call %" PRIx64 ", rank %" PRId64 ": %s count %" PRIu64 " datatype %" PRId64 " root %" PRId64,
                      c->number, c->rank, c->op, c->count, c->datatype, c->root);
}

/* The highest numbers stay, so that ranks that are read one after the other meet at the end. */
static void check_signature(NcclJob *job, uint32_t comm, const NcclSignature *call)
{
    NcclSignature *window = map_u64_get(&job->signatures, comm);

    if (!window && job->signatures.len >= NCCL_COMMS_COMPARED_MAX)
        return;
    if (!window) {
        window = arena_calloc(&job->arena, NCCL_CALLS_KEPT, sizeof *window);
        map_u64_put(&job->signatures, comm, window);
    }
    NcclSignature *slot = &window[call->number % NCCL_CALLS_KEPT];
    if (!slot->op || slot->number < call->number)
        *slot = *call;
    else if (slot->number == call->number && !same_call(slot, call)) {
        NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_MISMATCH, "communicator %s", job->report.comms.at[comm].id);
        if (f->evidence_count == 0)
            add_call_evidence(job, f, slot);
        add_call_evidence(job, f, call);
    }
}

bool nccl_read_call_line(NcclJob *job, Span s)
{
    NcclSignature call = {.datatype = NCCL_UNKNOWN, .root = NCCL_UNKNOWN, .place = nccl_current_place(job)};
    uint64_t address;
    Span op;

    if (job->from.process == NCCL_NO_INDEX || !span_has(s, "opCount ") || !read_call(s, &op, &address, &call))
        return false;
    NcclMember *m = nccl_unbox_member(job, map_u64_get(&job->member_by_address, make_address_key(job, address)));
    if (!m)
        return true;
    m->calls++;
    if (!is_collective_name(op)) {
        m->p2p_calls = true;
        return true;
    }
    call.op = m->op = nccl_intern(job, op);
    call.rank = m->rank;
    if (call.number <= INT64_MAX && (int64_t)call.number > m->op_count)
        m->op_count = (int64_t)call.number;
    m->op_place = call.place;
    if (m->comm != NCCL_NO_INDEX)
        check_signature(job, m->comm, &call);
    return true;
}
