/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where the GPUs and the network adapters for RDMA are in the node, from sysfs. Wakes no device up. Any thread. */

#include "base/vec.h"
#include "model/facts.h"
#include "model/place.h"

typedef VEC(Place) HostPlaces;

/* Those of the `count` GPUs that are there, in their order, then at most PLACE_ADAPTERS_MAX adapters by name. What was
 * in *places is forgotten. */
void host_places_look(const char *root, const PciAddress *gpus, size_t count, HostPlaces *places);

/* Into `known` come those of `fresh`, whose room may be taken; GPUs of `facts` that are no longer there stay where they
 * were. */
void host_places_take(HostPlaces *known, HostPlaces *fresh, const Facts *facts);
