/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field values: one call, many readings. Each entry carries its own answer; the table of fields is fields.def. All
 * entries of a call come from one snapshot. Any thread may call.
 */
#include "sim/nvml/getter.h"

enum {
    ALL_LINKS = -1,
    ANY_LINK = -2,
    LATENCY_US = 12, /* what one field costs; averaged by the real library too */
    C2C_LINKS = 10,
    C2C_MB_PER_S = 44712,   /* per link */
    LOW_POWER_MAX = 0x1fff, /* in units of 100 us */
    LOW_POWER_UNSET = 0,
    PACKET_BYTES = 256,
    ATOMICS = 0x3f, /* fetch and add, swap, compare and swap, each of 32 and 64 bits */
    EDPP_PERCENT = 100,
    FIELDS_535 = 228, /* ids below are known: nvidia-smi of 535.274.02 asks for 226 and 227 */
    FIELDS_590 = 289,
};
#define RAW_OVERHEAD 1.125 /* flit headers beside the data */
#define IDLE_MEMORY_SHARE 0.62

typedef struct Field {
    const NvmlCall *c;
    unsigned int scope;
    int a, b, d;
} Field;
/* Reads one value; signed ones as two's complement. */
typedef nvmlReturn_t Reader(const Field *f, uint64_t *ret);
typedef struct FieldRow {
    Reader *read;
    uint16_t type;
    int32_t a, b, d;
} FieldRow;

static nvmlReturn_t give_value(uint64_t value, uint64_t *ret)
{
    *ret = value;
    return NVML_SUCCESS;
}

/* ---- ECC and repairs ---- */
static nvmlReturn_t ecc_mode(const Field *f, uint64_t *ret)
{
    const SimCond *cond = &f->c->now->cond;
    if (!f->c->board->has_ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_value((f->a ? cond->set[SIM_KEY_ECC_PENDING] : cond->ecc_mode) != 0, ret);
}

/* a: corrected or not, b: volatile or aggregate, c: location, SIM_ECC_LOCS = all. From Ampere on of the locations only
 * the device memory is separate. */
static nvmlReturn_t ecc_count(const Field *f, uint64_t *ret)
{
    const SimCond *cond = &f->c->now->cond;
    if (!f->c->board->has_ecc || !cond->ecc_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    if (f->d != SIM_ECC_LOCS && f->d != SIM_ECC_DRAM && f->c->board->arch >= NVML_DEVICE_ARCH_AMPERE)
        return NVML_ERROR_NOT_SUPPORTED;
    const uint64_t *count = f->b ? cond->ecc_aggregate[f->a] : cond->ecc_volatile[f->a];
    if (f->d != SIM_ECC_LOCS)
        return give_value(count[f->d], ret);
    uint64_t sum = 0;
    for (int i = 0; i < SIM_ECC_LOCS; i++)
        sum += count[i];
    return give_value(sum, ret);
}

static nvmlReturn_t read_retired(const Field *f, uint64_t *ret)
{
    if (!f->c->board->has_retired_pages)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_value(f->c->now->cond.retired[f->a], ret);
}

/* a: 0 single bit, 1 double bit, 2 either. What is pending is not told apart: it belongs to causes that have pages. */
static nvmlReturn_t retired_pending(const Field *f, uint64_t *ret)
{
    const SimCond *cond = &f->c->now->cond;
    if (!f->c->board->has_retired_pages)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_value(cond->retired_pending && (f->a == 2 || cond->retired[f->a] > 0), ret);
}

static nvmlReturn_t read_remapped(const Field *f, uint64_t *ret)
{
    const SimCond *cond = &f->c->now->cond;
    const uint32_t values[] = {
        cond->remap_cor, cond->remap_unc, cond->remap_pending != 0, cond->remap_failed != 0, 0, 0};
    if (!f->c->board->has_remap || cond->mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_value(values[f->a], ret);
}

/* ---- NVLink ---- */
static int is_nvl5(const Field *f)
{
    return f->c->board->link_version >= NVML_NVLINK_VERSION_5_0;
}

/* Which link an entry is about, from its row or its scope. */
static nvmlReturn_t link_of(const Field *f, int from_row, unsigned int *ret)
{
    unsigned int link = from_row == ANY_LINK ? f->scope : (unsigned int)from_row;
    if (link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (link >= f->c->board->link_count || f->c->now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    *ret = link;
    return NVML_SUCCESS;
}

/* a: error counter, b: link. Links of the fifth generation count otherwise (link5). */
static nvmlReturn_t link_errors(const Field *f, uint64_t *ret)
{
    const NvmlCall *c = f->c;
    if (is_nvl5(f) || c->board->link_count == 0 || c->now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    if (f->b == ALL_LINKS) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < c->board->link_count && i < SIM_LINK_MAX; i++)
            sum += (uint64_t)c->now->cond.link[i].count[f->a];
        return give_value(sum, ret);
    }
    unsigned int link;
    nvmlReturn_t rc = link_of(f, f->b, &link);
    return rc == NVML_SUCCESS ? give_value((uint64_t)c->now->cond.link[link].count[f->a], ret) : rc;
}

static nvmlReturn_t link_crc(const Field *f, uint64_t *ret)
{
    unsigned int link;
    nvmlReturn_t rc = is_nvl5(f) ? NVML_ERROR_NOT_SUPPORTED : link_of(f, ANY_LINK, &link);
    if (rc != NVML_SUCCESS)
        return rc;
    const double *count = f->c->now->cond.link[link].count;
    return give_value((uint64_t)count[NVML_NVLINK_ERROR_DL_CRC_FLIT] + (uint64_t)count[NVML_NVLINK_ERROR_DL_CRC_DATA],
                      ret);
}

/* a: least link version, b: link. */
static nvmlReturn_t link_speed(const Field *f, uint64_t *ret)
{
    const SimBoard *board = f->c->board;
    unsigned int link = 0;
    nvmlReturn_t rc = link_of(f, f->b == ALL_LINKS ? 0 : f->b, &link);
    if (rc != NVML_SUCCESS || board->link_version < (uint32_t)f->a)
        return rc != NVML_SUCCESS ? rc : NVML_ERROR_NOT_SUPPORTED;
    int down = f->b != ALL_LINKS && f->c->now->cond.link[link].state == NVML_NVLINK_STATE_INACTIVE;
    return give_value(down ? 0 : board->link_mbytes_per_s, ret);
}

/* a: only those that lead to a switch and are up. */
static nvmlReturn_t link_count(const Field *f, uint64_t *ret)
{
    const SimBoard *board = f->c->board;
    if (board->link_count == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!f->a)
        return give_value(board->link_count, ret);
    uint64_t up = 0;
    for (uint32_t i = 0; i < board->link_count && i < SIM_LINK_MAX; i++)
        up += f->c->now->cond.link[i].state != NVML_NVLINK_STATE_INACTIVE;
    return give_value(board->link_to_switch ? up : 0, ret);
}

/* a: channel, b: with headers. A scope of all ones is the sum; links share the traffic evenly. */
static nvmlReturn_t link_kib(const Field *f, uint64_t *ret)
{
    const SimBoard *board = f->c->board;
    if (board->link_count == 0 || f->c->now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    double kib = f->c->now->cum[f->a] / 1024 * (f->b ? RAW_OVERHEAD : 1);
    if (f->scope == ~0u)
        return give_value(nvml_round(kib), ret);
    unsigned int link;
    nvmlReturn_t rc = link_of(f, ANY_LINK, &link);
    return rc == NVML_SUCCESS ? give_value(nvml_round(kib / board->link_count), ret) : rc;
}

enum { LINK_REMOTE_ID, LINK_STATE, LINK_VERSION, LINK_POWER_STATE };

static nvmlReturn_t link_fact(const Field *f, uint64_t *ret)
{
    unsigned int link;
    nvmlReturn_t rc = link_of(f, ANY_LINK, &link);
    if (f->a == LINK_STATE && f->c->now->cond.mig_mode && f->scope < f->c->board->link_count)
        return give_value(NVML_NVLINK_STATE_INACTIVE, ret); /* with MIG on links read as down */
    if (rc != NVML_SUCCESS)
        return rc;
    uint32_t state = f->c->now->cond.link[link].state;
    switch (f->a) {
    case LINK_REMOTE_ID:
        return state == NVML_NVLINK_STATE_INACTIVE ? NVML_ERROR_NOT_SUPPORTED : give_value(link, ret);
    case LINK_STATE:
        return give_value(state, ret);
    case LINK_VERSION:
        return give_value(f->c->board->link_version, ret);
    default:
        return give_value(state == NVML_NVLINK_STATE_SLEEP, ret);
    }
}

/* Low power states came with the fourth generation. */
static nvmlReturn_t link_threshold(const Field *f, uint64_t *ret)
{
    if (f->c->board->link_count == 0 || f->c->board->link_version < NVML_NVLINK_VERSION_4_0)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_value((uint64_t)f->a, ret);
}

enum {
    NVL5_NEVER,
    NVL5_TX_PACKETS,
    NVL5_TX_BYTES,
    NVL5_RX_PACKETS,
    NVL5_RX_BYTES,
    NVL5_ERRORS,
    NVL5_SYMBOLS,
    NVL5_REPLAYS,
    NVL5_RECOVERIES,
    NVL5_FEC,
};

/* Counters of the fifth generation: a says which. The bins of the error correction hold blocks by errors corrected (b):
 * none in nearly all. */
static nvmlReturn_t read_link5(const Field *f, uint64_t *ret)
{
    unsigned int link;
    nvmlReturn_t rc = is_nvl5(f) ? link_of(f, ANY_LINK, &link) : NVML_ERROR_NOT_SUPPORTED;
    if (rc != NVML_SUCCESS)
        return rc;
    const double *count = f->c->now->cond.link[link].count;
    double tx = f->c->now->cum[SIM_CH_NVL_TX] / f->c->board->link_count;
    double rx = f->c->now->cum[SIM_CH_NVL_RX] / f->c->board->link_count;
    double crc = count[NVML_NVLINK_ERROR_DL_CRC_FLIT] + count[NVML_NVLINK_ERROR_DL_CRC_DATA];
    switch (f->a) {
    case NVL5_TX_PACKETS:
        return give_value((uint64_t)(tx / PACKET_BYTES), ret);
    case NVL5_TX_BYTES:
        return give_value(nvml_round(tx), ret);
    case NVL5_RX_PACKETS:
        return give_value((uint64_t)(rx / PACKET_BYTES), ret);
    case NVL5_RX_BYTES:
        return give_value(nvml_round(rx), ret);
    case NVL5_ERRORS:
        return give_value((uint64_t)crc, ret);
    case NVL5_SYMBOLS:
        return give_value((uint64_t)count[NVML_NVLINK_ERROR_DL_CRC_FLIT], ret);
    case NVL5_REPLAYS:
        return give_value((uint64_t)count[NVML_NVLINK_ERROR_DL_REPLAY], ret);
    case NVL5_RECOVERIES:
        return give_value((uint64_t)count[NVML_NVLINK_ERROR_DL_RECOVERY], ret);
    case NVL5_FEC:
        return give_value(f->b == 0 ? (uint64_t)(rx / PACKET_BYTES) : f->b == 1 ? (uint64_t)crc : 0, ret);
    default:
        return give_value(0, ret);
    }
}

/* ---- heat, power, what holds clocks down ---- */
static nvmlReturn_t memory_temp(const Field *f, uint64_t *ret)
{
    return f->c->board->has_mem_temp ? give_value(nvml_round(f->c->now->mem_temp_c), ret) : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t read_tlimit(const Field *f, uint64_t *ret)
{
    const SimBoard *b = f->c->board;
    const int32_t margin[] = {b->tlimit_shutdown, b->tlimit_slowdown, b->tlimit_mem_max, b->tlimit_gpu_max};
    return b->has_tlimit ? give_value((uint64_t)(int64_t)margin[f->a], ret) : NVML_ERROR_NOT_SUPPORTED;
}

/* Power of the GPU or of its module. */
static nvmlReturn_t check_scope(const Field *f, int has_module)
{
    if (f->scope > NVML_POWER_SCOPE_GPU_BASE)
        return NVML_ERROR_INVALID_ARGUMENT;
    int module = has_module && f->scope == NVML_POWER_SCOPE_MODULE && f->c->board->has_module_power;
    return f->scope == NVML_POWER_SCOPE_GPU || module ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* Mean power of the memory alone, as captures of H100 and H200 have it: 43 W of an idle H100's 70 W. */
static nvmlReturn_t memory_power(const Field *f, uint64_t *ret)
{
    const SimBoard *b = f->c->board;
    if (b->arch < NVML_DEVICE_ARCH_HOPPER || !b->has_mem_temp)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_value(nvml_round((b->idle_w * IDLE_MEMORY_SHARE + b->watt_dram * f->c->now->win[SIM_CH_DRAM]) * 1000),
                      ret);
}

/* a: the scope counts. */
static nvmlReturn_t read_energy(const Field *f, uint64_t *ret)
{
    nvmlReturn_t rc = f->a ? check_scope(f, 0) : NVML_SUCCESS;
    if (rc == NVML_SUCCESS && f->c->board->arch < NVML_DEVICE_ARCH_VOLTA)
        rc = NVML_ERROR_NOT_SUPPORTED;
    return rc == NVML_SUCCESS ? give_value(nvml_round(f->c->now->energy_mj), ret) : rc;
}

enum { POWER_MEAN, POWER_NOW, POWER_MIN, POWER_MAX, POWER_DEFAULT, POWER_ENFORCED, POWER_ASKED };

static nvmlReturn_t read_power(const Field *f, uint64_t *ret)
{
    const SimBoard *b = f->c->board;
    const SimNow *now = f->c->now;
    const uint32_t asked = now->cond.set[SIM_KEY_POWER_LIMIT_MW];
    int reading = f->a == POWER_MEAN || f->a == POWER_NOW;
    if (f->a == POWER_MEAN && f->scope == NVML_POWER_SCOPE_MEMORY)
        return memory_power(f, ret);
    nvmlReturn_t rc = check_scope(f, reading);
    if (rc == NVML_SUCCESS && !(reading ? b->has_instant_power : b->power_max_mw))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc != NVML_SUCCESS)
        return rc;
    switch (f->a) {
    case POWER_MEAN:
        return give_value(nvml_round(now->watt_mean * 1000), ret);
    case POWER_NOW:
        return give_value(nvml_round(now->watt * 1000), ret);
    case POWER_MIN:
        return give_value(b->power_min_mw, ret);
    case POWER_MAX:
        return give_value(b->power_max_mw, ret);
    case POWER_DEFAULT:
        return give_value(b->power_default_mw, ret);
    case POWER_ENFORCED:
        return give_value(nvml_round(now->limit_w * 1000), ret);
    default:
        return give_value(asked ? asked : b->power_default_mw, ret);
    }
}

/* a to b: causes, whose times are added. */
static nvmlReturn_t held_ns(const Field *f, uint64_t *ret)
{
    double ns = 0;
    for (int i = f->a; i <= f->b; i++)
        ns += f->c->now->throttle_ns[i];
    return give_value(nvml_round(ns), ret);
}

/* ---- PCIe, C2C, the rest ---- */
enum {
    PCIE_NEVER,
    PCIE_REPLAYS,
    PCIE_ROLLOVERS,
    PCIE_RECOVERIES,
    PCIE_CORRECTABLE,
    PCIE_RECEIVER,
    PCIE_BAD_TLP,
    PCIE_BAD_DLLP,
    PCIE_NAKS_SENT,
    PCIE_NON_FATAL,
    PCIE_FATAL,
    PCIE_UNSUPPORTED,
};

static uint64_t aer_sum(const uint64_t count[SIM_AER_MAX])
{
    uint64_t sum = 0;
    for (int i = 0; i < SIM_AER_MAX; i++)
        sum += count[i];
    return sum;
}

static nvmlReturn_t pcie_count(const Field *f, uint64_t *ret)
{
    const SimCond *cond = &f->c->now->cond;
    const uint64_t *cor = cond->aer[0];
    switch (f->a) {
    case PCIE_REPLAYS:
        return give_value((uint64_t)cond->replays, ret);
    case PCIE_ROLLOVERS:
        return give_value(cor[SIM_AER_ROLLOVER], ret);
    case PCIE_RECOVERIES: /* the link trains anew when replays do not get through */
        return give_value(cor[SIM_AER_ROLLOVER] + cor[SIM_AER_RX_ERR], ret);
    case PCIE_CORRECTABLE:
        return give_value(aer_sum(cor), ret);
    case PCIE_RECEIVER:
        return give_value(cor[SIM_AER_RX_ERR], ret);
    case PCIE_BAD_TLP:
        return give_value(cor[SIM_AER_BAD_TLP], ret);
    case PCIE_BAD_DLLP:
        return give_value(cor[SIM_AER_BAD_DLLP], ret);
    case PCIE_NAKS_SENT: /* one for each bad packet */
        return give_value(cor[SIM_AER_BAD_TLP], ret);
    case PCIE_NON_FATAL:
        return give_value(aer_sum(cond->aer[1]), ret);
    case PCIE_FATAL:
        return give_value(aer_sum(cond->aer[2]), ret);
    case PCIE_UNSUPPORTED:
        return give_value(cond->aer[1][SIM_AER_UNSUPPORTED] + cond->aer[2][SIM_AER_UNSUPPORTED], ret);
    default:
        return give_value(0, ret);
    }
}

static nvmlReturn_t pcie_bytes(const Field *f, uint64_t *ret)
{
    return give_value(nvml_round(f->c->now->cum[f->a]), ret);
}

static nvmlReturn_t read_c2c(const Field *f, uint64_t *ret)
{
    return f->c->board->has_c2c ? give_value((uint64_t)f->a, ret) : NVML_ERROR_NOT_SUPPORTED;
}

/* Constants of captures of an H100. Where the machine's root port routes no atomics, as an H200's, there is no mask. */
static nvmlReturn_t hopper_fact(const Field *f, uint64_t *ret)
{
    const SimBoard *b = f->c->board;
    return b->arch >= NVML_DEVICE_ARCH_HOPPER && b->has_ecc ? give_value((uint64_t)f->a, ret)
                                                            : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t mig_fact(const Field *f, uint64_t *ret)
{
    const SimBoard *b = f->c->board;
    return give_value(b->has_mig && (f->a || !b->mig_needs_reset), ret);
}

static nvmlReturn_t read_condition(const Field *f, uint64_t *ret)
{
    return give_value(f->c->now->cond.set[f->a], ret);
}

/* ---- the table ---- */
#define TYPE_UINT NVML_VALUE_TYPE_UNSIGNED_INT
#define TYPE_ULL NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
#define TYPE_SINT NVML_VALUE_TYPE_SIGNED_INT
#define X(id, type, reader, a, b, d) [NVML_FI_DEV_##id] = {reader, TYPE_##type, a, b, d},
static const FieldRow rows[NVML_FI_MAX] = {
#include "sim/nvml/fields.def"
};
#undef X

/* Number of field ids that a driver generation knows. */
static unsigned int known_fields(void)
{
    return nvml_library_generation >= 610 ? NVML_FI_MAX : nvml_library_generation >= 590 ? FIELDS_590 : FIELDS_535;
}

static void read_one(const NvmlCall *c, nvmlFieldValue_t *v)
{
    v->timestamp = (long long)nvml_stamp(c->image, c->now->t_ns);
    v->latencyUsec = LATENCY_US;
    v->value.ullVal = 0;
    v->valueType = TYPE_UINT;
    if (v->fieldId == 0 || v->fieldId >= known_fields()) {
        v->nvmlReturn = NVML_ERROR_INVALID_ARGUMENT;
        return;
    }
    const FieldRow *row = &rows[v->fieldId];
    uint64_t value = 0;
    const Field f = {.c = c, .scope = v->scopeId, .a = row->a, .b = row->b, .d = row->d};
    v->nvmlReturn = row->read && !c->mig ? row->read(&f, &value) : NVML_ERROR_NOT_SUPPORTED;
    if (v->nvmlReturn != NVML_SUCCESS)
        return;
    v->valueType = (nvmlValueType_t)row->type;
    if (row->type == TYPE_ULL)
        v->value.ullVal = value;
    else if (row->type == TYPE_SINT)
        v->value.siVal = (int)(int64_t)value;
    else
        v->value.uiVal = (unsigned int)value;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    NvmlFn fn = NVML_FN_nvmlDeviceGetFieldValues;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!values || count <= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        read_one(&c, &values[i]);
        if (values[i].nvmlReturn == NVML_ERROR_INVALID_ARGUMENT)
            nvml_strict(fn, "field %u with scope %u is unknown", values[i].fieldId, values[i].scopeId);
    }
    return NVML_SUCCESS;
}
