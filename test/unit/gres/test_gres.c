/* SPDX-License-Identifier: Apache-2.0 */
/* engine/gres and service/gres: the gres.conf of some nodes, and what is wrong with wrong ones. */
#include "../golden.h"

#include <errno.h>

#include "nodes.h"
#include "service/gres/gres_report.h"

static Arena arena;
static GresNode node;

static int start_anew(void **state)
{
    (void)state;
    arena_reset(&arena);
    node = (GresNode){0};
    return 0;
}

/* --- printed ------------------------------------------------------------------------------------------------------ */

static int give_printed(const char *path, Str *to, Err *err)
{
    (void)path, (void)err;
    gres_conf_text(&node, NULL, to);
    return 0;
}

/* The text is that of the file, and the checker finds nothing in it. */
static void check_printed(const char *name)
{
    CLEANUP(str_done) Str text = str_limited(64 << 10);
    GresConf *conf;
    gres_conf_text(&node, NULL, &text);
    assert_golden(name, &text);
    assert_int_equal(gres_conf_read("gres.conf", "n1", give_printed, &arena, &conf, NULL), 0);
    gres_check(&node, &arena, conf);
    assert_int_equal(conf->problem_count, 0);
}

static void whole_gpus(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA H100 80GB HBM3", 8);
    check_printed(GOLDEN "/h100.conf");
}

static void whole_gpus_with_links(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA H100 NVL", 4);
    node.gpus[0].links[1] = node.gpus[1].links[0] = node.gpus[2].links[3] = node.gpus[3].links[2] = 12;
    node.gpus[1].minor = 3; /* the kernel's order is not that of the bus */
    node.gpus[3].minor = 1;
    check_printed(GOLDEN "/h100-nvl.conf");
}

static void mig_of_several_sizes(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA H100 80GB HBM3", 2);
    split_gpu(&node, 0, "3g.40gb 2g.20gb 1g.10gb 1g.10gb+me");
    split_gpu(&node, 1, "1c.4g.40gb 1c.4g.40gb 2c.4g.40gb 3g.40gb");
    check_printed(GOLDEN "/h100-mig.conf");
}

static void mig_of_a_name_with_a_dash(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA A100-SXM4-40GB", 1);
    split_gpu(&node, 0, "1g.5gb");
    check_printed(GOLDEN "/a100-mig.conf");
}

static void mig_of_a30(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA A30", 2);
    split_gpu(&node, 0, "1g.6gb 1g.6gb 2g.12gb");
    split_gpu(&node, 1, "4g.24gb");
    check_printed(GOLDEN "/a30-mig.conf");
}

static void one_gpu_in_mig_mode(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA H100 80GB HBM3", 3);
    node.gpus[1].links[2] = node.gpus[2].links[1] = 18;
    split_gpu(&node, 0, "3g.40gb");
    check_printed(GOLDEN "/h100-mixed.conf");
}

static void what_cannot_be_offered(void **state)
{
    (void)state;
    add_gpus(&node, "Tesla T4", 3);
    node.gpus[0].cores_known = false;
    node.gpus[1].mig = true;
    snprintf(node.gpus[2].why, sizeof node.gpus[2].why, "it cannot be read: GPU is lost");
    check_printed(GOLDEN "/left-out.conf");
}

static void lines_of_one_node(void **state)
{
    (void)state;
    CLEANUP(str_done) Str text = str_limited(64 << 10);
    add_gpus(&node, "Tesla T4", 1);
    gres_conf_text(&node, "gpu[1-4]", &text);
    assert_non_null(strstr(text.text, "\nNodeName=gpu[1-4] Name=gpu Type=tesla_t4 File=/dev/nvidia0 Cores=0-15\n"));
    assert_non_null(strstr(text.text, "NodeName=gpu[1-4] Gres=gpu:tesla_t4:1\n"));
}

static void as_json(void **state)
{
    (void)state;
    CLEANUP(str_done) Str text = str_limited(64 << 10);
    add_gpus(&node, "NVIDIA H100 80GB HBM3", 2);
    split_gpu(&node, 1, "7g.80gb");
    node.gpus[1].cores_known = false;
    gres_conf_json(&node, &text);
    assert_golden(GOLDEN "/devices.json", &text);
    assert_true(node.count >= 2);
    node.gpus[1].mig = false;
    node.gpus[1].instance_count = 0;
    node.gpus[0].links[1] = node.gpus[1].links[0] = 18; /* its own place has -1, as in gres.conf */
    str_clear(&text);
    gres_conf_json(&node, &text);
    assert_non_null(strstr(text.text, "\"links\":[-1,18"));
    assert_non_null(strstr(text.text, "\"links\":[18,-1"));
}

/* --- checked ------------------------------------------------------------------------------------------------------ */

static const char *content, *included;

static int give_content(const char *path, Str *to, Err *err)
{
    (void)err;
    if (strcmp(path, "/etc/slurm/gres.conf") == 0)
        str_add(to, content);
    else if (included && strcmp(path, "/etc/slurm/more.conf") == 0)
        str_add(to, included);
    else
        return -ENOENT;
    return 0;
}

static GresConf *check_conf(const char *text)
{
    GresConf *conf;
    content = text;
    assert_int_equal(gres_conf_read("/etc/slurm/gres.conf", "n1", give_content, &arena, &conf, NULL), 0);
    gres_check(&node, &arena, conf);
    return conf;
}

/* The findings are `wanted`: "LINE KEY" of each, with commas. */
static void expect(const char *text, const char *wanted)
{
    CLEANUP(str_done) Str found = str_limited(4096);
    const GresConf *conf = check_conf(text);
    for (size_t i = 0; i < conf->problem_count; i++)
        str_addf(&found, "%s%u %s", i ? ", " : "", conf->problems[i].line, gres_findings[conf->problems[i].kind].key);
    if (strcmp(found.len ? found.text : "", wanted) != 0)
        fail_msg("of\n%s\nfound: %s\nwanted: %s", text, found.text, wanted);
}

static void make_two(void)
{
    add_gpus(&node, "NVIDIA H100 80GB HBM3", 2);
}

static void right_lines(void **state)
{
    (void)state;
    make_two();
    expect("Name=gpu File=/dev/nvidia[0-1]\n", "");
    expect("name = GPU type=\"h100\" FILE=/dev/nvidia0,/dev/nvidia1 Count=2 # both\n", "");
    expect("Name=gpu File=/dev/nvidia0 \\\n  Cores=0-15\nName=gpu File=/dev/nvidia1 CPUs=16-31\n", "");
    expect("Name=gpu File=/dev/nvidia0 Links=-1,0\nName=gpu File=/dev/nvidia1 Link=0,-1 Flags=nvidia_gpu_env\n", "");
    expect("Name=mps Count=200 File=/dev/nvidia9\nName=gpu File=/dev/nvidia[0-1]", "");
    expect("NodeName=n[0-3,7] Name=gpu File=/dev/nvidia[0-1]\nNodeName=n2 Name=gpu File=/dev/nvidia9\n", "");
    expect("AutoDetect=nvml\nNodeName=n1 AutoDetect=off Name=gpu File=/dev/nvidia[0-1]\n", "");
    expect("AutoDetect=nvml\nName=gpu Type=h100 File=/dev/nvidia1\n", "");
    expect("Name=gpu Type=amd File=/dev/dri/renderD128\nName=gpu Type=h100 File=/dev/nvidia[0-1]\n", "");
    expect("\r\n \nName=gpu File=/dev/nvidia[0-1]\r\n", "");
}

static void what_stops_slurmd(void **state)
{
    (void)state;
    make_two();
    expect("Name=gpu File=/dev/nvidia[0-1]\nhello\n", "2 syntax");
    expect("Type=h100 Name=gpu File=/dev/nvidia[0-1]\n", "1 syntax");
    expect("AutoDetect=off Name=gpu File=/dev/nvidia0\n", "1 syntax");
    expect("# a\nName=gpu Fil=/dev/nvidia0 File=/dev/nvidia[0-1]\n", "2 syntax");
    expect("NodeName=n9 Name=gpu Fil=/dev/nvidia0\nName=gpu File=/dev/nvidia[0-1]\n", "1 syntax");
    expect("Name=gpu File=/dev/nvidia[0-\n", "1 syntax");
    expect("Name=gpu File=/dev/nvidia[0-2]\n", "1 file_missing");
    expect("Name=gpu File=/dev/nvidia[0-1] Count=3\n", "1 count");
    expect("Name=gpu File=/dev/nvidia[0-1] Count=two\n", "1 count");
    expect("Name=gpu File=/dev/nvidia0 MultipleFiles=/dev/nvidia0,/dev/nvidia1\nName=gpu File=/dev/nvidia1\n",
           "1 file_and_multiplefiles, 0 not_listed");
    expect("Name=gpu MultipleFiles=/dev/nvidia0\nName=gpu File=/dev/nvidia1\n", "1 multiplefiles_one, 0 not_listed");
    expect("Name=gpu File=/dev/nvidia[0-1]\nName=gpu Count=1\n", "2 file_on_some, 2 no_file");
    expect("Name=gpu Type=h100 File=/dev/nvidia0\nName=gpu File=/dev/nvidia1\n", "2 type_on_some");
    expect("NodeName=n1 AutoDetect=nvml\nNodeName=n1 AutoDetect=off\n", "2 autodetect_differs");
    expect("Include gone.conf\nName=gpu File=/dev/nvidia[0-1]\n", "1 include");
}

static void what_misleads_slurm(void **state)
{
    (void)state;
    make_two();
    expect("# nothing\n", "0 no_line");
    expect("Name=gpu Type=h100 Count=2\n", "1 no_file, 0 not_listed");
    expect("Name=gpu File=/dev/nvidia0\n", "0 not_listed");
    expect("Name=gpu File=/dev/nvidia0,/dev/nvidia[0-1]\n", "1 duplicate");
    expect("Name=gpu File=/dev/nvidia1\nName=gpu File=/dev/nvidia0\n", "2 order");
    expect("Name=gpu File=/dev/nvidia[0-1],/dev/nvidiactl\n", "1 not_a_gpu");
    expect("Name=gpu Type=nvidia_a100 File=/dev/nvidia[0-1]\n", "1 type");
    expect("Name=gpu Type=1g.10gb File=/dev/nvidia[0-1]\n", "1 type");
    expect("Name=gpu File=/dev/nvidia[0-1] Cores=0-15\n", "1 cores");
    expect("Name=gpu File=/dev/nvidia0 Cores=0-7\nName=gpu File=/dev/nvidia1 Cores=16-31\n", "1 cores");
    expect("Name=gpu File=/dev/nvidia[0-1] Cores=0-32\n", "1 cores_invalid");
    expect("Name=gpu File=/dev/nvidia[0-1] Cores=a\n", "1 cores_invalid");
    expect("Name=gpu File=/dev/nvidia0 Links=0,0\nName=gpu File=/dev/nvidia1\n", "1 links_invalid");
    expect("Name=gpu File=/dev/nvidia0 Links=-1,0,0\nName=gpu File=/dev/nvidia1\n", "1 links_invalid");
    expect("Name=gpu File=/dev/nvidia[0-1] Links=-1,0\n", "1 links_invalid");
    expect("Name=gpu File=/dev/nvidia0 Links=-1,4\nName=gpu File=/dev/nvidia1\n", "1 links");
    expect("AutoDetect=nvlm\nName=gpu File=/dev/nvidia[0-1]\n", "1 autodetect_word");
    expect("Name=gpu File=/dev/nvidia[0-1] AutoDetect=nvml\n", "1 autodetect_inline");
    expect("AutoDetect=nvml\nName=gpu Type=a100 File=/dev/nvidia[0-1]\n", "2 type");
    node.plugin = GRES_PLUGIN_MISSING;
    expect("\nAutoDetect=NVML\n", "2 autodetect_plugin");
}

#define CAPS "/dev/nvidia-caps/nvidia-cap"

static void instances(void **state)
{
    (void)state;
    make_two();
    split_gpu(&node, 1, "3g.40gb 1g.10gb");
#define WHOLE "Name=gpu Type=h100 File=/dev/nvidia0\n"
#define LARGE "Name=gpu Type=3g.40gb MultipleFiles=/dev/nvidia1," CAPS "210," CAPS "211\n"
#define SMALL "Name=gpu Type=1g.10gb MultipleFiles=" CAPS "[220-221],/dev/nvidia1\n"
    expect(WHOLE LARGE SMALL, "");
    expect("Name=gpu Type=h100 File=/dev/nvidia[0-1]\n", "1 whole_of_mig, 0 not_listed");
    expect(WHOLE LARGE SMALL "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia1," CAPS "230," CAPS "231\n",
           "4 instance_gone");
    expect(WHOLE LARGE "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia0," CAPS "220," CAPS "221\n",
           "3 instance_parts, 0 not_listed");
    expect(WHOLE LARGE "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia1," CAPS "210," CAPS "221\n",
           "3 instance_parts, 0 not_listed");
    expect(WHOLE LARGE "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia1," CAPS "220\n",
           "3 instance_parts, 0 not_listed");
    expect(WHOLE LARGE "Name=gpu Type=1g.10gb File=" CAPS "221\n", "3 not_a_gpu, 0 not_listed");
    expect(WHOLE LARGE "Name=gpu Type=2g.20gb MultipleFiles=/dev/nvidia1," CAPS "[220-221]\n", "3 type");
    expect(WHOLE SMALL LARGE, "3 order");
    expect(WHOLE LARGE SMALL SMALL, "4 instance_twice");
    expect("AutoDetect=nvml\n" LARGE, "2 autodetect_mig_lines");
    expect("AutoDetect=nvidia\n", "1 autodetect_whole");
    node.gpus[1].instance_count = 0;
    expect("AutoDetect=nvml\n", "1 autodetect_empty");
}

/* Slurm before 23.11 makes the name of a profile of its memory. */
static void types_of_older_slurm(void **state)
{
    (void)state;
    add_gpus(&node, "NVIDIA H200", 1);
    split_gpu(&node, 0, "1g.18gb");
    expect("Name=gpu Type=nvidia_h200_1g.16gb MultipleFiles=/dev/nvidia0," CAPS "[110-111]\n", "");
    expect("Name=gpu Type=nvidia_h200_1g.35gb MultipleFiles=/dev/nvidia0," CAPS "[110-111]\n", "1 type");
}

/* A GPU that could not be read may be the one that a line names. */
static void gpus_that_could_not_be_read(void **state)
{
    (void)state;
    make_two();
    snprintf(node.gpus[1].why, sizeof node.gpus[1].why, "lost");
    expect("Name=gpu File=/dev/nvidia[0-1]\n", "");
    expect("Name=gpu File=/dev/nvidia1\n", "0 not_listed");
}

static void included_files(void **state)
{
    (void)state;
    make_two();
    included = "\nName=gpu File=/dev/nvidia7\n";
    const GresConf *conf = check_conf("include more.conf\nName=gpu File=/dev/nvidia[0-1]\n");
    assert_int_equal(conf->problem_count, 1);
    assert_string_equal(conf->problems[0].file, "/etc/slurm/more.conf");
    assert_int_equal(conf->problems[0].line, 2);
    included = "Include more.conf\n"; /* for ever */
    expect("Include more.conf\nName=gpu File=/dev/nvidia[0-1]\n", "1 include");
    included = NULL;
}

static void findings_in_words(void **state)
{
    (void)state;
    CLEANUP(str_done) Str text = str_limited(64 << 10);
    CLEANUP(str_done) Str json = str_limited(64 << 10);
    make_two();
    const GresConf *conf = check_conf("Name=gpu Type=nvidia_a100 File=/dev/nvidia[0,2] Cores=0-15\n");
    gres_problems_text(conf, &text);
    assert_golden(GOLDEN "/findings.txt", &text);
    gres_problems_json(conf, &json);
    assert_golden(GOLDEN "/findings.json", &json);
}

static int add_word(void *at, const char *name)
{
    str_addf(at, "%s ", name);
    return 0;
}

static void host_lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *names; /* NULL: it is none */
    } rows[] = {{"a", "a "},
                {"a,b[1-2]", "a b1 b2 "},
                {"n[08-10,3]x", "n08x n09x n10x n3x "},
                {"", ""},
                {"a,,b", "a b "},
                {"a[", NULL},
                {"a]", NULL},
                {"a[]", NULL},
                {"a[2-1]", NULL},
                {"a[1,]", NULL},
                {"a[1-2][3]", NULL},
                {"a[x]", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CLEANUP(str_done) Str names = str_limited(400);
        const int rc = gres_expand(rows[i].list, 100, add_word, &names);
        assert_int_equal(rc, rows[i].names ? 0 : -EINVAL);
        if (rows[i].names)
            assert_string_equal(names.len ? names.text : "", rows[i].names);
    }
    CLEANUP(str_done) Str names = str_limited(4000);
    assert_int_equal(gres_expand("a[0-100]", 100, add_word, &names), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(whole_gpus, start_anew),
        cmocka_unit_test_setup(whole_gpus_with_links, start_anew),
        cmocka_unit_test_setup(mig_of_several_sizes, start_anew),
        cmocka_unit_test_setup(mig_of_a_name_with_a_dash, start_anew),
        cmocka_unit_test_setup(mig_of_a30, start_anew),
        cmocka_unit_test_setup(one_gpu_in_mig_mode, start_anew),
        cmocka_unit_test_setup(what_cannot_be_offered, start_anew),
        cmocka_unit_test_setup(lines_of_one_node, start_anew),
        cmocka_unit_test_setup(as_json, start_anew),
        cmocka_unit_test_setup(right_lines, start_anew),
        cmocka_unit_test_setup(what_stops_slurmd, start_anew),
        cmocka_unit_test_setup(what_misleads_slurm, start_anew),
        cmocka_unit_test_setup(instances, start_anew),
        cmocka_unit_test_setup(types_of_older_slurm, start_anew),
        cmocka_unit_test_setup(gpus_that_could_not_be_read, start_anew),
        cmocka_unit_test_setup(included_files, start_anew),
        cmocka_unit_test_setup(findings_in_words, start_anew),
        cmocka_unit_test_setup(host_lists, start_anew),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&arena);
    return failed;
}
