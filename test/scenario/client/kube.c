/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVIDIA's programs of a Kubernetes node ask, in their order and with their reading of the answers, while GPUs
 * are lost: the device plugin (k8s-device-plugin v0.20, internal/rm), GPU feature discovery (its internal/lm) and
 * mig-parted v0.15 (pkg/mig). Writes what each concludes, a line each; test_client.py knows what is right.
 */
#include "client.h"

#include <string.h>
#include <unistd.h>

enum { GPUS_MAX = 8, PROFILES = 0x12, MIG_MAX = 8 };

/* --- faults ------------------------------------------------------------------------------------------------------ */

static void apply(Client *c, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    if (sim_op_apply(c->image, &op, NULL, 0, NULL) != SIM_OK)
        client_wrong(c, "op %d on GPU %d is refused", (int)op.type, (int)op.gpu);
    sim_clock_advance(c->image, 100 * SIM_TICK_NS);
}

static void apply_xid(Client *c, int32_t gpu, int32_t code)
{
    apply(c, (SimOp){.type = SIM_OP_XID, .gpu = gpu, .a = {code, SIM_NONE, SIM_NONE, SIM_NONE}});
}

/* --- the device plugin ------------------------------------------------------------------------------------------- */

typedef struct Plugin {
    unsigned int count;
    char uuid[GPUS_MAX][96];
    int healthy[GPUS_MAX];
    nvmlEventSet_t set;
} Plugin;

/* What becomes of one GPU that is listed: every error ends the listing. */
static nvmlReturn_t list_gpu(nvmlDevice_t gpu, char uuid[96])
{
    char name[96];
    unsigned int current, pending, minor_number;
    int major, minor_cc;
    nvmlPciInfo_t pci;
    nvmlMemory_t memory;
    nvmlReturn_t r = CALL(nvmlDeviceGetName, gpu, name, sizeof name);
    r = r ? r : CALL(nvmlDeviceGetMigMode, gpu, &current, &pending);
    r = r ? r : CALL(nvmlDeviceGetUUID, gpu, uuid, 96);
    r = r ? r : CALL(nvmlDeviceGetMinorNumber, gpu, &minor_number);
    r = r ? r : CALL(nvmlDeviceGetPciInfo_v3, gpu, &pci);
    r = r ? r : CALL(nvmlDeviceGetMemoryInfo, gpu, &memory);
    return r ? r : CALL(nvmlDeviceGetCudaComputeCapability, gpu, &major, &minor_cc);
}

static nvmlReturn_t plugin_list(Plugin *p)
{
    nvmlReturn_t r = CALL(nvmlDeviceGetCount_v2, &p->count);
    for (unsigned int i = 0; r == NVML_SUCCESS && i < p->count && i < GPUS_MAX; i++) {
        nvmlDevice_t gpu;
        r = CALL(nvmlDeviceGetHandleByIndex_v2, i, &gpu);
        r = r ? r : list_gpu(gpu, p->uuid[i]);
    }
    return r;
}

static void plugin_watch(Plugin *p)
{
    const unsigned long long wanted =
        nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError;
    nvmlReturn_t created = CALL(nvmlEventSetCreate, &p->set);
    for (unsigned int i = 0; i < p->count; i++) {
        nvmlDevice_t gpu;
        unsigned long long types = 0;
        nvmlReturn_t r = created ? created : CALL(nvmlDeviceGetHandleByUUID, p->uuid[i], &gpu);
        r = r ? r : CALL(nvmlDeviceGetSupportedEventTypes, gpu, &types);
        r = r ? r : CALL(nvmlDeviceRegisterEvents, gpu, wanted & types, p->set);
        p->healthy[i] = r == NVML_SUCCESS || r == NVML_ERROR_NOT_SUPPORTED;
    }
}

static void mark_all(Plugin *p)
{
    memset(p->healthy, 0, sizeof p->healthy);
}

static void take_event(Plugin *p, const nvmlEventData_t *event)
{
    static const unsigned long long ignored[] = {13, 31, 43, 45, 68, 109};
    char uuid[96];
    if (event->eventType != nvmlEventTypeXidCriticalError)
        return;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (event->eventData == ignored[i])
            return;
    if (CALL(nvmlDeviceGetUUID, event->device, uuid, sizeof uuid) != NVML_SUCCESS) {
        mark_all(p);
        return;
    }
    for (unsigned int i = 0; i < p->count; i++)
        if (strcmp(uuid, p->uuid[i]) == 0)
            p->healthy[i] = 0;
}

/* Waits until nothing comes any more, and once again: a wait that ends in an error at once would go on for ever. */
static void plugin_wait(Client *c, Plugin *p, const char *when)
{
    for (int errors = 0, quiet = 0; quiet < 2 && errors < 3;) {
        nvmlEventData_t event;
        const nvmlReturn_t r = CALL(nvmlEventSetWait_v2, p->set, &event, 5);
        if (r == NVML_SUCCESS)
            take_event(p, &event);
        else if (r != NVML_ERROR_TIMEOUT)
            mark_all(p);
        quiet += r == NVML_ERROR_TIMEOUT;
        errors += r != NVML_ERROR_TIMEOUT && r != NVML_SUCCESS;
    }
    fprintf(c->out, "plugin, %s:", when);
    for (unsigned int i = 0; i < p->count; i++)
        fprintf(c->out, p->healthy[i] ? " %u" : " -", i);
    fputc('\n', c->out);
}

static void run_plugin(Client *c)
{
    Plugin p = {0};
    if (plugin_list(&p) != NVML_SUCCESS)
        client_wrong(c, "the plugin cannot list a node that is well");
    plugin_watch(&p);
    plugin_wait(c, &p, "well");
    apply_xid(c, 0, 31);
    plugin_wait(c, &p, "31 on 0");
    apply_xid(c, 3, 79);
    plugin_wait(c, &p, "79 on 3");
    apply_xid(c, 1, 95); /* wants a reset from now on */
    plugin_wait(c, &p, "95 on 1");
    apply(c, (SimOp){.type = SIM_OP_LOST, .gpu = 2});
    plugin_wait(c, &p, "2 lost without an XID"); /* which it does not see */
    CALL(nvmlEventSetFree, p.set);
    fprintf(c->out, "plugin, started again: %d\n", (int)plugin_list(&p)); /* known of it: one lost GPU ends it */
}

/* --- GPU feature discovery --------------------------------------------------------------------------------------- */

/* Whether a GPU belongs to an NVLink domain of several nodes, as go-nvlib reads it. */
static nvmlReturn_t is_in_clique(nvmlDevice_t gpu, int *ret)
{
    static const unsigned char none[16];
    nvmlGpuFabricInfo_t info = {0};
    const nvmlReturn_t r = CALL(nvmlDeviceGetGpuFabricInfo, gpu, &info);
    *ret |= r == NVML_SUCCESS && info.state == NVML_GPU_FABRIC_STATE_COMPLETED && info.status == NVML_SUCCESS &&
            memcmp(info.clusterUuid, none, sizeof none) != 0;
    return r == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : r;
}

static nvmlReturn_t label_gpus(Client *c, unsigned int count)
{
    char name[96] = "";
    unsigned int current, pending;
    int major = 0, minor_cc = 0, clique = 0;
    nvmlMemory_t memory = {0};
    for (unsigned int i = 0; i < count; i++) {
        nvmlDevice_t gpu;
        nvmlReturn_t r = CALL(nvmlDeviceGetHandleByIndex_v2, i, &gpu);
        r = r ? r : CALL(nvmlDeviceGetName, gpu, name, sizeof name);
        r = r ? r : CALL(nvmlDeviceGetMigMode, gpu, &current, &pending);
        r = r ? r : CALL(nvmlDeviceGetMemoryInfo, gpu, &memory);
        r = r ? r : CALL(nvmlDeviceGetCudaComputeCapability, gpu, &major, &minor_cc);
        r = r ? r : is_in_clique(gpu, &clique);
        if (r != NVML_SUCCESS)
            return r;
    }
    fprintf(c->out, "labels: %u x %s, %llu MiB, %d.%d, clique %d\n", count, name, memory.total >> 20, major, minor_cc,
            clique);
    return NVML_SUCCESS;
}

static void run_discovery(Client *c, const char *when)
{
    char driver[80] = "";
    int cuda = 0;
    unsigned int count = 0;
    nvmlReturn_t r = CALL(nvmlSystemGetDriverVersion, driver, sizeof driver);
    r = r ? r : CALL(nvmlSystemGetCudaDriverVersion, &cuda);
    r = r ? r : CALL(nvmlDeviceGetCount_v2, &count);
    r = r ? r : label_gpus(c, count);
    fprintf(c->out, "discovery, %s: driver %s, CUDA %d.%d, %d\n", when, driver, cuda / 1000, cuda % 1000 / 10, (int)r);
}

/* --- mig-parted -------------------------------------------------------------------------------------------------- */

/* GPUs that it finds by their addresses, which is how it counts them: it goes on without those that fail. */
static unsigned int count_by_address(const Client *c)
{
    unsigned int found = 0;
    for (uint32_t i = 0; i < c->image->gpu_count; i++) {
        const SimGpuId *id = &c->image->gpus[i];
        char address[32];
        nvmlDevice_t gpu;
        snprintf(address, sizeof address, "%04x:%02x:%02x.0", id->domain & 0xffff, id->bus & 0xff, id->device & 0xff);
        found += CALL(nvmlDeviceGetHandleByPciBusId_v2, address, &gpu) == NVML_SUCCESS;
    }
    return found;
}

/* Calls `visit` for each GPU instance, profile by profile. */
typedef nvmlReturn_t InstanceFn(nvmlGpuInstance_t gi, unsigned int *made);
static nvmlReturn_t walk_instances(nvmlDevice_t gpu, InstanceFn *visit, unsigned int *made)
{
    for (unsigned int profile = 0; profile < PROFILES; profile++) {
        nvmlGpuInstanceProfileInfo_t info;
        nvmlGpuInstance_t list[MIG_MAX];
        unsigned int count = 0;
        nvmlReturn_t r = CALL(nvmlDeviceGetGpuInstanceProfileInfo, gpu, profile, &info);
        if (r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_INVALID_ARGUMENT)
            continue;
        r = r ? r : CALL(nvmlDeviceGetGpuInstances, gpu, info.id, list, &count);
        for (unsigned int i = 0; r == NVML_SUCCESS && i < count; i++)
            r = visit(list[i], made);
        if (r != NVML_SUCCESS)
            return r;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t visit_computes(nvmlGpuInstance_t gi, int destroy, unsigned int *made)
{
    for (unsigned int profile = 0; profile < 8; profile++) {
        nvmlComputeInstanceProfileInfo_t info;
        nvmlComputeInstance_t list[MIG_MAX];
        unsigned int count = 0;
        nvmlReturn_t r = CALL(nvmlGpuInstanceGetComputeInstanceProfileInfo, gi, profile, 0, &info);
        if (r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_INVALID_ARGUMENT)
            continue;
        r = r ? r : CALL(nvmlGpuInstanceGetComputeInstances, gi, info.id, list, &count);
        for (unsigned int i = 0; r == NVML_SUCCESS && destroy && i < count; i++)
            r = CALL(nvmlComputeInstanceDestroy, list[i]);
        if (r != NVML_SUCCESS)
            return r;
        *made += count;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t export_instance(nvmlGpuInstance_t gi, unsigned int *made)
{
    return visit_computes(gi, 0, made);
}

static nvmlReturn_t clear_instance(nvmlGpuInstance_t gi, unsigned int *made)
{
    const nvmlReturn_t r = visit_computes(gi, 1, made);
    return r ? r : CALL(nvmlGpuInstanceDestroy, gi);
}

/* Its "all-balanced": 3g, 2g and two 1g, the largest first. */
static nvmlReturn_t create_balanced(nvmlDevice_t gpu)
{
    static const unsigned int profiles[] = {2, 1, 0, 0};
    nvmlReturn_t r = NVML_SUCCESS;
    for (size_t i = 0; r == NVML_SUCCESS && i < sizeof profiles / sizeof *profiles; i++) {
        nvmlGpuInstanceProfileInfo_t info;
        nvmlComputeInstanceProfileInfo_t compute;
        nvmlGpuInstance_t gi;
        nvmlComputeInstance_t ci;
        r = CALL(nvmlDeviceGetGpuInstanceProfileInfo, gpu, profiles[i], &info);
        r = r ? r : CALL(nvmlDeviceCreateGpuInstance, gpu, info.id, &gi);
        r = r ? r : CALL(nvmlGpuInstanceGetComputeInstanceProfileInfo, gi, profiles[i], 0, &compute);
        r = r ? r : CALL(nvmlGpuInstanceCreateComputeInstance, gi, compute.id, &ci);
    }
    return r;
}

static nvmlReturn_t apply_config(unsigned int index, int on, unsigned int *made)
{
    nvmlDevice_t gpu;
    unsigned int current, pending, cleared = 0;
    nvmlMemory_t memory;
    nvmlReturn_t status, r = CALL(nvmlDeviceGetHandleByIndex_v2, index, &gpu);
    r = r ? r : CALL(nvmlDeviceGetMigMode, gpu, &current, &pending);
    if (r == NVML_SUCCESS && current)
        r = walk_instances(gpu, clear_instance, &cleared);
    r = r ? r : CALL(nvmlDeviceSetMigMode, gpu, on ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE, &status);
    r = r ? r : status;
    r = r ? r : CALL(nvmlDeviceGetMemoryInfo, gpu, &memory);
    if (!on)
        return r;
    r = r ? r : create_balanced(gpu);
    return r ? r : walk_instances(gpu, export_instance, made);
}

/* How the plugin finds a MIG device's GPU and instances. */
static nvmlReturn_t place_mig(nvmlDevice_t gpu, unsigned int index)
{
    nvmlDevice_t mig, parent;
    char uuid[96], of_parent[96], of_gpu[96];
    unsigned int gi, ci;
    nvmlDeviceAttributes_t attributes;
    nvmlReturn_t r = CALL(nvmlDeviceGetMigDeviceHandleByIndex, gpu, index, &mig);
    r = r ? r : CALL(nvmlDeviceGetUUID, mig, uuid, sizeof uuid);
    r = r ? r : CALL(nvmlDeviceGetHandleByUUID, uuid, &mig);
    r = r ? r : CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig, &parent);
    r = r ? r : CALL(nvmlDeviceGetUUID, parent, of_parent, sizeof of_parent);
    r = r ? r : CALL(nvmlDeviceGetUUID, gpu, of_gpu, sizeof of_gpu);
    r = r ? r : CALL(nvmlDeviceGetGpuInstanceId, mig, &gi);
    r = r ? r : CALL(nvmlDeviceGetComputeInstanceId, mig, &ci);
    r = r ? r : CALL(nvmlDeviceGetAttributes_v2, mig, &attributes);
    return r ? r : strcmp(of_parent, of_gpu) == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static unsigned int count_migs(unsigned int index)
{
    nvmlDevice_t gpu;
    unsigned int max = 0, found = 0;
    if (CALL(nvmlDeviceGetHandleByIndex_v2, index, &gpu) == NVML_SUCCESS)
        CALL(nvmlDeviceGetMaxMigDeviceCount, gpu, &max);
    for (unsigned int i = 0; i < max; i++)
        found += place_mig(gpu, i) == NVML_SUCCESS;
    return found;
}

/* MIG on and off again on all that is found; in between GPU `lost` falls off the bus, SIM_NONE: none. */
static void run_parted(Client *c, const char *when, int32_t lost)
{
    const unsigned int found = count_by_address(c);
    fprintf(c->out, "parted, %s: %u GPUs,", when, found);
    for (unsigned int i = 0; i < found; i++) {
        unsigned int made = 0;
        const nvmlReturn_t r = apply_config(i, 1, &made);
        fprintf(c->out, " %d %u", (int)r, made);
    }
    if (lost != SIM_NONE)
        apply(c, (SimOp){.type = SIM_OP_LOST, .gpu = lost});
    fprintf(c->out, "; the plugin finds");
    for (unsigned int i = 0; i < found; i++)
        fprintf(c->out, " %u", count_migs(i));
    fputc('\n', c->out);
    for (unsigned int i = 0; i < found; i++)
        if ((int32_t)i != lost && apply_config(i, 0, NULL) != NVML_SUCCESS)
            client_wrong(c, "MIG stays on on GPU %u", i);
}

void kube_run(Client *c)
{
    run_discovery(c, "well");
    if (geteuid() == 0)
        run_parted(c, "well", SIM_NONE);
    if (geteuid() == 0)
        run_parted(c, "3 lost later", 3);
    apply(c, (SimOp){.type = SIM_OP_LOST, .gpu = 3});
    run_discovery(c, "3 lost");
    if (geteuid() == 0)
        run_parted(c, "3 lost", SIM_NONE);
    apply(c, (SimOp){.type = SIM_OP_RESET, .gpu = 3});
    run_plugin(c);
    for (int32_t i = 1; i < 4; i++)
        apply(c, (SimOp){.type = SIM_OP_RESET, .gpu = i});
    Plugin p = {0};
    fprintf(c->out, "plugin, after resets: %d\n", (int)plugin_list(&p));
}
