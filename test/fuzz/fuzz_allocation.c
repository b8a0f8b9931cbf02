/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: device ids from the kubelet. What is taken is well formed and can be written back to the same id. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/allocation.h"

enum { ID_MAX = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

/* Numbers are compared by value, as 007 is 7: the id is written with this one's own digits. */
static void check_again(const AllocationDevice *device)
{
    char id[ID_MAX];
    AllocationDevice again;
    int len;

    if (!device->uuid[0])
        len = snprintf(id, sizeof id, "nvidia%u", device->minor);
    else if (device->compute_instance != DEVICE_NO_NUMBER)
        len = snprintf(id, sizeof id, "MIG-%s/%u/%u", device->uuid, device->gpu_instance, device->compute_instance);
    else
        len = snprintf(id, sizeof id, "%s", device->uuid);
    if (!device->uuid[0] && device->gpu_instance != DEVICE_NO_NUMBER)
        len += snprintf(id + len, sizeof id - (size_t)len, "/gi%u", device->gpu_instance);
    if (device->replica[0])
        snprintf(id + len, sizeof id - (size_t)len, "%s%s", device->uuid[0] ? "::" : "/vgpu", device->replica);
    must(allocation_device_parse(id, &again) == 0);
    must(strcmp(again.uuid, device->uuid) == 0 && strcmp(again.replica, device->replica) == 0);
    must(again.minor == device->minor && again.gpu_instance == device->gpu_instance &&
         again.compute_instance == device->compute_instance);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AllocationDevice device;
    char *id;
    int rc;

    if (size > ID_MAX)
        return 0;
    id = malloc(size + 1);
    must(id != NULL);
    memcpy(id, data, size);
    id[size] = '\0';
    rc = allocation_device_parse(id, &device);
    must(rc == 0 || rc == -EINVAL);
    if (rc == 0)
        check_again(&device);
    free(id);
    return 0;
}
