/* SPDX-License-Identifier: Apache-2.0 */
/* Opening listening sockets. */
#include "wire/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum { BACKLOG = 1024, HOST_MAX = 64, SYSTEMD_FIRST_FD = 3, SYSTEMD_FDS_MAX = 64, UNIX_MODE = 0660 };

typedef union Address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
} Address;

/* Digits of a port up to the end. */
static bool parse_port(const char *text, in_port_t *ret)
{
    unsigned long port = 0;
    size_t len = strspn(text, "0123456789");

    if (!len || len > 5 || text[len])
        return false;
    port = strtoul(text, NULL, 10);
    if (port > UINT16_MAX)
        return false;
    *ret = htons((in_port_t)port);
    return true;
}

/* The part before the last colon into `host`, without brackets; *ret_v6 for one that had them. */
static bool split_host(const char *address, char host[HOST_MAX], const char **ret_port, bool *ret_v6)
{
    const char *colon = strrchr(address, ':');
    size_t len;

    *ret_v6 = false;
    host[0] = '\0';
    *ret_port = colon ? colon + 1 : address;
    if (!colon || colon == address)
        return true;
    len = (size_t)(colon - address);
    if (*address == '[') {
        if (address[len - 1] != ']')
            return false;
        *ret_v6 = true;
        address++;
        len -= 2;
    }
    if (!len || len >= HOST_MAX)
        return false;
    memcpy(host, address, len);
    host[len] = '\0';
    return true;
}

static bool parse_address(const char *text, Address *ret, bool *ret_any)
{
    char host[HOST_MAX];
    const char *port_text;
    in_port_t port;
    bool v6;

    memset(ret, 0, sizeof(*ret));
    if (!split_host(text, host, &port_text, &v6) || !parse_port(port_text, &port))
        return false;
    *ret_any = !host[0];
    if (*ret_any || v6) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = port;
        return *ret_any || inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1;
    }
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = port;
    return inet_pton(AF_INET, strcmp(host, "localhost") != 0 ? host : "127.0.0.1", &ret->v4.sin_addr) == 1;
}

static socklen_t address_len(const Address *address)
{
    if (address->any.sa_family == AF_UNIX)
        return sizeof(address->un);
    return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

/* The send buffer of a connection (server.c) must hold several segments: a client may hold its acknowledgement of a single
 * one back for 40 ms. Loopback's are 64 KiB; those of networks are smaller than this. */
enum { SEGMENT_MAX = 16 * 1024 };

/* Socket, bound and listening. -errno. */
static int open_tcp(const Address *address)
{
    CLEANUP_FD int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, only_v6 = 0, segment = SEGMENT_MAX;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
        return -errno;
    if (address->any.sa_family == AF_INET6) {
        only_v6 = !IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6)) < 0)
            return -errno;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
    if (bind(fd, &address->any, address_len(address)) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return fd_take(&fd);
}

static char *tcp_place(const Address *address)
{
    char host[INET6_ADDRSTRLEN] = "?", text[INET6_ADDRSTRLEN + 16];

    if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof(host));
        snprintf(text, sizeof(text), "[%s]:%u", host, ntohs(address->v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
        snprintf(text, sizeof(text), "%s:%u", host, ntohs(address->v4.sin_port));
    }
    return xstrdup(text);
}

static int listen_tcp(const char *text, ListenSockets *sockets, Err *err)
{
    Address address, real = {0};
    socklen_t len = sizeof(real);
    bool any;
    int fd;

    parse_address(text, &address, &any);
    fd = open_tcp(&address);
    if (any && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)) {
        in_port_t port = address.v6.sin6_port;

        memset(&address, 0, sizeof(address));
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = port;
        fd = open_tcp(&address);
    }
    if (fd < 0)
        return err_set(err, fd, "listen on '%s': %s", text, strerror(-fd));
    if (getsockname(fd, &real.any, &len) < 0)
        real = address;
    vec_push(sockets, ((ListenSocket){.fd = fd, .place = tcp_place(&real)}));
    return 0;
}

/* True if somebody answers on the socket file, or might. */
static bool is_taken(const Address *address)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 || connect(fd, &address->any, sizeof(address->un)) == 0 || errno != ECONNREFUSED;
}

static int bind_unix(int fd, const Address *address)
{
    struct stat st;

    if (bind(fd, &address->any, sizeof(address->un)) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return -errno;
    if (lstat(address->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return -EEXIST;
    if (is_taken(address))
        return -EADDRINUSE;
    if (unlink(address->un.sun_path) < 0 || bind(fd, &address->any, sizeof(address->un)) < 0)
        return -errno;
    return 0;
}

/* The file is never more open than `mode`: bind(2) takes the socket's own mode, less the umask, for the file's. */
static int open_unix(const Address *address, mode_t mode)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0 || fchmod(fd, mode) < 0)
        return -errno;
    rc = bind_unix(fd, address);
    if (rc < 0)
        return rc;
    if (chmod(address->un.sun_path, mode) < 0 || listen(fd, BACKLOG) < 0) {
        rc = -errno;
        unlink(address->un.sun_path);
        return rc;
    }
    return fd_take(&fd);
}

/* "PATH" or "PATH?mode=0666". */
static bool parse_unix(const char *text, Address *ret, mode_t *ret_mode)
{
    const char *suffix = strstr(text, "?mode=");
    size_t len = suffix ? (size_t)(suffix - text) : strlen(text);
    char *end = NULL;

    memset(ret, 0, sizeof(*ret));
    ret->un.sun_family = AF_UNIX;
    *ret_mode = UNIX_MODE;
    if (!len || len >= sizeof(ret->un.sun_path))
        return false;
    memcpy(ret->un.sun_path, text, len);
    if (!suffix)
        return true;
    suffix += strlen("?mode=");
    *ret_mode = (mode_t)strtoul(suffix, &end, 8);
    return *suffix >= '0' && *suffix <= '7' && !*end && *ret_mode <= 0777;
}

static int listen_unix(const char *text, ListenSockets *sockets, Err *err)
{
    const char *path = text + strlen("unix:");
    ListenSocket made = {.local = true};
    struct stat st;
    Address address;
    mode_t mode;

    parse_unix(path, &address, &mode);
    made.fd = open_unix(&address, mode);
    if (made.fd == -EEXIST)
        return err_set(err, made.fd, "listen on '%s': the file is there and is no socket", text);
    if (made.fd == -EADDRINUSE)
        return err_set(err, made.fd, "listen on '%s': another process listens there", text);
    if (made.fd < 0)
        return err_set(err, made.fd, "listen on '%s': %s", text, strerror(-made.fd));
    made.place = xstrdup(address.un.sun_path);
    if (lstat(made.place, &st) == 0) {
        made.dev = st.st_dev;
        made.ino = st.st_ino;
    }
    vec_push(sockets, made);
    return 0;
}

int listen_check(const char *address, Err *err)
{
    const bool local = !strncmp(address, "unix:", strlen("unix:"));
    Address parsed;
    mode_t mode;
    bool any;

    if (local && !parse_unix(address + strlen("unix:"), &parsed, &mode))
        return err_set(err, -EINVAL,
                       "listen on '%.200s': expected 'unix:PATH' or 'unix:PATH?mode=0660', path of 1 to 107 bytes",
                       address);
    if (!local && !parse_address(address, &parsed, &any))
        return err_set(
            err, -EINVAL,
            "listen on '%.150s': expected ':PORT', 'IPV4:PORT', '[IPV6]:PORT', 'localhost:PORT' or 'unix:PATH'",
            address);
    return 0;
}

int listen_open(const char *address, ListenSockets *sockets, Err *err)
{
    TRY(listen_check(address, err));
    if (!strncmp(address, "unix:", strlen("unix:")))
        return listen_unix(address, sockets, err);
    return listen_tcp(address, sockets, err);
}

static int systemd_socket(int fd, ListenSockets *sockets, Err *err)
{
    Address address = {0};
    socklen_t len = sizeof(address), size = sizeof(int);
    int accepts = 0, type = 0;
    ListenSocket made = {.fd = fd};

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) < 0)
        return err_errno(err, "descriptor %d from LISTEN_FDS is no socket", fd);
    size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM || !accepts)
        return err_set(err, -EINVAL, "descriptor %d from LISTEN_FDS is no listening stream socket", fd);
    if (getsockname(fd, &address.any, &len) < 0)
        return err_errno(err, "descriptor %d from LISTEN_FDS", fd);
    made.local = address.any.sa_family == AF_UNIX;
    if (!made.local && address.any.sa_family != AF_INET && address.any.sa_family != AF_INET6)
        return err_set(err, -EINVAL, "descriptor %d from LISTEN_FDS is neither a TCP nor a unix socket", fd);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return err_errno(err, "descriptor %d from LISTEN_FDS", fd);
    made.place = made.local ? xmemdup0(address.un.sun_path, strnlen(address.un.sun_path, sizeof(address.un.sun_path)))
                            : tcp_place(&address);
    vec_push(sockets, made);
    return 0;
}

int listen_systemd(ListenSockets *sockets, Err *err)
{
    const char *pid = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
    size_t before = sockets->len;
    long count;

    if (!pid || !count_text || strtol(pid, NULL, 10) != getpid())
        return err_set(err, -ENOENT, "systemd gave this process no sockets (LISTEN_FDS)");
    count = strtol(count_text, NULL, 10);
    if (count < 1 || count > SYSTEMD_FDS_MAX)
        return err_set(err, -EINVAL, "LISTEN_FDS is '%.20s', expected 1 to %d", count_text, SYSTEMD_FDS_MAX);
    for (int fd = SYSTEMD_FIRST_FD; fd < SYSTEMD_FIRST_FD + (int)count; fd++) {
        int rc = systemd_socket(fd, sockets, err);

        if (rc == 0)
            continue;
        while (sockets->len > before)
            free(sockets->at[--sockets->len].place);
        return rc;
    }
    return 0;
}

void listen_close(ListenSocket *listen)
{
    struct stat st;

    fd_close(&listen->fd);
    if (listen->ino && lstat(listen->place, &st) == 0 && st.st_dev == listen->dev && st.st_ino == listen->ino)
        unlink(listen->place);
    cleanup_free(&listen->place);
}

void listen_done(ListenSockets *sockets)
{
    for (size_t i = 0; i < sockets->len; i++)
        listen_close(&sockets->at[i]);
    vec_done(sockets);
}
