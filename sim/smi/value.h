/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One reading as text: the number or word without its unit, or the library's error. Every output prints from these.
 * Owned by the caller, who passes one in; a getter always fills it.
 */
#include <stddef.h>

#include "base/attribute.h"
#include "sim/smi/nvml.h"

enum { VALUE_MAX = 1024 };

typedef struct Value {
    nvmlReturn_t rc;
    char text[VALUE_MAX]; /* valid when rc is NVML_SUCCESS */
} Value;

void value_text(Value *value, const char *fmt, ...) PRINTF_LIKE(2, 3);
void value_error(Value *value, nvmlReturn_t rc);

/* A number when rc is NVML_SUCCESS, else the error. */
void value_uint(Value *value, nvmlReturn_t rc, unsigned long long number);
/* words[i], or the error; NVML_ERROR_NOT_SUPPORTED for an i outside or a NULL word. */
void value_word(Value *value, nvmlReturn_t rc, unsigned long long i, const char *const *words, size_t count);
/* "Enabled" or "Disabled"; "Yes" or "No"; "Active" or "Not Active". */
void value_enabled(Value *value, nvmlReturn_t rc, unsigned long long on);
void value_yes(Value *value, nvmlReturn_t rc, unsigned long long on);
void value_active(Value *value, nvmlReturn_t rc, unsigned long long on);
/* Bytes as MiB, milliwatts as watts with two digits. */
void value_mib(Value *value, nvmlReturn_t rc, unsigned long long bytes);
void value_watt(Value *value, nvmlReturn_t rc, unsigned int milliwatts);

/* What stands in place of a value: "N/A" for what the board does not offer, otherwise the library's words. */
const char *value_reason(const Value *value);

/* The value with its unit (" MiB"), or the reason. Writes at most `size` bytes with the NUL. */
void value_show(const Value *value, const char *unit, char *out, size_t size);
