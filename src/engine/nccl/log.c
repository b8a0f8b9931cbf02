/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a log. Container engines and journald wrap lines in JSON, terminals add escape sequences: both are
 * removed. Launchers put anything before NCCL's own prefix, and processes that write into one file put a line into
 * the middle of another, so a line is a row of pieces, each with a prefix:
 *
 *     host:pid:tid [device] NCCL INFO message
 *     host:pid:tid [device] file:line (function) NCCL WARN message
 */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

/* The text of an engine's line: {"log":"...", {"stream":"stdout","message": "..."; NULL. Owned by *ret_line. */
static const json_t *unwrap_json(Span line, json_t **ret_line)
{
    static const char *const keys[] = {"log", "message", "msg", "MESSAGE"};
    const json_t *text = NULL;

    *ret_line =
        span_starts(line, "{") ? json_loadb(line.at, line.len, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL) : NULL;
    for (size_t i = 0; i < ARRAY_LEN(keys) && !json_is_string(text); i++)
        text = json_object_get(*ret_line, keys[i]);
    return json_is_string(text) ? text : NULL;
}

bool nccl_is_wrapped(Span text)
{
    Span line = span_trim(span_until(&text, '\n'));
    CLEANUP(json_decref_at) json_t *object = NULL;

    span_blanks(&text);
    return span_starts(line, "{\"log\":") ||
           (unwrap_json(line, &object) && line.at[line.len - 1] == '}' && (text.len == 0 || text.at[0] == '{'));
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

/* Ray prints a line once for all workers: "... [repeated 3x across cluster]". */
static Span without_repeats(Span line)
{
    static const char tail[] = "x across cluster]";
    size_t at = line.len && line.at[line.len - 1] == ']' && span_has(line, tail) ? span_find_last(line, " [repeated ")
                                                                                 : SPAN_NOWHERE;

    return at == SPAN_NOWHERE ? line : span_cut(line, 0, at);
}

/* The line without what terminals and container engines added; its text may lie in job->bare. */
static Span strip_wrapping(NcclJob *job, Span line)
{
    CLEANUP(json_decref_at) json_t *object = NULL;
    const json_t *text = unwrap_json(line = span_trim(line), &object);

    if (!text && (line.len == 0 || !memchr(line.at, '\033', line.len)))
        return without_repeats(line);
    str_clear(&job->bare);
    str_addn(&job->bare, text ? json_string_value(text) : line.at, text ? json_string_length(text) : line.len);
    if (job->bare.len)
        drop_escapes(&job->bare);
    for (size_t i = 0; i < job->bare.len; i++) /* so that one line stays one */
        job->bare.text[i] = job->bare.text[i] && strchr("\n\r\t\b\f", job->bare.text[i]) ? ' ' : job->bare.text[i];
    return without_repeats(span_trim((Span){job->bare.text, job->bare.len}));
}

enum { SOURCE_MAX = 200, PIECES_MAX = 256 };

/* A piece of a line and its process. */
typedef struct Piece {
    size_t begin, message; /* where its prefix and its message begin */
    uint64_t pid, tid;
    Span host;
    int dev;
    bool warn, known; /* known: has a prefix */
} Piece;

static bool is_host(char c)
{
    return isalpha((unsigned char)c) || isdigit((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

/* The number that ends at `end`, which moves to its begin. */
static bool number_before(Span s, size_t *end, uint64_t *ret)
{
    size_t from = *end;

    while (from > 0 && isdigit((unsigned char)s.at[from - 1]))
        from--;
    Span digits = span_cut(s, from, *end);
    if (digits.len == 0 || digits.len > 10 || !span_u64(&digits, ret))
        return false;
    *end = from;
    return true;
}

/* "host:pid:tid [dev]" whose bracket opens at `open`. */
static bool prefix_at(Span s, size_t open, Piece *ret)
{
    Span inside = span_from(s, open + 1);
    size_t at = open;

    ret->dev = NCCL_UNKNOWN;
    if (!span_starts(inside, "]") && (!span_int(&inside, &ret->dev) || !span_starts(inside, "]")))
        return false;
    if (at == 0 || s.at[--at] != ' ' || !number_before(s, &at, &ret->tid) || at == 0 || s.at[--at] != ':' ||
        !number_before(s, &at, &ret->pid) || at == 0 || s.at[--at] != ':')
        return false;
    size_t begin = at;
    while (begin > 0 && is_host(s.at[begin - 1]))
        begin--;
    if (begin == at)
        return false;
    ret->host = span_cut(s, begin, at);
    ret->begin = begin;
    ret->known = true;
    return true;
}

/* The next "NCCL INFO|WARN" from `from` on, with its prefix that begins not before `floor`. */
static bool next_piece(Span s, size_t from, size_t floor, Piece *ret)
{
    for (;;) {
        Span rest = span_from(s, from);
        size_t at = span_find(rest, "NCCL ");
        if (at == SPAN_NOWHERE)
            return false;
        from += at + 5;
        rest = span_from(s, from);
        bool warn = span_starts(rest, "WARN ");
        if (!warn && !span_starts(rest, "INFO ") && !span_starts(rest, "TRACE "))
            continue;
        *ret = (Piece){.begin = from - 5, .message = from + (span_starts(rest, "TRACE ") ? 6 : 5), .warn = warn};
        size_t low = ret->begin > SOURCE_MAX + floor ? ret->begin - SOURCE_MAX : floor;
        for (size_t open = ret->begin; open-- > low;)
            if (s.at[open] == '[') {
                Piece found = *ret;
                if (prefix_at(span_cut(s, 0, ret->begin), open, &found) && found.begin >= floor) {
                    *ret = found;
                    break;
                }
            }
        return true;
    }
}

static bool is_met_host(const NcclJob *job, Span host)
{
    return map_getn(&job->host_by_name, host.at, host.len);
}

static bool is_met_process(const NcclJob *job, Span host, uint64_t pid)
{
    return nccl_find_process(job, host, pid) != NCCL_NO_INDEX;
}

/* A prefix in the middle of a line touches what was torn: "0[0] -> 1node-a:7:9 [1] ...". Where the longer name is
 * unknown and a shorter one is a host that was met, it is the shorter. What another program wrote without a line end
 * may touch the first prefix too: "sum      -1node-a:7:9 [0] ...". There (`first`) a longer name is as good as a
 * shorter one, unless the shorter has this very process, or a number is what is before. */
static void trim_host(const NcclJob *job, Piece *piece, bool first)
{
    const Span host = piece->host;
    bool number = true;

    if (first ? is_met_host(job, host) : is_met_process(job, host, piece->pid))
        return;
    for (size_t cut = 1; cut < host.len; cut++) {
        Span shorter = span_from(host, cut);
        char before = host.at[cut - 1];
        number = number && (isdigit((unsigned char)before) || before == '.' || before == '-');
        if ((first && is_met_process(job, shorter, piece->pid)) ||
            ((!first || (number && isalpha((unsigned char)shorter.at[0]))) && is_met_host(job, shorter))) {
            piece->begin += cut;
            piece->host = shorter;
            return;
        }
    }
}

static bool read_version(NcclJob *job, Span message)
{
    const uint32_t process = job->from.process;
    NcclProcess *p = process == NCCL_NO_INDEX ? NULL : &job->report.processes.at[process];

    if (!span_after(&message, "NCCL version ") && !span_after(&message, "RCCL version "))
        return false;
    span_skip(&message, ": "); /* RCCL */
    Span word = span_word(&message);
    if (word.len == 0 || !isdigit((unsigned char)word.at[0]))
        return false;
    nccl_input(job)->used++;
    if (!p && !job->banner.version) {
        job->banner.version = nccl_intern(job, word);
        job->banner.place = nccl_current_place(job);
    }
    if (p && !p->version[0]) {
        p->version = nccl_intern(job, word);
        p->version_place = nccl_current_place(job);
    }
    return true;
}

/* The front of a message that a torn line lost the rest of. */
static bool is_torn(Span message)
{
    static const char *const fronts[] = {"Channel ", "Ring ", "Trees ", "comm 0x", "ncclCommInit"};

    return message.len < 4 || span_starts_any(message, fronts, ARRAY_LEN(fronts));
}

static void read_message(NcclJob *job, Span message)
{
    static bool (*const readers[])(NcclJob * job, Span message) = {nccl_read_edge_line,  nccl_read_comm_line,
                                                                   nccl_read_shape_line, nccl_read_call_line,
                                                                   nccl_read_env_line,   nccl_read_net_line};
    bool used = false;

    for (size_t i = 0; i < ARRAY_LEN(readers) && !used; i++)
        used = readers[i](job, message);
    if (!used || job->from.warn)
        used |= nccl_read_fault_line(job, message);
    if (!used && !read_version(job, message) && is_torn(message))
        nccl_input(job)->torn++;
    nccl_input(job)->used += used;
}

static void plain_line(NcclJob *job, Span line)
{
    job->from = (NcclSource){.process = NCCL_NO_INDEX, .dev = NCCL_UNKNOWN};
    if (line.len < 4)
        return;
    if (nccl_read_bench_line(job, line) || nccl_read_watchdog_line(job, line) || nccl_read_fault_line(job, line))
        nccl_input(job)->used++;
    else
        read_version(job, line);
}

static void read_piece(NcclJob *job, const Piece *piece, Span message)
{
    const uint32_t process = piece->known ? nccl_add_process(job, piece->host, piece->pid) : NCCL_NO_INDEX;

    if (process != NCCL_NO_INDEX) {
        job->banner.several |= job->banner.process != NCCL_NO_INDEX && job->banner.process != process;
        if (job->banner.process == NCCL_NO_INDEX)
            job->banner.process = process;
    }
    job->from = (NcclSource){process, piece->tid, piece->dev, piece->warn};
    read_message(job, span_trim(message));
}

void nccl_read_line(NcclJob *job, Span line)
{
    Piece piece, next;

    line = strip_wrapping(job, line);
    job->cut = false;
    if (!next_piece(line, 0, 0, &piece)) {
        plain_line(job, line);
        return;
    }
    if (piece.known)
        trim_host(job, &piece, true);
    if (piece.begin)
        plain_line(job, span_trim(span_cut(line, 0, piece.begin)));
    for (int i = 0; i < PIECES_MAX; i++) {
        bool more = next_piece(line, piece.message, piece.message, &next);
        if (more && next.known)
            trim_host(job, &next, false);
        job->cut = more;
        read_piece(job, &piece, span_cut(line, piece.message, more ? next.begin : line.len));
        if (!more)
            return;
        piece = next;
    }
}

/* It is rank 0 that prints it. */
void nccl_end_banner(NcclJob *job)
{
    const NcclBanner *b = &job->banner;
    uint32_t process = b->process;

    for (size_t i = 0; i < job->report.members.len && b->several; i++) {
        const NcclMember *m = &job->report.members.at[i];
        if (m->rank == 0 && (m->start_place.input == job->input || m->complete_place.input == job->input)) {
            process = m->process;
            break;
        }
    }
    if (!b->version || process == NCCL_NO_INDEX || job->report.processes.at[process].version[0])
        return;
    job->report.processes.at[process].version = b->version;
    job->report.processes.at[process].version_place = b->place;
}
