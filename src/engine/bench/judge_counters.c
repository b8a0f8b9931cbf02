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

/* What an XID says of the GPU: whom it is about, and how much it matters. */
static const BenchPart part_of_cause[CAUSE_END] = {
    [CAUSE_APPLICATION] = BENCH_PART_COMPUTE, [CAUSE_DRIVER] = BENCH_PART_START,
    [CAUSE_MEMORY] = BENCH_PART_MEMORY,       [CAUSE_BUS] = BENCH_PART_HOST_LINK,
    [CAUSE_LINK] = BENCH_PART_PEER_LINK,      [CAUSE_THERMAL] = BENCH_PART_COMPUTE,
    [CAUSE_POWER] = BENCH_PART_COMPUTE,       [CAUSE_FIRMWARE] = BENCH_PART_START,
    [CAUSE_FABRIC] = BENCH_PART_PEER_LINK,    [CAUSE_HOST] = BENCH_PART_START,
    [CAUSE_CONFIGURATION] = BENCH_PART_START, [CAUSE_OPERATOR] = BENCH_PART_START,
    [CAUSE_UNKNOWN] = BENCH_PART_START,
};

/* One that a program causes may be the test's own. */
static BenchSeverity severity_of(const BenchXid *xid)
{
    if (xid->cause == CAUSE_APPLICATION || xid->severity == SEVERITY_INFO)
        return BENCH_NOTICE;
    return xid->severity == SEVERITY_WARNING ? BENCH_DEGRADED : BENCH_FAULT;
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

/* "XID 48, 63": those of a cause, each once. Returns the worst of them, the first of several; NULL: there is none. */
static const BenchXid *list_xids(const BenchGpu *gpu, FaultCause cause, char *out, size_t room)
{
    const BenchXid *worst = NULL;

    out[0] = '\0';
    for (uint32_t i = 0; i < gpu->xid_count && i < BENCH_XIDS_MAX; i++) {
        const BenchXid *xid = &gpu->xids[i];
        bool seen = !xid->fault || xid->cause != cause;

        for (uint32_t k = 0; k < i; k++)
            seen |= gpu->xids[k].code == xid->code;
        if (seen)
            continue;
        const size_t used = strlen(out);
        snprintf(out + used, room - used, "%s%" PRIu32, worst ? ", " : "XID ", xid->code);
        worst = worst && worst->severity >= xid->severity ? worst : xid;
    }
    return worst;
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
    const BenchXid *xid = list_xids(g, CAUSE_MEMORY, xids, sizeof xids);
    const bool counts = xid && xid->severity >= SEVERITY_ERROR;
    bool begun = false;

    if (!counts && !call && !(errors > 0) && !pending)
        return;
    BenchFinding *f = judge_add(j, BENCH_FAULT, BENCH_MEMORY_ERROR, BENCH_PART_MEMORY, gpu);
    f->code = xid ? (int32_t)xid->code : call ? call->code : 0;
    f->error = call ? call->kind : BENCH_ERROR_END;
    f->value = errors;
    if (counts || call || errors > 0)
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

    for (FaultCause cause = 0; cause < CAUSE_END; cause++) {
        const BenchError *call = cause == CAUSE_LINK ? find_call(j, gpu, CUDA_NVLINK, CUDA_NVLINK) : NULL;
        char xids[BENCH_TEXT_CAP];
        const BenchXid *xid = list_xids(g, cause, xids, sizeof xids);

        if ((!xid && !call) || (cause == CAUSE_MEMORY && judge_find(j, gpu, BENCH_MEMORY_ERROR)))
            continue;
        BenchFinding *f = judge_add(j, xid ? severity_of(xid) : BENCH_FAULT, BENCH_XID, part_of_cause[cause], gpu);
        f->code = xid ? (int32_t)xid->code : call->code;
        f->error = call ? call->kind : BENCH_ERROR_END;
        if (xid)
            judge_say(f, "%s during the test: %s%s", xids, xid->name,
                      cause == CAUSE_APPLICATION ? ", which may be the test itself" : "");
        else
            judge_say(f, "error %" PRId32 " of CUDA: an NVLink failed", f->code);
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
