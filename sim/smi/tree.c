/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of -q in their order, and the walk that writes them. */
#include "sim/smi/tree.h"

#include <string.h>
#include <time.h>

#include "base/owner.h"

/* A leaf has a getter, a list a builder, a group neither. Depth 0 is below the GPU. */
typedef struct Node {
    int depth;
    const char *tag;   /* NULL: not in XML */
    const char *label; /* NULL: not in the text */
    const char *unit;
    Getter *get;
    int arg;
    TreeBuild *build;
    unsigned int sections; /* depth 0 only; below it the group's count */
} Node;

#define GROUP(depth, tag, label, sections)                                                                             \
    {                                                                                                                  \
        depth, tag, label, NULL, NULL, 0, NULL, sections                                                               \
    }
#define LIST(depth, build, sections)                                                                                   \
    {                                                                                                                  \
        depth, NULL, NULL, NULL, NULL, 0, build, sections                                                              \
    }
#define REASON(depth, tag, label, bit)                                                                                 \
    {                                                                                                                  \
        depth, "clocks_event_reason_" tag, label, NULL, get_reason, bit, NULL, 0                                       \
    }
#define COUNTER(tag, label, id)                                                                                        \
    {                                                                                                                  \
        1, "clocks_event_reasons_counters_" tag, label, " us", get_reason_us, (int)(id), NULL, 0                       \
    }
#define LIMITS(scope)                                                                                                  \
    {1,                                                                                                                \
     "current_power_limit",                                                                                            \
     "Current Power Limit",                                                                                            \
     " W",                                                                                                             \
     get_power_field,                                                                                                  \
     GET_SCOPE(scope, NVML_FI_DEV_POWER_CURRENT_LIMIT),                                                                \
     NULL,                                                                                                             \
     0},                                                                                                               \
        {1,                                                                                                            \
         "requested_power_limit",                                                                                      \
         "Requested Power Limit",                                                                                      \
         " W",                                                                                                         \
         get_power_field,                                                                                              \
         GET_SCOPE(scope, NVML_FI_DEV_POWER_REQUESTED_LIMIT),                                                          \
         NULL,                                                                                                         \
         0},                                                                                                           \
        {1,                                                                                                            \
         "default_power_limit",                                                                                        \
         "Default Power Limit",                                                                                        \
         " W",                                                                                                         \
         get_power_field,                                                                                              \
         GET_SCOPE(scope, NVML_FI_DEV_POWER_DEFAULT_LIMIT),                                                            \
         NULL,                                                                                                         \
         0},                                                                                                           \
        {1,                                                                                                            \
         "min_power_limit",                                                                                            \
         "Min Power Limit",                                                                                            \
         " W",                                                                                                         \
         get_power_field,                                                                                              \
         GET_SCOPE(scope, NVML_FI_DEV_POWER_MIN_LIMIT),                                                                \
         NULL,                                                                                                         \
         0},                                                                                                           \
    {                                                                                                                  \
        1, "max_power_limit", "Max Power Limit", " W", get_power_field, GET_SCOPE(scope, NVML_FI_DEV_POWER_MAX_LIMIT), \
            NULL, 0                                                                                                    \
    }
#define DRAW(scope)                                                                                                    \
    {1,                                                                                                                \
     "average_power_draw",                                                                                             \
     "Average Power Draw",                                                                                             \
     " W",                                                                                                             \
     get_power_field,                                                                                                  \
     GET_SCOPE(scope, NVML_FI_DEV_POWER_AVERAGE),                                                                      \
     NULL,                                                                                                             \
     0},                                                                                                               \
    {                                                                                                                  \
        1, "instant_power_draw", "Instantaneous Power Draw", " W", get_power_field,                                    \
            GET_SCOPE(scope, NVML_FI_DEV_POWER_INSTANT), NULL, 0                                                       \
    }

static const Node nodes[] = {
    {0, "product_name", "Product Name", NULL, GET_TEXT(DeviceGetName), NULL, 0},
    {0, "product_brand", "Product Brand", NULL, get_brand, 0, NULL, 0},
    {0, "product_architecture", "Product Architecture", NULL, get_arch, 0, NULL, 0},
    {0, "display_mode", "Display Mode", NULL, GET_ENABLED(DeviceGetDisplayMode), NULL, 0},
    {0, "display_attached", "Display Attached", NULL, get_display_attached, 0, NULL, 0},
    {0, "display_active", "Display Active", NULL, GET_ENABLED(DeviceGetDisplayActive), NULL, 0},
    {0, "persistence_mode", "Persistence Mode", NULL, GET_ENABLED(DeviceGetPersistenceMode), NULL, 0},
    {0, "addressing_mode", "Addressing Mode", NULL, get_addressing, 0, NULL, 0},
    GROUP(0, "mig_mode", "MIG Mode", 0),
    {1, "current_mig", "Current", NULL, get_mig_mode, 0, NULL, 0},
    {1, "pending_mig", "Pending", NULL, get_mig_mode, 1, NULL, 0},
    LIST(0, tree_mig_devices, 0),
    {0, "accounting_mode", "Accounting Mode", NULL, GET_ENABLED(DeviceGetAccountingMode), NULL, TREE_ACCOUNTING},
    {0, "accounting_mode_buffer_size", "Accounting Mode Buffer Size", NULL, GET_UINT(DeviceGetAccountingBufferSize),
     NULL, TREE_ACCOUNTING},
    GROUP(0, "driver_model", "Driver Model", 0),
    {1, "current_dm", "Current", NULL, get_driver_model, 0, NULL, 0},
    {1, "pending_dm", "Pending", NULL, get_driver_model, 1, NULL, 0},
    {0, "serial", "Serial Number", NULL, GET_TEXT(DeviceGetSerial), NULL, 0},
    {0, "uuid", "GPU UUID", NULL, GET_TEXT(DeviceGetUUID), NULL, 0},
    {0, "pdi", "GPU PDI", NULL, get_none, 0, NULL, 0},
    {0, "minor_number", "Minor Number", NULL, GET_UINT(DeviceGetMinorNumber), NULL, 0},
    {0, "vbios_version", "VBIOS Version", NULL, GET_TEXT(DeviceGetVbiosVersion), NULL, 0},
    {0, "multigpu_board", "MultiGPU Board", NULL, get_multi_gpu, 0, NULL, 0},
    {0, "board_id", "Board ID", NULL, GET_HEX(DeviceGetBoardId), NULL, 0},
    {0, "board_part_number", "Board Part Number", NULL, GET_TEXT(DeviceGetBoardPartNumber), NULL, 0},
    {0, "gpu_part_number", "GPU Part Number", NULL, get_none, 0, NULL, 0},
    {0, "gpu_fru_part_number", "FRU Part Number", NULL, get_none, 0, NULL, 0},
    GROUP(0, "platformInfo", "Platform Info", 0),
    {1, "chassis_serial_number", "Chassis Serial Number", NULL, get_platform, PLATFORM_CHASSIS, NULL, 0},
    {1, "slot_number", "Slot Number", NULL, get_platform, PLATFORM_SLOT, NULL, 0},
    {1, "tray_index", "Tray Index", NULL, get_platform, PLATFORM_TRAY, NULL, 0},
    {1, "host_id", "Host ID", NULL, get_platform, PLATFORM_HOST, NULL, 0},
    {1, "peer_type", "Peer Type", NULL, get_platform, PLATFORM_PEER, NULL, 0},
    {1, "module_id", "Module Id", NULL, get_platform, PLATFORM_MODULE, NULL, 0},
    {1, "gpu_fabric_guid", "GPU Fabric GUID", NULL, get_platform, PLATFORM_GUID, NULL, 0},
    GROUP(0, "inforom_version", "Inforom Version", 0),
    {1, "img_version", "Image Version", NULL, GET_TEXT(DeviceGetInforomImageVersion), NULL, 0},
    {1, "oem_object", "OEM Object", NULL, get_inforom, NVML_INFOROM_OEM, NULL, 0},
    {1, "ecc_object", "ECC Object", NULL, get_inforom, NVML_INFOROM_ECC, NULL, 0},
    {1, "pwr_object", "Power Management Object", NULL, get_inforom, NVML_INFOROM_POWER, NULL, 0},
    GROUP(0, "inforom_bbx_flush", "Inforom BBX Object Flush", 0),
    {1, "latest_timestamp", "Latest Timestamp", NULL, get_none, 0, NULL, 0},
    {1, "latest_duration", "Latest Duration", NULL, get_none, 0, NULL, 0},
    GROUP(0, "gpu_operation_mode", "GPU Operation Mode", 0),
    {1, "current_gom", "Current", NULL, get_gom, 0, NULL, 0},
    {1, "pending_gom", "Pending", NULL, get_gom, 1, NULL, 0},
    {0, "c2c_mode", "GPU C2C Mode", NULL, get_c2c, 0, NULL, 0},
    GROUP(0, "gpu_virtualization_mode", "GPU Virtualization Mode", 0),
    {1, "virtualization_mode", "Virtualization Mode", NULL, get_virtualization, 0, NULL, 0},
    {1, "host_vgpu_mode", "Host VGPU Mode", NULL, get_none, 0, NULL, 0},
    {1, "vgpu_heterogeneous_mode", "vGPU Heterogeneous Mode", NULL, get_none, 0, NULL, 0},
    {0, "gpu_recovery_action", "GPU Recovery Action", NULL, get_recovery, 0, NULL, 0},
    {0, "gsp_firmware_version", "GSP Firmware Version", NULL, get_gsp, 0, NULL, TREE_GSP},
    GROUP(0, "ibmnpu", "IBMNPU", 0),
    {1, "relaxed_ordering_mode", "Relaxed Ordering Mode", NULL, get_none, 0, NULL, 0},
    GROUP(0, "pci", "PCI", 0),
    {1, "pci_bus", "Bus", NULL, get_pci, PCI_BUS, NULL, 0},
    {1, "pci_device", "Device", NULL, get_pci, PCI_DEVICE, NULL, 0},
    {1, "pci_domain", "Domain", NULL, get_pci, PCI_DOMAIN, NULL, 0},
    {1, "pci_base_class", "Base Classcode", NULL, get_pci, PCI_BASE_CLASS, NULL, 0},
    {1, "pci_sub_class", "Sub Classcode", NULL, get_pci, PCI_SUB_CLASS, NULL, 0},
    {1, "pci_device_id", "Device Id", NULL, get_pci, PCI_DEVICE_ID, NULL, 0},
    {1, "pci_bus_id", "Bus Id", NULL, get_pci, PCI_BUS_ID, NULL, 0},
    {1, "pci_sub_system_id", "Sub System Id", NULL, get_pci, PCI_SUB_SYSTEM, NULL, 0},
    GROUP(1, "pci_gpu_link_info", "GPU Link Info", 0),
    GROUP(2, "pcie_gen", "PCIe Generation", 0),
    {3, "max_link_gen", "Max", NULL, GET_UINT(DeviceGetMaxPcieLinkGeneration), NULL, 0},
    {3, "current_link_gen", "Current", NULL, GET_UINT(DeviceGetCurrPcieLinkGeneration), NULL, 0},
    {3, "device_current_link_gen", "Device Current", NULL, GET_UINT(DeviceGetCurrPcieLinkGeneration), NULL, 0},
    {3, "max_device_link_gen", "Device Max", NULL, GET_UINT(DeviceGetGpuMaxPcieLinkGeneration), NULL, 0},
    {3, "max_host_link_gen", "Host Max", NULL, get_none, 0, NULL, 0},
    GROUP(2, "link_widths", "Link Width", 0),
    {3, "max_link_width", "Max", "x", GET_UINT(DeviceGetMaxPcieLinkWidth), NULL, 0},
    {3, "current_link_width", "Current", "x", GET_UINT(DeviceGetCurrPcieLinkWidth), NULL, 0},
    GROUP(1, "pci_bridge_chip", "Bridge Chip", 0),
    {2, "bridge_chip_type", "Type", NULL, get_bridge, 0, NULL, 0},
    {2, "bridge_chip_fw", "Firmware", NULL, get_bridge, 1, NULL, 0},
    {1, "replay_counter", "Replays Since Reset", NULL, GET_UINT(DeviceGetPcieReplayCounter), NULL, 0},
    {1, "replay_rollover_counter", "Replay Number Rollovers", NULL, get_field_int,
     NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER, NULL, 0},
    {1, "tx_util", "Tx Throughput", " KB/s", get_pcie_rate, NVML_PCIE_UTIL_TX_BYTES, NULL, 0},
    {1, "rx_util", "Rx Throughput", " KB/s", get_pcie_rate, NVML_PCIE_UTIL_RX_BYTES, NULL, 0},
    {1, "atomic_caps_outbound", "Atomic Caps Outbound", NULL, get_atomics, NVML_FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK, NULL,
     0},
    {1, "atomic_caps_inbound", "Atomic Caps Inbound", NULL, get_atomics, NVML_FI_DEV_PCIE_INBOUND_ATOMICS_MASK, NULL,
     0},
    {0, "fan_speed", "Fan Speed", " %", GET_UINT(DeviceGetFanSpeed), NULL, 0},
    {0, "performance_state", "Performance State", NULL, get_pstate, 0, NULL, TREE_PERFORMANCE},
    GROUP(0, "clocks_event_reasons", "Clocks Event Reasons", TREE_PERFORMANCE),
    REASON(1, "gpu_idle", "Idle", 0x1),
    REASON(1, "applications_clocks_setting", "Applications Clocks Setting", 0x2),
    REASON(1, "sw_power_cap", "SW Power Cap", 0x4),
    REASON(1, "hw_slowdown", "HW Slowdown", 0x8),
    REASON(1, "hw_thermal_slowdown", "    HW Thermal Slowdown", 0x40),
    REASON(1, "hw_power_brake_slowdown", "    HW Power Brake Slowdown", 0x80),
    REASON(1, "sync_boost", "Sync Boost", 0x10),
    REASON(1, "sw_thermal_slowdown", "SW Thermal Slowdown", 0x20),
    REASON(1, "display_clocks_setting", "Display Clock Setting", 0x100),
    GROUP(0, "clocks_event_reasons_counters", "Clocks Event Reasons Counters", TREE_PERFORMANCE),
    COUNTER("sw_power_cap", "SW Power Capping", NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP),
    COUNTER("sync_boost", "Sync Boost", NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST),
    COUNTER("sw_therm_slowdown", "SW Thermal Slowdown", NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
    COUNTER("hw_therm_slowdown", "HW Thermal Slowdown", NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
    COUNTER("hw_power_brake", "HW Power Braking", NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
    {0, "sparse_operation_mode", "Sparse Operation Mode", NULL, get_none, 0, NULL, TREE_PERFORMANCE},
    GROUP(0, "fb_memory_usage", "FB Memory Usage", TREE_MEMORY),
    {1, "total", "Total", " MiB", get_memory, MEMORY_TOTAL, NULL, 0},
    {1, "reserved", "Reserved", " MiB", get_memory, MEMORY_RESERVED, NULL, 0},
    {1, "used", "Used", " MiB", get_memory, MEMORY_USED, NULL, 0},
    {1, "free", "Free", " MiB", get_memory, MEMORY_FREE, NULL, 0},
    GROUP(0, "bar1_memory_usage", "BAR1 Memory Usage", TREE_MEMORY),
    {1, "total", "Total", " MiB", get_bar1, MEMORY_TOTAL, NULL, 0},
    {1, "used", "Used", " MiB", get_bar1, MEMORY_USED, NULL, 0},
    {1, "free", "Free", " MiB", get_bar1, MEMORY_FREE, NULL, 0},
    GROUP(0, "cc_protected_memory_usage", "Conf Compute Protected Memory Usage", TREE_MEMORY),
    {1, "total", "Total", " MiB", get_protected, MEMORY_TOTAL, NULL, 0},
    {1, "used", "Used", " MiB", get_protected, MEMORY_USED, NULL, 0},
    {1, "free", "Free", " MiB", get_protected, MEMORY_FREE, NULL, 0},
    {0, "compute_mode", "Compute Mode", NULL, get_compute_mode, 0, NULL, TREE_COMPUTE},
    GROUP(0, "utilization", "Utilization", TREE_UTILIZATION),
    {1, "gpu_util", "GPU", " %", get_utilization, 0, NULL, 0},
    {1, "memory_util", "Memory", " %", get_utilization, 1, NULL, 0},
    {1, "encoder_util", "Encoder", " %", GET_ENGINE(DeviceGetEncoderUtilization), NULL, 0},
    {1, "decoder_util", "Decoder", " %", GET_ENGINE(DeviceGetDecoderUtilization), NULL, 0},
    {1, "jpeg_util", "JPEG", " %", GET_ENGINE(DeviceGetJpgUtilization), NULL, 0},
    {1, "ofa_util", "OFA", " %", GET_ENGINE(DeviceGetOfaUtilization), NULL, 0},
    LIST(0, tree_utilization_samples, TREE_UTILIZATION | TREE_ASKED),
    GROUP(0, "encoder_stats", "Encoder Stats", TREE_ENCODER_STATS),
    {1, "session_count", "Active Sessions", NULL, get_encoder, 0, NULL, 0},
    {1, "average_fps", "Average FPS", NULL, get_encoder, 1, NULL, 0},
    {1, "average_latency", "Average Latency", NULL, get_encoder, 2, NULL, 0},
    GROUP(0, "fbc_stats", "FBC Stats", TREE_FBC_STATS),
    {1, "session_count", "Active Sessions", NULL, get_fbc, 0, NULL, 0},
    {1, "average_fps", "Average FPS", NULL, get_fbc, 1, NULL, 0},
    {1, "average_latency", "Average Latency", NULL, get_fbc, 2, NULL, 0},
    GROUP(0, "dram_encryption_mode", "DRAM Encryption Mode", 0),
    {1, "current_dram_encryption", "Current", NULL, get_dram_encryption, 0, NULL, 0},
    {1, "pending_dram_encryption", "Pending", NULL, get_dram_encryption, 1, NULL, 0},
    GROUP(0, "ecc_mode", "ECC Mode", TREE_ECC),
    {1, "current_ecc", "Current", NULL, get_ecc_mode, 0, NULL, 0},
    {1, "pending_ecc", "Pending", NULL, get_ecc_mode, 1, NULL, 0},
    GROUP(0, "ecc_errors", "ECC Errors", TREE_ECC),
    LIST(1, tree_ecc_errors, 0),
    GROUP(0, "retired_pages", "Retired Pages", TREE_PAGE_RETIREMENT),
    LIST(1, tree_retired, 0),
    LIST(0, tree_remapped, TREE_ROW_REMAPPER),
    GROUP(0, "temperature", "Temperature", TREE_TEMPERATURE),
    {1, "gpu_temp", "GPU Current Temp", " C", get_temperature, 0, NULL, 0},
    {1, "gpu_temp_tlimit", "GPU T.Limit Temp", " C", get_margin, 0, NULL, 0},
    LIST(1, tree_thresholds, 0),
    {1, "gpu_target_temperature", "GPU Target Temperature", " C", get_threshold,
     NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR, NULL, 0},
    {1, "memory_temp", "Memory Current Temp", " C", get_field_int, NVML_FI_DEV_MEMORY_TEMP, NULL, 0},
    LIST(1, tree_memory_threshold, 0),
    GROUP(0, "supported_gpu_target_temp", "Supported GPU Target Temp", TREE_TARGET_TEMP | TREE_ASKED),
    {1, "gpu_target_temp_min", "GPU Target Temp Min", " C", get_threshold, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN,
     NULL, 0},
    {1, "gpu_target_temp_max", "GPU Target Temp Max", " C", get_threshold, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX,
     NULL, 0},
    GROUP(0, "gpu_power_readings", "GPU Power Readings", TREE_POWER),
    {1, "power_state", NULL, NULL, get_pstate, 0, NULL, 0},
    DRAW(SCOPE_GPU),
    LIMITS(SCOPE_GPU),
    LIST(0, tree_power_samples, TREE_POWER | TREE_ASKED),
    GROUP(0, "gpu_memory_power_readings", "GPU Memory Power Readings ", TREE_POWER),
    DRAW(SCOPE_MEMORY),
    GROUP(0, "module_power_readings", "Module Power Readings", TREE_POWER),
    {1, "power_state", NULL, NULL, get_pstate, 0, NULL, 0},
    DRAW(SCOPE_MODULE),
    LIMITS(SCOPE_MODULE),
    {0, "power_smoothing", "Power Smoothing", NULL, get_none, 0, NULL, TREE_POWER_SMOOTHING},
    GROUP(0, "power_profiles", "Workload Power Profiles", TREE_POWER_PROFILES),
    {1, "power_profile_requested_profiles", "Requested Profiles", NULL, get_profiles, 0, NULL, 0},
    {1, "power_profile_enforced_profiles", "Enforced Profiles", NULL, get_profiles, 1, NULL, 0},
    {0, "edpp_multiplier", "EDPp Multiplier", "%", get_edpp, 0, NULL, 0},
    GROUP(0, "clocks", "Clocks", TREE_CLOCK),
    {1, "graphics_clock", "Graphics", " MHz", get_clock, NVML_CLOCK_GRAPHICS, NULL, 0},
    {1, "sm_clock", "SM", " MHz", get_clock, NVML_CLOCK_SM, NULL, 0},
    {1, "mem_clock", "Memory", " MHz", get_clock, NVML_CLOCK_MEM, NULL, 0},
    {1, "video_clock", "Video", " MHz", get_clock, NVML_CLOCK_VIDEO, NULL, 0},
    GROUP(0, "applications_clocks", "Applications Clocks", TREE_CLOCK),
    {1, "graphics_clock", "Graphics", " MHz", get_app_clock, NVML_CLOCK_GRAPHICS, NULL, 0},
    {1, "mem_clock", "Memory", " MHz", get_app_clock, NVML_CLOCK_MEM, NULL, 0},
    GROUP(0, "default_applications_clocks", "Default Applications Clocks", TREE_CLOCK),
    {1, "graphics_clock", "Graphics", " MHz", get_default_app_clock, NVML_CLOCK_GRAPHICS, NULL, 0},
    {1, "mem_clock", "Memory", " MHz", get_default_app_clock, NVML_CLOCK_MEM, NULL, 0},
    GROUP(0, "deferred_clocks", "Deferred Clocks", TREE_CLOCK),
    {1, "mem_clock", "Memory", " MHz", get_none, 0, NULL, 0},
    GROUP(0, "max_clocks", "Max Clocks", TREE_CLOCK),
    {1, "graphics_clock", "Graphics", " MHz", get_max_clock, NVML_CLOCK_GRAPHICS, NULL, 0},
    {1, "sm_clock", "SM", " MHz", get_max_clock, NVML_CLOCK_SM, NULL, 0},
    {1, "mem_clock", "Memory", " MHz", get_max_clock, NVML_CLOCK_MEM, NULL, 0},
    {1, "video_clock", "Video", " MHz", get_max_clock, NVML_CLOCK_VIDEO, NULL, 0},
    GROUP(0, "max_customer_boost_clocks", "Max Customer Boost Clocks", TREE_CLOCK),
    {1, "graphics_clock", "Graphics", " MHz", get_boost_clock, NVML_CLOCK_GRAPHICS, NULL, 0},
    LIST(0, tree_clock_samples, TREE_CLOCK | TREE_ASKED),
    GROUP(0, "clock_policy", "Clock Policy", TREE_CLOCK),
    {1, "auto_boost", "Auto Boost", NULL, get_auto_boost, 0, NULL, 0},
    {1, "auto_boost_default", "Auto Boost Default", NULL, get_auto_boost, 1, NULL, 0},
    GROUP(0, NULL, "Voltage", TREE_VOLTAGE | TREE_ASKED),
    {1, NULL, "Graphics", NULL, get_none, 0, NULL, 0},
    GROUP(0, "fabric", "Fabric", 0),
    {1, "state", "State", NULL, get_fabric, FABRIC_STATE, NULL, 0},
    {1, "status", "Status", NULL, get_fabric, FABRIC_STATUS, NULL, 0},
    {1, "cliqueId", "CliqueId", NULL, get_fabric, FABRIC_CLIQUE, NULL, 0},
    {1, "clusterUuid", "ClusterUUID", NULL, get_fabric, FABRIC_CLUSTER, NULL, 0},
    GROUP(1, "health", "Health", 0),
    {2, "summary", "Summary", NULL, get_fabric_health, HEALTH_SUMMARY, NULL, 0},
    {2, "bandwidth", "Bandwidth", NULL, get_fabric_health, HEALTH_BANDWIDTH, NULL, 0},
    {2, "route_recovery_in_progress", "Route Recovery in progress", NULL, get_fabric_health, HEALTH_ROUTE_RECOVERY,
     NULL, 0},
    {2, "route_unhealthy", "Route Unhealthy", NULL, get_fabric_health, HEALTH_ROUTE, NULL, 0},
    {2, "access_timeout_recovery", "Access Timeout Recovery", NULL, get_fabric_health, HEALTH_TIMEOUT, NULL, 0},
    {2, "incorrect_configuration", "Incorrect Configuration", NULL, get_fabric_health, HEALTH_CONFIG, NULL, 0},
    LIST(0, tree_supported_clocks, TREE_SUPPORTED_CLOCKS | TREE_ASKED),
    LIST(0, tree_processes, TREE_PIDS),
    LIST(0, tree_accounted, TREE_ACCOUNTING),
    GROUP(0, "capabilities", "Capabilities", 0),
    {1, "egm", "EGM", NULL, get_egm, 0, NULL, 0},
};

static const struct {
    const char *word;
    unsigned int section;
} sections[] = {
    {"MEMORY", TREE_MEMORY},
    {"UTILIZATION", TREE_UTILIZATION},
    {"ECC", TREE_ECC},
    {"TEMPERATURE", TREE_TEMPERATURE},
    {"POWER", TREE_POWER},
    {"CLOCK", TREE_CLOCK},
    {"COMPUTE", TREE_COMPUTE},
    {"PIDS", TREE_PIDS},
    {"PERFORMANCE", TREE_PERFORMANCE},
    {"SUPPORTED_CLOCKS", TREE_SUPPORTED_CLOCKS},
    {"PAGE_RETIREMENT", TREE_PAGE_RETIREMENT},
    {"ACCOUNTING", TREE_ACCOUNTING},
    {"ENCODER_STATS", TREE_ENCODER_STATS},
    {"SUPPORTED_GPU_TARGET_TEMP", TREE_TARGET_TEMP},
    {"VOLTAGE", TREE_VOLTAGE},
    {"FBC_STATS", TREE_FBC_STATS},
    {"ROW_REMAPPER", TREE_ROW_REMAPPER},
    {"GSP_FIRMWARE_VERSION", TREE_GSP},
    {"POWER_SMOOTHING", TREE_POWER_SMOOTHING},
    {"POWER_PROFILES", TREE_POWER_PROFILES},
};

unsigned int tree_sections(const char *words)
{
    char copy[512], *rest = copy;
    unsigned int all = 0;

    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        unsigned int found = 0;
        for (size_t i = 0; i < ARRAY_LEN(sections); i++)
            found |= strcasecmp(sections[i].word, word) == 0 ? sections[i].section : 0;
        if (!found) {
            printf("\"%s\" is not a section that -d knows.\n", word);
            return 0;
        }
        all |= found;
    }
    return all;
}

/* XML always shows everything but samples; the text what was asked for. */
static bool wanted(const Out *out, const Node *node, unsigned int asked)
{
    if (out->xml || !asked)
        return out->xml || !(node->sections & TREE_ASKED);
    return node->sections & asked;
}

/* XML has PCI numbers without their "0x". */
static void write_leaf(Out *out, const Subject *of, const Node *node)
{
    Value value;

    if (!(out->xml ? node->tag : node->label))
        return;
    node->get(of, node->arg, &value);
    if (out->xml && node->get == get_pci && strncmp(value.text, "0x", 2) == 0)
        memmove(value.text, value.text + 2, strlen(value.text) - 1);
    out_value(out, node->tag, node->label, &value, node->unit);
}

static void write_nodes(Out *out, const Subject *of, unsigned int asked)
{
    const Node *open[8];
    int opened = 0;
    bool show = false;

    for (size_t i = 0; i <= ARRAY_LEN(nodes); i++) {
        const Node *node = i < ARRAY_LEN(nodes) ? &nodes[i] : NULL;
        for (; opened && (!node || open[opened - 1]->depth >= node->depth); opened--)
            out_close(out, open[opened - 1]->tag, open[opened - 1]->label);
        if (!node)
            break;
        if (node->depth == 0)
            show = wanted(out, node, asked);
        if (!show)
            continue;
        if (node->build) {
            node->build(out, of);
        } else if (node->get) {
            write_leaf(out, of, node);
        } else {
            out_open(out, node->tag, node->label);
            open[opened++] = node;
        }
    }
}

static void write_head(Out *out, unsigned int total)
{
    char stamp[64], driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "N/A", cuda[32] = "N/A", count[16];
    time_t now = time(NULL);
    struct tm local;
    int version = 0;

    localtime_r(&now, &local);
    strftime(stamp, sizeof(stamp), "%a %b %e %H:%M:%S %Y", &local);
    (void)NV(SystemGetDriverVersion, driver, sizeof(driver));
    if (NV(SystemGetCudaDriverVersion, &version) == NVML_SUCCESS)
        snprintf(cuda, sizeof(cuda), "%d.%d", version / 1000, version % 1000 / 10);
    snprintf(count, sizeof(count), "%u", total);
    if (!out->xml)
        fputs("\n==============NVSMI LOG==============\n\n", out->file);
    out_leaf(out, "timestamp", "Timestamp", stamp);
    out_leaf(out, "driver_version", "Driver Version", driver);
    out_leaf(out, "cuda_version", "CUDA Version", cuda);
    if (!out->xml)
        fputc('\n', out->file);
    out_leaf(out, "attached_gpus", "Attached GPUs", count);
}

void tree_write(GpuSet *set, FILE *file, bool xml, unsigned int asked)
{
    Out out = {.file = file, .xml = xml};

    if (xml) {
        fputs("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n", file);
        out_open(&out, "nvidia_smi_log", NULL);
    }
    write_head(&out, set->count ? set->gpus[0].total : 0);
    for (unsigned int i = 0; i < set->count; i++) {
        Gpu *gpu = &set->gpus[i];
        if (xml)
            fprintf(file, "\t<gpu id=\"%s\">\n", gpu->bus_id);
        else
            fprintf(file, "GPU %s\n", gpu->bus_id);
        out.depth++;
        write_nodes(&out, &(Subject){.gpu = gpu}, asked);
        out.depth--;
        fputs(xml ? "\t</gpu>\n\n" : "\n", file);
    }
    out_close(&out, "nvidia_smi_log", NULL);
}
