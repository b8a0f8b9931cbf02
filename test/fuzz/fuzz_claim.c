/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a ResourceClaim of the API server as engine/kubelet/claim.c reads it, and the plugin's sharing as
 * service/kubelet/sharing.c does. Each is whole, or an error with a text. What was kept of a claim reads the same
 * again. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/yaml.h"
#include "service/kubelet/dra.h"

#define DRIVER "gpu.nvidia.com"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_claim(const json_t *object)
{
    Prepared *first = NULL, *again = NULL;
    Err err = {0};

    if (prepared_new(object, DRIVER, &first, &err) < 0) {
        if (!err.text[0])
            abort();
        return;
    }
    if (prepared_new(first->object, DRIVER, &again, &err) < 0 || again->claim.count != first->claim.count)
        abort();
    for (size_t i = 0; i < first->claim.count; i++) {
        const ClaimDevice *a = &first->claim.devices[i], *b = &again->claim.devices[i];

        if (!a->request || strchr(a->request, '/') || strcmp(a->name, b->name) != 0 || !a->config != !b->config)
            abort();
        if (a->config && (a->config->slice >= CLAIM_SLICE_END || a->config->thread_percent > 100))
            abort();
    }
    prepared_free(first);
    prepared_free(again);
}

static void check_sharing(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) Arena arena = {0};
    const YamlNode *root = NULL;
    OfferConfig config = {0};
    Err err = {0};

    if (yaml_load("fuzz", (const char *)data, size, &arena, &root, &err) < 0)
        return;
    if (kubelet_read_sharing(root, &arena, &config, &err) < 0) {
        if (!err.text[0])
            abort();
        return;
    }
    for (size_t i = 0; i < config.share_count; i++)
        if (config.shares[i].replicas < 2 || strncmp(config.shares[i].resource, "nvidia.com/", 11) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *object = json_loadb((const char *)data, size, 0, NULL);

    if (object)
        check_claim(object);
    json_decref(object);
    check_sharing(data, size);
    return 0;
}
