/* SPDX-License-Identifier: Apache-2.0 */
/* Our own families: what is up, what is missing and why, this program, the window of a scraper (own.c,
 * series.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "check.h"
#include "kit.h"
#include "service/prometheus/page.h"
#include "test/unit/golden.h"

#define ID "{UUID=\"GPU-0\",device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\""

static void expect(const char *page, const char *name, const char *expected)
{
    char *lines = kit_lines(page, name);

    assert_string_equal(lines, expected);
    free(lines);
}

/* A lost GPU keeps its name, so that an alert can tell which it is; its values go, the others' stay. */
static void a_lost_gpu(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 2);
    kit_set(&kit, 1, METRIC_SM_CLOCK, 1980);
    reading_lose(&kit.gpus[0].reading, KIT_NOW, ABSENCE_GPU_LOST);
    kit.gpus[0].state = GPU_LOST;
    kit.node.gpus_found = 1;
    page = kit_page(&kit, "DCGM_FI_DEV_SM_CLOCK,gauge,a\n", EXPORTER_TEXT);
    assert_non_null(strstr(page, "\nstoker_gpu_up" ID ",reason=\"lost\"} 0\nstoker_gpu_up{UUID=\"GPU-1\","));
    expect(page, "stoker_gpus_expected", "stoker_gpus_expected 2\n");
    expect(page, "stoker_gpus_found", "stoker_gpus_found 1\n");
    assert_non_null(strstr(page, "\nstoker_gpu_state" ID ",state=\"lost\"} 1\n"));
    assert_non_null(strstr(page, "\nstoker_gpu_state_since_seconds" ID "} 1.69999999e+09\n"));
    assert_non_null(strstr(page, "\nstoker_gpu_last_sample_age_seconds" ID "} 0.5\n"));
    assert_null(strstr(page, "DCGM_FI_DEV_SM_CLOCK{UUID=\"GPU-0\""));
    assert_non_null(strstr(page, "DCGM_FI_DEV_SM_CLOCK{UUID=\"GPU-1\""));
    assert_null(strstr(page, "reason=\"gpu_lost\"")); /* stoker_gpu_up says it for all of them */
    free(page);
    kit_done(&kit);
}

/* Estimates are there of a GPU that works, each where it is known. */
static void estimates_of_work(void **state)
{
    static const Why works = {.roof = {.flops = 4e14, .bytes = 1.5e12, .text = "about"}};
    static const Why half_known = {.roof = {.flops = NAN, .bytes = 2e12, .text = "about"}};
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 3);
    kit.gpus[0].verdicts = &works;
    page = kit_page(&kit, "", EXPORTER_TEXT);
    expect(page, "stoker_gpu_estimated_flops", "stoker_gpu_estimated_flops" ID "} 4e+14\n");
    expect(page, "stoker_gpu_estimated_memory_bytes_per_second",
           "stoker_gpu_estimated_memory_bytes_per_second" ID "} 1.5e+12\n");
    free(page);
    kit.gpus[0].verdicts = &half_known;
    page = kit_page(&kit, "", EXPORTER_TEXT);
    expect(page, "stoker_gpu_estimated_flops", "");
    expect(page, "stoker_gpu_estimated_memory_bytes_per_second",
           "stoker_gpu_estimated_memory_bytes_per_second" ID "} 2e+12\n");
    free(page);
    kit_done(&kit);
}

/* On the bus and without a driver: no index, no UUID. */
static void a_gpu_the_driver_does_not_know(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    kit.gpus[0].state = GPU_MISSING;
    kit.gpus[0].last_sample_ns = 0;
    kit.gpus[0].reading.device.index = DEVICE_NO_NUMBER;
    kit.gpus[0].reading.device.uuid[0] = '\0';
    page = kit_page(&kit, NULL, EXPORTER_TEXT);
    expect(page, "stoker_gpu_up",
           "stoker_gpu_up{hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\",reason=\"missing\"} 0\n");
    expect(page, "stoker_gpu_last_sample_age_seconds", "");
    free(page);
    kit_done(&kit);
}

static void why_a_metric_is_missing(void **state)
{
    Kit kit;
    Exporter *exporter;
    char *page, *lines;

    (void)state;
    kit_node(&kit, 1);
    kit_set(&kit, 0, METRIC_SM_CLOCK, 1980);
    sample_set_absent(&kit.gpus[0].reading.sample[METRIC_PROF_SM_ACTIVE], KIT_NOW, ABSENCE_NOT_SUPPORTED);
    exporter = kit_exporter(&kit, "DCGM_FI_DEV_SM_CLOCK,gauge,a\nDCGM_FI_PROF_SM_ACTIVE,gauge,b\n"
                                  "DCGM_FI_DEV_XID_ERRORS,gauge,c\nDCGM_EXP_P2P_STATUS,gauge,d\n"
                                  "DCGM_FI_DEV_FB_USED_PERCENT,gauge,e\n");
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    lines = kit_lines(page, "stoker_metric_unavailable");
    assert_non_null(strstr(lines, ",metric=\"DCGM_FI_PROF_SM_ACTIVE\",pci_bus_id=\"00000000:1A:00.0\",reason="
                                  "\"not_supported\"} 1\n"));
    assert_non_null(strstr(
        lines, "metric=\"DCGM_EXP_P2P_STATUS\",pci_bus_id=\"00000000:1A:00.0\",reason=\"not_supported\"")); /* alone */
    assert_non_null(
        strstr(lines, "metric=\"DCGM_FI_DEV_FB_USED_PERCENT\",pci_bus_id=\"00000000:1A:00.0\",reason=\"not_yet\""));
    assert_null(strstr(lines, "SM_CLOCK"));
    assert_null(strstr(lines, "XID")); /* there was none yet, that is all */
    free(lines);
    free(page);
    sample_set_absent(&kit.gpus[0].reading.sample[METRIC_XID_ERRORS], KIT_NOW, ABSENCE_NO_DATA);
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    assert_non_null(strstr(page, "err_code=\"0\"")); /* and its series says so */
    lines = kit_lines(page, "stoker_metric_unavailable");
    assert_null(strstr(lines, "XID"));
    free(lines);
    free(page);
    kit_advance(&kit, NS_PER_MIN);
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    assert_non_null(
        strstr(page, "metric=\"DCGM_FI_DEV_SM_CLOCK\",pci_bus_id=\"00000000:1A:00.0\",reason=\"timed_out\"} 1\n"));
    free(page);
    exporter_free(exporter);
    kit_done(&kit);
}

/* Under the name that the profile gives it; with both names on the page, once. */
static void a_missing_metric_has_one_name(void **state)
{
    static const struct {
        ExporterProfile profile;
        const char *name;
    } expected[] = {{EXPORTER_4_8_3, "metric=\"DCGM_FI_DEV_GPU_UTIL\","},
                    {EXPORTER_4_9, "metric=\"DCGM_FI_DEV_GPU_UTIL_RATIO\","},
                    {EXPORTER_BOTH, "metric=\"DCGM_FI_DEV_GPU_UTIL\","}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        char *page, *lines, *at;
        Kit kit;

        kit_node(&kit, 1);
        kit.config.profile = expected[i].profile;
        sample_set_absent(&kit.gpus[0].reading.sample[METRIC_GPU_UTIL], KIT_NOW, ABSENCE_NOT_SUPPORTED);
        page = kit_page(&kit, "DCGM_FI_DEV_GPU_UTIL,gauge,a\n", EXPORTER_TEXT);
        lines = kit_lines(page, "stoker_metric_unavailable");
        at = strstr(lines, "metric=\"DCGM_FI_DEV_GPU_UTIL");
        assert_non_null(at);
        assert_memory_equal(at, expected[i].name, strlen(expected[i].name));
        assert_null(strstr(at + 1, "metric=\"DCGM_FI_DEV_GPU_UTIL"));
        free(lines);
        free(page);
        kit_done(&kit);
    }
}

static void expect_peers_missing(Kit *kit, const char *reason)
{
    static const char *const head = "metric=\"DCGM_EXP_P2P_STATUS\",pci_bus_id=\"00000000:1A:00.0\",reason=\"";
    char *page = kit_page(kit, "DCGM_EXP_P2P_STATUS,gauge,d\n", EXPORTER_TEXT);
    const char *at = strstr(page, head);

    if (!reason)
        assert_null(at);
    else if (!at || strncmp(at + strlen(head), reason, strlen(reason)) != 0)
        fail_msg("not missing because of %s: %.80s", reason, at ? at : "not missing");
    free(page);
}

static void why_peers_are_missing(void **state)
{
    Kit kit;

    (void)state;
    kit_node(&kit, 3);
    expect_peers_missing(&kit, "not_yet\"");
    kit_peers(&kit, 0, PEER_OK);
    expect_peers_missing(&kit, NULL);
    sample_set_absent(&kit.peers[0][1].status, KIT_NOW, ABSENCE_DRIVER_LACKS); /* one is enough */
    expect_peers_missing(&kit, "driver_lacks\"");
    kit_peers(&kit, 0, PEER_UNKNOWN);
    expect_peers_missing(&kit, NULL);
    kit_advance(&kit, NS_PER_MIN);
    expect_peers_missing(&kit, "timed_out\"");
    kit.gpus[0].state = GPU_LOST;
    expect_peers_missing(&kit, NULL); /* stoker_gpu_up says it */
    kit_done(&kit);
}

static void derived_share_of_memory(void **state)
{
    Kit kit;
    char *page, *lines;

    (void)state;
    kit_node(&kit, 1);
    kit_set(&kit, 0, METRIC_FB_TOTAL, 81559);
    kit_set(&kit, 0, METRIC_FB_RESERVED, 559);
    kit_set(&kit, 0, METRIC_FB_USED, 20250);
    page = kit_page(&kit, "DCGM_FI_DEV_FB_USED_PERCENT,gauge,e\n", EXPORTER_TEXT);
    lines = kit_lines(page, "DCGM_FI_DEV_FB_USED_PERCENT");
    assert_non_null(strstr(lines, "} 0.25\n"));
    free(lines);
    assert_null(strstr(page, "metric=\"DCGM_FI_DEV_FB_USED_PERCENT\""));
    free(page);
    kit_done(&kit);
}

static void what_a_gpu_is(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    kit.gpus[0].gpm_known = true;
    page = kit_page(&kit, NULL, EXPORTER_TEXT);
    expect(page, "stoker_gpu_info",
           "stoker_gpu_info{UUID=\"GPU-0\",architecture=\"hopper\",device=\"nvidia0\",driver_version=\"535.129.03\","
           "gpu=\"0\",hostname=\"node-1\",mig=\"off\",minor=\"0\",name=\"NVIDIA H100 80GB HBM3\","
           "pci_bus_id=\"00000000:1A:00.0\",serial=\"1650\"} 1\n");
    expect(page, "stoker_gpm_supported", "stoker_gpm_supported" ID "} 0\n");
    free(page);
    kit_done(&kit);
}

static void samplers(void **state)
{
    Kit kit;
    char *page, *lines;

    (void)state;
    kit_node(&kit, 1);
    kit.node.sampler_count = 3;
    kit.node.samplers_started = 3;
    kit.node.samplers_abandoned = 1;
    kit.samplers[0] = (NodeSampler){.state = SAMPLER_RUNNING, .rss_bytes = 4194304, .cpu_ns = 1500000000};
    kit.samplers[2] = (NodeSampler){.state = SAMPLER_ABANDONED,
                                    .since_ns = KIT_NOW - 7 * NS_PER_S,
                                    .gpu = "0000:1a:00.0",
                                    .function = "nvmlDeviceGetPowerUsage",
                                    .wchan = "rwsem"};
    page = kit_page(&kit, NULL, EXPORTER_TEXT);
    lines = kit_lines(page, "stoker_samplers");
    assert_string_equal(lines, "stoker_samplers{state=\"starting\"} 0\nstoker_samplers{state=\"running\"} 1\n"
                               "stoker_samplers{state=\"stuck\"} 0\nstoker_samplers{state=\"killed\"} 0\n"
                               "stoker_samplers{state=\"abandoned\"} 1\n");
    free(lines);
    expect(
        page, "stoker_sampler_stuck_seconds",
        "stoker_sampler_stuck_seconds{function=\"nvmlDeviceGetPowerUsage\",pci_bus_id=\"00000000:1A:00.0\",slot=\"2\","
        "wchan=\"rwsem\"} 7\n");
    expect(page, "stoker_sampler_resident_memory_bytes",
           "stoker_sampler_resident_memory_bytes{slot=\"0\"} 4.194304e+06\n");
    expect(page, "stoker_sampler_cpu_seconds_total", "stoker_sampler_cpu_seconds_total{slot=\"0\"} 1.5\n");
    expect(page, "stoker_samplers_abandoned_total", "stoker_samplers_abandoned_total 1\n");
    free(page);
    kit_done(&kit);
}

static void this_program(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    kit.input.self.pods_age_ns = UINT64_MAX;
    page = kit_page(&kit, NULL, EXPORTER_TEXT);
    expect(page, "stoker_build_info", "stoker_build_info{version=\"0.1.0\"} 1\n");
    expect(page, "process_resident_memory_bytes", "process_resident_memory_bytes 9.437184e+06\n");
    expect(page, "process_start_time_seconds", "process_start_time_seconds 1.7e+09\n");
    expect(page, "process_open_fds", ""); /* not known */
    expect(page, "stoker_pods_state", "stoker_pods_state{state=\"off\"} 1\n");
    expect(page, "stoker_pods_mapped", "");
    expect(page, "stoker_released", "stoker_released 0\n");
    free(page);
    kit.input.self.pods_state = "unreachable";
    kit.node.release_until_ns = 1;
    page = kit_page(&kit, NULL, EXPORTER_TEXT);
    expect(page, "stoker_pods_mapped", "stoker_pods_mapped 0\n");
    expect(page, "stoker_pods_age_seconds", "");
    expect(page, "stoker_released", "stoker_released 1\n");
    free(page);
    kit_done(&kit);
}

/* A page of a node with something of everything, whole: names, helps, labels, values and their order. Of the rows that
 * are configured it has few, so that a new metric is no change. */
static void a_page_is_whole(void **state)
{
    static const AlertsReceiverState receivers[] = {
        {.name = "page",
         .kind = "webhook",
         .sent = 21,
         .failed = 22,
         .dropped = 23,
         .queued = 24,
         .fine = true,
         .last_ok_real_ns = KIT_REAL - 25 * NS_PER_S},
        {.name = "log", .kind = "journald", .why = "refused"},
    };
    const JournalState journal = {.queued = 31,
                                  .dropped = 32,
                                  .written = 33,
                                  .commits = 34,
                                  .failures = 35,
                                  .file_bytes = 36,
                                  .last_commit_ns = 37 * NS_PER_MS};
    CLEANUP(str_done) Str page = str_limited(GOLDEN_MAX);
    Kit kit;
    Exporter *exporter;

    (void)state;
    kit_node(&kit, 3);
    kit.node.gpus_expected = 5;
    kit.node.gpus_on_bus = 4;
    kit.node.events_lost = 7;
    kit.node.sampler_count = 2;
    kit.node.samplers_started = 6;
    kit.node.samplers_abandoned = 1;
    kit.samplers[0] = (NodeSampler){.state = SAMPLER_RUNNING, .rss_bytes = 4096, .cpu_ns = 1500000000};
    kit.samplers[1] = (NodeSampler){.state = SAMPLER_STUCK, .since_ns = KIT_NOW - 3 * NS_PER_S, .gpu = "all"};
    kit_split(&kit, 1, 2);
    for (size_t gpu = 0; gpu < 3; gpu++) {
        kit_set(&kit, gpu, METRIC_SM_CLOCK, 1000 + (double)gpu);
        kit_set(&kit, gpu, METRIC_POWER_USAGE, 400.5 + (double)gpu);
        kit_set(&kit, gpu, METRIC_FB_TOTAL, 81559);
        kit_set(&kit, gpu, METRIC_FB_USED, 1024);
    }
    kit_set(&kit, 0, METRIC_PROF_SM_ACTIVE, 0.25);
    kit_set(&kit, 0, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, 1500000000);
    kit_set(&kit, 0, METRIC_FAN_SPEED, 40);
    for (size_t i = 0; i < 2; i++) {
        kit_set_reading(&kit.instances[1][i], METRIC_FB_TOTAL, 10000 + (double)i, KIT_NOW);
        kit_set_reading(&kit.instances[1][i], METRIC_FB_USED, 500 + (double)i, KIT_NOW);
    }
    kit.gpus[0].failed_passes = 11;
    kit.gpus[0].fast_lost = 12;
    kit.gpus[0].missed_calls = 13;
    kit.gpus[1].own_sampler = true;
    kit.gpus[0].gpm_known = kit.gpus[0].gpm = true;
    kit.gpus[0].activity = (Activity){.word = ACTIVITY_WORKING};
    reading_lose(&kit.gpus[2].reading, KIT_NOW, ABSENCE_GPU_LOST);
    kit.gpus[2].state = GPU_LOST;
    kit.input.self = (ExporterSelf){.version = "0.1.0",
                                    .rss_bytes = 101,
                                    .cpu_ns = 102 * NS_PER_S,
                                    .open_fds = 103,
                                    .start_real_ns = KIT_REAL,
                                    .ticks = 104,
                                    .late_ticks = 105,
                                    .store_series = 106,
                                    .store_refused = 107,
                                    .store_bytes = 108,
                                    .http_requests = 109,
                                    .http_connections = 110,
                                    .http_refused = 111,
                                    .http_auth_failures = 112,
                                    .config_reloads = 113,
                                    .config_reload_failures = 114,
                                    .config_fine = true,
                                    .counters_left_out = 115,
                                    .pods_state = "ok",
                                    .pods_age_ns = 116 * NS_PER_S,
                                    .pods_failures = 117,
                                    .pods_count = 118,
                                    .api_reads = {{"pods", "ok"}, {"nodes", "forbidden"}},
                                    .api_read_count = 2,
                                    .placed = {{"as_chosen", 120}, {"other", 0}},
                                    .placed_count = 2,
                                    .kernel_log_lost = 119};
    kit.input.journal = &journal;
    kit.input.receivers = receivers;
    kit.input.receiver_count = ARRAY_LEN(receivers);
    exporter = kit_exporter(&kit, "DCGM_FI_DEV_SM_CLOCK,gauge,a\nDCGM_FI_DEV_FB_USED,gauge,b\n"
                                  "DCGM_FI_DEV_XID_ERRORS,gauge,c\nDCGM_FI_DEV_GPU_TEMP,gauge,d\n");
    kit_event(&kit, exporter, 0, 79, KIT_NOW - NS_PER_S);
    kit_event(&kit, exporter, 0, 79, KIT_NOW - NS_PER_S / 2);
    kit_event(&kit, exporter, 1, 31, KIT_NOW - NS_PER_S);
    kit_add_page(&kit, exporter, EXPORTER_TEXT, &page);
    assert_golden(PAGE, &page);
    exporter_free(exporter);
    kit_done(&kit);
}

/* ---- the window ---- */

static void since_the_last_scrape(void **state)
{
    int power = metric_fast_index(METRIC_POWER_USAGE), util = metric_fast_index(METRIC_GPU_UTIL);
    int bits = metric_fast_index(METRIC_CLOCKS_EVENT_REASONS);
    WindowGpu windows[2] = {{.gpu = {.bus = 0x1a}}, {.gpu = {.bus = 0x77}}};
    Kit kit;
    Exporter *exporter;
    Str page, why;

    (void)state;
    str_init(&page, 1 << 20);
    str_init(&why, 1000);
    kit_node(&kit, 2);
    windows[0].value[power] = (WindowValue){.min = 70.5, .max = 700, .sum = 3000, .count = 10};
    windows[0].value[util] = (WindowValue){.min = 0, .max = 100, .sum = 70, .count = 10};
    windows[0].value[bits] = (WindowValue){.min = 0, .max = 4, .sum = 4, .count = 10};
    windows[1].value[power] = windows[0].value[power]; /* of no GPU that we know */
    exporter = kit_exporter(&kit, "DCGM_FI_DEV_SM_CLOCK,gauge,a\n");
    kit_add_page(&kit, exporter, EXPORTER_OPENMETRICS, &page);
    exporter_window(exporter, &kit.node, windows, 2, 15 * NS_PER_S, EXPORTER_OPENMETRICS, &page);
    expect(page.text, "stoker_power_watts_min", "stoker_power_watts_min" ID "} 70.5\n");
    expect(page.text, "stoker_power_watts_mean", "stoker_power_watts_mean" ID "} 300\n");
    expect(page.text, "stoker_power_watts_max", "stoker_power_watts_max" ID "} 700\n");
    expect(page.text, "stoker_gpu_utilization_ratio_mean", "stoker_gpu_utilization_ratio_mean" ID "} 0.07\n");
    expect(page.text, "stoker_window_seconds", "stoker_window_seconds 15\n");
    assert_null(strstr(page.text, "stoker_sm_clock_hertz_min"));
    if (!check_page(page.text, true, &why))
        fail_msg("%s", why.text);
    str_clear(&page);
    exporter_window(exporter, &kit.node, NULL, 0, 0, EXPORTER_TEXT, &page);
    assert_int_equal(page.len, 0);
    exporter_window(exporter, &kit.node, NULL, 0, 0, EXPORTER_OPENMETRICS, &page);
    assert_string_equal(page.text, "# EOF\n");
    str_done(&page);
    str_done(&why);
    exporter_free(exporter);
    kit_done(&kit);
}

/* Every fast metric but bit masks has a name for its window. */
static void every_fast_metric_has_a_window(void **state)
{
    (void)state;
    for (int i = 0; metric_fast_at(i) != METRIC_END; i++) {
        const Metric *metric = metric_get(metric_fast_at(i));
        const char *name = scrape_base_name(metric->id), *suffix = metric_units[metric->unit].suffix;

        assert_int_equal(name != NULL, metric->unit != UNIT_BITMASK);
        if (name)
            assert_string_equal(name + strlen(name) - strlen(suffix), suffix);
    }
}

/* What promtool's lint says of names, for all of our own. */
static void names_follow_the_conventions(void **state)
{
    static const char *const wrong[] = {"_gauge", "_counter", "_summary", "_histogram", "_untyped",
                                        "_milli", "_ms",      "_ns",      "_percent",   "_megabytes"};
    static const char *const renamed[] = {
#define OWN_METRIC(id, name) name,
#include "service/prometheus/own_metric.def"
#undef OWN_METRIC
    };
    const struct {
        const OwnFamily *list;
        size_t count;
    } lists[] = {{own_families, own_family_count},
                 {own_incident_families, own_incident_family_count},
                 {own_owner_families, own_owner_family_count},
                 {own_total_families, own_total_family_count}};

    (void)state;
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        for (size_t i = 0; i < lists[l].count; i++) {
            const OwnFamily *family = &lists[l].list[i];
            size_t len = strlen(family->name);

            assert_true(strncmp(family->name, "stoker_", 7) == 0 || strncmp(family->name, "process_", 8) == 0);
            assert_int_equal(strcmp(family->name + len - 6, "_total") == 0, family->type == COUNTER_COUNTER);
            assert_int_equal(strspn(family->name, "abcdefghijklmnopqrstuvwxyz_"), len);
            assert_true(strlen(family->help) > 10);
            for (size_t w = 0; w < ARRAY_LEN(wrong); w++)
                assert_null(strstr(family->name, wrong[w]));
        }
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
        assert_int_equal(strncmp(renamed[i], "stoker_", 7), 0);
        for (size_t w = 0; w < ARRAY_LEN(wrong); w++)
            assert_null(strstr(renamed[i], wrong[w]));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_gpu),
        cmocka_unit_test(estimates_of_work),
        cmocka_unit_test(a_gpu_the_driver_does_not_know),
        cmocka_unit_test(why_a_metric_is_missing),
        cmocka_unit_test(a_missing_metric_has_one_name),
        cmocka_unit_test(why_peers_are_missing),
        cmocka_unit_test(derived_share_of_memory),
        cmocka_unit_test(what_a_gpu_is),
        cmocka_unit_test(samplers),
        cmocka_unit_test(this_program),
        cmocka_unit_test(a_page_is_whole),
        cmocka_unit_test(since_the_last_scrape),
        cmocka_unit_test(every_fast_metric_has_a_window),
        cmocka_unit_test(names_follow_the_conventions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
