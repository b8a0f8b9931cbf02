/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds the driver's files on the host. Reads folders; any thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "model/driver_files.h"

typedef struct DriverFilesPlace {
    const char *root;        /* where this process sees the host's folder `driver_root`; "": it is "/" */
    const char *driver_root; /* on the host, below which the driver is installed: "/" */
    const char *dev;         /* where this process sees the folder in which /dev lies; "": "/" */
    const char *proc;        /* and /proc, which a container has of the same kernel; "": "/" */
    const char *version;     /* of the driver: "590.48.01" */
} DriverFilesPlace;

/* Device files, and with `libraries` what is mounted: all files NAME.so.VERSION, under their own name and those of the
 * links to them, in the folders where loaders of Debian's and Red Hat's kind look, programs and sockets. Texts lie in
 * `arena`. */
void driver_files_find(const DriverFilesPlace *place, bool libraries, Arena *arena, DriverFiles *ret);

/*
 * Makes the links /dev/char/MAJOR:MINOR to these device files that are missing. By them systemd knows a device when it
 * writes the device lists of cgroups anew at a reload; without them running containers lose their GPUs then
 * (nvidia-container-toolkit's issue 48). Returns how many were made; nothing where there is no /dev/char. -errno.
 */
int driver_files_link(const DriverFilesPlace *place, const DriverNode *nodes, size_t count, Err *err);
