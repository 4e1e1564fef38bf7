/*
 * Reads records by index: program DIRECTORY. The database has "zero" at 0, an empty record at 1, a deleted one at 2, and
 * room for 5.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unspoken_pir.h"

#define EXPECT(wanted, call) require(__LINE__, (call) == UNSPOKEN_PIR_STATUS_##wanted)
#define REQUIRE(condition) require(__LINE__, condition)

static UnspokenPirClient *client;
static const char *directory;

static void require(int line, int condition)
{
    char text[512];

    if (condition)
        return;
    unspoken_pir_error(client, text, sizeof text);
    fprintf(stderr, "line %d: not as expected; last error: %s\n", line, text);
    exit(1);
}

static FILE *open_file(const char *name, const char *mode)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, mode);
    REQUIRE(file != NULL);
    return file;
}

static size_t read_file(const char *name, uint8_t *bytes, size_t most)
{
    FILE *file = open_file(name, "rb");
    size_t length = fread(bytes, 1, most, file);

    fclose(file);
    return length;
}

static int write_chunk(void *context, const uint8_t *bytes, size_t length)
{
    return fwrite(bytes, 1, length, context) == length ? 0 : -1;
}

/* Writes a request, and waits for its answer. Returns the length of the answer. */
static size_t exchange(const UnspokenPirRequest *request, uint8_t *answer, size_t most)
{
    const uint8_t *bytes;
    size_t length = 0, expected = 0;
    char line[16];
    FILE *file = open_file("request", "wb");

    EXPECT(OK, unspoken_pir_request_bytes(request, &bytes, &length));
    EXPECT(OK, unspoken_pir_request_answer_bytes(request, &expected));
    REQUIRE(write_chunk(file, bytes, length) == 0 && fclose(file) == 0 && expected < most);
    printf("asked %zu\n", expected);
    fflush(stdout);
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);
    length = read_file("answer", answer, most);
    REQUIRE(length == expected);
    return length;
}

int main(int count, char **arguments)
{
    static uint8_t answer[1 << 20], description[4096];
    uint8_t hash[UNSPOKEN_PIR_HASH_BYTES];
    const uint64_t there[] = {2, 1, 0}, outside[] = {0, 5};
    const uint8_t *record;
    size_t length;
    uint64_t version = 0;
    UnspokenPirRequest *request = NULL;
    UnspokenPirRecords *records = NULL;
    FILE *file;

    if (count != 2)
        return 2;
    directory = arguments[1];
    client = unspoken_pir_new();
    length = read_file("description", description, sizeof description);
    EXPECT(OK, unspoken_pir_open(client, "packed", description, length, NULL, NULL));
    file = open_file("keys", "wb");
    EXPECT(OK, unspoken_pir_write_keys(client, write_chunk, file, hash));
    REQUIRE(fclose(file) == 0);

    EXPECT(OK, unspoken_pir_ask_indices(client, there, 3, &request));
    length = exchange(request, answer, sizeof answer);
    EXPECT(OK, unspoken_pir_read(client, request, answer, length, &records));
    EXPECT(OK, unspoken_pir_records_version(records, &version));
    REQUIRE(version == 2);
    record = answer;
    EXPECT(OK, unspoken_pir_records_get(records, 0, &record, &length));
    REQUIRE(record == NULL && length == 0);
    EXPECT(OK, unspoken_pir_records_get(records, 1, &record, &length));
    REQUIRE(record != NULL && length == 0);
    EXPECT(OK, unspoken_pir_records_get(records, 2, &record, &length));
    REQUIRE(length == 4 && memcmp(record, "zero", 4) == 0);
    EXPECT(ARGUMENT, unspoken_pir_records_get(records, 3, &record, &length));
    EXPECT(NULL_POINTER, unspoken_pir_records_get(records, 0, NULL, &length));
    EXPECT(NULL_POINTER, unspoken_pir_records_get(records, 2, &record, NULL));
    unspoken_pir_records_free(records);
    unspoken_pir_request_free(request);

    records = NULL;
    EXPECT(OK, unspoken_pir_ask_indices(client, outside, 2, &request));
    length = exchange(request, answer, sizeof answer);
    EXPECT(NO_SUCH_INDEX, unspoken_pir_read(client, request, answer, length, &records));
    REQUIRE(records == NULL);
    unspoken_pir_request_free(request);
    unspoken_pir_free(client);
    printf("passed\n");
    return 0;
}
