/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: podresources_decode. Rows are sorted, single and of names as Kubernetes has them; what is refused leaves
 * an empty table; the same bytes say the same. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/podresources/podresources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
    if (!name[0] || strlen(name) > 253)
        abort();
    for (; *name; name++) {
        if (*name <= ' ' || *name > '~')
            abort();
    }
}

static int same(const Allocation *a, const Allocation *b)
{
    return strcmp(a->device.uuid, b->device.uuid) == 0 && a->device.minor == b->device.minor &&
           a->device.gpu_instance == b->device.gpu_instance &&
           a->device.compute_instance == b->device.compute_instance &&
           strcmp(a->device.replica, b->device.replica) == 0 && strcmp(a->pod, b->pod) == 0 &&
           strcmp(a->namespace, b->namespace) == 0 && strcmp(a->container, b->container) == 0;
}

static void check(const AllocationTable *table, size_t pods, size_t size)
{
    if (table->len > 65536 || table->len > size || (table->len > 0) != (pods > 0))
        abort();
    for (size_t i = 0; i < table->len; i++) {
        const Allocation *row = &table->at[i];

        check_name(row->pod);
        check_name(row->namespace);
        check_name(row->container);
        if (i && (same(row - 1, row) || strcmp(row[-1].device.uuid, row->device.uuid) > 0))
            abort();
        if (!row->device.uuid[0] && row->device.minor == DEVICE_NO_NUMBER)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"nvidia.com/gpu.shared"};
    const PodResourcesConfig config = {.resource_names = names, .resource_name_count = 1};
    AllocationTable first, again;
    PodResourcesFound found = {0};
    Err err = {0};
    int rc;

    allocation_table_init(&first);
    allocation_table_init(&again);
    rc = podresources_decode(data, size, &config, &first, &found, &err);
    if (rc < 0 ? first.len || err.code != rc || (rc != -EBADMSG && rc != -E2BIG) : rc)
        abort();
    check(&first, found.pods, size);
    if (podresources_decode(data, size, &config, &again, &found, &err) != rc || again.len != first.len)
        abort();
    for (size_t i = 0; i < first.len; i++) {
        if (!same(&first.at[i], &again.at[i]))
            abort();
    }
    allocation_table_done(&first);
    allocation_table_done(&again);
    return 0;
}
