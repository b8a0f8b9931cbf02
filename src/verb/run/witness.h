/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a signal came to the whole process group or to this process alone, which the kernel does not say: a child in
 * the same group that does nothing but wait. What came to it too was sent to the group. One thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

typedef struct Witness {
    pid_t pid; /* 0: none */
    int fd;
    uint64_t seen; /* it got these, a bit for each, and was not asked about them yet */
} Witness;

/* Forks it, with every signal blocked; it ends with the caller. */
int witness_start(Witness *witness, Err *err);

/* Whether the witness got this signal too, which the caller got and reads now. To be asked about each one, or the
 * answer to the next of its kind is wrong. False where there is no witness. */
bool witness_saw(Witness *witness, int signal);

/* The caller reaped this child of its own. */
void witness_note_end(Witness *witness, pid_t pid);

/* Ends and reaps it. Accepts one that was not started, or was reaped. */
void witness_end(Witness *witness);
