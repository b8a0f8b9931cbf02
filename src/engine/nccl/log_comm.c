/* SPDX-License-Identifier: Apache-2.0 */
/* Log: processes, communicators, their ranks, and how their initialisation went. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/nccl/job.h"

enum { KEY_MAX = 300, THREAD_BITS = 40 };

static size_t process_key(char out[KEY_MAX], Span host, uint64_t pid)
{
    int len = snprintf(out, KEY_MAX, "%.*s:%" PRIu64, host.len < 255 ? (int)host.len : 255, host.at, pid);

    return len < 0 ? 0 : (size_t)len;
}

uint32_t nccl_process_known(const NcclJob *job, Span host, uint64_t pid)
{
    char key[KEY_MAX];
    size_t len = process_key(key, host, pid);

    return nccl_unboxed(map_getn(&job->process_by_key, key, len));
}

uint32_t nccl_process(NcclJob *job, Span host, uint64_t pid)
{
    char key[KEY_MAX];
    uint32_t index = nccl_process_known(job, host, pid);

    if (index != NCCL_NO_INDEX)
        return index;
    if (job->report.processes.len >= NCCL_PROCESSES_MAX) {
        job->report.left_out++;
        return NCCL_NO_INDEX;
    }
    index = (uint32_t)job->report.processes.len;
    NcclProcess process = {.host = nccl_word(job, host),
                           .pid = pid,
                           .version = "",
                           .network = "",
                           .plugin = "",
                           .oob = "",
                           .sockets = "",
                           .ib = ""};
    vec_push(&job->report.processes, process);
    map_putn(&job->process_by_key, key, process_key(key, host, pid), nccl_boxed(index));
    map_putn(&job->host_known, host.at, host.len, nccl_boxed(0));
    return index;
}

static uint64_t thread_key(uint32_t process, uint64_t tid)
{
    return (uint64_t)process << THREAD_BITS | (tid & ((1ull << THREAD_BITS) - 1));
}

/* Devices share the map of threads; no thread has such a number. */
static uint64_t device_key(uint32_t process, int dev)
{
    return 1ull << 63 | (uint64_t)process << THREAD_BITS | (uint32_t)dev;
}

static uint64_t address_key(uint32_t process, uint64_t address)
{
    return map_hash(&address, sizeof address, process);
}

static uint32_t member_new(NcclJob *job, uint32_t process)
{
    NcclMember member = {.comm = NCCL_NO_INDEX,
                         .process = process,
                         .rank = NCCL_UNKNOWN,
                         .cuda_dev = NCCL_UNKNOWN,
                         .nvml_dev = NCCL_UNKNOWN,
                         .bus_id = "",
                         .nranks = NCCL_UNKNOWN,
                         .nodes = NCCL_UNKNOWN,
                         .local_ranks = NCCL_UNKNOWN,
                         .coll_channels = NCCL_UNKNOWN,
                         .nvls_channels = NCCL_UNKNOWN,
                         .p2p_channels = NCCL_UNKNOWN,
                         .init_s = NCCL_UNKNOWN,
                         .init_part = "",
                         .op_count = NCCL_UNKNOWN,
                         .op = ""};

    if (job->report.members.len >= NCCL_MEMBERS_MAX) {
        job->report.left_out++;
        return NCCL_NO_INDEX;
    }
    vec_push(&job->report.members, member);
    return (uint32_t)job->report.members.len - 1;
}

static void set_current(NcclJob *job, uint32_t process, uint64_t tid, int dev, uint32_t member)
{
    map_u64_put(&job->member_by_thread, thread_key(process, tid), nccl_boxed(member));
    if (dev >= 0)
        map_u64_put(&job->member_by_thread, device_key(process, dev), nccl_boxed(member));
}

static uint32_t current(const NcclJob *job, uint32_t process, uint64_t tid, int dev)
{
    uint32_t member = nccl_unboxed(map_u64_get(&job->member_by_thread, thread_key(process, tid)));

    if (member == NCCL_NO_INDEX && dev >= 0)
        member = nccl_unboxed(map_u64_get(&job->member_by_thread, device_key(process, dev)));
    return member;
}

uint32_t nccl_member_of(NcclJob *job, uint32_t process, uint64_t tid, int dev)
{
    if (process == NCCL_NO_INDEX)
        return NCCL_NO_INDEX;
    uint32_t member = current(job, process, tid, dev);
    if (member == NCCL_NO_INDEX) {
        member = member_new(job, process);
        if (member != NCCL_NO_INDEX)
            set_current(job, process, tid, dev, member);
    }
    return member;
}

/* What such a line can say. */
typedef struct CommLine {
    uint64_t address, id;
    int64_t rank, nranks, nodes, local_ranks, mnnvl;
    int cuda_dev, nvml_dev;
    Span bus_id, parent;
    bool start, complete, destroyed, aborted;
} CommLine;

static void read_word(Span *s, Span name, CommLine *c)
{
    static const struct {
        const char *name;
        size_t off;
    } numbers[] = {{"rank", offsetof(CommLine, rank)},
                   {"nranks", offsetof(CommLine, nranks)},
                   {"nRanks", offsetof(CommLine, nranks)},
                   {"nNodes", offsetof(CommLine, nodes)},
                   {"localRanks", offsetof(CommLine, local_ranks)},
                   {"MNNVL", offsetof(CommLine, mnnvl)}};
    int64_t value;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (span_is(name, numbers[i].name) && span_i64(s, &value))
            memcpy((char *)c + numbers[i].off, &value, sizeof value);
    if (span_is(name, "cudaDev"))
        span_int(s, &c->cuda_dev);
    else if (span_is(name, "nvmlDev"))
        span_int(s, &c->nvml_dev);
    else if (span_is(name, "busId"))
        c->bus_id = span_word(s);
    else if (span_is(name, "commId"))
        span_hex(s, &c->id);
    else if (span_is(name, "parent"))
        c->parent = span_word(s);
}

/* "comm 0x... rank 3 nranks 16 ... - Init START" */
static bool read_comm_line(Span message, CommLine *c)
{
    *c = (CommLine){.rank = NCCL_UNKNOWN,
                    .nranks = NCCL_UNKNOWN,
                    .nodes = NCCL_UNKNOWN,
                    .local_ranks = NCCL_UNKNOWN,
                    .mnnvl = NCCL_UNKNOWN,
                    .cuda_dev = NCCL_UNKNOWN,
                    .nvml_dev = NCCL_UNKNOWN};
    Span s = message;
    if (!span_after(&s, "comm 0x") || !span_hex(&s, &c->address) || !span_starts(s, " "))
        return false;
    Span tail = s;
    while (s.len) {
        Span name = span_word(&s);
        if (span_is(name, "-"))
            break;
        read_word(&s, name, c);
    }
    c->start = span_has(tail, "Init START");
    c->complete = span_has(tail, "Init COMPLETE");
    c->destroyed = span_has(tail, "Destroy COMPLETE");
    c->aborted = span_has(tail, "Abort COMPLETE");
    return c->rank >= 0 && c->nranks > c->rank && c->nranks <= NCCL_MEMBERS_MAX;
}

static uint32_t comm_of(NcclJob *job, const char *id, int64_t nranks)
{
    uint32_t index = nccl_unboxed(map_get(&job->comm_by_id, id));

    if (index != NCCL_NO_INDEX || job->report.comms.len >= NCCL_COMMS_MAX)
        return index;
    NcclComm comm = {
        .id = nccl_text(job, id), .nranks = nranks, .nodes = NCCL_UNKNOWN, .parent = "", .place = nccl_here(job)};
    index = (uint32_t)job->report.comms.len;
    vec_push(&job->report.comms, comm);
    map_put(&job->comm_by_id, id, nccl_boxed(index));
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
        map_put(&job->comm_by_id, seat, nccl_boxed(0));
        return comm_of(job, id, nranks);
    }
    return NCCL_NO_INDEX;
}

static uint32_t comm_known(const NcclJob *job, uint64_t id)
{
    char text[32];

    snprintf(text, sizeof text, "0x%" PRIx64, id);
    return nccl_unboxed(map_get(&job->comm_by_id, text));
}

/* Whether a line at the address of `m` is about a later communicator. A log that is read twice is the same one. */
static bool is_another(const NcclJob *job, const NcclMember *m, const CommLine *c)
{
    if (m->rank != c->rank || m->nranks != c->nranks)
        return true;
    if (c->id && m->comm != NCCL_NO_INDEX)
        return comm_known(job, c->id) != m->comm;
    return c->start || ((m->destroyed || m->aborted) && !c->destroyed && !c->aborted);
}

/* The member that a line is about: by its address; or the one its thread has begun; or a new one. */
static uint32_t member_for(NcclJob *job, uint32_t process, uint64_t tid, int dev, const CommLine *c)
{
    NcclMember *members = job->report.members.at;
    uint64_t key = address_key(process, c->address);
    uint32_t member = nccl_unboxed(map_u64_get(&job->member_by_address, key));

    bool again = member != NCCL_NO_INDEX && is_another(job, &members[member], c);
    if (member != NCCL_NO_INDEX && !again)
        return member;
    member = c->start ? NCCL_NO_INDEX : current(job, process, tid, dev);
    if (member != NCCL_NO_INDEX && job->report.members.at[member].rank != NCCL_UNKNOWN)
        member = NCCL_NO_INDEX;
    if (member == NCCL_NO_INDEX)
        member = member_new(job, process);
    if (member == NCCL_NO_INDEX)
        return member;
    set_current(job, process, tid, dev, member);
    map_u64_put(&job->member_by_address, key, nccl_boxed(member));
    return member;
}

static void join_comm(NcclJob *job, NcclMember *m, const CommLine *c)
{
    char id[32];

    if (m->comm != NCCL_NO_INDEX)
        return;
    if (c->id) {
        snprintf(id, sizeof id, "0x%" PRIx64, c->id);
        m->comm = comm_of(job, id, c->nranks);
    } else if (c->complete || c->start)
        m->comm = comm_without_id(job, c->nranks, c->rank);
    if (m->comm != NCCL_NO_INDEX && c->parent.len)
        job->report.comms.at[m->comm].parent = nccl_word(job, c->parent);
}

bool nccl_comm_line(NcclJob *job, uint32_t process, uint64_t tid, int dev, Span message)
{
    CommLine c;

    if (process == NCCL_NO_INDEX || !span_has(message, "comm 0x") || span_has(message, "opCount") ||
        !read_comm_line(message, &c))
        return false;
    uint32_t member = member_for(job, process, tid, dev, &c);
    if (member == NCCL_NO_INDEX)
        return true;
    NcclMember *m = &job->report.members.at[member];
    m->rank = c.rank;
    m->nranks = c.nranks;
    m->address = c.address;
    if (c.bus_id.len)
        m->bus_id = nccl_word(job, c.bus_id);
    if (c.cuda_dev >= 0)
        m->cuda_dev = c.cuda_dev;
    if (c.nvml_dev >= 0)
        m->nvml_dev = c.nvml_dev;
    if (c.nodes > 0)
        m->nodes = c.nodes;
    if (c.local_ranks > 0)
        m->local_ranks = c.local_ranks;
    m->mnnvl |= c.mnnvl > 0;
    if (c.start)
        m->started = true, m->start_place = nccl_here(job);
    if (c.complete)
        m->complete = true, m->complete_place = nccl_here(job), job->report.processes.at[process].complete = true;
    m->destroyed |= c.destroyed;
    m->aborted |= c.aborted;
    join_comm(job, m, &c);
    return true;
}

/* "Init timings - ncclCommInitRank: rank 2 nranks 16 total 1.08 (kernels 0.51, alloc 0.10, ...)" */
static bool timings_line(NcclJob *job, uint32_t process, uint64_t tid, int dev, Span s)
{
    double total, part;

    if (!span_after(&s, "Init timings") || !span_after(&s, "total ") || !span_double(&s, &total))
        return false;
    uint32_t member = nccl_member_of(job, process, tid, dev);
    if (member == NCCL_NO_INDEX)
        return true;
    NcclMember *m = &job->report.members.at[member];
    m->init_s = total;
    m->init_place = nccl_here(job);
    m->init_part_s = 0;
    if (!span_after(&s, "("))
        return true;
    while (s.len) {
        Span name = span_word(&s);
        if (!span_double(&s, &part))
            break;
        if (part > m->init_part_s)
            m->init_part_s = part, m->init_part = nccl_word(job, name);
        if (!span_next(&s, ","))
            break;
    }
    return true;
}

/* "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer" */
static bool channels_line(NcclJob *job, uint32_t process, uint64_t tid, int dev, Span s)
{
    int coll, value;

    if (!span_int(&s, &coll) || !span_next(&s, "coll channels"))
        return false;
    uint32_t member = nccl_member_of(job, process, tid, dev);
    if (member == NCCL_NO_INDEX)
        return true;
    NcclMember *m = &job->report.members.at[member];
    m->coll_channels = coll;
    m->channels_place = nccl_here(job);
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

static NcclComm *comm_at(NcclJob *job, uint32_t member)
{
    if (member == NCCL_NO_INDEX || job->report.members.at[member].comm == NCCL_NO_INDEX)
        return NULL;
    return &job->report.comms.at[job->report.members.at[member].comm];
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
    Span look = s;

    if (!span_skip(&look, "Channel ") || !span_u64(&look, &channel) || !span_skip(&look, "/") ||
        !span_u64(&look, &of) || !span_next(&look, ":"))
        return false;
    Span order = span_trim(look);
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

static bool trees_line(NcclJob *job, uint32_t member, Span s)
{
    NcclTree trees[NCCL_CHANNELS_MAX];
    unsigned count = 0;

    if (!span_starts(s, "Trees ["))
        return false;
    span_skip(&s, "Trees");
    while (count < NCCL_CHANNELS_MAX && read_tree(&s, &trees[count]))
        count++;
    if (member == NCCL_NO_INDEX || count <= job->report.members.at[member].tree_count)
        return true;
    job->report.members.at[member].trees = arena_memdup(&job->arena, trees, count * sizeof trees[0]);
    job->report.members.at[member].tree_count = count;
    return true;
}

/* "Ring 00 : 3 -> 0 -> 1": a rank's neighbours, which the order of the ring says too. */
static bool neighbours_line(Span s)
{
    uint64_t value;

    return span_skip(&s, "Ring ") && span_u64(&s, &value) && span_next(&s, ": ") && span_u64(&s, &value) &&
           span_next(&s, "-> ") && span_u64(&s, &value) && span_next(&s, "-> ") && span_u64(&s, &value);
}

static bool pattern_line(NcclJob *job, NcclComm *comm, Span s)
{
    if (!span_starts(s, "Pattern "))
        return false;
    const char *text = nccl_word(job, s);
    for (unsigned i = 0; comm && i < comm->pattern_count; i++)
        if (comm->patterns[i] == text)
            return true;
    if (comm && comm->pattern_count < sizeof comm->patterns / sizeof comm->patterns[0])
        comm->patterns[comm->pattern_count++] = text;
    return true;
}

static void keep_early(NcclJob *job, uint32_t member, Span text)
{
    enum { LINES_MAX = 65536, BYTES_MAX = 16 << 20 };

    if (member == NCCL_NO_INDEX || job->early.len >= LINES_MAX || job->early_bytes + text.len > BYTES_MAX) {
        job->report.left_out++;
        return;
    }
    job->early_bytes += text.len;
    NcclEarly early = {.member = member, .text = {arena_memdup(&job->arena, text.at, text.len), text.len}};
    vec_push(&job->early, early);
}

bool nccl_shape_line(NcclJob *job, uint32_t process, uint64_t tid, int dev, Span message)
{
    if (process == NCCL_NO_INDEX)
        return false;
    if (timings_line(job, process, tid, dev, message) || channels_line(job, process, tid, dev, message))
        return true;
    if (neighbours_line(message))
        return true;
    bool ring = span_starts(message, "Channel "), tree = span_starts(message, "Trees ["),
         pattern = span_starts(message, "Pattern ");
    bool nvls = span_starts(message, "NVLS comm") || span_starts(message, "Connected NVLS tree");
    bool collnet = span_starts(message, "CollNet ") || span_starts(message, "Connected collnet");
    if (!ring && !tree && !pattern && !nvls && !collnet)
        return false;
    uint32_t member = nccl_member_of(job, process, tid, dev);
    NcclComm *comm = comm_at(job, member);
    bool used = nvls || collnet || trees_line(job, member, message) || ring_line(job, comm, message) ||
                pattern_line(job, comm, message);
    if (comm)
        comm->nvls |= nvls, comm->collnet |= collnet;
    else if (used && !tree)
        keep_early(job, member, message);
    return used;
}

void nccl_shape_early(NcclJob *job)
{
    for (size_t i = 0; i < job->early.len; i++) {
        Span text = job->early.at[i].text;
        NcclComm *comm = comm_at(job, job->early.at[i].member);
        if (!comm)
            continue;
        comm->nvls |= span_starts(text, "NVLS comm") || span_starts(text, "Connected NVLS tree");
        comm->collnet |= span_starts(text, "CollNet ") || span_starts(text, "Connected collnet");
        if (!ring_line(job, comm, text))
            pattern_line(job, comm, text);
    }
}
