/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the HTTP client among themselves: one request (call.c) and the loop's side of all (fetch.c).
 */

#include "base/str.h"
#include "wire/fetch/fetch.h"
#include "wire/fetch/library.h"

struct FetchCall {
    Fetch *fetch;
    FetchCall *next, **at; /* in the list of those under way */
    const FetchLibrary *lib;
    CURL *easy;
    struct curl_slist *headers, *connect_to;
    char *body;
    Str answer; /* what is kept of it */
    size_t answer_max;
    FetchDone done;
    void *self;
    char why[CURL_ERROR_SIZE];
};

/* A request that is ready to be added. -EINVAL for what makes no request. */
int fetch_call_new(const FetchLibrary *lib, const FetchRequest *request, FetchCall **ret, Err *err);
void fetch_call_free(FetchCall *call); /* its handle is in no multi any more */
/* What came of it. The answer borrows from the call. */
void fetch_call_answer(const FetchCall *call, CURLcode code, FetchAnswer *ret);
