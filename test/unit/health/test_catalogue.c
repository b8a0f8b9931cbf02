/* SPDX-License-Identifier: Apache-2.0 */
/* Covers catalogue.c and catalogue_match.c: what is built in is whole and every rule of it can be reached; a site's
 * files change what they name and nothing else; every mistake in one is reported with its place. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "engine/health/catalogue.h"
#include "model/metric.h"

static Arena arena;

static int load(const char *text, Catalogue **ret, Err *err)
{
    const YamlNode *root = NULL;

    arena_reset(&arena);
    TRY(yaml_load("site.yaml", text, strlen(text), &arena, &root, err));
    return catalogue_new(&root, 1, ret, err);
}

static Catalogue *site(const char *text)
{
    Catalogue *catalogue = NULL;
    Err err = {0};

    if (load(text, &catalogue, &err) < 0)
        fail_msg("%s", err.text);
    arena_reset(&arena); /* nothing of the tree is kept */
    return catalogue;
}

static Event xid(int32_t code)
{
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_KMSG);
    event.code = code;
    return event;
}

static FaultVerdict judge_of(const Catalogue *catalogue, const Event *event, uint32_t driver, uint32_t arch)
{
    FaultVerdict verdict = {0};

    assert_true(catalogue_match(catalogue, event, driver, arch, &verdict));
    return verdict;
}

static const char *rule_of(const Catalogue *catalogue, const Event *event, uint32_t driver)
{
    return judge_of(catalogue, event, driver, 0).rule->id;
}

static void every_entry_says_all(void **state)
{
    Catalogue *c = site("");

    (void)state;
    assert_true(c->class_count >= 50 && c->rule_count >= 600);
    for (size_t i = 0; i < c->class_count; i++) {
        const FaultClass *k = &c->classes[i];
        size_t len = strlen(k->text);
        if (!len || k->text[len - 1] == '.' || strlen(k->advice) < 20 || !k->source[0] || !k->line)
            fail_msg("class %s", k->id);
        if (k->route == ROUTE_PAGE && k->severity < SEVERITY_ERROR)
            fail_msg("%s pages for what is no error", k->id);
        if (k->route == ROUTE_PAGE && k->cause == CAUSE_APPLICATION)
            fail_msg("%s pages for a program", k->id);
        assert_ptr_equal(catalogue_class(c, k->id), k);
    }
    for (size_t i = 0; i < c->rule_count; i++) {
        const FaultRule *r = &c->rules[i];
        if (!r->name[0] || strcmp(r->name, r->id) == 0 || !r->source[0] || !r->line || r->cause >= CAUSE_END ||
            r->severity >= SEVERITY_END || r->action >= ACTION_END || r->route >= ROUTE_END || r->scope >= SCOPE_END)
            fail_msg("rule %s", r->id);
        if (r->cause == CAUSE_APPLICATION && r->route == ROUTE_PAGE)
            fail_msg("%s pages for a program", r->id);
        assert_ptr_equal(catalogue_rule(c, r->id), r);
    }
    assert_null(catalogue_rule(c, "xid-0"));
    assert_null(catalogue_class(c, "no-such"));
    catalogue_free(c);
    catalogue_free(NULL);
}

static void every_class_is_reached(void **state)
{
    Catalogue *c = site("");

    (void)state;
    for (size_t i = 0; i < c->class_count; i++) {
        const FaultClass *k = &c->classes[i];
        /* by the incidents' own rule of locality, and by the policies of the agent's configuration */
        bool reached = strcmp(k->id, "gpu-fault-suspected") == 0 || strcmp(k->id, "gpu-held-idle") == 0;
        for (size_t j = 0; j < c->rule_count && !reached; j++)
            reached = c->rules[j].fault == k;
        if (!reached)
            fail_msg("no rule leads to %s", k->id);
    }
    catalogue_free(c);
}

static void every_code_has_a_rule(void **state)
{
    static const int32_t sxids[] = {10001, 11004, 12028, 14017, 15006, 18018, 19084, 20034, 22013,
                                    23017, 24007, 25010, 26008, 27007, 28001, 28006, 29006, 30006};
    Catalogue *c = site("");

    (void)state;
    for (int32_t code = 1; code <= 176; code++)
        for (uint32_t driver = 515; driver <= 600; driver += 5) {
            Event event = xid(code);
            if (strcmp(rule_of(c, &event, driver), "xid-unknown") == 0)
                fail_msg("XID %d on R%u", code, driver);
        }
    for (size_t i = 0; i < ARRAY_LEN(sxids); i++) {
        Event event;
        event_init(&event, EVENT_SXID, EVENT_FROM_KMSG);
        event.code = sxids[i];
        FaultVerdict verdict = judge_of(c, &event, sxids[i] == 28006 ? 545 : 570, 0);
        if (strcmp(verdict.rule->id, "sxid-unknown") == 0)
            fail_msg("SXid %d", sxids[i]);
    }
    for (unsigned kind = 0; kind < EVENT_KIND_END; kind++) {
        Event event;
        FaultVerdict verdict;
        event_init(&event, (EventKind)kind, EVENT_FROM_AGENT);
        bool known = catalogue_match(c, &event, 0, 0, &verdict);
        if (known != (kind != EVENT_LINE))
            fail_msg("event %s", event_kinds[kind].key);
    }
    catalogue_free(c);
}

/* An event on which all of the rule's conditions hold. */
static Event event_for(const FaultRule *rule, uint32_t driver)
{
    Event event;

    event_init(&event, rule->event, EVENT_FROM_KMSG);
    event.code = rule->code_from;
    event.word = rule->word;
    snprintf(event.text, sizeof event.text, "%s", rule->contains);
    snprintf(event.unit, sizeof event.unit, "%.*s", (int)strcspn(rule->unit, "/"), rule->unit);
    event.register_count = rule->intr_new.mask || rule->status_bit || rule->status_is || rule->only ? 2 : 0;
    event.registers[0] = rule->only ? rule->only : driver && driver < 575 ? rule->intr_old.value : rule->intr_new.value;
    event.registers[1] = rule->status_bit | rule->status_is;
    return event;
}

static void every_rule_can_be_reached(void **state)
{
    Catalogue *c = site("");
    size_t tried = 0;

    (void)state;
    for (size_t i = 0; i < c->rule_count; i++) {
        const FaultRule *rule = &c->rules[i];
        uint32_t driver = rule->driver.from ? rule->driver.from : rule->driver.below ? rule->driver.below - 1 : 580;
        uint32_t arch = rule->arch.below ? rule->arch.below - 1 : DEVICE_ARCH_HOPPER;
        if (rule->detector || rule->many || rule->code_from != rule->code_to)
            continue;
        Event event = event_for(rule, driver);
        FaultVerdict verdict = judge_of(c, &event, driver, arch);
        if (verdict.rule != rule)
            fail_msg("%s is hidden by %s", rule->id, verdict.rule->id);
        if (rule->intr_old.mask) { /* before R575 too, where both pipes of a unit had one number */
            event = event_for(rule, 570);
            verdict = judge_of(c, &event, 570, arch);
            if (verdict.rule->fault != rule->fault || verdict.action != rule->action ||
                verdict.rule->status_bit != rule->status_bit)
                fail_msg("%s on R570 is %s", rule->id, verdict.rule->id);
        }
        tried++;
    }
    assert_true(tried > 550);
    catalogue_free(c);
}

static void codes_follow_the_driver(void **state)
{
    static const struct {
        int32_t code;
        uint32_t driver;
        const char *rule;
    } rows[] = {
        {139, 535, "xid-139-fast-path"},
        {139, 560, "xid-139"},
        {139, 0, "xid-139"},
        {144, 550, "xid-144-key-rotation"},
        {144, 580, "xid-144"},
        {30, 535, "xid-30"},
        {30, 545, "xid-30-unused"},
        {151, 550, "xid-151-reserved"},
        {151, 555, "xid-151"},
        {166, 580, "xid-166"},
        {166, 590, "xid-166-crypto"},
        {170, 0, "xid-170-other"},
        {141, 535, "xid-141-reserved"},
        {141, 550, "xid-141"},
        {79, 0, "xid-79"},
        {9999, 600, "xid-unknown"},
        {-5, 0, "xid-unknown"},
    };
    Catalogue *c = site("");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Event event = xid(rows[i].code);
        if (strcmp(rule_of(c, &event, rows[i].driver), rows[i].rule) != 0)
            fail_msg("XID %d on R%u: %s, not %s", rows[i].code, rows[i].driver, rule_of(c, &event, rows[i].driver),
                     rows[i].rule);
    }
    Event event;
    event_init(&event, EVENT_SXID, EVENT_FROM_KMSG);
    event.code = 28001;
    assert_string_equal(rule_of(c, &event, 545), "sxid-28001-before-550");
    assert_string_equal(rule_of(c, &event, 550), "sxid-28001");
    catalogue_free(c);
}

static void text_and_architecture_part_the_memory_codes(void **state)
{
    Catalogue *c = site("");
    Event event = xid(63);

    (void)state;
    assert_string_equal(judge_of(c, &event, 535, 0).rule->fault->id, "row-remap-pending");
    assert_string_equal(judge_of(c, &event, 535, DEVICE_ARCH_AMPERE).rule->fault->id, "row-remap-pending");
    assert_string_equal(judge_of(c, &event, 535, DEVICE_ARCH_TURING).rule->fault->id, "page-retirement");
    strcpy(event.text, "Dynamic Page Retirement: New retired page, reload the driver to activate. (0x12345)");
    assert_string_equal(judge_of(c, &event, 535, 0).rule->fault->id, "page-retirement");
    event = xid(64);
    assert_int_equal(judge_of(c, &event, 570, DEVICE_ARCH_HOPPER).action, ACTION_DRAIN_AND_RMA);
    catalogue_free(c);
}

static void programs_are_no_page(void **state)
{
    static const int32_t codes[] = {8, 11, 13, 25, 31, 32, 43, 45, 68, 69, 80, 137};
    static const int32_t silent[] = {43, 45, 154};
    Catalogue *c = site("");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        Event event = xid(codes[i]);
        FaultVerdict verdict = judge_of(c, &event, 570, DEVICE_ARCH_HOPPER);
        if (strcmp(verdict.rule->fault->id, "app-fault") != 0 || verdict.route > ROUTE_USER ||
            verdict.cause != CAUSE_APPLICATION)
            fail_msg("XID %d", codes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        Event event = xid(silent[i]);
        assert_true(judge_of(c, &event, 570, 0).rule->silent);
    }
    catalogue_free(c);
}

static void the_drivers_word_stands_above(void **state)
{
    Catalogue *c = site("rules: {line: {on: {contains: boom}, class: gpu-lost, name: x}}");
    Event event;

    (void)state;
    event_init(&event, EVENT_SXID, EVENT_FROM_KMSG);
    event.code = 20034;
    assert_int_equal(judge_of(c, &event, 550, 0).severity, SEVERITY_FATAL);
    event.word = EVENT_NONFATAL;
    FaultVerdict verdict = judge_of(c, &event, 550, 0);
    assert_true(verdict.severity < SEVERITY_ERROR && verdict.route == ROUTE_NONE);
    assert_string_equal(verdict.rule->fault->id, "nvswitch-errors");
    event.code = 11012;
    assert_string_equal(rule_of(c, &event, 550), "sxid-11012");
    event.word = EVENT_FATAL;
    verdict = judge_of(c, &event, 550, 0);
    assert_string_equal(verdict.rule->fault->id, "nvswitch");
    assert_true(verdict.severity == SEVERITY_FATAL && verdict.route == ROUTE_PAGE);
    event.code = 99;
    assert_string_equal(rule_of(c, &event, 550), "sxid-fatal");
    event.word = EVENT_NONFATAL;
    assert_string_equal(rule_of(c, &event, 550), "sxid-unknown");

    event = xid(145); /* a unit that nobody knows */
    strcpy(event.unit, "RLW_NEW");
    event.word = EVENT_FATAL;
    assert_string_equal(rule_of(c, &event, 580), "xid-145-fatal");
    event.word = EVENT_NONFATAL;
    assert_string_equal(rule_of(c, &event, 580), "xid-145");

    event = xid(48); /* no rule for the word: the severity is bent */
    event.word = EVENT_FATAL;
    assert_int_equal(judge_of(c, &event, 580, 0).severity, SEVERITY_ERROR);
    event = xid(79);
    event.word = EVENT_NONFATAL;
    verdict = judge_of(c, &event, 580, 0);
    assert_true(verdict.severity == SEVERITY_ERROR && verdict.route == ROUTE_TICKET && verdict.action == ACTION_WATCH);
    event = xid(92);
    event.word = EVENT_FATAL;
    verdict = judge_of(c, &event, 580, 0);
    assert_true(verdict.severity == SEVERITY_ERROR && verdict.action == ACTION_DRAIN_AND_RMA);
    event.word = EVENT_CORRECTABLE;
    assert_int_equal(judge_of(c, &event, 580, 0).severity, SEVERITY_WARNING);

    event_init(&event, EVENT_LINE, EVENT_FROM_KMSG);
    strcpy(event.text, "a boom and");
    assert_string_equal(rule_of(c, &event, 0), "line");
    strcpy(event.text, "nothing");
    assert_false(catalogue_match(c, &event, 0, 0, &verdict));
    catalogue_free(c);
}

static void registers_of_nvlink5(void **state)
{
    Catalogue *c = site("");
    Event event = xid(145); /* a line of R570: RLW_SRC_TRACK Nonfatal ... (0x040868e2 0x00000008 */

    (void)state;
    strcpy(event.unit, "RLW_SRC_TRACK");
    event.word = EVENT_NONFATAL;
    event.register_count = 2;
    event.registers[0] = 0x040868e2;
    event.registers[1] = 0x8;
    assert_string_equal(rule_of(c, &event, 570), "xid-145-rlw-src-track-8");
    assert_string_equal(rule_of(c, &event, 580), "xid-145");
    event.registers[1] = 0x9; /* two bits: the worse one */
    assert_string_equal(rule_of(c, &event, 570), "xid-145-rlw-src-track-1");
    event = xid(149); /* NETIR_LINK_EVT Fatal ... (0x004505c6 */
    strcpy(event.unit, "NETIR_LINK_EVT");
    event.word = EVENT_FATAL;
    event.register_count = 1;
    event.registers[0] = 0x004505c6;
    FaultVerdict verdict = judge_of(c, &event, 570, 0);
    assert_string_equal(verdict.rule->id, "xid-149-netir-link-down-4");
    assert_int_equal(verdict.route, ROUTE_PAGE);
    event.unit[0] = '\0'; /* by the registers alone */
    assert_string_equal(rule_of(c, &event, 570), "xid-149-netir-link-down-4");
    event.register_count = 0;
    assert_string_equal(rule_of(c, &event, 570), "xid-149-fatal");
    event = xid(149);
    strcpy(event.unit, "NETIR_MFDE_EVENT");
    event.register_count = 2;
    event.registers[0] = 0x246;
    event.registers[1] = 3; /* a whole status, not two bits */
    assert_string_equal(rule_of(c, &event, 570), "xid-149-netir-mfde-event-3");
    event.registers[1] = 9;
    assert_string_equal(rule_of(c, &event, 570), "xid-149");
    catalogue_free(c);
}

static double find_param(const FaultRule *rule, const char *name)
{
    for (size_t i = 0; i < rule->detector->param_count; i++)
        if (strcmp(rule->detector->params[i].name, name) == 0)
            return rule->params[i];
    fail_msg("%s has no parameter '%s'", rule->detector->name, name);
    return 0;
}

static void a_site_changes_what_it_names(void **state)
{
    Catalogue *c =
        site("classes:\n"
             "  thermal: {route: page, for: 10m}\n"
             "  thermal-margin: {enabled: no}\n"
             "  clocks-low: {observe: yes}\n"
             "  our-log: {text: our program complains, advice: Ask the people of our program., cause: application,\n"
             "    severity: warning, scope: node, action: check-app, route: user, clear: quiet, quiet: 5m}\n"
             "rules:\n"
             "  xid-109: {class: app-fault, action: restart-app, route: user}\n"
             "  xid-92: {enabled: no}\n"
             "  fan: {enabled: no}\n"
             "  throttle-thermal: {with: {share: 0.9}}\n"
             "  our-line: {on: {contains: it burns}, class: our-log}\n"
             "  xid-31-here: {on: {xid: 31, contains: GPCCLIENT_T1}, class: our-log}\n"
             "  xid-300: {on: {xid: 300-310, driver: \">=600\"}, class: gpu-lost, name: of the future}\n");
    Catalogue *plain = site("");

    (void)state;
    const FaultClass *thermal = catalogue_class(c, "thermal"), *before = catalogue_class(plain, "thermal");
    assert_int_equal(thermal->route, ROUTE_PAGE);
    assert_int_equal(thermal->for_ns, 10 * NS_PER_MIN);
    assert_string_equal(thermal->text, before->text);
    assert_int_equal(thermal->keep_ns, before->keep_ns);
    assert_false(catalogue_class(c, "thermal-margin")->enabled);
    assert_true(catalogue_class(plain, "thermal-margin")->enabled);

    const FaultRule *rule = catalogue_rule(c, "throttle-thermal");
    assert_int_equal(rule->route, ROUTE_PAGE); /* what a rule does not say follows its class */
    assert_int_equal(rule->for_ns, 10 * NS_PER_MIN);
    assert_true(find_param(rule, "share") > 0.89); /* parameters are changed one by one */
    assert_true(find_param(rule, "window") > 59e9);
    assert_int_equal(catalogue_rule(c, "clocks-peers")->route, ROUTE_NONE);
    assert_null(catalogue_rule(c, "fan"));

    Event event = xid(109);
    FaultVerdict verdict = judge_of(c, &event, 570, 0);
    assert_string_equal(verdict.rule->fault->id, "app-fault");
    assert_string_equal(verdict.rule->name, "context switch timed out");
    assert_int_equal(verdict.route, ROUTE_USER);
    event = xid(92);
    assert_null(judge_of(c, &event, 570, 0).rule->fault);
    event = xid(31);
    assert_string_equal(rule_of(c, &event, 570), "xid-31");
    strcpy(event.text, "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_6 faulted");
    assert_string_equal(rule_of(c, &event, 570), "xid-31-here");
    event = xid(305);
    assert_string_equal(rule_of(c, &event, 600), "xid-300");
    assert_string_equal(rule_of(c, &event, 595), "xid-unknown");
    catalogue_free(plain);
    catalogue_free(c);
}

static void later_documents_stand_over_earlier_ones(void **state)
{
    static const char *const texts[] = {("rules: {m: {on: {detector: metric}, with: {metric: DCGM_FI_DEV_GPU_TEMP, "
                                         "above: 7, window: 5m}, class: thermal}}"),
                                        "", "rules: {m: {with: {above: 9}, route: none}}"};
    const YamlNode *roots[3];
    Catalogue *c = NULL;
    Err err = {0};

    (void)state;
    arena_reset(&arena);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(yaml_load("s.yaml", texts[i], strlen(texts[i]), &arena, &roots[i], &err), 0);
    assert_int_equal(catalogue_new(roots, 3, &c, &err), 0);
    const FaultRule *rule = catalogue_rule(c, "m");
    assert_int_equal(rule->route, ROUTE_NONE);
    assert_true(find_param(rule, "above") > 8.9 && find_param(rule, "above") < 9.1);
    assert_true(find_param(rule, "window") > 299e9);
    catalogue_free(c);
}

static void mistakes_are_told_with_their_place(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"- a", "site.yaml:1:1: 'a fault catalogue' must be a mapping"},
        {"clases: {}", "site.yaml:1:1: unknown key 'clases', did you mean 'classes'?"},
        {"classes: [a]", "site.yaml:1:10: 'classes' must be a mapping"},
        {"rules: {xid-79: fatal}", "1:17: 'xid-79' must be a mapping"},
        {"rules: {Xid_79: {}}", "1:9: 'Xid_79' is no name"},
        {"classes:\n  thermal: {rout: page}", "2:13: unknown key 'rout', did you mean 'route'?"},
        {"classes: {thermal: {route: pager}}", "unknown route 'pager', did you mean 'page'?"},
        {"classes: {thermal: {cause: [a]}}", "'cause' must be a text"},
        {"classes: {thermal: {for: 3x}}", "'for': "},
        {"classes: {thermal: {for: 3y}}", "'for': at most a year"},
        {"classes: {thermal: {enabled: maybe}}", "'enabled' must be yes or no, not 'maybe'"},
        {"classes: {thermal: {route: }}", "'route' has no value"},
        {"classes: {thermal: {by: [code, pid]}}", "unknown part of 'by' 'pid'"},
        {"classes: {thermal: {parents: [fann]}}", "1:31: unknown class 'fann', did you mean 'fan'?"},
        {"classes: {thermal: {parents: zzzzzzzzz}}", "unknown class 'zzzzzzzzz'"},
        {"classes: {gpu-lost: {parents: [nvlink-down]}}", "lead back to it"},
        {"classes: {thermal: {parents: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u]}}", "at most 20 parents"},
        {"classes: {new: {text: a}}", "1:11: class 'new' has no 'advice'"},
        {"classes: {thermal: {clear: quiet}}", "but no time 'quiet'"},
        {"rules: {new: {class: thermal}}", "1:9: rule 'new' has no 'on'"},
        {"rules: {new: {on: {xid: 3}}}", "has no 'class'; use 'none' for no fault"},
        {"rules: {xid-79: {class: gpu-lots}}", "1:25: unknown class 'gpu-lots', did you mean 'gpu-lost'?"},
        {"rules: {xid-79: {on: {xid: seventy}}}", "'xid': "},
        {"rules: {xid-79: {on: {xid: 9-3}}}", "ends before it begins"},
        {"rules: {xid-79: {on: {xid: 100000}}}", "'xid': "},
        {"rules: {xid-79: {on: {sxid: 1, xid: 2}}}", "one of xid, sxid, event, detector and repeat"},
        {"rules: {x: {on: {event: mce, count: 5}, class: fan}}", "1:17: 'count' and 'repeat' need 'within'"},
        {"rules: {x: {on: {event: mce, within: 5m}, class: fan}}", "'count' and 'repeat' need 'within'"},
        {"rules: {x: {on: {event: mce, count: 1, within: 5m}, class: fan}}", "'count' is 2 at least"},
        {"rules: {x: {on: {repeat: 2, within: 5m}, class: any}}", "'repeat' needs 'remedy'"},
        {"rules: {x: {on: {event: mce, remedy: [reset-gpu]}, class: fan}}", "'repeat' needs 'remedy'"},
        {"rules: {x: {on: {repeat: 2, within: 5m, remedy: reset-cpu}, class: any}}", "unknown action 'reset-cpu'"},
        {"rules: {x: {on: {event: mce}, class: any}}", "the class 'any' is for rules on 'repeat'"},
        {"rules: {xid-79: {on: {says: fatal}}}", "'on' has none of xid, sxid, event"},
        {"rules: {xid-79: {on: {xid: 3, says: deadly}}}", "unknown word of 'says' 'deadly'"},
        {"rules: {xid-79: {on: {event: oom}}}", "unknown kind of event 'oom'"},
        {"rules: {xid-79: {on: {event: xid}}}", "named with its number"},
        {"rules: {xid-79: {on: {xidd: 3}}}", "unknown key of 'on' 'xidd', did you mean 'xid'?"},
        {"rules: {xid-79: {on: {xid: 3, driver: \"<=3\"}}}", "reads '>=A <B'"},
        {"rules: {xid-79: {on: {xid: 3, driver: \">=600 <560\"}}}", "nothing is in"},
        {"rules: {xid-79: {on: {xid: 3, driver: new}}}", "'driver': "},
        {"rules: {xid-79: {on: {xid: 3, arch: \">=hoper\"}}}", "there is no 'hoper'"},
        {"rules: {xid-79: {on: {xid: 3, contains: \"\"}}}", "'contains' takes 1 to 200 bytes"},
        {"rules: {xid-79: {on: {xid: 3, intr: {old: 1}}}}", "unknown key of 'intr' 'old'"},
        {"rules: {xid-79: {on: {xid: 3, intr: {since_575: 1}}}}", "reads VALUE/MASK"},
        {"rules: {xid-79: {on: {xid: 3, intr: {since_575: 0x3/0x1}}}}", "bits that the mask leaves out"},
        {"rules: {xid-79: {on: {xid: 3, status: zz}}}", "'status': "},
        {"rules: {xid-79: {with: {a: 1}}}", "'with' is for rules on a detector"},
        {"rules: {fan: {on: {detector: fan, says: fatal}}}", "'detector' must be the only key of 'on'"},
        {"rules: {m: {on: {detector: metrik}, class: fan}}", "unknown detector 'metrik', did you mean 'metric'?"},
        {"rules: {m: {on: {detector: metric}, class: fan, with: {metric: DCGM_NO}}}",
         "'metric': there is no metric 'DCGM_NO'"},
    };
    static const char *const with[][2] = {
        {"with: {shar: 3}", "unknown parameter 'shar', did you mean 'share'?"},
        {"with: {share: 300}", "'share' must be in 0.001 to 1, not 300"},
        {"with: {share: much}", "'share': "},
        {"with: {window: 100}", "'window': "},
        {"with: {window: 2h}", "'window' must be in 5s to 1h, not 2h"},
        {"with: [1]", "'with' must be a mapping"},
    };
    char text[256];
    Catalogue *c = NULL;
    Err err = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (load(rows[i].text, &c, &err) != -EINVAL)
            fail_msg("%s is taken (%s)", rows[i].text, err.text);
        if (!strstr(err.text, rows[i].said))
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_null(c);
    }
    for (size_t i = 0; i < ARRAY_LEN(with); i++) {
        snprintf(text, sizeof text, "rules: {m: {on: {detector: throttle}, class: fan, %s}}", with[i][0]);
        assert_int_equal(load(text, &c, &err), -EINVAL);
        if (!strstr(err.text, with[i][1]))
            fail_msg("%s: %s", text, err.text);
    }
    /* one that is right: what is not said has its default */
    c = site("rules: {m: {on: {detector: metric}, class: fan, with: {metric: DCGM_FI_DEV_GPU_TEMP}}}");
    assert_int_equal((int)find_param(catalogue_rule(c, "m"), "metric"), METRIC_GPU_TEMP);
    assert_true(find_param(catalogue_rule(c, "m"), "window") > 59e9);
    catalogue_free(c);
}

static void codes_are_found_whatever_the_driver(void **state)
{
    const FaultRule *found[64];
    Catalogue *c = site("");

    (void)state;
    assert_int_equal(catalogue_find_code(c, EVENT_XID, 79, 0, found, 64), 2); /* its own, and the one for any */
    assert_string_equal(found[0]->id, "xid-79");
    size_t count = catalogue_find_code(c, EVENT_XID, 139, 535, found, 64);
    assert_int_equal(count, 3);
    assert_string_equal(found[0]->id, "xid-139-fast-path");
    catalogue_find_code(c, EVENT_XID, 139, 580, found, 64);
    assert_string_equal(found[0]->id, "xid-139");
    assert_true(catalogue_find_code(c, EVENT_XID, 149, 580, found, 2) > 20);
    assert_string_equal(found[0]->id, "xid-149");
    catalogue_find_code(c, EVENT_SXID, 20034, 0, found, 64);
    assert_string_equal(found[0]->id, "sxid-20034");
    /* of an unknown driver: what the newer one means, in whatever order they stand */
    static const char *const both[] = {"sxid-28001", "sxid-29001", "xid-30-unused", "xid-139"};
    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++) {
        const EventKind kind = both[i][0] == 's' ? EVENT_SXID : EVENT_XID;
        catalogue_find_code(c, kind, atoi(strchr(both[i], '-') + 1), 0, found, 64);
        assert_string_equal(found[0]->id, both[i]);
    }
    catalogue_find_code(c, EVENT_XID, 999, 0, found, 64);
    assert_string_equal(found[0]->id, "xid-unknown");
    catalogue_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_says_all),
        cmocka_unit_test(every_class_is_reached),
        cmocka_unit_test(every_code_has_a_rule),
        cmocka_unit_test(every_rule_can_be_reached),
        cmocka_unit_test(codes_follow_the_driver),
        cmocka_unit_test(text_and_architecture_part_the_memory_codes),
        cmocka_unit_test(programs_are_no_page),
        cmocka_unit_test(the_drivers_word_stands_above),
        cmocka_unit_test(registers_of_nvlink5),
        cmocka_unit_test(a_site_changes_what_it_names),
        cmocka_unit_test(later_documents_stand_over_earlier_ones),
        cmocka_unit_test(mistakes_are_told_with_their_place),
        cmocka_unit_test(codes_are_found_whatever_the_driver),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    arena_done(&arena);
    return rc;
}
