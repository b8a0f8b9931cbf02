/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Members of JSON objects by name. member_* reads one and reports the first that is wrong; convert_* writes one or
 * reads one, so that one list of calls serves both ways. A member that is missing, null or wrong leaves its field as it
 * is: the caller sets beforehand what it then has to be. Any thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "model/pci.h"
#include "model/word.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct MemberReader {
    char place[64]; /* the object that is read, for errors: "gpus[3]" */
    int rc;         /* 0, or that of the first error */
    Err *err;
} MemberReader;

/* Sets rc and err to "PLACE: 'NAME' is no WANTED" unless there was an error before. */
void member_fail(MemberReader *r, const char *name, const char *wanted);

/* NULL for null too. This one reports nothing. */
json_t *member_get(const json_t *object, const char *name);

/* `r` NULL: what is wrong is as if it were missing. Those that return bool: whether *ret was set. */
const char *member_text(MemberReader *r, const json_t *object, const char *name); /* in the JSON; NULL: none */
void member_copy_text(MemberReader *r, const json_t *object, const char *name, char *out, size_t room);
#define MEMBER_COPY_TEXT(r, object, name, field) member_copy_text(r, object, name, field, sizeof(field))
int member_word(MemberReader *r, const json_t *object, const char *name, const WordRow *words,
                size_t count); /* -1 where it is missing or none of them */
bool member_bool(MemberReader *r, const json_t *object, const char *name, bool *ret);
bool member_u64(MemberReader *r, const json_t *object, const char *name, uint64_t max, uint64_t *ret);
bool member_u32(MemberReader *r, const json_t *object, const char *name, uint32_t *ret);
bool member_real(MemberReader *r, const json_t *object, const char *name, double *ret);
bool member_seconds(MemberReader *r, const json_t *object, const char *name, uint64_t *ret_ns);
bool member_time(MemberReader *r, const json_t *object, const char *name, uint64_t *ret_real_ns); /* RFC 3339 */
const json_t *member_list(MemberReader *r, const json_t *object, const char *name, size_t max);
json_t *member_object(MemberReader *r, const json_t *object, const char *name);

/* --- both ways ---------------------------------------------------------------------------------------------------- */

/* One object that is written or read. */
typedef struct Convert {
    Str *out; /* NULL: it is read */
    const json_t *in;
} Convert;

void convert_text(const Convert *c, const char *name, char *text, size_t room); /* "" is null */
#define CONVERT_TEXT(c, name, field) convert_text(c, name, field, sizeof(field))
/* An enum of `end` values by their words; "" is null. */
void convert_word(const Convert *c, const char *name, void *value, const WordRow *words, size_t end);
void convert_count(const Convert *c, const char *name, uint64_t *value);
void convert_number(const Convert *c, const char *name, uint32_t *value); /* DEVICE_NO_NUMBER is null */
/* An XID (none: 0) or a pid (none: -1); `none` is null. */
void convert_code(const Convert *c, const char *name, int32_t *value, int32_t none);
void convert_real(const Convert *c, const char *name, double *value); /* what is not finite is null */
void convert_bool(const Convert *c, const char *name, bool *value);
void convert_time(const Convert *c, const char *name, uint64_t *real_ns); /* 0 is null */
void convert_pci(const Convert *c, bool *has_pci, PciAddress *pci, PciForm form);

/* An object within, and one that is an element of a list; ended with convert_close. */
Convert convert_open(const Convert *c, const char *name);
Convert convert_open_element(const Convert *c, const json_t *list, size_t i);
/* A list, ended with convert_close: how many elements it has, at most `max` when it is read. */
uint32_t convert_open_list(const Convert *c, const char *name, size_t count, uint32_t max, const json_t **ret_list);
void convert_close(const Convert *c, char bracket);
