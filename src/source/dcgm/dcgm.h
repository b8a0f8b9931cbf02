/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Profiling metrics (DCGM_FI_PROF_...) of GPUs that the driver's own performance monitoring does not serve (before
 * Hopper), through NVIDIA's libdcgm, where it is installed and the user asked for it. Runs in a sampler, never in the
 * agent: any call may hang, so a hook is called before and after every call of the library. Owned by one thread.
 *
 * The counters of such GPUs are one resource of the whole node: an embedded engine shuts out Nsight, CUPTI and any
 * other engine (and is shut out by them). So at most one sampler may have an embedded engine, and not while a GPU
 * hangs, because the engine attaches all GPUs. Where a host engine runs already (nv-hostengine), connect to that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/metric.h"
#include "model/pci.h"
#include "model/sample.h"

typedef struct Dcgm Dcgm;
typedef struct DcgmWatch DcgmWatch;

/* Called around every call of the library, dlopen and dlclose included; never nested. `function` is a constant text. */
typedef struct DcgmHooks {
    void (*before)(void *self, const char *function);
    void (*after)(void *self);
    void *self;
} DcgmHooks;

typedef struct DcgmPlace {
    const char *library; /* path, or "": libdcgm.so.4, then libdcgm.so.3 */
    const char *address; /* of a host engine: "HOST", "HOST:PORT", "unix:PATH"; "": an engine in this process */
    uint32_t connect_ms; /* limit of connecting; 0: the library's own */
} DcgmPlace;

/* A GPU, or a MIG device on it, in NVML's numbers. */
typedef struct DcgmTarget {
    PciAddress gpu;
    uint32_t gpu_instance, compute_instance; /* DEVICE_NO_NUMBER, both: the whole GPU */
} DcgmTarget;

typedef struct DcgmNow {
    uint64_t time_ns; /* what samples are stamped with */
    int64_t wall_us;  /* the same instant since 1970, the engine's clock */
} DcgmNow;

enum {
    DCGM_FIELDS_MAX = 64, /* metrics of one watch */
    DCGM_REFUSED = 1,     /* outcome: nothing is measured; the reasons come with the samples */
};

/*
 * Loads the library and starts an engine in this process, or connects to one. Strings and hooks->self are borrowed
 * until dcgm_close, the rest is copied. -ENOENT: there is no such library; -ENOSYS: it lacks a function that is needed;
 * -EPROTO: it or the host engine speaks another version; -EACCES: not permitted; -EIO: anything else. On failure all is
 * as before.
 */
int dcgm_open(const DcgmPlace *place, const DcgmHooks *hooks, Dcgm **ret_dcgm, Err *err);

/* Why nothing can be measured after dcgm_open or dcgm_watch_new answered `rc` < 0. */
Absence dcgm_absence(int rc);

/* Ends all watches that are left, the engine or connection, and unloads the library. NULL is fine. Whether the library
 * is out of memory: it may refuse to go, as C++ libraries do. */
bool dcgm_close(Dcgm *dcgm);

/* The engine went away (a host engine that ended): close and open again. No calls are made until then. */
bool dcgm_lost(const Dcgm *dcgm);

/*
 * Starts measuring `count` metrics (at most DCGM_FIELDS_MAX, each with a DCGM id) of a target every period_ns. Of a MIG
 * device, metrics of compute instances and of GPU instances are measured, others are not supported.
 * 0: some are; DCGM_REFUSED: none is. Both give a watch, and a GPU's other fields go on if
 * one is refused. -ENODEV: the engine does not know the target; -EPIPE: engine lost; -EPROTO, -EIO as above; no watch.
 */
int dcgm_watch_new(Dcgm *dcgm, const DcgmTarget *target, const MetricId *metrics, size_t count, uint64_t period_ns,
                   DcgmWatch **ret_watch, Err *err);

/* Stops measuring. NULL is fine. */
void dcgm_watch_free(DcgmWatch *watch);

/*
 * The latest values, of the metrics' own kinds: fills out[count], in the order of `metrics`. A value is stamped with
 * the time at which the engine measured it; one older than three periods (at least 3 s) is absent with NO_DATA. One or
 * two calls; nothing is allocated. Returns how many are there.
 */
size_t dcgm_read(DcgmWatch *watch, DcgmNow now, Sample *out);
