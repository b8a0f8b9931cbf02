/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process as NVML sees it: on each device with a context a work of the node, whose kind follows what the process
 * mostly does. Power, heat, clocks and utilisation follow from it by the node's own physics.
 */
#include "sim/cuda/lib.h"

/* A context: begins and ends the work. */
void cu_activity_begin(CuDevice *device);
void cu_activity_end(CuDevice *device);
/* An operation of `seconds` begins at t_ns. */
void cu_activity_note(CuDevice *device, CuActivity kind, double seconds, uint64_t t_ns);
/* Nothing has run for a while: the context is idle. */
void cu_activity_rest(CuDevice *device);
/* What the context holds has changed. */
void cu_activity_memory(CuDevice *device);
/* The result that all calls give from now on, if the node has ended the work (an XID, a lost GPU); else 0. */
CUresult cu_activity_check(CuDevice *device, uint64_t t_ns);
/* Whether a work of the node is this process on the device. */
bool cu_activity_is_own(const CuDevice *device, int32_t work);
/* MiB that others hold on the device, and the memory that nobody holds. */
double cu_activity_others_mib(CuDevice *device);
/* MiB of a context without allocations. */
enum { CU_CONTEXT_MIB = 520 };
/* Ends works of processes that are gone. */
void cu_activity_clean(SimImage *image);
