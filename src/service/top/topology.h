/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs and network adapters of a snapshot, and how two of them are joined. Pure.
 */

#include "service/screen/grid.h"
#include "model/snapshot.h"

enum { JOINED_MAX = NODE_GPUS_MAX + PLACE_ADAPTERS_MAX, JOINED_TEXT_CAP = 16 };

/* A GPU or a network adapter. */
typedef struct Joined {
    const NodeGpu *gpu; /* NULL: an adapter */
    const Place *place; /* NULL: not known */
    uint32_t number;    /* "GPU3", "NIC0"; DEVICE_NO_NUMBER: the driver has no index for it */
} Joined;

typedef struct JoinedList {
    size_t len;
    Joined at[JOINED_MAX];
} JoinedList;

/* GPUs in the node's order, then adapters. Borrows from the snapshot. */
void joined_find(const Snapshot *snapshot, JoinedList *ret);

/* NVLinks of one GPU. */
typedef struct JoinedLinks {
    uint32_t all, up, unknown;
    double errors;
} JoinedLinks;

/* "GPU3", "NIC0", "GPU?". Returns out. */
const char *joined_name(const Joined *one, char out[JOINED_TEXT_CAP]);

/*
 * How they are joined: "NV18"; "NV" by NVLink with an unknown number of links; "off" if NVLink is switched off; else
 * the path over PCIe ("PIX" ... "SYS"), "no" where only the lack of NVLink is known, "?" where nothing is; "down" with
 * a GPU that is not up. Returns out.
 */
const char *joined_pair(const Node *node, const Joined *a, const Joined *b, char out[JOINED_TEXT_CAP], Ink *ink);

/* The adapter that is nearest to a GPU, no further than its own host bridge; NULL if there is none or it is unknown.
 * *ret_more is how many others are as near. */
const Joined *joined_nearest(const JoinedList *list, const Joined *gpu, size_t *ret_more);
