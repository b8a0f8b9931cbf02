/* SPDX-License-Identifier: Apache-2.0 */
#include "source/host/cores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/number.h"

enum { LIST_MAX = 64 << 10, CACHES_MAX = 8, NODES_MAX = 1024, NO_CPU = 0xffff };

/* Where a processor is: the first processor of each thing that it belongs to, from the outside in. */
typedef struct Cpu {
    uint16_t package, node, cache, core, number;
} Cpu;

static int read_text(Str *to, const char *root, const char *path)
{
    CLEANUP(str_done) Str full = str_limited(4096);
    str_addf(&full, "%s%s", root, path);
    str_clear(to);
    TRY(file_read(full.text, LIST_MAX, to, NULL));
    return to->len ? 0 : -ENODATA;
}

static void keep_first(void *at, uint64_t cpu)
{
    uint16_t *first = at;
    if (cpu < *first)
        *first = (uint16_t)cpu;
}

/* The first processor of the list in a file; NO_CPU where there is none. */
static uint16_t read_first(const char *root, const char *path, Str *text)
{
    uint16_t first = NO_CPU;
    if (read_text(text, root, path) < 0 || !number_walk_list(text->text, CORES_CPUS_MAX - 1, keep_first, &first))
        return NO_CPU;
    return first;
}

/* The first processor that shares its L3 cache; NO_CPU: it has none. */
static uint16_t find_cache(const char *root, unsigned cpu, Str *text)
{
    char path[128];
    for (unsigned i = 0; i < CACHES_MAX; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cache/index%u/level", cpu, i);
        if (read_text(text, root, path) < 0)
            break;
        if (text->text[0] != '3')
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, i);
        return read_first(root, path, text);
    }
    return NO_CPU;
}

/* The first processor of what shares `name` with it: in the words of kernels before 5.3, which newer ones have too. */
static uint16_t read_siblings(const char *root, unsigned cpu, const char *name, Str *text)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/%s", cpu, name);
    return read_first(root, path, text);
}

typedef struct Cpus {
    size_t count;
    Cpu at[CORES_CPUS_MAX];
    uint16_t node_of[CORES_CPUS_MAX]; /* first processor of its NUMA node */
} Cpus;

static void add_cpu(void *at, uint64_t cpu)
{
    Cpus *cpus = at;
    if (cpus->count < CORES_CPUS_MAX)
        cpus->at[cpus->count++] = (Cpu){.number = (uint16_t)cpu};
}

typedef struct Node {
    Cpus *cpus;
    uint16_t first;
} Node;

static void set_node(void *at, uint64_t cpu)
{
    const Node *node = at;
    node->cpus->node_of[cpu] = node->first;
}

static void read_nodes(const char *root, Cpus *cpus, Str *text)
{
    char path[64];
    for (unsigned i = 0; i < NODES_MAX; i++) {
        Node node = {.cpus = cpus, .first = NO_CPU};
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", i);
        if (read_text(text, root, path) == 0 &&
            number_walk_list(text->text, CORES_CPUS_MAX - 1, keep_first, &node.first))
            number_walk_list(text->text, CORES_CPUS_MAX - 1, set_node, &node);
    }
}

static int compare_cpus(const void *a, const void *b)
{
    const Cpu *x = a, *y = b;
    const uint16_t left[] = {x->package, x->node, x->cache, x->core, x->number};
    const uint16_t right[] = {y->package, y->node, y->cache, y->core, y->number};
    for (size_t i = 0; i < ARRAY_LEN(left); i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static int number_cores(Cpus *cpus, CoreMap *ret, Err *err)
{
    qsort(cpus->at, cpus->count, sizeof cpus->at[0], compare_cpus);
    memset(ret->core, 0xff, sizeof ret->core);
    ret->core_count = 0;
    for (size_t i = 0; i < cpus->count; i++) {
        const Cpu *cpu = &cpus->at[i];
        if (i == 0 || cpu->core != cpus->at[i - 1].core)
            ret->core_count++;
        if (ret->core_count > GRES_CORES_MAX)
            return err_set(err, -E2BIG, "more than %d cores", GRES_CORES_MAX);
        ret->core[cpu->number] = (int16_t)(ret->core_count - 1);
    }
    return 0;
}

int cores_read(const char *root, CoreMap *ret, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(LIST_MAX);
    CLEANUP_FREE Cpus *cpus = xcalloc(1, sizeof *cpus);
    if (read_text(&text, root, "/sys/devices/system/cpu/online") < 0 ||
        !number_walk_list(text.text, CORES_CPUS_MAX - 1, add_cpu, cpus) || !cpus->count)
        return err_set(err, -ENOENT, "the kernel does not tell the processors (%s/sys/devices/system/cpu/online)",
                       root);
    memset(cpus->node_of, 0xff, sizeof cpus->node_of);
    read_nodes(root, cpus, &text);
    for (size_t i = 0; i < cpus->count; i++) {
        Cpu *cpu = &cpus->at[i];
        cpu->core = read_siblings(root, cpu->number, "thread_siblings_list", &text);
        cpu->package = read_siblings(root, cpu->number, "core_siblings_list", &text);
        if (cpu->core == NO_CPU || cpu->package == NO_CPU)
            return err_set(err, -ENOENT, "the kernel does not tell the core of processor %u", cpu->number);
        cpu->node = cpus->node_of[cpu->number];
        cpu->cache = find_cache(root, cpu->number, &text);
    }
    return number_cores(cpus, ret, err);
}

typedef struct Near {
    const CoreMap *map;
    CoreSet *set;
} Near;

static void add_near(void *at, uint64_t cpu)
{
    const Near *near = at;
    if (near->map->core[cpu] >= 0)
        core_set_add(near->set, (unsigned)near->map->core[cpu]);
}

int cores_near(const char *root, const char *address, const CoreMap *map, CoreSet *ret)
{
    CLEANUP(str_done) Str text = str_limited(LIST_MAX);
    char path[128];
    CoreSet set = {0};
    Near near = {.map = map, .set = &set};
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", address);
    TRY(read_text(&text, root, path));
    if (!number_walk_list(text.text, CORES_CPUS_MAX - 1, add_near, &near))
        return -EBADMSG;
    *ret = set;
    return 0;
}
