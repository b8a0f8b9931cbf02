/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/self: what the GPUs do that the asking process works on, its ancestors and its descendants. Where these work
 * on none, as those of a shell that was started in a container by another process, it is the GPUs of its container or
 * Slurm job, by its cgroup. Reading a cgroup may wait for a lock of the kernel: that is done in a thread, and the
 * answer comes with a later tick. */
#include "verb/agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/worker.h"
#include "service/usage/usage_report.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

enum {
    PIDS_MAX = 1024,
    DEPTH_MAX = 256,
    WAITING_MAX = 64,
    QUEUE_BODIES = 1,
    CGROUP_CAP = 8192,
    PID_CAP = 16,
    ANSWER_MAX = 4 << 20
};

typedef struct Asker {
    pid_t pid;
    uid_t uid;
    char name[PROC_NAME_CAP];
    HttpStream *stream; /* of one that waits; NULL: it went */
} Asker;

/* What the thread does: of the processes on GPUs finds those in the asker's container or job. */
typedef struct SelfLook {
    char *root;
    uint32_t gpu_pids[PIDS_MAX];
    size_t gpu_count, asker_count;
    Asker askers[WAITING_MAX]; /* without their streams */
    bool found[WAITING_MAX][PIDS_MAX];
} SelfLook;

struct SelfAnswers {
    Worker *worker;
    SelfLook *look; /* the worker's while it is busy */
    bool running;   /* for the first `asker_count` that wait */
    VEC(Asker) waiting;
};

/* A process, its parent, and so on, as far as they can be read. */
typedef struct Line {
    pid_t pids[DEPTH_MAX];
    size_t count;
} Line;

static void read_line(pid_t pid, Line *ret)
{
    ProcTask task;

    ret->count = 0;
    while (pid > 1 && ret->count < DEPTH_MAX) {
        ret->pids[ret->count++] = pid;
        pid = proc_task_read("", pid, &task, NULL) < 0 ? 0 : task.parent;
    }
}

static bool is_in_line(const Line *line, pid_t pid)
{
    for (size_t i = 0; i < line->count; i++)
        if (line->pids[i] == pid)
            return true;
    return false;
}

/* Of the processes on GPUs those that belong to `asker`, ascending. Each line is read once. */
static size_t find_relatives(const Node *node, pid_t asker, uint32_t pids[PIDS_MAX])
{
    uint32_t all[PIDS_MAX];
    const size_t count = process_pids_settle(all, node_pids(node, all, PIDS_MAX));
    size_t found = 0;
    Line askers, line;

    read_line(asker, &askers);
    for (size_t i = 0; i < count; i++) {
        bool related = is_in_line(&askers, (pid_t)all[i]);

        if (!related) {
            read_line((pid_t)all[i], &line);
            related = is_in_line(&line, asker);
        }
        if (related)
            pids[found++] = all[i];
    }
    return found;
}

static void write_answer(const Node *node, pid_t pid, const char *name, const uint32_t *pids, size_t count, Str *out)
{
    const UsageGroup group = {.pids = pids, .pid_count = count};
    Usage *usage = xcalloc(1, sizeof *usage);

    usage_init(usage);
    usage_update(usage, &(Snapshot){.node = node}, &group);
    usage_json_self(usage, node, (uint32_t)pid, name, out);
    free(usage);
}

/* --- by cgroup ---------------------------------------------------------------------------------------------------- */

static bool read_cgroup(const char *root, uint32_t pid, char text[CGROUP_CAP])
{
    char name[PID_CAP];

    snprintf(name, sizeof name, "%u", pid);
    return proc_text(root, name, "cgroup", text, CGROUP_CAP, NULL) == 0;
}

static bool is_user_of(const char *root, uint32_t pid, uid_t uid)
{
    ProcessOwner owner;

    return process_identify(root, pid, false, &owner, NULL) == 0 && owner.uid == uid;
}

/* Root is told of all in its container, another user of what is the user's own there. */
static void run_look(void *self)
{
    char mine[CGROUP_CAP], other[CGROUP_CAP];
    SelfLook *look = self;

    for (size_t i = 0; i < look->asker_count; i++) {
        const Asker *asker = &look->askers[i];
        const bool known = read_cgroup(look->root, (uint32_t)asker->pid, mine);

        for (size_t k = 0; k < look->gpu_count; k++)
            look->found[i][k] = known && read_cgroup(look->root, look->gpu_pids[k], other) &&
                                process_cgroup_is_shared(mine, other) &&
                                (asker->uid == 0 || is_user_of(look->root, look->gpu_pids[k], asker->uid));
    }
}

static void free_look(void *self)
{
    SelfLook *look = self;

    free(look->root);
    free(look);
}

static int make_answers(Agent *agent, Err *err)
{
    SelfLook *look;

    if (agent->self)
        return 0;
    look = xcalloc(1, sizeof *look);
    look->root = xstrdup(agent->started->o.root ? agent->started->o.root : "");
    agent->self = xcalloc(1, sizeof *agent->self);
    agent->self->look = look;
    const int rc = worker_new(run_look, free_look, look, &agent->self->worker, err);
    if (rc < 0)
        free(TAKE(agent->self));
    return rc;
}

static void asker_gone(void *self, HttpStream *stream)
{
    SelfAnswers *answers = ((Agent *)self)->self;

    for (size_t i = 0; i < answers->waiting.len; i++)
        if (answers->waiting.at[i].stream == stream)
            answers->waiting.at[i].stream = NULL;
}

static int answer_later(Agent *agent, HttpRequest *request, Asker asker, Err *err)
{
    TRY(make_answers(agent, err));
    if (agent->self->waiting.len == WAITING_MAX)
        return err_set(err, -EBUSY, "as many programs as there may be are waiting");
    asker.stream = http_stream(request, "application/json", NULL, QUEUE_BODIES, asker_gone, agent);
    if (asker.stream)
        vec_push(&agent->self->waiting, asker);
    return 0;
}

static void send_answer(const Node *node, const SelfLook *look, size_t i, const Asker *asker)
{
    Str text = str_limited(ANSWER_MAX);
    uint32_t pids[PIDS_MAX];
    size_t count = 0;

    for (size_t k = 0; k < look->gpu_count; k++)
        if (look->found[i][k])
            pids[count++] = look->gpu_pids[k];
    write_answer(node, asker->pid, asker->name, pids, count, &text);
    const size_t len = text.len;
    HttpBody *body = http_body_new(str_take(&text), len);
    http_stream_send(asker->stream, body);
    http_stream_close(asker->stream);
    http_body_unref(body);
}

void agent_tick_self(Agent *agent)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    SelfAnswers *answers = agent->self;

    if (!answers || (answers->running && worker_is_busy(answers->worker)))
        return;
    SelfLook *look = answers->look;
    for (size_t i = 0; answers->running && i < look->asker_count; i++) {
        const Asker asker = answers->waiting.at[0];

        vec_remove(&answers->waiting, 0);
        if (asker.stream)
            send_answer(node, look, i, &asker);
    }
    answers->running = answers->waiting.len > 0;
    look->asker_count = 0;
    for (size_t i = 0; i < answers->waiting.len; i++)
        look->askers[look->asker_count++] = answers->waiting.at[i];
    look->gpu_count = process_pids_settle(look->gpu_pids, node_pids(node, look->gpu_pids, PIDS_MAX));
    if (answers->running)
        worker_start(answers->worker);
}

void agent_close_self(Agent *agent)
{
    if (!agent->self)
        return;
    worker_free(agent->self->worker);
    vec_done(&agent->self->waiting);
    free(TAKE(agent->self));
}

/* --- the request -------------------------------------------------------------------------------------------------- */

int agent_answer_self(Agent *agent, HttpRequest *request, Str *out, Err *err)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    uint32_t pids[PIDS_MAX];
    Asker asker = {0};
    ProcTask task;

    if (http_peer(request, &asker.pid, &asker.uid) < 0)
        return err_set(err, -ENOTCONN, "only a program on this node is told of itself: ask over the unix socket");
    if (asker.pid <= 0 || proc_task_read("", asker.pid, &task, NULL) < 0)
        return err_set(err, -ESRCH, "the process that asks is not in the pid namespace of the agent");
    const size_t count = find_relatives(node, asker.pid, pids);
    memcpy(asker.name, task.name, sizeof asker.name);
    if (count == 0)
        return answer_later(agent, request, asker, err);
    write_answer(node, asker.pid, asker.name, pids, count, out);
    return 1;
}
