/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Among the files of node_read: members of a JSON object by name. The first that is wrong is told, at the end. Where a
 * member is missing or null, what it would be put into stays as it is. */

#include "service/api/node_read.h"

typedef struct Reader {
    NodeRead *read;
    char place[64]; /* whose members are read: "GPU 3" */
    int rc;         /* 0, or that of the first error */
    Err *err;
} Reader;

void reader_fail(Reader *r, const char *name, const char *wanted);

const char *reader_text(Reader *r, const JsonItem *object, const char *name); /* NULL where there is none */
void reader_copy(Reader *r, const JsonItem *object, const char *name, char *out, size_t cap);
#define READER_COPY(r, object, name, field) reader_copy(r, object, name, field, sizeof(field))
bool reader_bool(Reader *r, const JsonItem *object, const char *name, bool *ret);
bool reader_u64(Reader *r, const JsonItem *object, const char *name, uint64_t max, uint64_t *ret);
bool reader_u32(Reader *r, const JsonItem *object, const char *name, uint32_t *ret);
/* Seconds, to the millisecond, as nanoseconds. */
bool reader_seconds(Reader *r, const JsonItem *object, const char *name, uint64_t *ret_ns);
bool reader_time(Reader *r, const JsonItem *object, const char *name, uint64_t *ret_ns);
/* An array of at most `max`, or an object; NULL where there is none. */
const JsonItem *reader_list(Reader *r, const JsonItem *object, const char *name, size_t max);
const JsonItem *reader_object(Reader *r, const JsonItem *object, const char *name);
/* Why a value is absent; a reason that is not known is ABSENCE_FAILED. */
Absence reader_absence(Reader *r, const JsonItem *object, const char *name);

/* node_read_lists.c: members that are lists. */
void reader_links(Reader *r, const JsonItem *from, NodeGpu *gpu);
void reader_peers(Reader *r, const JsonItem *from, NodeGpu *gpu);
void reader_processes(Reader *r, const JsonItem *from, NodeGpu *gpu);
void reader_owners(Reader *r, const JsonItem *from, const Device *device);
void reader_samplers(Reader *r, const JsonItem *root);
void reader_place(Reader *r, const JsonItem *from, const Device *gpu);
void reader_adapters(Reader *r, const JsonItem *root);
