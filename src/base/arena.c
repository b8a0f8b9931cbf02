/* SPDX-License-Identifier: Apache-2.0 */
/* The arena. Invariants: blocks after `current` are empty; what is not handed out is poisoned under ASan. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/redzone.h"

struct ArenaBlock {
    ArenaBlock *next;
    size_t size; /* bytes of data */
    size_t used;
    size_t pad; /* keeps data aligned to ARENA_ALIGN */
    unsigned char data[];
};

_Static_assert(offsetof(ArenaBlock, data) % ARENA_ALIGN == 0, "a block's data is aligned");

static ArenaBlock *block_new(size_t size)
{
    ArenaBlock *block = xmalloc(sizeof(*block) + size);

    *block = (ArenaBlock){.size = size};
    redzone_close(block->data, size);
    return block;
}

static void chain_free(ArenaBlock *block)
{
    while (block) {
        ArenaBlock *next = block->next;

        redzone_open(block->data, block->size);
        free(block);
        block = next;
    }
}

void arena_init(Arena *arena, size_t block_bytes)
{
    if (!block_bytes)
        block_bytes = ARENA_BLOCK_DEFAULT;
    if (block_bytes < ARENA_BLOCK_MIN)
        block_bytes = ARENA_BLOCK_MIN;
    *arena = (Arena){.block_bytes = block_bytes};
}

void arena_done(Arena *arena)
{
    chain_free(arena->first);
    chain_free(arena->large);
    arena_init(arena, arena->block_bytes);
}

void arena_reset(Arena *arena)
{
    chain_free(arena->large);
    arena->large = NULL;
    for (ArenaBlock *block = arena->first; block; block = block->next) {
        redzone_close(block->data, block->size);
        block->used = 0;
    }
    arena->current = arena->first;
    arena->used = 0;
}

static void *block_take(ArenaBlock *block, size_t room, size_t size)
{
    void *memory = block->data + block->used;

    block->used += room;
    redzone_open(memory, size);
    memset(memory, 0, size);
    return memory;
}

/* The block to take `room` bytes from: the current one, the next, or a new one at the end. */
static ArenaBlock *block_with(Arena *arena, size_t room)
{
    ArenaBlock *block = arena->current;

    if (block && block->size - block->used >= room)
        return block;
    if (block && block->next) {
        arena->current = block->next;
        return arena->current;
    }
    arena->current = block_new(arena->block_bytes);
    if (block)
        block->next = arena->current;
    else
        arena->first = arena->current;
    return arena->current;
}

void *arena_alloc(Arena *arena, size_t size)
{
    size_t room;

    if (!arena->block_bytes)
        arena_init(arena, 0);
    if (size > SIZE_MAX / 2)
        return xcalloc(SIZE_MAX, SIZE_MAX); /* aborts: no such memory */
    room = ((size ? size : 1) + REDZONE_BYTES + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    arena->used += room;
    if (room > arena->block_bytes) {
        ArenaBlock *block = block_new(room);

        block->next = arena->large;
        arena->large = block;
        return block_take(block, room, size);
    }
    return block_take(block_with(arena, room), room, size);
}

void *arena_calloc(Arena *arena, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return arena_alloc(arena, bytes);
}

void *arena_memdup(Arena *arena, const void *data, size_t size)
{
    void *copy = arena_alloc(arena, size);

    if (size)
        memcpy(copy, data, size);
    return copy;
}

char *arena_strndup(Arena *arena, const char *text, size_t len)
{
    char *copy = arena_alloc(arena, len < SIZE_MAX ? len + 1 : len);

    if (len)
        memcpy(copy, text, len);
    return copy;
}

char *arena_strdup(Arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(Arena *arena, const char *fmt, ...)
{
    va_list args, again;
    char *text;
    int len;

    va_start(args, fmt);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    text = arena_alloc(arena, len < 0 ? 1 : (size_t)len + 1);
    if (len > 0)
        vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}
