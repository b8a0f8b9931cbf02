/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/content.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_kernel.h"
#include "sim/core/num.h"

typedef enum ContentKind {
    CONTENT_FILL,
    CONTENT_UNKNOWN,
    CONTENT_PATTERN,
    CONTENT_NORMAL,
    CONTENT_INTEGER,
    CONTENT_BYTES,
    CONTENT_SUM,
    CONTENT_PRODUCT
} ContentKind;

enum { DEPTH_MAX = 48 }; /* sums of sums; deeper ones are known by their id alone */

struct CuContent {
    uint32_t refs;
    ContentKind kind;
    uint64_t id;
    uint32_t pattern, seed, invert; /* invert: xor of every word */
    uint32_t n, k, depth;
    float factor;
    uint32_t *bytes;
    uint64_t words;
    CuPieces a, b;
};

static void *must_have(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static CuContent *new_content(ContentKind kind, uint64_t x, uint64_t y)
{
    CuContent *content = must_have(calloc(1, sizeof *content));

    content->refs = 1;
    content->kind = kind;
    content->id = sim_hash((uint64_t)kind + 1, x, y) | 1;
    return content;
}

CuContent *cu_content_hold(CuContent *content)
{
    content->refs++;
    return content;
}

void cu_content_drop(CuContent *content)
{
    if (!content || --content->refs > 0)
        return;
    cu_pieces_done(&content->a);
    cu_pieces_done(&content->b);
    free(content->bytes);
    free(content);
}

/* --- kinds ------------------------------------------------------------------------------------------------------- */

CuContent *cu_content_fill(uint32_t word)
{
    CuContent *content = new_content(CONTENT_FILL, word, 0);

    content->seed = word;
    return content;
}

CuContent *cu_content_unknown(void)
{
    static uint64_t count;
    CuContent *content = new_content(CONTENT_UNKNOWN, ++count, 0);

    content->seed = (uint32_t)content->id;
    return content;
}

CuContent *cu_content_pattern(uint32_t pattern, uint32_t seed, bool inverted)
{
    const uint32_t invert = inverted ? 0xffffffffu : 0;

    if (pattern == CUDA_PATTERN_ZERO || pattern == CUDA_PATTERN_AA || pattern == CUDA_PATTERN_BYTES)
        return cu_content_fill(cuda_pattern_word(pattern, seed, 0) ^ invert);
    if (pattern == CUDA_PATTERN_MODULO)
        seed %= 20;
    else if (pattern != CUDA_PATTERN_RANDOM)
        seed = 0;
    CuContent *content = new_content(CONTENT_PATTERN, pattern << 1 | inverted, seed);
    content->pattern = pattern;
    content->seed = seed;
    content->invert = invert;
    return content;
}

CuContent *cu_content_normal(uint32_t seed)
{
    CuContent *content = new_content(CONTENT_NORMAL, seed, 0);

    content->seed = seed;
    return content;
}

CuContent *cu_content_integer(uint32_t seed)
{
    CuContent *content = new_content(CONTENT_INTEGER, seed, 0);

    content->seed = seed;
    return content;
}

/* Four lanes, so that one multiplication need not wait for another. */
static uint64_t hash_words(const uint32_t *at, uint64_t words)
{
    uint64_t lanes[4] = {1, 2, 3, 4};
    uint64_t i = 0;

    for (; i + 4 <= words; i += 4)
        for (int lane = 0; lane < 4; lane++)
            lanes[lane] = (lanes[lane] ^ at[i + (uint64_t)lane]) * 0x9e3779b97f4a7c15ull;
    for (; i < words; i++)
        lanes[0] = (lanes[0] ^ at[i]) * 0x9e3779b97f4a7c15ull;
    return sim_hash(sim_hash(lanes[0], lanes[1], lanes[2]), lanes[3], words);
}

CuContent *cu_content_bytes(const void *bytes, uint64_t words)
{
    uint32_t *copy = must_have(malloc(words * 4 + 4));

    memcpy(copy, bytes, words * 4);
    CuContent *content = new_content(CONTENT_BYTES, hash_words(copy, words), words);
    content->bytes = copy;
    content->words = words;
    return content;
}

static uint32_t depth_of(const CuPieces *pieces)
{
    uint32_t depth = 0;

    for (size_t i = 0; i < pieces->count; i++)
        if (pieces->at[i].content->depth > depth)
            depth = pieces->at[i].content->depth;
    return depth;
}

/* A content made of two others. */
static CuContent *new_pair(ContentKind kind, uint64_t id, CuPieces *a, CuPieces *b)
{
    const uint32_t below = depth_of(a) > depth_of(b) ? depth_of(a) : depth_of(b);
    CuContent *content = new_content(kind, id, 0);

    content->a = *a;
    content->b = *b;
    *a = *b = (CuPieces){0};
    content->depth = below + 1;
    if (content->depth <= DEPTH_MAX)
        return content;
    cu_pieces_done(&content->a);
    cu_pieces_done(&content->b);
    content->kind = CONTENT_UNKNOWN;
    content->seed = (uint32_t)content->id;
    content->depth = 0;
    return content;
}

CuContent *cu_content_sum(CuPieces *a, CuPieces *b, float factor)
{
    const uint64_t of_a = cu_pieces_hash(a), of_b = cu_pieces_hash(b);
    const bool plain = factor == 1; /* then the order does not count */
    const uint64_t low = plain && of_b < of_a ? of_b : of_a, high = plain && of_b < of_a ? of_a : of_b;
    CuContent *content = new_pair(CONTENT_SUM, sim_hash(low, high, plain), a, b);

    content->factor = factor;
    return content;
}

/* Whether sums of products are exact in any order. */
static bool is_whole(const CuPieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++)
        if (pieces->at[i].content->kind != CONTENT_INTEGER)
            return false;
    return true;
}

/* Rows from somewhere in a content on are rows of the product of all of it: so a product made in parts is the same as
 * in one. Returns the first row. */
static uint64_t take_whole_rows(CuPieces *a, uint32_t k)
{
    CuPiece *piece = a->at;

    if (a->count != 1 || k < 2 || piece->phase % (k / 2) != 0)
        return 0;
    const uint64_t row = piece->phase / (k / 2);
    piece->words += piece->phase;
    piece->phase = 0;
    return row;
}

CuContent *cu_content_product(CuPieces *a, CuPieces *b, uint32_t n, uint32_t k, uint32_t kernel, uint64_t *ret_phase)
{
    *ret_phase = take_whole_rows(a, k) * n;
    const uint64_t rounding = is_whole(a) && is_whole(b) ? 0 : kernel;
    const uint64_t id = sim_hash(cu_pieces_hash(a), cu_pieces_hash(b), (uint64_t)n << 32 | k) + rounding;
    CuContent *content = new_pair(CONTENT_PRODUCT, id, a, b);

    content->n = n;
    content->k = k;
    return content;
}

/* --- words ------------------------------------------------------------------------------------------------------- */

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* To the nearest, ties to even. */
static uint32_t bfloat_of(float x)
{
    const uint32_t bits = bits_of(x);

    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static int sum_bytes(uint32_t x)
{
    return (int)((x & 0xff) + (x >> 8 & 0xff) + (x >> 16 & 0xff) + (x >> 24));
}

/* As fill_normal: the sum of eight uniform bytes, less its mean, by its deviation. */
static uint32_t normal_word(uint32_t index, uint32_t seed)
{
    const uint32_t h = cuda_hash(index ^ seed);
    const float scale = float_of(0x3b9cc4adu);
    const int low = sum_bytes(h) + sum_bytes(cuda_hash(h + 1)) - 1020;
    const int high = sum_bytes(cuda_hash(h + 2)) + sum_bytes(cuda_hash(h + 3)) - 1020;

    return bfloat_of((float)low * scale) | bfloat_of((float)high * scale) << 16;
}

static uint32_t integer_word(uint32_t index, uint32_t seed)
{
    const uint32_t h = cuda_hash(index ^ seed);

    return bfloat_of((float)((int)(h & 15) - 8)) | bfloat_of((float)((int)(h >> 16 & 15) - 8)) << 16;
}

static uint32_t product_word(const CuContent *content, uint64_t index)
{
    const uint64_t half = content->k / 2, row = index / content->n, column = index % content->n;
    float sum = 0;

    for (uint64_t i = 0; i < half; i++) {
        const uint32_t x = cu_pieces_word(&content->a, row * half + i);
        const uint32_t y = cu_pieces_word(&content->b, column * half + i);

        sum += float_of(x << 16) * float_of(y << 16);
        sum += float_of(x & 0xffff0000u) * float_of(y & 0xffff0000u);
    }
    return bits_of(sum);
}

uint32_t cu_content_word(const CuContent *content, uint64_t index)
{
    switch (content->kind) {
    case CONTENT_FILL:
        return content->seed;
    case CONTENT_PATTERN:
        return cuda_pattern_word(content->pattern, content->seed, index) ^ content->invert;
    case CONTENT_NORMAL:
        return normal_word((uint32_t)index, content->seed);
    case CONTENT_INTEGER:
        return integer_word((uint32_t)index, content->seed);
    case CONTENT_BYTES:
        return index < content->words ? content->bytes[index] : 0;
    case CONTENT_SUM:
        return bits_of((float)((double)float_of(cu_pieces_word(&content->a, index)) + /* rounded once, as by fma */
                               (double)content->factor * (double)float_of(cu_pieces_word(&content->b, index))));
    case CONTENT_PRODUCT:
        return product_word(content, index);
    case CONTENT_UNKNOWN:
        break;
    }
    return cuda_hash((uint32_t)index ^ content->seed);
}

bool cu_content_has_bytes(const CuContent *content, const void *bytes, uint64_t words)
{
    return content->kind == CONTENT_BYTES && content->words == words && memcmp(content->bytes, bytes, words * 4) == 0;
}

uint64_t cu_content_id(const CuContent *content)
{
    return content->id;
}

bool cu_content_is_unknown(const CuContent *content)
{
    return content->kind == CONTENT_UNKNOWN;
}

/* --- pieces ------------------------------------------------------------------------------------------------------ */

void cu_pieces_done(CuPieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++)
        cu_content_drop(pieces->at[i].content);
    free(pieces->at);
    *pieces = (CuPieces){0};
}

void cu_pieces_add(CuPieces *pieces, CuContent *content, uint64_t phase, uint64_t words)
{
    if (words == 0)
        return;
    if (pieces->count > 0) { /* goes on with the last one */
        CuPiece *last = &pieces->at[pieces->count - 1];
        if (last->content == content && last->phase + last->words == phase) {
            last->words += words;
            return;
        }
    }
    if (pieces->count == pieces->cap) {
        pieces->cap = pieces->cap ? pieces->cap * 2 : 2;
        pieces->at = must_have(realloc(pieces->at, pieces->cap * sizeof *pieces->at));
    }
    pieces->at[pieces->count++] = (CuPiece){words, phase, cu_content_hold(content)};
}

uint32_t cu_pieces_word(const CuPieces *pieces, uint64_t index)
{
    for (size_t i = 0; i < pieces->count; i++) {
        if (index < pieces->at[i].words)
            return cu_content_word(pieces->at[i].content, pieces->at[i].phase + index);
        index -= pieces->at[i].words;
    }
    return 0;
}

/* The words of a product with both factors spread out: each is used many times. */
static void write_product(const CuContent *content, uint64_t phase, uint64_t words, uint32_t *to)
{
    const uint64_t half = content->k / 2, rows = (phase + words + content->n - 1) / content->n;
    float *a = must_have(malloc(rows * content->k * sizeof *a));
    float *b = must_have(malloc((size_t)content->n * content->k * sizeof *b));

    for (uint64_t i = 0; i < rows * half; i++) {
        const uint32_t x = cu_pieces_word(&content->a, i);
        a[2 * i] = float_of(x << 16);
        a[2 * i + 1] = float_of(x & 0xffff0000u);
    }
    for (uint64_t i = 0; i < content->n * half; i++) {
        const uint32_t x = cu_pieces_word(&content->b, i);
        b[2 * i] = float_of(x << 16);
        b[2 * i + 1] = float_of(x & 0xffff0000u);
    }
    for (uint64_t w = 0; w < words; w++) {
        const float *x = a + (phase + w) / content->n * content->k, *y = b + (phase + w) % content->n * content->k;
        float sum = 0;

        for (uint32_t i = 0; i < content->k; i++)
            sum += x[i] * y[i];
        to[w] = bits_of(sum);
    }
    free(a);
    free(b);
}

void cu_pieces_write(const CuPieces *pieces, void *to)
{
    uint32_t *out = to;

    for (size_t i = 0; i < pieces->count; i++) {
        const CuPiece *piece = &pieces->at[i];
        const CuContent *content = piece->content;

        if (content->kind == CONTENT_BYTES && piece->phase + piece->words <= content->words)
            memcpy(out, content->bytes + piece->phase, piece->words * 4);
        else if (content->kind == CONTENT_PRODUCT && piece->words >= content->n)
            write_product(content, piece->phase, piece->words, out);
        else
            for (uint64_t w = 0; w < piece->words; w++)
                out[w] = cu_content_word(content, piece->phase + w);
        out += piece->words;
    }
}

/* The last piece's length does not count: a matrix of fewer rows has the same ones. */
uint64_t cu_pieces_hash(const CuPieces *pieces)
{
    uint64_t hash = pieces->count;

    for (size_t i = 0; i < pieces->count; i++) {
        const CuPiece *piece = &pieces->at[i];
        const uint64_t phase = piece->content->kind == CONTENT_FILL ? 0 : piece->phase;

        hash = sim_hash(hash, piece->content->id, phase);
        if (i + 1 < pieces->count)
            hash = sim_hash(hash, piece->words, 2);
    }
    return hash;
}

/* --- comparing --------------------------------------------------------------------------------------------------- */

static void note_word(CuDifference *d, uint64_t index, uint32_t want, uint32_t got)
{
    if (d->count == 0) {
        d->want = want;
        d->got = got;
    }
    if (d->listed < CU_FIRST_MAX)
        d->first[d->listed++] = index;
    d->count++;
}

/* Stretches of one content each, from word `index` on. */
static void compare_stretch(const CuPiece *want, const CuPiece *got, uint64_t words, uint64_t index, CuDifference *d)
{
    const bool slow = want->content->kind == CONTENT_PRODUCT || got->content->kind == CONTENT_PRODUCT;
    const uint64_t exact = words <= (slow ? CU_SAMPLES : CU_EXACT_WORDS) ? words : CU_SAMPLES;
    const uint64_t step = exact < words ? (words - exact) / CU_SAMPLES + 1 : 1;
    uint64_t before = 0, seen = 0;

    for (uint64_t i = 0; i < words; i += i < exact ? 1 : step) {
        const uint32_t x = cu_content_word(want->content, want->phase + i);
        const uint32_t y = cu_content_word(got->content, got->phase + i);

        if (i == exact)
            before = d->count;
        seen += i >= exact;
        if (x != y)
            note_word(d, index + i, x, y);
    }
    if (seen > 0)
        d->count = before + (uint64_t)((double)(d->count - before) * ((double)(words - exact) / (double)seen));
}

static bool is_same(const CuPiece *a, const CuPiece *b)
{
    return a->content->id == b->content->id && (a->phase == b->phase || a->content->kind == CONTENT_FILL);
}

void cu_pieces_compare(const CuPieces *want, const CuPieces *got, CuDifference *ret)
{
    CuPiece x = {0}, y = {0};
    size_t next_x = 0, next_y = 0;
    uint64_t index = 0;

    *ret = (CuDifference){0};
    for (;;) {
        if (x.words == 0 && next_x < want->count)
            x = want->at[next_x++];
        if (y.words == 0 && next_y < got->count)
            y = got->at[next_y++];
        const uint64_t words = x.words < y.words ? x.words : y.words;
        if (words == 0)
            return;
        if (!is_same(&x, &y))
            compare_stretch(&x, &y, words, index, ret);
        index += words;
        x.words -= words;
        y.words -= words;
        x.phase += words;
        y.phase += words;
    }
}
