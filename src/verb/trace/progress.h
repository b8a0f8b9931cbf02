/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Progress of long work on a terminal, and the flag that stops it. The main thread draws while others work. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Progress {
    bool shown;     /* stderr is a terminal and progress is enabled */
    uint64_t total; /* bytes to be read, 0 unknown */
    atomic_uint_fast64_t bytes;
    uint64_t began_ns;
    bool drawn;
} Progress;

void progress_begin(Progress *progress, bool wanted, uint64_t total_bytes);
void progress_draw(Progress *progress); /* nothing within the first half second */
void progress_end(Progress *progress);  /* wipes the line */

/* From now on SIGINT and SIGTERM set a flag; the second one ends the process as ever. */
const bool *stop_catch(void);
/* If the flag is set: ends the process by the same signal, as the shell expects. Call it once all is tidied up. */
void stop_obey(void);
