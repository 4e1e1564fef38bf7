/* Calls that must be refused: program DESCRIPTION NEWER_DESCRIPTION, both of one database by key. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unspoken.h"

#define EXPECT(wanted, call) expect(__LINE__, UNSPOKEN_STATUS_##wanted, call)
#define EXPECT_TEXT(part) expect_text(__LINE__, part)
#define REQUIRE(condition) require(__LINE__, condition)

static UnspokenClient *client;

static void expect(int line, UnspokenStatus wanted, UnspokenStatus found)
{
    char text[512];

    if (wanted == found)
        return;
    unspoken_error(client, text, sizeof text);
    printf("line %d: status %d, expected %d: %s\n", line, (int)found, (int)wanted, text);
    exit(1);
}

static void expect_text(int line, const char *part)
{
    char text[512];

    unspoken_error(client, text, sizeof text);
    if (strstr(text, part) != NULL)
        return;
    printf("line %d: '%s', expected '%s'\n", line, text, part);
    exit(1);
}

static void require(int line, int condition)
{
    if (condition)
        return;
    printf("line %d: not as expected\n", line);
    exit(1);
}

static size_t read_file(const char *path, uint8_t *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    size_t length = file == NULL ? 0 : fread(bytes, 1, most, file);

    if (length == 0 || length == most) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    return length;
}

static size_t bytes_seen;

static int count_bytes(void *context, const uint8_t *bytes, size_t length)
{
    (void)context;
    (void)bytes;
    bytes_seen += length;
    return length <= 65536 ? 0 : 1;
}

static int stop(void *context, const uint8_t *bytes, size_t length)
{
    (void)bytes;
    (void)length;
    return *(int *)context;
}

/* A callback that uses its own client. */
static int use_client(void *context, const uint8_t *bytes, size_t length)
{
    uint64_t key_bytes;

    (void)context;
    (void)bytes;
    (void)length;
    return unspoken_key_bytes(client, &key_bytes) == UNSPOKEN_STATUS_BUSY ? 77 : 0;
}

/* A call of another thread. */
static void *ask_elsewhere(void *request)
{
    const uint8_t *key = (const uint8_t *)"C07";
    size_t length = 3;

    EXPECT(OK, unspoken_pir_ask_keys(client, &key, &length, 1, request));
    return NULL;
}

static void check_null_pointers(const uint8_t *description, size_t length)
{
    const uint8_t *key = NULL;
    uint8_t hash[UNSPOKEN_HASH_BYTES];
    size_t none = 0, count;
    uint64_t index = 0;
    UnspokenRequest *request = NULL;
    UnspokenPirRecords *records = NULL;

    EXPECT(NULL_POINTER, unspoken_pir_open(NULL, "packed", description, length, NULL, NULL));
    EXPECT(NULL_POINTER, unspoken_update(client, NULL, length));
    EXPECT_TEXT("description is NULL");
    EXPECT(NULL_POINTER, unspoken_secret(client, NULL));
    EXPECT(NULL_POINTER, unspoken_key_bytes(client, NULL));
    EXPECT(NULL_POINTER, unspoken_write_keys(client, NULL, NULL, hash));
    EXPECT(NULL_POINTER, unspoken_write_keys(client, count_bytes, NULL, NULL));
    EXPECT(NULL_POINTER, unspoken_key_declaration(client, NULL, hash, count_bytes, NULL));
    EXPECT(NULL_POINTER, unspoken_key_declaration(client, "pir/codes", NULL, count_bytes, NULL));
    EXPECT(NULL_POINTER, unspoken_key_declaration(client, "pir/codes", hash, NULL, NULL));
    EXPECT(NULL_POINTER, unspoken_most_questions(client, NULL));
    EXPECT(NULL_POINTER, unspoken_pir_ask_indices(client, NULL, 1, &request));
    EXPECT(NULL_POINTER, unspoken_pir_ask_indices(client, &index, 1, NULL));
    EXPECT(NULL_POINTER, unspoken_pir_ask_keys(client, NULL, &none, 1, &request));
    EXPECT(NULL_POINTER, unspoken_pir_ask_keys(client, &key, NULL, 1, &request));
    EXPECT(NULL_POINTER, unspoken_pir_ask_keys(client, &key, &none, 1, &request));
    EXPECT_TEXT("a key is NULL");
    EXPECT(NULL_POINTER, unspoken_request_bytes(NULL, &key, &count));
    EXPECT(NULL_POINTER, unspoken_request_answer_bytes(NULL, &count));
    EXPECT(NULL_POINTER, unspoken_check_answer(client, NULL, description, length));
    EXPECT(NULL_POINTER, unspoken_pir_read(client, NULL, description, length, &records));
    EXPECT(NULL_POINTER, unspoken_pir_records_get(NULL, 0, &key, &count));
    EXPECT(NULL_POINTER, unspoken_pir_records_version(NULL, &index));
    unspoken_free(NULL);
    unspoken_request_free(NULL);
    unspoken_pir_records_free(NULL);
    REQUIRE(unspoken_error(NULL, NULL, 0) == 0 && request == NULL && records == NULL);
}

static void check_opening(const uint8_t *description, size_t length)
{
    uint8_t damaged[4096];
    uint64_t key_bytes;

    EXPECT(ARGUMENT, unspoken_key_bytes(client, &key_bytes));
    EXPECT_TEXT("call unspoken_pir_open, unspoken_search_open or unspoken_model_open first");
    EXPECT(NULL_POINTER, unspoken_pir_open(client, NULL, description, length, NULL, NULL));
    EXPECT(ARGUMENT, unspoken_pir_open(client, "fast", description, length, NULL, NULL));
    EXPECT_TEXT("compact, session, bits, packed");
    EXPECT(ARGUMENT, unspoken_pir_open(client, "session", description, length, NULL, NULL));
    EXPECT_TEXT("counters: found none");
    EXPECT(ARGUMENT, unspoken_pir_open(client, "packed", description, (size_t)-1, NULL, NULL));
    memcpy(damaged, description, length);
    damaged[length / 2] ^= 1;
    EXPECT(DAMAGED, unspoken_pir_open(client, "packed", damaged, length, NULL, NULL));
    EXPECT(OK, unspoken_pir_open(client, "packed", description, length, NULL, NULL));
    EXPECT(ARGUMENT, unspoken_pir_open(client, "packed", description, length, NULL, NULL));
    EXPECT_TEXT("call unspoken_update");
}

static void check_keys(void)
{
    uint8_t hash[UNSPOKEN_HASH_BYTES];
    uint64_t key_bytes = 0;
    int code = 77;

    EXPECT(OK, unspoken_key_bytes(client, &key_bytes));
    EXPECT(OK, unspoken_write_keys(client, count_bytes, NULL, hash));
    REQUIRE(bytes_seen == key_bytes);
    EXPECT(CALLBACK, unspoken_write_keys(client, stop, &code, hash));
    EXPECT_TEXT("returned 77");
    EXPECT(CALLBACK, unspoken_write_keys(client, use_client, NULL, hash));
    EXPECT_TEXT("returned 77");
}

static void check_requests(const uint8_t *newer, size_t newer_length)
{
    const uint8_t *key = (const uint8_t *)"C07", *bytes;
    const uint8_t *keys[17];
    size_t lengths[17], length = 3, most = 0, i;
    uint64_t index = 0;
    UnspokenRequest *request = NULL, *elsewhere = NULL;
    UnspokenPirRecords *records = NULL;
    pthread_t thread;

    EXPECT(ARGUMENT, unspoken_pir_ask_indices(client, &index, 1, &request));
    EXPECT_TEXT("read by key");
    for (i = 0; i < 17; i++) {
        keys[i] = key;
        lengths[i] = length;
    }
    EXPECT(OK, unspoken_most_questions(client, &most));
    EXPECT(ARGUMENT, unspoken_pir_ask_keys(client, keys, lengths, most + 1, &request));
    EXPECT(ARGUMENT, unspoken_pir_ask_keys(client, keys, lengths, 0, &request));
    EXPECT(OK, unspoken_pir_ask_keys(client, keys, lengths, most, &request));
    unspoken_request_free(request);
    EXPECT(OK, unspoken_pir_ask_keys(client, &key, &length, 1, &request));
    REQUIRE(pthread_create(&thread, NULL, ask_elsewhere, &elsewhere) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(OK, unspoken_request_bytes(elsewhere, &bytes, &length));
    EXPECT(DAMAGED, unspoken_pir_read(client, request, bytes, length - 1, &records));
    EXPECT(DAMAGED, unspoken_pir_read(client, request, bytes, 0, &records));
    EXPECT(NULL_POINTER, unspoken_check_answer(client, request, NULL, length));
    EXPECT(DAMAGED, unspoken_check_answer(client, request, bytes, length - 1));
    EXPECT(OK, unspoken_update(client, newer, newer_length));
    EXPECT(MISMATCH, unspoken_check_answer(client, request, bytes, length));
    EXPECT(MISMATCH, unspoken_pir_read(client, request, bytes, length, &records));
    EXPECT_TEXT("earlier description");
    unspoken_request_free(request);
    unspoken_request_free(elsewhere);
}

static void check_errors(void)
{
    char text[8] = ".......";
    uint64_t key_bytes;
    size_t whole;

    EXPECT(NULL_POINTER, unspoken_key_bytes(client, NULL));
    whole = unspoken_error(client, NULL, 0);
    REQUIRE(whole >= sizeof text && unspoken_error(client, text, sizeof text) == whole);
    REQUIRE(strlen(text) == sizeof text - 1);
    EXPECT(OK, unspoken_key_bytes(client, &key_bytes));
    REQUIRE(unspoken_error(client, text, sizeof text) == 0 && text[0] == 0);
}

int main(int count, char **arguments)
{
    uint8_t description[4096], newer[4096];
    size_t length, newer_length;

    if (count != 3)
        return 2;
    length = read_file(arguments[1], description, sizeof description);
    newer_length = read_file(arguments[2], newer, sizeof newer);
    client = unspoken_new();
    check_opening(description, length);
    check_null_pointers(description, length);
    check_keys();
    check_requests(newer, newer_length);
    check_errors();
    unspoken_free(client);
    printf("passed\n");
    return 0;
}
