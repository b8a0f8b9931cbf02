/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from communicators (whether they came up, how long that took, whether their ranks agree, whether they
 * stopped at one call), from PyTorch's watchdog, and from settings that should be the same on all processes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

static const double slow_init_s = 10;

/* Members by communicator and by rank, what they add up to, and the world. */
static void index_members(NcclJob *job)
{
    NcclReport *r = &job->report;

    for (size_t i = 0; i < r->members.len; i++) {
        NcclMember *m = &r->members.at[i];
        if (m->comm == NCCL_NO_INDEX)
            continue;
        NcclComm *c = &r->comms.at[m->comm];
        vec_push(&c->members, m);
        map_u64_put(&job->member_by_rank, nccl_make_rank_key(m->comm, m->rank), m);
        c->seen++;
        c->complete += m->complete;
        c->mnnvl |= m->mnnvl;
        if (m->nodes > c->nodes)
            c->nodes = m->nodes;
        if (m->trees.len > c->trees)
            c->trees = (uint32_t)m->trees.len;
    }
    for (size_t i = 0; i < r->comms.len; i++)
        if (r->comms.at[i].seen && (r->world == NCCL_NO_INDEX || r->comms.at[i].nranks > r->comms.at[r->world].nranks))
            r->world = (uint32_t)i;
    if (r->world != NCCL_NO_INDEX)
        r->comms.at[r->world].is_world = true;
}

/* What the world's ranks say of their nodes. */
static void gather_hosts(NcclJob *job)
{
    const NcclComm *world = job->report.world == NCCL_NO_INDEX ? NULL : &job->report.comms.at[job->report.world];

    for (size_t i = 0; world && i < world->seen; i++) {
        const NcclMember *m = world->members.at[i];
        NcclHost *host = nccl_host_of(job, m);
        host->world++;
        host->local_ranks = m->local_ranks > 0 ? m->local_ranks : host->local_ranks;
        host->lowest = m->rank < host->lowest ? m->rank : host->lowest;
    }
}

static void add_member_evidence(NcclJob *job, NcclFinding *f, const NcclMember *m)
{
    const NcclProcess *p = &job->report.processes.at[m->process];

    nccl_add_evidence(job, f, m->started ? m->start_place : m->complete_place, "%s process %" PRIu64 ": rank %" PRId64,
                      p->host, p->pid, m->rank);
}

/* Two processes with the same rank. The later one is used. */
static void check_seats(NcclJob *job, const NcclComm *c)
{
    for (size_t i = 0; i < c->seen; i++) {
        const NcclMember *m = c->members.at[i], *last = nccl_find_rank(job, m->comm, m->rank);
        if (last->process == m->process)
            continue;
        NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_RANK_TWICE, "communicator %s, rank %" PRId64, c->id, m->rank);
        add_member_evidence(job, f, m);
        add_member_evidence(job, f, last);
    }
}

/* One rank of communicators of the world's size on one GPU, in two processes: one ran after the other. */
static void check_runs(NcclJob *job)
{
    CLEANUP(map_done) Map seats;
    char seat[192];

    map_init(&seats);
    for (size_t i = 0; i < job->report.members.len; i++) {
        NcclMember *m = &job->report.members.at[i];
        if (m->comm == NCCL_NO_INDEX || !m->bus_id[0] || m->nranks < 2 ||
            m->nranks != job->report.comms.at[job->report.world].nranks)
            continue;
        snprintf(seat, sizeof seat, "%.100s|%.40s|%" PRId64 "|%" PRId64, job->report.processes.at[m->process].host,
                 m->bus_id, m->rank, m->nranks);
        const NcclMember *before = map_put(&seats, seat, m);
        if (!before || before->process == m->process || before->comm == m->comm)
            continue;
        NcclFinding *f = nccl_add_finding(job, NCCL_RULE_TWO_RUNS, NULL);
        add_member_evidence(job, f, before);
        add_member_evidence(job, f, m);
    }
}

/* Versions that do not log the number of nodes: count the hosts, where all ranks were seen. */
static void count_nodes(NcclJob *job, NcclComm *c)
{
    if (c->nodes > 0 || c->seen < c->nranks)
        return;
    c->nodes = 0;
    for (size_t i = 0; i < c->seen; i++) {
        NcclHost *host = nccl_host_of(job, c->members.at[i]);
        c->nodes += host->counted != c;
        host->counted = c;
    }
}

/* Its log is incomplete: a missing line proves nothing. */
static bool is_cut(const NcclJob *job, const NcclMember *m)
{
    return job->report.processes.at[m->process].cut;
}

/* Per communicator: which ranks have `began` and not `done`; which were never seen. */
static bool check_init(NcclJob *job, const NcclComm *c)
{
    CLEANUP(ranks_done) Ranks hung = {0}, missing = {0};
    NcclPlace first = c->place;
    bool cut = false;

    for (size_t i = 0; i < c->seen; i++) {
        const NcclMember *m = c->members.at[i];
        cut |= is_cut(job, m);
        if (m->started && !m->complete && !m->aborted && !m->destroyed && !is_cut(job, m)) {
            if (hung.len == 0)
                first = m->start_place;
            vec_push(&hung, m->rank);
        }
    }
    if (hung.len == 0)
        return false;
    for (int64_t rank = 0; rank < c->nranks; rank++)
        if (!nccl_find_rank(job, c->members.at[0]->comm, rank))
            vec_push(&missing, rank);
    bool silent = missing.len && c->complete == 0 && !cut;
    const char *text = nccl_print_ranks(job, silent ? &missing : &hung);
    NcclFinding *f = nccl_add_findingf(job, silent ? NCCL_RULE_INIT_MISSING : NCCL_RULE_INIT_HUNG,
                                       "communicator %s of %" PRId64 " ranks: %s rank %s", c->id, c->nranks,
                                       silent ? "nothing from" : "no Init COMPLETE of", text);
    nccl_add_evidence(job, f, first, "Init START without Init COMPLETE on %zu of %u ranks that were seen", hung.len,
                      c->seen);
    return true;
}

static void check_slow(NcclJob *job)
{
    const NcclMember *worst = NULL;
    size_t slow = 0;
    static const struct {
        const char *part;
        NcclRule rule;
    } parts[] = {{"kernels", NCCL_RULE_SLOW_KERNELS},
                 {"bootstrap", NCCL_RULE_SLOW_BOOTSTRAP},
                 {"allgathers", NCCL_RULE_SLOW_BOOTSTRAP},
                 {"topo", NCCL_RULE_SLOW_TOPOLOGY},
                 {"connections", NCCL_RULE_SLOW_CONNECT}};
    NcclRule rule = NCCL_RULE_SLOW_OTHER;

    for (size_t i = 0; i < job->report.members.len; i++) {
        const NcclMember *m = &job->report.members.at[i];
        slow += m->init_s > slow_init_s;
        if (m->init_s > slow_init_s && (!worst || m->init_s > worst->init_s))
            worst = m;
    }
    if (!worst)
        return;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strcmp(parts[i].part, worst->init_part) == 0)
            rule = parts[i].rule;
    NcclFinding *f =
        nccl_add_findingf(job, rule, "%.1f s on rank %" PRId64 ", of which %s %.1f s; %zu ranks over %.0f s",
                          worst->init_s, worst->rank, worst->init_part, worst->init_part_s, slow, slow_init_s);
    nccl_add_evidence(job, f, worst->init_place, "Init timings of rank %" PRId64, worst->rank);
}

static void check_channels(NcclJob *job, const NcclComm *c)
{
    const NcclMember *low = NULL, *high = NULL;

    for (size_t i = 0; i < c->seen; i++) {
        const NcclMember *m = c->members.at[i];
        if (m->coll_channels < 0)
            continue;
        if (!low || m->coll_channels < low->coll_channels)
            low = m;
        if (!high || m->coll_channels > high->coll_channels)
            high = m;
    }
    if (!low || low->coll_channels == high->coll_channels)
        return;
    NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_CHANNELS_DIFFER, "communicator %s: %d to %d collective channels",
                                       c->id, low->coll_channels, high->coll_channels);
    nccl_add_evidence(job, f, low->channels_place, "rank %" PRId64 ": %d", low->rank, low->coll_channels);
    nccl_add_evidence(job, f, high->channels_place, "rank %" PRId64 ": %d", high->rank, high->coll_channels);
}

/* The last call of each rank. Ranks that also send to single peers count differently, and ended ones ended in order. */
static void check_calls(NcclJob *job, const NcclComm *c)
{
    const NcclMember *low = NULL, *high = NULL;
    CLEANUP(ranks_done) Ranks behind = {0};
    size_t count = 0;

    for (size_t i = 0; i < c->seen; i++) {
        const NcclMember *m = c->members.at[i];
        if (m->calls == 0 || is_cut(job, m))
            continue;
        if (m->p2p_calls || m->destroyed || m->op_count < 0)
            return;
        count++;
        if (!low || m->op_count < low->op_count)
            low = m;
        if (!high || m->op_count > high->op_count)
            high = m;
    }
    if (count < 2 || low->op_count == high->op_count)
        return;
    for (size_t i = 0; i < c->seen; i++) {
        const NcclMember *m = c->members.at[i];
        if (m->calls && !is_cut(job, m) && m->op_count == low->op_count)
            vec_push(&behind, m->rank);
    }
    NcclFinding *f = nccl_add_findingf(
        job, NCCL_RULE_OPCOUNT, "communicator %s: rank %s stopped at opCount %" PRIx64 ", others went to %" PRIx64,
        c->id, nccl_print_ranks(job, &behind), (uint64_t)low->op_count, (uint64_t)high->op_count);
    nccl_add_evidence(job, f, low->op_place, "rank %" PRId64 ": last call %s, opCount %" PRIx64, low->rank, low->op,
                      (uint64_t)low->op_count);
    nccl_add_evidence(job, f, high->op_place, "rank %" PRId64 ": last call %s, opCount %" PRIx64, high->rank, high->op,
                      (uint64_t)high->op_count);
}

/* Connections that were refused and tried again, in a job of which every communicator came up. */
static void soften_retries(NcclJob *job)
{
    NcclReport *r = &job->report;

    if (r->comms.len == 0)
        return;
    for (size_t i = 0; i < r->comms.len; i++)
        if (r->comms.at[i].complete < r->comms.at[i].seen)
            return;
    for (size_t i = 0; i < r->findings.len; i++) {
        NcclFinding *f = &r->findings.at[i];
        if (!f->retried || f->severity != NCCL_ERROR)
            continue;
        f->severity = NCCL_NOTE;
        f->advice = "It was tried again and worked: every communicator came up. Ranks that start later than others are "
                    "the usual reason";
    }
}

void nccl_check_comms(NcclJob *job)
{
    enum { HUNG_MAX = 64 };
    unsigned hung = 0;

    index_members(job);
    gather_hosts(job);
    for (size_t i = 0; i < job->report.comms.len; i++) {
        NcclComm *c = &job->report.comms.at[i];
        count_nodes(job, c);
        check_seats(job, c);
        if (hung < HUNG_MAX)
            hung += check_init(job, c);
        check_channels(job, c);
        check_calls(job, c);
    }
    soften_retries(job);
    check_slow(job);
    check_runs(job);
}

/* PyTorch's watchdog. */

static bool same_group(const NcclTimeout *a, const NcclTimeout *b)
{
    return strcmp(a->group, b->group) == 0;
}

/* Timeouts of one group, beginning with number `first`: the first sequence number that ran out is what hangs. */
static void check_group(NcclJob *job, size_t first)
{
    CLEANUP(ranks_done) Ranks ranks = {0};
    const NcclTimeout *lead = &job->timeouts.at[first], *other = NULL;

    for (size_t i = first; i < job->timeouts.len; i++)
        if (same_group(lead, &job->timeouts.at[i]) && job->timeouts.at[i].seq < lead->seq)
            lead = &job->timeouts.at[i];
    for (size_t i = first; i < job->timeouts.len; i++) {
        const NcclTimeout *t = &job->timeouts.at[i];
        if (!same_group(lead, t) || t->seq != lead->seq)
            continue;
        vec_push(&ranks, t->rank);
        bool one_group = strchr(lead->group, '(') != NULL; /* a name that is one group's in the whole job */
        if (one_group && (strcmp(t->op, lead->op) != 0 || t->numel_in != lead->numel_in))
            other = t;
    }
    const char *text = nccl_print_ranks(job, &ranks);
    NcclFinding *f =
        nccl_add_findingf(job, NCCL_RULE_WATCHDOG, "%s number %" PRId64 "%s%s, reported by rank %s", lead->op,
                          lead->seq, lead->group[0] ? " of process group " : "", lead->group, text);
    nccl_add_evidence(job, f, lead->place, "rank %" PRId64 " waited %.1f s", lead->rank, (double)lead->ran_ms / 1e3);
    for (size_t i = first; i < job->timeouts.len; i++) {
        const NcclTimeout *t = &job->timeouts.at[i];
        if (same_group(lead, t) && t->last_enqueued >= 0)
            nccl_add_evidence(job, f, t->place, "rank %" PRId64 ": last enqueued %" PRId64 ", last completed %" PRId64,
                              t->rank, t->last_enqueued, t->last_completed);
    }
    if (other) {
        f = nccl_add_findingf(job, NCCL_RULE_MISMATCH, "number %" PRId64 "%s%s", lead->seq,
                              lead->group[0] ? " of process group " : "", lead->group);
        nccl_add_evidence(job, f, lead->place, "rank %" PRId64 ": %s of %" PRId64 " elements", lead->rank, lead->op,
                          lead->numel_in);
        nccl_add_evidence(job, f, other->place, "rank %" PRId64 ": %s of %" PRId64 " elements", other->rank, other->op,
                          other->numel_in);
    }
}

/* Ranks of the world that do not report what all others report. Only where the world is known and few are silent. */
static void check_silent(NcclJob *job)
{
    const NcclReport *r = &job->report;
    CLEANUP(ranks_done) Ranks silent = {0};

    if (r->world == NCCL_NO_INDEX)
        return;
    int64_t nranks = r->comms.at[r->world].nranks;
    if (nranks > (int64_t)job->timeouts.len * 2)
        return;
    for (int64_t rank = 0; rank < nranks; rank++) {
        const NcclMember *m = nccl_find_rank(job, r->world, rank);
        bool told = m && is_cut(job, m);
        for (size_t i = 0; i < job->timeouts.len; i++)
            told |= job->timeouts.at[i].rank == rank;
        if (!told)
            vec_push(&silent, rank);
        if ((int64_t)silent.len * 4 > nranks)
            return;
    }
    if (silent.len == 0)
        return;
    NcclFinding *f =
        nccl_add_findingf(job, NCCL_RULE_RANK_SILENT, "rank %s of %" PRId64, nccl_print_ranks(job, &silent), nranks);
    nccl_add_evidence(job, f, job->timeouts.at[0].place, "%zu ranks report a timeout", (size_t)nranks - silent.len);
}

void nccl_check_timeouts(NcclJob *job)
{
    for (size_t i = 0; i < job->timeouts.len; i++) {
        bool first = true;
        for (size_t j = 0; j < i && first; j++)
            first = !same_group(&job->timeouts.at[j], &job->timeouts.at[i]);
        if (first)
            check_group(job, i);
    }
    if (job->timeouts.len)
        check_silent(job);
}

/* Variables that may differ, or that only one rank logs. */
static bool may_differ(const char *name)
{
    static const char *const fronts[] = {"NCCL_DEBUG",   "NCCL_TOPO_DUMP", "NCCL_GRAPH_DUMP",
                                         "NCCL_COMM_ID", "NCCL_HOSTID",    "NCCL_PROFILE",
                                         "NCCL_RAS",     "NCCL_DUMP",      "NCCL_LOCAL"};

    return span_starts_any(span_of(name), fronts, ARRAY_LEN(fronts));
}

static int compare_env(const void *a, const void *b)
{
    const NcclEnv *x = a, *y = b;
    int by = strcmp(x->name, y->name);

    if (by == 0)
        by = strcmp(x->value, y->value);
    return by ? by : (x->process > y->process) - (x->process < y->process);
}

static void sum_up_settings(NcclJob *job)
{
    NcclSettings *all = &job->report.settings;

    for (size_t i = 0; i < job->env.len; i++) {
        const NcclEnv *e = &job->env.at[i];
        NcclSetting *last = all->len ? &all->at[all->len - 1] : NULL;
        if (last && last->name == e->name && last->value == e->value)
            last->processes++;
        else {
            NcclSetting setting = {.name = e->name, .value = e->value, .processes = 1, .place = e->place};
            vec_push(all, setting);
        }
    }
}

static void check_setting_values(NcclJob *job)
{
    const NcclSettings *all = &job->report.settings;

    for (size_t i = 0; i + 1 < all->len; i++) {
        const NcclSetting *a = &all->at[i];
        if (a->name != all->at[i + 1].name || (i && all->at[i - 1].name == a->name) || may_differ(a->name))
            continue;
        NcclFinding *f = nccl_add_findingf(job, NCCL_RULE_ENV_DIFFERS, "%s", a->name);
        for (size_t j = i; j < all->len && all->at[j].name == a->name; j++)
            nccl_add_evidence(job, f, all->at[j].place, "%s=%s on %u processes", a->name, all->at[j].value,
                              all->at[j].processes);
    }
}

/* Hosts with a process that came up; *ret_with: those of them with the variable env[from..to). */
static size_t count_hosts(NcclJob *job, size_t from, size_t to, size_t *ret_with, const char **ret_without)
{
    bool *has = arena_calloc(&job->arena, job->hosts.len, sizeof *has),
         *up = arena_calloc(&job->arena, job->hosts.len, sizeof *up);
    size_t count = 0;

    for (size_t i = 0; i < job->report.processes.len; i++)
        up[job->report.processes.at[i].host_index] |= job->report.processes.at[i].complete;
    for (size_t i = from; i < to; i++)
        has[job->report.processes.at[job->env.at[i].process].host_index] = true;
    *ret_with = 0;
    for (size_t i = 0; i < job->hosts.len; i++) {
        count += up[i];
        *ret_with += up[i] && has[i];
        *ret_without = up[i] && !has[i] ? job->hosts.at[i].name : *ret_without;
    }
    return count;
}

static void check_setting_hosts(NcclJob *job)
{
    enum { NAMES_MAX = 256 };
    size_t names = 0;

    if (job->hosts.len < 2)
        return;
    for (size_t from = 0, to; from < job->env.len && names < NAMES_MAX; from = to) {
        const NcclEnv *e = &job->env.at[from];
        const char *without = "";
        size_t with;
        for (to = from; to < job->env.len && job->env.at[to].name == e->name;)
            to++;
        if (may_differ(e->name))
            continue;
        names++;
        size_t hosts = count_hosts(job, from, to, &with, &without);
        if (with == 0 || with == hosts)
            continue;
        NcclFinding *f =
            nccl_add_findingf(job, NCCL_RULE_ENV_MISSING, "%s is set on %zu of %zu nodes", e->name, with, hosts);
        nccl_add_evidence(job, f, e->place, "%s=%s on %s; nothing of it on %s", e->name, e->value,
                          job->report.processes.at[e->process].host, without);
    }
}

/* Whether two processes belong to different jobs: the largest communicators of both are known and not one. */
static bool in_different_jobs(const uint32_t *worlds, const NcclReport *r, const NcclProcess *a, const NcclProcess *b)
{
    uint32_t x = worlds[a - r->processes.at], y = worlds[b - r->processes.at];

    return x != NCCL_NO_INDEX && y != NCCL_NO_INDEX && x != y;
}

static const uint32_t *worlds_of(NcclJob *job)
{
    const NcclReport *r = &job->report;
    uint32_t *worlds = arena_calloc(&job->arena, r->processes.len + 1, sizeof *worlds);

    for (size_t i = 0; i < r->processes.len; i++)
        worlds[i] = NCCL_NO_INDEX;
    for (size_t i = 0; i < r->members.len; i++) {
        const NcclMember *m = &r->members.at[i];
        uint32_t *world = &worlds[m->process];
        if (m->comm != NCCL_NO_INDEX &&
            (*world == NCCL_NO_INDEX || r->comms.at[m->comm].nranks > r->comms.at[*world].nranks))
            *world = m->comm;
    }
    return worlds;
}

/* Processes whose text at `off` differs from the first that has one. */
static void check_texts(NcclJob *job, NcclRule rule, size_t off, size_t place_off, const char *what)
{
    const NcclReport *r = &job->report;
    const NcclProcess *first = NULL;
    const uint32_t *worlds = worlds_of(job);

    for (size_t i = 0; i < r->processes.len; i++) {
        const NcclProcess *p = &r->processes.at[i];
        const char *text = *(const char *const *)((const char *)p + off);
        const char *known = first ? *(const char *const *)((const char *)first + off) : NULL;
        if (!text[0])
            continue;
        if (!first) {
            first = p;
            continue;
        }
        if (strcmp(text, known) == 0 || in_different_jobs(worlds, r, first, p))
            continue;
        NcclFinding *f = nccl_add_finding(job, rule, NULL);
        if (f->evidence_count == 0)
            nccl_add_evidence(job, f, *(const NcclPlace *)((const char *)first + place_off), "%s process %llu: %s %s",
                              first->host, (unsigned long long)first->pid, what, known);
        nccl_add_evidence(job, f, *(const NcclPlace *)((const char *)p + place_off), "%s process %llu: %s %s", p->host,
                          (unsigned long long)p->pid, what, text);
    }
}

void nccl_check_settings(NcclJob *job)
{
    vec_sort(&job->env, compare_env);
    sum_up_settings(job);
    check_setting_values(job);
    check_setting_hosts(job);
    check_texts(job, NCCL_RULE_VERSION_DIFFERS, offsetof(NcclProcess, version), offsetof(NcclProcess, version_place),
                "version");
    check_texts(job, NCCL_RULE_NET_DIFFERS, offsetof(NcclProcess, network), offsetof(NcclProcess, network_place),
                "network");
}
