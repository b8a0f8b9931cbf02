/* SPDX-License-Identifier: Apache-2.0 */
/* Cleanup of locals: what a local holds is released at the end of its scope, unless it is handed over with TAKE. Any
 * thread.
 *
 *     CLEANUP_FREE char *name = xstrdup(text);
 *     CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
 *     CLEANUP(str_done) Str page;
 */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>

/* Calls fn(&local) at the end of the local's scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define CLEANUP_FREE CLEANUP(cleanup_free)
#define CLEANUP_FD CLEANUP(fd_close)
#define CLEANUP_VEC CLEANUP(cleanup_free) /* of a VEC, whose first member is its array */

/* Value of pointer variable p, which becomes NULL: who reads it releases it. */
#define TAKE(p)                                                                                                        \
    __extension__({                                                                                                    \
        __typeof__(p) *take_from_ = &(p);                                                                              \
        __typeof__(p) take_value_ = *take_from_;                                                                       \
        *take_from_ = NULL;                                                                                            \
        take_value_;                                                                                                   \
    })

/* Defines `<free_fn>_at(type **)` for CLEANUP from `free_fn(type *)`, e.g. CLEANUP_POINTER(FILE, fclose). */
#define CLEANUP_POINTER(type, free_fn)                                                                                 \
    static inline void free_fn##_at(type **held_at_)                                                                   \
    {                                                                                                                  \
        if (*held_at_)                                                                                                 \
            free_fn(*held_at_);                                                                                        \
        *held_at_ = NULL;                                                                                              \
    }                                                                                                                  \
    struct cleanup_needs_semicolon

CLEANUP_POINTER(DIR, closedir);
CLEANUP_POINTER(FILE, fclose);

/* Elements of an array (not of a pointer). */
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* As TAKE for a file descriptor: returns *fd and leaves -1 there. */
int fd_take(int *fd);

/* For CLEANUP_FREE: `pointer_at` is the address of a pointer variable; frees what it points to and sets it to NULL. */
void cleanup_free(void *pointer_at);

/* For CLEANUP_FD: closes *fd where it is >= 0 and sets it to -1. errno is kept. */
void fd_close(int *fd);
