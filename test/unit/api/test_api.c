/* SPDX-License-Identifier: Apache-2.0 */
/* service/api: why a node is not fit, the list of pages, devices by their names, and the history as JSON. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/api/api.h"

enum { GPUS = 3 };

/* Real time is a million seconds ahead of the node's. */
#define REAL_NS (UINT64_C(1001000) * NS_PER_S)

static Node node;
static NodeGpu gpus[GPUS];
static Reading instances[1];
static Incident incident;
static const Incident *incidents[] = {&incident};
static Snapshot snapshot;

static int set_up(void **state)
{
    (void)state;
    memset(gpus, 0, sizeof gpus);
    node = (Node){.time_ns = 1000 * NS_PER_S,
                  .real_ns = REAL_NS,
                  .tick = 5,
                  .gpus = gpus,
                  .gpu_count = GPUS,
                  .gpus_expected = 4,
                  .gpus_found = 3,
                  .gpus_on_bus = 2};
    snapshot = (Snapshot){.node = &node, .incidents = incidents};
    for (uint32_t i = 0; i < GPUS; i++) {
        Device *device = &gpus[i].reading.device;

        reading_init(&gpus[i].reading, DEVICE_GPU);
        device->index = i;
        device->has_pci = true;
        device->pci.bus = (uint8_t)(0x1b + i);
        snprintf(device->uuid, sizeof device->uuid, "GPU-%u", i);
        gpus[i].state = GPU_UP;
    }
    reading_init(&instances[0], DEVICE_COMPUTE_INSTANCE);
    snprintf(instances[0].device.uuid, sizeof instances[0].device.uuid, "MIG-a");
    snprintf(instances[0].device.parent_uuid, sizeof instances[0].device.parent_uuid, "GPU-1");
    instances[0].device.gpu_instance = 1;
    instances[0].device.compute_instance = 0;
    gpus[1].instances = instances;
    gpus[1].instance_count = 1;
    incident = (Incident){.state = INCIDENT_OPEN, .severity = SEVERITY_FATAL, .action = ACTION_DRAIN_AND_RESET};
    incident.cause = CAUSE_BUS;
    incident.device = gpus[2].reading.device;
    snprintf(incident.id, sizeof incident.id, "1abc");
    snprintf(incident.class, sizeof incident.class, "gpu-lost");
    snprintf(incident.title, sizeof incident.title, "GPU 2 is lost");
    return 0;
}

/* --- health ------------------------------------------------------------------------------------------------------- */

/* The causes as "key: text", one a line. */
static const char *write_causes(bool ready)
{
    static char text[4096];
    NodeCause causes[API_CAUSES_MAX];
    const size_t count = api_causes(&snapshot, ready, causes, API_CAUSES_MAX);
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s: %s\n", causes[i].key, causes[i].text);
    return text;
}

static void a_gpu_without_data_is_a_cause(void **state)
{
    static const struct {
        GpuState state;
        bool fine, fine_drained;
    } states[] = {{GPU_UP, true, true},        {GPU_RELEASED, true, true}, {GPU_GONE, false, true},
                  {GPU_MISSING, false, true},  {GPU_LOST, false, true},    {GPU_HUNG, false, false},
                  {GPU_STARTING, false, false}};
    char wanted[256];

    (void)state;
    assert_string_equal(write_causes(true), "");
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        gpus[1].state = states[i].state;
        gpus[1].drained = false;
        snprintf(wanted, sizeof wanted, "%s: GPU 1 (0000:1c:00.0): %s\n", gpu_states[states[i].state].key,
                 gpu_states[states[i].state].text);
        assert_string_equal(write_causes(false), states[i].fine ? "" : wanted);
        gpus[1].drained = true; /* an operator took it out */
        assert_string_equal(write_causes(false), states[i].fine_drained ? "" : wanted);
    }
    gpus[1].state = GPU_HUNG;
    snprintf(gpus[1].why, sizeof gpus[1].why, "no answer for 9 s");
    gpus[1].reading.device.index = DEVICE_NO_NUMBER;
    assert_string_equal(write_causes(false), "hung: the GPU at 0000:1c:00.0: no answer for 9 s\n");
    gpus[0].state = GPU_HUNG;
    NodeCause causes[1];
    assert_int_equal(api_causes(&snapshot, false, causes, 1), 1);
    assert_ptr_equal(causes[0].gpu, &gpus[0]);
    assert_null(causes[0].incident);
}

static void an_incident_explains_its_gpu(void **state)
{
    NodeCause causes[2];

    (void)state;
    gpus[2].state = GPU_LOST;
    snapshot.incident_count = 1;
    assert_string_equal(write_causes(false), "gpu-lost: GPU 2 is lost\n");
    assert_int_equal(api_causes(&snapshot, false, causes, 2), 1);
    assert_ptr_equal(causes[0].incident, &incident);
    assert_ptr_equal(causes[0].gpu, &gpus[2]);
    incident.severity = SEVERITY_WARNING; /* it goes on: that explains nothing */
    assert_non_null(strstr(write_causes(false), "lost: GPU 2 (0000:1d:00.0): "));
    incident.severity = SEVERITY_FATAL;
    incident.device = gpus[0].reading.device; /* another GPU's */
    assert_non_null(strstr(write_causes(false), "\nlost: GPU 2 (0000:1d:00.0): "));
    device_init(&incident.device, DEVICE_NODE);
    assert_int_equal(api_causes(&snapshot, false, causes, 2), 1);
    assert_null(causes[0].gpu);
}

/* Without its own readings the agent cannot be relied on: what it saw last is told. */
static void a_blind_agent_is_a_cause(void **state)
{
    (void)state;
    snapshot.incident_count = 1;
    incident.severity = SEVERITY_WARNING;
    incident.action = ACTION_CHECK_MONITOR;
    snprintf(incident.title, sizeof incident.title, "the agent is blind");
    assert_string_equal(write_causes(false), "gpu-lost: the agent is blind: \n");
    incident.first_len = 2;
    snprintf(incident.first[1].text, sizeof incident.first[1].text, "first");
    assert_string_equal(write_causes(false), "gpu-lost: the agent is blind: first\n");
    incident.last_len = 1;
    snprintf(incident.last[0].text, sizeof incident.last[0].text, "last");
    assert_string_equal(write_causes(false), "gpu-lost: the agent is blind: last\n");
    incident.state = INCIDENT_CLEARED;
    assert_string_equal(write_causes(false), "");
}

static void a_node_that_starts_or_is_released_is_not_ready(void **state)
{
    (void)state;
    node.tick = 0;
    assert_string_equal(write_causes(false), "starting: the agent has just started\n");
    node.tick = 1;
    gpus[0].state = GPU_HUNG;
    node.release_until_ns = node.time_ns; /* it ends now */
    assert_non_null(strstr(write_causes(true), "hung: GPU 0"));
    node.release_until_ns = node.time_ns + 90 * NS_PER_S + 5;
    assert_string_equal(write_causes(false), "");
    assert_string_equal(write_causes(true), "released: the driver is released for maintenance, for 1m30s more\n");
    node.release_until_ns = 0;
    node.gpu_count = 0;
    snprintf(node.driver_why, sizeof node.driver_why, "no module");
    assert_string_equal(write_causes(false), "no_driver: no module\n");
    snapshot.incident_count = 1; /* which says it already */
    assert_string_equal(write_causes(false), "gpu-lost: GPU 2 is lost\n");
}

static void health_is_ok_or_failing(void **state)
{
    CLEANUP(str_done) Str fine = str_limited(1 << 16), ill = str_limited(1 << 16);

    (void)state;
    assert_true(api_health_json(&snapshot, false, &fine));
    assert_string_equal(fine.text,
                        "{\"status\":\"ok\",\"gpus\":{\"expected\":4,\"found\":3,\"on_bus\":2},\"causes\":[]}\n");
    snapshot.incident_count = 1;
    gpus[0].state = GPU_HUNG;
    snprintf(gpus[0].why, sizeof gpus[0].why, "no answer");
    assert_false(api_health_json(&snapshot, false, &ill));
    assert_string_equal(ill.text,
                        "{\"status\":\"failing\",\"gpus\":{\"expected\":4,\"found\":3,\"on_bus\":2},\"causes\":["
                        "{\"cause\":\"gpu-lost\",\"text\":\"GPU 2 is lost\",\"incident\":\"1abc\"},"
                        "{\"cause\":\"hung\",\"text\":\"GPU 0 (0000:1b:00.0): no answer\"}]}\n");
}

/* --- a list of pages ---------------------------------------------------------------------------------------------- */

static void the_list_of_pages_names_the_gpus(void **state)
{
    static const char head[] = "</title><h1>Stoker on n&lt;7&gt;</h1><p>Version 1.2. 3 GPUs.</p><table>"
                               "<tr><td>0<td>H100<td>up<td><tr><td><td><td>lost<td>a &amp; b<tr><td>2<td><td>up<td>"
                               "</table><ul><li><a href=\"metrics\">metrics</a> for Prometheus<li>";
    CLEANUP(str_done) Str out = str_limited(1 << 16), based = str_limited(1 << 16);

    (void)state;
    snprintf(node.hostname, sizeof node.hostname, "n<7>");
    snprintf(gpus[0].reading.device.name, sizeof gpus[0].reading.device.name, "H100");
    gpus[1].reading.device.index = DEVICE_NO_NUMBER;
    gpus[1].state = GPU_LOST;
    snprintf(gpus[1].why, sizeof gpus[1].why, "a & b");
    api_index(&node, "1.2", "", &out);
    assert_ptr_equal(
        strstr(out.text, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Stoker on n&lt;7&gt;"),
        out.text);
    assert_non_null(strstr(out.text, head));
    assert_non_null(strstr(out.text, "<li><a href=\"api/v1/stream\">api/v1/stream</a> every tick as a server-sent event"
                                     "</ul></html>\n"));
    api_index(&node, "1.2", "/gpu/", &based);
    assert_non_null(strstr(based.text, "<meta charset=\"utf-8\"><base href=\"/gpu/\"><title>"));
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static void a_device_has_several_names(void **state)
{
    static const char *const names[] = {"1", "GPU-1", "0000:1c:00.0", "1c:00.0", "1C:00.0"};
    static const char *const nobody[] = {"", "3", "-1", "GPU-9", "0000:1f:00.0", "GPU-", "1x"};
    const NodeGpu *gpu;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        gpu = NULL;
        assert_ptr_equal(api_find(&node, names[i], &gpu), &gpus[1].reading);
        assert_ptr_equal(gpu, &gpus[1]);
    }
    assert_ptr_equal(api_find(&node, "MIG-a", &gpu), &instances[0]);
    assert_ptr_equal(gpu, &gpus[1]);
    for (size_t i = 0; i < ARRAY_LEN(nobody); i++)
        assert_null(api_find(&node, nobody[i], &gpu));
}

/* --- history ------------------------------------------------------------------------------------------------------ */

static void a_query_is_read(void **state)
{
    static const struct {
        const char *resolution, *from, *to;
        int rc;
        bool minutes;
        uint64_t from_s, to_s;
    } queries[] = {
        {NULL, NULL, NULL, 0, false, 1001000 - STORE_SECONDS, 1001000},
        {"second", NULL, NULL, 0, false, 1001000 - STORE_SECONDS, 1001000},
        {"minute", NULL, NULL, 0, true, 1001000 - 60 * STORE_MINUTES, 1001000},
        {"hour", NULL, NULL, -EINVAL, false, 0, 0},
        {NULL, "-10m", "-1m", 0, false, 1000400, 1000940},
        {NULL, "-100000h", NULL, 0, false, 0, 1001000},
        {NULL, "5000", "1970-01-01T02:00:00Z", 0, false, 5000, 7200},
        {NULL, "5000", "5000", 0, false, 5000, 5000},
        {NULL, "5001", "5000", -EINVAL, false, 0, 0},
        {NULL, "-1", NULL, -EINVAL, false, 0, 0},
        {NULL, "soon", NULL, -EINVAL, false, 0, 0},
        {NULL, NULL, "soon", -EINVAL, false, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
        HistoryQuery q = {0};
        Err err;

        if (api_history_query("a,b", queries[i].resolution, queries[i].from, queries[i].to, REAL_NS, &q, &err) !=
            queries[i].rc)
            fail_msg("row %zu", i);
        if (queries[i].rc)
            continue;
        assert_string_equal(q.metrics, "a,b");
        assert_int_equal(q.minutes, queries[i].minutes);
        if (q.from_ns != queries[i].from_s * NS_PER_S || q.to_ns != queries[i].to_s * NS_PER_S)
            fail_msg("row %zu: %llu to %llu", i, (unsigned long long)q.from_ns, (unsigned long long)q.to_ns);
        assert_int_equal(api_history_query("", NULL, NULL, NULL, REAL_NS, &q, &err), 0);
        assert_null(q.metrics);
    }
    HistoryQuery q;
    assert_int_equal(api_history_query(NULL, NULL, NULL, NULL, 5, &q, NULL), 0); /* soon after 1970 */
    assert_true(q.from_ns == 0 && q.to_ns == 5);
}

static json_t *read_history(const Store *store, const char *metrics, bool minutes, uint64_t from_s, uint64_t to_s)
{
    const HistoryQuery q = {metrics, minutes, from_s * NS_PER_S, to_s * NS_PER_S};
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    Err err;

    assert_int_equal(api_history(&node, store, &gpus[0].reading, &q, &out, &err), 0);
    json_t *whole = json_loads(out.text, 0, NULL);
    assert_non_null(whole);
    return whole;
}

static void expect_points(const json_t *series, const char *wanted)
{
    char *points = json_dumps(json_object_get(series, "points"), JSON_COMPACT);

    assert_string_equal(points, wanted);
    free(points);
}

/* A temperature of 50 to 109 and energy that rises by 10 J a second for two minutes and a half; a second is missing. */
static Store *fill_store(void)
{
    Store *store = store_new(256);

    node.time_ns = 120 * NS_PER_S;
    for (int i = 0; i < 150; i++) {
        node.time_ns += NS_PER_S;
        node.real_ns = node.time_ns + UINT64_C(1000000) * NS_PER_S;
        if (i == 148)
            sample_set_absent(&gpus[0].reading.sample[METRIC_GPU_TEMP], node.time_ns, ABSENCE_TIMED_OUT);
        else
            sample_set_int64(&gpus[0].reading.sample[METRIC_GPU_TEMP], node.time_ns, 50 + i % 60);
        sample_set_int64(&gpus[0].reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], node.time_ns, 10000 * i);
        sample_set_int64(&gpus[2].reading.sample[METRIC_GPU_TEMP], node.time_ns, 33);
        store_add_node(store, &node);
    }
    return store;
}

static void seconds_have_values_or_reasons(void **state)
{
    const char *name = metric_get(METRIC_GPU_TEMP)->name;
    Store *store = fill_store();
    json_t *whole = read_history(store, name, false, 1000266, 1000269);
    const json_t *series = json_array_get(json_object_get(whole, "series"), 0);

    (void)state;
    assert_string_equal(json_string_value(json_object_get(whole, "uuid")), "GPU-0");
    assert_string_equal(json_string_value(json_object_get(whole, "resolution")), "second");
    assert_int_equal(json_array_size(json_object_get(whole, "series")), 1);
    assert_int_equal(json_array_size(json_object_get(whole, "missing")), 0);
    assert_string_equal(json_string_value(json_object_get(series, "metric")), name);
    assert_string_equal(json_string_value(json_object_get(series, "type")), "gauge");
    assert_int_equal(json_array_size(json_object_get(series, "columns")), 2);
    expect_points(series, "[[1000266.0,75],[1000267.0,76],[1000268.0,77],[1000269.0,null,\"timed_out\"]]");
    json_decref(whole);
    whole = read_history(store, name, false, 0, 1000121); /* from before the node's start on */
    expect_points(json_array_get(json_object_get(whole, "series"), 0), "[[1000121.0,50]]");
    json_decref(whole);
    whole = read_history(store, name, false, 1000270, 1000999); /* and into the future */
    expect_points(json_array_get(json_object_get(whole, "series"), 0), "[[1000270.0,79]]");
    json_decref(whole);
    store_free(store);
}

static void minutes_are_summed_up(void **state)
{
    Store *store = fill_store();
    char names[200];
    json_t *whole;

    (void)state;
    snprintf(names, sizeof names, "%s,,%s,", metric_get(METRIC_GPU_TEMP)->name,
             metric_get(METRIC_TOTAL_ENERGY_CONSUMPTION)->name);
    whole = read_history(store, names, true, 1000180, 1000239);
    assert_string_equal(json_string_value(json_object_get(whole, "resolution")), "minute");
    const json_t *all = json_object_get(whole, "series"), *gauge = json_array_get(all, 0),
                 *count = json_array_get(all, 1);
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal(json_array_size(json_object_get(whole, "missing")), 0);
    assert_int_equal(json_array_size(json_object_get(gauge, "columns")), 5);
    assert_int_equal(json_array_size(json_object_get(count, "columns")), 4);
    const json_t *point = json_array_get(json_object_get(gauge, "points"), 0);
    assert_true(fabs(json_number_value(json_array_get(point, 0)) - 1000180) < .1);
    assert_int_equal(json_array_size(point), 5);
    assert_true(fabs(json_number_value(json_array_get(point, 1)) - 50) < .5); /* least, mean and most */
    assert_true(fabs(json_number_value(json_array_get(point, 2)) - 79.5) < .5);
    assert_true(fabs(json_number_value(json_array_get(point, 3)) - 109) < .5);
    assert_int_equal(json_integer_value(json_array_get(point, 4)), 60);
    point = json_array_get(json_object_get(count, "points"), 0);
    assert_int_equal(json_array_size(point), 4);
    assert_true(json_number_value(json_array_get(point, 2)) > 0);
    json_decref(whole);
    store_free(store);
}

/* Every series of this device, or of those that were asked for the ones that are kept; for the others the reason. */
static void what_is_not_kept_is_told(void **state)
{
    Store *store = fill_store();
    const HistoryQuery q = {"no_such_metric", false, 0, REAL_NS};
    CLEANUP(str_done) Str out = str_limited(1 << 20);
    char names[300];
    json_t *whole;
    Err err;

    (void)state;
    whole = read_history(store, NULL, false, 1000100, 1000300);
    assert_int_equal(json_array_size(json_object_get(whole, "series")), 2);
    assert_int_equal(json_array_size(json_object_get(whole, "missing")), 0);
    json_decref(whole);
    sample_set_absent(&gpus[0].reading.sample[METRIC_POWER_USAGE], node.time_ns, ABSENCE_NOT_SUPPORTED);
    snprintf(names, sizeof names, "no_such_metric,%s,%s", metric_get(METRIC_POWER_USAGE)->name,
             metric_get(METRIC_GPU_TEMP)->name);
    whole = read_history(store, names, false, 1000100, 1000300);
    const json_t *missing = json_object_get(whole, "missing");
    assert_int_equal(json_array_size(json_object_get(whole, "series")), 1);
    assert_int_equal(json_array_size(missing), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(missing, 0), "metric")), "no_such_metric");
    assert_string_equal(json_string_value(json_object_get(json_array_get(missing, 0), "why")), "no_metric");
    assert_string_equal(json_string_value(json_object_get(json_array_get(missing, 1), "why")), "not_supported");
    json_decref(whole);
    sample_set_double(&gpus[0].reading.sample[METRIC_POWER_USAGE], node.time_ns, 1); /* after the store's last look */
    whole = read_history(store, metric_get(METRIC_POWER_USAGE)->name, false, 1000100, 1000300);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(whole, "missing"), 0), "why")),
                        "no_room");
    json_decref(whole);
    assert_int_equal(api_history(&node, store, &gpus[0].reading, &q, &out, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no_such_metric"));
    store_free(store);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup(test, set_up)
    static const struct CMUnitTest tests[] = {
        TEST(a_gpu_without_data_is_a_cause),  TEST(an_incident_explains_its_gpu),
        TEST(a_blind_agent_is_a_cause),       TEST(a_node_that_starts_or_is_released_is_not_ready),
        TEST(health_is_ok_or_failing),        TEST(the_list_of_pages_names_the_gpus),
        TEST(a_device_has_several_names),     TEST(a_query_is_read),
        TEST(seconds_have_values_or_reasons), TEST(minutes_are_summed_up),
        TEST(what_is_not_kept_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
