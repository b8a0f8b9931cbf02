/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request for each thing to read at a time, which is a watch while nothing else is to be asked: so what comes to
 * `add` never goes back in time. A list is asked for with resourceVersion=0, which the server answers from its cache by
 * node, without its database; the pages of one that sends pages all the same are read one after the other. A watch that
 * the server ends goes on from its last version; after all other ends everything is read again. A connection that has
 * died is noticed by its deadline, as the server was asked to end the watch before that.
 */
#include "source/kubernetes/kubernetes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/str.h"
#include "source/kubernetes/credentials.h"
#include "source/kubernetes/objects.h"
#include "wire/fetch/fetch.h"

CLEANUP_POINTER(json_t, json_decref);

enum { KUBE_DRIVER_MAX = 63 };
enum {
    PATH_MAX_BYTES = 16 << 10,
    LIST_LIMIT = 500,
    CHANGE_LIMIT = 100,
    PAGE_MS = 30000,
    DOUBLINGS_MAX = 16,
    LOG_BURST = 6
};
#define TICK_NS_MAX NS_PER_S
#define LOG_WINDOW_NS (10 * NS_PER_MIN)

const WordRow kube_states[KUBE_STATE_END] = {KUBE_STATE_TABLE(WORD_ROW)};

typedef struct Sending {
    FetchCall *call; /* under way, or NULL */
    uint32_t ticket; /* of its credentials */
} Sending;

typedef struct Reader {
    KubeApi *api;
    KubeRead read;
    Sending sending;
    bool watching; /* it is a watch */
    bool whole;    /* all was read: `objects` can be told and watched */
    bool asked;    /* kube_api_ask, or a patch that is not done */
    bool refused;  /* the server lets no watch, which was said */
    bool older;    /* `path` was not found */
    bool patching; /* the last request was a patch */
    KubeState state;
    uint64_t due_ns;
    uint32_t tries;      /* since all was read */
    uint64_t watched_ns; /* when the watch began */
    KubeObjects objects;
    LogLimit limit;
} Reader;

struct KubeCall {
    KubeApi *api;
    KubeCall *next, **at; /* in the API's list */
    char *method, *path, *body;
    Sending sending; /* without a call: not sent yet */
    void (*done)(void *self, const KubeReply *reply);
    void *self;
};

struct KubeApi {
    KubeApiConfig config;
    Credentials *credentials;
    Fetch *fetch;
    uv_timer_t tick;
    Reader readers[KUBE_READS_MAX];
    size_t count;
    KubeCall *calls;
};

/* -- asking ----------------------------------------------------------------------------------------------------------
 */

static void ask_next(Reader *reader);
static void on_tick(uv_timer_t *tick);

/* What is to be sent is sent in the next round of the loop. */
static void wake_api(void *self)
{
    KubeApi *api = self;

    uv_timer_start(&api->tick, on_tick, 0, uv_timer_get_repeat(&api->tick));
}

static void set_state(Reader *reader, KubeState state, const char *text)
{
    const bool changed = reader->state != state && !(reader->state == KUBE_CONFLICT && state == KUBE_OK);
    uint64_t held = 0;

    reader->state = state;
    if (!changed || !log_limit(&reader->limit, uv_hrtime(), &held))
        return;
    if (state == KUBE_CONFLICT)
        log_write(reader->api->config.log, LOG_LEVEL_DEBUG, "API server: %s: %s", reader->read.what, text);
    else if (state == KUBE_OK)
        log_write(reader->api->config.log, LOG_LEVEL_INFO, "API server: %s can be %s", reader->read.what,
                  reader->patching ? "changed" : "read");
    else if (reader->patching)
        log_write(reader->api->config.log, LOG_LEVEL_WARN, "API server: %s cannot be changed: %s; it is tried again",
                  reader->read.what, text);
    else
        log_write(reader->api->config.log,
                  state == KUBE_NOT_FOUND && reader->read.optional ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN,
                  "API server: %s cannot be read: %s; what was read last stays, all else goes on", reader->read.what,
                  text);
}

/* Between a half and all of it, so that many nodes do not come at once. */
static uint64_t vary_time(uint64_t ns)
{
    uint64_t chance = 0;

    (void)!getrandom(&chance, sizeof chance, GRND_NONBLOCK);
    return ns - chance % (ns / 2 + 1);
}

/* The next reading comes in `wait_ns` at least, after a failure in twice the time each time. */
static void schedule_reader(Reader *reader, bool complete, uint64_t wait_ns)
{
    const KubeApiConfig *config = &reader->api->config;
    uint64_t delay = config->again_ns;

    if (!complete)
        delay = vary_time(number_min_u64(delay, config->soon_ns << number_min_u64(reader->tries++, DOUBLINGS_MAX)));
    else
        reader->tries = 0;
    reader->due_ns = complete && reader->read.on_demand
                         ? UINT64_MAX
                         : uv_hrtime() + number_max_u64(delay, wait_ns + vary_time(wait_ns / 8));
    if (complete && reader->refused && reader->asked) /* its answer may be of before */
        reader->due_ns = 0;
    reader->objects.pages = 0;
    str_clear(&reader->objects.next_page);
}

static void fail_reader(Reader *reader, KubeState state, uint64_t wait_ns, const char *text)
{
    reader->whole = false;
    set_state(reader, state, text);
    schedule_reader(reader, false, wait_ns);
}

static KubeState state_of_status(unsigned int status)
{
    return status >= 200 && status < 300    ? KUBE_OK
           : status == 401 || status == 403 ? KUBE_DENIED
           : status == 404                  ? KUBE_NOT_FOUND
           : status == 409                  ? KUBE_CONFLICT
           : status == 429 || status >= 500 ? KUBE_UNREACHABLE
                                            : KUBE_BAD_REPLY;
}

/* What the server says of a refusal, in one line; `object` is its Status, or NULL. */
static void set_refusal(Err *err, unsigned int status, const json_t *object)
{
    const char *message = json_string_value(json_object_get(object, "message"));

    (void)err_set(err, -EPROTO, "HTTP %u%s%.150s", status, message ? ": " : "", message ? message : "");
    for (char *at = err->text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

static void refuse_answer(Reader *reader, const FetchAnswer *answer)
{
    CLEANUP(json_decref_at) json_t *status = json_loadb(answer->body, answer->body_len, 0, NULL);
    const KubeState state = state_of_status(answer->status);
    Err err;

    if (state == KUBE_NOT_FOUND && reader->read.older_path && !reader->older && reader->objects.pages == 0) {
        reader->older = true;
        ask_next(reader);
        return;
    }
    reader->older = false;
    set_refusal(&err, answer->status, status);
    fail_reader(reader, state == KUBE_OK || (state == KUBE_CONFLICT && !reader->patching) ? KUBE_BAD_REPLY : state,
                answer->retry_after_ms * NS_PER_MS, err.text);
}

/* True where credentials that the server did not accept are renewed: the request is sent again. */
static bool is_renewed(KubeApi *api, const Sending *sending, const FetchAnswer *answer)
{
    if (answer->status != 401 || !credentials_refused(api->credentials, sending->ticket))
        return false;
    wake_api(api);
    return true;
}

static int read_page(Reader *reader, const FetchAnswer *answer, Err *err)
{
    const KubeRead *read = &reader->read;
    KubeObjects *objects = &reader->objects;

    if (answer->body_len >= KUBE_PAGE_MAX)
        return err_set(err, -E2BIG, "the answer is larger than %d MiB", KUBE_PAGE_MAX >> 20);
    if (objects->pages == 0) {
        kube_objects_clear(objects);
        if (read->begin)
            read->begin(read->self);
    }
    if (!read->list)
        return kube_objects_read_one(objects, answer->body, answer->body_len, read->add, read->self, err);
    TRY(kube_objects_read_page(objects, answer->body, answer->body_len, read->add, read->self, err));
    const size_t pages_max = read->change ? KUBE_CHANGE_PAGES_MAX : KUBE_PAGES_MAX;
    if (objects->next_page.len && objects->pages == pages_max)
        return err_set(err, -E2BIG, "the list has more than %zu pages", pages_max);
    return 0;
}

static void start_watch(Reader *reader);

/* What a list lacks a watch brings; a patch that is left has to be sent. */
static void finish_reading(Reader *reader)
{
    const bool complete = !reader->read.end || reader->read.end(reader->read.self);

    set_state(reader, KUBE_OK, "");
    schedule_reader(reader, complete, 0);
    reader->whole = reader->objects.version.len && !reader->read.on_demand;
    if (reader->whole && (complete || !reader->read.patch))
        start_watch(reader);
}

static void on_answer(void *self, const FetchAnswer *answer)
{
    Reader *reader = self;
    Err err = {0};

    reader->sending.call = NULL;
    if (is_renewed(reader->api, &reader->sending, answer))
        return;
    if (answer->status == 0)
        fail_reader(reader, KUBE_UNREACHABLE, 0, answer->text);
    else if (answer->status != 200)
        refuse_answer(reader, answer);
    else if (read_page(reader, answer, &err) < 0)
        fail_reader(reader, KUBE_BAD_REPLY, 0, err.text);
    else if (reader->objects.next_page.len)
        ask_next(reader);
    else
        finish_reading(reader);
}

/* Sends a request with the credentials to `path`. A failure leaves *ret_state and `err` to be said.
 * CREDENTIALS_LATER: nothing was sent yet; the next tick tries again. */
static int send_request(KubeApi *api, const char *path, FetchRequest *request, FetchDone done, void *self, Sending *ret,
                        KubeState *ret_state, Err *err)
{
    CLEANUP(str_done) Str url = str_limited(2 * PATH_MAX_BYTES);
    KubeAuth auth;

    *ret_state = KUBE_NO_ACCOUNT;
    const int rc = credentials_read(api->credentials, &auth, err);
    if (rc != 0)
        return rc;
    *ret_state = KUBE_UNREACHABLE;
    str_addf(&url, "%s%s", auth.url, path);
    TRY(str_check(&url, "the URL", err));
    request->url = url.text;
    request->bearer = auth.bearer;
    request->tls = auth.tls;
    ret->ticket = auth.ticket;
    request->timeout_ms += api->config.timeout_ns / NS_PER_MS;
    request->answer_max = KUBE_PAGE_MAX;
    return fetch_send(api->fetch, request, done, self, &ret->call, err);
}

/* Of a list, or of single objects, as those of a watch are. */
static const char *accept_header(const KubeRead *read, bool list)
{
    return !read->metadata_alone ? "Accept: application/json"
           : list ? "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
                  : "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
}

/* From its cache a server would send all in one page. */
static void add_list_query(const Reader *reader, Str *path)
{
    str_addf(path, "&limit=%d", reader->read.change ? CHANGE_LIMIT : LIST_LIMIT);
    if (reader->objects.next_page.len)
        str_addf(path, "&continue=%s", reader->objects.next_page.text);
    else if (!reader->read.change)
        str_add(path, "&resourceVersion=0");
}

static void ask_next(Reader *reader)
{
    KubeApi *api = reader->api;
    const KubeRead *read = &reader->read;
    const char *const headers[] = {accept_header(read, read->list),
                                   read->strategic ? "Content-Type: application/strategic-merge-patch+json"
                                                   : "Content-Type: application/merge-patch+json"};
    CLEANUP(str_done) Str path = str_limited(PATH_MAX_BYTES);
    FetchRequest request = {.headers = headers, .header_count = 1};
    KubeState state;
    Err err = {0};

    request.body = read->patch && reader->state != KUBE_CONFLICT ? read->patch(read->self) : NULL;
    if (!request.body && reader->whole) {
        start_watch(reader);
        return;
    }
    reader->whole = reader->asked = false;
    reader->patching = request.body;
    if (reader->patching) {
        request.body_len = strlen(request.body);
        request.method = "PATCH";
        request.header_count = ARRAY_LEN(headers);
    }
    str_add(&path, reader->older ? read->older_path : read->path);
    if (read->list)
        add_list_query(reader, &path);
    if (read->list && read->change) /* of a large cluster each of many pages has to come, however busy it is */
        request.timeout_ms = PAGE_MS;
    if (send_request(api, path.text, &request, on_answer, reader, &reader->sending, &state, &err) < 0)
        fail_reader(reader, state, 0, err.text);
}

/* -- watching --------------------------------------------------------------------------------------------------------
 */

static void stop_watch(Reader *reader)
{
    if (reader->watching)
        fetch_cancel(TAKE(reader->sending.call));
    reader->watching = false;
}

/* All objects, as if they had been read again. */
static void tell_objects(Reader *reader)
{
    const KubeRead *read = &reader->read;
    KubeState state = KUBE_OK;
    Err err = {0};

    if (!read->list && !reader->objects.kept.len) {
        state = KUBE_NOT_FOUND;
        (void)err_set(&err, -ENOENT, "it was deleted");
    } else {
        if (read->begin)
            read->begin(read->self);
        if (kube_objects_tell(&reader->objects, read->add, read->self, &err) < 0)
            state = KUBE_BAD_REPLY;
    }
    if (state != KUBE_OK) {
        stop_watch(reader);
        fail_reader(reader, state, 0, err.text);
    } else if (read->end && !read->end(read->self) && read->patch) {
        reader->asked = true;
        reader->due_ns = uv_hrtime() + vary_time(reader->api->config.soon_ns);
    }
}

/* Not at once: a server may end each watch as soon as it begins. */
static void schedule_watch(Reader *reader)
{
    reader->due_ns = reader->watched_ns + reader->api->config.soon_ns;
}

static void on_part(void *self, const char *bytes, size_t len)
{
    Reader *reader = self;
    bool changed = false;
    Err err = {0};
    const int rc = kube_objects_watch(&reader->objects, bytes, len, &changed, &err);

    reader->refused = false;
    if (rc != 0)
        stop_watch(reader);
    if (rc < 0) {
        fail_reader(reader, KUBE_BAD_REPLY, 0, err.text);
    } else if (rc == KUBE_OBJECTS_GONE) {
        reader->whole = false;
        schedule_watch(reader);
    } else if (changed) {
        tell_objects(reader);
    }
}

/* A server that lets read, but not watch: an older role, or a proxy. It is tried again with each reading. */
static void refuse_watch(Reader *reader, const FetchAnswer *answer)
{
    CLEANUP(json_decref_at) json_t *status = json_loadb(answer->body, answer->body_len, 0, NULL);
    char period[DURATION_TEXT_MAX];
    Err err;

    set_refusal(&err, answer->status, status);
    duration_format(period, reader->api->config.again_ns);
    if (!reader->refused)
        log_write(reader->api->config.log, LOG_LEVEL_WARN,
                  "API server: %s cannot be watched: %s; it is read every %s instead", reader->read.what, err.text,
                  period);
    reader->refused = true;
    reader->whole = false;
    schedule_reader(reader, true, answer->retry_after_ms * NS_PER_MS);
}

static void on_watch_end(void *self, const FetchAnswer *answer)
{
    Reader *reader = self;
    const KubeState state = state_of_status(answer->status);

    reader->sending.call = NULL;
    reader->watching = false;
    schedule_watch(reader);
    if (is_renewed(reader->api, &reader->sending, answer))
        return;
    if (answer->status == 0)
        fail_reader(reader, KUBE_UNREACHABLE, 0, answer->text);
    else if (answer->status == 410)
        reader->whole = false;
    else if (answer->status == 401 || state == KUBE_UNREACHABLE)
        refuse_answer(reader, answer);
    else if (state != KUBE_OK)
        refuse_watch(reader, answer);
    else if (reader->objects.line.len)
        fail_reader(reader, KUBE_BAD_REPLY, 0, "the watch ended in the midst of an event");
}

/* That of a list, or of all objects of its kind that have this one's name. */
static void add_watch_path(const Reader *reader, uint64_t seconds, Str *path)
{
    const char *of = reader->older ? reader->read.older_path : reader->read.path, *name = strrchr(of, '/');
    int len = 0;

    if (strcmp(name, "/status") == 0) {
        len = (int)strlen("/status");
        do
            name--;
        while (*name != '/');
    }
    if (reader->read.list)
        str_add(path, of);
    else
        str_addf(path, "%.*s?fieldSelector=metadata.name%%3D%.*s", (int)(name - of), of, (int)strlen(name + 1) - len,
                 name + 1);
    str_addf(path, "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%" PRIu64 "&resourceVersion=%s", seconds,
             reader->objects.version.text);
}

static void start_watch(Reader *reader)
{
    const KubeApiConfig *config = &reader->api->config;
    const char *const headers[] = {accept_header(&reader->read, false)};
    CLEANUP(str_done) Str path = str_limited(PATH_MAX_BYTES);
    const uint64_t watch_ns = vary_time(config->watch_ns ? config->watch_ns : KUBE_WATCH_NS);
    const uint64_t seconds = number_max_u64(watch_ns / NS_PER_S, 1);
    FetchRequest request = {
        .headers = headers, .header_count = 1, .timeout_ms = seconds * (NS_PER_S / NS_PER_MS), .part = on_part};
    KubeState state;
    Err err = {0};

    add_watch_path(reader, seconds, &path);
    str_clear(&reader->objects.line);
    reader->patching = false;
    reader->watched_ns = uv_hrtime();
    const int rc = send_request(reader->api, path.text, &request, on_watch_end, reader, &reader->sending, &state, &err);
    reader->watching = rc == 0;
    if (rc == 0)
        reader->due_ns = reader->asked ? 0 : UINT64_MAX;
    else if (rc < 0)
        fail_reader(reader, state, 0, err.text);
    else
        reader->due_ns = 0;
}

/* Of one that is watched. */
static void serve_ask(Reader *reader)
{
    reader->asked = false;
    reader->due_ns = reader->watching ? UINT64_MAX : 0;
    if (!reader->read.patch) {
        tell_objects(reader);
    } else if (reader->read.patch(reader->read.self)) {
        stop_watch(reader);
        ask_next(reader);
    }
}

/* -- single requests -------------------------------------------------------------------------------------------------
 */

static void free_call(KubeCall *call)
{
    free(call->method);
    free(call->path);
    free(call->body);
    free(call);
}

static void finish_call(KubeCall *call, const KubeReply *reply)
{
    *call->at = call->next;
    if (call->next)
        call->next->at = call->at;
    call->done(call->self, reply);
    free_call(call);
}

static void on_reply(void *self, const FetchAnswer *answer)
{
    KubeCall *call = self;
    CLEANUP(json_decref_at) json_t *object = json_loadb(answer->body, answer->body_len, 0, NULL);
    Err err = {.text = ""};
    KubeReply reply = {.state = answer->status ? state_of_status(answer->status) : KUBE_UNREACHABLE,
                       .object = json_is_object(object) ? object : NULL,
                       .text = answer->status ? err.text : answer->text,
                       .wait_ns = answer->retry_after_ms * NS_PER_MS};

    call->sending.call = NULL;
    if (is_renewed(call->api, &call->sending, answer))
        return;
    if (answer->body_len >= KUBE_PAGE_MAX) {
        reply.state = KUBE_BAD_REPLY;
        (void)err_set(&err, -E2BIG, "the answer is larger than %d MiB", KUBE_PAGE_MAX >> 20);
    } else if (reply.state == KUBE_OK && answer->body_len && !reply.object) {
        reply.state = KUBE_BAD_REPLY;
        (void)err_set(&err, -EBADMSG, "the answer is no JSON object");
    } else if (answer->status && reply.state != KUBE_OK) {
        set_refusal(&err, answer->status, object);
    }
    finish_call(call, &reply);
}

/* True where it ended at once. */
static bool send_call(KubeCall *call)
{
    const char *const headers[] = {"Accept: application/json", strcmp(call->method, "PATCH") == 0
                                                                   ? "Content-Type: application/merge-patch+json"
                                                                   : "Content-Type: application/json"};
    FetchRequest request = {.headers = headers,
                            .header_count = call->body ? ARRAY_LEN(headers) : 1,
                            .method = call->method,
                            .body = call->body,
                            .body_len = call->body ? strlen(call->body) : 0};
    KubeReply reply = {.state = KUBE_OK};
    Err err = {0};

    if (send_request(call->api, call->path, &request, on_reply, call, &call->sending, &reply.state, &err) < 0) {
        reply.text = err.text;
        finish_call(call, &reply);
        return true;
    }
    return false;
}

/* One that is called back may add, cancel and close: look from the start again. */
static void send_calls(KubeApi *api)
{
    KubeCall *call = api->calls;

    while (call) {
        call = call->sending.call || !send_call(call) ? call->next : api->calls;
    }
}

static void on_tick(uv_timer_t *tick)
{
    KubeApi *api = tick->data;

    send_calls(api);
    if (uv_is_closing((const uv_handle_t *)tick))
        return;
    for (size_t i = 0; i < api->count; i++) {
        Reader *reader = &api->readers[i];

        if (uv_hrtime() < reader->due_ns || (reader->sending.call && !reader->watching))
            continue;
        if (reader->whole && reader->asked)
            serve_ask(reader);
        else if (!reader->sending.call)
            ask_next(reader);
    }
}

/* -- the header's functions ------------------------------------------------------------------------------------------
 */

static void free_api(KubeApi *api)
{
    for (size_t i = 0; i < api->count; i++)
        kube_objects_done(&api->readers[i].objects);
    free(api);
}
CLEANUP_POINTER(KubeApi, free_api);

int kube_api_new(uv_loop_t *loop, const KubeApiConfig *config, const KubeRead *reads, size_t count, KubeApi **ret,
                 Err *err)
{
    CLEANUP(free_api_at) KubeApi *api = xcalloc(1, sizeof *api);
    const uint64_t tick_ns = number_min_u64(config->soon_ns, TICK_NS_MAX), tick_ms = tick_ns / NS_PER_MS;

    api->config = *config;
    TRY(fetch_new(loop, &api->fetch, err));
    for (; api->count < count && api->count < KUBE_READS_MAX; api->count++) {
        Reader *reader = &api->readers[api->count];

        *reader = (Reader){.api = api, .read = reads[api->count]};
        reader->limit = (LogLimit){.window_ns = LOG_WINDOW_NS, .burst = LOG_BURST};
        if (reader->read.on_demand)
            reader->due_ns = UINT64_MAX;
        kube_objects_init(&reader->objects);
        reader->objects.change = reader->read.change;
        reader->objects.change_self = reader->read.self;
    }
    uv_timer_init(loop, &api->tick); /* cannot fail */
    api->tick.data = api;
    api->credentials = credentials_new(loop, config->account, config->kubeconfig, config->log, wake_api, api);
    uv_timer_start(&api->tick, on_tick, 0, number_max_u64(tick_ms, 1));
    *ret = TAKE(api);
    return 0;
}

void kube_call_new(KubeApi *api, const KubeRequest *request, void (*done)(void *self, const KubeReply *reply),
                   void *self, KubeCall **ret)
{
    KubeCall *call = xcalloc(1, sizeof *call);

    call->api = api;
    call->method = xstrdup(request->method);
    call->path = xstrdup(request->path);
    call->body = request->body ? xstrdup(request->body) : NULL;
    call->done = done;
    call->self = self;
    for (call->at = &api->calls; *call->at; call->at = &(*call->at)->next)
        ;
    *call->at = call;
    *ret = call;
    wake_api(api);
}

void kube_call_cancel(KubeCall *call)
{
    if (!call)
        return;
    fetch_cancel(call->sending.call);
    *call->at = call->next;
    if (call->next)
        call->next->at = call->at;
    free_call(call);
}

static void on_tick_closed(uv_handle_t *handle)
{
    free_api(handle->data);
}

void kube_api_close(KubeApi *api)
{
    if (!api)
        return;
    for (size_t i = 0; i < api->count; i++)
        fetch_cancel(TAKE(api->readers[i].sending.call));
    while (api->calls)
        kube_call_cancel(api->calls);
    fetch_close(api->fetch);
    credentials_close(api->credentials);
    uv_close((uv_handle_t *)&api->tick, on_tick_closed);
}

void kube_api_ask(KubeApi *api, size_t read)
{
    api->readers[read].asked = true;
    api->readers[read].due_ns = 0;
    api->readers[read].tries = 0;
}

KubeState kube_api_state(const KubeApi *api, size_t read)
{
    return api->readers[read].state;
}

bool kube_is_node_name(const char *text)
{
    return text && text[0] && !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.")];
}

bool kube_is_driver_name(const char *text)
{
    return kube_is_node_name(text) && strlen(text) <= KUBE_DRIVER_MAX && text[0] != '.' && text[0] != '-';
}

/* A node's name is a DNS name: nothing in it needs an escape. */
const char *kube_node_path(Arena *arena, const char *collection, const char *field, const char *node)
{
    return arena_printf(arena, "%s?fieldSelector=%s%%3D%s", collection, field, node);
}
