/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per function: its arguments in order. What runs over several values is called with all of them. All arguments
 * are integers or pointers, which the calling conventions of x86-64 and arm64 pass alike, in registers: so one call
 * with six words serves every row.
 */
#include "client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum ArgKind {
    ARG_NONE,
    ARG_DEVICE, /* each device */
    ARG_GPU,    /* each whole GPU */
    ARG_PEER,   /* each whole GPU, as a second one */
    ARG_INSTANCE,
    ARG_COMPUTE,
    ARG_RANGE,   /* from 0 to size - 1 */
    ARG_VALUE,   /* size itself */
    ARG_OUT,     /* a value or struct */
    ARG_TAGGED,  /* a struct with a version */
    ARG_TEXT,    /* a buffer; its length is an ARG_VALUE after it */
    ARG_COUNT,   /* places of an array in, entries out */
    ARG_ARRAY,   /* entries of `size` bytes */
    ARG_WORDS,   /* a mask of four words; their number is an ARG_VALUE before it */
    ARG_DEVICES, /* an array of handles */
    ARG_HANDLES, /* other handles: said only how many */
} ArgKind;

typedef struct Arg {
    ArgKind kind;
    unsigned int size, version, skip; /* skip: bytes at the start that hold handles */
} Arg;

enum { ARGS_MAX = 6, BUFFER_BYTES = 16384 };

typedef struct Row {
    NvmlFn fn;
    Arg args[ARGS_MAX];
} Row;

#define DEV                                                                                                            \
    {                                                                                                                  \
        .kind = ARG_DEVICE                                                                                             \
    }
#define GPU                                                                                                            \
    {                                                                                                                  \
        .kind = ARG_GPU                                                                                                \
    }
#define PEER                                                                                                           \
    {                                                                                                                  \
        .kind = ARG_PEER                                                                                               \
    }
#define GI                                                                                                             \
    {                                                                                                                  \
        .kind = ARG_INSTANCE                                                                                           \
    }
#define CI                                                                                                             \
    {                                                                                                                  \
        .kind = ARG_COMPUTE                                                                                            \
    }
#define RANGE(n)                                                                                                       \
    {                                                                                                                  \
        .kind = ARG_RANGE, .size = (n)                                                                                 \
    }
#define VALUE(n)                                                                                                       \
    {                                                                                                                  \
        .kind = ARG_VALUE, .size = (unsigned int)(n)                                                                   \
    }
#define OUT(type)                                                                                                      \
    {                                                                                                                  \
        .kind = ARG_OUT, .size = sizeof(type)                                                                          \
    }
#define OUT_SKIP(type, n)                                                                                              \
    {                                                                                                                  \
        .kind = ARG_OUT, .size = sizeof(type), .skip = (n)                                                             \
    }
#define TAGGED(type, ver)                                                                                              \
    {                                                                                                                  \
        .kind = ARG_TAGGED, .size = sizeof(type), .version = (ver)                                                     \
    }
#define TEXT(n) {.kind = ARG_TEXT, .size = (n)}, VALUE(n)
#define BARE_TEXT(n)                                                                                                   \
    {                                                                                                                  \
        .kind = ARG_TEXT, .size = (n)                                                                                  \
    }
#define COUNT                                                                                                          \
    {                                                                                                                  \
        .kind = ARG_COUNT                                                                                              \
    }
#define ARRAY(type)                                                                                                    \
    {                                                                                                                  \
        .kind = ARG_ARRAY, .size = sizeof(type)                                                                        \
    }
#define WORDS                                                                                                          \
    VALUE(4),                                                                                                          \
    {                                                                                                                  \
        .kind = ARG_WORDS                                                                                              \
    }
#define DEVICES                                                                                                        \
    {                                                                                                                  \
        .kind = ARG_DEVICES                                                                                            \
    }
#define HANDLES                                                                                                        \
    {                                                                                                                  \
        .kind = ARG_HANDLES                                                                                            \
    }
#define ROW(name, ...) {NVML_FN_##name, {__VA_ARGS__}},
typedef unsigned int U32;
typedef unsigned long long U64;

/* clang-format off */
static const Row read_rows[] = {
    ROW(nvmlSystemGetDriverVersion, TEXT(80))
    ROW(nvmlSystemGetNVMLVersion, TEXT(80))
    ROW(nvmlSystemGetCudaDriverVersion, OUT(int))
    ROW(nvmlSystemGetCudaDriverVersion_v2, OUT(int))
    ROW(nvmlSystemGetTopologyGpuSet, RANGE(3), COUNT, DEVICES)
    ROW(nvmlSystemGetConfComputeState, OUT(nvmlConfComputeSystemState_t))
    ROW(nvmlSystemGetConfComputeSettings, TAGGED(nvmlSystemConfComputeSettings_t, 1))
    ROW(nvmlDeviceGetCount, OUT(U32))
    ROW(nvmlDeviceGetCount_v2, OUT(U32))

    ROW(nvmlDeviceGetName, DEV, TEXT(96))
    ROW(nvmlDeviceGetSerial, DEV, TEXT(30))
    ROW(nvmlDeviceGetUUID, DEV, TEXT(96))
    ROW(nvmlDeviceGetVbiosVersion, DEV, TEXT(32))
    ROW(nvmlDeviceGetInforomImageVersion, DEV, TEXT(16))
    ROW(nvmlDeviceGetInforomVersion, DEV, RANGE(4), TEXT(16))
    ROW(nvmlDeviceGetInforomConfigurationChecksum, DEV, OUT(U32))
    ROW(nvmlDeviceValidateInforom, DEV)
    ROW(nvmlDeviceGetGspFirmwareVersion, DEV, BARE_TEXT(64))
    ROW(nvmlDeviceGetGspFirmwareMode, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetBoardId, DEV, OUT(U32))
    ROW(nvmlDeviceGetIndex, DEV, OUT(U32))
    ROW(nvmlDeviceGetMinorNumber, DEV, OUT(U32))
    ROW(nvmlDeviceGetMultiGpuBoard, DEV, OUT(U32))
    ROW(nvmlDeviceOnSameBoard, GPU, PEER, OUT(int))
    ROW(nvmlDeviceGetBrand, DEV, OUT(nvmlBrandType_t))
    ROW(nvmlDeviceGetArchitecture, DEV, OUT(nvmlDeviceArchitecture_t))
    ROW(nvmlDeviceGetCudaComputeCapability, DEV, OUT(int), OUT(int))
    ROW(nvmlDeviceGetAttributes_v2, DEV, OUT(nvmlDeviceAttributes_t))
    ROW(nvmlDeviceGetPlatformInfo, DEV, TAGGED(nvmlPlatformInfo_t, 2))
    ROW(nvmlDeviceGetHostname_v1, DEV, OUT(nvmlHostname_v1_t))
    ROW(nvmlDeviceGetPdi, DEV, TAGGED(nvmlPdi_t, 1))
    ROW(nvmlDeviceGetAddressingMode, DEV, TAGGED(nvmlDeviceAddressingMode_t, 1))
    ROW(nvmlDeviceGetC2cModeInfoV, DEV, OUT(nvmlC2cModeInfo_v1_t))
    ROW(nvmlDeviceGetBridgeChipInfo, DEV, OUT(nvmlBridgeChipHierarchy_t))

    ROW(nvmlDeviceGetPciInfo, DEV, OUT(nvmlPciInfo_v1_t))
    ROW(nvmlDeviceGetPciInfo_v2, DEV, OUT(nvmlPciInfo_v1_t))
    ROW(nvmlDeviceGetPciInfo_v3, DEV, OUT(nvmlPciInfo_t))
    ROW(nvmlDeviceGetPciInfoExt, DEV, TAGGED(nvmlPciInfoExt_t, 1))
    ROW(nvmlDeviceGetCurrPcieLinkGeneration, DEV, OUT(U32))
    ROW(nvmlDeviceGetCurrPcieLinkWidth, DEV, OUT(U32))
    ROW(nvmlDeviceGetMaxPcieLinkGeneration, DEV, OUT(U32))
    ROW(nvmlDeviceGetMaxPcieLinkWidth, DEV, OUT(U32))
    ROW(nvmlDeviceGetGpuMaxPcieLinkGeneration, DEV, OUT(U32))
    ROW(nvmlDeviceGetPcieLinkMaxSpeed, DEV, OUT(U32))
    ROW(nvmlDeviceGetPcieReplayCounter, DEV, OUT(U32))
    ROW(nvmlDeviceGetPcieThroughput, DEV, RANGE(2), OUT(U32))

    ROW(nvmlDeviceGetMemoryInfo, DEV, OUT(nvmlMemory_t))
    ROW(nvmlDeviceGetMemoryInfo_v2, DEV, TAGGED(nvmlMemory_v2_t, 2))
    ROW(nvmlDeviceGetBAR1MemoryInfo, DEV, OUT(nvmlBAR1Memory_t))
    ROW(nvmlDeviceGetConfComputeProtectedMemoryUsage, DEV, OUT(nvmlMemory_t))
    ROW(nvmlDeviceGetConfComputeMemSizeInfo, DEV, OUT(nvmlConfComputeMemSizeInfo_t))
    ROW(nvmlDeviceGetUtilizationRates, DEV, OUT(nvmlUtilization_t))
    ROW(nvmlDeviceGetEncoderUtilization, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetDecoderUtilization, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetJpgUtilization, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetOfaUtilization, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetEncoderStats, DEV, OUT(U32), OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetFBCStats, DEV, OUT(nvmlFBCStats_t))
    ROW(nvmlDeviceGetFBCSessions, DEV, COUNT, ARRAY(nvmlFBCSessionInfo_t))
    ROW(nvmlDeviceGetSamples, DEV, RANGE(10), VALUE(0), OUT(nvmlValueType_t), COUNT, ARRAY(nvmlSample_t))

    ROW(nvmlDeviceGetClockInfo, DEV, RANGE(4), OUT(U32))
    ROW(nvmlDeviceGetMaxClockInfo, DEV, RANGE(4), OUT(U32))
    ROW(nvmlDeviceGetApplicationsClock, DEV, RANGE(4), OUT(U32))
    ROW(nvmlDeviceGetDefaultApplicationsClock, DEV, RANGE(4), OUT(U32))
    ROW(nvmlDeviceGetClock, DEV, RANGE(4), RANGE(4), OUT(U32))
    ROW(nvmlDeviceGetSupportedMemoryClocks, DEV, COUNT, ARRAY(U32))
    ROW(nvmlDeviceGetAutoBoostedClocksEnabled, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetCurrentClocksEventReasons, DEV, OUT(U64))
    ROW(nvmlDeviceGetCurrentClocksThrottleReasons, DEV, OUT(U64))
    ROW(nvmlDeviceGetSupportedClocksEventReasons, DEV, OUT(U64))
    ROW(nvmlDeviceGetSupportedClocksThrottleReasons, DEV, OUT(U64))
    ROW(nvmlDeviceGetViolationStatus, DEV, RANGE(12), OUT(nvmlViolationTime_t))
    ROW(nvmlDeviceGetPerformanceState, DEV, OUT(U32))
    ROW(nvmlDeviceGetPowerState, DEV, OUT(U32))
    ROW(nvmlDeviceGetPowerUsage, DEV, OUT(U32))
    ROW(nvmlDeviceGetPowerManagementMode, DEV, OUT(U32))
    ROW(nvmlDeviceGetPowerManagementLimit, DEV, OUT(U32))
    ROW(nvmlDeviceGetPowerManagementDefaultLimit, DEV, OUT(U32))
    ROW(nvmlDeviceGetPowerManagementLimitConstraints, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetEnforcedPowerLimit, DEV, OUT(U32))
    ROW(nvmlDeviceGetTotalEnergyConsumption, DEV, OUT(U64))
    ROW(nvmlDeviceGetTemperature, DEV, RANGE(1), OUT(U32))
    ROW(nvmlDeviceGetTemperatureV, DEV, TAGGED(nvmlTemperature_t, 1))
    ROW(nvmlDeviceGetTemperatureThreshold, DEV, RANGE(8), OUT(U32))
    ROW(nvmlDeviceGetMarginTemperature, DEV, TAGGED(nvmlMarginTemperature_t, 1))
    ROW(nvmlDeviceGetFanSpeed, DEV, OUT(U32))

    ROW(nvmlDeviceGetEccMode, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetTotalEccErrors, DEV, RANGE(2), RANGE(2), OUT(U64))
    ROW(nvmlDeviceGetDetailedEccErrors, DEV, RANGE(2), RANGE(2), OUT(nvmlEccErrorCounts_t))
    ROW(nvmlDeviceGetMemoryErrorCounter, DEV, RANGE(2), RANGE(2), RANGE(8), OUT(U64))
    ROW(nvmlDeviceGetSramEccErrorStatus, DEV, TAGGED(nvmlEccSramErrorStatus_t, 1))
    ROW(nvmlDeviceGetRetiredPages, DEV, RANGE(2), COUNT, ARRAY(U64))
    ROW(nvmlDeviceGetRetiredPagesPendingStatus, DEV, OUT(U32))
    ROW(nvmlDeviceGetRemappedRows, DEV, OUT(U32), OUT(U32), OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetRemappedRows_v2, DEV, OUT(nvmlRemappedRowsInfo_v2_t))
    ROW(nvmlDeviceGetRowRemapperHistogram, DEV, OUT(nvmlRowRemapperHistogramValues_t))
    ROW(nvmlDeviceGetDramEncryptionMode, DEV, TAGGED(nvmlDramEncryptionInfo_t, 1), TAGGED(nvmlDramEncryptionInfo_t, 1))

    ROW(nvmlDeviceGetComputeMode, DEV, OUT(U32))
    ROW(nvmlDeviceGetPersistenceMode, DEV, OUT(U32))
    ROW(nvmlDeviceGetDisplayMode, DEV, OUT(U32))
    ROW(nvmlDeviceGetDisplayActive, DEV, OUT(U32))
    ROW(nvmlDeviceGetDriverModel, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetDriverModel_v2, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetGpuOperationMode, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceGetAPIRestriction, DEV, RANGE(2), OUT(U32))
    ROW(nvmlDeviceWorkloadPowerProfileGetProfilesInfo, DEV, TAGGED(nvmlWorkloadPowerProfileProfilesInfo_t, 1))
    ROW(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles, DEV, TAGGED(nvmlWorkloadPowerProfileCurrentProfiles_t, 1))

    ROW(nvmlDeviceGetComputeRunningProcesses, DEV, COUNT, ARRAY(nvmlProcessInfo_v1_t))
    ROW(nvmlDeviceGetComputeRunningProcesses_v2, DEV, COUNT, ARRAY(nvmlProcessInfo_v2_t))
    ROW(nvmlDeviceGetComputeRunningProcesses_v3, DEV, COUNT, ARRAY(nvmlProcessInfo_t))
    ROW(nvmlDeviceGetGraphicsRunningProcesses, DEV, COUNT, ARRAY(nvmlProcessInfo_v1_t))
    ROW(nvmlDeviceGetGraphicsRunningProcesses_v2, DEV, COUNT, ARRAY(nvmlProcessInfo_v2_t))
    ROW(nvmlDeviceGetGraphicsRunningProcesses_v3, DEV, COUNT, ARRAY(nvmlProcessInfo_t))
    ROW(nvmlDeviceGetMPSComputeRunningProcesses, DEV, COUNT, ARRAY(nvmlProcessInfo_v1_t))
    ROW(nvmlDeviceGetMPSComputeRunningProcesses_v2, DEV, COUNT, ARRAY(nvmlProcessInfo_v2_t))
    ROW(nvmlDeviceGetMPSComputeRunningProcesses_v3, DEV, COUNT, ARRAY(nvmlProcessInfo_t))
    ROW(nvmlDeviceGetProcessUtilization, DEV, ARRAY(nvmlProcessUtilizationSample_t), COUNT, VALUE(0))
    ROW(nvmlDeviceGetAccountingMode, DEV, OUT(U32))
    ROW(nvmlDeviceGetAccountingBufferSize, DEV, OUT(U32))
    ROW(nvmlDeviceGetAccountingPids, DEV, COUNT, ARRAY(U32))
    ROW(nvmlDeviceGetAccountingStats, DEV, VALUE(1), OUT(nvmlAccountingStats_t))

    ROW(nvmlDeviceGetCpuAffinity, DEV, WORDS)
    ROW(nvmlDeviceGetCpuAffinityWithinScope, DEV, WORDS, RANGE(2))
    ROW(nvmlDeviceGetMemoryAffinity, DEV, WORDS, RANGE(2))
    ROW(nvmlDeviceGetTopologyCommonAncestor, GPU, PEER, OUT(U32))
    ROW(nvmlDeviceGetTopologyNearestGpus, DEV, VALUE(50), COUNT, DEVICES)
    ROW(nvmlDeviceGetP2PStatus, GPU, PEER, RANGE(5), OUT(U32))

    ROW(nvmlDeviceGetNvLinkState, DEV, RANGE(20), OUT(U32))
    ROW(nvmlDeviceGetNvLinkVersion, DEV, RANGE(20), OUT(U32))
    ROW(nvmlDeviceGetNvLinkCapability, DEV, RANGE(2), RANGE(6), OUT(U32))
    ROW(nvmlDeviceGetNvLinkRemotePciInfo_v2, DEV, RANGE(20), OUT(nvmlPciInfo_t))
    ROW(nvmlDeviceGetNvLinkRemoteDeviceType, DEV, RANGE(20), OUT(U32))
    ROW(nvmlDeviceGetNvLinkErrorCounter, DEV, RANGE(20), RANGE(5), OUT(U64))
    ROW(nvmlDeviceGetNvLinkUtilizationControl, DEV, RANGE(2), RANGE(2), OUT(nvmlNvLinkUtilizationControl_t))
    ROW(nvmlDeviceGetNvLinkUtilizationCounter, DEV, RANGE(2), RANGE(2), OUT(U64), OUT(U64))
    ROW(nvmlDeviceGetGpuFabricInfo, DEV, OUT(nvmlGpuFabricInfo_t))
    ROW(nvmlDeviceGetGpuFabricInfoV, DEV, TAGGED(nvmlGpuFabricInfoV_t, 3))

    ROW(nvmlDeviceGetMigMode, DEV, OUT(U32), OUT(U32))
    ROW(nvmlDeviceIsMigDeviceHandle, DEV, OUT(U32))
    ROW(nvmlDeviceGetMaxMigDeviceCount, DEV, OUT(U32))
    ROW(nvmlDeviceGetMigDeviceHandleByIndex, DEV, RANGE(8), DEVICES)
    ROW(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, DEV, DEVICES)
    ROW(nvmlDeviceGetGpuInstanceId, DEV, OUT(U32))
    ROW(nvmlDeviceGetComputeInstanceId, DEV, OUT(U32))
    ROW(nvmlDeviceGetGpuInstanceProfileInfo, DEV, RANGE(18), OUT(nvmlGpuInstanceProfileInfo_t))
    ROW(nvmlDeviceGetGpuInstancePossiblePlacements_v2, DEV, RANGE(68), ARRAY(nvmlGpuInstancePlacement_t), COUNT)
    ROW(nvmlDeviceGetGpuInstances, DEV, RANGE(68), HANDLES, COUNT)
    ROW(nvmlDeviceGetGpuInstanceById, DEV, RANGE(15), HANDLES)
    ROW(nvmlGpuInstanceGetInfo, GI, OUT_SKIP(nvmlGpuInstanceInfo_t, 8))
    ROW(nvmlGpuInstanceGetComputeInstanceProfileInfo, GI, RANGE(8), RANGE(1), OUT(nvmlComputeInstanceProfileInfo_t))
    ROW(nvmlGpuInstanceGetComputeInstances, GI, RANGE(8), HANDLES, COUNT)
    ROW(nvmlGpuInstanceGetComputeInstanceById, GI, RANGE(4), HANDLES)
    ROW(nvmlComputeInstanceGetInfo, CI, OUT_SKIP(nvmlComputeInstanceInfo_v1_t, 16))
    ROW(nvmlComputeInstanceGetInfo_v2, CI, OUT_SKIP(nvmlComputeInstanceInfo_t, 16))

    ROW(nvmlDeviceGetSupportedEventTypes, DEV, OUT(U64))
    ROW(nvmlGpmQueryDeviceSupport, DEV, TAGGED(nvmlGpmSupport_t, 0))
};

/* Values that are in force already or undo the row before. */
static const Row change_rows[] = {
    ROW(nvmlDeviceSetPersistenceMode, DEV, VALUE(1))
    ROW(nvmlDeviceSetComputeMode, DEV, VALUE(0))
    ROW(nvmlDeviceSetAccountingMode, DEV, RANGE(2))
    ROW(nvmlDeviceClearAccountingPids, DEV)
    ROW(nvmlDeviceSetAccountingMode, DEV, VALUE(0))
    ROW(nvmlDeviceSetAPIRestriction, DEV, RANGE(2), VALUE(1))
    ROW(nvmlDeviceSetAutoBoostedClocksEnabled, DEV, VALUE(0))
    ROW(nvmlDeviceSetDefaultAutoBoostedClocksEnabled, DEV, VALUE(0), VALUE(0))
    ROW(nvmlDeviceSetDriverModel, DEV, VALUE(1), VALUE(0))
    ROW(nvmlDeviceSetEccMode, DEV, VALUE(1))
    ROW(nvmlDeviceSetGpuOperationMode, DEV, VALUE(0))
    ROW(nvmlDeviceSetGpuLockedClocks, DEV, VALUE(600), VALUE(900))
    ROW(nvmlDeviceResetGpuLockedClocks, DEV)
    ROW(nvmlDeviceSetMemoryLockedClocks, DEV, VALUE(5001), VALUE(5001))
    ROW(nvmlDeviceResetMemoryLockedClocks, DEV)
    ROW(nvmlDeviceSetApplicationsClocks, DEV, VALUE(5001), VALUE(900))
    ROW(nvmlDeviceResetApplicationsClocks, DEV)
    ROW(nvmlDeviceSetPowerManagementLimit, DEV, VALUE(1))
    ROW(nvmlDeviceSetCpuAffinity, DEV)
    ROW(nvmlDeviceClearCpuAffinity, DEV)
    ROW(nvmlDeviceClearEccErrorCounts, DEV, RANGE(2))
    ROW(nvmlDeviceResetNvLinkErrorCounters, DEV, RANGE(2))
    ROW(nvmlDeviceSetNvLinkUtilizationControl, DEV, RANGE(2), RANGE(2), OUT(nvmlNvLinkUtilizationControl_t), VALUE(1))
    ROW(nvmlDeviceFreezeNvLinkUtilizationCounter, DEV, RANGE(2), RANGE(2), VALUE(0))
    ROW(nvmlDeviceResetNvLinkUtilizationCounter, DEV, RANGE(2), RANGE(2))
    ROW(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles, DEV, TAGGED(nvmlWorkloadPowerProfileRequestedProfiles_t, 1))
    ROW(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles, DEV, TAGGED(nvmlWorkloadPowerProfileRequestedProfiles_t, 1))
};
/* clang-format on */

/* One call on its way. */
typedef struct Calling {
    Client *c;
    const Row *row;
    uint64_t word[ARGS_MAX];
    char what[160]; /* the values of what runs */
    void *buffer[ARGS_MAX];
    unsigned int count;
} Calling;

static void print_bytes(FILE *out, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t value = 0;
    if (size == 4 || size == 8) {
        memcpy(&value, p, size);
        fprintf(out, " %" PRIu64, value);
        return;
    }
    fputc(' ', out);
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%02x", p[i]);
}

static void print_arg(Calling *k, const Arg *arg, const void *buffer)
{
    FILE *out = k->c->out;
    const char *p = buffer;
    switch (arg->kind) {
    case ARG_OUT:
    case ARG_TAGGED:
        print_bytes(out, p + arg->skip, arg->size - arg->skip);
        break;
    case ARG_TEXT:
        if (!memchr(p, 0, arg->size))
            client_wrong(k->c, "%s: the text has no end", nvml_fn_name(k->row->fn));
        else
            fprintf(out, " '%s'", p);
        break;
    case ARG_COUNT:
        fprintf(out, " %u", k->count);
        break;
    case ARG_ARRAY:
        for (unsigned int i = 0; i < k->count && i < CLIENT_LIST_MAX; i++)
            print_bytes(out, p + (size_t)i * arg->size, arg->size);
        break;
    case ARG_WORDS:
        print_bytes(out, p, 4 * sizeof(unsigned long));
        break;
    case ARG_DEVICES:
        for (unsigned int i = 0; i < (k->count ? k->count : 1) && i < CLIENT_LIST_MAX; i++) {
            nvmlDevice_t device;
            memcpy(&device, p + i * sizeof device, sizeof device);
            fprintf(out, " #%d", client_device(k->c, device));
        }
        break;
    default:
        break;
    }
}

static void make(Calling *k)
{
    Client *c = k->c;
    ClientFn fn = library_fn(k->row->fn);
    unsigned char *room = fn ? calloc(ARGS_MAX, BUFFER_BYTES) : NULL;
    if (!fn)
        return; /* this driver generation does not export it */
    k->count = CLIENT_LIST_MAX;
    for (int i = 0; i < ARGS_MAX; i++) {
        const Arg *arg = &k->row->args[i];
        if (arg->kind < ARG_OUT)
            continue;
        k->buffer[i] = room + (size_t)i * BUFFER_BYTES;
        k->word[i] = (uintptr_t)k->buffer[i];
        if (arg->kind == ARG_COUNT)
            k->word[i] = (uintptr_t)&k->count;
        if (arg->kind != ARG_TAGGED)
            continue;
        unsigned int tag = arg->version ? arg->size | arg->version << 24 : 1; /* GPM counts its versions plainly */
        memcpy(k->buffer[i], &tag, sizeof tag);
    }
    int counts = 0;
    for (int i = 0; i < ARGS_MAX; i++)
        counts |= k->row->args[i].kind == ARG_COUNT;
    typedef nvmlReturn_t (*Six)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    nvmlReturn_t code = ((Six)fn)(k->word[0], k->word[1], k->word[2], k->word[3], k->word[4], k->word[5]);
    if (!counts || code != NVML_SUCCESS)
        k->count = counts ? k->count : 0;
    client_answer(c, nvml_fn_name(k->row->fn), k->what, code);
    for (int i = 0; i < ARGS_MAX && code == NVML_SUCCESS; i++)
        print_arg(k, &k->row->args[i], k->buffer[i]);
    fputc('\n', c->out);
    free(room);
}

/* How many values an argument runs over, and the i-th. */
static unsigned int values_of(const Client *c, const Arg *arg)
{
    switch (arg->kind) {
    case ARG_DEVICE:
        return c->device_count;
    case ARG_GPU:
    case ARG_PEER:
        return c->gpus;
    case ARG_INSTANCE:
        return c->instance_count;
    case ARG_COMPUTE:
        return c->compute_count;
    case ARG_RANGE:
        return arg->size;
    default:
        return 1;
    }
}

static uint64_t value_at(const Client *c, const Arg *arg, unsigned int i)
{
    switch (arg->kind) {
    case ARG_DEVICE:
    case ARG_GPU:
    case ARG_PEER:
        return (uintptr_t)c->devices[i];
    case ARG_INSTANCE:
        return (uintptr_t)c->instances[i];
    case ARG_COMPUTE:
        return (uintptr_t)c->computes[i];
    case ARG_RANGE:
        return i;
    default:
        return arg->size;
    }
}

static void run(Calling *k, int at)
{
    if (at == ARGS_MAX || k->row->args[at].kind == ARG_NONE) {
        make(k);
        return;
    }
    const Arg *arg = &k->row->args[at];
    size_t len = strlen(k->what);
    for (unsigned int i = 0; i < values_of(k->c, arg); i++) {
        k->word[at] = value_at(k->c, arg, i);
        if (arg->kind < ARG_VALUE)
            snprintf(k->what + len, sizeof k->what - len, "%s%u", len ? "," : "", i);
        run(k, at + 1);
        k->what[len] = '\0';
    }
}

static void run_all(Client *c, const Row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        Calling k = {.c = c, .row = &rows[i]};
        library_fn(rows[i].fn); /* asked for, though nothing may be there to ask it about */
        run(&k, 0);
    }
}

void rows_read(Client *c)
{
    run_all(c, read_rows, sizeof read_rows / sizeof *read_rows);
}

void rows_change(Client *c)
{
    run_all(c, change_rows, sizeof change_rows / sizeof *change_rows);
}
