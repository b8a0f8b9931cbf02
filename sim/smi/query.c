/* SPDX-License-Identifier: Apache-2.0 */
/* Chosen fields as CSV. */
#include "sim/smi/query.h"

#include <string.h>

static size_t field_count(const Query *query)
{
    return query->fields == field_gpu ? field_gpu_count : query->count;
}

static const Field *find_field(const Query *query, const char *name)
{
    for (size_t i = 0; i < field_count(query); i++) {
        const Field *field = &query->fields[i];
        if (strcmp(field->name, name) == 0 || (field->alias && strcmp(field->alias, name) == 0))
            return field;
    }
    return NULL;
}

/* The next word of a list, without blanks around it; NULL after the last. */
static char *next_word(char **rest)
{
    char *word = strsep(rest, ",");

    if (!word)
        return NULL;
    word += strspn(word, " \t");
    word[strcspn(word, " \t")] = '\0';
    return word;
}

static int read_format(QueryPlan *plan, const char *format)
{
    char words[256], *rest = words;
    bool csv = false;

    snprintf(words, sizeof(words), "%s", format);
    for (char *word; (word = next_word(&rest)) != NULL;) {
        if (strcmp(word, "csv") == 0)
            csv = true;
        else if (strcmp(word, "noheader") == 0)
            plan->header = false;
        else if (strcmp(word, "nounits") == 0)
            plan->units = false;
        else {
            printf("Format option \"%s\" is not valid.\n", word);
            return 2;
        }
    }
    if (!csv)
        printf("\"--format=\" needs csv.\n");
    return csv ? 0 : 2;
}

int query_plan(QueryPlan *plan, const Query *query, const char *fields, const char *format)
{
    char words[16384], *rest = words;

    *plan = (QueryPlan){.query = query, .header = true, .units = true};
    if (!format) {
        printf("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n");
        return 2;
    }
    snprintf(words, sizeof(words), "%s", fields);
    for (char *word; (word = next_word(&rest)) != NULL && plan->count < QUERY_FIELDS_MAX;) {
        const Field *field = find_field(query, word);
        if (!field) {
            printf("Field \"%s\" is not a valid field to query.\n\n", word);
            return 2;
        }
        plan->fields[plan->count++] = field;
    }
    return read_format(plan, format);
}

void query_header(const QueryPlan *plan, FILE *file)
{
    if (!plan->header)
        return;
    for (size_t i = 0; i < plan->count; i++) {
        const Field *field = plan->fields[i];
        fprintf(file, "%s%s", i ? ", " : "", field->name);
        if (field->unit)
            fprintf(file, " [%s]", field->unit);
    }
    fputc('\n', file);
}

typedef struct RowOut {
    const QueryPlan *plan;
    FILE *file;
} RowOut;

static void write_row(const Subject *of, void *user)
{
    const RowOut *out = user;
    Value value;

    for (size_t i = 0; i < out->plan->count; i++) {
        const Field *field = out->plan->fields[i];
        field->get(of, field->arg, &value);
        fputs(i ? ", " : "", out->file);
        if (value.rc != NVML_SUCCESS)
            fprintf(out->file, "[%s]", value_reason(&value));
        else if (field->unit && out->plan->units)
            fprintf(out->file, "%s %s", value.text, field->unit);
        else
            fputs(value.text, out->file);
    }
    fputc('\n', out->file);
}

void query_rows(const QueryPlan *plan, GpuSet *set, FILE *file)
{
    RowOut out = {plan, file};

    for (unsigned int i = 0; i < set->count; i++)
        plan->query->rows(&set->gpus[i], write_row, &out);
}

void query_help(const Query *query)
{
    printf("List of valid properties to query for the switch \"--query-%s\" (%s):\n\n", query->name, query->about);
    for (size_t i = 0; i < field_count(query); i++) {
        const Field *field = &query->fields[i];
        printf("\"%s\"", field->name);
        if (field->alias)
            printf(" or \"%s\"", field->alias);
        printf("\n%s%s%s%s\n\n", field->about, field->unit ? ", in " : "", field->unit ? field->unit : "", ".");
    }
}
