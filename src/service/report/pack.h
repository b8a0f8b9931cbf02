/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers for the page in few bytes: variable-length integers (seven bits a byte, the low ones first, the top bit says
 * that more follow), as base64. Not for others. */

#include "service/report/out.h"

typedef struct Pack {
    Out *out;
    uint8_t bytes[3];
    unsigned count;
} Pack;

/* Writes "key":" and takes numbers until pack_end. */
void pack_begin(Pack *pack, Out *out, const char *key);
void pack_byte(Pack *pack, uint8_t byte);
void pack_u64(Pack *pack, uint64_t value);
void pack_end(Pack *pack);
