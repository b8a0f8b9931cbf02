/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What comes of each file of a fuzz target's corpus, a line each for golden.h. The
 * inputs were kept because each takes a way through the code that no other takes. */

#include <dirent.h>

#include "test/unit/golden_json.h"

enum { CORPUS_FILES_MAX = 4096, CORPUS_NAME = 12 };

/* Adds to `line`. */
typedef void (*CorpusReader)(const Str *input, Str *line);

static inline int corpus_is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static inline void golden_add_corpus(Str *golden, const char *folder, CorpusReader reader)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, corpus_is_shown, alphasort);

    assert_in_range(count, 1, CORPUS_FILES_MAX);
    for (int i = 0; i < count; i++) {
        CLEANUP(str_done) Str input = str_limited(GOLDEN_MAX);
        char path[1024];

        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        assert_int_equal(file_read(path, GOLDEN_MAX, &input, NULL), 0);
        str_addf(golden, "%.*s", CORPUS_NAME, entries[i]->d_name);
        reader(&input, golden);
        str_addc(golden, '\n');
        free(entries[i]);
    }
    free(entries);
}
