/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the child of mig_driver.h and its parent share: memory for orders and answers, and which call is under way. */
#include "model/gres.h"
#include "model/make.h"
#include "source/board/board.h"
#include "source/mig/mig_driver.h"

typedef enum MigOrder {
    MIG_OPEN,
    MIG_READ,
    MIG_READ_GRES,
    MIG_READ_MAKE,
    MIG_SET_MODE,
    MIG_DESTROY,
    MIG_CREATE,
    MIG_RECOMPUTE
} MigOrder;

typedef struct MigShared {
    BoardSampler call; /* announces each call of the driver */
    MigOrder order;
    uint32_t gpu, instance_id;
    bool on;
    bool no_attach;          /* MIG_OPEN: attach no GPU before it is asked for */
    bool hung[MIG_GPUS_MAX]; /* MIG_READ: the entry stays as the parent set it, the GPU is not asked */
    MigInstance instance;
    int rc; /* as the functions of mig_driver.h return */
    char text[ERR_TEXT_MAX];
    MigNode node;
    GresNode gres;
    MakeNode make;
} MigShared;

/* The child: carries out an order for each byte that comes, and answers with a byte. Returns when `fd` ends. */
void mig_child_run(MigShared *shared, const char *library, int fd);
