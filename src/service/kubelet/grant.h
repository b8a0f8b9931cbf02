/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a container gets with devices, as the message that the kubelet is answered with. */

#include "service/kubelet/deviceplugin.pb-c.h"
#include "service/kubelet/kubelet.h"

/* Packed by `arena`. -EINVAL or -EBUSY: a text for the pod's owner. */
int grant_devices(const GrantConfig *config, const OfferResource *resource, bool one_each, char *const *ids,
                  size_t count, Arena *arena, Deviceplugin__Grant **ret, Err *err);
