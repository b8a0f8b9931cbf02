/* SPDX-License-Identifier: Apache-2.0 */
/* The screens of `stoker top` as text, over recordings of the scenario library: what test/data/top/screens.txt says is
 * printed as test/data/top/golden/ has it. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "play.h"
#include "test/unit/golden.h"

enum { LINE_CAP = 2048, WORDS_MAX = 256, OUT_MAX = GOLDEN_MAX };

/* Does what a line says: "NAME: word ...". */
static void play_line(char *line)
{
    static const char *const sizes[] = {"60x15", "print", "100x30", "print", "200x60", "print"};
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    const char *words[WORDS_MAX], *name = strsep(&line, ":");
    char path[512];
    size_t count = 0;

    for (const char *word; (word = strsep(&line, " \n"));) {
        assert_true(count + ARRAY_LEN(sizes) < WORDS_MAX);
        if (strcmp(word, "all") == 0)
            for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
                words[count++] = sizes[i];
        else if (*word)
            words[count++] = word;
    }
    snprintf(path, sizeof path, TOP_DATA "/%s.ndjson.gz", name);
    const char *wrong = play_words(path, words, count, &out);
    if (wrong)
        fail_msg("%s: '%s' is nothing that can be done", name, wrong);
    snprintf(path, sizeof path, TOP_DATA "/golden/%s.txt", name);
    assert_golden(path, &out);
}

static void the_screens_are_as_in_the_files(void **state)
{
    FILE *file = fopen(TOP_DATA "/screens.txt", "r");
    char line[LINE_CAP];
    size_t played = 0;

    (void)state;
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); played += line[0] != '#')
        if (line[0] != '#')
            play_line(line);
    fclose(file);
    assert_true(played > 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_screens_are_as_in_the_files)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
