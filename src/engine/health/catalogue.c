/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue: documents are laid over each other entry by entry and key by key, then each class and each rule is
 * read once. */
#include "engine/health/catalogue.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/gzip.h"
#include "base/map.h"
#include "base/number.h"
#include "base/opt.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/metric.h"

enum { ID_MAX = 64, NAMES_SHOWN = 24, ENTRIES_MAX = 4096 };
enum { CODE_MAX = 99999, MANY_MAX = 1000000, DRIVER_MAX = 9999, TEXT_MAX = 200 };
/* The trees are large and short-lived: blocks of this size come from the kernel and go back to it. */
enum { SCRATCH_BLOCK = 512 * 1024, KEEP_BLOCK = 32 * 1024, DOCUMENT_MAX = 1 << 20 };

CLEANUP_POINTER(Catalogue, catalogue_free);

/* --- detectors ---------------------------------------------------------------------------------------------------- */

#define NUMBER(id, key, def, low, high, text)                                                                          \
    {.name = key, .type = DETECTOR_NUMBER, .value = def, .min = low, .max = high, .help = text},
#define CHOICE(id, key, def, low, high, text)                                                                          \
    {.name = key, .type = DETECTOR_CHOICE, .value = def, .min = low, .max = high, .help = text},
#define TIME(id, key, def, low, high, text)                                                                            \
    {.name = key, .type = DETECTOR_DURATION, .value = def, .min = low, .max = high, .help = text},
#define METRIC_NAME(id, key, text) {.name = key, .type = DETECTOR_METRIC, .value = METRIC_END, .help = text},
#define NO_PARAMS

#define DETECTOR(id, text, about, ...) static const DetectorParam params_##id[] = {__VA_ARGS__{0}};
#include "engine/health/detect/detect.def"
#undef DETECTOR

const DetectorSpec detector_specs[] = {
#define DETECTOR(id, text, about, ...)                                                                                 \
    {.name = text, .help = about, .param_count = ARRAY_LEN(params_##id) - 1, .params = params_##id},
#include "engine/health/detect/detect.def"
#undef DETECTOR
};
const size_t detector_spec_count = ARRAY_LEN(detector_specs);

/* --- merging documents -------------------------------------------------------------------------------------------- */

typedef struct Reader Reader;
typedef struct Key Key;

/* Reads the value of reader->key into a field. */
typedef int (*KeyReader)(Reader *reader, const YamlNode *node, void *into, Err *err);

struct Key {
    const char *name;
    KeyReader read;
    size_t off; /* of the field */
    const WordRow *words;
    size_t word_count;
    enum { KEY_SCALAR, KEY_LIST, KEY_MAP } kind; /* a list may be one text, or nothing */
    bool required;
};

typedef struct Section {
    const char *name;
    Map by_id;
    VEC(YamlPair *) entries; /* in the order of reading: the name where it stands first, what all documents say */
} Section;

/* Entries lie in `scratch` with the trees of the built-in documents; texts that stay lie in the catalogue. */
struct Reader {
    Catalogue *catalogue;
    const Key *key;
    Arena scratch;
    Section classes, rules;
};

static const char *get_name(const void *rows, size_t size, size_t i)
{
    return *(const char *const *)((const char *)rows + i * size);
}

/* Finds the row of a table by its name, the row's first member. Else -EINVAL: "unknown <what> 'x', did you mean 'y'?"
 * and, if they are few, all names; at the node. */
static int find_row(const YamlNode *node, const char *what, const void *rows, size_t size, size_t count, size_t *ret,
                    Err *err)
{
    VEC(const char *) names = {0};
    char room[ERR_TEXT_MAX];
    Str text;

    for (*ret = 0; *ret < count; ++*ret)
        if (strcmp(get_name(rows, size, *ret), node->text) == 0)
            return 0;
    for (size_t i = 0; i < count; i++)
        vec_push(&names, get_name(rows, size, i));
    str_init_room(&text, room, sizeof room);
    str_addf(&text, "unknown %s '%.60s'", what, node->text);
    const char *nearest = count ? opt_nearest(node->text, names.at, count) : NULL;
    if (nearest)
        str_addf(&text, ", did you mean '%s'?", nearest);
    if (count && count <= NAMES_SHOWN) {
        str_add(&text, nearest ? " Allowed: " : "; allowed: ");
        for (size_t i = 0; i < count; i++)
            str_addf(&text, "%s%s", i ? ", " : "", names.at[i]);
    }
    vec_done(&names);
    return yaml_fail(node, err, "%s", text.text);
}

/* A mapping over another: key by key, and so within `with`; all else is replaced whole. */
static const YamlNode *lay_over(Reader *reader, const YamlNode *below, const YamlNode *above)
{
    YamlNode both = *above;

    if (below->kind != YAML_MAP || above->kind != YAML_MAP)
        return above;
    YamlPair *pairs = arena_calloc(&reader->scratch, below->len + above->len + 1, sizeof *pairs);
    for (both.len = 0; both.len < below->len; both.len++)
        pairs[both.len] = below->pairs[both.len];
    for (size_t i = 0; i < above->len; i++) {
        YamlPair pair = above->pairs[i];
        size_t at = 0;

        while (at < below->len && strcmp(pairs[at].key->text, pair.key->text) != 0)
            at++;
        if (at == below->len)
            at = both.len++;
        else if (strcmp(pair.key->text, "with") == 0)
            pair.value = lay_over(reader, pairs[at].value, pair.value);
        pairs[at] = pair;
    }
    both.pairs = pairs;
    return arena_memdup(&reader->scratch, &both, sizeof both);
}

static int check_id(const YamlNode *key, Err *err)
{
    if (key->len == 0 || key->len > ID_MAX || strspn(key->text, "abcdefghijklmnopqrstuvwxyz0123456789-") != key->len)
        return yaml_fail(key, err, "'%.80s' is no name: lower-case letters, digits and '-', at most %d", key->text,
                         ID_MAX);
    return 0;
}

static int merge_section(Reader *reader, Section *section, const YamlNode *map, Err *err)
{
    if (yaml_is_null(map))
        return 0;
    TRY(yaml_want(map, YAML_MAP, section->name, err));
    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];
        YamlPair *entry = map_get(&section->by_id, pair->key->text);

        TRY(check_id(pair->key, err));
        TRY(yaml_want(pair->value, YAML_MAP, pair->key->text, err));
        if (entry) {
            entry->value = lay_over(reader, entry->value, pair->value);
            continue;
        }
        if (section->entries.len == ENTRIES_MAX)
            return yaml_fail(pair->key, err, "more than %d entries", ENTRIES_MAX);
        entry = arena_memdup(&reader->scratch, pair, sizeof *pair);
        map_put(&section->by_id, pair->key->text, entry);
        vec_push(&section->entries, entry);
    }
    return 0;
}

static int merge_document(Reader *reader, const YamlNode *root, Err *err)
{
    static const char *const names[] = {"classes", "rules"};
    Section *const sections[] = {&reader->classes, &reader->rules};
    size_t at = 0;

    if (yaml_is_null(root))
        return 0;
    TRY(yaml_want(root, YAML_MAP, "a fault catalogue", err));
    for (size_t i = 0; i < root->len; i++) {
        TRY(find_row(root->pairs[i].key, "key", names, sizeof names[0], ARRAY_LEN(names), &at, err));
        TRY(merge_section(reader, sections[at], root->pairs[i].value, err));
    }
    return 0;
}

/* --- values of keys ----------------------------------------------------------------------------------------------- */

static int read_key(Reader *reader, const Key *key, const YamlNode *node, void *into, Err *err)
{
    if (key->kind != KEY_LIST && yaml_is_null(node))
        return yaml_fail(node, err, "'%s' has no value", key->name);
    if (key->kind != KEY_LIST)
        TRY(yaml_want(node, key->kind == KEY_MAP ? YAML_MAP : YAML_SCALAR, key->name, err));
    reader->key = key;
    return key->read(reader, node, (char *)into + key->off, err);
}

/* All pairs of a mapping, in the order of the keys. */
static int read_map(Reader *reader, const Key *keys, size_t count, const char *what, const YamlNode *map, void *into,
                    Err *err)
{
    size_t k = 0;

    for (size_t i = 0; i < map->len; i++)
        TRY(find_row(map->pairs[i].key, what, keys, sizeof keys[0], count, &k, err));
    for (k = 0; k < count; k++) {
        const YamlNode *value = yaml_get(map, keys[k].name);

        if (value)
            TRY(read_key(reader, &keys[k], value, into, err));
    }
    return 0;
}

static int read_text(Reader *reader, const YamlNode *node, void *into, Err *err UNUSED)
{
    *(const char **)into = arena_strdup(&reader->catalogue->keep, node->text);
    return 0;
}

/* A text that is looked for in lines. */
static int read_part_of_line(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    if (node->len == 0 || node->len > TEXT_MAX)
        return yaml_fail(node, err, "'%s' takes 1 to %d bytes", reader->key->name, TEXT_MAX);
    return read_text(reader, node, into, err);
}

_Static_assert(sizeof(FaultCause) == sizeof(unsigned) && sizeof(FaultClear) == sizeof(unsigned), "words are unsigned");

static int read_word(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    size_t number = 0;

    TRY(find_row(node, reader->key->name, reader->key->words, sizeof reader->key->words[0], reader->key->word_count,
                 &number, err));
    *(unsigned *)into = (unsigned)number;
    return 0;
}

static int read_time(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    uint64_t *ns = into;
    Err why = {0};

    if (duration_parse(node->text, ns, &why) < 0)
        return yaml_fail(node, err, "'%s': %s", reader->key->name, why.text);
    if (*ns > NS_PER_YEAR)
        return yaml_fail(node, err, "'%s': at most a year", reader->key->name);
    return 0;
}

static int read_bool(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(node->text, words[i]) == 0) {
            *(bool *)into = i & 1;
            return 0;
        }
    return yaml_fail(node, err, "'%s' must be yes or no, not '%.40s'", reader->key->name, node->text);
}

static size_t count_items(const YamlNode *list)
{
    return yaml_is_null(list) ? 0 : list->kind == YAML_SEQ ? list->len : 1;
}

static const YamlNode *get_item(const YamlNode *list, size_t i)
{
    return list->kind == YAML_SEQ ? list->items[i] : list;
}

static int read_by(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    static const char *const names[] = {"code", "process", "owner"};
    FaultClass *class = into;
    bool *const parts[] = {&class->by_code, &class->by_process, &class->by_owner};
    size_t part = 0;

    for (size_t i = 0; i < count_items(node); i++) {
        TRY(yaml_want(get_item(node, i), YAML_SCALAR, reader->key->name, err));
        TRY(find_row(get_item(node, i), "part of 'by'", names, sizeof names[0], ARRAY_LEN(names), &part, err));
        *parts[part] = true;
    }
    return 0;
}

/* The class of this name, read or not yet. */
static int find_class(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    const Catalogue *catalogue = reader->catalogue;
    size_t number = 0;

    TRY(find_row(node, "class", catalogue->classes, sizeof catalogue->classes[0], catalogue->class_count, &number,
                 err));
    *(const FaultClass **)into = &catalogue->classes[number];
    return 0;
}

static int read_parents(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    FaultClass *class = into;

    if (count_items(node) > CATALOGUE_PARENTS)
        return yaml_fail(node, err, "a class has at most %d parents", CATALOGUE_PARENTS);
    for (size_t i = 0; i < count_items(node); i++) {
        TRY(yaml_want(get_item(node, i), YAML_SCALAR, "a parent", err));
        TRY(find_class(reader, get_item(node, i), &class->parents[class->parent_count++], err));
    }
    return 0;
}

/* --- `on` of a rule ----------------------------------------------------------------------------------------------- */

/* A part of a value: a number up to `max`; of registers, in hexadecimal. */
static int read_number(const YamlNode *node, const char *what, const char *text, size_t len, uint32_t max,
                       uint32_t *ret, Err *err)
{
    uint64_t number;
    Err why = {0};

    if ((max == UINT32_MAX ? number_parsen_hex(text, len, max, &number, &why)
                           : number_parsen_u64(text, len, 0, max, &number, &why)) < 0)
        return yaml_fail(node, err, "'%s': %s", what, why.text);
    *ret = (uint32_t)number;
    return 0;
}

/* "79", "20001-20012" */
static int read_code(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    const char *dash = strchr(node->text, '-');
    size_t len = dash ? (size_t)(dash - node->text) : node->len;
    FaultRule *rule = into;
    uint32_t from, to;

    TRY(read_number(node, reader->key->name, node->text, len, CODE_MAX, &from, err));
    to = from;
    if (dash)
        TRY(read_number(node, reader->key->name, dash + 1, strlen(dash + 1), CODE_MAX, &to, err));
    if (to < from)
        return yaml_fail(node, err, "'%s': %s ends before it begins", reader->key->name, node->text);
    rule->event = reader->key->name[0] == 's' ? EVENT_SXID : EVENT_XID;
    rule->code_from = (int32_t)from;
    rule->code_to = (int32_t)to;
    return 0;
}

static int read_event(Reader *reader UNUSED, const YamlNode *node, void *into, Err *err)
{
    FaultRule *rule = into;
    size_t number = 0;

    TRY(find_row(node, "kind of event", event_kinds, sizeof event_kinds[0], EVENT_KIND_END, &number, err));
    rule->event = (EventKind)number;
    if (rule->event == EVENT_XID || rule->event == EVENT_SXID)
        return yaml_fail(node, err, "an %s is named with its number: 'xid: 79', 'sxid: 20034'", node->text);
    return 0;
}

/* With its parameters, as they are by default. */
static int read_detector(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    FaultRule *rule = into;
    size_t number = 0;

    TRY(find_row(node, "detector", detector_specs, sizeof detector_specs[0], detector_spec_count, &number, err));
    rule->detector = &detector_specs[number];
    rule->params = arena_calloc(&reader->catalogue->keep, rule->detector->param_count + 1, sizeof *rule->params);
    for (size_t i = 0; i < rule->detector->param_count; i++)
        rule->params[i] = rule->detector->params[i].value;
    return 0;
}

static int read_says(Reader *reader UNUSED, const YamlNode *node, void *into, Err *err)
{
    static const char *const names[] = {"correctable", "non-fatal", "fatal"};
    size_t number = 0;

    TRY(find_row(node, "word of 'says'", names, sizeof names[0], ARRAY_LEN(names), &number, err));
    *(EventWord *)into = (EventWord)(EVENT_CORRECTABLE + number);
    return 0;
}

static int read_arch(const YamlNode *node, const char *text, size_t len, uint32_t *ret, Err *err)
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

/* ">=535 <560", "545": from inclusive, below exclusive; one number alone is that one. Of drivers or architectures. */
static int read_range(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    FaultRange range = {0};
    uint32_t n;

    for (const char *at = node->text; *at;) {
        size_t word = strcspn(at, " "), mark = strspn(at, "<>=");

        if (word > 0 && reader->key->name[0] == 'd')
            TRY(read_number(node, reader->key->name, at + mark, word - mark, DRIVER_MAX, &n, err));
        else if (word > 0)
            TRY(read_arch(node, at + mark, word - mark, &n, err));
        if (word == 0)
            at++;
        else if (mark == 0)
            range = (FaultRange){n, n + 1};
        else if (mark == 2 && strncmp(at, ">=", 2) == 0)
            range.from = n;
        else if (mark == 1 && *at == '<')
            range.below = n;
        else
            return yaml_fail(node, err, "'%s' reads '>=A <B', '>=A', '<B' or 'A', not '%.60s'", reader->key->name,
                             node->text);
        at += word;
    }
    if ((!range.from && !range.below) || (range.below && range.from >= range.below))
        return yaml_fail(node, err, "'%s': nothing is in '%.60s'", reader->key->name, node->text);
    *(FaultRange *)into = range;
    return 0;
}

/* "100": so many. */
static int read_many(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    TRY(read_number(node, reader->key->name, node->text, node->len, MANY_MAX, into, err));
    if (*(uint32_t *)into < 2)
        return yaml_fail(node, err, "'%s' is 2 at least", reader->key->name);
    return 0;
}

static int read_remedies(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    size_t action = 0;

    for (size_t i = 0; i < count_items(node); i++) {
        TRY(yaml_want(get_item(node, i), YAML_SCALAR, reader->key->name, err));
        TRY(find_row(get_item(node, i), "action", fault_actions, sizeof fault_actions[0], ACTION_END, &action, err));
        *(uint64_t *)into |= UINT64_C(1) << action;
    }
    return 0;
}

static int read_hex(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    return read_number(node, reader->key->name, node->text, node->len, UINT32_MAX, into, err);
}

/* "0x00000021/0x03f003ff": value and mask of intrInfo. */
static int read_bits(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    const char *slash = strchr(node->text, '/');
    FaultBits bits;

    if (!slash)
        return yaml_fail(node, err, "'%s' reads VALUE/MASK in hexadecimal, not '%.40s'", reader->key->name, node->text);
    TRY(read_number(node, reader->key->name, node->text, (size_t)(slash - node->text), UINT32_MAX, &bits.value, err));
    TRY(read_number(node, reader->key->name, slash + 1, strlen(slash + 1), UINT32_MAX, &bits.mask, err));
    if (!bits.mask || (bits.value & ~bits.mask))
        return yaml_fail(node, err, "'%s': the value has bits that the mask leaves out", reader->key->name);
    *(FaultBits *)into = bits;
    return 0;
}

#define IN_RULE(member) offsetof(FaultRule, member)
static const Key intr_keys[] = {
    {"before_575", read_bits, IN_RULE(intr_old), .kind = KEY_SCALAR},
    {"since_575", read_bits, IN_RULE(intr_new), .kind = KEY_SCALAR},
};

static int read_intr(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    return read_map(reader, intr_keys, ARRAY_LEN(intr_keys), "key of 'intr'", node, into, err);
}

/* What a rule is about, one of the first six; the others narrow it. */
enum { ON_CONTAINS = 5 };
static const Key on_keys[] = {
    {"xid", read_code, 0, .kind = KEY_SCALAR},
    {"sxid", read_code, 0, .kind = KEY_SCALAR},
    {"event", read_event, 0, .kind = KEY_SCALAR},
    {"detector", read_detector, 0, .kind = KEY_SCALAR},
    {"repeat", read_many, IN_RULE(many), .kind = KEY_SCALAR},
    [ON_CONTAINS] = {"contains", read_part_of_line, IN_RULE(contains), .kind = KEY_SCALAR},
    {"says", read_says, IN_RULE(word), .kind = KEY_SCALAR},
    {"unit", read_part_of_line, IN_RULE(unit), .kind = KEY_SCALAR},
    {"intr", read_intr, 0, .kind = KEY_MAP},
    {"status", read_hex, IN_RULE(status_bit), .kind = KEY_SCALAR},
    {"status_is", read_hex, IN_RULE(status_is), .kind = KEY_SCALAR},
    {"count", read_many, IN_RULE(many), .kind = KEY_SCALAR},
    {"within", read_time, IN_RULE(within_ns), .kind = KEY_SCALAR},
    {"remedy", read_remedies, IN_RULE(remedies), .kind = KEY_LIST},
    {"only", read_hex, IN_RULE(only), .kind = KEY_SCALAR},
    {"driver", read_range, IN_RULE(driver), .kind = KEY_SCALAR},
    {"arch", read_range, IN_RULE(arch), .kind = KEY_SCALAR},
};

static int read_on(Reader *reader, const YamlNode *on, void *into, Err *err)
{
    FaultRule *rule = into;
    size_t subjects = 0;

    TRY(read_map(reader, on_keys, ARRAY_LEN(on_keys), "key of 'on'", on, rule, err));
    for (size_t i = 0; i < ON_CONTAINS; i++)
        subjects += yaml_get(on, on_keys[i].name) != NULL;
    if (subjects > 1)
        return yaml_fail(on, err, "'on' may have only one of xid, sxid, event, detector and repeat");
    if (subjects == 0 && !rule->contains[0])
        return yaml_fail(on, err, "'on' has none of xid, sxid, event, detector, repeat and contains");
    if (!rule->many != !rule->within_ns || (rule->many && rule->within_ns < NS_PER_S))
        return yaml_fail(on, err, "'count' and 'repeat' need 'within', at least a second; 'within' needs one of them");
    if (!rule->remedies != !yaml_get(on, "repeat"))
        return yaml_fail(on, err, "'repeat' needs 'remedy', a list of actions; no other key may have it");
    if (rule->detector && on->len > 1)
        return yaml_fail(on, err, "'detector' must be the only key of 'on'; parameters go into 'with'");
    return 0;
}

/* --- `with` of a rule --------------------------------------------------------------------------------------------- */

static int read_metric(const YamlNode *node, const DetectorParam *param, double *ret, Err *err)
{
    const MetricName *metric = metric_find(node->text);

    if (!metric)
        return yaml_fail(node, err, "'%s': there is no metric '%.60s'", param->name, node->text);
    *ret = metric->metric;
    return 0;
}

static int read_param(const YamlNode *node, const DetectorParam *param, double *ret, Err *err)
{
    const bool duration = param->type == DETECTOR_DURATION;
    char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];
    uint64_t ns = 0;
    Err why = {0};

    TRY(yaml_want(node, YAML_SCALAR, param->name, err));
    if (param->type == DETECTOR_METRIC)
        return read_metric(node, param, ret, err);
    if ((duration ? duration_parse(node->text, &ns, &why) : number_parse_double(node->text, -1e300, 1e300, ret, &why)) <
        0)
        return yaml_fail(node, err, "'%s': %s", param->name, why.text);
    if (duration)
        *ret = (double)ns;
    if (param->max <= param->min || (*ret >= param->min && *ret <= param->max))
        return 0;
    if (!duration)
        return yaml_fail(node, err, "'%s' must be in %g to %g, not %s", param->name, param->min, param->max,
                         node->text);
    duration_format(low, (uint64_t)param->min);
    duration_format(high, (uint64_t)param->max);
    return yaml_fail(node, err, "'%s' must be in %s to %s, not %s", param->name, low, high, node->text);
}

static int read_with(Reader *reader UNUSED, const YamlNode *with, void *into, Err *err)
{
    FaultRule *rule = into;
    const DetectorSpec *spec = rule->detector;
    size_t at = 0;

    if (!spec)
        return yaml_fail(with, err, "'with' is for rules on a detector");
    for (size_t i = 0; i < with->len; i++) {
        TRY(find_row(with->pairs[i].key, "parameter", spec->params, sizeof spec->params[0], spec->param_count, &at,
                     err));
        TRY(read_param(with->pairs[i].value, &spec->params[at], &rule->params[at], err));
    }
    return 0;
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

#define IN_CLASS(member) offsetof(FaultClass, member)
#define WORD_KEY(name, member, words, count, needed)                                                                   \
    {                                                                                                                  \
        name, read_word, member, words, count, .kind = KEY_SCALAR, .required = needed                                  \
    }
static const Key class_keys[] = {
    {"text", read_text, IN_CLASS(text), .kind = KEY_SCALAR, .required = true},
    {"advice", read_text, IN_CLASS(advice), .kind = KEY_SCALAR, .required = true},
    {"runbook", read_text, IN_CLASS(runbook), .kind = KEY_SCALAR},
    WORD_KEY("cause", IN_CLASS(cause), fault_causes, CAUSE_END, true),
    WORD_KEY("severity", IN_CLASS(severity), fault_severities, SEVERITY_END, true),
    WORD_KEY("scope", IN_CLASS(scope), fault_scopes, SCOPE_END, true),
    WORD_KEY("action", IN_CLASS(action), fault_actions, ACTION_END, true),
    WORD_KEY("route", IN_CLASS(route), fault_routes, ROUTE_END, true),
    WORD_KEY("clear", IN_CLASS(clear), fault_clears, CLEAR_END, true),
    {"for", read_time, IN_CLASS(for_ns), .kind = KEY_SCALAR},
    {"keep_firing_for", read_time, IN_CLASS(keep_ns), .kind = KEY_SCALAR},
    {"quiet", read_time, IN_CLASS(quiet_ns), .kind = KEY_SCALAR},
    {"reopen", read_time, IN_CLASS(reopen_ns), .kind = KEY_SCALAR},
    {"by", read_by, 0, .kind = KEY_LIST},
    {"parents", read_parents, 0, .kind = KEY_LIST},
    {"parent_window", read_time, IN_CLASS(parent_ns), .kind = KEY_SCALAR},
    {"observe", read_bool, IN_CLASS(observe), .kind = KEY_SCALAR},
    {"enabled", read_bool, IN_CLASS(enabled), .kind = KEY_SCALAR},
    {"source", read_text, IN_CLASS(source), .kind = KEY_SCALAR},
};

static int read_class(Reader *reader, const YamlPair *entry, FaultClass *class, Err *err)
{
    *class = (FaultClass){.id = class->id,
                          .runbook = "",
                          .source = "",
                          .file = arena_strdup(&reader->catalogue->keep, entry->key->file),
                          .line = entry->key->line,
                          .reopen_ns = 10 * NS_PER_MIN,
                          .parent_ns = 2 * NS_PER_MIN,
                          .enabled = true};
    TRY(read_map(reader, class_keys, ARRAY_LEN(class_keys), "key", entry->value, class, err));
    for (size_t i = 0; i < ARRAY_LEN(class_keys); i++)
        if (class_keys[i].required && !yaml_get(entry->value, class_keys[i].name))
            return yaml_fail(entry->key, err, "class '%s' has no '%s'", class->id, class_keys[i].name);
    if (class->clear == CLEAR_QUIET && !class->quiet_ns)
        return yaml_fail(entry->key, err, "class '%s' has 'clear: quiet', but no time 'quiet'", class->id);
    return 0;
}

/* Refuses circles among the parents. A class may be its own parent (that of a wider device). */
static int check_parents(const Reader *reader, const FaultClass *class, uint8_t *marks, Err *err)
{
    enum { NEW, ON_THE_WAY, DONE };
    const size_t number = (size_t)(class - reader->catalogue->classes);

    if (marks[number] == DONE)
        return 0;
    if (marks[number] == ON_THE_WAY)
        return yaml_fail(reader->classes.entries.at[number]->key, err, "the parents of '%s' lead back to it",
                         class->id);
    marks[number] = ON_THE_WAY;
    for (size_t i = 0; i < class->parent_count; i++)
        if (class->parents[i] != class)
            TRY(check_parents(reader, class->parents[i], marks, err));
    marks[number] = DONE;
    return 0;
}

static int read_classes(Reader *reader, Err *err)
{
    Catalogue *catalogue = reader->catalogue;
    const size_t count = reader->classes.entries.len;
    uint8_t *marks = arena_calloc(&reader->scratch, count + 1, 1);

    catalogue->class_count = count;
    catalogue->classes = arena_calloc(&catalogue->keep, count + 1, sizeof *catalogue->classes);
    for (size_t i = 0; i < count; i++)
        catalogue->classes[i].id = arena_strdup(&catalogue->keep, reader->classes.entries.at[i]->key->text);
    for (size_t i = 0; i < count; i++)
        TRY(read_class(reader, reader->classes.entries.at[i], &catalogue->classes[i], err));
    for (size_t i = 0; i < count; i++)
        TRY(check_parents(reader, &catalogue->classes[i], marks, err));
    return 0;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

/* The class is read before what follows it: what a rule does not say is its class's. One that a site has switched off
 * still names its event, as no fault. */
static int read_rule_class(Reader *reader, const YamlNode *node, void *into, Err *err)
{
    static const FaultClass nothing = {.cause = CAUSE_UNKNOWN, .scope = SCOPE_GPU, .source = ""};
    FaultRule *rule = into;
    const FaultClass *class = NULL;

    rule->any_class = strcmp(node->text, "any") == 0;
    if (strcmp(node->text, "none") != 0 && !rule->any_class)
        TRY(find_class(reader, node, &class, err));
    rule->fault = rule->enabled ? class : NULL;
    class = rule->fault ? class : &nothing;
    rule->says = class->says;
    rule->for_ns = class->for_ns;
    rule->keep_ns = class->keep_ns;
    rule->source = class->source;
    return 0;
}

/* The first four in the order in which they build on each other. */
static const Key rule_keys[] = {
    {"enabled", read_bool, IN_RULE(enabled), .kind = KEY_SCALAR},
    {"class", read_rule_class, 0, .kind = KEY_SCALAR},
    {"on", read_on, 0, .kind = KEY_MAP},
    {"with", read_with, 0, .kind = KEY_MAP},
    {"name", read_text, IN_RULE(name), .kind = KEY_SCALAR},
    {"text", read_text, IN_RULE(text), .kind = KEY_SCALAR},
    WORD_KEY("cause", IN_RULE(cause), fault_causes, CAUSE_END, false),
    WORD_KEY("severity", IN_RULE(severity), fault_severities, SEVERITY_END, false),
    WORD_KEY("scope", IN_RULE(scope), fault_scopes, SCOPE_END, false),
    WORD_KEY("action", IN_RULE(action), fault_actions, ACTION_END, false),
    WORD_KEY("route", IN_RULE(route), fault_routes, ROUTE_END, false),
    {"for", read_time, IN_RULE(for_ns), .kind = KEY_SCALAR},
    {"keep_firing_for", read_time, IN_RULE(keep_ns), .kind = KEY_SCALAR},
    {"silent", read_bool, IN_RULE(silent), .kind = KEY_SCALAR},
    {"explained_by", find_class, IN_RULE(explained_by), .kind = KEY_SCALAR},
    {"source", read_text, IN_RULE(source), .kind = KEY_SCALAR},
};

static int read_rule(Reader *reader, const YamlPair *entry, size_t number, FaultRule *rule, Err *err)
{
    *rule = (FaultRule){.id = arena_strdup(&reader->catalogue->keep, entry->key->text),
                        .text = "",
                        .contains = "",
                        .unit = "",
                        .event = EVENT_LINE,
                        .enabled = true,
                        .file = arena_strdup(&reader->catalogue->keep, entry->key->file),
                        .line = entry->key->line,
                        .number = number};
    TRY(read_map(reader, rule_keys, ARRAY_LEN(rule_keys), "key", entry->value, rule, err));
    if (!yaml_get(entry->value, "on"))
        return yaml_fail(entry->key, err, "rule '%s' has no 'on'", rule->id);
    if (!yaml_get(entry->value, "class"))
        return yaml_fail(entry->key, err, "rule '%s' has no 'class'; use 'none' for no fault", rule->id);
    if (rule->any_class && !rule->remedies)
        return yaml_fail(entry->key, err, "rule '%s': the class 'any' is for rules on 'repeat'", rule->id);
    if (!rule->name)
        rule->name = rule->id;
    if (!rule->enabled || (rule->fault && rule->fault->observe))
        rule->route = ROUTE_NONE;
    return 0;
}

/* Rules over several codes first, then those of events by kind and code, then those of detectors; else as read. */
static int compare_rules(const void *left, const void *right)
{
    const FaultRule *x = left, *y = right;
    int wide_x = x->code_from != x->code_to, wide_y = y->code_from != y->code_to;

    if (wide_x != wide_y)
        return wide_y - wide_x;
    if (!x->detector != !y->detector)
        return x->detector ? 1 : -1;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    if (x->code_from != y->code_from)
        return x->code_from < y->code_from ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int read_rules(Reader *reader, Err *err)
{
    Catalogue *catalogue = reader->catalogue;
    const size_t count = reader->rules.entries.len;

    catalogue->rules = arena_calloc(&catalogue->keep, count + 1, sizeof *catalogue->rules);
    for (size_t i = 0; i < count; i++) {
        FaultRule *rule = &catalogue->rules[catalogue->rule_count];

        TRY(read_rule(reader, reader->rules.entries.at[i], i, rule, err));
        if (rule->detector && !rule->enabled)
            continue;
        catalogue->rule_count++;
        catalogue->event_count += !rule->detector;
    }
    qsort(catalogue->rules, catalogue->rule_count, sizeof catalogue->rules[0], compare_rules);
    catalogue->unknown_xid = catalogue_rule(catalogue, "xid-unknown");
    catalogue->unknown_sxid = catalogue_rule(catalogue, "sxid-unknown");
    return 0;
}

/* --- the catalogue ------------------------------------------------------------------------------------------------ */

static void free_reader(Reader *reader)
{
    arena_done(&reader->scratch);
    map_done(&reader->classes.by_id);
    map_done(&reader->rules.by_id);
    vec_done(&reader->classes.entries);
    vec_done(&reader->rules.entries);
}

static int merge_all(Reader *reader, const YamlNode *const *site, size_t count, Err *err)
{
    for (size_t i = 0; i < catalogue_text_count; i++) {
        const CatalogueText *text = &catalogue_texts[i];
        CLEANUP(str_done) Str plain = str_limited(DOCUMENT_MAX);
        const YamlNode *root;

        TRY(gzip_unpack(text->packed, text->len, &plain, err));
        TRY(yaml_load(text->name, plain.text, plain.len, &reader->scratch, &root, err));
        TRY(merge_document(reader, root, err));
    }
    for (size_t i = 0; i < count; i++)
        TRY(merge_document(reader, site[i], err));
    return 0;
}

int catalogue_new(const YamlNode *const *site, size_t count, Catalogue **ret, Err *err)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = xcalloc(1, sizeof *catalogue);
    CLEANUP(free_reader)
    Reader reader = {.catalogue = catalogue, .classes = {.name = "classes"}, .rules = {.name = "rules"}};

    arena_init(&reader.scratch, SCRATCH_BLOCK);
    arena_init(&catalogue->keep, KEEP_BLOCK);
    map_init(&reader.classes.by_id);
    map_init(&reader.rules.by_id);
    TRY(merge_all(&reader, site, count, err));
    TRY(read_classes(&reader, err));
    TRY(read_rules(&reader, err));
    *ret = TAKE(catalogue);
    return 0;
}

void catalogue_free(Catalogue *catalogue)
{
    if (!catalogue)
        return;
    arena_done(&catalogue->keep);
    free(catalogue);
}

void catalogue_open_at_once(Catalogue *catalogue)
{
    for (size_t i = 0; i < catalogue->class_count; i++)
        catalogue->classes[i].for_ns = 0;
    for (size_t i = 0; i < catalogue->rule_count; i++)
        catalogue->rules[i].for_ns = 0;
}

const FaultClass *catalogue_class(const Catalogue *catalogue, const char *id)
{
    for (size_t i = 0; i < catalogue->class_count; i++)
        if (strcmp(catalogue->classes[i].id, id) == 0)
            return &catalogue->classes[i];
    return NULL;
}

const FaultRule *catalogue_rule(const Catalogue *catalogue, const char *id)
{
    for (size_t i = 0; i < catalogue->rule_count; i++)
        if (strcmp(catalogue->rules[i].id, id) == 0)
            return &catalogue->rules[i];
    return NULL;
}
