/* SPDX-License-Identifier: Apache-2.0 */
/* engine/mig: names of profiles, wanted layouts of mig-parted's files and of the command line, and what is wrong in
 * them. */
#include "boards.h"

static Arena arena;

static const MigTarget h100_0 = {.index = 0, .uuid = "GPU-aa", .device = 0x233010DE, .subsystem = 0x16C110DE};
static const MigTarget h100_1 = {.index = 1, .uuid = "GPU-bb", .device = 0x233010DE, .subsystem = 0x16C110DE};
static const MigTarget a100_1 = {.index = 1, .uuid = "GPU-cc", .device = 0x20B010DE};

static int read_text(const char *text, const char *name, MigRequest *ret, Err *err)
{
    const YamlNode *root;
    arena_reset(&arena);
    TRY(yaml_load("f.yaml", text, strlen(text), &arena, &root, err));
    return mig_request_read(root, name, &arena, ret, err);
}

static void check_layout(const MigRequest *request, const MigTarget *gpu, const char *board, const char *text)
{
    Err err = {0};
    MigLayout layout;
    CLEANUP(str_done) Str got = str_limited(400);
    int rc = mig_request_resolve(request, gpu, board_of(board), &layout, &err);
    if (rc < 0)
        str_add(&got, err.text);
    else if (rc > 0)
        str_add(&got, "-");
    else
        mig_layout_text(board_of(board), &layout, &got);
    assert_string_equal(got.text, text);
}

static void names(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    Err err = {0};
    uint8_t compute = 0;
    assert_int_equal(mig_profile_find(h100, "3g.40gb", &compute, &err)->id, 9);
    assert_int_equal(compute, 3);
    assert_int_equal(mig_profile_find(h100, "1c.3g.40gb", &compute, &err)->id, 9);
    assert_int_equal(compute, 1);
    assert_int_equal(mig_profile_find(h100, "3c.3g.40gb", &compute, &err)->id, 9);
    assert_int_equal(mig_profile_find(h100, "1g.10gb+me", &compute, &err)->id, 20);
    assert_int_equal(mig_profile_find(board_of("RTX-PRO-6000-Blackwell"), "1g.24gb+me.all", &compute, &err)->id, 65);
    assert_int_equal(mig_profile_find(board_of("RTX-PRO-6000-Blackwell"), "2g.48gb-me", &compute, &err)->id, 66);
    static const struct {
        const char *name, *error;
    } wrong[] = {
        {"1g.5gb", "H100-80GB has no MIG profile '1g.5gb'; it has 1g.10gb, 1g.10gb+me, 1g.20gb"},
        {"7g.79gb", "H100-80GB has no MIG profile '7g.79gb'; it has 7g.80gb"},
        {"5g.50gb", "H100-80GB has no MIG profile '5g.50gb'; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, "
                    "4g.40gb, 7g.80gb"},
        {"3c.4g.40gb", "a 4g.40gb of H100-80GB cannot have a compute instance of 3 slices; it can have 1c, 2c, 4c"},
        {"3g40gb", "'3g40gb' is not the name of a MIG profile, as 3g.40gb or 1c.3g.40gb are"},
        {"", "'' is not the name of a MIG profile, as 3g.40gb or 1c.3g.40gb are"},
        {"0g.10gb", "'0g.10gb' is not the name of a MIG profile, as 3g.40gb or 1c.3g.40gb are"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_null(mig_profile_find(h100, wrong[i].name, &compute, &err));
        assert_string_equal(err.text, wrong[i].error);
    }
}

static const char file[] = "version: v1\n"
                           "mig-configs:\n"
                           "  all-disabled:\n"
                           "  - devices: all\n"
                           "    mig-enabled: false\n"
                           "  two-boards:\n"
                           "  - device-filter: [\"0x20B010DE\", \"0x233010DE:0x16C110DE\"]\n"
                           "    devices: [1]\n"
                           "    mig-enabled: true\n"
                           "    mig-devices: {\"1c.3g.40gb\": 4, \"1g.10gb\": 0}\n"
                           "  - device-filter: \"0x233010DE\"\n"
                           "    devices: [0]\n"
                           "    mig-enabled: true\n"
                           "    mig-devices: {}\n";

static void files(void **state)
{
    (void)state;
    MigRequest request;
    Err err = {0};
    assert_int_equal(read_text(file, "two-boards", &request, &err), 0);
    assert_string_equal(request.name, "two-boards");
    check_layout(&request, &h100_0, "H100-80GB", "no instances");
    check_layout(&request, &h100_1, "H100-80GB", "3g.40gb (1c+1c+1c), 3g.40gb (1c)");
    check_layout(&request, &a100_1, "A100-40GB", "f.yaml:7:5: A100-40GB has no MIG profile '3g.40gb'; it has 3g.20gb");
    MigTarget other = h100_1;
    other.subsystem = 0x1;
    check_layout(&request, &other, "H100-80GB", "-");
    assert_int_equal(read_text(file, "all-disabled", &request, &err), 0);
    check_layout(&request, &h100_1, "H100-80GB", "MIG disabled");
    assert_int_equal(
        read_text("version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", NULL, &request, &err), 0);
    assert_string_equal(request.name, "a");
}

static void wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name, *error;
    } wrong[] = {
        {"mig-configs: {}", "a", "f.yaml:1:1: 'version: v1' is needed"},
        {"version: v2\nmig-configs: {}", "a", "f.yaml:1:10: 'version: v1' is needed"},
        {"version: v1\nmig-config: {}", "a", "f.yaml:2:1: unknown key 'mig-config'"},
        {"version: v1\nmig-configs: {b: [{devices: all, mig-enabled: false}]}", "a",
         "f.yaml: no configuration 'a'; there are b"},
        {"version: v1\nmig-configs: {b: [{devices: all, mig-enabled: false}], c: [{devices: all, mig-enabled: false}]}",
         NULL, "f.yaml:2:14: the file has 2 configurations, name one with --config: b, c"},
        {"version: v1\nmig-configs: {a: []}", "a", "f.yaml:2:18: the configuration 'a' is empty"},
        {"version: v1\nmig-configs: {a: [{devices: all}]}", "a",
         "f.yaml:2:19: an entry needs 'devices' and 'mig-enabled'"},
        {"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true}]}", "a",
         "f.yaml:2:19: 'mig-devices' is missing; {} wants no instances"},
        {"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: yes}]}", "a",
         "f.yaml:2:47: 'mig-enabled' must be true or false"},
        {"version: v1\nmig-configs: {a: [{devices: [x], mig-enabled: false}]}", "a",
         "f.yaml:2:30: 'devices' takes indices of GPUs, 0 to 63"},
        {"version: v1\nmig-configs: {a: [{devices: some, mig-enabled: false}]}", "a",
         "f.yaml:2:29: 'devices' must be 'all' or a list of indices"},
        {"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}]}", "a",
         "f.yaml:2:67: 'mig-devices' must be empty where MIG is disabled"},
        {"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 0}}]}", "a",
         "f.yaml:2:66: all numbers of 'mig-devices' are 0; {} wants no instances"},
        {"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: -1}}]}", "a",
         "f.yaml:2:76: the number of 1g.10gb must be 0 to 1000"},
        {"version: v1\nmig-configs: {a: [{device-filter: H100, devices: all, mig-enabled: false}]}", "a",
         "f.yaml:2:35: 'H100' is no PCI id such as 0x233010DE"},
        /* another configuration of the file is read too */
        {"version: v1\nmig-configs: {b: [{device: all}], a: [{devices: all, mig-enabled: false}]}", "a",
         "f.yaml:2:20: unknown key 'device'"},
    };
    MigRequest request;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        Err err = {0};
        assert_true(read_text(wrong[i].text, wrong[i].name, &request, &err) < 0);
        assert_string_equal(err.text, wrong[i].error);
    }
}

static int parse_words(MigRequest *ret, Err *err, const char *first, const char *second)
{
    const char *words[] = {first, second};
    arena_reset(&arena);
    return mig_request_parse(words, second ? 2 : 1, &arena, ret, err);
}

static void words(void **state)
{
    (void)state;
    MigRequest request;
    Err err = {0};
    assert_int_equal(parse_words(&request, &err, "gpu0=1g.10gb+me+2x2g.20gb", "GPU-bb=7x1g.10gb"), 0);
    check_layout(&request, &h100_0, "H100-80GB", "1g.10gb+me, 2 x 2g.20gb");
    check_layout(&request, &h100_1, "H100-80GB", "7 x 1g.10gb");
    check_layout(&request, &a100_1, "A100-40GB", "-");
    assert_int_equal(parse_words(&request, &err, "all=balanced", NULL), 0);
    check_layout(&request, &h100_1, "H100-80GB", "3g.40gb, 2g.20gb, 2 x 1g.10gb");
    check_layout(&request, &a100_1, "A30-24GB", "2g.12gb, 2 x 1g.6gb");
    assert_int_equal(parse_words(&request, &err, "0=off", "1=none"), 0);
    check_layout(&request, &h100_0, "H100-80GB", "MIG disabled");
    check_layout(&request, &h100_1, "H100-80GB", "no instances");
    assert_int_equal(parse_words(&request, &err, "all=off", "gpu1=none"), 0);
    check_layout(&request, &h100_1, "H100-80GB", "all=off and gpu1=none both speak of GPU 1");
    assert_int_equal(parse_words(&request, &err, "all=17x1g.10gb", NULL), 0);
    check_layout(&request, &h100_1, "H100-80GB", "all=17x1g.10gb: 17 x 1g.10gb are more than a GPU can have");
    static const struct {
        const char *word, *error;
    } wrong[] = {
        {"3g.40gb", "'3g.40gb' is no layout: gpu0=3g.40gb+4g.40gb, all=7x1g.10gb, gpu1=off"},
        {"gpu0=", "'gpu0=' is no layout: gpu0=3g.40gb+4g.40gb, all=7x1g.10gb, gpu1=off"},
        {"gpux=3g.40gb", "'gpux' is no GPU: gpu0, an index, a UUID or all"},
        {"gpu0=0x3g.40gb", "'gpu0=0x3g.40gb': the number before 'x' must be 1 to 1000"},
        {"gpu0=2x", "'gpu0=2x': the name of a profile is missing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_true(parse_words(&request, &err, wrong[i].word, NULL) < 0);
        assert_string_equal(err.text, wrong[i].error);
    }
}

static void how_an_unread_gpu_is_meant(void **state)
{
    (void)state;
    const MigTarget nameless = {.index = 1, .uuid = ""};
    const MigTarget gpus[] = {h100_0, nameless};
    MigRequest request;
    Err err = {0};
    assert_int_equal(parse_words(&request, &err, "all=balanced", NULL), 0);
    assert_int_equal(mig_request_means(&request, &h100_1), MIG_MEANT_AS_ANY);
    assert_int_equal(mig_request_means(&request, &nameless), MIG_MEANT_AS_ANY);
    assert_int_equal(parse_words(&request, &err, "gpu1=balanced", "GPU-bb=none"), 0);
    assert_int_equal(mig_request_means(&request, &h100_0), MIG_NOT_MEANT);
    assert_int_equal(mig_request_means(&request, &h100_1), MIG_MEANT_BY_NAME);
    assert_int_equal(mig_request_means(&request, &nameless), MIG_MEANT_BY_NAME);
    assert_string_equal(mig_request_stranger(&request, gpus, 2), "GPU-bb");
    assert_null(mig_request_stranger(&request, &h100_1, 1));
    static const char filtered[] =
        "version: v1\nmig-configs:\n  a: [{device-filter: '0x20B010DE', devices: all, mig-enabled: false}]\n";
    assert_int_equal(read_text(filtered, NULL, &request, &err), 0);
    assert_int_equal(mig_request_means(&request, &h100_1), MIG_NOT_MEANT);
    assert_int_equal(mig_request_means(&request, &nameless), MIG_MEANT_AS_ANY);
    assert_null(mig_request_stranger(&request, gpus, 2));
}

static void every_board_is_whole(void **state)
{
    (void)state;
    size_t rows = 0;
    for (size_t i = 0; i < table_count; i++) {
        const MigBoard *board = &tables[i].board;
        assert_true(board->slices >= 4);
        rows += board->profile_count;
        for (size_t k = 0; k < board->profile_count; k++)
            assert_true(strcmp(tables[i].verified, "unverified") == 0 || board->profiles[k].starts);
    }
    assert_true(rows >= 107);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(files),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(words),
        cmocka_unit_test(how_an_unread_gpu_is_meant),
        cmocka_unit_test(every_board_is_whole),
    };
    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&arena);
    arena_done(&board_arena);
    return failed;
}
