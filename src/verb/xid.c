/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker xid`: what a code of the driver or of an NVSwitch means, here, and what to do. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "service/runbook/runbook.h"
#include "verb/agent/faults.h"
#include "verb/verb.h"
#include "verb/xid/code.h"

enum { MEANINGS_MAX = 64, SHOWN_MAX = 8, LABEL = 12 };

typedef struct XidOptions {
    const char *driver, *arch, *root;
    bool json, list, markdown;
    OptList faults;
} XidOptions;

static const OptSpec xid_opts[] = {
    {.key = "driver",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(XidOptions, driver),
     .metavar = "VERSION",
     .help = "driver that said it, such as 570.86; without: this node's"},
    {.key = "arch",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(XidOptions, arch),
     .metavar = "NAME",
     .help = "architecture of the GPU: turing, ampere, hopper, ..."},
    {.key = "json", .flags = OPT_CLI_ONLY, .type = OPT_BOOL, .off = offsetof(XidOptions, json), .help = "as JSON"},
    {.key = "list",
     .short_flag = 'l',
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(XidOptions, list),
     .help = "all codes, one line each"},
    {.key = "markdown",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(XidOptions, markdown),
     .help = "with --list: the classes of faults as tables of Markdown"},
    {.key = "faults",
     .flags = OPT_CLI_ONLY,
     .type = OPT_LIST,
     .off = offsetof(XidOptions, faults),
     .metavar = "FILE",
     .help = "files or folders of your own that stand over what is built in"},
    {.key = "root",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(XidOptions, root),
     .env = "STOKER_ROOT",
     .metavar = "DIR",
     .help = "read /proc/driver/nvidia/version below DIR"},
};

CLEANUP_POINTER(Catalogue, catalogue_free);

/* What is asked, and by whom. */
typedef struct Question {
    const Catalogue *catalogue;
    Event event;
    uint32_t driver, arch;
} Question;

static int ask_driver(VerbCall *call, const XidOptions *o, Question *q)
{
    DeviceArch arch;

    if (o->driver && !xid_driver_major(o->driver, &q->driver))
        return verb_failf(call, EXIT_USAGE, "--driver '%s' is no version; it looks like 570.86.10", o->driver);
    if (!o->driver)
        q->driver = xid_driver_here(o->root);
    if (o->arch && (!device_arch_find(o->arch, &arch) || arch == DEVICE_ARCH_UNKNOWN))
        return verb_failf(call, EXIT_USAGE, "--arch '%s' is no architecture; it is a name such as ampere or hopper",
                          o->arch);
    q->arch = o->arch ? arch : 0;
    return EXIT_FINE;
}

static int ask_code(VerbCall *call, Question *q)
{
    const char *text = xid_code_words(call->arena, &call->args);

    if (!*text)
        return verb_failf(call, EXIT_USAGE, "which code? 'stoker xid 79', or --list for all");
    if (xid_code_read(text, &q->event))
        return EXIT_FINE;
    return verb_failf(call, EXIT_USAGE,
                      "'%.80s' is neither a code (79, sxid:20034) nor a line of the kernel log with one", text);
}

/* Breaks `text` at the terminal's width behind a label. */
static void add_wrapped(Str *out, const char *label, const char *text)
{
    size_t width = verb_width(), at = LABEL + 2;

    str_addf(out, "  %-*s", LABEL, label);
    for (const char *word = text; *word;) {
        size_t len = strcspn(word, " ");
        if (at > LABEL + 2 && at + 1 + len > width) {
            str_addf(out, "\n%*s", LABEL + 2, "");
            at = LABEL + 2;
        } else if (at > LABEL + 2) {
            str_addc(out, ' ');
            at++;
        }
        str_addn(out, word, len);
        at += len;
        word += len + strspn(word + len, " ");
    }
    str_addc(out, '\n');
}

static void add_word(Str *out, const char *label, const FaultWord *word)
{
    char text[256];

    snprintf(text, sizeof text, "%s: %s", word->key, word->text);
    add_wrapped(out, label, text);
}

static const char *kind_name(const FaultRule *rule)
{
    return rule->event == EVENT_SXID ? "SXid" : "XID";
}

static bool is_unknown(const FaultRule *rule)
{
    return strcmp(rule->id, "xid-unknown") == 0 || strcmp(rule->id, "sxid-unknown") == 0;
}

static bool has_parent(const FaultClass *child, const FaultClass *parent)
{
    for (size_t i = 0; i < child->parent_count; i++)
        if (child != parent && strcmp(child->parents[i], parent->id) == 0)
            return true;
    return false;
}

/* Classes whose signs are its echoes. */
static void add_followers(Str *out, const Question *q, const FaultClass *fault)
{
    char room[1024];
    size_t shown = 0;
    Str text;

    str_init_room(&text, room, sizeof room);
    for (size_t i = 0; i < catalogue_class_count(q->catalogue) && shown < SHOWN_MAX; i++) {
        const FaultClass *child = catalogue_class_at(q->catalogue, i);
        if (has_parent(child, fault))
            str_addf(&text, "%s%s", shown++ ? ", " : "", child->id);
    }
    if (shown)
        add_wrapped(out, "followed by", text.text);
    str_clear(&text);
    for (size_t i = 0; i < fault->parent_count && i < SHOWN_MAX; i++)
        str_addf(&text, "%s%s", i ? ", " : "", fault->parents[i]);
    if (fault->parent_count)
        add_wrapped(out, "follows", text.text);
}

static void add_clear(Str *out, const FaultClass *fault)
{
    char text[256], span[DURATION_TEXT_MAX];

    bool quiet = fault->clear == CLEAR_QUIET || (fault->clear == CLEAR_GONE && fault->quiet_ns);

    duration_format(span, quiet ? fault->quiet_ns : fault->keep_ns);
    if (quiet)
        snprintf(text, sizeof text, "when no further one came for %s", span);
    else if (fault->clear == CLEAR_GONE)
        snprintf(text, sizeof text, "when its condition has been gone for %s", span);
    else
        snprintf(text, sizeof text, "%s", fault_clears[fault->clear].text);
    add_wrapped(out, "over", text);
}

static void add_others(Str *out, const FaultRule *shown, const FaultRule *const *rules, size_t count)
{
    size_t others = 0, units = 0;

    for (size_t i = 0; i < count; i++) {
        const FaultRule *rule = rules[i];
        char text[256];
        units += rule->unit[0] != '\0' && rule != shown;
        if (rule == shown || rule->code_from != rule->code_to || rule->unit[0])
            continue;
        snprintf(text, sizeof text, "%s%s%s: %s", rule->id, rule->contains[0] ? ", lines with " : "", rule->contains,
                 rule->name);
        add_wrapped(out, others++ ? "" : "otherwise", text);
    }
    if (units)
        str_addf(out, "  %-*s%zu rules for its units and registers; give the whole line to have it decoded\n", LABEL,
                 "", units);
}

static void add_runbook(Str *out, const FaultClass *fault)
{
    char text[128];

    if (fault->runbook[0]) {
        add_wrapped(out, "runbook", fault->runbook);
    } else if (runbook_find(fault->id)) {
        snprintf(text, sizeof text, "stoker runbook %s", fault->id);
        add_wrapped(out, "runbook", text);
    }
}

static void add_text(Str *out, const Question *q, const FaultVerdict *v, const FaultRule *const *rules, size_t count)
{
    const FaultRule *rule = v->rule;

    str_addf(out, "%s %d: %s\n", kind_name(rule), q->event.code, rule->name);
    if (rule->text[0])
        add_wrapped(out, "", rule->text);
    add_wrapped(out, "class", rule->fault ? rule->fault->id : "none: it is no fault");
    if (rule->fault) {
        add_word(out, "cause", &fault_causes[v->cause]);
        add_word(out, "severity", &fault_severities[v->severity]);
        add_word(out, "do", &fault_actions[v->action]);
        add_wrapped(out, "", rule->fault->advice);
        add_word(out, "told", &fault_routes[v->route]);
        if (rule->silent)
            add_wrapped(out, "", "opens no incident by itself; it is attached to the one that it follows");
        add_clear(out, rule->fault);
        add_followers(out, q, rule->fault);
    }
    if (rule->fault)
        add_runbook(out, rule->fault);
    add_wrapped(out, "source", rule->source);
    add_others(out, rule, rules, count);
}

static void add_pair(Str *out, const char *key, const char *text)
{
    str_addf(out, ",\n  \"%s\": ", key);
    str_add_json(out, text);
}

static void add_json(Str *out, const Question *q, const FaultVerdict *v)
{
    const FaultRule *rule = v->rule;
    bool known = !is_unknown(rule);

    str_addf(out, "{\n  \"code\": %d", q->event.code);
    add_pair(out, "kind", event_kind_key(rule->event));
    str_addf(out, ",\n  \"known\": %s", known ? "true" : "false");
    if (q->driver)
        str_addf(out, ",\n  \"driver\": %u", q->driver);
    add_pair(out, "rule", rule->id);
    add_pair(out, "name", rule->name);
    add_pair(out, "text", rule->text);
    if (rule->fault) {
        add_pair(out, "class", rule->fault->id);
        add_pair(out, "cause", fault_causes[v->cause].key);
        add_pair(out, "severity", fault_severities[v->severity].key);
        add_pair(out, "scope", fault_scopes[rule->scope].key);
        add_pair(out, "action", fault_actions[v->action].key);
        add_pair(out, "advice", rule->fault->advice);
        add_pair(out, "route", fault_routes[v->route].key);
        add_pair(out, "clear", fault_clears[rule->fault->clear].key);
        add_pair(out, "runbook", rule->fault->runbook);
    } else {
        str_add(out, ",\n  \"class\": null");
    }
    str_addf(out, ",\n  \"silent\": %s", rule->silent ? "true" : "false");
    add_pair(out, "source", rule->source);
    str_add(out, "\n}\n");
}

static int explain_code(VerbCall *call, const XidOptions *o, Question *q)
{
    const FaultRule *rules[MEANINGS_MAX];
    FaultVerdict verdict;
    CLEANUP(str_done) Str out = {0};

    size_t count = catalogue_find_code(q->catalogue, q->event.kind, q->event.code, q->driver, rules, MEANINGS_MAX);
    if (!catalogue_judge(q->catalogue, &q->event, q->driver, q->arch, &verdict))
        return verb_failf(call, EXIT_FINDING, "%d is not known", q->event.code);
    str_init(&out, 1024 * 1024);
    if (o->json)
        add_json(&out, q, &verdict);
    else
        add_text(&out, q, &verdict, rules, count < MEANINGS_MAX ? count : MEANINGS_MAX);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, is_unknown(verdict.rule) ? EXIT_FINDING : EXIT_FINE);
}

static void list_json(const Catalogue *catalogue, Str *out)
{
    const char *sep = "[\n";

    for (size_t i = 0; i < catalogue_rule_count(catalogue); i++) {
        const FaultRule *rule = catalogue_rule_at(catalogue, i);
        if (rule->match == FAULT_ON_DETECTOR)
            continue;
        str_addf(out, "%s {\"rule\": \"%s\", \"event\": \"%s\", \"code\": %d, \"name\": ", sep, rule->id,
                 event_kind_key(rule->event), rule->code_from);
        str_add_json(out, rule->name);
        str_addf(out,
                 ", \"class\": %s%s%s, \"cause\": \"%s\", \"severity\": \"%s\", \"action\": \"%s\", \"route\": \"%s\"}",
                 rule->fault ? "\"" : "", rule->fault ? rule->fault->id : "null", rule->fault ? "\"" : "",
                 fault_causes[rule->cause].key, fault_severities[rule->severity].key, fault_actions[rule->action].key,
                 fault_routes[rule->route].key);
        sep = ",\n";
    }
    str_add(out, "\n]\n");
}

static void list_codes(const Catalogue *catalogue, Str *out)
{
    str_addf(out, "%-34s %-20s %-8s %-16s %-6s %s\n", "RULE", "CLASS", "SEVERITY", "ACTION", "ROUTE", "WHAT");
    for (size_t i = 0; i < catalogue_rule_count(catalogue); i++) {
        const FaultRule *rule = catalogue_rule_at(catalogue, i);
        str_addf(out, "%-34s %-20s %-8s %-16s %-6s %s\n", rule->id, rule->fault ? rule->fault->id : "-",
                 fault_severities[rule->severity].key, fault_actions[rule->action].key, fault_routes[rule->route].key,
                 rule->name);
    }
}

static void list_classes(const Catalogue *catalogue, Str *out)
{
    char span[DURATION_TEXT_MAX];

    str_add(out, "| class | what | cause | severity | of | action | route | over | for |\n"
                 "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < catalogue_class_count(catalogue); i++) {
        const FaultClass *c = catalogue_class_at(catalogue, i);
        duration_format(span, c->for_ns);
        str_addf(out, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", c->id, c->text, fault_causes[c->cause].key,
                 fault_severities[c->severity].key, fault_scopes[c->scope].key, fault_actions[c->action].key,
                 fault_routes[c->route].key, fault_clears[c->clear].key, c->for_ns ? span : "");
    }
}

static int list_all(VerbCall *call, const XidOptions *o, const Catalogue *catalogue)
{
    CLEANUP(str_done) Str out = {0};

    if (call->args.len)
        return verb_failf(call, EXIT_USAGE, "--list takes no code");
    str_init(&out, 4 * 1024 * 1024);
    if (o->markdown)
        list_classes(catalogue, &out);
    else if (o->json)
        list_json(catalogue, &out);
    else
        list_codes(catalogue, &out);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, EXIT_FINE);
}

static int xid_run(VerbCall *call, const void *options)
{
    const XidOptions *o = options;
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    Question question = {0};
    int code;

    if (o->markdown && !o->list)
        return verb_failf(call, EXIT_USAGE, "--markdown goes with --list");
    if (!o->list &&
        ((code = ask_code(call, &question)) != EXIT_FINE || (code = ask_driver(call, o, &question)) != EXIT_FINE))
        return code;
    int rc = faults_load(o->faults.items, o->faults.len, NULL, 0, &catalogue, &call->err);
    if (rc < 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    question.catalogue = catalogue;
    return o->list ? list_all(call, o, catalogue) : explain_code(call, o, &question);
}

const Verb verb_xid = {
    .name = "xid",
    .summary = "what a code of the GPU driver means and what to do",
    .usage = "[--driver VERSION] [--arch NAME] [--json] CODE|LINE | --list",
    .description =
        "Explains an XID of the GPU driver or an SXid of an NVSwitch: its meaning on this driver, cause, severity, "
        "what "
        "to do, who is told, and when it is over. CODE is a number (from 10000 on an SXid), xid:N or sxid:N; LINE is a "
        "line of the kernel log, in quotes. The same catalogue judges what the agent sees.",
    .examples = "stoker xid 79\n"
                "stoker xid 139 --driver 535.261.03\n"
                "stoker xid 'NVRM: Xid (PCI:0000:18:00): 63, Row Remapper: New row marked for remapping'\n"
                "stoker xid --list --faults /etc/stoker/faults.d",
    .exit_codes = "0  the code is known\n"
                  "1  it is not\n"
                  "2  the command line, or a file of yours, is wrong\n"
                  "3  a file could not be read",
    .opts = xid_opts,
    .opt_count = ARRAY_LEN(xid_opts),
    .opt_size = sizeof(XidOptions),
    .run = xid_run,
};
