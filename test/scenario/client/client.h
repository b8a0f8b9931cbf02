/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A client of libnvidia-ml.so.1 that asks for everything. It opens the library as clients do, calls every function of
 * priority 1 and 2 on every device, writes the answers as text, and checks that they agree with each other. A Client is
 * of one thread; the library behind it is shared by all.
 */
#include <stdio.h>

#include "nvml_abi.h"
#include "nvml_names.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

enum { CLIENT_DEVICES_MAX = SIM_GPU_MAX * 8, CLIENT_INSTANCES_MAX = 64, CLIENT_LIST_MAX = 128 };

typedef void (*ClientFn)(void);

typedef struct Client {
    FILE *out;       /* answers; never NULL */
    SimImage *image; /* the node, for its clock and for what its boards have */
    nvmlDevice_t devices[CLIENT_DEVICES_MAX];
    unsigned int gpus, device_count; /* whole GPUs come first */
    nvmlGpuInstance_t instances[CLIENT_INSTANCES_MAX];
    unsigned int instance_gpu[CLIENT_INSTANCES_MAX], instance_count;
    nvmlComputeInstance_t computes[CLIENT_INSTANCES_MAX];
    unsigned int compute_count;
    int changing; /* others change the node meanwhile: devices may vanish between two calls */
    unsigned int wrong;
} Client;

/* ---- the library ---- */

/* Opens libnvidia-ml.so.1; 0, or -1 with a message on stderr. Once per process. */
int library_open(void);
/* The function's address or NULL, and notes that it has been used. */
ClientFn library_fn(NvmlFn fn);
/* Names of functions of priority 1 and 2 that the library exports and nobody used, to stderr; returns how many. */
unsigned int library_unused(void);

/* Calls a function by its prototype; 13 when the library does not export it. */
#define CALL(name, ...)                                                                                                \
    (library_fn(NVML_FN_##name) ? ((__typeof__(name) *)library_fn(NVML_FN_##name))(__VA_ARGS__)                        \
                                : NVML_ERROR_FUNCTION_NOT_FOUND)

/* The same for one without arguments. */
#define CALL_PLAIN(name)                                                                                               \
    (library_fn(NVML_FN_##name) ? ((__typeof__(name) *)library_fn(NVML_FN_##name))() : NVML_ERROR_FUNCTION_NOT_FOUND)

/* ---- asking ---- */

/* Finds devices and instances. */
void client_find(Client *c);
/* Calls everything that only reads, for all devices, and writes the answers. */
void client_read_all(Client *c);
/* Calls what changes something, in ways that leave the node as it was. */
void client_change_all(Client *c);
/* The device's place in c->devices, -1 when it is none. */
int client_device(const Client *c, nvmlDevice_t device);
/* Writes "name(what) = code"; the caller adds values and the line's end. */
void client_answer(Client *c, const char *name, const char *what, nvmlReturn_t code);
/* Says that something is wrong, on stderr, and counts it. */
void client_wrong(Client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The parts of client_read_all and client_change_all. */
void rows_read(Client *c);
void rows_change(Client *c);
void own_read(Client *c);
void own_change(Client *c);

/* ---- checking ---- */

/* Whether answers agree: sums, limits, units, codes. */
void check_now(Client *c);
/* Steps the clock and watches counters, energy and power over `seconds`. */
void check_course(Client *c, double seconds);
/* Whether a function may answer so on a node that is well. */
int check_code(nvmlReturn_t code);

/* What the programs of a Kubernetes node conclude from their calls while GPUs are lost. */
void kube_run(Client *c);

/* ---- threads and processes ---- */

/* Builds a node, and asks it from 4 processes of 8 threads while a fifth changes it. Returns the exit code. */
int storm_run(const char *self, const char *boards_dir);
/* One of the processes. */
int storm_ask(SimImage *image);

/* Builds the image of a scenario file. */
SimImage *node_build(const char *scenario, const char *boards_dir, const char *path);
