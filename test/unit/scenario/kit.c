/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/core/control.h"
#include "test/unit/memory_folder.h"

const char *const kit_boards[] = {SIM_DATA_DIR "/boards", NULL};
const char *const kit_scenarios[] = {SIM_DATA_DIR "/scenarios", NULL};

void kit_init(Kit *kit)
{
    memset(kit, 0, sizeof *kit);
    board_set_init(&kit->boards, kit_boards);
}

void kit_done(Kit *kit)
{
    board_set_done(&kit->boards);
    arena_done(&kit->arena);
}

const Scenario *kit_parse(Kit *kit, const char *text)
{
    const Scenario *scenario = NULL;
    if (scenario_parse("t.yaml", text, strlen(text), &kit->boards, &kit->arena, &scenario, &kit->err) < 0)
        fail_msg("%s", kit->err.text);
    return scenario;
}

const char *kit_error(Kit *kit, const char *text)
{
    const Scenario *scenario = NULL;
    int rc = scenario_parse("t.yaml", text, strlen(text), &kit->boards, &kit->arena, &scenario, &kit->err);
    assert_null(scenario);
    return rc < 0 ? kit->err.text : "(no error)";
}

SimImage *kit_build(Kit *kit, const Scenario *scenario)
{
    char path[40];
    SimImage *image = NULL;
    snprintf(path, sizeof path, "%s/stoker-scenario-XXXXXX", memory_folder());
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    ScenarioBuild how = {.now_us = 1767600000000000};
    if (scenario_build(scenario, &how, path, &image, &kit->err) < 0)
        fail_msg("%s", kit->err.text);
    unlink(path); /* the map keeps it alive */
    return image;
}

void kit_image_done(SimImage *image)
{
    sim_image_close(image);
}

int kit_words(Kit *kit, const char *text, const char **words)
{
    int n = 0;
    while (*text && n < 16) {
        int quoted = *text == '"';
        size_t len = strcspn(text += quoted, quoted ? "\"" : " ");
        words[n++] = arena_strndup(&kit->arena, text, len);
        text += len + (text[len] != '\0');
        text += strspn(text, " ");
    }
    return n;
}
