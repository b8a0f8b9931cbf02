/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi, a stand-in: a client of the NVML library for programs that run this tool instead of calling it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/owner.h"
#include "sim/smi/mig.h"
#include "sim/smi/option.h"
#include "sim/smi/summary.h"
#include "sim/smi/topo.h"
#include "sim/smi/tree.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {{"topo", topo_main}, {"nvlink", nvlink_main}, {"mig", mig_main}};

static GpuSet set;

static int run_verb(int argc, char **argv, int *ret)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        nvmlReturn_t rc = nvml_open();
        *ret = rc == NVML_SUCCESS ? verbs[i].run(argc - 1, argv + 1) : nvml_exit_code(rc);
        nvml_close();
        return 1;
    }
    return 0;
}

static nvmlReturn_t apply_changes(const Options *options)
{
    nvmlReturn_t rc = NVML_SUCCESS;

    for (size_t i = 0; rc == NVML_SUCCESS && i < options->change_count; i++)
        rc = change_apply(options->changes[i].change, options->changes[i].value, &set);
    return rc;
}

static void write_round(const Options *options, const QueryPlan *plan, unsigned int sections, FILE *file)
{
    for (unsigned int i = 0; i < set.count; i++)
        gpu_forget(&set.gpus[i]);
    if (options->query)
        query_rows(plan, &set, file);
    else if (options->log)
        tree_write(&set, file, options->xml, sections);
    else if (options->list)
        summary_list(&set, file);
    else
        summary_write(&set, file);
    fflush(file);
}

static void wait_ms(unsigned int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* Rounds until the output is gone. */
static int show(const Options *options, FILE *file)
{
    QueryPlan plan = {0};
    unsigned int sections = 0;

    if (options->display && !(sections = tree_sections(options->display)))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (options->query) {
        int rc = query_plan(&plan, options->query, options->fields, options->format);
        if (rc)
            return rc;
    }
    nvmlReturn_t found = gpu_set_open(options->ids, &set);
    if (found != NVML_SUCCESS)
        return nvml_exit_code(found);
    if (options->change_count)
        return nvml_exit_code(apply_changes(options));
    if (options->query)
        query_header(&plan, file);
    do {
        write_round(options, &plan, sections, file);
        if (options->loop_ms)
            wait_ms(options->loop_ms);
    } while (options->loop_ms && !ferror(file));
    return 0;
}

static int write_to(const Options *options, FILE *file)
{
    if (options->version) {
        summary_version(file);
        return 0;
    }
    if (options->excluded) {
        summary_excluded(file);
        return 0;
    }
    return show(options, file);
}

static int run(const Options *options)
{
    if (!options->file)
        return write_to(options, stdout);
    FILE *file = fopen(options->file, "w");
    if (!file) {
        printf("Unable to open '%s': %s\n", options->file, strerror(errno));
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    int code = write_to(options, file);
    return fclose(file) != 0 && !code ? 255 : code;
}

int main(int argc, char **argv)
{
    Options options;
    int code = 0;

    if (run_verb(argc, argv, &code))
        return code;
    code = options_read(argc, argv, &options);
    if (code)
        return code;
    if (options.help || options.help_query) {
        if (options.help_query)
            query_help(options.help_query);
        else
            options_help();
        return 0;
    }
    nvmlReturn_t rc = nvml_open();
    if (rc != NVML_SUCCESS)
        return nvml_exit_code(rc);
    code = run(&options);
    nvml_close();
    return code;
}
