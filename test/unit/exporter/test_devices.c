/* SPDX-License-Identifier: Apache-2.0 */
/* MIG devices, pods and jobs on a page (service/prometheus/targets.c, own_total.c). */

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

static const char csv[] = "DCGM_FI_DEV_GPU_TEMP,gauge,a\nDCGM_FI_DEV_FB_USED,gauge,b\n";

/* Labels of a line in short: what a case is about, without the identity of the GPU. */
static void expect_lines(const char *page, const char *name, const char *const *parts, size_t count)
{
    char *lines = kit_lines(page, name);
    size_t found = 0;

    for (const char *at = lines; *at; at = strchr(at, '\n') + 1)
        found++;
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        if (!strstr(lines, parts[i]))
            fail_msg("'%s' is not in:\n%s", parts[i], lines);
    free(lines);
}
#define EXPECT(page, name, ...)                                                                                        \
    expect_lines((page), (name), (const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

/* GPU 0 in two instances, of which the second has a compute instance more; GPU 1 whole. */
static void mig_node(Kit *kit)
{
    Reading *extra;

    kit_node(kit, 2);
    kit_split(kit, 0, 3);
    extra = &kit->instances[0][2];
    extra->device.gpu_instance = 8;
    extra->device.compute_instance = 1;
    extra->instance_head = false;
    kit_set(kit, 0, METRIC_GPU_TEMP, 40);
    kit_set(kit, 1, METRIC_GPU_TEMP, 50);
    kit_set(kit, 1, METRIC_FB_USED, 500);
    kit_set_reading(&kit->instances[0][0], METRIC_FB_USED, 100, KIT_NOW);
    kit_set_reading(&kit->instances[0][1], METRIC_FB_USED, 200, KIT_NOW);
    kit_set_reading(extra, METRIC_FB_USED, 200, KIT_NOW);
}

static void one_series_per_gpu_instance(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    mig_node(&kit);
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_FB_USED", "GPU_I_ID=\"7\",GPU_I_PROFILE=\"1g.10gb\",UUID=\"GPU-0\"", "} 100\n",
           "GPU_I_ID=\"8\",GPU_I_PROFILE=\"1g.10gb\",UUID=\"GPU-0\"");
    free(page);
    kit_done(&kit);
}

static void the_gpu_is_repeated_per_instance(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    mig_node(&kit);
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "GPU_I_ID=\"7\"", "GPU_I_ID=\"8\"", "} 50\n");
    free(page);
    kit_done(&kit);
}

static void selectors(void **state)
{
    static const struct {
        const char *selector;
        size_t lines;
    } cases[] = {{"f", 3},     {"g", 2},     {"g:1", 1}, {"i", 2},  {"i:8", 1},
                 {"i:1.8", 0}, {"i:0.8", 1}, {"g+i", 4}, {"g:7", 0}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Kit kit;
        Err err;
        char *page, *lines;
        size_t count = 0;

        mig_node(&kit);
        assert_int_equal(exporter_devices_parse(cases[i].selector, &kit.config.devices, &err), 0);
        page = kit_page(&kit, csv, EXPORTER_TEXT);
        lines = kit_lines(page, "DCGM_FI_DEV_GPU_TEMP");
        for (const char *at = lines; *at; at = strchr(at, '\n') + 1)
            count++;
        assert_int_equal(count, cases[i].lines);
        EXPECT(page, "stoker_gpu_up", "GPU-0", "GPU-1"); /* whatever is selected */
        free(lines);
        free(page);
        kit_done(&kit);
    }
}

static void totals_count_nothing_twice(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    mig_node(&kit);
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    assert_null(strstr(page, "stoker_gpu_fb_used_bytes"));
    free(page);
    kit.config.mig_totals = true;
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "stoker_gpu_fb_used_bytes", "UUID=\"GPU-0\"", "} 5.24288e+08\n");
    EXPECT(page, "stoker_gpu_temperature_celsius", "} 40\n", "} 50\n");
    EXPECT(page, "stoker_gpu_instances", "} 2\n", "} 0\n");
    free(page);
    sample_set_absent(&kit.instances[0][1].sample[METRIC_FB_USED], KIT_NOW, ABSENCE_FAILED);
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "stoker_gpu_fb_used_bytes", "UUID=\"GPU-1\"");
    free(page);
    kit_done(&kit);
}

static void pods(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    mig_node(&kit);
    kit_owner(&kit, "GPU-1", "train", "main");
    kit_owner(&kit, "MIG-0-2", "infer", "srv"); /* a compute instance of the second GPU instance */
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    assert_null(strstr(page, "pod=")); /* not asked for */
    free(page);
    kit.config.kubernetes = true;
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_FB_USED", "GPU_I_ID=\"7\",GPU_I_PROFILE=\"1g.10gb\",UUID=\"GPU-0\",device",
           "UUID=\"GPU-0\",container=\"srv\",device=\"nvidia0\",gpu=\"0\"",
           "namespace=\"team\",pci_bus_id="
           "\"00000000:1A:00.0\",pod=\"infer\"} 200\n");
    assert_null(strstr(page, "vgpu="));
    assert_null(strstr(page, "pod_uid="));
    free(page);
    kit.config.pod_uid = kit.config.old_namespace = true;
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "container_name=\"main\"",
           "pod_name=\"train\",pod_namespace=\"team\",pod_uid=\"uid-1\"", "pod_name=\"infer\"");
    free(page);
    kit_done(&kit);
}

/* Every pod that shares a device is named, not just the last. */
static void time_slicing(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 2);
    kit_set(&kit, 0, METRIC_GPU_TEMP, 40);
    kit_set(&kit, 1, METRIC_GPU_TEMP, 50);
    kit.config.kubernetes = true;
    kit_owner(&kit, "GPU-0::0", "one", "c");
    kit_owner(&kit, "GPU-0::3", "two", "c");
    kit_owner(&kit, "GPU-1::1", "alone", "c");
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "pod=\"one\",vgpu=\"0\"} 40\n", "pod=\"two\",vgpu=\"3\"} 40\n",
           "pod=\"alone\"} 50\n");
    free(page);
    kit.config.virtual_gpus = true;
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "pod=\"one\",pod_uid=\"uid-1\",vgpu=\"0\"} 40\n", "vgpu=\"3\"} 40\n",
           "pod=\"alone\",pod_uid=\"uid-1\",vgpu=\"1\"} 50\n");
    free(page);
    kit_done(&kit);
}

/* The same owner twice would be the same series twice. */
static void an_owner_named_twice(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    kit_node(&kit, 1);
    kit_set(&kit, 0, METRIC_GPU_TEMP, 40);
    kit.config.kubernetes = true;
    kit_owner(&kit, "GPU-0", "one", "c");
    kit_owner(&kit, "GPU-0", "one", "c");
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "pod=\"one\"} 40\n");
    free(page);
    kit_done(&kit);
}

static void gke_ids(void **state)
{
    Kit kit;
    char *page;

    (void)state;
    mig_node(&kit);
    kit.config.kubernetes = true;
    kit_owner(&kit, "nvidia1", "whole", "c");
    kit_owner(&kit, "nvidia0/gi7", "slice", "c");
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "pod=\"whole\"} 50\n", "pod=\"slice\"} 40\n", "GPU_I_ID=\"8\"");
    free(page);
    kit_done(&kit);
}

static char *page_of_jobs(Kit *kit, Exporter *exporter, const JobAllocation *jobs, size_t count)
{
    Str page;

    str_init(&page, 1 << 20);
    kit->input.jobs = jobs;
    kit->input.job_count = count;
    kit_add_page(kit, exporter, EXPORTER_TEXT, &page);
    return str_take(&page);
}

static void jobs(void **state)
{
    static const JobAllocation jobs[] = {
        {0, 7, "slice-job"}, {1, DEVICE_NO_NUMBER, "1001"}, {1, DEVICE_NO_NUMBER, "1002"}, {5, DEVICE_NO_NUMBER, "x"}};
    static const JobAllocation whole[] = {{0, DEVICE_NO_NUMBER, "all"}};
    Kit kit;
    Exporter *exporter;
    char *page;

    (void)state;
    mig_node(&kit);
    exporter = kit_exporter(&kit, csv);
    page = page_of_jobs(&kit, exporter, jobs, ARRAY_LEN(jobs));
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "hpc_job=\"1001\"", "hpc_job=\"1002\"", "hpc_job=\"slice-job\"",
           "GPU_I_ID=\"8\"");
    free(page);
    /* the labels change with the jobs */
    page = page_of_jobs(&kit, exporter, whole, 1);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "GPU_I_ID=\"7\"", "hpc_job=\"all\"", "} 50\n");
    free(page);
    exporter_free(exporter);
    kit_done(&kit);
}

/* What labels are made from is looked at on every page. */
static void labels_follow_the_node(void **state)
{
    Kit kit;
    Exporter *exporter;
    char *page;

    (void)state;
    mig_node(&kit);
    kit.config.kubernetes = true;
    exporter = kit_exporter(&kit, csv);
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "\"7\"", "\"8\"", "GPU-1");
    free(page);
    kit.gpus[0].instance_count = 0;
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "UUID=\"GPU-0\"", "UUID=\"GPU-1\"");
    free(page);
    kit_owner(&kit, "GPU-1", "late", "c");
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP", "UUID=\"GPU-0\"", "pod=\"late\"");
    free(page);
    allocation_table_clear(&kit.allocations);
    strcpy(kit.node.hostname, "other");
    page = kit_page_of(&kit, exporter, EXPORTER_TEXT);
    assert_null(strstr(page, "pod="));
    assert_null(strstr(page, "node-1"));
    free(page);
    exporter_free(exporter);
    kit_done(&kit);
}

/* --- what the selectors leave out --------------------------------------------------------------------------------- */

/* A configuration may name devices that are not there. */
static void devices_that_are_not_there_are_named(void **state)
{
    static const struct {
        const char *selector, *missing;
    } cases[] = {
        {"f", ""},
        {"g:0,1", ""},
        {"g:0,2", "GPU 2"},
        {"g:2+i:7,9", "GPU 2, instance 9"},
        {"i:0.7,0.9,1.7", "instance 9 of GPU 0, instance 7 of GPU 1"},
        {"i:8", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(str_done) Str missing = str_limited(1000);
        Kit kit;
        Err err;

        mig_node(&kit);
        assert_int_equal(exporter_devices_parse(cases[i].selector, &kit.config.devices, &err), 0);
        exporter_devices_add_missing(&kit.config.devices, &kit.node, &missing);
        if (strcmp(missing.text ? missing.text : "", cases[i].missing) != 0)
            fail_msg("%s: %s", cases[i].selector, missing.text);
        kit_done(&kit);
    }
}

/* --- NVLinks ------------------------------------------------------------------------------------------------------ */

static const char link_family[] = "DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER",
                  link_csv[] = "DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER,counter,a\n";

static void each_link_has_series_of_its_own(void **state)
{
    static const struct {
        const char *selector;
        size_t lines;
    } cases[] = {{"f", 5}, {"g", 0}, {"i", 5}, {"i:1", 2}, {"i:1.3", 1}, {"i:0.3", 0}};
    static NodeLink links[2][3];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Kit kit;
        Err err;
        char *page, *lines;
        size_t count = 0;

        kit_node(&kit, 2);
        for (uint32_t g = 0; g < 2; g++) {
            kit.gpus[g].links = links[g];
            kit.gpus[g].link_count = 2 + g;
            for (uint32_t k = 0; k < 2 + g; k++)
                for (size_t p = 0; p < ARRAY_LEN(links[g][k].ports); p++)
                    sample_set_int64(&links[g][k].ports[p], KIT_NOW, 10 * g + k);
        }
        assert_int_equal(exporter_devices_parse(cases[i].selector, &kit.config.links, &err), 0);
        page = kit_page(&kit, link_csv, EXPORTER_TEXT);
        lines = kit_lines(page, link_family);
        for (const char *at = lines; *at; at = strchr(at, '\n') + 1)
            count++;
        assert_int_equal(count, cases[i].lines);
        free(lines);
        free(page);
        if (i == 0) {
            kit.config.no_hostname = true;
            page = kit_page(&kit, link_csv, EXPORTER_TEXT);
            EXPECT(page, link_family,
                   "{device=\"nvidia0\",gpu=\"0\",gpu_uuid=\"GPU-0\",model_name=\"NVIDIA H100 80GB HBM3\",nvlink=\"1\","
                   "pci_bus_id=\"00000000:1A:00.0\"} 0\n",
                   "nvlink=\"2\",pci_bus_id=\"00000000:1A:00.0\"} 1\n",
                   "nvlink=\"1\",pci_bus_id=\"00000000:1B:00.0\"} 10\n",
                   "nvlink=\"2\",pci_bus_id=\"00000000:1B:00.0\"} 11\n",
                   "gpu=\"1\",gpu_uuid=\"GPU-1\",model_name=\"NVIDIA H100 80GB HBM3\",nvlink=\"3\"");
            free(page);
            kit.config.no_hostname = false;
            page = kit_page(&kit, link_csv, EXPORTER_TEXT);
            assert_non_null(strstr(page, ",hostname=\"node-1\",model_name="));
            free(page);
        }
        kit_done(&kit);
    }
}

/* --- claims ------------------------------------------------------------------------------------------------------- */

static void a_claim_adds_its_labels(void **state)
{
    static const AllocationLabel labels[] = {{"team", "ml"}};
    Allocation owner = {.pod = "train",
                        .namespace = "team",
                        .container = "main",
                        .pod_uid = "",
                        .claim = {"c", "team", "gpu.nvidia.com", "node-7", "gpu-0", ""},
                        .labels = labels,
                        .label_count = 1};
    Kit kit;
    char *page;

    (void)state;
    mig_node(&kit);
    kit.config.kubernetes = true;
    assert_int_equal(allocation_device_parse("GPU-1", &owner.device), 0);
    allocation_table_add(&kit.allocations, &owner);
    owner.claim = (AllocationClaim){"d", "team", "gpu.nvidia.com", "node-7", "gpu-0-mig", "1g.10gb"};
    owner.label_count = 0;
    assert_int_equal(allocation_device_parse("MIG-0-0", &owner.device), 0);
    allocation_table_add(&kit.allocations, &owner);
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    EXPECT(page, "DCGM_FI_DEV_GPU_TEMP",
           "container=\"main\",device=\"nvidia1\",dra_claim_name=\"c\",dra_claim_namespace=\"team\","
           "dra_device_name=\"gpu-0\",dra_driver_name=\"gpu.nvidia.com\",dra_pool_name=\"node-7\",gpu=\"1\"",
           "dra_claim_name=\"d\",dra_claim_namespace=\"team\",dra_device_name=\"gpu-0-mig\","
           "dra_driver_name=\"gpu.nvidia.com\",dra_mig_device_uuid=\"MIG-0-0\",dra_mig_profile=\"1g.10gb\",",
           "GPU_I_ID=\"8\"");
    EXPECT(page, "DCGM_FI_DEV_FB_USED", "pod=\"train\",team=\"ml\"} 500\n", "} 100\n", "} 200\n");
    free(page);
    kit_done(&kit);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_series_per_gpu_instance),
        cmocka_unit_test(the_gpu_is_repeated_per_instance),
        cmocka_unit_test(selectors),
        cmocka_unit_test(totals_count_nothing_twice),
        cmocka_unit_test(pods),
        cmocka_unit_test(time_slicing),
        cmocka_unit_test(an_owner_named_twice),
        cmocka_unit_test(gke_ids),
        cmocka_unit_test(jobs),
        cmocka_unit_test(labels_follow_the_node),
        cmocka_unit_test(devices_that_are_not_there_are_named),
        cmocka_unit_test(each_link_has_series_of_its_own),
        cmocka_unit_test(a_claim_adds_its_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
