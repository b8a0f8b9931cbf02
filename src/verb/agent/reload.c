/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the configuration again, on SIGHUP or when a file changed. Everything is read and checked before anything is
 * put in force. Folders are watched rather than files, since editors and ConfigMaps replace files by renaming.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "verb/agent/agent.h"

enum { SETTLE_MS = 200 };

static void say_notes(const Agent *agent, const AgentConfig *config)
{
    for (size_t i = 0; i < config->note_count; i++)
        log_write(&agent->log, LOG_LEVEL_WARN, "%s", config->notes[i]);
}

int agent_apply(Agent *agent, Err *err)
{
    const AgentOptions *o = &agent->config->o;
    Exporter *before = agent->exporter;

    agent->log.level = (LogLevel)o->log_level;
    say_notes(agent, agent->config);
    agent->exporter = exporter_new(&agent->config->exporter, &agent->config->counters);
    if (before)
        exporter_adopt(agent->exporter, before);
    exporter_free(before);
    agent->pages[0].tick = agent->pages[1].tick = 0;
    agent_plan(agent);
    if (agent->pods)
        podresources_close(TAKE(agent->pods));
    if (o->kubernetes) {
        PodResourcesConfig pods = {.socket = o->kubelet_socket,
                                   .resource_names = o->resource_names.items,
                                   .resource_name_count = o->resource_names.len,
                                   .period_ns = o->pods_period_ns,
                                   .timeout_ns = 5 * NS_PER_S,
                                   .keep_ns = 60 * NS_PER_S,
                                   .reply_bytes = 64 << 20,
                                   .log = &agent->log};
        TRY(podresources_new(&agent->loop, &pods, &agent->pods, err));
    }
    if (agent->jobs_on)
        hpc_done(&agent->jobs);
    agent->jobs_on = o->hpc_dir && o->hpc_dir[0];
    if (agent->jobs_on)
        hpc_init(&agent->jobs, o->hpc_dir);
    vec_clear(&agent->job_list);
    return 0;
}

void agent_reload(Agent *agent, const char *why)
{
    AgentConfig *now = NULL;
    Err err = {0};

    agent->reloads++;
    agent->config_fine = false;
    if (agent_config_load(agent->argc, agent->argv, &now, &err) < 0) {
        agent->reload_failures++;
        log_write(&agent->log, LOG_LEVEL_ERROR, "reload (%s): %s; the configuration of before stays in force", why,
                  err.text);
        return;
    }
    const char *later = agent_config_needs_restart(agent->config, now);
    AgentConfig *before = agent->config;
    agent_unwatch_files(agent);
    agent->config = now;
    int rc = agent_apply(agent, &err);
    if (before != agent->started)
        agent_config_free(before);
    agent_watch_files(agent);
    if (rc == 0)
        rc = http_server_reload(agent->http, &err);
    if (rc < 0) {
        agent->reload_failures++;
        log_write(&agent->log, LOG_LEVEL_ERROR, "reload (%s): %s; what it is about stays as it was", why, err.text);
        return;
    }
    agent->config_fine = true;
    log_write(&agent->log, LOG_LEVEL_INFO, "reloaded (%s): %zu metrics%s%s", why, now->counter_rows,
              later ? "; only a restart changes " : "", later ? later : "");
}

static void settled(uv_timer_t *timer)
{
    agent_reload(timer->data, "a file changed");
}

/* Is `name`, seen to change in the folder of watch `i`, one that concerns us? ConfigMaps swap the link "..data". */
static bool concerns(const Agent *agent, const char *name)
{
    const AgentOptions *o = &agent->config->o;
    const char *const files[] = {o->config, agent->config->counters_file, o->web_config};

    if (!name || strncmp(name, "..data", 6) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        const char *slash = files[i] ? strrchr(files[i], '/') : NULL;

        if (files[i] && strcmp(slash ? slash + 1 : files[i], name) == 0)
            return true;
    }
    return false;
}

static void changed(uv_fs_event_t *watch, const char *name, int events, int status)
{
    Agent *agent = watch->data;

    (void)events;
    if (status == 0 && !agent->stopping && concerns(agent, name))
        uv_timer_start(&agent->reload_timer, settled, SETTLE_MS, 0);
}

static void watch_folder(Agent *agent, const char *file)
{
    if (!file || !file[0] || agent->watch_count == ARRAY_LEN(agent->watches))
        return;
    CLEANUP_FREE char *folder = xstrdup(file);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    uv_fs_event_t *watch = &agent->watches[agent->watch_count];
    if (uv_fs_event_start(watch, changed, slash ? folder : ".", 0) == 0)
        agent->watch_count++;
}

void agent_watch_files(Agent *agent)
{
    watch_folder(agent, agent->config->o.config);
    watch_folder(agent, agent->config->counters_file);
    watch_folder(agent, agent->config->o.web_config);
}

void agent_unwatch_files(Agent *agent)
{
    while (agent->watch_count > 0)
        uv_fs_event_stop(&agent->watches[--agent->watch_count]);
}
