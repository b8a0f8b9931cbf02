/* SPDX-License-Identifier: Apache-2.0 */
/* Event sets: who gets which event and when, with a clock that stands and is stepped. */
#include "rig.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

static void xid(const Rig *rig, int32_t gpu, int32_t number, int32_t gi, int32_t ci)
{
    rig_op(rig, (SimOp){.type = SIM_OP_XID, .gpu = gpu, .a = {number, gi, ci, SIM_NONE}});
}

static nvmlEventSet_t make_set(nvmlDevice_t dev, unsigned long long types)
{
    nvmlEventSet_t set = NULL;
    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    if (dev)
        assert_int_equal(nvmlDeviceRegisterEvents(dev, types, set), NVML_SUCCESS);
    return set;
}

static void nothing_is_a_timeout(void **state)
{
    const Rig *rig = *state;
    nvmlEventData_t data;
    nvmlEventSet_t set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError), empty = make_set(NULL, 0);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlEventSetWait_v2(empty, &data, 30), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetFree(empty), NVML_SUCCESS);
}

static void each_set_gets_each_event_once(void **state)
{
    const Rig *rig = *state;
    nvmlEventData_t data;
    xid(rig, RIG_BUSY, 13, SIM_NONE, SIM_NONE); /* before anybody asked */
    nvmlEventSet_t a = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError);
    nvmlEventSet_t b = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError | nvmlEventTypeClock);
    nvmlEventSet_t other = make_set(rig->gpu[RIG_HOPPER], nvmlEventTypeXidCriticalError);
    nvmlEventSet_t clocks = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeClock);
    xid(rig, RIG_BUSY, 31, SIM_NONE, SIM_NONE);
    nvmlEventSet_t both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        memset(&data, 0, sizeof data);
        assert_int_equal(nvmlEventSetWait_v2(both[i], &data, 0), NVML_SUCCESS);
        assert_ptr_equal(data.device, rig->gpu[RIG_BUSY]);
        assert_true(data.eventType == nvmlEventTypeXidCriticalError);
        assert_true(data.eventData == 31);
        assert_int_equal(data.gpuInstanceId, 0xffffffffu);
        assert_int_equal(data.computeInstanceId, 0xffffffffu);
        assert_int_equal(nvmlEventSetWait_v2(both[i], &data, 0), NVML_ERROR_TIMEOUT);
    }
    assert_int_equal(nvmlEventSetWait_v2(other, &data, 0), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlEventSetWait_v2(clocks, &data, 0), NVML_ERROR_TIMEOUT);
    nvmlEventSet_t all[] = {a, b, other, clocks};
    for (int i = 0; i < 4; i++)
        assert_int_equal(nvmlEventSetFree(all[i]), NVML_SUCCESS);
}

static void events_come_in_order_and_name_instances(void **state)
{
    const Rig *rig = *state;
    struct {
        nvmlEventData_v1_t data;
        unsigned char canary[8];
    } old;
    nvmlEventData_t data;
    nvmlEventSet_t set = make_set(rig->gpu[RIG_HOPPER], nvmlEventTypeXidCriticalError);
    assert_int_equal(nvmlDeviceRegisterEvents(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
    rig_op(rig, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = RIG_HOPPER, .a = {1}});
    xid(rig, RIG_HOPPER, 43, 2, 0);
    rig_step_ms(rig, 1000);
    xid(rig, RIG_BUSY, 45, SIM_NONE, SIM_NONE);
    memset(&old, 0x5a, sizeof old);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_true(data.eventData == 43);
    assert_int_equal(data.gpuInstanceId, 2);
    assert_int_equal(data.computeInstanceId, 0);
    assert_int_equal(nvmlEventSetWait(set, &old.data, 0), NVML_SUCCESS);
    assert_true(old.data.eventData == 45);
    assert_ptr_equal(old.data.device, rig->gpu[RIG_BUSY]);
    assert_int_equal(old.canary[0], 0x5a); /* the first version ends before the instance ids */
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

/* nvml.h: only XIDs have data. A plugin's log in public has the event of the memory before the XID. */
static void a_memory_error_comes_before_its_xid(void **state)
{
    const Rig *rig = *state;
    nvmlEventData_t data = {.eventData = 5};
    nvmlEventSet_t set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError);
    xid(rig, RIG_BUSY, 94, SIM_NONE, SIM_NONE);
    rig_step_ms(rig, 100);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_true(data.eventType == nvmlEventTypeDoubleBitEccError);
    assert_true(data.eventData == 0);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_true(data.eventType == nvmlEventTypeXidCriticalError);
    assert_true(data.eventData == 94);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

/* A scenario's event lies in the future until the clock gets there. */
static void stepping_the_clock_brings_them(void **state)
{
    const Rig *rig = *state;
    nvmlEventData_t data;
    nvmlEventSet_t set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError);
    SimOp later = {.type = SIM_OP_XID,
                   .gpu = RIG_BUSY,
                   .a = {94, SIM_NONE, SIM_NONE, SIM_NONE},
                   .t_ns = sim_clock_now(rig->image) + 60 * SIM_NS,
                   .origin = SIM_FROM_INJECT};
    assert_int_equal(sim_op_apply(rig->image, &later, NULL, 1, NULL), SIM_OK);
    rig_step_ms(rig, 59000);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_ERROR_TIMEOUT);
    rig_step_ms(rig, 2000);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_true(data.eventData == 94);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

typedef struct Waiter {
    nvmlEventSet_t set;
    nvmlEventData_t data;
    nvmlReturn_t rc;
} Waiter;

static void *wait_long(void *arg)
{
    Waiter *w = arg;
    w->rc = nvmlEventSetWait_v2(w->set, &w->data, 60000);
    return NULL;
}

static void settle(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void a_waiter_wakes_for_an_injection(void **state)
{
    const Rig *rig = *state;
    pthread_t thread;
    Waiter w = {.set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError)};
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &w), 0);
    settle();
    xid(rig, RIG_BUSY, 8, SIM_NONE, SIM_NONE);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, NVML_SUCCESS);
    assert_true(w.data.eventData == 8);
    assert_int_equal(nvmlEventSetFree(w.set), NVML_SUCCESS);
}

static void a_set_may_go_under_its_waiter(void **state)
{
    const Rig *rig = *state;
    pthread_t thread;
    Waiter w = {.set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError), .rc = NVML_SUCCESS};
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &w), 0);
    settle();
    assert_int_equal(nvmlEventSetFree(w.set), NVML_SUCCESS);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree(w.set), NVML_ERROR_INVALID_ARGUMENT);
}

static void a_lost_gpu_is_told_and_leaves_the_others_watched(void **state)
{
    const Rig *rig = *state;
    nvmlEventData_t data;
    nvmlEventSet_t set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError);
    assert_int_equal(nvmlDeviceRegisterEvents(rig->gpu[RIG_HOPPER], nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
    xid(rig, RIG_BUSY, 79, SIM_NONE, SIM_NONE);
    rig_step_ms(rig, 100);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_true(data.eventData == 79);
    assert_ptr_equal(data.device, rig->gpu[RIG_BUSY]);
    nvmlReturn_t rc;
    while ((rc = nvmlEventSetWait_v2(set, &data, 0)) == NVML_SUCCESS)
        assert_int_equal(data.eventType, nvmlEventTypeXidCriticalError); /* what the driver says in its wake */
    assert_int_equal(rc, NVML_ERROR_TIMEOUT);
    xid(rig, RIG_HOPPER, 31, SIM_NONE, SIM_NONE);
    rig_step_ms(rig, 100);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_ptr_equal(data.device, rig->gpu[RIG_HOPPER]);
    rig_op(rig, (SimOp){.type = SIM_OP_LOST, .gpu = RIG_HOPPER});
    rig_step_ms(rig, 100);
    while ((rc = nvmlEventSetWait_v2(set, &data, 0)) == NVML_SUCCESS)
        ;
    assert_int_equal(rc, NVML_ERROR_GPU_IS_LOST); /* nothing is left to wait for */
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

static void unsupported_types_leave_the_set_usable(void **state)
{
    const Rig *rig = *state;
    unsigned long long types = 0;
    nvmlEventData_t data;
    assert_int_equal(nvmlDeviceGetSupportedEventTypes(rig->gpu[RIG_BUSY], &types), NVML_SUCCESS);
    assert_true(types & nvmlEventTypeXidCriticalError);
    assert_true(types & nvmlEventTypeDoubleBitEccError);
    assert_true(types & nvmlEventTypeMigConfigChange);
    assert_int_equal(nvmlDeviceGetSupportedEventTypes(rig->gpu[RIG_DESK], &types), NVML_SUCCESS);
    assert_true(types & nvmlEventTypeXidCriticalError);
    assert_false(types & (nvmlEventTypeDoubleBitEccError | nvmlEventTypeMigConfigChange));
    nvmlEventSet_t set = make_set(rig->gpu[RIG_DESK], nvmlEventTypeXidCriticalError);
    assert_int_equal(nvmlDeviceRegisterEvents(rig->gpu[RIG_DESK], nvmlEventTypeDoubleBitEccError, set),
                     NVML_ERROR_NOT_SUPPORTED);
    xid(rig, RIG_DESK, 31, SIM_NONE, SIM_NONE);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

static void garbage_is_refused(void **state)
{
    const Rig *rig = *state;
    nvmlEventData_t data;
    nvmlEventSet_t odd[] = {NULL, (nvmlEventSet_t)(uintptr_t)64, (nvmlEventSet_t)(uintptr_t)rig};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_int_equal(nvmlEventSetWait_v2(odd[i], &data, 0), NVML_ERROR_INVALID_ARGUMENT);
        assert_int_equal(nvmlEventSetFree(odd[i]), NVML_ERROR_INVALID_ARGUMENT);
        assert_int_equal(nvmlDeviceRegisterEvents(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError, odd[i]),
                         NVML_ERROR_INVALID_ARGUMENT);
    }
    nvmlEventSet_t set = make_set(rig->gpu[RIG_BUSY], nvmlEventTypeXidCriticalError);
    assert_int_equal(nvmlEventSetWait_v2(set, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetCreate(NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetWait_v2(set, &data, 0), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetCreate(&set), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlEventSetWait_v2(NULL, NULL, 0), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

/* ---- system events ---- */
static void the_driver_lets_go_of_a_gpu(void **state)
{
    const Rig *rig = *state;
    nvmlSystemEventSetCreateRequest_t create = {.version = nvmlSystemEventSetCreateRequest_v1};
    assert_int_equal(nvmlSystemEventSetCreate(&create), NVML_SUCCESS);
    nvmlEventSet_t other = make_set(NULL, 0); /* sets of the two kinds do not stand in for each other */
    nvmlSystemEventSetFreeRequest_t wrong = {.version = nvmlSystemEventSetFreeRequest_v1,
                                             .set = (nvmlSystemEventSet_t)(uintptr_t)other};
    assert_int_equal(nvmlSystemEventSetFree(&wrong), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree((nvmlEventSet_t)(uintptr_t)create.set), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree(other), NVML_SUCCESS);
    nvmlSystemRegisterEventRequest_t reg = {.version = nvmlSystemRegisterEventRequest_v1, .set = create.set};
    reg.eventTypes = 4;
    assert_int_equal(nvmlSystemRegisterEvents(&reg), NVML_ERROR_NOT_SUPPORTED);
    reg.eventTypes = nvmlSystemEventTypeGpuDriverUnbind | nvmlSystemEventTypeGpuDriverBind;
    assert_int_equal(nvmlSystemRegisterEvents(&reg), NVML_SUCCESS);
    nvmlSystemEventData_v1_t data[2];
    nvmlSystemEventSetWaitRequest_t wait = {
        .version = nvmlSystemEventSetWaitRequest_v1, .set = create.set, .data = data, .dataSize = 1};
    assert_int_equal(nvmlSystemEventSetWait(&wait), NVML_ERROR_TIMEOUT);
    rig_op(rig, (SimOp){.type = SIM_OP_PLUG, .gpu = RIG_DESK, .a = {0}});
    rig_step_ms(rig, 1000);
    rig_op(rig, (SimOp){.type = SIM_OP_PLUG, .gpu = RIG_DESK, .a = {1}});
    rig_step_ms(rig, 1000);
    rig_op(rig, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = SIM_DRIVER_UNLOADED});
    unsigned int desk = rig->image->gpus[RIG_DESK].bus << 8 | rig->image->gpus[RIG_DESK].device;
    assert_int_equal(nvmlSystemEventSetWait(&wait), NVML_SUCCESS);
    assert_int_equal(wait.numEvent, 1);
    assert_true(data[0].eventType == nvmlSystemEventTypeGpuDriverUnbind);
    assert_int_equal(data[0].gpuId, desk);
    assert_int_equal(nvmlSystemEventSetWait(&wait), NVML_SUCCESS);
    assert_true(data[0].eventType == nvmlSystemEventTypeGpuDriverBind);
    assert_int_equal(data[0].gpuId, desk);
    wait.dataSize = 2;
    unsigned int unbound = 0;
    while (nvmlSystemEventSetWait(&wait) == NVML_SUCCESS)
        for (unsigned int i = 0; i < wait.numEvent; i++)
            unbound += data[i].eventType == nvmlSystemEventTypeGpuDriverUnbind;
    assert_int_equal(unbound, RIG_GPUS);
    wait.version = 1;
    assert_int_equal(nvmlSystemEventSetWait(&wait), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    nvmlSystemEventSetFreeRequest_t end = {.version = nvmlSystemEventSetFreeRequest_v1, .set = create.set};
    assert_int_equal(nvmlSystemEventSetFree(&end), NVML_SUCCESS);
    assert_int_equal(nvmlSystemEventSetFree(&end), NVML_ERROR_INVALID_ARGUMENT);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(nothing_is_a_timeout),
        T(each_set_gets_each_event_once),
        T(events_come_in_order_and_name_instances),
        T(a_memory_error_comes_before_its_xid),
        T(stepping_the_clock_brings_them),
        T(a_waiter_wakes_for_an_injection),
        T(a_set_may_go_under_its_waiter),
        T(a_lost_gpu_is_told_and_leaves_the_others_watched),
        T(unsupported_types_leave_the_set_usable),
        T(garbage_is_refused),
        T(the_driver_lets_go_of_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
