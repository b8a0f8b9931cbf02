/* SPDX-License-Identifier: Apache-2.0 */
/* What the options of `stoker kubelet` and its sub verbs make. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "source/kubernetes/kubernetes.h"
#include "verb/kubelet/kubelet.h"

static int read_strategies(const OptSet *set, const KubeletOptions *o, GrantConfig *ret, Err *err)
{
    const struct {
        const char *name;
        bool *on;
    } known[] = {{"envvar", &ret->envvar},
                 {"volume-mounts", &ret->volume_mounts},
                 {"cdi-annotations", &ret->cdi_annotations},
                 {"cdi-cri", &ret->cdi_cri}};

    for (size_t i = 0; i < o->list_strategies.len; i++) {
        size_t k = 0;

        while (k < ARRAY_LEN(known) && strcmp(known[k].name, o->list_strategies.items[i]) != 0)
            k++;
        if (k == ARRAY_LEN(known))
            return opt_fail(set, "flags.plugin.deviceListStrategy", i, err,
                            "'%s' is none of envvar, volume-mounts, cdi-annotations, cdi-cri",
                            o->list_strategies.items[i]);
        *known[k].on = true;
    }
    return 0;
}

static int check_settings(const OptSet *set, KubeletSettings *s, Err *err)
{
    KubeletOptions *o = &s->o;

    if (o->version && strcmp(o->version, "v1") != 0)
        return opt_fail(set, "version", 0, err, "'%s' is not v1", o->version);
    TRY(offer_read_codes(getenv("DP_DISABLE_HEALTHCHECKS"), getenv("DP_ENABLE_HEALTHCHECKS"), &s->offer.codes, err));
    TRY(kubelet_read_sharing(o->sharing, &s->arena, &s->offer, err));
    TRY(read_strategies(set, o, &s->kubelet.grant, err));
    if ((o->update_node || o->follow_placement || o->config_dir || o->dra_driver) && !kube_is_node_name(o->node))
        return err_set(err, -EINVAL,
                       "--update-node, --follow-placement, --config-dir and --dra-driver need --node-name "
                       "(NODE_NAME), the name of this node in the cluster");
    if (o->follow_placement && o->dra_driver)
        return err_set(err, -EINVAL, "--follow-placement is not for claims: the scheduler names their devices itself");
    if (o->dra_driver && !kube_is_driver_name(o->dra_driver))
        return err_set(err, -EINVAL, "--dra-driver: '%.80s' is no name of a driver, such as gpu.nvidia.com",
                       o->dra_driver);
    if (o->make_mig && !o->dra_driver)
        return err_set(err, -EINVAL, "--dra-dynamic-mig is for claims: --dra-driver is needed too");
    if (o->dra_driver && s->offer.sharing != OFFER_SHARING_NONE)
        return err_set(err, -EINVAL, "--dra-driver: sharing is asked for by claims, not by this configuration");
    if (o->update_node && !o->features_file)
        return err_set(err, -EINVAL, "--update-node needs --features-file, in which the labels are made");
    if (s->offer.sharing == OFFER_SHARING_MPS && o->mig != OFFER_MIG_NONE)
        return err_set(err, -EINVAL, "sharing by MPS needs migStrategy none: MIG devices cannot be shared so");
    if (s->offer.sharing == OFFER_SHARING_MPS && !o->mps_root)
        return err_set(err, -EINVAL, "sharing by MPS needs --mps-root, the host's folder of the MPS daemons");
    if (o->mps_root && o->mps_root[0] != '/')
        return opt_fail(set, "flags.mpsRoot", 0, err, "'%s' is not an absolute path", o->mps_root);
    return 0;
}

const char *kubelet_driver_root(const KubeletOptions *o)
{
    if (access(o->container_driver_root, F_OK) == 0)
        return o->container_driver_root;
    return strcmp(o->driver_root, "/") == 0 ? o->root : o->driver_root;
}

const char *kubelet_dev_root(const KubeletOptions *o)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/dev/nvidiactl", o->container_driver_root);
    return access(path, F_OK) == 0 ? o->container_driver_root : o->root;
}

static void use_settings(KubeletSettings *s)
{
    const KubeletOptions *o = &s->o;
    GrantConfig *grant = &s->kubelet.grant;

    s->offer.mig = o->dra_driver ? OFFER_MIG_MIXED : (OfferMig)o->mig;
    s->offer.hold_ns = o->hold_ns;
    grant->by_index = o->id_strategy == 1;
    grant->device_nodes = o->device_nodes;
    grant->gdrcopy = o->gdrcopy;
    grant->gds = o->gds;
    grant->mofed = o->mofed;
    grant->cdi_prefix = o->cdi_prefix;
    grant->dev_root = o->dev_root ? o->dev_root : o->driver_root;
    if (strcmp(grant->dev_root, "/") == 0)
        grant->dev_root = "";
    grant->root = kubelet_dev_root(o);
    grant->mps_root = o->mps_root;
    s->kubelet.dir = o->dir;
    s->kubelet.socket = o->socket ? o->socket : arena_printf(&s->arena, "%s/" KUBELET_SOCKET_NAME, o->dir);
    s->kubelet.policy = (OfferPolicy){(OfferSpread)o->spread, o->spread_heat};
    s->kubelet.one_each = s->offer.one_each;
}

void kubelet_settings_free(KubeletSettings *s)
{
    arena_done(&s->arena);
    free(s);
}

/* An empty text is as none. */
static void drop_empty_texts(KubeletOptions *o)
{
    const char **const texts[] = {&o->config_file,   &o->config_dir, &o->default_config,
                                  &o->features_file, &o->mps_root,   &o->dra_driver};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (*texts[i] && !(*texts[i])[0])
            *texts[i] = NULL;
}

/* The file that counts; NULL: none. */
static int find_config(KubeletSettings *s, const char *name, const char **ret, Err *err)
{
    const KubeletOptions *o = &s->o;

    *ret = o->config_file;
    if (!o->config_dir)
        return 0;
    if (*ret)
        return err_set(err, -EINVAL, "--config-file and --config-dir are given: one of them is needed");
    name = name && name[0] ? name : o->default_config;
    if (!name)
        return 0;
    if (strchr(name, '/') || name[0] == '.')
        return err_set(err, -EINVAL, "'%.80s' is not the name of a configuration", name);
    *ret = arena_printf(&s->arena, "%s/%s", o->config_dir, name);
    return 0;
}

int kubelet_settings_load(VerbCall *call, const char *name, KubeletSettings **ret, Err *err)
{
    CLEANUP(kubelet_settings_free_at) KubeletSettings *s = xcalloc(1, sizeof *s);
    CLEANUP_FREE OptPlace *places = xcalloc(kubelet_all_count, sizeof *places);
    const OptSet set = {
        .opts = kubelet_all_opts, .count = kubelet_all_count, .into = &s->o, .arena = &s->arena, .places = places};
    const YamlNode *file = NULL;
    const char *path;
    OptArgs args;

    TRY(opt_defaults(&set, err));
    TRY(opt_env(&set, environ, err));
    TRY(opt_args(&set, call->argc, call->argv, &args, err));
    drop_empty_texts(&s->o);
    TRY(find_config(s, name, &path, err));
    if (path) {
        TRY(yaml_load_file(path, &s->arena, &file, err));
        TRY(opt_yaml(&set, file, err));
        TRY(opt_env(&set, environ, err));
        TRY(opt_args(&set, call->argc, call->argv, &args, err));
    }
    drop_empty_texts(&s->o);
    TRY(check_settings(&set, s, err));
    use_settings(s);
    *ret = TAKE(s);
    return 0;
}

int kubelet_read_answer(const Str *answer, SnapshotBuffer *ret, uint64_t *ret_revision, Err *err)
{
    const char *json = strchr(answer->text, '\n');

    if (!json || number_parsen_u64(answer->text, (size_t)(json - answer->text), 0, UINT64_MAX, ret_revision, NULL) < 0)
        return err_set(err, -EPROTO, "the agent's answer has no revision: is it of this version?");
    if (snapshot_read(ret, json + 1, answer->len - (size_t)(json + 1 - answer->text), err) < 0)
        return err_add(err, "the agent's answer");
    return 0;
}
