/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: dumps of a flight recorder, JSON or pickle (then also a memory snapshot) by the first byte, parted into
 * several ranks' by form feeds (JSON) or read as one (pickle); also the JSON of nccl-tests. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/report/allocator.h"
#include "service/report/nccl.h"
#include "test/fuzz/share.h"
#include "test/unit/report_sink.h"

enum { OUT_MAX = 1 << 24, RANKS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_POINTER(NcclJob, nccl_free);

static void read_dump(NcclJob *job, int rank, const uint8_t *data, size_t size)
{
    char name[32];

    snprintf(name, sizeof name, "trace_rank_%d", rank);
    nccl_begin(job, name);
    nccl_feed(job, data, size);
    nccl_end(job, NULL);
}

static void read_snapshot(const uint8_t *data, size_t size, const ReportOptions *style, Str *out)
{
    CLEANUP(allocator_done) AllocatorReport report = {0};

    if (allocator_read((Span){(const char *)data, size}, &report, NULL) < 0)
        return;
    allocator_text(&report, style, report_sink_str(out), NULL);
    allocator_json(&report, report_sink_str(out), NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();
    CLEANUP(str_done) Str out = {0};
    const ReportOptions style = {.width = 100, .verbose = true};
    uint32_t dice = share_dice(data, size);

    str_init(&out, OUT_MAX);
    if (size && data[0] == 0x80) {
        read_snapshot(data, size, &style, &out);
        read_dump(job, 0, data, size);
        read_dump(job, 1, data, size);
    }
    for (int rank = 0; size && data[0] != 0x80 && rank < RANKS_MAX; rank++) {
        const uint8_t *end = memchr(data, '\f', size);
        size_t len = end ? (size_t)(end - data) : size;
        read_dump(job, rank, data, len);
        if (!end)
            break;
        size -= len + 1;
        data += len + 1;
    }
    const NcclReport *report = nccl_finish(job);
    if (share_drawn(&dice, 2))
        nccl_report_text(report, &style, report_sink_str(&out), NULL);
    if (share_drawn(&dice, 2))
        nccl_report_json(report, report_sink_str(&out), NULL);
    return 0;
}
