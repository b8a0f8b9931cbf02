/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A reader of Python pickles that hold plain values only. Objects, functions and calls are refused but for the lists of
 * numbers that TorchScript's pickler writes; nothing is ever imported or run. One thread at a time. */

#include <jansson.h>

#include "engine/nccl/span.h"

typedef struct PickleLimits {
    size_t values;   /* that are read */
    size_t expanded; /* that the result has where what is shared is counted each time; SIZE_MAX: the caller bounds its
                        walk itself */
} PickleLimits;

/* The bytes as JSON values, tuples as arrays, equal parts shared (owned by the caller, not to be changed). NULL, and
 * why in *ret_why. */
json_t *nccl_parse_pickle(Span bytes, const PickleLimits *limits, const char **ret_why);
