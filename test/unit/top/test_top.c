/* SPDX-License-Identifier: Apache-2.0 */
/* service/top: what keys and the mouse do, and that the cursor stays on its thing. The screens themselves are compared
 * by test_screens.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "kit.h"
#include "service/top/inside.h"

#define RECORDING(name) TOP_DATA "/" name ".ndjson.gz"

typedef struct Rig {
    Kit kit;
    Str screen;
} Rig;

static Rig rig;

static void open_with(const char *path, const TopOptions *options)
{
    kit_open(&rig.kit, path, options);
    str_init(&rig.screen, 1 << 22);
    while (kit_next(&rig.kit))
        ;
}

static void open_rig(const char *path)
{
    open_with(path, NULL);
}

static int close_rig(void **state UNUSED)
{
    kit_close(&rig.kit);
    str_done(&rig.screen);
    return 0;
}

static const char *screen(void)
{
    str_clear(&rig.screen);
    kit_draw(&rig.kit, false, &rig.screen);
    return rig.screen.text;
}

static TopWish press(const char *words)
{
    TopWish wish = TOP_WISH_NONE;
    char word[32];
    int len;

    for (; sscanf(words, "%31s%n", word, &len) == 1; words += len) {
        assert_int_not_equal(kit_key(word), 0);
        wish = top_key(rig.kit.top, kit_key(word));
    }
    return wish;
}

#define assert_shows(text) assert_non_null(strstr(screen(), text))
#define assert_hides(text) assert_null(strstr(screen(), text))

/* Row and column of a text on the screen, whose characters before it are all one column wide. */
static void find(const char *text, int *x, int *y)
{
    const char *start = screen(), *at = strstr(start, text);

    assert_non_null(at);
    *y = 0;
    for (const char *line = start; line < at; line++)
        if (*line == '\n') {
            ++*y;
            start = line + 1;
        }
    *x = (int)utf8_count(start, (size_t)(at - start));
}

static TopWish click(const char *text, TopMouse what)
{
    int x, y;

    find(text, &x, &y);
    return top_mouse(rig.kit.top, what, x, y);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static void options_that_name_nothing_say_what_there_is(void **state UNUSED)
{
    Top *top = NULL;
    Err err = {0};

    assert_int_equal(top_new(&(TopOptions){.view = "gpuz"}, NULL, &top, &err), -EINVAL);
    assert_non_null(strstr(err.text, "topology"));
    assert_int_equal(top_new(&(TopOptions){.sort = "colour"}, NULL, &top, &err), -EINVAL);
    assert_non_null(strstr(err.text, "memory"));
    assert_int_equal(top_new(&(TopOptions){.theme = "pink"}, NULL, &top, &err), -EINVAL);
    assert_non_null(strstr(err.text, "colour-blind"));
    assert_null(top);
    for (size_t i = 0; i < VIEW_END; i++) {
        assert_int_equal(top_new(&(TopOptions){.view = top_views[i].name}, NULL, &top, &err), 0);
        top_free(top);
    }
}

static void an_option_follows_a_gpu(void **state UNUSED)
{
    open_with(RECORDING("healthy-training"), &(TopOptions){.gpu = "5"});
    assert_shows("\nGPU 5  H100");
    close_rig(NULL);
    open_with(RECORDING("healthy-training"), &(TopOptions){.gpu = "17"});
    assert_shows("no GPU '17' on this node");
    assert_shows("\nGPU 0  H100");
}

static void before_the_first_look_there_is_a_screen(void **state UNUSED)
{
    const FeedState nothing = {.trouble = "no agent answers"};
    const Snapshot empty = {.node = NULL};

    kit_open(&rig.kit, RECORDING("default"), NULL);
    str_init(&rig.screen, 1 << 20);
    assert_shows("waiting for the first sample");
    top_see(rig.kit.top, &empty, &nothing);
    assert_shows("No data yet. no agent answers");
    assert_int_equal(press("3 Down Enter 4 Enter 5 Enter K F5 F6 Escape Tab"), TOP_WISH_NONE);
    assert_shows("waiting for the first sample");
    assert_int_equal(press("q"), TOP_WISH_QUIT);
}

/* --- settings ------------------------------------------------------------------------------------------------------
 */

static void write_file(const char *path, const char *text)
{
    Err err = {0};

    if (file_write(path, text, strlen(text), 0600, &err) < 0)
        fail_msg("%s", err.text);
}

/* What was chosen is read again as it was written; options come before it. */
static void settings_are_kept(void **state UNUSED)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str first = str_limited(4096), second = str_limited(4096);
    char path[] = "/dev/shm/top-settings-XXXXXX";
    TopSettings settings;
    Top *top = NULL;
    Err err = {0};

    close(mkstemp(path));
    open_rig(RECORDING("many"));
    press("- b F5 3 U F2");
    screen();
    press("Space Down Down Down Down Space End Space Space Escape");
    top_settings_write(rig.kit.top, &first);
    assert_string_equal(first.text, "# Kept by stoker top.\ntheme: light\nspan: 1h\nsort: user\ngroup: false\n"
                                    "dots: true\nprocesses: true\n"
                                    "plots: [memory, power, temperature, tensor cores and DRAM]\n");
    write_file(path, first.text);
    assert_int_equal(top_settings_read(path, &arena, &settings, &err), 0);
    assert_int_equal(top_new(&(TopOptions){.settings = &settings}, NULL, &top, &err), 0);
    top_settings_write(top, &second);
    assert_string_equal(first.text, second.text);
    assert_int_equal(top_theme(top), THEME_LIGHT);
    top_free(top);
    assert_int_equal(
        top_new(&(TopOptions){.settings = &settings, .sort = "cpu", .theme = "colour-blind"}, NULL, &top, &err), 0);
    assert_string_equal(process_columns[top->sort].column.key, "cpu");
    assert_int_equal(top_theme(top), THEME_COLOUR_BLIND);
    top_free(top);
    unlink(path);
}

static void settings_that_are_wrong_say_where(void **state UNUSED)
{
    static const struct {
        const char *text, *said;
    } cases[] = {{"theme: pink\n", "pink"},
                 {"sort: colour\n", "no column 'colour'"},
                 {"plots: [busy, noise]\n", "no plot 'noise'"},
                 {"colour: 1\n", "colour"}};
    CLEANUP(arena_done) Arena arena = {0};
    char path[] = "/dev/shm/top-settings-XXXXXX";
    TopSettings settings = {.span = 77};

    close(mkstemp(path));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Err err = {0};

        write_file(path, cases[i].text);
        assert_int_equal(top_settings_read(path, &arena, &settings, &err), -EINVAL);
        assert_non_null(strstr(err.text, cases[i].said));
        assert_non_null(strstr(err.text, path));
        assert_int_equal(settings.span, 77);
    }
    unlink(path);
    Err err = {0};
    assert_int_equal(top_settings_read(path, &arena, &settings, &err), -ENOENT);
}

/* --- the cursor --------------------------------------------------------------------------------------------------- */

static void the_cursor_begins_on_what_is_wrong(void **state UNUSED)
{
    open_rig(RECORDING("xid-79-lost"));
    press("Enter");
    assert_shows("\nGPU 3  H100");
    assert_shows("LOST for");
    press("Escape");
    assert_shows("╭─ GPUs ─");
}

/* The rows go on with another order of GPUs, and with one less; the cursor stays on its GPU, then goes to a neighbour.
 */
static void the_cursor_follows_a_gpu(void **state UNUSED)
{
    open_rig(RECORDING("healthy-training"));
    Node *node = &rig.kit.look->node;

    press("Home Down Down Down");
    const NodeGpu kept = node->gpus[3];
    for (size_t i = 3; i > 0; i--)
        node->gpus[i] = node->gpus[i - 1];
    node->gpus[0] = kept;
    kit_show(&rig.kit);
    assert_int_equal(rig.kit.top->gpu_list.selected, 0);
    node->gpus++;
    node->gpu_count--;
    kit_show(&rig.kit);
    assert_int_equal(rig.kit.top->gpu_list.selected, 0);
    press("Enter");
    assert_shows("\nGPU 0  H100");
    node->gpus--;
    node->gpu_count++;
    kit_show(&rig.kit);
    assert_shows("\nGPU 0  H100");
}

static void the_cursor_follows_a_process(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("3 F5 Down Down Down Down");
    const Thing before = rig.kit.top->process_list.thing;
    const size_t place = rig.kit.top->process_list.selected;

    press("N");
    assert_int_equal(before.pid, rig.kit.top->process_list.thing.pid);
    assert_int_not_equal(rig.kit.top->process_list.selected, place);
    press("I F5");
    const Thing now = process_row_thing(&rig.kit.top->processes.at[rig.kit.top->process_list.selected]);
    assert_int_equal(before.pid, now.pid);
    assert_true(before.start_ns == now.start_ns);
}

/* At the top it stays there, so that what a column puts first is seen. */
static void a_cursor_at_the_top_stays_there(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("3 F5");
    for (const char *keys = "N\0M\0P\0T\0U\0I\0"; *keys; keys += strlen(keys) + 1) {
        press(keys);
        assert_int_equal(rig.kit.top->process_list.selected, 0);
    }
    press("Down N Home T");
    assert_int_equal(rig.kit.top->process_list.selected, 0);
}

static void a_followed_instance_that_goes_is_missed(void **state UNUSED)
{
    open_rig(RECORDING("mig-balanced"));
    press("Home Down Enter");
    assert_shows("3g.40gb 2/0");
    rig.kit.look->node.gpus[0].instance_count = 0;
    kit_show(&rig.kit);
    assert_shows("is not there now");
}

static void the_sheet_of_a_process_names_its_instance(void **state UNUSED)
{
    open_rig(RECORDING("mig-balanced"));
    press("3 F5 Home Enter");
    assert_shows("compute, MIG ");
    press("Escape");
    kit_close(&rig.kit);
    str_done(&rig.screen);
    open_rig(RECORDING("healthy-training"));
    press("3 Home Down Enter");
    assert_shows("compute, utilisation ");
    assert_hides(", MIG ");
}

static void links_that_are_known_are_not_unknown(void **state UNUSED)
{
    open_rig(RECORDING("nvlink-down"));
    press("5");
    grid_resize(&rig.kit.grid, 220, 30);
    assert_shows(" of 18 up");
    assert_hides(", 0 not known");
}

/* As in vi; a letter that moves is typed into a filter, and never opens the dialog of signals. */
static void letters_move_as_in_vi(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    const List *list = &rig.kit.top->process_list;

    press("3 F5 g j j");
    assert_int_equal(list->selected, 2);
    press("k");
    assert_int_equal(list->selected, 1);
    assert_int_equal(rig.kit.top->overlay, OVERLAY_NONE);
    press("G");
    assert_int_equal(list->selected, list->count - 1);
    press("Enter k");
    assert_int_equal(rig.kit.top->overlay, OVERLAY_PROCESS);
    press("Escape K");
    assert_shows("SIGKILL");
    press("k k j");
    assert_int_equal(rig.kit.top->overlay, OVERLAY_SIGNAL);
    assert_int_equal(rig.kit.top->overlay_list.selected, 1);
    press("Escape F4 j k");
    assert_string_equal(rig.kit.top->filter, "jk");
    press("Escape 1 g Enter");
    const GpuRow *first = top_followed(rig.kit.top);
    press("l");
    assert_ptr_equal(top_followed(rig.kit.top), first + 1);
    press("h");
    assert_ptr_equal(top_followed(rig.kit.top), first);
}

/* The cell of a row at the column whose head is `title`, to the next blank. */
static bool row_has_under(const char *title, const char *row, const char *text)
{
    int x, y, at, line;
    char cell[64] = "";

    find(title, &x, &y);
    find(row, &at, &line);
    for (int i = x; i < rig.kit.grid.width && strlen(cell) + 8 < sizeof cell; i++)
        strcat(cell, grid_at(&rig.kit.grid, i, line)->text);
    return strncmp(cell, text, strlen(text)) == 0;
}

/* The state has its room before the model and the owner, what no GPU reports has none, and the bar is then UTIL. */
static void the_state_is_whole_and_the_bar_is_of_what_is_known(void **state UNUSED)
{
    static const int widths[] = {80, 100, 116, 200};

    open_rig(RECORDING("thermal-throttle-fan"));
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        grid_resize(&rig.kit.grid, widths[i], 30);
        assert_true(row_has_under("STATE", "> 5 ", "thermal: check-cooling"));
    }
    close_rig(NULL);
    open_rig(RECORDING("page-retirement-t4"));
    grid_resize(&rig.kit.grid, 100, 30);
    assert_shows("UTIL      MEMORY");
    assert_hides("TENS");
    assert_shows("▊  95%");
    for (size_t i = 0; i < rig.kit.look->node.gpu_count; i++)
        reading_lose(&rig.kit.look->node.gpus[i].reading, 1, ABSENCE_NOT_YET);
    kit_show(&rig.kit);
    assert_shows("TENS"); /* not known yet is no reason to go */
}

/* A bar that is reversed is its colour's negative: drawings of the row under the cursor keep theirs. */
static void the_cursor_leaves_bars_as_they_are(void **state UNUSED)
{
    open_rig(RECORDING("healthy-training"));
    press("Home");
    screen();
    for (int x = 1; x + 1 < rig.kit.grid.width; x++) { /* within the frame */
        const Cell *cell = grid_at(&rig.kit.grid, x, 4);
        const bool drawn = cell->ink >= INK_BAR;

        assert_int_equal(cell->reverse, !drawn);
        if (strcmp(cell->text, "█") == 0 || strcmp(cell->text, "─") == 0 || strcmp(cell->text, "│") == 0)
            assert_true(drawn);
    }
}

static void a_long_help_is_scrolled(void **state UNUSED)
{
    open_rig(RECORDING("default"));
    grid_resize(&rig.kit.grid, 60, 15);
    press("F1");
    assert_shows("F1 ?");
    press("PageDown");
    assert_hides("F1 ?");
    press("End");
    assert_shows("draws the screen anew");
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static void a_filter_shows_some_and_says_so(void **state UNUSED)
{
    open_rig(RECORDING("many"));

    press("3 F5");
    const size_t all = rig.kit.top->processes.len;
    press("F4 c a r o l");
    assert_shows("Filter: carol");
    press("Enter");
    assert_int_equal(all, 120);
    assert_int_equal(rig.kit.top->processes.len, 24);
    assert_shows("only those with 'carol'");
    assert_hides(" bob ");
    press("Escape");
    assert_int_equal(rig.kit.top->processes.len, 120);
    press("F4 z z z Enter");
    assert_shows("no process on a GPU matches 'zzz'");
}

/* What is alike in the column goes by PID, then by GPU, whichever way it is sorted. */
static void assert_in_order(const ProcessRow *a, const ProcessRow *b, size_t column, int sign, size_t *twice)
{
    const int order = sign * process_column_compare(column, a, b);

    assert_true(order <= 0);
    if (order == 0)
        assert_true(a->process->pid <= b->process->pid);
    if (order == 0 && a->process->pid == b->process->pid) {
        assert_true(a->gpu < b->gpu);
        ++*twice;
    }
}

static void columns_sort_both_ways(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    const ProcessRows *rows = &rig.kit.top->processes;
    Node *node = &rig.kit.look->node;
    size_t from = 0, twice = 0;

    press("F5");
    while (node->gpus[from].process_count == 0)
        from++;
    for (size_t i = 0; i < node->gpu_count; i++) { /* processes that use several GPUs */
        node->gpus[i].processes = node->gpus[from].processes;
        node->gpus[i].process_count = node->gpus[from].process_count;
    }
    for (size_t column = 0; column < process_column_count; column++) {
        rig.kit.top->sort = column;
        for (int reverse = 0; reverse < 2; reverse++) {
            const int sign = process_columns[column].down != reverse ? -1 : 1;

            rig.kit.top->reverse = reverse;
            kit_show(&rig.kit);
            for (size_t i = 1; i < rows->len; i++)
                assert_in_order(&rows->at[i - 1], &rows->at[i], column, sign, &twice);
        }
    }
    assert_true(twice > 0);
}

/* The driver lists processes in any order; those that are alike in a column are shown by pid, whichever way it goes. */
static void alike_processes_go_by_pid(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    const ProcessRows *rows = &rig.kit.top->processes;
    NodeGpu *gpu = rig.kit.look->node.gpus;
    NodeProcess turned[NODE_PROCESSES_MAX];

    press("F5");
    while (gpu->process_count < 2)
        gpu++;
    for (size_t i = 0; i < gpu->process_count; i++)
        turned[i] = gpu->processes[gpu->process_count - 1 - i];
    gpu->processes = turned;
    for (rig.kit.top->sort = 0; strcmp(process_columns[rig.kit.top->sort].column.key, "type") != 0;)
        rig.kit.top->sort++;
    for (int reverse = 0; reverse < 2; reverse++) {
        rig.kit.top->reverse = reverse;
        kit_show(&rig.kit);
        for (size_t i = 1; i < rows->len; i++)
            if (!rows->at[i].process->graphics && !rows->at[i - 1].process->graphics)
                assert_true(rows->at[i - 1].process->pid < rows->at[i].process->pid);
    }
}

static void a_tree_counts_its_groups(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    const ProcessRows *rows = &rig.kit.top->processes;
    size_t members = 0, heads = 0, left = 0;

    for (size_t i = 0; i < rows->len; i++) {
        const ProcessRow *row = &rows->at[i];

        if (row->group) {
            assert_int_equal(left, 0);
            assert_true(row->members > 1);
            heads++;
            members += left = row->members;
        } else if (left > 0) {
            assert_int_equal(row->last, --left == 0);
        } else { /* alone in its group */
            assert_string_equal(row->label, "");
            members++;
        }
    }
    assert_int_equal(members, 120);
    assert_true(heads >= 8);
    press("3 F5");
    assert_int_equal(rows->len, 120);
}

/* Below the GPUs a job is one line, with the sums of its processes; Enter shows these. */
static void a_job_is_a_line(void **state UNUSED)
{
    open_rig(RECORDING("thermal-throttle-fan"));
    const ProcessRows *jobs = top_processes(rig.kit.top, VIEW_GPUS);
    const NodeGpu *gpus = rig.kit.look->node.gpus;
    double used = 0, util = 0;

    assert_int_equal(jobs->len, 1);
    for (size_t i = 0; i < 8; i++) {
        used += (double)gpus[i].processes[0].used_bytes;
        util += gpus[i].processes[0].sm_percent;
    }
    assert_true(jobs->at[0].used_bytes == used);
    assert_true(fabs(jobs->at[0].util_percent - util / 8) < 1e-9);
    assert_shows(" 8 proc alice");
    assert_shows(" 0-7 C   96%");
    press("End K");
    assert_shows("choose a process first");
    press("Enter");
    assert_int_equal(rig.kit.top->view, VIEW_PROCESSES);
    assert_true(rig.kit.top->processes.at[rig.kit.top->process_list.selected].group);
    press("Down Enter");
    assert_int_equal(rig.kit.top->overlay, OVERLAY_PROCESS);
    press("Escape Escape F5 End K");
    assert_int_equal(rig.kit.top->overlay, OVERLAY_SIGNAL); /* without groups it is a process */
}

/* The job with the most of a column is the first, not the one whose name is. */
static void jobs_sort_by_their_sums(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    const ProcessRows *jobs = top_processes(rig.kit.top, VIEW_GPUS);

    for (const char *keys = "M\0T\0P\0"; *keys; keys += strlen(keys) + 1) {
        press(keys);
        for (size_t i = 1; i < jobs->len; i++)
            assert_true(process_column_compare(rig.kit.top->sort, &jobs->at[i - 1], &jobs->at[i]) *
                            (process_columns[rig.kit.top->sort].down ? -1 : 1) <=
                        0);
    }
}

static void cpu_needs_two_looks(void **state UNUSED)
{
    kit_open(&rig.kit, RECORDING("many"), NULL);
    str_init(&rig.screen, 1 << 20);
    kit_next(&rig.kit);
    assert_true(rig.kit.top->cpu.len > 0);
    for (size_t i = 0; i < rig.kit.top->cpu.len; i++)
        assert_true(rig.kit.top->cpu.at[i] != rig.kit.top->cpu.at[i]);
    kit_next(&rig.kit);
    double most = 0;
    for (size_t i = 0; i < rig.kit.top->cpu.len; i++)
        most = rig.kit.top->cpu.at[i] > most ? rig.kit.top->cpu.at[i] : most;
    assert_true(most > 1);
}

/* Right and Left go around the devices, from the last to the first too. */
static void the_next_device_is_a_key_away(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("1 Home Enter");
    const size_t count = rig.kit.top->gpus.len;

    assert_int_equal(rig.kit.top->view, VIEW_GPU);
    assert_true(count > 1);
    for (size_t i = 0; i <= count; i++, press("Right"))
        assert_ptr_equal(top_followed(rig.kit.top), &rig.kit.top->gpus.at[i % count]);
    for (size_t i = 0; i <= count + 1; i++, press("Left"))
        assert_ptr_equal(top_followed(rig.kit.top), &rig.kit.top->gpus.at[(2 * count + 1 - i) % count]);
}

/* A process's page shows it as it is now, not another one that got its pid. */
static void a_page_follows_its_process(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("3 F5 Home Enter");
    const uint32_t pid = rig.kit.top->target.pid;
    size_t at = 0;

    while (at < rig.kit.look->processes.len && rig.kit.look->processes.at[at].pid != pid)
        at++;
    assert_true(at < rig.kit.look->processes.len);
    ProcessOwner *owner = &rig.kit.look->processes.at[at];
    snprintf(owner->user, sizeof owner->user, "eve-1");
    kit_show(&rig.kit);
    assert_shows("eve-1");
    snprintf(owner->user, sizeof owner->user, "mal-2");
    owner->start_ns++;
    kit_show(&rig.kit);
    assert_shows("eve-1");
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static void a_signal_is_asked_about_and_sent(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("3 F5 Home");
    const ProcessRow *row = &rig.kit.top->processes.at[0];
    const uint32_t pid = row->process->pid;
    char text[64];

    press("F9");
    snprintf(text, sizeof text, "process %u of %s", (unsigned)pid, row->owner->user);
    assert_shows(text);
    assert_shows("SIGKILL");
    assert_int_equal(press("Down Down Enter"), TOP_WISH_NONE);
    assert_shows("Send SIGKILL to it?");
    assert_shows(text);
    assert_int_equal(press("Enter"), TOP_WISH_NONE); /* Enter twice sends nothing */
    assert_shows("Send SIGKILL to it?");
    assert_int_equal(press("y"), TOP_WISH_SIGNAL);
    const TopSignal s = top_signal(rig.kit.top);
    assert_int_equal(s.pid, pid);
    assert_int_equal(s.number, 9);
    assert_string_equal(s.name, "SIGKILL");
    assert_true(s.start_ns > 0);
    assert_hides("Send SIGKILL");
    top_say(rig.kit.top, INK_GOOD, "it was sent");
    assert_shows("it was sent");
}

static void no_is_no(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    assert_int_equal(press("3 F5 K Enter n"), TOP_WISH_NONE);
    assert_hides("Send SIG");
    assert_int_equal(press("K Enter Escape y"), TOP_WISH_NONE);
    assert_int_equal(press("K q"), TOP_WISH_NONE);
    assert_int_equal(press("K Enter F10"), TOP_WISH_NONE);
    assert_hides("Send SIG");
}

/* The dialog stays with its process, whatever the rows do. */
static void a_dialog_keeps_its_process(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("3 F5 Home K");
    const uint32_t pid = rig.kit.top->target.pid;

    for (size_t i = 0; i < rig.kit.look->node.gpu_count; i++)
        rig.kit.look->node.gpus[i].process_count = i == 7 ? 3 : 0;
    kit_show(&rig.kit);
    press("Enter");
    assert_int_equal(press("y"), TOP_WISH_SIGNAL);
    assert_int_equal(top_signal(rig.kit.top).pid, pid);
}

static void signals_are_refused(void **state UNUSED)
{
    open_with(RECORDING("many"), &(TopOptions){.read_only = true});
    press("3 F5 K");
    assert_shows("read only: no signals are sent");
    close_rig(NULL);
    open_rig(RECORDING("many"));
    rig.kit.feed.kind = FEED_HISTORY;
    kit_show(&rig.kit);
    press("3 F5 K");
    assert_shows("this is the past");
    close_rig(NULL);
    open_rig(RECORDING("many"));
    rig.kit.look->snapshot.processes.len = 0;
    kit_show(&rig.kit);
    press("3 F5 K");
    assert_shows("is not seen here");
    press("1 Home K");
    assert_shows("choose a process first");
}

/* --- the mouse ---------------------------------------------------------------------------------------------------- */

static void the_mouse_works_everywhere(void **state UNUSED)
{
    open_rig(RECORDING("many"));
    press("F5");
    click("3Processes", TOP_MOUSE_CLICK);
    assert_int_equal(rig.kit.top->view, VIEW_PROCESSES);
    click("USER", TOP_MOUSE_CLICK);
    assert_string_equal(process_columns[rig.kit.top->sort].column.key, "user");
    assert_false(rig.kit.top->reverse);
    click("USER", TOP_MOUSE_CLICK);
    assert_true(rig.kit.top->reverse);
    press("N");
    click(" 4005 ", TOP_MOUSE_CLICK);
    assert_int_equal(rig.kit.top->process_list.thing.pid, 4005);
    assert_int_equal(rig.kit.top->overlay, OVERLAY_NONE);
    click(" 4005 ", TOP_MOUSE_CLICK);
    assert_int_equal(rig.kit.top->overlay, OVERLAY_PROCESS);
    press("Escape");
    const size_t sorted = rig.kit.top->sort;
    click("F6Sort", TOP_MOUSE_CLICK);
    assert_int_equal(rig.kit.top->sort, sorted + 1);
    press("<");
    assert_int_equal(rig.kit.top->sort, sorted);
    assert_shows("sorted by pid");
    int x, y;
    find("5Topology", &x, &y);
    for (int k = -1; k <= 9; k++) { /* of the nine characters each, and none beside them */
        press("3");
        kit_draw(&rig.kit, false, &rig.screen);
        top_mouse(rig.kit.top, TOP_MOUSE_CLICK, x + k, y);
        assert_int_equal(rig.kit.top->view == VIEW_TOPOLOGY, k >= 0 && k < 9);
    }
    press("3 N");
    assert_int_equal(click("F10Quit", TOP_MOUSE_CLICK), TOP_WISH_QUIT);
    top_mouse(rig.kit.top, TOP_MOUSE_DOWN, 5, 10);
    assert_int_equal(rig.kit.top->process_list.selected, 8);
}

/* --- what must be seen -------------------------------------------------------------------------------------------- */

static void old_values_say_so_and_fade(void **state UNUSED)
{
    open_rig(RECORDING("healthy-training"));
    strcpy(rig.kit.feed.trouble, "the agent does not answer");
    rig.kit.feed.age_ns = 42 * NS_PER_S;
    for (ViewId view = 0; view < VIEW_END; view++) {
        press((const char *[]){"1", "2", "3", "4", "5"}[view]);
        kit_show(&rig.kit);
        assert_hides("All healthy");
        assert_shows("STALE: all values are 42 s old. the agent does not answer");
        assert_true(grid_at(&rig.kit.grid, 60, 1)->reverse);
        for (int x = 0; x < 100; x++)
            assert_int_equal(grid_at(&rig.kit.grid, x, 8)->ink, INK_DIM);
    }
}

/* A power limit is the edge of its plot, where nothing goes beyond; what has no limit gets a tenth above the highest.
 */
static void a_plot_has_room_for_its_highest(void **state UNUSED)
{
    static const struct {
        const char *title;
        float value;
        const char *edge;
    } cases[] = {{"power", 100, "  700.0 W"},
                 {"power", 900, "  900.0 W"},
                 {"clocks", 2000, " 2200 MHz"},
                 {"PCIe", 0.5e9F, "0.55 GB/s"},
                 {"clocks", (float)NAN, "         "}}; /* there is no axis without a value */

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        HistoryWant want;
        char edge[16] = "";
        int x, y;

        open_rig(RECORDING("healthy-training"));
        press("2");
        for (size_t k = 0; k < top_plot_count; k++)
            rig.kit.top->plotted[k] = strcmp(top_plots[k].title, cases[i].title) == 0;
        top_draw(rig.kit.top, &rig.kit.grid);
        while (history_next_wanted(rig.kit.history, &want)) {
            const uint64_t now = rig.kit.look->node.real_ns;
            const PlotPoint point = {cases[i].value, cases[i].value, cases[i].value};

            if (!isnan(cases[i].value))
                history_fill(rig.kit.history, &want, now - 30 * NS_PER_S, now, point);
            history_end_fill(rig.kit.history, &want);
        }
        find(cases[i].title, &x, &y);
        for (int column = 1; column < 10; column++) /* within the frame */
            strcat(edge, grid_at(&rig.kit.grid, column, y + 1)->text);
        assert_string_equal(edge, cases[i].edge);
        close_rig(NULL);
    }
}

static void keys_wish(void **state UNUSED)
{
    open_rig(RECORDING("default"));
    assert_int_equal(press("Space"), TOP_WISH_PAUSE);
    assert_int_equal(press(","), TOP_WISH_SEEK);
    assert_true(top_amount(rig.kit.top) == -10);
    assert_int_equal(press("}"), TOP_WISH_SEEK);
    assert_true(top_amount(rig.kit.top) == 60);
    assert_int_equal(press("["), TOP_WISH_SPEED);
    assert_true(top_amount(rig.kit.top) == 0.5);
    assert_int_equal(top_key(rig.kit.top, 12), TOP_WISH_NONE);
    press("F1");
    assert_int_equal(press("q"), TOP_WISH_NONE);
    press("F2");
    assert_int_equal(top_key(rig.kit.top, 3), TOP_WISH_QUIT);
}

/* Every key of the help does what its row says: none is hidden by an earlier one, and none is shadowed by the arrows.
 */
static void no_key_is_hidden(void **state UNUSED)
{
    for (size_t a = 0; a < top_key_count; a++)
        for (size_t b = a + 1; b < top_key_count; b++)
            for (size_t i = 0; i < ARRAY_LEN(top_keys[a].keys) && top_keys[a].keys[i]; i++)
                for (size_t k = 0; k < ARRAY_LEN(top_keys[b].keys) && top_keys[b].keys[k]; k++)
                    assert_false(top_keys[a].keys[i] == top_keys[b].keys[k] && (top_keys[a].views & top_keys[b].views));
    for (size_t a = 0; a < top_key_count; a++)
        for (size_t i = 0; i < ARRAY_LEN(top_keys[a].keys) && top_keys[a].keys[i]; i++)
            assert_false(list_key(&(List){.count = 1, .page = 1}, top_keys[a].keys[i]) ||
                         (top_keys[a].keys[i] < 0x80 && strchr("hjklgG", (int)top_keys[a].keys[i])));
}

/* A GPU at work that keeps others waiting is told of below the table, and in its view beside what it does. */
static void a_rank_that_others_wait_for_is_told_of(void **state UNUSED)
{
    static Why why = {.window_s = 60, .count = 2};

    why.verdicts[0] = (WhyVerdict){.cause = WHY_TENSOR_CORES, .share = 0.95, .text = "computes on tensor cores"};
    why.verdicts[1] = (WhyVerdict){.cause = WHY_STRAGGLER, .share = 0.23, .text = "the others wait for it"};
    open_rig(RECORDING("healthy-training"));
    assert_hides("wait for it");
    snprintf(why.roof.text, sizeof why.roof.text, "about 406 TFLOP/s in FP16");
    rig.kit.top->snapshot->node->gpus[3].verdicts = &why;
    assert_shows("GPU 3 working: the others wait for it");
    assert_shows("DO Compare its input");
    assert_hides("TFLOP/s");
    press("Down Down Down Enter");
    assert_shows("computes on tensor cores (95 % of 60 s");
    assert_shows("also: the others wait for it (23 % of 60 s");
    assert_shows("\nroof: about 406 TFLOP/s in FP16");
}

/* Of a split GPU the instance is named that does not work. */
static void an_instance_that_wastes_is_named(void **state UNUSED)
{
    static Why why[8];
    static Activity activity[8];

    open_rig(RECORDING("mig-balanced"));
    NodeGpu *gpu = &rig.kit.top->snapshot->node->gpus[0];

    assert_in_range(gpu->instance_count, 2, 8);
    for (size_t i = 0; i < gpu->instance_count; i++)
        activity[i].word = ACTIVITY_WORKING;
    activity[1] = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    why[1] = (Why){.window_s = 60, .count = 1};
    why[1].verdicts[0] = (WhyVerdict){.cause = WHY_INPUT, .share = 0.7, .text = "waits for its input"};
    gpu->activity = activity[1];
    gpu->instance_activity = activity;
    gpu->instance_verdicts = why;
    kit_show(&rig.kit);
    char name[TOP_TEXT_CAP], line[TOP_TEXT_CAP * 2];
    snprintf(line, sizeof line, "GPU 0 %s waiting: waits for its input", instance_name(&gpu->instances[1], name));
    grid_resize(&rig.kit.grid, 100, 60);
    assert_shows(line);
}

static void the_layout_of_a_gpu_and_its_last_change_are_shown(void **state UNUSED)
{
    open_with(RECORDING("mig-balanced"), &(TopOptions){.gpu = "0"});
    NodeGpu *gpu = &rig.kit.top->snapshot->node->gpus[0];

    snprintf(gpu->mig_layout, sizeof gpu->mig_layout, "3g.40gb+4g.40gb");
    snprintf(gpu->mig_changed, sizeof gpu->mig_changed, "2026-01-05T08:00:03.000Z");
    snprintf(gpu->mig_change, sizeof gpu->mig_change, "off -> 3g.40gb+4g.40gb, not by stoker");
    kit_show(&rig.kit);
    grid_resize(&rig.kit.grid, 120, 150);
    assert_shows("MIG layout           3g.40gb+4g.40gb");
    assert_shows("MIG layout changed   2026-01-05T08:00:03.000Z");
    assert_shows("\nMIG layout: off -> 3g.40gb+4g.40gb, not by stoker");
}

/* A reading is coloured by what incidents say of its GPU, not by limits of this screen; a class that nobody knows here
 * too. */
static void readings_have_the_colour_of_their_incident(void **state UNUSED)
{
    static Incident incident;
    const Incident *list[] = {&incident};

    open_rig(RECORDING("healthy-training"));
    Snapshot *snapshot = &rig.kit.look->snapshot;
    NodeGpu *gpu = &rig.kit.look->node.gpus[1];
    sample_set_double(&gpu->reading.sample[METRIC_GPU_TEMP_LIMIT], 1, -3);
    incident = (Incident){.state = INCIDENT_OPEN, .class = "of-the-site", .severity = SEVERITY_WARNING};
    incident.cause = CAUSE_THERMAL;
    incident.device = gpu->reading.device;
    kit_show(&rig.kit);
    const GpuRow *row = &rig.kit.top->gpus.at[1];
    assert_int_equal(gpu_cause_ink(row, CAUSE_THERMAL, INK_PLAIN), INK_PLAIN);
    snapshot->incidents = list;
    snapshot->incident_count = 1;
    kit_show(&rig.kit);
    row = rig.kit.top->gpus.at;
    assert_int_equal(gpu_cause_ink(&row[1], CAUSE_THERMAL, INK_PLAIN), INK_WARN);
    assert_int_equal(gpu_cause_ink(&row[1], CAUSE_MEMORY, INK_DIM), INK_DIM);
    assert_int_equal(gpu_cause_ink(&row[0], CAUSE_THERMAL, INK_PLAIN), INK_PLAIN);
    incident.severity = SEVERITY_FATAL;
    kit_show(&rig.kit);
    assert_int_equal(gpu_cause_ink(&rig.kit.top->gpus.at[1], CAUSE_THERMAL, INK_PLAIN), INK_BAD);
    snapshot->incident_count = 0;
}

/* --- what keys do ------------------------------------------------------------------------------------------------- */

/* Digits are numbers of signals there; elsewhere they choose nothing. */
static void a_digit_chooses_a_signal(void **state UNUSED)
{
    static const struct {
        const char *keys, *text;
    } cases[] = {{"9", "SIGKILL"}, {"1", "SIGHUP"},   {"6", "SIGABRT"}, {"3", "SIGQUIT"},
                 {"2", "SIGINT"},  {"2 5", "SIGINT"}, {"2 0", "SIGINT"}}; /* 5 and 0 are not listed: the cursor stays */
    char text[64];

    open_rig(RECORDING("many"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        press("3 Home Down K");
        press(cases[i].keys);
        press("Space"); /* chooses nothing here */
        assert_int_equal(rig.kit.top->overlay, OVERLAY_SIGNAL);
        press("Enter");
        snprintf(text, sizeof text, "Send %s to it?", cases[i].text);
        assert_shows(text);
        press("n");
    }
    press("F2 9");
    assert_int_equal(rig.kit.top->overlay_list.selected, 0);
}

static void a_filter_is_edited_by_characters(void **state UNUSED)
{
    static const uint32_t typed[] = {'a', 0xe9, 0xe000, 0x1f600};
    static const char *const texts[] = {"a", "a\xc3\xa9", "a\xc3\xa9\xee\x80\x80",
                                        "a\xc3\xa9\xee\x80\x80\xf0\x9f\x98\x80"};
    static const uint32_t nothing[] = {0x1f, 0x7f, 0xd800, 0xdfff, TOP_KEY_UP};
    Top *top;

    open_rig(RECORDING("many"));
    top = rig.kit.top;
    press("3 F4");
    for (size_t i = 0; i < ARRAY_LEN(typed); i++) {
        top_key(top, typed[i]);
        assert_string_equal(top->filter, texts[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
        top_key(top, nothing[i]);
    for (size_t i = ARRAY_LEN(typed); i-- > 0;) {
        assert_string_equal(top->filter, texts[i]);
        top_key(top, TOP_KEY_BACKSPACE);
    }
    assert_string_equal(top->filter, "");
    top_key(top, TOP_KEY_BACKSPACE);
    assert_string_equal(top->filter, "");
    for (int i = 0; i < TOP_TEXT_CAP - 3; i++)
        top_key(top, 'x');
    top_key(top, 0x20ac); /* three bytes: one too many */
    assert_int_equal(strlen(top->filter), TOP_TEXT_CAP - 3);
    top_key(top, 0xe9);
    assert_int_equal(strlen(top->filter), TOP_TEXT_CAP - 1);
    top_key(top, 'x');
    assert_int_equal(strlen(top->filter), TOP_TEXT_CAP - 1);
    assert_true(top->prompt);
    press("Escape");
    assert_string_equal(top->filter, "");
    assert_false(top->prompt);
}

static void a_word_that_is_no_key_is_cut_in_the_message(void **state UNUSED)
{
    static const char wanted[] = "'0123456789012345678901234567890123456789' is no key: ";
    KeyList keys = {0};
    Err err = {0};

    assert_int_equal(keys_parse("01234567890123456789012345678901234567890", &keys, &err), -EINVAL);
    assert_ptr_equal(strstr(err.text, wanted), err.text);
    assert_int_equal(keys_parse("up nokey", &keys, &err), -EINVAL);
    assert_ptr_equal(strstr(err.text, "'nokey' is no key: "), err.text);
    vec_done(&keys);
}

static void keys_move_between_views_and_spans(void **state UNUSED)
{
    Top *top;

    open_rig(RECORDING("many"));
    top = rig.kit.top;
    press("1");
    for (int i = 1; i <= VIEW_END; i++) {
        press("Tab");
        assert_int_equal(top->view, i % VIEW_END);
    }
    for (int i = VIEW_END - 1; i >= 0; i--) {
        top_key(top, TOP_KEY_BACK_TAB);
        assert_int_equal(top->view, i);
    }
    press("2 + + + +");
    for (int i = SPAN_MINUTE + 1; i < SPAN_END + 2; i++) {
        press("-");
        assert_int_equal(top->span, i < SPAN_END ? i : SPAN_END - 1);
    }
    for (int i = SPAN_END - 2; i > -3; i--) {
        press(i % 2 ? "+" : "=");
        assert_int_equal(top->span, i > 0 ? i : 0);
    }
    press("5 3 Escape");
    assert_int_equal(top->view, VIEW_TOPOLOGY);
    press("Escape");
    assert_int_equal(top->view, VIEW_GPUS);
    press("3 F4 a Enter Escape"); /* the filter goes first */
    assert_int_equal(top->view, VIEW_PROCESSES);
    assert_string_equal(top->filter, "");
    press("T I");
    assert_true(top->reverse);
    press("U");
    assert_false(top->reverse);
    press("I >");
    assert_false(top->reverse);
    for (const char *keys = "?\0F1\0Enter\0Space\0F10\0q\0"; *keys; keys += strlen(keys) + 1) {
        press("F1");
        assert_int_equal(top->overlay, OVERLAY_HELP);
        assert_int_equal(press(keys), TOP_WISH_NONE);
        assert_int_equal(top->overlay, OVERLAY_NONE);
    }
    press("F2 ?");
    assert_int_equal(top->overlay, OVERLAY_SETUP); /* it closes the help alone */
    press("h");
    assert_int_equal(top->overlay, OVERLAY_SETUP);
}

static void the_setup_switches_plots_and_processes(void **state UNUSED)
{
    Top *top;

    open_rig(RECORDING("many"));
    top = rig.kit.top;
    press("F2");
    for (size_t i = 0; i <= top_plot_count; i++) {
        const bool *is = i < top_plot_count ? &top->plotted[i] : &top->list_processes, was = *is;

        press("Space");
        assert_int_equal(*is, !was);
        assert_shows(*is ? "[x]" : "[ ]");
        press("Enter");
        assert_int_equal(*is, was);
        press("Down");
    }
    assert_int_equal(top->overlay_list.selected, top_plot_count + 1); /* the grouping and the theme come behind */
}

/* Keys that come faster than it draws, as of somebody who knows them by heart: the list is as long before as behind. */
static void keys_come_before_a_dialog_is_drawn(void **state UNUSED)
{
    Top *top;

    open_rig(RECORDING("many"));
    top = rig.kit.top;
    const Theme before = top->theme;
    for (const uint32_t *key = (const uint32_t[]){TOP_KEY_F1 + 1, TOP_KEY_END, ' ', TOP_KEY_ESCAPE, 0}; *key; key++)
        top_key(top, *key);
    assert_int_equal(top->theme, (before + 1) % THEME_END);
    press("3 F5 g");
    for (const uint32_t *key = (const uint32_t[]){'K', TOP_KEY_DOWN, TOP_KEY_DOWN, 0}; *key; key++)
        top_key(top, *key);
    assert_int_equal(top->overlay, OVERLAY_SIGNAL);
    assert_int_equal(top->overlay_list.selected, 2);
}

/* --- what is not there -------------------------------------------------------------------------------------------- */

static void a_node_without_gpus_says_so(void **state UNUSED)
{
    open_rig(RECORDING("default"));
    rig.kit.look->node.gpu_count = 0;
    kit_show(&rig.kit);
    assert_shows("no GPU is known on this node");
    press("5");
    assert_shows("no GPU is known on this node");
}

static void links_and_places_that_are_not_known_are_told(void **state UNUSED)
{
    open_rig(RECORDING("nvlink-down"));
    Node *node = &rig.kit.look->node;
    NodeGpu *gpu = &node->gpus[0];

    assert_true(gpu->link_count > 3);
    grid_resize(&rig.kit.grid, 220, 60);
    press("5");
    NodeLink *links = (NodeLink *)(uintptr_t)gpu->links;
    sample_set_absent(&links[0].active, 1, ABSENCE_TIMED_OUT);
    sample_set_absent(&links[1].active, 1, ABSENCE_TIMED_OUT);
    sample_set_int64(&links[2].active, 1, 0);
    sample_set_int64(&links[3].active, 1, 0);
    sample_set_int64(&links[4].errors[NODE_LINK_REPLAY], 1, 12);
    kit_show(&rig.kit);
    assert_shows("14 of 18 up, down: 2 3, 2 not known, 12 errors");
    for (uint32_t i = 0; i < gpu->link_count; i++)
        sample_set_absent(&links[i].active, 1, ABSENCE_TIMED_OUT);
    kit_show(&rig.kit);
    assert_hides("14 of 18 up");
    assert_shows(" not known");
    gpu->link_count = 0;
    kit_show(&rig.kit);
    assert_shows("no NVLink reported");
    gpu->state = GPU_LOST;
    kit_show(&rig.kit);
    assert_shows("not known: it is not up");
}

/* An incident that is shown and ends. */
static void a_sheet_of_an_incident_that_ended_says_so(void **state UNUSED)
{
    open_rig(RECORDING("xid-79-lost"));
    press("4 Enter");
    assert_int_equal(rig.kit.top->overlay, OVERLAY_INCIDENT);
    assert_hides("it is no longer listed");
    rig.kit.look->snapshot.incident_count = 0;
    kit_show(&rig.kit);
    assert_shows("it is no longer listed: stoker incidents --all");
}

/* Of more problems than there are lines for, the head says how many there are. */
static void many_problems_are_counted(void **state UNUSED)
{
    static Incident more[6];
    static const Incident *list[6];

    open_rig(RECORDING("xid-79-lost"));
    assert_hides(" in all: 4");
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        more[i] = *rig.kit.look->snapshot.incidents[0];
        more[i].id[0] = (char)('a' + i);
        list[i] = &more[i];
    }
    rig.kit.look->snapshot.incidents = list;
    rig.kit.look->snapshot.incident_count = ARRAY_LEN(list);
    kit_show(&rig.kit);
    assert_shows("6 in all: 4");
    press("4"); /* all are below */
    assert_hides(" in all: 4");
    press("1");
    grid_resize(&rig.kit.grid, 100, 60);
    assert_shows("6 in all: 4");
    rig.kit.look->snapshot.incident_count = 2;
    kit_show(&rig.kit);
    assert_hides(" in all: 4");
    rig.kit.look->snapshot.incident_count = 0;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, close_rig)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_name_nothing_say_what_there_is),
        CASE(an_option_follows_a_gpu),
        CASE(before_the_first_look_there_is_a_screen),
        CASE(settings_are_kept),
        cmocka_unit_test(settings_that_are_wrong_say_where),
        CASE(the_cursor_begins_on_what_is_wrong),
        CASE(the_cursor_follows_a_gpu),
        CASE(the_cursor_follows_a_process),
        CASE(a_cursor_at_the_top_stays_there),
        CASE(a_followed_instance_that_goes_is_missed),
        CASE(the_sheet_of_a_process_names_its_instance),
        CASE(links_that_are_known_are_not_unknown),
        CASE(letters_move_as_in_vi),
        CASE(the_state_is_whole_and_the_bar_is_of_what_is_known),
        CASE(the_cursor_leaves_bars_as_they_are),
        CASE(a_long_help_is_scrolled),
        CASE(a_filter_shows_some_and_says_so),
        CASE(columns_sort_both_ways),
        CASE(alike_processes_go_by_pid),
        CASE(a_tree_counts_its_groups),
        CASE(a_job_is_a_line),
        CASE(jobs_sort_by_their_sums),
        CASE(cpu_needs_two_looks),
        CASE(the_next_device_is_a_key_away),
        CASE(a_page_follows_its_process),
        CASE(a_signal_is_asked_about_and_sent),
        CASE(no_is_no),
        CASE(a_dialog_keeps_its_process),
        CASE(signals_are_refused),
        CASE(the_mouse_works_everywhere),
        CASE(old_values_say_so_and_fade),
        cmocka_unit_test(a_plot_has_room_for_its_highest),
        CASE(keys_wish),
        CASE(a_rank_that_others_wait_for_is_told_of),
        CASE(an_instance_that_wastes_is_named),
        CASE(the_layout_of_a_gpu_and_its_last_change_are_shown),
        CASE(readings_have_the_colour_of_their_incident),
        cmocka_unit_test(no_key_is_hidden),
        CASE(a_digit_chooses_a_signal),
        CASE(a_filter_is_edited_by_characters),
        cmocka_unit_test(a_word_that_is_no_key_is_cut_in_the_message),
        CASE(keys_move_between_views_and_spans),
        CASE(the_setup_switches_plots_and_processes),
        CASE(keys_come_before_a_dialog_is_drawn),
        CASE(a_node_without_gpus_says_so),
        CASE(links_and_places_that_are_not_known_are_told),
        CASE(a_sheet_of_an_incident_that_ended_says_so),
        CASE(many_problems_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
