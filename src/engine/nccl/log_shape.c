/* SPDX-License-Identifier: Apache-2.0 */
/* Log: how a communicator's initialisation went, and what came of it: channels, rings, trees, patterns. */
#include <inttypes.h>
#include <string.h>

#include "engine/nccl/job.h"

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

static bool pattern_line(NcclJob *job, NcclComm *comm, Span s, NcclPlace place)
{
    if (!span_starts(s, "Pattern "))
        return false;
    const char *text = nccl_word(job, s);
    for (unsigned i = 0; comm && i < comm->pattern_count; i++)
        if (comm->patterns[i] == text)
            return true;
    if (comm && comm->pattern_count < sizeof comm->patterns / sizeof comm->patterns[0]) {
        comm->pattern_places[comm->pattern_count] = place;
        comm->patterns[comm->pattern_count++] = text;
    }
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
    NcclEarly early = {
        .member = member, .text = {arena_memdup(&job->arena, text.at, text.len), text.len}, .place = nccl_here(job)};
    vec_push(&job->early, early);
}

static bool is_nvls(Span s)
{
    return span_starts(s, "NVLS comm") || span_starts(s, "NVLS Head") || span_starts(s, "Connected NVLS tree");
}

static bool is_collnet(Span s)
{
    return span_starts(s, "CollNet ") || span_starts(s, "Connected collnet");
}

static void take_offload(NcclComm *comm, bool nvls, bool collnet, NcclPlace place)
{
    if (nvls && !comm->nvls)
        comm->nvls_place = place;
    comm->nvls |= nvls;
    comm->collnet |= collnet;
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
    bool nvls = is_nvls(message), collnet = is_collnet(message);
    if (!ring && !tree && !pattern && !nvls && !collnet)
        return false;
    uint32_t member = nccl_member_of(job, process, tid, dev);
    NcclComm *comm = comm_at(job, member);
    bool used = nvls || collnet || trees_line(job, member, message) || ring_line(job, comm, message) ||
                pattern_line(job, comm, message, nccl_here(job));
    if (comm)
        take_offload(comm, nvls, collnet, nccl_here(job));
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
        take_offload(comm, is_nvls(text), is_collnet(text), job->early.at[i].place);
        if (!ring_line(job, comm, text))
            pattern_line(job, comm, text, job->early.at[i].place);
    }
}
