/* SPDX-License-Identifier: Apache-2.0 */
/* From YAML to drafts: keys of classes and rules, `on` and `with` of rules. */
#include "engine/health/catalogue_draft.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/opt.h"
#include "base/str.h"
#include "model/metric.h"

enum { KEYS_MAX = 32, ID_MAX = 64, NAMES_SHOWN = 24, ENTRIES_MAX = 4096 };

typedef enum KeyType {
    KEY_TEXT,   /* const char *, kept */
    KEY_SHARED, /* const char *, kept once for all */
    KEY_WORD,   /* an enum of model/fault.h */
    KEY_TIME,   /* uint64_t ns */
    KEY_BOOL,
    KEY_PARENTS,
    KEY_BY,
    KEY_CLASS,
    KEY_ON,
    KEY_WITH,
} KeyType;

typedef struct Key {
    const char *name;
    KeyType type;
    size_t off;
    const FaultWord *words;
    int word_count;
} Key;

#define IN_CLASS(member) offsetof(ClassDraft, fault.member)
#define IN_RULE(member) offsetof(RuleDraft, rule.member)
static const Key class_keys[] = {
    {"text", KEY_TEXT, IN_CLASS(text), NULL, 0},
    {"advice", KEY_TEXT, IN_CLASS(advice), NULL, 0},
    {"runbook", KEY_TEXT, IN_CLASS(runbook), NULL, 0},
    {"cause", KEY_WORD, IN_CLASS(cause), fault_causes, CAUSE_END},
    {"severity", KEY_WORD, IN_CLASS(severity), fault_severities, SEVERITY_END},
    {"scope", KEY_WORD, IN_CLASS(scope), fault_scopes, SCOPE_END},
    {"action", KEY_WORD, IN_CLASS(action), fault_actions, ACTION_END},
    {"route", KEY_WORD, IN_CLASS(route), fault_routes, ROUTE_END},
    {"clear", KEY_WORD, IN_CLASS(clear), fault_clears, CLEAR_END},
    {"for", KEY_TIME, IN_CLASS(for_ns), NULL, 0},
    {"keep_firing_for", KEY_TIME, IN_CLASS(keep_ns), NULL, 0},
    {"quiet", KEY_TIME, IN_CLASS(quiet_ns), NULL, 0},
    {"reopen", KEY_TIME, IN_CLASS(reopen_ns), NULL, 0},
    {"by", KEY_BY, 0, NULL, 0},
    {"parents", KEY_PARENTS, 0, NULL, 0},
    {"parent_window", KEY_TIME, IN_CLASS(parent_ns), NULL, 0},
    {"observe", KEY_BOOL, IN_CLASS(observe), NULL, 0},
    {"enabled", KEY_BOOL, IN_CLASS(enabled), NULL, 0},
    {"source", KEY_SHARED, IN_CLASS(source), NULL, 0},
};
static const Key rule_keys[] = {
    {"name", KEY_TEXT, IN_RULE(name), NULL, 0},
    {"text", KEY_TEXT, IN_RULE(text), NULL, 0},
    {"on", KEY_ON, 0, NULL, 0},
    {"with", KEY_WITH, 0, NULL, 0},
    {"class", KEY_CLASS, 0, NULL, 0},
    {"cause", KEY_WORD, IN_RULE(cause), fault_causes, CAUSE_END},
    {"severity", KEY_WORD, IN_RULE(severity), fault_severities, SEVERITY_END},
    {"scope", KEY_WORD, IN_RULE(scope), fault_scopes, SCOPE_END},
    {"action", KEY_WORD, IN_RULE(action), fault_actions, ACTION_END},
    {"route", KEY_WORD, IN_RULE(route), fault_routes, ROUTE_END},
    {"for", KEY_TIME, IN_RULE(for_ns), NULL, 0},
    {"keep_firing_for", KEY_TIME, IN_RULE(keep_ns), NULL, 0},
    {"silent", KEY_BOOL, IN_RULE(silent), NULL, 0},
    {"explained_by", KEY_SHARED, IN_RULE(explained_by), NULL, 0},
    {"enabled", KEY_BOOL, offsetof(RuleDraft, enabled), NULL, 0},
    {"source", KEY_SHARED, IN_RULE(source), NULL, 0},
};

/* Keeps a text once, for the few that many entries share. */
static const char *keep_text(CatalogueReader *reader, const char *text)
{
    for (size_t i = reader->texts.len; i-- > 0;)
        if (strcmp(reader->texts.at[i], text) == 0)
            return reader->texts.at[i];
    const char *kept = arena_strdup(reader->keep, text);
    vec_push(&reader->texts, kept);
    return kept;
}

/* "unknown <what> 'x', did you mean 'y'?" and, if they are few, all names; at the node. -EINVAL. */
static int fail_unknown(const YamlNode *node, const char *what, const char *const *names, size_t count, Err *err)
{
    char room[ERR_TEXT_MAX];
    Str text;

    str_init_room(&text, room, sizeof room);
    str_addf(&text, "unknown %s '%.60s'", what, node->text);
    const char *nearest = count ? opt_nearest(node->text, names, count) : NULL;
    if (nearest)
        str_addf(&text, ", did you mean '%s'?", nearest);
    if (count && count <= NAMES_SHOWN) {
        str_add(&text, nearest ? " Allowed: " : "; allowed: ");
        for (size_t i = 0; i < count; i++)
            str_addf(&text, "%s%s", i ? ", " : "", names[i]);
    }
    return yaml_fail(node, err, "%s", text.text);
}

/* A text among words: its number in *ret. */
static int read_word(const YamlNode *node, const char *what, const FaultWord *words, int count, unsigned *ret, Err *err)
{
    const char *names[KEYS_MAX];

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    int number = fault_word_find(words, count, node->text);
    if (number >= 0) {
        *ret = (unsigned)number;
        return 0;
    }
    for (int i = 0; i < count; i++)
        names[i] = words[i].key;
    return fail_unknown(node, what, names, (size_t)count, err);
}

/* --- `on` and `with` of a rule --------------------------------------------------------------------------------------
 */

enum { CODE_MAX = 99999, DRIVER_MAX = 9999, TEXT_MAX = 200, NAMES_MAX = 96 };

static int read_number(const YamlNode *node, const char *what, const char *text, size_t len, uint32_t max,
                       uint32_t *ret, Err *err)
{
    uint64_t number;
    Err why = {0};

    if (number_parsen_u64(text, len, 0, max, &number, &why) < 0)
        return yaml_fail(node, err, "'%s': %s", what, why.text);
    *ret = (uint32_t)number;
    return 0;
}

/* "79", "20001-20012" */
static int read_code(const YamlNode *node, const char *what, FaultRule *rule, Err *err)
{
    const char *dash = strchr(node->text, '-');
    size_t len = dash ? (size_t)(dash - node->text) : node->len;
    uint32_t from, to;

    TRY(read_number(node, what, node->text, len, CODE_MAX, &from, err));
    to = from;
    if (dash)
        TRY(read_number(node, what, dash + 1, strlen(dash + 1), CODE_MAX, &to, err));
    if (to < from)
        return yaml_fail(node, err, "'%s': %s ends before it begins", what, node->text);
    rule->code_from = (int32_t)from;
    rule->code_to = (int32_t)to;
    return 0;
}

typedef int (*NumberOf)(const YamlNode *node, const char *text, size_t len, uint32_t *ret, Err *err);

static int number_of_driver(const YamlNode *node, const char *text, size_t len, uint32_t *ret, Err *err)
{
    return read_number(node, "driver", text, len, DRIVER_MAX, ret, err);
}

static int number_of_arch(const YamlNode *node, const char *text, size_t len, uint32_t *ret, Err *err)
{
    char name[32];
    DeviceArch arch;

    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), text);
    if (!device_arch_find(name, &arch) || arch == DEVICE_ARCH_UNKNOWN)
        return yaml_fail(node, err, "'arch': there is no '%.30s'; it is a name such as ampere, hopper, blackwell",
                         name);
    *ret = arch;
    return 0;
}

/* ">=535 <560", "545": from inclusive, below exclusive; one number alone is that one. */
static int read_range(const YamlNode *node, const char *what, NumberOf number, uint32_t *ret_from, uint32_t *ret_below,
                      Err *err)
{
    uint32_t from = 0, below = 0, n;

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    for (const char *at = node->text; *at;) {
        size_t word = strcspn(at, " "), mark = strspn(at, "<>=");
        if (word > 0)
            TRY(number(node, at + mark, word - mark, &n, err));
        if (word == 0)
            at++;
        else if (mark == 0)
            from = n, below = n + 1;
        else if (mark == 2 && strncmp(at, ">=", 2) == 0)
            from = n;
        else if (mark == 1 && *at == '<')
            below = n;
        else
            return yaml_fail(node, err, "'%s' reads '>=A <B', '>=A', '<B' or 'A', not '%.60s'", what, node->text);
        at += word;
    }
    if ((!from && !below) || (below && from >= below))
        return yaml_fail(node, err, "'%s': nothing is in '%.60s'", what, node->text);
    *ret_from = from;
    *ret_below = below;
    return 0;
}

static int read_hex(const YamlNode *node, const char *what, const char *text, size_t len, uint32_t *ret, Err *err)
{
    uint64_t number;
    Err why = {0};

    if (number_parsen_hex(text, len, UINT32_MAX, &number, &why) < 0)
        return yaml_fail(node, err, "'%s': %s", what, why.text);
    *ret = (uint32_t)number;
    return 0;
}

/* "0x00000021/0x03f003ff": value and mask of intrInfo. */
static int read_masked(const YamlNode *node, const char *what, uint32_t *ret_value, uint32_t *ret_mask, Err *err)
{
    uint32_t value, mask;

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    const char *slash = strchr(node->text, '/');
    if (!slash)
        return yaml_fail(node, err, "'%s' reads VALUE/MASK in hexadecimal, not '%.40s'", what, node->text);
    TRY(read_hex(node, what, node->text, (size_t)(slash - node->text), &value, err));
    TRY(read_hex(node, what, slash + 1, strlen(slash + 1), &mask, err));
    if (!mask || (value & ~mask))
        return yaml_fail(node, err, "'%s': the value has bits that the mask leaves out", what);
    *ret_value = value;
    *ret_mask = mask;
    return 0;
}

static int read_intr(const YamlNode *node, FaultRule *rule, Err *err)
{
    static const char *const names[] = {"before_575", "since_575"};

    TRY(yaml_want(node, YAML_MAP, "intr", err));
    for (size_t i = 0; i < node->len; i++) {
        const YamlPair *pair = &node->pairs[i];
        if (strcmp(pair->key->text, names[0]) == 0)
            TRY(read_masked(pair->value, names[0], &rule->intr_value_old, &rule->intr_mask_old, err));
        else if (strcmp(pair->key->text, names[1]) == 0)
            TRY(read_masked(pair->value, names[1], &rule->intr_value_new, &rule->intr_mask_new, err));
        else
            return fail_unknown(pair->key, "key of 'intr'", names, ARRAY_LEN(names), err);
    }
    return 0;
}

static int read_says(const YamlNode *node, FaultRule *rule, Err *err)
{
    static const char *const names[] = {"correctable", "non-fatal", "fatal"};

    for (unsigned i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], node->text) == 0) {
            rule->word = (EventWord)(EVENT_CORRECTABLE + i);
            return 0;
        }
    return fail_unknown(node, "word of 'says'", names, ARRAY_LEN(names), err);
}

static int read_event(const YamlNode *node, FaultRule *rule, Err *err)
{
    const char *names[EVENT_KIND_END];
    EventKind kind;

    for (unsigned i = 0; i < EVENT_KIND_END; i++)
        names[i] = event_kind_key((EventKind)i);
    if (!event_kind_find(node->text, &kind))
        return fail_unknown(node, "kind of event", names, ARRAY_LEN(names), err);
    if (kind == EVENT_XID || kind == EVENT_SXID)
        return yaml_fail(node, err, "an %s is named with its number: 'xid: 79', 'sxid: 20034'", node->text);
    rule->event = kind;
    return 0;
}

static int read_text(CatalogueReader *reader, const YamlNode *node, const char *what, const char **ret, Err *err)
{
    if (node->len == 0 || node->len > TEXT_MAX)
        return yaml_fail(node, err, "'%s' takes 1 to %d bytes", what, TEXT_MAX);
    *ret = keep_text(reader, node->text);
    return 0;
}

static int read_detector(CatalogueReader *reader, const YamlNode *node, RuleDraft *draft, Err *err)
{
    const char *names[NAMES_MAX];
    size_t count = 0;

    draft->detector = node;
    for (size_t i = 0; i < reader->detector_count && count < NAMES_MAX; i++) {
        names[count++] = reader->detectors[i].name;
        if (strcmp(reader->detectors[i].name, node->text) == 0) {
            draft->rule.detector = reader->detectors[i].name;
            return 0;
        }
    }
    if (reader->detector_count)
        return fail_unknown(node, "detector", names, count, err);
    return read_text(reader, node, "detector", &draft->rule.detector, err);
}

/* SUBJECT(key): what a rule is about; one of them. The others narrow it. */
enum { ON_XID, ON_SXID, ON_EVENT, ON_DETECTOR, ON_CONTAINS, ON_SUBJECTS };
static const char *const on_names[] = {"xid",  "sxid", "event",  "detector",  "contains", "says",
                                       "unit", "intr", "status", "status_is", "driver",   "arch"};

static int read_scalar_key(CatalogueReader *reader, const YamlNode *node, const char *key, RuleDraft *draft, Err *err)
{
    FaultRule *rule = &draft->rule;

    TRY(yaml_want(node, YAML_SCALAR, key, err));
    if (strcmp(key, "xid") == 0 || strcmp(key, "sxid") == 0)
        return read_code(node, key, rule, err);
    if (strcmp(key, "event") == 0)
        return read_event(node, rule, err);
    if (strcmp(key, "detector") == 0)
        return read_detector(reader, node, draft, err);
    if (strcmp(key, "contains") == 0)
        return read_text(reader, node, key, &rule->contains, err);
    if (strcmp(key, "says") == 0)
        return read_says(node, rule, err);
    if (strcmp(key, "unit") == 0)
        return read_text(reader, node, key, &rule->unit, err);
    rule->status_whole = strcmp(key, "status_is") == 0;
    return read_hex(node, key, node->text, node->len, &rule->status_mask, err);
}

static int read_on_key(CatalogueReader *reader, const YamlPair *pair, RuleDraft *draft, Err *err)
{
    FaultRule *rule = &draft->rule;
    const char *key = pair->key->text;

    if (strcmp(key, "intr") == 0)
        return read_intr(pair->value, rule, err);
    if (strcmp(key, "driver") == 0)
        return read_range(pair->value, key, number_of_driver, &rule->driver_from, &rule->driver_below, err);
    if (strcmp(key, "arch") == 0)
        return read_range(pair->value, key, number_of_arch, &rule->arch_from, &rule->arch_below, err);
    for (size_t i = 0; i < ARRAY_LEN(on_names); i++)
        if (strcmp(on_names[i], key) == 0)
            return read_scalar_key(reader, pair->value, key, draft, err);
    return fail_unknown(pair->key, "key of 'on'", on_names, ARRAY_LEN(on_names), err);
}

static void clear_conditions(FaultRule *rule)
{
    rule->match = FAULT_MATCH_END;
    rule->event = EVENT_LINE;
    rule->code_from = rule->code_to = 0;
    rule->driver_from = rule->driver_below = rule->arch_from = rule->arch_below = 0;
    rule->word = EVENT_NO_WORD;
    rule->contains = rule->unit = rule->detector = "";
    rule->intr_mask_old = rule->intr_value_old = rule->intr_mask_new = rule->intr_value_new = rule->status_mask = 0;
    rule->status_whole = false;
}

static int settle_subject(const YamlNode *on, FaultRule *rule, Err *err)
{
    size_t subjects = 0;

    for (size_t i = 0; i < ON_CONTAINS; i++)
        subjects += yaml_get(on, on_names[i]) != NULL;
    if (subjects > 1)
        return yaml_fail(on, err, "'on' has one of xid, sxid, event and detector, not more");
    if (yaml_get(on, on_names[ON_XID]))
        rule->match = FAULT_ON_XID, rule->event = EVENT_XID;
    else if (yaml_get(on, on_names[ON_SXID]))
        rule->match = FAULT_ON_SXID, rule->event = EVENT_SXID;
    else if (yaml_get(on, on_names[ON_DETECTOR]))
        rule->match = FAULT_ON_DETECTOR;
    else if (subjects || yaml_get(on, on_names[ON_CONTAINS]))
        rule->match = FAULT_ON_EVENT;
    else
        return yaml_fail(on, err, "'on' has none of xid, sxid, event, detector and contains");
    if (rule->match == FAULT_ON_DETECTOR && on->len > 1)
        return yaml_fail(on, err, "nothing stands beside 'detector' in 'on'; parameters go into 'with'");
    return 0;
}

static int read_on(CatalogueReader *reader, const YamlNode *on, RuleDraft *draft, Err *err)
{
    TRY(yaml_want(on, YAML_MAP, "on", err));
    clear_conditions(&draft->rule);
    draft->on = on;
    for (size_t i = 0; i < on->len; i++)
        TRY(read_on_key(reader, &on->pairs[i], draft, err));
    return settle_subject(on, &draft->rule, err);
}

static int read_value(const YamlNode *node, const char *name, const DetectorParam *param, double *ret, Err *err)
{
    Err why = {0};
    uint64_t ns;

    TRY(yaml_want(node, YAML_SCALAR, name, err));
    const MetricName *metric = !param || param->type == DETECTOR_METRIC ? metric_find(node->text) : NULL;
    if (metric)
        *ret = metric->metric;
    else if (param && param->type == DETECTOR_METRIC)
        return yaml_fail(node, err, "'%s': there is no metric '%.60s'", name, node->text);
    else if ((!param || param->type == DETECTOR_DURATION) && duration_parse(node->text, &ns, &why) == 0)
        *ret = (double)ns;
    else if (param && param->type == DETECTOR_DURATION)
        return yaml_fail(node, err, "'%s': %s", name, why.text);
    else if (number_parse_double(node->text, -1e300, 1e300, ret, &why) < 0)
        return yaml_fail(node, err, "'%s': %s", name, why.text);
    if (param && param->type != DETECTOR_METRIC && param->max > param->min &&
        (*ret < param->min || *ret > param->max)) {
        char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];
        if (param->type == DETECTOR_NUMBER)
            return yaml_fail(node, err, "'%s' must be in %g to %g, not %s", name, param->min, param->max, node->text);
        duration_format(low, (uint64_t)param->min);
        duration_format(high, (uint64_t)param->max);
        return yaml_fail(node, err, "'%s' must be in %s to %s, not %s", name, low, high, node->text);
    }
    return 0;
}

static const DetectorSpec *spec_of(const CatalogueReader *reader, const char *name)
{
    for (size_t i = 0; i < reader->detector_count; i++)
        if (strcmp(reader->detectors[i].name, name) == 0)
            return &reader->detectors[i];
    return NULL;
}

/* The detector is unknown: parameters are kept as given. */
static int read_loose(CatalogueReader *reader, RuleDraft *draft, FaultParam *params, Err *err)
{
    size_t count = 0;

    for (const WithNote *note = draft->with; note; note = note->before)
        for (size_t i = 0; i < note->map->len; i++) {
            const YamlPair *pair = &note->map->pairs[i];
            size_t known = 0;
            while (known < count && strcmp(params[known].name, pair->key->text) != 0)
                known++;
            if (known < count)
                continue;
            if (count == CATALOGUE_PARAMS)
                return yaml_fail(pair->key, err, "more than %d parameters", CATALOGUE_PARAMS);
            params[count].name = keep_text(reader, pair->key->text);
            TRY(read_value(pair->value, pair->key->text, NULL, &params[count++].value, err));
        }
    draft->rule.param_count = count;
    return 0;
}

static int read_param(const DetectorSpec *spec, const YamlPair *pair, FaultParam *params, Err *err)
{
    const char *names[CATALOGUE_PARAMS];

    for (size_t i = 0; i < spec->param_count && i < CATALOGUE_PARAMS; i++) {
        names[i] = spec->params[i].name;
        if (strcmp(names[i], pair->key->text) == 0)
            return read_value(pair->value, names[i], &spec->params[i], &params[i].value, err);
    }
    return fail_unknown(pair->key, "parameter", names, spec->param_count, err);
}

/* The oldest first, so that the newest stands. */
static int read_notes(const DetectorSpec *spec, const WithNote *note, FaultParam *params, Err *err)
{
    if (!note)
        return 0;
    TRY(read_notes(spec, note->before, params, err));
    for (size_t i = 0; i < note->map->len; i++)
        TRY(read_param(spec, &note->map->pairs[i], params, err));
    return 0;
}

int catalogue_read_with(CatalogueReader *reader, RuleDraft *draft, Err *err)
{
    FaultParam params[CATALOGUE_PARAMS] = {{0}};

    if (draft->rule.match != FAULT_ON_DETECTOR)
        return draft->with ? yaml_fail(draft->with->map, err, "'with' is for rules on a detector") : 0;
    const DetectorSpec *spec = spec_of(reader, draft->rule.detector);
    if (!spec) {
        TRY(read_loose(reader, draft, params, err));
    } else {
        assert(spec->param_count <= CATALOGUE_PARAMS);
        draft->rule.param_count = number_min_u64(spec->param_count, CATALOGUE_PARAMS);
        for (size_t i = 0; i < draft->rule.param_count; i++)
            params[i] = (FaultParam){.name = spec->params[i].name, .value = spec->params[i].value};
        TRY(read_notes(spec, draft->with, params, err));
    }
    draft->rule.params = arena_memdup(reader->keep, params, draft->rule.param_count * sizeof params[0]);
    return 0;
}

/* --- classes and rules ----------------------------------------------------------------------------------------------
 */

_Static_assert((int)ACTION_END <= (int)KEYS_MAX && (int)CAUSE_END <= (int)KEYS_MAX, "raise KEYS_MAX");

static int read_bool(const YamlNode *node, const char *what, bool *ret, Err *err)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on"};

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(node->text, words[i]) == 0) {
            *ret = i & 1;
            return 0;
        }
    return yaml_fail(node, err, "'%s' must be yes or no, not '%.40s'", what, node->text);
}

static int read_time(const YamlNode *node, const char *what, uint64_t *ret, Err *err)
{
    Err why = {0};

    TRY(yaml_want(node, YAML_SCALAR, what, err));
    if (duration_parse(node->text, ret, &why) < 0)
        return yaml_fail(node, err, "'%s': %s", what, why.text);
    if (*ret > NS_PER_YEAR)
        return yaml_fail(node, err, "'%s': at most a year", what);
    return 0;
}

/* A list of texts, or one text alone. */
static size_t list_len(const YamlNode *node)
{
    return yaml_is_null(node) ? 0 : node->kind == YAML_SEQ ? node->len : 1;
}

static const YamlNode *list_at(const YamlNode *node, size_t i)
{
    return node->kind == YAML_SEQ ? node->items[i] : node;
}

static int read_by(const YamlNode *node, FaultClass *fault, Err *err)
{
    static const char *const names[] = {"code", "process"};

    fault->by_code = fault->by_process = false;
    for (size_t i = 0; i < list_len(node); i++) {
        const YamlNode *item = list_at(node, i);
        TRY(yaml_want(item, YAML_SCALAR, "by", err));
        if (strcmp(item->text, "code") == 0)
            fault->by_code = true;
        else if (strcmp(item->text, "process") == 0)
            fault->by_process = true;
        else
            return fail_unknown(item, "part of 'by'", names, ARRAY_LEN(names), err);
    }
    return 0;
}

static int read_parents(CatalogueReader *reader, const YamlNode *node, ClassDraft *draft, Err *err)
{
    size_t count = list_len(node);

    if (count > CATALOGUE_PARENTS)
        return yaml_fail(node, err, "a class has at most %d parents", CATALOGUE_PARENTS);
    for (size_t i = 0; i < count; i++) {
        TRY(yaml_want(list_at(node, i), YAML_SCALAR, "a parent", err));
        draft->fault.parents[i] = keep_text(reader, list_at(node, i)->text);
    }
    draft->fault.parent_count = count;
    draft->parents = node;
    return 0;
}

static int read_key_text(CatalogueReader *reader, const Key *key, const YamlNode *node, const char **ret, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, key->name, err));
    *ret = key->type == KEY_SHARED ? keep_text(reader, node->text) : arena_strdup(reader->keep, node->text);
    return 0;
}

static int read_class_name(const YamlNode *node, RuleDraft *draft, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, "class", err));
    draft->class_id = node->text;
    draft->class_node = node;
    return 0;
}

static int read_with(CatalogueReader *reader, const YamlNode *node, RuleDraft *draft, Err *err)
{
    TRY(yaml_want(node, YAML_MAP, "with", err));
    const WithNote note = {.map = node, .before = draft->with};
    draft->with = arena_memdup(reader->scratch, &note, sizeof note);
    return 0;
}

static int read_key(CatalogueReader *reader, const Key *key, const YamlNode *node, void *draft, Err *err)
{
    void *into = (char *)draft + key->off;

    if (yaml_is_null(node) && key->type != KEY_PARENTS && key->type != KEY_BY)
        return yaml_fail(node, err, "'%s' has no value", key->name);
    switch (key->type) {
    case KEY_TEXT:
    case KEY_SHARED:
        return read_key_text(reader, key, node, into, err);
    case KEY_WORD:
        return read_word(node, key->name, key->words, key->word_count, into, err);
    case KEY_TIME:
        return read_time(node, key->name, into, err);
    case KEY_BOOL:
        return read_bool(node, key->name, into, err);
    case KEY_PARENTS:
        return read_parents(reader, node, draft, err);
    case KEY_BY:
        return read_by(node, &((ClassDraft *)draft)->fault, err);
    case KEY_CLASS:
        return read_class_name(node, draft, err);
    case KEY_ON:
        return read_on(reader, node, draft, err);
    case KEY_WITH:
        return read_with(reader, node, draft, err);
    }
    return 0;
}
_Static_assert(sizeof(FaultCause) == sizeof(unsigned) && sizeof(FaultClear) == sizeof(unsigned), "words are unsigned");

static int read_entry(CatalogueReader *reader, const Key *keys, size_t count, const YamlNode *map, void *draft,
                      Err *err)
{
    const char *names[KEYS_MAX];

    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];
        size_t k = 0;
        while (k < count && strcmp(keys[k].name, pair->key->text) != 0)
            k++;
        for (size_t n = 0; k == count && n < count; n++)
            names[n] = keys[n].name;
        if (k == count)
            return fail_unknown(pair->key, "key", names, count, err);
        TRY(read_key(reader, &keys[k], pair->value, draft, err));
    }
    return 0;
}

static int check_id(const YamlNode *key, Err *err)
{
    if (key->len == 0 || key->len > ID_MAX || strspn(key->text, "abcdefghijklmnopqrstuvwxyz0123456789-") != key->len)
        return yaml_fail(key, err, "'%.80s' is no name: lower-case letters, digits and '-', at most %d", key->text,
                         ID_MAX);
    return 0;
}

static ClassDraft *class_draft(CatalogueReader *reader, const YamlNode *key)
{
    ClassDraft *draft = map_get(&reader->class_by_id, key->text);

    if (draft)
        return draft;
    draft = arena_alloc(reader->scratch, sizeof *draft);
    draft->at = key;
    draft->number = reader->classes.len;
    draft->fault = (FaultClass){.id = arena_strdup(reader->keep, key->text),
                                .runbook = "",
                                .source = "",
                                .file = keep_text(reader, key->file),
                                .line = key->line,
                                .cause = CAUSE_END,
                                .severity = SEVERITY_END,
                                .scope = SCOPE_END,
                                .action = ACTION_END,
                                .route = ROUTE_END,
                                .clear = CLEAR_END,
                                .reopen_ns = 10 * NS_PER_MIN,
                                .parent_ns = 2 * NS_PER_MIN,
                                .enabled = true};
    map_put(&reader->class_by_id, key->text, draft);
    vec_push(&reader->classes, draft);
    return draft;
}

static RuleDraft *rule_draft(CatalogueReader *reader, const YamlNode *key)
{
    RuleDraft *draft = map_get(&reader->rule_by_id, key->text);

    if (draft)
        return draft;
    draft = arena_alloc(reader->scratch, sizeof *draft);
    draft->at = key;
    draft->number = reader->rules.len;
    draft->enabled = true;
    draft->rule = (FaultRule){.id = arena_strdup(reader->keep, key->text),
                              .text = "",
                              .contains = "",
                              .unit = "",
                              .explained_by = "",
                              .detector = "",
                              .source = "",
                              .file = keep_text(reader, key->file),
                              .line = key->line,
                              .match = FAULT_MATCH_END,
                              .cause = CAUSE_END,
                              .severity = SEVERITY_END,
                              .scope = SCOPE_END,
                              .action = ACTION_END,
                              .route = ROUTE_END,
                              .for_ns = UINT64_MAX,
                              .keep_ns = UINT64_MAX};
    map_put(&reader->rule_by_id, key->text, draft);
    vec_push(&reader->rules, draft);
    return draft;
}

static int read_section(CatalogueReader *reader, const YamlNode *map, bool classes, Err *err)
{
    if (yaml_is_null(map))
        return 0;
    TRY(yaml_want(map, YAML_MAP, classes ? "classes" : "rules", err));
    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];
        TRY(check_id(pair->key, err));
        TRY(yaml_want(pair->value, YAML_MAP, pair->key->text, err));
        if (classes)
            TRY(read_entry(reader, class_keys, ARRAY_LEN(class_keys), pair->value, class_draft(reader, pair->key),
                           err));
        else
            TRY(read_entry(reader, rule_keys, ARRAY_LEN(rule_keys), pair->value, rule_draft(reader, pair->key), err));
        if (reader->rules.len > ENTRIES_MAX || reader->classes.len > ENTRIES_MAX)
            return yaml_fail(pair->key, err, "more than %d entries", ENTRIES_MAX);
    }
    return 0;
}

int catalogue_read(CatalogueReader *reader, const YamlNode *root, Err *err)
{
    static const char *const names[] = {"classes", "rules"};

    if (yaml_is_null(root))
        return 0;
    TRY(yaml_want(root, YAML_MAP, "a fault catalogue", err));
    for (size_t i = 0; i < root->len; i++) {
        const YamlNode *key = root->pairs[i].key;
        if (strcmp(key->text, names[0]) != 0 && strcmp(key->text, names[1]) != 0)
            return fail_unknown(key, "key", names, ARRAY_LEN(names), err);
        TRY(read_section(reader, root->pairs[i].value, key->text[0] == 'c', err));
    }
    return 0;
}
