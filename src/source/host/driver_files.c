/* SPDX-License-Identifier: Apache-2.0 */
#include "source/host/driver_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/number.h"
#include "base/str.h"
#include "base/vec.h"

enum { PATH_MAX_BYTES = 4096, DEVICES_MAX = 64 << 10, FILES_MAX = 2048 };

#if defined __aarch64__
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "x86_64-linux-gnu"
#endif

/* Where drivers are installed, and where a container's loader looks whatever its distribution is. */
static const char *const library_dirs[] = {"/usr/lib/" TRIPLET, "/usr/lib64", "/lib/" TRIPLET, "/lib64"};
static const char *const container_dirs[] = {"/usr/lib/" TRIPLET, "/usr/lib64"};
static const char *const programs[] = {"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced",
                                       "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"};
static const char *const sockets[] = {"/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket",
                                      "/tmp/nvidia-mps"};
static const char *const common_nodes[] = {DRIVER_COMMON_NODES};

typedef struct Finding {
    const DriverFilesPlace *place;
    Arena *arena;
    VEC(DriverFile) files;
    bool has_cuda;
} Finding;

static void add_file(Finding *f, const char *host, const char *container, bool socket)
{
    const char *root = strcmp(f->place->driver_root, "/") == 0 ? "" : f->place->driver_root;

    for (size_t i = 0; i < f->files.len; i++)
        if (strcmp(f->files.at[i].container, container) == 0)
            return;
    if (f->files.len < FILES_MAX)
        vec_push(&f->files, ((DriverFile){.host = arena_printf(f->arena, "%s%s", socket ? "" : root, host),
                                          .container = arena_strdup(f->arena, container),
                                          .socket = socket}));
}

/* A library under one name, wherever a loader may look for it. */
static void add_library(Finding *f, const char *host, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(container_dirs); i++)
        add_file(f, host, arena_printf(f->arena, "%s/%s", container_dirs[i], name), false);
    f->has_cuda |= strcmp(name, "libcuda.so.1") == 0;
}

/* "libcuda.so.590.48.01", of this driver. */
static bool is_of_version(const char *name, const char *version)
{
    const char *so = strstr(name, ".so.");

    return strncmp(name, "lib", 3) == 0 && so && version[0] && strcmp(so + strlen(".so."), version) == 0;
}

/* The file itself, and the links of the same folder that lead to it, one behind the other. */
static void add_name(Finding *f, const char *dir, const char *name)
{
    char path[PATH_MAX_BYTES], real[PATH_MAX_BYTES];
    const int len = snprintf(path, sizeof path, "%s%s/%s", f->place->root, dir, name);

    if (len < 0 || (size_t)len >= sizeof path)
        return;
    CLEANUP_FREE char *found = realpath(path, NULL);
    const char *base = found ? strrchr(found, '/') : NULL;
    if (!base || !is_of_version(base + 1, f->place->version) || strncmp(name, "lib", 3) != 0)
        return;
    snprintf(real, sizeof real, "%s/%s", dir, base + 1); /* the links of drivers stay in their folder */
    add_library(f, real, name);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool has_stem(struct dirent *const *entries, int count, const char *version, const char *name)
{
    const char *so = strstr(name, ".so");
    const size_t len = so ? (size_t)(so - name) + strlen(".so") : 0;

    for (int i = 0; so && i < count; i++)
        if (is_of_version(entries[i]->d_name, version) && strncmp(entries[i]->d_name, name, len) == 0 &&
            entries[i]->d_name[len] == '.')
            return true;
    return false;
}

/* Of thousands of names in such a folder only those of the driver are looked at. */
static int is_library(const struct dirent *entry)
{
    const char *name = entry->d_name;

    return strncmp(name, "libnv", 5) == 0 || strncmp(name, "libcuda", 7) == 0 ||
           (strncmp(name, "lib", 3) == 0 && strstr(name, "nvidia"));
}

static void add_libraries(Finding *f, const char *dir)
{
    char path[PATH_MAX_BYTES];
    struct dirent **entries = NULL;

    snprintf(path, sizeof path, "%s%s", f->place->root, dir);
    const int count = scandir(path, &entries, is_library, compare_names);
    for (int i = 0; i < count; i++)
        if (has_stem(entries, count, f->place->version, entries[i]->d_name))
            add_name(f, dir, entries[i]->d_name);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static void add_if_there(Finding *f, const char *seen, const char *path, bool socket)
{
    char full[PATH_MAX_BYTES];

    snprintf(full, sizeof full, "%s%s", seen, path);
    if (access(full, F_OK) == 0)
        add_file(f, path, path, socket);
}

static bool find_node(const char *seen, const char *path, DriverNode *ret)
{
    char full[PATH_MAX_BYTES];
    struct stat st;

    snprintf(full, sizeof full, "%s%s", seen, path);
    if (stat(full, &st) < 0 || !S_ISCHR(st.st_mode))
        return false;
    *ret = (DriverNode){.path = path, .major = major(st.st_rdev), .minor = minor(st.st_rdev)};
    return true;
}

/* The number before a name in /proc/devices; 0: it is not there. */
static uint32_t find_major(const char *seen, const char *name)
{
    char path[PATH_MAX_BYTES];
    CLEANUP(str_done) Str list = str_limited(DEVICES_MAX);
    const size_t len = strlen(name);

    snprintf(path, sizeof path, "%s/proc/devices", seen);
    if (file_read(path, DEVICES_MAX, &list, NULL) < 0)
        return 0;
    for (const char *line = list.text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char *end;
        const unsigned long number = strtoul(line, &end, 10);

        if (*end == ' ' && strncmp(end + 1, name, len) == 0 && (end[1 + len] == '\n' || end[1 + len] == '\0'))
            return (uint32_t)number;
    }
    return 0;
}

static void find_nodes(const DriverFilesPlace *place, Arena *arena, DriverFiles *ret)
{
    enum { GPUS_MAX = 64 };
    DriverNode *common = arena_calloc(arena, ARRAY_LEN(common_nodes), sizeof *common);
    DriverNode *gpus = arena_calloc(arena, GPUS_MAX, sizeof *gpus);

    ret->nodes = common;
    ret->gpus = gpus;
    for (size_t i = 0; i < ARRAY_LEN(common_nodes); i++)
        ret->node_count += find_node(place->dev, common_nodes[i], &common[ret->node_count]);
    for (unsigned i = 0; i < GPUS_MAX; i++)
        ret->gpu_count += find_node(place->dev, arena_printf(arena, "/dev/nvidia%u", i), &gpus[ret->gpu_count]);
    ret->caps_major = find_major(place->proc, "nvidia-caps");
}

void driver_files_find(const DriverFilesPlace *place, bool libraries, Arena *arena, DriverFiles *ret)
{
    Finding f = {.place = place, .arena = arena};

    *ret = (DriverFiles){.missing = ""};
    find_nodes(place, arena, ret);
    if (!libraries)
        return;
    for (size_t i = 0; i < ARRAY_LEN(library_dirs); i++)
        add_libraries(&f, library_dirs[i]);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        add_if_there(&f, place->root, arena_printf(arena, "/usr/bin/%s", programs[i]), false);
    for (size_t i = 0; i < ARRAY_LEN(sockets); i++)
        add_if_there(&f, place->dev, sockets[i], true);
    ret->files = arena_memdup(arena, f.files.at, f.files.len * sizeof *f.files.at);
    ret->file_count = f.files.len;
    vec_done(&f.files);
    if (!f.has_cuda)
        ret->missing =
            arena_printf(arena, "there is no libcuda.so.1 of driver %s below %s", place->version, place->driver_root);
    else if (ret->node_count == 0)
        ret->missing = "there is no /dev/nvidiactl: nvidia-modprobe -u -c 0 makes it";
}

int driver_files_link(const DriverFilesPlace *place, const DriverNode *nodes, size_t count, Err *err)
{
    char link[PATH_MAX_BYTES], target[PATH_MAX_BYTES];
    int made = 0;

    snprintf(link, sizeof link, "%s/dev/char", place->dev);
    if (access(link, F_OK) < 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(link, sizeof link, "%s/dev/char/%" PRIu32 ":%" PRIu32, place->dev, nodes[i].major, nodes[i].minor);
        snprintf(target, sizeof target, "..%s", nodes[i].path + strlen("/dev"));
        if (symlink(target, link) == 0)
            made++;
        else if (errno != EEXIST)
            return err_errno(err, "make '%s'", link);
    }
    return made;
}
