/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Snapshot: everything known of the node at one instant. The agent makes one per tick, a node without an agent makes
 * its own, and snapshot_read (service/api/snapshot_read.h) makes one from JSON: of the agent, of a recording or of the
 * history. Outputs read it and change nothing. Plain data, borrowed from its maker until the next snapshot. One thread.
 */

#include "model/incident.h"
#include "model/node.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/place.h"
#include "model/process.h"

typedef struct Snapshot {
    const Node *node;                   /* NULL: nothing is known yet */
    const AllocationTable *allocations; /* devices by pod, from the kubelet; NULL: not known */
    const JobAllocation *jobs;          /* devices by batch job, from files of a workload manager */
    size_t job_count;
    JobInfoList job_infos;     /* what Slurm says of the jobs here */
    HostUsageList host_usages; /* what its jobs use of the host */
    bool pods_told, jobs_told; /* the kubelet, and the files: they could be read when last tried */
    ProcessList processes;     /* processes on the GPUs, by pid */
    ProcessList holders;       /* that have a GPU open on which the driver does not list them, by pid */
    const char
        *holders_why; /* why not all could be looked for; NULL or "": they were, or there is nothing to explain */
    const JobDevice *job_devices; /* by the environment of Slurm's tasks */
    size_t job_device_count;
    const EndedJob *ended_jobs; /* of Slurm: their batch script, or what stands for them here, has ended */
    size_t ended_job_count;
    bool steps_told;         /* Slurm runs here, and the environment of its tasks could be read */
    const Holding *holdings; /* who holds each device, by engine/owner */
    size_t holding_count;
    PlaceList places;                 /* where GPUs and network adapters are attached */
    const char *boot_id;              /* of the kernel that counts these pids; NULL or "": not known */
    uint64_t boot_real_ns;            /* when the node was started, wall clock; 0: not known */
    const Incident *const *incidents; /* the open ones, in any order */
    size_t incident_count;
    const struct Maintenance *maintenance; /* NULL: none */
    const struct Facts *facts;             /* of the host; NULL: not known */
} Snapshot;
