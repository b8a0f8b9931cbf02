/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Listening sockets: TCP, unix, and those that systemd opened. Blocks for no longer than bind(2) does. Any thread. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/vec.h"

typedef struct ListenSocket {
    int fd;      /* non-blocking, close-on-exec */
    bool local;  /* a unix socket */
    char *place; /* "127.0.0.1:41327" with the real port, or the path of a unix socket */
    dev_t dev;   /* of a socket file that we made and remove at the end; 0, 0: none */
    ino_t ino;
} ListenSocket;

typedef VEC(ListenSocket) ListenSockets;

/* -EINVAL where the text is no address of the forms below. */
int listen_check(const char *address, Err *err);

/* Opens `address` and appends it:
 *   ":9400", "9400"          every address, IPv6 and IPv4; IPv4 alone where the kernel has no IPv6
 *   "127.0.0.1:9400", "[::1]:9400", "localhost:9400"   one address; names other than localhost are not looked up
 *   "unix:/run/x.sock", "unix:/run/x.sock?mode=0666"   a unix socket, mode 0660 where none is said
 * A socket file on which nobody listens is replaced; one that answers, and any other file, is an error.
 * -EINVAL for the text, otherwise -errno; the error names the address. */
int listen_open(const char *address, ListenSockets *sockets, Err *err);

/* Appends the sockets of LISTEN_FDS (sd_listen_fds(3)), from descriptor 3 on. -ENOENT where this process was given
 * none; -EINVAL for one that is no listening TCP or unix stream socket, named by its number. They are not closed on an
 * error, and their socket files are systemd's. */
int listen_systemd(ListenSockets *sockets, Err *err);

/* Closes, and removes the socket file where it is still ours. */
void listen_close(ListenSocket *listen);

/* Closes every one and empties the list. */
void listen_done(ListenSockets *sockets);
