/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as a stream of text. The first block of the file is read when it is opened, so that pipes can be looked
 * into as files can. */
#include "source/profile/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/zstd.h"
#include "source/profile/rocprof.h"
#include "source/profile/xplane.h"

enum {
    POLL_MS = 200,
    SPOOL_BYTES = 256 * 1024,
    LAYERS_MAX = 3, /* a gzip file in a gzip file happens */
};

typedef enum LayerKind { LAYER_NONE, LAYER_GZIP, LAYER_ZSTD, LAYER_XPLANE, LAYER_ROCPROF } LayerKind;

/* A compression, and what it unpacks; or another profiler's format, made into text, which is always the last one. */
typedef struct Layer {
    LayerKind kind;
    InflatePull pull; /* of what is below */
    void *below;
    Inflate *inflate;
    Unzstd *unzstd;
    Xplane *xplane;
    Rocprof *rocprof;
} Layer;

struct ProfileInput {
    char *path;
    int fd;
    bool standard, regular;
    uint64_t size; /* of a regular file */
    uint64_t at;   /* next packed byte, or next byte of a pipe */
    atomic_uint_fast64_t *read_bytes;
    const bool *stop;
    Layer layers[LAYERS_MAX]; /* the file's own first */
    size_t layer_count;
    Err damage;      /* of the compression */
    char *text_head; /* of what is compressed */
    size_t text_len;
    size_t head_len;
    char head[PROFILE_INPUT_HEAD]; /* of the file */
};

typedef struct Magic {
    size_t at, len;
    const char *bytes, *what, *advice;
} Magic;

#define MAGIC(at, bytes) (at), sizeof(bytes) - 1, (bytes)
#define SNAPSHOT "a memory snapshot of PyTorch is analysed alone, from its own file: stoker trace FILE"

/* What people hand over by mistake. The longer of two beginnings goes first. */
static const Magic strangers[] = {
    {MAGIC(0, "\xfd"
              "7zXZ"),
     "compressed with xz", "unpack it: xz -dc FILE | stoker trace -"},
    {MAGIC(0, "BZh"), "compressed with bzip2", "unpack it: bzip2 -dc FILE | stoker trace -"},
    {MAGIC(0, "\x04\x22\x4d\x18"), "compressed with lz4", "unpack it: lz4 -dc FILE | stoker trace -"},
    {MAGIC(0, "x\x01"), "compressed with zlib", "unpack it: pigz -dz <FILE | stoker trace -"},
    {MAGIC(0, "x\x5e"), "compressed with zlib", "unpack it: pigz -dz <FILE | stoker trace -"},
    {MAGIC(0, "x\x9c"), "compressed with zlib", "unpack it: pigz -dz <FILE | stoker trace -"},
    {MAGIC(0, "x\xda"), "compressed with zlib", "unpack it: pigz -dz <FILE | stoker trace -"},
    {MAGIC(0, "PK\x03\x04"), "a zip archive", "unpack it and give the profiles in it"},
    {MAGIC(257, "ustar"), "a tar archive", "unpack it (tar -xf FILE) and give the profiles in it"},
    {MAGIC(0, "\xff\xfe\0\0"), "in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE | stoker trace -"},
    {MAGIC(0, "\0\0\xfe\xff"), "in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE | stoker trace -"},
    {MAGIC(0, "\xff\xfe"), "in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE | stoker trace -"},
    {MAGIC(0, "\xfe\xff"), "in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE | stoker trace -"},
    {MAGIC(0, "{\0"), "in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8 FILE | stoker trace -"},
    {MAGIC(0, "[\0"), "in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8 FILE | stoker trace -"},
    {MAGIC(0, "\x89PNG"), "a PNG image", "give the profile itself, not a picture of it"},
    {MAGIC(0, "\xff\xd8\xff"), "a JPEG image", "give the profile itself, not a picture of it"},
    {MAGIC(0, "GIF8"), "a GIF image", "give the profile itself, not a picture of it"},
    {MAGIC(0, "%PDF"), "a PDF document", "give the profile itself"},
    {MAGIC(0, "\x7f"
              "ELF"),
     "a program", "give the profile that it wrote"},
    {MAGIC(0, "\x80\x02"), "a Python pickle", SNAPSHOT},
    {MAGIC(0, "\x80\x03"), "a Python pickle", SNAPSHOT},
    {MAGIC(0, "\x80\x04"), "a Python pickle", SNAPSHOT},
    {MAGIC(0, "\x80\x05"), "a Python pickle", SNAPSHOT},
    {MAGIC(0, "<!DOCTYPE"), "a web page", "give the profile itself"},
    {MAGIC(0, "<html"), "a web page", "give the profile itself"},
    {MAGIC(0, "version https://git-lfs"), "a pointer of git-lfs, not the file", "fetch the file: git lfs pull"},
};

/* Formats known by their names, where the text is no JSON. */
static const struct {
    const char *ending, *what, *advice;
} foreign[] = {
    {".nsys-rep", "a report of Nsight Systems", "export it: nsys export --type sqlite -o p.sqlite FILE"},
    {".qdrep", "a report of Nsight Systems", "export it: nsys export --type sqlite -o p.sqlite FILE"},
    {".ncu-rep", "a report of Nsight Compute, which has counters of single kernels and no timeline",
     "record one: nsys profile -o p COMMAND"},
    {".pftrace", "a Perfetto trace",
     "convert it: traceconv json FILE p.json (of rocprofv3: record with --output-format json)"},
    {".perfetto-trace", "a Perfetto trace", "convert it: traceconv json FILE p.json"},
    {".otf2", "an OTF2 trace", "of rocprofv3: record with --output-format json"},
};

/* By the beginning of the text, so of what is packed too. */
static int refuse_stranger(const ProfileInput *input, Err *err)
{
    size_t len;
    const char *head = profile_input_head(input, &len);

    for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
        const Magic *m = &strangers[i];
        if (len >= m->at + m->len && memcmp(head + m->at, m->bytes, m->len) == 0)
            return err_set(err, -EBADMSG, "'%s' is %s; %s", input->path, m->what, m->advice);
    }
    for (size_t i = 0; i < ARRAY_LEN(foreign) && len && head[0] != '{' && head[0] != '['; i++)
        if (str_ends_with(input->path, foreign[i].ending))
            return err_set(err, -EBADMSG, "'%s' is %s; %s", input->path, foreign[i].what, foreign[i].advice);
    return 0;
}

static bool is_stopped(const ProfileInput *input)
{
    return input->stop && __atomic_load_n(input->stop, __ATOMIC_RELAXED);
}

/* Reads from a pipe without being deaf to an interruption. -1 and errno. */
static ssize_t read_pipe_bytes(const ProfileInput *input, void *buffer, size_t len)
{
    struct pollfd wait = {.fd = input->fd, .events = POLLIN};

    for (;;) {
        if (is_stopped(input)) {
            errno = EINTR;
            return -1;
        }
        int ready = poll(&wait, 1, POLL_MS);
        if (ready > 0) {
            ssize_t n = read(input->fd, buffer, len);
            if (n >= 0 || (errno != EINTR && errno != EAGAIN))
                return n;
        } else if (ready < 0 && errno != EINTR) {
            return -1;
        }
    }
}

/* The beginning: as much as fits, or all there is. */
static ssize_t read_head(ProfileInput *input)
{
    size_t got = 0;

    if (input->regular)
        return pread(input->fd, input->head, sizeof input->head, 0);
    while (got < sizeof input->head) {
        ssize_t n = read_pipe_bytes(input, input->head + got, sizeof input->head - got);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* -1 and errno. */
static ssize_t read_at(const ProfileInput *input, void *buffer, size_t len, uint64_t at)
{
    ssize_t n;

    do
        n = pread(input->fd, buffer, len, (off_t)at);
    while (n < 0 && errno == EINTR && !is_stopped(input));
    return n;
}

/* Bytes of the file at input->at, which moves on: from the head where they lie in it, else from the descriptor. */
static ssize_t next_bytes(void *context, void *buffer, size_t len, Err *err)
{
    ProfileInput *input = context;
    ssize_t n;

    if (input->at < input->head_len) {
        size_t have = input->head_len - (size_t)input->at;
        n = (ssize_t)(have < len ? have : len);
        memcpy(buffer, input->head + input->at, (size_t)n);
    } else {
        n = input->regular ? read_at(input, buffer, len, input->at) : read_pipe_bytes(input, buffer, len);
        if (n < 0)
            return err_errno(err, "read '%s'", input->path);
    }
    input->at += (uint64_t)n;
    if (input->read_bytes)
        atomic_fetch_add_explicit(input->read_bytes, (uint64_t)n, memory_order_relaxed);
    return n;
}

/* ---- compression ---- */

static ssize_t read_packed(const Layer *layer, void *buffer, size_t len, Err *err)
{
    if (layer->kind == LAYER_XPLANE)
        return xplane_read(layer->xplane, buffer, len, err);
    if (layer->kind == LAYER_ROCPROF)
        return rocprof_read(layer->rocprof, buffer, len, err);
    return layer->kind == LAYER_ZSTD ? unzstd_read(layer->unzstd, buffer, len, err)
                                     : inflate_read(layer->inflate, buffer, len, err);
}

static ssize_t pull_packed(void *layer, void *buffer, size_t len, Err *err)
{
    return read_packed(layer, buffer, len, err);
}

static uint64_t layer_given(const Layer *layer)
{
    if (layer->kind == LAYER_XPLANE)
        return xplane_given(layer->xplane);
    if (layer->kind == LAYER_ROCPROF)
        return rocprof_given(layer->rocprof);
    return layer->kind == LAYER_ZSTD ? unzstd_given(layer->unzstd) : inflate_given(layer->inflate);
}

static void layer_close(Layer *layer)
{
    inflate_free(layer->inflate);
    unzstd_free(layer->unzstd);
    xplane_free(layer->xplane);
    rocprof_free(layer->rocprof);
    *layer = (Layer){.kind = layer->kind, .pull = layer->pull, .below = layer->below};
}

static int layer_open(Layer *layer, Err *err)
{
    if (layer->kind == LAYER_ZSTD)
        return unzstd_new(layer->pull, layer->below, &layer->unzstd, err);
    if (layer->kind == LAYER_XPLANE)
        layer->xplane = xplane_new(layer->pull, layer->below);
    else if (layer->kind == LAYER_ROCPROF)
        layer->rocprof = rocprof_new(layer->pull, layer->below);
    else
        layer->inflate = inflate_new(layer->pull, layer->below);
    return 0;
}

static LayerKind layer_kind(const char *head, size_t len)
{
    if (inflate_is_gzip(head, len))
        return LAYER_GZIP;
    if (unzstd_is_zstd(head, len))
        return LAYER_ZSTD;
    if (rocprof_is_results(head, len))
        return LAYER_ROCPROF;
    return xplane_is_xspace(head, len) ? LAYER_XPLANE : LAYER_NONE;
}

/* Where the text comes from. */
static const Layer *top_layer(const ProfileInput *input)
{
    return input->layer_count ? &input->layers[input->layer_count - 1] : NULL;
}

ssize_t profile_input_read(void *context, void *buffer, size_t len, Err *err)
{
    ProfileInput *input = context;

    if (!input->layer_count)
        return next_bytes(input, buffer, len, err);
    if (input->damage.code)
        return 0;
    ssize_t n = read_packed(top_layer(input), buffer, len, &input->damage);
    if (n == -EBADMSG) /* what came before is analysed; the caller reports the loss */
        return 0;
    return n < 0 ? err_set(err, (int)n, "%s", input->damage.text) : n;
}

uint64_t profile_input_text_size(const ProfileInput *input)
{
    const Layer *top = top_layer(input);

    if (!input->regular)
        return 0;
    if (!top || input->at == 0)
        return top ? 0 : input->size;
    return (uint64_t)((double)layer_given(top) / (double)input->at * (double)input->size);
}

int profile_input_rewind(ProfileInput *input, Err *err)
{
    if (!input->regular)
        return err_set(err, -ESPIPE, "'%s' comes through a pipe and cannot be read twice; save it to a file",
                       input->path);
    input->at = 0;
    input->damage = (Err){0};
    for (size_t i = 0; i < input->layer_count; i++) {
        layer_close(&input->layers[i]);
        TRY(layer_open(&input->layers[i], err));
    }
    return 0;
}

/* Copies a pipe into a file without a name, which replaces it. */
static int spool_pipe(ProfileInput *input, Err *err)
{
    const char *dir = getenv("TMPDIR");
    CLEANUP_FREE char *buffer = xmalloc(SPOOL_BYTES);
    CLEANUP_FD int fd = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ssize_t n = (ssize_t)input->head_len;

    if (fd < 0)
        return err_errno(err, "make a file for '%s' in '%s'", input->path, dir && dir[0] ? dir : "/tmp");
    memcpy(buffer, input->head, input->head_len);
    for (; n > 0; n = read_pipe_bytes(input, buffer, SPOOL_BYTES)) {
        if (file_write_all(fd, buffer, (size_t)n) < 0)
            return err_errno(err, "keep '%s' in '%s'", input->path, dir && dir[0] ? dir : "/tmp");
        input->size += (uint64_t)n;
    }
    if (n < 0)
        return err_errno(err, "read '%s'", input->path);
    fd_close(&input->fd);
    input->fd = fd_take(&fd);
    input->regular = true;
    return 0;
}

static int open_path(ProfileInput *input, const char *path, Err *err)
{
    struct stat st;

    input->fd = input->standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0)
        return err_errno(err, "open '%s'", path);
    if (fstat(input->fd, &st) < 0)
        return err_errno(err, "stat '%s'", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "'%s' is a folder", path);
    input->regular = S_ISREG(st.st_mode) && lseek(input->fd, 0, SEEK_CUR) == 0;
    input->size = input->regular ? (uint64_t)st.st_size : 0;
    ssize_t n = read_head(input);
    if (n < 0)
        return err_errno(err, "read '%s'", path);
    input->head_len = (size_t)n;
    return n == 0 ? err_set(err, -ENODATA, "'%s' is empty", path) : 0;
}

/* The file's head as a source. */
typedef struct HeadFeed {
    const ProfileInput *input;
    size_t at;
} HeadFeed;

static ssize_t pull_head(void *context, void *buffer, size_t len, Err *err)
{
    HeadFeed *feed = context;
    const size_t left = feed->input->head_len - feed->at, n = left < len ? left : len;

    (void)err;
    memcpy(buffer, feed->input->head + feed->at, n);
    feed->at += n;
    return (ssize_t)n;
}

/* Unpacks what the head has of the text, through layers of its own. */
static int unpack_head(ProfileInput *input, Err *err)
{
    HeadFeed feed = {.input = input};
    Layer layers[LAYERS_MAX] = {0};
    ssize_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < input->layer_count && rc == 0; i++) {
        layers[i] = (Layer){.kind = input->layers[i].kind,
                            .pull = i ? pull_packed : pull_head,
                            .below = i ? (void *)&layers[i - 1] : &feed};
        rc = layer_open(&layers[i], err);
    }
    if (rc == 0)
        n = read_packed(&layers[input->layer_count - 1], input->text_head, PROFILE_INPUT_HEAD, NULL);
    input->text_len = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < input->layer_count; i++)
        layer_close(&layers[i]);
    return rc;
}

/* Puts a layer upon the others for as long as what they give is packed. */
static int open_layers(ProfileInput *input, Err *err)
{
    for (Layer *layer = input->layers; layer < input->layers + LAYERS_MAX; layer++) {
        size_t len;
        const char *head = profile_input_head(input, &len);

        layer->kind = layer_kind(head, len);
        if (layer->kind == LAYER_NONE)
            return 0;
        layer->pull = input->layer_count ? pull_packed : next_bytes;
        layer->below = input->layer_count ? (void *)(layer - 1) : input;
        if (layer_open(layer, err) < 0)
            return err_add(err, "'%s'", input->path);
        input->layer_count++;
        if (!input->text_head)
            input->text_head = xmalloc(PROFILE_INPUT_HEAD);
        TRY(unpack_head(input, err));
        if (layer->kind == LAYER_XPLANE || layer->kind == LAYER_ROCPROF)
            return 0;
    }
    return 0;
}

static int open_input(const char *path, bool again, atomic_uint_fast64_t *read_bytes, const bool *stop,
                      ProfileInput **ret, Err *err)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = xmalloc(sizeof *input);

    memset(input, 0, offsetof(ProfileInput, head));
    input->fd = -1;
    input->standard = strcmp(path, "-") == 0;
    input->path = xstrdup(input->standard ? "standard input" : path);
    input->read_bytes = read_bytes;
    input->stop = stop;
    TRY(open_path(input, path, err));
    if (again && !input->regular)
        TRY(spool_pipe(input, err));
    TRY(open_layers(input, err));
    *ret = TAKE(input);
    return 0;
}

int profile_input_open_any(const char *path, ProfileInput **ret, Err *err)
{
    return open_input(path, false, NULL, NULL, ret, err);
}

int profile_input_open(const char *path, bool again, atomic_uint_fast64_t *read_bytes, const bool *stop,
                       ProfileInput **ret, Err *err)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = NULL;

    TRY(open_input(path, again, read_bytes, stop, &input, err));
    TRY(refuse_stranger(input, err));
    *ret = TAKE(input);
    return 0;
}

void profile_input_close(ProfileInput *input)
{
    if (!input)
        return;
    fd_close(&input->fd);
    for (size_t i = 0; i < input->layer_count; i++)
        layer_close(&input->layers[i]);
    free(input->text_head);
    free(input->path);
    free(input);
}

const char *profile_input_magic(const ProfileInput *input, size_t *ret_len)
{
    *ret_len = input->head_len;
    return input->head;
}

const char *profile_input_head(const ProfileInput *input, size_t *ret_len)
{
    *ret_len = input->layer_count ? input->text_len : input->head_len;
    return input->layer_count ? input->text_head : input->head;
}

const char *profile_input_path(const ProfileInput *input)
{
    return input->path;
}

bool profile_input_is_stdin(const ProfileInput *input)
{
    return input->standard;
}

const char *profile_input_damage(const ProfileInput *input, uint64_t *ret_at)
{
    const Layer *top = top_layer(input);

    *ret_at = top ? layer_given(top) : 0;
    return input->damage.text;
}

uint64_t profile_input_garbage(const ProfileInput *input)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < input->layer_count; i++)
        bytes += input->layers[i].inflate ? inflate_garbage(input->layers[i].inflate) : 0;
    return bytes;
}
