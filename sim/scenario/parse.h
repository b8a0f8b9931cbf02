/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside the reading of a scenario: what its parts share while it is read. The parts run in the order node, gpus, work,
 * at, truth; each may rely on the ones before it.
 */
#include "sim/scenario/step.h"

typedef VEC(ScenarioWork) ParseWorks;

typedef struct Parse {
    BoardSet *boards;
    Arena *arena;
    Scenario *out;
    StepNode node; /* conds: the GPUs as they are at time 0, later as the timeline leaves them */
    StepOps ops;   /* in time order at the end */
    ParseWorks works;
} Parse;

/* gpus.c: fills out->gpus and node, adds the ops of time 0. */
int parse_gpus(Parse *parse, const YamlNode *node, Err *err);
/* work.c: fills works and node.works, adds starts and stops to ops (in no order). */
int parse_works(Parse *parse, const YamlNode *list, Err *err);
/* One work from words, for a running node; appends to works. */
int parse_work_words(Parse *parse, int argc, const char *const *argv, Err *err);

/* 535, 550, 590 or 610 for a driver version. */
uint32_t scenario_generation(const char *driver);

/* The CUDA version of a driver, 12020 for 535.274.02. */
uint32_t scenario_cuda(const char *driver);

/* Fills one work of the image. -EINVAL for a kind that cannot run there. */
int scenario_work_fill(SimWork *out, const ScenarioWork *work, const SimBoard *board, uint64_t seed, Err *err);

void scenario_node_page(Str *out);
void gpus_page(Str *out);
void works_page(Str *out);
