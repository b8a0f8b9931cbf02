/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Node from the JSON that api_gpus wrote, for who looks at a node from outside of the agent: another process, or much
 * later. Members that are not known are ignored and those that are missing say nothing; a member of another type or out
 * of range is an error that names it. Pure. One thread.
 *
 * The axis of the node's times is its wall clock: time_ns and real_ns are the same, and an age is as long as it was
 * told. What the JSON does not have stays empty: events, fast readings, the probe, numbers of the driver.
 */

#include <jansson.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "model/node.h"
#include "model/owner.h"
#include "model/place.h"
#include "model/process.h"

typedef VEC(ProcessOwner) ProcessOwnerList;

/* Owned by the caller: init, any number of reads, done. What is borrowed from it is valid until the next. */
typedef struct NodeRead {
    Arena arena; /* of what `node` points to */
    Node node;
    OwnerTable owners;
    ProcessOwnerList processes; /* who the pids are, by pid, each once */
    VEC(Place) places;          /* of GPUs and network adapters */
} NodeRead;

void node_read_init(NodeRead *read);
void node_read_done(NodeRead *read);

/* `root` is what api_gpus wrote. -EINVAL; then nothing is known of the node. */
int node_read(NodeRead *read, const json_t *root, Err *err);
