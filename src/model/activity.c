/* SPDX-License-Identifier: Apache-2.0 */
#include "model/activity.h"

#include <assert.h>
#include <string.h>

static const char *const words[ACTIVITY_END] = {
#define ACTIVITY(id, key) [ACTIVITY_##id] = key,
    ACTIVITY_TABLE(ACTIVITY)
#undef ACTIVITY
};

static const char *const causes[ACTIVITY_CAUSE_END] = {
#define CAUSE(id, key) [ACTIVITY_CAUSE_##id] = key,
    ACTIVITY_CAUSE_TABLE(CAUSE)
#undef CAUSE
};

static const char *const bases[ACTIVITY_BASIS_END] = {
#define BASIS(id, key) [ACTIVITY_BASIS_##id] = key,
    ACTIVITY_BASIS_TABLE(BASIS)
#undef BASIS
};

static int find_key(const char *const *keys, int count, const char *key)
{
    for (int i = 0; i < count; i++)
        if (strcmp(keys[i], key) == 0)
            return i;
    return -1;
}

const char *activity_key(ActivityWord word)
{
    assert((size_t)word < ACTIVITY_END);
    return words[word];
}

bool activity_find(const char *key, ActivityWord *ret_word)
{
    const int at = find_key(words, ACTIVITY_END, key);

    if (at >= 0)
        *ret_word = (ActivityWord)at;
    return at >= 0;
}

const char *activity_cause_key(ActivityCause cause)
{
    assert((size_t)cause < ACTIVITY_CAUSE_END);
    return causes[cause];
}

bool activity_cause_find(const char *key, ActivityCause *ret_cause)
{
    const int at = find_key(causes, ACTIVITY_CAUSE_END, key);

    if (at >= 0)
        *ret_cause = (ActivityCause)at;
    return at >= 0;
}

const char *activity_basis_key(ActivityBasis basis)
{
    assert((size_t)basis < ACTIVITY_BASIS_END);
    return bases[basis];
}

bool activity_basis_find(const char *key, ActivityBasis *ret_basis)
{
    const int at = find_key(bases, ACTIVITY_BASIS_END, key);

    if (at >= 0)
        *ret_basis = (ActivityBasis)at;
    return at >= 0;
}
