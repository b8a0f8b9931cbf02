/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the reference; every table comes from its owner. */
#include "sim/scenario/page.h"

#include "sim/scenario/parse.h"

void scenario_page(Str *out)
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
    str_add(out, "\n### Board files\n\n");
    board_page(out);
}
