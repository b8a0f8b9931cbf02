/* SPDX-License-Identifier: Apache-2.0 */
/* What is published of the lists of devices that come from the driver when it says little of a GPU:
 * service/kubelet/dra.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "service/kubelet/dra.h"

typedef struct Published {
    json_t *devices, *counters, *tainted; /* as last told */
} Published;

static void keep_published(void *self, json_t *devices, json_t *counters, json_t *tainted)
{
    Published *last = self;

    json_decref(last->devices);
    json_decref(last->counters);
    json_decref(last->tainted);
    *last = (Published){devices, counters, tainted};
}

static void *read_nothing(void *self, const char *path, void (*done)(void *, const json_t *, const char *),
                          void *reader)
{
    (void)self, (void)path, (void)done, (void)reader;
    return NULL;
}

static void ignore_cancel(void *self, void *reading)
{
    (void)self, (void)reading;
}

static void ignore_look(void *self)
{
    (void)self;
}

static void find_no_files(void *self, Arena *arena, DriverFiles *ret)
{
    (void)self, (void)arena;
    *ret = (DriverFiles){0};
}

/* GPU 0 is split, its MIG devices are made for claims; GPU 1 is whole. */
static const char whole[] =
    "{\"name\":\"gpu-1\",\"attributes\":{\"uuid\":{\"string\":\"GPU-b\"},\"type\":{\"string\":\"gpu\"}}}";
static const char poor[] = "{\"name\":\"gpu-1\",\"attributes\":{\"uuid\":{\"string\":\"GPU-b\"}}}";
static const char made[] = "{\"name\":\"gpu-0-mig-1g10gb-19-0\",\"attributes\":{\"parentUUID\":{\"string\":\"GPU-a\"}},"
                           "\"consumesCounters\":[{\"counterSet\":\"gpu-0-counter-set\",\"counters\":{}}]}";
static const char counters[] = "{\"name\":\"gpu-0-counter-set\",\"counters\":{}}";

static void set_devices(Dra *dra, const char *devices, const char *sets, const char *unread)
{
    CLEANUP(str_done) Str text = str_limited(4096);
    Err err = {0};

    str_addf(&text, "{\"devices\":[%s],\"sharedCounters\":[%s],\"unread\":[%s]}", devices, sets, unread);
    assert_int_equal(dra_set_devices(dra, &text, &err), 0);
}

static bool has_type(const Published *last, size_t i)
{
    return json_object_get(json_object_get(json_array_get(last->devices, i), "attributes"), "type") != NULL;
}

/* A GPU can be lost after it was sampled and before the driver lists its devices: none of them may vanish then. */
static void test_what_the_driver_does_not_list_stays_while_its_gpu_cannot_be_read(void **state)
{
    char folder[] = "/tmp/stoker-dra-XXXXXX", both[1024];
    Published last = {0};
    uv_loop_t loop;
    OfferUnit split = {.device = {.uuid = "GPU-a"}, .healthy = true};
    OfferUnit unit = {.device = {.uuid = "GPU-b"}, .healthy = true};
    OfferResource gpus = {.name = "nvidia.com/gpu", .replicas = 1, .units = {&unit, 1, 0}};
    const Offer offer = {.resources = {&gpus, 1, 0}, .split = {&split, 1, 0}};
    Log log;
    bool changed = false;
    Dra *dra;
    Err err = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    log_init(&log, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, "test", clock_kernel());
    uv_loop_init(&loop);
    MpsKeeper *mps = mps_keeper_new(&loop, &(MpsKeeperConfig){.root = folder,
                                                              .driver_root = "",
                                                              .cgroup_root = "",
                                                              .period_ns = NS_PER_S,
                                                              .retry_ns = NS_PER_S,
                                                              .limit_ns = NS_PER_S,
                                                              .changed = &changed,
                                                              .log = &log});
    const DraConfig config = {.driver = "gpu.nvidia.com",
                              .node = "n",
                              .plugins = folder,
                              .registry = folder,
                              .cdi_root = folder,
                              .boot_id = "b",
                              .library = "",
                              .driver_root = "",
                              .mps = mps,
                              .mps_root = folder,
                              .port = {read_nothing, ignore_cancel, keep_published, ignore_look, find_no_files},
                              .self = &last,
                              .log = &log};
    assert_int_equal(dra_new(&loop, &config, &dra, &err), 0);
    snprintf(both, sizeof both, "%s,%s", made, whole);
    dra_offer(dra, &offer);
    set_devices(dra, both, counters, "");
    assert_int_equal(json_array_size(last.devices), 2);

    set_devices(dra, whole, "", "\"GPU-a\"");
    assert_int_equal(json_array_size(last.devices), 2);
    assert_int_equal(json_array_size(last.counters), 1);
    split.healthy = false; /* which is noticed later */
    dra_offer(dra, &offer);
    assert_int_equal(json_array_size(last.devices), 2);
    assert_non_null(json_object_get(last.tainted, "gpu-0-mig-1g10gb-19-0"));
    split.healthy = true;

    set_devices(dra, poor, "", "\"GPU-a\",\"GPU-b\""); /* as it was described before */
    assert_int_equal(json_array_size(last.devices), 2);
    assert_true(has_type(&last, 0));
    set_devices(dra, poor, "", "\"GPU-a\"");
    assert_false(has_type(&last, 0));

    set_devices(dra, whole, "", ""); /* its operator has split it in another way */
    assert_int_equal(json_array_size(last.devices), 1);
    assert_int_equal(json_array_size(last.counters), 0);

    dra_close(dra);
    mps_keeper_close(mps);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    keep_published(&last, NULL, NULL, NULL);
    assert_int_equal(file_remove_tree("/tmp", folder + strlen("/tmp/"), NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_driver_does_not_list_stays_while_its_gpu_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
