/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without a fuzzer: over every file of the folders (or the files) it is given, whole and cut short
 * at a few places. What a fuzzer once found stays found. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, PARTS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(FILE_MAX);
    if (!file || !data) {
        perror(path);
        exit(1);
    }
    size_t size = fread(data, 1, FILE_MAX, file);
    fclose(file);
    for (size_t part = 0; part <= PARTS; part++) {
        size_t len = size * part / PARTS;
        uint8_t *exact = malloc(len ? len : 1);
        if (!exact)
            exit(1);
        memcpy(exact, data, len);
        LLVMFuzzerTestOneInput(exact, len);
        free(exact);
    }
    free(data);
    return 1;
}

static int replay_all(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    int files = 0;
    if (!dir)
        return replay(path);
    while ((entry = readdir(dir))) {
        char name[4096];
        if (entry->d_name[0] != '.' && snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name)
            files += replay(name);
    }
    closedir(dir);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++)
        files += replay_all(argv[i]);
    printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
