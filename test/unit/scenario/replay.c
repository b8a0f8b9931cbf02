/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over all files of the folders it is given, with each file also cut short at a few places. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    uint8_t *data = malloc(1 << 20);
    size_t size = data ? fread(data, 1, 1 << 20, file) : 0;
    for (size_t part = 0; part <= 8; part++)
        LLVMFuzzerTestOneInput(data, size * part / 8);
    free(data);
    fclose(file);
    return 1;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        const struct dirent *entry;
        while (dir && (entry = readdir(dir))) {
            char path[4096];
            if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name) < 4096)
                files += replay(path);
        }
        if (dir)
            closedir(dir);
    }
    printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
