/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One look at a node that somebody else took: what `stoker status --json` prints, read back into what the views draw
 * from. Owns all of it. Pure. One thread.
 */

#include "base/err.h"
#include "service/api/node_read.h"
#include "service/incident/incident.h"
#include "service/top/seen.h"

typedef struct Look {
    NodeRead read;
    Health health;
    IncidentList incidents;
    VEC(const Incident *) open; /* into incidents */
    Maintenance *maintenance;
    char boot_id[40];      /* of the node; "": not told */
    uint64_t boot_real_ns; /* 0: not told */
    bool there;            /* a look was read */
} Look;

void look_init(Look *look);
void look_done(Look *look);

/* Reads one JSON object of status_json, or of api_gpus alone. -EINVAL says what is wrong; the look is empty then.
 * Incidents that are over are left out. */
int look_read(Look *look, const char *text, size_t len, Err *err);

/* What is borrowed from the look: status, processes, boot_ns and real_ns; the rest of *ret is left as it is. */
void look_seen(const Look *look, TopSeen *ret);

/* The incidents of the look, after look->incidents was changed. */
void look_settle(Look *look);
