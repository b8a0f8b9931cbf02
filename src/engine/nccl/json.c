/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: results of nccl-tests (-J), or a dump of PyTorch's flight recorder. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/owner.h"
#include "engine/nccl/bench.h"
#include "engine/nccl/flight.h"

OWNER_POINTER(json_t, json_decref);

static Span text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_string(value) ? (Span){json_string_value(value), json_string_length(value)} : span_of("");
}

static int64_t int_of(const json_t *object, const char *key, int64_t other)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : other;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static NcclFigure figure_of(const json_t *object)
{
    double wrong = number_of(object, "nwrong"), time = number_of(object, "time");

    return (NcclFigure){.time_us = isnan(time) ? number_of(object, "cpu_time") : time,
                        .alg_gbs = number_of(object, "alg_bw"),
                        .bus_gbs = number_of(object, "bus_bw"),
                        .wrong = wrong >= 0 && wrong < 1e18 ? (int64_t)wrong : NCCL_UNKNOWN};
}

/* "root" is a text with blanks. */
static int64_t root_of(const json_t *row)
{
    Span s = text_of(row, "root");
    int64_t root;

    return span_i64(&s, &root) ? root : int_of(row, "root", NCCL_UNKNOWN);
}

/* One device per process is listed; each has nthreads * ngpus ranks. */
static void read_config(NcclJob *job, const json_t *config, NcclBench *bench)
{
    const json_t *devices = json_object_get(config, "devices"), *device;
    int64_t each = (int_of(config, "nthreads", 1) & 0xffff) * (int_of(config, "ngpus", 1) & 0xffff);
    size_t i;
    CLEANUP(map_done) Map hosts;

    map_init(&hosts);
    json_array_foreach(devices, i, device)
    {
        Span host = text_of(device, "hostname");
        if (!map_getn(&hosts, host.at, host.len))
            map_putn(&hosts, host.at, host.len, job);
    }
    int64_t processes = (int64_t)json_array_size(devices);
    bench->ranks = each > 0 && each < NCCL_MEMBERS_MAX && processes < NCCL_MEMBERS_MAX ? processes * each : processes;
    bench->nodes = (int64_t)hosts.len;
}

static void read_bench(NcclJob *job, const json_t *top)
{
    const json_t *results = json_object_get(top, "results"), *row;
    NcclBench *bench = nccl_bench_new(job);
    size_t i;

    if (!bench)
        return;
    bench->place = bench->average_place = bench->bounds_place = (NcclPlace){job->input, 0};
    const json_t *program = json_array_get(json_object_get(top, "args"), 0);
    if (json_is_string(program))
        bench->name = nccl_bench_name(job, (Span){json_string_value(program), json_string_length(program)});
    read_config(job, json_object_get(top, "config"), bench);
    json_array_foreach(results, i, row)
    {
        NcclRow r = nccl_bench_row((NcclPlace){job->input, 0});
        int64_t size = int_of(row, "size", -1), count = int_of(row, "count", -1);
        if (size < 0)
            continue;
        r.size = (uint64_t)size;
        r.count = count < 0 ? 0 : (uint64_t)count;
        r.type = nccl_word(job, text_of(row, "type"));
        r.redop = nccl_word(job, text_of(row, "redop"));
        r.root = root_of(row);
        r.out = figure_of(json_object_get(row, "out_of_place"));
        r.in = figure_of(json_object_get(row, "in_place"));
        nccl_bench_add(job, bench, &r);
        nccl_input(job)->used++;
    }
    bench->average_gbs = number_of(json_object_get(top, "average_bus_bandwidth"), "bandwidth");
    bench->out_of_bounds = int_of(json_object_get(top, "out_of_bounds"), "count", NCCL_UNKNOWN);
    bench->concluded = json_object_get(top, "average_bus_bandwidth") != NULL;
}

static bool is_flight(const json_t *top)
{
    if (json_is_array(top)) {
        const json_t *first = json_array_get(top, 0);
        return json_object_get(first, "profiling_name") && json_object_get(first, "record_id");
    }
    return json_object_get(top, "pg_config") || json_object_get(top, "pg_status") ||
           (json_is_array(json_object_get(top, "entries")) && json_object_get(top, "version"));
}

void nccl_json(NcclJob *job, Span text)
{
    json_error_t error;
    CLEANUP(json_decref_at)
    json_t *top = json_loadb(text.at, text.len, JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, &error);

    if (!top) {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        nccl_input(job)->trouble = nccl_printf(job, "not JSON: line %d: %s", error.line, error.text);
    } else if (is_flight(top)) {
        nccl_input(job)->kind = NCCL_KIND_FLIGHT;
        nccl_flight(job, top);
    } else if (json_is_array(json_object_get(top, "results"))) {
        nccl_input(job)->kind = NCCL_KIND_BENCH;
        read_bench(job, top);
    } else {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        nccl_input(job)->trouble = "JSON, but neither a result of nccl-tests nor a flight recorder's dump";
    }
}
