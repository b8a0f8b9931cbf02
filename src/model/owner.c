/* SPDX-License-Identifier: Apache-2.0 */
#include "model/owner.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"

bool owner_is_same(const Owner *a, const Owner *b)
{
    return strcmp(a->user, b->user) == 0 && strcmp(a->job, b->job) == 0 && strcmp(a->pod, b->pod) == 0 &&
           strcmp(a->namespace, b->namespace) == 0 && strcmp(a->container, b->container) == 0;
}

bool owner_is_known(const Owner *owner)
{
    return owner->user[0] || owner->job[0] || owner->pod[0] || owner->container[0];
}

bool holding_process_is_test(const HoldingProcess *process)
{
    return strcmp(process->name, "stoker-bench") == 0;
}

bool holding_is_test(const Holding *holding)
{
    if (holding->process_count == 0 || owner_work_hash(&holding->owner) != 0)
        return false;
    for (size_t i = 0; i < holding->process_count; i++)
        if (!holding_process_is_test(&holding->processes[i]))
            return false;
    return true;
}

uint64_t owner_work_hash(const Owner *owner)
{
    const char *const texts[] = {owner->job, owner->pod, owner->namespace, owner->container};
    uint64_t hash = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i][0] != '\0')
            hash ^= map_hash(texts[i], strlen(texts[i]), i + 1);
    return hash;
}

uint64_t owner_hash(const Owner *owner)
{
    const size_t len = strlen(owner->user);

    return owner_work_hash(owner) ^ (len > 0 ? map_hash(owner->user, len, 0) : 0);
}

void owner_name(const Owner *owner, OwnerKey key, char out[OWNER_NAME_CAP])
{
    const char *const texts[OWNER_KEY_END] = {
        [OWNER_BY_USER] = owner->user,       [OWNER_BY_JOB] = owner->job,
        [OWNER_BY_POD] = owner->pod,         [OWNER_BY_NAMESPACE] = owner->namespace,
        [OWNER_BY_ACCOUNT] = owner->account, [OWNER_BY_CONTAINER] = owner->container,
    };
    const bool within = (key == OWNER_BY_POD || key == OWNER_BY_CONTAINER) && texts[key][0] && owner->namespace[0];
    const bool of_pod = within && key == OWNER_BY_CONTAINER;

    snprintf(out, OWNER_NAME_CAP, "%s%s%s%s%s", within ? owner->namespace : "", within ? "/" : "",
             of_pod ? owner->pod : "", of_pod ? "/" : "", texts[key]);
}

void owner_add_text(const Owner *owner, Str *out)
{
    const bool has_work = owner->job[0] != '\0' || owner->container[0] != '\0';

    if (owner->job[0] != '\0')
        str_addf(out, "job %s", owner->job);
    else if (owner->pod[0] != '\0')
        str_addf(out, "pod %s%s%s", owner->namespace, owner->namespace[0] != '\0' ? "/" : "", owner->pod);
    else if (owner->container[0] != '\0')
        str_addf(out, "container %.12s", owner->container);
    else if (owner->pid > 0)
        str_addf(out, "%s (%d)", owner->process[0] != '\0' ? owner->process : "a process", owner->pid);
    else
        str_add(out, owner->user[0] != '\0' ? owner->user : "unknown");
    if (owner->user[0] != '\0' && owner->pod[0] == '\0' && (has_work || owner->pid > 0))
        str_addf(out, " of %s", owner->user);
}

/* --- who made a pod ----------------------------------------------------------------------------------------------- */

/* The characters of names that Kubernetes makes: no vowels, so that no words come out (k8s.io/apimachinery, rand). */
static const char random_letters[] = "bcdfghjklmnpqrstvwxz2456789", decimal_digits[] = "0123456789";
enum { RANDOM_LEN = 5, HASH_MIN = 8, HASH_MAX = 10 };

/* The length of what is before the last '-', where what is behind it has `min` to `max` of these characters; 0: it has
 * not. */
static size_t cut_part(const char *text, size_t len, const char *letters, size_t min, size_t max)
{
    size_t at = len;

    while (at > 0 && text[at - 1] != '-')
        at--;
    if (at < 2 || len - at < min || len - at > max || strspn(text + at, letters) < len - at)
        return 0;
    return at - 1;
}

/* The kind of job of which a pod has this role, as the training operators of Kubeflow name their pods. */
static const char *find_role(const char *text, size_t len, size_t *ret_len)
{
    static const struct {
        const char *role, *kind;
    } roles[] = {{"-master", "PyTorchJob"}, {"-worker", "PyTorchJob"}, {"-launcher", "MPIJob"},
                 {"-chief", "TFJob"},       {"-ps", "TFJob"},          {"-evaluator", "TFJob"}};

    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        const size_t tail = strlen(roles[i].role);

        if (len <= tail || strncmp(text + len - tail, roles[i].role, tail) != 0)
            continue;
        *ret_len = len - tail;
        return roles[i].kind;
    }
    return NULL;
}

bool workload_from_pod(const char *pod, Workload *ret)
{
    const size_t len = strlen(pod), made = cut_part(pod, len, random_letters, RANDOM_LEN, RANDOM_LEN),
                 hash = made ? cut_part(pod, made, random_letters, HASH_MIN, HASH_MAX) : 0,
                 indexed = made ? cut_part(pod, made, decimal_digits, 1, 6) : 0,
                 number = cut_part(pod, len, decimal_digits, 1, 6);
    size_t role_len = 0;
    const char *role = number ? find_role(pod, number, &role_len) : NULL;
    const char *kind = hash ? "Deployment" : indexed ? "Job" : made ? "" : role ? role : "StatefulSet";
    const size_t cut = hash ? hash : indexed ? indexed : made ? made : role ? role_len : number;

    if (cut == 0)
        return false;
    *ret = (Workload){.derived = true};
    snprintf(ret->kind, sizeof ret->kind, "%s", kind);
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)cut, pod);
    return true;
}

void owner_add_brief(const Owner *owner, Str *out)
{
    if (owner->job[0] != '\0')
        str_addf(out, "job %s", owner->job);
    else if (owner->pod[0] != '\0')
        str_add(out, owner->pod);
    else if (owner->container[0] != '\0')
        str_addf(out, "%.12s", owner->container);
    else
        str_add(out, owner->user[0] != '\0' ? owner->user : owner->process[0] != '\0' ? owner->process : "unknown");
}

const HostUsage *host_usage_find(const HostUsageList *list, const char *job)
{
    for (size_t i = 0; job[0] && i < list->len; i++)
        if (strcmp(list->at[i].job, job) == 0)
            return &list->at[i];
    return NULL;
}

const JobInfo *job_info_find(const JobInfoList *list, const char *job)
{
    for (size_t i = 0; job[0] && i < list->len; i++)
        if (strcmp(list->at[i].job, job) == 0)
            return &list->at[i];
    return NULL;
}
