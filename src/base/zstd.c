/* SPDX-License-Identifier: Apache-2.0 */
/* zstd by the functions of libzstd's stable interface (since 1.4), declared here: one reader needs no header. */
#include "base/zstd.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd}; /* RFC 8878, section 3.1.1 */

/* ZSTD_inBuffer, ZSTD_outBuffer */
typedef struct ZstdIn {
    const void *bytes;
    size_t size, at;
} ZstdIn;

typedef struct ZstdOut {
    void *bytes;
    size_t size, at;
} ZstdOut;

static struct Library {
    void *(*create)(void);
    size_t (*destroy)(void *stream);
    size_t (*decompress)(void *stream, ZstdOut *out, ZstdIn *in); /* 0: a frame has ended */
    unsigned int (*is_error)(size_t code);
    const char *(*error_name)(size_t code);
} library;
static Err load_fault;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load_library(void)
{
    static const struct {
        const char *name;
        void *at;
    } symbols[] = {{"ZSTD_createDStream", &library.create},
                   {"ZSTD_freeDStream", &library.destroy},
                   {"ZSTD_decompressStream", &library.decompress},
                   {"ZSTD_isError", &library.is_error},
                   {"ZSTD_getErrorName", &library.error_name}};
    void *handle = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        err_set(&load_fault, -ENOENT, "open libzstd.so.1: %s; is libzstd1 installed?", dlerror());
    for (size_t i = 0; handle && i < ARRAY_LEN(symbols); i++) {
        void *symbol = dlsym(handle, symbols[i].name);

        if (!symbol)
            err_set(&load_fault, -ENOSYS, "libzstd is too old: it has no %s", symbols[i].name);
        memcpy(symbols[i].at, &symbol, sizeof symbol);
    }
}

struct Unzstd {
    InflatePull pull;
    void *context, *stream;
    uint64_t pulled, given;
    bool in_frame, ended; /* ended: no more input will come from the source */
    int fault;            /* every later read reports it */
    Err why;
    ZstdIn in;
    uint8_t input[INFLATE_INPUT];
};

bool unzstd_is_zstd(const void *bytes, size_t len)
{
    return len >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

int unzstd_new(InflatePull pull, void *context, Unzstd **ret, Err *err)
{
    pthread_once(&load_once, load_library);
    if (load_fault.code)
        return err_set(err, load_fault.code, "%s", load_fault.text);
    Unzstd *unzstd = xmalloc(sizeof *unzstd);

    memset(unzstd, 0, offsetof(Unzstd, input));
    unzstd->pull = pull;
    unzstd->context = context;
    unzstd->in.bytes = unzstd->input;
    unzstd->stream = library.create();
    if (!unzstd->stream) {
        free(unzstd);
        return err_set(err, -ENOMEM, "libzstd has no memory");
    }
    *ret = unzstd;
    return 0;
}

void unzstd_free(Unzstd *unzstd)
{
    if (!unzstd)
        return;
    library.destroy(unzstd->stream);
    free(unzstd);
}

uint64_t unzstd_given(const Unzstd *unzstd)
{
    return unzstd->given;
}

static void fail_damaged(Unzstd *unzstd, const char *why)
{
    unzstd->fault = err_set(&unzstd->why, -EBADMSG, "the zstd data is damaged at byte %" PRIu64 ": %s",
                            unzstd->pulled - (unzstd->in.size - unzstd->in.at), why);
}

static void pull_input(Unzstd *unzstd)
{
    const ssize_t n = unzstd->pull(unzstd->context, unzstd->input, sizeof unzstd->input, &unzstd->why);

    unzstd->in.at = unzstd->in.size = 0;
    if (n < 0) {
        unzstd->fault = (int)n;
        return;
    }
    unzstd->ended = n == 0;
    unzstd->in.size = (size_t)n;
    unzstd->pulled += (uint64_t)n;
}

/* Unpacks what there is of input, and what the stream still holds. */
static size_t unpack_part(Unzstd *unzstd, void *buffer, size_t len)
{
    ZstdOut out = {.bytes = buffer, .size = len};
    const size_t rc = library.decompress(unzstd->stream, &out, &unzstd->in);

    if (library.is_error(rc))
        fail_damaged(unzstd, library.error_name(rc));
    else if (unzstd->ended && rc > 0 && out.at == 0)
        fail_damaged(unzstd, "its end is missing");
    unzstd->in_frame = rc > 0;
    unzstd->given += out.at;
    return out.at;
}

ssize_t unzstd_read(Unzstd *unzstd, void *buffer, size_t len, Err *err)
{
    char *out = buffer;
    size_t got = 0;

    while (got < len && !unzstd->fault) {
        if (unzstd->in.at == unzstd->in.size && !unzstd->ended)
            pull_input(unzstd);
        if (unzstd->fault || (unzstd->ended && !unzstd->in_frame))
            break;
        got += unpack_part(unzstd, out + got, len - got);
    }
    if (got == 0 && unzstd->fault && len > 0)
        return err_set(err, unzstd->fault, "%s", unzstd->why.text);
    return (ssize_t)got;
}
