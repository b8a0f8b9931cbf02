/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "../memory_folder.h"

static void path_of(const Tree *tree, const char *path, char full[2 * TREE_PATH_CAP])
{
    snprintf(full, 2 * TREE_PATH_CAP, "%s/%s", tree->root, path);
}

static void make_folders(char *full)
{
    char *slash = strrchr(full, '/');

    *slash = '\0';
    if (file_make_dirs(full, 0755, NULL) < 0)
        abort();
    *slash = '/';
}

void tree_new(Tree *tree)
{
    snprintf(tree->root, sizeof(tree->root), "%s/stoker-host-XXXXXX", memory_folder());
    if (!mkdtemp(tree->root))
        abort();
}

void tree_free(Tree *tree)
{
    char *slash = strrchr(tree->root, '/');

    *slash = '\0';
    file_remove_tree(tree->root, slash + 1, NULL);
}

void tree_file(const Tree *tree, const char *path, const char *fmt, ...)
{
    char full[2 * TREE_PATH_CAP];
    va_list args;
    FILE *file;

    path_of(tree, path, full);
    make_folders(full);
    file = fopen(full, "w");
    if (!file)
        abort();
    va_start(args, fmt);
    vfprintf(file, fmt, args);
    va_end(args);
    fclose(file);
}

void tree_link(const Tree *tree, const char *path, const char *target)
{
    char full[2 * TREE_PATH_CAP];

    path_of(tree, path, full);
    make_folders(full);
    if (symlink(target, full) < 0)
        abort();
}

void tree_pipe(const Tree *tree, const char *path)
{
    char full[2 * TREE_PATH_CAP];

    path_of(tree, path, full);
    make_folders(full);
    unlink(full);
    if (mkfifo(full, 0600) < 0)
        abort();
}

bool tree_try_unblock(const Tree *tree, const char *path)
{
    char full[2 * TREE_PATH_CAP];

    path_of(tree, path, full);
    const int fd = open(full, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void tree_unblock(const Tree *tree, const char *path)
{
    while (!tree_try_unblock(tree, path))
        usleep(1000);
}

void tree_gone(const Tree *tree, const char *path)
{
    file_remove_tree(tree->root, path, NULL);
}

static void function(const Tree *tree, const char *dir, const char *class, const char *vendor)
{
    char path[TREE_PATH_CAP];

    snprintf(path, sizeof(path), "%s/class", dir);
    tree_file(tree, path, "%s\n", class);
    snprintf(path, sizeof(path), "%s/vendor", dir);
    tree_file(tree, path, "%s\n", vendor);
}

#define PORT "sys/devices/pci0000:aa/0000:aa:01.0"
#define GPU PORT "/0000:bb:00.0"

void tree_gpu(const Tree *tree)
{
    function(tree, PORT, "0x060400", "0x8086");
    tree_file(tree, PORT "/max_link_speed", "32.0 GT/s PCIe\n");
    tree_file(tree, PORT "/max_link_width", "8\n");
    tree_file(tree, PORT "/aer_dev_correctable", "RxErr 4\nTOTAL_ERR_COR 4\n");
    tree_file(tree, PORT "/aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0\n");
    tree_file(tree, PORT "/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 1\n");
    function(tree, GPU, "0x030200", "0x10de");
    tree_file(tree, GPU "/device", "0x2330\n");
    tree_file(tree, GPU "/config", "\xde\x10\x30\x23");
    tree_file(tree, GPU "/current_link_speed", "16.0 GT/s PCIe\n");
    tree_file(tree, GPU "/current_link_width", "8\n");
    tree_file(tree, GPU "/max_link_speed", "32.0 GT/s PCIe\n");
    tree_file(tree, GPU "/max_link_width", "16\n");
    tree_file(tree, GPU "/aer_dev_correctable", "RxErr 1\nBadTLP 2\nTOTAL_ERR_COR 3\n");
    tree_file(tree, GPU "/aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 18446744073709551615\n");
    tree_file(tree, GPU "/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
    tree_file(tree, GPU "/power/runtime_status", "active\n");
    tree_link(tree, GPU "/driver", "../../../../bus/pci/drivers/nvidia");
    tree_link(tree, "sys/bus/pci/devices/0000:aa:01.0", "../../../devices/pci0000:aa/0000:aa:01.0");
    tree_link(tree, "sys/bus/pci/devices/0000:bb:00.0", "../../../devices/pci0000:aa/0000:aa:01.0/0000:bb:00.0");
}

void tree_task(const Tree *tree, int pid, const char *name, char state, const char *wchan)
{
    char path[TREE_PATH_CAP];

    snprintf(path, sizeof(path), "proc/%d/stat", pid);
    tree_file(tree, path, "%d (%s) %c 1 2 3 0 -1 4194304 0 0 0 0 5 6 0 0 20 0 1 0 %d 1000 10 18446744073709551615\n",
              pid, name, state, 7000 + pid);
    snprintf(path, sizeof(path), "proc/%d/wchan", pid);
    tree_file(tree, path, "%s", wchan);
}
