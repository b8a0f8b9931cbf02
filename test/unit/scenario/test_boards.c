/* SPDX-License-Identifier: Apache-2.0 */
/* Covers board.c, board_set.c, library.c and the files of sim/data/boards. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "sim/core/control.h"

static const SimBoard *board_of(Kit *kit, const char *key)
{
    const SimBoard *board = NULL;
    if (board_set_get(&kit->boards, key, NULL, &board, &kit->err) < 0)
        fail_msg("%s", kit->err.text);
    return board;
}

static void every_file_is_a_board(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    const char *const *names = board_set_names(&kit.boards, &kit.arena);
    assert_non_null(names[0]);
    for (size_t i = 0; names[i]; i++) {
        assert_string_equal(board_of(&kit, names[i])->key, names[i]);
        assert_true(i == 0 || strcmp(names[i - 1], names[i]) < 0);
    }
    kit_done(&kit);
}

/* What captures of real GPUs show. */
static void facts_of_captures(void **state)
{
    static const struct {
        const char *key, *name;
        uint32_t pci, sub, total, reserved, bar1, sm_max, mem_max, video_max, watt_min, watt, watt_max, banks, links,
            gen;
        int32_t shutdown, slowdown;
    } rows[] = {
        {"h100-sxm-80gb", "NVIDIA H100 80GB HBM3", 0x233010DE, 0x16C110DE, 81559, 479, 131072, 1980, 2619, 1545, 200,
         700, 700, 2560, 18, 5, -8, -2},
        {"h200-sxm-141gb", "NVIDIA H200", 0x233510DE, 0x18BE10DE, 143771, 614, 262144, 1980, 3201, 1545, 200, 700, 700,
         3072, 18, 5, -8, -2},
        {"l40s", "NVIDIA L40S", 0x26B910DE, 0x185110DE, 46068, 609, 65536, 2520, 9001, 1965, 100, 350, 350, 192, 0, 4,
         -5, -2},
    };
    Kit kit;
    (void)state;
    kit_init(&kit);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const SimBoard *b = board_of(&kit, rows[i].key);
        assert_string_equal(b->name, rows[i].name);
        assert_int_equal(b->pci_device_id, rows[i].pci);
        assert_int_equal(b->pci_subsystem_id, rows[i].sub);
        assert_int_equal(b->memory_mib, rows[i].total);
        assert_int_equal(b->reserved_mib, rows[i].reserved);
        assert_int_equal(b->bar1_mib, rows[i].bar1);
        assert_int_equal(b->sm_clock_max, rows[i].sm_max);
        assert_int_equal(b->mem_clock_max, rows[i].mem_max);
        assert_int_equal(b->video_clock_max, rows[i].video_max);
        assert_int_equal(b->power_min_mw, rows[i].watt_min * 1000);
        assert_int_equal(b->power_default_mw, rows[i].watt * 1000);
        assert_int_equal(b->power_max_mw, rows[i].watt_max * 1000);
        assert_int_equal(b->remap_banks, rows[i].banks);
        assert_int_equal(b->link_count, rows[i].links);
        assert_int_equal(b->pcie_gen, rows[i].gen);
        assert_int_equal(b->tlimit_shutdown, rows[i].shutdown);
        assert_int_equal(b->tlimit_slowdown, rows[i].slowdown);
        assert_int_equal(b->brand, 14);
        assert_true(b->has_ecc && b->has_tlimit && !b->fans);
    }
    assert_int_equal(board_of(&kit, "h100-sxm-80gb")->link_mbytes_per_s, 26562);
    assert_int_equal(board_of(&kit, "h100-sxm-80gb")->link_version, 6);
    assert_int_equal(board_of(&kit, "l40s")->addressing_mode, 1);
    assert_false(board_of(&kit, "l40s")->has_mig || board_of(&kit, "t4")->has_mig);
    kit_done(&kit);
}

static const SimProfile *profile_of(Kit *kit, const char *key, const char *name)
{
    const SimBoard *board = board_of(kit, key);
    int at = board_profile_find(board, name);
    if (at < 0)
        fail_msg("%s has no %s", key, name);
    return &board->profiles[at];
}

static void number_is(const char *what, const char *row, const char *fact, uint32_t value)
{
    const char *dash = strchr(fact, '-');
    unsigned long low = strtoul(fact, NULL, 10), high = dash ? strtoul(dash + 1, NULL, 10) : low;
    if (*fact && (value < low || value > high))
        fail_msg("%s: %s is %u, must be %s", row, what, value, fact);
}

static void starts_are(const char *row, const char *fact, const SimProfile *p)
{
    char have[64] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < p->place_count; i++)
        used += (size_t)snprintf(have + used, sizeof have - used, "%s%u", i ? " " : "", p->place_start[i]);
    snprintf(have + used, sizeof have - used, ":%u", p->place_size);
    if (strcmp(have, fact) != 0)
        fail_msg("%s: starts are %s, must be %s", row, have, fact);
}

static void mig_facts(void **state)
{
    Kit kit;
    char line[256];
    size_t rows = 0;
    (void)state;
    kit_init(&kit);
    FILE *file = fopen(TEST_DIR "/mig_facts.csv", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *field[9], *rest = line;
        if (*line == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        char *row = arena_strdup(&kit.arena, line);
        for (size_t i = 0; i < 9; i++)
            assert_non_null(field[i] = strsep(&rest, ","));
        const SimProfile *p = profile_of(&kit, field[0], field[1]);
        number_is("id", row, field[2], p->id);
        number_is("slices", row, field[3], p->slices);
        number_is("memory_mib", row, field[4], p->memory_mib);
        number_is("sm", row, field[5], p->sm);
        number_is("max", row, field[6], p->max_instances);
        starts_are(row, field[7], p);
        number_is("index", row, field[8], p->index);
        rows++;
    }
    fclose(file);
    assert_int_equal(rows, 51);
    kit_done(&kit);
}

/* Clients make the gigabytes in a profile's name from its memory: eighths of the whole, rounded up. */
static void names_follow_from_memory(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    const char *const *names = board_set_names(&kit.boards, &kit.arena);
    for (size_t i = 0; names[i]; i++) {
        const SimBoard *b = board_of(&kit, names[i]);
        for (uint32_t k = 0; k < b->profile_count; k++) {
            const SimProfile *p = &b->profiles[k];
            double eighths = ceil((double)p->memory_mib / b->memory_mib * 8) / 8;
            char want[32];
            snprintf(want, sizeof want, "%ug.%.0fgb", p->slices, round(eighths * ceil(b->memory_mib / 1024.0)));
            if (strncmp(want, p->name, strlen(want)) != 0)
                fail_msg("%s: %s would be named %s", b->key, p->name, want);
        }
    }
    kit_done(&kit);
}

/* Each profile can really be made as often as it says, on an empty GPU. */
static void profiles_fit_as_often_as_they_say(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    SimCond *cond = calloc(1, sizeof *cond);
    const char *const *names = board_set_names(&kit.boards, &kit.arena);
    for (size_t i = 0; names[i]; i++) {
        const SimBoard *b = board_of(&kit, names[i]);
        for (uint32_t k = 0; k < b->profile_count; k++)
            if (sim_mig_capacity(b, cond, k) != b->profiles[k].max_instances)
                fail_msg("%s: %s fits %u times", b->key, b->profiles[k].name, sim_mig_capacity(b, cond, k));
    }
    free(cond);
    kit_done(&kit);
}

/* Full load draws a little more than the limit, single precision and token generation well below. */
static void coefficients_are_plausible(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    const char *const *names = board_set_names(&kit.boards, &kit.arena);
    for (size_t i = 0; names[i]; i++) {
        const SimBoard *b = board_of(&kit, names[i]);
        double tdp = b->power_default_mw / 1000.0;
        double train = b->context_w + 0.9 * b->watt_sm + 0.6 * b->watt_tensor + 0.5 * b->watt_dram;
        double fp32 = b->context_w + 0.95 * b->watt_sm + 0.8 * b->watt_fp;
        double decode = b->context_w + 0.7 * b->watt_sm + 0.08 * b->watt_tensor + 0.85 * b->watt_dram;
        double hot = b->ambient_c + b->kelvin_per_watt * tdp;
        if (train < 1.03 * tdp || train > 1.16 * tdp || fp32 < 0.5 * tdp || fp32 > 0.8 * tdp || decode < 0.5 * tdp ||
            decode > 0.75 * tdp || hot < 58 || hot > b->temp_gpu_max - 5)
            fail_msg("%s: train %.2f fp32 %.2f decode %.2f of the limit, %.0f degrees", b->key, train / tdp, fp32 / tdp,
                     decode / tdp, hot);
    }
    kit_done(&kit);
}

static void parse_fails(const char *from, const char *to, const char *want)
{
    Kit kit;
    kit_init(&kit);
    FILE *file = fopen(SIM_DATA_DIR "/boards/h100-sxm-80gb.yaml", "r");
    char text[8192] = "", bad[8400] = "";
    SimBoard board = {.brand = 77};
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(board_parse("b.yaml", "b", bad, strlen(bad), &board, &kit.err), -EINVAL);
    assert_string_equal(kit.err.text, want);
    assert_int_equal(board.brand, 77);
    kit_done(&kit);
}

static void bad_boards(void **state)
{
    (void)state;
    parse_fails("vbios:", "vbois:",
                "b.yaml:9:1: unknown key of a board 'vbois' (did you mean 'vbios'?); allowed: name, brand, "
                "architecture, compute, part_number, vbios, inforom, pci, memory, sm, clocks, power, temperature, "
                "tlimit, has, addressing, remap_banks, fans, links, engines, mig");
    parse_fails("  sm_max: 1980", "  sm_max: fast",
                "b.yaml:28:11: 'clocks.sm_max' must be a whole number of MHz, not 'fast'");
    parse_fails("  sm_max: 1980", "  sm_max: 1", "b.yaml:28:11: 'clocks.sm_max' must be from 100 to 6000 MHz, not 1");
    parse_fails(
        "architecture: hopper", "architecture: hoper",
        "b.yaml:6:15: unknown value of 'architecture' 'hoper' (did you mean 'hopper'?); allowed: none, reserved, "
        "kepler, maxwell, pascal, volta, turing, ampere, ada, hopper, blackwell, rubin");
    parse_fails("  default: 700", "  default: 900", "b.yaml:4:1: power: min, default and max must rise");
    parse_fails("starts: [0, 4]", "starts: [0, 6]", "b.yaml:95:148: start 6 with size 4 leaves the grid of 8");
    parse_fails("  mem: [2619, 1593]", "  mem: [1593, 2619]", "b.yaml:4:1: clocks: the first of mem must be mem_max");
    parse_fails("name: 2g.20gb", "name: 1g.20gb", "b.yaml:94:7: profile '1g.20gb' is listed twice");
    parse_fails("  total_mib: 81559\n", "", "b.yaml:4:1: a board needs 'memory.total_mib': frame buffer");
}

static void unknown_board(void **state)
{
    Kit kit;
    const SimBoard *board = NULL;
    (void)state;
    kit_init(&kit);
    assert_int_equal(board_set_get(&kit.boards, "h100-sxm-80g", NULL, &board, &kit.err), -EINVAL);
    assert_non_null(strstr(kit.err.text, "did you mean 'h100-sxm-80gb'?"));
    assert_int_equal(board_set_get(&kit.boards, "../boards/t4", NULL, &board, &kit.err), -EINVAL);
    assert_null(board);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_a_board),
        cmocka_unit_test(facts_of_captures),
        cmocka_unit_test(mig_facts),
        cmocka_unit_test(names_follow_from_memory),
        cmocka_unit_test(profiles_fit_as_often_as_they_say),
        cmocka_unit_test(coefficients_are_plausible),
        cmocka_unit_test(bad_boards),
        cmocka_unit_test(unknown_board),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
