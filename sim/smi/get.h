/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The readings by name. A getter fills *ret with a reading of `of`; `arg` chooses among its kin. The tables of
 * --query-* and of -q point to them.
 */
#include <stddef.h>

#include "sim/smi/gpu.h"
#include "sim/smi/value.h"

/* What a row is about: a GPU and, in lists, one of its items (process, page, ...), else NULL. */
typedef struct Subject {
    Gpu *gpu;
    const void *item;
} Subject;

typedef void Getter(const Subject *of, int arg, Value *ret);

/* A call with one number, text or switch: `get, arg` of a table's row. The argument's size is negative, and the
 * compiler refuses the row, where the call's type is another. */
#define GET_CALL(type, name)                                                                                           \
    (int)(offsetof(Nvml, name) +                                                                                       \
          0 * sizeof(char[__builtin_types_compatible_p(__typeof__(&nvml##name), type *) ? 1 : -1]))
typedef nvmlReturn_t GetUintCall(nvmlDevice_t, unsigned int *);
typedef nvmlReturn_t GetTextCall(nvmlDevice_t, char *, unsigned int);
typedef nvmlReturn_t GetEnableCall(nvmlDevice_t, nvmlEnableState_t *);
typedef nvmlReturn_t GetClockCall(nvmlDevice_t, nvmlClockType_t, unsigned int *);
typedef nvmlReturn_t GetEngineCall(nvmlDevice_t, unsigned int *, unsigned int *);
#define GET_UINT(name) get_uint, GET_CALL(GetUintCall, name)
#define GET_WATT(name) get_watt, GET_CALL(GetUintCall, name)
#define GET_HEX(name) get_hex, GET_CALL(GetUintCall, name)
#define GET_TEXT(name) get_text, GET_CALL(GetTextCall, name)
#define GET_ENABLED(name) get_enabled, GET_CALL(GetEnableCall, name)
#define GET_ENGINE(name) get_engine, GET_CALL(GetEngineCall, name)
Getter get_uint, get_watt, get_hex, get_text, get_enabled, get_engine;

Getter get_none; /* what no simulated board offers: always "N/A" */

/* get_device.c */
Getter get_timestamp, get_driver_version, get_count, get_index, get_cuda_cap, get_brand, get_arch, get_addressing,
    get_display_attached, get_multi_gpu, get_inforom, get_checksum, get_gom, get_recovery, get_virtualization, get_gsp,
    get_gsp_mode, get_c2c, get_compute_mode, get_mig_mode, get_platform, get_hostname, get_dram_encryption,
    get_driver_model, get_egm;
enum { PLATFORM_CHASSIS, PLATFORM_SLOT, PLATFORM_TRAY, PLATFORM_HOST, PLATFORM_PEER, PLATFORM_MODULE, PLATFORM_GUID };

/* get_link.c */
Getter get_pci, get_pcie_rate, get_atomics, get_bridge, get_fabric, get_fabric_health;
enum { PCI_BUS_ID, PCI_DOMAIN, PCI_BUS, PCI_DEVICE, PCI_BASE_CLASS, PCI_SUB_CLASS, PCI_DEVICE_ID, PCI_SUB_SYSTEM };
enum { FABRIC_STATE, FABRIC_STATUS, FABRIC_CLIQUE, FABRIC_CLUSTER };
enum {
    HEALTH_SUMMARY,
    HEALTH_BANDWIDTH,
    HEALTH_ROUTE_RECOVERY,
    HEALTH_ROUTE,
    HEALTH_TIMEOUT,
    HEALTH_CONFIG,
    HEALTH_PARTITION
};

/* get_load.c */
Getter get_memory, get_bar1, get_protected, get_utilization, get_pstate, get_reason, get_reasons, get_reason_us,
    get_clock, get_max_clock, get_app_clock, get_default_app_clock, get_boost_clock, get_auto_boost, get_encoder,
    get_fbc, get_limit, get_power_field, get_power_mode, get_edpp, get_temperature, get_margin, get_field_int,
    get_threshold, get_profiles;
enum { MEMORY_TOTAL, MEMORY_RESERVED, MEMORY_USED, MEMORY_FREE };
/* get_power_field: field id with the power scope above it. */
#define GET_SCOPE(scope, id) ((scope) << 16 | (int)(id))
enum { SCOPE_GPU = 0, SCOPE_MODULE = 1, SCOPE_MEMORY = 2 };

/* get_error.c */
Getter get_ecc_mode, get_ecc, get_sram, get_retired, get_retired_pending, get_remapped, get_remapped_inactive,
    get_histogram, get_repair, get_unrepairable;
/* get_ecc: error type, counter and location in one number. */
#define GET_ECC(error, counter, location) ((error) << 8 | (counter) << 4 | (location))
enum { ECC_COR, ECC_UNC };
enum { ECC_VOL, ECC_AGG };
enum { ECC_TOTAL = 15 };
enum {
    SRAM_AGG_PARITY,
    SRAM_AGG_SECDED,
    SRAM_VOL_PARITY,
    SRAM_VOL_SECDED,
    SRAM_L2,
    SRAM_SM,
    SRAM_PCIE,
    SRAM_MCU,
    SRAM_OTHER,
    SRAM_THRESHOLD,
    SRAM_AGG_COR,
    SRAM_VOL_COR
};
enum { REMAP_COR, REMAP_UNC, REMAP_PENDING, REMAP_FAILURE };
enum { BANKS_MAX, BANKS_HIGH, BANKS_PARTIAL, BANKS_LOW, BANKS_NONE };
