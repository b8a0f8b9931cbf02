/* SPDX-License-Identifier: Apache-2.0 */
/* Log with NCCL_DEBUG_SUBSYS=COLL: each rank's calls.
 *     AllReduce: opCount 1f sendbuff 0x.. recvbuff 0x.. count 1024 datatype 7 op 0 root 0 comm 0x.. [nranks=8] stream
 * 0x.. Calls with the same count on one communicator must be the same; the last NCCL_WINDOW of them are compared. */
#include <inttypes.h>
#include <string.h>

#include "engine/nccl/job.h"

static const char *const collectives[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                          "Reduce",    "AlltoAll",  "Gather",        "Scatter"};

typedef struct CallLine {
    Span op;
    uint64_t number, count, address;
    int64_t datatype, root;
} CallLine;

static bool read_call(Span s, CallLine *c)
{
    *c = (CallLine){.datatype = NCCL_UNKNOWN, .root = NCCL_UNKNOWN};
    c->op = span_until(&s, ':');
    if (c->op.len == 0 || c->op.len > 32 || !span_next(&s, "opCount ") || !span_hex(&s, &c->number))
        return false;
    Span at = s;
    if (!span_after(&at, " count ") || !span_u64(&at, &c->count) || !span_next(&at, "datatype ") ||
        !span_i64(&at, &c->datatype))
        return false;
    if (span_after(&at, " root "))
        span_i64(&at, &c->root);
    return span_after(&at, " comm ") && span_hex(&at, &c->address);
}

static uint32_t find_member(const NcclJob *job, uint32_t process, uint64_t address)
{
    return nccl_unboxed(map_u64_get(&job->member_by_address, map_hash(&address, sizeof address, process)));
}

static bool is_collective(Span op)
{
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++)
        if (span_is(op, collectives[i]))
            return true;
    return false;
}

/* What cannot differ between ranks. */
static bool same_call(const NcclSignature *a, const NcclSignature *b)
{
    return a->op == b->op && a->count == b->count && a->datatype == b->datatype && a->root == b->root;
}

static void tell(NcclJob *job, NcclFinding *f, const NcclSignature *c)
{
    nccl_evidence(job, f, c->place,
                  "call %" PRIx64 ", rank %" PRId64 ": %s count %" PRIu64 " datatype %" PRId64 " root %" PRId64,
                  c->number, job->report.members.at[c->member].rank, c->op, c->count, c->datatype, c->root);
}

/* The highest numbers stay, so that ranks that are read one after the other meet at the end. */
static void compare(NcclJob *job, uint32_t comm, const NcclSignature *call)
{
    NcclSignature *window = map_u64_get(&job->signatures, comm);

    if (!window && job->signatures.len >= NCCL_WINDOWS_MAX)
        return;
    if (!window) {
        window = arena_calloc(&job->arena, NCCL_WINDOW, sizeof *window);
        map_u64_put(&job->signatures, comm, window);
    }
    NcclSignature *slot = &window[call->number % NCCL_WINDOW];
    if (!slot->used || slot->number < call->number)
        *slot = *call;
    else if (slot->number == call->number && !same_call(slot, call)) {
        NcclFinding *f = nccl_findf(job, NCCL_RULE_MISMATCH, "communicator %s", job->report.comms.at[comm].id);
        if (f->evidence_count == 0)
            tell(job, f, slot);
        tell(job, f, call);
    }
}

bool nccl_call_line(NcclJob *job, uint32_t process, Span s)
{
    CallLine c;

    if (process == NCCL_NO_INDEX || !span_has(s, "opCount ") || !read_call(s, &c))
        return false;
    uint32_t member = find_member(job, process, c.address);
    if (member == NCCL_NO_INDEX)
        return true;
    NcclMember *m = &job->report.members.at[member];
    m->calls++;
    if (!is_collective(c.op)) {
        m->p2p_calls = true;
        return true;
    }
    m->op = nccl_word(job, c.op);
    if (c.number <= INT64_MAX && (int64_t)c.number > m->op_count)
        m->op_count = (int64_t)c.number;
    m->op_place = nccl_here(job);
    NcclSignature call = {.op = m->op,
                          .count = c.count,
                          .number = c.number,
                          .datatype = c.datatype,
                          .root = c.root,
                          .member = member,
                          .place = nccl_here(job),
                          .used = true};
    if (m->comm != NCCL_NO_INDEX)
        compare(job, m->comm, &call);
    return true;
}
