/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The board: shared memory between the agent and its samplers (a sealed memfd, made by the agent, passed over the
 * sampler's socket). The agent writes what is wanted (plan, assignment of GPUs, release); samplers write what was read.
 * A row per GPU and per MIG device, each under a sequence counter of its own, so that a sampler may be killed in the
 * middle of a write and the agent never waits for it.
 *
 * Who writes what: everything in Board and BoardGpu.slot by the agent; BoardSampler[slot], and the rows of the GPUs
 * whose `slot` is theirs, by the sampler in that slot. A sampler checks `slot` before each pass and again before it
 * publishes: a call that comes back late must not write into a row that was given to another.
 * The agent trusts no count and no text in it: it copies a row out, then checks it.
 * Times are nanoseconds of the agent's monotonic clock (BoardClock) unless they are called kernel times.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/node.h"
#include "model/reading.h"

enum {
    BOARD_VERSION = 6,
    BOARD_NO_SLOT = UINT16_MAX, /* slot of a GPU that no sampler may touch */
    BOARD_FAST_LEN = 32,        /* fast readings kept per row: 3.2 s at 10 Hz */
    BOARD_EVENTS_LEN = 64,      /* XID events kept per sampler */
};

/* A row: read with board_copy, written with board_set_row. */
typedef struct BoardRow {
    _Atomic uint32_t sequence; /* odd while it is being written */
    Reading reading;
    _Atomic uint32_t fast_head; /* fast readings written since the row was made; the newest is at (head - 1) % LEN */
    FastReading fast[BOARD_FAST_LEN];
} BoardRow;

/* A GPU's NVLinks to the others: read with board_copy_peers, written with board_set_peers. */
typedef struct BoardPeers {
    _Atomic uint32_t sequence;    /* odd while it is being written */
    Sample status[NODE_GPUS_MAX]; /* a PeerStatus for each entry of Board.gpus; its own stays absent */
} BoardPeers;

/* A GPU's own NVLinks, by number. */
typedef struct BoardLinkList {
    uint32_t count;
    NodeLink links[NODE_LINKS_MAX];
} BoardLinkList;

/* What runs on a GPU: how many processes, and those of them that fit, by pid. */
typedef struct BoardProcessList {
    Sample count;
    uint32_t len;
    NodeProcess processes[NODE_PROCESSES_MAX];
} BoardProcessList;

/* Read with board_copy_links, written with board_set_links; the next one likewise. */
typedef struct BoardLinks {
    _Atomic uint32_t sequence; /* odd while it is being written */
    BoardLinkList list;
} BoardLinks;

typedef struct BoardProcesses {
    _Atomic uint32_t sequence;
    BoardProcessList list;
} BoardProcesses;

/* How the last pass over a GPU went. */
typedef enum BoardOutcome {
    BOARD_NOT_TRIED, /* zeroed memory */
    BOARD_FINE,
    BOARD_LOST,           /* NVML_ERROR_GPU_IS_LOST */
    BOARD_RESET_REQUIRED, /* NVML_ERROR_RESET_REQUIRED */
    BOARD_NOT_FOUND,      /* the driver does not know this PCI address */
    BOARD_REFUSED,        /* any other error; `code` */
} BoardOutcome;

typedef struct BoardGpu {
    _Atomic uint16_t slot; /* slot of the sampler that shall sample it, or BOARD_NO_SLOT */
    PciAddress pci;        /* by the agent, before it assigns the GPU to a sampler */
    /* by the owning sampler */
    _Atomic uint32_t outcome;        /* BoardOutcome of the last pass */
    _Atomic int32_t code;            /* nvmlReturn_t behind it */
    _Atomic uint64_t last_sample_ns; /* end of the last pass that was FINE */
    _Atomic uint64_t pass_ns;        /* its duration, kernel time */
    _Atomic uint64_t failed_passes;
    _Atomic uint32_t gpm;            /* 0 not known, 1 no, 2 yes */
    _Atomic uint32_t drained;        /* by an operator, last known: 0 never known, 1 no, 2 yes */
    _Atomic uint32_t instance_count; /* rows in use after the GPU's own; at most NODE_INSTANCES_MAX */
    BoardPeers peers;
    BoardLinks links;
    BoardProcesses processes;
    _Alignas(4096) BoardRow gpu;
    BoardRow instances[NODE_INSTANCES_MAX];
} BoardGpu;

/* The driver's condition as one sampler finds it. */
typedef enum BoardDriver {
    BOARD_DRIVER_UNKNOWN,
    BOARD_DRIVER_FINE,
    BOARD_DRIVER_NO_LIBRARY, /* dlopen failed */
    BOARD_DRIVER_INIT_FAILED,
    BOARD_DRIVER_RELEASED, /* released as requested */
} BoardDriver;

/* What a sampler reports of the driver as a whole. */
typedef struct BoardFound {
    uint32_t count; /* GPUs that the driver counts (nvmlDeviceGetCount_v2) */
    uint32_t len;   /* entries of `gpus`: those that it can name without their address */
    PciAddress gpus[NODE_GPUS_MAX];
    char driver_version[READING_TEXT_CAP], nvml_version[READING_TEXT_CAP];
} BoardFound;

/* What one sampler reports of itself. */
typedef struct BoardSampler {
    _Atomic uint64_t beat_ns;        /* kernel monotonic time of its last pass of the loop */
    _Atomic uint64_t call_start_ns;  /* kernel monotonic time at which the driver call in progress began; 0: none */
    _Atomic uint32_t call_gpu;       /* index into Board.gpus, or UINT32_MAX for a call that is not about one GPU */
    _Atomic uint32_t call_function;  /* index into sampler_functions (source/sampler/protocol.h) */
    _Atomic uint32_t call_limit_ms;  /* this call's deadline where it is longer than the common one; 0: common */
    _Atomic uint32_t driver;         /* BoardDriver */
    _Atomic uint32_t passes;         /* complete passes */
    _Atomic uint32_t found_sequence; /* odd while `found` is being written; 0 before the first enumeration */
    BoardFound found;
    _Atomic uint32_t trouble;    /* NodeDriver: what a driver that is not fine is */
    _Atomic int32_t code;        /* nvmlReturn_t behind it */
    char why[NODE_WHY_CAP];      /* of a driver that is not fine */
    _Atomic uint32_t event_head; /* XID events written; the newest is at (head - 1) % LEN */
    XidEvent events[BOARD_EVENTS_LEN];
} BoardSampler;

/* The agent's clock, for all: monotonic_ns = start_ns + (kernel monotonic - kernel_start_ns) * speed. */
typedef struct BoardClock {
    uint64_t start_ns, kernel_start_ns;
    double speed; /* 1, except where a test lets time run faster */
} BoardClock;

typedef struct BoardPlan {
    uint64_t wanted[METRIC_SET_WORDS];   /* bit per MetricId that is worth a call */
    uint64_t period_ns[METRIC_PACE_END]; /* of FAST, NORMAL, SLOW, BLOCKING; others 0 */
    bool want_links;                     /* each link's state at pace NORMAL, its errors at SLOW */
    bool want_processes;                 /* processes on the GPUs, at pace NORMAL */
} BoardPlan;

typedef struct Board {
    uint32_t version;
    uint32_t size;
    BoardClock clock;
    _Atomic uint32_t plan_sequence; /* as BoardRow.sequence; a sampler rereads the plan when it changes */
    BoardPlan plan;
    _Atomic uint64_t release_until_ns; /* release the driver until then; 0: no */
    _Atomic uint64_t pairs_after_ns;   /* kernel time before which no call about two GPUs is made, as one hung */
    _Atomic uint32_t gpu_count;        /* used entries of gpus; entries are never reused for another address */
    BoardSampler samplers[NODE_SAMPLERS_MAX];
    _Alignas(4096) BoardGpu gpus[NODE_GPUS_MAX];
} Board;

/* Agent: make a board of zeroes, sealed against resizing, with version and size and a clock that runs with the kernel's
 * (speed 1, from its boot time); change `clock` before the board is passed on. *ret_fd is the memfd, for the samplers;
 * both are the caller's: board_unmap and close. -errno. */
int board_new(Board **ret_board, int *ret_fd, Err *err);
/* Sampler: map one that was passed. -EPROTO where version or size are not ours. */
int board_map(int fd, Board **ret_board, Err *err);
void board_unmap(Board *board);

/* Sampler: write a row. One that another writer left torn is whole again then. */
void board_set_row(BoardRow *row, const Reading *reading);
/* Sampler: append a fast reading, an event. */
void board_push_fast(BoardRow *row, const FastReading *fast);
void board_push_event(BoardSampler *sampler, const XidEvent *event);

/* Agent: copy a row out. False, with *ret untouched, where no whole copy could be had in a few tries (a writer that
 * is busy, or was killed in the middle: then board_repair once it is gone). Texts come back with their end. */
bool board_copy(const BoardRow *row, Reading *ret);
/* The same two for a GPU's reachability of the others. An invalid status becomes absent. */
void board_set_peers(BoardPeers *peers, const Sample status[NODE_GPUS_MAX]);
bool board_copy_peers(const BoardPeers *peers, Sample ret[NODE_GPUS_MAX]);
/* The same two for a GPU's links and processes. Counts are within their bounds; an invalid value is absent (sample of
 * a link) or unknown (share). */
void board_set_links(BoardLinks *links, const BoardLinkList *list);
bool board_copy_links(const BoardLinks *links, BoardLinkList *ret);
void board_set_processes(BoardProcesses *processes, const BoardProcessList *list);
bool board_copy_processes(const BoardProcesses *processes, BoardProcessList *ret);
/* Makes torn rows of a GPU empty readings of their kind (identity and texts too, which may be a mix of two) and torn
 * lists empty; leaves whole ones alone. Only while nothing writes them. */
void board_repair(BoardGpu *gpu);
/* Rows of `instances` in use, never more than there are. */
uint32_t board_instances(const BoardGpu *gpu);

/* Sampler: publish what it found. */
void board_set_found(BoardSampler *sampler, const BoardFound *found);
/* Agent: copy them out, len within its bounds, texts with their end; false before the first enumeration, or torn. */
bool board_copy_found(const BoardSampler *sampler, BoardFound *ret);
/* Sampler and agent: the text `why`. */
void board_set_why(BoardSampler *sampler, const char *why);
void board_copy_why(const BoardSampler *sampler, char why[NODE_WHY_CAP]);
/* Sampler: the driver's condition with all that stands behind it. */
void board_set_driver(BoardSampler *sampler, BoardDriver driver, NodeDriver trouble, int32_t code, const char *why);
/* Agent: what is wrong with the driver; REFUSES where the sampler's value is invalid. */
NodeDriver board_driver_trouble(const BoardSampler *sampler);
/* Agent: copies the fast readings written since *head, oldest first, at most BOARD_FAST_LEN, into out, and advances
 * *head; *ret_lost is how many were overwritten before they were read. A *head ahead of the row's (a new row) starts at
 * the oldest. */
size_t board_read_fast(const BoardRow *row, uint32_t *head, FastReading out[BOARD_FAST_LEN], uint64_t *ret_lost);
size_t board_read_events(const BoardSampler *sampler, uint32_t *head, XidEvent out[BOARD_EVENTS_LEN],
                         uint64_t *ret_lost);

/* Agent: publish a plan. Sampler: copy it; false if it is being changed just now (keep the old one). */
void board_set_plan(Board *board, const BoardPlan *plan);
bool board_get_plan(const Board *board, BoardPlan *ret);
static inline bool board_wants(const BoardPlan *plan, MetricId id)
{
    return plan->wanted[id / 64] >> (id % 64) & 1;
}

/* The agent's monotonic clock, now, for whoever has the board; and at an instant of the kernel's. */
uint64_t board_now(const Board *board);
uint64_t board_at(const Board *board, uint64_t kernel_ns);
/* CLOCK_MONOTONIC of the kernel: what deadlines are measured with. */
uint64_t board_kernel_now(void);
