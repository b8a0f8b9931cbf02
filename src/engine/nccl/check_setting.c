/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from what should be the same on all processes. */
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/job.h"

/* Variables that differ for good reasons, or that only one rank tells. */
static bool may_differ(const char *name)
{
    static const char *const fronts[] = {"NCCL_DEBUG",   "NCCL_TOPO_DUMP", "NCCL_GRAPH_DUMP",
                                         "NCCL_COMM_ID", "NCCL_HOSTID",    "NCCL_PROFILE",
                                         "NCCL_RAS",     "NCCL_DUMP",      "NCCL_LOCAL"};

    for (size_t i = 0; i < ARRAY_LEN(fronts); i++)
        if (strncmp(name, fronts[i], strlen(fronts[i])) == 0)
            return true;
    return false;
}

static int compare(const void *a, const void *b)
{
    const NcclEnv *x = a, *y = b;
    int by = strcmp(x->name, y->name);

    if (by == 0)
        by = strcmp(x->value, y->value);
    return by ? by : (x->process > y->process) - (x->process < y->process);
}

static void sum_up(NcclJob *job)
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

static void check_values(NcclJob *job)
{
    const NcclSettings *all = &job->report.settings;

    for (size_t i = 0; i + 1 < all->len; i++) {
        const NcclSetting *a = &all->at[i];
        if (a->name != all->at[i + 1].name || (i && all->at[i - 1].name == a->name) || may_differ(a->name))
            continue;
        NcclFinding *f = nccl_findf(job, NCCL_RULE_ENV_DIFFERS, "%s", a->name);
        for (size_t j = i; j < all->len && all->at[j].name == a->name; j++)
            nccl_evidence(job, f, all->at[j].place, "%s=%s on %u processes", a->name, all->at[j].value,
                          all->at[j].processes);
    }
}

/* Hosts that have a process that came up; of `ret_with` those where the variable env[from..to) was told. */
static size_t count_hosts(const NcclJob *job, size_t from, size_t to, size_t *ret_with, const char **ret_without)
{
    CLEANUP(map_done) Map with, all;
    size_t cursor = 0;
    const MapEntry *entry;

    map_init(&with);
    map_init(&all);
    for (size_t i = 0; i < job->report.processes.len; i++)
        if (job->report.processes.at[i].complete)
            map_put(&all, job->report.processes.at[i].host, nccl_boxed((uint32_t)i));
    for (size_t i = from; i < to; i++)
        map_put(&with, job->report.processes.at[job->env.at[i].process].host, &with);
    *ret_with = 0;
    while ((entry = map_next(&all, &cursor)))
        if (map_get(&with, entry->key))
            ++*ret_with;
        else
            *ret_without = job->report.processes.at[nccl_unboxed(entry->value)].host;
    return all.len;
}

static void check_hosts(NcclJob *job)
{
    enum { NAMES_MAX = 256 };
    size_t names = 0;

    if (job->report.hosts < 2)
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
        NcclFinding *f = nccl_findf(job, NCCL_RULE_ENV_MISSING, "%s is set on %zu of %zu nodes", e->name, with, hosts);
        nccl_evidence(job, f, e->place, "%s=%s on %s; nothing of it on %s", e->name, e->value,
                      job->report.processes.at[e->process].host, without);
    }
}

/* Whether two processes belong to different jobs: the largest communicators of both are known and not one. */
static bool apart(const uint32_t *worlds, const NcclReport *r, const NcclProcess *a, const NcclProcess *b)
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
        if (strcmp(text, known) == 0 || apart(worlds, r, first, p))
            continue;
        NcclFinding *f = nccl_find(job, rule, NULL);
        if (f->evidence_count == 0)
            nccl_evidence(job, f, *(const NcclPlace *)((const char *)first + place_off), "%s process %llu: %s %s",
                          first->host, (unsigned long long)first->pid, what, known);
        nccl_evidence(job, f, *(const NcclPlace *)((const char *)p + place_off), "%s process %llu: %s %s", p->host,
                      (unsigned long long)p->pid, what, text);
    }
}

void nccl_check_settings(NcclJob *job)
{
    if (job->env.len)
        qsort(job->env.at, job->env.len, sizeof *job->env.at, compare);
    sum_up(job);
    check_values(job);
    check_hosts(job);
    check_texts(job, NCCL_RULE_VERSION_DIFFERS, offsetof(NcclProcess, version), offsetof(NcclProcess, version_place),
                "version");
    check_texts(job, NCCL_RULE_NET_DIFFERS, offsetof(NcclProcess, network), offsetof(NcclProcess, network_place),
                "network");
}
