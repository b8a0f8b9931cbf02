/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: lines of the kernel log and of the fabric manager, one reader over all of them. What comes out is UTF-8
 * without control characters and has its numbers within bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "source/kmsg/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_POINTER(LineReader, line_reader_free);

static void check_text(const char *text, size_t cap)
{
    const size_t len = strnlen(text, cap);

    if (len == cap)
        abort();
    for (size_t at = 0; at < len;) {
        uint32_t c;
        const size_t bytes = utf8_read(text + at, len - at, &c);

        if (bytes == 0 || c < 0x20 || c == 0x7f)
            abort();
        at += bytes;
    }
}

static void check(const Event *event)
{
    if (event->kind >= EVENT_KIND_END || event->code < 0 || event->register_count > EVENT_REGISTERS)
        abort();
    check_text(event->text, sizeof event->text);
    check_text(event->process, sizeof event->process);
    check_text(event->unit, sizeof event->unit);
    check_text(event->uuid, sizeof event->uuid);
    check_text(event->version[0], sizeof event->version[0]);
    check_text(event->version[1], sizeof event->version[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const patterns[] = {"insufficient power"};
    CLEANUP(line_reader_free_at) LineReader *reader = line_reader_new(patterns, ARRAY_LEN(patterns));
    const char *text = (const char *)data, *end = text + size;

    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const size_t len = newline ? (size_t)(newline - text) : (size_t)(end - text);
        char *line = malloc(len + 1); /* of its own, so that reading beyond its end is seen */
        KmsgRecord record;
        uint64_t real_ns;
        Event event;

        if (!line)
            abort();
        memcpy(line, text, len);
        if (kmsg_record(line, len, &record) == 0 && (record.text < line || record.text + record.len > line + len))
            abort();
        char *exact = len ? realloc(line, len) : line;
        if (line_read(reader, exact, len, &event))
            check(&event);
        if (line_read_fabric(exact, len, &event, &real_ns))
            check(&event);
        free(exact);
        text += len + 1;
    }
    return 0;
}
