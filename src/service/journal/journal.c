/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of the journal: queueing, acknowledging, state. The thread that writes is in writer.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "service/journal/writer.h"

enum { CHECK_MS = 100, OUTBOX_MAX = 1 << 20, BUNDLE_MAX = 16 << 20 };

struct Journal {
    Writer writer;
    JournalConfig config;
    uv_async_t async;
    uv_timer_t timer; /* runs while something is not acknowledged */
    int handles;
    JournalAcked acked;
    void *self;
    uint64_t last, acknowledged; /* tickets: given out, acknowledged */
    uint64_t waiting_since;      /* uv_now at which the oldest job that is not acknowledged began to wait */
    uint64_t newest_real_ns;     /* of incidents and events: the time of a bundle */
};

/* --- acknowledging ------------------------------------------------------------------------------------------------ */

static void acknowledge_until(Journal *j, uint64_t to, uint64_t on_disk)
{
    while (j->acknowledged < to) {
        j->acknowledged++;
        j->acked(j->self, j->acknowledged, j->acknowledged <= on_disk);
    }
    if (j->acknowledged == j->last)
        uv_timer_stop(&j->timer);
    j->waiting_since = uv_now(j->async.loop);
}

static void acknowledge_progress(Journal *j)
{
    WriterProgress progress;

    writer_progress(&j->writer, &progress);
    const uint64_t to = progress.given_up > progress.on_disk ? progress.given_up : progress.on_disk;

    if (to > j->acknowledged)
        acknowledge_until(j, to, progress.on_disk);
}

static void handle_wake(uv_async_t *async)
{
    acknowledge_progress(async->data);
}

static void check_patience(uv_timer_t *timer)
{
    Journal *j = timer->data;

    if (uv_now(timer->loop) - j->waiting_since >= j->config.patience_ns / NS_PER_MS)
        writer_late(&j->writer);
    acknowledge_progress(j);
}

static uint64_t queue_job(Journal *j, Job *job)
{
    job->ticket = ++j->last;
    if (!j->config.path[0]) {
        job_free(job);
        writer_give_up(&j->writer, j->last);
        uv_async_send(&j->async);
    } else {
        writer_put(&j->writer, job);
    }
    if (!uv_is_active((uv_handle_t *)&j->timer)) {
        j->waiting_since = uv_now(j->async.loop);
        uv_timer_start(&j->timer, check_patience, CHECK_MS, CHECK_MS);
    }
    return j->last;
}

/* --- putting ------------------------------------------------------------------------------------------------------ */

static void note_time(Journal *j, uint64_t real_ns)
{
    if (real_ns > j->newest_real_ns)
        j->newest_real_ns = real_ns;
}

uint64_t journal_put_incident(Journal *j, const Incident *incident)
{
    Job *job = job_new(JOB_INCIDENT, sizeof *incident);

    memcpy(job->data, incident, sizeof *incident);
    note_time(j, incident->updated_real_ns);
    snprintf(job->key, sizeof job->key, "%s", incident->id);
    return queue_job(j, job);
}

uint64_t journal_put_event(Journal *j, const Event *event, const char *incident_id)
{
    Job *job = job_new(JOB_EVENT, sizeof *event);

    memcpy(job->data, event, sizeof *event);
    note_time(j, event->real_ns);
    snprintf(job->key, sizeof job->key, "%s", incident_id);
    return queue_job(j, job);
}

uint64_t journal_put_bundle(Journal *j, const char *incident_id, const char *json, size_t len)
{
    CLEANUP(str_done) Str gz = {0};

    str_init(&gz, BUNDLE_MAX);
    if (gzip_pack(json, len, &gz, NULL) < 0)
        str_clear(&gz); /* larger than any that we make: keep an empty one */
    Job *job = job_new(JOB_BUNDLE, gz.len);

    memcpy(job->data, gz.text, gz.len);
    job->real_ns = j->newest_real_ns;
    snprintf(job->key, sizeof job->key, "%s", incident_id);
    return queue_job(j, job);
}

uint64_t journal_put_window(Journal *j, const MaintenanceWindow *window, bool ended)
{
    Job *job = job_new(ended ? JOB_WINDOW_END : JOB_WINDOW, sizeof *window);

    memcpy(job->data, window, sizeof *window);
    snprintf(job->key, sizeof job->key, "%s", window->id);
    return queue_job(j, job);
}

uint64_t journal_put_gpu(Journal *j, const JournalGpu *gpu, bool forgotten)
{
    const JobGpu data = {.gpu = *gpu, .forgotten = forgotten};
    Job *job = job_new(JOB_GPU, sizeof data);

    memcpy(job->data, &data, sizeof data);
    snprintf(job->key, sizeof job->key, "%.79s", gpu->device.uuid);
    return queue_job(j, job);
}

uint64_t journal_put_position(Journal *j, const char *boot_id, uint64_t sequence, uint64_t fabric_offset,
                              uint64_t fabric_inode)
{
    JobPosition position = {.sequence = sequence, .fabric_offset = fabric_offset, .fabric_inode = fabric_inode};
    Job *job = job_new(JOB_POSITION, sizeof position);

    snprintf(position.boot_id, sizeof position.boot_id, "%s", boot_id);
    memcpy(job->data, &position, sizeof position);
    snprintf(job->key, sizeof job->key, "position");
    return queue_job(j, job);
}

uint64_t journal_put_outbox(Journal *j, const char *receiver, const char *key, const char *text, size_t len)
{
    Job *job = job_new(JOB_OUTBOX, len < OUTBOX_MAX ? len : 0);

    memcpy(job->data, text, job->len);
    snprintf(job->receiver, sizeof job->receiver, "%s", receiver);
    snprintf(job->key, sizeof job->key, "%s", key);
    return queue_job(j, job);
}

/* --- at the start ------------------------------------------------------------------------------------------------- */

int journal_kept(Journal *j, JournalKept *ret, Err *err)
{
    *ret = (JournalKept){0};
    return j->config.path[0] ? writer_kept(&j->writer, ret, err) : 0;
}

int journal_each_outbox(Journal *j,
                        void (*fn)(void *self, const char *receiver, const char *key, const char *text, size_t len),
                        void *self, Err *err)
{
    WriterOutbox outbox = {0};
    const int rc = j->config.path[0] ? writer_outbox(&j->writer, &outbox, err) : 0;

    for (size_t i = 0; i < outbox.len; i++) {
        fn(self, outbox.at[i]->receiver, outbox.at[i]->key, (const char *)outbox.at[i]->data, outbox.at[i]->len);
        job_free(outbox.at[i]);
    }
    vec_done(&outbox);
    return rc;
}

static void wake_loop(void *self)
{
    Journal *j = self;

    uv_async_send(&j->async);
}

static void free_when_closed(uv_handle_t *handle)
{
    Journal *j = handle->data;

    if (--j->handles == 0)
        free(j);
}

static void close_handles(Journal *j)
{
    j->handles = 2;
    uv_close((uv_handle_t *)&j->async, free_when_closed);
    uv_close((uv_handle_t *)&j->timer, free_when_closed);
}

int journal_open(uv_loop_t *loop, const JournalConfig *config, JournalAcked acked, void *self, Journal **ret, Err *err)
{
    Journal *j = xcalloc(1, sizeof *j);

    j->config = *config;
    j->acked = acked;
    j->self = self;
    uv_async_init(loop, &j->async, handle_wake);
    uv_timer_init(loop, &j->timer);
    j->async.data = j->timer.data = j;
    uv_unref((uv_handle_t *)&j->async);
    const int rc = writer_start(&j->writer, config, wake_loop, j, err);
    if (rc < 0) {
        close_handles(j);
        return rc;
    }
    *ret = j;
    return 0;
}

void journal_close(Journal *j)
{
    if (!j)
        return;
    writer_stop(&j->writer);
    acknowledge_progress(j);
    close_handles(j);
}

void journal_state(const Journal *j, JournalState *ret)
{
    writer_state(&j->writer, ret);
}
