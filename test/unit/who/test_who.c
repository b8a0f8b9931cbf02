/* SPDX-License-Identifier: Apache-2.0 */
/* service/who/who.c: the table and the JSON of holdings, alone, of one GPU and summed up by owner. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/who/who.h"

static NodeGpu gpus[3];
static Reading instances[2];
static Activity words[2];
static Node node = {.hostname = "node-7", .real_ns = 1767614400 * NS_PER_S, .gpus = gpus, .gpu_count = 3};
static const HoldingProcess processes[] = {{.pid = 100, .name = "vllm", .user = "root"}};

static const Holding holdings[] = {
    {.gpu = 0,
     .gpu_instance = DEVICE_NO_NUMBER,
     .compute_instance = DEVICE_NO_NUMBER,
     .owner =
         {.user = "root", .pod = "chat-0", .namespace = "serving", .container = "main", .process = "vllm", .pid = 100},
     .state = HOLDING_USED,
     .attribution = ATTRIBUTION_SAMPLED,
     .share = 0.75,
     .sm_share = 0.6,
     .memory_bytes = UINT64_C(20) << 30,
     .process_count = 1,
     .processes = processes},
    {.gpu = 0,
     .gpu_instance = DEVICE_NO_NUMBER,
     .compute_instance = DEVICE_NO_NUMBER,
     .owner = {.pod = "chat-1", .namespace = "serving", .container = "main", .pid = -1},
     .state = HOLDING_RESERVED,
     .basis = HOLDING_BY_GRANT,
     .grant = HOLDING_GRANT_KUBELET,
     .attribution = ATTRIBUTION_SAMPLED,
     .share = 0.25,
     .sm_share = NAN},
    {.gpu = 1,
     .gpu_instance = 7,
     .compute_instance = 0,
     .owner = {.user = "alice", .job = "4711", .account = "physics", .process = "python", .pid = 200},
     .state = HOLDING_IDLE_HELD,
     .attribution = ATTRIBUTION_MIG,
     .share = 1,
     .sm_share = NAN,
     .memory_bytes = UINT64_C(5) << 30,
     .process_count = 1,
     .processes = processes},
};
static const JobInfo jobs[] = {{.job = "4711", .name = "pretrain", .account = "physics", .nodes = 2}};
static const Snapshot snapshot = {
    .node = &node, .job_infos = {jobs, 1}, .holdings = holdings, .holding_count = ARRAY_LEN(holdings)};

static int open_node(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        gpus[i].reading.device.index = i;
        gpus[i].state = GPU_UP;
        sample_set_int64(&gpus[i].process_list, 1, 0);
        snprintf(gpus[i].reading.device.uuid, DEVICE_UUID_CAP, "GPU-%u", i);
    }
    gpus[0].activity.word = ACTIVITY_WORKING;
    gpus[2].activity.word = ACTIVITY_FREE;
    gpus[1].instances = instances;
    gpus[1].instance_count = 2;
    gpus[1].instance_activity = words;
    for (uint32_t k = 0; k < 2; k++) {
        reading_init(&instances[k], DEVICE_COMPUTE_INSTANCE);
        instances[k].device.gpu_instance = 7 + k;
        instances[k].device.compute_instance = 0;
        snprintf(instances[k].device.uuid, DEVICE_UUID_CAP, "MIG-%u", k);
        words[k].word = ACTIVITY_IDLE_HELD;
    }
    return 0;
}

static void expect(const char *by, const char *gpu, void (*write)(const Snapshot *, const WhoQuery *, Str *),
                   const char *wanted)
{
    CLEANUP(str_done) Str out = str_limited(65536);
    WhoQuery query;

    assert_int_equal(who_query_read(&snapshot, by, gpu, &query, NULL), 0);
    write(&snapshot, &query, &out);
    assert_string_equal(out.text ? out.text : "", wanted);
}

static void the_table(void **state)
{
    (void)state;
    expect(NULL, NULL, who_text,
           "GPU        STATE      ACTIVITY   SHARE  BY         MEMORY  PROCESSES  OWNER\n"
           "0          used       working     75 %  sampled  20.0 GiB          1  pod serving/chat-0, main\n"
           "0          reserved   idle held   25 %  sampled         -          0  pod serving/chat-1, main\n"
           "1 MIG 7/0  idle_held  idle held  100 %  mig      5.00 GiB          1  job 4711 of alice, pretrain\n"
           "Nobody holds GPU 1 MIG 8/0 (idle held), 2\n");
    expect(NULL, "mig-0", who_text, /* in any case of letters */
           "GPU        STATE      ACTIVITY   SHARE  BY     MEMORY  PROCESSES  OWNER\n"
           "1 MIG 7/0  idle_held  idle held  100 %  mig  5.00 GiB          1  job 4711 of alice, pretrain\n");
    expect(NULL, "2", who_text, "Nobody holds GPU 2\n");
}

static void sums_by_owner(void **state)
{
    (void)state;
    expect("namespace", NULL, who_text,
           "GPUS   MIG  IDLE    MEMORY  PROCESSES  NAMESPACE\n"
           "1.00  0.00  0.25  20.0 GiB          1  serving\n"
           "0.00  1.00  1.00  5.00 GiB          1  -\n"
           "Nobody holds GPU 1 MIG 8/0 (idle held), 2\n");
    expect("pod", "0", who_text,
           "GPUS   MIG  IDLE    MEMORY  PROCESSES  POD\n"
           "0.75  0.00  0.00  20.0 GiB          1  serving/chat-0\n"
           "0.25  0.00  0.25         -          0  serving/chat-1\n");
    expect("account", "MIG-0", who_json,
           "{\"time\":\"2026-01-05T12:00:00.000Z\",\"node\":\"node-7\",\"allocations\":[{\"gpu\":1,\"uuid\":\"GPU-1\","
           "\"instance\":{\"gpu_instance\":7,\"compute_instance\":0},\"owner\":{\"user\":\"alice\",\"job\":\"4711\","
           "\"account\":\"physics\",\"pod\":null,\"namespace\":null,\"container\":null,\"process\":\"python\",\"text\":"
           "\"job 4711 of alice\",\"pid\":"
           "200},\"workload\":null,"
           "\"state\":\"idle_held\",\"basis\":\"process\",\"grant\":\"none\",\"attribution\":\"mig\",\"activity\":"
           "\"idle held\",\"share\":1,\"sm_share\":null,"
           "\"memory_bytes\":5368709120,\"processes\":[{\"pid\":100,\"name\":\"vllm\",\"user\":\"root\"}]}],"
           "\"jobs\":[{\"job\":\"4711\",\"name\":\"pretrain\",\"account\":\"physics\",\"nodes\":2}],"
           "\"by\":\"account\",\"owners\":[{\"owner\":\"physics\",\"gpus\":0,\"instances\":1,\"idle\":1,"
           "\"memory_bytes\":5368709120,\"processes\":1}]}\n");
}

static void the_json(void **state)
{
    (void)state;
    expect(NULL, "2", who_json,
           "{\"time\":\"2026-01-05T12:00:00.000Z\",\"node\":\"node-7\",\"allocations\":[],"
           "\"jobs\":[{\"job\":\"4711\",\"name\":\"pretrain\",\"account\":\"physics\",\"nodes\":2}]}\n");
}

/* A holder that the driver does not list, and why there may be more. */
/* What other screens say of a device: the width at, above and below which names are cut. */
static void who_holds_it(void **state)
{
    static const char shared[] = "pod serving/chat-0 75 % (sampled), pod serving/chat-1 25 % (sampled, reserved)";
    static const struct {
        size_t gpu, instance, width, count; /* instance: SIZE_MAX none */
        HoldingState state;                 /* of all that hold it; END: as they are */
        const char *text;
    } rows[] = {
        {0, SIZE_MAX, 200, 2, HOLDING_STATE_END, shared},
        {0, SIZE_MAX, 1, 2, HOLDING_STATE_END, "2 owners"},
        {1, SIZE_MAX, 200, 0, HOLDING_STATE_END, ""}, /* its instance is not the GPU */
        {1, 0, 200, 1, HOLDING_STATE_END, "job 4711 of alice"},
        {1, 0, 17, 1, HOLDING_STATE_END, "job 4711 of alice"},
        {1, 0, 16, 1, HOLDING_STATE_END, "job 4711"},
        {1, 0, 200, 1, HOLDING_UNMANAGED, "job 4711 of alice (unmanaged)"},
        {1, 0, 200, 1, HOLDING_RESERVED, "job 4711 of alice (reserved)"},
        {1, 1, 200, 0, HOLDING_STATE_END, ""},
        {2, SIZE_MAX, 200, 0, HOLDING_STATE_END, ""},
    };
    (void)state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(str_done) Str out = str_limited(4096);
        Holding copy[ARRAY_LEN(holdings)];
        Snapshot seen = snapshot;
        size_t count = 99;

        memcpy(copy, holdings, sizeof copy);
        for (size_t k = 0; k < ARRAY_LEN(copy); k++)
            copy[k].state = rows[i].state == HOLDING_STATE_END ? copy[k].state : rows[i].state;
        seen.holdings = copy;
        const Reading *instance = rows[i].instance == SIZE_MAX ? NULL : &instances[rows[i].instance];
        const Holding *list = who_list(&seen, &gpus[rows[i].gpu], instance, &count);
        assert_int_equal(count, rows[i].count);
        assert_int_equal(list == NULL, count == 0);
        str_add(&out, "held by ");
        who_add_holders(list, count, rows[i].width, &out);
        assert_string_equal(out.text + strlen("held by "), rows[i].text);
    }
}

static void who_is_not_listed(void **state)
{
    const Holding held = {.gpu = 2,
                          .gpu_instance = DEVICE_NO_NUMBER,
                          .compute_instance = DEVICE_NO_NUMBER,
                          .owner = {.user = "bob", .process = "python", .pid = 300},
                          .state = HOLDING_UNMANAGED,
                          .basis = HOLDING_BY_OPEN_FILE,
                          .attribution = ATTRIBUTION_EXCLUSIVE,
                          .share = 1,
                          .sm_share = NAN};
    const Snapshot seen = {.node = &node, .holdings = &held, .holding_count = 1, .holders_why = "that needs root"};
    const WhoQuery query = {.by = OWNER_KEY_END, .gpu = &gpus[2]};
    CLEANUP(str_done) Str out = str_limited(65536);

    (void)state;
    who_text(&seen, &query, &out);
    assert_non_null(strstr(out.text, "python (300) of bob, has it open\n"));
    assert_non_null(strstr(out.text, "not all other processes could be searched: that needs root\n"));
    str_clear(&out);
    who_json(&seen, &query, &out);
    assert_non_null(strstr(out.text, "\"basis\":\"open_file\",\"grant\":\"none\""));
    assert_non_null(strstr(out.text, "\"unlisted_why\":\"that needs root\""));
}

/* Nobody is said to be on a GPU whose processes are not known. */
static void what_is_not_known(void **state)
{
    const WhoQuery all = {.by = OWNER_KEY_END}, one = {.by = OWNER_KEY_END, .gpu = &gpus[2]};
    const Snapshot seen = {.node = &node};
    CLEANUP(str_done) Str out = str_limited(65536);
    WhoQuery query;
    Err err = {0};

    (void)state;
    assert_true(who_is_known(&seen, &all) && who_is_known(&seen, &one));
    gpus[2].state = GPU_HUNG;
    sample_set_absent(&gpus[0].process_list, 1, ABSENCE_NO_PERMISSION);
    who_text(&seen, &all, &out);
    assert_string_equal(out.text, "Nobody holds GPU 1 MIG 7/0 (idle held), 1 MIG 8/0 (idle held)\n"
                                  "Not known who holds GPU 0 (more permissions are needed), 2 (the driver does not "
                                  "answer for it)\n");
    str_clear(&out);
    who_json(&seen, &one, &out);
    assert_non_null(strstr(out.text, "\"not_known\":[{\"gpu\":2,\"uuid\":\"GPU-2\",\"pci\":null,\"reason\":\"the "
                                     "driver does not answer for it\"}]"));
    assert_true(who_is_known(&seen, &all) && !who_is_known(&seen, &one));
    assert_int_equal(who_query_read(&seen, NULL, "9", &query, &err), -ENOENT); /* each tells its name */
    gpus[2].reading.device.index = DEVICE_NO_NUMBER;
    assert_int_equal(who_query_read(&seen, NULL, "2", &query, &err), -EIO);
    assert_non_null(strstr(err.text, "cannot be read: the driver does not answer for it"));
    gpus[2].state = GPU_STARTING;
    assert_int_equal(who_query_read(&seen, NULL, "2", &query, &err), -EIO);
    assert_non_null(strstr(err.text, "the driver has not answered for it yet"));
    open_node(state);
}

/* Who holds most GPUs is first, then who holds most instances, then by name; of work its kind is told too. */
static void who_holds_most_is_first(void **state)
{
    static const Workload workloads[] = {{.kind = "Job", .name = "train"},
                                         {.name = "serve", .derived = true},
                                         {.kind = "Set", .name = "x", .derived = true}};
    static const char *const users[] = {"eve", "bob", "ada", "dan", "cid"};
    static const double shares[] = {1, .5, .5, .25, .5};
    static Holding held[5];
    const Snapshot seen = {.node = &node, .holdings = held, .holding_count = ARRAY_LEN(held)};
    CLEANUP(str_done) Str out = str_limited(65536);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        held[i] = (Holding){.gpu = 0,
                            .gpu_instance = i < 2 ? DEVICE_NO_NUMBER : 7,
                            .compute_instance = i < 2 ? DEVICE_NO_NUMBER : 0,
                            .share = shares[i],
                            .workload = workloads[i % 3],
                            .basis = i == 4 ? HOLDING_BY_OPEN_FILE : HOLDING_BY_PROCESS};
        snprintf(held[i].owner.user, sizeof held[i].owner.user, "%s", users[i]);
    }
    held[3].workload.name[0] = '\0';
    gpus[0].reading.device.index = DEVICE_NO_NUMBER;
    who_text(&seen, &(WhoQuery){.by = OWNER_BY_USER}, &out);
    assert_string_equal(out.text, "GPUS   MIG  IDLE  MEMORY  PROCESSES  USER\n"
                                  "1.00  0.00  0.00       -          0  eve\n"
                                  "0.50  0.00  0.00       -          0  bob\n"
                                  "0.00  0.50  0.00       -          0  ada\n"
                                  "0.00  0.50  0.00       -          0  cid\n"
                                  "0.00  0.25  0.00       -          0  dan\n"
                                  "Nobody holds GPU 1 MIG 7/0 (idle held), 1 MIG 8/0 (idle held), 2\n");
    str_clear(&out);
    gpus[0].reading.device.has_pci = true;
    gpus[0].reading.device.pci.bus = 0x1b;
    who_text(&seen, &(WhoQuery){.by = OWNER_KEY_END}, &out);
    assert_string_equal(
        out.text,
        "GPU                   STATE  ACTIVITY  SHARE  BY       MEMORY  PROCESSES  OWNER\n"
        "0000:1b:00.0          used   working   100 %  unknown       -          0  eve, of Job train\n"
        "0000:1b:00.0          used   working    50 %  unknown       -          0  bob, of serve by its name\n"
        "0000:1b:00.0 MIG 7/0  used   unknown    50 %  unknown       -          0  ada, of Set x by its name\n"
        "0000:1b:00.0 MIG 7/0  used   unknown    25 %  unknown       -          0  dan\n"
        "0000:1b:00.0 MIG 7/0  used   unknown    50 %  unknown       -          0  cid, of serve by its name, has it "
        "open\n"
        "Nobody holds GPU 1 MIG 7/0 (idle held), 1 MIG 8/0 (idle held), 2\n");
    gpus[0].reading.device.has_pci = false;
}

static void what_is_not_there(void **state)
{
    WhoQuery query = {.by = OWNER_BY_POD};
    Err err = {0};

    (void)state;
    assert_int_equal(who_query_read(&snapshot, "colour", NULL, &query, &err), -EINVAL);
    assert_string_equal(err.text, "by 'colour': user, job, pod, namespace, account or container is allowed");
    assert_int_equal(who_query_read(&snapshot, NULL, "9", &query, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'9'"));
    assert_int_equal(query.by, OWNER_BY_POD); /* untouched */
}

/* --- since some time ---------------------------------------------------------------------------------------------- */

#define HOUR_NS (3600 * NS_PER_S)

static LedgerRow row_of(const char *device, const char *user, const char *job, uint64_t hours, uint64_t idle)
{
    LedgerRow row = {.held = user != NULL,
                     .share_kind = ATTRIBUTION_EXCLUSIVE,
                     .from_real_ns = 1767614400 * NS_PER_S,
                     .until_real_ns = 1767618000 * NS_PER_S,
                     .owner.pid = -1,
                     .amounts = {[LEDGER_ALLOC_NS] = hours * HOUR_NS, [LEDGER_IDLE_NS] = idle * HOUR_NS}};

    snprintf(row.device, sizeof row.device, "%s", device);
    snprintf(row.owner.user, sizeof row.owner.user, "%s", user ? user : "");
    snprintf(row.owner.job, sizeof row.owner.job, "%s", job ? job : "");
    return row;
}

static void sum_up(OwnerKey by, const char *device, void (*write)(const WhoPast *, Str *), Str *out)
{
    const LedgerRow rows[] = {
        row_of("gpu/GPU-1", "alice", "4711", 2, 1), row_of("gpu/GPU-0", "alice", "4711", 1, 0),
        row_of("gpu/GPU-0", "bob", NULL, 3, 3),     row_of("gpu/GPU-1/gi/7/ci/0", "", NULL, 4, 0),
        row_of("gpu/GPU-0", NULL, NULL, 5, 0),      row_of("gpu/GPU-1", "alice", "4711", 2, 0),
        row_of("gpu/GPU-11", "bob", NULL, 0, 0), /* unhealthy for all of its time */
    };
    WhoPast past = {
        .by = by, .node = "node-7", .since_real_ns = 1767614400 * NS_PER_S, .now_real_ns = 1767618000 * NS_PER_S};

    snprintf(past.device, sizeof past.device, "%s", device);
    who_past_init(&past);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        who_past_add(&past, &rows[i]);
    who_past_finish(&past);
    write(&past, out);
    who_past_done(&past);
}

static void who_held_since(void **state)
{
    CLEANUP(str_done) Str out = str_limited(65536);

    (void)state;
    sum_up(OWNER_KEY_END, "", who_past_text, &out);
    assert_string_equal(out.text, "HOURS  HELD IDLE  BY         GPU              OWNER\n"
                                  " 3.00       3.00  exclusive  GPU-0            bob\n"
                                  " 1.00       0.00  exclusive  GPU-0            job 4711 of alice\n"
                                  " 4.00       1.00  exclusive  GPU-1            job 4711 of alice\n"
                                  " 4.00       0.00  exclusive  GPU-1/gi/7/ci/0  unknown\n"
                                  "Nobody held 5.00 GPU hours\n");
    str_clear(&out);
    sum_up(OWNER_BY_USER, "", who_past_text, &out);
    assert_string_equal(out.text, "GPU HOURS  HELD IDLE  USER\n"
                                  "     5.00       1.00  alice\n"
                                  "     4.00       0.00  -\n"
                                  "     3.00       3.00  bob\n"
                                  "Nobody held 5.00 GPU hours\n");
    str_clear(&out);
    sum_up(OWNER_BY_JOB, "gpu/GPU-1", who_past_json, &out); /* with what is on it, and not GPU-11 */
    assert_string_equal(out.text, "{\"time\":\"2026-01-05T13:00:00.000Z\",\"node\":\"node-7\",\"since\":"
                                  "\"2026-01-05T12:00:00.000Z\",\"unheld_gpu_hours\":0,\"by\":\"job\",\"owners\":["
                                  "{\"owner\":null,\"gpu_hours\":4,\"held_idle_gpu_hours\":0},"
                                  "{\"owner\":\"4711\",\"gpu_hours\":4,\"held_idle_gpu_hours\":1}]}\n");
    str_clear(&out);
    sum_up(OWNER_KEY_END, "gpu/GPU-1/gi/7/ci/0", who_past_json, &out);
    assert_non_null(strstr(out.text, "\"held\":[{\"device\":\"gpu/GPU-1/gi/7/ci/0\",\"owner\":{\"user\":null,"));
    assert_non_null(strstr(out.text, "\"attribution\":\"exclusive\",\"from\":\"2026-01-05T12:00:00.000Z\",\"until\":"
                                     "\"2026-01-05T13:00:00.000Z\",\"gpu_hours\":4,\"held_idle_gpu_hours\":0}]}\n"));
    str_clear(&out);
    sum_up(OWNER_KEY_END, "gpu/GPU-9", who_past_text, &out);
    assert_string_equal(out.text, "Nobody held 0.00 GPU hours\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(sums_by_owner),
        cmocka_unit_test(the_json),
        cmocka_unit_test(who_holds_it),
        cmocka_unit_test(who_is_not_listed),
        cmocka_unit_test(who_held_since),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(what_is_not_there),
        cmocka_unit_test(who_holds_most_is_first),
    };

    return cmocka_run_group_tests(tests, open_node, NULL);
}
