/* SPDX-License-Identifier: Apache-2.0 */
/* A site's file of faults: taken whole or refused with a place, and whatever is taken can be judged by. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "engine/health/catalogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const YamlNode *root = NULL;
    Catalogue *catalogue = NULL;
    Arena arena = {0};
    Err err = {0};

    if (yaml_load("site.yaml", (const char *)data, size, &arena, &root, &err) == 0) {
        int rc = catalogue_new(&root, 1, &catalogue, &err);
        assert(rc == 0 || (rc == -22 && err.text[0]));
    }
    arena_done(&arena);
    for (size_t i = 0; catalogue && i < catalogue->rule_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];
        Event event;
        FaultVerdict verdict;
        event_init(&event, rule->event, EVENT_FROM_KMSG);
        event.code = rule->code_to;
        event.word = EVENT_FATAL;
        assert(catalogue_rule(catalogue, rule->id) == rule);
        if (catalogue_match(catalogue, &event, 570, DEVICE_ARCH_HOPPER, &verdict))
            assert(verdict.rule && verdict.severity < SEVERITY_END && verdict.route < ROUTE_END);
    }
    catalogue_free(catalogue);
    return 0;
}
