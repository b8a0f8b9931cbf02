/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A code of the GPU driver or of an NVSwitch as people write it on a command line: a number, or a line of the kernel
 * log. Stateless, any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/opt.h"
#include "model/event.h"

/* The words of a command line as one text. */
const char *xid_code_words(Arena *arena, const OptArgs *words);
/* "79", "xid:79", "sxid:20034" (a bare number from 10000 on is an SXid), or a line with "Xid (" in it, with what stands
 * before that in a log or nothing at all. False where it is neither. */
bool xid_code_read(const char *text, Event *ret);
/* "570.86.10": 570. False where it is no version. */
bool xid_driver_major(const char *version, uint32_t *ret);
/* Of the kernel module that is loaded here, below `root` (NULL: /); 0 unknown. */
uint32_t xid_driver_here(const char *root);
