/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC's header fields. */
#include "wire/grpc/field.h"

#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "base/number.h"

enum { TIMEOUT_DIGITS = 8 };

size_t grpc_field_timeout(char out[GRPC_TIMEOUT_MAX], uint64_t timeout_ns)
{
    static const struct {
        uint64_t ns;
        char name;
    } units[] = {{1, 'n'}, {NS_PER_US, 'u'}, {NS_PER_MS, 'm'}, {NS_PER_S, 'S'}, {NS_PER_MIN, 'M'}, {NS_PER_H, 'H'}};
    char digits[NUMBER_U64_MAX];
    size_t unit = 0, len;

    /* the last unit always fits: 2^64 ns are 5,124,096 hours */
    while (timeout_ns / units[unit].ns >= 99999999)
        unit++;
    len = number_write_u64(digits, timeout_ns / units[unit].ns + (timeout_ns % units[unit].ns != 0));
    memcpy(out, digits, len <= TIMEOUT_DIGITS ? len : TIMEOUT_DIGITS);
    out[len] = units[unit].name;
    return len + 1;
}

bool grpc_field_status(const char *value, size_t len, GrpcStatus *ret)
{
    uint64_t number;

    if (number_parsen_u64(value, len, 0, UINT32_MAX, &number, NULL) < 0)
        return false;
    *ret = number < GRPC_STATUS_END ? (GrpcStatus)number : GRPC_UNKNOWN;
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void grpc_field_message(const char *value, size_t len, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < cap; i++) {
        int c = (unsigned char)value[i];

        if (c == '%' && i + 2 < len && hex(value[i + 1]) >= 0 && hex(value[i + 2]) >= 0) {
            c = hex(value[i + 1]) * 16 + hex(value[i + 2]);
            i += 2;
        }
        out[n++] = c >= ' ' && c <= '~' ? (char)c : '?';
    }
    out[n] = '\0';
}

bool grpc_field_is_grpc(const char *value, size_t len)
{
    static const char type[] = "application/grpc";
    size_t type_len = sizeof(type) - 1;

    if (len < type_len || strncasecmp(value, type, type_len) != 0)
        return false;
    return len == type_len || value[type_len] == '+' || value[type_len] == ';';
}
