/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/space.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/cuda/activity.h"

enum { SMALL_UNIT = 512, LARGE_UNIT = 2 << 20, PAGE = 4096, STUCK_BIT = 1 << 11 };
#define DEVICE_SHIFT 48 /* device n has its memory from (n + 1) << 48 on: no address of the host is there */

static CuArea **areas; /* in the order of their addresses */
static size_t area_count, area_cap;

/* --- areas ------------------------------------------------------------------------------------------------------- */

static size_t find_place(CUdeviceptr address)
{
    size_t low = 0, high = area_count;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (areas[mid]->base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

CuArea *cu_space_find(CUdeviceptr address, uint64_t bytes)
{
    const size_t at = find_place(address);

    if (at == 0)
        return NULL;
    CuArea *area = areas[at - 1];
    const uint64_t offset = address - area->base;
    return offset < area->bytes && bytes <= area->bytes - offset ? area : NULL;
}

static CuArea *insert_area(CuArea area)
{
    const size_t at = find_place(area.base);
    CuArea *made = malloc(sizeof *made);

    if (area_count == area_cap) {
        area_cap = area_cap ? area_cap * 2 : 64;
        areas = realloc(areas, area_cap * sizeof *areas);
    }
    if (!areas || !made)
        abort();
    *made = area;
    memmove(areas + at + 1, areas + at, (area_count - at) * sizeof *areas);
    areas[at] = made;
    area_count++;
    return made;
}

static void remove_area(size_t at)
{
    CuArea *area = areas[at];

    if (!area->device)
        munmap(area->real, area->bytes);
    else
        free(area->real);
    cu_pieces_done(&area->pieces);
    free(area);
    memmove(areas + at, areas + at + 1, (--area_count - at) * sizeof *areas);
}

static uint64_t round_up(uint64_t bytes)
{
    const uint64_t unit = bytes > CU_REAL_BYTES ? LARGE_UNIT : SMALL_UNIT;

    return (bytes + unit - 1) / unit * unit;
}

/* The lowest address with so much room: it is the place in the board's memory too. */
static CUdeviceptr find_room(const CuDevice *device, uint64_t bytes)
{
    const uint64_t unit = bytes > CU_REAL_BYTES ? LARGE_UNIT : SMALL_UNIT;
    CUdeviceptr at = (uint64_t)(device->ordinal + 1) << DEVICE_SHIFT | LARGE_UNIT; /* 0 is no address in it */

    for (size_t i = 0; i < area_count; i++) {
        if (areas[i]->device != device)
            continue;
        if (areas[i]->base >= at + bytes)
            break;
        at = (areas[i]->base + round_up(areas[i]->bytes) + unit - 1) / unit * unit;
    }
    return at;
}

void cu_space_measure(CuDevice *device, uint64_t *ret_free, uint64_t *ret_total)
{
    const uint64_t own = device->held_bytes + ((uint64_t)CU_CONTEXT_MIB << 20);
    const uint64_t taken = own + (uint64_t)(cu_activity_others_mib(device) * 1048576);

    *ret_total = device->memory_bytes;
    *ret_free = taken < device->memory_bytes ? device->memory_bytes - taken : 0;
}

CUresult cu_space_take(CuDevice *device, uint64_t bytes, CUdeviceptr *ret)
{
    const uint32_t room = cu_state(device, cu_now())->cond.set[SIM_KEY_MEMORY_ROOM];
    const uint64_t size = round_up(bytes);
    uint64_t free_bytes, total;

    cu_space_measure(device, &free_bytes, &total);
    if (size > free_bytes || (room && (double)(total - free_bytes + size) > (double)total * room / 1000))
        return CUDA_OUT_OF_MEMORY;
    CuArea *area = insert_area((CuArea){.base = find_room(device, size), .bytes = bytes, .device = device});
    if (bytes <= CU_REAL_BYTES) {
        area->real = malloc(size ? size : 1);
        if (!area->real)
            abort();
        memset(area->real, 0xc5, size);
    } else {
        CuContent *nothing = cu_content_unknown();
        area->bytes = (bytes + 3) / 4 * 4;
        cu_pieces_add(&area->pieces, nothing, 0, area->bytes / 4);
        cu_content_drop(nothing);
    }
    device->held_bytes += size;
    *ret = area->base;
    return CUDA_SUCCESS;
}

CUresult cu_space_take_host(uint64_t bytes, void **ret)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return CUDA_OUT_OF_MEMORY;
    insert_area((CuArea){.base = (CUdeviceptr)(uintptr_t)memory, .bytes = bytes, .real = memory});
    *ret = memory;
    return CUDA_SUCCESS;
}

CUresult cu_space_give(CUdeviceptr base, bool host)
{
    const size_t at = find_place(base);
    CuArea *area = at > 0 ? areas[at - 1] : NULL;

    if (!area || area->base != base || (area->device == NULL) != host)
        return CUDA_BAD_ARGUMENT;
    if (area->device)
        area->device->held_bytes -= round_up(area->bytes);
    remove_area(at - 1);
    return CUDA_SUCCESS;
}

uint64_t cu_space_give_all(CuDevice *device)
{
    uint64_t bytes = 0;

    for (size_t i = area_count; i-- > 0;) {
        if (areas[i]->device != device)
            continue;
        bytes += areas[i]->bytes;
        remove_area(i);
    }
    device->held_bytes = 0;
    return bytes;
}

/* --- buffers of the host ----------------------------------------------------------------------------------------- */

/* Large buffers that were copied: hosts copy the same ones again and again, and several of the same data. A buffer
 * counts as unchanged if some words of each page are. */
typedef struct HostCopy {
    const void *at;
    uint64_t bytes, samples;
    CuContent *content; /* owned; from its word 0 on */
} HostCopy;
enum { HOST_COPIES = 64 };
static HostCopy host_copies[HOST_COPIES];
static size_t host_copy_next;

static uint64_t sample_words(const void *at, uint64_t bytes)
{
    const uint8_t *from = at;
    uint64_t hash = bytes;

    for (uint64_t offset = 0; offset + 8 <= bytes; offset += offset % PAGE == 0 ? PAGE - 8 : 8) {
        uint64_t word;
        memcpy(&word, from + offset, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static void keep_host_copy(const void *at, uint64_t bytes, uint64_t samples, CuContent *content)
{
    size_t place = HOST_COPIES;

    for (size_t i = 0; i < HOST_COPIES; i++)
        if (host_copies[i].at == at)
            place = i;
    if (place == HOST_COPIES)
        place = host_copy_next++ % HOST_COPIES;
    CuContent *old = host_copies[place].content;
    host_copies[place] = (HostCopy){at, bytes, samples, cu_content_hold(content)};
    cu_content_drop(old);
}

/* What a buffer holds; a new reference. A fill of one word needs no bytes. */
static CuContent *content_of(const void *from, uint64_t bytes)
{
    const uint64_t words = bytes / 4, samples = sample_words(from, bytes);
    CuContent *content = NULL;
    uint32_t first;

    for (size_t i = 0; i < HOST_COPIES && !content; i++) {
        const HostCopy *copy = &host_copies[i];
        if (copy->bytes != bytes || copy->samples != samples)
            continue;
        if (copy->at == from)
            return cu_content_hold(copy->content);
        if (cu_content_has_bytes(copy->content, from, words))
            content = cu_content_hold(copy->content);
    }
    memcpy(&first, from, 4);
    if (!content && memcmp(from, (const uint8_t *)from + 4, (words - 1) * 4) == 0)
        content = cu_content_fill(first);
    if (!content)
        content = cu_content_bytes(from, words);
    keep_host_copy(from, bytes, samples, content);
    return content;
}

/* Writes pieces to a buffer, unless it holds them already. */
static void write_host(const CuPieces *pieces, void *to, uint64_t bytes)
{
    const CuPiece *piece = pieces->at;
    const bool whole = pieces->count == 1 && piece->phase == 0;

    if (pieces->count == 1 && cu_content_is_unknown(piece->content))
        return; /* of nothing in particular any bytes will do */
    for (size_t i = 0; whole && i < HOST_COPIES; i++)
        if (host_copies[i].at == to && host_copies[i].bytes == bytes && host_copies[i].content == piece->content &&
            host_copies[i].samples == sample_words(to, bytes))
            return;
    cu_pieces_write(pieces, to);
    if (whole)
        keep_host_copy(to, bytes, sample_words(to, bytes), piece->content);
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

void cu_space_view(CUdeviceptr address, uint64_t bytes, CuPieces *ret)
{
    const CuArea *area = cu_space_find(address, bytes);
    uint64_t skip = (address - area->base) / 4, left = bytes / 4;

    if (area->real) {
        CuContent *content = cu_content_bytes(area->real + (address - area->base), left);
        cu_pieces_add(ret, content, 0, left);
        cu_content_drop(content);
        return;
    }
    for (size_t i = 0; i < area->pieces.count && left > 0; i++) {
        const CuPiece *piece = &area->pieces.at[i];
        if (skip >= piece->words) {
            skip -= piece->words;
            continue;
        }
        const uint64_t part = piece->words - skip < left ? piece->words - skip : left;
        cu_pieces_add(ret, piece->content, piece->phase + skip, part);
        left -= part;
        skip = 0;
    }
}

void cu_space_read(CUdeviceptr address, void *to, uint64_t bytes)
{
    const CuArea *area = cu_space_find(address, bytes);
    CuPieces pieces = {0};

    if (area->real) {
        memcpy(to, area->real + (address - area->base), bytes);
        return;
    }
    cu_space_view(address, bytes, &pieces);
    if (bytes > CU_REAL_BYTES)
        write_host(&pieces, to, bytes);
    else
        cu_pieces_write(&pieces, to);
    cu_pieces_done(&pieces);
}

uint32_t cu_space_word(CUdeviceptr address)
{
    CuPieces pieces = {0};
    const CuArea *area = cu_space_find(address, 4);
    uint32_t word;

    if (area->real) {
        memcpy(&word, area->real + (address - area->base), 4);
        return word;
    }
    cu_space_view(address, 4, &pieces);
    word = cu_pieces_word(&pieces, 0);
    cu_pieces_done(&pieces);
    return word;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

/* The pieces of an area with those of [from, from + words) replaced. */
static void splice_pieces(CuArea *area, uint64_t from, uint64_t words, const CuPieces *with)
{
    CuPieces made = {0};

    if (from > 0)
        cu_space_view(area->base, from * 4, &made);
    for (size_t i = 0; i < with->count; i++)
        cu_pieces_add(&made, with->at[i].content, with->at[i].phase, with->at[i].words);
    if (from + words < area->bytes / 4)
        cu_space_view(area->base + (from + words) * 4, area->bytes - (from + words) * 4, &made);
    cu_pieces_done(&area->pieces);
    area->pieces = made;
}

static void store_pieces(CuArea *area, CUdeviceptr address, const CuPieces *pieces)
{
    uint64_t words = 0;

    if (area->real) {
        cu_pieces_write(pieces, area->real + (address - area->base));
        return;
    }
    for (size_t i = 0; i < pieces->count; i++)
        words += pieces->at[i].words;
    splice_pieces(area, (address - area->base) / 4, words, pieces);
}

void cu_space_set_word(CUdeviceptr address, uint32_t word)
{
    CuPieces pieces = {0};
    CuContent *content = cu_content_bytes(&word, 1);

    cu_pieces_add(&pieces, content, 0, 1);
    store_pieces(cu_space_find(address, 4), address, &pieces);
    cu_pieces_done(&pieces);
    cu_content_drop(content);
}

void cu_space_damage(CUdeviceptr address, uint64_t words)
{
    const CUdeviceptr at = address + words / 3 * 4;

    if (words > 0)
        cu_space_set_word(at, cu_space_word(at) ^ 0x00010000u);
}

/* The first word of the bad page has a bit that stays set. */
static void keep_stuck_bit(const CuArea *area, CUdeviceptr address, uint64_t bytes)
{
    CuDevice *device = area->device;
    const uint32_t page = device ? cu_state(device, cu_now())->cond.set[SIM_KEY_BAD_PAGE] : 0;

    if (page == 0)
        return;
    const CUdeviceptr bad = ((uint64_t)(device->ordinal + 1) << DEVICE_SHIFT) + (uint64_t)(page - 1) * PAGE;
    if (bad < address || bad + 4 > address + bytes)
        return;
    const uint32_t word = cu_space_word(bad);
    if (!(word & STUCK_BIT))
        cu_space_set_word(bad, word | STUCK_BIT);
}

void cu_space_store(CUdeviceptr address, const CuPieces *pieces)
{
    uint64_t words = 0;

    for (size_t i = 0; i < pieces->count; i++)
        words += pieces->at[i].words;
    if (words == 0)
        return;
    CuArea *area = cu_space_find(address, words * 4);
    store_pieces(area, address, pieces);
    keep_stuck_bit(area, address, words * 4);
}

void cu_space_fill(CUdeviceptr address, uint64_t words, CuContent *content)
{
    CuPieces pieces = {0};

    cu_pieces_add(&pieces, content, 0, words);
    cu_space_store(address, &pieces);
    cu_pieces_done(&pieces);
    cu_content_drop(content);
}

void cu_space_write(CUdeviceptr address, const void *from, uint64_t bytes)
{
    CuArea *area = cu_space_find(address, bytes);

    if (bytes == 0)
        return;
    if (!area->real) {
        cu_space_fill(address, bytes / 4,
                      bytes > CU_REAL_BYTES ? content_of(from, bytes) : cu_content_bytes(from, bytes / 4));
        return;
    }
    memcpy(area->real + (address - area->base), from, bytes);
    keep_stuck_bit(area, address, bytes);
}
