/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs and their text. No state, any thread. */

#include "model/cpulist.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = CPULIST_CPUS_MAX / 64 };

void cpulist_add(Cpulist *list, uint32_t cpu)
{
    assert(cpu < CPULIST_CPUS_MAX);
    list->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

bool cpulist_has(const Cpulist *list, uint32_t cpu)
{
    return cpu < CPULIST_CPUS_MAX && (list->words[cpu / 64] >> (cpu % 64) & 1) != 0;
}

uint32_t cpulist_count(const Cpulist *list)
{
    uint32_t count = 0;

    for (size_t i = 0; i < WORDS; i++)
        count += (uint32_t)__builtin_popcountll(list->words[i]);
    return count;
}

bool cpulist_equal(const Cpulist *a, const Cpulist *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool cpulist_next(const Cpulist *list, uint32_t from, uint32_t *ret_cpu)
{
    uint64_t mask = UINT64_MAX << (from % 64);

    for (size_t i = from / 64; i < WORDS; i++) {
        uint64_t word = list->words[i] & mask;

        if (word != 0) {
            *ret_cpu = (uint32_t)i * 64 + (uint32_t)__builtin_ctzll(word);
            return true;
        }
        mask = UINT64_MAX;
    }
    return false;
}

Cpulist cpulist_and(const Cpulist *a, const Cpulist *b)
{
    Cpulist both = {0};

    for (size_t i = 0; i < WORDS; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

static int take_number(const char **at, uint32_t *ret_number)
{
    uint32_t number = 0;

    if (**at < '0' || **at > '9')
        return -EINVAL;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        number = number * 10 + (uint32_t)(**at - '0');
        if (number >= CPULIST_CPUS_MAX)
            return -ERANGE;
    }
    *ret_number = number;
    return 0;
}

/* One number or one range, added to the list. */
static int take_range(const char **at, Cpulist *list)
{
    uint32_t first, last;
    int r = take_number(at, &first);

    if (r < 0)
        return r;
    last = first;
    if (**at == '-') {
        (*at)++;
        r = take_number(at, &last);
        if (r < 0)
            return r;
    }
    if (last < first)
        return -EINVAL;
    for (uint32_t cpu = first; cpu <= last; cpu++)
        cpulist_add(list, cpu);
    return 0;
}

static bool at_end(const char *at)
{
    return at[0] == '\0' || (at[0] == '\n' && at[1] == '\0');
}

int cpulist_parse(const char *text, Cpulist *ret_list)
{
    Cpulist list = {0};

    if (!at_end(text)) {
        for (;; text++) {
            int r = take_range(&text, &list);

            if (r < 0)
                return r;
            if (*text != ',')
                break;
        }
        if (!at_end(text))
            return -EINVAL;
    }
    *ret_list = list;
    return 0;
}

static uint32_t run_end(const Cpulist *list, uint32_t first)
{
    while (cpulist_has(list, first + 1))
        first++;
    return first;
}

int cpulist_format(const Cpulist *list, char *text, size_t size)
{
    size_t used = 0;
    uint32_t first;

    if (size > 0)
        text[0] = '\0';
    for (uint32_t from = 0; cpulist_next(list, from, &first);) {
        uint32_t last = run_end(list, first);
        char part[32];
        int length = snprintf(part, sizeof part, "%s%" PRIu32, used > 0 ? "," : "", first);

        if (last > first)
            length += snprintf(part + length, sizeof part - (size_t)length, "-%" PRIu32, last);
        if (used + (size_t)length >= size) {
            if (size > 0)
                text[0] = '\0';
            return -ENOSPC;
        }
        memcpy(text + used, part, (size_t)length + 1);
        used += (size_t)length;
        from = last + 1;
    }
    return size > 0 ? (int)used : -ENOSPC;
}
