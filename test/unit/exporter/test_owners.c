/* SPDX-License-Identifier: Apache-2.0 */
/* service/prometheus/owners.c: series of who holds each device, and how many there may be. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "check.h"
#include "kit.h"

static const Holding holdings[] = {
    {.gpu = 0,
     .gpu_instance = DEVICE_NO_NUMBER,
     .compute_instance = DEVICE_NO_NUMBER,
     .owner = {.user = "root", .pod = "chat-0", .namespace = "serving", .container = "main", .pid = 1},
     .attribution = ATTRIBUTION_SAMPLED,
     .share = 0.75,
     .memory_bytes = 4096},
    {.gpu = 0,
     .gpu_instance = DEVICE_NO_NUMBER,
     .compute_instance = DEVICE_NO_NUMBER,
     .owner = {.user = "al\"ice", .job = "4711", .account = "physics", .pid = 2},
     .state = HOLDING_UNMANAGED,
     .attribution = ATTRIBUTION_SAMPLED,
     .share = 0.25},
    {.gpu = 1,
     .gpu_instance = 7,
     .compute_instance = 0,
     .owner = {.pod = "late", .pid = -1},
     .state = HOLDING_RESERVED,
     .attribution = ATTRIBUTION_MIG,
     .share = 1},
};

static char *page_of(Kit *kit, uint64_t most)
{
    kit->config.owners_max = most;
    kit->snapshot.holdings = holdings;
    kit->snapshot.holding_count = ARRAY_LEN(holdings);
    return kit_page(kit, NULL, EXPORTER_TEXT);
}

static void expect(const char *page, const char *name, const char *expected)
{
    char *lines = kit_lines(page, name);

    assert_string_equal(lines, expected);
    free(lines);
}

static void none_unless_they_are_asked_for(void **state)
{
    Kit kit;

    (void)state;
    kit_node(&kit, 2);
    char *page = page_of(&kit, 0);
    assert_null(strstr(page, "stoker_owner"));
    free(page);
    kit_done(&kit);
}

#define A "{UUID=\"GPU-0\",container=\"main\",gpu=\"0\",namespace=\"serving\",pod=\"chat-0\",user=\"root\"} "
#define B "{UUID=\"GPU-0\",account=\"physics\",gpu=\"0\",hpc_job=\"4711\",user=\"al\\\"ice\"} "
#define C "{GPU_I_ID=\"7\",UUID=\"GPU-1\",compute_instance=\"0\",gpu=\"1\",pod=\"late\"} "

static void each_with_its_own(void **state)
{
    CLEANUP(str_done) Str why = str_limited(4096);
    Kit kit;

    (void)state;
    kit_node(&kit, 2);
    char *page = page_of(&kit, 3);
    expect(page, "stoker_owner_share",
           "stoker_owner_share{UUID=\"GPU-0\",attribution=\"sampled\",container=\"main\",gpu=\"0\",namespace=\"serving\","
           "pod=\"chat-0\",user=\"root\"} 0.75\n"
           "stoker_owner_share{UUID=\"GPU-0\",account=\"physics\",attribution=\"sampled\",gpu=\"0\",hpc_job=\"4711\","
           "user=\"al\\\"ice\"} 0.25\n"
           "stoker_owner_share{GPU_I_ID=\"7\",UUID=\"GPU-1\",attribution=\"mig\",compute_instance=\"0\",gpu=\"1\","
           "pod=\"late\"} 1\n");
    expect(page, "stoker_owner_memory_bytes",
           "stoker_owner_memory_bytes" A "4096\nstoker_owner_memory_bytes" B "0\nstoker_owner_memory_bytes" C "0\n");
    expect(page, "stoker_owner_idle", "stoker_owner_idle" A "0\nstoker_owner_idle" B "0\nstoker_owner_idle" C "1\n");
    expect(page, "stoker_owner_unmanaged",
           "stoker_owner_unmanaged" A "0\nstoker_owner_unmanaged" B "1\nstoker_owner_unmanaged" C "0\n");
    expect(page, "stoker_owners_left_out", "stoker_owners_left_out 0\n");
    assert_true(check_page(page, false, &why));
    free(page);
    kit_done(&kit);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* "pod value" of each line, sorted. */
static void assert_values(const char *page, const char *name, const char *expected)
{
    CLEANUP(str_done) Str text = str_limited(4096);
    char *lines = kit_lines(page, name), found[8][64], *rest = NULL;
    size_t count = 0;

    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *pod = strstr(line, "pod=\"") + strlen("pod=\"");

        assert_true(count < ARRAY_LEN(found));
        snprintf(found[count++], sizeof found[0], "%.*s %s", (int)strcspn(pod, "\""), pod, strrchr(line, ' ') + 1);
    }
    qsort(found, count, sizeof found[0], compare_texts);
    for (size_t i = 0; i < count; i++)
        str_addf(&text, "%s%s", i > 0 ? ", " : "", found[i]);
    assert_string_equal(text.text, expected);
    free(lines);
}

static void no_more_than_are_allowed(void **state)
{
    Kit kit;

    (void)state;
    kit_node(&kit, 2);
    char *page = page_of(&kit, 1);
    expect(page, "stoker_owner_idle", "stoker_owner_idle" A "0\n");
    expect(page, "stoker_owners_left_out", "stoker_owners_left_out 2\n");
    free(page);
    kit_done(&kit);
}

/* Utilisation and memory of a shared GPU: each pod its own part, never what all do together. */
static void sharers_have_their_own_part(void **state)
{
    static const char csv[] = "DCGM_FI_DEV_GPU_UTIL, gauge, u\nDCGM_FI_DEV_FB_USED, gauge, m\n"
                              "DCGM_FI_DEV_FB_USED_PERCENT, gauge, s\nDCGM_FI_DEV_POWER_USAGE, gauge, p\n";
    Holding parts[] = {
        {.owner = {.pod = "one"}, .share = 0.5, .sm_share = 0.6, .memory_bytes = 10240, .process_count = 1},
        {.owner = {.pod = "two"}, .share = 0.3, .sm_share = 0.3, .memory_bytes = 4096, .process_count = 2},
        {.owner = {.pod = "three"}, .sm_share = (double)NAN},
        {.owner = {.pod = "one"}, .sm_share = 0.9, .memory_bytes = 777, .process_count = 1}};
    Kit kit;

    (void)state;
    kit_node(&kit, 2);
    kit.config.kubernetes = true;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        parts[i].gpu = i == 3; /* the last is on another GPU, which it has alone */
        parts[i].gpu_instance = parts[i].compute_instance = DEVICE_NO_NUMBER;
        parts[i].memory_bytes <<= 20;
        snprintf(parts[i].owner.namespace, sizeof parts[i].owner.namespace, "team");
        snprintf(parts[i].owner.container, sizeof parts[i].owner.container, "c");
    }
    for (size_t i = 0; i < 2; i++) {
        kit_set(&kit, i, METRIC_GPU_UTIL, 90);
        kit_set(&kit, i, METRIC_FB_USED, 15000);
        kit_set(&kit, i, METRIC_FB_TOTAL, 21000);
        kit_set(&kit, i, METRIC_FB_RESERVED, 1000);
        kit_set(&kit, i, METRIC_POWER_USAGE, 300);
    }
    kit_owner(&kit, "GPU-0::0", "one", "c");
    kit_owner(&kit, "GPU-0::1", "two", "c");
    kit_owner(&kit, "GPU-0::2", "two", "c"); /* two replicas: half of its part each */
    kit_owner(&kit, "GPU-0::3", "three", "c");
    kit_owner(&kit, "GPU-0::4", "four", "c"); /* nothing is known of it */
    kit_owner(&kit, "GPU-1::0", "one", "c");
    kit.snapshot.holdings = parts;
    kit.snapshot.holding_count = ARRAY_LEN(parts);
    char *page = kit_page(&kit, csv, EXPORTER_TEXT);
    assert_values(page, "DCGM_FI_DEV_GPU_UTIL", "one 60, one 90, three 0, two 15, two 15");
    assert_values(page, "DCGM_FI_DEV_FB_USED", "one 10240, one 15000, three 0, two 2048, two 2048");
    assert_values(page, "DCGM_FI_DEV_FB_USED_PERCENT", "one 0.512, one 0.75, three 0, two 0.1024, two 0.1024");
    assert_values(page, "DCGM_FI_DEV_POWER_USAGE", "four 300, one 300, one 300, three 300, two 300, two 300");
    free(page);
    parts[0].sm_share = (double)NAN; /* no samples: by its share */
    page = kit_page(&kit, csv, EXPORTER_TEXT);
    assert_values(page, "DCGM_FI_DEV_GPU_UTIL", "one 45, one 90, three 0, two 15, two 15");
    free(page);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_unless_they_are_asked_for),
        cmocka_unit_test(each_with_its_own),
        cmocka_unit_test(no_more_than_are_allowed),
        cmocka_unit_test(sharers_have_their_own_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
