/* SPDX-License-Identifier: Apache-2.0 */
/* Log: errors. Lines that differ in numbers only are one finding. */
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/job.h"

enum { WARNINGS_MAX = 64, DETAIL_MAX = 160 };

typedef enum Where { WHERE_WARN, WHERE_NCCL, WHERE_PLAIN, WHERE_ANY } Where;

static const struct {
    Where where;
    const char *first, *second;
    NcclRule rule;
} faults[] = {
#define NCCL_FAULT(where, first, second, rule) {WHERE_##where, first, second, NCCL_RULE_##rule},
#include "engine/nccl/fault.def"
#undef NCCL_FAULT
};

/* Status of a completion (ibv_wc_status). */
static const struct {
    int status;
    const char *meaning;
    NcclRule rule;
} statuses[] = {
    {1, "local length error", NCCL_RULE_IB_OTHER},
    {2, "local queue pair error", NCCL_RULE_IB_OTHER},
    {4, "local protection error", NCCL_RULE_IB_PROTECTION},
    {5, "flushed after an earlier error", NCCL_RULE_IB_FLUSH},
    {6, "memory window bind error", NCCL_RULE_IB_OTHER},
    {7, "bad response", NCCL_RULE_IB_OTHER},
    {8, "local access error", NCCL_RULE_IB_PROTECTION},
    {9, "remote invalid request", NCCL_RULE_IB_OTHER},
    {10, "remote access error", NCCL_RULE_IB_PROTECTION},
    {11, "remote operation error", NCCL_RULE_IB_OTHER},
    {12, "transport retry count exceeded", NCCL_RULE_IB_RETRY},
    {13, "receiver-not-ready retry count exceeded", NCCL_RULE_IB_RNR},
    {16, "remote aborted", NCCL_RULE_IB_OTHER},
    {19, "fatal error", NCCL_RULE_IB_OTHER},
    {20, "response timeout", NCCL_RULE_IB_RETRY},
    {21, "general error", NCCL_RULE_IB_OTHER},
};

static const char *who(const NcclJob *job, uint32_t process, int dev, char out[DETAIL_MAX])
{
    out[0] = '\0';
    if (process != NCCL_NO_INDEX)
        snprintf(out, DETAIL_MAX, dev >= 0 ? "%.100s GPU %d" : "%.100s", job->report.processes.at[process].host, dev);
    return out;
}

/* "NET/IB : Got completion from peer 10.0.0.2<5> with status=12 opcode=1 len=0 vendor err 129 (Send)", in newer
 * versions "status=IBV_WC_RETRY_EXC_ERR(12)" */
static bool completion(NcclJob *job, uint32_t process, int dev, Span s)
{
    char room[DETAIL_MAX];
    int status;
    Span text = s, at = s;
    NcclRule rule = NCCL_RULE_IB_OTHER;
    const char *meaning = "unknown";

    if (!span_has(s, "Got completion") || !(span_after(&at, "status=") || span_after(&at, "with error ")))
        return false;
    if (span_starts(at, "IBV_WC_"))
        span_after(&at, "(");
    if (!span_int(&at, &status))
        return false;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status) {
            rule = statuses[i].rule;
            meaning = statuses[i].meaning;
        }
    Span peer = span_of("");
    if (span_after(&s, "from peer ") || span_after(&s, "remoteGids"))
        peer = span_word(&s);
    peer = span_until(&peer, '<');
    NcclFinding *f = nccl_findf(job, rule, "status %d: %s", status, meaning);
    nccl_evidence(job, f, nccl_here(job), "%s%s%.*s: %.*s", who(job, process, dev, room), peer.len ? ", peer " : "",
                  (int)peer.len, peer.len ? peer.at : "", text.len < 200 ? (int)text.len : 200, text.at);
    return true;
}

/* The text with numbers as '#', so that lines that differ in addresses are one. */
static size_t shape(Span s, char out[DETAIL_MAX])
{
    size_t len = 0;

    for (size_t i = 0; i < s.len && len < DETAIL_MAX - 1; i++) {
        char c = s.at[i];
        bool digit = c >= '0' && c <= '9';
        if (digit && len && out[len - 1] == '#')
            continue;
        out[len++] = digit ? '#' : c;
    }
    return len;
}

static bool wanted(Where where, bool ours, bool warn)
{
    switch (where) {
    case WHERE_WARN:
        return ours && warn;
    case WHERE_NCCL:
        return ours;
    case WHERE_PLAIN:
        return !ours;
    default:
        return true;
    }
}

/* A WARN that no row knows. Its shape keeps it apart from others, up to a number of them. */
static void warned(NcclJob *job, Span s, const char *who_text)
{
    char text[DETAIL_MAX];
    size_t len = shape(s, text), same = 0;

    for (size_t i = 0; i < job->report.findings.len; i++)
        same += job->report.findings.at[i].rule == NCCL_RULE_WARNED;
    const char *detail = same < WARNINGS_MAX ? nccl_word(job, (Span){text, len}) : "and others";
    nccl_evidence(job, nccl_find(job, NCCL_RULE_WARNED, detail), nccl_here(job), "%s%s%.*s", who_text,
                  who_text[0] ? ": " : "", s.len < 240 ? (int)s.len : 240, s.at);
}

bool nccl_fault_line(NcclJob *job, uint32_t process, int dev, bool warn, Span s)
{
    bool ours = process != NCCL_NO_INDEX || warn;
    char room[DETAIL_MAX];

    if (ours && completion(job, process, dev, s))
        return true;
    who(job, process, dev, room);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (!wanted(faults[i].where, ours, warn) || !span_has(s, faults[i].first) ||
            (faults[i].second && !span_has(s, faults[i].second)))
            continue;
        if (faults[i].rule == NCCL_RULE_WARNED)
            break;
        NcclFinding *f = nccl_find(job, faults[i].rule, NULL);
        f->retried = span_has(s, "retrying") && (f->total == 0 || f->retried);
        nccl_evidence(job, f, nccl_here(job), "%s%s%.*s", room, room[0] ? ": " : "", s.len < 240 ? (int)s.len : 240,
                      s.at);
        return true;
    }
    if (warn)
        warned(job, s, room);
    return warn;
}

/* "0(default_pg)" of "[PG ID 0 PG GUID 0(default_pg) Rank 3]", or "PG 1" of "[PG 1 Rank 3]" in older versions. */
static const char *group_of(NcclJob *job, Span s)
{
    Span at = s;

    if (span_after(&at, "PG GUID "))
        return nccl_word(job, span_word(&at));
    at = s;
    if (!span_after(&at, "[PG ") || span_starts(at, "ID"))
        return "";
    const char *end = at.len ? memchr(at.at, ' ', at.len) : NULL;
    return end ? nccl_word(job, (Span){at.at - 3, (size_t)(end - at.at) + 3}) : "";
}

/* "[PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2,
 * OpType=ALLREDUCE, NumelIn=10, NumelOut=10, Timeout(ms)=10000) ran for 10028 milliseconds before timing out." */
static void read_watchdog(NcclJob *job, Span s, NcclTimeout *t)
{
    Span at = s;

    t->group = group_of(job, s);
    if (span_after(&at, "OpType="))
        t->op = nccl_word(job, span_until(&at, ','));
    static const struct {
        const char *front;
        size_t off;
    } numbers[] = {{"SeqNum=", offsetof(NcclTimeout, seq)},
                   {"NumelIn=", offsetof(NcclTimeout, numel_in)},
                   {"NumelOut=", offsetof(NcclTimeout, numel_out)},
                   {"ran for ", offsetof(NcclTimeout, ran_ms)}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int64_t value;
        at = s;
        if (span_after(&at, numbers[i].front) && span_i64(&at, &value))
            memcpy((char *)t + numbers[i].off, &value, sizeof value);
    }
}

/* The rank in the job, "[rank3]:", or the one in the group, "Rank 3]". */
static int64_t rank_of(Span s)
{
    static const char *const fronts[] = {"[rank", "Rank ", "rank "};
    int64_t rank = NCCL_UNKNOWN;

    for (size_t i = 0; i < ARRAY_LEN(fronts) && rank == NCCL_UNKNOWN; i++) {
        Span at = s;
        while (rank == NCCL_UNKNOWN && span_after(&at, fronts[i]))
            span_i64(&at, &rank);
    }
    return rank;
}

static NcclTimeout *timeout_of(NcclJob *job, int64_t rank)
{
    for (size_t i = job->timeouts.len; i-- > 0;)
        if (job->timeouts.at[i].rank == rank)
            return &job->timeouts.at[i];
    return NULL;
}

bool nccl_watchdog_line(NcclJob *job, Span s)
{
    if (span_has(s, "Watchdog caught collective operation timeout")) {
        NcclTimeout t = {.group = "",
                         .op = "",
                         .rank = rank_of(s),
                         .seq = NCCL_UNKNOWN,
                         .numel_in = NCCL_UNKNOWN,
                         .numel_out = NCCL_UNKNOWN,
                         .ran_ms = NCCL_UNKNOWN,
                         .last_enqueued = NCCL_UNKNOWN,
                         .last_completed = NCCL_UNKNOWN,
                         .place = nccl_here(job)};
        read_watchdog(job, s, &t);
        for (size_t i = 0; i < job->timeouts.len; i++) /* PyTorch says it twice */
            if (job->timeouts.at[i].rank == t.rank && job->timeouts.at[i].seq == t.seq &&
                job->timeouts.at[i].group == t.group)
                return true;
        if (job->timeouts.len < NCCL_TIMEOUTS_MAX)
            vec_push(&job->timeouts, t);
        else
            job->report.left_out++;
        return true;
    }
    if (span_has(s, "last enqueued NCCL work:") || span_has(s, "last enqueued work:")) {
        NcclTimeout *t = timeout_of(job, rank_of(s));
        Span at = s;
        if (t && !t->group[0])
            t->group = group_of(job, s);
        if (t && (span_after(&at, "last enqueued NCCL work:") || span_after(&at, "last enqueued work:")))
            span_i64(&at, &t->last_enqueued);
        if (t && (span_after(&at, "last completed NCCL work:") || span_after(&at, "last completed work:")))
            span_i64(&at, &t->last_completed);
        return t != NULL;
    }
    return false;
}
