/* SPDX-License-Identifier: Apache-2.0 */
/* src/base against what libc and libyaml offer for the same work. */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/yaml.h"

enum { NUMBERS = 1024, KEYS = 4096, ALLOCS = 64, ALLOC_BYTES = 48, YAML_BYTES = 128 * 1024 };

static double numbers[NUMBERS];
static char texts[NUMBERS][32];
static char keys[KEYS][40];
static Map map;
static const char *sorted[KEYS];
static Arena arena;
static Str document;
static Log logger;
static int null_fd;
static volatile double sink;

/* ---- numbers ---- */

static void write_double(size_t n)
{
    char out[NUMBER_DOUBLE_MAX];
    for (size_t i = 0; i < n; i++) {
        number_write_double(out, numbers[i % NUMBERS]);
        bench_use(out);
    }
}

static void write_snprintf(size_t n)
{
    char out[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(out, sizeof out, "%.17g", numbers[i % NUMBERS]);
        bench_use(out);
    }
}

static void parse_double(size_t n)
{
    double v = 0;
    for (size_t i = 0; i < n; i++) {
        number_parse_double(texts[i % NUMBERS], -1e300, 1e300, &v, NULL);
        sink = v;
    }
}

static void parse_strtod(size_t n)
{
    for (size_t i = 0; i < n; i++)
        sink = strtod(texts[i % NUMBERS], NULL);
}

/* ---- maps ---- */

static void map_lookup(size_t n)
{
    for (size_t i = 0; i < n; i++)
        bench_use(map_get(&map, keys[i * 2654435761u % KEYS]));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void search(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *want = keys[i * 2654435761u % KEYS];
        bench_use(bsearch(&want, sorted, KEYS, sizeof *sorted, by_text));
    }
}

/* ---- memory: ALLOCS small pieces and their end ---- */

static void arena_pieces(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < ALLOCS; k++)
            bench_use(arena_alloc(&arena, ALLOC_BYTES));
        arena_reset(&arena);
    }
}

static void malloc_pieces(size_t n)
{
    void *p[ALLOCS];
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < ALLOCS; k++)
            bench_use(p[k] = calloc(1, ALLOC_BYTES));
        for (int k = 0; k < ALLOCS; k++)
            free(p[k]);
    }
}

/* ---- YAML ---- */

static void yaml_tree(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CLEANUP(arena_done) Arena room = {0};
        const YamlNode *root = NULL;
        Err err = {0};
        if (yaml_load("bench", document.text, document.len, &room, &root, &err) < 0) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
        bench_use(root);
    }
}

static void yaml_events(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        yaml_parser_t parser;
        yaml_event_t event;
        int last = 0;
        yaml_parser_initialize(&parser);
        yaml_parser_set_input_string(&parser, (const unsigned char *)document.text, document.len);
        while (!last && yaml_parser_parse(&parser, &event)) {
            last = event.type == YAML_STREAM_END_EVENT;
            yaml_event_delete(&event);
        }
        yaml_parser_delete(&parser);
    }
}

/* ---- the log ---- */

static void log_line(size_t n)
{
    for (size_t i = 0; i < n; i++)
        log_write(&logger, LOG_LEVEL_INFO, "gpu %d: %s", 3, "fell off the bus");
}

static void log_dprintf(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        dprintf(null_fd, "%lld.%03ld info gpu %d: %s\n", (long long)t.tv_sec, t.tv_nsec / 1000000, 3,
                "fell off the bus");
    }
}

static void log_call(size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (write(null_fd, keys[0], 32) != 32)
            abort();
}

static void prepare(void)
{
    for (size_t i = 0; i < NUMBERS; i++) { /* percent, watts, bytes, fractions: what a monitor shows */
        double r = (double)(i * 2654435761u % 100003) / 100003;
        numbers[i] = i % 4 == 0 ? (double)(i % 101) : i % 4 == 1 ? r : i % 4 == 2 ? r * 700 : (double)(i * 1048576);
        snprintf(texts[i], sizeof texts[i], "%.17g", numbers[i]);
    }
    map_init(&map);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "DCGM_FI_DEV_%08zx_gpu%zu", i * 2654435761u, i % 8);
        map_put(&map, keys[i], keys[i]);
        sorted[i] = keys[i];
    }
    qsort(sorted, KEYS, sizeof *sorted, by_text);
    str_init(&document, 2 * YAML_BYTES);
    while (document.len < YAML_BYTES)
        str_addf(&document,
                 "- {at: %zus, do: xid, number: 79, gpu: %zu}\n- name: llama\n  kind: train\n  memory: 40GiB\n",
                 document.len, document.len % 8);
    null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    log_init(&logger, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "bench", clock_kernel());
    logger.fd = null_fd;
}

int main(void)
{
    static const Bench list[] = {
        {"number_write_double", write_double, NULL, 0},
        {"snprintf %.17g", write_snprintf, NULL, 0},
        {"number_parse_double", parse_double, NULL, 0},
        {"strtod", parse_strtod, NULL, 0},
        {"map_get", map_lookup, NULL, 0},
        {"bsearch", search, NULL, 0},
        {"arena", arena_pieces, NULL, 0},
        {"calloc and free", malloc_pieces, NULL, 0},
        {"yaml_load", yaml_tree, NULL, 0},
        {"libyaml events", yaml_events, NULL, 0},
        {"log_write", log_line, NULL, 0},
        {"dprintf", log_dprintf, NULL, 0},
        {"write /dev/null", log_call, NULL, 0},
    };
    prepare();
    printf("{\"name\": \"yaml bytes\", \"value\": %zu}\n", document.len);
    bench_all(list, sizeof list / sizeof *list);
    str_done(&document);
    map_done(&map);
    arena_done(&arena);
    return 0;
}
