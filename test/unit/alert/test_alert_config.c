/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/service/alert/config.c: what is read from a configuration, where its limits are, and which incidents a
 * route matches, and what is refused with which words. */
#include "service/alert/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "test/unit/golden.h"

CLEANUP_POINTER(AlertTree, alert_tree_free);
CLEANUP_POINTER(Catalogue, catalogue_free);

static char folder[] = "/tmp/alert-config-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    write_file("password", "word\r\n\n");
    write_file("secret", "sign");
    write_file("token", "bear\n");
    write_file("ca.pem", "x");
    return 0;
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* The tree borrows its YAML for the call alone. */
static int load_for(const char *yaml, const Catalogue *catalogue, AlertTree **ret, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    const YamlNode *root = NULL;
    char name[64];

    snprintf(name, sizeof name, "%s/c.yaml", folder);
    assert_int_equal(yaml_load(name, yaml, strlen(yaml), &arena, &root, err), 0);
    return alert_tree_new(root, catalogue, ret, err);
}

static int load(const char *yaml, AlertTree **ret, Err *err)
{
    return load_for(yaml, NULL, ret, err);
}

static void add_list(Str *out, const char *name, const OptList *list)
{
    for (size_t i = 0; i < list->len; i++)
        str_addf(out, "%s %s%s", i ? "" : name, list->items[i], i + 1 < list->len ? "," : "");
}

static void add_labels(Str *out, const char *name, const AlertLabels *labels)
{
    if (!labels->len)
        return;
    str_addf(out, "%s ", name);
    alert_labels_json(labels, out);
}

/* A path below the folder without it. */
static void add_text(Str *out, const char *name, const char *text)
{
    if (text)
        str_addf(out, "%s %s", name, strncmp(text, folder, strlen(folder)) ? text : text + strlen(folder) + 1);
}

static void add_receiver(Str *out, const ReceiverConfig *r)
{
    str_addf(out, "%s: %s, keep %gs, timeout %gs, resend %gs%s", r->name, receiver_kind_key(r->kind),
             (double)r->keep_ns / 1e9, (double)r->timeout_ns / 1e9, (double)r->resend_ns / 1e9,
             r->gets_reports ? ", reports" : "");
    add_list(out, ", urls", &r->urls);
    add_text(out, ", unix", r->request.unix_socket);
    add_text(out, ", ca", r->request.tls.ca_file);
    add_text(out, ", cert", r->request.tls.cert_file);
    add_text(out, ", key", r->request.tls.key_file);
    add_text(out, ", server", r->request.tls.server_name);
    add_text(out, ", insecure", r->request.tls.insecure ? "" : NULL);
    add_text(out, ", user", r->request.user);
    for (size_t i = 0; i < SECRET_END; i++) {
        add_text(out, ", file", r->secret_files[i]);
        add_text(out, ", secret", r->secrets[i]);
    }
    for (size_t i = 0; i < r->header_count; i++)
        add_text(out, ", header", r->headers[i]);
    for (size_t i = 0; r->argv && r->argv[i]; i++)
        add_text(out, ", arg", r->argv[i]);
    for (size_t i = 0; r->env && r->env[i]; i++)
        add_text(out, ", env", r->env[i]);
    add_text(out, ", socket", r->socket);
    str_addc(out, '\n');
}

static void add_route(Str *out, const AlertTree *tree, const RouteConfig *r)
{
    str_addf(out, "routes %x causes %x at least %s, repeat %gs%s", r->routes, r->causes & ((1U << CAUSE_END) - 1),
             fault_severities[r->severity].key, (double)r->repeat_ns / 1e9, r->go_on ? ", continue" : "");
    add_list(out, ", classes", &r->classes);
    add_list(out, ", gpus", &r->gpus);
    add_labels(out, ", match", &r->match);
    add_labels(out, ", labels", &r->labels);
    add_text(out, ", runbook", r->runbook);
    str_add(out, " ->");
    for (size_t i = 0; i < r->receiver_count; i++)
        str_addf(out, " %s", tree->receivers[r->receivers[i]].name);
    str_addc(out, '\n');
}

static void expect_tree(const char *yaml, const char *expected)
{
    CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;
    CLEANUP(str_done) Str out = str_limited(65536);
    Err err = {0};

    if (load(yaml, &tree, &err) < 0)
        fail_msg("%s", err.text);
    if (tree->external_url)
        str_addf(&out, "at %s\n", tree->external_url);
    add_labels(&out, "labels", &tree->labels);
    for (size_t i = 0; i < tree->receiver_count; i++)
        add_receiver(&out, &tree->receivers[i]);
    for (size_t i = 0; i < tree->route_count; i++)
        add_route(&out, tree, &tree->routes[i]);
    assert_string_equal(out.text, expected);
}

static void test_everything_is_read(void **state)
{
    (void)state;
    expect_tree(
        "external_url: https://node7.example/stoker/\n"
        "labels: {team: sre, cluster: east}\n"
        "receivers:\n"
        "  - name: am\n"
        "    alertmanager:\n"
        "      urls: [http://am1:9093, 'https://am2/prefix/']\n"
        "      resend: 30s\n"
        "      tls: {ca_file: ca.pem, cert_file: /dev/null, key_file: password, server_name: am}\n"
        "      basic_auth: {username: stoker, password_file: password}\n"
        "      headers: {X-Scope-OrgID: gpu, b: ''}\n"
        "  - name: hook\n"
        "    keep: 2d\n"
        "    webhook: {url: 'http://hooks/x?y=1', secret_file: secret, bearer_file: token, timeout: 1s,\n"
        "              unix_socket: /run/x, tls: {insecure_skip_verify: yes}}\n"
        "  - {name: short, webhook: 'http://hooks/'}\n"
        "  - {name: page, command: [/bin/true, --now, 'a, b']}\n"
        "  - {name: script, command: {argv: [x], timeout: 5s, env: {TEAM: gpu, B: ''}}}\n"
        "  - {name: log, journald: {socket: /run/other}}\n"
        "routes:\n"
        "  - match: {route: [page, ticket], class: ['gpu-*', ecc-storm], cause: [memory, bus], severity: error,\n"
        "            gpu: [0, GPU-1], labels: {team: s*}}\n"
        "    receivers: [hook, am, hook]\n"
        "    labels: {team: memory}\n"
        "    runbook: https://wiki/{class}\n"
        "    repeat_interval: 1h\n"
        "    continue: yes\n"
        "  - {match: {route: [none, user]}, receiver: log, receivers: [short, log]}\n"
        "  - {receivers: []}\n"
        "job_reports: [short, hook]\n",
        "at https://node7.example/stoker/\n"
        "labels {\"cluster\":\"east\",\"team\":\"sre\"}"
        "am: alertmanager, keep 86400s, timeout 10s, resend 30s, urls http://am1:9093, https://am2/prefix/, ca ca.pem, "
        "cert /dev/null, key password, server am, user stoker, file password, secret word, header X-Scope-OrgID: gpu, "
        "header b: \n"
        "hook: webhook, keep 172800s, timeout 1s, resend 0s, reports, urls http://hooks/x?y=1, unix /run/x, insecure , "
        "file token, secret bear, file secret, secret sign\n"
        "short: webhook, keep 86400s, timeout 10s, resend 0s, reports, urls http://hooks/\n"
        "page: command, keep 86400s, timeout 30s, resend 0s, arg /bin/true, arg --now, arg a, b\n"
        "script: command, keep 86400s, timeout 5s, resend 0s, arg x, env TEAM=gpu, env B=\n"
        "log: journald, keep 86400s, timeout 0s, resend 0s, socket /run/other\n"
        "routes c causes c at least error, repeat 3600s, continue, classes gpu-*, ecc-storm, gpus 0, GPU-1, "
        "match {\"team\":\"s*\"}, labels {\"team\":\"memory\"}, runbook https://wiki/{class} -> hook am\n"
        "routes 3 causes 1fff at least info, repeat 14400s -> log short\n"
        "routes fffffffe causes 1fff at least info, repeat 14400s ->\n");
}

static void test_what_is_left_out_has_its_default(void **state)
{
    (void)state;
    expect_tree("receivers: {a: {journald: }, am: {alertmanager: {urls: http://x}}}\n",
                "a: journald, keep 86400s, timeout 0s, resend 0s, socket /run/systemd/journal/socket\n"
                "am: alertmanager, keep 86400s, timeout 10s, resend 60s, urls http://x\n"
                "routes fffffffe causes 1fff at least info, repeat 14400s -> a am\n");
    expect_tree("labels: {a: b}", "labels {\"a\":\"b\"}"); /* no receivers: no route */
    expect_tree("receivers: {a: {journald: }}\nroutes: []",
                "a: journald, keep 86400s, timeout 0s, resend 0s, socket /run/systemd/journal/socket\n");
}

static void add_times(Str *out, const char *fmt, int count)
{
    for (int i = 0; i < count; i++) {
        str_add(out, i ? ", " : "");
        for (const char *c = fmt; *c; c++)
            if (*c == '#')
                str_addf(out, "%d", i);
            else
                str_addc(out, *c);
    }
}

/* Each limit: as many are accepted, one more is refused. */
static void test_limits_are_where_they_are_said_to_be(void **state)
{
    static const struct {
        const char *before, *each, *after;
        int most;
        const char *why;
    } rows[] = {
        {"receivers: {a: {alertmanager: {urls: [", "http://a#", "]}}}", ALERT_URLS_MAX, "more than 8 URLs"},
        {"receivers: {a: {webhook: {url: http://a, headers: {", "h#: v", "}}}}", ALERT_HEADERS_MAX,
         "more than 16 headers"},
        {"labels: {", "l#: v", "}", ALERT_LABELS_MAX / 2, "more than 24 labels"},
        {"receivers: {a: {journald: }}\nroutes: [{receiver: a, labels: {", "l#: v", "}}]", ALERT_LABELS_MAX / 2,
         "more than 24 labels"},
        {"receivers: {", "a#: {journald: }", "}", ALERT_RECEIVERS_MAX, "more than 32 receivers"},
        {"routes: [", "{receivers: []}", "]", ALERT_ROUTES_MAX, "more than 256 routes"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int more = 0; more < 2; more++) {
            CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;
            CLEANUP(str_done) Str yaml = str_limited(65536);
            Err err = {0};

            str_add(&yaml, rows[i].before);
            add_times(&yaml, rows[i].each, rows[i].most + more);
            str_add(&yaml, rows[i].after);
            assert_int_equal(load(yaml.text, &tree, &err), more ? -EINVAL : 0);
            if (more)
                assert_non_null(strstr(err.text, rows[i].why));
        }
}

static void test_lengths_have_limits(void **state)
{
    static const struct {
        const char *before, *after;
        int most;
    } rows[] = {
        {"labels: {a: ", "}", ALERT_LABEL_VALUE_MAX},
        {"labels: {", ": b}", ALERT_LABEL_NAME_MAX},
        {"receivers: {", ": {journald: }}", 64},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int more = 0; more < 2; more++) {
            CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;
            char text[600], yaml[700];
            Err err = {0};

            memset(text, 'x', sizeof text);
            text[rows[i].most + more] = '\0';
            snprintf(yaml, sizeof yaml, "%s%s%s", rows[i].before, text, rows[i].after);
            assert_int_equal(load(yaml, &tree, &err), more ? -EINVAL : 0);
        }
}

static void test_a_url_has_a_scheme_and_a_host(void **state)
{
    static const struct {
        const char *text;
        bool fits;
    } rows[] = {
        {"http://a", true},    {"https://a:1/x?y#z", true}, {"http://", false},    {"https://", false},
        {"http:///x", false},  {"https://:80", false},      {"http://?x", false},  {"http://#x", false},
        {"HTTP://a", false},   {"ftp://a", false},          {"a", false},          {"", false},
        {"http://a b", false}, {"http://a\tb", false},      {"http://a\n", false}, {"https://a\r", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(alert_is_url(rows[i].text), rows[i].fits);
}

static void test_a_secret_that_cannot_be_read_again_stays(void **state)
{
    CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;
    Err err = {0};

    (void)state;
    assert_int_equal(
        load("receivers: {a: {webhook: {url: http://a, secret_file: secret, bearer_file: token}}}", &tree, &err), 0);
    write_file("secret", "new\n");
    receiver_read_secrets(&tree->receivers[0]);
    assert_string_equal(tree->receivers[0].secrets[SECRET_SIGNING], "new");
    write_file("secret", "two\nlines\n");
    write_file("token", "newer");
    receiver_read_secrets(&tree->receivers[0]);
    assert_string_equal(tree->receivers[0].secrets[SECRET_SIGNING], "new");
    assert_string_equal(tree->receivers[0].secrets[SECRET_BEARER], "bear"); /* all or none */
    write_file("secret", "sign");
    write_file("token", "bear\n");
}

/* One route against an incident: a warning for a page, of class ecc-storm and cause memory, on GPU 3 of team "sre". */
static void test_a_route_matches_what_all_its_words_match(void **state)
{
    static const struct {
        const char *match;
        bool fits;
    } rows[] = {
        {"{}", true},
        {"{route: page}", true},
        {"{route: [ticket, page]}", true},
        {"{route: ticket}", false},
        {"{cause: memory}", true},
        {"{cause: [bus, link]}", false},
        {"{severity: info}", true},
        {"{severity: warning}", true},
        {"{severity: error}", false},
        {"{class: ecc-storm}", true},
        {"{class: [gpu-lost, 'ecc-*']}", true},
        {"{class: gpu-lost}", false},
        {"{gpu: 3}", true},
        {"{gpu: [1, GPU-x]}", true},
        {"{gpu: [1, 2, GPU-y]}", false},
        {"{labels: {team: s*}}", true},
        {"{labels: {team: s*, rack: '?'}}", true},
        {"{labels: {team: s*, rack: x?}}", false},
        {"{labels: {floor: x}}", false},
        {"{route: page, class: gpu-lost}", false},
        {"{class: ecc-storm, gpu: 2}", false},
    };
    const Incident incident = {
        .class = "ecc-storm", .route = ROUTE_PAGE, .cause = CAUSE_MEMORY, .severity = SEVERITY_WARNING};
    AlertLabels labels = {0};

    (void)state;
    alert_labels_set(&labels, "team", "sre");
    alert_labels_set(&labels, "rack", "7");
    alert_labels_set(&labels, "gpu", "3");
    alert_labels_set(&labels, "UUID", "GPU-x");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;
        char yaml[256];
        Err err = {0};

        snprintf(yaml, sizeof yaml, "routes: [{receivers: [], match: %s}]", rows[i].match);
        if (load(yaml, &tree, &err) < 0)
            fail_msg("%s", err.text);
        if (alert_route_matches(&tree->routes[0], &incident, &labels) != rows[i].fits)
            fail_msg("%s", rows[i].match);
    }
    labels.len = 0; /* an incident of the node has no GPU */
    RouteConfig of_gpu = {.routes = ~0U, .causes = ~0U, .gpus = {(const char *const[]){""}, 1}};
    assert_false(alert_route_matches(&of_gpu, &incident, &labels));
}

/* The whole message of each, with its place, is in golden/refused.txt. */
static void test_nonsense_is_refused_with_its_place(void **state)
{
    static const char *const rows[] = {
        "nonsense: 1",
        "receivers: am",
        "receivers: [{webhook: http://x/}]",
        "receivers: [{name: a}]",
        "receivers: [{name: a, webhook: http://x/, journald: }]",
        "receivers: [{name: a, journald: }, {name: a, journald: }]",
        "receivers: {a: {name: b, journald: }}",
        "receivers: {a: {webhook: {}}}",
        "receivers: {a: {webhook: }}",
        "receivers: {a: {webhook: 'ftp://x'}}",
        "receivers: {a: {webhook: 'http://'}}",
        "receivers: {a: {alertmanager: {urls: []}}}",
        "receivers: {a: {alertmanager: {urls: [http://a, nope]}}}",
        "receivers: {a: {alertmanager: {url: http://a}}}",
        "receivers: {a: {alertmanager: {urls: [http://a], resend: 0s}}}",
        "receivers: {a: {webhook: {url: 'http://a', timeout: 0s}}}",
        "receivers: {a: {webhook: {url: 'http://a', basic_auth: {username: x}}}}",
        "receivers: {a: {webhook: {url: 'http://a', tls: {cert_file: x}}}}",
        "receivers: {a: {webhook: {url: 'http://a', headers: {'a b': x}}}}",
        "receivers: {a: {webhook: {url: \"http://a\", headers: {a: \"x\\r\\ny: z\"}}}}",
        "receivers: {a: {command: }}",
        "receivers: {a: {command: []}}",
        "receivers: {a: {command: {argv: [x], env: {a-b: c}}}}",
        "receivers: {a: {keep: never, journald: }}",
        "receivers: {a: {journald: }}\njob_reports: [a]",
        "receivers: {a: {journald: }}\njob_reports: [b]",
        "routes: [{receiver: a}]",
        "routes: [{match: {}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {route: [pages]}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {cause: luck}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {severity: bad}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {class: [gpu-lost, gpu-lots]}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {class: 'gpu-x*'}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {gpu: [first]}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, match: {labels: {a-b: c}}}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, repeat_interval: soon}]",
        "receivers: {a: {journald: }}\nroutes: [{receiver: a, group_by: [class]}]",
        "receivers: {a: {journald: }}\nroutes: {receiver: a}",
        "labels: {1a: b}",
        "labels: [a]",
        "external_url: node7",
        "receivers: {a: {webhook: {url: 'http://a', basic_auth: {password_file: x}}}}",
        "receivers: {a: {webhook: {url: 'http://a', tls: {ca_file: missing.pem}}}}",
        ("receivers: {a: {webhook: {url: 'http://a', bearer_file: token, basic_auth: {username: x, password_file: "
         "password}}}}"),
        "receivers: {a: {webhook: {url: 'http://a', secret_file: missing}}}",
        "receivers: {a: {webhook: {url: 'http://a', secret_file: empty}}}",
        "receivers: {a: {webhook: {url: 'http://a', secret_file: lines}}}",
        "receivers: {a: {webhook: {url: 'http://a', secret_file: large}}}",
        "receivers: {a: {journald: }}\nroutes: [{receivers: [a, b]}]",
    };
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    CLEANUP(str_done) Str out = str_limited(65536);
    char large[5000];
    Err err = {0};

    (void)state;
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    write_file("empty", "");
    write_file("lines", "two\nlines\n");
    write_file("large", large);
    assert_int_equal(catalogue_new(NULL, 0, &catalogue, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;

        if (load_for(rows[i], catalogue, &tree, &err) == 0)
            fail_msg("%s", rows[i]);
        str_addf(&out, "%s\n    ", rows[i]);
        for (const char *at = err.text; *at; at++) /* the folder has another name each time */
            if (strncmp(at, folder, strlen(folder)) == 0) {
                str_add(&out, "FOLDER");
                at += strlen(folder) - 1;
            } else {
                str_addc(&out, *at);
            }
        str_addc(&out, '\n');
    }
    assert_golden(GOLDEN "/refused.txt", &out);
}

static void test_notes_say_which_incidents_reach_nobody(void **state)
{
    static const struct {
        const char *yaml;
        uint32_t gpus;
        const char *expected;
    } rows[] = {
        {"receivers: {a: {journald: }}", 8, ""},
        {"labels: {a: b}", 8, ""}, /* nobody is to hear anything */
        {"receivers: {a: {journald: }, b: {webhook: http://b}, c: {webhook: http://c}}\nroutes: [{receiver: a}]\n"
         "job_reports: [c]",
         8, "alerts: no route leads to receiver 'b'\n"},
        {"receivers: {a: {journald: }}\nroutes: [{match: {gpu: [0, 7, 8, GPU-9]}, receiver: a}, {receiver: a}]", 8,
         "alerts: a route names GPU 8, this node has 8 GPUs\n"},
        {"receivers: {c: {command: [/nowhere/page]}, d: {command: [env]}, e: {command: [no-such-program]}, f: "
         "{command: "
         "[/bin/sh]}}\nroutes: [{receivers: [c, d, e, f]}]",
         8,
         "alerts: receiver 'c': '/nowhere/page': No such file or directory\nalerts: receiver 'e': 'no-such-program': "
         "No "
         "such file or directory\n"},
        {"receivers: {a: {journald: }}\nroutes: [{match: {gpu: [8]}, receiver: a}, {receiver: a}]", 0, ""},
        {"receivers: {a: {journald: }}\nroutes: [{match: {gpu: 0}, receivers: []}, {receiver: a}]", 8, ""},
        {"receivers: {a: {journald: }}\nroutes: [{match: {labels: {a: b}}, receivers: []}, {receiver: a}]", 8, ""},
        {"receivers: {a: {journald: }}\nroutes: [{continue: yes, receivers: []}, {receiver: a}]", 8, ""},
        {"receivers: {a: {journald: }}\nroutes: [{match: {class: gpu-lost}, receivers: []}, {receiver: a}]", 8,
         "alerts: of the incidents of route 'page' these reach nobody: gpu-lost (fatal); a last route {match: {route: "
         "page}} "
         "with a receiver catches them\n"},
        {"receivers: {a: {journald: }}\nroutes: [{match: {severity: info}, receiver: a}]", 8, ""}, /* this or worse */
        {"receivers: {a: {journald: }, b: {journald: }}\n"
         "routes: [{match: {severity: info}, receiver: a}, {match: {route: page}, receiver: b}]",
         8, "alerts: route 2 gets nothing: route 1 takes all that it matches\n"},
        {"receivers: {a: {journald: }, b: {journald: }}\n"
         "routes: [{match: {severity: info}, continue: yes, receiver: a}, {match: {route: page}, receiver: b}, "
         "{match: {class: x*}, receivers: []}, {receiver: a}]",
         8, ""},
        {"receivers: {a: {journald: }, b: {journald: }}\n"
         "routes: [{match: {severity: error}, receiver: a}, {match: {severity: fatal}, receiver: b}, {receiver: a}, "
         "{match: {route: none}, receiver: b}]",
         8, "alerts: route 2 gets nothing: route 1 takes all that it matches\n"},
        {"receivers: {a: {journald: }, b: {journald: }}\n"
         "routes: [{match: {cause: bus}, receiver: a}, {match: {route: page}, receiver: b}, {match: {route: [page, "
         "ticket]}, receiver: b}, {receiver: a}]",
         8, ""},
        {"receivers: {a: {journald: }}\nroutes: [{match: {route: page}, receiver: a}, {receivers: []}]", 8,
         "alerts: incidents of route 'user' reach nobody\nalerts: incidents of route 'ticket' reach nobody\n"},
    };
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    Err err = {0};

    (void)state;
    assert_int_equal(catalogue_new(NULL, 0, &catalogue, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(alert_tree_free_at) AlertTree *tree = NULL;
        CLEANUP(str_done) Str notes = str_limited(65536);

        if (load(rows[i].yaml, &tree, &err) < 0)
            fail_msg("%s", err.text);
        alert_tree_add_notes(tree, catalogue, rows[i].gpus, &notes);
        assert_string_equal(notes.text, rows[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_read),
        cmocka_unit_test(test_what_is_left_out_has_its_default),
        cmocka_unit_test(test_limits_are_where_they_are_said_to_be),
        cmocka_unit_test(test_lengths_have_limits),
        cmocka_unit_test(test_a_url_has_a_scheme_and_a_host),
        cmocka_unit_test(test_a_secret_that_cannot_be_read_again_stays),
        cmocka_unit_test(test_a_route_matches_what_all_its_words_match),
        cmocka_unit_test(test_nonsense_is_refused_with_its_place),
        cmocka_unit_test(test_notes_say_which_incidents_reach_nobody),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
