/* SPDX-License-Identifier: Apache-2.0 */
/* top_play RECORDING.ndjson.gz 100x30 Down Enter print: play.h has the words. */
#include <stdio.h>

#include "play.h"

int main(int argc, char **argv)
{
    Str out;

    if (argc < 3)
        return 2;
    str_init(&out, 1 << 26);
    const char *wrong = play_words(argv[1], (const char *const *)&argv[2], (size_t)argc - 2, &out);
    if (wrong)
        fprintf(stderr, "'%s' is nothing that can be done\n", wrong);
    else
        fputs(out.text, stdout);
    str_done(&out);
    return wrong ? 2 : 0;
}
