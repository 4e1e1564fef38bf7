/*
 * Fetches the record of a key, privately. Files in a directory carry the bytes between this program and whoever talks
 * to the service: the test tests/program.rs, a script with curl, a browser.
 *
 *     get KIND DIRECTORY KEY
 *
 * reads DIRECTORY/description and DIRECTORY/secret. Without a secret it makes one and stores it, and writes the
 * evaluation keys and the message that declares them to DIRECTORY/keys and DIRECTORY/declaration. It writes
 * DIRECTORY/request, prints a line with the length of the answer, waits for a line on standard input, and reads
 * DIRECTORY/answer. It prints the version of the database and the record.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unspoken_pir.h"

static UnspokenPirClient *client;
static const char *directory;

/* Ends the program if a call failed, with the text of its error. */
static void check(const char *what, UnspokenPirStatus status)
{
    char text[512];

    if (status == UNSPOKEN_PIR_STATUS_OK)
        return;
    unspoken_pir_error(client, text, sizeof text);
    fprintf(stderr, "%s: status %d: %s\n", what, (int)status, text);
    exit(1);
}

/* Ends the program with the error of the system. */
static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static const char *path_of(const char *name)
{
    static char path[4096];

    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        fail("the path is too long");
    return path;
}

/* Reads a file of at most `most` bytes into memory that the caller frees; NULL if there is none. */
static unsigned char *read_file(const char *name, size_t most, size_t *length)
{
    unsigned char *bytes = malloc(most + 1);
    FILE *file = fopen(path_of(name), "rb");

    if (bytes == NULL)
        fail("malloc");
    if (file == NULL) {
        free(bytes);
        return NULL;
    }
    *length = fread(bytes, 1, most + 1, file);
    if (ferror(file) || *length > most)
        fail(name);
    fclose(file);
    return bytes;
}

/* Creates a file that only its owner can read. */
static FILE *create_file(const char *name)
{
    int descriptor = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");

    if (file == NULL)
        fail(name);
    return file;
}

/* Receives a chunk: `context` is the file. */
static int write_chunk(void *context, const uint8_t *bytes, size_t length)
{
    return fwrite(bytes, 1, length, context) == length ? 0 : -1;
}

static void write_file(const char *name, const uint8_t *bytes, size_t length)
{
    FILE *file = create_file(name);

    if (write_chunk(file, bytes, length) != 0 || fclose(file) != 0)
        fail(name);
}

/* Stores the next number of a session on disk. */
static int store_number(uint32_t next)
{
    FILE *file = create_file("numbers.new");
    char to[4096];

    if (fwrite(&next, sizeof next, 1, file) != 1 || fflush(file) != 0 || fsync(fileno(file)) != 0 || fclose(file) != 0)
        return -1;
    strcpy(to, path_of("numbers"));
    return rename(path_of("numbers.new"), to);
}

/* One secret has one session, so the name is not needed here. */
static int start_numbers(void *context, const uint8_t *name)
{
    (void)context;
    (void)name;
    return store_number(0);
}

/* A program that runs several times at once would need a lock here. */
static int take_numbers(void *context, const uint8_t *name, uint32_t count, uint32_t *first)
{
    size_t length = 0;
    unsigned char *bytes = read_file("numbers", sizeof *first, &length);
    int found = bytes != NULL && length == sizeof *first;

    (void)context;
    (void)name;
    if (found)
        memcpy(first, bytes, sizeof *first);
    free(bytes);
    if (!found || *first > UINT32_MAX - count)
        return -1;
    return store_number(*first + count);
}

/* Stores the new secret, and the keys for the service with their declaration. */
static void store_secret_and_keys(void)
{
    uint8_t secret[UNSPOKEN_PIR_SECRET_BYTES], hash[UNSPOKEN_PIR_HASH_BYTES];
    FILE *file = create_file("keys");
    volatile uint8_t *wipe = secret;
    size_t i;

    check("make keys", unspoken_pir_write_keys(client, write_chunk, file, hash));
    if (fclose(file) != 0)
        fail("keys");
    file = create_file("declaration");
    check("declare keys", unspoken_pir_key_declaration(client, "pir/codes", hash, write_chunk, file));
    if (fclose(file) != 0)
        fail("declaration");
    check("read the secret", unspoken_pir_secret(client, secret));
    write_file("secret", secret, sizeof secret);
    for (i = 0; i < sizeof secret; i++)
        wipe[i] = 0;
}

/* Opens the client with the stored secret, or with a new one. */
static void open_client(const char *kind)
{
    UnspokenPirCounters counters = {NULL, start_numbers, take_numbers};
    size_t described = 0, length = 0, i;
    unsigned char *description = read_file("description", 1 << 20, &described);
    unsigned char *secret = read_file("secret", UNSPOKEN_PIR_SECRET_BYTES, &length);
    volatile unsigned char *wipe = secret;

    if (description == NULL)
        fail("description");
    if (secret != NULL && length != UNSPOKEN_PIR_SECRET_BYTES) {
        fprintf(stderr, "the secret is damaged; delete it, and a new one is made\n");
        exit(1);
    }
    check("open", unspoken_pir_open(client, kind, description, described, secret, &counters));
    if (secret == NULL)
        store_secret_and_keys();
    for (i = 0; secret != NULL && i < length; i++)
        wipe[i] = 0;
    free(description);
    free(secret);
}

int main(int count, char **arguments)
{
    UnspokenPirRequest *request = NULL;
    UnspokenPirRecords *records = NULL;
    const uint8_t *key, *bytes, *record;
    unsigned char *answer;
    size_t key_length, length = 0, expected = 0;
    uint64_t version = 0;
    char line[16];

    if (count != 4) {
        fprintf(stderr, "usage: get KIND DIRECTORY KEY\n");
        return 2;
    }
    directory = arguments[2];
    client = unspoken_pir_new();
    if (client == NULL)
        fail("unspoken_pir_new");
    open_client(arguments[1]);

    key = (const uint8_t *)arguments[3];
    key_length = strlen(arguments[3]);
    check("ask", unspoken_pir_ask_keys(client, &key, &key_length, 1, &request));
    check("ask", unspoken_pir_request_bytes(request, &bytes, &length));
    check("ask", unspoken_pir_request_answer_bytes(request, &expected));
    write_file("request", bytes, length);
    printf("asked %zu\n", expected);
    fflush(stdout);

    if (fgets(line, sizeof line, stdin) == NULL)
        fail("wait for the answer");
    answer = read_file("answer", expected, &length);
    if (answer == NULL)
        fail("answer");
    /* Only if this fails may a program read the description again and ask once more: it does not depend on the key. */
    check("check", unspoken_pir_check_answer(client, request, answer, length));
    check("read", unspoken_pir_read(client, request, answer, length, &records));
    check("read", unspoken_pir_records_version(records, &version));
    check("read", unspoken_pir_records_get(records, 0, &record, &length));
    printf("version %llu\n", (unsigned long long)version);
    if (record == NULL) {
        printf("absent\n");
    } else {
        printf("record ");
        fwrite(record, 1, length, stdout);
        printf("\n");
    }
    unspoken_pir_records_free(records);
    unspoken_pir_request_free(request);
    unspoken_pir_free(client);
    free(answer);
    return 0;
}
