/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of boards that data/mig/boards.yaml holds. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "engine/mig/mig.h"

static int read_number(const YamlNode *node, uint64_t max, uint64_t *ret, Err *err)
{
    TRY(yaml_want(node, YAML_SCALAR, "a number", err));
    bool hex = strncmp(node->text, "0x", 2) == 0;
    Err why = {0};
    int rc = hex ? number_parsen_hex(node->text, node->len, max, ret, &why)
                 : number_parse_u64(node->text, 0, max, ret, &why);
    return rc < 0 ? yaml_fail(node, err, "'%.40s' is no number up to %llu", node->text, (unsigned long long)max) : 0;
}

static int read_starts(const YamlNode *node, uint32_t *ret, Err *err)
{
    TRY(yaml_want(node, YAML_SEQ, "starts", err));
    for (size_t i = 0; i < node->len; i++) {
        uint64_t start;
        TRY(read_number(node->items[i], MIG_GRID_MAX - 1, &start, err));
        *ret |= 1u << start;
    }
    return 0;
}

static int read_profile(const YamlNode *node, MigProfile *ret, Err *err)
{
    uint64_t id = 0, index = 0, slices = 0, max = 0, size = 0, memory = 0, sm = 0, engines = 0;
    const struct {
        const char *key;
        uint64_t *into, max;
    } numbers[] = {{"id", &id, 255},  {"index", &index, 255},        {"slices", &slices, 16},
                   {"max", &max, 16}, {"size", &size, MIG_GRID_MAX}, {"memory", &memory, 1 << 24},
                   {"sm", &sm, 1024}, {"engines", &engines, 64}};
    TRY(yaml_want(node, YAML_MAP, "a profile", err));
    for (size_t i = 0; i < node->len; i++) {
        const YamlPair *pair = &node->pairs[i];
        size_t k = 0;
        if (strcmp(pair->key->text, "name") == 0) {
            TRY(yaml_want(pair->value, YAML_SCALAR, "name", err));
            if (pair->value->len >= MIG_NAME_SIZE)
                return yaml_fail(pair->value, err, "the name is too long");
            memcpy(ret->name, pair->value->text, pair->value->len + 1);
            continue;
        }
        if (strcmp(pair->key->text, "starts") == 0) {
            TRY(read_starts(pair->value, &ret->starts, err));
            continue;
        }
        while (k < ARRAY_LEN(numbers) && strcmp(numbers[k].key, pair->key->text) != 0)
            k++;
        if (k == ARRAY_LEN(numbers))
            return yaml_fail(pair->key, err, "unknown key '%.40s'", pair->key->text);
        TRY(read_number(pair->value, numbers[k].max, numbers[k].into, err));
    }
    if (!ret->name[0] || !slices || !max)
        return yaml_fail(node, err, "a profile needs name, slices and max");
    ret->id = (uint32_t)id;
    ret->index = (uint32_t)index;
    ret->slices = (uint8_t)slices;
    ret->max = (uint8_t)max;
    ret->size = (uint8_t)size;
    ret->memory_mib = (uint32_t)memory;
    ret->sm_count = (uint32_t)sm;
    ret->engines[MIG_DECODER] = (uint8_t)engines;
    /* The single engine for optical flow goes with "+me", so that a GPU has one such instance. */
    ret->engines[MIG_OFA] = strstr(ret->name, "+me") != NULL;
    ret->compute_slices = mig_compute_sizes(ret->slices);
    return 0;
}

static int read_table(const YamlNode *node, MigTable *ret, Err *err)
{
    TRY(yaml_want(node, YAML_MAP, "a board", err));
    const YamlNode *name = yaml_get(node, "name"), *profiles = yaml_get(node, "profiles");
    const YamlNode *devices = yaml_get(node, "devices");
    ret->verified = yaml_text(yaml_get(node, "verified"));
    if (!yaml_text(name) || !profiles || !ret->verified)
        return yaml_fail(node, err, "a board needs name, verified and profiles");
    TRY(yaml_want(profiles, YAML_SEQ, "profiles", err));
    if (name->len >= sizeof ret->board.name || profiles->len > MIG_PROFILE_MAX)
        return yaml_fail(node, err, "the name is too long, or there are more than %d profiles", MIG_PROFILE_MAX);
    memcpy(ret->board.name, name->text, name->len + 1);
    for (size_t i = 0; i < profiles->len; i++)
        TRY(read_profile(profiles->items[i], &ret->board.profiles[ret->board.profile_count++], err));
    if (devices)
        TRY(yaml_want(devices, YAML_SEQ, "devices", err));
    for (size_t i = 0; devices && i < devices->len; i++) {
        uint64_t id;
        if (ret->device_count == MIG_DEVICES_MAX)
            return yaml_fail(devices, err, "more than %d devices", MIG_DEVICES_MAX);
        TRY(read_number(devices->items[i], UINT32_MAX, &id, err));
        ret->devices[ret->device_count++] = (uint32_t)id;
    }
    unsigned slices = 0;
    for (size_t i = 0; i < ret->board.profile_count; i++)
        slices = ret->board.profiles[i].slices > slices ? ret->board.profiles[i].slices : slices;
    for (size_t i = 0; i < ret->board.profile_count; i++) /* the whole GPU has all engines */
        if (ret->board.profiles[i].slices == slices)
            ret->board.profiles[i].engines[MIG_OFA] = 1;
    mig_board_seal(&ret->board);
    return 0;
}

int mig_tables_read(const YamlNode *root, Arena *arena, const MigTable **ret_tables, size_t *ret_count, Err *err)
{
    if (!root)
        return err_set(err, -EINVAL, "the file of boards is empty");
    TRY(yaml_want(root, YAML_SEQ, "the list of boards", err));
    MigTable *tables = arena_calloc(arena, root->len + 1, sizeof *tables);
    for (size_t i = 0; i < root->len; i++)
        TRY(read_table(root->items[i], &tables[i], err));
    *ret_tables = tables;
    *ret_count = root->len;
    return 0;
}
