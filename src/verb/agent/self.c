/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/self: what the GPUs do that the asking process works on, its ancestors and its descendants. Reads nothing of
 * /proc that could wait for a lock. */
#include "verb/agent/agent.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "service/usage/usage_report.h"
#include "source/proc/task.h"

enum { PIDS_MAX = 1024, DEPTH_MAX = 256 };

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

int agent_self_json(const Agent *agent, const HttpRequest *request, Str *out, Err *err)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    uint32_t pids[PIDS_MAX];
    ProcTask task;
    pid_t asker;

    if (http_peer(request, &asker) < 0)
        return err_set(err, -ENOTCONN, "only a program on this node is told of itself: ask over the unix socket");
    if (asker <= 0 || proc_task_read("", asker, &task, NULL) < 0)
        return err_set(err, -ESRCH, "the process that asks is not in the pid namespace of the agent");
    const UsageGroup group = {.pids = pids, .pid_count = find_relatives(node, asker, pids)};
    Usage *usage = xcalloc(1, sizeof *usage);
    usage_init(usage);
    usage_update(usage, &(Snapshot){.node = node}, &group);
    usage_json_self(usage, node, (uint32_t)asker, task.name, out);
    free(usage);
    return 0;
}
