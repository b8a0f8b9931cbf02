/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * MIG by the driver: reads how each GPU is split and carries out one step at a time. The driver is called in a child
 * process, for a call may never return: the caller waits with a deadline, and says which call it was. One thread; no
 * other thread may run when the child is started.
 *
 * Functions return 0, or -errno with a sentence: -ETIMEDOUT a call did not return (the child is gone then, and so is
 * the handle: open another), -EBUSY the driver says that something is in use, -EPERM it wants root, -ENODEV no driver
 * or GPU, -EIO any other answer of the driver.
 */

#include "base/err.h"
#include "model/gres.h"
#include "model/make.h"
#include "model/mig.h"

typedef struct MigDriver MigDriver;

/* Starts the child and loads the driver's library ("" or a path). `limit_ms`: of one call. */
int mig_driver_open(const char *library, uint64_t limit_ms, MigDriver **ret, Err *err);
/* Ends the child, at once; accepts NULL. */
void mig_driver_close(MigDriver *driver);

/* All GPUs of the node. What cannot be read of one GPU is said in its `why`; one whose call does not return is left out
 * from then on, the child is started anew. Valid until the next read of its kind, or close. */
int mig_driver_read(MigDriver *driver, const MigNode **ret, Err *err);

/* All GPUs and MIG devices of the node as Slurm counts them; needs no root. Device minors of instances and cores are
 * not filled (source/slurm/gres_node.h). Valid until the next read of its kind, or close. */
int mig_driver_read_gres(MigDriver *driver, const GresNode **ret, Err *err);

/* What all GPUs and MIG devices of the node are made of; needs no root. A GPU that cannot be read is left out. Valid
 * until the next read of its kind, or close. */
int mig_driver_read_make(MigDriver *driver, const MakeNode **ret, Err *err);

/* Turns the mode of a GPU on or off. 1: it is so after a reset. */
int mig_driver_set_mode(MigDriver *driver, unsigned gpu, bool on, Err *err);
/* Destroys a GPU instance and its compute instances. */
int mig_driver_destroy(MigDriver *driver, unsigned gpu, uint32_t instance_id, Err *err);
/* Makes a GPU instance at its place, and its compute instances in it. */
int mig_driver_create(MigDriver *driver, unsigned gpu, const MigInstance *instance, Err *err);
/* Makes the compute instances of a GPU instance anew, as `instance` has them. */
int mig_driver_recompute(MigDriver *driver, unsigned gpu, uint32_t instance_id, const MigInstance *instance, Err *err);
