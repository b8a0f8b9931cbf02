/* SPDX-License-Identifier: Apache-2.0 */
/* A specification of the Container Device Interface, version 0.5.0, in which names may begin with a digit. It runs no
 * hook: libraries are mounted under every name that the loader may ask for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "service/kubelet/kubelet.h"

#define KIND "k8s.device-plugin.nvidia.com/gpu"

static void add_node(Str *out, const GrantConfig *config, const char *path, uint32_t major, uint32_t minor)
{
    char host[4096];

    json_open(out, NULL, '{');
    json_add_text(out, "path", path);
    if (config->dev_root[0]) {
        snprintf(host, sizeof host, "%s%s", config->dev_root, path);
        json_add_text(out, "hostPath", host);
    }
    if (major) { /* the runtime then needs no file of the host */
        json_add_text(out, "type", "c");
        json_add_u64(out, "major", major);
        json_add_u64(out, "minor", minor);
    }
    json_add_text(out, "permissions", "rw");
    json_close(out, '}');
}

static void add_mount(Str *out, const DriverFile *file)
{
    static const char *const library[] = {"ro", "nosuid", "nodev", "rbind", "rprivate"};
    static const char *const socket[] = {"nosuid", "nodev", "rbind", "rprivate", "noexec"};

    json_open(out, NULL, '{');
    json_add_text(out, "hostPath", file->host);
    json_add_text(out, "containerPath", file->container);
    json_open(out, "options", '[');
    for (size_t i = 0; i < 5; i++)
        json_add_text(out, NULL, file->socket ? socket[i] : library[i]);
    json_close(out, ']');
    json_close(out, '}');
}

static uint32_t gpu_major(const DriverFiles *files, uint32_t minor)
{
    for (size_t i = 0; i < files->gpu_count; i++)
        if (files->gpus[i].minor == minor)
            return files->gpus[i].major;
    return 0;
}

static void add_cap(Str *out, const GrantConfig *config, const DriverFiles *files, uint32_t minor)
{
    char path[64];

    if (minor == 0)
        return;
    snprintf(path, sizeof path, "/dev/nvidia-caps/nvidia-cap%" PRIu32, minor);
    add_node(out, config, path, files->caps_major, minor);
}

static void add_unit_nodes(Str *out, const GrantConfig *config, const DriverFiles *files, const OfferUnit *unit)
{
    char path[64];

    if (unit->device.minor == DEVICE_NO_NUMBER)
        return;
    snprintf(path, sizeof path, "/dev/nvidia%" PRIu32, unit->device.minor);
    add_node(out, config, path, gpu_major(files, unit->device.minor), unit->device.minor);
    add_cap(out, config, files, unit->gi_minor);
    add_cap(out, config, files, unit->ci_minor);
}

/* What a client of an MPS daemon needs. */
static void add_mps(Str *out, const char *folder)
{
    static const char *const parts[][2] = {{"pipe", "/tmp/nvidia-mps"}, {"shm", "/dev/shm"}};
    char host[4096];

    json_open(out, "env", '[');
    json_add_text(out, NULL, "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps");
    json_close(out, ']');
    json_open(out, "mounts", '[');
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        snprintf(host, sizeof host, "%s/%s", folder, parts[i][0]);
        json_open(out, NULL, '{');
        json_add_text(out, "hostPath", host);
        json_add_text(out, "containerPath", parts[i][1]);
        json_open(out, "options", '[');
        json_add_text(out, NULL, "rw");
        json_add_text(out, NULL, "rbind");
        json_close(out, ']');
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void add_device(Str *out, const GrantConfig *config, const DriverFiles *files, const char *name,
                       const OfferUnit *unit, const char *mps)
{
    if (unit->device.minor == DEVICE_NO_NUMBER) /* a device without edits would make the whole file invalid */
        return;
    json_open(out, NULL, '{');
    json_add_text(out, "name", name);
    json_open(out, "containerEdits", '{');
    json_open(out, "deviceNodes", '[');
    add_unit_nodes(out, config, files, unit);
    json_close(out, ']');
    if (mps)
        add_mps(out, mps);
    json_close(out, '}');
    json_close(out, '}');
}

static void begin_spec(Str *out, const char *kind)
{
    json_open(out, NULL, '{');
    json_add_text(out, "cdiVersion", "0.5.0");
    json_add_text(out, "kind", kind);
    json_open(out, "devices", '[');
}

/* What every container gets. */
static void end_spec(Str *out, const GrantConfig *config, const DriverFiles *files)
{
    json_close(out, ']');
    json_open(out, "containerEdits", '{');
    json_open(out, "env", '[');
    json_add_text(out, NULL, "NVIDIA_VISIBLE_DEVICES=void"); /* the devices are here: NVIDIA's own runtime adds none */
    json_close(out, ']');
    json_open(out, "deviceNodes", '[');
    for (size_t i = 0; i < files->node_count; i++)
        add_node(out, config, files->nodes[i].path, files->nodes[i].major, files->nodes[i].minor);
    json_close(out, ']');
    json_open(out, "mounts", '[');
    for (size_t i = 0; i < files->file_count; i++)
        add_mount(out, &files->files[i]);
    json_close(out, ']');
    json_close(out, '}');
    json_close(out, '}');
    str_addc(out, '\n');
}

void cdi_spec(const Offer *offer, const GrantConfig *config, const DriverFiles *files, Str *out)
{
    begin_spec(out, KIND);
    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++) {
            const OfferUnit *unit = &offer->resources.at[i].units.at[k];
            char name[GRANT_NAME_CAP];

            add_device(out, config, files, grant_name(config, unit, name), unit, NULL);
        }
    end_spec(out, config, files);
}

void cdi_claim_spec(const char *kind, const CdiDevice *devices, size_t count, const GrantConfig *config,
                    const DriverFiles *files, Str *out)
{
    begin_spec(out, kind);
    for (size_t i = 0; i < count; i++)
        add_device(out, config, files, devices[i].name, devices[i].unit, devices[i].mps);
    end_spec(out, config, files);
}

int cdi_keep(const char *folder, const char *path, const Str *spec, Err *err)
{
    CLEANUP(str_done) Str there = str_limited(CDI_SPEC_MAX);

    if (file_read(path, CDI_SPEC_MAX, &there, NULL) == 0 && there.len == spec->len &&
        memcmp(there.text, spec->text, spec->len) == 0)
        return 0;
    TRY(file_make_dirs(folder, 0755, err));
    TRY(file_write(path, spec->text, spec->len, 0644, err));
    return 1;
}
