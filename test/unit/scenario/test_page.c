/* SPDX-License-Identifier: Apache-2.0 */
/* docs/appendix/scenarios.md ends in what the tables say now. With STOKER_UPDATE=1 in the environment the
 * document is written instead. Every example of the hand-written part must compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "kit.h"
#include "sim/scenario/parse.h"

/* The marks between which the generated part of the document stands. */
#define PAGE_BEGIN "<!-- generated from the tables of sim/scenario: do not edit below -->\n"

/* The order of the reference; every table comes from its owner. */
static void scenario_page(Str *out)
{
    str_add(out, PAGE_BEGIN);
    str_add(out, "\n## Reference\n\n### The file\n\n");
    scenario_node_page(out);
    str_add(out, "\n### `gpus`\n\n");
    gpus_page(out);
    str_add(out, "\n### `work`\n\n");
    works_page(out);
    str_add(out, "\n### `at`: the steps\n\n");
    step_page(out);
    str_add(out, "\n### `truth`\n\n");
    truth_page(out);
    str_add(out, "\n### `given` and `owners`\n\nThe same for both, but `how` and `share`, which `given` does not have.\n\n");
    truth_owners_page(out);
    str_add(out, "\n### Board files\n\n");
    board_page(out);
}

static void document(Str *text)
{
    str_init(text, 1 << 20);
    assert_int_equal(file_read(DOC_FILE, 1 << 20, text, NULL), 0);
}

static void reference_is_current(void **state)
{
    Str page, doc;
    (void)state;
    str_init(&page, 1 << 20);
    document(&doc);
    scenario_page(&page);
    char *at = strstr(doc.text, PAGE_BEGIN);
    assert_non_null(at);
    if (getenv("STOKER_UPDATE")) {
        str_cut(&doc, (size_t)(at - doc.text));
        str_add(&doc, page.text);
        assert_int_equal(file_write(DOC_FILE, doc.text, doc.len, 0644, NULL), 0);
    } else if (strcmp(at, page.text) != 0) {
        fail_msg("docs/appendix/scenarios.md is not what the tables say: run this test with STOKER_UPDATE=1");
    }
    assert_false(page.overflow);
    str_done(&page);
    str_done(&doc);
}

static void examples_compile(void **state)
{
    Kit kit;
    Str doc;
    size_t examples = 0;
    (void)state;
    kit_init(&kit);
    document(&doc);
    for (char *at = doc.text; (at = strstr(at, "```yaml\n")); examples++) {
        char *end = strstr(at += strlen("```yaml\n"), "```");
        assert_non_null(end);
        kit_parse(&kit, arena_strndup(&kit.arena, at, (size_t)(end - at)));
    }
    assert_true(examples >= 2);
    str_done(&doc);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_is_current),
        cmocka_unit_test(examples_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
