/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Records of "Key=value" words, as scontrol prints them and as Slurm's files have them. Pure, any thread. */

#include "base/err.h"
#include "source/slurm/format.h"

enum { SLURM_RECORD_MAX = 1 << 20, SLURM_KEYS_MAX = 36 };

typedef struct SlurmText {
    const char *name; /* of the file or command, for errors */
    const char *text; /* NULL: not given */
    size_t len;
} SlurmText;

/* Rows KEY(id, "key") of the keys that are read of a record. */
#define SLURM_KEY_ID(id, key) id,
#define SLURM_KEY_TEXT(id, key) key,

/* A text, and how far it is read. */
typedef struct SlurmRecords {
    const char *name, *at, *end;
    unsigned long line, next_line; /* of the record; behind it */
} SlurmRecords;

SlurmRecords slurm_records_of(const SlurmText *text);
/* The next line, with those behind it that begin with a blank. 1; 0 at the end; -E2BIG over SLURM_RECORD_MAX bytes. */
int slurm_records_next(SlurmRecords *records, SlurmWord *ret, Err *err);

/* Cuts the next word off *record; false at its end. */
bool slurm_record_word(SlurmWord *record, SlurmWord *ret);
/* "Key=value" in two; "(null)" and "N/A" are no value. False: it is none such. */
bool slurm_record_split(SlurmWord word, SlurmWord *ret_key, SlurmWord *ret_value);
bool slurm_key_is(SlurmWord word, const char *key); /* in either case */
/* The values of `keys`, at most SLURM_KEYS_MAX. Of a key that comes twice the first counts, and none where a user could
 * have written one of them. */
void slurm_record_fields(SlurmWord record, const char *const *keys, size_t count, bool by_user, SlurmWord *out);
