/* SPDX-License-Identifier: Apache-2.0 */
/* Process lists, utilisation, names, accounting, sample buffers and encoder sessions. */
#include "rig.h"

#include <string.h>
#include <unistd.h>

#define MIB 1048576ull

/* ---- lists ---- */
static void counts_zero_exact_too_small(void **state)
{
    const Rig *rig = *state;
    nvmlProcessInfo_t info[4];
    unsigned int n = 0;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_HOPPER], &n, NULL), NVML_SUCCESS);
    assert_int_equal(n, 0);
    n = 4;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_HOPPER], &n, info), NVML_SUCCESS);
    assert_int_equal(n, 0);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_BUSY], &n, NULL),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 1);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_BUSY], &n, NULL),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_BUSY], &n, info), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(info[0].pid, PID_TRAINER);
    assert_true(info[0].usedGpuMemory >= 1000 * MIB);
    assert_int_equal(info[0].gpuInstanceId, 0xffffffffu);
    assert_int_equal(info[0].computeInstanceId, 0xffffffffu);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_BUSY], NULL, info),
                     NVML_ERROR_INVALID_ARGUMENT);
}

static void kinds_have_lists_of_their_own(void **state)
{
    const Rig *rig = *state;
    nvmlProcessInfo_t info[2];
    nvmlProcessInfo_v1_t old[2];
    unsigned int n = 2;
    assert_int_equal(nvmlDeviceGetMPSComputeRunningProcesses_v3(rig->gpu[RIG_BLACKWELL], &n, info), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(info[0].pid, PID_DECODER);
    n = 2;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v2(rig->gpu[RIG_BLACKWELL], &n, info), NVML_SUCCESS);
    assert_int_equal(n, 0);
    n = 2;
    memset(old, 0x5a, sizeof old);
    assert_int_equal(nvmlDeviceGetGraphicsRunningProcesses(rig->gpu[RIG_DESK], &n, old), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(old[0].pid, PID_DESKTOP);
    assert_int_equal(old[1].pid, 0x5a5a5a5a); /* entries of the first version are 16 bytes */
}

static void detail_list_by_mode(void **state)
{
    const Rig *rig = *state;
    nvmlProcessDetail_v1_t info[2];
    nvmlProcessDetailList_t list = {.version = nvmlProcessDetailList_v1, .mode = NVML_PROCESS_MODE_ALL};
    assert_int_equal(nvmlDeviceGetRunningProcessDetailList(rig->gpu[RIG_BUSY], &list), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(list.numProcArrayEntries, 1);
    list.procArray = info;
    assert_int_equal(nvmlDeviceGetRunningProcessDetailList(rig->gpu[RIG_BUSY], &list), NVML_SUCCESS);
    assert_int_equal(info[0].pid, PID_TRAINER);
    assert_int_equal(info[0].usedGpuCcProtectedMemory, 0);
    list.mode = NVML_PROCESS_MODE_GRAPHICS;
    assert_int_equal(nvmlDeviceGetRunningProcessDetailList(rig->gpu[RIG_BUSY], &list), NVML_SUCCESS);
    assert_int_equal(list.numProcArrayEntries, 0);
    list.mode = 4;
    assert_int_equal(nvmlDeviceGetRunningProcessDetailList(rig->gpu[RIG_BUSY], &list), NVML_ERROR_INVALID_ARGUMENT);
    list.version = 1;
    assert_int_equal(nvmlDeviceGetRunningProcessDetailList(rig->gpu[RIG_BUSY], &list),
                     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void mig_devices_list_their_own(void **state)
{
    const Rig *rig = *state;
    nvmlProcessInfo_t info[2];
    nvmlDevice_t first, second;
    unsigned int n = 2, gi_id = 0;
    rig_op(rig, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = RIG_HOPPER, .a = {1}});
    for (int i = 0; i < 2; i++)
        rig_op(rig, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = RIG_HOPPER, .a = {3, i * 4}});
    for (int i = 1; i <= 2; i++)
        rig_op(rig, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = RIG_HOPPER, .a = {i, 2, SIM_NONE}});
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {WORK_TENANT}});
    rig_step_ms(rig, 500);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(rig->gpu[RIG_HOPPER], 0, &first), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(rig->gpu[RIG_HOPPER], 1, &second), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &n, info), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(info[0].pid, PID_TENANT);
    assert_int_equal(nvmlDeviceGetGpuInstanceId(first, &gi_id), NVML_SUCCESS);
    assert_int_equal(info[0].gpuInstanceId, gi_id);
    assert_int_equal(info[0].computeInstanceId, 0);
    n = 2;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(second, &n, info), NVML_SUCCESS);
    assert_int_equal(n, 0);
    n = 2;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(rig->gpu[RIG_HOPPER], &n, info), NVML_SUCCESS);
    assert_int_equal(n, 1);
    nvmlProcessUtilizationSample_t sample;
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_HOPPER], &sample, &n, 0), NVML_ERROR_NOT_SUPPORTED);
}

/* ---- utilisation ---- */
static void utilisation_is_of_the_last_window(void **state)
{
    const Rig *rig = *state;
    nvmlProcessUtilizationSample_t sample[4];
    unsigned int n = 0;
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BUSY], NULL, &n, 0), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 1);
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BUSY], sample, &n, 0), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(sample[0].pid, PID_TRAINER);
    assert_int_equal(sample[0].smUtil, 80);
    assert_int_equal(sample[0].memUtil, 40);
    assert_true(sample[0].timeStamp > rig->image->epoch_us);
    n = 4; /* nothing newer while the clock stands */
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BUSY], sample, &n, sample[0].timeStamp),
                     NVML_ERROR_NOT_FOUND);
    rig_step_ms(rig, 20);
    n = 4;
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BUSY], sample, &n, sample[0].timeStamp),
                     NVML_SUCCESS);
    n = 0;
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BUSY], sample, &n, 0), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 1);
    /* a process that does nothing has no sample, and yet the question without an array is answered with a size */
    n = 4;
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BLACKWELL], sample, &n, 0), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetProcessUtilization(rig->gpu[RIG_BLACKWELL], NULL, &n, 0),
                     NVML_ERROR_INSUFFICIENT_SIZE);
}

static void utilisation_info_has_all_engines(void **state)
{
    const Rig *rig = *state;
    nvmlProcessUtilizationInfo_v1_t info[2];
    nvmlProcessesUtilizationInfo_t request = {.version = nvmlProcessesUtilizationInfo_v1};
    assert_int_equal(nvmlDeviceGetProcessesUtilizationInfo(rig->gpu[RIG_DESK], &request), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(request.processSamplesCount, 1);
    request.procUtilArray = info;
    assert_int_equal(nvmlDeviceGetProcessesUtilizationInfo(rig->gpu[RIG_DESK], &request), NVML_SUCCESS);
    assert_int_equal(info[0].smUtil, 20);
    assert_int_equal(info[0].encUtil, 10);
    request.lastSeenTimeStamp = info[0].timeStamp;
    assert_int_equal(nvmlDeviceGetProcessesUtilizationInfo(rig->gpu[RIG_DESK], &request), NVML_ERROR_NOT_FOUND);
}

/* ---- names ---- */
static void names_of_works_and_live_processes(void **state)
{
    const Rig *rig = *state;
    char name[4096], tiny[4]; /* the path of the test itself, in any build folder */
    assert_int_equal(nvmlSystemGetProcessName(PID_TRAINER, name, sizeof name), NVML_SUCCESS);
    assert_string_equal(name, "trainer");
    assert_int_equal(nvmlSystemGetProcessName(PID_TRAINER, tiny, sizeof tiny), NVML_SUCCESS);
    assert_string_equal(tiny, "tra");
    sim_work_lend_pid(rig->image, WORK_TRAINER, (uint32_t)getpid());
    assert_int_equal(nvmlSystemGetProcessName((unsigned int)getpid(), name, sizeof name), NVML_SUCCESS);
    assert_non_null(strstr(name, "test_nvml_processes"));
    assert_int_equal(nvmlSystemGetProcessName(PID_TRAINER, name, sizeof name), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlSystemGetProcessName(1, NULL, 1), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlSystemGetProcessName(1, name, 0), NVML_ERROR_INVALID_ARGUMENT);
}

/* ---- accounting ---- */
static nvmlReturn_t enable_accounting(const Rig *rig)
{
    return nvmlDeviceSetAccountingMode(rig->gpu[RIG_BUSY], NVML_FEATURE_ENABLED);
}

static void accounting_is_off_at_first(void **state)
{
    const Rig *rig = *state;
    nvmlEnableState_t mode = NVML_FEATURE_ENABLED;
    nvmlAccountingStats_t stats;
    unsigned int n = 0;
    assert_int_equal(nvmlDeviceGetAccountingMode(rig->gpu[RIG_BUSY], &mode), NVML_SUCCESS);
    assert_int_equal(mode, NVML_FEATURE_DISABLED);
    assert_int_equal(nvmlDeviceGetAccountingPids(rig->gpu[RIG_BUSY], &n, NULL), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetAccountingStats(rig->gpu[RIG_BUSY], PID_TRAINER, &stats), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetAccountingBufferSize(rig->gpu[RIG_BUSY], &n), NVML_SUCCESS);
    assert_true(n > 0);
    assert_int_equal(nvmlDeviceSetAccountingMode(rig->gpu[RIG_BUSY], (nvmlEnableState_t)2),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rig_as_nobody(rig, enable_accounting), NVML_ERROR_NO_PERMISSION);
}

static void accounting_follows_a_process_to_its_end(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    nvmlAccountingStats_t stats;
    unsigned int n = 0, pids[4];
    rig_need_root();
    assert_int_equal(enable_accounting(rig), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetAccountingPids(dev, &n, NULL), NVML_SUCCESS); /* it started before */
    assert_int_equal(n, 0);
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {WORK_TRAINER}});
    rig_step_ms(rig, 1000);
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {WORK_TRAINER}});
    rig_step_ms(rig, 4000);
    assert_int_equal(nvmlDeviceGetAccountingPids(dev, &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 1);
    assert_int_equal(nvmlDeviceGetAccountingPids(dev, &n, pids), NVML_SUCCESS);
    assert_int_equal(pids[0], PID_TRAINER);
    assert_int_equal(nvmlDeviceGetAccountingStats(dev, PID_TRAINER, &stats), NVML_SUCCESS);
    assert_int_equal(stats.isRunning, 1);
    assert_int_equal(stats.time, 0);
    assert_int_equal(stats.gpuUtilization, 80);
    assert_int_equal(stats.memoryUtilization, 40);
    assert_true(stats.maxMemoryUsage >= 1000 * MIB);
    assert_int_equal(stats.startTime, rig->image->epoch_us + 4000000);
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {WORK_TRAINER}});
    rig_step_ms(rig, 1000);
    assert_int_equal(nvmlDeviceGetAccountingStats(dev, PID_TRAINER, &stats), NVML_SUCCESS);
    assert_int_equal(stats.isRunning, 0);
    assert_int_equal(stats.time, 4000);
    assert_in_range(stats.gpuUtilization, 79, 80); /* read at the last tick before its end */
    assert_int_equal(nvmlDeviceGetAccountingStats(dev, 1, &stats), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceClearAccountingPids(dev), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetAccountingPids(dev, &n, pids), NVML_SUCCESS);
    assert_int_equal(n, 0);
}

static void clearing_keeps_what_still_runs(void **state)
{
    const Rig *rig = *state;
    unsigned int n = 4, pids[4];
    rig_need_root();
    assert_int_equal(nvmlDeviceSetAccountingMode(rig->gpu[RIG_HOPPER], NVML_FEATURE_ENABLED), NVML_SUCCESS);
    rig_op(rig, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = RIG_HOPPER, .a = {1}});
    rig_op(rig, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = RIG_HOPPER, .a = {3, 0}});
    rig_op(rig, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = RIG_HOPPER, .a = {1, 2, SIM_NONE}});
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {WORK_TENANT}});
    rig_step_ms(rig, 1000);
    assert_int_equal(nvmlDeviceClearAccountingPids(rig->gpu[RIG_HOPPER]), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetAccountingPids(rig->gpu[RIG_HOPPER], &n, pids), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(pids[0], PID_TENANT);
}

/* ---- samples and sessions ---- */
static void samples_are_the_past(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_BUSY];
    nvmlValueType_t type = NVML_VALUE_TYPE_COUNT;
    unsigned int n = 0;
    nvmlSample_t s[256];
    rig_step_ms(rig, 60000);
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &n, NULL), NVML_SUCCESS);
    assert_in_range(n, 1, 256);
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &n, s), NVML_SUCCESS);
    assert_int_equal(type, NVML_VALUE_TYPE_UNSIGNED_INT);
    assert_in_range(n, 2, 256);
    for (unsigned int i = 0; i < n; i++) {
        assert_int_equal(s[i].sampleValue.uiVal, 80);
        assert_true(i == 0 || s[i].timeStamp > s[i - 1].timeStamp);
    }
    unsigned int newest = 2;
    nvmlSample_t two[2];
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &newest, two), NVML_SUCCESS);
    assert_int_equal(newest, 2);
    assert_true(two[1].timeStamp == s[n - 1].timeStamp);
    newest = 2;
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_GPU_UTILIZATION_SAMPLES, s[n - 2].timeStamp, &type, &newest, two),
                     NVML_SUCCESS);
    assert_int_equal(newest, 1);
    newest = 2;
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_GPU_UTILIZATION_SAMPLES, s[n - 1].timeStamp, &type, &newest, two),
                     NVML_ERROR_NOT_FOUND);
    n = 256;
    unsigned int watt = 0;
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_TOTAL_POWER_SAMPLES, 0, &type, &n, s), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPowerUsage(dev, &watt), NVML_SUCCESS);
    assert_in_range(s[n - 1].sampleValue.uiVal, watt * 9 / 10, watt * 11 / 10);
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_ENC_UTILIZATION_SAMPLES, 0, &type, &n, s),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_SAMPLINGTYPE_COUNT, 0, &type, &n, s), NVML_ERROR_INVALID_ARGUMENT);
    n = 256;
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_TOTAL_POWER_SAMPLES, 0, NULL, &n, s), NVML_SUCCESS);
    n = 0; /* as nvml.h has it */
    assert_int_equal(nvmlDeviceGetSamples(dev, NVML_TOTAL_POWER_SAMPLES, 0, &type, &n, s), NVML_ERROR_INVALID_ARGUMENT);
}

static void encoder_sessions_come_from_processes(void **state)
{
    const Rig *rig = *state;
    unsigned int n = 0, fps = 0, latency = 0;
    nvmlEncoderSessionInfo_t info[2];
    assert_int_equal(nvmlDeviceGetEncoderStats(rig->gpu[RIG_DESK], &n, &fps, &latency), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(fps, 60);
    assert_true(latency > 0);
    n = 0;
    assert_int_equal(nvmlDeviceGetEncoderSessions(rig->gpu[RIG_DESK], &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 1);
    assert_int_equal(nvmlDeviceGetEncoderSessions(rig->gpu[RIG_DESK], &n, info), NVML_SUCCESS);
    assert_int_equal(info[0].pid, PID_DESKTOP);
    assert_int_equal(nvmlDeviceGetEncoderStats(rig->gpu[RIG_BUSY], &n, &fps, &latency), NVML_SUCCESS);
    assert_true(n == 0 && fps == 0 && latency == 0);
    nvmlFBCStats_t fbc = {.sessionsCount = 9};
    assert_int_equal(nvmlDeviceGetFBCStats(rig->gpu[RIG_BUSY], &fbc), NVML_SUCCESS);
    assert_int_equal(fbc.sessionsCount, 0);
    n = 3;
    assert_int_equal(nvmlDeviceGetFBCSessions(rig->gpu[RIG_BUSY], &n, NULL), NVML_SUCCESS);
    assert_int_equal(n, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(counts_zero_exact_too_small),
        T(kinds_have_lists_of_their_own),
        T(detail_list_by_mode),
        T(mig_devices_list_their_own),
        T(utilisation_is_of_the_last_window),
        T(utilisation_info_has_all_engines),
        T(names_of_works_and_live_processes),
        T(accounting_is_off_at_first),
        T(accounting_follows_a_process_to_its_end),
        T(clearing_keeps_what_still_runs),
        T(samples_are_the_past),
        T(encoder_sessions_come_from_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
