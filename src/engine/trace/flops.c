/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of flops.def. */
#include "engine/trace/flops.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/classify.h"

/* A call whose formula is worked out. */
typedef struct Call {
    const char *dims, *arguments;
    size_t input;       /* the first matrix's number */
    const uint8_t *at;  /* numbers of the arguments */
    double read, write; /* elements */
    double products;    /* multiplications, each with its addition */
} Call;

static double count_elements(const TraceDims *dims)
{
    double count = 1;

    for (size_t i = 0; i < dims->len; i++)
        count *= (double)dims->at[i];
    return count;
}

static bool read_inputs(const Call *call, TraceDims *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!trace_read_dims(call->dims, call->input + i, &inputs[i]))
            return false;
    return true;
}

/* The n-th argument is the word, in quotes. */
static bool argument_is(const Call *call, size_t n, const char *word)
{
    const size_t len = strlen(word);
    const char *from, *to;

    if (!trace_find_element(call->arguments, n, &from, &to))
        return false;
    while (from < to && strchr(" \n\t\"", *from))
        from++;
    return (size_t)(to - from) >= len && memcmp(from, word, len) == 0;
}

/* 1, 0; -1 not recorded. */
static int read_flag(const Call *call, size_t n)
{
    return argument_is(call, n, "True") ? 1 : argument_is(call, n, "False") ? 0 : -1;
}

static bool count_product(Call *call)
{
    TraceDims in[2];

    if (!read_inputs(call, in, 2) || in[0].len != in[1].len || in[0].len < 2 || in[0].len > 3)
        return false;
    const int64_t *a = &in[0].at[in[0].len - 2], *b = &in[1].at[in[0].len - 2];
    const double batch = in[0].len == 3 ? (double)in[0].at[0] : 1;

    if (a[1] != b[0] || (in[0].len == 3 && in[0].at[0] != in[1].at[0]))
        return false;
    call->products = batch * (double)a[0] * (double)a[1] * (double)b[1];
    call->read = count_elements(&in[0]) + count_elements(&in[1]);
    call->write = batch * (double)a[0] * (double)b[1];
    return true;
}

/* Groups are along the rows of a (b has three dimensions), the columns of b (a has three) or the depth (both two). */
static bool count_grouped(Call *call)
{
    TraceDims in[2];

    if (!read_inputs(call, in, 2) || in[0].len < 2 || in[0].len > 3 || in[1].len < 2 || in[1].len > 3)
        return false;
    if (in[0].len == 3 && in[1].len == 3)
        return count_product(call);
    const int64_t *a = &in[0].at[in[0].len - 2], *b = &in[1].at[in[1].len - 2];

    if (a[1] != b[0])
        return false;
    call->products = (double)a[0] * (double)a[1] * (double)b[1];
    call->read = count_elements(&in[0]) + count_elements(&in[1]);
    /* of groups along the depth the number of results is not recorded */
    call->write = in[0].len + in[1].len > 4 ? (double)a[0] * (double)b[1] : (double)NAN;
    return true;
}

/* Positions of the result of one image; 0 where arguments are not recorded or do not fit. */
static double count_positions(const Call *call, const TraceDims *input, const TraceDims *weight)
{
    TraceDims way[3]; /* stride, padding, dilation */
    double positions = 1;

    for (size_t i = 0; i < ARRAY_LEN(way); i++)
        if (!trace_read_dims(call->arguments, call->at[i], &way[i]))
            return 0;
    for (size_t d = 0; d + 2 < input->len; d++) {
        int64_t one[3];

        for (size_t i = 0; i < ARRAY_LEN(way); i++)
            one[i] = way[i].at[d < way[i].len ? d : 0];
        if (one[0] < 1 || one[1] > INT32_MAX || one[2] > INT32_MAX || input->at[d + 2] > INT32_MAX ||
            weight->at[d + 2] > INT32_MAX)
            return 0;
        const int64_t free = input->at[d + 2] + 2 * one[1] - one[2] * (weight->at[d + 2] - 1) - 1;

        if (free < 0)
            return 0;
        positions *= (double)(free / one[0] + 1);
    }
    return positions;
}

static bool count_convolution(Call *call)
{
    TraceDims in[2];

    if (!read_inputs(call, in, 2) || in[0].len < 3 || in[0].len != in[1].len)
        return false;
    const double positions = (double)in[0].at[0] * count_positions(call, &in[0], &in[1]);

    call->products = positions * count_elements(&in[1]);
    call->read = count_elements(&in[0]) + count_elements(&in[1]);
    call->write = positions * (double)in[1].at[0];
    return positions > 0;
}

/* Each position of the input meets the weights of its channel. The size of the result is not worked out. */
static bool count_transposed(Call *call)
{
    TraceDims in[2];

    if (!read_inputs(call, in, 2) || in[0].len < 3 || in[0].len != in[1].len || in[0].at[1] < 1)
        return false;
    call->products = count_elements(&in[0]) / (double)in[0].at[1] * count_elements(&in[1]);
    call->read = count_elements(&in[0]) + count_elements(&in[1]);
    call->write = (double)NAN;
    return true;
}

/* Each wanted gradient, of input and of weight, takes as many products as the forward pass. */
static bool count_conv_backward(Call *call)
{
    const int transposed = read_flag(call, call->at[0]);
    const char *from, *to;
    TraceDims in[3];

    if (!read_inputs(call, in, 3) || in[1].len < 3 || in[1].len != in[2].len || in[0].len != in[1].len ||
        transposed < 0 || !trace_find_element(call->arguments, call->at[1], &from, &to))
        return false;
    const TraceDims *places = transposed ? &in[1] : &in[0];
    const bool of_input = memmem(from, (size_t)(to - from), "[True,", 6);
    const char *comma = memchr(from, ',', (size_t)(to - from));
    const bool of_weight = comma && memmem(comma, (size_t)(to - comma) < 6 ? (size_t)(to - comma) : 6, "True", 4);

    if (places->at[1] < 1 || !(of_input || of_weight))
        return false;
    call->products = (of_input + of_weight) * count_elements(places) / (double)places->at[1] * count_elements(&in[2]);
    call->read = (of_input + of_weight) * count_elements(&in[0]) + of_input * count_elements(&in[2]) +
                 of_weight * count_elements(&in[1]);
    call->write = of_input * count_elements(&in[1]) + of_weight * count_elements(&in[2]);
    return true;
}

/* `products`: how often the pairs of query and key meet a vector of their own size and one of the value's. `in`: query,
 * key, value; `length`: the dimension of their lengths. */
static bool count_attention(Call *call, size_t length, const double products[2], double times_read,
                            double times_written)
{
    const int causal = read_flag(call, call->at[0]);
    TraceDims in[3];

    if (!read_inputs(call, in, 3) || in[0].len != 4 || in[1].len != 4 || in[2].len != 4 || causal < 0)
        return false;
    const TraceDims *query = &in[0], *key = &in[1], *value = &in[2];
    const int64_t heads = query->at[3 - length];

    if (key->at[length] != value->at[length] || key->at[3] != query->at[3] ||
        (causal && query->at[length] != key->at[length]))
        return false;
    const double pairs = (double)query->at[0] * (double)heads * (double)query->at[length] * (double)key->at[length];
    const double result = (double)query->at[0] * (double)heads * (double)query->at[length] * (double)value->at[3];
    const double inputs = count_elements(query) + count_elements(key) + count_elements(value);

    call->products = pairs * (products[0] * (double)query->at[3] + products[1] * (double)value->at[3]);
    if (causal)
        call->products /= 2;
    call->read = inputs + times_read * result;
    call->write = times_written * inputs + (times_read > 0 ? 0 : result);
    return true;
}

/* query by key, the result by value */
static const double forward_products[2] = {1, 1};
/* query by key again, gradients of query and key; gradients of the weights and of value */
static const double backward_products[2] = {3, 2};

static bool count_attention_forward(Call *call)
{
    return count_attention(call, 2, forward_products, 0, 0);
}

/* Reads the result and its gradient, too. */
static bool count_attention_backward(Call *call)
{
    return count_attention(call, 2, backward_products, 2, 1);
}

/* A window over keys makes fewer pairs than its arguments tell. */
static bool is_whole(const Call *call)
{
    return argument_is(call, call->at[1], "-1\"") && argument_is(call, call->at[1] + 1U, "-1\"");
}

static bool count_flash(Call *call)
{
    return is_whole(call) && count_attention(call, 1, forward_products, 0, 0);
}

static bool count_flash_backward(Call *call)
{
    return is_whole(call) && count_attention(call, 1, backward_products, 2, 1);
}

#define count_PRODUCT count_product
#define count_GROUPED count_grouped
#define count_CONVOLUTION count_convolution
#define count_TRANSPOSED count_transposed
#define count_CONV_BACKWARD count_conv_backward
#define count_ATTENTION count_attention_forward
#define count_ATTENTION_BACKWARD count_attention_backward
#define count_FLASH count_flash
#define count_FLASH_BACKWARD count_flash_backward

static const struct {
    const char *op;
    bool (*count)(Call *call);
    uint8_t input, at[3];
} rules[] = {
#define FLOPS(op, rule, input, ...) {op, count_##rule, input, {__VA_ARGS__}},
#include "engine/trace/flops.def"
};

/* Words of the frameworks' types. Of packed 4-bit numbers a byte holds two, and the recorded depth counts bytes. */
static const struct {
    const char *word;
    PeakType type;
    double bytes;
} types_by_word[] = {{"Float8", PEAK_FP8, 1},        {"Float4", PEAK_FP4, 1},  {"BFloat16", PEAK_BF16, 2},
                     {"Half", PEAK_FP16, 2},         {"double", PEAK_FP64, 8}, {"Double", PEAK_FP64, 8},
                     {"float", PEAK_FP32, 4},        {"Float", PEAK_FP32, 4},  {"signed char", PEAK_INT8, 1},
                     {"unsigned char", PEAK_INT8, 1}};

static int find_type(const char *types, size_t input)
{
    const char *from, *to;

    if (trace_find_element(types, input, &from, &to) && !memmem(from, (size_t)(to - from), "omplex", 6))
        for (size_t i = 0; i < ARRAY_LEN(types_by_word); i++)
            if (memmem(from, (size_t)(to - from), types_by_word[i].word, strlen(types_by_word[i].word)))
                return (int)i;
    return -1;
}

unsigned flops_rule(const char *op, size_t len)
{
    for (unsigned i = 0; i < ARRAY_LEN(rules); i++)
        if (strlen(rules[i].op) == len && memcmp(rules[i].op, op, len) == 0)
            return i + 1;
    return 0;
}

bool flops_count(unsigned rule, const char *dims, const char *types, const char *arguments, Flops *ret)
{
    Call call = {.dims = dims, .arguments = arguments, .input = rules[rule - 1].input, .at = rules[rule - 1].at};
    const int type = find_type(types, call.input);

    if (type < 0 || !rules[rule - 1].count(&call))
        return false;
    const PeakType is = types_by_word[type].type;
    const double bytes = types_by_word[type].bytes;

    *ret = (Flops){.flops = 2 * call.products * (is == PEAK_FP4 ? 2 : 1),
                   /* products of small types give 16-bit floats, those of bytes 32-bit numbers */
                   .bytes = bytes * call.read + (is == PEAK_INT8                    ? 4
                                                 : is == PEAK_FP8 || is == PEAK_FP4 ? 2
                                                                                    : bytes) *
                                                    call.write,
                   .type = is};
    return true;
}
