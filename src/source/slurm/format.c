/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/format.h"

#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/number.h"

enum { GPUS_MAX = 1 << 20 };

bool slurm_word_is(SlurmWord word, const char *text)
{
    return word.at && strlen(text) == word.len && memcmp(word.at, text, word.len) == 0;
}

bool slurm_word_next(SlurmWord *list, char by, SlurmWord *ret)
{
    size_t len = 0, depth = 0;

    if (!list->at)
        return false;
    for (; len < list->len && (list->at[len] != by || depth > 0); len++) {
        depth += by == ',' && (list->at[len] == '(' || list->at[len] == '[');
        depth -= (list->at[len] == ')' || list->at[len] == ']') && depth > 0;
    }
    *ret = (SlurmWord){list->at, len};
    *list = len < list->len ? (SlurmWord){list->at + len + 1, list->len - len - 1} : (SlurmWord){0};
    return true;
}

bool slurm_next_line(SlurmWord *rest, unsigned long *line, SlurmWord *ret)
{
    while (slurm_word_next(rest, '\n', ret)) {
        ++*line;
        ret->len -= ret->len > 0 && ret->at[ret->len - 1] == '\r';
        if (ret->len > 0)
            return true;
    }
    return false;
}

uint64_t slurm_read_limit(const char *text)
{
    static const uint64_t scales[] = {1, 60, 3600};
    const size_t len = strspn(text, "0123456789:-");
    uint64_t parts[4] = {0}, days = 0, seconds = 0;
    size_t count = 0;

    for (size_t at = 0; at < len && count < ARRAY_LEN(parts);) {
        const size_t digits = strspn(text + at, "0123456789");

        if (number_parsen_u64(text + at, digits, 0, 1000000, &parts[count++], NULL) < 0)
            return 0;
        at += digits;
        if (text[at] == '-' && count == 1)
            days = parts[--count];
        at++;
    }
    for (size_t i = 0; i < count && i < ARRAY_LEN(scales); i++)
        seconds += parts[count - 1 - i] * scales[i];
    return days * 86400 + seconds;
}

uint64_t slurm_read_time(SlurmWord word)
{
    struct tm at = {0};
    char text[32];

    if (!word.at || word.len >= sizeof text)
        return 0;
    memcpy(text, word.at, word.len);
    text[word.len] = '\0';
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &at);
    const time_t seconds = end && !*end ? timegm(&at) : -1;

    return seconds > 0 ? (uint64_t)seconds : 0;
}

bool slurm_read_mib(SlurmWord word, double *ret)
{
    static const struct {
        char unit;
        double mib;
    } units[] = {{'K', 1. / 1024}, {'M', 1}, {'G', 1024}, {'T', 1048576}, {'P', 1073741824}};
    size_t len = 0;
    double value, mib = 1;

    while (len < word.len && strchr("0123456789.", word.at[len]))
        len++;
    if (len == 0 || number_parsen_double(word.at, len, 0, 1e15, &value, NULL) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units) && len < word.len; i++)
        if (word.at[len] == units[i].unit)
            mib = units[i].mib;
    *ret = value * mib;
    return true;
}

SlurmWord slurm_find_tres(SlurmWord list, const char *key)
{
    const size_t len = strlen(key);
    SlurmWord part;

    while (slurm_word_next(&list, ',', &part))
        if (part.len > len && part.at[len] == '=' && memcmp(part.at, key, len) == 0)
            return (SlurmWord){part.at + len + 1, part.len - len - 1};
    return (SlurmWord){0};
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

static void mark_device(void *at, uint64_t number)
{
    *(uint16_t *)at |= (uint16_t)(1U << number);
}

/* Of "(IDX:0,3)" the devices; 0 where they are not told. */
static uint16_t read_devices(SlurmWord behind)
{
    static const char begin[] = "(IDX:";
    char list[256];
    uint16_t devices = 0;

    if (behind.len < sizeof begin || memcmp(behind.at, begin, sizeof begin - 1) != 0 || behind.len >= sizeof list)
        return 0;
    memcpy(list, behind.at + sizeof begin - 1, behind.len - sizeof begin);
    list[behind.len - sizeof begin] = '\0';
    return number_walk_list(list, 15, mark_device, &devices) ? devices : 0;
}

static bool skip_text(SlurmWord *word, const char *text)
{
    const size_t len = strlen(text);

    if (word->len < len || memcmp(word->at, text, len) != 0)
        return false;
    *word = (SlurmWord){word->at + len, word->len - len};
    return true;
}

/* One item: "gpu", "gpu:2", "gpu:h100:2(IDX:0-1)", "gpu=2", "gpu:h100=2", with "gres:" or "gres/" before it. */
static bool read_item(SlurmWord item, SlurmWord *ret_type, uint64_t *ret_count, uint16_t *ret_devices)
{
    SlurmWord behind = {0};

    if (!skip_text(&item, "gres:"))
        (void)skip_text(&item, "gres/");
    if (!skip_text(&item, "gpu") || (item.len > 0 && !strchr(":=(", item.at[0])))
        return false;
    const char *open = item.len ? memchr(item.at, '(', item.len) : NULL;
    if (open) {
        behind = (SlurmWord){open, item.len - (size_t)(open - item.at)};
        item.len -= behind.len;
    }
    size_t number = item.len;
    while (number > 0 && !strchr(":=", item.at[number - 1]))
        number--;
    *ret_count = 1;
    if (number > 0 && number_parsen_u64(item.at + number, item.len - number, 0, GPUS_MAX, ret_count, NULL) == 0)
        item.len = number - 1;
    else if (number > 0 && item.at[number - 1] == '=')
        return false;
    *ret_type = item.len > 1 ? (SlurmWord){item.at + 1, item.len - 1} : (SlurmWord){0};
    *ret_devices = behind.at ? read_devices(behind) : 0;
    return true;
}

SlurmGpus slurm_read_gpus(SlurmWord list)
{
    uint64_t untyped = 0, typed = 0, count;
    SlurmGpus gpus = {0};
    SlurmWord item, type;
    uint16_t devices;

    while (slurm_word_next(&list, ',', &item)) {
        if (!item.len || !read_item(item, &type, &count, &devices))
            continue;
        if (!type.at) {
            untyped += count;
            gpus.devices = gpus.kinds ? gpus.devices : devices;
            continue;
        }
        typed += count;
        gpus.kinds++;
        if (!gpus.type.at || count > gpus.of_type) {
            gpus.type = type;
            gpus.of_type = (uint32_t)count;
            gpus.devices = devices;
        }
    }
    gpus.count = (uint32_t)number_min_u64(number_max_u64(untyped, typed), GPUS_MAX);
    return gpus;
}
