/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "source/cuda/send.h"

static int send_record(BenchSender *sender, const BenchRecord *record)
{
    ssize_t n;

    if (sender->gone)
        return -EPIPE;
    do
        n = write(sender->fd, record, sizeof *record);
    while (n < 0 && errno == EINTR);
    sender->gone = n != (ssize_t)sizeof *record;
    return sender->gone ? -EPIPE : 0;
}

int bench_send_device(BenchSender *sender, uint32_t gpu, const BenchDevice *device)
{
    BenchRecord record = {.kind = BENCH_RECORD_DEVICE, .gpu = gpu};

    record.device = *device;
    return send_record(sender, &record);
}

int bench_send_stage(BenchSender *sender, BenchStage stage)
{
    BenchRecord record = {.kind = BENCH_RECORD_STAGE};

    record.stage = stage;
    sender->stage = stage;
    return send_record(sender, &record);
}

int bench_send_measure(BenchSender *sender, const BenchMeasure *measure)
{
    BenchRecord record = {.kind = BENCH_RECORD_MEASURE, .gpu = measure->gpu};

    record.measure = *measure;
    return send_record(sender, &record);
}

int bench_send_error(BenchSender *sender, const BenchError *error)
{
    BenchRecord record = {.kind = BENCH_RECORD_ERROR, .gpu = error->gpu};

    record.error = *error;
    record.error.stage = sender->stage;
    return send_record(sender, &record);
}

BenchMeasure bench_measure_of(BenchMeasureId id, uint32_t gpu, uint32_t peer)
{
    return (BenchMeasure){.id = id, .gpu = gpu, .peer = peer, .sm_mhz = NAN};
}

BenchError bench_error_of(BenchErrorKind kind, uint32_t gpu, uint32_t peer, const char *what)
{
    BenchError error = {
        .kind = kind, .gpu = gpu, .peer = peer, .sm = BENCH_NONE, .count = 1, .measure = BENCH_MEASURE_END};

    snprintf(error.what, sizeof error.what, "%s", what);
    return error;
}
