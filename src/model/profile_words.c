/* SPDX-License-Identifier: Apache-2.0 */
/* What the names of copies say, in the words of CUPTI, roctracer and Nsight Systems. */
#include <string.h>
#include <strings.h>

#include "base/owner.h"
#include "model/profile_inside.h"

typedef struct Word {
    const char *text;
    uint8_t value;
} Word;

static const Word directions[] = {
    {"memset", PROFILE_COPY_SET},
    {"fill", PROFILE_COPY_SET},
    {"htod", PROFILE_COPY_HTOD},
    {"hosttodevice", PROFILE_COPY_HTOD},
    {"host-to-device", PROFILE_COPY_HTOD},
    {"dtoh", PROFILE_COPY_DTOH},
    {"devicetohost", PROFILE_COPY_DTOH},
    {"device-to-host", PROFILE_COPY_DTOH},
    {"dtod", PROFILE_COPY_DTOD},
    {"devicetodevice", PROFILE_COPY_DTOD},
    {"device-to-device", PROFILE_COPY_DTOD},
    {"ptop", PROFILE_COPY_PTOP},
    {"peertopeer", PROFILE_COPY_PTOP},
    {"peer-to-peer", PROFILE_COPY_PTOP},
    {"htoh", PROFILE_COPY_HTOH},
    {"hosttohost", PROFILE_COPY_HTOH},
    {"host-to-host", PROFILE_COPY_HTOH},
};

static const Word memories[] = {
    {"pageable", PROFILE_MEMORY_PAGEABLE}, {"pinned", PROFILE_MEMORY_PINNED},   {"device", PROFILE_MEMORY_DEVICE},
    {"array", PROFILE_MEMORY_ARRAY},       {"managed", PROFILE_MEMORY_MANAGED}, {"unified", PROFILE_MEMORY_MANAGED},
};

static uint8_t word_in(const Word *words, size_t count, const char *text, size_t len)
{
    for (size_t w = 0; w < count; w++) {
        const size_t size = strlen(words[w].text);

        for (size_t i = 0; i + size <= len; i++)
            if (strncasecmp(text + i, words[w].text, size) == 0)
                return words[w].value;
    }
    return 0;
}

void profile_copy_words(const char *name, size_t len, ProfileCopy *copy)
{
    const char *open = memchr(name, '(', len);
    const size_t head = open ? (size_t)(open - name) : len;

    copy->kind = word_in(directions, ARRAY_LEN(directions), name, head);
    copy->source = copy->target = PROFILE_MEMORY_UNKNOWN;
    if (!open)
        return;
    const char *arrow = memmem(open, len - head, "->", 2);
    const size_t left = arrow ? (size_t)(arrow - open) : len - head;

    copy->source = word_in(memories, ARRAY_LEN(memories), open, left);
    if (arrow)
        copy->target = word_in(memories, ARRAY_LEN(memories), arrow, len - head - left);
    else if (copy->kind == PROFILE_COPY_SET) {
        copy->target = copy->source;
        copy->source = PROFILE_MEMORY_UNKNOWN;
    }
}
