/* SPDX-License-Identifier: Apache-2.0 */
/* The table of readers. */
#include "verb/trace/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "verb/trace/nsys.h"

typedef struct Reader {
    bool (*fits)(const char *magic, size_t len);
    int (*read)(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into, Err *err);
} Reader;

static bool fits_any(const char *magic, size_t len)
{
    (void)magic;
    return len > 0;
}

static int read_json(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into, Err *err)
{
    TraceSource source = trace_input_source(input, threads > 1 && options->raw);
    uint64_t at;
    int rc = trace_scan_parallel(&source, options, threads, into, err);
    trace_input_settle(input);
    const char *damage = trace_input_damage(input, &at);

    if (damage[0] && rc == 0 && options->owner <= 1) /* of several ranks in one file the first has what the file lost */
        profile_lose(into, PROFILE_LOSS_COMPRESSION, at, damage, strlen(damage));
    else if (damage[0] && rc == -EBADMSG)
        err_set(err, rc, "%s", damage);
    return rc == -EBADMSG ? err_add(err, "'%s'", trace_input_path(input)) : rc;
}

/* --no-cpu for a reader that reads everything: ranges stay, as the scanner leaves them. */
static bool is_no_cpu_work(void *context, const Profile *profile, const ProfileEvents *table, size_t row)
{
    (void)context;
    (void)profile;
    return table->kind[row] <= PROFILE_SET || table->kind[row] == PROFILE_ANNOTATION ||
           table->kind[row] == PROFILE_GPU_ANNOTATION;
}

static int read_sqlite(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into,
                       Err *err)
{
    (void)threads;
    if (options->raw || options->from || options->to)
        return err_set(
            err, -EOPNOTSUPP,
            "'%s' is a database of Nsight Systems: it can be analysed, in one piece, but neither cut nor read "
            "in windows (more --memory would do) nor by other definitions",
            trace_input_path(input));
    TRY(trace_nsys_sqlite(input, options->memory_max, trace_input_source(input, false).stop, into, err));
    if (options->skip_host)
        profile_filter(into, is_no_cpu_work, NULL);
    return 0;
}

/* The first that fits reads. */
static const Reader readers[] = {
    {.fits = nsys_is_sqlite, .read = read_sqlite},
    {.fits = fits_any, .read = read_json},
};

int trace_load(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into, Err *err)
{
    size_t len;
    const char *magic = trace_input_magic(input, &len);

    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        if (readers[i].fits(magic, len))
            return readers[i].read(input, options, threads, into, err);
    return err_set(err, -EBADMSG, "'%s' is in no format that is known", trace_input_path(input));
}

int64_t trace_load_rank(TraceInput *input)
{
    size_t len;
    const char *head = trace_input_head(input, &len);
    const char *info = memmem(head, len, "\"distributedInfo\"", 17);
    const char *end = info ? memchr(info, '}', len - (size_t)(info - head)) : NULL;
    const char *rank = end ? memmem(info, (size_t)(end - info), "\"rank\"", 6) : NULL;
    char number[24];

    if (!rank)
        return -1;
    rank += 6;
    while (rank < end && strchr(" \t\r\n:", *rank))
        rank++;
    size_t digits = 0;
    while (rank + digits < end && digits < sizeof number - 1 && rank[digits] >= '0' && rank[digits] <= '9')
        digits++;
    memcpy(number, rank, digits);
    number[digits] = '\0';
    return digits > 0 && digits < 10 ? strtoll(number, NULL, 10) : -1;
}
