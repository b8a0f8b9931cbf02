/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Among the views of GPUs: the words of a row, whatever its form. */

#include "service/top/inside.h"

/* " 3" or ">3" where something is wrong, with its ink. */
void gpu_number(Grid *grid, Area cell, const GpuRow *row);
/* What a person should know of it first, in a few words: what is wrong and what to do, why it is slow, whether it is
 * only held; "" nothing. */
const char *gpu_note(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP * 2], Ink *ret_ink);
/* "LOST for 12 min": of a GPU that is not up. */
const char *gpu_down(const Top *top, const NodeGpu *gpu, char out[TOP_TEXT_CAP * 2]);
/* The pods that a device was given to, "" none known. */
const char *gpu_owner(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP]);
/* "1g.10gb 7/0" */
const char *instance_name(const Reading *reading, char out[TOP_TEXT_CAP]);
