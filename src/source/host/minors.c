/* SPDX-License-Identifier: Apache-2.0 */
#include "source/host/minors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "model/device.h"

int minors_read(const char *root, Str *ret, Err *err)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/proc/driver/nvidia-caps/mig-minors", root);
    return file_read(path, MINORS_MAX, ret, err);
}

/* The lines are "gpu0/gi3/access 30" and "gpu0/gi3/ci0/access 31". */
uint32_t minors_find(const char *list, uint32_t gpu, uint32_t gpu_instance, uint32_t compute_instance)
{
    char name[64];
    int len = compute_instance == DEVICE_NO_NUMBER
                  ? snprintf(name, sizeof name, "gpu%" PRIu32 "/gi%" PRIu32 "/access ", gpu, gpu_instance)
                  : snprintf(name, sizeof name, "gpu%" PRIu32 "/gi%" PRIu32 "/ci%" PRIu32 "/access ", gpu, gpu_instance,
                             compute_instance);

    for (const char *line = list; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, (size_t)len) == 0)
            return (uint32_t)strtoul(line + len, NULL, 10);
    }
    return 0;
}
