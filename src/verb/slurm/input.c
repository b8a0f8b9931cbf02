/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/slurm/input.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "source/slurm/command.h"

static const struct {
    const char *name, *argv[6];
} questions[] = {
    {"scontrol show node", {"scontrol", "show", "node", "--oneliner", NULL}},
    {"scontrol show job", {"scontrol", "show", "job", "--oneliner", "-d", NULL}},
    {"scontrol show topology", {"scontrol", "show", "topology", NULL}},
};

static void keep_text(Arena *arena, const char *name, const Str *text, SlurmText *ret)
{
    *ret = (SlurmText){name, arena_strndup(arena, text->len ? text->text : "", text->len), text->len};
}

int slurm_input_file(VerbCall *call, const char *path, SlurmText *ret)
{
    CLEANUP(str_done) Str text = str_limited(SLURM_CLUSTER_TEXT_MAX);

    TRY(verb_read_file(path, SLURM_CLUSTER_TEXT_MAX, &text, &call->err));
    keep_text(call->arena, strcmp(path, "-") == 0 ? "stdin" : path, &text, ret);
    return 0;
}

static int ask_scontrol(VerbCall *call, size_t question, uint64_t timeout_ns, SlurmText *ret)
{
    CLEANUP(str_done) Str text = str_limited(SLURM_CLUSTER_TEXT_MAX);
    const char *name = questions[question].name;
    const int rc = slurm_command_run(questions[question].argv, true, timeout_ns / NS_PER_MS, &text, &call->err);

    if (rc == -ENOENT)
        return err_set(&call->err, rc,
                       "Slurm is not installed here (no scontrol in PATH); give files with its output (see --help)");
    if (rc < 0)
        return err_add(&call->err, "'%s'", name);
    keep_text(call->arena, name, &text, ret);
    return 0;
}

int slurm_input_read(VerbCall *call, const SlurmInput *input, bool jobs, SlurmCluster *ret)
{
    const char *const paths[] = {input->nodes, input->jobs, input->topology};
    SlurmText texts[ARRAY_LEN(questions)] = {0};

    if (!input->nodes && (input->jobs || input->topology))
        return verb_failf(call, EXIT_USAGE,
                          "needs --nodes FILE too, with the output of 'scontrol show node --oneliner'");
    if (input->nodes && jobs && !input->jobs)
        return verb_failf(call, EXIT_USAGE,
                          "needs --jobs FILE too, with the output of 'scontrol show job --oneliner -d'");
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        if (input->nodes && paths[i] && slurm_input_file(call, paths[i], &texts[i]) < 0)
            return verb_fail(call, EXIT_USAGE);
        if (!input->nodes && (i == 0 || jobs) && ask_scontrol(call, i, input->timeout_ns, &texts[i]) < 0)
            return verb_fail(call, EXIT_UNKNOWN);
    }
    if (slurm_cluster_read(&texts[0], &texts[1], &texts[2], call->arena, ret, &call->err) < 0)
        return verb_fail(call, input->nodes ? EXIT_USAGE : EXIT_UNKNOWN);
    return EXIT_FINE;
}
