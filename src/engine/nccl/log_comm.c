/* SPDX-License-Identifier: Apache-2.0 */
/* Log: communicators and the ranks in them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/nccl/job.h"

static uint64_t address_key(uint32_t process, uint64_t address)
{
    return map_hash(&address, sizeof address, process);
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

static bool in_another_input(const NcclJob *job, NcclPlace place)
{
    return place.input != job->input;
}

/* Whether a line at the address of `m` is about a later communicator. A log that is read twice is the same one. */
static bool is_another(const NcclJob *job, const NcclMember *m, const CommLine *c)
{
    if (m->rank != c->rank || m->nranks != c->nranks)
        return true;
    if (c->id && m->comm != NCCL_NO_INDEX)
        return comm_known(job, c->id) != m->comm;
    if (c->start && m->started && in_another_input(job, m->start_place) && m->start_place.line == job->line_number)
        return false; /* a copy, and not a communicator at the address of an older one */
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
    member = c->start ? NCCL_NO_INDEX : nccl_member_now(job, process, tid, dev);
    if (member != NCCL_NO_INDEX && job->report.members.at[member].rank != NCCL_UNKNOWN)
        member = NCCL_NO_INDEX;
    if (member == NCCL_NO_INDEX)
        member = nccl_member_new(job, process);
    if (member == NCCL_NO_INDEX)
        return member;
    nccl_member_begin(job, process, tid, dev, member);
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

/* What a rank says once in its life stands in two inputs: the same lines were given twice. Where one log continues in
 * another, each line is in one of them. */
static void check_copy(NcclJob *job, const NcclMember *m, const CommLine *c)
{
    const NcclPlace *before = c->start && m->started       ? &m->start_place
                              : c->complete && m->complete ? &m->complete_place
                                                           : NULL;

    if (!before || !in_another_input(job, *before))
        return;
    NcclFinding *f = nccl_findf(job, NCCL_RULE_LOG_TWICE, "%s", nccl_input(job)->name);
    nccl_evidence(job, f, nccl_here(job), "rank %" PRId64 " of %" PRId64 " says here what it says in %s, line %" PRIu64,
                  c->rank, c->nranks, job->report.inputs.at[before->input].name, before->line);
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
    check_copy(job, m, &c);
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
