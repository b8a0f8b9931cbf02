/* SPDX-License-Identifier: Apache-2.0 */
/* Claims as the scheduler allocated them, and the configuration for them in the words of NVIDIA's driver, which is read
 * strictly: a word that is not known is an error, as a wrong limit costs more than a pod that does not start. */
#include "engine/kubelet/claim.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"

#define CONFIG_VERSION "resource.nvidia.com/v1beta1"

enum { PERCENT_MAX = 100 };

const WordRow claim_slices[CLAIM_SLICE_END] = {CLAIM_SLICE_TABLE(WORD_ROW)};

/* "" where there is none. */
static const char *read_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* --- configuration ------------------------------------------------------------------------------------------------ */

/* `known`: names with a blank behind each. */
static int check_names(const json_t *object, const char *where, const char *known, Err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return err_set(err, -EINVAL, "%s is no mapping", where);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const size_t len = strlen(name);
        const char *at = len ? strstr(known, name) : NULL;

        while (at && !((at == known || at[-1] == ' ') && at[len] == ' '))
            at = strstr(at + 1, name);
        if (!at)
            return err_set(err, -EINVAL, "%s has no '%.60s'", where, name);
    }
    return 0;
}

/* A quantity of Kubernetes, in bytes. */
static int read_bytes(const json_t *value, const char *where, uint64_t *ret, Err *err)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"Ki", 1 << 10}, {"Mi", 1 << 20},   {"Gi", 1 << 30}, {"k", 1000},
                 {"M", 1000000},  {"G", 1000000000}, {"", 1}};
    const char *text = json_string_value(value);
    const size_t len = text ? strspn(text, "0123456789") : 0;

    if (json_is_integer(value) && json_integer_value(value) > 0) {
        *ret = (uint64_t)json_integer_value(value);
        return 0;
    }
    for (size_t i = 0; text && i < ARRAY_LEN(units); i++)
        if (strcmp(text + len, units[i].unit) == 0 &&
            number_parsen_u64(text, len, 1, UINT64_MAX / units[i].factor, ret, NULL) == 0) {
            *ret *= units[i].factor;
            return 0;
        }
    return err_set(err, -EINVAL, "%s: '%.40s' is no amount of memory such as 512Mi", where, text ? text : "");
}

static int read_slice(const json_t *sharing, ClaimConfig *ret, Err *err)
{
    const json_t *config = json_object_get(sharing, "timeSlicingConfig");
    const char *interval = read_text(config, "interval");

    ret->sharing = OFFER_SHARING_TIME;
    if (!config)
        return 0;
    TRY(check_names(config, "timeSlicingConfig", "interval ", err));
    const int slice = interval[0] ? word_find(claim_slices, CLAIM_SLICE_END, interval) : CLAIM_SLICE_DEFAULT;
    if (slice < 0)
        return err_set(err, -EINVAL, "timeSlicingConfig.interval: '%.40s' is none of Default, Short, Medium, Long",
                       interval);
    ret->slice = (ClaimSlice)slice;
    return 0;
}

static int read_limits(const json_t *limits, Arena *arena, ClaimConfig *ret, Err *err)
{
    ClaimLimit *read = arena_calloc(arena, json_object_size(limits) + 1, sizeof *read);
    const char *device;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)limits, device, value)
    {
        read[ret->limit_count].device = arena_strdup(arena, device);
        TRY(read_bytes(value, "mpsConfig.defaultPerDevicePinnedMemoryLimit", &read[ret->limit_count++].bytes, err));
    }
    ret->limits = read;
    return 0;
}

static int read_mps(const json_t *sharing, Arena *arena, ClaimConfig *ret, Err *err)
{
    const json_t *config = json_object_get(sharing, "mpsConfig");
    const json_t *percent = json_object_get(config, "defaultActiveThreadPercentage");
    const json_t *limit = json_object_get(config, "defaultPinnedDeviceMemoryLimit");

    ret->sharing = OFFER_SHARING_MPS;
    if (!config)
        return 0;
    TRY(check_names(config, "mpsConfig",
                    "defaultActiveThreadPercentage defaultPinnedDeviceMemoryLimit "
                    "defaultPerDevicePinnedMemoryLimit ",
                    err));
    if (percent &&
        (!json_is_integer(percent) || json_integer_value(percent) < 0 || json_integer_value(percent) > PERCENT_MAX))
        return err_set(err, -EINVAL, "mpsConfig.defaultActiveThreadPercentage is no number from 0 to 100");
    ret->thread_percent = (unsigned)json_integer_value(percent);
    if (limit)
        TRY(read_bytes(limit, "mpsConfig.defaultPinnedDeviceMemoryLimit", &ret->limit_bytes, err));
    return read_limits(json_object_get(config, "defaultPerDevicePinnedMemoryLimit"), arena, ret, err);
}

static int read_config(const json_t *parameters, bool for_mig, Arena *arena, const ClaimConfig **ret, Err *err)
{
    const json_t *sharing = json_object_get(parameters, "sharing");
    const char *strategy = read_text(sharing, "strategy");
    ClaimConfig *config = arena_calloc(arena, 1, sizeof *config);

    TRY(check_names(parameters, read_text(parameters, "kind"), "apiVersion kind sharing ", err));
    *ret = config;
    if (!sharing)
        return 0;
    TRY(check_names(sharing, "sharing", for_mig ? "strategy mpsConfig " : "strategy timeSlicingConfig mpsConfig ",
                    err));
    if (strcmp(strategy, "TimeSlicing") == 0)
        return read_slice(sharing, config, err);
    if (strcmp(strategy, "MPS") == 0)
        return for_mig ? err_set(err, -EINVAL, "sharing.strategy: MIG devices cannot be shared by MPS here")
                       : read_mps(sharing, arena, config, err);
    return err_set(err, -EINVAL, "sharing.strategy: '%.40s' is neither TimeSlicing nor MPS", strategy);
}

/* Whether an entry of `config` is for this request; *ret_named: because it names it. */
static bool is_for(const json_t *entry, const char *request, bool *ret_named)
{
    const json_t *requests = json_object_get(entry, "requests"), *one;
    const size_t base = strcspn(request, "/");
    size_t i;

    *ret_named = json_array_size(requests) > 0;
    json_array_foreach(requests, i, one)
    {
        const char *name = json_string_value(one);

        if (name && (strcmp(name, request) == 0 || (strlen(name) == base && memcmp(name, request, base) == 0)))
            return true;
    }
    return !*ret_named;
}

/* The parameters that count for a request: a later entry before an earlier one, the claim's before the class's. */
static int find_config(const json_t *entries, const char *driver, const char *source, const char *request, bool is_mig,
                       const json_t **ret, Err *err)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(entries, i, entry)
    {
        const json_t *opaque = json_object_get(entry, "opaque"), *parameters = json_object_get(opaque, "parameters");
        const char *kind = read_text(parameters, "kind");
        const bool for_gpu = strcmp(kind, "GpuConfig") == 0, for_mig = strcmp(kind, "MigDeviceConfig") == 0;
        bool named;

        if (strcmp(read_text(opaque, "driver"), driver) != 0 || strcmp(read_text(entry, "source"), source) != 0 ||
            !is_for(entry, request, &named))
            continue;
        if (strcmp(read_text(parameters, "apiVersion"), CONFIG_VERSION) != 0 || (!for_gpu && !for_mig))
            return err_set(err, -EINVAL,
                           "request '%.60s': its configuration is a %.60s of '%.60s', and not a GpuConfig or "
                           "MigDeviceConfig of " CONFIG_VERSION,
                           request, kind[0] ? kind : "thing without a kind", read_text(parameters, "apiVersion"));
        if (is_mig == for_mig)
            *ret = parameters;
        else if (named)
            return err_set(err, -EINVAL, "request '%.60s': a %s is no configuration for a %s", request, kind,
                           is_mig ? "MIG device" : "GPU");
    }
    return 0;
}

/* --- devices ------------------------------------------------------------------------------------------------------ */

/* Devices with one configuration share it, so that one MPS daemon serves them. */
static const ClaimConfig *find_read(const Claim *claim, const json_t *const *parameters)
{
    for (size_t i = 0; i < claim->count; i++)
        if (parameters[i] == parameters[claim->count])
            return claim->devices[i].config;
    return NULL;
}

/* Whether one of its tolerations is for all taints, or for one of this driver. */
static bool is_tolerant(const json_t *result, const char *driver)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(result, "tolerations"), i, one)
    {
        const char *key = read_text(one, "key");

        if (!key[0] || (strncmp(key, driver, strlen(driver)) == 0 && key[strlen(driver)] == '/'))
            return true;
    }
    return false;
}

static int read_device(const json_t *result, const json_t *configs, const char *driver, Arena *arena, Claim *ret,
                       const json_t *parameters[CLAIM_DEVICES_MAX], Err *err)
{
    ClaimDevice *device = &ret->devices[ret->count];
    const char *request = read_text(result, "request");
    const bool is_mig = strstr(read_text(result, "device"), "-mig-");

    *device = (ClaimDevice){.request = arena_strndup(arena, request, strcspn(request, "/")),
                            .pool = read_text(result, "pool"),
                            .name = read_text(result, "device"),
                            .share_id = read_text(result, "shareID"),
                            .admin = json_is_true(json_object_get(result, "adminAccess")),
                            .tolerates = is_tolerant(result, driver)};
    if (!request[0] || !device->pool[0] || !device->name[0])
        return err_set(err, -EINVAL, "a device of its allocation has no request, pool or name");
    parameters[ret->count] = NULL;
    TRY(find_config(configs, driver, "FromClass", request, is_mig, &parameters[ret->count], err));
    TRY(find_config(configs, driver, "FromClaim", request, is_mig, &parameters[ret->count], err));
    if (parameters[ret->count]) {
        device->config = find_read(ret, parameters);
        if (!device->config)
            TRY(read_config(parameters[ret->count], is_mig, arena, &device->config, err));
    }
    ret->count++;
    return 0;
}

int claim_read(const json_t *object, const char *driver, Arena *arena, Claim *ret, Err *err)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const json_t *allocation = json_object_get(json_object_get(object, "status"), "allocation");
    const json_t *devices = json_object_get(allocation, "devices"), *result;
    const json_t *parameters[CLAIM_DEVICES_MAX];
    size_t i;

    *ret = (Claim){.uid = read_text(metadata, "uid"),
                   .namespace = read_text(metadata, "namespace"),
                   .name = read_text(metadata, "name")};
    if (!json_is_object(allocation))
        return err_set(err, -EINVAL, "it is not allocated");
    json_array_foreach(json_object_get(devices, "results"), i, result)
    {
        if (strcmp(read_text(result, "driver"), driver) != 0)
            continue;
        if (ret->count == CLAIM_DEVICES_MAX)
            return err_set(err, -EINVAL, "it has more than %d devices", CLAIM_DEVICES_MAX);
        TRY(read_device(result, json_object_get(devices, "config"), driver, arena, ret, parameters, err));
    }
    return 0;
}
