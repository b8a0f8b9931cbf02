/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of opt (opt*.c) share about one row; not for others. Any thread. */
#pragma once

#include "base/opt.h"
#include "base/vec.h"

typedef VEC(const char *) OptTexts;

static inline void opt_texts_done(OptTexts *texts)
{
    vec_done(texts);
}

/* A row's flag, key or page entry exists and is shown. */
bool opt_row_has_flag(const OptSpec *spec);
bool opt_row_has_key(const OptSpec *spec);
bool opt_row_is_shown(const OptSpec *spec);

/* Sets one field from a text, checked against type and range; with `append` a list keeps what it has. */
int opt_row_set(const OptSet *set, const OptSpec *spec, const char *text, bool append, Err *err);

/* Sets a row of type OPT_LIST to these texts (copied into the arena), behind those it has with `append`. */
void opt_row_set_items(const OptSet *set, const OptSpec *spec, const char *const *items, size_t count, bool append);

/* The field of a row. */
void *opt_row_field(const OptSet *set, const OptSpec *spec);

/* What follows the help phrase: "one of a, b; 100ms to 1m; default 1s; env STOKER_X". With `key`, the key too. */
void opt_row_add_notes(const OptSpec *spec, bool key, Str *out);

/* Appends "-i, --interval DURATION" in the shape help, man page and tests know. */
void opt_row_add_flags(const OptSpec *spec, Str *out);

/* "program verb" of a page. */
void opt_row_add_name(const OptPage *page, const char *between, Str *out);

/* The page's usage text, or the one by default. */
const char *opt_row_usage(const OptPage *page);
