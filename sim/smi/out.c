/* SPDX-License-Identifier: Apache-2.0 */
/* The tree as text or XML. */
#include "sim/smi/out.h"

static void indent(const Out *out)
{
    for (int i = 0; i < out->depth; i++)
        fputs(out->xml ? "\t" : "    ", out->file);
}

static void xml_text(const Out *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out->file);
            break;
        case '>':
            fputs("&gt;", out->file);
            break;
        case '&':
            fputs("&amp;", out->file);
            break;
        default:
            /* XML 1.0 knows no other control characters */
            fputc((unsigned char)*text < ' ' && *text != '\t' ? '?' : *text, out->file);
        }
    }
}

void out_open(Out *out, const char *tag, const char *label)
{
    const char *name = out->xml ? tag : label;

    if (!name)
        return;
    indent(out);
    fprintf(out->file, out->xml ? "<%s>\n" : "%s\n", name);
    out->depth++;
}

void out_close(Out *out, const char *tag, const char *label)
{
    if (!(out->xml ? tag : label))
        return;
    out->depth--;
    if (!out->xml)
        return;
    indent(out);
    fprintf(out->file, "</%s>\n", tag);
}

void out_leaf(Out *out, const char *tag, const char *label, const char *text)
{
    if (!(out->xml ? tag : label))
        return;
    indent(out);
    if (!out->xml) {
        int column = out->column ? out->column : OUT_COLUMN;
        fprintf(out->file, "%-*s: %s\n", column - 4 * out->depth, label, text);
        return;
    }
    fprintf(out->file, "<%s>", tag);
    xml_text(out, text);
    fprintf(out->file, "</%s>\n", tag);
}

void out_value(Out *out, const char *tag, const char *label, const Value *value, const char *unit)
{
    char text[VALUE_MAX + 64];

    value_show(value, unit, text, sizeof(text));
    out_leaf(out, tag, label, text);
}

void out_get(Out *out, const Subject *of, const char *tag, const char *label, Getter *get, int arg, const char *unit)
{
    Value value;

    if (!(out->xml ? tag : label))
        return;
    get(of, arg, &value);
    out_value(out, tag, label, &value, unit);
}
