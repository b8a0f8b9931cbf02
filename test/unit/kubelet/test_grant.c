/* SPDX-License-Identifier: Apache-2.0 */
/* service/kubelet/{grant,cdi,explain,sharing}.c: what containers get of the devices, and what people are told of them,
 * each whole: what golden/ has. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/yaml.h"
#include "service/kubelet/grant.h"
#include "test/unit/golden.h"

enum { OUT_MAX = 1 << 20 };

static Offer offer;

static OfferUnit *add_unit(OfferResource *to, const char *uuid, uint32_t minor)
{
    OfferUnit unit = {.healthy = true, .gpu = to->units.len, .gpu_index = (uint32_t)to->units.len};

    device_init(&unit.device, DEVICE_GPU);
    unit.device.minor = minor;
    unit.device.index = (uint32_t)to->units.len;
    snprintf(unit.device.uuid, sizeof unit.device.uuid, "%s", uuid);
    vec_push(&to->units, unit);
    return &to->units.at[to->units.len - 1];
}

/* Three GPUs, of which the last is unhealthy, and two MIG devices of GPU 1, of which one has no device files. */
static int set_up(void **state)
{
    OfferResource gpus = {.name = "nvidia.com/gpu", .replicas = 1},
                  mig = {.name = "nvidia.com/mig-1g.10gb", .replicas = 1};

    (void)state;
    add_unit(&gpus, "GPU-0", 0);
    add_unit(&gpus, "GPU-1", 5);
    OfferUnit *unit = add_unit(&gpus, "GPU-2", DEVICE_NO_NUMBER);
    unit->healthy = false;
    snprintf(unit->why, sizeof unit->why, "it fell off the bus: reboot this node");
    snprintf(unit->incident, sizeof unit->incident, "1abc");
    for (uint32_t i = 0; i < 2; i++) {
        unit = add_unit(&mig, i ? "MIG-1" : "MIG-0", i ? DEVICE_NO_NUMBER : 5);
        unit->device.gpu_instance = i + 7;
        unit->device.compute_instance = 0;
        unit->gpu = unit->gpu_index = 1;
        unit->gi_minor = i ? 0 : 30;
        unit->ci_minor = i ? 0 : 31;
        snprintf(unit->profile, sizeof unit->profile, "1g.10gb");
    }
    vec_push(&offer.resources, gpus);
    vec_push(&offer.resources, mig);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    offer_done(&offer);
    offer = (Offer){0};
    return 0;
}

/* --- the device plugin's answer ----------------------------------------------------------------------------------- */

/* The key of an annotation ends with a random number of 16 digits. */
static void add_grant(const Deviceplugin__Grant *grant, Str *to)
{
    for (size_t i = 0; i < grant->n_envs; i++)
        str_addf(to, "  env %s=%s\n", grant->envs[i]->key, grant->envs[i]->value);
    for (size_t i = 0; i < grant->n_mounts; i++)
        str_addf(to, "  mount %s at %s\n", grant->mounts[i]->host_path, grant->mounts[i]->container_path);
    for (size_t i = 0; i < grant->n_devices; i++)
        str_addf(to, "  device %s at %s %s\n", grant->devices[i]->host_path, grant->devices[i]->container_path,
                 grant->devices[i]->permissions);
    for (size_t i = 0; i < grant->n_annotations; i++) {
        const char *key = grant->annotations[i]->key, *end = strrchr(key, '_') + 1;

        assert_int_equal(strspn(end, "0123456789abcdef"), 16);
        assert_int_equal(strlen(end), 16);
        str_addf(to, "  annotation %.*s=%s\n", (int)(end - key), key, grant->annotations[i]->value);
    }
    for (size_t i = 0; i < grant->n_cdi_devices; i++)
        str_addf(to, "  cdi %s\n", grant->cdi_devices[i]->name);
}

static void grant_all(const char *title, const GrantConfig *config, const OfferResource *resource, Str *to)
{
    static const char *const gpus[] = {"GPU-1", "GPU-0", "GPU-1"}, *const replicas[] = {"MIG-0::1", "MIG-1::0",
                                                                                        "MIG-0::0"};
    char *const *ids = (char *const *)(uintptr_t)(resource->units.at[0].profile[0] ? replicas : gpus);
    CLEANUP(arena_done) Arena arena = {0};
    Deviceplugin__Grant *grant = NULL;
    Err err = {0};

    if (grant_devices(config, resource, false, ids, 3, &arena, &grant, &err) < 0)
        fail_msg("%s", err.text);
    str_addf(to, "# %s\n", title);
    add_grant(grant, to);
}

static void a_container_gets_its_devices(void **state)
{
    const OfferResource *gpus = &offer.resources.at[0];
    OfferResource *mig = &offer.resources.at[1];
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    char root[] = "/tmp/stoker-grant-XXXXXX", path[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", root, i ? "/dev/nvidia-uvm" : "/dev");
        assert_int_equal(i ? file_write(path, "", 0, 0644, NULL) : file_make_dirs(path, 0755, NULL), 0);
    }
    GrantConfig config = {
        .envvar = true, .cdi_prefix = "cdi.k8s.io/", .dev_root = "", .root = root, .mps_root = "/run/mps"};
    grant_all("by environment", &config, gpus, &out);
    mig->sharing = OFFER_SHARING_MPS;
    mig->replicas = 2;
    config.by_index = config.device_nodes = config.gds = true;
    config.dev_root = "/run/nvidia/driver";
    grant_all("by index, with device files, GDS and MPS", &config, mig, &out);
    grant_all("by index, with device files and GDS", &config, gpus, &out);
    config = (GrantConfig){.volume_mounts = true, .gdrcopy = true, .mofed = true, .dev_root = "", .root = root};
    grant_all("by mounts", &config, gpus, &out);
    config = (GrantConfig){.cdi_annotations = true, .gds = true, .device_nodes = true, .cdi_prefix = "cdi.k8s.io/"};
    grant_all("by annotation", &config, gpus, &out);
    config = (GrantConfig){.cdi_cri = true, .gdrcopy = true, .mofed = true};
    grant_all("by the runtime's interface", &config, gpus, &out);
    grant_all("by nothing", &(GrantConfig){0}, gpus, &out);
    assert_golden(GOLDEN "/grant.txt", &out);
    assert_int_equal(file_remove_tree("/tmp", root + strlen("/tmp/"), NULL), 0);
}

static void what_cannot_be_had_is_said(void **state)
{
    static char gpu0[] = "GPU-0", gpu2[] = "GPU-2", gpu9[] = "GPU-9", mig0[] = "MIG-0::0", mig1[] = "MIG-0::1";
    static const struct {
        size_t resource;
        bool one_each;
        char *ids[2];
        int rc;
        const char *why;
    } cases[] = {
        {0, false, {gpu0, gpu9}, -EINVAL, "this node has no device 'GPU-9' of nvidia.com/gpu any more: the pod"},
        {0, false, {gpu2}, -EBUSY, "GPU-2 cannot be used now: it fell off the bus: reboot this node; the pod can"},
        {0, true, {gpu0, gpu0}, 0, ""}, /* they are not shared */
        {1, false, {mig0, mig1}, 0, ""},
        {1, true, {mig0}, 0, ""},
        {1, true, {mig0, mig1}, -EINVAL, "2 of nvidia.com/mig-1g.10gb are asked for, and its devices are shared"},
    };

    (void)state;
    offer.resources.at[1].sharing = OFFER_SHARING_TIME;
    offer.resources.at[1].replicas = 2;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        Deviceplugin__Grant *grant = NULL;
        Err err = {0};
        const int rc =
            grant_devices(&(GrantConfig){.envvar = true}, &offer.resources.at[cases[i].resource], cases[i].one_each,
                          cases[i].ids, 1 + (cases[i].ids[1] != NULL), &arena, &grant, &err);

        if (rc != cases[i].rc || !strstr(err.text, cases[i].why))
            fail_msg("row %zu: %d, %s", i, rc, err.text);
        assert_int_equal(grant != NULL, rc == 0);
    }
}

/* --- the Container Device Interface ------------------------------------------------------------------------------- */

static void a_specification_has_all_devices(void **state)
{
    static const DriverFile files[] = {{"/usr/lib/libcuda.so.590", "/usr/lib/libcuda.so.1", false},
                                       {"/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket", true}};
    static const DriverNode nodes[] = {{"/dev/nvidiactl", 195, 255}, {"/dev/nvidia-uvm", 511, 0}};
    static const DriverNode gpu_nodes[] = {{"/dev/nvidia0", 195, 0}, {"/dev/nvidia5", 234, 5}};
    const DriverFiles all = {files, 2, nodes, 2, gpu_nodes, 2, 235, ""}, none = {0};
    const CdiDevice devices[] = {{"u-gpu-1", &offer.resources.at[0].units.at[1], "/run/mps/u-0"},
                                 {"u-gpu-0", &offer.resources.at[0].units.at[0], NULL}};
    GrantConfig config = {.dev_root = ""};
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);

    (void)state;
    cdi_spec(&offer, &config, &all, &out);
    cdi_claim_spec("k8s.gpu.nvidia.com/claim", devices, 2, &config, &all, &out);
    config = (GrantConfig){.by_index = true, .dev_root = "/run/nvidia/driver"};
    cdi_spec(&offer, &config, &none, &out);
    assert_golden(GOLDEN "/cdi.txt", &out);
}

static void a_specification_is_written_where_it_differs(void **state)
{
    CLEANUP(str_done) Str spec = str_limited(100), there = str_limited(100);
    char folder[] = "/tmp/stoker-cdi-XXXXXX", below[64], path[96];
    struct stat status;
    Err err;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(below, sizeof below, "%s/etc/cdi", folder);
    snprintf(path, sizeof path, "%s/spec.json", below);
    str_add(&spec, "{1}");
    assert_int_equal(cdi_keep(below, path, &spec, &err), 1);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0644);
    assert_int_equal(cdi_keep(below, path, &spec, &err), 0);
    assert_int_equal(file_write(path, "{1}\n", 4, 0644, NULL), 0); /* somebody else's */
    assert_int_equal(cdi_keep(below, path, &spec, &err), 1);
    assert_int_equal(file_write(path, "{2}", 3, 0644, NULL), 0);
    assert_int_equal(cdi_keep(below, path, &spec, &err), 1);
    assert_int_equal(file_read(path, 100, &there, NULL), 0);
    assert_string_equal(there.text, "{1}");
    assert_true(cdi_keep(path, path, &spec, &err) == 0);
    str_add(&spec, " ");
    assert_true(cdi_keep(path, path, &spec, &err) < 0); /* its folder is a file */
    assert_int_equal(file_remove_tree("/tmp", folder + strlen("/tmp/"), NULL), 0);
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static void allot(AllocationTable *to, const char *id, const char *pod, const char *container)
{
    Allocation row = {.pod = pod, .namespace = "ml", .container = container, .pod_uid = ""};

    assert_int_equal(allocation_device_parse(id, &row.device), 0);
    allocation_table_add(to, &row);
}

static void explain(const char *title, const Snapshot *snapshot, const char *pod, bool json, Str *to)
{
    str_addf(to, "# %s\n", title);
    if (!kubelet_explain(&offer, snapshot, pod, json, to))
        str_add(to, "nothing\n");
}

static void who_has_what_is_told(void **state)
{
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    AllocationTable table;
    Box *box = make_box(3);

    (void)state;
    split(box, 1, 2, "1g.10gb");
    for (size_t i = 0; i < 2; i++)
        snprintf(box->instances[1][i].device.uuid, DEVICE_UUID_CAP, "MIG-%zu", i);
    box->snapshot.pods_told = false;
    explain("before the kubelet answers", &box->snapshot, NULL, false, &out);
    explain("the same as JSON", &box->snapshot, NULL, true, &out);
    allocation_table_init(&table);
    allot(&table, "GPU-0", "train", "main");
    allot(&table, "GPU-2", "train", "side");
    allot(&table, "MIG-0::0", "serve", "a");
    allot(&table, "MIG-0::2", "serve", "b");
    allot(&table, "MIG-1::1", "other", "c");
    box->snapshot.allocations = &table;
    box->snapshot.pods_told = true;
    OfferResource *mig = &offer.resources.at[1];
    mig->replicas = 49;
    mig->sharing = OFFER_SHARING_MPS;
    mig->clients_max = 48;
    mig->daemon = "failed";
    snprintf(mig->daemon_why, sizeof mig->daemon_why, "no program");
    explain("with pods", &box->snapshot, NULL, false, &out);
    explain("the same as JSON", &box->snapshot, NULL, true, &out);
    explain("a pod", &box->snapshot, "train", false, &out);
    explain("a pod with its namespace", &box->snapshot, "ml/serve", false, &out);
    explain("a pod of another namespace", &box->snapshot, "x/serve", false, &out);
    mig->replicas = 2; /* as many as are taken */
    mig->daemon = "ready";
    mig->daemon_why[0] = '\0';
    mig->units.len = 1;
    snprintf(offer.why, sizeof offer.why, "GPU 7 is not read");
    explain("all replicas taken", &box->snapshot, NULL, false, &out);
    explain("the same as JSON", &box->snapshot, NULL, true, &out);
    mig->replicas = 1; /* more are taken than there are now */
    explain("more than all", &box->snapshot, NULL, false, &out);
    const size_t count = offer.resources.len;
    offer.resources.len = 0;
    explain("no resource", &box->snapshot, NULL, false, &out);
    offer.why[0] = '\0';
    explain("no resource and no reason", &box->snapshot, NULL, false, &out);
    offer.resources.len = count;
    assert_golden(GOLDEN "/explain.txt", &out);
    allocation_table_done(&table);
    free(box);
}

/* --- sharing ------------------------------------------------------------------------------------------------------ */

static void read_sharing(const char *text, Str *to)
{
    CLEANUP(arena_done) Arena arena = {0};
    OfferConfig config = {.sharing = OFFER_SHARING_MPS, .share_count = 9};
    const YamlNode *root = NULL;
    Err err = {0};

    assert_int_equal(yaml_load("c.yaml", text, strlen(text), &arena, &root, &err), 0);
    str_addf(to, "# %s\n", text);
    if (kubelet_read_sharing(root, &arena, &config, &err) < 0) {
        str_addf(to, "%s\n", err.text);
        return;
    }
    str_addf(to, "%s%s%s\n", offer_sharings[config.sharing].key, config.rename ? ", renamed" : "",
             config.one_each ? ", one for each" : "");
    for (size_t i = 0; i < config.share_count; i++)
        str_addf(to, "  %s: %u\n", config.shares[i].resource, config.shares[i].replicas);
}

static void sharing_is_read_as_the_device_plugin_does(void **state)
{
    static const char *const texts[] = {
        "~",
        "[]",
        "{}",
        "{mps: ~, timeSlicing: ~}",
        "{timeSlicing: {resources: [{name: gpu, replicas: 2}]}}",
        "{timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, "
        "replicas: 4, devices: all}, {name: mig-1g.10gb, replicas: 1024, rename: x}]}}",
        "{mps: {resources: [{name: gpu, replicas: 3}]}, timeSlicing: {resources: [{name: gpu, replicas: 2}]}}",
        "{mps: {failRequestsGreaterThanOne: false, resources: [{name: gpu, replicas: 3}]}}",
        "{other: {}}",
        "{mps: []}",
        "{mps: {}}",
        "{mps: {resources: gpu}}",
        "{mps: {resources: []}}",
        "{mps: {resources: [gpu]}}",
        "{mps: {resources: [{name: gpu}]}}",
        "{mps: {resources: [{replicas: 2}]}}",
        "{mps: {resources: [{name: gpu, replicas: 1}]}}",
        "{mps: {resources: [{name: gpu, replicas: 1025}]}}",
        "{mps: {resources: [{name: amd.com/gpu, replicas: 2}]}}",
        "{mps: {resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 3}]}}",
        /* With ".shared" behind it, 79 and 80 characters. */
        "{mps: {resources: [{name: "
        "mig-012345678901234567890123456789012345678901234567890123456, replicas: 2}]}}",
        "{mps: {resources: [{name: "
        "mig-0123456789012345678901234567890123456789012345678901234567, replicas: 2}]}}",
    };
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        read_sharing(texts[i], &out);
    assert_golden(GOLDEN "/sharing.txt", &out);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_container_gets_its_devices),
        TEST(what_cannot_be_had_is_said),
        TEST(a_specification_has_all_devices),
        TEST(a_specification_is_written_where_it_differs),
        TEST(who_has_what_is_told),
        TEST(sharing_is_read_as_the_device_plugin_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
