/* SPDX-License-Identifier: Apache-2.0 */
/* Log: variables that are set, networks and adapters that were found. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/nccl/job.h"
#include "engine/nccl/node.h"

enum { KEY_MAX = 160 };

static void keep_env(NcclJob *job, uint32_t process, const char *name, const char *value)
{
    char key[KEY_MAX];
    int len = snprintf(key, sizeof key, "%u %s", process, name);

    if (len < 0 || len >= KEY_MAX)
        return;
    uint32_t index = nccl_unboxed(map_get(&job->setting_by_key, key));
    if (index != NCCL_NO_INDEX)
        return;
    if (job->env.len >= NCCL_SETTINGS_MAX) {
        job->report.left_out++;
        return;
    }
    NcclEnv env = {.process = process, .name = name, .value = value, .place = nccl_here(job)};
    map_put(&job->setting_by_key, key, nccl_boxed((uint32_t)job->env.len));
    vec_push(&job->env, env);
}

/* "NCCL_IB_HCA set by environment to mlx5_0", "NCCL_IB_DISABLE set by environment to 1." */
bool nccl_env_line(NcclJob *job, uint32_t process, Span s)
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
    if (process != NCCL_NO_INDEX && !job->cut && name.len < 64)
        keep_env(job, process, nccl_word(job, name), nccl_word(job, value));
    return true;
}

const NcclEnv *nccl_env_find(const NcclJob *job, const char *name)
{
    for (size_t i = 0; i < job->env.len; i++)
        if (strcmp(job->env.at[i].name, name) == 0)
            return &job->env.at[i];
    return NULL;
}

bool nccl_env_is(const NcclJob *job, const char *name, const char *value, NcclPlace *ret_place)
{
    for (size_t i = 0; i < job->env.len; i++)
        if (strcmp(job->env.at[i].name, name) == 0 && strcasecmp(job->env.at[i].value, value) == 0) {
            *ret_place = job->env.at[i].place;
            return true;
        }
    return false;
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
    char key[KEY_MAX];
    NcclAdapter adapter = {.host = p->host, .mbps = NCCL_UNKNOWN, .place = nccl_here(job)};
    Span list = s, name;

    if (!span_next(&s, "[") || !span_after(&s, " speed=") || !span_i64(&s, &adapter.mbps) ||
        !span_after(&s, "pciPath="))
        return false;
    if (job->cut || !nccl_next_adapter(&list, &name) || name.len > 64)
        return true;
    Span path = span_word(&s);
    size_t slash = span_find_last(path, "/");
    int len = snprintf(key, sizeof key, "%.80s %.*s", p->host, (int)name.len, name.at);
    if (slash == SPAN_NOWHERE || len < 0 || map_get(&job->adapter_known, key))
        return true;
    if (job->adapters.len >= NCCL_ADAPTERS_MAX) {
        job->report.left_out++;
        return true;
    }
    adapter.name = nccl_word(job, name);
    nccl_bus_number(nccl_word(job, span_from(path, slash + 1)), &adapter.bus);
    map_put(&job->adapter_known, key, nccl_boxed(0));
    vec_push(&job->adapters, adapter);
    return true;
}

/* "eth0:10.0.0.1<0>" without the address */
static const char *interface_of(NcclJob *job, Span s)
{
    Span word = span_word(&s);

    if (span_starts(word, "["))
        span_after(&word, "]");
    return nccl_word(job, span_until(&word, ':'));
}

static bool ib_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (span_next(&s, "No device found")) {
        p->ib_missing = true;
        p->ib_place = nccl_here(job);
        return true;
    }
    if (!span_next(&s, "Using "))
        return false;
    size_t end = span_find(s, ";");
    Span list = span_trim(span_cut(s, 0, end == SPAN_NOWHERE ? s.len : end));
    if (!job->cut && count_entries(list)) {
        p->ib = nccl_word(job, list);
        p->ib_devices = count_entries(list);
        p->ib_place = nccl_here(job);
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
    if (span_has(s, "distance ")) {
        if (!on && !p->gdr_far++)
            p->far_place = nccl_here(job);
    } else if (on)
        p->gdr_on++;
    else if (!p->gdr_off++)
        p->gdr_place = nccl_here(job);
    return true;
}

static bool nvls_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (!span_after(&s, "NVLS multicast support is "))
        return false;
    bool missing = span_starts(s, "not ");
    p->nvls_missing |= missing;
    if (!missing && !p->nvls_available) {
        p->nvls_available = true;
        p->nvls_place = nccl_here(job);
    }
    return true;
}

static bool bootstrap_line(NcclJob *job, NcclProcess *p, Span s)
{
    if (!span_skip(&s, "Bootstrap") || !span_next(&s, ":") || !span_next(&s, "Using "))
        return false;
    p->oob = interface_of(job, s);
    p->oob_place = nccl_here(job);
    return true;
}

bool nccl_net_line(NcclJob *job, uint32_t process, Span s)
{
    if (process == NCCL_NO_INDEX)
        return false;
    NcclProcess *p = &job->report.processes.at[process];
    if (span_starts(s, "Failed to open libibverbs")) {
        p->ib_missing = true;
        p->ib_place = nccl_here(job);
        return true;
    }
    if (span_skip(&s, "Using network ")) {
        if (!p->network[0]) {
            p->network = nccl_word(job, s);
            p->network_place = nccl_here(job);
        }
        return true;
    }
    if (span_starts(s, "NET/Plugin")) {
        if (span_after(&s, "Loaded net plugin "))
            p->plugin = nccl_word(job, s);
        return p->plugin[0] != '\0';
    }
    if (span_skip(&s, "NET/Socket") && span_next(&s, ":") && span_next(&s, "Using ")) {
        p->sockets = nccl_word(job, s);
        return true;
    }
    if (span_skip(&s, "NET/IB") && span_next(&s, ":") && (adapter_line(job, p, s) || ib_line(job, p, s)))
        return true;
    return gdr_line(job, p, s) || nvls_line(job, p, s) || bootstrap_line(job, p, s);
}
