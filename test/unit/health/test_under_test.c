/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs under test (engine/health/under_test.c): what their load explains, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "engine/health/under_test.h"

#define UNTIL (100 * NS_PER_S)

static PciAddress pci(unsigned gpu)
{
    return (PciAddress){.bus = (uint8_t)gpu};
}

/* Evidence of a detector about a GPU; -1: the node. */
static bool explains(const UnderTest *tests, const char *detector, int gpu, uint64_t now_ns)
{
    const DetectorSpec spec = {.name = detector};
    const FaultRule rule = {.id = "rule", .detector = &spec};
    Evidence evidence = {.verdict = {.rule = &rule}};

    device_init(&evidence.device, gpu < 0 ? DEVICE_NODE : DEVICE_GPU);
    evidence.device.has_pci = gpu >= 0;
    evidence.device.pci = pci((unsigned)gpu);
    return under_test_explains(tests, &evidence, now_ns);
}

static void test_the_load_is_explained_while_it_lasts_and_a_little_longer(void **state)
{
    UnderTest tests = {.count = 0};
    (void)state;

    assert_false(explains(&tests, "throttle", 1, 0));
    assert_false(under_test_runs(&tests, pci(1), 0));
    assert_int_equal(under_test_begin(&tests, "GPU-1", pci(1), UNTIL, 0, NULL), 0);
    assert_true(under_test_runs(&tests, pci(1), UNTIL - 1));
    assert_false(under_test_runs(&tests, pci(2), UNTIL - 1));
    assert_false(under_test_runs(&tests, pci(1), UNTIL));
    assert_true(explains(&tests, "throttle", 1, UNTIL + UNDER_TEST_TAIL_NS - 1));
    assert_false(explains(&tests, "throttle", 1, UNTIL + UNDER_TEST_TAIL_NS));
    assert_false(explains(&tests, "throttle", 2, 0));
    assert_true(explains(&tests, "throttle", -1, 0)); /* of the node: by any GPU */
    under_test_end(&tests, "GPU-2", 1);
    assert_true(under_test_runs(&tests, pci(1), 1));
    under_test_end(&tests, "GPU-1", 1);
    under_test_end(&tests, "GPU-1", 2); /* it had ended */
    assert_false(under_test_runs(&tests, pci(1), 1));
    assert_true(explains(&tests, "throttle", 1, UNDER_TEST_TAIL_NS));
    assert_false(explains(&tests, "throttle", 1, UNDER_TEST_TAIL_NS + 1));
}

static void test_faults_are_not_explained(void **state)
{
    static const char *const explained[] = {"throttle",        "thermal-margin", "power-limit",    "clocks-peers",
                                            "memory-orphaned", "memory-leak",    "noisy-neighbour"};
    UnderTest tests = {.count = 0};
    size_t found = 0;
    (void)state;

    assert_int_equal(under_test_begin(&tests, "GPU-1", pci(1), UNTIL, 0, NULL), 0);
    for (size_t i = 0; i < detector_spec_count; i++) {
        bool wanted = false;

        for (size_t k = 0; k < ARRAY_LEN(explained); k++)
            wanted |= strcmp(explained[k], detector_specs[i].name) == 0;
        assert_int_equal(explains(&tests, detector_specs[i].name, 1, 0), wanted);
        found += wanted;
    }
    assert_int_equal(found, ARRAY_LEN(explained)); /* each is a detector's name */
    const FaultRule idle = {.id = "gpu-held-idle"}, other = {.id = "other"};
    Evidence evidence = {.verdict = {.rule = &idle}};
    device_init(&evidence.device, DEVICE_GPU_INSTANCE);
    evidence.device.has_pci = true;
    evidence.device.pci = pci(1);
    assert_true(under_test_explains(&tests, &evidence, 0));
    evidence.verdict.rule = &other;
    assert_false(under_test_explains(&tests, &evidence, 0));
}

static void test_room(void **state)
{
    UnderTest tests = {.count = 0};
    char uuid[32];
    Err err = {0};
    (void)state;

    for (unsigned i = 0; i < UNDER_TEST_MAX; i++) {
        snprintf(uuid, sizeof uuid, "GPU-%u", i);
        assert_int_equal(under_test_begin(&tests, uuid, pci(i % 8), UNTIL, 0, &err), 0);
    }
    assert_int_equal(under_test_begin(&tests, "GPU-more", pci(9), UNTIL, 0, &err), -ENOSPC);
    assert_int_equal(under_test_begin(&tests, uuid, pci(7), 2 * UNTIL, 0, &err), 0); /* one of them for longer */
    assert_true(under_test_runs(&tests, pci(7), 2 * UNTIL - 1));
    assert_int_equal(under_test_begin(&tests, "GPU-more", pci(9), 4 * UNTIL, UNTIL + UNDER_TEST_TAIL_NS, &err), 0);
    assert_int_equal(tests.count, 2);
    assert_true(under_test_runs(&tests, pci(9), 4 * UNTIL - 1));
}

static void test_the_mark_fits(void **state)
{
    static const char mark[] = " (during 'stoker bench')";
    char text[EVENT_TEXT_CAP] = "8 °C left";
    (void)state;

    under_test_mark(text);
    assert_string_equal(text, "8 °C left (during 'stoker bench')");
    for (size_t len = EVENT_TEXT_CAP - sizeof mark - 2; len < EVENT_TEXT_CAP - 3; len++) {
        memset(text, 'x', sizeof text);
        snprintf(text + len, sizeof text - len, "°");
        under_test_mark(text);
        const size_t all = strlen(text), kept = all - strlen(mark);
        assert_true(all < sizeof text);
        assert_string_equal(text + kept, mark);
        assert_true(text[kept - 1] == 'x' || memcmp(text + kept - 2, "°", 2) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_load_is_explained_while_it_lasts_and_a_little_longer),
        cmocka_unit_test(test_faults_are_not_explained),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_the_mark_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
