/* SPDX-License-Identifier: Apache-2.0 */
/* Whole pages of small nodes under each profile (service/prometheus/exporter.c, labels.c, series.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "check.h"
#include "kit.h"

static const char csv[] = "# a comment\n"
                          "DCGM_FI_DEV_SM_CLOCK, gauge, SM clock (in MHz).\n"
                          "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).\n"
                          "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Energy (in mJ).\n"
                          "DCGM_FI_DEV_GPU_UTIL, gauge, Utilization (in %).\n"
                          "DCGM_FI_DEV_MEMORY_TEMP, gauge, never there.\n"
                          "DCGM_FI_DRIVER_VERSION, label, Driver\n"
                          "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio.\n";

static void measure(Kit *kit)
{
    kit_set(kit, 0, METRIC_SM_CLOCK, 1980);
    kit_set(kit, 0, METRIC_POWER_USAGE, 30.982);
    kit_set(kit, 0, METRIC_TOTAL_ENERGY_CONSUMPTION, 129931554972);
    kit_set(kit, 0, METRIC_GPU_UTIL, 7);
    kit_set(kit, 0, METRIC_PROF_DRAM_ACTIVE, 0);
}

static void expect(ExporterProfile profile, ExporterFormat format, const char *expected)
{
    Kit kit;
    char *page;

    kit_node(&kit, 1);
    measure(&kit);
    kit.config.profile = profile;
    page = kit_dcgm(kit_page(&kit, csv, format));
    assert_string_equal(page, expected);
    free(page);
    kit_done(&kit);
}

#define L_4_8_3                                                                                                        \
    "{DCGM_FI_DRIVER_VERSION=\"535.129.03\",UUID=\"GPU-0\",device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\","          \
    "modelName=\"NVIDIA H100 80GB HBM3\",pci_bus_id=\"00000000:1A:00.0\"} "
#define L_4_9                                                                                                          \
    "{DCGM_FI_SYSTEM_DRIVER_VERSION=\"535.129.03\",UUID=\"GPU-0\",device=\"nvidia0\",gpu=\"0\",hostname=\"node-1\","   \
    "modelName=\"NVIDIA H100 80GB HBM3\",pci_bus_id=\"00000000:1A:00.0\"} "
#define L_4_8_2                                                                                                        \
    "{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:1A:00.0\",device=\"nvidia0\",modelName=\"NVIDIA H100 80GB "       \
    "HBM3\","                                                                                                          \
    "Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"535.129.03\"} "

static void profile_4_8_3(void **state)
{
    (void)state;
    expect(EXPORTER_4_8_3, EXPORTER_TEXT,
           "# HELP DCGM_FI_DEV_GPU_UTIL Utilization (in %).\n"
           "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
           "DCGM_FI_DEV_GPU_UTIL" L_4_8_3 "7\n"
           "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
           "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
           "DCGM_FI_DEV_POWER_USAGE" L_4_8_3 "30.982\n"
           "# HELP DCGM_FI_DEV_SM_CLOCK SM clock (in MHz).\n"
           "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
           "DCGM_FI_DEV_SM_CLOCK" L_4_8_3 "1980\n"
           "# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION Energy (in mJ).\n"
           "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"
           "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" L_4_8_3 "1.29931554972e+11\n"
           "# HELP DCGM_FI_PROF_DRAM_ACTIVE Ratio.\n"
           "# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge\n"
           "DCGM_FI_PROF_DRAM_ACTIVE" L_4_8_3 "0\n");
}

static void profile_4_8_2(void **state)
{
    (void)state;
    expect(EXPORTER_4_8_2, EXPORTER_TEXT,
           "# HELP DCGM_FI_DEV_SM_CLOCK SM clock (in MHz).\n"
           "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
           "DCGM_FI_DEV_SM_CLOCK" L_4_8_2 "1980\n"
           "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
           "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
           "DCGM_FI_DEV_POWER_USAGE" L_4_8_2 "30.982000\n"
           "# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION Energy (in mJ).\n"
           "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"
           "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" L_4_8_2 "129931554972\n"
           "# HELP DCGM_FI_DEV_GPU_UTIL Utilization (in %).\n"
           "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
           "DCGM_FI_DEV_GPU_UTIL" L_4_8_2 "7\n"
           "# HELP DCGM_FI_PROF_DRAM_ACTIVE Ratio.\n"
           "# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge\n"
           "DCGM_FI_PROF_DRAM_ACTIVE" L_4_8_2 "0.000000\n");
}

static void profile_4_9(void **state)
{
    (void)state;
    expect(EXPORTER_4_9, EXPORTER_TEXT,
           "# HELP DCGM_FI_DEV_BOARD_POWER_WATTS Power drawn by the board, averaged over about a second on recent"
           " boards\n"
           "# TYPE DCGM_FI_DEV_BOARD_POWER_WATTS gauge\n"
           "DCGM_FI_DEV_BOARD_POWER_WATTS" L_4_9 "30.982\n"
           "# HELP DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL Energy used since the driver was loaded\n"
           "# TYPE DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL counter\n"
           "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL" L_4_9 "1.29931554972e+08\n"
           "# HELP DCGM_FI_DEV_GPU_UTIL_RATIO Share of the time in which any kernel ran\n"
           "# TYPE DCGM_FI_DEV_GPU_UTIL_RATIO gauge\n"
           "DCGM_FI_DEV_GPU_UTIL_RATIO" L_4_9 "0.07\n"
           "# HELP DCGM_FI_DEV_SM_CLOCK_HERTZ Frequency the streaming multiprocessors run at now\n"
           "# TYPE DCGM_FI_DEV_SM_CLOCK_HERTZ gauge\n"
           "DCGM_FI_DEV_SM_CLOCK_HERTZ" L_4_9 "1.98e+09\n"
           "# HELP DCGM_FI_PROF_DRAM_UTIL_RATIO Share of the cycles in which memory was read or written\n"
           "# TYPE DCGM_FI_PROF_DRAM_UTIL_RATIO gauge\n"
           "DCGM_FI_PROF_DRAM_UTIL_RATIO" L_4_9 "0\n");
}

/* OpenMetrics: a counter whose name does not end in _total keeps its name and loses its type. */
static void open_metrics(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    measure(&kit);
    kit_set(&kit, 0, METRIC_PCIE_TX_BYTES_COUNT, 12);
    page = kit_page(&kit, csv, EXPORTER_OPENMETRICS);
    assert_non_null(strstr(page, "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION unknown\n"));
    assert_non_null(strstr(page, "\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{"));
    assert_non_null(strstr(page, "# HELP stoker_pcie_tx_bytes Bytes sent"));
    assert_non_null(strstr(page, "# TYPE stoker_pcie_tx_bytes counter\nstoker_pcie_tx_bytes_total{"));
    assert_null(strstr(page, "# EOF"));
    free(page);
    kit_done(&kit);
}

static void both(void **state)
{
    Kit kit;
    char *page, *lines;

    (void)state;
    kit_node(&kit, 1);
    measure(&kit);
    kit.config.profile = EXPORTER_BOTH;
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    lines = kit_lines(page, "DCGM_FI_DEV_GPU_UTIL");
    assert_string_equal(lines, "DCGM_FI_DEV_GPU_UTIL" L_4_8_3 "7\n");
    free(lines);
    lines = kit_lines(page, "DCGM_FI_DEV_GPU_UTIL_RATIO");
    assert_string_equal(lines, "DCGM_FI_DEV_GPU_UTIL_RATIO" L_4_9 "0.07\n");
    free(lines);
    free(page);
    kit_done(&kit);
}

/* 4.9 has a row among its defaults that 4.8 has not; 4.8.3 put types right. */
static void default_rows_of_the_profiles(void **state)
{
    static const struct {
        ExporterProfile profile;
        const char *there, *not_there;
    } expected[] = {
        {EXPORTER_4_8_3, "# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL gauge\n", "FB_CAPACITY_BYTES"},
        {EXPORTER_4_8_2, "# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter\n", "FB_CAPACITY_BYTES"},
        {EXPORTER_4_9, "# TYPE DCGM_FI_DEV_FB_CAPACITY_BYTES gauge\n", "NVLINK_BANDWIDTH_TOTAL"},
        {EXPORTER_BOTH, "# TYPE DCGM_FI_DEV_FB_CAPACITY_BYTES gauge\n", "DCGM_FI_DEV_FB_TOTAL"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        Kit kit;
        char *page;

        kit_node(&kit, 2);
        kit_fill(&kit, i);
        kit.config.profile = expected[i].profile;
        page = kit_page(&kit, NULL, EXPORTER_TEXT);
        assert_non_null(strstr(page, expected[i].there));
        assert_null(strstr(page, expected[i].not_there));
        free(page);
        kit_done(&kit);
    }
}

/* The first and the last of the lines that are known from the field, but for the order of attributes. */
static void lines_from_the_field(void **state)
{
    Kit kit;
    char *page, *lines;

    (void)state;
    kit_node(&kit, 1);
    kit.config.profile = EXPORTER_4_8_2;
    kit.config.kubernetes = true;
    kit_split(&kit, 0, 1);
    kit_set_reading(&kit.instances[0][0], METRIC_PROF_GR_ENGINE_ACTIVE, 0, KIT_NOW);
    kit_owner(&kit, "MIG-0-0", "text-embedding", "kserve-container");
    page = kit_page(&kit, "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x\nDCGM_FI_DRIVER_VERSION, label, y\n", EXPORTER_TEXT);
    lines = kit_lines(page, "DCGM_FI_PROF_GR_ENGINE_ACTIVE");
    assert_string_equal(
        lines, "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:1A:00.0\","
               "device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"7\","
               "Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"535.129.03\",container=\"kserve-container\","
               "namespace=\"team\",pod=\"text-embedding\"} 0.000000\n");
    free(lines);
    free(page);
    kit_done(&kit);
}

static void names_as_written(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    measure(&kit);
    page = kit_dcgm(kit_page(&kit,
                             "dcgm_power_usage, gauge, a\nDCGM_FI_DEV_SM_CLOCK_HERTZ, gauge, b\n"
                             "DCGM_FI_DEV_GPU_UTIL, histogram, c\n",
                             EXPORTER_TEXT));
    assert_non_null(strstr(page, "\ndcgm_power_usage{"));
    assert_non_null(strstr(page, "\nDCGM_FI_DEV_SM_CLOCK_HERTZ{"));
    assert_non_null(strstr(page, "} 1.98e+09\n"));
    assert_non_null(strstr(page, "# TYPE DCGM_FI_DEV_GPU_UTIL untyped\n"));
    free(page);
    kit.config.profile = EXPORTER_4_9;
    page = kit_dcgm(kit_page(&kit,
                             "dcgm_power_usage, gauge, a\nDCGM_FI_DEV_SM_CLOCK, gauge, b\n"
                             "DCGM_FI_DEV_SM_CLOCK_HERTZ, gauge, c\n",
                             EXPORTER_TEXT));
    assert_non_null(strstr(page, "\ndcgm_power_usage{"));
    assert_non_null(strstr(page, "\nDCGM_FI_DEV_SM_CLOCK_HERTZ{"));
    assert_null(strstr(page, "DCGM_FI_DEV_SM_CLOCK{"));
    free(page);
    kit_done(&kit);
}

static void label_options(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    measure(&kit);
    kit.config.no_hostname = true;
    kit.config.old_namespace = true;
    kit.config.replace_blanks = true;
    strcpy(kit.gpus[0].reading.device.name, " NVIDIA  H100 ");
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    assert_null(strstr(page, "ostname="));
    assert_null(strstr(page, "UUID="));
    assert_non_null(strstr(page, ",uuid=\"GPU-0\"}"));
    assert_non_null(strstr(page, "modelName=\"NVIDIA-H100\""));
    free(page);
    kit_done(&kit);
}

static void label_rows(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    measure(&kit);
    kit_set(&kit, 0, METRIC_PCIE_LINK_GEN, 5);
    strcpy(kit.gpus[0].reading.text[READING_VBIOS_VERSION], "96.00 \"x\"\n\xff");
    page = kit_page(&kit,
                    "DCGM_FI_DEV_SM_CLOCK, gauge, a\nDCGM_FI_DEV_VBIOS_VERSION, label, b\n"
                    "DCGM_FI_DEV_SERIAL, label, c\nDCGM_FI_DEV_PCIE_LINK_GEN, label, d\n",
                    EXPORTER_TEXT);
    assert_non_null(strstr(page, "DCGM_FI_DEV_SM_CLOCK{DCGM_FI_DEV_PCIE_LINK_GEN=\"5\","
                                 "DCGM_FI_DEV_VBIOS_VERSION=\"96.00 \\\"x\\\"\\n\xef\xbf\xbd\",UUID="));
    assert_null(strstr(page, "DCGM_FI_DEV_SERIAL="));
    free(page);
    kit_done(&kit);
}

/* A value that is absent, or older than three of its periods, is not shown; the rest of the page is. */
static void stale_values(void **state)
{
    Kit kit;
    Exporter *exporter;
    char *page;

    (void)state;
    kit_node(&kit, 2);
    kit_set(&kit, 0, METRIC_SM_CLOCK, 1);
    kit_set(&kit, 0, METRIC_PCIE_REPLAY_COUNTER, 2);
    kit_set(&kit, 0, METRIC_MAX_SM_CLOCK, 3);
    kit_set(&kit, 1, METRIC_SM_CLOCK, 4);
    sample_set_absent(&kit.gpus[1].reading.sample[METRIC_SM_CLOCK], KIT_NOW, ABSENCE_FAILED);
    exporter = kit_exporter(&kit, "DCGM_FI_DEV_SM_CLOCK,gauge,a\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER,counter,b\n"
                                  "DCGM_FI_DEV_MAX_SM_CLOCK,gauge,c\n");
    kit_advance(&kit, 3 * NS_PER_S);
    page = kit_dcgm(kit_page_of(&kit, exporter, EXPORTER_TEXT));
    assert_non_null(strstr(page, "\nDCGM_FI_DEV_SM_CLOCK{UUID=\"GPU-0\""));
    assert_null(strstr(page, "GPU-1"));
    free(page);
    kit_advance(&kit, NS_PER_MS);
    page = kit_dcgm(kit_page_of(&kit, exporter, EXPORTER_TEXT));
    assert_null(strstr(page, "DCGM_FI_DEV_SM_CLOCK"));
    assert_non_null(strstr(page, "\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER{"));
    free(page);
    kit_advance(&kit, NS_PER_H);
    page = kit_dcgm(kit_page_of(&kit, exporter, EXPORTER_TEXT));
    assert_null(strstr(page, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"));
    assert_non_null(strstr(page, "\nDCGM_FI_DEV_MAX_SM_CLOCK{"));
    free(page);
    exporter_free(exporter);
    kit_done(&kit);
}

static void no_gpu_at_all(void **state)
{
    Kit kit;
    char *page;
    Str why;

    (void)state;
    str_init(&why, 1000);
    kit_node(&kit, 0);
    page = kit_page(&kit, NULL, EXPORTER_TEXT);
    assert_null(strstr(page, "DCGM_"));
    assert_non_null(strstr(page, "\nstoker_gpus_found 0\n"));
    assert_true(check_page(page, false, &why));
    free(page);
    str_done(&why);
    kit_done(&kit);
}

/* A page that does not fit ends with a whole line and says so. */
static void a_page_that_does_not_fit(void **state)
{
    Kit kit;
    Exporter *exporter;

    (void)state;
    kit_node(&kit, 8);
    kit_fill(&kit, 1);
    exporter = kit_exporter(&kit, NULL);
    for (size_t max = 0; max < 20000; max += 37) {
        Str page;

        str_init(&page, max);
        kit_add_page(&kit, exporter, EXPORTER_TEXT, &page);
        assert_true(page.overflow && page.len <= max);
        assert_true(!page.len || page.text[page.len - 1] == '\n');
        str_done(&page);
    }
    exporter_free(exporter);
    kit_done(&kit);
}

static void wanted_metrics(void **state)
{
    uint64_t wanted[(METRIC_END + 63) / 64];
    Kit kit;
    Exporter *exporter;

    (void)state;
    kit_node(&kit, 1);
    exporter = kit_exporter(&kit, "DCGM_EXP_CLOCK_EVENTS_COUNT,counter,a\nDCGM_FI_DEV_FB_USED_PERCENT,gauge,b\n"
                                  "DCGM_FI_DEV_VBIOS_VERSION,label,c\n");
    exporter_wanted(exporter, wanted);
#define WANTED(id) (wanted[METRIC_##id / 64] >> METRIC_##id % 64 & 1)
    assert_true(WANTED(CLOCKS_EVENT_REASONS) && WANTED(FB_USED) && WANTED(FB_TOTAL) && WANTED(FB_RESERVED));
    assert_true(WANTED(VBIOS_VERSION) && WANTED(XID_ERRORS) && WANTED(PCIE_TX_BYTES_COUNT));
    assert_true(WANTED(ECC_DBE_VOL_TOTAL) && WANTED(PROF_SM_ACTIVE)); /* under names of our own */
    assert_false(WANTED(SM_CLOCK) || WANTED(PCIE_REPLAY_COUNTER));
    exporter_free(exporter);
    exporter = kit_exporter(&kit, "DCGM_EXP_GPU_HEALTH_STATUS,gauge,a\n");
    exporter_wanted(exporter, wanted);
    assert_true(WANTED(PCIE_REPLAY_COUNTER) && WANTED(CLOCKS_EVENT_REASONS));
    exporter_free(exporter);
    kit_done(&kit);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile_4_8_3),
        cmocka_unit_test(profile_4_8_2),
        cmocka_unit_test(profile_4_9),
        cmocka_unit_test(open_metrics),
        cmocka_unit_test(both),
        cmocka_unit_test(default_rows_of_the_profiles),
        cmocka_unit_test(lines_from_the_field),
        cmocka_unit_test(names_as_written),
        cmocka_unit_test(label_options),
        cmocka_unit_test(label_rows),
        cmocka_unit_test(stale_values),
        cmocka_unit_test(no_gpu_at_all),
        cmocka_unit_test(a_page_that_does_not_fit),
        cmocka_unit_test(wanted_metrics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
