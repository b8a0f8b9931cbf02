/* SPDX-License-Identifier: Apache-2.0 */
/* service/prometheus/owners.c: series of who holds each device, and how many there may be. */

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

#define A "{container=\"main\",gpu=\"0\",namespace=\"serving\",pod=\"chat-0\",user=\"root\",uuid=\"GPU-0\"} "
#define B "{account=\"physics\",gpu=\"0\",job=\"4711\",user=\"al\\\"ice\",uuid=\"GPU-0\"} "
#define C "{compute_instance=\"0\",gpu=\"1\",gpu_instance=\"7\",pod=\"late\",uuid=\"GPU-1\"} "

static void each_with_its_own(void **state)
{
    CLEANUP(str_done) Str why = str_limited(4096);
    Kit kit;

    (void)state;
    kit_node(&kit, 2);
    char *page = page_of(&kit, 3);
    expect(page, "stoker_owner_share",
           "stoker_owner_share{attribution=\"sampled\",container=\"main\",gpu=\"0\",namespace=\"serving\",pod=\"chat-0\","
           "user=\"root\",uuid=\"GPU-0\"} 0.75\n"
           "stoker_owner_share{account=\"physics\",attribution=\"sampled\",gpu=\"0\",job=\"4711\",user=\"al\\\"ice\","
           "uuid=\"GPU-0\"} 0.25\n"
           "stoker_owner_share{attribution=\"mig\",compute_instance=\"0\",gpu=\"1\",gpu_instance=\"7\",pod=\"late\","
           "uuid=\"GPU-1\"} 1\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_unless_they_are_asked_for),
        cmocka_unit_test(each_with_its_own),
        cmocka_unit_test(no_more_than_are_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
