/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include <stdlib.h>
#include <string.h>

uint8_t feed_byte(Feed *feed)
{
    if (!feed->size)
        return 0;
    feed->size--;
    return *feed->data++;
}

static uint64_t feed_bits(Feed *feed, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)feed_byte(feed) << (8 * i);
    return v;
}

uint64_t feed_value(Feed *feed)
{
    static const uint64_t edges[] = {UINT64_MAX, UINT32_MAX, INT32_MAX,   (uint64_t)INT32_MIN,
                                     INT64_MAX,  1u << 16,   0x80000000u, 255,
                                     256,        1000,       700000,      4095};
    uint8_t how = feed_byte(feed);
    if (how < 192)
        return how % 48;
    if (how < 216)
        return edges[how % (sizeof edges / sizeof *edges)];
    return feed_bits(feed, how < 236 ? 4 : 8);
}

static void *keep(Feed *feed, void *room)
{
    if (!room || feed->room_count == FEED_ROOMS_MAX)
        abort();
    return feed->rooms[feed->room_count++] = room;
}

void *feed_room(Feed *feed, size_t size, int tagged)
{
    uint8_t how = feed_byte(feed);
    if (how == 255)
        return NULL;
    uint8_t *room = keep(feed, malloc(size ? size : 1));
    if (size == 0)
        room = (uint8_t *)feed->rooms[feed->room_count - 1] + 1; /* nothing of it may be touched */
    memset(room, how, size);
    if (!tagged)
        return room;
    size_t given = how % 4 == 3 ? feed->size : 32; /* the members of most structs */
    for (size_t i = 4; i < size && i < 4 + given && feed->size; i++)
        room[i] = feed_byte(feed);
    uint8_t version = feed_byte(feed);
    uint32_t tag = version == 255  ? (uint32_t)feed_bits(feed, 4)
                   : version > 250 ? 1
                                   : (uint32_t)(size - (version & 16 ? 4 : 0)) | (version % 4u + 1u) << 24;
    if (size >= sizeof tag)
        memcpy(room, &tag, sizeof tag);
    return room;
}

const char *feed_text(Feed *feed)
{
    size_t len = feed_byte(feed) % 96;
    if (len == 95)
        return NULL;
    len = len < feed->size ? len : feed->size;
    char *text = keep(feed, malloc(len + 1));
    memcpy(text, feed->data, len);
    text[len] = '\0';
    feed->data += len;
    feed->size -= len;
    return text;
}

void feed_end(Feed *feed)
{
    while (feed->room_count)
        free(feed->rooms[--feed->room_count]);
}
