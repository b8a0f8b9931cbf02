/* SPDX-License-Identifier: Apache-2.0 */
#include "play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "kit.h"

typedef struct Playing {
    Kit kit;
    bool inks;
    TopWish wish;
    Str *out;
} Playing;

static const char *const wishes[] = {"", "quit", "signal", "pause", "seek", "speed", "redraw"};

static void keep(Playing *play, TopWish wish)
{
    if (wish != TOP_WISH_NONE)
        play->wish = wish;
}

static void print(Playing *play)
{
    Str screen;

    str_init(&screen, 1 << 24);
    kit_draw(&play->kit, play->inks, &screen);
    str_add(play->out, screen.text);
    if (play->wish != TOP_WISH_NONE) {
        const TopSignal s = top_signal(play->kit.top);
        str_addf(play->out, "wish: %s", wishes[play->wish]);
        if (play->wish == TOP_WISH_SIGNAL)
            str_addf(play->out, " %s to %d", s.name, (int)s.pid);
        str_addc(play->out, '\n');
    }
    play->wish = TOP_WISH_NONE;
    str_done(&screen);
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

const char *play_words(const char *path, const char *const *words, size_t count, Str *out)
{
    TopOptions options = {0};
    Playing play = {.wish = TOP_WISH_NONE, .out = out};
    const char *wrong = NULL;
    size_t first = 0;

    for (size_t i = 0; i < count; i++)
        options.read_only |= strcmp(words[i], "readonly") == 0;
    kit_open(&play.kit, path, &options);
    kit_next(&play.kit);
    for (size_t i = 0; i < count && !wrong; i++) {
        if (strcmp(words[i], "readonly") == 0)
            continue;
        if (strcmp(words[i], "print") == 0) {
            str_add(out, "==");
            for (; first < i; first++)
                str_addf(out, " %s", words[first]);
            str_addc(out, '\n');
            print(&play);
            first = i + 1;
        } else if (!of_looks(&play, words[i]) && !of_screen(&play, words[i]) && !of_hands(&play, words[i])) {
            wrong = words[i];
        }
    }
    kit_close(&play.kit);
    return wrong;
}
