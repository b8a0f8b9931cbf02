/* SPDX-License-Identifier: Apache-2.0 */
/* Password checks in libuv's workers, two at a time at most; the connection is suspended meanwhile. The worker sees
 * its job's texts alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "wire/http/conn.h"

enum { RUNNING_MAX = 2 };

struct AuthJob {
    uv_work_t work;
    HttpServer *server;
    Conn *conn; /* NULL: gone meanwhile */
    WebConfig *web;
    AuthClaim claim;
    const char *hash; /* of web */
    bool known;       /* the user is one */
    bool matches;     /* by the worker */
    bool running;
    AuthJob *next;
};

static void start_jobs(HttpServer *server);

static void job_free(AuthJob *job)
{
    auth_claim_done(&job->claim);
    web_config_unref(job->web);
    free(job);
}

static void on_work(uv_work_t *work)
{
    AuthJob *job = work->data;

    job->matches = auth_matches(job->hash, job->claim.password);
}

static void on_done(uv_work_t *work, int status)
{
    AuthJob *job = work->data;
    HttpServer *server = job->server;
    bool right = status == 0 && job->known && job->matches;
    Conn *conn = job->conn;

    server->jobs_running--;
    if (status == 0)
        auth_remember(job->web->auth, &job->claim, right);
    if (conn) {
        conn->job = NULL;
        conn->verdict = right ? AUTH_RIGHT : AUTH_WRONG;
        conn->verdict_web = job->web;
        conn_resume(conn);
    }
    job_free(job);
    start_jobs(server);
    if (server->closing)
        server_tick_at(server, 0);
}

static void start_jobs(HttpServer *server)
{
    while (server->job_first && server->jobs_running < RUNNING_MAX) {
        AuthJob *job = server->job_first;

        server->job_first = job->next;
        if (!server->job_first)
            server->job_last = NULL;
        job->running = true;
        server->jobs_running++;
        uv_queue_work(server->loop, &job->work, on_work, on_done);
    }
}

static void append(HttpServer *server, AuthJob *job)
{
    *(server->job_last ? &server->job_last->next : &server->job_first) = job;
    server->job_last = job;
}

static void failed(Conn *conn)
{
    HttpServer *server = conn->server;
    uint64_t held = 0;

    server->counts.auth_failures++;
    if (log_limit(&server->auth_limit, uv_hrtime(), &held))
        log_write(server->log, LOG_LEVEL_WARN, "%s: wrong user or password (%llu more were, unsaid)", conn->peer,
                  (unsigned long long)held);
}

static void begin_job(Conn *conn, AuthClaim *claim)
{
    HttpServer *server = conn->server;
    AuthJob *job = xcalloc(1, sizeof(*job));

    job->work.data = job;
    job->server = server;
    job->conn = conn;
    job->web = web_config_ref(server->web);
    job->claim = *claim;
    *claim = (AuthClaim){0};
    job->hash = auth_hash_of(job->web->auth, &job->claim, &job->known);
    conn->job = job;
    conn_deadline(conn, UINT64_MAX);
    conn_suspend(conn);
    append(server, job);
    start_jobs(server);
}

AuthVerdict auth_job_check(Conn *conn, const char *header)
{
    CLEANUP(auth_claim_done) AuthClaim claim = {0};
    const WebConfig *web = conn->server->web;
    AuthVerdict verdict = AUTH_WRONG;

    if (!header)
        return AUTH_WRONG; /* browsers ask first without; no failure */
    if (conn->verdict != AUTH_UNKNOWN && conn->verdict_web == web)
        verdict = conn->verdict;
    else if (auth_claim(web->auth, header, &claim))
        verdict = auth_recall(web->auth, &claim);
    if (verdict == AUTH_UNKNOWN)
        begin_job(conn, &claim);
    else if (verdict == AUTH_WRONG)
        failed(conn);
    return verdict;
}

static void take_out(HttpServer *server, const AuthJob *job)
{
    AuthJob *before = NULL;

    for (AuthJob *at = server->job_first; at; before = at, at = at->next) {
        if (at != job)
            continue;
        *(before ? &before->next : &server->job_first) = at->next;
        if (server->job_last == at)
            server->job_last = before;
        return;
    }
}

void auth_job_cancel(Conn *conn)
{
    AuthJob *job = TAKE(conn->job);

    job->conn = NULL;
    if (job->running)
        return; /* on_done frees it */
    take_out(conn->server, job);
    job_free(job);
}
