/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: names in the kubelet's folder of pod logs. One that is taken can be put together again from the key of
 * its pod and the UID, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "source/proc/who.h"

enum { NAME_BYTES_MAX = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void check(char *name, size_t key_len, const char *uid)
{
    char key[PODDIR_KEY_ROOM];
    char *pod = strchr(name, '_');

    must(key_len <= POD_KEY_MAX && name[key_len] == '_' && strcmp(name + key_len + 1, uid) == 0);
    must(strlen(uid) == 36 || strlen(uid) == 32);
    must(pod && pod < name + key_len);
    name[key_len] = *pod = '\0';
    must(poddir_make_key(name, pod + 1, key));
    *pod = '_';
    must(strcmp(key, name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char uid[POD_UID_CAP];
    size_t key_len;
    char *name;

    if (size > NAME_BYTES_MAX)
        return 0;
    name = malloc(size + 1);
    must(name != NULL);
    memcpy(name, data, size);
    name[size] = '\0';
    if (poddir_parse(name, &key_len, uid))
        check(name, key_len, uid);
    free(name);
    return 0;
}
