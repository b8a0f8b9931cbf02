/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The numbers N of /dev/nvidia-caps/nvidia-capN that belong to MIG instances, from the driver's list below `root` ("":
 * the machine's). Any thread.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { MINORS_MAX = 4 << 20 };

/* The list, for minors_find. */
int minors_read(const char *root, Str *ret, Err *err);
/* Of a GPU instance of /dev/nvidia<gpu>, or with compute_instance (not DEVICE_NO_NUMBER) of that one; 0: it is not in
 * the list. */
uint32_t minors_find(const char *list, uint32_t gpu, uint32_t gpu_instance, uint32_t compute_instance);
