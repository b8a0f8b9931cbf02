/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds the driver's files on the host. Reads folders; any thread.
 */

#include "base/arena.h"
#include "model/driver_files.h"

typedef struct DriverFilesPlace {
    const char *root;        /* where this process sees the host's folder `driver_root`; "": it is "/" */
    const char *driver_root; /* on the host, below which the driver is installed: "/" */
    const char *dev;         /* where this process sees the folder in which /dev and /proc lie; "": "/" */
    const char *version;     /* of the driver: "590.48.01" */
} DriverFilesPlace;

/* Libraries are all files NAME.so.VERSION, under their own name and those of the links to them, in the folders where
 * loaders of Debian's and Red Hat's kind look. Texts lie in `arena`. */
void driver_files_find(const DriverFilesPlace *place, Arena *arena, DriverFiles *ret);
