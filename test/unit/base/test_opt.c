/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/opt.c. */
#include "base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "opt_sample.h"

static Arena arena;
static Sample sample;
static OptPlace places[ARRAY_LEN(sample_opts)];
static const OptSet set = {
    .opts = sample_opts, .count = ARRAY_LEN(sample_opts), .into = &sample, .arena = &arena, .places = places};

static int set_up(void **state)
{
    (void)state;
    memset(&sample, 0xee, sizeof(sample));
    return opt_defaults(&set, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

/* Parses a command line given as one text, words parted by a blank. */
static int parse(const char *line, OptArgs *args, Err *err)
{
    char *argv[20] = {0};
    char *words = arena_printf(&arena, "stoker %s", line), *rest = NULL;
    int argc = 0;

    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    return opt_args(&set, argc, argv, args, err);
}

static int load(const char *text, Err *err)
{
    const YamlNode *root = NULL;

    assert_int_equal(yaml_load("c.yaml", text, strlen(text), &arena, &root, NULL), 0);
    return opt_yaml(&set, root, err);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(sample.interval_ns, NS_PER_S);
    assert_int_equal(sample.fields.len, 2);
    assert_string_equal(sample.fields.items[1], "power");
    assert_string_equal(sample.address, ":9400");
    assert_int_equal(sample.history_bytes, 16 << 20);
    assert_int_equal(sample.offset, 0);
    assert_true(sample.share == 0.5);
    assert_int_equal(sample.color, 0);
    assert_false(sample.quiet);
    assert_true(sample.cache);
    assert_int_equal(sample.where.len, 0);
    assert_null(sample.rules);
}

static void test_wrong_default_is_named(void **state)
{
    const OptSpec wrong[] = {{.key = "a.b", .type = OPT_UINT, .off = offsetof(Sample, port), .def = "x"}};
    Err err = {0};

    (void)state;
    assert_int_equal(opt_defaults(&(OptSet){.opts = wrong, .count = 1, .into = &sample, .arena = &arena}, &err),
                     -EINVAL);
    assert_memory_equal(err.text, "default of 'a.b': 'x'", 21);
}

static void test_args(void **state)
{
    OptArgs args;

    (void)state;
    assert_int_equal(parse("-i 500ms one --history-size=1GiB -qp9 --no-cache --offset -3 --share .25 --color never "
                           "two - -- --quiet -x",
                           &args, NULL),
                     0);
    assert_int_equal(sample.interval_ns, 500 * NS_PER_MS);
    assert_int_equal(sample.history_bytes, 1 << 30);
    assert_true(sample.quiet);
    assert_int_equal(sample.port, 9);
    assert_false(sample.cache);
    assert_int_equal(sample.offset, -3);
    assert_true(sample.share == 0.25);
    assert_int_equal(sample.color, 2);
    assert_int_equal(args.len, 5);
    assert_string_equal(args.items[0], "one");
    assert_string_equal(args.items[2], "-");
    assert_string_equal(args.items[3], "--quiet");
    assert_string_equal(args.items[4], "-x");
    assert_int_equal(parse("--cache=yes --quiet=off -i2s", &args, NULL), 0);
    assert_true(sample.cache);
    assert_false(sample.quiet);
    assert_int_equal(sample.interval_ns, 2 * NS_PER_S);
    assert_int_equal(args.len, 0);
}

/* Behind the first argument all words are the command's. */
static void test_args_before_a_command(void **state)
{
    char *words[] = {"test", "-q", "run", "--color", "-x", "--", "--quiet", NULL};
    OptArgs args;

    (void)state;
    OptSet before = set;
    before.command = true;
    assert_int_equal(opt_args(&before, ARRAY_LEN(words) - 1, words, &args, NULL), 0);
    assert_true(sample.quiet);
    assert_int_equal(args.len, 5);
    assert_string_equal(args.items[0], "run");
    assert_string_equal(args.items[3], "--");
    words[2] = "--"; /* and behind "--" the first word too */
    assert_int_equal(opt_args(&before, ARRAY_LEN(words) - 1, words, &args, NULL), 0);
    assert_int_equal(args.len, 4);
    assert_string_equal(args.items[0], "--color");
}

static void test_lists(void **state)
{
    OptArgs args;

    (void)state;
    /* the first flag replaces what was there, the next ones add; a list of whole texts keeps its commas */
    assert_int_equal(parse("--sample-fields a,b --sample-fields=c --where x{a=1,b=2} --where y", &args, NULL), 0);
    assert_int_equal(sample.fields.len, 3);
    assert_string_equal(sample.fields.items[2], "c");
    assert_int_equal(sample.where.len, 2);
    assert_string_equal(sample.where.items[0], "x{a=1,b=2}");
    assert_int_equal(parse("--sample-fields d", &args, NULL), 0);
    assert_int_equal(sample.fields.len, 1);
    assert_int_equal(parse("--sample-fields=", &args, NULL), 0);
    assert_int_equal(sample.fields.len, 0);
}

static void test_args_errors(void **state)
{
    static const struct {
        const char *line, *error;
    } rows[] = {
        {"--intervall 1s", "unknown option --intervall, did you mean --interval?"},
        {"--qiet", "unknown option --qiet, did you mean --quiet?"},
        {"--something-else", "unknown option --something-else"},
        {"--hlep", "unknown option --hlep, did you mean --help?"},
        {"--int 1s", "unknown option --int"},
        {"-x", "unknown option -x"},
        {"-qx", "unknown option -x"},
        {"--rules x", "unknown option --rules"},
        {"--interval", "option --interval needs a value (DURATION)"},
        {"-p", "option --port needs a value (NUMBER)"},
        {"--interval=1x", "option --interval: '1x' is not a duration such as 100ms, 30s, 1h30m or 1d"},
        {"--interval 50ms", "option --interval: '50ms' is out of range, 100ms to 1m is allowed"},
        {"--interval=", "option --interval: '' is not a duration such as 100ms, 30s, 1h30m or 1d"},
        {"--history-size 1K", "option --history-size: '1K' is out of range, at least 4KiB is allowed"},
        {"--offset 6", "option --offset: '6' is out of range, -5 to 5 is allowed"},
        {"--port -1", "option --port: '-1' is not a whole number without sign"},
        {"--share 1.5", "option --share: '1.5' is out of range, 0 to 1 is allowed"},
        {"--color red", "option --color: 'red' is none of auto, always, never"},
        {"--quiet=maybe", "option --quiet: 'maybe' is neither true nor false"},
        {"--no-quiet=true", "option --no-quiet takes no value"},
        {"--no-port", "unknown option --no-port"},
        {"--=x", "unknown option --"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        OptArgs args = {.len = 77};
        Err err = {0};

        if (parse(rows[i].line, &args, &err) >= 0 || strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("%s: %s", rows[i].line, err.text);
        assert_int_equal(args.len, 77);
    }
}

static void test_help_flag(void **state)
{
    OptArgs args;

    (void)state;
    assert_int_equal(parse("--help", &args, NULL), OPT_HELP);
    assert_int_equal(parse("-qh --nonsense", &args, NULL), OPT_HELP);
    assert_int_equal(parse("-- -h", &args, NULL), 0);
}

static void test_env(void **state)
{
    char *good[] = {(char[]){"STOKER_INTERVALS=9s"}, (char[]){"STOKER_INTERVAL=2s"}, (char[]){"STOKER_COLOR="}, NULL};
    char *bad[] = {(char[]){"STOKER_COLOR=red"}, NULL};
    Err err = {0};

    (void)state;
    sample.color = 1;
    assert_int_equal(opt_env(&set, good, NULL), 0);
    assert_int_equal(sample.interval_ns, 2 * NS_PER_S);
    assert_int_equal(sample.color, 1);
    assert_int_equal(opt_env(&set, bad, &err), -EINVAL);
    assert_string_equal(err.text, "environment variable STOKER_COLOR: 'red' is none of auto, always, never");
}

static void test_yaml(void **state)
{
    (void)state;
    assert_int_equal(load("sample:\n"
                          "  interval: 5s\n"
                          "  fields: [\"a,b\", c]\n"
                          "server:\n"
                          "  http: {address: \"127.0.0.1:1\"}\n"
                          "history_size: 64MiB\n"
                          "port: 8080\n"
                          "cache: no\n"
                          "color: never\n"
                          "rules:\n"
                          "  - {any: thing}\n",
                          NULL),
                     0);
    assert_int_equal(sample.interval_ns, 5 * NS_PER_S);
    assert_int_equal(sample.fields.len, 2);
    assert_string_equal(sample.fields.items[0], "a,b");
    assert_string_equal(sample.address, "127.0.0.1:1");
    assert_int_equal(sample.history_bytes, 64 << 20);
    assert_int_equal(sample.port, 8080);
    assert_false(sample.cache);
    assert_int_equal(sample.color, 2);
    assert_int_equal(sample.rules->kind, YAML_SEQ);
    assert_int_equal(load("sample:\nserver: {http: }\n", NULL), 0);
    assert_int_equal(load("", NULL), 0);
    assert_int_equal(load("sample:\n  fields: x,y\n", NULL), 0);
    assert_int_equal(sample.fields.len, 2);
}

static void test_yaml_errors(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"prot: 1\n", "c.yaml:1:1: unknown key 'prot', did you mean 'port'? Allowed: sample, server, history_size, "
                      "offset, port, share, color, cache, rules"},
        {"sample:\n  intervall: 1s\n",
         "c.yaml:2:3: unknown key 'intervall' in 'sample', did you mean 'interval'? Allowed: interval, fields"},
        {"server:\n  http:\n    nothing: 1\n", "c.yaml:3:5: unknown key 'nothing' in 'server.http'; allowed: address"},
        {"quiet: true\n", "c.yaml:1:1: unknown key 'quiet'"},
        {"sample.interval: 1s\n", "c.yaml:1:1: unknown key 'sample.interval'"},
        {"sample: 3\n", "c.yaml:1:9: 'sample' must be a mapping, not a text"},
        {"port: [1]\n", "c.yaml:1:7: 'port' must be a text, not a list"},
        {"port:\n", "c.yaml:1:6: 'port' has no value"},
        {"port: x\n", "c.yaml:1:7: 'port': 'x' is not a whole number without sign"},
        {"sample: {fields: [a, [b]]}\n", "c.yaml:1:22: 'sample.fields' must be a text, not a list"},
        {"offset: 9\n", "c.yaml:1:9: 'offset': '9' is out of range, -5 to 5 is allowed"},
        {"- a\n", "c.yaml:1:1: a mapping of options is expected here, not a list"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Err err = {0};

        if (load(rows[i].text, &err) >= 0 || strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

/* What is found wrong later: the last giver is named, of a list in a file the item. */
static void test_places(void **state)
{
    static const struct {
        const char *yaml, *env, *line, *key;
        size_t item;
        const char *error;
    } rows[] = {
        {"", NULL, "", "port", 0, "odd"},
        {"cache: no\nport: 3\n", NULL, "", "port", 0, "c.yaml:2:7: 'port': odd"},
        {"sample:\n  fields:\n  - a\n  - b\n", NULL, "", "sample.fields", 1, "c.yaml:4:5: 'sample.fields': odd"},
        {"sample:\n  fields:\n  - a\n  - b\n", NULL, "", "sample.fields", 2, "c.yaml:3:3: 'sample.fields': odd"},
        {"sample: {fields: 'a,b'}\n", NULL, "", "sample.fields", 1, "c.yaml:1:18: 'sample.fields': odd"},
        {"rules: [a]\n", NULL, "", "rules", 1, "c.yaml:1:8: 'rules': odd"},
        {"sample: {interval: 2s}\n", "STOKER_INTERVAL=3s", "", "sample.interval", 0,
         "environment variable STOKER_INTERVAL: odd"},
        {"sample: {interval: 2s}\n", "STOKER_INTERVAL=3s", "-i 4s", "sample.interval", 0, "option --interval: odd"},
        {"server: {http: {address: a}}\n", NULL, "--server-http-address b", "server.http.address", 0,
         "option --server-http-address: odd"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *envp[] = {rows[i].env ? arena_strdup(&arena, rows[i].env) : NULL, NULL};
        OptArgs args;
        Err err = {0};

        assert_int_equal(opt_defaults(&set, NULL), 0);
        assert_int_equal(load(rows[i].yaml, NULL), 0);
        assert_int_equal(opt_env(&set, envp, NULL), 0);
        assert_int_equal(parse(rows[i].line, &args, NULL), 0);
        assert_int_equal(opt_fail(&set, rows[i].key, rows[i].item, &err, "%s", "odd"), -EINVAL);
        assert_string_equal(err.text, rows[i].error);
    }
}

static void test_length_of_a_text(void **state)
{
    const OptSpec spec[] = {OPT_ROW("name", OPT_STRING, Sample, address, .min = 1, .max = 4)};
    const OptSet bounded = {.opts = spec, .count = 1, .into = &sample, .arena = &arena};
    char *good[] = {(char[]){"x"}, (char[]){"--name=abcd"}}, *empty[] = {(char[]){"x"}, (char[]){"--name="}},
         *longer[] = {(char[]){"x"}, (char[]){"--name=abcde"}};
    OptArgs args;
    Err err = {0};

    (void)state;
    assert_int_equal(opt_args(&bounded, 2, good, &args, NULL), 0);
    assert_int_equal(opt_args(&bounded, 2, empty, &args, &err), -EINVAL);
    assert_string_equal(err.text, "option --name: it must not be empty");
    assert_int_equal(opt_args(&bounded, 2, longer, &args, &err), -ENAMETOOLONG);
    assert_string_equal(err.text, "option --name: 'abcde...' is longer than 4 bytes");
    assert_string_equal(sample.address, "abcd");
    assert_false(opt_has_range(spec));
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t bytes;
    } rows[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"1K", 0, 1024},
        {"1.5GiB", 0, 3 << 29},
        {"10MB", 0, 10000000},
        {"2kB", 0, 2000},
        {"7B", 0, 7},
        {"1TiB", 0, UINT64_C(1) << 40},
        {"18446744073709551615", 0, UINT64_MAX},
        {"", -EINVAL, 0},
        {"K", -EINVAL, 0},
        {"1 K", -EINVAL, 0},
        {"1k", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"0.3B", -EINVAL, 0},
        {"1..5K", -EINVAL, 0},
        {"18446744073709551616", -ERANGE, 0},
        {"99999999TiB", -ERANGE, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t bytes = 77;

        assert_int_equal(opt_parse_size(rows[i].text, &bytes, NULL), rows[i].rc);
        assert_int_equal(bytes, rows[i].rc ? 77 : rows[i].bytes);
    }
}

/* Every row: its default fits its range, its flag and key find it again, and no two rows share a name. */
static void test_walk(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sample_opts); i++) {
        const OptSpec *spec = &sample_opts[i];
        char flag[OPT_FLAG_MAX], other[OPT_FLAG_MAX];

        assert_ptr_equal(opt_find(sample_opts, ARRAY_LEN(sample_opts), spec->key), spec);
        for (size_t j = 0; j < i && opt_flag(spec, flag); j++)
            if (opt_flag(&sample_opts[j], other))
                assert_string_not_equal(opt_flag(spec, flag), opt_flag(&sample_opts[j], other));
    }
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"top", "trace", "status", "check"};

    (void)state;
    assert_string_equal(opt_nearest("tpo", names, 4), "top");
    assert_string_equal(opt_nearest("statsu", names, 4), "status");
    assert_string_equal(opt_nearest("chek", names, 4), "check");
    assert_null(opt_nearest("zzzzzz", names, 4));
    assert_null(opt_nearest("nope", names, 4)); /* two edits in four letters are another word */
    assert_null(opt_nearest("ttpo", names, 4));
    assert_null(opt_nearest("", names, 4));
    assert_null(opt_nearest("x", names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_default_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_args, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_args_before_a_command, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_args_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_help_flag, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_env, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_yaml, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_yaml_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_length_of_a_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_walk, set_up, tear_down),
        cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
