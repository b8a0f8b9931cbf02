/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of blocks between two threads. */
#include "verb/trace/pump.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct Block {
    size_t len, used;
    char bytes[PUMP_BLOCK];
} Block;

struct Pump {
    PumpRead read;
    void *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first, filled; /* blocks that wait to be read */
    bool ended, cancelled;
    int rc; /* of the read that failed */
    Err err;
    Block blocks[PUMP_BLOCKS];
};

/* Fills a block as far as the source gives something. Returns 0 at the end, -errno. */
static ssize_t fill(Pump *pump, Block *block)
{
    ssize_t n = 0;

    block->len = block->used = 0;
    while (block->len < PUMP_BLOCK &&
           (n = pump->read(pump->context, block->bytes + block->len, PUMP_BLOCK - block->len, &pump->err)) > 0)
        block->len += (size_t)n;
    return n;
}

static void *work(void *context)
{
    Pump *pump = context;
    ssize_t n = 1;

    pthread_mutex_lock(&pump->lock);
    while (n > 0) {
        while (pump->filled == PUMP_BLOCKS && !pump->cancelled)
            pthread_cond_wait(&pump->changed, &pump->lock);
        if (pump->cancelled)
            break;
        Block *block = &pump->blocks[(pump->first + pump->filled) % PUMP_BLOCKS];
        pthread_mutex_unlock(&pump->lock);
        n = fill(pump, block);
        pthread_mutex_lock(&pump->lock);
        pump->filled += block->len > 0;
        pump->rc = n < 0 ? (int)n : 0;
        pump->ended = n <= 0;
        pthread_cond_signal(&pump->changed);
    }
    pthread_mutex_unlock(&pump->lock);
    return NULL;
}

Pump *pump_start(PumpRead read, void *context)
{
    Pump *pump = xmalloc(sizeof *pump);

    memset(pump, 0, offsetof(Pump, blocks));
    pump->read = read;
    pump->context = context;
    pthread_mutex_init(&pump->lock, NULL);
    pthread_cond_init(&pump->changed, NULL);
    if (pthread_create(&pump->thread, NULL, work, pump) == 0)
        return pump;
    free(pump);
    return NULL;
}

ssize_t pump_read(Pump *pump, void *buffer, size_t len, Err *err)
{
    pthread_mutex_lock(&pump->lock);
    while (pump->filled == 0 && !pump->ended)
        pthread_cond_wait(&pump->changed, &pump->lock);
    bool empty = pump->filled == 0;
    Block *block = &pump->blocks[pump->first];
    pthread_mutex_unlock(&pump->lock);
    if (empty)
        return pump->rc < 0 ? err_set(err, pump->rc, "%s", pump->err.text) : 0;
    size_t n = block->len - block->used;
    n = n < len ? n : len;
    memcpy(buffer, block->bytes + block->used, n);
    block->used += n;
    if (block->used < block->len)
        return (ssize_t)n;
    pthread_mutex_lock(&pump->lock);
    pump->first = (pump->first + 1) % PUMP_BLOCKS;
    pump->filled--;
    pthread_cond_signal(&pump->changed);
    pthread_mutex_unlock(&pump->lock);
    return (ssize_t)n;
}

void pump_stop(Pump *pump)
{
    if (!pump)
        return;
    pthread_mutex_lock(&pump->lock);
    pump->cancelled = true;
    pthread_cond_signal(&pump->changed);
    pthread_mutex_unlock(&pump->lock);
    pthread_join(pump->thread, NULL);
    pthread_cond_destroy(&pump->changed);
    pthread_mutex_destroy(&pump->lock);
    free(pump);
}
