/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver counted and logged during the test: ECC, remapped rows, links, XIDs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "engine/bench/judge_inside.h"

enum { REPLAYS_NOTICE = 16, CUDA_ECC = 214, CUDA_NVLINK = 220, CUDA_CONTAINED = 226 };

/* Classes of XIDs; of each a GPU has one finding. */
typedef enum XidClass { XID_MEMORY, XID_BUS, XID_FIRMWARE, XID_LINK, XID_PROGRAM, XID_OTHER, XID_CLASS_END } XidClass;

static const struct {
    uint32_t first, last;
    XidClass class;
} xid_classes[] = {
    {48, 48, XID_MEMORY},      {63, 64, XID_MEMORY},  {94, 95, XID_MEMORY},   {140, 140, XID_MEMORY},
    {160, 163, XID_MEMORY},    {79, 79, XID_BUS},     {61, 62, XID_FIRMWARE}, {119, 120, XID_FIRMWARE},
    {71, 78, XID_LINK},        {144, 150, XID_LINK},  {13, 13, XID_PROGRAM},  {31, 31, XID_PROGRAM},
    {43, 43, XID_PROGRAM},     {45, 45, XID_PROGRAM}, {68, 69, XID_PROGRAM},  {92, 92, XID_CLASS_END},
    {154, 154, XID_CLASS_END},
};

static const struct {
    BenchSeverity severity;
    BenchPart part;
    const char *words;
} class_rows[XID_CLASS_END] = {
    [XID_BUS] = {BENCH_FAULT, BENCH_PART_HOST_LINK,
                 "it has fallen off the bus: it needs a reset, or a power cycle of the node"},
    [XID_FIRMWARE] = {BENCH_FAULT, BENCH_PART_START, "its firmware does not answer: it needs a reset"},
    [XID_LINK] = {BENCH_FAULT, BENCH_PART_PEER_LINK, "an NVLink failed: it needs a reset"},
    [XID_PROGRAM] = {BENCH_NOTICE, BENCH_PART_COMPUTE,
                     "a program on it failed or was ended, which may be the test itself"},
    [XID_OTHER] = {BENCH_FAULT, BENCH_PART_START, "'stoker xid' says what it means"},
};

/* XID_CLASS_END: it is of no interest by itself. */
static XidClass class_of(uint32_t xid)
{
    for (size_t i = 0; i < ARRAY_LEN(xid_classes); i++)
        if (xid >= xid_classes[i].first && xid <= xid_classes[i].last)
            return xid_classes[i].class;
    return XID_OTHER;
}

static double growth_of(const BenchGpu *gpu, BenchCounter counter)
{
    const double by = gpu->after[counter] - gpu->before[counter];

    return by > 0 ? by : 0;
}

static const BenchError *find_call(const Judge *j, uint32_t gpu, int32_t a, int32_t b)
{
    for (size_t i = 0; i < j->run->errors.len; i++) {
        const BenchError *e = &j->run->errors.at[i];

        if (e->kind == BENCH_ERROR_CALL && e->gpu == gpu && (e->code == a || e->code == b))
            return e;
    }
    return NULL;
}

/* "XID 48, 63": those of a class, each once. Returns the first; 0: none. */
static uint32_t list_xids(const BenchGpu *gpu, XidClass class, char *out, size_t room)
{
    uint32_t first = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < gpu->xid_count && i < BENCH_XIDS_MAX; i++) {
        bool seen = class_of(gpu->xids[i]) != class;

        for (uint32_t k = 0; k < i; k++)
            seen |= gpu->xids[k] == gpu->xids[i];
        if (seen)
            continue;
        const size_t used = strlen(out);
        snprintf(out + used, room - used, "%s%" PRIu32, first ? ", " : "XID ", gpu->xids[i]);
        first = first ? first : gpu->xids[i];
    }
    return first;
}

/* Puts "; " between parts of a sentence. */
static void say_next(BenchFinding *f, bool *begun)
{
    if (*begun)
        judge_say(f, "; ");
    *begun = true;
}

/* XIDs, counters and failed calls of one memory error are one finding. */
static void judge_memory_error(Judge *j, uint32_t gpu)
{
    const BenchGpu *g = &j->run->gpus.at[gpu];
    const BenchError *call = find_call(j, gpu, CUDA_ECC, CUDA_CONTAINED);
    const double errors = growth_of(g, BENCH_ECC_UNCORRECTED);
    const bool pending = g->after[BENCH_REMAP_PENDING] > 0;
    char xids[BENCH_TEXT_CAP], count[HUMAN_MAX];
    const uint32_t xid = list_xids(g, XID_MEMORY, xids, sizeof xids);
    bool begun = false;

    if (!xid && !call && !(errors > 0) && !pending)
        return;
    BenchFinding *f = judge_add(j, BENCH_FAULT, BENCH_MEMORY_ERROR, BENCH_PART_MEMORY, gpu);
    f->code = xid ? (int32_t)xid : call ? call->code : 0;
    f->error = call ? call->kind : BENCH_ERROR_END;
    f->value = errors;
    if (xid || call || errors > 0)
        judge_say(f, "uncorrectable memory error: ");
    if (xid) {
        say_next(f, &begun);
        judge_say(f, "%s", xids);
    }
    if (errors > 0) {
        say_next(f, &begun);
        judge_say(f, "%s uncorrected ECC error%s", human_count(count, llround(errors)),
                  human_plural((uint64_t)llround(errors)));
    }
    if (call) {
        say_next(f, &begun);
        judge_say(f, "%s failed with error %" PRId32 " during '%s'", call->what[0] ? call->what : "a call", call->code,
                  bench_stages[call->stage].text);
    }
    if (pending) {
        say_next(f, &begun);
        judge_say(f, "rows of its memory wait to be replaced: it needs a reset");
    }
}

static void judge_xids(Judge *j, uint32_t gpu)
{
    const BenchGpu *g = &j->run->gpus.at[gpu];

    for (XidClass class = XID_BUS; class < XID_CLASS_END; class ++) {
        const BenchError *call = class == XID_LINK ? find_call(j, gpu, CUDA_NVLINK, CUDA_NVLINK) : NULL;
        char xids[BENCH_TEXT_CAP];
        const uint32_t xid = list_xids(g, class, xids, sizeof xids);

        if (!xid && !call)
            continue;
        BenchFinding *f = judge_add(j, class_rows[class].severity, BENCH_XID, class_rows[class].part, gpu);
        f->code = xid ? (int32_t)xid : call ? call->code : 0;
        f->error = call ? call->kind : BENCH_ERROR_END;
        if (xid)
            judge_say(f, "%s during the test: %s", xids, class_rows[class].words);
        else
            judge_say(f, "error %" PRId32 " of CUDA: %s", f->code, class_rows[class].words);
    }
}

static void judge_corrected(Judge *j, uint32_t gpu)
{
    const BenchGpu *g = &j->run->gpus.at[gpu];
    const double errors = growth_of(g, BENCH_ECC_CORRECTED), rows = growth_of(g, BENCH_REMAPPED);
    char count[HUMAN_MAX];
    bool begun = false;

    if (!(errors > 0) && (!(rows > 0) || judge_find(j, gpu, BENCH_MEMORY_ERROR)))
        return;
    BenchFinding *f = judge_add(j, BENCH_NOTICE, BENCH_ECC_ERRORS, BENCH_PART_MEMORY, gpu);
    f->value = errors;
    if (errors > 0) {
        say_next(f, &begun);
        judge_say(f, "%s corrected ECC error%s during the test", human_count(count, llround(errors)),
                  human_plural((uint64_t)llround(errors)));
    }
    if (rows > 0) {
        say_next(f, &begun);
        judge_say(f, "%s row%s of its memory replaced during the test", human_count(count, llround(rows)),
                  human_plural((uint64_t)llround(rows)));
    }
}

static void judge_link_counters(Judge *j, uint32_t gpu)
{
    const BenchGpu *g = &j->run->gpus.at[gpu];
    const double nvlink = growth_of(g, BENCH_NVLINK_ERRORS), replays = growth_of(g, BENCH_PCIE_REPLAYS),
                 down = growth_of(g, BENCH_NVLINKS_DOWN);
    char count[HUMAN_MAX];

    if (nvlink > 0) {
        BenchFinding *f = judge_add(j, BENCH_NOTICE, BENCH_LINK_ERRORS, BENCH_PART_PEER_LINK, gpu);
        f->value = nvlink;
        judge_say(f, "%s error%s of its NVLinks during the test", human_count(count, llround(nvlink)),
                  human_plural((uint64_t)llround(nvlink)));
    }
    if (replays > REPLAYS_NOTICE) {
        BenchFinding *f = judge_add(j, BENCH_NOTICE, BENCH_LINK_ERRORS, BENCH_PART_HOST_LINK, gpu);
        f->value = replays;
        judge_say(f, "%s replays on its PCIe link during the test", human_count(count, llround(replays)));
    }
    if (down > 0 && !judge_is_bad(j, gpu, BENCH_PART_PEER_LINK)) {
        BenchFinding *f = judge_add(j, BENCH_DEGRADED, BENCH_LINKS_DOWN, BENCH_PART_PEER_LINK, gpu);
        f->reason = BENCH_REASON_NVLINKS;
        f->value = down;
        judge_say(f, "%.0f of its NVLinks went down during the test", down);
    }
}

void judge_counters(Judge *j)
{
    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++) {
        judge_memory_error(j, gpu);
        judge_xids(j, gpu);
        judge_corrected(j, gpu);
        judge_link_counters(j, gpu);
    }
}
