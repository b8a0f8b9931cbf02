/* SPDX-License-Identifier: Apache-2.0 */
#include "rec.h"

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>

int rec_have(const Rec *r, const char *name, void *fn, size_t size)
{
    void *symbol = dlsym(r->library, name);
    if (symbol)
        memcpy(fn, &symbol, size);
    return symbol != NULL;
}

static int is_left_out(const Rec *r, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = r->without; at && (at = strstr(at, name)); at += len)
        if ((at == r->without || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return 1;
    return 0;
}

int rec_find(Rec *r, const char *name, void *fn, size_t size)
{
    r->asked = name;
    if (is_left_out(r, name))
        return 0;
    if (rec_have(r, name, fn, size))
        return 1;
    rec_begin(r, name);
    rec_raw(r, "}, \"rc\": null, \"out\": {");
    rec_end(r);
    return 0;
}

void rec_begin(Rec *r, const char *name)
{
    fprintf(r->out, "%s\n{\"f\": \"%s\", \"on\": \"%s\", \"args\": {", r->calls++ ? "," : "", name, r->on);
    r->args = r->outs = 0;
    if (r->second_index >= 0)
        rec_arg(r, "second", r->second_index);
}

void rec_arg(Rec *r, const char *name, long long value)
{
    fprintf(r->out, "%s\"%s\": %lld", r->args++ ? ", " : "", name, value);
}

void rec_code(Rec *r, nvmlReturn_t rc)
{
    fprintf(r->out, "}, \"rc\": %d, \"out\": {", (int)rc);
}

void rec_out(Rec *r, const char *name, const char *type)
{
    fprintf(r->out, "%s\"%s\": [\"%s\", ", r->outs++ ? ", " : "", name, type);
}

void rec_end(Rec *r)
{
    fputs("}}", r->out);
}

void rec_raw(Rec *r, const char *json)
{
    fputs(json, r->out);
}

void rec_key(Rec *r, const char *name, int more)
{
    fprintf(r->out, "%s\"%s\": ", more ? ", " : "", name);
}

void rec_number(Rec *r, long long value, int is_private)
{
    fprintf(r->out, "%lld", is_private ? value != 0 : value);
}

void rec_double(Rec *r, double value)
{
    if (isfinite(value))
        fprintf(r->out, "%.17g", value);
    else
        fputs("null", r->out);
}

static int masked(int c, int is_private)
{
    return !is_private ? c : isdigit(c) ? '0' : isalpha(c) ? 'x' : c;
}

void rec_text(Rec *r, const char *text, size_t size, int is_private)
{
    fputc('"', r->out);
    for (size_t i = 0; i < size && text[i]; i++) {
        int c = masked((unsigned char)text[i], is_private);
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7e)
            fprintf(r->out, "\\u%04x", (unsigned int)c);
        else
            fputc(c, r->out);
    }
    fputc('"', r->out);
}

void rec_bytes(Rec *r, const void *bytes, size_t size, int is_private)
{
    const unsigned char *b = bytes;
    fputc('"', r->out);
    for (size_t i = 0; i < size; i++)
        fprintf(r->out, "%02x", is_private ? b[i] != 0 : b[i]);
    fputc('"', r->out);
}
