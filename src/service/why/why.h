/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker why`: the verdicts of engine/why for a person and for programs. Decides nothing. Pure, one thread.
 */

#include "base/err.h"
#include "base/str.h"
#include "model/snapshot.h"

enum { WHY_NAME_CAP = 128 };

/* What is asked about: everything, a GPU or MIG instance, or the devices of a process or a job. */
typedef struct WhyAsk {
    const NodeGpu *gpu;      /* NULL: any */
    const Reading *instance; /* NULL: any of that GPU */
    uint32_t pid;            /* 0: any */
    char job[WHY_NAME_CAP];  /* number, pod or container; "" any */
} WhyAsk;

/* `name`: an index, UUID or PCI address of a GPU, else the pid of a process on one, else a job's number, with its step
 * or without, a pod or a container; NULL or "" is everything. -ENOENT with what there is, -EIO
 * where it may be there, as a GPU cannot be read. */
int why_find_subject(const Snapshot *seen, const char *name, WhyAsk *ret, Err *err);

/* {"node":...,"time":...,"gpus":[...]}, ended by a newline; docs/why.schema.json describes it. */
void why_json(const Snapshot *seen, const WhyAsk *ask, Str *out);

typedef struct WhyStyle {
    size_t width; /* columns; at least 40 are used */
    bool colour, utf8;
} WhyStyle;

/* A paragraph per device; devices of one cause that share their work have one together. */
void why_text(const Snapshot *seen, const WhyAsk *ask, const WhyStyle *style, Str *out);

/* One number of the verdict with its name: "SM active 14 %", "multiprocessors' time of 4711.0 40 %". Returns out. */
const char *why_evidence_text(const WhyVerdict *verdict, uint32_t at, char out[WHY_NAME_CAP]);
