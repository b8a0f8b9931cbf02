/* SPDX-License-Identifier: Apache-2.0 */
/* Log: processes, and which rank of which communicator a thread of them speaks for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/nccl/job.h"

enum { KEY_MAX = 300, THREAD_BITS = 40 };

static size_t process_key(char out[KEY_MAX], Span host, uint64_t pid)
{
    int len = snprintf(out, KEY_MAX, "%.*s:%" PRIu64, host.len < 255 ? (int)host.len : 255, host.at, pid);

    return len < 0 ? 0 : (size_t)len;
}

uint32_t nccl_process_known(const NcclJob *job, Span host, uint64_t pid)
{
    char key[KEY_MAX];
    size_t len = process_key(key, host, pid);

    return nccl_unboxed(map_getn(&job->process_by_key, key, len));
}

uint32_t nccl_process(NcclJob *job, Span host, uint64_t pid)
{
    char key[KEY_MAX];
    uint32_t index = nccl_process_known(job, host, pid);

    if (index != NCCL_NO_INDEX) {
        job->report.processes.at[index].input = job->input;
        return index;
    }
    if (job->report.processes.len >= NCCL_PROCESSES_MAX) {
        job->report.left_out++;
        return NCCL_NO_INDEX;
    }
    index = (uint32_t)job->report.processes.len;
    NcclProcess process = {.host = nccl_word(job, host),
                           .pid = pid,
                           .input = job->input,
                           .version = "",
                           .network = "",
                           .plugin = "",
                           .oob = "",
                           .sockets = "",
                           .ib = ""};
    vec_push(&job->report.processes, process);
    map_putn(&job->process_by_key, key, process_key(key, host, pid), nccl_boxed(index));
    map_putn(&job->host_known, host.at, host.len, nccl_boxed(0));
    return index;
}

static uint64_t thread_key(uint32_t process, uint64_t tid)
{
    return (uint64_t)process << THREAD_BITS | (tid & ((1ull << THREAD_BITS) - 1));
}

/* Devices share the map of threads; no thread has such a number. */
static uint64_t device_key(uint32_t process, int dev)
{
    return 1ull << 63 | (uint64_t)process << THREAD_BITS | (uint32_t)dev;
}

uint32_t nccl_member_new(NcclJob *job, uint32_t process)
{
    NcclMember member = {.comm = NCCL_NO_INDEX,
                         .process = process,
                         .rank = NCCL_UNKNOWN,
                         .cuda_dev = NCCL_UNKNOWN,
                         .nvml_dev = NCCL_UNKNOWN,
                         .bus_id = "",
                         .nranks = NCCL_UNKNOWN,
                         .nodes = NCCL_UNKNOWN,
                         .local_ranks = NCCL_UNKNOWN,
                         .coll_channels = NCCL_UNKNOWN,
                         .nvls_channels = NCCL_UNKNOWN,
                         .p2p_channels = NCCL_UNKNOWN,
                         .init_s = NCCL_UNKNOWN,
                         .init_part = "",
                         .op_count = NCCL_UNKNOWN,
                         .op = ""};

    if (job->report.members.len >= NCCL_MEMBERS_MAX) {
        job->report.left_out++;
        return NCCL_NO_INDEX;
    }
    vec_push(&job->report.members, member);
    return (uint32_t)job->report.members.len - 1;
}

void nccl_member_begin(NcclJob *job, uint32_t process, uint64_t tid, int dev, uint32_t member)
{
    map_u64_put(&job->member_by_thread, thread_key(process, tid), nccl_boxed(member));
    if (dev >= 0)
        map_u64_put(&job->member_by_thread, device_key(process, dev), nccl_boxed(member));
}

uint32_t nccl_member_now(const NcclJob *job, uint32_t process, uint64_t tid, int dev)
{
    uint32_t member = nccl_unboxed(map_u64_get(&job->member_by_thread, thread_key(process, tid)));

    if (member == NCCL_NO_INDEX && dev >= 0)
        member = nccl_unboxed(map_u64_get(&job->member_by_thread, device_key(process, dev)));
    return member;
}

uint32_t nccl_member_of(NcclJob *job, uint32_t process, uint64_t tid, int dev)
{
    if (process == NCCL_NO_INDEX)
        return NCCL_NO_INDEX;
    uint32_t member = nccl_member_now(job, process, tid, dev);
    if (member == NCCL_NO_INDEX) {
        member = nccl_member_new(job, process);
        if (member != NCCL_NO_INDEX)
            nccl_member_begin(job, process, tid, dev, member);
    }
    return member;
}
