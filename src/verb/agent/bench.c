/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's results of active tests (`stoker bench`): which GPUs are under test, and the last runs, packed, which the
 * journal keeps too. Of the last run its values are kept as they are, for metrics. */
#include "verb/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/gzip.h"
#include "service/bench/bench_report.h"

enum { TESTS_MAX = 512 };

typedef struct KeptRun {
    Str gz; /* JSON */
    size_t gpu_count;
    char (*uuids)[BENCH_NAME_CAP];
} KeptRun;

struct BenchRoom {
    VEC(KeptRun) runs;   /* the newest first */
    VEC(NodeTest) tests; /* what they found wrong: of each GPU and test the last word */
    BenchRun last;       /* without the values of pairs */
    BenchJudgement judgement;
};

static void free_run(KeptRun *run)
{
    str_done(&run->gz);
    free(run->uuids);
}

/* Values of pairs are many, and of no metric. */
static void drop_pairs(BenchRun *run)
{
    BenchRun all = *run;

    memset(&run->measures, 0, sizeof run->measures);
    for (size_t i = 0; i < all.measures.len; i++)
        if (all.measures.at[i].peer == BENCH_NONE)
            vec_push(&run->measures, all.measures.at[i]);
    vec_done(&all.measures);
    vec_done(&run->errors);
}

/* Text of a finding without the GPU's name before it. */
static void add_test(BenchRoom *room, const BenchRun *run, const BenchFinding *finding, const char *uuid)
{
    const char *text = strstr(finding->text, ": ");
    const bool named = text && finding->peer == BENCH_NONE && strncmp(finding->text, "GPU ", strlen("GPU ")) == 0;
    NodeTest *test;

    if (room->tests.len == TESTS_MAX)
        vec_remove(&room->tests, 0);
    test = vec_add(&room->tests);

    *test = (NodeTest){.wrong = bench_is_wrong(finding),
                       .grave = finding->severity == BENCH_FAULT && !bench_is_wrong(finding),
                       .real_ns = run->real_ns};
    snprintf(test->uuid, sizeof test->uuid, "%s", uuid);
    snprintf(test->rung, sizeof test->rung, "%s", run->rung);
    snprintf(test->text, sizeof test->text, "%.*s", NODE_TEST_CAP - 1, named ? text + 2 : finding->text);
}

/* A test that could not tell takes nothing back. */
static void note_tests(BenchRoom *room, const BenchRun *run, const BenchJudgement *judgement)
{
    for (size_t gpu = 0; gpu < run->gpus.len && gpu < BENCH_GPUS_MAX; gpu++) {
        const char *uuid = run->gpus.at[gpu].device.uuid;
        bool told[2] = {false, false};

        if (judgement->gpus[gpu] == BENCH_UNKNOWN)
            continue;
        for (size_t i = room->tests.len; i-- > 0;)
            if (strcmp(room->tests.at[i].uuid, uuid) == 0 && strcmp(room->tests.at[i].rung, run->rung) == 0)
                vec_remove(&room->tests, i);
        for (size_t i = 0; i < judgement->findings.len; i++) { /* the worst first */
            const BenchFinding *finding = &judgement->findings.at[i];
            const bool wrong = bench_is_wrong(finding);

            if (!(finding->gpus >> gpu & 1) || finding->severity < BENCH_DEGRADED || bench_is_reported(finding) ||
                told[wrong])
                continue;
            add_test(room, run, finding, uuid);
            told[wrong] = true;
        }
    }
}

/* As the last run, whose values are taken. */
static void keep_run(BenchRoom *room, BenchRun *run, BenchJudgement *judgement, const char *json, size_t len)
{
    KeptRun one = {.gz = str_limited(BENCH_TEXT_MAX), .gpu_count = run->gpus.len};

    if (gzip_pack(json, len, &one.gz, NULL) < 0)
        str_clear(&one.gz);
    one.uuids = xcalloc(run->gpus.len, sizeof *one.uuids);
    for (size_t i = 0; i < run->gpus.len; i++)
        memcpy(one.uuids[i], run->gpus.at[i].device.uuid, sizeof one.uuids[i]);
    if (room->runs.len == BENCH_HISTORY_MAX)
        free_run(&room->runs.at[--room->runs.len]);
    vec_reserve(&room->runs, room->runs.len + 1);
    memmove(room->runs.at + 1, room->runs.at, room->runs.len * sizeof *room->runs.at);
    room->runs.at[0] = one;
    room->runs.len++;
    note_tests(room, run, judgement);
    bench_run_done(&room->last);
    bench_judgement_done(&room->judgement);
    drop_pairs(run);
    room->last = *run;
    room->judgement = *judgement;
}

/* Reads a run, and writes it anew: on one line, and without what this version does not know. */
static int read_run(const char *text, size_t len, BenchRun *run, BenchJudgement *judgement, Str *json, Err *err)
{
    TRY(bench_read_judged(text, len, run, judgement, err));
    bench_write_json(run, judgement, json);
    int rc = str_check(json, "it", err);
    if (rc == 0 && (run->gpus.len == 0 || run->real_ns == 0))
        rc = err_set(err, -EINVAL, "it names no %s", run->gpus.len ? "time" : "GPU");
    if (rc < 0) {
        bench_run_done(run);
        bench_judgement_done(judgement);
    }
    return rc;
}

void agent_open_bench(Agent *agent)
{
    Triage *triage = &agent->triage;
    BenchRoom *room = xcalloc(1, sizeof *room);

    agent->bench_room = room;
    for (size_t i = triage->bench.len; i-- > 0;) { /* the newest last */
        CLEANUP(str_done) Str json = str_limited(BENCH_TEXT_MAX);
        BenchJudgement judgement;
        BenchRun run;
        Err err;

        if (read_run(triage->bench.at[i], strlen(triage->bench.at[i]), &run, &judgement, &json, &err) < 0)
            log_write(&agent->log, LOG_LEVEL_WARN, "a test in the journal is left out: %s", err.text);
        else
            keep_run(room, &run, &judgement, json.text, json.len);
        free(triage->bench.at[i]);
    }
    vec_done(&triage->bench);
}

void agent_close_bench(Agent *agent)
{
    BenchRoom *room = agent->bench_room;

    if (!room)
        return;
    for (size_t i = 0; i < room->runs.len; i++)
        free_run(&room->runs.at[i]);
    vec_done(&room->runs);
    bench_run_done(&room->last);
    bench_judgement_done(&room->judgement);
    vec_done(&room->tests);
    free(TAKE(agent->bench_room));
}

int agent_begin_bench(Agent *agent, const char *uuid, uint64_t seconds, Err *err)
{
    const uint64_t now_ns = clock_monotonic(&agent->sampling.clock);
    const NodeGpu *gpu;

    if (seconds == 0) {
        under_test_end(&agent->triage.under_test, uuid, now_ns);
        return 0;
    }
    if (!api_find(board_reader_node(agent->sampling.reader), uuid, &gpu))
        return err_set(err, -ENOENT, "there is no GPU or MIG device '%.100s'", uuid);
    return under_test_begin(&agent->triage.under_test, uuid, gpu->reading.device.pci, now_ns + seconds * NS_PER_S,
                            now_ns, err);
}

/* A file of its owner's choice: neither what would make the loop wait nor what is too large. */
static int read_file(const char *path, Str *out, Err *err)
{
    struct stat st;

    if (path[0] != '/')
        return err_set(err, -EINVAL, "'%s' is no absolute path", path);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, "open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "'%s' is no regular file", path);
    if (st.st_size > BENCH_TEXT_MAX)
        return err_set(err, -EFBIG, "'%s' is larger than %d MiB", path, BENCH_TEXT_MAX >> 20);
    const size_t size = (size_t)st.st_size;
    if (!str_reserve(out, size))
        return str_check(out, path, err);
    for (;;) {
        const ssize_t n = TEMP_FAILURE_RETRY(read(fd, out->text + out->len, size - out->len));
        if (n < 0)
            return err_errno(err, "read '%s'", path);
        if (n == 0)
            return 0;
        out->len += (size_t)n;
    }
}

int agent_end_bench(Agent *agent, const char *path, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(BENCH_TEXT_MAX), json = str_limited(BENCH_TEXT_MAX);
    BenchJudgement judgement;
    BenchRun run;

    TRY(read_file(path, &text, err));
    if (read_run(text.text, text.len, &run, &judgement, &json, err) < 0)
        return err_add(err, "'%s' is no result of 'stoker bench'", path);
    for (size_t i = 0; i < run.gpus.len; i++)
        under_test_end(&agent->triage.under_test, run.gpus.at[i].device.uuid, clock_monotonic(&agent->sampling.clock));
    journal_put_bench(agent->triage.journal, run.real_ns, run.rung, json.text, json.len);
    log_write(&agent->log, LOG_LEVEL_INFO, "'stoker bench %s' tested %zu GPU%s: %s", run.rung, run.gpus.len,
              run.gpus.len == 1 ? "" : "s", bench_verdicts[judgement.verdict].text);
    keep_run(agent->bench_room, &run, &judgement, json.text, json.len);
    return 0;
}

/* --- what a GPU's tests found ------------------------------------------------------------------------------------- */

/* Whether somebody has ended its incident by hand since. */
static bool is_dismissed(const Incidents *incidents, const NodeGpu *gpu, const NodeTest *test)
{
    const char *class = test->wrong ? "test-failed" : "test-slow";

    for (size_t i = 0; i < incidents_count(incidents); i++) {
        const Incident *it = incidents_at(incidents, i);

        if (it->end == INCIDENT_END_HAND && it->cleared_real_ns >= test->real_ns && strcmp(it->class, class) == 0 &&
            incident_hits(it, &gpu->reading.device))
            return true;
    }
    return false;
}

void agent_show_tests(const Agent *agent, const Node *node)
{
    const BenchRoom *room = agent->bench_room;
    const NodeGpu *found;

    for (size_t i = 0; i < node->gpu_count; i++)
        node->gpus[i].test_wrong = node->gpus[i].test_slow = NULL;
    for (size_t i = 0; i < room->tests.len; i++) { /* the newest last */
        const NodeTest *test = &room->tests.at[i];

        if (!api_find(node, test->uuid, &found) || is_dismissed(agent->triage.incidents, found, test))
            continue;
        NodeGpu *gpu = &node->gpus[found - node->gpus];
        *(test->wrong ? &gpu->test_wrong : &gpu->test_slow) = test;
    }
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static bool has_gpu(const KeptRun *run, const char *uuid)
{
    for (size_t i = 0; i < run->gpu_count; i++)
        if (strcmp(run->uuids[i], uuid) == 0)
            return true;
    return false;
}

static void add_run(const KeptRun *run, Str *out)
{
    CLEANUP(str_done) Str json = str_limited(BENCH_TEXT_MAX);

    if (gzip_unpack(run->gz.text, run->gz.len, &json, NULL) == 0 && out->len + json.len < out->max)
        str_addn(out, json.text, json.len);
}

void agent_bench_history(const Agent *agent, Str *out)
{
    for (size_t i = 0; i < agent->bench_room->runs.len; i++)
        add_run(&agent->bench_room->runs.at[i], out);
}

void agent_bench_json(const Agent *agent, const char *device, Str *out)
{
    const BenchRoom *room = agent->bench_room;
    const NodeGpu *gpu;
    const Reading *reading = device ? api_find(board_reader_node(agent->sampling.reader), device, &gpu) : NULL;
    const char *uuid = reading ? reading->device.uuid : device;

    for (size_t i = 0; i < room->runs.len; i++)
        if (!device || has_gpu(&room->runs.at[i], uuid)) {
            add_run(&room->runs.at[i], out);
            return;
        }
    str_add(out, "null\n");
}

void agent_bench_metrics(const Agent *agent, Str *out)
{
    const BenchRoom *room = agent->bench_room;

    if (room->runs.len > 0)
        bench_write_metrics(&room->last, &room->judgement, clock_real(&agent->sampling.clock), out);
}
