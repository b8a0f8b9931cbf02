/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of --query-gpu, in the order of the help. */
#include "sim/smi/field.h"

#include "base/owner.h"

#define REASON(name, bit, about)                                                                                       \
    {                                                                                                                  \
        "clocks_event_reasons." name, "clocks_throttle_reasons." name, NULL, get_reason, bit, about                    \
    }
#define REASON_US(name, id, about)                                                                                     \
    {                                                                                                                  \
        "clocks_event_reasons_counters." name, NULL, "us", get_reason_us, (int)(id), about                             \
    }
#define ECC_FIELDS(text, error, counter_text, counter)                                                                 \
    {"ecc.errors." text "." counter_text ".device_memory",                                                             \
     NULL,                                                                                                             \
     NULL,                                                                                                             \
     get_ecc,                                                                                                          \
     GET_ECC(error, counter, NVML_MEMORY_LOCATION_DEVICE_MEMORY),                                                      \
     text " errors in device memory"},                                                                                 \
        {"ecc.errors." text "." counter_text ".dram",                                                                  \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_DRAM),                                                           \
         text " errors in DRAM"},                                                                                      \
        {"ecc.errors." text "." counter_text ".register_file",                                                         \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_REGISTER_FILE),                                                  \
         text " errors in registers"},                                                                                 \
        {"ecc.errors." text "." counter_text ".l1_cache",                                                              \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_L1_CACHE),                                                       \
         text " errors in L1"},                                                                                        \
        {"ecc.errors." text "." counter_text ".l2_cache",                                                              \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_L2_CACHE),                                                       \
         text " errors in L2"},                                                                                        \
        {"ecc.errors." text "." counter_text ".texture_memory",                                                        \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_TEXTURE_MEMORY),                                                 \
         text " errors in texture memory"},                                                                            \
        {"ecc.errors." text "." counter_text ".cbu",                                                                   \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_CBU),                                                            \
         text " errors in the branch units"},                                                                          \
        {"ecc.errors." text "." counter_text ".sram",                                                                  \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         get_ecc,                                                                                                      \
         GET_ECC(error, counter, NVML_MEMORY_LOCATION_SRAM),                                                           \
         text " errors in all SRAM"},                                                                                  \
    {                                                                                                                  \
        "ecc.errors." text "." counter_text ".total", NULL, NULL, get_ecc, GET_ECC(error, counter, ECC_TOTAL),         \
            text " errors, all of them"                                                                                \
    }
#define UNIQUE(name, part, about)                                                                                      \
    {                                                                                                                  \
        "ecc.errors.uncorrected." name, NULL, NULL, get_sram, part, about                                              \
    }
#define SMOOTHING(name, unit)                                                                                          \
    {                                                                                                                  \
        "power_smoothing." name, NULL, unit, get_none, 0, "power smoothing; not simulated"                             \
    }

const Field field_gpu[] = {
    {"timestamp", NULL, NULL, get_timestamp, 0, "when the row was read"},
    {"driver_version", NULL, NULL, get_driver_version, 0, "version of the driver"},
    {"kmd_version", NULL, NULL, get_driver_version, 0, "version of the kernel module"},
    {"vgpu_driver_capability.heterogenous_multivGPU", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"count", NULL, NULL, get_count, 0, "GPUs of the node"},
    {"name", "gpu_name", NULL, GET_TEXT(DeviceGetName), "product name"},
    {"serial", "gpu_serial", NULL, GET_TEXT(DeviceGetSerial), "serial number of the board"},
    {"uuid", "gpu_uuid", NULL, GET_TEXT(DeviceGetUUID), "id of the GPU"},
    {"pci.bus_id", "gpu_bus_id", NULL, get_pci, PCI_BUS_ID, "domain:bus:device.function, hexadecimal"},
    {"pci.domain", NULL, NULL, get_pci, PCI_DOMAIN, "PCI domain, hexadecimal"},
    {"pci.bus", NULL, NULL, get_pci, PCI_BUS, "PCI bus, hexadecimal"},
    {"pci.device", NULL, NULL, get_pci, PCI_DEVICE, "PCI device, hexadecimal"},
    {"pci.baseClass", NULL, NULL, get_pci, PCI_BASE_CLASS, "PCI base class, hexadecimal"},
    {"pci.subClass", NULL, NULL, get_pci, PCI_SUB_CLASS, "PCI sub class, hexadecimal"},
    {"pci.device_id", NULL, NULL, get_pci, PCI_DEVICE_ID, "PCI device and vendor id, hexadecimal"},
    {"pci.sub_device_id", NULL, NULL, get_pci, PCI_SUB_SYSTEM, "PCI subsystem id, hexadecimal"},
    {"vgpu_device_capability.fractional_multiVgpu", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"vgpu_device_capability.heterogeneous_timeSlice_profile", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"vgpu_device_capability.heterogeneous_timeSlice_sizes", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"vgpu_device_capability.homogeneous_placements", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"vgpu_device_capability.mig_timeSlicing", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"vgpu_device_capability.mig_timeSlicing_mode", NULL, NULL, get_none, 0, "vGPU; not simulated"},
    {"pcie.link.gen.current", NULL, NULL, GET_UINT(DeviceGetCurrPcieLinkGeneration), "PCIe generation in use"},
    {"pcie.link.gen.gpucurrent", NULL, NULL, GET_UINT(DeviceGetCurrPcieLinkGeneration), "PCIe generation in use"},
    {"pcie.link.gen.max", NULL, NULL, GET_UINT(DeviceGetMaxPcieLinkGeneration), "highest with this slot"},
    {"pcie.link.gen.gpumax", NULL, NULL, GET_UINT(DeviceGetGpuMaxPcieLinkGeneration), "highest of the GPU"},
    {"pcie.link.gen.hostmax", NULL, NULL, get_none, 0, "highest of the root port"},
    {"pcie.link.width.current", NULL, NULL, GET_UINT(DeviceGetCurrPcieLinkWidth), "PCIe lanes in use"},
    {"pcie.link.width.max", NULL, NULL, GET_UINT(DeviceGetMaxPcieLinkWidth), "PCIe lanes there are"},
    {"index", NULL, NULL, get_index, 0, "number of the GPU, from 0"},
    {"display_mode", NULL, NULL, GET_ENABLED(DeviceGetDisplayMode), "deprecated"},
    {"display_attached", NULL, NULL, get_display_attached, 0, "a display is connected"},
    {"display_active", NULL, NULL, GET_ENABLED(DeviceGetDisplayActive), "a display is initialised"},
    {"persistence_mode", NULL, NULL, GET_ENABLED(DeviceGetPersistenceMode), "the driver stays loaded without clients"},
    {"addressing_mode", NULL, NULL, get_addressing, 0, "HMM, ATS or None"},
    {"accounting.mode", NULL, NULL, GET_ENABLED(DeviceGetAccountingMode), "processes are accounted"},
    {"accounting.buffer_size", NULL, NULL, GET_UINT(DeviceGetAccountingBufferSize), "processes kept at most"},
    {"driver_model.current", NULL, NULL, get_driver_model, 0, "not on Linux"},
    {"driver_model.pending", NULL, NULL, get_driver_model, 1, "not on Linux"},
    {"vbios_version", NULL, NULL, GET_TEXT(DeviceGetVbiosVersion), "VBIOS version"},
    {"inforom.img", "inforom.image", NULL, GET_TEXT(DeviceGetInforomImageVersion), "version of the image"},
    {"inforom.oem", NULL, NULL, get_inforom, NVML_INFOROM_OEM, "version of the OEM object"},
    {"inforom.ecc", NULL, NULL, get_inforom, NVML_INFOROM_ECC, "version of the ECC object"},
    {"inforom.pwr", "inforom.power", NULL, get_inforom, NVML_INFOROM_POWER, "version of the power object"},
    {"inforom.checksum_validation", NULL, NULL, get_checksum, 0, "valid or invalid"},
    {"gpu_recovery_action", NULL, NULL, get_recovery, 0, "what the driver asks for"},
    {"gom.current", "gpu_operation_mode.current", NULL, get_gom, 0, "GPU operation mode"},
    {"gom.pending", "gpu_operation_mode.pending", NULL, get_gom, 1, "GPU operation mode after a reboot"},
    {"fan.speed", NULL, "%", GET_UINT(DeviceGetFanSpeed), "intended speed"},
    {"pstate", NULL, NULL, get_pstate, 0, "P0 fastest, P12 slowest"},
    {"clocks_event_reasons.supported", "clocks_throttle_reasons.supported", NULL, get_reasons, 1, "bits known"},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", NULL, get_reasons, 0, "bits that hold"},
    REASON("gpu_idle", 0x1, "nothing runs"),
    REASON("applications_clocks_setting", 0x2, "clocks were set lower"),
    REASON("sw_power_cap", 0x4, "held down by the power limit"),
    REASON("hw_slowdown", 0x8, "held down by the hardware"),
    REASON("hw_thermal_slowdown", 0x40, "hardware: too hot"),
    REASON("hw_power_brake_slowdown", 0x80, "hardware: power brake from outside"),
    REASON("sw_thermal_slowdown", 0x20, "software: too hot"),
    REASON("sync_boost", 0x10, "kept in step with other GPUs"),
    REASON_US("sw_power_cap", NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, "time at the power limit"),
    REASON_US("sync_boost", NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, "time in step with others"),
    REASON_US("sw_thermal_slowdown", NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, "time too hot, software"),
    REASON_US("hw_thermal_slowdown", NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, "time too hot, hardware"),
    REASON_US("hw_power_brake_slowdown", NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, "time braked"),
    {"memory.total", NULL, "MiB", get_memory, MEMORY_TOTAL, "memory of the board"},
    {"memory.reserved", NULL, "MiB", get_memory, MEMORY_RESERVED, "held by driver and firmware"},
    {"memory.used", NULL, "MiB", get_memory, MEMORY_USED, "held by contexts"},
    {"memory.free", NULL, "MiB", get_memory, MEMORY_FREE, "free"},
    {"compute_mode", NULL, NULL, get_compute_mode, 0, "how many contexts are let in"},
    {"compute_cap", NULL, NULL, get_cuda_cap, 0, "CUDA compute capability"},
    {"utilization.gpu", NULL, "%", get_utilization, 0, "time with a kernel running"},
    {"utilization.memory", NULL, "%", get_utilization, 1, "time with memory traffic"},
    {"utilization.encoder", NULL, "%", GET_ENGINE(DeviceGetEncoderUtilization), "video encoders"},
    {"utilization.decoder", NULL, "%", GET_ENGINE(DeviceGetDecoderUtilization), "video decoders"},
    {"utilization.jpeg", NULL, "%", GET_ENGINE(DeviceGetJpgUtilization), "JPEG engines"},
    {"utilization.ofa", NULL, "%", GET_ENGINE(DeviceGetOfaUtilization), "optical flow engines"},
    {"encoder.stats.sessionCount", NULL, NULL, get_encoder, 0, "encoder sessions"},
    {"encoder.stats.averageFps", NULL, NULL, get_encoder, 1, "mean frames per second"},
    {"encoder.stats.averageLatency", NULL, NULL, get_encoder, 2, "mean latency in microseconds"},
    {"dramEncryption.mode.current", NULL, NULL, get_dram_encryption, 0, "DRAM encryption"},
    {"dramEncryption.mode.pending", NULL, NULL, get_dram_encryption, 1, "DRAM encryption after a reboot"},
    {"ecc.mode.current", NULL, NULL, get_ecc_mode, 0, "ECC"},
    {"ecc.mode.pending", NULL, NULL, get_ecc_mode, 1, "ECC after a reboot"},
    ECC_FIELDS("corrected", ECC_COR, "volatile", ECC_VOL),
    ECC_FIELDS("corrected", ECC_COR, "aggregate", ECC_AGG),
    ECC_FIELDS("uncorrected", ECC_UNC, "volatile", ECC_VOL),
    ECC_FIELDS("uncorrected", ECC_UNC, "aggregate", ECC_AGG),
    UNIQUE("volatile.sram.parity", SRAM_VOL_PARITY, "SRAM, parity"),
    UNIQUE("volatile.sram.secded", SRAM_VOL_SECDED, "SRAM, SEC-DED"),
    UNIQUE("aggregate.sram.parity", SRAM_AGG_PARITY, "SRAM, parity"),
    UNIQUE("aggregate.sram.secded", SRAM_AGG_SECDED, "SRAM, SEC-DED"),
    UNIQUE("aggregate.sram.thresholdExceeded", SRAM_THRESHOLD, "more SRAM errors than a board may have"),
    UNIQUE("aggregate.sram.l2", SRAM_L2, "SRAM errors in L2"),
    UNIQUE("aggregate.sram.sm", SRAM_SM, "SRAM errors in SMs"),
    UNIQUE("aggregate.sram.mcu", SRAM_MCU, "SRAM errors in microcontrollers"),
    UNIQUE("aggregate.sram.pcie", SRAM_PCIE, "SRAM errors in PCIe"),
    UNIQUE("aggregate.sram.other", SRAM_OTHER, "SRAM errors elsewhere"),
    {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", NULL, get_retired,
     NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, "pages retired after corrected errors"},
    {"retired_pages.double_bit.count", "retired_pages.dbe", NULL, get_retired,
     NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, "pages retired after an uncorrected error"},
    {"retired_pages.pending", NULL, NULL, get_retired_pending, 0, "pages wait for a reboot"},
    {"remapped_rows.correctable", "remapped_rows.sbe", NULL, get_remapped, REMAP_COR, "rows, corrected errors"},
    {"remapped_rows.correctable_inactive", NULL, NULL, get_remapped_inactive, 0, "the same, no longer in use"},
    {"remapped_rows.uncorrectable", "remapped_rows.dbe", NULL, get_remapped, REMAP_UNC, "rows, uncorrected errors"},
    {"remapped_rows.uncorrectable_inactive", NULL, NULL, get_remapped_inactive, 1, "the same, no longer in use"},
    {"remapped_rows.pending", NULL, NULL, get_remapped, REMAP_PENDING, "rows wait for a reset"},
    {"remapped_rows.failure", NULL, NULL, get_remapped, REMAP_FAILURE, "a row could not be remapped"},
    {"remapped_rows.histogram.max", NULL, NULL, get_histogram, BANKS_MAX, "banks with all spare rows"},
    {"remapped_rows.histogram.high", NULL, NULL, get_histogram, BANKS_HIGH, "banks with many"},
    {"remapped_rows.histogram.partial", NULL, NULL, get_histogram, BANKS_PARTIAL, "banks with some"},
    {"remapped_rows.histogram.low", NULL, NULL, get_histogram, BANKS_LOW, "banks with few"},
    {"remapped_rows.histogram.none", NULL, NULL, get_histogram, BANKS_NONE, "banks with none"},
    {"temperature.gpu", NULL, NULL, get_temperature, 0, "degrees Celsius"},
    {"temperature.gpu.tlimit", NULL, NULL, get_margin, 0, "degrees left to the limit"},
    {"temperature.memory", NULL, NULL, get_field_int, NVML_FI_DEV_MEMORY_TEMP, "degrees Celsius"},
    {"power.management", NULL, NULL, get_power_mode, 0, "deprecated"},
    {"power.draw", NULL, "W", GET_WATT(DeviceGetPowerUsage), "mean of a second on newer boards"},
    {"power.draw.average", "gpu.power.draw.average", "W", get_power_field,
     GET_SCOPE(SCOPE_GPU, NVML_FI_DEV_POWER_AVERAGE), "mean of a second"},
    {"power.draw.instant", "gpu.power.draw.instant", "W", get_power_field,
     GET_SCOPE(SCOPE_GPU, NVML_FI_DEV_POWER_INSTANT), "at this moment"},
    {"power.limit", "gpu.power.requested_limit", "W", GET_WATT(DeviceGetPowerManagementLimit), "limit asked for"},
    {"enforced.power.limit", "gpu.power.current_limit", "W", GET_WATT(DeviceGetEnforcedPowerLimit), "limit in force"},
    {"power.default_limit", "gpu.power.default_limit", "W", GET_WATT(DeviceGetPowerManagementDefaultLimit),
     "limit after the driver loads"},
    {"power.min_limit", "gpu.power.min_limit", "W", get_limit, 0, "lowest limit that may be set"},
    {"power.max_limit", "gpu.power.max_limit", "W", get_limit, 1, "highest limit that may be set"},
    {"module.power.draw.average", NULL, "W", get_power_field, GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_AVERAGE),
     "module, mean of a second"},
    {"module.power.draw.instant", NULL, "W", get_power_field, GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_INSTANT),
     "module, at this moment"},
    {"module.power.limit", "module.power.requested_limit", "W", get_power_field,
     GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_REQUESTED_LIMIT), "module, limit asked for"},
    {"module.enforced.power.limit", "module.power.current_limit", "W", get_power_field,
     GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_CURRENT_LIMIT), "module, limit in force"},
    {"module.power.default_limit", NULL, "W", get_power_field, GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_DEFAULT_LIMIT),
     "module, default limit"},
    {"module.power.min_limit", NULL, "W", get_power_field, GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_MIN_LIMIT),
     "module, lowest limit"},
    {"module.power.max_limit", NULL, "W", get_power_field, GET_SCOPE(SCOPE_MODULE, NVML_FI_DEV_POWER_MAX_LIMIT),
     "module, highest limit"},
    SMOOTHING("delayed_power_smoothing_supported", NULL),
    SMOOTHING("primary_power_floor", "W"),
    SMOOTHING("secondary_power_floor", "W"),
    SMOOTHING("min_primary_floor_activation_offset", "W"),
    SMOOTHING("min_primary_floor_activation_point", "W"),
    SMOOTHING("window_multiplier", "ms"),
    SMOOTHING("curr_profile.secondary_power_floor", "W"),
    SMOOTHING("curr_profile.primary_floor_act_window_multiplier", NULL),
    SMOOTHING("curr_profile.primary_floor_tar_window_multiplier", NULL),
    SMOOTHING("curr_profile.primary_floor_act_offset", "W"),
    SMOOTHING("admin_override.secondary_power_floor", "W"),
    SMOOTHING("admin_override.primary_floor_act_window_multiplier", NULL),
    SMOOTHING("admin_override.primary_floor_tar_window_multiplier", NULL),
    SMOOTHING("admin_override.primary_floor_act_offset", "W"),
    {"edpp_multiplier", NULL, "%", get_edpp, 0, "EDPp multiplier"},
    {"clocks.current.graphics", "clocks.gr", "MHz", get_clock, NVML_CLOCK_GRAPHICS, "graphics clock"},
    {"clocks.current.sm", "clocks.sm", "MHz", get_clock, NVML_CLOCK_SM, "SM clock"},
    {"clocks.current.memory", "clocks.mem", "MHz", get_clock, NVML_CLOCK_MEM, "memory clock"},
    {"clocks.current.video", "clocks.video", "MHz", get_clock, NVML_CLOCK_VIDEO, "video clock"},
    {"clocks.applications.graphics", "clocks.applications.gr", "MHz", get_app_clock, NVML_CLOCK_GRAPHICS, "as set"},
    {"clocks.applications.memory", "clocks.applications.mem", "MHz", get_app_clock, NVML_CLOCK_MEM, "as set"},
    {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz", get_default_app_clock,
     NVML_CLOCK_GRAPHICS, "default"},
    {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz", get_default_app_clock,
     NVML_CLOCK_MEM, "default"},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", get_max_clock, NVML_CLOCK_GRAPHICS, "highest graphics clock"},
    {"clocks.max.sm", NULL, "MHz", get_max_clock, NVML_CLOCK_SM, "highest SM clock"},
    {"clocks.max.memory", "clocks.max.mem", "MHz", get_max_clock, NVML_CLOCK_MEM, "highest memory clock"},
    {"mig.mode.current", NULL, NULL, get_mig_mode, 0, "MIG"},
    {"mig.mode.pending", NULL, NULL, get_mig_mode, 1, "MIG after a reset"},
    {"gsp.mode.current", NULL, NULL, get_gsp_mode, 0, "GSP firmware in use"},
    {"gsp.mode.default", NULL, NULL, get_gsp_mode, 1, "GSP firmware by default"},
    {"c2c.mode", NULL, NULL, get_c2c, 0, "chip-to-chip link"},
    {"protected_memory.total", NULL, "MiB", get_protected, MEMORY_TOTAL, "confidential computing"},
    {"protected_memory.used", NULL, "MiB", get_protected, MEMORY_USED, "confidential computing"},
    {"protected_memory.free", NULL, "MiB", get_protected, MEMORY_FREE, "confidential computing"},
    {"fabric.state", NULL, NULL, get_fabric, FABRIC_STATE, "registration with the fabric"},
    {"fabric.status", NULL, NULL, get_fabric, FABRIC_STATUS, "its result, once completed"},
    {"fabric.cliqueId", NULL, NULL, get_fabric, FABRIC_CLIQUE, "clique"},
    {"fabric.clusterUuid", NULL, NULL, get_fabric, FABRIC_CLUSTER, "cluster"},
    {"fabric.health.summary", NULL, NULL, get_fabric_health, HEALTH_SUMMARY, "health as one word"},
    {"fabric.health.bandwidth", NULL, NULL, get_fabric_health, HEALTH_BANDWIDTH, "bandwidth"},
    {"fabric.health.route_recovery_in_progress", NULL, NULL, get_fabric_health, HEALTH_ROUTE_RECOVERY, "routes mend"},
    {"fabric.health.route_unhealthy", NULL, NULL, get_fabric_health, HEALTH_ROUTE, "a route is broken"},
    {"fabric.health.access_timeout_recovery", NULL, NULL, get_fabric_health, HEALTH_TIMEOUT, "recovers from timeouts"},
    {"fabric.health.incorrect_configuration", NULL, NULL, get_fabric_health, HEALTH_CONFIG, "what is set up wrong"},
    {"fabric.health.partition_assigned", NULL, NULL, get_fabric_health, HEALTH_PARTITION, "belongs to a partition"},
    {"platform.chassis_serial_number", NULL, NULL, get_platform, PLATFORM_CHASSIS, "chassis"},
    {"platform.slot_number", NULL, NULL, get_platform, PLATFORM_SLOT, "slot in the chassis"},
    {"platform.tray_index", NULL, NULL, get_platform, PLATFORM_TRAY, "tray"},
    {"platform.host_id", NULL, NULL, get_platform, PLATFORM_HOST, "node in the slot"},
    {"platform.peer_type", NULL, NULL, get_platform, PLATFORM_PEER, "how NVLink peers are reached"},
    {"platform.module_id", NULL, NULL, get_platform, PLATFORM_MODULE, "GPU in the node"},
    {"platform.gpu_fabric_guid", NULL, NULL, get_platform, PLATFORM_GUID, "id in the fabric"},
    {"hostname", NULL, NULL, get_hostname, 0, "host name kept in the GPU"},
};
const size_t field_gpu_count = ARRAY_LEN(field_gpu);
