/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Draws arguments from a fuzzer's input: numbers, texts, and memory of exactly the size that is asked for, so that
 * AddressSanitizer sees every byte too many. What was drawn lives until feed_end. One thread. */
#include <stddef.h>
#include <stdint.h>

enum { FEED_ROOMS_MAX = 16 };

typedef struct Feed {
    const uint8_t *data;
    size_t size;
    void *rooms[FEED_ROOMS_MAX];
    size_t room_count;
} Feed;

/* The next byte; 0 behind the end. */
uint8_t feed_byte(Feed *feed);
/* A number: small ones, limits, and any 32 or 64 bits. */
uint64_t feed_value(Feed *feed);
/* `size` bytes that may be written, or sometimes NULL; filled from the input. With `tagged` they begin with a struct's
 * version tag, mostly a right one. */
void *feed_room(Feed *feed, size_t size, int tagged);
/* A NUL-ended text, or sometimes NULL. */
const char *feed_text(Feed *feed);
/* Frees what was drawn. */
void feed_end(Feed *feed);
