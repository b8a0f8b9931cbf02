/* SPDX-License-Identifier: Apache-2.0 */
#include "model/process.h"

#include <stdlib.h>

#include "base/number.h"

void process_owner_init(ProcessOwner *owner, uint32_t pid)
{
    *owner = (ProcessOwner){.pid = pid, .uid = UINT32_MAX, .written_bytes = UINT64_MAX};
}

static int by_pid(const void *key, const void *element)
{
    return number_compare_u64(*(const uint32_t *)key, ((const ProcessOwner *)element)->pid);
}

static int by_number(const void *a, const void *b)
{
    return number_compare_u64(*(const uint32_t *)a, *(const uint32_t *)b);
}

size_t process_pids_settle(uint32_t *pids, size_t count)
{
    size_t len = 0;

    if (count > 0)
        qsort(pids, count, sizeof(*pids), by_number);
    for (size_t i = 0; i < count; i++)
        if (!len || pids[len - 1] != pids[i])
            pids[len++] = pids[i];
    return len;
}

const ProcessOwner *process_list_find(const ProcessList *list, uint32_t pid)
{
    return list && list->len ? bsearch(&pid, list->at, list->len, sizeof(*list->at), by_pid) : NULL;
}
