/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker top` without a terminal: plays a recording and does what the words after it say, in turn:
 *
 *     top_play RECORDING.ndjson.gz 100x30 Down Enter print
 *
 * WIDTHxHEIGHT resizes; `ascii`, `utf8` and `inks` choose how it is printed; `look` goes on to the next look, `last` to
 * the last one; `stale:SECONDS`, `past` (a replay), `readonly` change what is seen; `text:WORDS` types, `click:X,Y` and
 * `wheel:X,Y` use the mouse; any other word is a key; `print` prints the screen below a line that says what was done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "kit.h"

typedef struct Playing {
    Kit kit;
    bool inks;
    TopWish wish;
} Playing;

static const char *const wishes[] = {"", "quit", "signal", "pause", "seek", "speed", "redraw"};

static void keep(Playing *play, TopWish wish)
{
    if (wish != TOP_WISH_NONE)
        play->wish = wish;
}

static void print(Playing *play)
{
    Str out;

    str_init(&out, 1 << 24);
    kit_draw(&play->kit, play->inks, &out);
    fputs(out.text, stdout);
    if (play->wish != TOP_WISH_NONE) {
        const TopSignal s = top_signal(play->kit.top);
        printf("wish: %s", wishes[play->wish]);
        if (play->wish == TOP_WISH_SIGNAL)
            printf(" %s to %d", s.name, (int)s.pid);
        putchar('\n');
    }
    play->wish = TOP_WISH_NONE;
    str_done(&out);
}

static void type(Playing *play, const char *text)
{
    for (; *text; text++)
        keep(play, top_key(play->kit.top, (unsigned char)*text));
}

/* Every look of the recording but those before the last two goes by, so that rates are known. */
static bool of_looks(Playing *play, const char *word)
{
    Kit *kit = &play->kit;

    if (strcmp(word, "look") == 0)
        kit_next(kit);
    else if (strcmp(word, "last") == 0)
        while (kit_next(kit))
            ;
    else if (strncmp(word, "stale:", 6) == 0) {
        kit->feed.age_ns = strtoull(word + 6, NULL, 10) * NS_PER_S;
        strcpy(kit->feed.trouble, "the agent does not answer: connection refused");
        kit_show(kit);
    } else if (strcmp(word, "past") == 0) {
        kit->feed.kind = FEED_RECORDING;
        kit->feed.play.from_ns = kit->look->node.real_ns - 3600 * NS_PER_S;
        kit->feed.play.to_ns = kit->look->node.real_ns + 1800 * NS_PER_S;
        kit->feed.play.speed = 4;
        kit_show(kit);
    } else if (strcmp(word, "paused") == 0) {
        kit->feed.play.paused = true;
        kit_show(kit);
    } else
        return false;
    return true;
}

static bool of_screen(Playing *play, const char *word)
{
    int width, height;

    if (sscanf(word, "%dx%d", &width, &height) == 2)
        grid_resize(&play->kit.grid, width, height);
    else if (strcmp(word, "ascii") == 0 || strcmp(word, "utf8") == 0)
        play->kit.grid.utf8 = word[0] == 'u';
    else if (strcmp(word, "inks") == 0)
        play->inks = true;
    else
        return false;
    return true;
}

static bool of_hands(Playing *play, const char *word)
{
    int x, y;

    if (strncmp(word, "text:", 5) == 0)
        type(play, word + 5);
    else if (sscanf(word, "click:%d,%d", &x, &y) == 2)
        keep(play, top_mouse(play->kit.top, TOP_MOUSE_CLICK, x, y));
    else if (sscanf(word, "wheel:%d,%d", &x, &y) == 2)
        keep(play, top_mouse(play->kit.top, TOP_MOUSE_DOWN, x, y));
    else if (kit_key(word))
        keep(play, top_key(play->kit.top, kit_key(word)));
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    TopOptions options = {0};
    Playing play = {.wish = TOP_WISH_NONE};
    int first = 1;

    if (argc < 3)
        return 2;
    for (int i = 2; i < argc; i++)
        options.read_only |= strcmp(argv[i], "readonly") == 0;
    kit_open(&play.kit, argv[1], &options);
    kit_next(&play.kit);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "readonly") == 0)
            continue;
        if (strcmp(argv[i], "print") == 0) {
            printf("==");
            for (; first < i; first++)
                if (first > 1)
                    printf(" %s", argv[first]);
            printf("\n");
            print(&play);
            first = i + 1;
        } else if (!of_looks(&play, argv[i]) && !of_screen(&play, argv[i]) && !of_hands(&play, argv[i])) {
            fprintf(stderr, "'%s' is nothing that can be done\n", argv[i]);
            return 2;
        }
    }
    kit_close(&play.kit);
    return 0;
}
