/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent over bytes. Texts are copied into one room as large as what is read, as none becomes longer. */
#include "wire/json/tree.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

enum { ITEMS_AT_ONCE = 128 };

typedef struct Parser {
    const char *start, *at, *end;
    Arena *arena;
    JsonItem *items; /* not used yet */
    size_t item_count;
    char *room; /* for texts */
    const char *wrong;
    int rc;
} Parser;

static bool fail(Parser *p, const char *what)
{
    if (!p->wrong) {
        p->wrong = what;
        p->rc = -EINVAL;
    }
    return false;
}

static JsonItem *new_item(Parser *p)
{
    if (p->item_count == 0) {
        p->items = arena_calloc(p->arena, ITEMS_AT_ONCE, sizeof *p->items);
        p->item_count = ITEMS_AT_ONCE;
    }
    p->item_count--;
    return p->items++;
}

static void skip_blanks(Parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
}

static bool take(Parser *p, char c)
{
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool take_word(Parser *p, const char *word)
{
    const size_t len = strlen(word);

    if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0)
        return fail(p, "no value");
    p->at += len;
    return true;
}

/* --- texts ---------------------------------------------------------------------------------------------------------
 */

static bool hex4(Parser *p, uint32_t *ret)
{
    uint64_t value;

    if (p->end - p->at < 4 || number_parsen_hex(p->at, 4, 0xffff, &value, NULL) < 0 || p->at[1] == 'x' ||
        p->at[1] == 'X')
        return fail(p, "four hexadecimal digits are needed");
    p->at += 4;
    *ret = (uint32_t)value;
    return true;
}

static bool unicode(Parser *p)
{
    uint32_t high, low;

    if (!hex4(p, &high))
        return false;
    if (high >= 0xdc00 && high <= 0xdfff)
        return fail(p, "half a character");
    if (high >= 0xd800 && high <= 0xdbff) {
        if (!take(p, '\\') || !take(p, 'u') || !hex4(p, &low) || low < 0xdc00 || low > 0xdfff)
            return fail(p, "half a character");
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    if (high == 0)
        return fail(p, "a NUL in a text");
    p->room += utf8_write(p->room, high);
    return true;
}

static bool escape(Parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

    if (p->at == p->end)
        return fail(p, "a text without an end");
    const char c = *p->at++;
    const char *found = c ? strchr(from, c) : NULL;
    if (c == 'u')
        return unicode(p);
    if (!found)
        return fail(p, "no escape sequence");
    *p->room++ = to[found - from];
    return true;
}

static bool beyond_ascii(Parser *p)
{
    uint32_t c;
    const size_t len = utf8_read(p->at, (size_t)(p->end - p->at), &c);

    if (len == 0)
        return fail(p, "bytes that are no UTF-8");
    memcpy(p->room, p->at, len);
    p->room += len;
    p->at += len;
    return true;
}

/* A byte of each that is not 0 where the byte of `word` does not stand for itself: it is a quote, a backslash, a
 * control character or beyond ASCII. Above the first such byte others may be marked too, as a borrow goes upwards. */
static uint64_t special(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    const uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';

    return ((quote - ones) | (backslash - ones) | (word - ones * 0x20) | word) & highs;
}

/* What stands for itself, eight bytes at once. The room has a byte for each that is still to be read. */
static void plain(Parser *p)
{
    while (p->end - p->at >= (ptrdiff_t)sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, p->at, sizeof word);
        memcpy(p->room, &word, sizeof word);
        const uint64_t found = special(le64toh(word));
        const int plain_bytes = found ? __builtin_ctzll(found) / 8 : 8;
        p->at += plain_bytes;
        p->room += plain_bytes;
        if (found)
            return;
    }
    while (p->at < p->end && *p->at != '"' && *p->at != '\\' && (unsigned char)*p->at >= 0x20 &&
           (unsigned char)*p->at < 0x80)
        *p->room++ = *p->at++;
}

/* Behind its first quote. */
static bool take_text(Parser *p, const char **ret)
{
    *ret = p->room;
    for (;;) {
        plain(p);
        if (p->at == p->end)
            return fail(p, "a text without an end");
        const unsigned char c = (unsigned char)*p->at;
        if (c == '"')
            break;
        if (c < 0x20)
            return fail(p, "a control character in a text");
        if (c == '\\') {
            p->at++;
            if (!escape(p))
                return false;
        } else if (!beyond_ascii(p)) {
            return false;
        }
    }
    p->at++;
    *p->room++ = '\0';
    return true;
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */

static size_t digits(Parser *p)
{
    const char *from = p->at;

    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    return (size_t)(p->at - from);
}

static bool real_number(Parser *p, const char *from, JsonItem *item)
{
    item->kind = JSON_IS_REAL;
    if (number_parsen_double(from, (size_t)(p->at - from), -HUGE_VAL, HUGE_VAL, &item->real, NULL) == 0 &&
        isfinite(item->real))
        return true;
    fail(p, "a number that is too large");
    p->rc = -ERANGE;
    return false;
}

static bool whole_number(const char *from, const char *to, int64_t *ret)
{
    const bool negative = *from == '-';
    uint64_t value;

    if (number_parsen_u64(from + negative, (size_t)(to - from - negative), 0, INT64_MAX, &value, NULL) < 0)
        return false;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool take_number(Parser *p, JsonItem *item)
{
    const char *from = p->at;
    bool whole = true;

    take(p, '-');
    const char *first = p->at;
    if (digits(p) == 0 || (*first == '0' && p->at - first > 1))
        return fail(p, "no value");
    if (take(p, '.')) {
        whole = false;
        if (digits(p) == 0)
            return fail(p, "a number without digits behind its point");
    }
    if (take(p, 'e') || take(p, 'E')) {
        whole = false;
        if (!take(p, '+'))
            take(p, '-');
        if (digits(p) == 0)
            return fail(p, "a number without digits in its exponent");
    }
    item->kind = JSON_IS_WHOLE;
    return (whole && whole_number(from, p->at, &item->whole)) || real_number(p, from, item);
}

/* --- lists and maps ------------------------------------------------------------------------------------------------
 */

static bool take_value(Parser *p, JsonItem *item, unsigned depth);

static bool take_member(Parser *p, JsonItem *item, bool map, unsigned depth)
{
    skip_blanks(p);
    if (map) {
        if (!take(p, '"'))
            return fail(p, "no name of a member");
        if (!take_text(p, &item->name))
            return false;
        skip_blanks(p);
        if (!take(p, ':'))
            return fail(p, "no ':' behind a name");
        skip_blanks(p);
    }
    if (!take_value(p, item, depth + 1))
        return false;
    skip_blanks(p);
    return true;
}

static bool take_members(Parser *p, JsonItem *item, bool map, unsigned depth)
{
    const char *from = p->at++, end = map ? '}' : ']';
    JsonItem *last = NULL;

    if (depth == JSON_TREE_DEPTH_MAX)
        return fail(p, "lists in lists, too deep");
    item->kind = map ? JSON_IS_MAP : JSON_IS_LIST;
    skip_blanks(p);
    while (!take(p, end)) {
        if (last && !take(p, ','))
            return fail(p, map ? "no ',' or '}'" : "no ',' or ']'");
        JsonItem *member = new_item(p);
        if (!take_member(p, member, map, depth))
            return false;
        if (last)
            last->next = member;
        else
            item->first = member;
        last = member;
        item->count++;
    }
    item->raw = from;
    item->raw_len = (size_t)(p->at - from);
    return true;
}

static bool take_value(Parser *p, JsonItem *item, unsigned depth)
{
    switch (p->at < p->end ? *p->at : '\0') {
    case '{':
        return take_members(p, item, true, depth);
    case '[':
        return take_members(p, item, false, depth);
    case '"':
        p->at++;
        item->kind = JSON_IS_TEXT;
        return take_text(p, &item->text);
    case 't':
        item->kind = JSON_IS_BOOL;
        item->truth = true;
        return take_word(p, "true");
    case 'f':
        item->kind = JSON_IS_BOOL;
        return take_word(p, "false");
    case 'n':
        item->kind = JSON_IS_NULL;
        return take_word(p, "null");
    default:
        return take_number(p, item);
    }
}

int json_tree_read(const char *text, size_t len, Arena *arena, const JsonItem **ret, Err *err)
{
    Parser p = {.start = text, .at = text, .end = text + len, .arena = arena};
    JsonItem *root = new_item(&p);

    p.room = arena_alloc(arena, len + 1);
    skip_blanks(&p);
    bool fine = take_value(&p, root, 0);
    skip_blanks(&p);
    if (fine && p.at != p.end)
        fine = fail(&p, "something behind the value");
    if (!fine)
        return err_set(err, p.rc, "byte %zu of the JSON: %s", (size_t)(p.at - p.start), p.wrong);
    *ret = root;
    return 0;
}

/* --- looking -------------------------------------------------------------------------------------------------------
 */

bool json_is(const JsonItem *item, JsonKind kind)
{
    return item && item->kind == kind;
}

const JsonItem *json_first(const JsonItem *item)
{
    return json_is(item, JSON_IS_MAP) || json_is(item, JSON_IS_LIST) ? item->first : NULL;
}

size_t json_count(const JsonItem *item)
{
    return json_is(item, JSON_IS_MAP) || json_is(item, JSON_IS_LIST) ? item->count : 0;
}

const JsonItem *json_member(const JsonItem *item, const char *name)
{
    if (!json_is(item, JSON_IS_MAP))
        return NULL;
    for (const JsonItem *member = item->first; member; member = member->next)
        if (member->name[0] == name[0] && strcmp(member->name, name) == 0) /* most differ at once */
            return member;
    return NULL;
}

bool json_number(const JsonItem *item, double *ret)
{
    if (json_is(item, JSON_IS_WHOLE))
        *ret = (double)item->whole;
    else if (json_is(item, JSON_IS_REAL))
        *ret = item->real;
    else
        return false;
    return true;
}

const char *json_text(const JsonItem *item)
{
    return json_is(item, JSON_IS_TEXT) ? item->text : NULL;
}
