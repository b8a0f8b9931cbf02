/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dcgm-exporter's command line is read by Go's flag package: one dash or two before any name, "-k=true", "--f file".
 * Here such words become the GNU spelling; what is one already stays as it is.
 */
#include <string.h>

#include "verb/agent/config.h"

/* Second names of flags, which are no rows of the table. */
static const struct {
    const char *alias, *flag;
} aliases[] = {{"rbmn", "replace-blanks-in-model-name"}};

static const OptSpec *row_of(const char *name, size_t len)
{
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < agent_opt_count; i++) {
        const char *flag = opt_flag(&agent_opts[i], room);

        if (len == 1 && agent_opts[i].short_flag == name[0])
            return &agent_opts[i];
        if (len > 1 && flag && strlen(flag) == len && memcmp(flag, name, len) == 0)
            return &agent_opts[i];
    }
    return NULL;
}

static const char *resolve_alias(const char *name, size_t *len)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strlen(aliases[i].alias) == *len && memcmp(aliases[i].alias, name, *len) == 0) {
            *len = strlen(aliases[i].flag);
            return aliases[i].flag;
        }
    return name;
}

/* The word as "--flag" or "--flag=value" of its row; itself where no row has this name. */
static char *rewrite_word(Arena *arena, char *word, const OptSpec **ret_row)
{
    const char *name = word + strspn(word, "-"), *value = strchr(word, '=');
    size_t dashes = (size_t)(name - word), len = value ? (size_t)(value - name) : strlen(name);
    char room[OPT_FLAG_MAX];

    *ret_row = NULL;
    if (dashes < 1 || dashes > 2 || len == 0 || (value && value < name))
        return word;
    name = resolve_alias(name, &len);
    *ret_row = row_of(name, len);
    if (!*ret_row)
        return word;
    return arena_printf(arena, "--%s%s", opt_flag(*ret_row, room), value ? value : "");
}

char **agent_rewrite_args(Arena *arena, int argc, char **argv)
{
    char **out = arena_calloc(arena, (size_t)argc + 1, sizeof *out);
    const OptSpec *row = NULL;

    for (int i = 0; i < argc; i++) {
        bool is_value = i > 0 && row && row->type != OPT_BOOL && !strchr(out[i - 1], '=');

        if (i > 0 && strcmp(argv[i], "--") == 0 && !is_value) {
            for (; i < argc; i++)
                out[i] = argv[i];
            break;
        }
        out[i] = argv[i];
        if (is_value || i == 0)
            row = NULL;
        else
            out[i] = rewrite_word(arena, argv[i], &row);
    }
    return out;
}
