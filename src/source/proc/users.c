/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/vec.h"
#include "source/proc/stat.h"
#include "source/proc/who.h"

enum { PASSWD_MAX = 4 << 20 };

typedef struct User {
    uint32_t uid;
    char name[PROCESS_USER_CAP];
} User;

struct UserNames {
    VEC(User) users; /* by uid */
};

static int by_uid(const void *a, const void *b)
{
    const User *left = a, *right = b;

    return (left->uid > right->uid) - (left->uid < right->uid);
}

/* "name:x:1000:1000:..." */
static void take_line(UserNames *names, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len), *again;
    char *end;
    User *user;

    again = colon ? memchr(colon + 1, ':', len - (size_t)(colon + 1 - line)) : NULL;
    if (!again || colon == line || again[1] < '0' || again[1] > '9')
        return;
    const unsigned long uid = strtoul(again + 1, &end, 10);
    if (*end != ':' || uid >= UINT32_MAX)
        return;
    user = vec_add(&names->users);
    user->uid = (uint32_t)uid;
    snprintf(user->name, sizeof(user->name), "%.*s", (int)(colon - line), line);
}

/* The node's own: in a container the file beside us is another's, but that of the first process is the node's where its
 * pids are ours. */
static int read_passwd(const char *root, Str *text)
{
    char path[PROC_PATH_CAP];

    if (root[0])
        return snprintf(path, sizeof(path), "%s/etc/passwd", root) < (int)sizeof(path)
                   ? file_read(path, PASSWD_MAX, text, NULL)
                   : -ENAMETOOLONG;
    if (file_read("/proc/1/root/etc/passwd", PASSWD_MAX, text, NULL) == 0)
        return 0;
    if (getenv("KUBERNETES_SERVICE_HOST") || access("/.dockerenv", F_OK) == 0 ||
        access("/run/.containerenv", F_OK) == 0)
        return -ENOENT;
    return file_read("/etc/passwd", PASSWD_MAX, text, NULL);
}

UserNames *user_names_read(const char *root)
{
    UserNames *names = xcalloc(1, sizeof(*names));
    CLEANUP(str_done) Str text = {0};

    str_init(&text, PASSWD_MAX);
    if (read_passwd(root, &text) < 0)
        return names;
    for (const char *line = text.text; line && *line;) {
        const size_t len = strcspn(line, "\n");

        take_line(names, line, len);
        line += len + (line[len] == '\n');
    }
    if (names->users.len)
        qsort(names->users.at, names->users.len, sizeof(User), by_uid);
    return names;
}

void user_names_free(UserNames *names)
{
    if (!names)
        return;
    vec_done(&names->users);
    free(names);
}

void user_name(const UserNames *names, uint32_t uid, char out[PROCESS_USER_CAP])
{
    const User key = {.uid = uid};
    const User *user =
        names && names->users.len ? bsearch(&key, names->users.at, names->users.len, sizeof(User), by_uid) : NULL;

    if (uid == UINT32_MAX)
        out[0] = '\0';
    else if (user)
        snprintf(out, PROCESS_USER_CAP, "%s", user->name);
    else
        snprintf(out, PROCESS_USER_CAP, "%u", uid);
}
