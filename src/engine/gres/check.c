/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the lines of a gres.conf with the hardware. */
#include "engine/gres/gres.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"

enum { PROFILE_TOLERANCE_PERCENT = 15 };

typedef struct Names {
    size_t count;
    const char *at[GRES_FILES_MAX];
    Arena *arena;
} Names;

typedef struct Check {
    const GresNode *node;
    Arena *arena;
    GresConf *conf;
    size_t device_count;
    GresDevice devices[GRES_DEVICES_MAX];
    bool listed[GRES_DEVICES_MAX];
    bool detects; /* AutoDetect is on, whatever it finds */
    bool unread;  /* some GPUs could not be read */
    size_t lines; /* of gpu */
    size_t last;  /* highest device so far */
    bool disordered;
    Names names; /* of the line that is checked */
} Check;

static void add_problem(Check *check, GresFinding kind, const GresRecord *record, const char *configured,
                        const char *hardware)
{
    gres_conf_add(check->conf, kind, record->file, record->line, configured, hardware);
}

static const char *keep_text(Check *check, Str *text)
{
    const char *kept = arena_strndup(check->arena, text->len ? text->text : "", text->len);
    str_done(text);
    return kept;
}

static const char *name_files(Check *check, size_t device)
{
    Str text = str_limited(256);
    gres_add_files(&check->devices[device], &text);
    return keep_text(check, &text);
}

static const char *name_type(Check *check, size_t device)
{
    Str text = str_limited(256);
    gres_add_type(&check->devices[device], &text);
    return keep_text(check, &text);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static int keep_name(void *at, const char *name)
{
    Names *names = at;
    names->at[names->count++] = arena_strdup(names->arena, name);
    return 0;
}

/* The number of "<prefix>NUMBER"; -1: it has another form. */
static int64_t number_behind(const char *file, const char *prefix)
{
    const size_t len = strlen(prefix);
    uint64_t number;
    if (strncmp(file, prefix, len) != 0 || number_parse_u64(file + len, 0, UINT32_MAX, &number, NULL) < 0)
        return -1;
    return (int64_t)number;
}

static const GresGpu *find_gpu(const GresNode *node, int64_t minor)
{
    for (size_t i = 0; i < node->count; i++)
        if (!node->gpus[i].why[0] && node->gpus[i].minor == minor)
            return &node->gpus[i];
    return NULL;
}

/* The device that is this whole GPU, or -1. */
static int find_whole(const Check *check, const GresGpu *gpu)
{
    for (size_t i = 0; i < check->device_count; i++)
        if (check->devices[i].gpu == gpu && !check->devices[i].instance)
            return (int)i;
    return -1;
}

/* The MIG device with this access file: that of its compute instance, or also that of its GPU instance. -1: none. */
static int find_instance(const Check *check, int64_t minor, bool compute)
{
    for (size_t i = 0; i < check->device_count; i++) {
        const GresInstance *one = check->devices[i].instance;
        if (one && (one->ci_minor == minor || (!compute && one->gi_minor == minor)))
            return (int)i;
    }
    return -1;
}

/* The device behind one file of File=. -1, and what is wrong is said. */
static int resolve_file(Check *check, const GresRecord *record, const char *file)
{
    const int64_t minor = number_behind(file, "/dev/nvidia");
    const GresGpu *gpu = minor < 0 ? NULL : find_gpu(check->node, minor);
    if (gpu && gpu->mig)
        add_problem(check, GRES_WHOLE_OF_MIG, record, file,
                    arena_printf(check->arena, "MIG mode, %zu instances", gpu->instance_count));
    else if (gpu)
        return find_whole(check, gpu);
    else if (minor >= 0 && !check->unread)
        add_problem(check, GRES_FILE_MISSING, record, file, arena_printf(check->arena, "%zu GPUs", check->node->count));
    else if (minor < 0 && strncmp(file, "/dev/nvidia", 11) == 0)
        add_problem(check, GRES_NOT_A_GPU, record, file, "");
    return -1;
}

/* The MIG device behind the files of MultipleFiles=. */
static int resolve_files(Check *check, const GresRecord *record)
{
    const Names *names = &check->names;
    int found = -1;
    size_t right = 0;
    for (size_t i = 0; i < names->count; i++) {
        const int64_t minor = number_behind(names->at[i], "/dev/nvidia-caps/nvidia-cap");
        if (minor >= 0 && find_instance(check, minor, false) < 0) {
            if (!check->unread)
                add_problem(check, GRES_INSTANCE_GONE, record, names->at[i], "");
            return -1;
        }
        if (minor >= 0 && found < 0)
            found = find_instance(check, minor, true);
    }
    if (found < 0) {
        add_problem(check, GRES_PARTS, record, record->multiple, "");
        return -1;
    }
    const GresDevice *device = &check->devices[found];
    for (size_t i = 0; i < names->count; i++)
        right += number_behind(names->at[i], "/dev/nvidia") == device->gpu->minor ||
                 number_behind(names->at[i], "/dev/nvidia-caps/nvidia-cap") == device->instance->gi_minor ||
                 number_behind(names->at[i], "/dev/nvidia-caps/nvidia-cap") == device->instance->ci_minor;
    if (right == names->count && right == 3)
        return found;
    add_problem(check, GRES_PARTS, record, record->multiple, name_files(check, (size_t)found));
    return -1;
}

/* --- Type, Cores, Links ------------------------------------------------------------------------------------------- */

/* The profile in a type, "3g.40gb" of "a100_3g.40gb"; false: none is in it. */
static bool find_profile(const char *type, unsigned *slices, unsigned *gb)
{
    for (const char *c = type; *c; c++)
        if (isdigit((unsigned char)*c) && (c == type || !isdigit((unsigned char)c[-1])) &&
            sscanf(c, "%4ug.%6ugb", slices, gb) == 2)
            return true;
    return false;
}

/* Slurm before 23.11 makes the name of the instance's memory: 1g.16gb of an H200's 1g.18gb. */
static bool same_profile(const char *a, const char *b)
{
    unsigned slices[2], gb[2];
    if (!find_profile(a, &slices[0], &gb[0]) || !find_profile(b, &slices[1], &gb[1]))
        return false;
    const unsigned high = gb[0] > gb[1] ? gb[0] : gb[1], low = gb[0] + gb[1] - high;
    return slices[0] == slices[1] && (high - low) * 100 <= high * PROFILE_TOLERANCE_PERCENT;
}

/* Without AutoDetect a Type may be any word; one that names a profile or NVIDIA's name of a board has to be right. */
static bool type_fits(const Check *check, const char *type, const GresDevice *device, const char *real)
{
    unsigned slices, gb;
    if (strcasestr(real, type))
        return true;
    if (find_profile(type, &slices, &gb))
        return device->instance && same_profile(type, device->instance->profile);
    return !check->detects && !strcasestr(type, "nvidia");
}

static void check_type(Check *check, const GresRecord *record, size_t device)
{
    const char *real = name_type(check, device);
    if (record->type && !type_fits(check, record->type, &check->devices[device], real))
        add_problem(check, GRES_TYPE, record, record->type, real);
}

static void add_core(void *at, uint64_t core)
{
    core_set_add(at, (unsigned)core);
}

static void check_cores(Check *check, const GresRecord *record, size_t device)
{
    const GresGpu *gpu = check->devices[device].gpu;
    const unsigned limit = check->node->core_count ? check->node->core_count : GRES_CORES_MAX;
    CoreSet cores = {0};
    Str real = str_limited(8 * GRES_CORES_MAX);
    if (!number_walk_list(record->cores, limit - 1, add_core, &cores)) {
        str_addf(&real, "%u cores", check->node->core_count);
        add_problem(check, GRES_CORES_INVALID, record, record->cores, keep_text(check, &real));
    } else if (gpu->cores_known && memcmp(&cores, &gpu->cores, sizeof cores) != 0) {
        gres_add_cores(&gpu->cores, &real);
        add_problem(check, GRES_CORES, record, record->cores, keep_text(check, &real));
    }
    str_done(&real);
}

/* How many numbers a list has; 0 where it is no list with one -1. */
static size_t parse_links(const char *text, int ret[GRES_GPUS_MAX])
{
    size_t count = 0, selves = 0;
    for (char *end; count < GRES_GPUS_MAX; text = end + 1) {
        const long number = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || number < -2 || number > INT16_MAX)
            return 0;
        selves += number == -1;
        ret[count++] = (int)number;
        if (!*end)
            return selves == 1 ? count : 0;
    }
    return 0;
}

static void check_links(Check *check, const GresRecord *record, size_t device)
{
    const GresGpu *gpu = check->devices[device].gpu;
    int links[GRES_GPUS_MAX] = {0};
    const size_t count = parse_links(record->links, links);
    bool same = count == check->node->count;
    if (!count || count > check->device_count || check->names.count > (record->multiple ? 3 : 1)) {
        add_problem(check, GRES_LINKS_INVALID, record, record->links, "");
        return;
    }
    for (size_t i = 0; i < check->node->count && same; i++)
        same = links[i] == (i == gpu->index ? -1 : gpu->links[i]);
    if (same || check->devices[device].instance || check->unread)
        return;
    Str real = str_limited(1024);
    gres_add_links(check->node, gpu, &real);
    add_problem(check, GRES_LINKS, record, record->links, keep_text(check, &real));
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void check_place(Check *check, const GresRecord *record, size_t device)
{
    if (check->listed[device])
        add_problem(check, record->multiple ? GRES_SHARED : GRES_DUPLICATE, record, name_files(check, device), "");
    else if (!check->detects && device < check->last && !check->disordered) {
        check->disordered = true;
        add_problem(check, GRES_ORDER, record, name_files(check, device),
                    arena_printf(check->arena, "GPU %u, which is before GPU %u", check->devices[device].gpu->index,
                                 check->devices[check->last].gpu->index));
    }
    check->listed[device] = true;
    if (device > check->last)
        check->last = device;
}

static void check_devices(Check *check, const GresRecord *record)
{
    const size_t first = check->conf->problem_count;
    for (size_t i = 0; i < (record->multiple ? 1 : check->names.count); i++) {
        const int device =
            record->multiple ? resolve_files(check, record) : resolve_file(check, record, check->names.at[i]);
        if (device < 0)
            continue;
        check_place(check, record, (size_t)device);
        if (check->conf->problem_count > first) /* once for a line */
            continue;
        check_type(check, record, (size_t)device);
        if (record->cores)
            check_cores(check, record, (size_t)device);
        if (record->links)
            check_links(check, record, (size_t)device);
    }
}

/* "4", "2K"; false where it is no number. */
static bool parse_count(const char *text, uint64_t *ret)
{
    char *end;
    const long long number = strtoll(text, &end, 10);
    const char *suffixes = "KMGTP", *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    if (end == text || number < 0 || (*end && (!suffix || end[1])))
        return false;
    const int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (number > INT64_MAX >> shift)
        return false;
    *ret = (uint64_t)number << shift;
    return true;
}

static void check_count(Check *check, const GresRecord *record)
{
    uint64_t count = 0;
    const size_t devices = record->multiple ? 1 : check->names.count;
    if (record->count && (!parse_count(record->count, &count) || (devices && count != devices)))
        add_problem(check, GRES_COUNT, record, record->count, arena_printf(check->arena, "%zu devices", devices));
}

static void check_record(Check *check, const GresRecord *record)
{
    const char *list = record->multiple ? record->multiple : record->files;
    check->lines++;
    check->names.count = 0;
    if (record->files && record->multiple) {
        add_problem(check, GRES_FILE_TWICE, record, record->multiple, "");
        return;
    }
    if (list && gres_expand(list, GRES_FILES_MAX, keep_name, &check->names) < 0) {
        add_problem(check, GRES_SYNTAX, record, list, "");
        return;
    }
    if (!list && !check->detects)
        add_problem(check, GRES_NO_FILE, record, record->type ? record->type : record->name, "");
    check_count(check, record);
    if (record->multiple && check->names.count < 2)
        add_problem(check, GRES_ONE_FILE, record, record->multiple, "");
    else
        check_devices(check, record);
}

/* All lines have File or none, and Type as well. */
static void check_mixed(Check *check, const GresRecord *first, const GresRecord *record)
{
    const bool file = record->files || record->multiple;
    if (file != (first->files || first->multiple))
        add_problem(check, GRES_FILE_MIXED, record, file ? "File" : "no File", "");
    if (!record->type != !first->type)
        add_problem(check, GRES_TYPE_MIXED, record, record->type ? record->type : "no Type", "");
}

static void check_records(Check *check)
{
    const GresRecord *first = NULL;
    for (size_t i = 0; i < check->conf->record_count; i++) {
        const GresRecord *record = &check->conf->records[i];
        if (strcasecmp(record->name, "gpu") != 0)
            continue;
        if (first)
            check_mixed(check, first, record);
        else
            first = record;
        check_record(check, record);
        if (record->multiple && strcmp(check->conf->autodetect, "nvml") == 0)
            add_problem(check, GRES_AUTODETECT_LINES, record, record->multiple, "");
    }
}

/* --- the file as a whole ------------------------------------------------------------------------------------------ */

static void add_autodetect(Check *check, GresFinding kind, const char *hardware)
{
    const GresConf *conf = check->conf;
    gres_conf_add(check->conf, kind, conf->path, conf->autodetect_line, conf->autodetect, hardware);
}

static void check_autodetect(Check *check)
{
    static const char *const known[] = {"nvml", "nvidia", "off", "rsmi", "oneapi", "nrt", "full"};
    const char *word = check->conf->autodetect;
    bool is_known = !*word;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        is_known |= strcmp(known[i], word) == 0;
    if (!is_known)
        add_autodetect(check, GRES_AUTODETECT_WORD, "");
    check->detects = *word && is_known && strcmp(word, "off") != 0;
    if (strcmp(word, "nvml") == 0 && check->node->plugin == GRES_PLUGIN_MISSING)
        add_autodetect(check, GRES_AUTODETECT_PLUGIN, "");
    for (size_t i = 0; i < check->node->count; i++) {
        const GresGpu *gpu = &check->node->gpus[i];
        const char *where = arena_printf(check->arena, "GPU %u", gpu->index);
        if (gpu->mig && strcmp(word, "nvidia") == 0)
            add_autodetect(check, GRES_AUTODETECT_WHOLE, where);
        if (gpu->mig && !gpu->instance_count && strcmp(word, "nvml") == 0)
            add_autodetect(check, GRES_AUTODETECT_EMPTY, where);
    }
}

static void add_unlisted(Check *check)
{
    GresConf *conf = check->conf;
    for (size_t i = 0; i < conf->problem_count; i++)
        if (conf->problems[i].kind == GRES_SYNTAX || conf->problems[i].kind == GRES_INCLUDE)
            return; /* the device may be on a line that could not be read */
    if (!check->lines && check->device_count) {
        gres_conf_add(conf, GRES_NO_LINE, conf->path, 0, "",
                      arena_printf(check->arena, "%zu devices", check->device_count));
        return;
    }
    Str missing = str_limited(64 << 10);
    for (size_t i = 0; i < check->device_count; i++)
        if (!check->listed[i])
            str_addf(&missing, "%s%s", missing.len ? "; " : "", name_files(check, i));
    if (missing.len)
        gres_conf_add(conf, GRES_NOT_LISTED, conf->path, 0, "", keep_text(check, &missing));
    str_done(&missing);
}

void gres_check(const GresNode *node, Arena *arena, GresConf *conf)
{
    CLEANUP_FREE Check *check = xcalloc(1, sizeof *check);
    *check = (Check){.node = node, .arena = arena, .conf = conf, .names = {.arena = arena}};
    check->device_count = gres_list_devices(node, check->devices);
    for (size_t i = 0; i < node->count; i++)
        check->unread |= node->gpus[i].why[0] != '\0';
    check_autodetect(check);
    check_records(check);
    if (!check->detects)
        add_unlisted(check);
}
