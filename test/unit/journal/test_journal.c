/* SPDX-License-Identifier: Apache-2.0 */
/* The journal (service/journal): what was acknowledged is there after a kill, a full disk and a damaged file stop
 * nothing, old things go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "service/journal/journal.h"
#include "service/journal/db.h"

typedef struct Rig {
    uv_loop_t loop;
    Journal *journal;
    char dir[64], path[96];
    uint64_t acked, acked_on_disk; /* newest tickets */
    bool in_order;
} Rig;

static void acked(void *self, uint64_t ticket)
{
    Rig *rig = self;
    JournalState now = {0};

    rig->in_order &= ticket > rig->acked;
    rig->acked = ticket;
    if (!rig->journal) /* it is being closed */
        return;
    journal_state(rig->journal, &now);
    rig->acked_on_disk = now.on_disk < ticket ? now.on_disk : ticket;
}

static int open_at(Rig *rig, uint64_t keep_ns, uint64_t max_bytes, uint64_t patience_ns, Err *err)
{
    const JournalConfig config = {
        .path = rig->path, .keep_ns = keep_ns, .max_bytes = max_bytes, .patience_ns = patience_ns};

    rig->acked = rig->acked_on_disk = 0;
    rig->in_order = true;
    return journal_open(&rig->loop, &config, acked, rig, &rig->journal, err);
}

static void must_open(Rig *rig)
{
    Err err = {0};

    if (open_at(rig, 0, 0, 20 * NS_PER_S, &err) < 0)
        fail_msg("%s", err.text);
}

static void wait_acked(Rig *rig, uint64_t ticket)
{
    while (rig->acked < ticket)
        uv_run(&rig->loop, UV_RUN_ONCE);
}

static void close_it(Rig *rig)
{
    journal_close(TAKE(rig->journal));
    uv_run(&rig->loop, UV_RUN_DEFAULT);
}

/* What the file holds, as the next agent reads it. */
static void read_kept(Rig *rig, JournalKept *ret)
{
    if (rig->journal)
        close_it(rig);
    must_open(rig);
    assert_int_equal(journal_kept(rig->journal, ret, NULL), 0);
}

static int set_up(void **state)
{
    Rig *rig = calloc(1, sizeof *rig);

    if (!rig)
        return -1;
    snprintf(rig->dir, sizeof rig->dir, "/tmp/stoker-journal-XXXXXX");
    if (!mkdtemp(rig->dir))
        return -1;
    snprintf(rig->path, sizeof rig->path, "%s/made/journal.db", rig->dir);
    uv_loop_init(&rig->loop);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    Rig *rig = *state;

    if (rig->journal)
        close_it(rig);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    assert_int_equal(file_remove_tree("/tmp", rig->dir + strlen("/tmp/"), NULL), 0);
    free(rig);
    return 0;
}

static Incident incident_of(int n, IncidentState state)
{
    Incident incident = {.revision = (uint64_t)n,
                         .state = state,
                         .pid = -1,
                         .code = 79,
                         .cause = CAUSE_BUS,
                         .severity = SEVERITY_FATAL,
                         .scope = SCOPE_GPU,
                         .action = ACTION_DRAIN_AND_RMA,
                         .route = ROUTE_PAGE,
                         .count = 3,
                         .escalations = 1,
                         .code_count = 2,
                         .codes = {79, 45},
                         .first_len = 1,
                         .last_len = 1,
                         .counter_len = 2};

    device_init(&incident.device, DEVICE_GPU);
    incident.device.has_pci = true;
    incident.device.pci = (PciAddress){0, (uint8_t)n, 0, 0};
    incident.device.index = (uint32_t)n;
    snprintf(incident.id, sizeof incident.id, "inc%06d", n);
    snprintf(incident.class, sizeof incident.class, "gpu-lost");
    snprintf(incident.title, sizeof incident.title, "GPU %d \"has\" fallen\noff 'the' bus", n);
    incident.opened_real_ns = incident.updated_real_ns = (uint64_t)(1000 + n) * NS_PER_S;
    if (state == INCIDENT_CLEARED) {
        incident.cleared_real_ns = incident.updated_real_ns;
        incident.end = INCIDENT_END_RESET;
    }
    incident.first[0] =
        (IncidentEvidence){.real_ns = 5 * NS_PER_S, .origin = EVENT_FROM_NVML, .code = 79, .text = "first"};
    incident.last[0] = (IncidentEvidence){.real_ns = 6 * NS_PER_S, .echo = true, .code = 45, .text = "la\tst \"q\""};
    incident.counters[0] = (IncidentCounter){.name = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", .before = 0, .after = 1.5};
    incident.counters[1] = (IncidentCounter){.name = "x", .before = (double)NAN, .after = 2};
    return incident;
}

static void assert_same(const Incident *a, const Incident *b)
{
    assert_string_equal(a->id, b->id);
    assert_int_equal(a->revision, b->revision);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->end, b->end);
    assert_true(device_equal(&a->device, &b->device));
    assert_int_equal(a->device.index, b->device.index);
    assert_int_equal(a->device.link, b->device.link);
    assert_int_equal(a->pid, b->pid);
    assert_string_equal(a->class, b->class);
    assert_string_equal(a->title, b->title);
    assert_int_equal(a->cause, b->cause);
    assert_int_equal(a->severity, b->severity);
    assert_int_equal(a->scope, b->scope);
    assert_int_equal(a->action, b->action);
    assert_int_equal(a->route, b->route);
    assert_int_equal(a->opened_real_ns, b->opened_real_ns);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->code_count, b->code_count);
    assert_memory_equal(a->codes, b->codes, sizeof a->codes);
    assert_int_equal(b->first_len, 2); /* evidence is one list, of which the first fill `first` */
    assert_string_equal(a->first[0].text, b->first[0].text);
    assert_int_equal(a->first[0].origin, b->first[0].origin);
    assert_string_equal(a->last[0].text, b->first[1].text);
    assert_int_equal(a->last[0].echo, b->first[1].echo);
    assert_int_equal(b->first[1].real_ns / NS_PER_MS, a->last[0].real_ns / NS_PER_MS);
    assert_int_equal(a->counter_len, b->counter_len);
    assert_true(a->counters[0].after == b->counters[0].after);
    assert_true(isnan(b->counters[1].before));
}

static void what_was_put_comes_back(void **state)
{
    Rig *rig = *state;
    MaintenanceWindow window = {.id = "w1",
                                .reason = "new fans",
                                .who = "root",
                                .gpus = 5,
                                .from_real_ns = 7,
                                .until_real_ns = 9,
                                .uuids = {"GPU-a", "GPU-b"}};
    const LogPosition position = {
        .boot_id = "boot", .read = true, .next = 43, .fabric_offset = 43, .fabric_inode = UINT64_C(1) << 40};
    JournalKept kept;

    must_open(rig);
    Incident open = incident_of(3, INCIDENT_OPEN), cleared = incident_of(4, INCIDENT_CLEARED);
    journal_put_incident(rig->journal, &open);
    journal_put_incident(rig->journal, &cleared);
    journal_put_window(rig->journal, &window, false);
    journal_put_position(rig->journal, &position);
    wait_acked(rig, 4);
    assert_int_equal(rig->acked_on_disk, 4);
    assert_true(rig->in_order);

    read_kept(rig, &kept);
    assert_int_equal(kept.incidents.len, 2);
    assert_same(&open, &kept.incidents.at[0]);
    assert_same(&cleared, &kept.incidents.at[1]);
    assert_int_equal(kept.windows.len, 1);
    assert_string_equal(kept.windows.at[0].reason, "new fans");
    assert_string_equal(kept.windows.at[0].uuids[1], "GPU-b");
    assert_int_equal(kept.windows.at[0].gpus, 5);
    assert_string_equal(kept.position.boot_id, "boot");
    assert_int_equal(kept.position.next, 43);
    assert_int_equal(kept.position.fabric_inode, UINT64_C(1) << 40);
    journal_kept_done(&kept);
    assert_int_equal(journal_kept(rig->journal, &kept, NULL), 0); /* handed over once */
    assert_int_equal(kept.incidents.len, 0);
    journal_put_window(rig->journal, &window, true);
    read_kept(rig, &kept);
    assert_int_equal(kept.windows.len, 0);
    assert_int_equal(kept.incidents.len, 2);
    journal_kept_done(&kept);
}

/* Kernels count from 0: a log that was read and held nothing, one whose first record alone was processed, and one that
 * could not be read are three things. */
static void the_first_record_is_a_position(void **state)
{
    const LogPosition positions[] = {{.boot_id = "boot", .read = true, .next = 0},
                                     {.boot_id = "boot", .read = true, .next = 1},
                                     {.boot_id = "boot", .fabric_offset = 5, .fabric_inode = 7}};
    Rig *rig = *state;
    JournalKept kept;

    must_open(rig);
    for (size_t i = 0; i < ARRAY_LEN(positions); i++) {
        journal_put_position(rig->journal, &positions[i]);
        read_kept(rig, &kept);
        assert_string_equal(kept.position.boot_id, "boot");
        assert_int_equal(kept.position.read, positions[i].read);
        assert_int_equal(kept.position.next, positions[i].next);
        assert_int_equal(kept.position.fabric_offset, positions[i].fabric_offset);
        journal_kept_done(&kept);
    }
}

static void a_later_revision_replaces(void **state)
{
    Rig *rig = *state;
    Incident incident = incident_of(1, INCIDENT_OPEN);
    JournalKept kept;

    must_open(rig);
    for (int i = 1; i <= 500; i++) {
        incident.revision = (uint64_t)i;
        journal_put_incident(rig->journal, &incident);
    }
    wait_acked(rig, 500);
    assert_true(rig->in_order);
    assert_int_equal(rig->acked_on_disk, 500);
    read_kept(rig, &kept);
    assert_int_equal(kept.incidents.len, 1);
    assert_int_equal(kept.incidents.at[0].revision, 500);
    journal_kept_done(&kept);
}

static void the_outbox_keeps_its_order(void **state)
{
    Rig *rig = *state;
    JournalKept kept;

    must_open(rig);
    journal_put_outbox(rig->journal, "pager", "b", "one", 3);
    journal_put_outbox(rig->journal, "pager", "a", "two", 3);
    journal_put_outbox(rig->journal, "mail", "b", "three", 5);
    wait_acked(rig, 3);
    journal_put_outbox(rig->journal, "pager", "b", "four", 4);
    journal_put_outbox(rig->journal, "pager", "a", "", 0);
    wait_acked(rig, 5);
    read_kept(rig, &kept);
    assert_int_equal(kept.outbox.len, 2);
    assert_string_equal(kept.outbox.at[0].receiver, "pager");
    assert_string_equal(kept.outbox.at[0].key, "b");
    assert_string_equal(kept.outbox.at[0].text, "four");
    assert_string_equal(kept.outbox.at[1].receiver, "mail");
    assert_string_equal(kept.outbox.at[1].text, "three");
    journal_kept_done(&kept);
}

/* A child writes until it is killed, and says after each acknowledgement how far it is. */
static void write_for_ever(Rig *rig, int out)
{
    rig->journal = NULL;
    uv_loop_init(&rig->loop);
    must_open(rig);
    for (int n = 1;;) {
        Incident incident = incident_of(n % 200, INCIDENT_OPEN);

        incident.revision = (uint64_t)n;
        const uint64_t ticket = journal_put_incident(rig->journal, &incident);
        wait_acked(rig, ticket);
        if (rig->acked_on_disk != ticket) /* the disk was too slow: once more */
            continue;
        if (write(out, &n, sizeof n) != sizeof n)
            _exit(1);
        n++;
    }
}

static void what_was_acknowledged_survives_a_kill(void **state)
{
    Rig *rig = *state;
    JournalKept kept;
    int pipes[2], n = 0, last = 0, seen = 0, status = 0;

    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0)
        write_for_ever(rig, pipes[1]);
    close(pipes[1]);
    while (n < 60 && read(pipes[0], &n, sizeof n) == sizeof n)
        ;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    while (read(pipes[0], &last, sizeof last) == sizeof last)
        n = last;
    close(pipes[0]);
    if (n < 60)
        fail_msg("the child ended by itself behind %d of 60: status 0x%x", n, (unsigned)status);

    read_kept(rig, &kept);
    for (size_t i = 0; i < kept.incidents.len; i++)
        seen = (int)kept.incidents.at[i].revision > seen ? (int)kept.incidents.at[i].revision : seen;
    assert_true(seen == n || seen == n + 1); /* the one behind it may have been on its way */
    assert_int_equal(kept.incidents.len, seen < 200 ? seen : 200);
    journal_kept_done(&kept);
}

static atomic_int refused_writes; /* the writer's thread is the one that is signalled */

static void count_refused(int signal)
{
    const int before = errno;

    (void)signal;
    refused_writes++;
    errno = before;
}

static void a_full_disk_stops_nothing(void **state)
{
    Rig *rig = *state;
    struct rlimit before, small = {.rlim_cur = 150000};
    JournalState now;
    JournalKept kept;
    uint64_t ticket = 0;

    signal(SIGXFSZ, count_refused);
    must_open(rig);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    for (int n = 0; n < 200; n++) {
        Incident incident = incident_of(n, INCIDENT_OPEN);

        ticket = journal_put_incident(rig->journal, &incident);
        wait_acked(rig, ticket);
    }
    journal_state(rig->journal, &now);
    const int refused = refused_writes;
    usleep(400 * 1000); /* the next attempt is due half a second after the last: one at most */
    const int again = refused_writes - refused;
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(refused > 0 && again < 10);
    assert_int_equal(now.health, JOURNAL_MEMORY);
    assert_true(now.why[0] != '\0');
    assert_true(rig->acked_on_disk < ticket);
    assert_true(now.queued > 0);
    while (journal_state(rig->journal, &now), now.health != JOURNAL_FINE || now.queued > 0)
        usleep(20000);
    read_kept(rig, &kept);
    assert_int_equal(kept.incidents.len, 200); /* it has caught up */
    journal_kept_done(&kept);
}

static void overwrite(const char *path)
{
    FILE *file = fopen(path, "r+");

    assert_non_null(file);
    for (int i = 0; i < 6000; i++)
        fputs("no database ", file);
    fclose(file);
}

static void a_damaged_file_is_set_aside(void **state)
{
    Rig *rig = *state;
    JournalState now;
    JournalKept kept;
    Incident incident = incident_of(7, INCIDENT_OPEN);
    struct stat st;

    must_open(rig);
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    close_it(rig);
    overwrite(rig->path);
    must_open(rig);
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_FINE);
    assert_non_null(strstr(now.set_aside, "journal.db.damaged-"));
    assert_int_equal(stat(now.set_aside, &st), 0);
    assert_true(now.why[0] != '\0');
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    assert_int_equal(rig->acked_on_disk, 1);
    read_kept(rig, &kept);
    assert_int_equal(kept.incidents.len, 1);
    journal_kept_done(&kept);
}

/* Of the file, its log and its index, also where an older agent left them open to everybody. */
static void who_may_read_it(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    Rig *rig = *state;
    const Incident incident = incident_of(1, INCIDENT_OPEN);
    const mode_t mask = umask(0022);
    char name[PATH_MAX + 8];
    struct stat st;

    for (int round = 0; round < 2; round++) {
        must_open(rig);
        wait_acked(rig, journal_put_incident(rig->journal, &incident));
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
            snprintf(name, sizeof name, "%s%s", rig->path, ends[i]);
            assert_int_equal(stat(name, &st), 0);
            assert_int_equal(st.st_mode & 0777, 0640);
        }
        close_it(rig);
        assert_int_equal(chmod(rig->path, 0644), 0);
    }
    umask(mask);
}

/* Whatever damages a file may do it at each start. */
static void files_set_aside_have_an_end(void **state)
{
    Rig *rig = *state;
    JournalState now;
    char name[5][PATH_MAX];
    struct stat st;

    must_open(rig);
    close_it(rig);
    for (int i = 0; i < 5; i++) {
        snprintf(name[i], sizeof name[i], "%s.damaged-2026010%dT080000Z%s", rig->path, i / 2 + 1, i % 2 ? "-wal" : "");
        assert_int_equal(mknod(name[i], S_IFREG | 0600, 0), 0);
    }
    overwrite(rig->path);
    must_open(rig);
    journal_state(rig->journal, &now);
    assert_int_equal(stat(now.set_aside, &st), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(stat(name[i], &st), i < 2 ? -1 : 0);
}

static void damage_under_way(void **state)
{
    Rig *rig = *state;
    JournalState now;
    uint64_t ticket = 0;

    must_open(rig);
    for (int n = 0; n < 600; n++) { /* more than the cache holds */
        Incident incident = incident_of(n, INCIDENT_OPEN);

        ticket = journal_put_incident(rig->journal, &incident);
    }
    wait_acked(rig, ticket);
    close_it(rig);
    must_open(rig);
    overwrite(rig->path);
    Incident incident = incident_of(1, INCIDENT_OPEN);
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    while (journal_state(rig->journal, &now), now.health != JOURNAL_FINE || now.queued > 0)
        usleep(20000);
    assert_true(now.set_aside[0] != '\0');
}

static void a_newer_schema_is_left_alone(void **state)
{
    Rig *rig = *state;
    JournalState now;
    sqlite3 *db;
    Incident incident = incident_of(1, INCIDENT_OPEN);

    must_open(rig);
    close_it(rig);
    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL);
    sqlite3_close(db);
    must_open(rig);
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_MEMORY);
    assert_non_null(strstr(now.why, "newer Stoker"));
    assert_int_equal(rig->acked_on_disk, 0);
    close_it(rig);
    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "SELECT count(*) FROM incidents", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static JournalGpu gpu_of(int n)
{
    JournalGpu gpu = {.first_real_ns = (uint64_t)n,
                      .last_real_ns = (uint64_t)(1000 + n) * NS_PER_S,
                      .drained = n == 3,
                      .energy_mj = UINT64_C(5000000000) + (uint64_t)n,
                      .idle_mw = 70000 + (uint64_t)n,
                      .idle_held = n == 4};

    device_init(&gpu.device, DEVICE_GPU);
    gpu.device.has_pci = true;
    gpu.device.pci = (PciAddress){0, (uint8_t)n, 0, 0};
    gpu.device.index = n == 3 ? DEVICE_NO_NUMBER : (uint32_t)n - 1;
    gpu.device.minor = n == 3 ? DEVICE_NO_NUMBER : (uint32_t)n + 1;
    snprintf(gpu.device.uuid, sizeof gpu.device.uuid, "GPU-%d", n);
    snprintf(gpu.device.serial, sizeof gpu.device.serial, "165%d", n);
    snprintf(gpu.device.name, sizeof gpu.device.name, "NVIDIA %d", n);
    if (n == 4) {
        snprintf(gpu.mig_layout, sizeof gpu.mig_layout, "7x1g.10gb");
        snprintf(gpu.mig_changed, sizeof gpu.mig_changed, "2026-01-05T08:00:03.000Z");
        snprintf(gpu.mig_change, sizeof gpu.mig_change, "off -> 7x1g.10gb, not by stoker");
    }
    return gpu;
}

static void assert_gpus(Rig *rig, const JournalGpu *expected, size_t count)
{
    JournalKept kept;

    read_kept(rig, &kept);
    assert_int_equal(kept.gpus.len, count);
    for (size_t i = 0; i < count; i++) {
        const JournalGpu *a = &expected[i], *b = &kept.gpus.at[i];

        assert_true(device_equal(&a->device, &b->device));
        assert_int_equal(pci_compare(a->device.pci, b->device.pci), 0);
        assert_int_equal(b->device.index, a->device.index);
        assert_int_equal(b->device.minor, a->device.minor);
        assert_string_equal(a->device.serial, b->device.serial);
        assert_string_equal(a->device.name, b->device.name);
        assert_int_equal(a->first_real_ns, b->first_real_ns);
        assert_int_equal(a->last_real_ns, b->last_real_ns);
        assert_int_equal(a->drained, b->drained);
        assert_int_equal(a->energy_mj, b->energy_mj);
        assert_int_equal(a->idle_mw, b->idle_mw);
        assert_int_equal(a->idle_held, b->idle_held);
        assert_string_equal(a->mig_layout, b->mig_layout);
        assert_string_equal(a->mig_changed, b->mig_changed);
        assert_string_equal(a->mig_change, b->mig_change);
    }
    journal_kept_done(&kept);
}

static void gpus_that_were_here(void **state)
{
    Rig *rig = *state;
    JournalGpu gpus[] = {gpu_of(1), gpu_of(3), gpu_of(4)};

    must_open(rig);
    journal_put_gpu(rig->journal, &gpus[2], false);
    journal_put_gpu(rig->journal, &gpus[0], false);
    journal_put_gpu(rig->journal, &gpus[1], false);
    wait_acked(rig, 3);
    assert_gpus(rig, gpus, 3);
    gpus[0].device.pci.bus = 2; /* it was moved */
    journal_put_gpu(rig->journal, &gpus[0], false);
    journal_put_gpu(rig->journal, &gpus[2], true);
    wait_acked(rig, 2);
    assert_gpus(rig, gpus, 2);
    for (int i = 0; i < 50; i++) { /* whatever was still queued: the last word counts */
        journal_put_gpu(rig->journal, &gpus[2], false);
        journal_put_gpu(rig->journal, &gpus[2], true);
    }
    wait_acked(rig, journal_put_gpu(rig->journal, &gpus[2], false));
    assert_gpus(rig, gpus, 3);
}

static void counts_go_on(void **state)
{
    Rig *rig = *state;
    JournalKept kept;

    must_open(rig);
    journal_put_count(rig->journal, "event/xid/kmsg", 1, 1 * NS_PER_S);
    journal_put_count(rig->journal, "xid/GPU-1/79", 7, 2 * NS_PER_S);
    wait_acked(rig, journal_put_count(rig->journal, "event/xid/kmsg", 3, 3 * NS_PER_S));
    read_kept(rig, &kept);
    assert_int_equal(kept.counts.len, 2);
    assert_string_equal(kept.counts.at[0].key, "event/xid/kmsg"); /* the last that changed */
    assert_int_equal(kept.counts.at[0].value, 3);
    assert_string_equal(kept.counts.at[1].key, "xid/GPU-1/79");
    assert_int_equal(kept.counts.at[1].value, 7);
    assert_int_equal(kept.counts.at[1].real_ns, 2 * NS_PER_S);
    journal_kept_done(&kept);
    wait_acked(rig, journal_put_count(rig->journal, "xid/GPU-1/79", 2, 4 * NS_PER_S)); /* it never goes back */
    read_kept(rig, &kept);
    assert_string_equal(kept.counts.at[0].key, "xid/GPU-1/79");
    assert_int_equal(kept.counts.at[0].value, 7);
    journal_kept_done(&kept);
}

static void run_sql(const Rig *rig, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* A row without a UUID or an address is nobody's: it was not written here. */
static void gpus_that_are_none_are_left_out(void **state)
{
    Rig *rig = *state;
    JournalGpu gpu = gpu_of(1);

    must_open(rig);
    journal_put_gpu(rig->journal, &gpu, false);
    wait_acked(rig, 1);
    close_it(rig);
    run_sql(rig, "CREATE TEMP TABLE t AS SELECT * FROM gpu_seen;"
                 "UPDATE t SET uuid = 'GPU-x', pci = 'nowhere'; INSERT INTO gpu_seen SELECT * FROM t;"
                 "UPDATE t SET uuid = '', pci = '0000:09:00.0'; INSERT INTO gpu_seen SELECT * FROM t;");
    must_open(rig);
    assert_gpus(rig, &gpu, 1);
}

static int schema_of(const Rig *rig)
{
    sqlite3_stmt *statement;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const int version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return version;
}

/* As versions 1 and 2 left it: a column per member. */
static const char first_tables[] =
    "CREATE TABLE bundles(incident TEXT PRIMARY KEY, real_ns INTEGER, gz BLOB) STRICT;"
    "CREATE TABLE events(kind TEXT, origin TEXT, word TEXT, before INTEGER, real_ns INTEGER, sequence INTEGER,"
    " gpu_instance INTEGER, compute_instance INTEGER, link INTEGER, code INTEGER, caused_by INTEGER,"
    " recovery_action INTEGER, unit TEXT, pid INTEGER, process TEXT, uuid TEXT, text TEXT, pci TEXT, incident TEXT,"
    " seq INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;"
    "CREATE TABLE incidents(id TEXT PRIMARY KEY, revision INTEGER, state TEXT, device_kind TEXT, device_arch INTEGER,"
    " device_index INTEGER, device_minor INTEGER, gpu_instance INTEGER, compute_instance INTEGER, link INTEGER,"
    " has_pci INTEGER, uuid TEXT, parent_uuid TEXT, model TEXT, board TEXT, serial TEXT, driver_version TEXT,"
    " process TEXT, pid INTEGER, job TEXT, class TEXT, rule TEXT, code INTEGER, cause TEXT, severity TEXT, scope TEXT,"
    " action TEXT, route TEXT, title TEXT, verdict TEXT, runbook TEXT, first_ns INTEGER, opened_ns INTEGER,"
    " updated_ns INTEGER, cleared_ns INTEGER, ended_by TEXT, count INTEGER, echo_count INTEGER, escalations INTEGER,"
    " reopened INTEGER, before INTEGER, silenced INTEGER, maintenance TEXT, pci TEXT, device TEXT, evidence TEXT)"
    " STRICT;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) STRICT;"
    "CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT, key TEXT, text TEXT,"
    " UNIQUE(receiver, key)) STRICT;"
    "CREATE TABLE windows(id TEXT PRIMARY KEY, reason TEXT, who TEXT, gpus INTEGER, from_ns INTEGER, until_ns INTEGER,"
    " uuids TEXT) STRICT;"
    "CREATE INDEX incidents_state ON incidents(state);"
    "CREATE INDEX incidents_updated ON incidents(updated_ns);"
    "CREATE INDEX events_time ON events(real_ns);"
    "CREATE INDEX events_incident ON events(incident);"
    "INSERT INTO bundles VALUES('inc000007', 1500, X'1F8B08000000000000FFAB564A54B232AC0500AFAC1B5607000000');"
    "INSERT INTO events VALUES('xid', 'kmsg', '', 1, 1500000000000, 12, NULL, NULL, NULL, 79, 0, -1, '', 4711,"
    " 'python', '', 'Xid 79 \"x\"', '0000:07:00.0', 'inc000001', 1);"
    "INSERT INTO incidents VALUES('inc000007', 7, 'open', 'gpu', 0, 7, NULL, NULL, NULL, NULL, 1, '', '', '', '', '',"
    " '', '', -1, '', 'gpu-lost', '', 79, 'bus', 'fatal', 'gpu', 'drain-and-rma', 'page',"
    " 'GPU 7 \"has\" fallen' || char(10) || 'off ''the'' bus', '', '', 0, 1007000000000, 1007000000000, 0, '', 3, 0,"
    " 1, 0, 0, 0, '', '0000:07:00.0', 'gpu/0000:07:00.0', '{\"first\":[{\"at\":5000000000,\"origin\":\"nvml\","
    "\"echo\":false,\"code\":79,\"text\":\"first\"}],\"last\":[{\"at\":6000000000,\"origin\":\"kmsg\",\"echo\":true,"
    "\"code\":45,\"text\":\"la\\tst \\\"q\\\"\"}],\"counters\":[{\"name\":\"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL\","
    "\"before\":0,\"after\":1.5},{\"name\":\"x\",\"before\":null,\"after\":2}],\"codes\":[79,45]}');"
    "INSERT INTO incidents VALUES('inc000008', 8, 'cleared', 'gpu_instance', 0, 8, NULL, 2, NULL, NULL, 1, 'MIG-1',"
    " 'GPU-8', 'NVIDIA H100', '', '165', '590.48', 'python', 77, 'job 9', 'gpu-lost', 'xid-79', 79, 'bus', 'fatal',"
    " 'gpu', 'drain-and-rma', 'page', 'title', 'verdict', 'https://x', 1767600003123456789, 1767600003123456789,"
    " 1767600004000000000, 1767600004000000000, 'reset', 3, 2, 1, 4, 1, 1, 'w1', '0000:08:00.0', 'gpu/GPU-8/gi/2',"
    " '{\"first\":[],\"last\":[],\"counters\":[],\"codes\":[]}');"
    "INSERT INTO windows VALUES('w1', 'new fans', 'root', 5, 7, 9, 'GPU-a GPU-b');"
    "INSERT INTO meta VALUES('sequence', '42'), ('boot_id', 'boot');"
    "INSERT INTO outbox VALUES(1, 'pager', 'b', 'one');"
    "PRAGMA user_version=1";

static void make_first_version(Rig *rig)
{
    must_open(rig);
    close_it(rig);
    assert_int_equal(unlink(rig->path), 0);
    run_sql(rig, first_tables);
}

static void assert_migrated(Rig *rig)
{
    const Incident incident = incident_of(7, INCIDENT_OPEN);
    EventSeenList events = {0};
    JournalKept kept;
    JournalState now;

    read_kept(rig, &kept);
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_FINE);
    assert_string_equal(now.set_aside, "");
    assert_int_equal(schema_of(rig), JOURNAL_SCHEMA);
    assert_int_equal(kept.incidents.len, 2);
    assert_same(&incident, &kept.incidents.at[0]);
    const Incident *other = &kept.incidents.at[1];
    assert_int_equal(other->device.kind, DEVICE_GPU_INSTANCE);
    assert_string_equal(other->device.uuid, "MIG-1");
    assert_string_equal(other->device.parent_uuid, "GPU-8");
    assert_int_equal(other->device.gpu_instance, 2);
    assert_int_equal(other->device.compute_instance, DEVICE_NO_NUMBER);
    assert_string_equal(other->device.serial, "165");
    assert_string_equal(other->driver_version, "590.48");
    assert_int_equal(other->pid, 77);
    assert_string_equal(other->process, "python");
    assert_string_equal(other->job, "job 9");
    assert_string_equal(other->rule, "xid-79");
    assert_string_equal(other->window, "w1");
    assert_true(other->silenced && other->before);
    assert_int_equal(other->end, INCIDENT_END_RESET);
    assert_int_equal(other->first_real_ns, UINT64_C(1767600003123000000));
    assert_int_equal(other->cleared_real_ns, UINT64_C(1767600004000000000));
    assert_int_equal(other->echo_count, 2);
    assert_int_equal(other->reopened, 4);
    assert_int_equal(kept.windows.len, 1);
    assert_string_equal(kept.position.boot_id, "boot");
    assert_true(kept.position.read);
    assert_int_equal(kept.position.next, 43);
    assert_int_equal(kept.outbox.len, 1);
    assert_int_equal(kept.gpus.len, 0);
    journal_kept_done(&kept);
    assert_int_equal(journal_read_events(rig->path, 0, &events, NULL), 0);
    assert_int_equal(events.len, 1);
    assert_int_equal(events.at[0].event.code, 79);
    assert_int_equal(events.at[0].event.pid, 4711);
    assert_int_equal(events.at[0].event.real_ns, 1500 * NS_PER_S);
    assert_true(events.at[0].event.has_pci && events.at[0].event.before);
    assert_string_equal(events.at[0].event.text, "Xid 79 \"x\"");
    assert_string_equal(events.at[0].incident, "inc000001");
    vec_done(&events);
}

/* --- job reports -------------------------------------------------------------------------------------------------- */

typedef struct Reports {
    size_t count;
    char first[64];
} Reports;

static void see_report(void *self, const char *json, size_t len)
{
    Reports *seen = self;

    if (seen->count++ == 0)
        snprintf(seen->first, sizeof seen->first, "%.*s", (int)len, json);
}

static uint64_t put_report(const Rig *rig, const char *id, const char *name, bool running, uint64_t last_ns,
                           const char *json)
{
    return journal_put_job(
        rig->journal,
        &(JournalJob){
            .id = id, .name = name, .running = running, .last_real_ns = last_ns, .json = json, .len = strlen(json)});
}

static size_t count_reports(const Rig *rig, uint64_t since_ns)
{
    Reports seen = {0};
    Err err;

    assert_int_equal(journal_read_jobs(rig->path, since_ns, 100, see_report, &seen, &err), 0);
    return seen.count;
}

static void assert_report(const Rig *rig, const char *name, const char *json)
{
    Reports seen = {0};
    Err err;

    assert_int_equal(journal_read_job(rig->path, name, see_report, &seen, &err), 0);
    assert_int_equal(seen.count, json != NULL);
    assert_int_equal(strncmp(seen.first, json ? json : "", sizeof seen.first - 1), 0);
}

static void job_reports_are_found_by_name(void **state)
{
    Rig *rig = *state;
    JournalKept kept;

    must_open(rig);
    put_report(rig, "r1", "4711", true, 10, "{1}");
    put_report(rig, "r2", "4711", false, 9, "{2}");
    put_report(rig, "r3", "serving/chat-0", true, 8, "{3}");
    put_report(rig, "r4", "0123456789ab", false, 7, "{4}");
    put_report(rig, "r5", "4711", false, 6, "{5}");
    wait_acked(rig, put_report(rig, "r3", "serving/chat-0", false, 11, "{3b}")); /* it has ended */
    assert_int_equal(count_reports(rig, 0), 5);
    assert_int_equal(count_reports(rig, 9), 3);
    assert_report(rig, "4711", "{1}");
    assert_report(rig, "r5", "{5}");
    assert_report(rig, "serving/chat-0", "{3b}");
    assert_report(rig, "chat-0", "{3b}");
    assert_report(rig, "hat-0", NULL);
    assert_report(rig, "0123456789abcdef", "{4}");
    assert_report(rig, "471", NULL);
    close_it(rig);
    read_kept(rig, &kept);
    assert_int_equal(kept.jobs.len, 5);
    assert_string_equal(kept.jobs.at[0], "{1}"); /* running ones, then the last that ended */
    assert_string_equal(kept.jobs.at[1], "{3b}");
    journal_kept_done(&kept);
    close_it(rig);
}

static void old_job_reports_are_deleted(void **state)
{
    Rig *rig = *state;
    const JournalConfig by_age = {.keep_jobs_ns = 20 * NS_PER_S};
    uint64_t bytes;
    char id[16], json[2000];
    Db *db = NULL;
    Err err;

    must_open(rig);
    put_report(rig, "old", "1", true, NS_PER_S, "{1}");
    for (unsigned i = 0; i < 40; i++) {
        uint64_t seed = i + 1;

        for (size_t k = 0; k + 1 < sizeof json; k++) { /* not to be packed well */
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            json[k] = (char)('!' + (seed >> 33) % 90);
        }
        json[sizeof json - 1] = '\0';
        snprintf(id, sizeof id, "r%02u", i);
        put_report(rig, id, "2", false, (10 + i) * NS_PER_S, json);
    }
    wait_acked(rig, put_report(rig, "r00", "2", false, 10 * NS_PER_S, json));
    close_it(rig);
    assert_int_equal(db_open(rig->path, false, &db, &err), 0);
    assert_int_equal(
        db_note_clock(db, &(DbClock){"boot", 0, 0}, &(DbClock){"boot", 49 * NS_PER_S, 49 * NS_PER_S}, &err), 0);
    assert_int_equal(db_prune(db, &by_age, &bytes, &err), 0);
    assert_int_equal(count_reports(rig, 0),
                     1 + 21); /* what runs stays, and what is not more than 20 s older than the newest */
    assert_report(rig, "1", "{1}");
    assert_int_equal(db_prune(db, &(JournalConfig){.max_bytes = 4 * 10 * 1800}, &bytes, &err), 0);
    const size_t left = count_reports(rig, 0);
    if (left < 6 || left > 14) /* of a quarter of the size, the newest */
        fail_msg("%zu reports are left", left);
    assert_report(rig, "r39", json);
    assert_report(rig, "r29", NULL);
    db_close(db);
}

static void count_row(void *self, struct sqlite3_stmt *row)
{
    (void)row;
    ++*(int *)self;
}

static void the_last_tests_are_kept(void **state)
{
    Rig *rig = *state;
    JournalKept kept = {0};
    uint64_t ticket = 0, bytes, real_ns = 1000;
    char json[32];
    Db *db = NULL;
    int left = 0;

    must_open(rig);
    for (int i = 0; i < JOURNAL_BENCH_KEPT + 3; i++) {
        real_ns += 1000;
        ticket =
            journal_put_bench(rig->journal, real_ns, "ready", json, (size_t)snprintf(json, sizeof json, "{%d}\n", i));
    }
    ticket = journal_put_bench(rig->journal, real_ns, "ready", "{again}", 7); /* in place of that of its time */
    wait_acked(rig, ticket);
    read_kept(rig, &kept);
    assert_int_equal(kept.bench.len, JOURNAL_BENCH_RESTORED);
    assert_string_equal(kept.bench.at[0], "{again}");
    snprintf(json, sizeof json, "{%d}\n", JOURNAL_BENCH_KEPT + 1);
    assert_string_equal(kept.bench.at[1], json);
    journal_kept_done(&kept);
    close_it(rig);
    assert_int_equal(db_open(rig->path, false, &db, NULL), 0);
    assert_int_equal(db_prune(db, &(JournalConfig){.keep_ns = NS_PER_H}, &bytes, NULL), 0);
    assert_int_equal(db_read_rows(db, "SELECT 1 FROM bench_runs", NULL, count_row, &left, NULL), 0);
    assert_int_equal(left, JOURNAL_BENCH_KEPT);
    db_close(db);
}

/* --- the ledger --------------------------------------------------------------------------------------------------- */

#define NEW_AWAY                                                                                                       \
    "DROP VIEW ledger_rows; ALTER TABLE ledger DROP COLUMN memory_peak_bytes;"                                         \
    "ALTER TABLE ledger DROP COLUMN sm_peak_ppm; ALTER TABLE gpu_seen DROP COLUMN mig_layout;"                         \
    "ALTER TABLE gpu_seen DROP COLUMN mig_changed; ALTER TABLE gpu_seen DROP COLUMN mig_change;"                       \
    "DROP TABLE bench_runs;"
#define IDLE_AWAY NEW_AWAY "ALTER TABLE gpu_seen DROP COLUMN idle_mw; ALTER TABLE gpu_seen DROP COLUMN idle_held;"
#define JOBS_AWAY IDLE_AWAY "DROP TABLE job_reports; "
#define LEDGER_AWAY JOBS_AWAY "DROP TABLE ledger; DROP TABLE ledger_names;"

/* An hour of GPU `gpu`, `hour` hours after the first. */
static LedgerRow ledger_row_of(uint64_t id, int gpu, const char *user, uint64_t hour)
{
    LedgerRow row = {.id = id,
                     .from_real_ns = (1000 + hour) * NS_PER_H,
                     .until_real_ns = (1001 + hour) * NS_PER_H,
                     .until_ns = (hour + 1) * NS_PER_H,
                     .boot_id = "boot",
                     .name = "NVIDIA H100",
                     .price = "h100 spot 2 EUR",
                     .held = gpu > 0,
                     .share_kind = gpu > 0 ? ATTRIBUTION_EVEN : ATTRIBUTION_UNKNOWN,
                     .quality = LEDGER_QUALITY_GPM,
                     .owner.pid = -1};

    snprintf(row.device, sizeof row.device, "gpu/GPU-%d", gpu);
    snprintf(row.owner.user, sizeof row.owner.user, "%s", user);
    snprintf(row.owner.account, sizeof row.owner.account, "phys%sics", user);
    snprintf(row.owner.container, sizeof row.owner.container, "main");
    for (int i = 0; i < LEDGER_AMOUNT_END; i++)
        row.amounts[i] = (uint64_t)(i + 1) * 1000000;
    for (uint64_t i = 0; i < LEDGER_PEAK_END; i++)
        row.peaks[i] = 1000 * (i + 1) + hour;
    return row;
}

typedef struct Seen {
    VEC(LedgerRow) rows;
} Seen;

static void see_row(void *self, const LedgerRow *row)
{
    Seen *seen = self;

    vec_push(&seen->rows, *row);
}

static void read_ledger(const Rig *rig, JournalLedgerQuery query, Seen *seen)
{
    Err err = {0};

    if (journal_read_ledger(rig->path, &query, see_row, seen, &err) < 0)
        fail_msg("%s", err.text);
}

#define EVER .from_real_ns = 0, .to_real_ns = UINT64_MAX

/* A row is written, grows, and is there for readers beside and for the next start. */
static void assert_ledger(Rig *rig)
{
    LedgerRow row = ledger_row_of(70, 1, "ann", 0), other = ledger_row_of(71, 1, "bob", 0),
              unheld = ledger_row_of(72, 0, "", 0);
    JournalKept kept;
    Seen seen = {0};

    journal_put_ledger(rig->journal, &row);
    other.until_ns -= NS_PER_MIN;
    journal_put_ledger(rig->journal, &other);
    row.amounts[LEDGER_ALLOC_NS] += 5;
    journal_put_ledger(rig->journal, &unheld);
    wait_acked(rig, journal_put_ledger(rig->journal, &row));
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    assert_int_equal(seen.rows.len, 3);
    assert_memory_equal(&seen.rows.at[0], &row, sizeof row);
    assert_memory_equal(&seen.rows.at[1], &other, sizeof other);
    assert_memory_equal(&seen.rows.at[2], &unheld, sizeof unheld);
    vec_done(&seen.rows);
    read_kept(rig, &kept);
    assert_int_equal(kept.ledger_id, 72);
    assert_int_equal(kept.ledger.len, 2);
    assert_int_equal(kept.ledger.at[1].until_ns, row.until_ns);
    journal_kept_done(&kept);
}

static void rows_of_the_ledger_grow(void **state)
{
    Rig *rig = *state;

    must_open(rig);
    assert_ledger(rig);
}

/* One row per owner, device and price; those at the edges of the time asked for count by their part in it. */
static void rows_of_the_ledger_are_merged(void **state)
{
    Rig *rig = *state;
    Seen seen = {0};
    uint64_t ticket = 0;

    must_open(rig);
    for (uint64_t hour = 0; hour < 4; hour++) {
        const LedgerRow ann = ledger_row_of(10 + 2 * hour, 1, "ann", hour),
                        bob = ledger_row_of(11 + 2 * hour, 1, "bob", hour);

        journal_put_ledger(rig->journal, &ann);
        ticket = journal_put_ledger(rig->journal, &bob);
    }
    wait_acked(rig, ticket);
    read_ledger(rig, (JournalLedgerQuery){EVER, .merge = true}, &seen);
    assert_int_equal(seen.rows.len, 2);
    assert_string_equal(seen.rows.at[0].owner.user, "ann");
    assert_string_equal(seen.rows.at[0].owner.account, "physannics");
    assert_string_equal(seen.rows.at[0].device, "gpu/GPU-1");
    assert_string_equal(seen.rows.at[0].price, "h100 spot 2 EUR");
    assert_int_equal(seen.rows.at[0].quality, LEDGER_QUALITY_GPM);
    assert_int_equal(seen.rows.at[0].share_kind, ATTRIBUTION_EVEN);
    assert_int_equal(seen.rows.at[0].amounts[LEDGER_ALLOC_NS], 4000000);
    assert_int_equal(seen.rows.at[0].peaks[LEDGER_PEAK_MEMORY], 1003);
    assert_int_equal(seen.rows.at[0].peaks[LEDGER_PEAK_SM], 2003);
    assert_int_equal(seen.rows.at[0].from_real_ns, 1000 * NS_PER_H);
    assert_int_equal(seen.rows.at[0].until_real_ns, 1004 * NS_PER_H);
    vec_clear(&seen.rows);
    read_ledger(rig,
                (JournalLedgerQuery){.from_real_ns = 1000 * NS_PER_H + 45 * NS_PER_MIN,
                                     .to_real_ns = 1002 * NS_PER_H + 30 * NS_PER_MIN,
                                     .merge = true},
                &seen);
    assert_int_equal(seen.rows.len, 2);
    assert_int_equal(seen.rows.at[1].amounts[LEDGER_ALLOC_NS], 1750000);
    vec_clear(&seen.rows);
    read_ledger(rig, (JournalLedgerQuery){EVER, .from_id = 13, .limit = 2}, &seen);
    assert_int_equal(seen.rows.len, 2);
    assert_int_equal(seen.rows.at[0].id, 13);
    vec_done(&seen.rows);
}

/* By its own keep time, and with their names. */
static void old_rows_of_the_ledger_go(void **state)
{
    Rig *rig = *state;
    const LedgerRow old = ledger_row_of(1, 1, "old", 0), late = ledger_row_of(2, 1, "late", 100),
                    last = ledger_row_of(3, 1, "last", 101);
    const JournalConfig config = {.keep_ns = 1, .keep_ledger_ns = NS_PER_H + 1, .max_bytes = 0},
                        small = {.max_bytes = 100};
    const LedgerRow rows[] = {old, late, last};
    DbChange changes[3];
    uint64_t bytes;
    Seen seen = {0};
    Db *db;

    must_open(rig);
    close_it(rig);
    assert_int_equal(db_open(rig->path, false, &db, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        changes[i] = db_ledger_change(&rows[i]);
    assert_int_equal(db_write(db, changes, 3, NULL), 0);
    assert_int_equal(db_prune(db, &config, &bytes, NULL), 0);
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    assert_int_equal(seen.rows.len, 2);
    assert_string_equal(seen.rows.at[0].owner.user, "late");
    vec_clear(&seen.rows);
    run_sql(rig, "CREATE TABLE assert_it(n INTEGER CHECK(n = 0)) STRICT;"
                 "INSERT INTO assert_it SELECT count(*) FROM ledger_names WHERE text LIKE 'old%'");
    assert_int_equal(db_prune(db, &small, &bytes, NULL), 0); /* it fills more than half of what is allowed */
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    assert_int_equal(seen.rows.len, 0);
    for (size_t i = 0; i < 3; i++)
        db_change_done(&changes[i]);
    vec_done(&seen.rows);
    db_close(db);
}

/* An hour of boot `boot`, its hour `hour`, under a wall clock that shows the hour `shown`. */
static LedgerRow ledger_row_at(uint64_t id, const char *boot, uint64_t hour, uint64_t shown)
{
    LedgerRow row = ledger_row_of(id, 1, "ann", shown);

    snprintf(row.boot_id, sizeof row.boot_id, "%s", boot);
    row.until_ns = (hour + 1) * NS_PER_H;
    return row;
}

/* Prunes rows that are written into a new file, and returns how many are left. */
static size_t prune_rows(const Rig *rig, const LedgerRow *rows, size_t count, uint64_t keep_ns)
{
    const JournalConfig config = {.keep_ledger_ns = keep_ns};
    Seen seen = {0};
    uint64_t bytes;
    Db *db;

    assert_int_equal(db_open(rig->path, false, &db, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        DbChange change = db_ledger_change(&rows[i]);

        assert_int_equal(db_write(db, &change, 1, NULL), 0);
        db_change_done(&change);
    }
    assert_int_equal(db_prune(db, &config, &bytes, NULL), 0);
    db_close(db);
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    const size_t left = seen.rows.len;
    vec_done(&seen.rows);
    return left;
}

static uint64_t count_rows(const Rig *rig)
{
    sqlite3_stmt *statement;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT (SELECT count(*) FROM incidents) + (SELECT count(*) FROM events)"
                                        " + (SELECT count(*) FROM gpu_seen) + (SELECT count(*) FROM counts)"
                                        " + (SELECT count(*) FROM job_reports)",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const uint64_t count = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return count;
}

/* Rows of each table at this time. */
static void put_rows_at(Rig *rig, const char *name, uint64_t real_ns)
{
    const unsigned long long t = real_ns;
    char sql[1024];

    snprintf(sql, sizeof sql,
             "INSERT INTO incidents VALUES('i%s', 'cleared', %llu, %llu, %llu, '{}');"
             "INSERT INTO events(real_ns, sequence, json) VALUES(%llu, 0, '{}');"
             "INSERT INTO gpu_seen(uuid, last_real_ns) VALUES('g%s', %llu);"
             "INSERT INTO counts VALUES('c%s', 1, %llu);"
             "INSERT INTO job_reports(id, running, last_ns) VALUES('j%s', 0, %llu);",
             name, t, t, t, t, name, t, name, t, name, t);
    run_sql(rig, sql);
}

/* The agent runs for an hour, in a boot whose clock is at `mono_h` then, while the wall clock shows `real_h`. */
static void run_hour(Db *db, const char *boot, uint64_t mono_h, uint64_t real_h)
{
    DbClock before = {.mono_ns = mono_h * NS_PER_H, .real_ns = real_h * NS_PER_H}, now;

    snprintf(before.boot_id, sizeof before.boot_id, "%s", boot);
    assert_int_equal(db_note_clock(db, NULL, &before, NULL), 0);
    for (int i = 0; i < 6; i++) {
        now = before;
        now.mono_ns += 10 * NS_PER_MIN;
        now.real_ns += 10 * NS_PER_MIN;
        assert_int_equal(db_note_clock(db, &before, &now, NULL), 0);
        before = now;
    }
}

static uint64_t prune_hours(const Rig *rig, Db *db, uint64_t hours)
{
    const JournalConfig config = {.keep_ns = hours * NS_PER_H, .keep_jobs_ns = hours * NS_PER_H};
    uint64_t bytes;

    assert_int_equal(db_prune(db, &config, &bytes, NULL), 0);
    return count_rows(rig);
}

/* Rows grow old by the hours that the agent was there behind them. */
static void rows_go_by_age(void **state)
{
    Rig *rig = *state;
    Db *db;

    must_open(rig);
    close_it(rig);
    put_rows_at(rig, "0", 1000 * NS_PER_H + 1);
    put_rows_at(rig, "1", 1001 * NS_PER_H + 1);
    assert_int_equal(db_open(rig->path, false, &db, NULL), 0);
    run_hour(db, "a", 5, 1000);
    run_hour(db, "a", 6, 1001);
    run_hour(db, "b", 0, 2002);                    /* it was off for a thousand hours */
    assert_int_equal(prune_hours(rig, db, 4), 10); /* nothing is known of the hour before the first */
    assert_int_equal(prune_hours(rig, db, 3), 10);
    assert_int_equal(prune_hours(rig, db, 2), 5);
    assert_int_equal(prune_hours(rig, db, 1), 0);
    db_close(db);
}

/* The wall clock lies in 2096 for hours, before and after a boot, and is set right again: what was written then makes
 * the others not old, neither while it does nor afterwards. */
static void a_clock_in_the_future_deletes_nothing_else(void **state)
{
    enum { YEAR_2096 = 1104000 };
    Rig *rig = *state;
    Db *db;

    must_open(rig);
    close_it(rig);
    put_rows_at(rig, "0", 1000 * NS_PER_H + 1);
    put_rows_at(rig, "f", (YEAR_2096 + 1) * NS_PER_H - 1);
    assert_int_equal(db_open(rig->path, false, &db, NULL), 0);
    run_hour(db, "a", 5, 1000);
    run_hour(db, "a", 6, YEAR_2096);
    assert_int_equal(prune_hours(rig, db, 2), 10);
    run_hour(db, "b", 0, YEAR_2096 + 1);
    assert_int_equal(prune_hours(rig, db, 3), 10);
    run_hour(db, "b", 1, 1003);
    put_rows_at(rig, "1", 1004 * NS_PER_H - 1);
    assert_int_equal(prune_hours(rig, db, 4), 15);
    assert_int_equal(prune_hours(rig, db, 3), 10); /* the first is three hours old */
    run_hour(db, "b", 2, 1004);
    run_hour(db, "b", 3, 1005);
    assert_int_equal(prune_hours(rig, db, 2), 5);
    db_close(db);
}

/* For less than ten minutes at a time the clocks are not believed. */
static void a_clock_that_jumps_makes_nothing_old(void **state)
{
    DbClock before = {.boot_id = "a", .mono_ns = NS_PER_H, .real_ns = 1000 * NS_PER_H}, now = before;
    Rig *rig = *state;
    Db *db;

    must_open(rig);
    close_it(rig);
    put_rows_at(rig, "0", NS_PER_H);
    assert_int_equal(db_open(rig->path, false, &db, NULL), 0);
    for (int i = 0; i < 20; i++) {
        now.mono_ns += 10 * NS_PER_MIN;
        now.real_ns += i % 2 ? 21 * NS_PER_MIN : 0;
        assert_int_equal(db_note_clock(db, &before, &now, NULL), 0);
        before = now;
    }
    assert_int_equal(prune_hours(rig, db, 1), 5);
    db_close(db);
}

/* A row's age is the time that the ledger covers behind it: a clock that lies in the future makes no row older, nor
 * does the time in which the node was off. */
static void a_clock_in_the_future_deletes_no_rows(void **state)
{
    enum { TEN_YEARS = 87660 };
    Rig *rig = *state;
    const LedgerRow stepped[] = {ledger_row_at(1, "a", 0, 0), ledger_row_at(2, "a", 1, 1),
                                 ledger_row_at(3, "a", 2, TEN_YEARS)},
                    booted[] = {ledger_row_at(4, "b", 0, TEN_YEARS + 1), ledger_row_at(5, "b", 1, TEN_YEARS + 2)},
                    back[] = {ledger_row_at(6, "c", 0, 7)};

    must_open(rig);
    close_it(rig);
    assert_int_equal(prune_rows(rig, stepped, 3, 10 * NS_PER_H), 3);
    assert_int_equal(prune_rows(rig, booted, 2, 10 * NS_PER_H), 5);
    assert_int_equal(prune_rows(rig, back, 1, 10 * NS_PER_H), 6);
    assert_int_equal(prune_rows(rig, NULL, 0, 5 * NS_PER_H), 6); /* five hours behind the first */
    assert_int_equal(prune_rows(rig, NULL, 0, 5 * NS_PER_H - 1), 5);
    assert_int_equal(prune_rows(rig, NULL, 0, 3 * NS_PER_H - 1), 3);
    assert_int_equal(prune_rows(rig, NULL, 0, 1), 1);
}

/* Ticks of the ledger alone are not synced, what anybody waits for is. */
static void a_tick_survives_a_kill(void **state)
{
    Rig *rig = *state;
    Seen seen = {0};
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        const LedgerRow row = ledger_row_of(5, 1, "ann", 0);

        must_open(rig);
        wait_acked(rig, journal_put_ledger(rig->journal, &row));
        if (write(pipes[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(pipes[0], &(char){0}, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(pipes[0]);
    close(pipes[1]);
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    assert_int_equal(seen.rows.len, 1);
    vec_done(&seen.rows);
}

static void older_files_are_migrated(void **state)
{
    Rig *rig = *state;
    JournalGpu gpu = gpu_of(1);
    CLEANUP(str_done) Str bundle;

    make_first_version(rig);
    assert_migrated(rig);
    wait_acked(rig, journal_put_gpu(rig->journal, &gpu, false));
    assert_int_equal(rig->acked_on_disk, 1);
    assert_gpus(rig, &gpu, 1);
    str_init(&bundle, 1000);
    assert_int_equal(journal_read_bundle(rig->path, "inc000007", &bundle, NULL), 0);
    assert_string_equal(bundle.text, "{\"a\":1}");
    close_it(rig);

    make_first_version(rig);
    run_sql(rig, "CREATE TABLE gpu_seen(uuid TEXT PRIMARY KEY, serial TEXT, name TEXT, first_real_ns INTEGER,"
                 " last_real_ns INTEGER, drained INTEGER, pci TEXT) STRICT; PRAGMA user_version=2");
    assert_migrated(rig);
    wait_acked(rig, journal_put_gpu(rig->journal, &gpu, false));
    assert_gpus(rig, &gpu, 1);
    close_it(rig);

    /* rows of version 9 stay, without peaks */
    Seen seen = {0};
    must_open(rig);
    assert_ledger(rig);
    close_it(rig);
    run_sql(rig, NEW_AWAY "PRAGMA user_version=9");
    assert_gpus(rig, &gpu, 1);
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    assert_int_equal(seen.rows.len, 3);
    assert_int_equal(seen.rows.at[0].amounts[LEDGER_BUSY_NS], 4000000);
    assert_int_equal(seen.rows.at[0].peaks[LEDGER_PEAK_MEMORY], 0);
    vec_done(&seen.rows);
    assert_ledger(rig);
    close_it(rig);

    gpu.idle_mw = 0;
    run_sql(rig, IDLE_AWAY "PRAGMA user_version=8");
    assert_gpus(rig, &gpu, 1);
    close_it(rig);

    run_sql(rig, JOBS_AWAY "PRAGMA user_version=6");
    assert_gpus(rig, &gpu, 1);
    close_it(rig);

    run_sql(rig, LEDGER_AWAY "PRAGMA user_version=5");
    assert_gpus(rig, &gpu, 1);
    assert_ledger(rig);
    close_it(rig);

    /* version 3 had no energies, and as version 4 neither numbers of GPUs nor counts */
    JournalGpu plain = gpu;
    plain.device.index = plain.device.minor = DEVICE_NO_NUMBER;
    run_sql(rig, LEDGER_AWAY "ALTER TABLE gpu_seen DROP COLUMN gpu_index; ALTER TABLE gpu_seen DROP COLUMN minor;"
                             "DROP TABLE counts; PRAGMA user_version=4");
    assert_gpus(rig, &plain, 1);
    close_it(rig);
    run_sql(rig, LEDGER_AWAY "ALTER TABLE gpu_seen DROP COLUMN gpu_index; ALTER TABLE gpu_seen DROP COLUMN minor;"
                             "ALTER TABLE gpu_seen DROP COLUMN energy_mj; DROP TABLE counts; PRAGMA user_version=3");
    plain.energy_mj = 0;
    assert_gpus(rig, &plain, 1);
    assert_int_equal(schema_of(rig), JOURNAL_SCHEMA);
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    Rig *rig = *state;
    JournalState now;
    JournalKept kept;

    make_first_version(rig);
    run_sql(rig, "CREATE TABLE old_events(other TEXT)");
    must_open(rig);
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_MEMORY);
    assert_int_not_equal(journal_kept(rig->journal, &kept, NULL), 0);
    close_it(rig);
    assert_int_equal(schema_of(rig), 1);
    run_sql(rig, "SELECT other FROM old_events; SELECT uuid FROM incidents; DROP TABLE old_events");
    assert_migrated(rig);
}

static void one_process_has_it(void **state)
{
    Rig *rig = *state;
    Rig other = *rig;
    Err err = {0};

    must_open(rig);
    other.journal = NULL;
    const JournalConfig config = {.path = rig->path, .patience_ns = 20 * NS_PER_S};
    assert_int_equal(journal_open(&rig->loop, &config, acked, &other, &other.journal, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another process"));
    assert_null(other.journal);
}

/* Until it is on the disk: that may take longer than the journal's patience while others write there too. */
static uint64_t put_on_disk(Rig *rig, const Incident *incident)
{
    uint64_t ticket;

    do {
        ticket = journal_put_incident(rig->journal, incident);
        wait_acked(rig, ticket);
    } while (rig->acked_on_disk < ticket);
    return ticket;
}

/* Somebody else holds the file, as a disk that does not answer would. */
static void a_disk_that_hangs_delays_nothing_for_long(void **state)
{
    Rig *rig = *state;
    Incident incident = incident_of(1, INCIDENT_OPEN);
    JournalState now;
    sqlite3 *db;
    Err err;

    assert_int_equal(open_at(rig, 0, 0, 300 * NS_PER_MS, &err), 0);
    const uint64_t last = put_on_disk(rig, &incident);
    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_MEMORY);
    assert_int_equal(rig->acked_on_disk, last);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    while (journal_state(rig->journal, &now), now.health != JOURNAL_FINE)
        usleep(20000);
    put_on_disk(rig, &incident);
}

/* What is put while an older state of the same row is being written, and that fails, is the one that stays. */
static void the_newest_state_survives_a_failure(void **state)
{
    Rig *rig = *state;
    LedgerRow row = ledger_row_of(1, 1, "ann", 0);
    JournalState now;
    Seen seen = {0};
    uint64_t ticket;
    sqlite3 *db;
    Err err;

    assert_int_equal(open_at(rig, 0, 0, 20 * NS_PER_S, &err), 0);
    wait_acked(rig, journal_put_ledger(rig->journal, &row));
    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    do { /* some of these come while the one before is refused */
        row.amounts[LEDGER_ALLOC_NS]++;
        journal_put_ledger(rig->journal, &row);
        uv_run(&rig->loop, UV_RUN_NOWAIT);
        usleep(1000);
        journal_state(rig->journal, &now);
    } while (now.failures == 0);
    row.amounts[LEDGER_ALLOC_NS]++;
    ticket = journal_put_ledger(rig->journal, &row);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    while (journal_state(rig->journal, &now), now.on_disk < ticket)
        usleep(20000);
    wait_acked(rig, ticket);
    assert_int_equal(now.queued, 0);
    read_ledger(rig, (JournalLedgerQuery){EVER}, &seen);
    assert_int_equal(seen.rows.len, 1);
    assert_int_equal(seen.rows.at[0].amounts[LEDGER_ALLOC_NS], row.amounts[LEDGER_ALLOC_NS]);
    vec_done(&seen.rows);
}

static void no_folder_can_be_made(void **state)
{
    Rig *rig = *state;
    Incident incident = incident_of(1, INCIDENT_OPEN);
    JournalState now;

    snprintf(rig->path, sizeof rig->path, "%s/file/journal.db", rig->dir);
    char file[96];
    snprintf(file, sizeof file, "%s/file", rig->dir);
    assert_int_equal(file_write(file, "x", 1, 0600, NULL), 0);
    must_open(rig);
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_MEMORY);
    assert_non_null(strstr(now.why, rig->dir));
    assert_int_equal(rig->acked_on_disk, 0);
}

static void without_a_file(void **state)
{
    Rig *rig = *state;
    Incident incident = incident_of(1, INCIDENT_OPEN);
    JournalState now;
    JournalKept kept;

    rig->path[0] = '\0';
    must_open(rig);
    wait_acked(rig, journal_put_incident(rig->journal, &incident));
    journal_state(rig->journal, &now);
    assert_int_equal(now.health, JOURNAL_OFF);
    assert_int_equal(journal_kept(rig->journal, &kept, NULL), 0);
    assert_int_equal(kept.incidents.len, 0);
}

/* How many incidents in this state (-1: any) changed since. */
static size_t count_incidents(const Rig *rig, int state, uint64_t since_real_ns)
{
    IncidentList list = {0};

    assert_int_equal(journal_read_incidents(rig->path, state, since_real_ns, &list, NULL), 0);
    const size_t count = list.len;
    vec_done(&list);
    return count;
}

static size_t count_events(const Rig *rig, uint64_t since_real_ns)
{
    EventSeenList list = {0};

    assert_int_equal(journal_read_events(rig->path, since_real_ns, &list, NULL), 0);
    for (size_t i = 0; i < list.len; i++) {
        assert_int_equal(list.at[i].event.kind, EVENT_XID);
        assert_string_equal(list.at[i].incident, "inc000001");
    }
    const size_t count = list.len;
    vec_done(&list);
    return count;
}

static void asked_beside_the_agent(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str bundle;
    IncidentList list = {0};
    uint64_t ticket = 0;
    Event event;
    Err err;

    must_open(rig);
    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    event.real_ns = 1500 * NS_PER_S;
    for (int n = 0; n < 30; n++) {
        Incident incident = incident_of(n, n % 3 ? INCIDENT_CLEARED : INCIDENT_OPEN);

        journal_put_incident(rig->journal, &incident);
        ticket = journal_put_event(rig->journal, &event, "inc000001", NULL);
    }
    ticket = journal_put_bundle(rig->journal, "inc000001", "{\"a\":1}", 7);
    wait_acked(rig, ticket);
    assert_int_equal(count_incidents(rig, -1, 0), 30);
    assert_int_equal(count_incidents(rig, INCIDENT_OPEN, 0), 10);
    assert_int_equal(count_incidents(rig, -1, 1025 * NS_PER_S), 5);
    assert_int_equal(journal_read_incidents(rig->path, -1, 0, &list, &err), 0);
    for (size_t i = 0; i < list.len; i++) /* the last first */
        assert_int_equal(list.at[i].revision, 29 - i);
    vec_done(&list);
    assert_int_equal(count_events(rig, 0), 30);
    assert_int_equal(count_events(rig, 1501 * NS_PER_S), 0);
    str_init(&bundle, 1000);
    assert_int_equal(journal_read_bundle(rig->path, "inc000001", &bundle, &err), 0);
    assert_string_equal(bundle.text, "{\"a\":1}");
    assert_int_equal(journal_read_bundle(rig->path, "nobody", &bundle, &err), -ENOENT);
    assert_int_equal(journal_read_incidents("/nonexistent/db", -1, 0, &list, &err), -ENOENT);
}

/* The agent ran for so many seconds until this one, in a boot of its own. */
static void put_clock(const Rig *rig, unsigned seconds, unsigned until)
{
    char sql[256];

    snprintf(sql, sizeof sql,
             "INSERT INTO clocks(boot, first_ns, last_ns, first_mono_ns, last_mono_ns) VALUES('b%u', %u000000000, "
             "%u000000000, 0, %u000000000)",
             until, until - seconds, until, seconds);
    run_sql(rig, sql);
}

/* The thread takes old things away when it starts. */
static void old_things_go(void **state)
{
    Rig *rig = *state;
    uint64_t ticket = 0;
    Event event;
    Err err;
    const JournalGpu gpus[] = {gpu_of(20), gpu_of(90)};

    must_open(rig);
    for (size_t i = 0; i < ARRAY_LEN(gpus); i++)
        journal_put_gpu(rig->journal, &gpus[i], false);
    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    for (int n = 0; n < 100; n++) {
        Incident incident = incident_of(n, n == 5 ? INCIDENT_OPEN : INCIDENT_CLEARED);

        event.real_ns = incident.updated_real_ns;
        journal_put_event(rig->journal, &event, "inc000001", NULL);
        ticket = journal_put_incident(rig->journal, &incident);
    }
    wait_acked(rig, ticket);
    close_it(rig);
    put_clock(rig, 99, 1099);
    assert_int_equal(open_at(rig, 20 * NS_PER_S, 0, 20 * NS_PER_S, &err), 0);
    while (count_incidents(rig, -1, 0) > 22)
        usleep(20000);
    assert_int_equal(count_incidents(rig, -1, 0), 22); /* 79 to 99, and 5, which is open */
    assert_int_equal(count_events(rig, 0), 21);
    assert_gpus(rig, &gpus[1], 1);
}

/* Age is the time in which agents ran: with every run the limit advances. */
static void the_age_limit_advances(void **state)
{
    Rig *rig = *state;
    Err err;

    for (int n = 0; n < 4; n++) {
        Incident incident = incident_of(20 * n, INCIDENT_CLEARED);

        assert_int_equal(open_at(rig, 30 * NS_PER_S, 0, 20 * NS_PER_S, &err), 0);
        wait_acked(rig, journal_put_incident(rig->journal, &incident));
        close_it(rig);
        if (n > 0)
            put_clock(rig, 20, 1000 + 20 * (unsigned)n);
    }
    assert_int_equal(open_at(rig, 30 * NS_PER_S, 0, 20 * NS_PER_S, &err), 0);
    while (count_incidents(rig, -1, 0) > 2)
        usleep(20000);
    assert_int_equal(count_incidents(rig, -1, 0), 2); /* of 0, 20, 40 and 60 s: those within 30 s of the last */
}

static void retries_slow_down_to_a_limit(void **state)
{
    uint64_t pause_ms = 0, last_ms = 0, total_ms = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        pause_ms = db_next_retry_ms(last_ms);
        assert_true(pause_ms >= last_ms);
        assert_in_range(pause_ms, 500, 10000);
        last_ms = pause_ms;
        total_ms += pause_ms;
    }
    assert_int_equal(db_next_retry_ms(0), 500);
    assert_int_equal(db_next_retry_ms(500), 1000);
    assert_int_equal(pause_ms, 10000);
    assert_true(total_ms > 100000);
    assert_int_equal(db_next_retry_ms(1), 500); /* after a damaged file */
}

static void a_large_file_shrinks(void **state)
{
    Rig *rig = *state;
    uint64_t ticket = 0;
    struct stat st;
    Err err;

    must_open(rig);
    for (int n = 0; n < 1000; n++) {
        Incident incident = incident_of(n, n < 3 ? INCIDENT_OPEN : INCIDENT_CLEARED);
        ticket = journal_put_incident(rig->journal, &incident);
    }
    wait_acked(rig, ticket);
    close_it(rig);
    assert_int_equal(stat(rig->path, &st), 0);
    assert_true(st.st_size > 600000);
    assert_int_equal(open_at(rig, 0, 300000, 20 * NS_PER_S, &err), 0);
    while (count_incidents(rig, -1, 0) > 900)
        usleep(20000);
    close_it(rig); /* the thread ends what it is at */
    assert_int_equal(stat(rig->path, &st), 0);
    assert_true(st.st_size < 400000);
    assert_int_equal(count_incidents(rig, INCIDENT_OPEN, 0), 3);
}

static void a_backlog_has_an_end(void **state)
{
    Rig *rig = *state;
    JournalState now;
    Event event;
    uint64_t ticket = 0;

    snprintf(rig->path, sizeof rig->path, "/proc/nothing/journal.db");
    must_open(rig);
    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    for (int n = 0; n < JOURNAL_BACKLOG + 500; n++)
        ticket = journal_put_event(rig->journal, &event, "", NULL);
    wait_acked(rig, ticket);
    journal_state(rig->journal, &now);
    assert_int_equal(now.dropped, 500);
    assert_int_equal(now.queued, JOURNAL_BACKLOG);
    assert_true(rig->in_order);
    const LedgerRow row = {.id = 1,
                           .device = "gpu/GPU-1"}; /* does not drive out events, and leaves room for incidents */
    const Incident incident = incident_of(1, INCIDENT_OPEN);
    assert_int_equal(journal_put_ledger(rig->journal, &row), 0); /* it was not taken */
    ticket = journal_put_incident(rig->journal, &incident);
    wait_acked(rig, ticket);
    journal_state(rig->journal, &now);
    assert_int_equal(now.dropped + now.queued, JOURNAL_BACKLOG + 502);
    assert_in_range(now.queued, JOURNAL_BACKLOG,
                    JOURNAL_BACKLOG + 1); /* an event went, unless all were being written */
    (void)journal_put_ledger(rig->journal, &row);
    const uint64_t before = now.dropped;
    journal_state(rig->journal, &now);
    assert_int_equal(now.dropped, before + 1); /* it was not kept: there is nothing to replace */
}

/* No event is in the backlog that could go for another. */
static void what_finds_no_room_has_no_ticket(void **state)
{
    Rig *rig = *state;
    char key[16];
    Event event;

    snprintf(rig->path, sizeof rig->path, "/proc/nothing/journal.db");
    must_open(rig);
    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    for (uint64_t n = 1; n <= JOURNAL_BACKLOG; n++) {
        snprintf(key, sizeof key, "inc%d", (int)n);
        assert_int_equal(journal_put_outbox(rig->journal, "pager", key, "{}", 2), n);
    }
    assert_int_equal(journal_put_event(rig->journal, &event, "", NULL), 0);
    assert_int_equal(journal_put_outbox(rig->journal, "pager", "one more", "{}", 2), JOURNAL_BACKLOG + 2);
    wait_acked(rig, JOURNAL_BACKLOG + 2); /* the event's has passed too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_record_is_a_position, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_later_revision_replaces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_outbox_keeps_its_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_acknowledged_survives_a_kill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_stops_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_set_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_may_read_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_set_aside_have_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_under_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newer_schema_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gpus_that_were_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gpus_that_are_none_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_go_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(older_files_are_migrated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_the_ledger_grow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_the_ledger_are_merged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_rows_of_the_ledger_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_go_by_age, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clock_in_the_future_deletes_nothing_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clock_that_jumps_makes_nothing_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clock_in_the_future_deletes_no_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tick_survives_a_kill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_migration_that_fails_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_process_has_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_disk_that_hangs_delays_nothing_for_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_state_survives_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_folder_can_be_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asked_beside_the_agent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_things_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_age_limit_advances, set_up, tear_down),
        cmocka_unit_test(retries_slow_down_to_a_limit),
        cmocka_unit_test_setup_teardown(a_large_file_shrinks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(job_reports_are_found_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_tests_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_job_reports_are_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_backlog_has_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_finds_no_room_has_no_ticket, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
