/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The kernel log of a simulated node: the lines that the driver of that version prints for the node's events, and a
 * writer that appends those that have become due. Lines are a pure function of the image (and of the pids lent to its
 * works). One thread per KernelLog.
 *
 * Lines come from XIDs and from raw lines of the scenario (SXid lines are such). Nothing is printed for AER counts (the
 * image has no event for them; scenarios that want the line give it), nor for events that only NVML reports.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "sim/core/image.h"

enum { KERNEL_PATH_MAX = 4096 };
enum { KERNEL_LINES_MAX = 4096 }; /* bytes of one event's lines */

/* What the kernel log gets for one event: its lines with '\n' between them and none at the end, without any prefix.
 * Returns the length (0: nothing is printed), at most n - 1: what does not fit is cut. */
int kernel_log_line(SimImage *image, const SimEvent *event, char *buf, size_t n);

/* What the driver prints once per GPU, before its first XID: bus address and UUID; board serial number. As above. */
int kernel_log_first_seen(const SimImage *image, uint32_t gpu, char *buf, size_t n);

typedef enum KernelLogFormat {
    KERNEL_LOG_KMSG,   /* "4,17,1234567,-;text", as a read from /dev/kmsg gives it */
    KERNEL_LOG_DMESG,  /* "[    1.234567] text" */
    KERNEL_LOG_DEVICE, /* to /dev/kmsg itself: "<4>text (stoker-sim)", the mark saying whose it is; the kernel adds
                          number and time, its own, and makes the facility "user" */
} KernelLogFormat;

typedef struct KernelLogSpec {
    const char *path; /* appended to; made where it is missing */
    KernelLogFormat format;
    uint64_t boot_us; /* microseconds between the machine's start and virtual time 0 */
    uint32_t from;    /* index of the first event to write: 0, or kernel_log_next() of an earlier writer */
} KernelLogSpec;

typedef struct KernelLog {
    SimImage *image; /* borrowed */
    int fd;
    KernelLogFormat format;
    char path[KERNEL_PATH_MAX]; /* "": of a device */
    bool away;                  /* not found under its name */
    uint64_t boot_us, lines;    /* lines so far: the next record's number */
    uint32_t next, seen;        /* index of the next event; GPUs that have been introduced, as bits */
    Str text;
} KernelLog;

/* Opens the file. -errno; call kernel_log_done in any case. */
int kernel_log_open(KernelLog *log, SimImage *image, const KernelLogSpec *spec, Err *err);
void kernel_log_done(KernelLog *log);

/* Writes the lines of all events from the last call's end up to virtual time until_ns, each event in one write. Returns
 * the number of lines written. *ret_next_ns (may be NULL) gets the time of the next event known, SIM_FOREVER for none.
 * -errno: only whole events were written; the next call continues after them. */
int kernel_log_write(KernelLog *log, uint64_t until_ns, uint64_t *ret_next_ns, Err *err);

/* Index of the first event not yet written: for KernelLogSpec.from. */
uint32_t kernel_log_next(const KernelLog *log);
