/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/keys.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "service/top/top.h"

static const struct {
    const char *name;
    uint32_t key;
} names[] = {
    {"up", TOP_KEY_UP},
    {"down", TOP_KEY_DOWN},
    {"left", TOP_KEY_LEFT},
    {"right", TOP_KEY_RIGHT},
    {"pgup", TOP_KEY_PAGE_UP},
    {"pgdn", TOP_KEY_PAGE_DOWN},
    {"home", TOP_KEY_HOME},
    {"end", TOP_KEY_END},
    {"enter", TOP_KEY_ENTER},
    {"esc", TOP_KEY_ESCAPE},
    {"backspace", TOP_KEY_BACKSPACE},
    {"tab", TOP_KEY_TAB},
    {"backtab", TOP_KEY_BACK_TAB},
    {"delete", TOP_KEY_DELETE},
    {"space", ' '},
};

static bool function_key(const char *word, size_t len, uint32_t *ret)
{
    uint64_t number;

    if (len < 2 || (word[0] != 'F' && word[0] != 'f') || number_parsen_u64(word + 1, len - 1, 1, 12, &number, NULL) < 0)
        return false;
    *ret = TOP_KEY_F1 + (uint32_t)number - 1;
    return true;
}

static int parse_one(const char *word, size_t len, uint32_t *ret, Err *err)
{
    uint32_t character;

    if (utf8_read(word, len, &character) == len) {
        *ret = character;
        return 0;
    }
    if (function_key(word, len, ret))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i].name) == len && strncasecmp(names[i].name, word, len) == 0) {
            *ret = names[i].key;
            return 0;
        }
    return err_set(
        err, -EINVAL,
        "'%.*s' is no key: single characters are, F1 to F12, space, enter, esc, tab, backtab, up, down, left, "
        "right, pgup, pgdn, home, end, backspace, delete",
        (int)(len < 40 ? len : 40), word);
}

int keys_parse(const char *text, KeyList *ret, Err *err)
{
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");
        uint32_t key = 0;

        TRY(parse_one(at, len, &key, err));
        vec_push(ret, key);
        at += len;
    }
    return 0;
}
