/* SPDX-License-Identifier: Apache-2.0 */
#include "service/gres/gres_report.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void add_notes(const GresNode *node, Str *to)
{
    bool mig = false, cores = true;
    for (size_t i = 0; i < node->count; i++) {
        const GresGpu *gpu = &node->gpus[i];
        if (gpu->why[0])
            str_addf(to, "# GPU %u is left out: %s\n", gpu->index, gpu->why);
        else if (gpu->mig && !gpu->instance_count)
            str_addf(to, "# GPU %u is left out: it is in MIG mode and has no instance\n", gpu->index);
        mig |= gpu->mig;
        cores &= gpu->cores_known || gpu->why[0] != '\0';
    }
    if (!cores)
        str_add(to, "# No Cores where the kernel does not tell which processors are near the GPU.\n");
    if (mig)
        str_add(
            to,
            "# MIG: set ConstrainDevices=yes in cgroup.conf and TaskPlugin=task/cgroup in slurm.conf. Without them\n"
            "# CUDA_VISIBLE_DEVICES is the position of a line here, and a job uses another device than it was given.\n"
            "# Print this file anew after each change of the layout.\n");
}

static void add_line(const GresNode *node, const GresDevice *device, const char *node_name, Str *to)
{
    if (node_name)
        str_addf(to, "NodeName=%s ", node_name);
    str_add(to, "Name=gpu Type=");
    gres_add_type(device, to);
    str_add(to, device->instance ? " MultipleFiles=" : " File=");
    gres_add_files(device, to);
    if (device->gpu->cores_known) {
        str_add(to, " Cores=");
        gres_add_cores(&device->gpu->cores, to);
    }
    if (gres_has_links(node)) {
        str_add(to, " Links=");
        gres_add_links(node, device->gpu, to);
    }
    str_addc(to, '\n');
}

void gres_conf_text(const GresNode *node, const char *node_name, Str *to)
{
    CLEANUP_FREE GresDevice *devices = xcalloc(GRES_DEVICES_MAX, sizeof *devices);
    const size_t count = gres_list_devices(node, devices);
    str_add(
        to,
        "# gres.conf by 'stoker slurm gres', in the order of the PCI bus. It belongs to these lines of slurm.conf:\n"
        "#   GresTypes=gpu\n");
    str_addf(to, "#   NodeName=%s Gres=", node_name ? node_name : "NAME");
    gres_add_totals(node, to);
    str_addc(to, '\n');
    add_notes(node, to);
    for (size_t i = 0; i < count; i++)
        add_line(node, &devices[i], node_name, to);
}

typedef void (*AddText)(const GresDevice *device, Str *to);

static void add_member(Str *to, const char *name, const GresDevice *device, AddText add)
{
    CLEANUP(str_done) Str text = str_limited(1024);
    add(device, &text);
    json_add_text(to, name, text.text);
}

static void add_device(const GresNode *node, const GresDevice *device, Str *to)
{
    CLEANUP(str_done) Str cores = str_limited(8 * GRES_CORES_MAX);
    json_open(to, NULL, '{');
    json_add_u64(to, "gpu", device->gpu->index);
    json_add_text(to, "profile", device->instance ? device->instance->profile : NULL);
    add_member(to, "type", device, gres_add_type);
    add_member(to, "files", device, gres_add_files);
    if (device->gpu->cores_known)
        gres_add_cores(&device->gpu->cores, &cores);
    json_add_text(to, "cores", cores.len ? cores.text : NULL);
    json_open(to, "links", '[');
    for (size_t i = 0; gres_has_links(node) && i < node->count; i++)
        json_add_i64(to, NULL, &node->gpus[i] == device->gpu ? -1 : device->gpu->links[i]);
    json_close(to, ']');
    json_close(to, '}');
}

void gres_conf_json(const GresNode *node, Str *to)
{
    CLEANUP_FREE GresDevice *devices = xcalloc(GRES_DEVICES_MAX, sizeof *devices);
    const size_t count = gres_list_devices(node, devices);
    CLEANUP(str_done) Str totals = str_limited(64 << 10);
    gres_add_totals(node, &totals);
    json_open(to, NULL, '{');
    json_add_text(to, "gres", totals.len ? totals.text : "");
    json_open(to, "devices", '[');
    for (size_t i = 0; i < count; i++)
        add_device(node, &devices[i], to);
    json_close(to, ']');
    json_close(to, '}');
    str_addc(to, '\n');
}

/* --- findings ----------------------------------------------------------------------------------------------------- */

static bool is_fatal(const GresConf *conf)
{
    for (size_t i = 0; i < conf->problem_count; i++)
        if (gres_findings[conf->problems[i].kind].fatal)
            return true;
    return false;
}

void gres_problems_text(const GresConf *conf, Str *to)
{
    for (size_t i = 0; i < conf->problem_count; i++) {
        const GresProblem *one = &conf->problems[i];
        const GresFindingRow *row = &gres_findings[one->kind];
        str_add(to, one->file);
        if (one->line)
            str_addf(to, ":%u", one->line);
        str_addf(to, ": %s\n", row->text);
        if (one->configured[0])
            str_addf(to, "    file      %s\n", one->configured);
        if (one->hardware[0])
            str_addf(to, "    hardware  %s\n", one->hardware);
        str_addf(to, "    slurmd    %s\n", row->effect);
    }
    if (is_fatal(conf))
        str_add(to, "slurmd does not start with this file.\n");
}

void gres_problems_json(const GresConf *conf, Str *to)
{
    json_open(to, NULL, '{');
    json_add_text(to, "file", conf->path);
    json_add_bool(to, "starts", !is_fatal(conf));
    json_open(to, "findings", '[');
    for (size_t i = 0; i < conf->problem_count; i++) {
        const GresProblem *one = &conf->problems[i];
        const GresFindingRow *row = &gres_findings[one->kind];
        json_open(to, NULL, '{');
        json_add_text(to, "file", one->file);
        if (one->line)
            json_add_u64(to, "line", one->line);
        else
            json_add_null(to, "line");
        json_add_text(to, "finding", row->key);
        json_add_text(to, "text", row->text);
        json_add_text(to, "configured", one->configured[0] ? one->configured : NULL);
        json_add_text(to, "hardware", one->hardware[0] ? one->hardware : NULL);
        json_add_text(to, "effect", row->effect);
        json_add_bool(to, "fatal", row->fatal);
        json_close(to, '}');
    }
    json_close(to, ']');
    json_close(to, '}');
    str_addc(to, '\n');
}
