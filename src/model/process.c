/* SPDX-License-Identifier: Apache-2.0 */
#include "model/process.h"

#include <stdlib.h>

void process_owner_init(ProcessOwner *owner, uint32_t pid)
{
    *owner = (ProcessOwner){.pid = pid, .uid = UINT32_MAX};
}

static int by_pid(const void *key, const void *element)
{
    const uint32_t pid = *(const uint32_t *)key, other = ((const ProcessOwner *)element)->pid;

    return (pid > other) - (pid < other);
}

const ProcessOwner *process_list_find(const ProcessList *list, uint32_t pid)
{
    return list && list->len ? bsearch(&pid, list->at, list->len, sizeof(*list->at), by_pid) : NULL;
}
