/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Scanning texts in many ways, and profiles as text, so that two can be compared and a third party can read them. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "engine/trace/scan/scan.h"

/* How a text is given to the scanner. */
typedef struct KitWay {
    size_t piece;         /* bytes of one feed; 0: all at once; SIZE_MAX: of random sizes */
    unsigned int threads; /* over 0: trace_scan_parallel instead, in pieces of part_bytes */
    size_t part_bytes;
    uint32_t seed;
    struct ScanTools *tools; /* lent, so that many scans share what was learned; NULL: its own */
    size_t walker;           /* which of walkers[], counted round over those that can be used here; 0: the best */
} KitWay;

/* Scans `text` into a new, sealed profile (profile_done by the caller, also after an error). */
int kit_scan(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way, Profile *ret, Err *err);

/* The same in one piece into an initialised profile, which is not sealed. */
int kit_load(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way, Profile *into, Err *err);

/* Every column, list and count of a sealed profile, one thing per line. */
void kit_print(const Profile *profile, Str *out);
