/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a node's life, from bytes, through the incident engine; its promises are checked at each step. */
#include "test/unit/health/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stream_run(data, size);
    return 0;
}
