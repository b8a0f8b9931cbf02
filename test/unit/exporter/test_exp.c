/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted and judged over ticks: XIDs, clock events, health (counts.c, series.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kit.h"
#include "service/prometheus/counts.h"
#include "service/prometheus/page.h"

CLEANUP_POINTER(Catalogue, catalogue_free);

static const char csv[] = "DCGM_EXP_XID_ERRORS_COUNT,gauge,a\nDCGM_EXP_XID_ERRORS_TOTAL,counter,b\n"
                          "DCGM_EXP_CLOCK_EVENTS_COUNT,gauge,c\nDCGM_EXP_CLOCK_EVENTS_TOTAL,counter,d\n"
                          "DCGM_EXP_GPU_HEALTH_STATUS,gauge,e\nDCGM_EXP_P2P_STATUS,gauge,f\n"
                          "DCGM_FI_DEV_XID_ERRORS,gauge,g\n";

#define ID "UUID=\"GPU-0\","
#define REST                                                                                                           \
    "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",modelName=\"NVIDIA H100 80GB "                                   \
    "HBM3\",pci_bus_id=\"00000000:1A:00.0\""

static void expect(Kit *kit, Exporter *exporter, const char *name, const char *expected)
{
    char *page = kit_page_of(kit, exporter, EXPORTER_TEXT);
    char *lines = kit_lines(page, name);

    assert_string_equal(lines, expected);
    free(lines);
    free(page);
}

static void xids(void **state)
{
    Kit kit;
    Exporter *exporter;

    (void)state;
    kit_node(&kit, 1);
    exporter = kit_exporter(&kit, csv);
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_XID_ERRORS_COUNT",
           "DCGM_EXP_XID_ERRORS_COUNT{" ID REST ",window_size_in_ms=\"300000\"} 0\n");
    expect(&kit, exporter, "DCGM_EXP_XID_ERRORS_TOTAL", "");
    expect(&kit, exporter, "stoker_gpu_xid_errors_total",
           "stoker_gpu_xid_errors_total{" ID
           "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\"} 0\n");
    kit_event(&kit, exporter, 0, 45, kit.node.time_ns);
    kit_event(&kit, exporter, 0, 42, kit.node.time_ns - NS_PER_S);
    kit_event(&kit, exporter, 0, 45, kit.node.time_ns);
    exporter_tick(exporter, &kit.node);
    kit_advance(&kit, 299 * NS_PER_S);
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_XID_ERRORS_COUNT",
           "DCGM_EXP_XID_ERRORS_COUNT{" ID REST ",window_size_in_ms=\"300000\",xid=\"45\"} 2\n");
    expect(&kit, exporter, "DCGM_EXP_XID_ERRORS_TOTAL",
           "DCGM_EXP_XID_ERRORS_TOTAL{" ID REST ",xid=\"42\"} 1\n"
           "DCGM_EXP_XID_ERRORS_TOTAL{" ID REST ",xid=\"45\"} 2\n");
    expect(
        &kit, exporter, "stoker_xid_last_timestamp_seconds",
        "stoker_xid_last_timestamp_seconds{" ID
        "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\",xid=\"42\"} 1.699999999e+09\n"
        "stoker_xid_last_timestamp_seconds{" ID
        "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\",xid=\"45\"} 1.7e+09\n");
    expect(&kit, exporter, "stoker_gpu_xid_errors_total",
           "stoker_gpu_xid_errors_total{" ID
           "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\"} 3\n");
    /* a GPU that is lost still has had its XIDs, but its zero is not known */
    kit_advance(&kit, 2 * NS_PER_S);
    kit.gpus[0].state = GPU_LOST;
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_XID_ERRORS_COUNT", "");
    expect(&kit, exporter, "stoker_xid_errors_total",
           "stoker_xid_errors_total{" ID
           "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\",xid=\"42\"} 1\n"
           "stoker_xid_errors_total{" ID
           "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",pci_bus_id=\"00000000:1A:00.0\",xid=\"45\"} 2\n");
    exporter_free(exporter);
    kit_done(&kit);
}

/* Per GPU, whatever its instances; not alone, not when it is too old. */
static void links_to_peers(void **state)
{
    Kit kit;
    Exporter *exporter;
    char expected[4096] = "";

    (void)state;
    kit_node(&kit, 3);
    exporter = kit_exporter(&kit, csv);
    expect(&kit, exporter, "DCGM_EXP_P2P_STATUS", "");
    for (PeerStatus status = 0; status < PEER_STATUS_END; status++) {
        kit_peers(&kit, 0, status);
        sample_set_absent(&kit.peers[0][1].status, KIT_NOW, ABSENCE_NOT_SUPPORTED);
        snprintf(expected, sizeof expected,
                 "DCGM_EXP_P2P_STATUS{" ID "device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\",link_status=\"%s\","
                 "modelName=\"NVIDIA H100 80GB HBM3\",pci_bus_id=\"00000000:1A:00.0\",peer_gpu=\"1\"} %d\n",
                 peer_statuses[status].text, (int)status);
        expect(&kit, exporter, "DCGM_EXP_P2P_STATUS", expected);
    }
    kit_split(&kit, 0, 2);
    expect(&kit, exporter, "DCGM_EXP_P2P_STATUS", expected);
    kit_advance(&kit, 30 * NS_PER_S); /* three slow periods */
    expect(&kit, exporter, "DCGM_EXP_P2P_STATUS", expected);
    kit_advance(&kit, NS_PER_S);
    expect(&kit, exporter, "DCGM_EXP_P2P_STATUS", "");
    exporter_free(exporter);
    kit_done(&kit);
}

static void the_last_xid(void **state)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    Err err = {0};
    Kit kit;
    Exporter *exporter;

    (void)state;
    kit_node(&kit, 1);
    assert_int_equal(catalogue_new(NULL, 0, &catalogue, &err), 0);
    exporter = kit_exporter(&kit, csv);
    kit.input.catalogue = catalogue;
    expect(&kit, exporter, "DCGM_FI_DEV_XID_ERRORS", "");
    sample_set_absent(&kit.gpus[0].reading.sample[METRIC_XID_ERRORS], kit.node.time_ns, ABSENCE_NO_DATA);
    expect(&kit, exporter, "DCGM_FI_DEV_XID_ERRORS", /* none yet, so that a rule sees the first one come */
           "DCGM_FI_DEV_XID_ERRORS{" ID
           "device=\"nvidia0\",err_code=\"0\",err_msg=\"No Error\",gpu=\"0\",hostname=\"node-1\","
           "modelName=\"NVIDIA H100 80GB HBM3\",pci_bus_id=\"00000000:1A:00.0\"} 0\n");
    kit_set(&kit, 0, METRIC_XID_ERRORS, 79);
    kit_advance(&kit, 30 * NS_PER_H); /* it stays */
    expect(
        &kit, exporter, "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_DEV_XID_ERRORS{" ID
        "device=\"nvidia0\",err_code=\"79\",err_msg=\"the GPU has fallen off the bus\",gpu=\"0\",hostname=\"node-1\","
        "modelName=\"NVIDIA H100 80GB HBM3\",pci_bus_id=\"00000000:1A:00.0\"} 79\n");
    kit_set(&kit, 0, METRIC_XID_ERRORS, 999);
    expect(&kit, exporter, "DCGM_FI_DEV_XID_ERRORS",
           "DCGM_FI_DEV_XID_ERRORS{" ID
           "device=\"nvidia0\",err_code=\"999\",err_msg=\"unknown XID\",gpu=\"0\",hostname=\"node-1\","
           "modelName=\"NVIDIA H100 80GB HBM3\",pci_bus_id=\"00000000:1A:00.0\"} 999\n");
    exporter_free(exporter);
    kit_done(&kit);
}

/* Ten readings of a second, one digit each; '-' is one without a value. */
static void fast_second(Kit *kit, const char *bits)
{
    int at = metric_fast_index(METRIC_CLOCKS_EVENT_REASONS);
    size_t count = strlen(bits);

    kit->gpus[0].fast = kit->fast;
    kit->gpus[0].fast_count = count;
    for (size_t i = 0; i < count; i++) {
        kit->fast[i] = (FastReading){.time_ns = kit->node.time_ns - NS_PER_S + i * NS_PER_S / 10};
        if (bits[i] == '-')
            continue;
        kit->fast[i].valid = 1u << at;
        kit->fast[i].value[at] = bits[i] - '0';
    }
}

static void clock_events(void **state)
{
    Kit kit;
    Exporter *exporter;

    (void)state;
    kit_node(&kit, 1);
    exporter = kit_exporter(&kit, csv);
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_CLOCK_EVENTS_COUNT", ""); /* nothing is known yet */
    kit_advance(&kit, NS_PER_S);
    fast_second(&kit, "0000000000");
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_CLOCK_EVENTS_COUNT",
           "DCGM_EXP_CLOCK_EVENTS_COUNT{" ID REST ",window_size_in_ms=\"300000\"} 0\n");
    /* a throttle of a tenth of a second is seen; a second counts once, its edges each */
    kit_advance(&kit, NS_PER_S);
    fast_second(&kit, "0040400000");
    exporter_tick(exporter, &kit.node);
    kit_advance(&kit, NS_PER_S);
    fast_second(&kit, "44-4500000");
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_CLOCK_EVENTS_COUNT",
           "DCGM_EXP_CLOCK_EVENTS_COUNT{UUID=\"GPU-0\",clock_event=\"gpu_idle\"," REST
           ",window_size_in_ms=\"300000\"} 1\n"
           "DCGM_EXP_CLOCK_EVENTS_COUNT{UUID=\"GPU-0\",clock_event=\"power_cap\"," REST
           ",window_size_in_ms=\"300000\"} 2\n");
    {
        char *page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
        char *lines = kit_lines(page, "DCGM_EXP_CLOCK_EVENTS_TOTAL");

        assert_non_null(strstr(lines, "clock_event=\"power_cap\"," REST "} 3\n"));
        assert_non_null(strstr(lines, "clock_event=\"gpu_idle\"," REST "} 1\n"));
        assert_non_null(strstr(lines, "clock_event=\"hw_thermal\"," REST "} 0\n"));
        free(lines);
        free(page);
    }
    kit_advance(&kit, 301 * NS_PER_S);
    exporter_tick(exporter, &kit.node);
    expect(&kit, exporter, "DCGM_EXP_CLOCK_EVENTS_COUNT", ""); /* no reading in the window */
    exporter_free(exporter);
    kit_done(&kit);
}

/* A configuration read again keeps the counts, whatever its windows are. */
static void adopted_counts(void **state)
{
    Kit kit;
    Exporter *before, *after;

    (void)state;
    kit_node(&kit, 1);
    kit.config.xid_window_ns = NS_PER_H;
    before = kit_exporter(&kit, csv);
    kit_event(&kit, before, 0, 13, kit.node.time_ns);
    kit_event(&kit, before, 0, 48, kit.node.time_ns);
    kit_event(&kit, before, 0, 13, kit.node.time_ns);
    exporter_tick(before, &kit.node);
    kit.config.xid_window_ns = NS_PER_MIN;
    after = kit_reload(&kit, csv, before);
    expect(&kit, after, "DCGM_EXP_XID_ERRORS_TOTAL",
           "DCGM_EXP_XID_ERRORS_TOTAL{" ID REST ",xid=\"13\"} 2\n"
           "DCGM_EXP_XID_ERRORS_TOTAL{" ID REST ",xid=\"48\"} 1\n");
    expect(&kit, after, "DCGM_EXP_XID_ERRORS_COUNT",
           "DCGM_EXP_XID_ERRORS_COUNT{" ID REST ",window_size_in_ms=\"60000\",xid=\"13\"} 2\n"
           "DCGM_EXP_XID_ERRORS_COUNT{" ID REST ",window_size_in_ms=\"60000\",xid=\"48\"} 1\n");
    exporter_free(after);
    kit_done(&kit);
}

/* A window holds what a list of all events would, over jumps and long gaps. */
static void windows_against_a_list(void **state)
{
    static const uint64_t windows_s[] = {1, 60, 300, 3600};

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(windows_s); w++) {
        uint64_t width = (windows_s[w] + COUNT_BUCKETS - 1) / COUNT_BUCKETS * NS_PER_S, seed = w;
        uint64_t times[2000];
        Counts counts = {0};
        Kit kit;

        kit_node(&kit, 1);
        counts_set_windows(&counts, windows_s[w] * NS_PER_S, NS_PER_S);
        assert_true(counts.xid_width_ns == width);
        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
            uint64_t expected = 0, bucket;

            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            kit_advance(&kit, (seed >> 33) % (i % 50 ? 3 * NS_PER_S : 2000 * NS_PER_S));
            times[i] = kit.node.time_ns;
            const Event event = kit_xid(&kit, 0, 7, times[i]);

            counts_add_xid(&counts, &event, &(CountKeep){.put = NULL});
            bucket = times[i] / width;
            for (size_t k = 0; k <= i; k++)
                expected += bucket - times[k] / width < COUNT_BUCKETS;
            assert_int_equal(count_window_sum(&counts.gpus.at[0]->xids.at[0].window, width, kit.node.time_ns),
                             expected);
        }
        counts_done(&counts);
        kit_done(&kit);
    }
}

static void a_flood_of_xids(void **state)
{
    Kit kit;
    Exporter *exporter;
    char *page, *lines;
    size_t count = 0;

    (void)state;
    kit_node(&kit, 1);
    exporter = kit_exporter(&kit, csv);
    for (uint64_t i = 0; i < 5000; i++) {
        kit_event(&kit, exporter, 0, i, kit.node.time_ns);
        exporter_tick(exporter, &kit.node);
    }
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    lines = kit_lines(page, "stoker_xid_errors_total");
    for (const char *at = lines; *at; at = strchr(at, '\n') + 1)
        count++;
    assert_int_equal(count, COUNT_XIDS_MAX);
    free(lines);
    free(page);
    exporter_free(exporter);
    kit_done(&kit);
}

/* ---- health ---- */

typedef struct HealthCase {
    const char *class;
    FaultCause cause;
    FaultSeverity severity;
    int32_t code;
    HealthWatch watch;
    HealthResult result;
    const char *word;
} HealthCase;

static const HealthCase health_cases[] = {
    {"ecc-uncorrectable", CAUSE_MEMORY, SEVERITY_ERROR, 48, HEALTH_MEM, HEALTH_FAIL, "DCGM_FR_VOLATILE_DBE_DETECTED"},
    {"row-remap-pending", CAUSE_MEMORY, SEVERITY_WARNING, 0, HEALTH_MEM, HEALTH_WARN, "DCGM_FR_PENDING_ROW_REMAP"},
    {"inforom-corrupt", CAUSE_FIRMWARE, SEVERITY_WARNING, 0, HEALTH_INFOROM, HEALTH_WARN, "DCGM_FR_CORRUPT_INFOROM"},
    {"thermal-margin", CAUSE_THERMAL, SEVERITY_INFO, 0, HEALTH_THERMAL, HEALTH_PASS, ""},
    {"a-sites-own", CAUSE_POWER, SEVERITY_ERROR, 0, HEALTH_POWER, HEALTH_FAIL, "DCGM_FR_UNKNOWN"},
    {"a-sites-own", CAUSE_BUS, SEVERITY_WARNING, 79, HEALTH_PCIE, HEALTH_WARN, "DCGM_FR_XID_ERROR"},
    {"app-fault", CAUSE_APPLICATION, SEVERITY_ERROR, 31, HEALTH_SM, HEALTH_PASS, ""},
};

static void health_by_incident(void **state)
{
    Health health[HEALTH_END];
    Kit kit;

    (void)state;
    kit_node(&kit, 1);
    for (size_t i = 0; i < ARRAY_LEN(health_cases); i++) {
        const HealthCase *c = &health_cases[i];
        Incident incident = {.state = INCIDENT_OPEN,
                             .cause = c->cause,
                             .severity = c->severity,
                             .code = c->code,
                             .device = kit.gpus[0].reading.device};
        const Incident *list = &incident;

        kit_set(&kit, 0, METRIC_CLOCKS_EVENT_REASONS, 0x40);
        snprintf(incident.class, sizeof incident.class, "%s", c->class);
        health_of_gpu(&kit.gpus[0], &list, 1, health);
        assert_true(health[c->watch].known);
        assert_int_equal(health[c->watch].result, c->result);
        assert_string_equal(health[c->watch].code, c->word);
        assert_int_equal(health[HEALTH_ALL].result, c->result);
        assert_string_equal(health[HEALTH_ALL].code, c->word);
        assert_false(health[HEALTH_MCU].known);
        incident.state = INCIDENT_CLEARED; /* it lets go */
        health_of_gpu(&kit.gpus[0], &list, 1, health);
        assert_int_equal(health[HEALTH_ALL].result, HEALTH_PASS);
    }
    health_of_gpu(&kit.gpus[0], NULL, 0, health);
    assert_false(health[HEALTH_MEM].known); /* no ECC is read */
    kit_set(&kit, 0, METRIC_ECC_DBE_VOL_TOTAL, 1);
    health_of_gpu(&kit.gpus[0], NULL, 0, health);
    assert_true(health[HEALTH_MEM].known && health[HEALTH_MEM].result == HEALTH_PASS); /* incidents alone decide */
    kit.gpus[0].state = GPU_HUNG;
    health_of_gpu(&kit.gpus[0], NULL, 0, health);
    assert_false(health[HEALTH_ALL].known);
    kit_done(&kit);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(xids),
        cmocka_unit_test(links_to_peers),
        cmocka_unit_test(the_last_xid),
        cmocka_unit_test(clock_events),
        cmocka_unit_test(adopted_counts),
        cmocka_unit_test(windows_against_a_list),
        cmocka_unit_test(a_flood_of_xids),
        cmocka_unit_test(health_by_incident),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
