/* SPDX-License-Identifier: Apache-2.0 */
/* AddressSanitizer maps each block of more than a hundred kilobytes anew, and a target that needs some in every run
 * spends a third of its time on that. Linked with --wrap of malloc, calloc, realloc and free, this keeps such blocks
 * between runs: poisoned while nobody has them, given out again for the very same size. What is freed twice is no
 * longer used, and so goes to AddressSanitizer, which stops the program as it does for any block. Any thread. */
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { ROOM_LEAST = 90 << 10, ROOM_MOST = 4 << 20, ROOMS_MAX = 16 };

#define PLAIN __attribute__((no_sanitize("coverage"))) /* no path of the target's */

typedef struct Room {
    void *at;
    size_t size;
    bool used;
} Room;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void __real_free(void *at);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
void __wrap_free(void *at);

static Room rooms[ROOMS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A free room of that size, or a new one where there is a place for it; NULL where not. */
PLAIN static void *take_room(size_t size)
{
    Room *found = NULL;

    for (size_t i = 0; i < ROOMS_MAX && !(found && found->at); i++)
        if ((!rooms[i].at && !found) || (!rooms[i].used && rooms[i].size == size))
            found = &rooms[i];
    if (!found)
        return NULL;
    if (!found->at)
        *found = (Room){__real_malloc(size), size, false};
    found->used = found->at != NULL;
    __asan_unpoison_memory_region(found->at, size);
    return found->at;
}

PLAIN static Room *room_of(const void *at)
{
    for (size_t i = 0; i < ROOMS_MAX; i++)
        if (rooms[i].used && rooms[i].at == at)
            return &rooms[i];
    return NULL;
}

PLAIN void *__wrap_malloc(size_t size)
{
    if (size < ROOM_LEAST || size > ROOM_MOST)
        return __real_malloc(size);
    pthread_mutex_lock(&lock);
    void *at = take_room(size);
    pthread_mutex_unlock(&lock);
    return at ? at : __real_malloc(size);
}

PLAIN void *__wrap_calloc(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes < ROOM_LEAST || bytes > ROOM_MOST)
        return __real_calloc(count, size);
    void *at = __wrap_malloc(bytes);
    return at ? memset(at, 0, bytes) : NULL;
}

PLAIN void __wrap_free(void *at)
{
    pthread_mutex_lock(&lock);
    Room *room = at ? room_of(at) : NULL;
    if (room) {
        __asan_poison_memory_region(room->at, room->size);
        room->used = false;
    }
    pthread_mutex_unlock(&lock);
    if (!room)
        __real_free(at);
}

PLAIN void *__wrap_realloc(void *at, size_t size)
{
    if (!at)
        return __wrap_malloc(size);
    pthread_mutex_lock(&lock);
    const Room *room = room_of(at);
    const size_t old = room ? room->size : 0;
    pthread_mutex_unlock(&lock);
    if (!room)
        return __real_realloc(at, size);
    void *other = __wrap_malloc(size);
    if (other) {
        memcpy(other, at, old < size ? old : size);
        __wrap_free(at);
    }
    return other;
}
