/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/terminal_palette.h"

#include <stdlib.h>
#include <string.h>

enum { BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, USUAL = -1 };

typedef enum Emphasis { NONE = 0, BOLD = 1, DIM = 2, UNDERLINE = 4 } Emphasis;

typedef struct Row {
    int many, dark, light;  /* colour of 256, of 8 on a dark background and on a light one */
    unsigned with, without; /* emphasis with colours (of 8: DIM is left to those who have no grey) and with none */
} Row;

static const Row ROWS[INK_END] = {
    [INK_PLAIN] = {USUAL, USUAL, USUAL, NONE, NONE},
    [INK_DIM] = {243, USUAL, USUAL, DIM, DIM},
    [INK_STRONG] = {USUAL, USUAL, USUAL, BOLD, BOLD},
    [INK_TITLE] = {31, CYAN, BLUE, BOLD, BOLD},
    [INK_GOOD] = {28, GREEN, GREEN, NONE, NONE},
    [INK_WARN] = {130, YELLOW, MAGENTA, BOLD, UNDERLINE},
    [INK_BAD] = {160, RED, RED, BOLD, BOLD | UNDERLINE},
    [INK_KEY] = {31, CYAN, BLUE, BOLD, BOLD},
    [INK_BAR] = {30, CYAN, BLUE, NONE, NONE},
    [INK_SERIES_A] = {32, CYAN, BLUE, NONE, NONE},
    [INK_SERIES_B] = {163, MAGENTA, MAGENTA, NONE, BOLD},
    [INK_SERIES_C] = {64, GREEN, GREEN, NONE, NONE},
    [INK_SERIES_D] = {99, YELLOW, RED, NONE, BOLD},
    [INK_BAND] = {243, USUAL, USUAL, DIM, DIM},
};

int palette_colours(int colours)
{
    return colours >= 256 ? 256 : colours >= 16 ? 16 : colours >= 8 ? 8 : 0;
}

InkStyle palette_style(Ink ink, int colours, bool light)
{
    const Row *row = &ROWS[ink < INK_END ? ink : INK_PLAIN];
    unsigned emphasis = colours ? row->with : row->without;
    InkStyle style = {.colour = USUAL, .bold = emphasis & BOLD, .underline = emphasis & UNDERLINE};
    if (colours >= 256)
        style.colour = row->many;
    else if (colours)
        style.colour = light ? row->light : row->dark;
    style.dim = (emphasis & DIM) && style.colour == USUAL;
    return style;
}

bool palette_is_light(const char *colorfgbg)
{
    const char *background = colorfgbg ? strrchr(colorfgbg, ';') : NULL;
    if (!background || !background[1])
        return false;
    char *end = NULL;
    long number = strtol(background + 1, &end, 10);
    return !*end && (number == 7 || (number >= 9 && number <= 15));
}
