/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A set of CPUs or NUMA nodes and its text, the kernel's cpulist format ("0-23,48-71"). A value of fixed size, zero
 * bytes are the empty set. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest NR_CPUS that x86-64 and arm64 kernels are built with. */
#define CPULIST_CPUS_MAX 8192
/* Room for the longest text, every second CPU alone, with its end. */
#define CPULIST_TEXT_CAP 24576

typedef struct Cpulist {
    uint64_t words[CPULIST_CPUS_MAX / 64];
} Cpulist;

/* Put one in. A CPU beyond the maximum is a bug of the caller. */
void cpulist_add(Cpulist *list, uint32_t cpu);

bool cpulist_has(const Cpulist *list, uint32_t cpu);

uint32_t cpulist_count(const Cpulist *list);

bool cpulist_equal(const Cpulist *a, const Cpulist *b);

/* The smallest member that is at least `from`. False, with ret_cpu untouched, if there is none. */
bool cpulist_next(const Cpulist *list, uint32_t from, uint32_t *ret_cpu);

/* What both have. */
Cpulist cpulist_and(const Cpulist *a, const Cpulist *b);

/*
 * Parse a whole text such as sysfs gives, with or without its newline; "" is the empty set. Members may come in any
 * order and overlap. 0, -EINVAL for another text, -ERANGE for a number beyond the maximum; ret_list is untouched on
 * failure.
 */
int cpulist_parse(const char *text, Cpulist *ret_list);

/*
 * Write the shortest text, ascending, into text of `size` bytes. Returns its length, or -ENOSPC (text is then "", if
 * size is not 0). CPULIST_TEXT_CAP bytes are always enough.
 */
int cpulist_format(const Cpulist *list, char *text, size_t size);
