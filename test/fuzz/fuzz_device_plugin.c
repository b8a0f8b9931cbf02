/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a kubelet asks a device plugin and a driver for claims. The first byte chooses the message; devices
 * are those of a node with four GPUs, shared and not. What is granted or preferred was asked for, and an error has a
 * text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/kubelet/dra.pb-c.h"
#include "service/kubelet/grant.h"

enum { GPUS = 4, SIZE_MAX_ASKED = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static NodeGpu gpus[GPUS];
static Node node = {.gpus = gpus, .gpu_count = GPUS};
static Snapshot snapshot = {.node = &node};
static OfferUnit units[GPUS];
static OfferResource resources[2];

static void make_node(void)
{
    for (size_t i = 0; i < GPUS; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        snprintf(gpus[i].reading.device.uuid, DEVICE_UUID_CAP, "GPU-%zu", i);
        gpus[i].reading.device.index = gpus[i].reading.device.minor = (uint32_t)i;
        units[i] = (OfferUnit){.device = gpus[i].reading.device, .gpu = i, .gpu_index = (uint32_t)i, .healthy = i != 3};
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(resources[i].name, sizeof resources[i].name, "nvidia.com/gpu");
        resources[i].replicas = i ? 5 : 1;
        resources[i].sharing = i ? OFFER_SHARING_MPS : OFFER_SHARING_NONE;
        resources[i].units.at = units;
        resources[i].units.len = GPUS;
    }
}

static void check_allocate(const OfferResource *resource, const uint8_t *data, size_t size)
{
    const GrantConfig config = {.envvar = true,
                                .volume_mounts = size & 1,
                                .cdi_annotations = true,
                                .cdi_cri = true,
                                .device_nodes = true,
                                .cdi_prefix = "cdi.k8s.io/",
                                .dev_root = "",
                                .root = "",
                                .mps_root = "/mps"};
    Deviceplugin__AllocateRequest *request = deviceplugin__allocate_request__unpack(NULL, size, data);

    for (size_t i = 0; request && i < request->n_containers; i++) {
        CLEANUP(arena_done) Arena arena = {0};
        Deviceplugin__Grant *grant = NULL;
        Err err = {0};
        const int rc = grant_devices(&config, resource, size & 2, request->containers[i]->ids,
                                     request->containers[i]->n_ids, &arena, &grant, &err);

        if ((rc < 0) != (err.text[0] != '\0') || (rc == 0 && grant->n_cdi_devices > GPUS))
            abort();
    }
    if (request)
        deviceplugin__allocate_request__free_unpacked(request, NULL);
}

static void check_prefer(const OfferResource *resource, const uint8_t *data, size_t size)
{
    Deviceplugin__PreferRequest *request = deviceplugin__prefer_request__unpack(NULL, size, data);

    for (size_t i = 0; request && i < request->n_containers; i++) {
        const Deviceplugin__PreferContainer *one = request->containers[i];
        const char *chosen[SIZE_MAX_ASKED];
        Err err = {0};

        if (one->size < 0 || one->size > SIZE_MAX_ASKED)
            continue;
        if (offer_prefer(resource, &snapshot, (OfferPolicy){.apart = size & 1}, (const char *const *)one->available_ids,
                         one->n_available_ids, (const char *const *)one->must_include_ids, one->n_must_include_ids,
                         (size_t)one->size, chosen, &err) < 0) {
            if (!err.text[0])
                abort();
            continue;
        }
        for (int32_t k = 0; k < one->size; k++)
            if (!offer_unit(resource, chosen[k]))
                abort();
    }
    if (request)
        deviceplugin__prefer_request__free_unpacked(request, NULL);
}

static void check_claims(const uint8_t *data, size_t size)
{
    Dra__Claims *claims = dra__claims__unpack(NULL, size, data);
    Dra__RegistrationStatus *status = dra__registration_status__unpack(NULL, size, data);

    for (size_t i = 0; claims && i < claims->n_claims; i++)
        if (!claims->claims[i]->uid || !claims->claims[i]->name || !claims->claims[i]->namespace_)
            abort();
    if (claims)
        dra__claims__free_unpacked(claims, NULL);
    if (status)
        dra__registration_status__free_unpacked(status, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (!node.gpus[0].reading.device.uuid[0])
        make_node();
    const OfferResource *resource = &resources[data[0] & 1];
    switch (data[0] >> 1 & 3) {
    case 0:
        check_allocate(resource, data + 1, size - 1);
        break;
    case 1:
        check_prefer(resource, data + 1, size - 1);
        break;
    default:
        check_claims(data + 1, size - 1);
    }
    return 0;
}
