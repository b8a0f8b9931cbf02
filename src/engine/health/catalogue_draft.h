/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The catalogue's own structs, and entries while they are read. A draft is what all documents so far say of one class
 * or rule; an unset word is its END, an unset time UINT64_MAX. For catalogue.c and catalogue_read.c.
 */

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/health/catalogue.h"

/* One `with` of a rule; a later document's stands over an earlier one's, key by key. */
typedef struct WithNote {
    const YamlNode *map;
    const struct WithNote *before;
} WithNote;

typedef struct ClassDraft {
    FaultClass fault;
    size_t number;                /* in the order of reading */
    const YamlNode *at, *parents; /* the entry's key; the list, for errors */
} ClassDraft;

typedef struct RuleDraft {
    FaultRule rule;
    size_t number; /* in the order of reading */
    const YamlNode *at, *class_node, *on, *detector;
    const WithNote *with;
    const char *class_id; /* NULL: not said */
    bool enabled;
} RuleDraft;

/* Drafts lie in `scratch` with the trees of the built-in documents; texts that stay lie in `keep`. */
typedef struct CatalogueReader {
    Arena *keep, *scratch;
    const DetectorSpec *detectors;
    size_t detector_count;
    Map class_by_id, rule_by_id;
    VEC(ClassDraft *) classes;
    VEC(RuleDraft *) rules;
    VEC(const char *) texts; /* sources and file names, each kept once */
} CatalogueReader;

struct Catalogue {
    Arena keep;
    size_t class_count, rule_count;
    FaultClass *classes;
    FaultRule *rules;   /* of events first, by kind and first code; then those of detectors */
    size_t wide_count;  /* rules of events over more than one code: they stand at the very beginning */
    size_t event_count; /* rules of events, those included */
    uint16_t *by_id;    /* numbers of rules in the order of their ids */
    const FaultRule *unknown_xid, *unknown_sxid;
};

/* The built-in documents; `count` of them. */
typedef struct CatalogueText {
    const char *name;
    const char *text;
    size_t len;
} CatalogueText;
extern const CatalogueText catalogue_texts[];
extern const size_t catalogue_text_count;

/* One document into the drafts. */
int catalogue_read(CatalogueReader *reader, const YamlNode *root, Err *err);
/* All `with` of a rule, once its detector is known. */
int catalogue_read_with(CatalogueReader *reader, RuleDraft *draft, Err *err);
