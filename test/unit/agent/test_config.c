/* SPDX-License-Identifier: Apache-2.0 */
/* Covers the table of src/verb/agent/options.c and what src/verb/agent/config.c does with it at a reload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "verb/agent/config.h"

int agent_run(VerbCall *call, const void *options)
{
    (void)call;
    (void)options;
    return 0;
}

/* Gives the field of a row another value than its default. */
static void change(const OptSpec *spec, AgentOptions *o)
{
    static const char *const items[] = {"another", "value"};
    void *field = (char *)o + spec->off;

    switch (spec->type) {
    case OPT_BOOL:
        *(bool *)field ^= true;
        break;
    case OPT_ENUM:
        *(int *)field ^= 1;
        break;
    case OPT_INT:
    case OPT_UINT:
    case OPT_DURATION:
    case OPT_SIZE:
        *(uint64_t *)field += 1;
        break;
    case OPT_DOUBLE:
        *(double *)field += 1;
        break;
    case OPT_STRING:
        *(const char **)field = "another value";
        break;
    case OPT_LIST:
        *(OptList *)field = (OptList){.items = items, .len = 2};
        break;
    case OPT_NODE:
        *(const void **)field = items;
        break;
    }
}

static void every_row_says_whether_it_needs_a_restart(void **state)
{
    (void)state;
    for (size_t i = 0; i < agent_opt_count; i++) {
        const OptSpec *spec = &agent_opts[i];
        AgentConfig *before = NULL, *now = NULL;
        const char *later;

        if (spec->flags & OPT_ALIAS)
            continue;
        assert_int_equal(agent_config_defaults(&before, NULL), 0);
        assert_int_equal(agent_config_defaults(&now, NULL), 0);
        assert_null(agent_config_needs_restart(before, now));
        change(spec, &now->o);
        later = agent_config_needs_restart(before, now);
        if (spec->flags & OPT_RESTART) {
            assert_non_null(later);
            assert_string_equal(later, spec->key);
        } else {
            assert_null(later);
        }
        agent_config_free(before);
        agent_config_free(now);
    }
}

/* What is opened once, at the start. */
static void what_is_opened_once_needs_a_restart(void **state)
{
    static const char *const keys[] = {"listen", "control",      "driver.library",         "journal.path", "log.format",
                                       "root",   "dcgm.address", "remote_hostengine_info", "sampler.probe"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_true(opt_find(agent_opts, agent_opt_count, keys[i])->flags & OPT_RESTART);
}

static void several_are_named(void **state)
{
    AgentConfig *before = NULL, *now = NULL;

    (void)state;
    assert_int_equal(agent_config_defaults(&before, NULL), 0);
    assert_int_equal(agent_config_defaults(&now, NULL), 0);
    now->o.root = ""; /* as none at all */
    now->o.history_series++;
    now->o.journal_keep_ns++;
    now->o.no_hostname = true;
    assert_string_equal(agent_config_needs_restart(before, now), "journal.keep, history.series");
    agent_config_free(before);
    agent_config_free(now);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_says_whether_it_needs_a_restart),
        cmocka_unit_test(what_is_opened_once_needs_a_restart),
        cmocka_unit_test(several_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
