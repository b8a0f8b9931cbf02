/* SPDX-License-Identifier: Apache-2.0 */
/* What steps are called. */
#include "engine/trace/step_name.h"

#include <string.h>
#include <strings.h>

enum { DIGITS_MAX = 15 };

bool trace_is_step_name(const char *name, size_t len)
{
    static const char word[] = "ProfilerStep";

    return len >= sizeof(word) - 1 && memcmp(name, word, sizeof(word) - 1) == 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The last word of what stands before the number, without what joins the two. */
static bool ends_in_step_word(const char *name, size_t len)
{
    static const char *const words[] = {"step", "iteration", "iter", "train", "batch"};
    size_t from;

    while (len > 0 && strchr(" #_-:=", name[len - 1]) && name[len - 1])
        len--;
    for (from = len; from > 0 && is_letter(name[from - 1]);)
        from--;
    if (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (len - from == strlen(words[i]) && strncasecmp(name + from, words[i], len - from) == 0)
            return true;
    return false;
}

bool trace_is_step_like(const char *name, size_t len, int64_t *ret_number, size_t *ret_family)
{
    size_t from = len;
    int64_t number = 0;

    while (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9')
        from--;
    if (from == len || len - from > DIGITS_MAX || !ends_in_step_word(name, from))
        return false;
    for (size_t i = from; i < len; i++)
        number = number * 10 + (name[i] - '0');
    *ret_number = number;
    *ret_family = from;
    return true;
}
