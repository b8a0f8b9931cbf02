/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster_request.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"

typedef struct Amount {
    double cpu, memory, gpus;
    bool shared; /* asks for parts of GPUs that are not counted */
    KubeInstances instances;
} Amount;

static const char *const gpu_names[] = {"nvidia.com/gpu", "amd.com/gpu"};
static const char *const part_names[] = {"nvidia.com/gpu.shared", "amd.com/cpx_", "amd.com/dpx_"};

int kube_read_gpus(const KubeField *resources, double *ret, Err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(gpu_names); i++)
        TRY(kube_field_quantity(resources, gpu_names[i], ret, err));
    return 0;
}

static bool has_parts(const json_t *resources)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)resources, name, value)
    {
        for (size_t i = 0; i < ARRAY_LEN(part_names); i++)
            if (strncmp(name, part_names[i], strlen(part_names[i])) == 0)
                return true;
    }
    return false;
}

/* What is not requested is taken from the limit. */
static int read_container(KubeMig *mig, const KubeField *container, Amount *ret, Err *err)
{
    static const char *const paths[] = {"resources limits", "resources requests"};
    KubeField part;
    bool complete = true;

    *ret = (Amount){.cpu = 0};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        TRY(kube_field_get(container, paths[i], JSON_OBJECT, &part, err));
        TRY(kube_field_quantity(&part, "cpu", &ret->cpu, err));
        TRY(kube_field_quantity(&part, "memory", &ret->memory, err));
        TRY(kube_read_gpus(&part, &ret->gpus, err));
        if (mig)
            TRY(kube_mig_read(mig, &part, &ret->instances, &complete, err));
        ret->shared |= has_parts(part.json);
    }
    ret->shared |= !complete;
    return 0;
}

static void add_amount(Amount *to, const Amount *more)
{
    to->cpu += more->cpu;
    to->memory += more->memory;
    to->gpus += more->gpus;
    to->shared |= more->shared;
    kube_instances_add(&to->instances, &more->instances);
}

static void max_amount(Amount *to, const Amount *other)
{
    to->cpu = fmax(to->cpu, other->cpu);
    to->memory = fmax(to->memory, other->memory);
    to->gpus = fmax(to->gpus, other->gpus);
    to->shared |= other->shared;
    kube_instances_max(&to->instances, &other->instances);
}

/* Init containers run one after the other, beside the sidecars before them: *ret_peak. Sidecars stay: *sum. */
static int read_init(KubeMig *mig, const KubeField *spec, Amount *sum, Amount *ret_peak, Err *err)
{
    KubeField list, item;
    Amount one;

    TRY(kube_field_get(spec, "initContainers", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        const char *restart = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(read_container(mig, &item, &one, err));
        TRY(kube_field_text(&item, "restartPolicy", &restart, err));
        Amount with = *sum;
        add_amount(&with, &one);
        max_amount(ret_peak, &with);
        if (strcmp(restart, "Always") == 0)
            *sum = with;
    }
    return 0;
}

static int read_amount(KubeMig *mig, const KubeField *spec, Amount *ret, Err *err)
{
    KubeField list, item, overhead;
    Amount sum = {.cpu = 0}, peak = {.cpu = 0}, one, over = {.cpu = 0};

    TRY(read_init(mig, spec, &sum, &peak, err));
    TRY(kube_field_get(spec, "containers", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(read_container(mig, &item, &one, err));
        add_amount(&sum, &one);
    }
    TRY(kube_field_get(spec, "overhead", JSON_OBJECT, &overhead, err));
    TRY(kube_field_quantity(&overhead, "cpu", &over.cpu, err));
    TRY(kube_field_quantity(&overhead, "memory", &over.memory, err));
    max_amount(&sum, &peak);
    add_amount(&sum, &over);
    *ret = sum;
    return 0;
}

/* Rounded up; a sum of decimal fractions is not exact. */
static uint32_t round_up(double value)
{
    return value >= UINT32_MAX ? UINT32_MAX : (uint32_t)ceil(value - 1e-9);
}

int kube_request_count_gpus(const KubeField *spec, double *ret, Err *err)
{
    Amount amount;

    TRY(read_amount(NULL, spec, &amount, err));
    *ret = amount.gpus;
    return 0;
}

/* False: it asks for what a request cannot say. */
static bool set_gpus(const Amount *amount, ClusterRequest *request)
{
    const double instances = kube_instances_sum(&amount->instances);

    if (amount->gpus > CLUSTER_GPUS_MAX || (amount->gpus <= 0 && (amount->shared || instances > 1)))
        return false;
    if (amount->gpus > 0) {
        request->gpu_count = (uint8_t)ceil(amount->gpus);
        request->gpu_milli = CLUSTER_GPU;
    } else if (instances > 0) {
        request->gpu_count = 1;
        for (size_t i = 0; i < amount->instances.len; i++)
            if (amount->instances.at[i].count > 0)
                request->mig = amount->instances.at[i].profile;
    }
    return true;
}

bool kube_request_add_claimed(ClusterRequest *request, const KubeClaimed *claimed)
{
    if (claimed->gpus == 0)
        return !claimed->parts;
    if (claimed->parts || request->mig || request->gpu_count + claimed->gpus > CLUSTER_GPUS_MAX)
        return false;
    request->gpu_count = (uint8_t)(request->gpu_count + claimed->gpus);
    request->gpu_milli = CLUSTER_GPU;
    return true;
}

int kube_request_read(KubeRules *rules, KubeMig *mig, const KubeField *spec, ClusterRequest *ret,
                      KubeInstances *ret_instances, Err *err)
{
    ClusterRequest request = {.cpu_milli = 0};
    Amount amount;

    TRY(read_amount(mig, spec, &amount, err));
    request.cpu_milli = round_up(amount.cpu * 1000);
    request.memory_mib = round_up(amount.memory / 0x1p20);
    TRY(kube_rules_read(rules, spec, &request.rules, &request.rule_count, err));
    const bool fits = set_gpus(&amount, &request);
    *ret = request;
    *ret_instances = amount.instances;
    return fits ? 0 : KUBE_REQUEST_OUTSIDE;
}
