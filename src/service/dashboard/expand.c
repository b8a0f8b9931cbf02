/* SPDX-License-Identifier: Apache-2.0 */
/* %words% of queries and legends, by dashboard and naming. Pure, any thread. */
#include <assert.h>
#include <string.h>

#include "base/owner.h"
#include "service/dashboard/panel.h"

enum { TEXT_MAX = 16 * 1024 };

#define MATCH_NODE "cluster=~\"$cluster\",job=~\"$scrape\",instance=~\"$node\""
#define KEYS_GPU "cluster, instance, hostname, Hostname, gpu"
/* of the two spellings a series has one or none, and the other is empty */
#define LEGEND_HOST "{{hostname}}{{Hostname}}"

/* The text of a word on a board of a scope; NULL: it is none. */
static const char *word(const char *name, size_t len, const Dashboard *board, const DashboardOptions *options)
{
    static const char *const gpu[] = {
        [BOARD_NODES] = MATCH_NODE,
        [BOARD_GPUS] = MATCH_NODE ",gpu=~\"$gpu\"",
        [BOARD_GPU] = MATCH_NODE ",gpu=~\"$gpu\"",
        [BOARD_WORK] = MATCH_NODE ",hpc_job=~\"$job\",%namespace%=~\"$namespace\",%pod%=~\"$pod\"",
    };
    const struct {
        const char *name, *text;
    } words[] = {
        {"gpu", gpu[board->scope]},
        {"node", MATCH_NODE},
        {"by", KEYS_GPU},
        {"inst", KEYS_GPU ", GPU_I_ID, GPU_I_PROFILE"},
        {"owner", "%namespace%, %pod%, hpc_job"},
        {"namespace", options->exported ? "exported_namespace" : "namespace"},
        {"pod", options->exported ? "exported_pod" : "pod"},
        {"name", LEGEND_HOST " GPU {{gpu}}"},
        {"mig", LEGEND_HOST " GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"},
        {"host", LEGEND_HOST " ({{instance}})"},
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i].name) == len && strncmp(words[i].name, name, len) == 0)
            return words[i].text;
    return NULL;
}

static void add(Str *out, const char *text, const Dashboard *board, const DashboardOptions *options)
{
    while (*text) {
        const size_t plain = strcspn(text, "%");

        str_addn(out, text, plain);
        text += plain;
        if (!*text)
            break;
        const size_t len = strcspn(text + 1, "%");
        const char *put = text[1 + len] ? word(text + 1, len, board, options) : NULL;

        if (!put) { /* a percent sign */
            str_addc(out, *text++);
            continue;
        }
        add(out, put, board, options);
        text += len + 2;
    }
}

const char *expand(const char *text, const Dashboard *board, const DashboardOptions *options, Arena *arena)
{
    Str out;

    str_init(&out, TEXT_MAX);
    add(&out, text, board, options);
    assert(!out.overflow);
    const char *kept = arena_strdup(arena, out.text);
    str_done(&out);
    return kept;
}
