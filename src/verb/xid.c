/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker xid`: what a code of the driver or of an NVSwitch means, here, and what to do. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "service/runbook/runbook.h"
#include "source/host/host.h"
#include "source/kmsg/line.h"
#include "verb/agent/config.h"
#include "verb/xid.h"

enum { MEANINGS_MAX = 64, SHOWN_MAX = 8, LABEL = 12 };
enum { SXID_FROM = 10000, CODE_MAX = 99999, WORDS_MAX = 64 * 1024, LINE_MAX_BYTES = 128 * 1024 };

typedef struct XidOptions {
    const char *driver, *arch, *root;
    bool json, list, markdown;
    OptList faults;
} XidOptions;

static const OptSpec xid_opts[] = {
    OPT_ROW("driver", OPT_STRING, XidOptions, driver, .metavar = "VERSION",
            .help = "driver that said it, such as 570.86; without: this node's"),
    OPT_ROW("arch", OPT_STRING, XidOptions, arch, .metavar = "NAME",
            .help = "architecture of the GPU: turing, ampere, hopper, ..."),
    OPT_ROW("json", OPT_BOOL, XidOptions, json, .help = "as JSON"),
    OPT_ROW("list", OPT_BOOL, XidOptions, list, .short_flag = 'l', .help = "all codes, one line each"),
    OPT_ROW("markdown", OPT_BOOL, XidOptions, markdown,
            .help = "with --list: the classes of faults as tables of Markdown"),
    OPT_ROW("faults", OPT_LIST, XidOptions, faults, .metavar = "FILE",
            .help = "files or folders of your own that stand over what is built in"),
    OPT_ROW("root", OPT_STRING, XidOptions, root, .env = "STOKER_ROOT", .metavar = "DIR",
            .help = "read /proc/driver/nvidia/version below DIR"),
};

CLEANUP_POINTER(Catalogue, catalogue_free);
CLEANUP_POINTER(LineReader, line_reader_free);

/* --- the question ------------------------------------------------------------------------------------------------- */

const char *xid_join_words(const VerbCall *call)
{
    CLEANUP(str_done) Str text = {0};

    str_init(&text, WORDS_MAX);
    for (size_t i = 0; i < call->args.len; i++)
        str_addf(&text, "%s%s", i ? " " : "", call->args.items[i]);
    return arena_strdup(call->arena, text.text);
}

static bool read_line(const char *text, Event *event)
{
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(NULL, 0);
    CLEANUP(str_done) Str line = {0};

    str_init(&line, LINE_MAX_BYTES);
    str_addf(&line, "%s%s", strncmp(text, "Xid (", 5) == 0 ? "NVRM: " : "", text);
    for (char *rest = line.text, *part; (part = strsep(&rest, "\n"));)
        if (line_read(reader, part, strlen(part), event))
            return true;
    return false;
}

/* The severity of the firmware's error record, which says nothing without the section behind it. */
static bool is_half_record(const char *text)
{
    return strstr(text, "event severity: ") || (strstr(text, "[Hardware Error]:") && strstr(text, ", type: "));
}

static bool has_code(const Event *event)
{
    return event->kind == EVENT_XID || event->kind == EVENT_SXID;
}

bool xid_read_code(const char *text, Event *ret)
{
    const bool sxid = strncasecmp(text, "sxid:", 5) == 0, xid = strncasecmp(text, "xid:", 4) == 0;
    uint64_t code;

    if (number_parse_u64(text + (sxid ? 5 : xid ? 4 : 0), 0, CODE_MAX, &code, NULL) < 0)
        return read_line(text, ret);
    event_init(ret, sxid || (!xid && code >= SXID_FROM) ? EVENT_SXID : EVENT_XID, EVENT_FROM_KMSG);
    ret->code = (int32_t)code;
    return true;
}

int xid_read_driver(VerbCall *call, const char *version, const char *root, uint32_t *ret)
{
    char here[READING_TEXT_CAP] = "";
    uint64_t major = 0;

    if (!version)
        host_module(root ? root : "", here);
    const char *text = version ? version : here;
    if (number_parsen_u64(text, strcspn(text, "."), 1, 9999, &major, NULL) < 0 && version)
        return verb_failf(call, EXIT_USAGE, "--driver '%s' is no version; it looks like 570.86.10", version);
    *ret = (uint32_t)major;
    return EXIT_FINE;
}

/* What is asked, and by whom. */
typedef struct Question {
    const Catalogue *catalogue;
    Event event;
    uint32_t driver, arch;
} Question;

static int read_question(VerbCall *call, const XidOptions *o, Question *q)
{
    const char *text = xid_join_words(call);
    DeviceArch arch = DEVICE_ARCH_UNKNOWN;

    if (!*text)
        return verb_failf(call, EXIT_USAGE, "which code? 'stoker xid 79', or --list for all");
    const bool read = xid_read_code(text, &q->event);
    if (!read && is_half_record(text))
        return verb_failf(call, EXIT_USAGE,
                          "'%.80s' is the head of an error record of the firmware; give the line of its section "
                          "behind it too ('section_type: memory error', or 'device_id: ...' of a PCIe error)",
                          text);
    if (!read)
        return verb_failf(
            call, EXIT_USAGE,
            "'%.80s' is neither a code (79, sxid:20034) nor a line of the kernel log that tells of a fault", text);
    if (o->arch && (!device_arch_find(o->arch, &arch) || arch == DEVICE_ARCH_UNKNOWN))
        return verb_failf(call, EXIT_USAGE, "--arch '%s' is no architecture; it is a name such as ampere or hopper",
                          o->arch);
    q->arch = arch;
    return xid_read_driver(call, o->driver, o->root, &q->driver);
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

/* Breaks `text` at the terminal's width behind a label. */
static void add_wrapped(Str *out, const char *label, const char *text)
{
    str_addf(out, "  %-*s", LABEL, label);
    str_add_wrapped(out, text, LABEL + 2, LABEL + 2, verb_width());
}

static void add_word(Str *out, const char *label, const WordRow *word)
{
    char text[256];

    snprintf(text, sizeof text, "%s: %s", word->key, word->text);
    add_wrapped(out, label, text);
}

static bool is_unknown(const FaultRule *rule)
{
    return strcmp(rule->id, "xid-unknown") == 0 || strcmp(rule->id, "sxid-unknown") == 0;
}

static bool has_parent(const FaultClass *child, const FaultClass *parent)
{
    for (size_t i = 0; i < child->parent_count; i++)
        if (child != parent && child->parents[i] == parent)
            return true;
    return false;
}

/* Classes whose evidence is attached to it as echoes. */
static void add_followers(Str *out, const Question *q, const FaultClass *fault)
{
    char room[1024];
    size_t shown = 0;
    Str text;

    str_init_room(&text, room, sizeof room);
    for (size_t i = 0; i < q->catalogue->class_count && shown < SHOWN_MAX; i++) {
        const FaultClass *child = &q->catalogue->classes[i];
        if (has_parent(child, fault))
            str_addf(&text, "%s%s", shown++ ? ", " : "", child->id);
    }
    if (shown)
        add_wrapped(out, "followed by", text.text);
    str_clear(&text);
    for (size_t i = 0; i < fault->parent_count && i < SHOWN_MAX; i++)
        str_addf(&text, "%s%s", i ? ", " : "", fault->parents[i]->id);
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

    if (has_code(&q->event))
        str_addf(out, "%s %d: %s\n", rule->event == EVENT_SXID ? "SXid" : "XID", q->event.code, rule->name);
    else
        str_addf(out, "%s: %s\n", event_kinds[q->event.kind].key, rule->name);
    if (rule->text[0])
        add_wrapped(out, "", rule->text);
    add_wrapped(out, "class", rule->fault ? rule->fault->id : "none: it is no fault");
    if (rule->fault) {
        add_word(out, "cause", &fault_causes[v->cause]);
        add_word(out, "severity", &fault_severities[v->severity]);
        add_word(out, "do", &fault_actions[v->action]);
        add_wrapped(out, "", fault_advice(rule->fault, v->action));
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

static void add_json(Str *out, const Question *q, const FaultVerdict *v)
{
    const FaultRule *rule = v->rule;

    json_open(out, NULL, '{');
    if (has_code(&q->event))
        json_add_i64(out, "code", q->event.code);
    json_add_text(out, "kind", event_kinds[rule->event].key);
    json_add_bool(out, "known", !is_unknown(rule));
    if (q->driver)
        json_add_u64(out, "driver", q->driver);
    json_add_text(out, "rule", rule->id);
    json_add_text(out, "name", rule->name);
    json_add_text(out, "text", rule->text);
    json_add_text(out, "class", rule->fault ? rule->fault->id : NULL);
    if (rule->fault) {
        json_add_text(out, "cause", fault_causes[v->cause].key);
        json_add_text(out, "severity", fault_severities[v->severity].key);
        json_add_text(out, "scope", fault_scopes[rule->scope].key);
        json_add_text(out, "action", fault_actions[v->action].key);
        json_add_text(out, "advice", fault_advice(rule->fault, v->action));
        json_add_text(out, "route", fault_routes[v->route].key);
        json_add_text(out, "clear", fault_clears[rule->fault->clear].key);
        json_add_text(out, "runbook", rule->fault->runbook);
    }
    json_add_bool(out, "silent", rule->silent);
    json_add_text(out, "source", rule->source);
    json_close(out, '}');
    str_addc(out, '\n');
}

static int explain_code(VerbCall *call, const XidOptions *o, Question *q)
{
    const FaultRule *rules[MEANINGS_MAX];
    FaultVerdict verdict;
    CLEANUP(str_done) Str out = {0};

    size_t count = 0;
    if (has_code(&q->event))
        count = catalogue_find_code(q->catalogue, q->event.kind, q->event.code, q->driver, rules, MEANINGS_MAX);
    if (!catalogue_match(q->catalogue, &q->event, q->driver, q->arch, &verdict))
        return verb_failf(call, EXIT_FINDING, "no rule is about %s", event_kinds[q->event.kind].text);
    str_init(&out, 1024 * 1024);
    if (o->json)
        add_json(&out, q, &verdict);
    else
        add_text(&out, q, &verdict, rules, count < MEANINGS_MAX ? count : MEANINGS_MAX);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, is_unknown(verdict.rule) ? EXIT_FINDING : EXIT_FINE);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void list_json(const Catalogue *catalogue, Str *out)
{
    json_open(out, NULL, '[');
    for (size_t i = 0; i < catalogue->event_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];

        json_open(out, NULL, '{');
        json_add_text(out, "rule", rule->id);
        json_add_text(out, "event", event_kinds[rule->event].key);
        json_add_i64(out, "code", rule->code_from);
        json_add_text(out, "name", rule->name);
        json_add_text(out, "class", rule->fault ? rule->fault->id : NULL);
        json_add_text(out, "cause", fault_causes[rule->cause].key);
        json_add_text(out, "severity", fault_severities[rule->severity].key);
        json_add_text(out, "action", fault_actions[rule->action].key);
        json_add_text(out, "route", fault_routes[rule->route].key);
        json_close(out, '}');
    }
    json_close(out, ']');
    str_addc(out, '\n');
}

static void list_codes(const Catalogue *catalogue, Str *out)
{
    str_addf(out, "%-34s %-20s %-8s %-16s %-6s %s\n", "RULE", "CLASS", "SEVERITY", "ACTION", "ROUTE", "WHAT");
    for (size_t i = 0; i < catalogue->rule_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];
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
    for (size_t i = 0; i < catalogue->class_count; i++) {
        const FaultClass *c = &catalogue->classes[i];
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
    if (!o->list && (code = read_question(call, o, &question)) != EXIT_FINE)
        return code;
    int rc = faults_load(&o->faults, NULL, &catalogue, &call->err);
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
        "what to do, who is told, and when it is over. CODE is a number (from 10000 on an SXid), xid:N or sxid:N; LINE "
        "is a line of the kernel log, in quotes. The agent uses the same catalogue.",
    .examples = "stoker xid 79\n"
                "stoker xid 139 --driver 535.261.03\n"
                "stoker xid 'NVRM: Xid (PCI:0000:18:00): 63, Row Remapper: New row marked for remapping'\n"
                "stoker xid --list --faults /etc/stoker/faults.d",
    .exit_codes = "0  the code is known\n"
                  "1  it is not\n"
                  "2  the command line, or a file of yours, is wrong\n"
                  "3  a file could not be read",
    VERB_OPTS(xid_opts, XidOptions),
    .run = xid_run,
};
