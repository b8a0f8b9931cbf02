/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sets how long a process runs on a GPU before the next one does, by the driver's nvidia-smi, one GPU after the other.
 * On the loop's thread; nothing blocks.
 */

#include <uv.h>

#include "base/err.h"
#include "engine/kubelet/claim.h"

typedef struct Slicer Slicer;

/* `driver_root`: where this process sees the root in which NVIDIA's programs lie; "": "/". Borrowed. */
Slicer *slicer_new(uv_loop_t *loop, const char *driver_root);
/* `done` (NULL: of no interest) is called once, later; err NULL: it is set. */
void slicer_set(Slicer *slicer, const char *uuid, ClaimSlice slice, void (*done)(void *self, const Err *err),
                void *self);
/* Calls nothing with this `self` any more; what was begun goes on. */
void slicer_forget(Slicer *slicer, const void *self);
/* Frees when the loop has closed its handles. Accepts NULL. */
void slicer_close(Slicer *slicer);
