/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of classify.def behind one matcher. Their words are prepared once per process: they hang on the hash of
 * their first two letters, so that a name is walked once however many there are, and only words that could begin at a
 * byte are compared there. Prepared, they are read-only.
 */
#include "engine/trace/classify.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { BUCKETS = 1024, WORDS_MAX = 512 };

/* What a row answers: the class of a GPU operation, or one of the other questions, or the class of host events of these
 * kinds. */
enum {
    ASK_CALL = 1 << PROFILE_CALL,
    ASK_RANGE = 1 << PROFILE_OP | 1 << PROFILE_ANNOTATION | 1 << PROFILE_OTHER,
    ASK_PYTHON = 1 << PROFILE_PYTHON,
    ASK_GPU = 1 << PROFILE_KIND_COUNT,
    ASK_TENSOR = ASK_GPU << 1,
    ASK_MATRIX = ASK_GPU << 2,
    ASK_HELPER = ASK_GPU << 3
};

enum { TENSOR_NO, TENSOR_YES, TENSOR_MAYBE };

typedef struct WordRow {
    const char *pattern;
    unsigned int asked; /* ASK_* */
    int value;
} WordRow;

static const WordRow word_rows[] = {
#define GPU(pattern, class) {pattern, ASK_GPU, TRACE_##class},
#define TENSOR(pattern, use) {pattern, ASK_TENSOR, TENSOR_##use},
#define HELPER(pattern, yes) {pattern, ASK_HELPER, yes},
#define MATRIX(pattern, yes) {pattern, ASK_MATRIX, yes},
#define HOST(kinds, pattern, class) {pattern, ASK_##kinds, TRACE_HOST_##class},
#include "engine/trace/classify.def"
};

/* One of the texts of a row's pattern. */
typedef struct Word {
    const char *text; /* up to '|', '$' or its end */
    const WordRow *row;
    bool tied, ends; /* to the name's start, with the name's end */
} Word;

static Word words[WORDS_MAX];
static size_t word_count;
static uint16_t first_word[BUCKETS]; /* of those that may begin with these two letters, in order; WORDS_MAX: none */
static uint16_t next_word[WORDS_MAX];
static uint8_t lower[256];

const char *const trace_class_words[TRACE_CLASS_COUNT] = {"compute", "communication", "copy"};

const char *const trace_host_words[TRACE_HOST_CLASS_COUNT] = {
    [TRACE_HOST_OTHER] = "other",
    [TRACE_HOST_OP] = "op",
    [TRACE_HOST_LAUNCH] = "launch",
    [TRACE_HOST_SYNC] = "synchronisation",
    [TRACE_HOST_COPY] = "copy",
    [TRACE_HOST_ALLOCATOR] = "allocator",
    [TRACE_HOST_DATA] = "data",
    [TRACE_HOST_COLLECTIVE] = "collective_wait",
    [TRACE_HOST_COMPILE] = "compile",
    [TRACE_HOST_RUNTIME] = "runtime",
    [TRACE_HOST_TOKENISING] = "tokenising",
    [TRACE_HOST_COLLECTING] = "garbage_collection",
    [TRACE_HOST_CHECKPOINT] = "checkpoint",
    [TRACE_HOST_LOGGING] = "logging",
    [TRACE_HOST_LOADING] = "module_loading",
    [TRACE_HOST_INITIALISING] = "initialisation",
    [TRACE_HOST_PYTHON] = "python",
    [TRACE_HOST_MARK] = "annotation",
};

static size_t bucket_of(char first, char second)
{
    return ((size_t)lower[(uint8_t)first] * 33 ^ lower[(uint8_t)second]) % BUCKETS;
}

static void add_words(const WordRow *row)
{
    const bool tied = row->pattern[0] == '^', ends = row->pattern[strlen(row->pattern) - 1] == '$';

    for (const char *text = row->pattern + tied; text; text = strchr(text, '|')) {
        text += text[0] == '|';
        assert(word_count < WORDS_MAX && strcspn(text, "|*$") >= 2);
        words[word_count++] = (Word){text, row, tied, ends};
    }
}

static void prepare_words(void)
{
    for (int c = 0; c < 256; c++)
        lower[c] = (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    for (size_t i = 0; i < ARRAY_LEN(word_rows); i++)
        add_words(&word_rows[i]);
    for (size_t i = 0; i < BUCKETS; i++)
        first_word[i] = WORDS_MAX;
    for (size_t i = word_count; i-- > 0;) { /* backwards: chains run in the order of the table */
        uint16_t *first = &first_word[bucket_of(words[i].text[0], words[i].text[1])];

        next_word[i] = *first;
        *first = (uint16_t)i;
    }
}

/* Whether the plain text at `plain`, up to '*', '|', '$' or its end, stands at name[at]; *ret_len is its length. */
static bool stands_at(const char *plain, const char *name, size_t len, size_t at, size_t *ret_len)
{
    size_t i = 0;

    for (; plain[i] && plain[i] != '*' && plain[i] != '|' && plain[i] != '$'; i++)
        if (at + i >= len || lower[(uint8_t)name[at + i]] != (uint8_t)plain[i])
            return false;
    *ret_len = i;
    return true;
}

/* Whether the word, whose first letters are at name[at], matches from there to its end. What follows a '*' is matched
 * at its first occurrence; that is enough because only the last part is anchored. */
static bool goes_on(const Word *word, const char *name, size_t len, size_t at)
{
    const char *text = word->text;
    size_t part;

    if (!stands_at(text, name, len, at, &part))
        return false;
    for (;;) {
        at += part;
        text += part;
        if (*text != '*')
            return !word->ends || at == len;
        text++;
        while (at < len && !stands_at(text, name, len, at, &part))
            at++;
        if (at >= len)
            return false;
    }
}

/* The value of the first row that answers `asked` and matches, -1 where none does. */
static int look_up(unsigned int asked, const char *name, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t best;

    pthread_once(&once, prepare_words);
    best = word_count;
    for (size_t at = 0; at + 1 < len; at++) {
        size_t i = first_word[bucket_of(name[at], name[at + 1])];

        for (; i < best; i = next_word[i]) { /* WORDS_MAX is over all of them */
            const Word *word = &words[i];

            if ((word->row->asked & asked) && (!word->tied || at == 0) && goes_on(word, name, len, at))
                best = i;
        }
    }
    return best < word_count ? words[best].row->value : -1;
}

TraceClass trace_classify(ProfileKind kind, const char *name, size_t len)
{
    int value;

    if (kind == PROFILE_COPY || kind == PROFILE_SET)
        return TRACE_COPY;
    value = look_up(ASK_GPU, name, len);
    return value < 0 ? TRACE_COMPUTE : (TraceClass)value;
}

bool trace_is_tensor_core(const char *name, size_t len)
{
    return look_up(ASK_TENSOR, name, len) == TENSOR_YES;
}

bool trace_may_be_tensor_core(const char *name, size_t len)
{
    return look_up(ASK_TENSOR, name, len) == TENSOR_MAYBE;
}

bool trace_is_helper(const char *name, size_t len)
{
    return look_up(ASK_HELPER, name, len) > 0;
}

bool trace_is_matrix_op(const char *name, size_t len)
{
    return look_up(ASK_MATRIX, name, len) > 0;
}

TraceHostClass trace_classify_host(ProfileKind kind, const char *name, size_t len)
{
    static const uint8_t by_kind[PROFILE_KIND_COUNT] = {
        [PROFILE_CALL] = TRACE_HOST_RUNTIME,
        [PROFILE_OP] = TRACE_HOST_OP,
        [PROFILE_ANNOTATION] = TRACE_HOST_MARK,
        [PROFILE_PYTHON] = TRACE_HOST_PYTHON,
    };
    int value = look_up(1U << kind, name, len);

    return (TraceHostClass)(value < 0 ? by_kind[kind] : value);
}

/* ---- shapes of matrix products ---- */

/* Multiples: 16 bytes per dimension, as NVIDIA's guide to matrix multiplication for deep learning asks of cuBLAS and
 * cuDNN: 8 elements of 16-bit types, 16 of 8-bit types. 32-bit types are not checked. */

enum { INPUTS_SEEN = 4, HALF_MULTIPLE = 8, BYTE_MULTIPLE = 16 };

static const struct {
    const char *name;
    TraceShapeRule rule;
} rule_names[] = {
    {"aten::mm", TRACE_SHAPE_PRODUCT},
    {"aten::bmm", TRACE_SHAPE_PRODUCT},
    {"aten::matmul", TRACE_SHAPE_PRODUCT},
    {"aten::_int_mm", TRACE_SHAPE_PRODUCT},
    {"aten::_scaled_mm", TRACE_SHAPE_PRODUCT},
    {"aten::addmm", TRACE_SHAPE_ADDED},
    {"aten::addmm_", TRACE_SHAPE_ADDED},
    {"aten::_addmm_activation", TRACE_SHAPE_ADDED},
    {"aten::baddbmm", TRACE_SHAPE_ADDED},
    {"aten::addbmm", TRACE_SHAPE_ADDED},
    {"aten::linear", TRACE_SHAPE_LINEAR},
    {"aten::conv1d", TRACE_SHAPE_CONVOLUTION},
    {"aten::conv2d", TRACE_SHAPE_CONVOLUTION},
    {"aten::conv3d", TRACE_SHAPE_CONVOLUTION},
    {"aten::convolution", TRACE_SHAPE_CONVOLUTION},
    {"aten::_convolution", TRACE_SHAPE_CONVOLUTION},
    {"aten::cudnn_convolution", TRACE_SHAPE_CONVOLUTION},
    {"aten::cudnn_convolution_transpose", TRACE_SHAPE_CONVOLUTION},
    {"aten::miopen_convolution", TRACE_SHAPE_CONVOLUTION},
    {"aten::conv_transpose2d", TRACE_SHAPE_CONVOLUTION},
    {"aten::convolution_backward", TRACE_SHAPE_CONV_BACKWARD},
    {"aten::cudnn_convolution_backward_input", TRACE_SHAPE_CONV_BACKWARD},
    {"aten::cudnn_convolution_transpose_backward_input", TRACE_SHAPE_CONV_BACKWARD},
};

/* Bytes of an element whose type has this in its name; the first that fits. 32-bit float is told by its whole name. */
static const struct {
    const char *part;
    int bytes;
} types_by_part[] = {{"Half", 2}, {"BFloat16", 2}, {"Float8", 1}, {"signed char", 1}, {"unsigned char", 1},
                     {"Char", 1}, {"Byte", 1},     {"int8", 1},   {"double", 8},      {"Double", 8}};

bool trace_is_float_matrix(const char *name, size_t len)
{
    /* cuBLAS's and CUTLASS's sgemm, cuDNN's implicit sgemm and its scudnn */
    return (memmem(name, len, "sgemm", 5) || memmem(name, len, "scudnn", 6)) && !trace_is_tensor_core(name, len);
}

/* The number right behind the word, of several the smallest; 0 for none. */
static long number_behind(const char *name, const char *word)
{
    long least = 0;

    for (const char *at = name; (at = strstr(at, word));) {
        at += strlen(word);
        at += *at >= 'a' && *at <= 'c'; /* "aligna4_alignc4" */
        if (isdigit((unsigned char)*at) && (least == 0 || strtol(at, NULL, 10) < least))
            least = strtol(at, NULL, 10);
    }
    return least;
}

bool trace_is_aligned(const char *name, size_t len)
{
    const long align = number_behind(name, "align");

    if (align > 0)
        return align >= HALF_MULTIPLE;
    /* those two copy tiles by the Tensor Memory Accelerator, which takes rows of 16 bytes alone */
    return number_behind(name, "ldg") >= HALF_MULTIPLE || memmem(name, len, "nvjet", 5) ||
           memmem(name, len, "warpgroupsize", 13);
}

TraceShapeRule trace_shape_rule(const char *op, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(rule_names); i++)
        if (strlen(rule_names[i].name) == len && memcmp(rule_names[i].name, op, len) == 0)
            return rule_names[i].rule;
    return TRACE_SHAPE_NONE;
}

/* Number of the first of the two matrices among the inputs. */
static size_t first_input(TraceShapeRule rule)
{
    return rule == TRACE_SHAPE_ADDED || rule == TRACE_SHAPE_CONV_BACKWARD ? 1 : 0;
}

bool trace_find_element(const char *list, size_t n, const char **ret_from, const char **ret_to)
{
    const char *from = list;
    int depth = 0;
    bool quoted = false;

    for (const char *c = list; *c; c++) {
        if (*c == '"')
            quoted = !quoted;
        if (quoted || !strchr("[],", *c))
            continue;
        if (*c == '[' && ++depth == 1)
            from = c + 1;
        if (depth == 1 && (*c == ',' || *c == ']')) {
            if (n-- == 0) {
                *ret_from = from;
                *ret_to = c;
                return true;
            }
            from = c + 1;
        }
        if (*c == ']' && --depth <= 0)
            return false;
    }
    return false;
}

bool trace_read_dims(const char *dims, size_t input, TraceDims *ret)
{
    const char *from, *to;

    *ret = (TraceDims){0};
    if (!trace_find_element(dims, input, &from, &to))
        return false;
    while (from < to && (isspace((unsigned char)*from) || *from == '"'))
        from++;
    if (from == to || *from++ != '[')
        return false;
    while (from < to && *from != ']') {
        int64_t value = 0;

        if (*from == '[' || ret->len == TRACE_DIMS_MAX)
            return false;
        if (!isdigit((unsigned char)*from)) {
            from++;
            continue;
        }
        for (; from < to && isdigit((unsigned char)*from); from++)
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *from - '0', &value))
                return false;
        ret->at[ret->len++] = value;
    }
    return ret->len > 0;
}

/* Bytes of an element of a floating-point or 8-bit tensor, 0 for anything else (lists, numbers, integers, nothing). */
static int type_bytes(const char *types, size_t input)
{
    const char *from, *to, *part;

    if (!trace_find_element(types, input, &from, &to))
        return 0;
    part = from + strspn(from, " \t\n\v\f\r\"");
    if (to - part >= 5 && (memcmp(part, "float", 5) == 0 || memcmp(part, "Float", 5) == 0) &&
        part + 5 + strspn(part + 5, " \t\n\v\f\r\"") >= to)
        return 4;
    for (size_t i = 0; i < ARRAY_LEN(types_by_part); i++)
        if (memmem(from, (size_t)(to - from), types_by_part[i].part, strlen(types_by_part[i].part)))
            return types_by_part[i].bytes;
    return 0;
}

/* The type of the operator's matrices; of operators of an unknown kind, of the first tensor among the inputs. */
static int matrix_bytes(TraceShapeRule rule, const char *types)
{
    int bytes = 0;

    if (rule != TRACE_SHAPE_NONE)
        return type_bytes(types, first_input(rule));
    for (size_t input = 0; input < INPUTS_SEEN && bytes == 0; input++)
        bytes = type_bytes(types, input);
    return bytes;
}

/* The dimensions that tensor cores would like to be multiples: depth and columns of the product. */
static size_t read_dimensions(TraceShapeRule rule, const TraceDims *a, const TraceDims *b, int64_t out[2])
{
    switch (rule) {
    case TRACE_SHAPE_PRODUCT:
    case TRACE_SHAPE_ADDED:
        if (a->len < 2 || b->len < 2)
            return 0;
        out[0] = a->at[a->len - 1];
        out[1] = b->at[b->len - 1];
        return 2;
    case TRACE_SHAPE_LINEAR:
        if (a->len < 1 || b->len != 2)
            return 0;
        out[0] = b->at[1];
        out[1] = b->at[0];
        return 2;
    case TRACE_SHAPE_CONVOLUTION:
    case TRACE_SHAPE_CONV_BACKWARD:
        if (b->len < 3)
            return 0;
        out[0] = b->at[0];
        out[1] = b->at[1];
        return b->at[1] == 1 ? 0 : 2; /* one channel per group: no matrix product */
    case TRACE_SHAPE_NONE:
    case TRACE_SHAPE_RULE_COUNT:
        break;
    }
    return 0;
}

unsigned trace_shape_check(TraceShapeRule rule, const char *dims, const char *types)
{
    size_t input = first_input(rule), count;
    int64_t out[2] = {0}, multiple;
    int bytes = matrix_bytes(rule, types);
    unsigned result = (bytes > 0 ? TRACE_SHAPE_TYPED : 0) | (bytes == 4 ? TRACE_SHAPE_FLOAT : 0);
    TraceDims a, b;

    if (rule == TRACE_SHAPE_NONE || bytes == 0 || !trace_read_dims(dims, input, &a) ||
        !trace_read_dims(dims, input + 1, &b))
        return result;
    count = read_dimensions(rule, &a, &b, out);
    if (count == 0)
        return result;
    multiple = bytes == 2 ? HALF_MULTIPLE : BYTE_MULTIPLE;
    for (size_t i = 0; i < count && bytes <= 2; i++)
        if (out[i] > 1 && out[i] % multiple != 0)
            result |= TRACE_SHAPE_MISALIGNED;
    return result | TRACE_SHAPE_KNOWN;
}

/* ---- frames ---- */

/* Libraries' frames, by the beginning of their path behind the place where packages are. */
static const char *const library_paths[] = {
    "torch/",         "torchvision/", "triton/",   "numpy/",      "<",           "contextlib.py",    "functools.py",
    "threading.py",   "runpy.py",     "asyncio/",  "importlib/",  "concurrent/", "multiprocessing/", "queue.py",
    "typing.py",      "logging/",     "tqdm/",     "abc.py",      "enum.py",     "copy.py",          "inspect.py",
    "dataclasses.py", "selectors.py", "socket.py", "warnings.py", "weakref.py",  "collections/",     "random.py"};

static const char *path_in_packages(const char *frame)
{
    static const char *const places[] = {"site-packages/", "dist-packages/", "lib/python3"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *at = strstr(frame, places[i]);

        if (at && i < 2)
            return at + strlen(places[i]);
        if (at && strchr(at + strlen(places[i]), '/'))
            return strchr(at + strlen(places[i]), '/') + 1;
    }
    return frame;
}

bool trace_is_user_path(const char *path)
{
    const char *inside = path_in_packages(path);

    for (size_t i = 0; i < ARRAY_LEN(library_paths); i++)
        if (strncmp(inside, library_paths[i], strlen(library_paths[i])) == 0)
            return false;
    return true;
}
