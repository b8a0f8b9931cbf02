/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A memory snapshot of PyTorch in place of a profile. */

#include "engine/allocator/allocator.h"

/* Whether a file (plain or packed) holds a pickle; false where it cannot be read, or is no regular file. */
bool snapshot_is(const char *path);

/* Reads and analyses it. Errors name the file. */
int snapshot_load(const char *path, AllocatorReport *ret, Err *err);
