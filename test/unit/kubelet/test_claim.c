/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of an allocated claim: whose devices, and which configuration counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kubelet/claim.h"

#define DRIVER "gpu.nvidia.com"
#define RESULT(request, device)                                                                                        \
    "{\"request\":\"" request "\",\"driver\":\"" DRIVER "\",\"pool\":\"n\",\"device\":\"" device "\"}"
#define CONFIG(source, requests, sharing)                                                                              \
    "{\"source\":\"" source "\",\"requests\":" requests ",\"opaque\":{\"driver\":\"" DRIVER                            \
    "\",\"parameters\":{\"apiVersion\":\"resource.nvidia.com/v1beta1\",\"kind\":\"GpuConfig\",\"sharing\":" sharing    \
    "}}}"
#define SLICE(interval) "{\"strategy\":\"TimeSlicing\",\"timeSlicingConfig\":{\"interval\":\"" interval "\"}}"

typedef struct Read {
    json_t *object;
    Arena arena;
    Claim claim;
    Err err;
    int rc;
} Read;

static Read *read_claim(const char *results, const char *configs)
{
    static Read now;
    char text[8192];

    json_decref(now.object);
    arena_done(&now.arena);
    now = (Read){.rc = 0};
    snprintf(
        text, sizeof text,
        "{\"metadata\":{\"uid\":\"u\",\"name\":\"c\",\"namespace\":\"ns\"},\"status\":{\"allocation\":{\"devices\":"
        "{\"results\":[%s],\"config\":[%s]}}}}",
        results, configs);
    now.object = json_loads(text, 0, NULL);
    assert_non_null(now.object);
    now.rc = claim_read(now.object, DRIVER, &now.arena, &now.claim, &now.err);
    return &now;
}

/* A later entry counts before an earlier one and the claim's before the class's, wherever it stands. */
static void test_which_configuration_counts(void **state)
{
    (void)state;
    const Read *r = read_claim(
        RESULT("a", "gpu-0") "," RESULT("b/big", "gpu-1") "," RESULT("d", "gpu-2"),
        CONFIG("FromClaim", "[\"a\"]", SLICE("Long")) "," CONFIG("FromClass", "[]", SLICE("Short")) "," CONFIG(
            "FromClaim", "[\"b\"]", SLICE("Short")) "," CONFIG("FromClaim", "[\"b/big\"]", SLICE("Medium")));

    assert_int_equal(r->rc, 0);
    assert_int_equal(r->claim.count, 3);
    assert_int_equal(r->claim.devices[0].config->slice, CLAIM_SLICE_LONG);
    assert_string_equal(r->claim.devices[1].request, "b");
    assert_int_equal(r->claim.devices[1].config->slice, CLAIM_SLICE_MEDIUM);
    assert_int_equal(r->claim.devices[2].config->slice, CLAIM_SLICE_SHORT);
    r = read_claim(RESULT("b/big", "gpu-1"), CONFIG("FromClaim", "[\"b/small\"]", SLICE("Long")));
    assert_null(r->claim.devices[0].config);
}

static void test_devices_of_one_entry_share_it(void **state)
{
    (void)state;
    const Read *r = read_claim(
        RESULT("a", "gpu-0") "," RESULT("b", "gpu-1") "," RESULT("c", "gpu-2"),
        CONFIG("FromClaim", "[\"a\",\"c\"]",
               "{\"strategy\":\"MPS\",\"mpsConfig\":{\"defaultActiveThreadPercentage\":30,"
               "\"defaultPinnedDeviceMemoryLimit\":\"10Gi\",\"defaultPerDevicePinnedMemoryLimit\":{\"1\":\"512Mi\","
               "\"GPU-x\":4096}}}"));
    const ClaimConfig *config = r->claim.devices[0].config;

    assert_int_equal(r->rc, 0);
    assert_ptr_equal(config, r->claim.devices[2].config);
    assert_null(r->claim.devices[1].config);
    assert_int_equal(config->sharing, OFFER_SHARING_MPS);
    assert_int_equal(config->thread_percent, 30);
    assert_int_equal(config->limit_bytes, UINT64_C(10) << 30);
    assert_int_equal(config->limit_count, 2);
    assert_string_equal(config->limits[0].device, "1");
    assert_int_equal(config->limits[0].bytes, 512 << 20);
    assert_int_equal(config->limits[1].bytes, 4096);
}

static void test_wrong_words_are_named(void **state)
{
    static const struct {
        const char *sharing, *words;
    } cases[] = {
        {"{\"strategy\":\"MPS\",\"mpsConfig\":{\"defaultActiveThreadPercentage\":101}}", "no number from 0 to 100"},
        {"{\"strategy\":\"MPS\",\"mpsConfig\":{\"defaultActiveThread\":1}}", "mpsConfig has no 'defaultActiveThread'"},
        {"{\"strategy\":\"MPS\",\"mpsConfig\":{\"defaultPinnedDeviceMemoryLimit\":\"18446744073709551615Gi\"}}",
         "no amount of memory"},
        {"{\"strategy\":\"MPS\",\"mpsConfig\":{\"defaultPinnedDeviceMemoryLimit\":0}}", "no amount of memory"},
        {"{\"strategy\":\"MPS\",\"mpsConfig\":[]}", "mpsConfig is no mapping"},
        {"{\"strategy\":\"TimeSlicing\",\"timeSlicingConfig\":{\"interval\":\"long\"}}", "'long' is none of"},
        {"{\"strategy\":\"TimeSlicing\",\"timeSlicingConfig\":{\"\":\"Long\"}}", "timeSlicingConfig has no ''"},
        {"{}", "'' is neither TimeSlicing nor MPS"},
    };
    char entry[2048];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(entry, sizeof entry, CONFIG("FromClaim", "[]", "%s"), cases[i].sharing);
        const Read *r = read_claim(RESULT("a", "gpu-0"), entry);

        assert_true(r->rc < 0);
        if (!strstr(r->err.text, cases[i].words))
            fail_msg("%s: '%s' has no '%s'", cases[i].sharing, r->err.text, cases[i].words);
    }
}

static void test_names_of_mig_devices_say_where_they_lie(void **state)
{
    static const char *const wrong[] = {"",
                                        "gpu-0",
                                        "gpu-0-mig-1g10gb-19",
                                        "gpu-0-mig-1g10gb-19-x",
                                        "gpu-0-mig-1g10gb-19-32",
                                        "gpu-0-mig-1g10gb--4",
                                        "-19-4",
                                        "gpu-0-mig-1g10gb-99999999999-4",
                                        "gpu-0-mig-1g10gb-19-"};
    ClaimPlace place = {0};
    (void)state;

    assert_true(claim_read_place("gpu-11-mig-1g10gb-me-20-6", &place));
    assert_int_equal(place.profile_id, 20);
    assert_int_equal(place.start, 6);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (claim_read_place(wrong[i], &place))
            fail_msg("'%s' is taken as %u at %u", wrong[i], place.profile_id, place.start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_configuration_counts),
        cmocka_unit_test(test_devices_of_one_entry_share_it),
        cmocka_unit_test(test_wrong_words_are_named),
        cmocka_unit_test(test_names_of_mig_devices_say_where_they_lie),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
