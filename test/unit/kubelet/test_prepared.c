/* SPDX-License-Identifier: Apache-2.0 */
/* service/kubelet/{prepared,claim_spec}.c: claims that are prepared, on the disk and in memory, and their files for the
 * runtime. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "service/kubelet/dra.h"

#define DRIVER "gpu.nvidia.com"
#define RESULT(request, device)                                                                                        \
    "{\"request\":\"" request "\",\"driver\":\"" DRIVER "\",\"pool\":\"n\",\"device\":\"" device "\"}"
#define ADMIN(request, device)                                                                                         \
    "{\"request\":\"" request "\",\"driver\":\"" DRIVER "\",\"pool\":\"n\",\"device\":\"" device                       \
    "\",\"adminAccess\":true}"
#define CONFIG(requests, sharing)                                                                                      \
    "{\"source\":\"FromClaim\",\"requests\":" requests ",\"opaque\":{\"driver\":\"" DRIVER                             \
    "\",\"parameters\":{\"apiVersion\":\"resource.nvidia.com/v1beta1\",\"kind\":\"GpuConfig\",\"sharing\":" sharing    \
    "}}}"
#define SLICE(interval) "{\"strategy\":\"TimeSlicing\",\"timeSlicingConfig\":{\"interval\":\"" interval "\"}}"
#define MPS(limits) "{\"strategy\":\"MPS\",\"mpsConfig\":{\"defaultActiveThreadPercentage\":30" limits "}}"
#define SLOT "gpu-0-mig-1g10gb-19-4" /* profile 19 at memory slice 4 */

static char root[64], path[128];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/stoker-claims-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/claims.json", root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree("/tmp", root + strlen("/tmp/"), NULL);
}

static Prepared *prepare(const char *uid, const char *results, const char *configs)
{
    Prepared *prepared = NULL;
    char text[8192];
    Err err = {0};

    snprintf(text, sizeof text,
             "{\"metadata\":{\"uid\":\"%s\",\"name\":\"c\",\"namespace\":\"ns\",\"labels\":{}},\"spec\":{},"
             "\"status\":{\"reservedFor\":[],\"allocation\":{\"devices\":{\"results\":[%s],\"config\":[%s]}}}}",
             uid, results, configs);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    if (prepared_new(object, DRIVER, &prepared, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(object);
    return prepared;
}

/* What the daemons of these claims are, "NAME 30%: UUID=LIMIT UUID=LIMIT" a line. */
static void assert_daemons(const Prepared *first, const char *wanted)
{
    CLEANUP(arena_done) Arena arena = {0};
    MpsDaemonConfigs daemons = {0};
    char text[1024] = "";
    size_t len = 0;

    prepared_daemons(first, &arena, &daemons);
    for (size_t i = 0; i < daemons.len; i++) {
        const MpsDaemonConfig *one = &daemons.at[i];

        len += (size_t)snprintf(text + len, sizeof text - len, "%s %u%%:", one->name, one->thread_percent);
        for (size_t k = 0; k < one->uuid_count; k++)
            len += (size_t)snprintf(text + len, sizeof text - len, " %s=%llu", one->uuids[k],
                                    (unsigned long long)one->limit_bytes[k]);
        len += (size_t)snprintf(text + len, sizeof text - len, "\n");
    }
    vec_done(&daemons);
    assert_string_equal(text, wanted);
}

/* --- sharing ------------------------------------------------------------------------------------------------------ */

/* Devices of one entry have one daemon, named after the first that is not looked at alone; a limit is by UUID or by the
 * position among them. */
static void a_daemon_serves_the_devices_of_its_entry(void **state)
{
    CLEANUP(prepared_free_all)
    Prepared *one = prepare(
        "u", ADMIN("w", "gpu-9") "," RESULT("a", "gpu-0") "," RESULT("b", "gpu-1") "," RESULT("a", "gpu-2"),
        CONFIG("[\"w\",\"a\"]",
               MPS(",\"defaultPinnedDeviceMemoryLimit\":\"10Gi\","
                   "\"defaultPerDevicePinnedMemoryLimit\":{\"1\":\"512Mi\"}")) "," CONFIG("[\"b\"]",
                                                                                          MPS(",\"defaultPerDevicePinne"
                                                                                              "dMemoryLimit\":{\"GPU-"
                                                                                              "1\":4096}")));
    static const char *const uuids[] = {"GPU-9", "GPU-0", "GPU-1", "GPU-2"};

    (void)state;
    assert_int_equal(one->claim.count, 4);
    for (size_t i = 0; i < 4; i++)
        one->uuids[i] = uuids[i];
    one->next = prepare("v", RESULT("a", "gpu-3"), CONFIG("[]", MPS("")));
    one->next->uuids[0] = "GPU-3";
    assert_daemons(one, "u-1 30%: GPU-0=10737418240 GPU-2=536870912\nu-2 30%: GPU-1=4096\nv-0 30%: GPU-3=0\n");
    one->leaving = true;
    assert_daemons(one, "v-0 30%: GPU-3=0\n");
    assert_false(prepared_shares(one, 0, OFFER_SHARING_MPS)); /* looked at alone */
    assert_true(prepared_shares(one, 1, OFFER_SHARING_MPS));
    assert_false(prepared_shares(one, 1, OFFER_SHARING_TIME));
    assert_false(prepared_has_slice(one, 1));
}

static void a_time_slice_is_one_that_is_not_the_default(void **state)
{
    static const struct {
        const char *results, *configs;
        bool shares, has_slice;
    } cases[] = {
        {RESULT("a", "gpu-0"), CONFIG("[]", SLICE("Long")), true, true},
        {RESULT("a", "gpu-0"), CONFIG("[]", SLICE("Default")), true, false},
        {RESULT("a", "gpu-0"), "", false, false},
        {ADMIN("a", "gpu-0"), CONFIG("[]", SLICE("Long")), false, false},
        {RESULT("a", "gpu-0"), CONFIG("[\"b\"]", SLICE("Long")), false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(prepared_free_all) Prepared *one = prepare("u", cases[i].results, cases[i].configs);

        assert_int_equal(prepared_shares(one, 0, OFFER_SHARING_TIME), cases[i].shares);
        assert_int_equal(prepared_has_slice(one, 0), cases[i].has_slice);
        assert_daemons(one, "");
    }
}

/* --- searches ----------------------------------------------------------------------------------------------------- */

static void claims_are_found_by_what_they_hold(void **state)
{
    CLEANUP(prepared_free_all)
    Prepared *one = prepare("u", ADMIN("w", "gpu-1") "," RESULT("a", SLOT) "," RESULT("b", "gpu-2"), "");
    ClaimPlaces places = {0};
    size_t at = 9;

    (void)state;
    one->uuids[0] = "GPU-1";
    one->parents[1] = "GPU-0"; /* it is made, and has no UUID yet */
    one->uuids[2] = "GPU-2";
    one->next = prepare("v", RESULT("a", "gpu-1"), "");
    one->next->uuids[0] = "GPU-1";
    assert_ptr_equal(prepared_find(one, "u"), one);
    assert_ptr_equal(prepared_find(one, "v"), one->next);
    assert_null(prepared_find(one, "w"));
    assert_ptr_equal(prepared_holder(one, "GPU-1"), one->next); /* the first looks at it alone */
    assert_ptr_equal(prepared_holder(one, "GPU-2"), one);
    assert_null(prepared_holder(one, "GPU-3"));
    assert_ptr_equal(prepared_maker(one, SLOT, &at), one);
    assert_int_equal(at, 1);
    assert_null(prepared_maker(one, "gpu-2", &at)); /* it was there before */
    assert_null(prepared_maker(one->next, SLOT, &at));
    one->parents[2] = "GPU-0"; /* its name is no place */
    prepared_places(one, &places);
    assert_int_equal(places.len, 1);
    assert_string_equal(places.at[0].gpu, "GPU-0");
    assert_int_equal(places.at[0].profile_id, 19);
    assert_int_equal(places.at[0].start, 4);
    vec_done(&places);
    one->leaving = true; /* what is made for it is still there */
    assert_null(prepared_find(one, "u"));
    assert_null(prepared_holder(one, "GPU-2"));
    assert_ptr_equal(prepared_maker(one, SLOT, &at), one);
    prepared_free(NULL);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void a_file_is_read_as_it_was_written(void **state)
{
    CLEANUP(prepared_free_all) Prepared *one = prepare("u", RESULT("a", SLOT) "," RESULT("b", "gpu-2"), "");
    CLEANUP(prepared_free_all) Prepared *read = NULL;
    CLEANUP(str_done) Str text = str_limited(10000);
    CLEANUP(arena_done) Arena arena = {0};
    struct stat status;
    Err err = {0};

    (void)state;
    assert_string_equal(prepared_path("/var/lib/kubelet/plugins", DRIVER, &arena),
                        "/var/lib/kubelet/plugins/" DRIVER "/claims.json");
    assert_int_equal(prepared_load(path, DRIVER, "boot-1", &read, &err), 0); /* no file: none */
    assert_null(read);
    one->uuids[1] = "GPU-2";
    one->parents[0] = "GPU-0";
    one->next = prepare("v", "", CONFIG("[]", SLICE("Long")));
    one->next->leaving = true;
    assert_int_equal(prepared_save(path, "boot-1", one, &err), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(file_read(path, 10000, &text, NULL), 0);
    assert_null(strstr(text.text, "reservedFor")); /* what is not needed is not kept */
    assert_null(strstr(text.text, "labels"));
    assert_int_equal(prepared_load(path, DRIVER, "boot-2", &read, &err), 0); /* of another boot: none */
    assert_null(read);
    assert_int_equal(prepared_load(path, DRIVER, "boot-1", &read, &err), 0);
    assert_string_equal(read->claim.uid, "u");
    assert_string_equal(read->claim.namespace, "ns");
    assert_string_equal(read->claim.name, "c");
    assert_int_equal(read->claim.count, 2);
    assert_string_equal(read->uuids[0], "");
    assert_string_equal(read->parents[0], "GPU-0");
    assert_string_equal(read->uuids[1], "GPU-2");
    assert_string_equal(read->parents[1], "");
    assert_false(read->leaving);
    assert_string_equal(read->next->claim.uid, "v");
    assert_true(read->next->leaving);
    assert_int_equal(read->next->claim.count, 0);
    assert_null(read->next->next);
}

static void a_file_that_is_none_is_an_error(void **state)
{
    static const struct {
        const char *text, *why;
        int rc;
    } cases[] = {
        {"", "is no file of prepared claims; where no pod has a claim, it can be removed", -EBADMSG},
        {"{\"claims\":[]}", "is no file of prepared claims", -EBADMSG},
        {"{\"boot_id\":\"b\",\"claims\":[]}", "", 0},
        {"{\"boot_id\":\"other\",\"claims\":[{}]}", "", 0},
        {"{\"boot_id\":\"b\",\"claims\":[{}]}", "claims.json: ", -EINVAL},
        {"{\"boot_id\":\"b\",\"claims\":[{\"claim\":{\"metadata\":{\"uid\":\"u\",\"name\":\"c\",\"namespace\":\"n\"},"
         "\"status\":{\"allocation\":{\"devices\":{\"results\":[" RESULT("a", "gpu-0") "]}}}},\"uuids\":[]}]}",
         "claims.json: claim 'c' has no UUID for gpu-0", -EBADMSG},
        {"{\"boot_id\":\"b\",\"claims\":[{\"claim\":{\"metadata\":{\"uid\":\"u\",\"name\":\"c\",\"namespace\":\"n\"},"
         "\"status\":{\"allocation\":{\"devices\":{\"results\":[" RESULT("a", "gpu-0") "]}}}},\"uuids\":[\"\"]}]}",
         "", 0}, /* of before there were parents */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(prepared_free_all) Prepared *read = NULL;
        Err err = {0};

        assert_int_equal(file_write(path, cases[i].text, strlen(cases[i].text), 0644, NULL), 0);
        const int rc = prepared_load(path, DRIVER, "b", &read, &err);
        if (rc != cases[i].rc || !strstr(err.text, cases[i].why))
            fail_msg("row %zu: %d, %s", i, rc, err.text);
    }
    Prepared *read = NULL;
    Err err = {0};
    assert_int_equal(prepared_load(root, DRIVER, "b", &read, &err), -EISDIR); /* what it holds is not to be lost */
}

/* --- files of the runtime ----------------------------------------------------------------------------------------- */

static bool is_there(const char *name)
{
    char file[256];

    snprintf(file, sizeof file, "%s/%s", root, name);
    return access(file, F_OK) == 0;
}

static void put_file(const char *name)
{
    char file[256];

    snprintf(file, sizeof file, "%s/%s", root, name);
    assert_int_equal(file_write(file, "x", 1, 0644, NULL), 0);
}

#define SPEC "k8s." DRIVER "-claim_"

static const DriverNode nodes[] = {{"/dev/nvidia-uvm", 511, 0}, {"/dev/nvidiactl", 195, 255}};
static const DriverNode gpu_nodes[] = {{"/dev/nvidia1", 195, 1}, {"/dev/nvidia0", 195, 0}};
static const DriverFiles all_files = {.nodes = nodes, .node_count = 2, .gpus = gpu_nodes, .gpu_count = 2};

static void a_claim_has_a_file_of_its_own(void **state)
{
    CLEANUP(prepared_free_all)
    Prepared *one = prepare("u", RESULT("a", "gpu-0") "," RESULT("b", "gpu-1"), CONFIG("[\"b\"]", MPS("")));
    const DraConfig config = {.driver = DRIVER, .cdi_root = root, .mps_root = "/run/mps", .grant = {.dev_root = ""}};
    CLEANUP(str_done) Str text = str_limited(10000);
    CLEANUP(arena_done) Arena arena = {0};
    Box *box = make_box(2);
    DriverFiles files = all_files;
    Err err = {0};

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        box->gpus[i].reading.device.minor = i;
    Offer offer = offer_of(box, &(OfferConfig){0});
    one->uuids[0] = "GPU-0";
    one->uuids[1] = "GPU-9";
    assert_string_equal(claim_spec_device(&config, one, 1, &arena), "k8s." DRIVER "/claim=u-gpu-1");
    put_file(SPEC "u.yaml");
    assert_int_equal(claim_spec_keep(&config, one, &offer, &all_files, &err), 0); /* one is not offered now */
    assert_false(is_there(SPEC "u.json"));
    one->uuids[1] = "GPU-1";
    files.gpu_count = 1;
    assert_int_equal(claim_spec_keep(&config, one, &offer, &files, &err), -ENOENT);
    assert_string_equal(err.text, "/dev/nvidia0 is not on this node");
    assert_true(is_there(SPEC "u.yaml"));
    assert_int_equal(claim_spec_keep(&config, one, &offer, &all_files, &err), 0);
    assert_false(is_there(SPEC "u.yaml"));
    snprintf(path, sizeof path, "%s/" SPEC "u.json", root);
    assert_int_equal(file_read(path, 10000, &text, NULL), 0);
    assert_non_null(strstr(text.text, "\"kind\":\"k8s." DRIVER "/claim\",\"devices\":[{\"name\":\"u-gpu-0\","
                                      "\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/nvidia0\""));
    assert_non_null(strstr(text.text, "\"name\":\"u-gpu-1\""));
    assert_non_null(strstr(text.text, "\"hostPath\":\"/run/mps/u-1/pipe\""));
    put_file(SPEC "u.yaml"); /* it is as it should be: nothing is written or removed */
    assert_int_equal(claim_spec_keep(&config, one, &offer, &all_files, &err), 0);
    assert_true(is_there(SPEC "u.yaml"));
    assert_int_equal(claim_spec_remove(&config, "u", &err), 0);
    assert_false(is_there(SPEC "u.yaml"));
    assert_false(is_there(SPEC "u.json"));
    assert_int_equal(claim_spec_remove(&config, "u", &err), 0); /* fine where there is none */
    assert_int_equal(file_make_dirs(path, 0755, NULL), 0);
    assert_true(claim_spec_remove(&config, "u", &err) < 0);
    one->next = prepare("v", "", ""); /* all of it is other drivers' */
    assert_int_equal(claim_spec_keep(&config, one->next, &offer, &(DriverFiles){0}, &err), 0);
    assert_false(is_there(SPEC "v.json"));
    offer_done(&offer);
    free(box);
}

static void a_missing_device_file_is_named(void **state)
{
    OfferUnit unit = {.device = {.uuid = "MIG-0", .minor = 1}};
    DriverFiles files = all_files;
    Err err = {0};

    (void)state;
    assert_int_equal(claim_spec_check(&files, &unit, &err), 0);
    files.node_count = 1;
    assert_int_equal(claim_spec_check(&files, &unit, &err), -ENOENT);
    assert_string_equal(err.text, "/dev/nvidiactl is not on this node: the driver's modules are not loaded");
    files.nodes = &nodes[1];
    assert_int_equal(claim_spec_check(&files, &unit, &err), -ENOENT);
    assert_string_equal(err.text, "/dev/nvidia-uvm is not on this node: the driver's modules are not loaded");
    files = all_files;
    unit.device.minor = 2;
    assert_int_equal(claim_spec_check(&files, &unit, &err), -ENOENT);
    assert_string_equal(err.text, "/dev/nvidia2 is not on this node");
    unit.device.minor = 0;
    snprintf(unit.profile, sizeof unit.profile, "1g.10gb");
    for (int i = 0; i < 4; i++) {
        unit.gi_minor = i & 1 ? 30 : 0;
        unit.ci_minor = i & 2 ? 31 : 0;
        err = (Err){0};
        assert_int_equal(claim_spec_check(&files, &unit, &err), i == 3 ? 0 : -ENOENT);
        assert_string_equal(err.text, i == 3 ? "" : "the driver does not list the device files of MIG-0");
    }
}

/* Of this driver, and a claim's: nothing else in the folder is ours. */
static void files_of_other_claims_are_removed(void **state)
{
    static const struct {
        const char *name;
        bool stays;
    } files[] = {
        {SPEC "u.json", true},         {SPEC "gone.json", false}, {SPEC "gone.yaml", true},
        {SPEC "leaves.json", false},   {SPEC ".json", true},      {"k8s.other-claim_gone.json", true},
        {"k8s." DRIVER ".json", true}, {SPEC "gone", true},       {SPEC "a.b.json", false},
    };
    CLEANUP(prepared_free_all) Prepared *one = prepare("u", RESULT("a", "gpu-0"), "");
    DraConfig config = {.driver = DRIVER, .cdi_root = root};

    (void)state;
    one->next = prepare("leaves", RESULT("a", "gpu-0"), "");
    one->next->leaving = true;
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put_file(files[i].name);
    claim_spec_remove_others(&config, one);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (is_there(files[i].name) != files[i].stays)
            fail_msg("%s", files[i].name);
    config.cdi_root = "/nonexistent";
    claim_spec_remove_others(&config, one); /* no folder: nothing to do */
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_daemon_serves_the_devices_of_its_entry), TEST(a_time_slice_is_one_that_is_not_the_default),
        TEST(claims_are_found_by_what_they_hold),       TEST(a_file_is_read_as_it_was_written),
        TEST(a_file_that_is_none_is_an_error),          TEST(a_claim_has_a_file_of_its_own),
        TEST(a_missing_device_file_is_named),           TEST(files_of_other_claims_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
