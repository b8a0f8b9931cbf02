/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a simulated node has beside NVML: files below /proc, /sys and /dev, a kernel log, live processes, and a way to
 * run a command among them. All of it follows from the image and a virtual time that the caller gives.
 */
#include "sim/node/enter.h"
#include "sim/node/kernel_log.h"
#include "sim/node/lend.h"
#include "sim/node/tree.h"
