/* SPDX-License-Identifier: Apache-2.0 */
/* A site's file of faults: taken whole or refused with a place, and whatever is taken can be judged by. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "engine/health/catalogue.h"

/* In place of the built-in documents, whose reading would take nearly all of the time. */
static const char small[] =
    "classes:\n"
    "  fan: {text: a, advice: b, cause: thermal, severity: error, scope: gpu, action: none, route: page, clear: gone}\n"
    "  thermal: {text: a, advice: b, cause: thermal, severity: error, scope: gpu, action: none, route: page, clear: "
    "gone,\n"
    "    parents: [thermal, fan]}\n"
    "  gpu-lost: {text: a, advice: b, cause: bus, severity: fatal, scope: gpu, action: none, route: page, clear: "
    "reset}\n"
    "  app-fault: {text: a, advice: b, cause: application, severity: error, scope: gpu, action: none, route: user,\n"
    "    clear: quiet, quiet: 5m, by: [code, process]}\n"
    "rules:\n"
    "  xid-79: {on: {xid: 79}, class: gpu-lost}\n"
    "  xid-109: {on: {xid: 109, driver: \">=535 <560\"}, class: app-fault}\n"
    "  xid-145: {on: {xid: 145, unit: A/B, intr: {before_575: 0x1/0x3}, status: 0x4}, class: gpu-lost, silent: yes}\n"
    "  xid-unknown: {on: {xid: 0-99999}, class: app-fault}\n"
    "  sxid-unknown: {on: {sxid: 0-99999}, class: app-fault}\n"
    "  sxid-fatal: {on: {sxid: 0-99999, says: fatal}, class: gpu-lost}\n"
    "  fan: {on: {detector: fan}, with: {behind: 0.5}, class: fan}\n";
const CatalogueText catalogue_texts[] = {{"small.yaml", small, sizeof small - 1}};
const size_t catalogue_text_count = 1;

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
