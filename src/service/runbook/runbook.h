/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runbooks: one page for each built-in class of faults, which says what it means, how to confirm it, what to do and
 * when to replace. They are docs/runbooks, built in, so that an alert leads somewhere in a machine room without a way
 * out; HTML was made of them at build time. Pages are unpacked when asked for and nothing of them is kept: under a
 * millisecond and less than a megabyte of memory. Const, any thread.
 */

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

typedef struct Runbook Runbook;

/* Pages of classes, in the order of their names. */
size_t runbook_count(void);
const Runbook *runbook_at(size_t i);
/* The page of a class; NULL: none, as for a site's own classes. */
const Runbook *runbook_find(const char *class);
/* The page that leads to all others; its class is "". */
const Runbook *runbook_index(void);

const char *runbook_class(const Runbook *runbook);
const char *runbook_title(const Runbook *runbook); /* a phrase: "the GPU has fallen off the bus" */

/* Appends the page as Markdown. -EFBIG where out's ceiling is met. */
int runbook_text(const Runbook *runbook, Str *out, Err *err);
/* Appends the page as a whole HTML document, to be served as PLACE/CLASS, the index as PLACE/ (RUNBOOK_PLACE below the
 * agent's address): links among pages are relative. -EFBIG. */
int runbook_html(const Runbook *runbook, Str *out, Err *err);
/* The Content-Security-Policy that such a document wants: its own style by hash, nothing else. */
extern const char runbook_policy[];

#define RUNBOOK_PLACE "runbooks"

/* Where the agent at `base` ("http://node7:9400/", with or without the last slash) serves the page of a class, into
 * out; "" where there is no page or no base. */
void runbook_url(const char *base, const char *class, char *out, size_t size);
