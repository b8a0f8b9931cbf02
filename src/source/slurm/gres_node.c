/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/gres_node.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "source/host/cores.h"
#include "source/host/minors.h"

/* --- device minors of MIG instances ------------------------------------------------------------------------------- */

static int fill_minors(const char *list, GresGpu *gpu, Err *err)
{
    for (size_t i = 0; i < gpu->instance_count; i++) {
        GresInstance *one = &gpu->instances[i];
        one->gi_minor = minors_find(list, gpu->minor, one->gpu_instance, DEVICE_NO_NUMBER);
        one->ci_minor = minors_find(list, gpu->minor, one->gpu_instance, one->compute_instance);
        if (!one->gi_minor || !one->ci_minor)
            return err_set(err, -ENOENT, "the driver's list of device minors has no gpu%u/gi%u/ci%u", gpu->minor,
                           one->gpu_instance, one->compute_instance);
    }
    return 0;
}

static int read_minors(const char *root, GresNode *node, Err *err)
{
    CLEANUP(str_done) Str list = str_limited(MINORS_MAX);
    size_t instances = 0;
    for (size_t i = 0; i < node->count; i++)
        instances += node->gpus[i].instance_count;
    if (!instances)
        return 0;
    TRY(minors_read(root, &list, err));
    for (size_t i = 0; i < node->count; i++)
        TRY(fill_minors(list.text, &node->gpus[i], err));
    return 0;
}

/* --- cores -------------------------------------------------------------------------------------------------------- */

static void read_cores(const char *root, GresNode *node)
{
    static const CoreSet none;
    CLEANUP_FREE CoreMap *map = xcalloc(1, sizeof *map);
    if (cores_read(root, map, NULL) < 0)
        return;
    node->core_count = map->core_count;
    for (size_t i = 0; i < node->count; i++) {
        GresGpu *gpu = &node->gpus[i];
        char address[PCI_TEXT_CAP];
        PciAddress pci;
        if (pci_parse(gpu->pci, &pci) == 0 &&
            cores_near(root, pci_format(pci, PCI_FORM_SYSFS, address), map, &gpu->cores) == 0)
            gpu->cores_known = memcmp(&gpu->cores, &none, sizeof none) != 0;
    }
}

/* --- Slurm's plugin ----------------------------------------------------------------------------------------------- */

/* Where distributions and SchedMD's own packages put plugins. */
static const char *const plugin_dirs[] = {"/usr/lib/*/slurm*", "/usr/lib64/slurm", "/usr/lib/slurm",
                                          "/usr/local/lib/slurm", "/opt/slurm/lib*/slurm"};

static bool find_plugin(const char *root, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < ARRAY_LEN(plugin_dirs) && !found; i++) {
        CLEANUP(str_done) Str pattern = str_limited(4096);
        glob_t names = {0};
        str_addf(&pattern, "%s%s/%s", root, plugin_dirs[i], name);
        found = glob(pattern.text, GLOB_NOSORT, NULL, &names) == 0 && names.gl_pathc > 0;
        globfree(&names);
    }
    return found;
}

int gres_node_complete(const char *root, GresNode *node, Err *err)
{
    TRY(read_minors(root, node, err));
    read_cores(root, node);
    if (find_plugin(root, "gpu_nvml.so"))
        node->plugin = GRES_PLUGIN_THERE;
    else if (find_plugin(root, "gpu_generic.so"))
        node->plugin = GRES_PLUGIN_MISSING;
    return 0;
}
