/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi -q -x: the readings that netdata, telegraf and other collectors parse, as the driver's XML. */
#include "sim/smi/smi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

/* A leaf has a getter, a group none. Depth 0 is below the GPU. */
typedef struct Node {
    int depth;
    const char *tag, *unit;
    Getter *get;
    int arg;
} Node;

static const Node nodes[] = {
    {0, "product_name", NULL, GET_TEXT(DeviceGetName)},
    {0, "product_architecture", NULL, get_arch, 0},
    {0, "display_active", NULL, GET_ENABLED(DeviceGetDisplayActive)},
    {0, "persistence_mode", NULL, GET_ENABLED(DeviceGetPersistenceMode)},
    {0, "mig_mode", NULL, NULL, 0},
    {1, "current_mig", NULL, get_mig_mode, 0},
    {1, "pending_mig", NULL, get_mig_mode, 1},
    {0, "serial", NULL, GET_TEXT(DeviceGetSerial)},
    {0, "uuid", NULL, GET_TEXT(DeviceGetUUID)},
    {0, "minor_number", NULL, GET_UINT(DeviceGetMinorNumber)},
    {0, "vbios_version", NULL, GET_TEXT(DeviceGetVbiosVersion)},
    {0, "gpu_recovery_action", NULL, get_recovery, 0},
    {0, "pci", NULL, NULL, 0},
    {1, "pci_bus_id", NULL, get_bus_id, 0},
    {1, "pci_gpu_link_info", NULL, NULL, 0},
    {2, "pcie_gen", NULL, NULL, 0},
    {3, "max_link_gen", NULL, GET_UINT(DeviceGetMaxPcieLinkGeneration)},
    {3, "current_link_gen", NULL, GET_UINT(DeviceGetCurrPcieLinkGeneration)},
    {2, "link_widths", NULL, NULL, 0},
    {3, "max_link_width", "x", GET_UINT(DeviceGetMaxPcieLinkWidth)},
    {3, "current_link_width", "x", GET_UINT(DeviceGetCurrPcieLinkWidth)},
    {1, "replay_counter", NULL, GET_UINT(DeviceGetPcieReplayCounter)},
    {1, "tx_util", " KB/s", get_pcie_rate, NVML_PCIE_UTIL_TX_BYTES},
    {1, "rx_util", " KB/s", get_pcie_rate, NVML_PCIE_UTIL_RX_BYTES},
    {0, "fan_speed", " %", GET_UINT(DeviceGetFanSpeed)},
    {0, "performance_state", NULL, get_pstate, 0},
    {0, "fb_memory_usage", NULL, NULL, 0},
    {1, "total", " MiB", get_memory, MEMORY_TOTAL},
    {1, "reserved", " MiB", get_memory, MEMORY_RESERVED},
    {1, "used", " MiB", get_memory, MEMORY_USED},
    {1, "free", " MiB", get_memory, MEMORY_FREE},
    {0, "bar1_memory_usage", NULL, NULL, 0},
    {1, "total", " MiB", get_bar1, MEMORY_TOTAL},
    {1, "used", " MiB", get_bar1, MEMORY_USED},
    {1, "free", " MiB", get_bar1, MEMORY_FREE},
    {0, "compute_mode", NULL, get_compute_mode, 0},
    {0, "utilization", NULL, NULL, 0},
    {1, "gpu_util", " %", get_utilization, 0},
    {1, "memory_util", " %", get_utilization, 1},
    {1, "encoder_util", " %", GET_ENGINE(DeviceGetEncoderUtilization)},
    {1, "decoder_util", " %", GET_ENGINE(DeviceGetDecoderUtilization)},
    {0, "ecc_mode", NULL, NULL, 0},
    {1, "current_ecc", NULL, get_ecc_mode, 0},
    {0, "remapped_rows", NULL, NULL, 0},
    {1, "remapped_row_corr", NULL, get_remapped, REMAP_COR},
    {1, "remapped_row_unc", NULL, get_remapped, REMAP_UNC},
    {1, "remapped_row_pending", NULL, get_remapped, REMAP_PENDING},
    {1, "remapped_row_failure", NULL, get_remapped, REMAP_FAILURE},
    {0, "temperature", NULL, NULL, 0},
    {1, "gpu_temp", " C", get_temperature, 0},
    {1, "memory_temp", " C", get_field_int, NVML_FI_DEV_MEMORY_TEMP},
    {0, "gpu_power_readings", NULL, NULL, 0},
    {1, "power_state", NULL, get_pstate, 0},
    {1, "average_power_draw", " W", get_power_field, NVML_FI_DEV_POWER_AVERAGE},
    {1, "instant_power_draw", " W", get_power_field, NVML_FI_DEV_POWER_INSTANT},
    {1, "current_power_limit", " W", GET_WATT(DeviceGetEnforcedPowerLimit)},
    {1, "default_power_limit", " W", GET_WATT(DeviceGetPowerManagementDefaultLimit)},
    {1, "min_power_limit", " W", get_limit, 0},
    {1, "max_power_limit", " W", get_limit, 1},
    {0, "clocks", NULL, NULL, 0},
    {1, "graphics_clock", " MHz", get_clock, NVML_CLOCK_GRAPHICS},
    {1, "sm_clock", " MHz", get_clock, NVML_CLOCK_SM},
    {1, "mem_clock", " MHz", get_clock, NVML_CLOCK_MEM},
    {1, "video_clock", " MHz", get_clock, NVML_CLOCK_VIDEO},
    {0, "max_clocks", NULL, NULL, 0},
    {1, "sm_clock", " MHz", get_max_clock, NVML_CLOCK_SM},
    {1, "mem_clock", " MHz", get_max_clock, NVML_CLOCK_MEM},
};

static void write_indent(FILE *file, int depth)
{
    for (int i = 0; i < depth; i++)
        fputc('\t', file);
}

static void write_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default: /* XML 1.0 has no other control characters */
            fputc((unsigned char)*text < ' ' && *text != '\t' ? '?' : *text, file);
        }
    }
}

static void write_leaf(FILE *file, int depth, const char *tag, const Value *value, const char *unit)
{
    char text[VALUE_MAX + 64];

    value_show(value, unit, text, sizeof(text));
    write_indent(file, depth);
    fprintf(file, "<%s>", tag);
    write_text(file, text);
    fprintf(file, "</%s>\n", tag);
}

static void write_tag(FILE *file, int depth, const char *mark, const char *tag)
{
    write_indent(file, depth);
    fprintf(file, "<%s%s>\n", mark, tag);
}

static void write_nodes(Gpu *gpu, FILE *file)
{
    const char *open[4];
    int depth = 0;

    for (size_t i = 0; i <= ARRAY_LEN(nodes); i++) {
        const Node *node = i < ARRAY_LEN(nodes) ? &nodes[i] : NULL;
        const int wanted = node ? node->depth : 0;
        Value value;

        for (; depth > wanted; depth--)
            write_tag(file, depth + 1, "/", open[depth - 1]);
        if (node && node->get) {
            node->get(gpu, node->arg, &value);
            write_leaf(file, depth + 2, node->tag, &value, node->unit);
        } else if (node) {
            write_tag(file, depth + 2, "", node->tag);
            open[depth++] = node->tag;
        }
    }
}

static void write_id(FILE *file, const char *tag, unsigned int id)
{
    Value value;

    value_uint(&value, id == GPU_NO_ID ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS, id);
    write_leaf(file, 4, tag, &value, NULL);
}

static void write_process(FILE *file, const GpuProc *proc)
{
    Value value;

    write_tag(file, 3, "", "process_info");
    write_id(file, "gpu_instance_id", proc->gi);
    write_id(file, "compute_instance_id", proc->ci);
    value_uint(&value, NVML_SUCCESS, proc->pid);
    write_leaf(file, 4, "pid", &value, NULL);
    value_text(&value, "%s", proc->type);
    write_leaf(file, 4, "type", &value, NULL);
    value_process_name(&value, proc->pid);
    write_leaf(file, 4, "process_name", &value, NULL);
    value_mib(&value, proc->used_known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, proc->used_bytes);
    write_leaf(file, 4, "used_memory", &value, " MiB");
    write_tag(file, 3, "/", "process_info");
}

static void write_gpu(Gpu *gpu, FILE *file)
{
    unsigned int count;
    GpuProc *procs = gpu_procs(gpu, &count);

    fprintf(file, "\t<gpu id=\"%s\">\n", gpu->bus_id);
    write_nodes(gpu, file);
    write_tag(file, 2, "", "processes");
    for (unsigned int i = 0; i < count; i++)
        write_process(file, &procs[i]);
    write_tag(file, 2, "/", "processes");
    write_tag(file, 1, "/", "gpu");
    free(procs);
}

void xml_write(GpuSet *set, FILE *file)
{
    char stamp[64];
    time_t now = time(NULL);
    struct tm local;
    int cuda = 0;
    Value value;

    localtime_r(&now, &local);
    strftime(stamp, sizeof(stamp), "%a %b %e %H:%M:%S %Y", &local);
    fputs("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n<nvidia_smi_log>\n",
          file);
    value_text(&value, "%s", stamp);
    write_leaf(file, 1, "timestamp", &value, NULL);
    get_driver_version(NULL, 0, &value);
    write_leaf(file, 1, "driver_version", &value, NULL);
    value_error(&value, NV(SystemGetCudaDriverVersion, &cuda));
    if (value.rc == NVML_SUCCESS)
        value_text(&value, "%d.%d", cuda / 1000, cuda % 1000 / 10);
    write_leaf(file, 1, "cuda_version", &value, NULL);
    value_uint(&value, NVML_SUCCESS, set->count ? set->gpus[0].total : 0);
    write_leaf(file, 1, "attached_gpus", &value, NULL);
    for (unsigned int i = 0; i < set->count; i++)
        write_gpu(&set->gpus[i], file);
    fputs("</nvidia_smi_log>\n", file);
}
