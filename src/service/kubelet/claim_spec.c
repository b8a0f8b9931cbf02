/* SPDX-License-Identifier: Apache-2.0 */
/* The CDI specification of each prepared claim, in a file of its own. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "service/kubelet/dra.h"

enum { PATH_CAP = 4096 };
#define NVIDIAS ".yaml" /* the end of such a file of NVIDIA's driver, whose claims may still be in use */

static void name_spec(const DraConfig *config, const char *uid, const char *end, char to[PATH_CAP])
{
    snprintf(to, PATH_CAP, "%s/k8s.%s-claim_%s%s", config->cdi_root, config->driver, uid, end);
}

const char *claim_spec_device(const DraConfig *config, const Prepared *prepared, size_t i, Arena *arena)
{
    return arena_printf(arena, "k8s.%s/claim=%s-%s", config->driver, prepared->claim.uid,
                        prepared->claim.devices[i].name);
}

int claim_spec_check(const DriverFiles *files, const OfferUnit *unit, Err *err)
{
    static const char *const needed[] = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
    bool found = false;

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        bool there = false;

        for (size_t k = 0; k < files->node_count; k++)
            there |= strcmp(files->nodes[k].path, needed[i]) == 0;
        if (!there)
            return err_set(err, -ENOENT, "%s is not on this node: the driver's modules are not loaded", needed[i]);
    }
    for (size_t i = 0; i < files->gpu_count; i++)
        found |= files->gpus[i].minor == unit->device.minor;
    if (!found)
        return err_set(err, -ENOENT, "/dev/nvidia%" PRIu32 " is not on this node", unit->device.minor);
    if (unit->profile[0] && (!unit->gi_minor || !unit->ci_minor))
        return err_set(err, -ENOENT, "the driver does not list the device files of %s", unit->device.uuid);
    return 0;
}

int claim_spec_keep(const DraConfig *config, const Prepared *prepared, const Offer *offer, const DriverFiles *files,
                    Err *err)
{
    CLEANUP(str_done) Str spec = str_limited(CDI_SPEC_MAX);
    CLEANUP(arena_done) Arena arena = {0};
    CdiDevice devices[CLAIM_DEVICES_MAX];
    char path[PATH_CAP];

    if (prepared->claim.count == 0) /* all of it is other drivers' */
        return 0;
    for (size_t i = 0; i < prepared->claim.count; i++) {
        devices[i] = (CdiDevice){strchr(claim_spec_device(config, prepared, i, &arena), '=') + 1,
                                 offer_find_unit(offer, prepared->uuids[i]), NULL};
        if (!devices[i].unit)
            return 0;
        TRY(claim_spec_check(files, devices[i].unit, err));
        if (prepared_shares(prepared, i, OFFER_SHARING_MPS))
            devices[i].mps = arena_printf(&arena, "%s/%s", config->mps_root, prepared_daemon(prepared, i, &arena));
    }
    cdi_claim_spec(arena_printf(&arena, "k8s.%s/claim", config->driver), devices, prepared->claim.count, &config->grant,
                   files, &spec);
    name_spec(config, prepared->claim.uid, ".json", path);
    const int rc = cdi_keep(config->cdi_root, path, &spec, err);
    name_spec(config, prepared->claim.uid, NVIDIAS, path);
    if (rc > 0)
        (void)unlink(path); /* the same device in two files is none */
    return rc < 0 ? rc : 0;
}

int claim_spec_remove(const DraConfig *config, const char *uid, Err *err)
{
    char path[PATH_CAP];

    name_spec(config, uid, NVIDIAS, path);
    (void)unlink(path);
    name_spec(config, uid, ".json", path);
    return unlink(path) < 0 && errno != ENOENT ? err_errno(err, "remove '%s'", path) : 0;
}

void claim_spec_remove_others(const DraConfig *config, const Prepared *first)
{
    CLEANUP(closedir_at) DIR *folder = opendir(config->cdi_root);
    const struct dirent *entry;
    char prefix[PATH_CAP];

    const int len = snprintf(prefix, sizeof prefix, "k8s.%s-claim_", config->driver);
    while (folder && (entry = readdir(folder))) {
        const char *dot = strrchr(entry->d_name, '.');
        char uid[CLAIM_UID_MAX + 1], path[PATH_CAP];

        if (strncmp(entry->d_name, prefix, (size_t)len) != 0 || !dot || dot <= entry->d_name + len ||
            strcmp(dot, ".json") != 0)
            continue;
        snprintf(uid, sizeof uid, "%.*s", (int)(dot - entry->d_name) - len, entry->d_name + len);
        if (prepared_find(first, uid))
            continue;
        snprintf(path, sizeof path, "%s/%s", config->cdi_root, entry->d_name);
        (void)unlink(path);
    }
}
