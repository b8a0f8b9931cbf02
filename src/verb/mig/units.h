/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * systemd units of the host that hold GPUs: stopped before a change of MIG and started after it. Which were stopped is
 * kept in a file, so that they are started after an end of this program too. Blocks. One thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"

typedef struct MigUnits {
    OptList names;    /* that may be stopped */
    const char *root; /* of the host, where systemctl is run by chroot */
    const char *file; /* the names of those that were stopped, a line each */
} MigUnits;

/* Reads mig-manager's {version: v1, systemd-services: [...]}; the result lies in the arena. -EINVAL with the place. */
int mig_units_read(const char *path, Arena *arena, OptList *ret, Err *err);

/* Stops those that are active. -errno names the unit; those before it are stopped then. */
int mig_units_stop(const MigUnits *units, Err *err);

/* Starts those that were stopped, the last first; nothing where there is no file. -errno where one does not start: the
 * others are started, and the file stays. */
int mig_units_start(const MigUnits *units, Err *err);
