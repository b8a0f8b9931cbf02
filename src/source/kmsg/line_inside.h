/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files that read lines share; not for others. */

#include "source/kmsg/cursor.h"
#include "source/kmsg/line.h"

enum { LINE_GPUS = 64 };

/* What a message of several lines has said so far, and what the driver has said of who its GPUs are. */
struct LineReader {
    char **patterns;
    size_t pattern_count;
    struct {
        PciAddress pci;
        char uuid[DEVICE_UUID_CAP];
    } gpus[LINE_GPUS];
    size_t gpu_count;
    bool off_bus, mismatch, init; /* the first line of such a message was the one before */
    PciAddress pci;               /* of the first line */
    Event half;                   /* API mismatch, so far */
};

/* line_xid.c: `c` begins behind "NVRM: Xid (" and behind "SXid (". */
bool line_xid(const LineReader *reader, Cursor c, Event *event);
bool line_sxid(Cursor c, Event *event);
/* line_driver.c: `c` begins behind "NVRM: ". */
bool line_driver(LineReader *reader, Cursor c, Event *event);
/* line_kernel.c: any other line. */
bool line_kernel(Cursor c, Event *event);

/* "Fatal", "Non-fatal", ... where it comes next. */
EventWord line_word(Cursor *c);
