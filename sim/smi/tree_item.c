/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of -q that depend on the board, or list something. */
#include "sim/smi/field.h"
#include "sim/smi/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

enum { CLOCKS_MAX = 1024 };

/* A leaf of a table below: tag, label, getter. */
typedef struct Leaf {
    const char *tag, *label, *unit;
    Getter *get;
    int arg;
} Leaf;

static void write_leaves(Out *out, const Subject *of, const Leaf *leaves, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out_get(out, of, leaves[i].tag, leaves[i].label, leaves[i].get, leaves[i].arg, leaves[i].unit);
}

static void write_group(Out *out, const Subject *of, const char *tag, const char *label, const Leaf *leaves,
                        size_t count)
{
    out_open(out, tag, label);
    write_leaves(out, of, leaves, count);
    out_close(out, tag, label);
}

static void out_uint(Out *out, const char *tag, const char *label, unsigned int number)
{
    Value value;

    value_uint(&value, NVML_SUCCESS, number);
    out_value(out, tag, label, &value, NULL);
}

/* ---- MIG devices */

enum { MIG_SM, MIG_COPY, MIG_ENC, MIG_DEC, MIG_OFA, MIG_JPG };

static void mig_attribute(const Subject *of, int arg, Value *ret)
{
    const MigDevice *mig = of->item;
    nvmlDeviceAttributes_t all = {0};
    nvmlReturn_t rc = NV(DeviceGetAttributes_v2, mig->handle, &all);
    const unsigned int parts[] = {
        [MIG_SM] = all.multiprocessorCount, [MIG_COPY] = all.sharedCopyEngineCount, [MIG_ENC] = all.sharedEncoderCount,
        [MIG_DEC] = all.sharedDecoderCount, [MIG_OFA] = all.sharedOfaCount,         [MIG_JPG] = all.sharedJpegCount,
    };

    value_uint(ret, rc, parts[arg]);
}

static void mig_sram(const Subject *of, int arg, Value *ret)
{
    const MigDevice *mig = of->item;
    unsigned long long count = 0;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetMemoryErrorCounter, mig->handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                         NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_SRAM, &count);
    value_uint(ret, rc, count);
}

static void mig_memory(const Subject *of, int arg, Value *ret)
{
    const MigDevice *mig = of->item;
    nvmlMemory_v2_t memory = {0};
    nvmlReturn_t rc = gpu_memory_of(mig->handle, &memory);
    const unsigned long long parts[] = {[MEMORY_TOTAL] = memory.total,
                                        [MEMORY_RESERVED] = memory.reserved,
                                        [MEMORY_USED] = memory.used,
                                        [MEMORY_FREE] = memory.free};

    value_mib(ret, rc, parts[arg]);
}

static void mig_bar1(const Subject *of, int arg, Value *ret)
{
    const MigDevice *mig = of->item;
    nvmlBAR1Memory_t memory = {0};
    nvmlReturn_t rc = NV(DeviceGetBAR1MemoryInfo, mig->handle, &memory);
    const unsigned long long parts[] = {
        [MEMORY_TOTAL] = memory.bar1Total, [MEMORY_USED] = memory.bar1Used, [MEMORY_FREE] = memory.bar1Free};

    value_mib(ret, rc, parts[arg]);
}

static void write_mig(Out *out, const Subject *of)
{
    static const Leaf shared[] = {{"multiprocessor_count", "Multiprocessor count", NULL, mig_attribute, MIG_SM},
                                  {"copy_engine_count", "Copy Engine count", NULL, mig_attribute, MIG_COPY},
                                  {"encoder_count", "Encoder count", NULL, mig_attribute, MIG_ENC},
                                  {"decoder_count", "Decoder count", NULL, mig_attribute, MIG_DEC},
                                  {"ofa_count", "OFA count", NULL, mig_attribute, MIG_OFA},
                                  {"jpg_count", "JPG count", NULL, mig_attribute, MIG_JPG}};
    static const Leaf ecc[] = {{"sram_uncorrectable", "SRAM Uncorrectable", NULL, mig_sram, 0}};
    static const Leaf memory[] = {{"total", "Total", " MiB", mig_memory, MEMORY_TOTAL},
                                  {"reserved", "Reserved", " MiB", mig_memory, MEMORY_RESERVED},
                                  {"used", "Used", " MiB", mig_memory, MEMORY_USED},
                                  {"free", "Free", " MiB", mig_memory, MEMORY_FREE}};
    static const Leaf bar1[] = {{"total", "Total", " MiB", mig_bar1, MEMORY_TOTAL},
                                {"used", "Used", " MiB", mig_bar1, MEMORY_USED},
                                {"free", "Free", " MiB", mig_bar1, MEMORY_FREE}};
    const MigDevice *mig = of->item;

    out_uint(out, "index", "Index", mig->index);
    out_uint(out, "gpu_instance_id", "GPU Instance ID", mig->gi);
    out_uint(out, "compute_instance_id", "Compute Instance ID", mig->ci);
    out_open(out, "device_attributes", "Device Attributes");
    write_group(out, of, "shared", "Shared", shared, ARRAY_LEN(shared));
    out_close(out, "device_attributes", "Device Attributes");
    out_open(out, "ecc_error_count", "ECC Errors");
    write_group(out, of, "volatile_count", "Volatile", ecc, ARRAY_LEN(ecc));
    out_close(out, "ecc_error_count", "ECC Errors");
    write_group(out, of, "fb_memory_usage", "Shared FB Memory Usage", memory, ARRAY_LEN(memory));
    write_group(out, of, "bar1_memory_usage", "Shared BAR1 Memory", bar1, ARRAY_LEN(bar1));
}

void tree_mig_devices(Out *out, const Subject *of)
{
    MigDevice devices[GPU_MIG_MAX];
    unsigned int count = gpu_mig_devices(of->gpu, devices);

    out_open(out, "mig_devices", NULL);
    if (!count && out->xml)
        fputs("\t\t\tNone\n", out->file);
    for (unsigned int i = 0; i < count; i++) {
        out_open(out, "mig_device", "MIG Device");
        write_mig(out, &(Subject){.gpu = of->gpu, .item = &devices[i]});
        out_close(out, "mig_device", "MIG Device");
    }
    out_close(out, "mig_devices", NULL);
}

/* ---- ECC. Boards before Turing count per place, later ones SRAM and DRAM. */

#define OLD(tag, label, error, counter, location)                                                                      \
    {                                                                                                                  \
        tag, label, NULL, get_ecc, GET_ECC(error, counter, location)                                                   \
    }
#define OLD_COUNTS(error, counter)                                                                                     \
    {                                                                                                                  \
        OLD("device_memory", "Device Memory", error, counter, NVML_MEMORY_LOCATION_DEVICE_MEMORY),                     \
            OLD("register_file", "Register File", error, counter, NVML_MEMORY_LOCATION_REGISTER_FILE),                 \
            OLD("l1_cache", "L1 Cache", error, counter, NVML_MEMORY_LOCATION_L1_CACHE),                                \
            OLD("l2_cache", "L2 Cache", error, counter, NVML_MEMORY_LOCATION_L2_CACHE),                                \
            OLD("texture_memory", "Texture Memory", error, counter, NVML_MEMORY_LOCATION_TEXTURE_MEMORY),              \
            OLD("texture_shm", "Texture Shared", error, counter, NVML_MEMORY_LOCATION_TEXTURE_SHM),                    \
            OLD("cbu", "CBU", error, counter, NVML_MEMORY_LOCATION_CBU),                                               \
            OLD("total", "Total", error, counter, ECC_TOTAL)                                                           \
    }

static void ecc_old(Out *out, const Subject *of)
{
    static const Leaf counts[2][2][8] = {
        {OLD_COUNTS(ECC_COR, ECC_VOL), OLD_COUNTS(ECC_UNC, ECC_VOL)},
        {OLD_COUNTS(ECC_COR, ECC_AGG), OLD_COUNTS(ECC_UNC, ECC_AGG)},
    };
    static const char *const names[2][2] = {{"volatile", "Volatile"}, {"aggregate", "Aggregate"}};

    for (int i = 0; i < 2; i++) {
        out_open(out, names[i][0], names[i][1]);
        write_group(out, of, "single_bit", "Single Bit", counts[i][0], 8);
        write_group(out, of, "double_bit", "Double Bit", counts[i][1], 8);
        out_close(out, names[i][0], names[i][1]);
    }
}

static const Leaf ecc_volatile[] = {
    {"sram_correctable", "SRAM Correctable", NULL, get_ecc, GET_ECC(ECC_COR, ECC_VOL, NVML_MEMORY_LOCATION_SRAM)},
    {"sram_uncorrectable_parity", "SRAM Uncorrectable Parity", NULL, get_sram, SRAM_VOL_PARITY},
    {"sram_uncorrectable_secded", "SRAM Uncorrectable SEC-DED", NULL, get_sram, SRAM_VOL_SECDED},
    {"dram_correctable", "DRAM Correctable", NULL, get_ecc, GET_ECC(ECC_COR, ECC_VOL, NVML_MEMORY_LOCATION_DRAM)},
    {"dram_uncorrectable", "DRAM Uncorrectable", NULL, get_ecc, GET_ECC(ECC_UNC, ECC_VOL, NVML_MEMORY_LOCATION_DRAM)},
};
static const Leaf ecc_aggregate[] = {
    {"sram_correctable", "SRAM Correctable", NULL, get_ecc, GET_ECC(ECC_COR, ECC_AGG, NVML_MEMORY_LOCATION_SRAM)},
    {"sram_uncorrectable_parity", "SRAM Uncorrectable Parity", NULL, get_sram, SRAM_AGG_PARITY},
    {"sram_uncorrectable_secded", "SRAM Uncorrectable SEC-DED", NULL, get_sram, SRAM_AGG_SECDED},
    {"dram_correctable", "DRAM Correctable", NULL, get_ecc, GET_ECC(ECC_COR, ECC_AGG, NVML_MEMORY_LOCATION_DRAM)},
    {"dram_uncorrectable", "DRAM Uncorrectable", NULL, get_ecc, GET_ECC(ECC_UNC, ECC_AGG, NVML_MEMORY_LOCATION_DRAM)},
    {"sram_threshold_exceeded", "SRAM Threshold Exceeded", NULL, get_sram, SRAM_THRESHOLD},
};
static const Leaf ecc_sources[] = {
    {"sram_l2", "SRAM L2", NULL, get_sram, SRAM_L2},
    {"sram_sm", "SRAM SM", NULL, get_sram, SRAM_SM},
    {"sram_microcontroller", "SRAM Microcontroller", NULL, get_sram, SRAM_MCU},
    {"sram_pcie", "SRAM PCIE", NULL, get_sram, SRAM_PCIE},
    {"sram_other", "SRAM Other", NULL, get_sram, SRAM_OTHER},
};
static const Leaf ecc_repair[] = {
    {"channel_repair_pending", "Channel Repair Pending", NULL, get_repair, 0},
    {"tpc_repair_pending", "TPC Repair Pending", NULL, get_repair, 1},
    {"unrepairable_memory", "Unrepairable Memory", NULL, get_unrepairable, 0},
};

void tree_ecc_errors(Out *out, const Subject *of)
{
    nvmlDeviceArchitecture_t arch = NVML_DEVICE_ARCH_UNKNOWN;

    (void)NV(DeviceGetArchitecture, of->gpu->handle, &arch);
    if (arch <= NVML_DEVICE_ARCH_VOLTA) {
        ecc_old(out, of);
        return;
    }
    write_group(out, of, "volatile", "Volatile", ecc_volatile, ARRAY_LEN(ecc_volatile));
    write_group(out, of, "aggregate", "Aggregate", ecc_aggregate, ARRAY_LEN(ecc_aggregate));
    write_group(out, of, "aggregate_uncorrectable_sram_sources", "Aggregate Uncorrectable SRAM Sources", ecc_sources,
                ARRAY_LEN(ecc_sources));
    write_leaves(out, of, ecc_repair, ARRAY_LEN(ecc_repair));
}

/* ---- pages and rows */

static void retired_list(Out *out, const Subject *of, nvmlPageRetirementCause_t cause)
{
    static unsigned long long addresses[1024], stamps[1024];
    unsigned int count = ARRAY_LEN(addresses);
    char text[32];

    if (NV(DeviceGetRetiredPages_v2, of->gpu->handle, cause, &count, addresses, stamps) != NVML_SUCCESS) {
        out_leaf(out, "retired_pagelist", NULL, "N/A");
        return;
    }
    out_open(out, "retired_pagelist", NULL);
    for (unsigned int i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "0x%016llx", addresses[i]);
        out_leaf(out, "retired_page_address", NULL, text);
    }
    out_close(out, "retired_pagelist", NULL);
}

void tree_retired(Out *out, const Subject *of)
{
    static const struct {
        const char *tag, *label;
    } causes[] = {{"multiple_single_bit_retirement", "Single Bit ECC"}, {"double_bit_retirement", "Double Bit ECC"}};

    for (int cause = 0; cause < NVML_PAGE_RETIREMENT_CAUSE_COUNT; cause++) {
        out_open(out, causes[cause].tag, NULL);
        out_get(out, of, "retired_count", causes[cause].label, get_retired, cause, NULL);
        if (out->xml)
            retired_list(out, of, (nvmlPageRetirementCause_t)cause);
        out_close(out, causes[cause].tag, NULL);
    }
    out_get(out, of, "pending_blacklist", "Pending Page Blacklist", get_retired_pending, 0, NULL);
    out_get(out, of, "pending_retirement", NULL, get_retired_pending, 0, NULL);
}

void tree_remapped(Out *out, const Subject *of)
{
    static const Leaf rows[] = {
        {"remapped_row_corr", "Correctable Error", NULL, get_remapped, REMAP_COR},
        {"remapped_row_unc", "Uncorrectable Error", NULL, get_remapped, REMAP_UNC},
        {"remapped_row_pending", "Pending", NULL, get_remapped, REMAP_PENDING},
        {"remapped_row_failure", "Remapping Failure Occurred", NULL, get_remapped, REMAP_FAILURE},
    };
    static const Leaf banks[] = {
        {"row_remapper_histogram_max", "Max", " bank(s)", get_histogram, BANKS_MAX},
        {"row_remapper_histogram_high", "High", " bank(s)", get_histogram, BANKS_HIGH},
        {"row_remapper_histogram_partial", "Partial", " bank(s)", get_histogram, BANKS_PARTIAL},
        {"row_remapper_histogram_low", "Low", " bank(s)", get_histogram, BANKS_LOW},
        {"row_remapper_histogram_none", "None", " bank(s)", get_histogram, BANKS_NONE},
    };
    const GpuRemap *remap;
    Value value;

    value_error(&value, gpu_remap(of->gpu, &remap));
    if (value.rc != NVML_SUCCESS) {
        out_value(out, "remapped_rows", "Remapped Rows", &value, NULL);
        return;
    }
    out_open(out, "remapped_rows", "Remapped Rows");
    write_leaves(out, of, rows, ARRAY_LEN(rows));
    write_group(out, of, "row_remapper_histogram", "Bank Remap Availability Histogram", banks, ARRAY_LEN(banks));
    out_close(out, "remapped_rows", "Remapped Rows");
}

/* ---- temperatures: newer boards give margins, older ones degrees; the names differ */

static bool has_margins(Gpu *gpu)
{
    nvmlFieldValue_t field;

    return gpu_field(gpu, NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, 0, &field) == NVML_SUCCESS;
}

void tree_thresholds(Out *out, const Subject *of)
{
    static const Leaf margins[] = {
        {"gpu_temp_max_tlimit_threshold", "GPU Shutdown T.Limit Temp", " C", get_field_int,
         NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT},
        {"gpu_temp_slow_tlimit_threshold", "GPU Slowdown T.Limit Temp", " C", get_field_int,
         NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT},
        {"gpu_temp_max_gpu_tlimit_threshold", "GPU Max Operating T.Limit Temp", " C", get_field_int,
         NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT},
    };
    static const Leaf degrees[] = {
        {"gpu_temp_max_threshold", "GPU Shutdown Temp", " C", get_threshold, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN},
        {"gpu_temp_slow_threshold", "GPU Slowdown Temp", " C", get_threshold, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN},
        {"gpu_temp_max_gpu_threshold", "GPU Max Operating Temp", " C", get_threshold,
         NVML_TEMPERATURE_THRESHOLD_GPU_MAX},
    };

    write_leaves(out, of, has_margins(of->gpu) ? margins : degrees, ARRAY_LEN(margins));
}

void tree_memory_threshold(Out *out, const Subject *of)
{
    if (has_margins(of->gpu))
        out_get(out, of, "gpu_temp_max_mem_tlimit_threshold", "Memory Max Operating T.Limit Temp", get_field_int,
                NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, " C");
    else
        out_get(out, of, "gpu_temp_max_mem_threshold", "Memory Max Operating Temp", get_threshold,
                NVML_TEMPERATURE_THRESHOLD_MEM_MAX, " C");
}

/* ---- clocks */

static void write_clock(Out *out, const char *tag, const char *label, unsigned int mhz)
{
    Value value;

    value_uint(&value, NVML_SUCCESS, mhz);
    out_value(out, tag, label, &value, " MHz");
}

void tree_supported_clocks(Out *out, const Subject *of)
{
    static unsigned int memory[CLOCKS_MAX], graphics[CLOCKS_MAX];
    unsigned int memories = CLOCKS_MAX;
    Value value;

    value_error(&value, NV(DeviceGetSupportedMemoryClocks, of->gpu->handle, &memories, memory));
    if (value.rc != NVML_SUCCESS) {
        out_value(out, "supported_clocks", "Supported Clocks", &value, NULL);
        return;
    }
    out_open(out, "supported_clocks", "Supported Clocks");
    for (unsigned int i = 0; i < memories; i++) {
        unsigned int count = CLOCKS_MAX;
        if (NV(DeviceGetSupportedGraphicsClocks, of->gpu->handle, memory[i], &count, graphics) != NVML_SUCCESS)
            count = 0;
        out_open(out, "supported_mem_clock", NULL);
        write_clock(out, "value", "Memory", memory[i]);
        out->depth += out->xml ? 0 : 1;
        for (unsigned int k = 0; k < count; k++)
            write_clock(out, "supported_graphics_clock", "Graphics", graphics[k]);
        out->depth -= out->xml ? 0 : 1;
        out_close(out, "supported_mem_clock", NULL);
    }
    out_close(out, "supported_clocks", "Supported Clocks");
}

/* ---- processes */

static void write_id(Out *out, const char *tag, const char *label, unsigned int id)
{
    Value value;

    value_uint(&value, id == GPU_NO_ID ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS, id);
    out_value(out, tag, label, &value, NULL);
}

static void write_process(Out *out, const GpuProc *proc)
{
    Value value;

    write_id(out, "gpu_instance_id", "GPU instance ID", proc->gi);
    write_id(out, "compute_instance_id", "Compute instance ID", proc->ci);
    out_uint(out, "pid", "Process ID", proc->pid);
    out->depth += out->xml ? 0 : 1;
    out_leaf(out, "type", "Type", proc->type);
    field_process_name(proc->pid, &value);
    out_value(out, "process_name", "Name", &value, NULL);
    value_mib(&value, proc->used_known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, proc->used_bytes);
    out_value(out, "used_memory", "Used GPU Memory", &value, " MiB");
    out->depth -= out->xml ? 0 : 1;
}

void tree_processes(Out *out, const Subject *of)
{
    unsigned int count;
    GpuProc *procs = gpu_procs(of->gpu, &count);

    if (!count && !out->xml) {
        out_leaf(out, NULL, "Processes", "None");
    } else {
        out_open(out, "processes", "Processes");
        out->column = OUT_COLUMN_PROCESS;
        for (unsigned int i = 0; i < count; i++) {
            out_open(out, "process_info", NULL);
            write_process(out, &procs[i]);
            out_close(out, "process_info", NULL);
        }
        out->column = 0;
        out_close(out, "processes", "Processes");
    }
    free(procs);
}

static void write_accounted(const Subject *of, void *user)
{
    const FieldAccounted *item = of->item;
    Out *out = user;
    Value value;

    out_open(out, "accounted_process_info", NULL);
    out_uint(out, "pid", "Process ID", item->pid);
    out->depth += out->xml ? 0 : 1;
    value_uint(&value, NVML_SUCCESS, item->stats.gpuUtilization);
    out_value(out, "gpu_util", "GPU Utilization", &value, " %");
    value_uint(&value, NVML_SUCCESS, item->stats.memoryUtilization);
    out_value(out, "memory_util", "Memory Utilization", &value, " %");
    value_mib(&value, NVML_SUCCESS, item->stats.maxMemoryUsage);
    out_value(out, "max_memory_usage", "Max memory usage", &value, " MiB");
    value_uint(&value, NVML_SUCCESS, item->stats.time);
    out_value(out, "time", "Time", &value, " ms");
    out_uint(out, "is_running", "Is Running", item->stats.isRunning);
    out->depth -= out->xml ? 0 : 1;
    out_close(out, "accounted_process_info", NULL);
}

static void count_row(const Subject *of, void *user)
{
    unsigned int *count = user;

    (void)of;
    (*count)++;
}

/* The text has no line for an empty list. */
void tree_accounted(Out *out, const Subject *of)
{
    unsigned int count = 0;

    field_accounted_rows(of->gpu, count_row, &count);
    if (!count && !out->xml)
        return;
    out_open(out, "accounted_processes", "Accounted Processes");
    field_accounted_rows(of->gpu, write_accounted, out);
    out_close(out, "accounted_processes", "Accounted Processes");
}
