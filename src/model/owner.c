/* SPDX-License-Identifier: Apache-2.0 */
#include "model/owner.h"

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

void owner_add_text(const Owner *owner, Str *out)
{
    if (owner->job[0] != '\0')
        str_addf(out, "job %s", owner->job);
    else if (owner->pod[0] != '\0')
        str_addf(out, "pod %s%s%s", owner->namespace, owner->namespace[0] != '\0' ? "/" : "", owner->pod);
    else if (owner->container[0] != '\0')
        str_addf(out, "container %.12s", owner->container);
    else
        str_addf(out, "%s (%d)", owner->process[0] != '\0' ? owner->process : "a process", owner->pid);
    if (owner->user[0] != '\0' && owner->pod[0] == '\0')
        str_addf(out, " of %s", owner->user);
}

const JobInfo *job_info_find(const JobInfoList *list, const char *job)
{
    for (size_t i = 0; job[0] && i < list->len; i++)
        if (strcmp(list->at[i].job, job) == 0)
            return &list->at[i];
    return NULL;
}
