/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What device memory holds, without holding it: a Content gives a 32-bit word for each index, by a rule (a pattern, a
 * fill, the product of two other contents) or from real bytes. Two with the same id are equal. A CuPieces is a stretch
 * of memory as a list of contents.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CuContent CuContent;

/* `words` words, of which the first is word `phase` of the content. */
typedef struct CuPiece {
    uint64_t words, phase;
    CuContent *content; /* owned */
} CuPiece;
typedef struct CuPieces {
    CuPiece *at;
    size_t count, cap;
} CuPieces;

/* All give a new reference. */
CuContent *cu_content_hold(CuContent *content);
void cu_content_drop(CuContent *content);
CuContent *cu_content_fill(uint32_t word);
/* What nobody wrote: differs from everything else. */
CuContent *cu_content_unknown(void);
CuContent *cu_content_pattern(uint32_t pattern, uint32_t seed, bool inverted);
CuContent *cu_content_normal(uint32_t seed);
CuContent *cu_content_integer(uint32_t seed);
/* Copies them; words * 4 bytes. */
CuContent *cu_content_bytes(const void *bytes, uint64_t words);
/* a + factor * b as float. Takes the pieces. */
CuContent *cu_content_sum(CuPieces *a, CuPieces *b, float factor);
/* The product as in gemm_bf16, n columns wide; its first word is word *ret_phase of the content. Takes the pieces.
 * `kernel` counts where rounding may differ. */
CuContent *cu_content_product(CuPieces *a, CuPieces *b, uint32_t n, uint32_t k, uint32_t kernel, uint64_t *ret_phase);

uint32_t cu_content_word(const CuContent *content, uint64_t index);
uint64_t cu_content_id(const CuContent *content);
bool cu_content_has_bytes(const CuContent *content, const void *bytes, uint64_t words);
bool cu_content_is_unknown(const CuContent *content);

/* ---- pieces ---- */
void cu_pieces_done(CuPieces *pieces);
/* Appends; holds the content. */
void cu_pieces_add(CuPieces *pieces, CuContent *content, uint64_t phase, uint64_t words);
uint32_t cu_pieces_word(const CuPieces *pieces, uint64_t index);
/* Writes all words to `to`. */
void cu_pieces_write(const CuPieces *pieces, void *to);
uint64_t cu_pieces_hash(const CuPieces *pieces);

/* Where two stretches differ. Exact up to CU_EXACT_WORDS of one content in a row; of more the first CU_SAMPLES, and as
 * many of the rest, from which the count is scaled. */
enum { CU_EXACT_WORDS = 1 << 18, CU_SAMPLES = 2048, CU_FIRST_MAX = 16 };
typedef struct CuDifference {
    uint64_t count, listed;
    uint64_t first[CU_FIRST_MAX]; /* indexes in rising order, the lowest ones found */
    uint32_t want, got;           /* of the first */
} CuDifference;
void cu_pieces_compare(const CuPieces *want, const CuPieces *got, CuDifference *ret);
