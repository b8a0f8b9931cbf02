/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GPUs seen before: noted in the journal while they are up, so that one that is gone after a restart of the agent or
 * the node is reported missing, even without a configured number. Drop a GPU from the list when it was replaced, when
 * no listed GPU is present (another machine), or when as many GPUs are present as expected. A GPU in another slot is
 * not missing. Belongs to the triage; the loop's thread.
 */

#include "base/log.h"
#include "base/vec.h"
#include "service/journal/journal.h"
#include "verb/agent/sampling.h"

typedef struct RememberedGpu {
    JournalGpu row;
    bool kept;   /* the journal had it at the start */
    bool here;   /* it was up since */
    bool missed; /* it was reported missing */
} RememberedGpu;

typedef struct Remembered {
    const Log *log; /* borrowed, as the next */
    Sampling *sampling;
    Journal *journal;
    VEC(RememberedGpu) gpus;
    uint32_t kept_count;  /* GPUs that the journal had */
    uint64_t began_ns;    /* agent's clock */
    uint64_t put_real_ns; /* when all were put last */
} Remembered;

void remembered_open(Remembered *remembered, const JournalKept *kept, Journal *journal, Sampling *sampling,
                     const Log *log);
void remembered_done(Remembered *remembered); /* accepts a zeroed one */

/* One tick: notes GPUs that are up and those that are missing. The next tick's node shows the result. */
void remembered_tick(Remembered *remembered, const Node *node);
/* The journal was begun anew: writes all of them into it. */
void remembered_refill(Remembered *remembered);
/* By hand: forgets this missing GPU or, for a device without PCI address, all missing ones. Returns how many; a GPU
 * that is on the bus is not missing. */
size_t remembered_forget(Remembered *remembered, const Node *node, const Device *device, const char *who);
