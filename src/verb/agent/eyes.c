/* SPDX-License-Identifier: Apache-2.0 */
/* See eyes.h. */
#include "verb/agent/eyes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "source/pci/pci.h"
#include "version.h"

enum { SCAN_MS = 5000, HOSTNAME_CAP = 256 };

int64_t eyes_expected(const AgentOptions *options, const char *visible)
{
    int64_t count = 0;

    if (options->gpus_expected >= 0 || !visible || !visible[0] || strcmp(visible, "all") == 0 ||
        strcmp(visible, "void") == 0 || strcmp(visible, "none") == 0)
        return options->gpus_expected;
    for (const char *at = visible; *at; at += strcspn(at, ","), at += *at == ',')
        count += *at != ',';
    return count;
}

/* Whether the kernel shows PCI devices of any kind: a sandbox may show none, whatever there is. */
static bool has_bus(const Eyes *eyes)
{
    char path[4096];
    bool any = false;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", eyes->config->o.root ? eyes->config->o.root : "");
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    for (const struct dirent *entry; !any && dir && (entry = readdir(dir));)
        any = entry->d_name[0] != '.';
    return any;
}

/* To a virtual machine. */
static bool is_given_away(const PciGpu *gpu)
{
    return strcmp(gpu->driver, "vfio-pci") == 0;
}

void eyes_scan(Eyes *eyes)
{
    PciGpu found[NODE_GPUS_MAX];
    PciAddress addresses[NODE_GPUS_MAX];
    size_t count = 0;
    Err err;

    if (pci_scan(eyes->config->o.root ? eyes->config->o.root : "", found, NODE_GPUS_MAX, &count, &err) < 0)
        return; /* no PCI bus to be seen: the driver says what there is */
    size_t ours = 0;
    eyes->bus_count = count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
    eyes->bus_seen = count > 0 || has_bus(eyes);
    for (size_t i = 0; i < eyes->bus_count; i++) {
        eyes->bus[i] = found[i].address;
        if (!is_given_away(&found[i]))
            addresses[ours++] = found[i].address;
    }
    supervisor_set_bus(eyes->supervisor, addresses, ours);
    for (size_t i = 0; i < eyes->bus_count; i++)
        if (is_given_away(&found[i]))
            supervisor_hide_gone_gpu(
                eyes->supervisor,
                found[i].address); /* bound to vfio-pci now: stop tracking, do not report it missing */
    view_set_bus(eyes->view, (uint32_t)ours, eyes->expected);
}

static void scan_due(uv_timer_t *timer)
{
    eyes_scan(timer->data);
}

/* stoker-sampler as built, or as installed. */
static const char *find_sampler(Arena *arena)
{
    const char *path = verb_program_dir(arena);
    const char *const places[] = {
        arena_printf(arena, "%s/src/source/nvml/stoker-sampler", path),
        arena_printf(arena, "%s/../" STOKER_LIBEXECDIR "/stoker/stoker-sampler", path),
        arena_printf(arena, "%s/stoker-sampler", path),
    };
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return places[1];
}

static const char *hostname(char room[HOSTNAME_CAP])
{
    const char *said = getenv("NODE_NAME");

    if (said && said[0])
        return said;
    if (gethostname(room, HOSTNAME_CAP) < 0)
        return "";
    room[HOSTNAME_CAP - 1] = '\0';
    return room;
}

int eyes_open(Eyes *eyes, uv_loop_t *loop, AgentConfig *config, const Log *log, Err *err)
{
    const AgentOptions *o = &config->o;
    char name[HOSTNAME_CAP];

    *eyes = (Eyes){.loop = loop,
                   .log = log,
                   .config = config,
                   .board_fd = -1,
                   .expected = eyes_expected(o, getenv("NVIDIA_VISIBLE_DEVICES"))};
    TRY(board_new(&eyes->board, &eyes->board_fd, err));
    eyes->board->clock.speed = o->clock_speed;
    eyes->start_real_ns = clock_real(clock_kernel());
    ProcessesSpec processes = {.program = o->sampler && o->sampler[0] ? o->sampler : find_sampler(&config->arena),
                               .socket = o->sampler_socket && o->sampler_socket[0] ? o->sampler_socket : NULL,
                               .library = o->library,
                               .dcgm = o->dcgm ? &config->dcgm : NULL,
                               .limits = &config->limits,
                               .log = log};
    TRY(processes_new(loop, eyes->board, eyes->board_fd, &processes, &eyes->processes, err));
    eyes->supervisor = processes_supervisor(eyes->processes);
    eyes->view = view_new(eyes->board, eyes->supervisor, hostname(name));
    uv_timer_init(loop, &eyes->scan_timer);
    eyes->scan_timer.data = eyes;
    eyes->started = true;
    view_set_bus(eyes->view, 0, eyes->expected);
    eyes_scan(eyes);
    processes_run(eyes->processes);
    uv_timer_start(&eyes->scan_timer, scan_due, SCAN_MS, SCAN_MS);
    return 0;
}

static uint64_t real_at(const Eyes *eyes, uint64_t now_ns)
{
    const BoardClock *clock = &eyes->board->clock;

    if (clock->speed < 1 || clock->speed > 1)
        return eyes->start_real_ns + (now_ns - clock->start_ns) + (uint64_t)eyes->real_step_ns;
    return clock_real(clock_kernel());
}

uint64_t eyes_real(const Eyes *eyes)
{
    return real_at(eyes, board_now(eyes->board));
}

const Node *eyes_look(Eyes *eyes)
{
    const uint64_t now = board_now(eyes->board);
    const Node *node = view_turn(eyes->view, now, real_at(eyes, now));
    processes_usage(eyes->processes, view_samplers(eyes->view), node->sampler_count);
    return node;
}

void eyes_stop(Eyes *eyes, void (*done)(void *self), void *self)
{
    if (!eyes->started) {
        done(self);
        return;
    }
    uv_timer_stop(&eyes->scan_timer);
    processes_stop(eyes->processes, done, self);
}

void eyes_close(Eyes *eyes)
{
    if (eyes->started)
        uv_close((uv_handle_t *)&eyes->scan_timer, NULL);
    view_free(TAKE(eyes->view));
    processes_free(TAKE(eyes->processes));
    board_unmap(TAKE(eyes->board));
    fd_close(&eyes->board_fd);
    eyes->started = false;
}
