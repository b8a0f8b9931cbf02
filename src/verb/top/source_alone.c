/* SPDX-License-Identifier: Apache-2.0 */
/* Looks of one's own, where no agent runs: samplers that live as long as the source. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "verb/agent/glance.h"
#include "verb/top/source_kind.h"

enum { SLICE_MS = 100, AGAIN_MS = 5000 };

typedef struct AloneSource {
    Source source;
    char *library, *root;
    Glance *glance;
    uint64_t interval_ns, due_ns;
} AloneSource;

static int open_glance(AloneSource *a)
{
    const GlanceOptions options = {.library = a->library, .root = a->root};
    const Health *health;
    Err err;
    const int rc = glance_new(&options, &a->glance, &err);

    if (rc < 0)
        source_says(&a->source, "%s", err.text);
    else
        (void)glance_see(a->glance, &health);
    return rc;
}

/* Nobody keeps the past here: what was asked for is answered with nothing. */
static void answer_wants(Source *source)
{
    SourceWants wants = {0};

    source_wanted(source, &wants);
    for (size_t i = 0; i < wants.len; i++)
        source_past_done(source, &wants.at[i]);
    vec_done(&wants);
}

static uint64_t turn(Source *source)
{
    AloneSource *a = (AloneSource *)source;

    answer_wants(source);
    if (!a->glance && open_glance(a) < 0)
        return clock_monotonic(clock_kernel()) + AGAIN_MS * NS_PER_MS;
    const uint64_t now = clock_monotonic(clock_kernel());
    if (now < a->due_ns) {
        const uint64_t left = a->due_ns - now;

        glance_turn(a->glance, left < SLICE_MS * NS_PER_MS ? left : SLICE_MS * NS_PER_MS);
        return 0;
    }
    a->due_ns = now + a->interval_ns;
    str_clear(&source->line);
    (void)glance_tell(a->glance, true, NULL, &source->line);
    (void)source_tell(source, source->line.text, source->line.len, true);
    return 0;
}

static void end(Source *source)
{
    AloneSource *a = (AloneSource *)source;

    glance_free(TAKE(a->glance));
}

static void release(Source *source)
{
    AloneSource *a = (AloneSource *)source;

    free(a->library);
    free(a->root);
}

static const SourceOps ops = {.turn = turn, .end = end, .free = release};

Source *source_alone_new(const char *library, const char *root, uint64_t interval_ns)
{
    AloneSource *a = source_new(sizeof *a, &ops, TOP_ALONE);

    a->library = xstrdup(library ? library : "");
    a->root = root ? xstrdup(root) : NULL;
    a->interval_ns = interval_ns;
    a->source.state.pace_ns = interval_ns;
    source_is_at(&a->source, "this node, no agent");
    return &a->source;
}
