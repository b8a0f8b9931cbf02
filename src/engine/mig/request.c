/* SPDX-License-Identifier: Apache-2.0 */
/* Wanted layouts: mig-parted's file format v1 and words of the command line, as entries that are resolved for each GPU.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "engine/mig/mig.h"

enum { COUNT_MAX = 1000, GPU_INDEX_MAX = 63 };

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int read_bool(const YamlNode *node, bool *ret, Err *err)
{
    const char *text = yaml_text(node);
    bool yes = text && !node->quoted && strcmp(text, "true") == 0;
    if (!yes && !(text && !node->quoted && strcmp(text, "false") == 0))
        return yaml_fail(node, err, "'mig-enabled' must be true or false");
    *ret = yes;
    return 0;
}

static int read_filter(const YamlNode *node, MigEntry *entry, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, "device-filter", err));
    if (entry->filter_count == MIG_FILTERS_MAX)
        return yaml_fail(node, err, "more than %d device filters", MIG_FILTERS_MAX);
    const char *colon = strchr(node->text, ':');
    size_t len = colon ? (size_t)(colon - node->text) : node->len;
    uint64_t device, subsystem = 0;
    if (number_parsen_hex(node->text, len, UINT32_MAX, &device, NULL) < 0 ||
        (colon && number_parsen_hex(colon + 1, strlen(colon + 1), UINT32_MAX, &subsystem, NULL) < 0))
        return yaml_fail(node, err, "'%.40s' is no PCI id such as 0x233010DE", node->text);
    entry->filters[entry->filter_count].device = (uint32_t)device;
    entry->filters[entry->filter_count++].subsystem = (uint32_t)subsystem;
    return 0;
}

static int read_filters(const YamlNode *node, MigEntry *entry, Err *err)
{
    if (node->kind != YAML_SEQ)
        return read_filter(node, entry, err);
    for (size_t i = 0; i < node->len; i++)
        TRY(read_filter(node->items[i], entry, err));
    return 0;
}

static int read_gpus(const YamlNode *node, MigEntry *entry, Err *err)
{
    if (yaml_text(node) && strcmp(node->text, "all") == 0) {
        entry->all = true;
        return 0;
    }
    if (node->kind != YAML_SEQ)
        return yaml_fail(node, err, "'devices' must be 'all' or a list of indices");
    for (size_t i = 0; i < node->len; i++) {
        uint64_t index;
        const char *text = yaml_text(node->items[i]);
        if (!text || number_parse_u64(text, 0, GPU_INDEX_MAX, &index, NULL) < 0)
            return yaml_fail(node->items[i], err, "'devices' takes indices of GPUs, 0 to %d", GPU_INDEX_MAX);
        entry->gpus |= UINT64_C(1) << index;
    }
    return 0;
}

static int read_names(const YamlNode *node, MigEntry *entry, Err *err)
{
    uint64_t sum = 0;
    if (yaml_is_null(node))
        return 0;
    TRY(yaml_want(node, YAML_MAP, "mig-devices", err));
    for (size_t i = 0; i < node->len; i++) {
        uint64_t count;
        const YamlPair *pair = &node->pairs[i];
        const char *text = yaml_text(pair->value);
        if (!text || pair->value->quoted || number_parse_u64(text, 0, COUNT_MAX, &count, NULL) < 0)
            return yaml_fail(pair->value, err, "the number of %.40s must be 0 to %d", pair->key->text, COUNT_MAX);
        if (entry->name_count == MIG_NAMES_MAX)
            return yaml_fail(node, err, "more than %d profiles", MIG_NAMES_MAX);
        sum += count;
        entry->names[entry->name_count].name = pair->key->text;
        entry->names[entry->name_count++].count = (unsigned)count;
    }
    return node->len && !sum ? yaml_fail(node, err, "all numbers of 'mig-devices' are 0; {} wants no instances") : 0;
}

static int read_entry(const YamlNode *node, Arena *arena, MigEntry *ret, Err *err)
{
    const YamlNode *gpus = NULL, *enabled = NULL, *names = NULL;
    TRY(yaml_want(node, YAML_MAP, "an entry of a configuration", err));
    *ret = (MigEntry){.where = arena_printf(arena, "%s:%u:%u", node->file, node->line, node->column)};
    for (size_t i = 0; i < node->len; i++) {
        const YamlNode *key = node->pairs[i].key, *value = node->pairs[i].value;
        if (strcmp(key->text, "device-filter") == 0)
            TRY(read_filters(value, ret, err));
        else if (strcmp(key->text, "devices") == 0)
            gpus = value;
        else if (strcmp(key->text, "mig-enabled") == 0)
            enabled = value;
        else if (strcmp(key->text, "mig-devices") == 0)
            names = value;
        else
            return yaml_fail(key, err, "unknown key '%.40s'", key->text);
    }
    if (!gpus || !enabled)
        return yaml_fail(node, err, "an entry needs 'devices' and 'mig-enabled'");
    TRY(read_gpus(gpus, ret, err));
    TRY(read_bool(enabled, &ret->enabled, err));
    if (ret->enabled && !names)
        return yaml_fail(node, err, "'mig-devices' is missing; {} wants no instances");
    if (names)
        TRY(read_names(names, ret, err));
    if (!ret->enabled && ret->name_count)
        return yaml_fail(names, err, "'mig-devices' must be empty where MIG is disabled");
    return 0;
}

static int fail_no_config(const YamlNode *configs, const char *name, Err *err)
{
    char room[ERR_TEXT_MAX / 2];
    Str names;
    str_init_room(&names, room, sizeof room);
    for (size_t i = 0; i < configs->len; i++)
        str_addf(&names, "%s%s", i ? ", " : "", configs->pairs[i].key->text);
    if (!name)
        return yaml_fail(configs, err, "the file has %zu configurations, name one with --config: %s", configs->len,
                         names.text);
    return err_set(err, -ENOENT, "%s: no configuration '%.60s'; there are %s", configs->file, name, names.text);
}

int mig_request_read(const YamlNode *root, const char *name, Arena *arena, MigRequest *ret, Err *err)
{
    const YamlNode *configs = NULL, *list = NULL;
    if (!root)
        return err_set(err, -EINVAL, "the file is empty");
    TRY(yaml_want(root, YAML_MAP, "the file", err));
    const YamlNode *version = yaml_get(root, "version");
    if (!yaml_text(version) || strcmp(version->text, "v1") != 0)
        return yaml_fail(version ? version : root, err, "'version: v1' is needed");
    for (size_t i = 0; i < root->len; i++) {
        if (strcmp(root->pairs[i].key->text, "mig-configs") == 0)
            configs = root->pairs[i].value;
        else if (strcmp(root->pairs[i].key->text, "version") != 0)
            return yaml_fail(root->pairs[i].key, err, "unknown key '%.40s'", root->pairs[i].key->text);
    }
    if (!configs)
        return yaml_fail(root, err, "'mig-configs' is missing");
    TRY(yaml_want(configs, YAML_MAP, "mig-configs", err));
    for (size_t c = 0; c < configs->len; c++) { /* all are read: an error in another one is an error of the file */
        const YamlNode *entries = configs->pairs[c].value;
        const char *key = configs->pairs[c].key->text;
        TRY(yaml_want(entries, YAML_SEQ, key, err));
        if (!entries->len)
            return yaml_fail(entries, err, "the configuration '%.60s' is empty", key);
        MigEntry *to = arena_calloc(arena, entries->len, sizeof *to);
        for (size_t i = 0; i < entries->len; i++)
            TRY(read_entry(entries->items[i], arena, &to[i], err));
        if (name ? strcmp(key, name) == 0 : configs->len == 1) {
            list = entries;
            *ret = (MigRequest){.name = arena_strdup(arena, key), .entries = to, .count = entries->len};
        }
    }
    return list ? 0 : fail_no_config(configs, name, err);
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

static int parse_gpu(const char *word, size_t len, Arena *arena, MigEntry *entry, Err *err)
{
    uint64_t index;
    if (is_word(word, len, "all")) {
        entry->all = true;
        return 0;
    }
    if (len > 4 && strncasecmp(word, "GPU-", 4) == 0) {
        entry->uuid = arena_strndup(arena, word, len);
        return 0;
    }
    const char *digits = len > 3 && strncasecmp(word, "gpu", 3) == 0 ? word + 3 : word;
    if (number_parsen_u64(digits, len - (size_t)(digits - word), 0, GPU_INDEX_MAX, &index, NULL) < 0)
        return err_set(err, -EINVAL, "'%.*s' is no GPU: gpu0, an index, a UUID or all", (int)len, word);
    entry->gpus = UINT64_C(1) << index;
    return 0;
}

/* Where the name that begins at `at` ends: at a '+' behind which another one begins. */
static const char *end_of_name(const char *at)
{
    for (; *at; at++)
        if (*at == '+' && isdigit((unsigned char)at[1]))
            return at;
    return at;
}

static int parse_names(const char *text, const char *word, Arena *arena, MigEntry *entry, Err *err)
{
    for (const char *at = text, *end;; at = end + 1) {
        uint64_t count = 1;
        end = end_of_name(at);
        size_t digits = strspn(at, "0123456789");
        if (digits && (at[digits] == 'x' || at[digits] == '*')) {
            if (number_parsen_u64(at, digits, 1, COUNT_MAX, &count, NULL) < 0)
                return err_set(err, -EINVAL, "'%s': the number before 'x' must be 1 to %d", word, COUNT_MAX);
            at += digits + 1;
        }
        if (end == at)
            return err_set(err, -EINVAL, "'%s': the name of a profile is missing", word);
        if (entry->name_count == MIG_NAMES_MAX)
            return err_set(err, -E2BIG, "'%s': more than %d profiles", word, MIG_NAMES_MAX);
        entry->names[entry->name_count].name = arena_strndup(arena, at, (size_t)(end - at));
        entry->names[entry->name_count++].count = (unsigned)count;
        if (!*end)
            return 0;
    }
}

int mig_request_parse(const char *const *words, size_t count, Arena *arena, MigRequest *ret, Err *err)
{
    MigEntry *entries = arena_calloc(arena, count + 1, sizeof *entries);
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(words[i], '=');
        if (!equals || equals == words[i] || !equals[1])
            return err_set(err, -EINVAL, "'%s' is no layout: gpu0=3g.40gb+4g.40gb, all=7x1g.10gb, gpu1=off", words[i]);
        const char *wanted = equals + 1;
        size_t len = strlen(wanted);
        entries[i].where = words[i];
        entries[i].enabled = !is_word(wanted, len, "off");
        entries[i].balanced = is_word(wanted, len, "balanced");
        TRY(parse_gpu(words[i], (size_t)(equals - words[i]), arena, &entries[i], err));
        if (entries[i].enabled && !entries[i].balanced && !is_word(wanted, len, "none"))
            TRY(parse_names(wanted, words[i], arena, &entries[i], err));
    }
    *ret = (MigRequest){.name = "", .entries = entries, .count = count};
    return 0;
}

/* --- for one GPU -------------------------------------------------------------------------------------------------- */

static bool is_board_meant(const MigEntry *entry, const MigTarget *gpu)
{
    bool board = entry->filter_count == 0;
    for (size_t i = 0; i < entry->filter_count; i++)
        board |= entry->filters[i].device == gpu->device &&
                 (!entry->filters[i].subsystem || entry->filters[i].subsystem == gpu->subsystem);
    return board;
}

static bool is_named(const MigEntry *entry, const MigTarget *gpu)
{
    if (entry->all || entry->uuid)
        return !entry->all && strcasecmp(entry->uuid, gpu->uuid) == 0;
    return gpu->index <= GPU_INDEX_MAX && entry->gpus >> gpu->index & 1;
}

static bool is_meant(const MigEntry *entry, const MigTarget *gpu)
{
    return is_board_meant(entry, gpu) && (entry->all || is_named(entry, gpu));
}

MigMeant mig_request_means(const MigRequest *request, const MigTarget *gpu)
{
    MigMeant meant = MIG_NOT_MEANT;
    for (size_t i = 0; i < request->count; i++) {
        const MigEntry *entry = &request->entries[i];
        if (gpu->device && !is_board_meant(entry, gpu))
            continue;
        if (is_named(entry, gpu))
            return MIG_MEANT_BY_NAME;
        if (entry->all)
            meant = MIG_MEANT_AS_ANY;
    }
    return meant;
}

const char *mig_request_stranger(const MigRequest *request, const MigTarget *gpus, size_t count)
{
    for (size_t i = 0; i < request->count; i++) {
        bool found = !request->entries[i].uuid;
        for (size_t k = 0; k < count && !found; k++)
            found = is_named(&request->entries[i], &gpus[k]);
        if (!found)
            return request->entries[i].uuid;
    }
    return NULL;
}

/* The smallest plain profile of so many slices: the one that NVML's first enumerators name. */
static const char *plain_profile(const MigBoard *board, unsigned slices)
{
    const MigProfile *found = NULL;
    for (size_t i = 0; i < board->profile_count; i++) {
        const MigProfile *p = &board->profiles[i];
        if (p->slices == slices && (!found || p->index < found->index))
            found = p;
    }
    return found ? found->name : NULL;
}

/* Two instances of one slice, one of two and, where the board has room, one of three: mig-parted's all-balanced. */
static int add_balanced(const MigBoard *board, MigLayout *ret, Err *err)
{
    static const unsigned slices[] = {3, 2, 1, 1};
    for (size_t i = board->slices < 7 ? 1 : 0; i < ARRAY_LEN(slices); i++) {
        const char *name = plain_profile(board, slices[i]);
        if (!name)
            return err_set(err, -ENOENT, "%s has no profile of %u slices for a balanced layout", board->name,
                           slices[i]);
        TRY(mig_layout_add(board, ret, name, 1, err));
    }
    return 0;
}

int mig_request_resolve(const MigRequest *request, const MigTarget *gpu, const MigBoard *board, MigLayout *ret,
                        Err *err)
{
    const MigEntry *entry = NULL;
    for (size_t i = 0; i < request->count; i++) {
        if (!is_meant(&request->entries[i], gpu))
            continue;
        if (entry)
            return err_set(err, -EINVAL, "%s and %s both speak of GPU %u", entry->where, request->entries[i].where,
                           gpu->index);
        entry = &request->entries[i];
    }
    if (!entry)
        return 1;
    MigLayout wanted = {.enabled = entry->enabled};
    int rc = entry->balanced ? add_balanced(board, &wanted, err) : 0;
    for (size_t i = 0; rc >= 0 && i < entry->name_count; i++)
        rc = mig_layout_add(board, &wanted, entry->names[i].name, entry->names[i].count, err);
    if (rc < 0) {
        err_add(err, "%s", entry->where);
        return rc;
    }
    *ret = wanted;
    return 0;
}
