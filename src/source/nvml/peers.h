/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which GPUs a GPU reaches over NVLink: nvmlDeviceGetP2PStatus from each of our GPUs to each other one that we hold
 * too, at pace SLOW and a few calls in a turn. A GPU that is not ours, or is in trouble, cannot be asked about: what is
 * said of it is UNKNOWN, and so says a GPU with a sampler of its own of all others. One thread.
 *
 * Whose fault is it when such a call does not return? It is about two GPUs, both have answered other calls a moment
 * ago, and nothing tells them apart; to name the wrong one would take a healthy GPU from the node's numbers. So the
 * call is announced as about no one GPU, and the supervisor blames neither (supervisor_function_is_pair): all GPUs go
 * to a fresh sampler, whose own calls about each find out which one hangs, and no pair is asked about for a while.
 * An error, "lost" among them, says nothing of either GPU for the same reason: it costs this one status.
 */

#include "source/nvml/gpu.h"

/* Asks about all others anew, unless it is still about it or nobody wants to know. */
void nvml_peers_begin(NvmlGpu *gpu);
/* Goes on for a short time, and publishes what came of it. Entry i is Board.gpus[i], NULL where it is not ours. */
void nvml_peers_turn(NvmlReader *reader, NvmlGpu *const gpus[NODE_GPUS_MAX]);
/* Forgets all where nobody wants to know any more. */
void nvml_peers_follow_plan(NvmlGpu *gpu);
/* Makes all that was asked for absent. */
void nvml_peers_lose(NvmlGpu *gpu, Absence why);
/* Puts what has changed on the board; the GPU is ours. */
void nvml_peers_publish(NvmlGpu *gpu);
