/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file format of boards: what is written here is all there is, and docs/appendix/scenarios.md is made from it.
 */
#include "sim/scenario/board.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "sim/scenario/field.h"
#include "sim/scenario/library.h"

/* Index is the number NVML gives: nvmlBrandType_t, NVML_DEVICE_ARCH_*, NVML_NVLINK_VERSION_*. */
static const char *const brands[] = {"unknown",    "quadro",     "tesla",  "nvs",         "grid",      "geforce",
                                     "titan",      "vapps",      "vpc",    "vcs",         "vws",       "cloud-gaming",
                                     "quadro-rtx", "nvidia-rtx", "nvidia", "geforce-rtx", "titan-rtx", NULL};
static const char *const architectures[] = {"none",   "reserved", "kepler", "maxwell",   "pascal", "volta", "turing",
                                            "ampere", "ada",      "hopper", "blackwell", "rubin",  NULL};
static const char *const link_versions[] = {"none", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0", NULL};
static const char *const addressings[] = {"none", "hmm", "ats", NULL};
static const char *const peers[] = {"peer", "switch", NULL};

/* What the file has beside the members of SimBoard. */
typedef struct BoardFile {
    SimBoard board;
    const YamlNode *mem_clocks, *profiles;
} BoardFile;

#define AT(member) offsetof(BoardFile, board.member)
#define NEED FIELD_NEEDED
#define CHARS(k, member, h)                                                                                            \
    {                                                                                                                  \
        k, FIELD_CHARS, NEED, AT(member), sizeof(((SimBoard *)0)->member), 0, 0, NULL, NULL, NULL, h                   \
    }
#define NUM(k, member, lo, hi, u, h)                                                                                   \
    {                                                                                                                  \
        k, FIELD_U32, NEED, AT(member), 0, lo, hi, NULL, NULL, u, h                                                    \
    }
#define HEX(k, member, h)                                                                                              \
    {                                                                                                                  \
        k, FIELD_HEX, NEED, AT(member), 0, 0, 0, NULL, NULL, NULL, h                                                   \
    }
#define DEG(k, member, lo, hi, fl, h)                                                                                  \
    {                                                                                                                  \
        k, FIELD_I32, fl, AT(member), 0, lo, hi, NULL, NULL, NULL, h                                                   \
    }
#define REAL(k, member, lo, hi, u, h)                                                                                  \
    {                                                                                                                  \
        k, FIELD_DOUBLE, NEED, AT(member), 0, lo, hi, NULL, NULL, u, h                                                 \
    }
#define WATT(k, member, h)                                                                                             \
    {                                                                                                                  \
        k, FIELD_MILLI, NEED, AT(member), 0, 1, 5000, NULL, NULL, "W", h                                               \
    }
#define HAS(k, member, h)                                                                                              \
    {                                                                                                                  \
        "has." k, FIELD_BOOL, 0, AT(member), 0, 0, 0, NULL, "no", NULL, h                                              \
    }
#define NAME(k, member, fl, n, d, h)                                                                                   \
    {                                                                                                                  \
        k, FIELD_ENUM, fl, AT(member), 0, 0, 0, n, d, NULL, h                                                          \
    }
#define MAYBE(k, member, hi, h)                                                                                        \
    {                                                                                                                  \
        k, FIELD_U32, 0, AT(member), 0, 0, hi, NULL, "0", NULL, h                                                      \
    }

static const Field board_fields[] = {
    CHARS("name", name, "product name as NVML reports it"),
    NAME("brand", brand, NEED, brands, NULL, "brand as NVML reports it"),
    NAME("architecture", arch, NEED, architectures, NULL, "architecture"),
    NUM("compute.major", cc_major, 3, 20, NULL, "CUDA compute capability"),
    NUM("compute.minor", cc_minor, 0, 9, NULL, "CUDA compute capability"),
    CHARS("part_number", part_number, "board part number"),
    CHARS("vbios", vbios, "VBIOS version"),
    CHARS("inforom.image", inforom_image, "inforom image version"),
    CHARS("inforom.oem", inforom_oem, "OEM object version"),
    CHARS("inforom.ecc", inforom_ecc, "ECC object version, N/A without"),
    CHARS("inforom.power", inforom_power, "power object version, N/A without"),
    HEX("pci.device", pci_device_id, "device << 16 \\| vendor"),
    HEX("pci.subsystem", pci_subsystem_id, "subsystem << 16 \\| vendor"),
    HEX("pci.class", pci_class, "0x030200 3D controller, 0x030000 VGA"),
    NUM("pci.gen", pcie_gen, 1, 7, NULL, "highest generation of card and slot"),
    NUM("pci.gpu_gen", gpu_max_pcie_gen, 1, 7, NULL, "highest generation of the card"),
    NUM("pci.idle_gen", idle_pcie_gen, 1, 7, NULL, "generation the link rests at without work"),
    NUM("pci.width", pcie_width, 1, 32, NULL, "lanes"),
    NUM("memory.total_mib", memory_mib, 256, 2000000, "MiB", "frame buffer"),
    NUM("memory.reserved_mib", reserved_mib, 0, 100000, "MiB", "kept by the driver"),
    NUM("memory.bar1_mib", bar1_mib, 16, 4000000, "MiB", "BAR1 aperture"),
    NUM("memory.bus_bits", bus_width_bits, 64, 16384, NULL, "bus width"),
    NUM("sm.count", sm_count, 1, 1024, NULL, "streaming multiprocessors"),
    NUM("sm.cores", cores_per_sm, 1, 1024, NULL, "FP32 cores of each"),
    NUM("clocks.sm_max", sm_clock_max, 100, 6000, "MHz", "highest SM clock"),
    NUM("clocks.sm_base", sm_clock_base, 100, 6000, "MHz", "base SM clock"),
    NUM("clocks.sm_idle", sm_clock_idle, 50, 6000, "MHz", "SM clock without work"),
    NUM("clocks.sm_min", sm_clock_min, 50, 6000, "MHz", "lowest SM clock"),
    NUM("clocks.sm_step", sm_clock_step, 1, 500, "MHz", "distance of two supported SM clocks"),
    NUM("clocks.mem_max", mem_clock_max, 100, 30000, "MHz", "highest memory clock"),
    NUM("clocks.mem_idle", mem_clock_idle, 100, 30000, "MHz", "memory clock without work"),
    NUM("clocks.video_max", video_clock_max, 100, 6000, "MHz", "highest video clock"),
    NUM("clocks.video_idle", video_clock_idle, 50, 6000, "MHz", "video clock without work"),
    {"clocks.mem", FIELD_NODE, NEED, offsetof(BoardFile, mem_clocks), 0, 0, 0, NULL, NULL, NULL,
     "supported memory clocks, highest first, at most 8"},
    NUM("clocks.idle_pstate", idle_pstate, 0, 15, NULL, "performance state without work"),
    WATT("power.min", power_min_mw, "lowest power limit"),
    WATT("power.default", power_default_mw, "power limit at driver load"),
    WATT("power.max", power_max_mw, "highest power limit"),
    REAL("power.idle", idle_w, 1, 1000, "W", "nothing runs"),
    REAL("power.context", context_w, 1, 1000, "W", "a process holds a context"),
    REAL("power.sm", watt_sm, 0, 2000, "W", "all SMs occupied, on top of context"),
    REAL("power.tensor", watt_tensor, 0, 3000, "W", "tensor pipes always busy"),
    REAL("power.fp", watt_fp, 0, 2000, "W", "FP32 pipes always busy"),
    REAL("power.dram", watt_dram, 0, 2000, "W", "memory at full bandwidth"),
    REAL("power.link", watt_link, 0, 500, "W", "all NVLinks at full bandwidth, both ways"),
    DEG("temperature.shutdown", temp_shutdown, 50, 130, NEED, "the GPU switches off"),
    DEG("temperature.slowdown", temp_slowdown, 50, 130, NEED, "hardware slowdown"),
    DEG("temperature.gpu_max", temp_gpu_max, 50, 130, NEED, "software slowdown"),
    DEG("temperature.mem_max", temp_mem_max, 0, 130, NEED, "highest memory temperature, 0 without a sensor"),
    REAL("temperature.ambient", ambient_c, -20, 60, NULL, "inlet air"),
    REAL("temperature.kelvin_per_watt", kelvin_per_watt, 0.001, 5, NULL, "thermal resistance"),
    REAL("temperature.tau", tau_s, 0.1, 600, "s", "time constant of heating"),
    REAL("temperature.mem_offset", mem_temp_offset_c, -30, 40, NULL, "memory is warmer than the GPU by"),
    DEG("tlimit.shutdown", tlimit_shutdown, -60, 60, 0, "T.Limit margin of shutdown"),
    DEG("tlimit.slowdown", tlimit_slowdown, -60, 60, 0, "T.Limit margin of hardware slowdown"),
    DEG("tlimit.mem_max", tlimit_mem_max, -60, 60, 0, "T.Limit margin of the memory"),
    DEG("tlimit.gpu_max", tlimit_gpu_max, -60, 60, 0, "T.Limit margin of software slowdown"),
    HAS("tlimit", has_tlimit, "reports margins instead of temperatures"),
    HAS("mem_temp", has_mem_temp, "memory temperature"),
    HAS("ecc", has_ecc, "ECC memory"),
    HAS("remap", has_remap, "row remapping"),
    HAS("retired_pages", has_retired_pages, "page retirement (before Ampere)"),
    HAS("gpm", has_gpm, "performance monitoring without the profiler (Hopper and later)"),
    HAS("instant_power", has_instant_power, "instant beside average power"),
    HAS("module_power", has_module_power, "power of the whole module"),
    HAS("c2c", has_c2c, "chip-to-chip link to a CPU"),
    HAS("display", has_display, "a display is attached"),
    NAME("addressing", addressing_mode, 0, addressings, "none", "addressing mode"),
    MAYBE("remap_banks", remap_banks, 100000, "banks of the row remapper"),
    MAYBE("fans", fans, 16, "fans of its own; 0: cooled by the server"),
    MAYBE("links.count", link_count, SIM_LINK_MAX, "NVLinks"),
    NAME("links.version", link_version, 0, link_versions, "none", "NVLink version"),
    MAYBE("links.mbytes_per_s", link_mbytes_per_s, 1000000, "per link and direction"),
    NAME("links.to", link_to_switch, 0, peers, "peer", "what is at the other end"),
    {"links.fabric", FIELD_BOOL, 0, AT(has_fabric), 0, 0, 0, NULL, "no", NULL, "registers with the fabric manager"},
    NUM("engines.copy", copy_engines, 0, 64, NULL, "copy engines"),
    NUM("engines.dec", dec_engines, 0, 64, NULL, "decoders"),
    NUM("engines.enc", enc_engines, 0, 64, NULL, "encoders"),
    NUM("engines.jpg", jpg_engines, 0, 64, NULL, "JPEG engines"),
    NUM("engines.ofa", ofa_engines, 0, 64, NULL, "optical flow engines"),
    MAYBE("mig.grid", mig_grid, 16, "memory slices that instances are placed on; 0: no MIG"),
    MAYBE("mig.slices", mig_slices, 16, "compute slices"),
    MAYBE("mig.max_devices", mig_max_devices, SIM_GI_MAX, "most instances"),
    {"mig.needs_reset", FIELD_BOOL, 0, AT(mig_needs_reset), 0, 0, 0, NULL, "no", NULL,
     "a change of the mode waits for a reset"},
    {"mig.profiles", FIELD_NODE, 0, offsetof(BoardFile, profiles), 0, 0, 0, NULL, NULL, NULL,
     "profiles, at most 20, see below"},
};
_Static_assert(ARRAY_LEN(board_fields) <= FIELD_MAX, "raise FIELD_MAX");

typedef struct ProfileFile {
    SimProfile profile;
    const YamlNode *starts;
    uint32_t p2p, graphics;
} ProfileFile;

#define PROFILE(k, member, hi, h)                                                                                      \
    {                                                                                                                  \
        k, FIELD_U32, NEED, offsetof(ProfileFile, profile.member), 0, 0, hi, NULL, NULL, NULL, h                       \
    }
static const Field profile_fields[] = {
    {"name", FIELD_CHARS, NEED, offsetof(ProfileFile, profile.name), sizeof(((SimProfile *)0)->name), 0, 0, NULL, NULL,
     NULL, "as nvidia-smi mig -lgip shows it"},
    PROFILE("index", index, 31, "NVML_GPU_INSTANCE_PROFILE_*"),
    PROFILE("id", id, 255, "what nvidia-smi mig -cgi takes"),
    PROFILE("slices", slices, 16, "compute slices"),
    PROFILE("max", max_instances, 16, "most instances of this profile"),
    PROFILE("sm", sm, 1024, "streaming multiprocessors"),
    PROFILE("memory_mib", memory_mib, 2000000, "memory"),
    PROFILE("copy", copy, 64, "copy engines"),
    PROFILE("dec", dec, 64, "decoders"),
    PROFILE("enc", enc, 64, "encoders"),
    PROFILE("jpg", jpg, 64, "JPEG engines"),
    PROFILE("ofa", ofa, 64, "optical flow engines"),
    PROFILE("size", place_size, 16, "memory slices it covers"),
    {"starts", FIELD_NODE, NEED, offsetof(ProfileFile, starts), 0, 0, 0, NULL, NULL, NULL,
     "memory slices it may start at, at most 8"},
    {"p2p", FIELD_BOOL, 0, offsetof(ProfileFile, p2p), 0, 0, 0, NULL, "no", NULL, "peer-to-peer copies"},
    {"graphics", FIELD_BOOL, 0, offsetof(ProfileFile, graphics), 0, 0, 0, NULL, "no", NULL, "graphics APIs"},
};

static const FieldSet board_set = {board_fields, ARRAY_LEN(board_fields), "a board"};
static const FieldSet profile_set = {profile_fields, ARRAY_LEN(profile_fields), "a MIG profile"};

/* A list of at most `max` numbers up to `highest`. */
static int numbers_read(const YamlNode *list, const char *what, uint32_t max, uint32_t highest, uint32_t *out,
                        uint32_t *ret_count, Err *err)
{
    TRY(yaml_want(list, YAML_SEQ, what, err));
    if (list->len == 0 || list->len > max)
        return field_fail(list, err, "'%s' must have 1 to %u entries, not %zu", what, max, list->len);
    for (size_t i = 0; i < list->len; i++) {
        Field one = {.key = what, .type = FIELD_U32, .max = highest};
        const char *text = yaml_text(list->items[i]);
        if (!text)
            return field_fail(list->items[i], err, "'%s' must list numbers", what);
        TRY(field_read_text(&one, text, list->items[i], NULL, &out[i], err));
    }
    *ret_count = (uint32_t)list->len;
    return 0;
}

static int profile_read(const YamlNode *node, const SimBoard *board, Arena *arena, SimProfile *ret, Err *err)
{
    ProfileFile file = {0};
    bool seen[FIELD_MAX];
    uint32_t starts[SIM_PLACE_MAX] = {0};
    TRY(field_defaults(&profile_set, arena, &file, err));
    TRY(field_read_map(&profile_set, node, arena, &file, seen, err));
    SimProfile *p = &file.profile;
    TRY(numbers_read(file.starts, "starts", SIM_PLACE_MAX, board->mig_grid - 1, starts, &p->place_count, err));
    for (uint32_t i = 0; i < p->place_count; i++) {
        if (starts[i] + p->place_size > board->mig_grid)
            return field_fail(file.starts->items[i], err, "start %u with size %u leaves the grid of %u", starts[i],
                              p->place_size, board->mig_grid);
        p->place_start[i] = (uint8_t)starts[i];
    }
    if (p->slices == 0 || p->slices > board->mig_slices || p->sm > board->sm_count || p->memory_mib > board->memory_mib)
        return field_fail(node, err, "profile '%s' is larger than its board", p->name);
    if (p->place_size == 0)
        return field_fail(node, err, "profile '%s' must cover at least one memory slice", p->name);
    p->capabilities = (file.p2p ? 1u : 0u) | (file.graphics ? 2u : 0u);
    *ret = *p;
    return 0;
}

static int profiles_read(BoardFile *file, Arena *arena, Err *err)
{
    SimBoard *b = &file->board;
    TRY(yaml_want(file->profiles, YAML_SEQ, "mig.profiles", err));
    if (!b->mig_grid || !b->mig_slices || !b->mig_max_devices)
        return field_fail(file->profiles, err, "'mig' needs grid, slices and max_devices above 0");
    if (file->profiles->len == 0 || file->profiles->len > SIM_PROFILE_MAX)
        return field_fail(file->profiles, err, "'mig.profiles' must have 1 to %d entries, not %zu", SIM_PROFILE_MAX,
                          file->profiles->len);
    for (size_t i = 0; i < file->profiles->len; i++) {
        SimProfile profile = {0};
        TRY(profile_read(file->profiles->items[i], b, arena, &profile, err));
        if (board_profile_find(b, profile.name) >= 0)
            return field_fail(file->profiles->items[i], err, "profile '%s' is listed twice", profile.name);
        b->profiles[b->profile_count++] = profile;
    }
    b->has_mig = 1;
    return 0;
}

/* What no row can say alone. */
static int board_check(const SimBoard *b, const YamlNode *root, Err *err)
{
    if (b->power_min_mw > b->power_default_mw || b->power_default_mw > b->power_max_mw)
        return field_fail(root, err, "power: min, default and max must rise");
    if (b->sm_clock_min > b->sm_clock_max || b->sm_clock_idle > b->sm_clock_max || b->sm_clock_base > b->sm_clock_max)
        return field_fail(root, err, "clocks: sm_max must be the highest SM clock");
    if (b->temp_gpu_max > b->temp_slowdown || b->temp_slowdown > b->temp_shutdown)
        return field_fail(root, err, "temperature: gpu_max, slowdown and shutdown must rise");
    if (b->idle_w > b->context_w || b->context_w * 1000 > b->power_default_mw)
        return field_fail(root, err, "power: idle, context and default must rise");
    if (b->mem_clocks[0] != b->mem_clock_max)
        return field_fail(root, err, "clocks: the first of mem must be mem_max");
    if (b->link_count && (!b->link_version || !b->link_mbytes_per_s))
        return field_fail(root, err, "links: version and mbytes_per_s must be given");
    if (b->reserved_mib >= b->memory_mib)
        return field_fail(root, err, "memory: reserved_mib must be below total_mib");
    return 0;
}

int board_parse(const char *name, const char *key, const char *text, size_t len, SimBoard *ret, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP_FREE BoardFile *file = xcalloc(1, sizeof *file);
    bool seen[FIELD_MAX];
    const YamlNode *root = NULL;
    if (strlen(key) >= sizeof file->board.key)
        return err_set(err, -EINVAL, "%s: the name of a board must have at most %zu bytes", name,
                       sizeof file->board.key - 1);
    TRY(yaml_load(name, text, len, &arena, &root, err));
    if (!root)
        return err_set(err, -EINVAL, "%s: the file is empty", name);
    TRY(field_defaults(&board_set, &arena, file, err));
    TRY(field_read_map(&board_set, root, &arena, file, seen, err));
    TRY(numbers_read(file->mem_clocks, "clocks.mem", ARRAY_LEN(file->board.mem_clocks), 30000, file->board.mem_clocks,
                     &file->board.mem_clock_count, err));
    if (file->profiles)
        TRY(profiles_read(file, &arena, err));
    TRY(board_check(&file->board, root, err));
    memcpy(file->board.key, key, strlen(key) + 1);
    *ret = file->board;
    return 0;
}

int board_profile_find(const SimBoard *board, const char *name)
{
    for (uint32_t i = 0; i < board->profile_count; i++)
        if (strcmp(board->profiles[i].name, name) == 0)
            return (int)i;
    return -1;
}

void board_page(Str *out)
{
    fields_page(board_fields, ARRAY_LEN(board_fields), out);
    str_add(out, "\nA MIG profile:\n\n");
    fields_page(profile_fields, ARRAY_LEN(profile_fields), out);
}

/* --- sets: boards in directories, each file read once ------------------------------------------------------------ */

void board_set_init(BoardSet *set, const char *const *dirs)
{
    memset(set, 0, sizeof *set);
    for (; dirs && *dirs && set->dir_count < BOARD_DIR_MAX; dirs++)
        set->dirs[set->dir_count++] = *dirs;
}

void board_set_done(BoardSet *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->boards[i]);
    memset(set, 0, sizeof *set);
}

const char *const *board_set_names(const BoardSet *set, Arena *arena)
{
    const char *dirs[BOARD_DIR_MAX + 1] = {0};
    memcpy(dirs, set->dirs, set->dir_count * sizeof *dirs);
    size_t count = 0;
    return library_names(dirs, arena, &count);
}

/* 0 read, 1 there is no such file in that directory. */
static int board_read(const char *dir, const char *key, SimBoard *board, Err *err)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.yaml", dir, key) >= (int)sizeof path)
        return 1;
    CLEANUP(str_done) Str text;
    str_init(&text, BOARD_BYTES_MAX);
    int rc = file_read(path, BOARD_BYTES_MAX, &text, err);
    if (rc == -ENOENT)
        return 1;
    TRY(rc);
    return board_parse(path, key, text.text, text.len, board, err);
}

static int board_missing(const BoardSet *set, const char *key, const YamlNode *node, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    const char *const *names = board_set_names(set, &arena);
    if (names[0])
        return field_unknown(node, err, "board", key, names);
    return field_fail(node, err, "unknown board '%.40s': there is no board file in %s", key,
                      set->dir_count ? set->dirs[0] : "(no directory)");
}

int board_set_get(BoardSet *set, const char *key, const YamlNode *node, const SimBoard **ret, Err *err)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->boards[i]->key, key) == 0) {
            *ret = set->boards[i];
            return 0;
        }
    if (!library_name_ok(key))
        return board_missing(set, key, node, err);
    if (set->count == ARRAY_LEN(set->boards))
        return field_fail(node, err, "more than %zu boards", ARRAY_LEN(set->boards));
    CLEANUP_FREE SimBoard *board = xcalloc(1, sizeof *board);
    for (size_t i = 0; i < set->dir_count; i++) {
        int rc = board_read(set->dirs[i], key, board, err);
        TRY(rc);
        if (rc == 0) {
            *ret = set->boards[set->count++] = TAKE(board);
            return 0;
        }
    }
    return board_missing(set, key, node, err);
}
