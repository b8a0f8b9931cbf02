/* SPDX-License-Identifier: Apache-2.0 */
#include "tree_kit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"

enum { TEXT_MAX = 64 << 20, CONTENT_MAX = 1 << 20 };

static void add_file(Str *out, const char *path)
{
    Err err;
    CLEANUP(str_done) Str content;
    str_init(&content, CONTENT_MAX);
    if (file_read(path, CONTENT_MAX, &content, &err) < 0)
        fail_msg("%s", err.text);
    str_addn_json(out, content.text, content.len);
}

static void add_entry(Str *out, const char *root, const char *name);

static void add_folder(Str *out, const char *root, const char *name)
{
    char path[2048];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", root, name);
    int n = scandir(path, &entries, NULL, alphasort);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        char below[1024];
        snprintf(below, sizeof below, "%s%s%s", name, *name ? "/" : "", entry);
        if (strcmp(entry, ".") != 0 && strcmp(entry, "..") != 0)
            add_entry(out, root, below);
        free(entries[i]);
    }
    free(entries);
}

static void add_entry(Str *out, const char *root, const char *name)
{
    char path[2048], target[1024];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(lstat(path, &st), 0);
    str_addf(out, "%s %o ", name, (unsigned)st.st_mode);
    if (S_ISLNK(st.st_mode)) {
        ssize_t len = readlink(path, target, sizeof target);
        assert_true(len > 0);
        str_addn(out, target, (size_t)len);
    } else if (S_ISREG(st.st_mode)) {
        add_file(out, path);
    } else if (S_ISCHR(st.st_mode)) {
        str_addf(out, "%llx", (unsigned long long)st.st_rdev);
    }
    str_addc(out, '\n');
    if (S_ISDIR(st.st_mode))
        add_folder(out, root, name);
}

char *tree_text(const char *root)
{
    Str out;
    str_init(&out, TEXT_MAX);
    add_folder(&out, root, "");
    assert_false(out.overflow);
    assert_true(out.len > 0);
    return str_take(&out);
}

void tree_assert_same(const char *a, const char *b)
{
    CLEANUP_FREE char *left = tree_text(a), *right = tree_text(b);
    const char *l = left, *r = right;
    while (*l && *r) {
        size_t nl = strcspn(l, "\n"), nr = strcspn(r, "\n");
        if (nl != nr || memcmp(l, r, nl) != 0)
            fail_msg("differs:\n%.*s\n%.*s", (int)(nl < 400 ? nl : 400), l, (int)(nr < 400 ? nr : 400), r);
        l += nl + 1;
        r += nr + 1;
    }
    assert_string_equal(l, r);
}
