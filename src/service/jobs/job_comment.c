/* SPDX-License-Identifier: Apache-2.0 */
/* jobstats' comment of a job (github.com/PrincetonUniversity/jobstats, jobstats.py): "JS1:" and base64 of gzip of
 * {"nodes":{NODE:{"total_memory":bytes,"used_memory":bytes,"total_time":CPU seconds,"cpus":count,
 * "gpu_total_memory":{GPU:bytes},"gpu_used_memory":{GPU:bytes},"gpu_utilization":{GPU:%}}},"total_time":seconds,
 * "gpus":count}. Its report fails where a node lacks cpus or one of the first two, and where a GPU has one of its two
 * memories; it says itself that the rest is missing. */
#include "service/jobs/job_report.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/gzip.h"
#include "base/json.h"

enum { COMMENT_MAX = 1 << 20, GPU_KEY_CAP = 32 };

typedef double (*FindValue)(const UsageDevice *d);

/* Percent of the time: utilisation, of an instance without one SM activity. Of the whole device, as jobstats has it. */
static double find_percent(const UsageDevice *d)
{
    const double util = usage_mean(d, USAGE_UTIL), sm = usage_mean(d, USAGE_SM);

    return round(1000 * (isfinite(util) ? util : sm)) / 10;
}

static double find_peak(const UsageDevice *d)
{
    return isfinite(d->device_peak_bytes) ? d->device_peak_bytes : d->memory_peak_bytes;
}

static double find_used(const UsageDevice *d)
{
    return isfinite(d->memory_total_bytes) ? find_peak(d) : (double)NAN;
}

static double find_total(const UsageDevice *d)
{
    return isfinite(find_peak(d)) ? d->memory_total_bytes : (double)NAN;
}

/* {GPU:value,...}, nothing where none is known; an instance is "GPU:GPU-INSTANCE". */
static void add_values(const JobReport *r, const char *name, FindValue find, Str *out)
{
    bool any = false;

    for (size_t i = 0; i < r->devices.len; i++) {
        const UsageDevice *d = &r->devices.at[i];
        const double value = find(d);
        char key[GPU_KEY_CAP];

        if (!isfinite(value))
            continue;
        if (!any)
            json_open(out, name, '{');
        any = true;
        if (d->device.kind == DEVICE_COMPUTE_INSTANCE)
            snprintf(key, sizeof key, "%" PRIu32 ":%" PRIu32, d->gpu_index, d->device.gpu_instance);
        else
            snprintf(key, sizeof key, "%" PRIu32, d->gpu_index);
        json_add_double(out, key, value);
    }
    if (any)
        json_close(out, '}');
}

static void add_known(Str *out, const char *name, double value)
{
    if (isfinite(value))
        json_add_double(out, name, value);
}

static void add_node(const JobReport *r, Str *out)
{
    json_open(out, r->node, '{');
    add_known(out, "total_memory", r->host.memory_limit_bytes);
    add_known(out, "used_memory", r->host.memory_peak_bytes);
    add_known(out, "total_time", round(10 * r->host.cpu_s) / 10);
    add_known(out, "cpus", r->host.cpus);
    add_values(r, "gpu_total_memory", find_total, out);
    add_values(r, "gpu_used_memory", find_used, out);
    add_values(r, "gpu_utilization", find_percent, out);
    json_close(out, '}');
}

static void write_json(const JobReport *const *reports, size_t count, Str *out)
{
    double total_s = 0;
    size_t gpus = 0;

    json_open(out, NULL, '{');
    json_open(out, "nodes", '{');
    for (size_t i = 0; i < count; i++) {
        add_node(reports[i], out);
        total_s = fmax(total_s, reports[i]->elapsed_s);
        gpus += reports[i]->devices.len;
    }
    json_close(out, '}');
    json_add_u64(out, "total_time", (uint64_t)llround(total_s));
    json_add_u64(out, "gpus", gpus);
    json_close(out, '}');
}

int job_comment(const JobReport *const *reports, size_t count, Str *out, Err *err)
{
    CLEANUP(str_done) Str json = str_limited(COMMENT_MAX), gz = str_limited(COMMENT_MAX);
    gnutls_datum_t packed, text;

    write_json(reports, count, &json);
    TRY(str_check(&json, "the job's comment", err));
    TRY(gzip_pack(json.text, json.len, &gz, err));
    packed = (gnutls_datum_t){(unsigned char *)gz.text, (unsigned)gz.len};
    if (gnutls_base64_encode2(&packed, &text) < 0)
        return err_set(err, -ENOMEM, "the job's comment cannot be encoded");
    str_add(out, "JS1:");
    str_addn(out, (const char *)text.data, text.size);
    gnutls_free(text.data);
    return 0;
}

void job_comment_gaps(const JobReport *const *reports, size_t count, Str *out)
{
    if (count > 0 && reports[0]->info.nodes > count)
        str_addf(out, "the job is on %" PRIu32 " nodes, and this is of %zu\n", reports[0]->info.nodes, count);
    for (size_t i = 0; i < count; i++) {
        const JobHost *host = &reports[i]->host;

        if (!isfinite(host->cpu_s) || !isfinite(host->cpus) || !isfinite(host->memory_peak_bytes) ||
            !isfinite(host->memory_limit_bytes))
            str_addf(out, "the job's processors or memory on %s are not known: jobstats cannot show the whole job\n",
                     reports[i]->node);
    }
}
