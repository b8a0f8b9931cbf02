/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: base/yaml. What is read is a sound tree inside the caps, and every refusal says where and why. */
#include <stdlib.h>
#include <string.h>

#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t walk(const YamlNode *node, int depth)
{
    size_t nodes = 1;
    if (depth > YAML_DEPTH_MAX || !node->line || !node->column)
        abort();
    if (node->kind == YAML_SCALAR && strlen(node->text) != node->len)
        abort();
    for (size_t i = 0; node->kind == YAML_SEQ && i < node->len; i++)
        nodes += walk(node->items[i], depth + 1);
    for (size_t i = 0; node->kind == YAML_MAP && i < node->len; i++) {
        const YamlPair *pair = &node->pairs[i];
        if (pair->key->kind != YAML_SCALAR || yaml_get(node, pair->key->text) != pair->value)
            abort();
        nodes += 1 + walk(pair->value, depth + 1);
    }
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena arena = {0};
    Err err = {0};
    const YamlNode *root = NULL;
    int rc = yaml_load("fuzz", (const char *)data, size, &arena, &root, &err);
    if (rc < 0 && (root || err.code != rc || strncmp(err.text, "fuzz:", 5) != 0))
        abort();
    if (root && walk(root, 0) > YAML_NODES_MAX)
        abort();
    arena_done(&arena);
    return 0;
}
