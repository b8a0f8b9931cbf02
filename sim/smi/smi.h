/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * nvidia-smi of a simulated node, a client of the NVML library. One thread.
 *
 * The library is opened at start by its soname, every call through a pointer, so that a driver without one of the calls
 * gives NVML_ERROR_FUNCTION_NOT_FOUND for it and nothing else.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/attribute.h"
#include "nvml_abi.h"

/* --- nvml.c: the library ------------------------------------------------------------------------------------------ */

typedef struct Nvml {
#define NVML_CALL(name) __typeof__(nvml##name) *name;
#include "sim/smi/nvml_calls.def"
#undef NVML_CALL
} Nvml;

/* The calls; all NULL until nvml_open. */
extern Nvml nvml;

/* NV(DeviceGetName, device, text, sizeof(text)) calls nvmlDeviceGetName. */
#define NV(name, ...) (nvml.name ? nvml.name(__VA_ARGS__) : NVML_ERROR_FUNCTION_NOT_FOUND)

/* Opens the library and initialises it. Prints the error if it fails and returns the library's number for it (12 no
 * library, 9 driver not loaded, 18 versions differ, ...). */
nvmlReturn_t nvml_open(void);
void nvml_close(void);

/* The library's words for an error; never NULL. */
const char *nvml_error_text(nvmlReturn_t rc);

/* The program's exit code: the error's number, 255 for those that do not fit. */
int nvml_exit_code(nvmlReturn_t rc);

/* --- gpu.c: the GPUs that a command works on ---------------------------------------------------------------------- */

enum { GPU_MAX = 64, GPU_MIG_MAX = 64, GPU_PROC_MAX = 4096 };

typedef struct Gpu {
    nvmlDevice_t handle;
    unsigned int index;
    unsigned int total; /* GPUs of the node */
    char bus_id[32];    /* "00000000:3B:00.0" */
    bool memory_read;   /* once: its parts belong together */
    nvmlReturn_t memory_rc;
    nvmlMemory_v2_t memory;
} Gpu;

typedef struct GpuSet {
    unsigned int count;
    Gpu gpus[GPU_MAX];
} GpuSet;

/* Finds the GPUs named in `ids` (indexes, UUIDs, bus ids, separated by commas; NULL: all). Prints the error if it
 * fails: 6 if there is none, 15 if one of them is lost. */
nvmlReturn_t gpu_set_open(const char *ids, GpuSet *ret);

/* Fills gpu->memory. */
nvmlReturn_t gpu_read_memory(Gpu *gpu);
/* The memory of a GPU or MIG device, by the newest form of the call that the library has. */
nvmlReturn_t gpu_memory_of(nvmlDevice_t handle, nvmlMemory_v2_t *ret);

/* A MIG device of a GPU. */
typedef struct MigDevice {
    nvmlDevice_t handle;
    unsigned int index, gi, ci;
} MigDevice;

bool gpu_mig_enabled(Gpu *gpu);
/* Fills devices[GPU_MIG_MAX] in the library's order; returns their number. */
unsigned int gpu_mig_devices(Gpu *gpu, MigDevice *devices);

/* A process with a context; gi and ci are GPU_NO_ID outside of MIG. */
#define GPU_NO_ID 0xFFFFFFFFu
typedef struct GpuProc {
    unsigned int pid, gi, ci;
    const char *type; /* "C", "G", "C+G", "M+C" */
    unsigned long long used_bytes;
    bool used_known;
} GpuProc;

/* Processes of the GPU, compute first; a process with both kinds of context comes once. An allocation for free();
 * *ret_count is always set. */
GpuProc *gpu_procs(Gpu *gpu, unsigned int *ret_count);

/* One field value of the GPU's own scope. */
nvmlReturn_t gpu_field(Gpu *gpu, unsigned int id, nvmlFieldValue_t *ret);
/* Its number, whatever the type. */
double gpu_field_number(const nvmlFieldValue_t *field);

/* --- value.c: a reading as text ----------------------------------------------------------------------------------- */

enum { VALUE_MAX = 1024 };

/* A number or word without its unit, or the library's error. Owned by the caller; a getter always fills it. */
typedef struct Value {
    nvmlReturn_t rc;
    char text[VALUE_MAX]; /* valid if rc is NVML_SUCCESS */
} Value;

void value_text(Value *value, const char *fmt, ...) PRINTF_LIKE(2, 3);
void value_error(Value *value, nvmlReturn_t rc);
/* A number if rc is NVML_SUCCESS, else the error. */
void value_uint(Value *value, nvmlReturn_t rc, unsigned long long number);
/* words[i], or the error; NVML_ERROR_NOT_SUPPORTED for an i outside or a NULL word. */
void value_word(Value *value, nvmlReturn_t rc, unsigned long long i, const char *const *words, size_t count);
/* "Enabled" or "Disabled"; "Yes" or "No". */
void value_enabled(Value *value, nvmlReturn_t rc, unsigned long long on);
void value_yes(Value *value, nvmlReturn_t rc, unsigned long long on);
/* Bytes as MiB, milliwatts as watts with two digits. */
void value_mib(Value *value, nvmlReturn_t rc, unsigned long long bytes);
void value_watt(Value *value, nvmlReturn_t rc, unsigned int milliwatts);
/* Name of a process as the driver knows it. */
void value_process_name(Value *value, unsigned int pid);

/* Text in place of a value: "N/A" for what the board does not offer, otherwise the library's words. */
const char *value_reason(const Value *value);
/* The value with its unit (" MiB"), or the reason. Writes at most `size` bytes with the NUL. */
void value_show(const Value *value, const char *unit, char *out, size_t size);

/* --- get.c: the readings by name ---------------------------------------------------------------------------------- */

/* Fills *ret with a reading of the GPU; `arg` chooses among its kin. */
typedef void Getter(Gpu *gpu, int arg, Value *ret);

/* A call with one number, text or switch: `get, arg` of a table's row. The argument's size is negative, and the
 * compiler refuses the row, if the call's type is another. */
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
#define GET_TEXT(name) get_text, GET_CALL(GetTextCall, name)
#define GET_ENABLED(name) get_enabled, GET_CALL(GetEnableCall, name)
#define GET_ENGINE(name) get_engine, GET_CALL(GetEngineCall, name)

Getter get_uint, get_watt, get_text, get_enabled, get_engine, get_timestamp, get_driver_version, get_count, get_index,
    get_bus_id, get_arch, get_inforom, get_recovery, get_compute_mode, get_mig_mode, get_pcie_rate, get_memory,
    get_bar1, get_utilization, get_pstate, get_reasons, get_clock, get_max_clock, get_limit, get_power_field,
    get_temperature, get_field_int, get_ecc_mode, get_ecc, get_retired, get_remapped;
enum { MEMORY_TOTAL, MEMORY_RESERVED, MEMORY_USED, MEMORY_FREE };
enum { REMAP_COR, REMAP_UNC, REMAP_PENDING, REMAP_FAILURE };
/* get_ecc: error type and counter in one number. */
#define GET_ECC(error, counter) ((error) << 8 | (counter))
enum { ECC_COR, ECC_UNC };
enum { ECC_VOL, ECC_AGG };

/* --- outputs ------------------------------------------------------------------------------------------------------ */

/* query.c: the CSV of --query-gpu or --query-compute-apps; `set` NULL checks the words only. Prints what is wrong with
 * them and returns 2 (the exit code), else 0. */
int query_write(GpuSet *set, bool apps, const char *fields, const char *format, FILE *file);
void query_help(bool apps);
/* xml.c: -q -x */
void xml_write(GpuSet *set, FILE *file);
/* summary.c: the table without arguments, and -L: a line per GPU and MIG device. */
void summary_write(GpuSet *set, FILE *file);
void summary_list(GpuSet *set, FILE *file);

/* topo.c, mig.c: verbs. argv[0] is the verb; the result is the exit code. */
int topo_main(int argc, char **argv);
int mig_main(int argc, char **argv);
