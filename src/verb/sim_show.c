/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker sim show`: the state of a simulated node, read from its image without the driver library. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "sim/core/control.h"
#include "sim/core/state.h"
#include "sim/scenario/library.h"
#include "verb/sim_place.h"
#include "verb/verb.h"

typedef struct ShowOptions {
    const char *image;
    bool json, watch;
    uint64_t at_ns, every_ns;
} ShowOptions;

static const OptSpec show_opts[] = {
    SIM_IMAGE_OPT(ShowOptions),
    OPT_ROW("at", OPT_DURATION, ShowOptions, at_ns, .metavar = "DURATION",
            .help = "at this virtual time since the start; default: now"),
    OPT_ROW("watch", OPT_BOOL, ShowOptions, watch, .short_flag = 'w', .help = "again and again, until interrupted"),
    OPT_ROW("every", OPT_DURATION, ShowOptions, every_ns, .def = "1s", .min = 1e8, .max = 3.6e12, .metavar = "DURATION",
            .help = "real time between two looks of --watch"),
    OPT_ROW("json", OPT_BOOL, ShowOptions, json, .help = "as JSON, every reading"),
};

typedef struct Reason {
    uint64_t bit;
    const char *text;
} Reason;

static const Reason reasons[] = {{0x4, "power limit"},
                                 {0x40, "too hot (hardware)"},
                                 {0x20, "too hot"},
                                 {0x80, "power brake"},
                                 {0x2, "application clocks"}};

/* What is wrong or noteworthy with a GPU, most important first. */
static void write_condition(const SimNow *now, Str *out)
{
    if (!now->cond.present)
        str_add(out, "not on the bus");
    else if (now->cond.lost)
        str_add(out, "lost");
    else if (now->cond.reset_required)
        str_add(out, "reset required");
    else if (now->cond.remap_failed)
        str_add(out, "row remap failed");
    else if (now->cond.remap_pending || now->cond.retired_pending)
        str_add(out, "repair pending until reset");
    for (size_t i = 0; i < ARRAY_LEN(reasons) && out->len == 0; i++)
        if (now->reasons & reasons[i].bit)
            str_add(out, reasons[i].text);
    if (out->len == 0)
        str_add(out, "-");
}

static void write_gpu(SimImage *image, uint32_t gpu, uint64_t at, Str *out)
{
    SimNow now;
    CLEANUP(str_done) Str state;
    str_init(&state, 256);
    const SimBoard *b = &image->boards[image->gpus[gpu].board];
    sim_state_at(image, gpu, at, &now);
    write_condition(&now, &state);
    str_addf(out, "%3u %-26.26s %4.0f%% %5.1f%% %5.1f%% %5.1f%% %6.1f/%-6.1f %4.0f/%-4.0f %3.0f %5u  %-19s ", gpu,
             b->name + (strncmp(b->name, "NVIDIA ", 7) == 0 ? 7 : 0), now.win[SIM_CH_KERNEL] * 100,
             now.win[SIM_CH_SM] * 100, now.win[SIM_CH_TENSOR] * 100, now.win[SIM_CH_DRAM] * 100, now.used_mib / 1024,
             b->memory_mib / 1024.0, now.watt_mean, now.limit_w, now.temp_c, now.sm_mhz, state.text);
    for (uint32_t i = 0; i < now.proc_count && i < 4; i++)
        str_addf(out, "%s%s(%u)", i ? " " : "", now.proc[i].name, now.proc[i].pid);
    str_add(out, now.proc_count > 4 ? " ...\n" : "\n");
}

static void write_events(SimImage *image, uint64_t at, Str *out)
{
    uint32_t end = sim_event_index_after(image, at), from = end > 5 ? end - 5 : 0;
    SimEvent e;
    for (uint32_t i = from; i < end; i++) {
        if (!sim_event_next(image, i, at, &e, NULL))
            break;
        if (e.type == 8)
            str_addf(out, "%10.3f s  GPU %d  XID %" PRIu64 "\n", (double)e.t_ns / 1e9, e.gpu, e.data);
        else
            str_addf(out, "%10.3f s  GPU %d  event %#" PRIx64 "\n", (double)e.t_ns / 1e9, e.gpu, e.type);
    }
}

static void write_table(SimImage *image, uint64_t at, Str *out)
{
    str_addf(out, "%s on %s, %.3f s after its start, driver %s\n\n", image->scenario, image->hostname, (double)at / 1e9,
             image->driver);
    str_add(out, "GPU board                       busy     SM tensor   DRAM     memory GiB     watt    C   MHz  state"
                 "               processes\n");
    for (uint32_t g = 0; g < image->gpu_count; g++)
        write_gpu(image, g, at, out);
    str_addc(out, '\n');
    write_events(image, at, out);
}

static void add_array(Str *out, const char *name, const double *v, size_t n)
{
    json_open(out, name, '[');
    for (size_t i = 0; i < n; i++)
        json_add_double(out, NULL, v[i]);
    json_close(out, ']');
}

static void add_gpu(SimImage *image, uint32_t gpu, uint64_t at, Str *out)
{
    SimNow now;
    sim_state_at(image, gpu, at, &now);
    json_open(out, NULL, '{');
    json_add_u64(out, "gpu", gpu);
    json_add_text(out, "board", image->boards[image->gpus[gpu].board].name);
    json_add_text(out, "uuid", image->gpus[gpu].uuid);
    json_add_u64(out, "present", now.cond.present);
    json_add_u64(out, "lost", now.cond.lost);
    json_add_u64(out, "reset_required", now.cond.reset_required);
    json_add_double(out, "watt", now.watt);
    json_add_double(out, "watt_mean", now.watt_mean);
    json_add_double(out, "energy_mj", now.energy_mj);
    json_add_double(out, "temp_c", now.temp_c);
    json_add_u64(out, "sm_mhz", now.sm_mhz);
    json_add_u64(out, "mem_mhz", now.mem_mhz);
    json_add_u64(out, "reasons", now.reasons);
    json_add_double(out, "used_mib", now.used_mib);
    add_array(out, "window", now.win, SIM_CH_COUNT);
    add_array(out, "total", now.cum, SIM_CH_COUNT);
    add_array(out, "throttle_ns", now.throttle_ns, 8);
    json_open(out, "processes", '[');
    for (uint32_t i = 0; i < now.proc_count; i++) {
        json_open(out, NULL, '{');
        json_add_u64(out, "pid", now.proc[i].pid);
        json_add_text(out, "name", now.proc[i].name);
        json_add_double(out, "mib", now.proc[i].mem_mib);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

static void write_json(SimImage *image, uint64_t at, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "scenario", image->scenario);
    json_add_u64(out, "virtual_ns", at);
    json_open(out, "gpus", '[');
    for (uint32_t g = 0; g < image->gpu_count; g++)
        add_gpu(image, g, at, out);
    json_close(out, ']');
    json_close(out, '}');
    str_addc(out, '\n');
}

/* The text of a scenario, as it stands in its file. */
static int show_scenario(VerbCall *call, const char *what)
{
    SimPlace place;
    const char *path;
    CLEANUP(str_done) Str text;
    str_init(&text, LIBRARY_BYTES_MAX);
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (library_find(place.scenario_dirs, what, call->arena, &path, &call->err) < 0 ||
        file_read(path, LIBRARY_BYTES_MAX, &text, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    fputs(text.text, stdout);
    return EXIT_FINE;
}

static int show_run(VerbCall *call, const void *options)
{
    const ShowOptions *o = options;
    SimImage *image;
    if (call->args.len > 1)
        return verb_failf(call, EXIT_USAGE, "takes at most one scenario, got '%s' too", call->args.items[1]);
    if (call->args.len == 1)
        return show_scenario(call, call->args.items[0]);
    if (sim_place_open(call->arena, o->image, &image, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    CLEANUP(str_done) Str out;
    str_init(&out, 4 << 20);
    bool tty = isatty(STDOUT_FILENO);
    do {
        uint64_t at = o->at_ns ? o->at_ns : sim_clock_now(image);
        str_clear(&out);
        str_add(&out, o->watch && tty && !o->json ? "\033[H\033[2J" : "");
        (o->json ? write_json : write_table)(image, at, &out);
        fputs(out.text, stdout);
        if (o->watch && (!verb_flush() || usleep((useconds_t)(o->every_ns / 1000)) != 0))
            break;
    } while (o->watch);
    sim_image_close(image);
    return EXIT_FINE;
}

const Verb verb_sim_show = {
    .name = "show",
    .summary = "show what a running node does, or a scenario's text",
    .usage = "[--image FILE] [--at DURATION] [--watch] [--json] | SCENARIO",
    .description = "Of a node it shows the simulator's own knowledge, true even while driver calls hang.",
    .examples = "stoker sim show                  # what the node does\n"
                "stoker sim show --watch\n"
                "stoker sim show --at 2h --json\n"
                "stoker sim show xid-79-lost      # the scenario's file",
    VERB_OPTS(show_opts, ShowOptions),
    .run = show_run,
};
