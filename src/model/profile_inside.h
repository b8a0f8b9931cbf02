/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the profile share. */
#include "model/profile.h"

/* A set of byte strings: equal ones get the same number, numbers count up from 0. */
typedef struct ProfileSet {
    Arena arena; /* the strings, each with a NUL behind */
    VEC(const char *) texts;
    VEC(uint32_t) lens;
    struct ProfileSlot {
        uint32_t hash, id; /* id + 1; 0: empty */
    } * slots;
    size_t slot_count; /* power of two, 0 before the first */
    uint64_t seed;
    size_t bytes; /* of strings */
} ProfileSet;

/* The details that are stored once, by their bytes. The number in a set is the index in the profile's vector only where
 * `index` says so: it maps one to the other. */
typedef struct ProfileDetailSet {
    ProfileSet set;
    VEC(uint32_t) index;
} ProfileDetailSet;

struct ProfileNames {
    ProfileSet names;
    ProfileDetailSet launches, copies, ops, lanes;
};
