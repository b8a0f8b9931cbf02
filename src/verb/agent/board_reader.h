/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the Node from the board, once per tick: copies and checks the rows, takes states from the supervisor, and makes
 * values absent, with the reason, that are stale or of a GPU that is not up. A GPU's identity and texts
 * outlive its readings, so that a lost one still has its name; hidden ones (supervisor_gpu_is_hidden) are left out. One
 * thread; memory grows with the number of GPUs alone.
 */

#include "model/node.h"
#include "source/board/board.h"
#include "source/sampler/supervisor.h"

typedef struct BoardReader BoardReader;

/* `board` and `supervisor` are borrowed. */
BoardReader *board_reader_new(const Board *board, Supervisor *supervisor, const char *hostname);
void board_reader_free(BoardReader *reader);

/* Sets the counts of GPUs on the PCI bus and expected (below 0: as many as on the bus). */
void board_reader_set_bus(BoardReader *reader, uint32_t on_bus, int64_t expected);

/* Sets the remembered identity of the GPU in a board's entry, used if no sampler reports it; `gone_why` is its reason
 * while it is GONE. */
void board_reader_know(BoardReader *reader, uint32_t entry, const Device *device, const char *gone_why);

/* A GPU that was at this address before (device->pci, with its UUID): what is there now has its identity for as long as
 * it was tried and says none of its own, and no other GPU has this UUID. Its index is left out where another one has
 * it. disown: no longer. */
void board_reader_recall(BoardReader *reader, const Device *device);
void board_reader_disown(BoardReader *reader, const Device *device);

/* Makes the node of this instant. It belongs to the reader and changes at the next call. */
const Node *board_reader_read(BoardReader *reader, uint64_t time_ns, uint64_t real_ns);
const Node *board_reader_node(const BoardReader *reader);
/* The node's samplers; the caller adds their memory and CPU. */
NodeSampler *board_reader_samplers(BoardReader *reader);
