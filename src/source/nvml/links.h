/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Each NVLink of a GPU, if the plan wants them: its state at pace NORMAL, its error counters at SLOW, each one call for
 * all links; where it leads, once. With MIG on the driver calls every link down and tells nothing else: absent then.
 * One thread.
 *
 * Which counter is where: replays and recoveries are told per link. Checksum errors are told apart (flit, data) on
 * boards with at most 12 links alone; on others CRC_FLIT has both and CRC_DATA is absent. NVLink 5 has neither
 * checksums nor replays (it corrects forward), only recoveries.
 */

#include "source/nvml/gpu.h"

/* What is due of the paces whose bits are set. */
void nvml_links_read(NvmlGpu *gpu, uint32_t paces);
/* Forgets all where nobody wants to know any more. */
void nvml_links_follow_plan(NvmlGpu *gpu);
/* Makes all that was asked for absent. */
void nvml_links_lose(NvmlGpu *gpu, Absence why);
/* Puts what has changed on the board; the GPU is ours. */
void nvml_links_publish(NvmlGpu *gpu);
