/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue's life: built-in documents, a site's over them, and the way to an entry by its name. */
#include "engine/health/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/health/catalogue_inside.h"

/* The trees are large and short-lived: blocks of this size come from the kernel and go back to it. */
enum { SCRATCH_BLOCK = 512 * 1024, KEEP_BLOCK = 32 * 1024 };

CLEANUP_POINTER(Catalogue, catalogue_free);

static void reader_done(CatalogueReader *reader)
{
    map_done(&reader->class_by_id);
    map_done(&reader->rule_by_id);
    vec_done(&reader->classes);
    vec_done(&reader->rules);
    vec_done(&reader->texts);
}

static int read_all(CatalogueReader *reader, const YamlNode *const *site, size_t count, Err *err)
{
    for (size_t i = 0; i < catalogue_text_count; i++) {
        const CatalogueText *text = &catalogue_texts[i];
        const YamlNode *root;
        TRY(yaml_load(text->name, text->text, text->len, reader->scratch, &root, err));
        TRY(catalogue_read(reader, root, err));
    }
    for (size_t i = 0; i < count; i++)
        TRY(catalogue_read(reader, site[i], err));
    return 0;
}

int catalogue_new(const YamlNode *const *site, size_t count, const DetectorSpec *detectors, size_t detector_count,
                  Catalogue **ret, Err *err)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = xcalloc(1, sizeof *catalogue);
    CLEANUP(arena_done) Arena scratch = {0};
    CLEANUP(reader_done)
    CatalogueReader reader = {
        .keep = &catalogue->keep, .scratch = &scratch, .detectors = detectors, .detector_count = detector_count};

    arena_init(&scratch, SCRATCH_BLOCK);
    arena_init(&catalogue->keep, KEEP_BLOCK);
    map_init(&reader.class_by_id);
    map_init(&reader.rule_by_id);
    TRY(read_all(&reader, site, count, err));
    TRY(catalogue_settle(&reader, catalogue, err));
    catalogue->unknown_xid = catalogue_rule(catalogue, "xid-unknown");
    catalogue->unknown_sxid = catalogue_rule(catalogue, "sxid-unknown");
    *ret = TAKE(catalogue);
    return 0;
}

void catalogue_free(Catalogue *catalogue)
{
    if (!catalogue)
        return;
    arena_done(&catalogue->keep);
    free(catalogue);
}

void catalogue_open_at_once(Catalogue *catalogue)
{
    for (size_t i = 0; i < catalogue->class_count; i++)
        catalogue->classes[i].for_ns = 0;
    for (size_t i = 0; i < catalogue->rule_count; i++)
        catalogue->rules[i].for_ns = 0;
}

size_t catalogue_class_count(const Catalogue *catalogue)
{
    return catalogue->class_count;
}

const FaultClass *catalogue_class_at(const Catalogue *catalogue, size_t i)
{
    return i < catalogue->class_count ? &catalogue->classes[i] : NULL;
}

const FaultClass *catalogue_class(const Catalogue *catalogue, const char *id)
{
    for (size_t i = 0; i < catalogue->class_count; i++)
        if (strcmp(catalogue->classes[i].id, id) == 0)
            return &catalogue->classes[i];
    return NULL;
}

size_t catalogue_rule_count(const Catalogue *catalogue)
{
    return catalogue->rule_count;
}

const FaultRule *catalogue_rule_at(const Catalogue *catalogue, size_t i)
{
    return i < catalogue->rule_count ? &catalogue->rules[i] : NULL;
}

const FaultRule *catalogue_rule(const Catalogue *catalogue, const char *id)
{
    size_t low = 0, high = catalogue->rule_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int side = strcmp(catalogue->rules[catalogue->by_id[middle]].id, id);
        if (side == 0)
            return &catalogue->rules[catalogue->by_id[middle]];
        if (side < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
