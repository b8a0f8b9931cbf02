/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What dra.c and dra_claims.c share. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/file.h"
#include "service/kubelet/dra.h"
#include "service/kubelet/dra.pb-c.h"
#include "service/kubelet/message.h"
#include "service/kubelet/runner.h"

enum { DRA_PATH_CAP = 4096 };

typedef struct Preparing Preparing;

struct Dra {
    const DraConfig *config;
    uv_loop_t *loop;
    uv_timer_t timer;
    char folder[DRA_PATH_CAP], socket[DRA_PATH_CAP], registration[DRA_PATH_CAP];
    Arena arena;
    const char *claims; /* the file of those that are prepared */
    GrpcServer *server, *registrar;
    char serve_error[ERR_TEXT_MAX];
    const Offer *offer;
    json_t *devices;   /* of claim_devices, with what is described alone */
    json_t *counters;  /* what they share */
    json_t *described; /* by UUID, or name: devices as they were when they were healthy */
    Prepared *prepared;
    Runner *runner;
    Preparing *preparing;
    Watchers watchers;
    unsigned ticks;
    char file_error[ERR_TEXT_MAX], remove_error[ERR_TEXT_MAX];
};

/* ---- all below: dra_claims.c ---- */

/* "" of a MIG device that is made when a claim has it. */
const char *dra_uuid(const json_t *device);
const char *dra_parent(const json_t *device); /* the UUID of a MIG device's GPU; "" none */
const char *dra_name(const json_t *device);
const OfferUnit *dra_find_unit(const Dra *dra, const char *uuid); /* NULL */
/* What says whether a device is healthy: itself, or its GPU while it is not made. NULL: it is not there. */
const OfferUnit *dra_unit(const Dra *dra, const json_t *device);

/* Methods of the service; `self` is the Dra. */
void dra_prepare(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len);
void dra_forget_preparing(void *self, GrpcStream *stream);
void dra_unprepare(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len);
/* Ends all calls that are not answered, without a word. */
void dra_stop_preparing(Dra *dra);
/* Goes on with claims that wait, and with those that leave. */
void dra_look_at_claims(Dra *dra);
/* Takes up what the file of prepared claims says: daemons, and claims that are leaving. */
void dra_resume_claims(Dra *dra);
