/* SPDX-License-Identifier: Apache-2.0 */
/* A line as NCCL wrote it: out of the JSON that container engines and journals put each line into, without the escape
 * sequences of a terminal. What launchers put before it stays; see log.c. */
#include <string.h>

#include "base/owner.h"
#include "base/utf8.h"
#include "engine/nccl/job.h"

/* Behind the quote that opens the text of an engine's line: {"log":"...", {"stream":"stdout","message": "..." */
static bool skip_to_text(Span *s)
{
    static const char *const keys[] = {"\"log\"", "\"message\"", "\"msg\"", "\"MESSAGE\""};

    for (size_t i = 0; i < ARRAY_LEN(keys) && span_starts(*s, "{"); i++) {
        Span at = *s;
        if (span_after(&at, keys[i]) && span_next(&at, ":") && span_next(&at, "\"")) {
            *s = at;
            return true;
        }
    }
    return false;
}

bool nccl_is_wrapped(Span text)
{
    Span line = span_until(&text, '\n'), look = line;

    if (!skip_to_text(&look))
        return false;
    line = span_trim(line);
    span_blanks(&text);
    return span_starts(line, "{\"log\"") || (line.at[line.len - 1] == '}' && (text.len == 0 || text.at[0] == '{'));
}

/* The escape behind a backslash, as text. Line ends become blanks, so that one line stays one. */
static void add_escape(Str *out, Span *s)
{
    static const char from[] = "nrtbf", to[] = "     ";
    char letter = s->at[0], bytes[UTF8_MAX];
    const char *found = letter ? strchr(from, letter) : NULL;
    uint64_t c;

    *s = span_from(*s, 1);
    if (letter == 'u' && s->len >= 4) {
        Span digits = span_cut(*s, 0, 4);
        if (span_hex(&digits, &c) && digits.len == 0) {
            *s = span_from(*s, 4);
            if (c && (c < 0xd800 || c > 0xdfff))
                str_addn(out, bytes, utf8_write(bytes, (uint32_t)c));
            else
                str_addc(out, '?');
            return;
        }
    }
    str_addc(out, found ? to[found - from] : letter);
}

static void unwrap(Str *out, Span s)
{
    while (s.len && s.at[0] != '"') {
        size_t n = 0;
        while (n < s.len && s.at[n] != '"' && s.at[n] != '\\')
            n++;
        str_addn(out, s.at, n);
        s = span_from(s, n);
        if (!span_skip(&s, "\\") || s.len == 0)
            continue;
        add_escape(out, &s);
    }
}

/* Bytes of the sequence that begins with the escape at `s`: colours and cursor (ESC [ ... letter), titles and links
 * (ESC ] ... BEL or ESC \), others of two or three bytes. */
static size_t escape_len(Span s)
{
    size_t n = 2;

    if (s.len < 2)
        return s.len;
    if (s.at[1] == '[') {
        while (n < s.len && s.at[n] >= ' ' && s.at[n] < '@')
            n++;
        return n < s.len && s.at[n] >= '@' && s.at[n] <= '~' ? n + 1 : n;
    }
    if (s.at[1] == ']') {
        while (n < s.len && s.at[n] != '\a' && s.at[n] != '\033')
            n++;
        return n < s.len && s.at[n] == '\033' && n + 1 < s.len && s.at[n + 1] == '\\' ? n + 2 : n < s.len ? n + 1 : n;
    }
    return s.at[1] == '(' || s.at[1] == ')' ? (s.len < 3 ? s.len : 3) : 2;
}

static void drop_escapes(Str *text)
{
    size_t out = 0;

    for (size_t in = 0; in < text->len;) {
        Span rest = {text->text + in, text->len - in};
        if (rest.at[0] == '\033')
            in += escape_len(rest);
        else
            text->text[out++] = text->text[in++];
    }
    str_cut(text, out);
}

/* Ray says a line once for all workers: "... [repeated 3x across cluster]". */
static Span without_repeats(Span line)
{
    static const char tail[] = "x across cluster]";
    size_t at = line.len && line.at[line.len - 1] == ']' && span_has(line, tail) ? span_find_last(line, " [repeated ")
                                                                                 : SPAN_NOWHERE;

    return at == SPAN_NOWHERE ? line : span_cut(line, 0, at);
}

Span nccl_bare_line(NcclJob *job, Span line)
{
    Span inside = line = span_trim(line);
    bool wrapped = skip_to_text(&inside);

    if (!wrapped && (line.len == 0 || !memchr(line.at, '\033', line.len)))
        return without_repeats(line);
    str_clear(&job->bare);
    if (wrapped)
        unwrap(&job->bare, inside);
    else
        str_addn(&job->bare, line.at, line.len);
    if (job->bare.len)
        drop_escapes(&job->bare);
    return without_repeats(span_trim((Span){job->bare.text, job->bare.len}));
}
