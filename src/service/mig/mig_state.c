/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts with places as JSON. Profiles are NVML's enumerators there, as in mig-parted's checkpoints. */
#include <errno.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "service/mig/mig_report.h"

static void json_decref_at(json_t **at)
{
    json_decref(*at);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_instance(const MigBoard *board, const MigInstance *one, Str *to)
{
    const MigProfile *profile = &board->profiles[one->profile];
    json_open(to, NULL, '{');
    json_add_u64(to, "ProfileID", profile->index);
    json_open(to, "Placement", '{');
    json_add_u64(to, "Start", one->start);
    json_add_u64(to, "Size", profile->size);
    json_close(to, '}');
    json_open(to, "ComputeInstances", '[');
    for (size_t i = 0; i < one->compute_count; i++) {
        json_open(to, NULL, '{');
        json_add_u64(to, "ProfileID", mig_compute_index(one->compute[i]));
        json_add_u64(to, "EngProfileID", 0);
        json_close(to, '}');
    }
    json_close(to, ']');
    json_close(to, '}');
}

static void write_device(const char *uuid, const MigBoard *board, const MigLayout *layout, Str *to)
{
    json_open(to, NULL, '{');
    json_add_text(to, "UUID", uuid);
    json_add_u64(to, "MigMode", layout->enabled);
    json_open(to, "GpuInstances", '[');
    for (size_t i = 0; i < layout->count; i++)
        write_instance(board, &layout->instances[i], to);
    json_close(to, ']');
    json_close(to, '}');
}

static void open_state(const char *name, Str *to)
{
    json_open(to, name, '{');
    json_add_text(to, "Version", "v1");
    json_open(to, "MigState", '{');
    json_open(to, "Devices", '[');
}

static void close_state(Str *to)
{
    json_close(to, ']');
    json_close(to, '}');
    json_close(to, '}');
}

void mig_state_write(const MigNode *node, Str *to)
{
    open_state(NULL, to);
    for (size_t i = 0; i < node->count; i++)
        if (node->gpus[i].capable && !node->gpus[i].why[0])
            write_device(node->gpus[i].uuid, &node->gpus[i].board, &node->gpus[i].now, to);
    close_state(to);
    str_addc(to, '\n');
}

static const MigGpu *find_gpu(const MigNode *node, const char *uuid)
{
    for (size_t i = 0; i < node->count; i++)
        if (strcmp(node->gpus[i].uuid, uuid) == 0)
            return &node->gpus[i];
    return NULL;
}

static void write_side(const MigChange *change, const MigNode *node, const char *name, bool after, Str *to)
{
    open_state(name, to);
    for (size_t i = 0; i < change->count; i++) {
        const MigChangeGpu *one = &change->gpus[i];
        const MigGpu *gpu = find_gpu(node, one->uuid);
        if (gpu)
            write_device(one->uuid, &gpu->board, after ? &one->after : &one->before, to);
    }
    close_state(to);
}

void mig_change_write(const MigChange *change, const MigNode *node, Str *to)
{
    json_open(to, NULL, '{');
    json_add_u64(to, "version", 1);
    write_side(change, node, "before", false, to);
    write_side(change, node, "after", true, to);
    json_close(to, '}');
    str_addc(to, '\n');
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* A whole number from 0 to `max`; -1 for anything else. */
static int64_t read_number(const json_t *object, const char *key, int64_t max)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > max)
        return -1;
    return json_integer_value(value);
}

static int read_computes(const json_t *list, const char *where, unsigned slices, MigInstance *ret, Err *err)
{
    size_t i;
    json_t *one;
    if (!json_is_array(list) || json_array_size(list) > MIG_COMPUTE_MAX)
        return err_set(err, -EINVAL, "%s: 'ComputeInstances' is no list of at most %d", where, MIG_COMPUTE_MAX);
    json_array_foreach(list, i, one)
    {
        const int64_t index = read_number(one, "ProfileID", UINT8_MAX);
        const unsigned size = index < 0 ? 0 : mig_compute_slices((unsigned)index);
        if (!size)
            return err_set(err, -EINVAL, "%s: a compute instance has no known 'ProfileID'", where);
        if (size > slices)
            return err_set(err, -EINVAL, "%s: the compute instances are larger than their GPU instance", where);
        slices -= size;
        mig_add_compute(ret, (uint8_t)size);
    }
    return 0;
}

static int read_instance(const json_t *object, const MigGpu *gpu, MigLayout *ret, Err *err)
{
    const MigBoard *board = &gpu->board;
    const int64_t index = read_number(object, "ProfileID", UINT8_MAX);
    const int64_t start = read_number(json_object_get(object, "Placement"), "Start", MIG_GRID_MAX);
    if (index < 0 || start < 0)
        return err_set(err, -EINVAL, "%s: an instance without 'ProfileID' or 'Placement.Start'", gpu->uuid);
    if (ret->count == MIG_INSTANCE_MAX)
        return err_set(err, -EINVAL, "%s: more than %d instances", gpu->uuid, MIG_INSTANCE_MAX);
    size_t p = 0;
    while (p < board->profile_count && board->profiles[p].index != (uint64_t)index)
        p++;
    if (p == board->profile_count)
        return err_set(err, -ENOENT, "%s (%s) has no profile with the number %d", gpu->uuid, board->name, (int)index);
    MigInstance *one = &ret->instances[ret->count++];
    *one = (MigInstance){.profile = (uint8_t)p, .start = (uint8_t)start};
    return read_computes(json_object_get(object, "ComputeInstances"), gpu->uuid, board->profiles[p].slices, one, err);
}

static int read_device(const json_t *object, const MigNode *node, MigLayout wanted[MIG_GPUS_MAX],
                       bool asked[MIG_GPUS_MAX], Err *err)
{
    const char *uuid = json_string_value(json_object_get(object, "UUID"));
    const json_t *list = json_object_get(object, "GpuInstances");
    const int64_t mode = read_number(object, "MigMode", 1);
    const MigGpu *gpu = uuid ? find_gpu(node, uuid) : NULL;
    size_t i;
    json_t *one;
    if (uuid && !gpu)
        gpu = find_gpu(node, ""); /* it may be one that hangs before it says who it is */
    if (gpu && !gpu->uuid[0] && !gpu->why[0])
        gpu = NULL;
    if (!uuid || mode < 0 || (list && !json_is_array(list) && !json_is_null(list)))
        return err_set(err, -EINVAL, "a device needs 'UUID', 'MigMode' (0 or 1) and 'GpuInstances' (a list)");
    const size_t at = gpu ? (size_t)(gpu - node->gpus) : 0;
    if (gpu && gpu->why[0]) {
        asked[at] = true;
        return 0;
    }
    if (!gpu || !gpu->capable)
        return err_set(err, -ENOENT, "%.60s: %s", uuid, gpu ? "it has no MIG" : "the node has no such GPU");
    wanted[at] = (MigLayout){.enabled = mode == 1};
    asked[at] = true;
    json_array_foreach(list, i, one) TRY(read_instance(one, gpu, &wanted[at], err));
    if (mode == 0 && wanted[at].count)
        return err_set(err, -EINVAL, "%s: instances, and MIG disabled", uuid);
    return 0;
}

static int read_state(const json_t *root, const MigNode *node, MigLayout wanted[MIG_GPUS_MAX], bool asked[MIG_GPUS_MAX],
                      Err *err)
{
    const char *version = json_string_value(json_object_get(root, "Version"));
    const json_t *devices = json_object_get(json_object_get(root, "MigState"), "Devices");
    size_t i;
    json_t *one;
    memset(asked, 0, MIG_GPUS_MAX * sizeof *asked);
    if (!version || strcmp(version, "v1") != 0 || !json_is_array(devices))
        return err_set(err, -EINVAL, "no state of MIG layouts: it needs \"Version\": \"v1\" and MigState.Devices");
    json_array_foreach(devices, i, one) TRY(read_device(one, node, wanted, asked, err));
    return 0;
}

static json_t *load_text(const char *text, size_t len, Err *err)
{
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        err_set(err, -EINVAL, "line %d: %s", error.line, error.text);
    return root;
}

int mig_state_read(const char *text, size_t len, const MigNode *node, MigLayout wanted[MIG_GPUS_MAX],
                   bool asked[MIG_GPUS_MAX], Err *err)
{
    CLEANUP(json_decref_at) json_t *root = load_text(text, len, err);
    return root ? read_state(root, node, wanted, asked, err) : -EINVAL;
}

int mig_change_read(const char *text, size_t len, const MigNode *node, MigChange *ret, Err *err)
{
    MigLayout before[MIG_GPUS_MAX], after[MIG_GPUS_MAX];
    bool in_before[MIG_GPUS_MAX], in_after[MIG_GPUS_MAX];
    CLEANUP(json_decref_at) json_t *root = load_text(text, len, err);
    if (!root)
        return -EINVAL;
    if (read_number(root, "version", 1) != 1)
        return err_set(err, -EINVAL, "no change of MIG layouts: it needs \"version\": 1");
    TRY(read_state(json_object_get(root, "before"), node, before, in_before, err));
    TRY(read_state(json_object_get(root, "after"), node, after, in_after, err));
    *ret = (MigChange){0};
    for (size_t i = 0; i < node->count; i++) {
        if (in_before[i] != in_after[i])
            return err_set(err, -EINVAL, "%s is in only one of 'before' and 'after'", node->gpus[i].uuid);
        if (!in_before[i])
            continue;
        if (node->gpus[i].why[0])
            return err_set(err, -ENODEV, "GPU %u: %s", node->gpus[i].index, node->gpus[i].why);
        MigChangeGpu *one = &ret->gpus[ret->count++];
        *one = (MigChangeGpu){.index = node->gpus[i].index, .before = before[i], .after = after[i]};
        memcpy(one->uuid, node->gpus[i].uuid, sizeof one->uuid);
    }
    return 0;
}
