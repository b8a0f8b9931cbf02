/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Application XIDs become a suspicion of the GPU only by where they occur: an XID 13 again at the same GPC and TPC, or
 * an XID 31 on one GPU under two programs that have it nowhere else, within a day. A program that has them on several
 * GPUs, or at several places of one, is itself at fault; so is one that is restarted again and again and always fails
 * the same way. Pure, one thread.
 */

#include "model/event.h"

enum { LOCALITY_SPOTS = 128 };

/* Where an application XID was seen, of one program. */
typedef struct LocalitySpot {
    uint64_t place, process, last_ns; /* the GPU, the program: numbers of the caller, 0 unknown */
    uint32_t occurrences;
    int32_t code, gpc, tpc, pid;
    char name[EVENT_NAME_CAP];
} LocalitySpot;

typedef struct Locality {
    LocalitySpot spots[LOCALITY_SPOTS];
} Locality;

/* Notes an application XID 13 or 31 of the kernel log; others do nothing. Returns true if the GPU is suspect now, with
 * the reason in `text`. */
bool locality_note(Locality *locality, const Event *event, uint64_t place, uint64_t process, char text[EVENT_TEXT_CAP]);
