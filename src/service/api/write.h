/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Small JSON writers that the files of this folder share; not for others. */

#include "base/str.h"
#include "model/node.h"

/* A finite number, or null. */
void write_number(Str *out, double value);
/* Seconds with three places. */
void write_seconds(Str *out, uint64_t ns);
/* "key":"text" with a comma before it, nothing for an empty text. */
void write_text(Str *out, const char *key, const char *text);
/* ,"key":"..." of a monotonic instant, on the wall clock as of the node. */
void write_time(Str *out, const Node *node, const char *key, uint64_t monotonic_ns);
/* A sample's number, or null. */
void write_sample(Str *out, const Sample *sample);
/* ,"activity":{...} as of the node. */
void write_activity(Str *out, const Node *node, const Activity *activity);
/* "index":..,"uuid":..,"pci":.. of a device, no braces; begins without a comma. */
void write_identity(Str *out, const Device *device);
