/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/record.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

SlurmRecords slurm_records_of(const SlurmText *text)
{
    return (SlurmRecords){
        .name = text->name, .at = text->text, .end = text->text ? text->text + text->len : NULL, .next_line = 1};
}

int slurm_records_next(SlurmRecords *r, SlurmWord *ret, Err *err)
{
    const char *begin = r->at;

    r->line = r->next_line;
    while (r->at < r->end) {
        const char *feed = memchr(r->at, '\n', (size_t)(r->end - r->at));

        r->at = feed ? feed + 1 : r->end;
        r->next_line++;
        if (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
            continue;
        if (r->at - begin > SLURM_RECORD_MAX)
            return err_set(err, -E2BIG, "%s:%lu: a line over %d bytes", r->name, r->line, SLURM_RECORD_MAX);
        *ret = (SlurmWord){begin, (size_t)(r->at - begin)};
        return 1;
    }
    return 0;
}

bool slurm_record_word(SlurmWord *record, SlurmWord *ret)
{
    size_t from = 0, to;

    while (from < record->len && (unsigned char)record->at[from] <= ' ')
        from++;
    for (to = from; to < record->len && (unsigned char)record->at[to] > ' ';)
        to++;
    *ret = (SlurmWord){record->at + from, to - from};
    *record = (SlurmWord){record->at + to, record->len - to};
    return ret->len > 0;
}

bool slurm_record_split(SlurmWord word, SlurmWord *ret_key, SlurmWord *ret_value)
{
    const char *equals = memchr(word.at, '=', word.len);

    if (!equals)
        return false;
    *ret_key = (SlurmWord){word.at, (size_t)(equals - word.at)};
    *ret_value = (SlurmWord){equals + 1, word.len - ret_key->len - 1};
    if (!ret_value->len || slurm_word_is(*ret_value, "(null)") || slurm_word_is(*ret_value, "N/A"))
        *ret_value = (SlurmWord){0};
    return true;
}

bool slurm_key_is(SlurmWord word, const char *key)
{
    return strlen(key) == word.len && strncasecmp(key, word.at, word.len) == 0;
}

void slurm_record_fields(SlurmWord record, const char *const *keys, size_t count, bool by_user, SlurmWord *out)
{
    SlurmWord word, key, value;
    bool seen[SLURM_KEYS_MAX] = {false};

    memset(out, 0, count * sizeof *out);
    while (slurm_record_word(&record, &word)) {
        if (!slurm_record_split(word, &key, &value))
            continue;
        for (size_t i = 0; i < count; i++) {
            if (!slurm_key_is(key, keys[i]))
                continue;
            if (!seen[i])
                out[i] = value;
            else if (by_user)
                out[i] = (SlurmWord){0};
            seen[i] = true;
        }
    }
}
