/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which of a node's GPUs go best together. A device plugin asks it of the GPUs that are free, a scheduler with what the
 * node tells of its GPUs: both choose alike. Pure; any thread.
 */

#include <stdbool.h>
#include <stdint.h>

enum { GPU_LINKS_MAX = 16, GPU_LINKS_SCORE_MAX = 9999, GPU_LINKS_TEXT_CAP = 1024 };

/* How near GPUs are to each other, and ([i][i]) to their nearest network adapter; more is nearer. */
typedef struct GpuLinks {
    unsigned count; /* at most GPU_LINKS_MAX; 0: not known */
    uint16_t score[GPU_LINKS_MAX][GPU_LINKS_MAX];
} GpuLinks;

/* As an annotation of the node: of each GPU its score to the network and those to the GPUs behind it,
 * "50,1850,1820;50,1820;20". */
bool gpu_links_read(const char *text, GpuLinks *ret); /* false: it is no such text */
const char *gpu_links_write(const GpuLinks *links, char to[GPU_LINKS_TEXT_CAP]);

/* `size` of the GPUs `open`, those of `must` among them: the set with the highest sum of scores between its GPUs, of
 * equal ones (and more than one GPU) that nearest to the network, then that which leaves the nearest ones, or with
 * `heat` the one with the lowest sum of that, then the first. 0: there are fewer. All sets are compared. */
uint16_t gpu_links_choose(const GpuLinks *links, const GpuLinks *heat, uint16_t open, uint16_t must, unsigned size);
