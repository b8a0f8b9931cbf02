/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/under_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define MARK " (during 'stoker bench')"

/* Detectors, and rules without one, that see the load of a test. Not among them: fans, links and memory errors, which a
 * load brings to light. */
static const char *const of_load[] = {"throttle",        "thermal-margin", "power-limit",     "clocks-peers",
                                      "memory-orphaned", "memory-leak",    "noisy-neighbour", "gpu-held-idle"};

static size_t find_test(const UnderTest *tests, const char *uuid)
{
    size_t i = 0;

    while (i < tests->count && strcmp(tests->at[i].uuid, uuid) != 0)
        i++;
    return i;
}

static void drop_past(UnderTest *tests, uint64_t now_ns)
{
    for (size_t i = tests->count; i-- > 0;)
        if (now_ns >= tests->at[i].until_ns + UNDER_TEST_TAIL_NS)
            tests->at[i] = tests->at[--tests->count];
}

int under_test_begin(UnderTest *tests, const char *uuid, PciAddress gpu, uint64_t until_ns, uint64_t now_ns, Err *err)
{
    drop_past(tests, now_ns);
    const size_t i = find_test(tests, uuid);
    if (i == UNDER_TEST_MAX)
        return err_set(err, -ENOSPC, "%d GPUs and MIG devices are under test: no more are noted", UNDER_TEST_MAX);
    snprintf(tests->at[i].uuid, sizeof tests->at[i].uuid, "%s", uuid);
    tests->at[i].gpu = gpu;
    tests->at[i].until_ns = until_ns;
    tests->count += i == tests->count;
    return 0;
}

void under_test_end(UnderTest *tests, const char *uuid, uint64_t now_ns)
{
    const size_t i = find_test(tests, uuid);

    if (i < tests->count && tests->at[i].until_ns > now_ns)
        tests->at[i].until_ns = now_ns;
}

bool under_test_runs(const UnderTest *tests, PciAddress gpu, uint64_t now_ns)
{
    for (size_t i = 0; i < tests->count; i++)
        if (now_ns < tests->at[i].until_ns && pci_compare(tests->at[i].gpu, gpu) == 0)
            return true;
    return false;
}

static bool is_of_load(const FaultRule *rule)
{
    const char *name = rule->detector ? rule->detector->name : rule->id;

    for (size_t i = 0; i < ARRAY_LEN(of_load); i++)
        if (strcmp(of_load[i], name) == 0)
            return true;
    return false;
}

bool under_test_explains(const UnderTest *tests, const Evidence *evidence, uint64_t now_ns)
{
    const Device *device = &evidence->device;

    for (size_t i = 0; i < tests->count; i++)
        if (now_ns < tests->at[i].until_ns + UNDER_TEST_TAIL_NS &&
            (device->kind == DEVICE_NODE || (device->has_pci && pci_compare(tests->at[i].gpu, device->pci) == 0)))
            return evidence->verdict.rule && is_of_load(evidence->verdict.rule);
    return false;
}

void under_test_mark(char text[EVENT_TEXT_CAP])
{
    size_t len = strnlen(text, EVENT_TEXT_CAP - sizeof MARK);

    while (len > 0 && text[len] != '\0' && ((unsigned char)text[len] & 0xc0) == 0x80) /* whole characters */
        len--;
    memcpy(text + len, MARK, sizeof MARK);
}
