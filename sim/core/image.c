/* SPDX-License-Identifier: Apache-2.0 */
/* The image file: making, mapping, its lock and its texts. */
#include "sim/core/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "sim/core/plan.h"
#include "sim/core/seq.h"

enum { GPU_BYTES = SIM_SEG_MAX * sizeof(SimSeg) };
/* A file system with less room is refused: writing to a mapped page that finds none ends the process (SIGBUS). */
#define FREE_BYTES_MIN (32ull << 20)

static size_t image_bytes(uint32_t gpu_count)
{
    return sizeof(SimImage) + (size_t)gpu_count * GPU_BYTES;
}

static void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static SimImage *map_file(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int has_room(int fd)
{
    struct statvfs fs;
    if (fstatvfs(fd, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= FREE_BYTES_MIN)
        return 1;
    errno = ENOSPC;
    return 0;
}

SimImage *sim_image_create(const char *path, uint32_t gpu_count)
{
    if (gpu_count > SIM_GPU_MAX) {
        errno = EINVAL;
        return NULL;
    }
    unlink(path); /* processes that map an older image keep it */
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return NULL;
    SimImage *image = NULL;
    if (has_room(fd) && ftruncate(fd, (off_t)image_bytes(gpu_count)) == 0)
        image = map_file(fd, image_bytes(gpu_count));
    int saved = errno;
    if (!image)
        unlink(path);
    close(fd);
    errno = saved;
    if (!image)
        return NULL;
    image->layout = SIM_LAYOUT;
    image->bytes = image_bytes(gpu_count);
    image->gpu_count = gpu_count;
    image->text_used = 1;
    lock_init(&image->lock);
    return image;
}

/* A reader needs to write as well: clients change the node. A file that cannot be written is not a node. */
SimImage *sim_image_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct stat st;
    SimImage *image = NULL;
    int fail = EPROTO;
    if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(SimImage)) {
        image = map_file(fd, (size_t)st.st_size);
        fail = errno;
    }
    close(fd);
    if (image && (image->magic != SIM_MAGIC || image->layout != SIM_LAYOUT || image->gpu_count > SIM_GPU_MAX ||
                  image->bytes != (uint64_t)st.st_size || image->bytes != image_bytes(image->gpu_count))) {
        munmap(image, (size_t)st.st_size);
        image = NULL;
        fail = EPROTO;
    }
    errno = image ? 0 : fail;
    return image;
}

void sim_image_close(SimImage *image)
{
    if (image)
        munmap(image, (size_t)image->bytes);
}

uint32_t sim_text_add(SimImage *image, const char *text)
{
    size_t n = text ? strlen(text) + 1 : 1;
    if (n == 1)
        return 0;
    uint32_t at = seq_get(image->text_used);
    if (at + n > SIM_TEXT_MAX)
        return 0;
    memcpy(image->texts + at, text, n);
    seq_put(image->text_used, at + (uint32_t)n);
    return at;
}

const char *sim_text(const SimImage *image, uint32_t offset)
{
    return offset < SIM_TEXT_MAX ? image->texts + offset : "";
}

/* --- the lock ---------------------------------------------------------------------------------------------------- */

void plan_lock(SimImage *image)
{
    if (pthread_mutex_lock(&image->lock) != EOWNERDEAD)
        return;
    pthread_mutex_consistent(&image->lock);
    atomic_fetch_and(&image->clock_turn, ~1u); /* a change of the clock that was not finished */
    plan_from(image, 0, image->op_count);      /* the ops are whole; whether they have been planned is not known */
}

void plan_unlock(SimImage *image)
{
    pthread_mutex_unlock(&image->lock);
}

uint32_t seq_begin(SimImage *image)
{
    for (uint32_t spins = 0;; spins++) {
        uint32_t seq = atomic_load_explicit(&image->plan_seq, memory_order_acquire);
        if (!(seq & 1))
            return seq;
        if (spins < 1000)
            continue;
        /* a writer at work holds the lock; one that died left it to us: plan_lock mends the plan then */
        plan_lock(image);
        plan_unlock(image);
        spins = 0;
    }
}
