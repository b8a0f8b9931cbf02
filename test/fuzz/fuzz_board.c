/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: reading a board. Nothing but memory is touched. */
#include <stdlib.h>

#include "sim/scenario/board.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SimBoard board;
    Err err = {0};
    if (board_parse("fuzz.yaml", "fuzz", (const char *)data, size, &board, &err) == 0) {
        for (uint32_t i = 0; i < board.profile_count; i++)
            for (uint32_t k = 0; k < board.profiles[i].place_count; k++)
                if (board.profiles[i].place_start[k] + board.profiles[i].place_size > board.mig_grid)
                    abort();
    } else if (err.text[0] == '\0') {
        abort(); /* every refusal says why */
    }
    return 0;
}
