/* SPDX-License-Identifier: Apache-2.0 */
/* service/incident/json.c: the black box. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "kit.h"

static json_t *take(const Incident *incident, const Node *node, const Store *store, const char *events)
{
    json_error_t error;
    Str out;

    str_init(&out, 8 << 20);
    incident_bundle(incident, node, store, events, &out);
    assert_false(out.overflow);
    json_t *root = json_loadb(out.text, out.len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s at %d of %s", error.text, error.position, out.text);
    str_done(&out);
    return root;
}

static void keep(Store *store, const char *key, MetricId metric, uint64_t from_s, uint64_t seconds)
{
    const StoreSeries series = store_open(store, key, metric, from_s * NS_PER_S);

    assert_true(series >= 0);
    for (uint64_t s = from_s; s < from_s + seconds; s++) {
        Sample sample = {0};

        if (s % 10 == 5)
            sample_set_absent(&sample, s * NS_PER_S, ABSENCE_TIMED_OUT);
        else
            sample_set_int64(&sample, s * NS_PER_S, (int64_t)s);
        store_add(store, series, s * NS_PER_S, &sample);
    }
}

static void what_is_in_it(void **state)
{
    const Incident incident = kit_incident();
    const Event event = kit_event();
    char room[4096];
    NodeGpu gpus[4];
    const Node node = kit_node(gpus, 4); /* at second 1000 */
    gpus[3].reading.device.index = DEVICE_NO_NUMBER;
    Store *store = store_new(64);
    Str events;

    (void)state;
    str_init_room(&events, room, sizeof room);
    event_json(&event, "1jf8v3k2m0", &node, &events);
    event_json(&event, "", &node, &events);
    keep(store, "gpu/GPU-3", METRIC_GPU_TEMP, 500, 501);
    keep(store, "gpu/GPU-3/gi/7", METRIC_GPU_UTIL, 990, 11);
    keep(store, "gpu/GPU-30", METRIC_GPU_TEMP, 990, 11);
    keep(store, "gpu/GPU-1", METRIC_GPU_TEMP, 990, 11);
    json_t *root = take(&incident, &node, store, events.text);
    assert_string_equal(json_string_value(json_object_get(root, "node")), "node-7");
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "incident"), "id")), "1jf8v3k2m0");
    assert_int_equal(json_array_size(json_object_get(root, "events")), 2);
    const json_t *listed = json_object_get(root, "gpus");
    assert_int_equal(json_array_size(listed), 4);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(listed, 2), "index")),
                     gpus[2].reading.device.index);
    assert_true(json_is_null(json_object_get(json_array_get(listed, 3), "index")));
    const json_t *series = json_object_get(root, "series");
    assert_int_equal(json_array_size(series), 2); /* of this GPU and its instance, not of GPU-30 */
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(series, i), *seconds = json_object_get(one, "seconds");
        const size_t len = json_array_size(seconds);
        const bool temp = strcmp(json_string_value(json_object_get(one, "device")), "gpu/GPU-3") == 0;

        assert_int_equal(len, temp ? BUNDLE_SECONDS : 11);
        assert_int_equal(json_integer_value(json_array_get(seconds, len - 1)), 1000);
        assert_true(json_is_null(json_array_get(seconds, len - 6))); /* 995 */
        assert_string_equal(json_string_value(json_object_get(one, "unit")),
                            metric_units[metric_get(temp ? METRIC_GPU_TEMP : METRIC_GPU_UTIL)->unit].symbol);
    }
    json_decref(root);
    store_free(store);
}

static void a_node_without_anything(void **state)
{
    Incident incident = kit_incident();
    NodeGpu gpus[1];
    const Node node = kit_node(gpus, 0);
    Store *store = store_new(4);

    (void)state;
    device_init(&incident.device, DEVICE_NODE);
    json_t *root = take(&incident, &node, store, "");
    assert_int_equal(json_array_size(json_object_get(root, "series")), 0);
    assert_int_equal(json_array_size(json_object_get(root, "events")), 0);
    json_decref(root);
    store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_in_it), cmocka_unit_test(a_node_without_anything)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
