/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Nodes to make pages of, without a driver. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/duration.h"
#include "service/prometheus/exporter.h"

enum { KIT_GPUS = 8, KIT_INSTANCES = 7 };
#define KIT_NOW (1000 * NS_PER_S)
#define KIT_REAL (UINT64_C(1700000000) * NS_PER_S)

/* A node in memory; zero it, then kit_node. */
typedef struct Kit {
    Node node;
    NodeGpu gpus[KIT_GPUS];
    Reading instances[KIT_GPUS][KIT_INSTANCES];
    FastReading fast[16];
    NodePeer peers[KIT_GPUS][KIT_GPUS];
    NodeSampler samplers[4];
    AllocationTable allocations;
    ExporterConfig config;
    Snapshot snapshot; /* of this node and its owners */
    ExporterInput input;
} Kit;

/* `count` GPUs that are up, with names and addresses, without values; the default configuration. kit_done frees. */
void kit_node(Kit *kit, size_t count);
void kit_done(Kit *kit);

/* Splits a GPU into `count` instances of 1g.10gb, GI ids from 7 on. */
void kit_split(Kit *kit, size_t gpu, size_t count);

void kit_set(Kit *kit, size_t gpu, MetricId id, double value);
void kit_set_reading(Reading *reading, MetricId id, double value, uint64_t time_ns);
/* A value for every metric of every GPU and instance. */
void kit_fill(Kit *kit, uint64_t seed);

/* What GPU `of` says of each other one, read now. */
void kit_peers(Kit *kit, size_t of, PeerStatus status);

void kit_owner(Kit *kit, const char *device_id, const char *pod, const char *container);
Event kit_xid(const Kit *kit, size_t gpu, uint64_t xid, uint64_t time_ns);
/* The exporter counts an XID. */
void kit_event(const Kit *kit, Exporter *exporter, size_t gpu, uint64_t xid, uint64_t time_ns);

/* Moves the node on by `ns` and forgets fast readings. */
void kit_advance(Kit *kit, uint64_t ns);

/* An exporter of the kit's configuration; csv NULL: the default rows. */
Exporter *kit_exporter(const Kit *kit, const char *csv);
/* As after a reload: it goes on from `before`. */
Exporter *kit_reload(const Kit *kit, const char *csv, Exporter *before);

/* Appends a page of the kit's node. */
void kit_add_page(Kit *kit, Exporter *exporter, ExporterFormat format, Str *out);
/* A page of the kit's node, to free(). kit_page makes and frees the exporter too. */
char *kit_page_of(Kit *kit, Exporter *exporter, ExporterFormat format);
char *kit_page(Kit *kit, const char *csv, ExporterFormat format);

/* The page up to the first of our own families, in place. */
char *kit_dcgm(char *page);

/* The lines of a family, its head left out, to free(). */
char *kit_lines(const char *page, const char *name);
