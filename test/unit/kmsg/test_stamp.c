/* SPDX-License-Identifier: Apache-2.0 */
/* When lines of log files were written (source/kmsg/stamp.c); the zone is CET-1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "source/kmsg/stamp.h"

typedef struct StampCase {
    const char *line;
    StampKind kind;
    const char *real; /* of the wall clock */
    uint64_t boot_ns;
} StampCase;

#define NOW "2026-01-02T10:00:00Z"

static const StampCase cases[] = {
    {"[    0.000000] x", STAMP_BOOT, NULL, 0},
    {"[ 1234.567890] x", STAMP_BOOT, NULL, UINT64_C(1234567890000)},
    {"[12.3] x", STAMP_BOOT, NULL, UINT64_C(12300000000)},
    {"<4>[   12.000001] x", STAMP_BOOT, NULL, UINT64_C(12000001000)},
    {"kern  :warn  : [   12.000001] x", STAMP_BOOT, NULL, UINT64_C(12000001000)},
    {"host kernel: [   12.000001] x", STAMP_BOOT, NULL, UINT64_C(12000001000)},
    {"[Fri Jan  2 10:30:05 2026] x", STAMP_REAL, "2026-01-02T09:30:05Z", 0},
    {"Jan  2 10:30:05 host kernel: [   12.000001] x", STAMP_REAL, "2026-01-02T09:30:05Z", 0},
    {"Jan 02 10:30:05 host kernel: x", STAMP_REAL, "2026-01-02T09:30:05Z", 0},
    {"Jan  3 09:30:05 host kernel: x", STAMP_REAL, "2026-01-03T08:30:05Z", 0}, /* a zone that is ahead */
    {"Dec 31 23:59:59 host kernel: x", STAMP_REAL, "2025-12-31T22:59:59Z", 0},
    {"2026-01-02T09:30:05Z x", STAMP_REAL, "2026-01-02T09:30:05Z", 0},
    {"2026-01-02T09:30:05.123456+00:00 host kernel: [   12.000001] x", STAMP_REAL, "2026-01-02T09:30:05Z", 0},
    {"2026-01-02T09:30:05,123456-0530 x", STAMP_REAL, "2026-01-02T15:00:05Z", 0},
    {"2026-01-02 10:30:05 x", STAMP_REAL, "2026-01-02T09:30:05Z", 0},
    {"", STAMP_NONE, NULL, 0},
    {"x", STAMP_NONE, NULL, 0},
    {"[", STAMP_NONE, NULL, 0},
    {"[12] x", STAMP_NONE, NULL, 0},
    {"[  +0.000012] x", STAMP_NONE, NULL, 0}, /* dmesg -d */
    {"[<    0.000012>] x", STAMP_NONE, NULL, 0},
    {"NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.", STAMP_NONE, NULL, 0},
    {"Nov 99 10:30:05 host kernel: x", STAMP_NONE, NULL, 0},
    {"2026-01-02T99:30:05Z x", STAMP_NONE, NULL, 0},
    {"2026-01-02 x", STAMP_NONE, NULL, 0},
};

static uint64_t read_real(const char *text)
{
    uint64_t ns = 0;
    Err err;

    assert_int_equal(clock_parse(text, &ns, &err), 0);
    return ns;
}

static void lines_are_dated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const StampCase *c = &cases[i];
        const Stamp stamp = stamp_read(c->line, strlen(c->line), read_real(NOW));

        if (stamp.kind != c->kind || stamp.ns != (c->real ? read_real(c->real) : c->boot_ns))
            fail_msg("'%s': kind %d, %llu", c->line, (int)stamp.kind, (unsigned long long)stamp.ns);
    }
}

/* Nothing behind the line's end is read. */
static void a_line_ends_where_it_ends(void **state)
{
    static const char line[] = "[   12.000001] x";

    (void)state;
    for (size_t len = 0; len < sizeof line - 1; len++) {
        const Stamp stamp = stamp_read(line, len, read_real(NOW));

        assert_int_equal(stamp.kind, len < strlen("[   12.000001]") ? STAMP_NONE : STAMP_BOOT);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_dated),
        cmocka_unit_test(a_line_ends_where_it_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
