/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/sampling.h"

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

/* How many GPUs this node should have, from the configuration or from what the container runtime was told
 * (NVIDIA_VISIBLE_DEVICES); below 0: as many as are on the bus. */
static int64_t sampling_expected(const AgentOptions *options, const char *visible)
{
    int64_t count = 0;

    if (options->gpus_expected >= 0 || !visible || !visible[0] || strcmp(visible, "all") == 0 ||
        strcmp(visible, "void") == 0 || strcmp(visible, "none") == 0)
        return options->gpus_expected;
    for (const char *at = visible; *at; at += strcspn(at, ","), at += *at == ',')
        count += *at != ',';
    return count;
}

/* Whether any PCI device is visible: a sandbox may hide all. */
static bool has_bus(const Sampling *sampling)
{
    char path[4096];
    bool any = false;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", sampling->config->o.root ? sampling->config->o.root : "");
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    for (const struct dirent *entry; !any && dir && (entry = readdir(dir));)
        any = entry->d_name[0] != '.';
    return any;
}

/* Passed through to a virtual machine. */
static bool is_given_away(const FactsGpu *gpu)
{
    return strcmp(gpu->driver, "vfio-pci") == 0;
}

void sampling_scan_bus(Sampling *sampling)
{
    FactsGpu found[NODE_GPUS_MAX];
    PciAddress addresses[NODE_GPUS_MAX];
    size_t count = 0;
    Err err;

    if (pci_scan(sampling->config->o.root ? sampling->config->o.root : "", found, NODE_GPUS_MAX, &count, NULL, &err) <
        0)
        return; /* no PCI bus is visible: rely on the driver */
    size_t ours = 0;
    sampling->bus_count = count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
    sampling->bus_seen = count > 0 || has_bus(sampling);
    for (size_t i = 0; i < sampling->bus_count; i++) {
        sampling->bus[i] = found[i].pci;
        if (!is_given_away(&found[i]))
            addresses[ours++] = found[i].pci;
    }
    supervisor_set_bus(sampling->supervisor, addresses, ours);
    for (size_t i = 0; i < sampling->bus_count; i++)
        if (is_given_away(&found[i]))
            supervisor_hide_gone_gpu(sampling->supervisor,
                                     found[i].pci); /* bound to vfio-pci now: stop tracking, do not report it missing */
    board_reader_set_bus(sampling->reader, (uint32_t)ours, sampling->expected);
}

static void scan_due(uv_timer_t *timer)
{
    sampling_scan_bus(timer->data);
}

static const char *read_hostname(char room[HOSTNAME_CAP])
{
    const char *said = getenv("NODE_NAME");

    if (said && said[0])
        return said;
    if (gethostname(room, HOSTNAME_CAP) < 0)
        return "";
    room[HOSTNAME_CAP - 1] = '\0';
    return room;
}

static uint64_t real_at(const Sampling *sampling, uint64_t now_ns)
{
    const BoardClock *clock = &sampling->board->clock;

    if (clock->speed < 1 || clock->speed > 1)
        return sampling->start_real_ns + (now_ns - clock->start_ns) + (uint64_t)sampling->real_step_ns;
    return clock_real(clock_kernel());
}

/* ClockOps: the Clock is the first member of its Sampling. */
static uint64_t read_board_ns(const Clock *clock)
{
    return board_now(((const Sampling *)(const void *)clock)->board);
}

static uint64_t read_real_ns(const Clock *clock)
{
    return real_at((const Sampling *)(const void *)clock, read_board_ns(clock));
}

int sampling_open(Sampling *sampling, uv_loop_t *loop, AgentConfig *config, const Log *log, Err *err)
{
    static const ClockOps clock = {.monotonic_ns = read_board_ns, .real_ns = read_real_ns};
    const AgentOptions *o = &config->o;
    char name[HOSTNAME_CAP];

    *sampling = (Sampling){.clock.ops = &clock,
                           .loop = loop,
                           .log = log,
                           .config = config,
                           .board_fd = -1,
                           .expected = sampling_expected(o, getenv("NVIDIA_VISIBLE_DEVICES"))};
    TRY(board_new(&sampling->board, &sampling->board_fd, err));
    sampling->board->clock.speed = o->clock_speed;
    sampling->start_real_ns = clock_real(clock_kernel());
    ProcessesSpec processes = {.program = o->sampler && o->sampler[0]
                                              ? o->sampler
                                              : verb_child_program(&config->arena, "src/source/nvml", "stoker-sampler"),
                               .socket = o->sampler_socket && o->sampler_socket[0] ? o->sampler_socket : NULL,
                               .library = o->library,
                               .dcgm = o->dcgm ? &config->dcgm : NULL,
                               .limits = &config->limits,
                               .log = log};
    TRY(processes_new(loop, sampling->board, sampling->board_fd, &processes, &sampling->processes, err));
    sampling->supervisor = processes_supervisor(sampling->processes);
    sampling->reader = board_reader_new(sampling->board, sampling->supervisor, read_hostname(name));
    uv_timer_init(loop, &sampling->scan_timer);
    sampling->scan_timer.data = sampling;
    sampling->started = true;
    board_reader_set_bus(sampling->reader, 0, sampling->expected);
    sampling_scan_bus(sampling);
    processes_run(sampling->processes);
    uv_timer_start(&sampling->scan_timer, scan_due, SCAN_MS, SCAN_MS);
    return 0;
}

const Node *sampling_read(Sampling *sampling)
{
    const uint64_t now = board_now(sampling->board);
    const Node *node = board_reader_read(sampling->reader, now, real_at(sampling, now));
    processes_usage(sampling->processes, board_reader_samplers(sampling->reader), node->sampler_count);
    return node;
}

void sampling_stop(Sampling *sampling, void (*done)(void *self), void *self)
{
    if (!sampling->started) {
        done(self);
        return;
    }
    uv_timer_stop(&sampling->scan_timer);
    processes_stop(sampling->processes, done, self);
}

void sampling_close(Sampling *sampling)
{
    if (sampling->started)
        uv_close((uv_handle_t *)&sampling->scan_timer, NULL);
    board_reader_free(TAKE(sampling->reader));
    processes_free(TAKE(sampling->processes));
    board_unmap(TAKE(sampling->board));
    fd_close(&sampling->board_fd);
    sampling->started = false;
}
