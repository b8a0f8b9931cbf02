/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/fields.h"

#include "model/activity.h"
#include "model/allocation.h"
#include "model/node.h"
#include "model/owner.h"
#include "model/place.h"
#include "model/process.h"
#include "model/roof.h"

#define NUMBER_MAX (DEVICE_NO_NUMBER - 1)

#define FIELD(type, field, kind_) .kind = kind_, .at = offsetof(type, field), .size = sizeof(((type *)NULL)->field)
#define TEXT(type, field) FIELD(type, field, FIELD_TEXT)
#define NUMBER(type, field, max_) FIELD(type, field, FIELD_NUMBER), .max = max_

const Field node_fields[] = {
    {"hostname", TEXT(Node, hostname)},
    {"driver_version", TEXT(Node, driver_version)},
    {"nvml_version", TEXT(Node, nvml_version)},
    {"driver_why", TEXT(Node, driver_why)},
    {"gpus_expected", NUMBER(Node, gpus_expected, UINT32_MAX)},
    {"gpus_found", NUMBER(Node, gpus_found, UINT32_MAX)},
    {"gpus_on_bus", NUMBER(Node, gpus_on_bus, UINT32_MAX)},
    {.name = NULL},
};

const Field device_fields[] = {
    {"uuid", TEXT(Device, uuid)},
    {"name", TEXT(Device, name)},
    {"serial", TEXT(Device, serial)},
    {"board", TEXT(Device, board)},
    {"minor", NUMBER(Device, minor, NUMBER_MAX)},
    {"gpu_instance", NUMBER(Device, gpu_instance, NUMBER_MAX)},
    {"compute_instance", NUMBER(Device, compute_instance, NUMBER_MAX)},
    {.name = NULL},
};

const Field gpu_fields[] = {
    {"since", FIELD(NodeGpu, state_since_ns, FIELD_TIME)},
    {"why", TEXT(NodeGpu, why)},
    {"mig", FIELD(NodeGpu, reading.mig, FIELD_BOOL)},
    {"mig_layout", TEXT(NodeGpu, mig_layout)},
    {"mig_changed", TEXT(NodeGpu, mig_changed)},
    {"mig_change", TEXT(NodeGpu, mig_change)},
    {"own_sampler", FIELD(NodeGpu, own_sampler, FIELD_BOOL)},
    {"missed_calls", NUMBER(NodeGpu, missed_calls, INT64_MAX)},
    {"failed_passes", NUMBER(NodeGpu, failed_passes, INT64_MAX)},
    {"drained", FIELD(NodeGpu, drained, FIELD_BOOL), .skip_zero = true},
    {.name = NULL},
};

const Field activity_fields[] = {
    {"since", FIELD(Activity, since_ns, FIELD_TIME), .skip_zero = true},
    {"text", TEXT(Activity, text)},
    {"incident", TEXT(Activity, incident)},
    {"held", FIELD(Activity, held, FIELD_BOOL)},
    {"window_s", NUMBER(Activity, window_s, UINT32_MAX)},
    {"waiters", NUMBER(Activity, waiters, UINT32_MAX), .skip_zero = true},
    {.name = NULL},
};

const Field activity_share_fields[] = {
    {"sm_active", FIELD(Activity, sm_active, FIELD_SHARE)},
    {"utilization", FIELD(Activity, utilization, FIELD_SHARE)},
    {"power_share", FIELD(Activity, power_share, FIELD_SHARE)},
    {"clock_share", FIELD(Activity, clock_share, FIELD_SHARE)},
    {"tensor", FIELD(Activity, tensor, FIELD_SHARE)},
    {"dram", FIELD(Activity, dram, FIELD_SHARE)},
    {"waiters_speed", FIELD(Activity, waiters_speed, FIELD_SHARE)},
    {.name = NULL},
};

const Field roof_fields[] = {
    {"flops_per_second", FIELD(Roof, flops, FIELD_SHARE)},
    {"flops_low", FIELD(Roof, flops_low, FIELD_SHARE)},
    {"flops_high", FIELD(Roof, flops_high, FIELD_SHARE)},
    {"flops_peak", FIELD(Roof, flops_peak, FIELD_SHARE)},
    {"flops_share", FIELD(Roof, flops_share, FIELD_SHARE)},
    {"type", TEXT(Roof, type)},
    {"bytes_per_second", FIELD(Roof, bytes, FIELD_SHARE)},
    {"bytes_share", FIELD(Roof, bytes_share, FIELD_SHARE)},
    {"flop_per_byte", FIELD(Roof, intensity, FIELD_SHARE)},
    {"position", FIELD(Roof, position, FIELD_SHARE)},
    {"window_s", NUMBER(Roof, window_s, UINT32_MAX)},
    {"absent", TEXT(Roof, absent)},
    {"text", TEXT(Roof, text)},
    {.name = NULL},
};

const Field process_fields[] = {
    {"pid", NUMBER(NodeProcess, pid, UINT32_MAX)},
    {"gpu_instance", NUMBER(NodeProcess, gpu_instance, NUMBER_MAX)},
    {"compute_instance", NUMBER(NodeProcess, compute_instance, NUMBER_MAX)},
    {"used_bytes", NUMBER(NodeProcess, used_bytes, INT64_MAX)},
    {"sm_percent", NUMBER(NodeProcess, sm_percent, UINT8_MAX - 1)},
    {"memory_percent", NUMBER(NodeProcess, memory_percent, UINT8_MAX - 1)},
    {.name = NULL},
};

const Field process_owner_fields[] = {
    {"name", TEXT(ProcessOwner, name)},
    {"user", TEXT(ProcessOwner, user)},
    {"uid", NUMBER(ProcessOwner, uid, UINT32_MAX - 1)},
    {"runtime", TEXT(ProcessOwner, runtime)},
    {"container", TEXT(ProcessOwner, container)},
    {"pod_uid", TEXT(ProcessOwner, pod_uid)},
    {"pod", TEXT(ProcessOwner, pod)},
    {"namespace", TEXT(ProcessOwner, namespace)},
    {"job", TEXT(ProcessOwner, job)},
    {"command", TEXT(ProcessOwner, command)},
    {.name = NULL},
};

const Field process_usage_fields[] = {
    {"rss_bytes", NUMBER(ProcessOwner, rss_bytes, INT64_MAX)},
    {"cpu_seconds", FIELD(ProcessOwner, cpu_ns, FIELD_SECONDS)},
    {"start_seconds", FIELD(ProcessOwner, start_ns, FIELD_SECONDS)},
    {.name = NULL},
};

const Field owner_fields[] = {
    {"user", TEXT(Owner, user)},           {"job", TEXT(Owner, job)},
    {"account", TEXT(Owner, account)},     {"pod", TEXT(Owner, pod)},
    {"namespace", TEXT(Owner, namespace)}, {"container", TEXT(Owner, container)},
    {"process", TEXT(Owner, process)},     {.name = NULL},
};

const Field job_info_fields[] = {
    {"job", TEXT(JobInfo, job)},
    {"name", TEXT(JobInfo, name)},
    {"user", TEXT(JobInfo, user)},
    {"account", TEXT(JobInfo, account)},
    {"partition", TEXT(JobInfo, partition)},
    {"nodes", NUMBER(JobInfo, nodes, UINT32_MAX), .skip_zero = true},
    {"limit_seconds", NUMBER(JobInfo, limit_s, INT64_MAX), .skip_zero = true},
    {.name = NULL},
};

const Field holding_process_fields[] = {
    {"pid", NUMBER(HoldingProcess, pid, INT32_MAX)},
    {"name", TEXT(HoldingProcess, name)},
    {"user", TEXT(HoldingProcess, user)},
    {.name = NULL},
};

const Field allocation_fields[] = {
    {"pod", FIELD(Allocation, pod, FIELD_POINTER)},
    {"namespace", FIELD(Allocation, namespace, FIELD_POINTER)},
    {"container", FIELD(Allocation, container, FIELD_POINTER)},
    {"pod_uid", FIELD(Allocation, pod_uid, FIELD_POINTER)},
    {"replica", TEXT(Allocation, device.replica)},
    {.name = NULL},
};

const Field sampler_fields[] = {
    {"pid", NUMBER(NodeSampler, pid, INT32_MAX)},
    {"gpus", NUMBER(NodeSampler, gpu_count, UINT32_MAX)},
    {"since", FIELD(NodeSampler, since_ns, FIELD_TIME)},
    {"stuck_gpu", TEXT(NodeSampler, gpu)},
    {"stuck_function", TEXT(NodeSampler, function)},
    {"wchan", TEXT(NodeSampler, wchan)},
    {"rss_bytes", NUMBER(NodeSampler, rss_bytes, INT64_MAX), .skip_zero = true},
    {.name = NULL},
};

const Field place_fields[] = {
    {"numa_node", NUMBER(Place, numa_node, INT32_MAX)}, /* one below 0 is over it */
    {"cpus", TEXT(Place, cpus)},
    {.name = NULL},
};
