/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Dynamic resource allocation as a part of `stoker kubelet`: service/kubelet's Dra, and the process that lists devices.
 */

#include "service/kubelet/dra.h"
#include "verb/kubelet/kubelet.h"

typedef struct Claims Claims;

/* -errno: the file of prepared claims cannot be used. `find_files` as DraConfig's. */
int claims_new(uv_loop_t *loop, const VerbCall *call, const KubeletSettings *settings, const Log *log,
               void (*find_files)(void *self, Arena *arena, DriverFiles *ret), void *self, Claims **ret, Err *err);
/* What is offered now; borrowed until the next call. */
void claims_offer(Claims *claims, const Offer *offer);
void claims_configure(Claims *claims, const GrantConfig *grant);
void claims_tick(Claims *claims);  /* every few seconds */
void claims_close(Claims *claims); /* accepts NULL */
