/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the library's own nvml_stub_enter: remembers the last call and answers the refusal. For one thread.
 */
#pragma once

#include "sim/nvml/lib.h"

typedef struct StubEnterFake {
    const char *name; /* NULL before the first call */
    nvmlReturn_t refusal;
} StubEnterFake;

StubEnterFake stub_enter_fake_last(void);
