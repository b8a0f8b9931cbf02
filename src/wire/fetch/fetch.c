/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's sockets and its one timer in libuv's loop. libcurl calls back only to say which sockets it waits for;
 * outcomes are collected after each step, so that those who are told may send, cancel and close. */
#include "wire/fetch/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "wire/fetch/inside.h"

/* Connections that are kept for the next request; more would only hold memory. */
enum { CONNECTIONS_KEPT = 8 };

struct Fetch {
    const FetchLibrary *lib;
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    FetchCall *calls;
    unsigned int handles; /* of the loop that are not closed yet */
    bool closing;
};

typedef struct Socket {
    uv_poll_t poll;
    Fetch *fetch;
    curl_socket_t fd;
} Socket;

static void free_when_closed(Fetch *fetch)
{
    if (--fetch->handles == 0)
        free(fetch);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free_when_closed(handle->data);
}

static void on_socket_closed(uv_handle_t *handle)
{
    Socket *sock = handle->data;
    Fetch *fetch = sock->fetch;

    free(sock);
    free_when_closed(fetch);
}

/* Takes a call off everything; it is the caller's. */
static FetchCall *take_call(FetchCall *call)
{
    call->fetch->lib->multi_remove_handle(call->fetch->multi, call->easy);
    *call->at = call->next;
    if (call->next)
        call->next->at = call->at;
    return call;
}

static void finish_call(FetchCall *call, const FetchAnswer *answer)
{
    call->done(call->self, answer);
    fetch_call_free(call);
}

static void collect_finished(Fetch *fetch)
{
    while (!fetch->closing) {
        int left;
        CURLMsg *message = fetch->lib->multi_info_read(fetch->multi, &left);
        CURLcode code;
        FetchAnswer answer;
        char *private = NULL;
        FetchCall *call;

        if (!message)
            return;
        if (message->msg != CURLMSG_DONE)
            continue;
        code = message->data.result; /* gone with the next call */
        fetch->lib->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        call = (FetchCall *)(void *)private;
        fetch_call_answer(call, code, &answer);
        finish_call(take_call(call), &answer);
    }
}

static void on_timer(uv_timer_t *timer);

/* libcurl's own reckoning is asked after each step: a timer that fires a little early would otherwise never come again
 * (it tells of a change only). */
static void set_timer(Fetch *fetch)
{
    long ms = -1;

    if (fetch->closing)
        return;
    fetch->lib->multi_timeout(fetch->multi, &ms);
    if (ms < 0) {
        uv_timer_stop(&fetch->timer);
        return;
    }
    uv_update_time(fetch->loop);
    uv_timer_start(&fetch->timer, on_timer, (uint64_t)ms, 0);
}

static void advance_multi(Fetch *fetch, curl_socket_t fd, int events)
{
    int running;

    fetch->lib->multi_socket_action(fetch->multi, fd, events, &running);
    collect_finished(fetch);
    set_timer(fetch);
}

static void on_timer(uv_timer_t *timer)
{
    advance_multi(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    Socket *sock = poll->data;
    int what = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);

    advance_multi(sock->fetch, sock->fd, status < 0 ? CURL_CSELECT_ERR : what);
}

static Socket *socket_new(Fetch *fetch, curl_socket_t fd)
{
    Socket *sock = xcalloc(1, sizeof(*sock));

    if (uv_poll_init_socket(fetch->loop, &sock->poll, fd) < 0) {
        free(sock);
        return NULL;
    }
    sock->poll.data = sock;
    sock->fetch = fetch;
    sock->fd = fd;
    fetch->handles++;
    fetch->lib->multi_assign(fetch->multi, fd, sock);
    return sock;
}

/* CURLMOPT_SOCKETFUNCTION */
static int watch_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *self, void *assigned)
{
    Fetch *fetch = self;
    Socket *sock = assigned;

    if (what == CURL_POLL_REMOVE) {
        if (sock) {
            fetch->lib->multi_assign(fetch->multi, fd, NULL);
            uv_close((uv_handle_t *)&sock->poll, on_socket_closed); /* leaves the poll set at once */
        }
        return 0;
    }
    if (!sock)
        sock = socket_new(fetch, fd);
    if (!sock)
        return -1;
    uv_poll_start(&sock->poll, (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                  on_ready);
    return 0;
}

int fetch_new(uv_loop_t *loop, Fetch **ret, Err *err)
{
    CLEANUP_FREE Fetch *fetch = xcalloc(1, sizeof(*fetch));

    TRY(fetch_library(&fetch->lib, err));
    fetch->multi = fetch->lib->multi_init();
    if (!fetch->multi)
        return err_set(err, -ENOMEM, "libcurl gives no handle");
    fetch->loop = loop;
    fetch->lib->multi_setopt(fetch->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    fetch->lib->multi_setopt(fetch->multi, CURLMOPT_SOCKETDATA, fetch);
    fetch->lib->multi_setopt(fetch->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    uv_timer_init(loop, &fetch->timer);
    fetch->timer.data = fetch;
    fetch->handles = 1;
    *ret = TAKE(fetch);
    return 0;
}

void fetch_close(Fetch *fetch)
{
    FetchAnswer answer = {.rc = -ECANCELED, .body = "", .text = "the client is being closed"};

    if (!fetch || fetch->closing)
        return;
    fetch->closing = true;
    while (fetch->calls)
        finish_call(take_call(fetch->calls), &answer);
    fetch->lib->multi_cleanup(fetch->multi); /* closes what connections it kept, and says so to watch_socket() */
    uv_close((uv_handle_t *)&fetch->timer, on_timer_closed);
}

int fetch_send(Fetch *fetch, const FetchRequest *request, FetchDone done, void *self, FetchCall **ret_call, Err *err)
{
    FetchCall *call = NULL;
    CURLMcode code;

    if (fetch->closing)
        return err_set(err, -ECANCELED, "the client is being closed");
    TRY(fetch_call_new(fetch->lib, request, &call, err));
    call->fetch = fetch;
    call->done = done;
    call->self = self;
    code = fetch->lib->multi_add_handle(fetch->multi, call->easy);
    if (code != CURLM_OK) {
        fetch_call_free(call);
        return err_set(err, -EIO, "libcurl: %s", fetch->lib->multi_strerror(code));
    }
    call->next = fetch->calls;
    call->at = &fetch->calls;
    if (call->next)
        call->next->at = &call->next;
    fetch->calls = call;
    set_timer(fetch);
    if (ret_call)
        *ret_call = call;
    return 0;
}

void fetch_cancel(FetchCall *call)
{
    Fetch *fetch;

    if (!call)
        return;
    fetch = call->fetch;
    fetch_call_free(take_call(call));
    set_timer(fetch);
}
