/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the keys `alerts` and `maintenance` of the agent's configuration. They are taken whole or refused with a
 * place; what stays in force after a refusal is what was there before. */
#include <stdlib.h>
#include <string.h>

#include "base/yaml.h"
#include "engine/health/maintenance.h"
#include "service/alert/config.h"

#define NOON_NS 1767614400000000000ULL /* 2026-01-05T12:00:00Z */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal has its place. */
static void check_refusal(int rc, const Err *err)
{
    if (rc < 0 && (err->code != rc || strncmp(err->text, "fuzz:", 5) != 0))
        abort();
}

static void read_alerts(const YamlNode *node)
{
    AlertTree *tree = NULL;
    Err err = {0};
    const int rc = alert_tree_new(node, NULL, &tree, &err);

    check_refusal(rc, &err);
    if ((rc == 0) != (tree != NULL))
        abort();
    for (size_t i = 0; tree && i < tree->route_count; i++)
        for (size_t k = 0; k < tree->routes[i].receiver_count; k++)
            if (tree->routes[i].receivers[k] >= tree->receiver_count)
                abort();
    alert_tree_free(tree);
}

static void read_maintenance(const YamlNode *node)
{
    Maintenance *maintenance = maintenance_new();
    Err err = {0};

    check_refusal(maintenance_configure(maintenance, node, &err), &err);
    for (uint64_t hour = 0; hour < 24; hour += 6)
        maintenance_advance(maintenance, NOON_NS + hour * 3600000000000ULL);
    maintenance_free(maintenance);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const YamlNode *root = NULL;
    Arena arena = {0};
    Err err = {0};

    if (yaml_load("fuzz", (const char *)data, size, &arena, &root, &err) == 0 && root && root->kind == YAML_MAP) {
        read_alerts(yaml_get(root, "alerts"));
        read_maintenance(yaml_get(root, "maintenance"));
    }
    arena_done(&arena);
    return 0;
}
