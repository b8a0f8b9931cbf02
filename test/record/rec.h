/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One recording: the library that is asked and the JSON that is written. What could name a machine, a board or a person
 * is masked where it is written: digits of a private text become 0 and its letters x, private numbers 0 or 1.
 */
#include <stddef.h>
#include <stdio.h>

#include "nvml_abi.h"

typedef struct Rec {
    void *library;
    FILE *out;
    char on[16]; /* "0": GPU 0; "0/1": its MIG device 1; "0:5": its GPU instance 5; "0:5:1": compute instance 1 */
    nvmlDevice_t device, second;
    nvmlGpuInstance_t instance;
    nvmlComputeInstance_t compute;
    int second_index;    /* -1: no second device */
    const char *without; /* functions that are not called: names with commas, or NULL */
    const char *asked;   /* the function that was looked up last */
    unsigned int calls, args, outs;
} Rec;

/* Looks a function up into the pointer at `fn`; 0 where the library has none. */
int rec_have(const Rec *r, const char *name, void *fn, size_t size);
/* The same, and records that there is none. 0 too for one that is not to be called. */
int rec_find(Rec *r, const char *name, void *fn, size_t size);

/* One call: begin, args, code, outs (each: rec_out, a value, "]"), end. */
void rec_begin(Rec *r, const char *name);
void rec_arg(Rec *r, const char *name, long long value);
void rec_code(Rec *r, nvmlReturn_t rc);
void rec_out(Rec *r, const char *name, const char *type);
void rec_end(Rec *r);

/* Values. */
void rec_raw(Rec *r, const char *json);
void rec_key(Rec *r, const char *name, int more);
void rec_number(Rec *r, long long value, int is_private);
void rec_double(Rec *r, double value);
void rec_text(Rec *r, const char *text, size_t size, int is_private);
void rec_bytes(Rec *r, const void *bytes, size_t size, int is_private);
