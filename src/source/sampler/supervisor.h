/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the samplers: which process samples which GPU, and what happens when one does not answer. A state
 * machine over the board: supervisor_pass looks at the clocks and the board and acts through SupervisorOps, so that a
 * test drives it with made-up processes and times. It never blocks. Owned by the agent's loop; one thread.
 *
 * The rules:
 * - All healthy GPUs share one sampler. It is started at once, and at once again where it ends; after three ends in a
 *   row with exponential delays. Five seconds without one end a row.
 * - A call in progress for longer than its deadline makes its GPU HUNG. That sampler keeps this GPU alone (it may come
 *   back: then it is the GPU's own sampler); all its other GPUs go to a fresh sampler in the same pass.
 * - A call that is given longer than that parts its GPU from the others after it. Where it attaches to a GPU, or GPUs
 *   behind it are not read yet, each of them gets a sampler of its own (after half of it where a GPU hangs already):
 * the deadlines of several that hang run beside one another. Those that are read without a miss for `attach` come
 *   together again.
 * - A GPU without a sample for two periods (where its sampler has read it: three) is STARTING, not UP.
 * - A call of a GPU's own sampler that returned late makes it SLOW: it stays UP there with the ages its values have.
 * Only a call of twice the longest time seen so far (at most `call` + `kill_after`) makes it HUNG then.
 * - After `kill_after` the stuck sampler gets SIGKILL; if it has not ended `abandon_after` later it is ABANDONED: named
 *   with its kernel wait channel, counted, never waited for; its slot stays taken until the process is gone.
 * - A hung GPU is tried again by a sampler of its own after 1, 2, 4 ... `retry_max` s. One that was sampled without a
 *   missed deadline for `rejoin_after` goes back to the shared sampler, and is no longer slow.
 * - While three samplers that never ended were left behind by a GPU (or by the driver as a whole), it is not tried
 *   until one of them ends. A GPU in whose calls the shared sampler ends twice in a row is isolated too.
 * - A sampler that does not beat (stopped, or hung outside a call) is treated as hung without a GPU: killed, replaced.
 * - The init of a sampler that attaches to all GPUs hangs: the next one does not attach, and is started at once; after
 *   twice `call` where the GPUs' addresses are known.
 * - Any other call about no one GPU (init, enumeration) that misses its deadline hangs the driver as a whole: all GPUs
 * of that sampler are HUNG.
 * - A call of libdcgm that misses its deadline says nothing about a GPU or the driver: all GPUs of that sampler go to
 * fresh ones in the same pass, and libdcgm is not used for ten minutes. The same where a sampler ends in such a call,
 * or twice in a row.
 * - A call about two GPUs that misses its deadline blames neither: all GPUs of that sampler go to a fresh one in the
 *   same pass, whose own calls about each show which one hangs, and pairs are not read for ten minutes, nor while
 *   a sampler that was abandoned in such a call is there. So it is where a sampler ends in such a call.
 * - Released: every sampler releases the driver (it reads Board.release_until_ns) and the GPUs are RELEASED until the
 *   time is over. Hung ones stay HUNG and are not tried meanwhile.
 * - Now and then (`probe`) a process asks the driver as a new client does, and ends: a driver may refuse those while it
 * still serves our samplers. Never more than one at a time; only while the shared sampler holds the driver and no
 * GPU that it has is in trouble, never while the driver is to be released. One that is not done after 10 s is killed.
 * After a refusal it is tried again 10 s later, and every minute for as long as it is refused. A sampler that starts
 * and is served since is as good an answer. A GPU that the bus has and the driver's list not makes the first one due
 * after 5 s, the next ones after as long as it has been missing: where a new client is told of more GPUs, another
 * shared sampler takes the place of the one that began before they came.
 * - Deadlines do not count while the agent itself was not running for more than `beat_ns` (a stopped container).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/subproc.h"
#include "model/node.h"
#include "source/board/board.h"
#include "source/sampler/protocol.h"

typedef struct SupervisorLimits {
    uint64_t call_ns;      /* deadline of a driver call; 500 ms */
    uint64_t attach_ns;    /* of calls that wake a GPU or the driver up (init, first handle); 3 s */
    uint64_t beat_ns;      /* a sampler that shows no sign of life for so long is stopped; 2 s */
    uint64_t kill_ns;      /* after its deadline a stuck call is given so long before SIGKILL; 5 s */
    uint64_t abandon_ns;   /* after SIGKILL a process is given so long to end; 2 s */
    uint64_t retry_max_ns; /* longest delay between tries of a hung GPU or a failing sampler; 60 s */
    uint64_t rejoin_ns;    /* a GPU with a sampler of its own goes back to the others after so long; 60 s */
    uint64_t probe_ns;     /* between two probes, of the agent's clock; 0: none are sent */
} SupervisorLimits;

extern const SupervisorLimits supervisor_default_limits;

/* libdcgm, for profiling metrics of GPUs without GPM. */
typedef struct SupervisorDcgm {
    const char *library; /* a path, or "" to search as the linker does */
    const char *address; /* of a host engine; "": an engine in the sampler */
} SupervisorDcgm;

/* What the state machine does to the world. `self` is the caller's. Instants are kernel monotonic nanoseconds. */
typedef struct SupervisorOps {
    uint64_t (*now_ns)(void *self);
    /* Starts a sampler with this hello (slot and no_attach are set); it runs when its end of the socket is open.
     * *ret_pid may be 0 and follow later (supervisor_set_pid). -errno. */
    int (*start)(void *self, const SamplerHello *hello, pid_t *ret_pid, Err *err);
    void (*kill)(void *self, uint32_t slot, pid_t pid); /* SIGKILL; must not wait */
    /* Whether the process has ended (and reap it). *ret_end is set for a child alone. */
    bool (*gone)(void *self, uint32_t slot, pid_t pid, SubprocEnd *ret_end);
    void (*forget)(void *self, uint32_t slot);                       /* close what `start` opened for it */
    void (*wchan)(void *self, pid_t pid, char text[NODE_WCHAN_CAP]); /* kernel wait channel, "" where unknown */
    void (*log)(void *self, int level, const char *text);            /* LogLevel; a whole sentence */
} SupervisorOps;

typedef struct Supervisor Supervisor;

/* `board` is borrowed. No process is started before the first pass. */
Supervisor *supervisor_new(Board *board, const SupervisorLimits *limits, const SupervisorOps *ops, void *self,
                           const char *library);
void supervisor_free(Supervisor *supervisor);
/* Samplers use libdcgm from the next start on; the texts are borrowed. Call before the first pass. */
void supervisor_use_dcgm(Supervisor *supervisor, const SupervisorDcgm *dcgm);

/* Checks the samplers and acts. Call it every 50 ms or so, and at once when a sampler's socket closed. */
void supervisor_pass(Supervisor *supervisor);

/* The pid of the sampler in `slot` is known (SamplerReply), or its socket was closed. */
void supervisor_set_pid(Supervisor *supervisor, uint32_t slot, pid_t pid);
void supervisor_note_close(Supervisor *supervisor, uint32_t slot);

/* The GPUs on the PCI bus now: makes board entries for new ones and marks the others GONE. Call before the first pass
 * and at every scan. Addresses that only the driver knows are added from what samplers found. */
void supervisor_set_bus(Supervisor *supervisor, const PciAddress *gpus, size_t count);

/* A GPU that was here before and is not now: it gets an entry, GONE until it is on the bus again. `drained`: an
 * operator had taken it out. Returns the entry's index in Board.gpus, UINT32_MAX where something is at the address or
 * there is no room. */
uint32_t supervisor_add_gone_gpu(Supervisor *supervisor, PciAddress gpu, bool drained);
/* Stops reporting a GPU that is GONE: its entry is hidden until its state changes. */
void supervisor_hide_gone_gpu(Supervisor *supervisor, PciAddress gpu);
/* Whether entry `gpu` is hidden: to be shown nowhere. */
bool supervisor_gpu_is_hidden(const Supervisor *supervisor, uint32_t gpu);

/* Releases the driver until the agent's monotonic instant `until_ns`; 0 ends that at once. */
void supervisor_release(Supervisor *supervisor, uint64_t until_ns);

/* Ask all samplers to end (close of the socket, then SIGKILL after 500 ms); to be called every 50 ms or so until true:
 * none is left but abandoned ones. */
bool supervisor_stop(Supervisor *supervisor);

/* The supervisor's part of a view: of the GPU at Board.gpus[i] its state, why, trouble, code, own_sampler and
 * missed_calls (state instants in the agent's clock), the rest is left as it is; the samplers. */
void supervisor_view_gpu(const Supervisor *supervisor, uint32_t i, NodeGpu *ret);
size_t supervisor_view_samplers(const Supervisor *supervisor, NodeSampler samplers[NODE_SAMPLERS_MAX]);

typedef struct SupervisorView {
    NodeDriver driver; /* whether the driver as a whole can be used */
    int32_t driver_code;
    char driver_why[NODE_WHY_CAP];
    NodeProbe probe;             /* the result of the last probes */
    uint32_t found;              /* GPUs the driver counts, as the newest sampler found; 0 before */
    uint64_t started, abandoned; /* samplers */
} SupervisorView;

/* Of the last pass. */
const SupervisorView *supervisor_view(const Supervisor *supervisor);
