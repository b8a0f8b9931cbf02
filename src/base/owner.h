/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of locals: what owns something says so where it is declared and is released at the end of its scope,
 * unless it is handed over with TAKE. Any thread.
 *
 *     CLEANUP_FREE char *name = xstrdup(text);
 *     CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
 *     CLEANUP(str_done) Str page;
 */
#pragma once

#include <stddef.h>

/* Calls fn(&local) at the end of the local's scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define CLEANUP_FREE CLEANUP(owner_free)
#define CLEANUP_FD CLEANUP(owner_close)

/* Value of pointer variable p, which becomes NULL: the one who reads it is the new owner. */
#define TAKE(p)                                                                                                        \
    __extension__({                                                                                                    \
        __typeof__(p) *take_from_ = &(p);                                                                              \
        __typeof__(p) take_value_ = *take_from_;                                                                       \
        *take_from_ = NULL;                                                                                            \
        take_value_;                                                                                                   \
    })

/* Defines `<free_fn>_at(type **)` for CLEANUP from `free_fn(type *)`, e.g. OWNER_POINTER(FILE, fclose). */
#define OWNER_POINTER(type, free_fn)                                                                                   \
    static inline void free_fn##_at(type **owner_at_)                                                                  \
    {                                                                                                                  \
        if (*owner_at_)                                                                                                \
            free_fn(*owner_at_);                                                                                       \
        *owner_at_ = NULL;                                                                                             \
    }                                                                                                                  \
    struct owner_needs_semicolon

/* Elements of an array (not of a pointer). */
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* As TAKE for a file descriptor: returns *fd and leaves -1 there. */
int owner_take_fd(int *fd);

/* For CLEANUP_FREE: `pointer_at` is the address of a pointer variable; frees what it points to and sets it to NULL. */
void owner_free(void *pointer_at);

/* For CLEANUP_FD: closes *fd where it is >= 0 and sets it to -1. errno is kept. */
void owner_close(int *fd);
