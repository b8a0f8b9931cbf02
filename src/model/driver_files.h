/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a container needs of the driver beside its GPUs: libraries, programs, sockets and common device files. Plain
 * data; filled by source/host/driver_files.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Device files that every container with a GPU gets, where the node has them. */
#define DRIVER_COMMON_NODES "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"

typedef struct DriverFile {
    const char *host;      /* on the host */
    const char *container; /* where a container looks for it */
    bool socket;
} DriverFile;

typedef struct DriverNode {
    const char *path;      /* "/dev/nvidiactl" */
    uint32_t major, minor; /* of the character device */
} DriverNode;

typedef struct DriverFiles {
    const DriverFile *files;
    size_t file_count;
    const DriverNode *nodes; /* that every container gets */
    size_t node_count;
    const DriverNode *gpus; /* /dev/nvidiaN */
    size_t gpu_count;
    uint32_t caps_major; /* of /dev/nvidia-caps/nvidia-capN; 0: not known */
    const char *missing; /* what containers will lack, a sentence; "" nothing */
} DriverFiles;
