/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The GPUs that were here: noted in the journal while they are up, so that one that is gone after a restart of the
 * agent or the node is missed, though nobody said how many there should be. What is no loss is forgotten: a GPU that
 * another has replaced, GPUs of another machine (none of them is here), fewer than before where that many are expected.
 * One that sits in another slot is not missed. Belongs to the judge; the loop's thread.
 */

#include "base/log.h"
#include "base/vec.h"
#include "service/journal/journal.h"
#include "verb/agent/sampling.h"

typedef struct RememberedGpu {
    JournalGpu row;
    bool kept;   /* the journal had it at the start */
    bool here;   /* it was up since */
    bool missed; /* it is not here, and that was said */
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

/* One tick: notes who is up, and who is not here. What is decided is seen at the next look of the sampling. */
void remembered_turn(Remembered *remembered, const Node *node);
/* The file was begun anew: all go into it. */
void remembered_refill(Remembered *remembered);
/* A person says that this GPU is not to be missed, or (a device without PCI address) none that is gone. Returns how
 * many that were; one that is on the bus is none of them. */
size_t remembered_forget(Remembered *remembered, const Node *node, const Device *device, const char *who);
