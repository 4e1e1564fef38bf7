/*
 * Reads records by index: program DIRECTORY. The database has "zero" at 0, an empty record at 1, a deleted one at 2, and
 * room for 5.
 */
#include "exchange.h"

#define EXPECT(wanted, call) require(__LINE__, (call) == UNSPOKEN_STATUS_##wanted)
#define REQUIRE(condition) require(__LINE__, condition)

static UnspokenClient *client;

static void require(int line, int condition)
{
    char text[512];

    if (condition)
        return;
    unspoken_error(client, text, sizeof text);
    fprintf(stderr, "line %d: not as expected; last error: %s\n", line, text);
    exit(1);
}

int main(int count, char **arguments)
{
    uint8_t hash[UNSPOKEN_HASH_BYTES];
    unsigned char *answer, *description;
    const uint64_t there[] = {2, 1, 0}, outside[] = {0, 5};
    const uint8_t *record;
    size_t length;
    uint64_t version = 0;
    UnspokenRequest *request = NULL;
    UnspokenPirRecords *records = NULL;
    FILE *file;

    if (count != 2)
        return 2;
    directory = arguments[1];
    client = unspoken_new();
    description = read_file("description", 4096, &length);
    EXPECT(OK, unspoken_pir_open(client, "packed", description, length, NULL, NULL));
    free(description);
    file = create_file("keys");
    EXPECT(OK, unspoken_write_keys(client, write_chunk, file, hash));
    REQUIRE(fclose(file) == 0);

    EXPECT(OK, unspoken_pir_ask_indices(client, there, 3, &request));
    answer = exchange(client, request, "request", "answer", &length);
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
    unspoken_request_free(request);
    free(answer);

    records = NULL;
    EXPECT(OK, unspoken_pir_ask_indices(client, outside, 2, &request));
    answer = exchange(client, request, "request", "answer", &length);
    EXPECT(NO_SUCH_INDEX, unspoken_pir_read(client, request, answer, length, &records));
    REQUIRE(records == NULL);
    unspoken_request_free(request);
    free(answer);
    unspoken_free(client);
    printf("passed\n");
    return 0;
}
