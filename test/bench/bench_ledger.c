/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: a tick of 8 GPUs with 50 owners, its rows into the journal, and a sum over 30 days of 8 GPUs with 200
 * owners that hold them all the time (25 on each, a row per owner and hour) against the same sums in SQL: in this
 * process, and `stoker cost` against a new process that does nothing else. */
#include "bench.h"

#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/cost/cost.h"
#include "service/journal/db.h"

enum { GPUS = 8, HOLDINGS = 50, OWNERS = 200, HOURS = 30 * 24, BATCH = 5000 };

extern char **environ;

static char path[64] = "/tmp/stoker-bench-ledger-XXXXXX";
static const char *program, *stoker;
static Ledger *ledger;
static Node node;
static NodeGpu gpus[GPUS];
static Holding holdings[HOLDINGS];
static DbChange changes[BATCH];
static size_t change_count;
static sqlite3 *sql;
static Db *db;
static Str out;

static void two_clocks(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        bench_use(&t);
        clock_gettime(CLOCK_MONOTONIC, &t);
        bench_use(&t);
    }
}

static bool put_nothing(void *self UNUSED, const LedgerRow *row)
{
    bench_use(row);
    return true;
}

static bool put_change(void *self UNUSED, const LedgerRow *row)
{
    changes[change_count++] = db_ledger_change(row);
    return true;
}

static void update(LedgerPut put)
{
    node.time_ns += NS_PER_S;
    node.real_ns += NS_PER_S;
    ledger_update(ledger, &node, holdings, HOLDINGS, put, NULL);
}

static void tick(size_t n)
{
    for (size_t i = 0; i < n; i++)
        update(put_nothing);
}

static void write_changes(void)
{
    Err err = {0};

    if (db_write(db, changes, change_count, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < change_count; i++)
        db_change_done(&changes[i]);
    change_count = 0;
}

static void tick_to_journal(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        update(put_change);
        write_changes();
    }
}

static void add_row(void *self, const LedgerRow *row)
{
    cost_add(self, row);
}

static void sum_up(size_t n)
{
    const JournalLedgerQuery query = {.to_real_ns = UINT64_MAX, .merge = true};

    for (size_t i = 0; i < n; i++) {
        CostReport report;

        cost_init(&report, COST_BY_USER, "node");
        if (journal_read_ledger(path, &query, add_row, &report, NULL) < 0)
            abort();
        cost_finish(&report);
        str_clear(&out);
        cost_json(&report, &out);
        cost_done(&report);
    }
}

#define SUM_OF(id, key) ", sum(" key ")"

static void sum_in_sql(size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sqlite3_exec(sql,
                         "SELECT device, owner, price, kind, min(from_ns), max(until_ns)" LEDGER_AMOUNT_TABLE(
                             SUM_OF) " FROM ledger GROUP BY device, owner, price, kind",
                         NULL, NULL, NULL) != SQLITE_OK)
            abort();
}

static int sum_in_process(const char *of)
{
    if (sqlite3_open(of, &sql) != SQLITE_OK)
        return 1;
    sum_in_sql(1);
    return sqlite3_close(sql) == SQLITE_OK ? 0 : 1;
}

static void spawn(const char *const *argv)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        abort();
    posix_spawn_file_actions_destroy(&files);
}

static void spawn_cost(size_t n)
{
    for (size_t i = 0; i < n; i++)
        spawn((const char *const[]){stoker, "cost", "--json", "--from", "2025-01-01", "--journal", path, NULL});
}

static void spawn_sum(size_t n)
{
    for (size_t i = 0; i < n; i++)
        spawn((const char *const[]){program, "--sum", path, NULL});
}

static void fill_month(void)
{
    LedgerRow row = {.boot_id = "2b0e6a3c-8a67-4d0d-9d0c-5c5a0f1f2e3d",
                     .name = "NVIDIA H100 80GB HBM3",
                     .price = "h100 on_demand 2.9 EUR",
                     .held = true,
                     .share_kind = ATTRIBUTION_SAMPLED,
                     .quality = LEDGER_QUALITY_GPM};

    for (uint64_t hour = 0; hour < HOURS; hour++)
        for (unsigned i = 0; i < OWNERS; i++) {
            row.id = 1700000000000 + hour * OWNERS + i;
            row.from_real_ns = (490000 + hour) * NS_PER_H;
            row.until_real_ns = row.from_real_ns + NS_PER_H;
            row.until_ns = (hour + 1) * NS_PER_H;
            snprintf(row.device, sizeof row.device, "gpu/GPU-7c2e3f1a-0b4d-4c7e-9f10-3a5b6c7d8e9%u", i % GPUS);
            snprintf(row.owner.user, sizeof row.owner.user, "user%03u", i);
            snprintf(row.owner.job, sizeof row.owner.job, "%u", 471100 + i);
            for (unsigned k = 0; k < LEDGER_AMOUNT_END; k++)
                row.amounts[k] = UINT64_C(144000000000) / (k + 1) + hour * 7 + i;
            put_change(NULL, &row);
            if (change_count == BATCH)
                write_changes();
        }
    write_changes();
}

static void make_node(void)
{
    node = (Node){.time_ns = NS_PER_DAY, .real_ns = (490000 + HOURS) * NS_PER_H, .gpu_count = GPUS, .gpus = gpus};
    for (unsigned i = 0; i < GPUS; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        snprintf(gpus[i].reading.device.uuid, sizeof gpus[i].reading.device.uuid, "GPU-%u", i);
        gpus[i].state = GPU_UP;
        gpus[i].process_list.valid = true;
        sample_set_double(&gpus[i].reading.sample[METRIC_PROF_SM_ACTIVE], 1, 0.5);
        sample_set_double(&gpus[i].reading.sample[METRIC_POWER_USAGE], 1, 400);
    }
    for (size_t i = 0; i < HOLDINGS; i++) {
        holdings[i] = (Holding){.gpu = i * GPUS / HOLDINGS,
                                .gpu_instance = DEVICE_NO_NUMBER,
                                .compute_instance = DEVICE_NO_NUMBER,
                                .attribution = ATTRIBUTION_EVEN,
                                .share = 1,
                                .sm_share = NAN};
        snprintf(holdings[i].owner.user, sizeof holdings[i].owner.user, "user%zu", i);
        snprintf(holdings[i].owner.job, sizeof holdings[i].owner.job, "%zu", 4711 + i);
    }
    ledger = ledger_new(&(LedgerRows){0}, "boot", 1800000000000);
    update(put_nothing);
}

int main(int argc, char **argv)
{
    static const Bench list[] = {
        {"2 x clock_gettime", two_clocks, NULL, 0},
        {"ledger tick", tick, NULL, 0},
        {"ledger tick to the journal", tick_to_journal, NULL, 50},
        {"cost, 30 days", sum_up, NULL, 1},
        {"the sums in SQL", sum_in_sql, NULL, 1},
        {"stoker cost, 30 days", spawn_cost, NULL, 1},
        {"the sums in SQL, a new process", spawn_sum, NULL, 1},
    };

    if (argc == 3 && strcmp(argv[1], "--sum") == 0)
        return sum_in_process(argv[2]);
    if (argc != 2)
        return 2;
    program = argv[0];
    stoker = argv[1];
    const int fd = mkstemp(path);
    char aside[80];

    if (fd < 0 || close(fd) < 0 || unlink(path) < 0 || db_open(path, false, &db, NULL) < 0 ||
        sqlite3_open(path, &sql) != SQLITE_OK)
        return 1;
    str_init(&out, 1 << 20);
    fill_month();
    uint64_t bytes;
    if (db_prune(db, &(JournalConfig){0}, &bytes, NULL) < 0)
        return 1;
    printf("{\"name\": \"ledger bytes\", \"value\": %llu}\n", (unsigned long long)bytes);
    make_node();
    bench_all(list, ARRAY_LEN(list));
    sqlite3_close(sql);
    db_close(db);
    ledger_free(ledger);
    str_done(&out);
    for (int i = 0; i < 3; i++) {
        snprintf(aside, sizeof aside, "%s%s", path, (const char *[]){"", "-wal", "-shm"}[i]);
        (void)unlink(aside);
    }
    return 0;
}
