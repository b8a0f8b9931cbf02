/* SPDX-License-Identifier: Apache-2.0 */
#include "service/render/render.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

enum { GPUS_MAX = 16, NAME_MAX_BYTES = 50, RESTARTS_MAX = 1000 };

static const char *const tiers[] = {"anywhere", "nvlink", "rack", "block", NULL};
static const char *const fabrics[] = {"unknown", "infiniband", "roce", "efa", "tcp", NULL};

static const OptSpec spec_rows[] = {
    OPT_ROW("name", OPT_STRING, JobSpec, name, .help = "of the job"),
    OPT_ROW("image", OPT_STRING, JobSpec, image, .help = "container image"),
    OPT_ROW("command", OPT_LIST, JobSpec, command, .flags = OPT_WHOLE, .help = "program and arguments"),
    OPT_ROW("nodes", OPT_UINT, JobSpec, nodes, .def = "1", .min = 1, .max = JOB_NODES_MAX, .help = "how many"),
    OPT_ROW("gpus", OPT_UINT, JobSpec, gpus, .def = "8", .min = 1, .max = GPUS_MAX, .help = "of each node"),
    OPT_ROW("cpus", OPT_UINT, JobSpec, cpus, .min = 0, .max = 4096, .help = "cores of each node"),
    OPT_ROW("memory", OPT_SIZE, JobSpec, memory_bytes, .help = "of each node"),
    OPT_ROW("queue", OPT_STRING, JobSpec, queue, .help = "of Kueue or Volcano"),
    OPT_ROW("priority", OPT_STRING, JobSpec, priority, .help = "name of a PriorityClass"),
    OPT_ROW("topology.within", OPT_ENUM, JobSpec, within, .names = tiers, .def = "anywhere", .help = "to stay within"),
    OPT_ROW("topology.required", OPT_BOOL, JobSpec, required, .help = "else preferred"),
    OPT_ROW("topology.label", OPT_STRING, JobSpec, label, .help = "of nodes, for Kubernetes and Kueue"),
    OPT_ROW("checkpoint.every", OPT_DURATION, JobSpec, checkpoint_ns, .help = "between two"),
    OPT_ROW("checkpoint.path", OPT_STRING, JobSpec, checkpoint_path, .help = "where the program keeps them"),
    OPT_ROW("restart.max", OPT_UINT, JobSpec, restarts, .min = 0, .max = RESTARTS_MAX, .help = "how often"),
    OPT_ROW("time_limit", OPT_DURATION, JobSpec, time_limit_ns, .help = "of the whole job"),
    OPT_ROW("nccl.interface", OPT_STRING, JobSpec, interface, .help = "network interface"),
    OPT_ROW("nccl.hca", OPT_STRING, JobSpec, hca, .help = "adapters"),
    OPT_ROW("nccl.gid_index", OPT_STRING, JobSpec, gid_index, .help = "of RoCE"),
    OPT_ROW("nccl.fabric", OPT_ENUM, JobSpec, fabric, .names = fabrics, .def = "unknown", .help = "between nodes"),
    OPT_ROW("nccl.debug", OPT_STRING, JobSpec, debug, .help = "NCCL_DEBUG"),
    OPT_ROW("env", OPT_NODE, JobSpec, env_node, .help = "more variables"),
    OPT_ROW("account", OPT_STRING, JobSpec, account, .help = "of Slurm"),
    OPT_ROW("partition", OPT_STRING, JobSpec, partition, .help = "of Slurm"),
    OPT_ROW("qos", OPT_STRING, JobSpec, qos, .help = "of Slurm"),
};

bool job_spec_has_launcher(const JobSpec *spec)
{
    const char *slash = spec->command.len > 0 ? strrchr(spec->command.items[0], '/') : NULL;
    const char *program = slash ? slash + 1 : spec->command.len > 0 ? spec->command.items[0] : "";

    return strcmp(program, "torchrun") == 0;
}

/* --- what texts may be -------------------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    const size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) && text[i] != '-')
            return false;
    return len > 0 && len <= NAME_MAX_BYTES && islower((unsigned char)text[0]) && text[len - 1] != '-';
}

/* One that a script's #SBATCH line and a label's value both hold. */
static bool is_word(const char *text)
{
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("-_.", *at))
            return false;
    return isalnum((unsigned char)*text);
}

static bool is_label(const char *text)
{
    const char *slash = strchr(text, '/');

    return slash ? slash > text && is_word(slash + 1) : is_word(text);
}

static bool is_number(const char *text)
{
    return *text && !text[strspn(text, "0123456789")] && strlen(text) < 4;
}

static bool is_line(const char *text)
{
    return *text && !strpbrk(text, "\n\r");
}

static bool is_debug(const char *text)
{
    static const char *const levels[] = {"version", "warn", "info", "trace"};

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (strcmp(text, levels[i]) == 0)
            return true;
    return false;
}

static const struct {
    const char *key;
    size_t off;
    bool (*holds)(const char *text);
    const char *must;
} checks[] = {
    {"name", offsetof(JobSpec, name), is_name,
     "must be up to 50 of a-z, 0-9 and '-', begin with a letter and not end with '-'"},
    {"image", offsetof(JobSpec, image), is_line, "must be one line"},
    {"queue", offsetof(JobSpec, queue), is_word, "must be letters, digits, '-', '_' and '.'"},
    {"priority", offsetof(JobSpec, priority), is_word, "must be letters, digits, '-', '_' and '.'"},
    {"topology.label", offsetof(JobSpec, label), is_label, "must be a node label such as example.com/rack"},
    {"nccl.gid_index", offsetof(JobSpec, gid_index), is_number, "must be a number"},
    {"nccl.debug", offsetof(JobSpec, debug), is_debug, "must be version, warn, info or trace"},
    {"account", offsetof(JobSpec, account), is_word, "must be letters, digits, '-', '_' and '.'"},
    {"partition", offsetof(JobSpec, partition), is_word, "must be letters, digits, '-', '_' and '.'"},
    {"qos", offsetof(JobSpec, qos), is_word, "must be letters, digits, '-', '_' and '.'"},
};

static int check_texts(const OptSet *set, const JobSpec *spec, Err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const char *text;

        memcpy(&text, (const char *)spec + checks[i].off, sizeof text);
        if (text && !checks[i].holds(text))
            return opt_fail(set, checks[i].key, 0, err, "'%.60s' %s", text, checks[i].must);
    }
    return 0;
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static bool is_variable(const char *name)
{
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_')
            return false;
    return *name && !isdigit((unsigned char)*name);
}

static int read_env(JobSpec *spec, Arena *arena, Err *err)
{
    const YamlNode *map = spec->env_node;

    if (yaml_is_null(map))
        return 0;
    TRY(yaml_want(map, YAML_MAP, "env", err));
    JobVariable *env = arena_calloc(arena, map->len, sizeof *env);
    for (size_t i = 0; i < map->len; i++) {
        const YamlNode *key = map->pairs[i].key, *value = map->pairs[i].value;

        if (!is_variable(key->text))
            return yaml_fail(key, err, "env: '%.60s' is no name of a variable: letters, digits and '_'", key->text);
        TRY(yaml_want(value, YAML_SCALAR, key->text, err));
        env[i] = (JobVariable){key->text, value->text};
    }
    spec->env = env;
    spec->env_count = map->len;
    return 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int check_whole(const OptSet *set, const JobSpec *spec, const YamlNode *root, Err *err)
{
    if (!spec->name)
        return yaml_fail(root, err, "'name' is missing");
    if (spec->command.len == 0 || !spec->command.items[0][0])
        return yaml_fail(root, err, "'command' is missing: a list such as [torchrun, train.py]");
    if (spec->hca && spec->fabric != JOB_INFINIBAND && spec->fabric != JOB_ROCE)
        return opt_fail(set, "nccl.hca", 0, err, "is of fabric infiniband or roce alone");
    if (spec->gid_index && spec->fabric != JOB_ROCE)
        return opt_fail(set, "nccl.gid_index", 0, err, "is of fabric roce alone");
    if (spec->within == JOB_ANYWHERE && (spec->required || spec->label))
        return opt_fail(set, spec->required ? "topology.required" : "topology.label", 0, err,
                        "needs 'within': nvlink, rack or block");
    return 0;
}

int job_spec_read(const char *name, const char *text, size_t len, Arena *arena, JobSpec *ret, Err *err)
{
    JobSpec spec = {.name = NULL};
    OptPlace places[ARRAY_LEN(spec_rows)] = {{.row = NULL}};
    const OptSet set = {
        .opts = spec_rows, .count = ARRAY_LEN(spec_rows), .into = &spec, .arena = arena, .places = places};
    const YamlNode *root;

    TRY(yaml_load(name, text, len, arena, &root, err));
    if (yaml_is_null(root))
        return err_set(err, -EINVAL, "%s: is empty", name);
    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, root, err));
    TRY(check_texts(&set, &spec, err));
    TRY(read_env(&spec, arena, err));
    TRY(check_whole(&set, &spec, root, err));
    *ret = spec;
    return 0;
}
