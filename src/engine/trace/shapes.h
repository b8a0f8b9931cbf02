/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the recorded shapes and types of a matrix operator's inputs say: whether tensor cores could take them, and
 * whether the dimensions suit them. Any thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_SHAPE_KNOWN = 1,      /* an operator of a known kind, shapes and types recorded */
    TRACE_SHAPE_FLOAT = 2,      /* the matrices are 32-bit float (types are enough) */
    TRACE_SHAPE_TYPED = 4,      /* the matrices' type is recorded and known */
    TRACE_SHAPE_MISALIGNED = 8, /* a dimension is no multiple of 8 (16-bit types) or 16 (8-bit types) */
};

/* Which inputs of the operator are matrices, and how their dimensions make the product. */
typedef enum TraceShapeRule {
    TRACE_SHAPE_NONE,
    TRACE_SHAPE_PRODUCT,       /* mm, bmm, matmul: inputs 0 and 1, the last two dimensions */
    TRACE_SHAPE_ADDED,         /* addmm, baddbmm: inputs 1 and 2 */
    TRACE_SHAPE_LINEAR,        /* linear: x (..., k) and weight (n, k) */
    TRACE_SHAPE_CONVOLUTION,   /* channels of input 1 of weight (out, in / groups, ...) */
    TRACE_SHAPE_CONV_BACKWARD, /* convolution_backward: inputs 1 and 2 */
    TRACE_SHAPE_RULE_COUNT
} TraceShapeRule;

/* Whether a kernel of this name multiplies matrices in 32-bit float on the ordinary cores. */
bool trace_is_float_matrix(const char *name, size_t len);

TraceShapeRule trace_shape_rule(const char *op, size_t len);

/* TRACE_SHAPE_* of dims ("[[32, 128], [128, 64]]") and types ("[\"float\", \"float\"]"); "" not recorded. Dimensions of
 * 1 are not judged: that is a product with a vector. */
unsigned trace_shape_judge(TraceShapeRule rule, const char *dims, const char *types);
