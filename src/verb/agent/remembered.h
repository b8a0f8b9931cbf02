/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GPUs seen before: noted in the journal while they are up, so that one that is gone after a restart of the agent or
 * the node is reported missing, even without a configured number. Drop a GPU from the list when it was replaced, when
 * no listed GPU is present (another machine), or when as many GPUs are present as expected. A GPU in another slot is
 * not missing. One that is present but does not say who it is (lost, hung) has the identity that it had. Belongs to the
 * triage; the loop's thread.
 *
 * With each its idle power is noted, and its energy counter, hourly, at changes of its incidents and at the end: one
 * that is lower when the GPU is first read was begun anew, so the GPU was reset while no agent ran. No log has that.
 */

#include "base/log.h"
#include "base/vec.h"
#include "service/journal/journal.h"
#include "verb/agent/sampling.h"

typedef struct RememberedGpu {
    JournalGpu row;
    bool kept;        /* the journal had it at the start */
    bool here;        /* it was up since */
    bool missed;      /* it was reported missing */
    uint64_t kept_mj; /* its energy by the journal, until it is read in this run; 0: not known */
} RememberedGpu;

/* A GPU was reset after `since_real_ns`, before this agent was started. */
typedef void (*RememberedReset)(void *self, const NodeGpu *gpu, uint64_t since_real_ns);

typedef struct Remembered {
    const Log *log; /* borrowed, as the next */
    Sampling *sampling;
    Journal *journal;
    VEC(RememberedGpu) gpus;
    uint32_t kept_count;  /* GPUs that the journal had */
    uint64_t began_ns;    /* agent's clock */
    uint64_t put_real_ns; /* when all were put last */
    RememberedReset reset;
    void *self;
} Remembered;

void remembered_open(Remembered *remembered, const JournalKept *kept, Journal *journal, Sampling *sampling,
                     const Log *log, RememberedReset reset, void *self);
/* The machine was started anew since the journal was written: its energies say nothing. */
void remembered_note_reboot(Remembered *remembered);
void remembered_done(Remembered *remembered); /* accepts a zeroed one */

/* One tick: notes GPUs that are up and those that are missing. The next tick's node shows the result. */
void remembered_tick(Remembered *remembered, const Node *node);
/* Puts the GPUs that a device is, or is part of (the node: all), as they are at this instant. */
void remembered_put(Remembered *remembered, const Node *node, const Device *device, uint64_t real_ns);
/* What it takes while nothing runs on it: put now where that was not known, else with the next change. */
void remembered_set_idle(Remembered *remembered, const char *uuid, uint64_t idle_mw, bool held);
/* The MIG layout that is known of it now, put at once; `change`: the text of the event about it, NULL where it is none.
 */
void remembered_set_layout(Remembered *remembered, const char *uuid, const char *layout, const char *change,
                           uint64_t real_ns);
/* Puts into each GPU of the node when and how its MIG layout was last changed. */
void remembered_show_changes(const Remembered *remembered, const Node *node);
/* The journal was begun anew: writes all of them into it. */
void remembered_refill(Remembered *remembered);
/* By hand: forgets this missing GPU or, for a device without PCI address, all missing ones. Returns how many; a GPU
 * that is on the bus is not missing. */
size_t remembered_forget(Remembered *remembered, const Node *node, const Device *device, const char *who);
