/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading libdcgm, starting and ending the engine. An embedded engine runs in automatic mode, the one in which the
 * profiling module is used by everybody: it samples on threads of its own, and reading takes the latest from its cache.
 */

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "source/dcgm/inside.h"

typedef enum Need { ALWAYS, EMBEDDED, REMOTE, NEVER } Need;

typedef struct Symbol {
    const char *name;
    Need need;
    size_t offset;
} Symbol;

static const Symbol symbols[] = {
#define FN(name, need, arguments) {#name, need, offsetof(DcgmTable, name)},
#include "source/dcgm/functions.def"
#undef FN
};

OWNER_POINTER(Dcgm, dcgm_close);

void dcgm_note(Dcgm *dcgm, int answer)
{
    if (dcgm->running && (answer == DCGM_CONNECTION_NOT_VALID || answer == DCGM_UNINITIALIZED))
        dcgm->lost = true;
}

const char *dcgm_name(Dcgm *dcgm, char text[DCGM_NAME_CAP])
{
    (void)snprintf(text, DCGM_NAME_CAP, "stoker-%ld-%llx-%u", (long)getpid(), (unsigned long long)dcgm->birth_ns,
                   dcgm->names_used++);
    return text;
}

/* The driver gives the counters to administrators alone, unless its module was told otherwise. */
static bool is_administrator(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    return data[0].effective & (UINT32_C(1) << CAP_SYS_ADMIN);
}

/* Tells this process' groups from those of one with the same number in another container. */
static uint64_t read_birth_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- the library ---- */

static void *open_as(Dcgm *dcgm, const char *name)
{
    dcgm->hooks.before(dcgm->hooks.self, "dlopen");
    dcgm->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    dcgm->hooks.after(dcgm->hooks.self);
    dcgm->name = name;
    return dcgm->library;
}

static int load_library(Dcgm *dcgm, const DcgmPlace *place, Err *err)
{
    char first[ERR_TEXT_MAX];
    const char *why;

    if (place->library[0] ? open_as(dcgm, place->library) : open_as(dcgm, "libdcgm.so.4"))
        return 0;
    why = dlerror();
    (void)snprintf(first, sizeof first, "%s", why ? why : dcgm->name);
    if (!place->library[0] && open_as(dcgm, "libdcgm.so.3"))
        return 0;
    return err_set(err, -ENOENT, "DCGM's library cannot be loaded: %s", first);
}

static int fill_table(Dcgm *dcgm, Err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        const Symbol *symbol = &symbols[i];
        void *at = dlsym(dcgm->library, symbol->name);

        memcpy((char *)&dcgm->table_ + symbol->offset, &at, sizeof at);
        if (!at && (symbol->need == ALWAYS || symbol->need == (dcgm->remote ? REMOTE : EMBEDDED)))
            return err_set(err, -ENOSYS, "'%s' has no function %s: a DCGM of version 3 or 4 is needed", dcgm->name,
                           symbol->name);
    }
    return 0;
}

static bool unload_library(Dcgm *dcgm)
{
    void *left;

    if (!dcgm->library)
        return true;
    dcgm->hooks.before(dcgm->hooks.self, "dlclose");
    (void)dlclose(dcgm->library);
    left = dlopen(dcgm->name, RTLD_NOW | RTLD_NOLOAD);
    if (left)
        (void)dlclose(left);
    dcgm->hooks.after(dcgm->hooks.self);
    return !left;
}

/* ---- the engine ---- */

static int answer_error(const char *function, int answer, Err *err)
{
    return err_set(err, dcgm_answer_errno(answer), "%s: %s (%d)", function, dcgm_answer_words(answer), answer);
}

static int start_embedded(Dcgm *dcgm, Err *err)
{
    int answer = DCGM_CALL(dcgm, dcgmStartEmbedded, (DCGM_MODE_AUTO, &dcgm->engine));

    if (answer != DCGM_OK)
        return answer_error("dcgmStartEmbedded", answer, err);
    dcgm->running = true;
    return 0;
}

static int start_remote(Dcgm *dcgm, const DcgmPlace *place, Err *err)
{
    static const char prefix[] = "unix:";
    bool is_path = strncmp(place->address, prefix, sizeof prefix - 1) == 0;
    const char *address = place->address + (is_path ? sizeof prefix - 1 : 0);
    DcgmConnect how = {
        .version = DCGM_VERSION_WORD(DcgmConnect, 2), .timeout_ms = place->connect_ms, .unix_socket = is_path};
    int answer = DCGM_CALL(dcgm, dcgmConnect_v2, (address, &how, &dcgm->engine));

    if (answer != DCGM_OK) {
        int rc = answer_error("dcgmConnect_v2", answer, err);
        (void)err_add(err, "host engine '%s'", place->address);
        return rc == -EPIPE ? -EIO : rc;
    }
    dcgm->running = true;
    return 0;
}

static int start_engine(Dcgm *dcgm, const DcgmPlace *place, Err *err)
{
    int answer = DCGM_CALL(dcgm, dcgmInit, ());

    if (answer != DCGM_OK)
        return answer_error("dcgmInit", answer, err);
    dcgm->up = true;
    return dcgm->remote ? start_remote(dcgm, place, err) : start_embedded(dcgm, err);
}

int dcgm_open(const DcgmPlace *place, const DcgmHooks *hooks, Dcgm **ret_dcgm, Err *err)
{
    CLEANUP(dcgm_close_at) Dcgm *dcgm = xcalloc(1, sizeof *dcgm);

    assert(hooks->before && hooks->after);
    dcgm->hooks = *hooks;
    dcgm->birth_ns = read_birth_ns();
    dcgm->remote = place->address[0];
    dcgm->permitted = dcgm->remote || is_administrator();
    TRY(load_library(dcgm, place, err));
    TRY(fill_table(dcgm, err));
    TRY(start_engine(dcgm, place, err));
    *ret_dcgm = TAKE(dcgm);
    return 0;
}

/* An engine that went away is still let go of: the library keeps things of its own for it. */
static void stop_engine(Dcgm *dcgm)
{
    dcgm->lost = false;
    if (dcgm->running) {
        dcgm->running = false;
        if (dcgm->remote)
            (void)DCGM_CALL(dcgm, dcgmDisconnect, (dcgm->engine));
        else
            (void)DCGM_CALL(dcgm, dcgmStopEmbedded, (dcgm->engine));
    }
    if (dcgm->up)
        (void)DCGM_CALL(dcgm, dcgmShutdown, ());
    dcgm->up = false;
}

bool dcgm_close(Dcgm *dcgm)
{
    bool gone;

    if (!dcgm)
        return true;
    while (dcgm->watches)
        dcgm_watch_free(dcgm->watches);
    stop_engine(dcgm);
    gone = unload_library(dcgm);
    free(dcgm);
    return gone;
}

Absence dcgm_absence(int rc)
{
    switch (rc) {
    case -ENOENT:
    case -ENOSYS:
        return ABSENCE_NO_LIBRARY;
    case -EACCES:
        return ABSENCE_NO_PERMISSION;
    case -ENODEV:
        return ABSENCE_NOT_SUPPORTED;
    default:
        return ABSENCE_FAILED;
    }
}

const char *dcgm_library(const Dcgm *dcgm)
{
    return dcgm->name;
}

bool dcgm_lost(const Dcgm *dcgm)
{
    return dcgm->lost;
}
