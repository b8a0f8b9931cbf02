/* SPDX-License-Identifier: Apache-2.0 */
/* Log: environment variables, networks and adapters, and errors. Errors that differ in numbers only are one finding. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

enum { ENV_KEY_MAX = 160 };

static void keep_env(NcclJob *job, const char *name, const char *value)
{
    char key[ENV_KEY_MAX];
    int len = snprintf(key, sizeof key, "%u %s", job->from.process, name);

    if (len < 0 || len >= ENV_KEY_MAX)
        return;
    if (map_get(&job->setting_by_key, key) || !nccl_has_room(job, job->env.len, NCCL_SETTINGS_MAX))
        return;
    NcclEnv env = {.process = job->from.process, .name = name, .value = value, .place = nccl_current_place(job)};
    map_put(&job->setting_by_key, key, job);
    vec_push(&job->env, env);
}

/* "NCCL_IB_HCA set by environment to mlx5_0", "NCCL_IB_DISABLE set by environment to 1." */
bool nccl_read_env_line(NcclJob *job, Span s)
{
    size_t n = 0;

    if (!span_starts(s, "NCCL_") && !span_starts(s, "RCCL_"))
        return false;
    while (n < s.len && ((s.at[n] >= 'A' && s.at[n] <= 'Z') || (s.at[n] >= '0' && s.at[n] <= '9') || s.at[n] == '_'))
        n++;
    Span name = span_cut(s, 0, n), value = span_from(s, n);
    if (!span_skip(&value, " set by environment to ") && !span_skip(&value, " set to "))
        return false;
    value = span_trim(value);
    if (value.len > 1 && value.at[value.len - 1] == '.' && value.at[value.len - 2] >= '0' &&
        value.at[value.len - 2] <= '9')
        value.len--;
    if (job->from.process != NCCL_NO_INDEX && !job->cut && name.len < 64)
        keep_env(job, nccl_intern(job, name), nccl_intern(job, value));
    return true;
}

const NcclEnv *nccl_find_env(const NcclJob *job, const char *name, const char *value)
{
    for (size_t i = 0; i < job->env.len; i++)
        if (strcmp(job->env.at[i].name, name) == 0 && (!value || strcasecmp(job->env.at[i].value, value) == 0))
            return &job->env.at[i];
    return NULL;
}

/* The index of the next entry; inside braces stand the parts of one that is made of several. */
static bool next_entry(Span *s)
{
    uint64_t n;

    while (span_after(s, "["))
        if (span_u64(s, &n) && span_skip(s, "]"))
            return true;
    return false;
}

/* Entries of "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE", or of "[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]={...}" */
static unsigned count_entries(Span s)
{
    unsigned count = 0;

    while (next_entry(&s)) {
        count++;
        if (span_starts(s, "={"))
            span_after(&s, "}");
    }
    return count;
}

bool nccl_next_adapter(Span *list, Span *ret_name)
{
    while (next_entry(list)) {
        if (span_starts(*list, "={"))
            continue;
        Span at = *list;
        *ret_name = span_trim(span_until(&at, ':'));
        if (ret_name->len && !span_has(*ret_name, " "))
            return true;
    }
    return false;
}

/* "NET/IB: [1] mlx5_1:uverbs1:1/RoCE provider=Mlx5 speed=200000 context=0x1 pciPath=/sys/devices/.../0000:01:00.0 ar=0"
 */
static bool adapter_line(NcclJob *job, const NcclProcess *p, Span s)
{
    char key[ENV_KEY_MAX];
    NcclAdapter adapter = {.host = p->host, .mbps = NCCL_UNKNOWN, .place = nccl_current_place(job)};
    Span list = s, name;

    if (!span_next(&s, "[") || !span_after(&s, " speed=") || !span_i64(&s, &adapter.mbps) ||
        !span_after(&s, "pciPath="))
        return false;
    if (job->cut || !nccl_next_adapter(&list, &name) || name.len > 64)
        return true;
    Span path = span_word(&s);
    size_t slash = span_find_last(path, "/");
    snprintf(key, sizeof key, "%.80s %.*s", p->host, (int)name.len, name.at);
    if (slash == SPAN_NOWHERE || map_get(&job->adapter_known, key) ||
        !nccl_has_room(job, job->adapters.len, NCCL_ADAPTERS_MAX))
        return true;
    adapter.name = nccl_intern(job, name);
    nccl_parse_bus_id(nccl_intern(job, span_from(path, slash + 1)), &adapter.bus);
    map_put(&job->adapter_known, key, nccl_box(0));
    vec_push(&job->adapters, adapter);
    return true;
}

/* "eth0:10.0.0.1<0>" without the address */
static Span interface_of(Span s)
{
    Span word = span_word(&s);

    if (span_starts(word, "["))
        span_after(&word, "]");
    return span_until(&word, ':');
}

static void set_text(NcclJob *job, Span s, const char **ret_text, NcclPlace *ret_place)
{
    *ret_text = nccl_intern(job, s);
    *ret_place = nccl_current_place(job);
}

/* The first line of its kind. */
static bool keep_place(const NcclJob *job, NcclPlace *place)
{
    if (place->line == 0)
        *place = nccl_current_place(job);
    return true;
}

static bool ib_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (span_next(&s, "No device found"))
        return keep_place(job, &p->ib_missing);
    if (!span_next(&s, "Using "))
        return false;
    size_t end = span_find(s, ";");
    Span list = span_trim(span_cut(s, 0, end == SPAN_NOWHERE ? s.len : end));
    if (!job->cut && count_entries(list)) {
        p->ib_devices = count_entries(list);
        set_text(job, list, &p->ib, &p->ib_place);
    }
    return true;
}

static bool gdr_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (!span_after(&s, "GPU Direct RDMA "))
        return false;
    bool on = span_skip(&s, "Enabled for ");
    if (!on && !span_skip(&s, "Disabled for "))
        return false;
    if (!span_has(s, "distance "))
        return keep_place(job, on ? &p->gdr_on : &p->gdr_off);
    return on || keep_place(job, &p->gdr_far);
}

static bool nvls_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (!span_after(&s, "NVLS multicast support is "))
        return false;
    return span_starts(s, "not ") || keep_place(job, &p->nvls_available);
}

static bool bootstrap_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (!span_skip(&s, "Bootstrap") || !span_next(&s, ":") || !span_next(&s, "Using "))
        return false;
    set_text(job, interface_of(s), &p->oob, &p->oob_place);
    return true;
}

bool nccl_read_net_line(NcclJob *job, Span s)
{
    if (job->from.process == NCCL_NO_INDEX)
        return false;
    NcclProcess *p = &job->report.processes.at[job->from.process];
    if (span_starts(s, "Failed to open libibverbs"))
        return keep_place(job, &p->ib_missing);
    if (span_skip(&s, "Using network ")) {
        if (!p->network[0])
            set_text(job, s, &p->network, &p->network_place);
        return true;
    }
    if (span_starts(s, "NET/Plugin")) {
        if (span_after(&s, "Loaded net plugin "))
            p->plugin = nccl_intern(job, s);
        return p->plugin[0] != '\0';
    }
    if (span_skip(&s, "NET/Socket") && span_next(&s, ":") && span_next(&s, "Using ")) {
        set_text(job, s, &p->sockets, &p->sockets_place);
        return true;
    }
    if (span_skip(&s, "NET/IB") && span_next(&s, ":") && (adapter_line(job, p, s) || ib_line(job, p, s)))
        return true;
    return gdr_line(job, p, s) || nvls_line(job, p, s) || bootstrap_line(job, p, s);
}

enum { WARNINGS_MAX = 64, DETAIL_MAX = 160 };

/* Kinds of lines: of NCCL, warnings and others; of others. */
enum { WHERE_WARN = 1, WHERE_INFO = 2, WHERE_PLAIN = 4, WHERE_NCCL = WHERE_WARN | WHERE_INFO, WHERE_ANY = 7 };

static const struct {
    unsigned where;
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

static const char *describe_source(const NcclJob *job, char out[DETAIL_MAX])
{
    out[0] = '\0';
    if (job->from.process != NCCL_NO_INDEX)
        snprintf(out, DETAIL_MAX, job->from.dev >= 0 ? "%.100s GPU %d" : "%.100s",
                 job->report.processes.at[job->from.process].host, job->from.dev);
    return out;
}

/* "NET/IB : Got completion from peer 10.0.0.2<5> with status=12 opcode=1 len=0 vendor err 129 (Send)", in newer
 * versions "status=IBV_WC_RETRY_EXC_ERR(12)" */
static bool match_completion(NcclJob *job, Span s)
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
    NcclFinding *f = nccl_add_findingf(job, rule, "status %d: %s", status, meaning);
    nccl_add_evidence(job, f, nccl_current_place(job), "%s%s%.*s: %.*s", describe_source(job, room),
                      peer.len ? ", peer " : "", (int)peer.len, peer.len ? peer.at : "",
                      text.len < 200 ? (int)text.len : 200, text.at);
    return true;
}

/* The text with numbers as '#', so that lines that differ in addresses are one. */
static size_t mask_numbers(Span s, char out[DETAIL_MAX])
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

/* A WARN that no row knows. Its shape keeps it apart from others, up to a number of them. */
static void report_warning(NcclJob *job, Span s, const char *who_text)
{
    char text[DETAIL_MAX];
    size_t len = mask_numbers(s, text), same = 0;

    for (size_t i = 0; i < job->report.findings.len; i++)
        same += job->report.findings.at[i].rule == NCCL_RULE_WARNED;
    const char *detail = same < WARNINGS_MAX ? nccl_intern(job, (Span){text, len}) : "and others";
    nccl_add_evidence(job, nccl_add_finding(job, NCCL_RULE_WARNED, detail), nccl_current_place(job), "%s%s%.*s",
                      who_text, who_text[0] ? ": " : "", s.len < 240 ? (int)s.len : 240, s.at);
}

bool nccl_read_fault_line(NcclJob *job, Span s)
{
    const unsigned where = job->from.warn ? WHERE_WARN : job->from.process != NCCL_NO_INDEX ? WHERE_INFO : WHERE_PLAIN;
    char room[DETAIL_MAX];

    if (where != WHERE_PLAIN && match_completion(job, s))
        return true;
    describe_source(job, room);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (!(faults[i].where & where) || !span_has(s, faults[i].first) ||
            (faults[i].second && !span_has(s, faults[i].second)))
            continue;
        if (faults[i].rule == NCCL_RULE_WARNED)
            break;
        NcclFinding *f = nccl_add_finding(job, faults[i].rule, NULL);
        f->retried = span_has(s, "retrying") && (f->total == 0 || f->retried);
        nccl_add_evidence(job, f, nccl_current_place(job), "%s%s%.*s", room, room[0] ? ": " : "",
                          s.len < 240 ? (int)s.len : 240, s.at);
        return true;
    }
    if (where == WHERE_WARN)
        report_warning(job, s, room);
    return where == WHERE_WARN;
}

/* "0(default_pg)" of "[PG ID 0 PG GUID 0(default_pg) Rank 3]", or "PG 1" of "[PG 1 Rank 3]" in older versions. */
static const char *read_group(NcclJob *job, Span s)
{
    Span at = s;

    if (span_after(&at, "PG GUID "))
        return nccl_intern(job, span_word(&at));
    at = s;
    if (!span_after(&at, "[PG ") || span_starts(at, "ID"))
        return "";
    const char *end = at.len ? memchr(at.at, ' ', at.len) : NULL;
    return end ? nccl_intern(job, (Span){at.at - 3, (size_t)(end - at.at) + 3}) : "";
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

/* "[PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2,
 * OpType=ALLREDUCE, NumelIn=10, NumelOut=10, Timeout(ms)=10000) ran for 10028 milliseconds before timing out." */
static NcclTimeout read_watchdog(NcclJob *job, Span s)
{
    NcclTimeout t = {.group = read_group(job, s),
                     .op = "",
                     .rank = rank_of(s),
                     .seq = NCCL_UNKNOWN,
                     .numel_in = NCCL_UNKNOWN,
                     .ran_ms = NCCL_UNKNOWN,
                     .last_enqueued = NCCL_UNKNOWN,
                     .last_completed = NCCL_UNKNOWN,
                     .place = nccl_current_place(job)};

    span_i64_after(s, "SeqNum=", &t.seq);
    span_i64_after(s, "NumelIn=", &t.numel_in);
    span_i64_after(s, "ran for ", &t.ran_ms);
    if (span_after(&s, "OpType="))
        t.op = nccl_intern(job, span_until(&s, ','));
    return t;
}

static NcclTimeout *timeout_of(NcclJob *job, int64_t rank)
{
    for (size_t i = job->timeouts.len; i-- > 0;)
        if (job->timeouts.at[i].rank == rank)
            return &job->timeouts.at[i];
    return NULL;
}

bool nccl_read_watchdog_line(NcclJob *job, Span s)
{
    if (span_has(s, "Watchdog caught collective operation timeout")) {
        const NcclTimeout t = read_watchdog(job, s);
        for (size_t i = 0; i < job->timeouts.len; i++) /* PyTorch says it twice */
            if (job->timeouts.at[i].rank == t.rank && job->timeouts.at[i].seq == t.seq &&
                job->timeouts.at[i].group == t.group)
                return true;
        if (nccl_has_room(job, job->timeouts.len, NCCL_TIMEOUTS_MAX))
            vec_push(&job->timeouts, t);
        return true;
    }
    bool nccl = span_has(s, "last enqueued NCCL work:");
    if (nccl || span_has(s, "last enqueued work:")) {
        NcclTimeout *t = timeout_of(job, rank_of(s));
        if (!t)
            return false;
        if (!t->group[0])
            t->group = read_group(job, s);
        span_i64_after(s, nccl ? "last enqueued NCCL work:" : "last enqueued work:", &t->last_enqueued);
        span_i64_after(s, nccl ? "last completed NCCL work:" : "last completed work:", &t->last_completed);
        return true;
    }
    return false;
}
