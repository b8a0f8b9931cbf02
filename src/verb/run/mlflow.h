/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The GPUs' readings as system metrics of an MLflow run, by MLflow's REST API (runs/log-batch): under the names that
 * MLflow's own client has, and more. The run is that of MLFLOW_RUN_ID, else a new one. Nothing here waits: points are
 * queued, one request is under way at a time, and what cannot be sent is counted. One thread.
 */

#include <uv.h>

#include "base/err.h"
#include "engine/usage/usage.h"

typedef struct Mlflow Mlflow;

enum { MLFLOW_WHY_CAP = 256, MLFLOW_END_MS = 5000 }; /* END: how long to wait for the server when the command ended */

/* `uri`: of the tracking server, http or https; `name`: of a new run; both borrowed. Who may log:
 * MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN. -ENOENT without libcurl. It lives as long as the process. */
int mlflow_new(uv_loop_t *loop, const char *uri, const char *name, uint64_t start_real_ns, Mlflow **ret, Err *err);

/* Queues a point of each reading of the devices that the group holds, and sends what is due. */
void mlflow_add(Mlflow *mlflow, const Usage *usage, const Node *node);

/* The command ended: sends the rest, and the state of a run that was made here. `signal`: that ended it; 0: none. */
void mlflow_finish(Mlflow *mlflow, uint64_t end_real_ns, int exit_status, int signal);

/* After mlflow_finish: nothing is left to send. */
bool mlflow_is_over(const Mlflow *mlflow);

/* Why not all of it was logged, for a person; "" where it was. */
const char *mlflow_why(const Mlflow *mlflow, char out[MLFLOW_WHY_CAP]);
