/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/terminal_keys.h"

#include <ncurses.h>

#include "base/duration.h"
#include "base/cleanup.h"

enum { ESCAPE = 0x1b, BELL = 0x07, SEQUENCE_MAX = 4096 };

static const uint64_t DOUBLE_NS = 400 * (uint64_t)1000 * 1000;

static const struct {
    int curses;
    uint32_t key;
} KEYS[] = {
    {KEY_UP, TOP_KEY_UP},         {KEY_DOWN, TOP_KEY_DOWN},     {KEY_LEFT, TOP_KEY_LEFT},
    {KEY_RIGHT, TOP_KEY_RIGHT},   {KEY_PPAGE, TOP_KEY_PAGE_UP}, {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
    {KEY_HOME, TOP_KEY_HOME},     {KEY_FIND, TOP_KEY_HOME},     {KEY_END, TOP_KEY_END},
    {KEY_SELECT, TOP_KEY_END},    {KEY_ENTER, TOP_KEY_ENTER},   {KEY_BACKSPACE, TOP_KEY_BACKSPACE},
    {KEY_BTAB, TOP_KEY_BACK_TAB}, {KEY_DC, TOP_KEY_DELETE},     {KEY_A1, TOP_KEY_HOME},
    {KEY_A3, TOP_KEY_PAGE_UP},    {KEY_C1, TOP_KEY_END},        {KEY_C3, TOP_KEY_PAGE_DOWN},
    {KEY_CANCEL, TOP_KEY_ESCAPE},
};

/* The usual sequences of xterm, rxvt, screen and the VT220 (their terminfo entries). */
static const struct {
    const char *sequence;
    int curses;
} USUAL[] = {
    {"\033[A", KEY_UP},      {"\033OA", KEY_UP},     {"\033[B", KEY_DOWN},    {"\033OB", KEY_DOWN},
    {"\033[C", KEY_RIGHT},   {"\033OC", KEY_RIGHT},  {"\033[D", KEY_LEFT},    {"\033OD", KEY_LEFT},
    {"\033[H", KEY_HOME},    {"\033OH", KEY_HOME},   {"\033[1~", KEY_HOME},   {"\033[7~", KEY_HOME},
    {"\033[F", KEY_END},     {"\033OF", KEY_END},    {"\033[4~", KEY_END},    {"\033[8~", KEY_END},
    {"\033[3~", KEY_DC},     {"\033[Z", KEY_BTAB},   {"\033[5~", KEY_PPAGE},  {"\033[6~", KEY_NPAGE},
    {"\033OM", KEY_ENTER},   {"\033OP", KEY_F(1)},   {"\033OQ", KEY_F(2)},    {"\033OR", KEY_F(3)},
    {"\033OS", KEY_F(4)},    {"\033[11~", KEY_F(1)}, {"\033[12~", KEY_F(2)},  {"\033[13~", KEY_F(3)},
    {"\033[14~", KEY_F(4)},  {"\033[15~", KEY_F(5)}, {"\033[17~", KEY_F(6)},  {"\033[18~", KEY_F(7)},
    {"\033[19~", KEY_F(8)},  {"\033[20~", KEY_F(9)}, {"\033[21~", KEY_F(10)}, {"\033[23~", KEY_F(11)},
    {"\033[24~", KEY_F(12)},
};

void keys_define(void)
{
    for (size_t i = 0; i < ARRAY_LEN(USUAL); i++)
        if (key_defined(USUAL[i].sequence) == 0)
            define_key(USUAL[i].sequence, USUAL[i].curses);
    define_key(NULL, KEY_MOUSE);
}

static uint32_t function_key(int curses)
{
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
        if (KEYS[i].curses == curses)
            return KEYS[i].key;
    return curses >= KEY_F(1) && curses <= KEY_F(12) ? TOP_KEY_F1 + (uint32_t)(curses - KEY_F(1)) : 0;
}

static uint32_t character_key(const KeyReader *reader, wint_t c)
{
    switch (c) {
    case '\r':
    case '\n':
        return TOP_KEY_ENTER;
    case '\t':
        return TOP_KEY_TAB;
    case 0x08:
    case 0x7f:
        return TOP_KEY_BACKSPACE;
    default:
        return c < 0x80 || (!reader->ascii && c < TOP_KEY_UP) ? (uint32_t)c : 0;
    }
}

static bool read_on(wint_t *ret)
{
    return get_wch(ret) == OK;
}

/* A click or a turn of the wheel; false for anything else. Bits of the button: ctlseqs of xterm, "Mouse Tracking".
 */
static bool take_button(KeyReader *reader, unsigned button, int x, int y, uint64_t now_ns, KeyPress *ret)
{
    enum { MODIFIERS = 4 | 8 | 16, WHEEL = 64 };
    button &= ~(unsigned)MODIFIERS;
    *ret = (KeyPress){.mouse = button == WHEEL ? TOP_MOUSE_UP : TOP_MOUSE_DOWN, .x = x, .y = y};
    if (x < 0 || y < 0 || (button != 0 && button != WHEEL && button != WHEEL + 1))
        return false;
    if (button)
        return true;
    bool same = reader->click_ns && x == reader->click_x && y == reader->click_y;
    bool twice = same && now_ns - reader->click_ns <= DOUBLE_NS;
    ret->mouse = twice ? TOP_MOUSE_DOUBLE : TOP_MOUSE_CLICK;
    reader->click_ns = twice ? 0 : now_ns;
    reader->click_x = x;
    reader->click_y = y;
    return true;
}

/* After ESC [ <: button ; column ; row M, or m where it is let go. */
static bool read_mouse(KeyReader *reader, uint64_t now_ns, KeyPress *ret)
{
    unsigned numbers[3] = {0};
    size_t i = 0;
    wint_t c = 0;
    while (read_on(&c) && ((c >= '0' && c <= '9') || c == ';')) {
        i += c == ';';
        if (i >= ARRAY_LEN(numbers) || numbers[i] > UINT16_MAX)
            return false;
        if (c != ';')
            numbers[i] = numbers[i] * 10 + (c - '0');
    }
    bool pressed = c == 'M' && i == 2;
    return pressed && take_button(reader, numbers[0], (int)numbers[1] - 1, (int)numbers[2] - 1, now_ns, ret);
}

/* After ESC [ M, of terminals without SGR mode: three characters. */
static bool read_old_mouse(KeyReader *reader, uint64_t now_ns, KeyPress *ret)
{
    wint_t button = 0, x = 0, y = 0;
    bool all = read_on(&button) && read_on(&x) && read_on(&y);
    return all && button >= 32 && take_button(reader, button - 32, (int)x - 33, (int)y - 33, now_ns, ret);
}

/* After ESC [: the mouse, or an unknown sequence up to its final letter (ECMA-48 section 5.4), which is skipped. */
static bool read_control(KeyReader *reader, uint64_t now_ns, KeyPress *ret)
{
    wint_t c = 0;
    if (!read_on(&c))
        return false;
    if (c == '<')
        return read_mouse(reader, now_ns, ret);
    if (c == 'M')
        return read_old_mouse(reader, now_ns, ret);
    for (int i = 0; i < SEQUENCE_MAX && (c < 0x40 || c > 0x7e) && read_on(&c); i++)
        ;
    return false;
}

/* Skips a terminal's report: ESC ] ... BELL or ESC \ and similar (ECMA-48 section 5.6). */
static void skip_text(void)
{
    wint_t c = 0, before = 0;
    for (int i = 0; i < SEQUENCE_MAX && read_on(&c); i++) {
        if (c == BELL || (before == ESCAPE && c == '\\'))
            return;
        before = c;
    }
}

/* After ESC: alone or twice it is the Escape key; with a character at once it is Alt and a key, the mouse, or unknown.
 */
static bool read_escape(KeyReader *reader, uint64_t now_ns, KeyPress *ret)
{
    wint_t c = 0;
    int rc = get_wch(&c);
    if (rc == ERR || (rc == OK && c == ESCAPE)) {
        *ret = (KeyPress){.key = TOP_KEY_ESCAPE};
        return true;
    }
    if (rc == OK && c == '[')
        return read_control(reader, now_ns, ret);
    if (rc == OK && c == 'O')
        (void)read_on(&c);
    if (rc == OK && (c == ']' || c == 'P' || c == '^' || c == '_'))
        skip_text();
    return false;
}

bool keys_read(KeyReader *reader, uint64_t now_ns, KeyPress *ret)
{
    wint_t c = 0;
    int rc;
    while ((rc = get_wch(&c)) != ERR) {
        if (rc == OK && c == ESCAPE) {
            if (read_escape(reader, now_ns, ret))
                return true;
            continue;
        }
        *ret = (KeyPress){.key = rc == KEY_CODE_YES ? function_key((int)c) : character_key(reader, c)};
        if (ret->key)
            return true;
    }
    return false;
}
