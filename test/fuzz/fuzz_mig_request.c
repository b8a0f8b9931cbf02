/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a file of layouts in mig-parted's format v1, and the same bytes as words of the command line. What is
 * taken can be resolved for a GPU and planned. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "engine/mig/mig.h"

enum { WORDS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static MigBoard make_board(void)
{
    MigBoard board = {.name = "board",
                      .profiles = {{.name = "1g.10gb", .slices = 1, .max = 7, .size = 1, .starts = 0x7f},
                                   {.name = "1g.10gb+me", .slices = 1, .max = 1, .size = 1, .starts = 0x7f},
                                   {.name = "2g.20gb", .index = 1, .slices = 2, .max = 3, .size = 2, .starts = 0x15},
                                   {.name = "3g.40gb", .index = 2, .slices = 3, .max = 2, .size = 4, .starts = 0x11},
                                   {.name = "7g.80gb", .index = 4, .slices = 7, .max = 1, .size = 8, .starts = 1}},
                      .profile_count = 5};
    for (size_t i = 0; i < board.profile_count; i++)
        board.profiles[i].compute_slices = mig_compute_sizes(board.profiles[i].slices);
    mig_board_seal(&board);
    return board;
}

static void resolve(const MigRequest *request)
{
    const MigBoard board = make_board();
    const MigTarget gpu = {.uuid = "GPU-1", .device = 0x233010DE};
    const MigLayout now = {.enabled = true};
    MigLayout wanted = {0}, near[3];
    MigPlan plan;
    Err err = {0};
    int rc = mig_request_resolve(request, &gpu, &board, &wanted, &err);
    assert(rc >= 0 ? rc <= 1 : err.text[0] != '\0');
    if (rc != 0)
        return;
    mig_plan(&board, &now, &wanted, &plan);
    if (plan.outcome == MIG_POSSIBLE)
        assert(plan.create_count == wanted.count);
    else
        assert(plan.reason[0] && mig_nearest(&board, &wanted, near, 3) <= 3);
}

/* Words are separated by newlines. */
static void parse_words(const char *text, size_t size, Arena *arena)
{
    const char *words[WORDS_MAX];
    size_t count = 0;
    MigRequest request;
    Err err = {0};
    char *at = arena_strndup(arena, text, size);
    for (char *word = strtok(at, "\n"); word && count < WORDS_MAX; word = strtok(NULL, "\n"))
        words[count++] = word;
    if (mig_request_parse(words, count, arena, &request, &err) == 0)
        resolve(&request);
    else
        assert(err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const YamlNode *root = NULL;
    Arena arena = {0};
    MigRequest request;
    Err err = {0};
    if (yaml_load("config.yaml", (const char *)data, size, &arena, &root, &err) == 0 &&
        mig_request_read(root, NULL, &arena, &request, &err) == 0)
        resolve(&request);
    parse_words((const char *)data, size, &arena);
    arena_done(&arena);
    return 0;
}
