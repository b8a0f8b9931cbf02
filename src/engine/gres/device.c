/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of a node in Slurm's words. Names and order are those of slurmd's own detection by NVML. */
#include "engine/gres/gres.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

size_t gres_list_devices(const GresNode *node, GresDevice ret[GRES_DEVICES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < node->count; i++) {
        const GresGpu *gpu = &node->gpus[i];
        if (gpu->why[0])
            continue;
        if (!gpu->mig)
            ret[count++] = (GresDevice){.gpu = gpu};
        for (size_t k = 0; gpu->mig && k < gpu->instance_count; k++)
            ret[count++] = (GresDevice){.gpu = gpu, .instance = &gpu->instances[k]};
    }
    return count;
}

void gres_add_type(const GresDevice *device, Str *to)
{
    for (const char *c = device->gpu->name; *c; c++) {
        if (device->instance && *c == '-') /* "NVIDIA A100-SXM4-40GB" */
            break;
        str_addc(to, *c == ' ' ? '_' : (char)tolower((unsigned char)*c));
    }
    if (device->instance)
        str_addf(to, "_%s", device->instance->profile);
}

void gres_add_files(const GresDevice *device, Str *to)
{
    str_addf(to, "/dev/nvidia%u", device->gpu->minor);
    if (device->instance)
        str_addf(to, ",/dev/nvidia-caps/nvidia-cap%u,/dev/nvidia-caps/nvidia-cap%u", device->instance->gi_minor,
                 device->instance->ci_minor);
}

void gres_add_cores(const CoreSet *cores, Str *to)
{
    const char *comma = "";
    for (unsigned first = 0; first < GRES_CORES_MAX; first++) {
        unsigned last = first;
        if (!core_set_has(cores, first))
            continue;
        while (last + 1 < GRES_CORES_MAX && core_set_has(cores, last + 1))
            last++;
        str_addf(to, last > first ? "%s%u-%u" : "%s%u", comma, first, last);
        comma = ",";
        first = last;
    }
}

void gres_add_links(const GresNode *node, const GresGpu *gpu, Str *to)
{
    for (size_t i = 0; i < node->count; i++)
        str_addf(to, "%s%d", i ? "," : "", &node->gpus[i] == gpu ? -1 : gpu->links[i]);
}

bool gres_has_links(const GresNode *node)
{
    bool linked = false;
    for (size_t i = 0; i < node->count; i++) {
        if (node->gpus[i].mig)
            return false;
        for (size_t k = 0; k < node->count; k++)
            linked |= node->gpus[i].links[k] > 0;
    }
    return linked;
}

void gres_add_totals(const GresNode *node, Str *to)
{
    CLEANUP_FREE GresDevice *devices = xcalloc(GRES_DEVICES_MAX, sizeof *devices);
    const size_t count = gres_list_devices(node, devices);
    CLEANUP(str_done) Str type = str_limited(2 * GRES_NAME_MAX);
    CLEANUP(str_done) Str other = str_limited(2 * GRES_NAME_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t same = 0, before = 0;
        str_clear(&type);
        gres_add_type(&devices[i], &type);
        for (size_t k = 0; k < count; k++) {
            str_clear(&other);
            gres_add_type(&devices[k], &other);
            if (strcmp(type.text, other.text) == 0 && ++same && k < i)
                before++;
        }
        if (!before)
            str_addf(to, "%sgpu:%s:%zu", i ? "," : "", type.text, same);
    }
}
