/* SPDX-License-Identifier: Apache-2.0 */
/* What readers and checks share: texts that are kept, findings, and the processes and ranks of the log. */
#include "engine/nccl/job.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

NcclInput *nccl_input(NcclJob *job)
{
    return &job->report.inputs.at[job->input];
}

bool nccl_has_room(NcclJob *job, size_t len, size_t max)
{
    job->report.left_out += len >= max;
    return len < max;
}

/* Bytes of the UTF-8 character at `s`, 0 for a byte that must not be shown. */
static size_t count_visible_bytes(Span s)
{
    uint32_t c = 0;
    const size_t bytes = utf8_read(s.at, s.len, &c);
    const bool turns = (c >= 0x80 && c < 0xa0) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
                       (c >= 0x2066 && c <= 0x2069);

    return bytes == 0 || c < 0x20 || c == 0x7f || turns ? 0 : bytes;
}

/* `text` into `out` without what a terminal or JSON must not see. */
static size_t copy_clean(Span text, char out[NCCL_WORD_MAX])
{
    size_t len = 0;

    while (text.len) {
        size_t n = count_visible_bytes(text);
        if (len + (n ? n : 1) > NCCL_WORD_MAX)
            break;
        if (n)
            memcpy(out + len, text.at, n);
        else
            out[len] = text.at[0] == '\t' ? ' ' : '?';
        len += n ? n : 1;
        text = span_from(text, n ? n : 1);
    }
    return len;
}

const char *nccl_copy_text(NcclJob *job, Span text)
{
    char room[NCCL_WORD_MAX];

    return arena_strndup(&job->arena, room, copy_clean(text, room));
}

const char *nccl_intern(NcclJob *job, Span text)
{
    char room[NCCL_WORD_MAX];
    size_t len = copy_clean(text, room);

    if (len == 0)
        return "";
    char *known = map_getn(&job->words, room, len);
    if (known)
        return known;
    if (!nccl_has_room(job, job->words.len, NCCL_WORDS_MAX))
        return "";
    known = arena_strndup(&job->arena, room, len);
    map_putn(&job->words, known, len, known);
    return known;
}

const char *nccl_printf(NcclJob *job, const char *fmt, ...)
{
    va_list args;

    str_clear(&job->scratch);
    va_start(args, fmt);
    str_addv(&job->scratch, fmt, args);
    va_end(args);
    return arena_strndup(&job->arena, job->scratch.text, job->scratch.len);
}

static int compare_ranks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Appends ranks as "0-3 7"; at most `most` groups. `ranks` is sorted. */
static void add_ranks(Str *out, const int64_t *ranks, size_t count, size_t most)
{
    size_t groups = 0;

    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && ranks[last + 1] - ranks[last] <= 1)
            last++;
        if (groups++ == most) {
            str_addf(out, " and %zu more", count - i);
            return;
        }
        str_addf(out, "%s%lld", i ? " " : "", (long long)ranks[i]);
        if (ranks[last] != ranks[i])
            str_addf(out, "%c%lld", ranks[last] - ranks[i] == 1 ? ' ' : '-', (long long)ranks[last]);
        i = last + 1;
    }
}

const char *nccl_print_ranks(NcclJob *job, Ranks *ranks)
{
    enum { GROUPS_MAX = 24 };

    if (ranks->len == 0)
        return "";
    vec_sort(ranks, compare_ranks);
    str_clear(&job->scratch);
    add_ranks(&job->scratch, ranks->at, ranks->len, GROUPS_MAX);
    return arena_strndup(&job->arena, job->scratch.text, job->scratch.len);
}

enum { DETAIL_MAX = 400, EVIDENCE_MAX = 480 };

static const struct {
    NcclSeverity severity;
    const char *id, *title, *setting, *advice;
} rules[] = {
#define NCCL_RULE(name, severity, id, title, setting, advice) {NCCL_##severity, id, title, setting, advice},
#include "engine/nccl/rule.def"
#undef NCCL_RULE
};

NcclFinding *nccl_add_finding(NcclJob *job, NcclRule rule, const char *detail)
{
    NcclFindings *all = &job->report.findings;
    NcclFinding *first = NULL; /* of this rule */
    const char *text = detail ? detail : "";

    for (size_t i = 0; i < all->len; i++) {
        if (all->at[i].rule == rule && strcmp(all->at[i].detail, text) == 0)
            return &all->at[i];
        if (all->at[i].rule == rule && !first)
            first = &all->at[i];
    }
    if (!nccl_has_room(job, all->len, NCCL_FINDINGS_MAX))
        return first ? first : &all->at[all->len - 1];
    NcclFinding finding = {.rule = rule,
                           .severity = rules[rule].severity,
                           .id = rules[rule].id,
                           .title = rules[rule].title,
                           .detail = nccl_copy_text(job, span_of(text)),
                           .setting = rules[rule].setting,
                           .advice = rules[rule].advice};
    vec_push(all, finding);
    return &all->at[all->len - 1];
}

NcclFinding *nccl_add_findingf(NcclJob *job, NcclRule rule, const char *fmt, ...)
{
    char text[DETAIL_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return nccl_add_finding(job, rule, text);
}

void nccl_add_evidence(NcclJob *job, NcclFinding *finding, NcclPlace place, const char *fmt, ...)
{
    char text[EVIDENCE_MAX];
    va_list args;

    finding->total++;
    if (finding->evidence_count >= NCCL_EVIDENCE_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    finding->evidence[finding->evidence_count++] = (NcclEvidence){place, nccl_copy_text(job, span_of(text))};
}

enum { PROCESS_KEY_MAX = 300, THREAD_BITS = 40 };

static size_t process_key(char out[PROCESS_KEY_MAX], Span host, uint64_t pid)
{
    int len = snprintf(out, PROCESS_KEY_MAX, "%.*s:%" PRIu64, host.len < 255 ? (int)host.len : 255, host.at, pid);

    return len < 0 ? 0 : (size_t)len;
}

uint32_t nccl_find_process(const NcclJob *job, Span host, uint64_t pid)
{
    char key[PROCESS_KEY_MAX];
    size_t len = process_key(key, host, pid);

    return nccl_unbox(map_getn(&job->process_by_key, key, len));
}

static uint32_t add_host(NcclJob *job, Span name)
{
    uint32_t index = nccl_unbox(map_getn(&job->host_by_name, name.at, name.len));

    if (index == NCCL_NO_INDEX) {
        NcclHost host = {.name = nccl_intern(job, name), .local_ranks = NCCL_UNKNOWN, .lowest = INT64_MAX};
        index = (uint32_t)job->hosts.len;
        vec_push(&job->hosts, host);
        map_putn(&job->host_by_name, name.at, name.len, nccl_box(index));
    }
    return index;
}

uint32_t nccl_add_process(NcclJob *job, Span host, uint64_t pid)
{
    char key[PROCESS_KEY_MAX];
    uint32_t index = nccl_find_process(job, host, pid);

    if (index != NCCL_NO_INDEX) {
        job->report.processes.at[index].input = job->input;
        return index;
    }
    if (!nccl_has_room(job, job->report.processes.len, NCCL_PROCESSES_MAX))
        return NCCL_NO_INDEX;
    index = (uint32_t)job->report.processes.len;
    uint32_t host_index = add_host(job, host);
    NcclProcess process = {.host = job->hosts.at[host_index].name,
                           .host_index = host_index,
                           .pid = pid,
                           .input = job->input,
                           .version = "",
                           .network = "",
                           .plugin = "",
                           .oob = "",
                           .sockets = "",
                           .ib = ""};
    vec_push(&job->report.processes, process);
    map_putn(&job->process_by_key, key, process_key(key, host, pid), nccl_box(index));
    return index;
}

static uint64_t thread_key(const NcclJob *job)
{
    return (uint64_t)job->from.process << THREAD_BITS | (job->from.tid & ((1ull << THREAD_BITS) - 1));
}

/* Devices share the map of threads; no thread has such a number. */
static uint64_t device_key(const NcclJob *job)
{
    return 1ull << 63 | (uint64_t)job->from.process << THREAD_BITS | (uint32_t)job->from.dev;
}

NcclMember *nccl_new_member(NcclJob *job)
{
    NcclMember member = {.comm = NCCL_NO_INDEX,
                         .process = job->from.process,
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
                         .init_s = NAN,
                         .init_part_s = NAN,
                         .init_part = "",
                         .op_count = NCCL_UNKNOWN,
                         .op = ""};

    if (!nccl_has_room(job, job->report.members.len, NCCL_MEMBERS_MAX))
        return NULL;
    vec_push(&job->report.members, member);
    return &job->report.members.at[job->report.members.len - 1];
}

void nccl_set_member(NcclJob *job, const NcclMember *m)
{
    map_u64_put(&job->member_by_thread, thread_key(job), nccl_box_member(job, m));
    if (job->from.dev >= 0)
        map_u64_put(&job->member_by_thread, device_key(job), nccl_box_member(job, m));
}

NcclMember *nccl_find_member(const NcclJob *job)
{
    const void *found = map_u64_get(&job->member_by_thread, thread_key(job));

    if (!found && job->from.dev >= 0)
        found = map_u64_get(&job->member_by_thread, device_key(job));
    return nccl_unbox_member(job, found);
}

NcclMember *nccl_add_member(NcclJob *job)
{
    NcclMember *m = NULL;

    if (job->from.process != NCCL_NO_INDEX && !(m = nccl_find_member(job)) && (m = nccl_new_member(job)))
        nccl_set_member(job, m);
    return m;
}
