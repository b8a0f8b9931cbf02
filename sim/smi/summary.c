/* SPDX-License-Identifier: Apache-2.0 */
/* The familiar table. Widths are those that other programs cut the lines by. */
#include "sim/smi/smi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

#define RULE_WIDE "+-----------------------------------------------------------------------------------------+\n"
#define RULE_GPU "+-----------------------------------------+------------------------+----------------------+\n"
#define RULE_MIG "+------------------+----------------------------------+-----------+-----------------------+\n"

typedef struct Cell {
    char text[VALUE_MAX + 8];
} Cell;

/* A value with its unit, "N/A" if the board lacks it, "ERR!" after an error. */
static const char *fill_value(Cell *cell, const Value *value, const char *unit)
{
    value_show(value, unit, cell->text, sizeof(cell->text));
    if (value->rc != NVML_SUCCESS && strcmp(cell->text, "N/A") != 0)
        snprintf(cell->text, sizeof(cell->text), "ERR!");
    return cell->text;
}

static const char *fill_cell(Cell *out, Gpu *gpu, Getter *get, int arg, const char *unit)
{
    Value value;

    get(gpu, arg, &value);
    return fill_value(out, &value, unit);
}

static const char *fill_switch(Cell *out, Gpu *gpu, Getter *get, int arg)
{
    fill_cell(out, gpu, get, arg, NULL);
    if (strcmp(out->text, "Enabled") == 0)
        snprintf(out->text, sizeof(out->text), "On");
    else if (strcmp(out->text, "Disabled") == 0)
        snprintf(out->text, sizeof(out->text), "Off");
    return out->text;
}

static const char *fill_watt(Cell *out, Gpu *gpu, Getter *get, int arg)
{
    Value value;
    char *dot;

    get(gpu, arg, &value);
    dot = strchr(value.text, '.');
    if (dot)
        *dot = '\0';
    return fill_value(out, &value, "W");
}

/* Uncorrected errors since the driver was loaded; "On" under MIG, where each device counts. */
static const char *fill_ecc(Cell *out, Gpu *gpu)
{
    fill_switch(out, gpu, get_ecc_mode, 0);
    if (strcmp(out->text, "On") == 0 && !gpu_mig_enabled(gpu))
        fill_cell(out, gpu, get_ecc, GET_ECC(ECC_UNC, ECC_VOL), NULL);
    return out->text;
}

static const char *fill_compute(Cell *out, Gpu *gpu)
{
    fill_cell(out, gpu, get_compute_mode, 0, NULL);
    if (strncmp(out->text, "Exclusive_", 10) == 0)
        snprintf(out->text, sizeof(out->text), "E. %s", strstr(out->text, "Thread") ? "Thread" : "Process");
    return out->text;
}

/* A star says that the mode changes at the next reset. */
static const char *fill_mig(Cell *out, Gpu *gpu)
{
    unsigned int current = 0, pending = 0;

    fill_cell(out, gpu, get_mig_mode, 0, NULL);
    if (NV(DeviceGetMigMode, gpu->handle, &current, &pending) == NVML_SUCCESS && current != pending)
        strcat(out->text, "*");
    return out->text;
}

static void write_head(FILE *file)
{
    char stamp[64], driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "N/A", cuda[32] = "N/A";
    time_t now = time(NULL);
    struct tm local;
    int version = 0;

    localtime_r(&now, &local);
    strftime(stamp, sizeof(stamp), "%a %b %e %H:%M:%S %Y", &local);
    (void)NV(SystemGetDriverVersion, driver, sizeof(driver));
    if (NV(SystemGetCudaDriverVersion, &version) == NVML_SUCCESS)
        snprintf(cuda, sizeof(cuda), "%d.%d", version / 1000, version % 1000 / 10);
    fprintf(file, "%s       \n" RULE_WIDE, stamp);
    fprintf(file, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", driver, driver, cuda);
    fputs(RULE_GPU "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
                   "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
                   "|                                         |                        |               MIG M. |\n"
                   "|=========================================+========================+======================|\n",
          file);
}

static void write_gpu(Gpu *gpu, FILE *file)
{
    Cell a, b, c, d, e, f;

    fprintf(file, "|%4u  %-30.30s %-3s |%19s %3s |%21s |\n", gpu->index,
            fill_cell(&a, gpu, GET_TEXT(DeviceGetName), NULL),
            fill_switch(&b, gpu, GET_ENABLED(DeviceGetPersistenceMode)), gpu->bus_id,
            fill_switch(&c, gpu, GET_ENABLED(DeviceGetDisplayActive)), fill_ecc(&d, gpu));
    fprintf(file, "| %3s%6s%6s%16s / %5s |", fill_cell(&a, gpu, GET_UINT(DeviceGetFanSpeed), "%"),
            fill_cell(&b, gpu, get_temperature, 0, "C"), fill_cell(&c, gpu, get_pstate, 0, NULL),
            fill_watt(&d, gpu, GET_WATT(DeviceGetPowerUsage)),
            fill_watt(&e, gpu, GET_WATT(DeviceGetEnforcedPowerLimit)));
    fprintf(file, "%11s / %9s |", fill_cell(&a, gpu, get_memory, MEMORY_USED, "MiB"),
            fill_cell(&b, gpu, get_memory, MEMORY_TOTAL, "MiB"));
    fprintf(file, "%8s %12s |\n", fill_cell(&e, gpu, get_utilization, 0, "%"), fill_compute(&f, gpu));
    fprintf(file, "|%41s|%24s|%21s |\n" RULE_GPU, "", "", fill_mig(&a, gpu));
}

static void write_mig(FILE *file, const Gpu *gpu, const MigDevice *mig)
{
    nvmlMemory_v2_t memory = {0};
    nvmlBAR1Memory_t bar1 = {0};
    nvmlDeviceAttributes_t all = {0};
    unsigned long long errors = 0;
    char used[32], total[32], count[32] = "N/A";
    unsigned long long mib = 1 << 20;

    (void)gpu_memory_of(mig->handle, &memory);
    (void)NV(DeviceGetBAR1MemoryInfo, mig->handle, &bar1);
    (void)NV(DeviceGetAttributes_v2, mig->handle, &all);
    if (NV(DeviceGetMemoryErrorCounter, mig->handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
           NVML_MEMORY_LOCATION_SRAM, &errors) == NVML_SUCCESS)
        snprintf(count, sizeof(count), "%llu", errors);
    snprintf(used, sizeof(used), "%lluMiB", memory.used / mib);
    snprintf(total, sizeof(total), "%lluMiB", memory.total / mib);
    fprintf(file, "|%3u%5u%4u%4u  |%19s / %8s    | %-3u%6s |%3u%4u%5u%5u%5u |\n", gpu->index, mig->gi, mig->ci,
            mig->index, used, total, all.multiprocessorCount, count, all.sharedCopyEngineCount, all.sharedEncoderCount,
            all.sharedDecoderCount, all.sharedOfaCount, all.sharedJpegCount);
    snprintf(used, sizeof(used), "%lluMiB", bar1.bar1Used / mib);
    snprintf(total, sizeof(total), "%lluMiB", bar1.bar1Total / mib);
    fprintf(file, "|%18s|%19s / %8s    |%11s|%23s|\n" RULE_MIG, "", used, total, "", "");
}

static void write_mig_table(GpuSet *set, FILE *file)
{
    MigDevice devices[GPU_MIG_MAX];
    bool enabled = false, any = false;

    for (unsigned int i = 0; i < set->count; i++)
        enabled |= gpu_mig_enabled(&set->gpus[i]);
    if (!enabled)
        return;
    fputs("\n" RULE_WIDE
          "| MIG devices:                                                                            |\n" RULE_MIG
          "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |\n"
          "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n"
          "|                  |                                  |        ECC|                       |\n"
          "|==================+==================================+===========+=======================|\n",
          file);
    for (unsigned int i = 0; i < set->count; i++) {
        unsigned int count = gpu_mig_devices(&set->gpus[i], devices);
        for (unsigned int k = 0; k < count; k++)
            write_mig(file, &set->gpus[i], &devices[k]);
        any |= count > 0;
    }
    if (!any)
        fprintf(file, "|  %-87s|\n" RULE_WIDE, "No MIG devices found");
}

static void format_id(unsigned int id, char *out, size_t size)
{
    if (id == GPU_NO_ID)
        snprintf(out, size, "N/A");
    else
        snprintf(out, size, id < 10 ? " %u " : "%u ", id);
}

static void write_process(FILE *file, const Gpu *gpu, const GpuProc *proc)
{
    char gi[16], ci[16], name[64], memory[32] = "N/A";
    Value value;
    Cell full;

    format_id(proc->gi, gi, sizeof(gi));
    format_id(proc->ci, ci, sizeof(ci));
    value_process_name(&value, proc->pid);
    fill_value(&full, &value, NULL);
    size_t length = strlen(full.text);
    snprintf(name, sizeof(name), "%s%.36s", length > 36 ? "..." : "", full.text + (length > 36 ? length - 33 : 0));
    if (proc->used_known)
        snprintf(memory, sizeof(memory), "%lluMiB", proc->used_bytes >> 20);
    fprintf(file, "|%5u   %-3s  %-3s%16u%7s   %-36s%10s |\n", gpu->index, gi, ci, proc->pid, proc->type, name, memory);
}

static void write_processes(GpuSet *set, FILE *file)
{
    bool any = false;

    fputs("\n" RULE_WIDE "| Processes:                                                                              |\n"
          "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
          "|        ID   ID                                                               Usage      |\n"
          "|=========================================================================================|\n",
          file);
    for (unsigned int i = 0; i < set->count; i++) {
        unsigned int count;
        GpuProc *procs = gpu_procs(&set->gpus[i], &count);
        for (unsigned int k = 0; k < count; k++)
            write_process(file, &set->gpus[i], &procs[k]);
        any |= count > 0;
        free(procs);
    }
    if (!any)
        fprintf(file, "|  %-87s|\n", "No running processes found");
    fputs(RULE_WIDE, file);
}

void summary_write(GpuSet *set, FILE *file)
{
    write_head(file);
    for (unsigned int i = 0; i < set->count; i++)
        write_gpu(&set->gpus[i], file);
    write_mig_table(set, file);
    write_processes(set, file);
}

void summary_list(GpuSet *set, FILE *file)
{
    MigDevice devices[GPU_MIG_MAX];
    char name[96], uuid[96];

    for (unsigned int i = 0; i < set->count; i++) {
        Gpu *gpu = &set->gpus[i];
        size_t skip = 0;
        Cell gpu_name, gpu_uuid;
        fprintf(file, "GPU %u: %s (UUID: %s)\n", gpu->index, fill_cell(&gpu_name, gpu, GET_TEXT(DeviceGetName), NULL),
                fill_cell(&gpu_uuid, gpu, GET_TEXT(DeviceGetUUID), NULL));
        unsigned int count = gpu_mig_devices(gpu, devices);
        for (unsigned int k = 0; k < count; k++) {
            if (NV(DeviceGetName, devices[k].handle, name, sizeof(name)) != NVML_SUCCESS ||
                NV(DeviceGetUUID, devices[k].handle, uuid, sizeof(uuid)) != NVML_SUCCESS)
                continue;
            const char *profile = strstr(name, "MIG "); /* "NVIDIA H100 80GB HBM3 MIG 1g.10gb" */
            skip = profile ? (size_t)(profile - name) + 4 : 0;
            fprintf(file, "  MIG %-12sDevice %2u: (UUID: %s)\n", name + skip, devices[k].index, uuid);
        }
    }
}
