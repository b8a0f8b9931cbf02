/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi, a stand-in: a client of the NVML library for programs that run this tool instead of calling it. It has
 * the options that such programs and our own tests use. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/smi/smi.h"

typedef struct Options {
    const char *ids, *format, *fields, *apps, *loop, *mig, *power, *persistence;
    bool list, log, xml, reset, help, help_gpu, help_apps;
} Options;

/* `text` for a flag, NULL for an option with a value. */
static const struct Option {
    const char *letter, *word;
    bool takes;
    size_t off;
    const char *about;
} options[] = {
    {"-h", "--help", false, offsetof(Options, help), "this text"},
    {"-L", "--list-gpus", false, offsetof(Options, list), "a line per GPU and MIG device"},
    {"-q", "--query", false, offsetof(Options, log), "with -x: readings of each GPU"},
    {"-x", "--xml-format", false, offsetof(Options, xml), "with -q"},
    {"-i", "--id", true, offsetof(Options, ids), "only these GPUs: index, UUID or bus id"},
    {"--query-gpu", "--query-gpu", true, offsetof(Options, fields), "fields, a row per GPU"},
    {"--query-compute-apps", "--query-compute-apps", true, offsetof(Options, apps), "fields, a row per process"},
    {"--help-query-gpu", "--help-query-gpu", false, offsetof(Options, help_gpu), "its fields"},
    {"--help-query-compute-apps", "--help-query-compute-apps", false, offsetof(Options, help_apps), "its fields"},
    {"-l", "--loop", true, offsetof(Options, loop), "readings again every so many seconds (netdata reads it so)"},
    {"--format", "--format", true, offsetof(Options, format), "csv[,noheader][,nounits]"},
    {"-pm", "--persistence-mode", true, offsetof(Options, persistence), "set it: 0 or 1"},
    {"-pl", "--power-limit", true, offsetof(Options, power), "set it: watts"},
    {"-r", "--gpu-reset", false, offsetof(Options, reset), "reset the GPUs of -i, if no process uses them"},
    {"-mig", "--multi-instance-gpu", true, offsetof(Options, mig), "MIG mode: 0 or 1"},
};

static GpuSet set;

/* --- the command line --------------------------------------------------------------------------------------------- */

static int refuse_arguments(const char *text)
{
    printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help. (%s)\n", text);
    return NVML_ERROR_INVALID_ARGUMENT;
}

static const struct Option *find_option(const char *arg, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if ((strlen(options[i].letter) == len && strncmp(options[i].letter, arg, len) == 0) ||
            (strlen(options[i].word) == len && strncmp(options[i].word, arg, len) == 0))
            return &options[i];
    return NULL;
}

/* "-i 0", "-i=0", "--id=0", "--id 0". 0, or the exit code after a message. */
static int read_options(int argc, char **argv, Options *ret)
{
    *ret = (Options){0};
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        const struct Option *option = find_option(argv[i], equals ? (size_t)(equals - argv[i]) : strlen(argv[i]));
        void *at = option ? (char *)ret + option->off : NULL;

        if (!option || (!option->takes && equals))
            return refuse_arguments(argv[i]);
        if (!option->takes)
            *(bool *)at = true;
        else if (equals || i + 1 < argc)
            *(const char **)at = equals ? equals + 1 : argv[++i];
        else
            return refuse_arguments(option->word);
    }
    if (ret->loop && atoi(ret->loop) <= 0)
        return refuse_arguments("-l takes seconds");
    if (ret->xml != ret->log)
        return refuse_arguments("-q and -x go together");
    return 0;
}

static void print_help(void)
{
    puts("nvidia-smi of a simulated node. It reads GPUs through the NVML library, and has the options that other\n"
         "programs run the driver's tool with.\n\n"
         "  nvidia-smi [OPTION]..      without options: a summary\n"
         "  nvidia-smi topo | mig ..\n");
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        printf("    %-5s %-28s %s\n", options[i].letter[1] == '-' ? "" : options[i].letter, options[i].word,
               options[i].about);
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

/* A board that lacks the setting gets a warning, which counts as success. */
static nvmlReturn_t report_change(const Gpu *gpu, nvmlReturn_t rc, const char *what, const char *value)
{
    if (rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_DEPRECATED) {
        printf("Setting %s is not supported for GPU %s.\nTreating as warning and moving on.\n", what, gpu->bus_id);
        return NVML_SUCCESS;
    }
    if (rc != NVML_SUCCESS)
        printf("Unable to set %s for GPU %s: %s\n", what, gpu->bus_id, nvml_error_text(rc));
    else
        printf("Set %s to %s for GPU %s.\n", what, value, gpu->bus_id);
    return rc;
}

static bool read_switch(const char *text, unsigned int *ret)
{
    *ret = strcmp(text, "1") == 0 || strcasecmp(text, "ENABLED") == 0;
    return *ret || strcmp(text, "0") == 0 || strcasecmp(text, "DISABLED") == 0;
}

static nvmlReturn_t set_persistence(const Gpu *gpu, const char *value)
{
    unsigned int on;

    if (!read_switch(value, &on))
        return NVML_ERROR_INVALID_ARGUMENT;
    return report_change(gpu, NV(DeviceSetPersistenceMode, gpu->handle, (nvmlEnableState_t)on), "persistence mode",
                         on ? "Enabled" : "Disabled");
}

static nvmlReturn_t set_power(const Gpu *gpu, const char *value)
{
    unsigned int min = 0, max = 0;
    char *end;
    const double watts = strtod(value, &end);

    if (!*value || *end || !(watts > 0 && watts < 1e6))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetPowerManagementLimit, gpu->handle, (unsigned int)(watts * 1000 + 0.5));
    if (rc != NVML_ERROR_INVALID_ARGUMENT)
        return report_change(gpu, rc, "power limit", value);
    (void)NV(DeviceGetPowerManagementLimitConstraints, gpu->handle, &min, &max);
    printf("Provided power limit %.2f W is not a valid power limit which should be between %.2f W and %.2f W for GPU "
           "%s\n",
           watts, min / 1000.0, max / 1000.0, gpu->bus_id);
    return rc;
}

static nvmlReturn_t set_mig(const Gpu *gpu, const char *value)
{
    unsigned int on;
    nvmlReturn_t activation = NVML_SUCCESS;

    if (!read_switch(value, &on))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = NV(DeviceSetMigMode, gpu->handle, on, &activation);
    if (rc != NVML_SUCCESS || activation == NVML_SUCCESS)
        return report_change(gpu, rc, "MIG mode", on ? "Enabled" : "Disabled");
    printf("Warning: MIG mode is in pending %s state for GPU %s:%s\nIt takes effect at the next reset or reboot.\n",
           on ? "enable" : "disable", gpu->bus_id, nvml_error_text(activation));
    return NVML_SUCCESS;
}

static nvmlReturn_t reset_one(SimImage *image, const Gpu *gpu)
{
    unsigned int count = 0;
    SimOp op = {.type = SIM_OP_RESET, .gpu = (int32_t)gpu->index, .origin = SIM_FROM_CLIENT};

    if (NV(DeviceGetComputeRunningProcesses_v3, gpu->handle, &count, NULL) == NVML_ERROR_INSUFFICIENT_SIZE) {
        printf("GPU %s is currently in use by another process.\n", gpu->bus_id);
        return NVML_ERROR_IN_USE;
    }
    const SimOutcome out = sim_op_apply(image, &op, NULL, 0, NULL);
    if (out == SIM_OK)
        printf("GPU %s was successfully reset.\n", gpu->bus_id);
    return (nvmlReturn_t)out;
}

static nvmlReturn_t reset_gpus(void)
{
    const char *path = getenv("STOKER_SIM");
    SimImage *image = path && geteuid() == 0 ? sim_image_open(path) : NULL;
    nvmlReturn_t rc = image ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;

    for (unsigned int i = 0; rc == NVML_SUCCESS && i < set.count; i++)
        rc = reset_one(image, &set.gpus[i]);
    if (image)
        sim_image_close(image);
    printf(rc == NVML_SUCCESS ? "All done.\n" : "Unable to reset: %s\n", nvml_error_text(rc));
    return rc;
}

static nvmlReturn_t apply_changes(const Options *o)
{
    const struct {
        const char *value;
        nvmlReturn_t (*apply)(const Gpu *gpu, const char *value);
    } changes[] = {{o->persistence, set_persistence}, {o->power, set_power}, {o->mig, set_mig}};

    for (size_t c = 0; c < ARRAY_LEN(changes); c++)
        for (unsigned int i = 0; changes[c].value && i < set.count; i++) {
            nvmlReturn_t rc = changes[c].apply(&set.gpus[i], changes[c].value);
            if (rc != NVML_SUCCESS) {
                printf("Terminating early due to previous errors.\n");
                return rc;
            }
        }
    printf("All done.\n");
    return NVML_SUCCESS;
}

/* --- running -------------------------------------------------------------------------------------------- */

static int write_readings(const Options *o)
{
    if (o->fields || o->apps)
        return query_write(&set, !o->fields, o->fields ? o->fields : o->apps, o->format, stdout);
    if (o->log)
        xml_write(&set, stdout);
    else if (o->list)
        summary_list(&set, stdout);
    else
        summary_write(&set, stdout);
    return 0;
}

static int run_options(const Options *o)
{
    const int seconds = o->loop ? atoi(o->loop) : 0;
    int code;

    const char *fields = o->fields ? o->fields : o->apps;
    const int wrong = fields ? query_write(NULL, !o->fields, fields, o->format, stdout) : 0;

    if (wrong)
        return wrong;
    nvmlReturn_t rc = gpu_set_open(o->ids, &set);
    if (rc != NVML_SUCCESS)
        return nvml_exit_code(rc);
    if (o->reset)
        return nvml_exit_code(reset_gpus());
    if (o->persistence || o->power || o->mig)
        return nvml_exit_code(apply_changes(o));
    do
        code = write_readings(o);
    while (!code && seconds > 0 && fflush(stdout) == 0 && sleep((unsigned int)seconds) == 0);
    return code;
}

int main(int argc, char **argv)
{
    int (*const verb)(int, char **) = argc > 1 && strcmp(argv[1], "topo") == 0  ? topo_main
                                      : argc > 1 && strcmp(argv[1], "mig") == 0 ? mig_main
                                                                                : NULL;
    Options o;
    int code = verb ? 0 : read_options(argc, argv, &o);

    if (code)
        return code;
    if (!verb && (o.help || o.help_gpu || o.help_apps)) {
        if (o.help)
            print_help();
        else
            query_help(o.help_apps);
        return 0;
    }
    nvmlReturn_t rc = nvml_open();
    if (rc != NVML_SUCCESS)
        return nvml_exit_code(rc);
    code = verb ? verb(argc - 1, argv + 1) : run_options(&o);
    nvml_close();
    return code;
}
