/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi --query-gpu and --query-compute-apps: chosen fields as CSV. A field is a row of a table. */
#include "sim/smi/smi.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { FIELDS_MAX = 128 };

typedef struct Field {
    const char *name;  /* the header line has this one, whichever was asked for */
    const char *alias; /* a second name, NULL */
    const char *unit;  /* "MiB", NULL */
    Getter *get;
    int arg;
} Field;

static const Field gpu_fields[] = {
    {"timestamp", NULL, NULL, get_timestamp, 0},
    {"driver_version", NULL, NULL, get_driver_version, 0},
    {"count", NULL, NULL, get_count, 0},
    {"index", NULL, NULL, get_index, 0},
    {"name", "gpu_name", NULL, GET_TEXT(DeviceGetName)},
    {"serial", "gpu_serial", NULL, GET_TEXT(DeviceGetSerial)},
    {"uuid", "gpu_uuid", NULL, GET_TEXT(DeviceGetUUID)},
    {"pci.bus_id", "gpu_bus_id", NULL, get_bus_id, 0},
    {"vbios_version", NULL, NULL, GET_TEXT(DeviceGetVbiosVersion)},
    {"inforom.img", "inforom.image", NULL, GET_TEXT(DeviceGetInforomImageVersion)},
    {"inforom.ecc", NULL, NULL, get_inforom, NVML_INFOROM_ECC},
    {"persistence_mode", NULL, NULL, GET_ENABLED(DeviceGetPersistenceMode)},
    {"compute_mode", NULL, NULL, get_compute_mode, 0},
    {"mig.mode.current", NULL, NULL, get_mig_mode, 0},
    {"mig.mode.pending", NULL, NULL, get_mig_mode, 1},
    {"gpu_recovery_action", NULL, NULL, get_recovery, 0},
    {"pcie.link.gen.current", NULL, NULL, GET_UINT(DeviceGetCurrPcieLinkGeneration)},
    {"pcie.link.gen.max", NULL, NULL, GET_UINT(DeviceGetMaxPcieLinkGeneration)},
    {"pcie.link.width.current", NULL, NULL, GET_UINT(DeviceGetCurrPcieLinkWidth)},
    {"pcie.link.width.max", NULL, NULL, GET_UINT(DeviceGetMaxPcieLinkWidth)},
    {"fan.speed", NULL, "%", GET_UINT(DeviceGetFanSpeed)},
    {"pstate", NULL, NULL, get_pstate, 0},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", NULL, get_reasons, 0},
    {"memory.total", NULL, "MiB", get_memory, MEMORY_TOTAL},
    {"memory.reserved", NULL, "MiB", get_memory, MEMORY_RESERVED},
    {"memory.used", NULL, "MiB", get_memory, MEMORY_USED},
    {"memory.free", NULL, "MiB", get_memory, MEMORY_FREE},
    {"utilization.gpu", NULL, "%", get_utilization, 0},
    {"utilization.memory", NULL, "%", get_utilization, 1},
    {"utilization.encoder", NULL, "%", GET_ENGINE(DeviceGetEncoderUtilization)},
    {"utilization.decoder", NULL, "%", GET_ENGINE(DeviceGetDecoderUtilization)},
    {"ecc.mode.current", NULL, NULL, get_ecc_mode, 0},
    {"ecc.errors.corrected.volatile.total", NULL, NULL, get_ecc, GET_ECC(ECC_COR, ECC_VOL)},
    {"ecc.errors.corrected.aggregate.total", NULL, NULL, get_ecc, GET_ECC(ECC_COR, ECC_AGG)},
    {"ecc.errors.uncorrected.volatile.total", NULL, NULL, get_ecc, GET_ECC(ECC_UNC, ECC_VOL)},
    {"ecc.errors.uncorrected.aggregate.total", NULL, NULL, get_ecc, GET_ECC(ECC_UNC, ECC_AGG)},
    {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", NULL, get_retired,
     NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS},
    {"retired_pages.double_bit.count", "retired_pages.dbe", NULL, get_retired,
     NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR},
    {"remapped_rows.correctable", NULL, NULL, get_remapped, REMAP_COR},
    {"remapped_rows.uncorrectable", NULL, NULL, get_remapped, REMAP_UNC},
    {"remapped_rows.pending", NULL, NULL, get_remapped, REMAP_PENDING},
    {"remapped_rows.failure", NULL, NULL, get_remapped, REMAP_FAILURE},
    {"temperature.gpu", NULL, NULL, get_temperature, 0},
    {"temperature.memory", NULL, NULL, get_field_int, NVML_FI_DEV_MEMORY_TEMP},
    {"power.draw", NULL, "W", GET_WATT(DeviceGetPowerUsage)},
    {"power.draw.average", NULL, "W", get_power_field, NVML_FI_DEV_POWER_AVERAGE},
    {"power.draw.instant", NULL, "W", get_power_field, NVML_FI_DEV_POWER_INSTANT},
    {"power.limit", NULL, "W", GET_WATT(DeviceGetPowerManagementLimit)},
    {"enforced.power.limit", NULL, "W", GET_WATT(DeviceGetEnforcedPowerLimit)},
    {"power.default_limit", NULL, "W", GET_WATT(DeviceGetPowerManagementDefaultLimit)},
    {"power.min_limit", NULL, "W", get_limit, 0},
    {"power.max_limit", NULL, "W", get_limit, 1},
    {"clocks.current.graphics", "clocks.gr", "MHz", get_clock, NVML_CLOCK_GRAPHICS},
    {"clocks.current.sm", "clocks.sm", "MHz", get_clock, NVML_CLOCK_SM},
    {"clocks.current.memory", "clocks.mem", "MHz", get_clock, NVML_CLOCK_MEM},
    {"clocks.current.video", "clocks.video", "MHz", get_clock, NVML_CLOCK_VIDEO},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", get_max_clock, NVML_CLOCK_GRAPHICS},
    {"clocks.max.sm", NULL, "MHz", get_max_clock, NVML_CLOCK_SM},
    {"clocks.max.memory", "clocks.max.mem", "MHz", get_max_clock, NVML_CLOCK_MEM},
};

/* Fields of a compute process have numbers instead of getters. */
enum { APP_OF_GPU, APP_PID, APP_NAME, APP_MEMORY };

static const Field app_fields[] = {
    {"timestamp", NULL, NULL, get_timestamp, APP_OF_GPU}, {"gpu_name", NULL, NULL, GET_TEXT(DeviceGetName)},
    {"gpu_bus_id", NULL, NULL, get_bus_id, APP_OF_GPU},   {"gpu_serial", NULL, NULL, GET_TEXT(DeviceGetSerial)},
    {"gpu_uuid", NULL, NULL, GET_TEXT(DeviceGetUUID)},    {"pid", NULL, NULL, NULL, APP_PID},
    {"process_name", "name", NULL, NULL, APP_NAME},       {"used_gpu_memory", "used_memory", "MiB", NULL, APP_MEMORY},
};

typedef struct Plan {
    bool apps, header, units;
    size_t count;
    const Field *fields[FIELDS_MAX];
} Plan;

static const Field *find_field(const Plan *plan, const char *name)
{
    const Field *fields = plan->apps ? app_fields : gpu_fields;
    const size_t count = plan->apps ? ARRAY_LEN(app_fields) : ARRAY_LEN(gpu_fields);

    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0 || (fields[i].alias && strcmp(fields[i].alias, name) == 0))
            return &fields[i];
    return NULL;
}

/* The next word of a list, without blanks around it; NULL after the last. */
static char *next_word(char **rest)
{
    char *word = strsep(rest, ",");

    if (!word)
        return NULL;
    word += strspn(word, " \t");
    word[strcspn(word, " \t")] = '\0';
    return word;
}

static int read_format(Plan *plan, const char *format)
{
    char words[256], *rest = words;
    bool csv = false;

    snprintf(words, sizeof(words), "%s", format);
    for (char *word; (word = next_word(&rest)) != NULL;) {
        if (strcmp(word, "csv") == 0)
            csv = true;
        else if (strcmp(word, "noheader") == 0)
            plan->header = false;
        else if (strcmp(word, "nounits") == 0)
            plan->units = false;
        else {
            printf("Format option \"%s\" is not valid.\n", word);
            return 2;
        }
    }
    if (!csv)
        printf("\"--format=\" needs csv.\n");
    return csv ? 0 : 2;
}

static int make_plan(Plan *plan, bool apps, const char *fields, const char *format)
{
    char words[16384], *rest = words;

    *plan = (Plan){.apps = apps, .header = true, .units = true};
    if (!format) {
        printf("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n");
        return 2;
    }
    snprintf(words, sizeof(words), "%s", fields);
    for (char *word; (word = next_word(&rest)) != NULL && plan->count < FIELDS_MAX;) {
        const Field *field = find_field(plan, word);
        if (!field) {
            printf("Field \"%s\" is not a valid field to query.\n\n", word);
            return 2;
        }
        plan->fields[plan->count++] = field;
    }
    return read_format(plan, format);
}

static void write_header(const Plan *plan, FILE *file)
{
    for (size_t i = 0; i < plan->count; i++) {
        const Field *field = plan->fields[i];
        fprintf(file, "%s%s", i ? ", " : "", field->name);
        if (field->unit)
            fprintf(file, " [%s]", field->unit);
    }
    fputc('\n', file);
}

static void get_of_app(const GpuProc *proc, int what, Value *ret)
{
    if (what == APP_PID)
        value_uint(ret, NVML_SUCCESS, proc->pid);
    else if (what == APP_NAME)
        value_process_name(ret, proc->pid);
    else
        value_mib(ret, proc->used_known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, proc->used_bytes);
}

static void write_row(const Plan *plan, Gpu *gpu, const GpuProc *proc, FILE *file)
{
    Value value;

    for (size_t i = 0; i < plan->count; i++) {
        const Field *field = plan->fields[i];
        if (field->get)
            field->get(gpu, field->arg, &value);
        else
            get_of_app(proc, field->arg, &value);
        fputs(i ? ", " : "", file);
        const bool bare = field->get == get_field_int; /* N/A, not [N/A], in captures: the memory's temperature */
        if (value.rc != NVML_SUCCESS)
            fprintf(file, bare ? "%s" : "[%s]", value_reason(&value));
        else if (field->unit && plan->units)
            fprintf(file, "%s %s", value.text, field->unit);
        else
            fputs(value.text, file);
    }
    fputc('\n', file);
}

static void write_apps(const Plan *plan, Gpu *gpu, FILE *file)
{
    unsigned int count;
    GpuProc *procs = gpu_procs(gpu, &count);

    for (unsigned int i = 0; i < count; i++)
        if (strcmp(procs[i].type, "G") != 0)
            write_row(plan, gpu, &procs[i], file);
    free(procs);
}

int query_write(GpuSet *set, bool apps, const char *fields, const char *format, FILE *file)
{
    Plan plan;
    const int rc = make_plan(&plan, apps, fields, format);

    if (rc || !set)
        return rc;
    if (plan.header)
        write_header(&plan, file);
    for (unsigned int i = 0; i < set->count; i++)
        if (apps)
            write_apps(&plan, &set->gpus[i], file);
        else
            write_row(&plan, &set->gpus[i], NULL, file);
    return 0;
}

void query_help(bool apps)
{
    const Field *fields = apps ? app_fields : gpu_fields;
    const size_t count = apps ? ARRAY_LEN(app_fields) : ARRAY_LEN(gpu_fields);

    for (size_t i = 0; i < count; i++)
        printf("\"%s\"%s%s%s\n", fields[i].name, fields[i].alias ? " or \"" : "",
               fields[i].alias ? fields[i].alias : "", fields[i].alias ? "\"" : "");
}
