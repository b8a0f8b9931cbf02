/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: topology and graph XML, for a share of the inputs beside a log of the node, drawn or written as JSON. */
#include <stdint.h>

#include "base/cleanup.h"
#include "service/report/nccl.h"
#include "test/fuzz/share.h"
#include "test/unit/report_sink.h"

enum { OUT_MAX = 1 << 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_POINTER(NcclJob, nccl_free);

#define HEAD(rank) "a:1" rank ":1 [" rank "] NCCL INFO "
#define RANK(rank)                                                                                                     \
    HEAD(rank)                                                                                                         \
    "comm 0x5" rank " rank " rank " nranks 2 cudaDev " rank " nvmlDev " rank " busId " rank                            \
    "a000 commId 0x77 - Init COMPLETE\n"

static const char log_text[] =
    HEAD("0") "NET/IB : Using [0]mlx5_0:1/IB [1]={[1] mlx5_1:1/IB, [2] mlx5_2:1/IB} [RO]\n" HEAD(
        "0") "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=200000 context=0x1 pciPath=/sys/0000:0b:00.0 "
             "ar=0\n" RANK("0") RANK("1") HEAD("0") "Channel 00/0 : 0[0] -> 1[1] via SHM/direct\n" HEAD(
                 "1") "Channel 00/0 : 1[1] -> 0[0] [send] via "
                      "NET/IB/0/GDRDMA\n" HEAD("0") "Pattern 4, crossNic 0, nChannels 2, bw 20.0/20.0, type "
                                                    "NVL/PIX, sameChannels 1\n" HEAD("0") "NVLS Head 0: 0 1\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();
    CLEANUP(str_done) Str out = {0};
    const ReportOptions style = {.width = 100, .verbose = true};
    uint32_t dice = share_dice(data, size);

    str_init(&out, OUT_MAX);
    if (share_drawn(&dice, 8)) {
        nccl_begin(job, "log");
        nccl_feed(job, log_text, sizeof log_text - 1);
        nccl_end(job, NULL);
    }
    nccl_begin(job, "topo.xml");
    nccl_feed(job, "<!---->", 7); /* always XML */
    nccl_feed(job, data, size);
    nccl_end(job, NULL);
    const NcclReport *report = nccl_finish(job);
    if (share_drawn(&dice, 3))
        nccl_report_text(report, &style, report_sink_str(&out), NULL);
    if (share_drawn(&dice, 3))
        nccl_report_json(report, report_sink_str(&out), NULL);
    return 0;
}
