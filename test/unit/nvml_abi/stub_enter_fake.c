/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_enter_fake.h"

static StubEnterFake last;

StubEnterFake stub_enter_fake_last(void)
{
    return last;
}

nvmlReturn_t nvml_stub_enter(const char *name, nvmlReturn_t refusal)
{
    last = (StubEnterFake){name, refusal};
    return refusal;
}
