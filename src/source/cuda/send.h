/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records to the parent, each by one write. When the parent is gone every further one is -EPIPE. One thread.
 */

#include "model/bench.h"

typedef struct BenchSender {
    int fd;
    BenchStage stage; /* what errors are of */
    bool gone;
} BenchSender;

int bench_send_device(BenchSender *sender, uint32_t gpu, const BenchDevice *device);
int bench_send_stage(BenchSender *sender, BenchStage stage);
int bench_send_measure(BenchSender *sender, const BenchMeasure *measure);
/* Fills in the stage. */
int bench_send_error(BenchSender *sender, const BenchError *error);

/* A measure without samples, an error about nothing in particular. */
BenchMeasure bench_measure_of(BenchMeasureId id, uint32_t gpu, uint32_t peer);
BenchError bench_error_of(BenchErrorKind kind, uint32_t gpu, uint32_t peer, const char *what);
