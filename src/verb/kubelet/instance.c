/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker kubelet instance`: one MIG device, made or removed. What is there already, or is not there, is no error: it
 * is run again where it is not known how it ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/mig/mig_driver.h"
#include "verb/kubelet/kubelet.h"

enum { CALL_MS = 10000 };

typedef struct Wanted {
    bool make;
    const char *gpu;
    uint32_t profile_id;
    uint8_t start;
} Wanted;

static int read_wanted(VerbCall *call, Wanted *ret)
{
    const char *const *args = call->args.items;
    uint64_t profile, start;

    if (call->args.len != 4 || (strcmp(args[0], "make") != 0 && strcmp(args[0], "remove") != 0))
        return err_set(&call->err, -EINVAL, "make or remove, a GPU's UUID, a profile's number and a start are needed");
    TRY(number_parse_u64(args[2], 0, UINT32_MAX, &profile, &call->err));
    TRY(number_parse_u64(args[3], 0, MIG_GRID_MAX, &start, &call->err));
    *ret = (Wanted){strcmp(args[0], "make") == 0, args[1], (uint32_t)profile, (uint8_t)start};
    return 0;
}

static int find_gpu(MigDriver *driver, const Wanted *wanted, const MigGpu **ret, Err *err)
{
    const MigNode *node;

    TRY(mig_driver_read(driver, &node, err));
    for (size_t i = 0; i < node->count; i++) {
        *ret = &node->gpus[i];
        if (strcmp((*ret)->uuid, wanted->gpu) != 0)
            continue;
        return (*ret)->why[0] ? err_set(err, -EIO, "GPU %u: %s", (*ret)->index, (*ret)->why) : 0;
    }
    return err_set(err, -ENODEV, "this node has no GPU %.60s", wanted->gpu);
}

/* NULL: it is not there. */
static const MigInstance *find_instance(const MigGpu *gpu, const Wanted *wanted)
{
    for (size_t i = 0; i < gpu->now.count; i++)
        if (gpu->now.instances[i].start == wanted->start &&
            gpu->board.profiles[gpu->now.instances[i].profile].id == wanted->profile_id)
            return &gpu->now.instances[i];
    return NULL;
}

/* A GPU instance with one compute instance that has all of it. */
static int describe_instance(const MigGpu *gpu, const Wanted *wanted, MigInstance *ret, Err *err)
{
    for (size_t i = 0; i < gpu->board.profile_count; i++)
        if (gpu->board.profiles[i].id == wanted->profile_id) {
            *ret = (MigInstance){.profile = (uint8_t)i, .start = wanted->start};
            mig_add_compute(ret, gpu->board.profiles[i].slices);
            return 0;
        }
    return err_set(err, -ENOENT, "GPU %u has no MIG profile %" PRIu32, gpu->index, wanted->profile_id);
}

/* One without a compute instance was cut off while it was made. */
static int make_instance(MigDriver *driver, const MigGpu *gpu, const Wanted *wanted, Err *err)
{
    const MigInstance *there = find_instance(gpu, wanted);
    MigInstance instance;

    TRY(describe_instance(gpu, wanted, &instance, err));
    if (there && there->compute_count)
        return 0;
    return there ? mig_driver_recompute(driver, gpu->index, there->id, &instance, err)
                 : mig_driver_create(driver, gpu->index, &instance, err);
}

static int print_uuid(MigDriver *driver, const Wanted *wanted, Err *err)
{
    const MakeNode *made;
    const MigGpu *gpu;

    TRY(find_gpu(driver, wanted, &gpu, err));
    const MigInstance *there = find_instance(gpu, wanted);
    const uint32_t id = there ? there->id : DEVICE_NO_NUMBER;
    TRY(mig_driver_read_make(driver, &made, err));
    for (size_t i = 0; there && i < made->count; i++)
        for (size_t k = 0; k < made->gpus[i].instance_count; k++)
            if (strcmp(made->gpus[i].uuid, wanted->gpu) == 0 && made->gpus[i].instances[k].gpu_instance == id)
                return printf("%s\n", made->gpus[i].instances[k].uuid), 0;
    return err_set(err, -EIO, "the driver does not list the MIG device that was made");
}

static int carry_out(MigDriver *driver, const Wanted *wanted, Err *err)
{
    const MigGpu *gpu;

    TRY(find_gpu(driver, wanted, &gpu, err));
    if (wanted->make) {
        TRY(make_instance(driver, gpu, wanted, err));
        return print_uuid(driver, wanted, err);
    }
    const MigInstance *there = find_instance(gpu, wanted);
    return there ? mig_driver_destroy(driver, gpu->index, there->id, err) : 0;
}

CLEANUP_POINTER(MigDriver, mig_driver_close);

int kubelet_instance_run(VerbCall *call, const void *options)
{
    const KubeletInstanceOptions *o = options;
    CLEANUP(mig_driver_close_at) MigDriver *driver = NULL;
    Wanted wanted;

    if (read_wanted(call, &wanted) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (mig_driver_open(o->library ? o->library : "", CALL_MS, &driver, &call->err) < 0 ||
        carry_out(driver, &wanted, &call->err) < 0) {
        printf("%s\n", call->err.text); /* who runs it reads that */
        return verb_fail(call, EXIT_UNKNOWN);
    }
    return verb_end(call, EXIT_FINE);
}
