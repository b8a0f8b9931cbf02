/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How a client's call changes the node: one op at the present virtual time, by root only. Any thread may call.
 */
#include "sim/nvml/lib.h"

/* Applies `op` to the call's GPU. NO_PERMISSION without root, else the op's outcome; ret_id (may be NULL) gets a new
 * id. */
static inline nvmlReturn_t nvml_change(const NvmlCall *call, SimOp op, uint32_t *ret_id)
{
    nvmlReturn_t rc = nvml_need_root();
    if (rc != NVML_SUCCESS)
        return rc;
    op.gpu = (int32_t)call->gpu;
    op.origin = SIM_FROM_CLIENT;
    return (nvmlReturn_t)sim_op_apply(call->image, &op, NULL, 0, ret_id);
}

/* Sets one setting of the call's GPU. */
static inline nvmlReturn_t nvml_change_key(const NvmlCall *call, SimKey key, uint64_t value)
{
    return nvml_change(call, (SimOp){.type = SIM_OP_SET, .a = {(int32_t)key}, .u = value}, NULL);
}
