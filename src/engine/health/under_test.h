/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which GPUs are under test (stoker bench): what the load of a test causes by itself opens no incident, and evidence of
 * a fault says that it came during a test. Pure: time is an argument. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/health/detect.h"

enum { UNDER_TEST_MAX = 128 };
/* Detectors look so far back: they see the load after its end too. */
#define UNDER_TEST_TAIL_NS UINT64_C(120000000000)

typedef struct UnderTest {
    size_t count;
    struct {
        char uuid[DEVICE_UUID_CAP];
        PciAddress gpu;
        uint64_t until_ns;
    } at[UNDER_TEST_MAX];
} UnderTest;

/* This GPU, or MIG device of `gpu`, is under test until then; one that is already has this end from now on. -ENOSPC. */
int under_test_begin(UnderTest *tests, const char *uuid, PciAddress gpu, uint64_t until_ns, uint64_t now_ns, Err *err);
/* Its test has ended; of one that is not under test nothing changes. */
void under_test_end(UnderTest *tests, const char *uuid, uint64_t now_ns);

/* Whether a test runs on the GPU or on a MIG device of it. */
bool under_test_runs(const UnderTest *tests, PciAddress gpu, uint64_t now_ns);
/* Whether evidence is about heat, power, clocks, idleness or memory of a GPU that is under test, or was within
 * UNDER_TEST_TAIL_NS; of the node: any GPU. */
bool under_test_explains(const UnderTest *tests, const Evidence *evidence, uint64_t now_ns);
/* Adds to a sentence that it came during a test; what does not fit beside that is cut off. */
void under_test_mark(char text[EVENT_TEXT_CAP]);
