/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A dump of PyTorch's flight recorder, whichever way it was written; not for others. */

#include <jansson.h>

#include "engine/nccl/job.h"

/* Reads a dump: an object, or (first versions) the list of its entries. */
void nccl_flight(NcclJob *job, const json_t *top);

/* Bytes of a pickle as JSON values (tuples as arrays): NULL, and why in *ret_why. Objects, functions and calls are
 * refused but for the lists of numbers that TorchScript's pickler writes; nothing is ever imported or run. */
json_t *nccl_pickle_read(Span bytes, const char **ret_why);
