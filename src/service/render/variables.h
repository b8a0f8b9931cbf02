/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The variables of a job's processes, each with why it is set. Pure. */

#include "base/vec.h"
#include "service/render/render.h"

typedef struct Variable {
    const char *name;
    const char *value;
    bool raw;        /* `value` is the target's own language, not a text: a field path, an expression of the shell */
    const char *why; /* one line; NULL: it says it itself */
} Variable;

typedef VEC(Variable) Variables;

/* Appends it unless the description sets it itself. */
void variables_add(Variables *to, const JobSpec *spec, Variable variable);
/* How many processes there are, and how torchrun starts them. */
void variables_add_sizes(Variables *to, const JobSpec *spec, Arena *arena);
/* What NCCL cannot find out itself, and what the description sets. */
void variables_add_rest(Variables *to, const JobSpec *spec, Arena *arena);
