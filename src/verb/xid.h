/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `stoker xid` shares with `stoker runbook`: a code of the GPU driver or of an NVSwitch as people write it on a
 * command line, and the driver that said it. Any thread.
 */

#include "model/event.h"
#include "verb/verb.h"

/* The arguments of a command line as one text. */
const char *xid_join_words(const VerbCall *call);
/* "79", "xid:79", "sxid:20034" (a bare number from 10000 on is an SXid), or a line of the kernel log that tells of a
 * fault, with what stands before it in a log or nothing at all. False where it is neither. */
bool xid_read_code(const char *text, Event *ret);
/* The major version of --driver ("570.86.10": 570) or, where that is NULL, of the kernel module that is loaded below
 * `root` (NULL: /); 0 unknown. An exit code; EXIT_FINE where it was read. */
int xid_read_driver(VerbCall *call, const char *version, const char *root, uint32_t *ret);
