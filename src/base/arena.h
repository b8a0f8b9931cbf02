/* SPDX-License-Identifier: Apache-2.0 */
/* A bump arena: many small allocations with one end, the tick or the request. arena_reset keeps the blocks, so a tick
 * that needs no more than the last one allocates nothing. Built with AddressSanitizer, what was not handed out and a
 * red zone behind each allocation are poisoned. The owner embeds it. One thread at a time. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/attribute.h"

enum { ARENA_ALIGN = 16, ARENA_BLOCK_MIN = 1024, ARENA_BLOCK_DEFAULT = 16 * 1024 };

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
    ArenaBlock *first;   /* chain of equal blocks, kept over a reset */
    ArenaBlock *current; /* the one handed out from; those after it are empty */
    ArenaBlock *large;   /* one block per allocation over a block's size; freed on reset */
    size_t block_bytes;
    size_t used; /* bytes handed out since the last reset */
} Arena;

/* An empty arena that grows in steps of `block_bytes` (0: ARENA_BLOCK_DEFAULT). Allocates nothing yet. A zeroed Arena
 * is as good as one initialised with 0. */
void arena_init(Arena *arena, size_t block_bytes);

/* Frees everything; accepts a zeroed or done one, and leaves an empty arena. */
void arena_done(Arena *arena);

/* Ends the life of everything handed out. Keeps the ordinary blocks, frees the large ones. */
void arena_reset(Arena *arena);

/* `size` zeroed bytes, aligned to ARENA_ALIGN. Never NULL. Lives until the next reset. */
void *arena_alloc(Arena *arena, size_t size) __attribute__((returns_nonnull));

/* count * size zeroed bytes; an overflow of the product aborts. */
void *arena_calloc(Arena *arena, size_t count, size_t size) __attribute__((returns_nonnull));

/* Copies: a text; `len` bytes of a text, with a NUL behind; `size` bytes. */
char *arena_strdup(Arena *arena, const char *text) __attribute__((returns_nonnull));
char *arena_strndup(Arena *arena, const char *text, size_t len) __attribute__((returns_nonnull));
void *arena_memdup(Arena *arena, const void *data, size_t size) __attribute__((returns_nonnull));

/* A formatted text. */
char *arena_printf(Arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) __attribute__((returns_nonnull));
