/* SPDX-License-Identifier: Apache-2.0 */
/* Names and types of collectives, as tables. Sizes and factors: nccl-tests, doc/PERFORMANCE.md. */
#include "engine/trace/collective_kind.h"

#include <math.h>
#include <string.h>

#include "base/owner.h"

enum { NAME_MAX_LEN = 255, DTYPE_MAX_LEN = 31 };

static const char *const words[COLLECTIVE_KIND_COUNT] = {
    [COLLECTIVE_ALL_REDUCE] = "all_reduce",
    [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [COLLECTIVE_ALL_GATHER] = "all_gather",
    [COLLECTIVE_ALL_TO_ALL] = "all_to_all",
    [COLLECTIVE_BROADCAST] = "broadcast",
    [COLLECTIVE_BARRIER] = "barrier",
    [COLLECTIVE_SEND_RECV] = "send_recv",
    [COLLECTIVE_SEND] = "send",
    [COLLECTIVE_RECV] = "recv",
    [COLLECTIVE_GATHER] = "gather",
    [COLLECTIVE_SCATTER] = "scatter",
    [COLLECTIVE_REDUCE] = "reduce",
    [COLLECTIVE_UNKNOWN] = "collective",
};

/* First match wins; compared without case and underscores. */
static const struct {
    const char *part;
    CollectiveKind kind;
} parts[] = {
    {"allreduce", COLLECTIVE_ALL_REDUCE},
    {"crossdevicereduce", COLLECTIVE_ALL_REDUCE},
    {"oneshot", COLLECTIVE_ALL_REDUCE},
    {"twoshot", COLLECTIVE_ALL_REDUCE},
    {"reducescatter", COLLECTIVE_REDUCE_SCATTER},
    {"allgather", COLLECTIVE_ALL_GATHER},
    {"alltoall", COLLECTIVE_ALL_TO_ALL},
    {"broadcast", COLLECTIVE_BROADCAST},
    {"bcast", COLLECTIVE_BROADCAST},
    {"barrier", COLLECTIVE_BARRIER},
    {"sendrecv", COLLECTIVE_SEND_RECV},
    {"send", COLLECTIVE_SEND},
    {"recv", COLLECTIVE_RECV},
    {"gather", COLLECTIVE_GATHER},
    {"scatter", COLLECTIVE_SCATTER},
    {"reduce", COLLECTIVE_REDUCE},
};

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    {"float", 4},
    {"double", 8},
    {"half", 2},
    {"bfloat16", 2},
    {"byte", 1},
    {"char", 1},
    {"short", 2},
    {"int", 4},
    {"long", 8},
    {"bool", 1},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"float8_e4m3fnuz", 1},
    {"float8_e5m2fnuz", 1},
    {"float8_e8m0fnu", 1},
    {"complexhalf", 4},
    {"complexfloat", 8},
    {"complexdouble", 16},
    {"complex64", 8},
    {"complex128", 16},
    {"qint8", 1},
    {"quint8", 1},
    {"qint32", 4},
    {"signed char", 1},
    {"unsigned char", 1},
    {"long int", 8},
    {"short int", 2},
};

static char lower_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

CollectiveKind collective_kind(const char *name, size_t len)
{
    char plain[NAME_MAX_LEN + 1];
    size_t n = 0;
    for (size_t i = 0; i < len && n < NAME_MAX_LEN; i++) {
        if (name[i] != '_' && name[i] != '-' && name[i] != '\0')
            plain[n++] = lower_letter(name[i]);
    }
    plain[n] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (strstr(plain, parts[i].part))
            return parts[i].kind;
    }
    return COLLECTIVE_UNKNOWN;
}

const char *collective_word(CollectiveKind kind)
{
    return words[kind];
}

bool collective_joins_all(CollectiveKind kind)
{
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_ALL_TO_ALL:
    case COLLECTIVE_BARRIER:
        return true;
    default:
        return false;
    }
}

int64_t collective_dtype_bytes(const char *dtype, size_t len)
{
    static const char *const prefixes[] = {"c10::", "torch.", "at::"};
    char plain[DTYPE_MAX_LEN + 1];
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        size_t skip = strlen(prefixes[i]);
        if (len >= skip && memcmp(dtype, prefixes[i], skip) == 0) {
            dtype += skip;
            len -= skip;
            break;
        }
    }
    if (len == 0 || len > DTYPE_MAX_LEN)
        return 0;
    for (size_t i = 0; i < len; i++)
        plain[i] = lower_letter(dtype[i]);
    plain[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(dtypes); i++) {
        if (strcmp(plain, dtypes[i].name) == 0)
            return dtypes[i].bytes;
    }
    return 0;
}

static int64_t multiply_bytes(int64_t bytes, int64_t count)
{
    int64_t product;
    if (bytes < 0 || count <= 0 || __builtin_mul_overflow(bytes, count, &product))
        return -1;
    return product;
}

int64_t collective_bytes(CollectiveKind kind, int64_t in_bytes, int64_t out_bytes, int64_t group_size)
{
    switch (kind) {
    case COLLECTIVE_ALL_GATHER:
        return out_bytes > 0 ? out_bytes : multiply_bytes(in_bytes, group_size);
    case COLLECTIVE_REDUCE_SCATTER:
        return in_bytes > 0 ? in_bytes : multiply_bytes(out_bytes, group_size);
    case COLLECTIVE_GATHER:
        return multiply_bytes(in_bytes, group_size);
    case COLLECTIVE_SCATTER:
        return multiply_bytes(out_bytes, group_size);
    case COLLECTIVE_RECV:
        return out_bytes > 0 ? out_bytes : in_bytes;
    default:
        return in_bytes;
    }
}

double collective_bus_factor(CollectiveKind kind, int64_t group_size)
{
    double n = (double)group_size;
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE:
        return group_size > 0 ? 2 * (n - 1) / n : NAN;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_ALL_TO_ALL:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
        return group_size > 0 ? (n - 1) / n : NAN;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_SEND:
    case COLLECTIVE_RECV:
    case COLLECTIVE_SEND_RECV:
        return 1;
    default:
        return NAN;
    }
}
