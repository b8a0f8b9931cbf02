/* SPDX-License-Identifier: Apache-2.0 */
/* A YAML document as a tree with positions, over libyaml. The tree lies in the caller's arena and is not changed.
 * Refused, with the position: duplicate keys, keys that are not scalars, anchors, aliases, tags other than !!str, more
 * than one document, and anything over the caps. Any thread, one arena at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attribute.h"
#include "base/err.h"

enum { YAML_DEPTH_MAX = 64, YAML_NODES_MAX = 200 * 1000, YAML_BYTES_MAX = 16 * 1024 * 1024 };

typedef enum YamlKind { YAML_SCALAR, YAML_SEQ, YAML_MAP } YamlKind;

typedef struct YamlNode YamlNode;

/* One entry of a mapping; the key is a scalar node with its own position. */
typedef struct YamlPair {
    const YamlNode *key;
    const YamlNode *value;
} YamlPair;

struct YamlNode {
    YamlKind kind;
    bool quoted;      /* scalar in quotes or in block style: a text, whatever it looks like */
    uint32_t line;    /* 1-based */
    uint32_t column;  /* 1-based, in characters */
    const char *file; /* the name given to yaml_load */
    const char *text; /* scalar: its text, NUL-terminated, without NULs inside; otherwise NULL */
    size_t len;       /* scalar: bytes; sequence: items; mapping: pairs */
    union {
        const YamlNode *const *items; /* YAML_SEQ */
        const YamlPair *pairs;        /* YAML_MAP, in the order of the file */
    };
};

/* Parses `len` bytes. `name` is what errors call the input and is copied. *ret_root is NULL for an empty document.
 * Errors read "name:line:column: message"; -EINVAL for the content, -E2BIG over a cap. */
int yaml_load(const char *name, const char *text, size_t len, Arena *arena, const YamlNode **ret_root, Err *err);

/* Reads and parses a file. Errors of reading as in file_read. */
int yaml_load_file(const char *path, Arena *arena, const YamlNode **ret_root, Err *err);

/* The value at a key of a mapping, NULL if there is none or `map` is NULL or no mapping. */
const YamlNode *yaml_get(const YamlNode *map, const char *key);

/* The text of a scalar, NULL for NULL and for other kinds. */
const char *yaml_text(const YamlNode *node);

/* True for NULL, and for an unquoted empty, "~" or "null" scalar. */
bool yaml_is_null(const YamlNode *node);

/* "a text", "a list" or "a mapping", for messages. */
const char *yaml_kind_name(YamlKind kind);

/* Sets err to "file:line:column: message" with code -EINVAL, which it returns. */
int yaml_fail(const YamlNode *node, Err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Checks the kind and otherwise fails with "file:line:column: '<what>' must be a list, not a text". 0 or -EINVAL. */
int yaml_want(const YamlNode *node, YamlKind kind, const char *what, Err *err);
