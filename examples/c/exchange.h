/*
 * What the examples share: bytes in files of a directory, which carry them between a program and whoever talks to the
 * service: the test tests/integration/program.rs, a script with curl, a browser.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unspoken.h"

static const char *directory;

/* Ends the program if a call failed, with the text of the client's error. */
static inline void check(UnspokenClient *client, const char *what, UnspokenStatus status)
{
    char text[512];

    if (status == UNSPOKEN_STATUS_OK)
        return;
    unspoken_error(client, text, sizeof text);
    fprintf(stderr, "%s: status %d: %s\n", what, (int)status, text);
    exit(1);
}

/* Ends the program with the error of the system. */
static inline void fail(const char *what)
{
    perror(what);
    exit(1);
}

static inline const char *path_of(const char *name)
{
    static char path[4096];

    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        fail("the path is too long");
    return path;
}

/* Reads a file of at most `most` bytes into memory that the caller frees; NULL if there is none. */
static inline unsigned char *read_file(const char *name, size_t most, size_t *length)
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
static inline FILE *create_file(const char *name)
{
    int descriptor = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");

    if (file == NULL)
        fail(name);
    return file;
}

/* Receives a chunk: `context` is the file. */
static inline int write_chunk(void *context, const uint8_t *bytes, size_t length)
{
    return fwrite(bytes, 1, length, context) == length ? 0 : -1;
}

static inline void write_file(const char *name, const uint8_t *bytes, size_t length)
{
    FILE *file = create_file(name);

    if (write_chunk(file, bytes, length) != 0 || fclose(file) != 0)
        fail(name);
}

/* Writes a request to a file, waits until the answer is in another file, and reads it; the caller frees it. */
static inline unsigned char *exchange(UnspokenClient *client, UnspokenRequest *request, const char *asked,
                               const char *answered, size_t *length)
{
    const uint8_t *bytes;
    unsigned char *answer;
    size_t expected = 0;
    char line[16];

    check(client, "ask", unspoken_request_bytes(request, &bytes, length));
    check(client, "ask", unspoken_request_answer_bytes(request, &expected));
    write_file(asked, bytes, *length);
    printf("asked %zu\n", expected);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        fail("wait for the answer");
    answer = read_file(answered, expected, length);
    if (answer == NULL)
        fail(answered);
    return answer;
}

/* Wipes and frees what `read_file` returned. */
static inline void wipe(unsigned char *bytes, size_t length)
{
    volatile unsigned char *wiped = bytes;
    size_t i;

    for (i = 0; bytes != NULL && i < length; i++)
        wiped[i] = 0;
    free(bytes);
}

/* Reads the stored secret; NULL if there is none. */
static inline unsigned char *read_secret(const char *name)
{
    size_t length = 0;
    unsigned char *secret = read_file(name, UNSPOKEN_SECRET_BYTES, &length);

    if (secret != NULL && length != UNSPOKEN_SECRET_BYTES) {
        fprintf(stderr, "the secret is damaged; delete it, and a new one is made\n");
        exit(1);
    }
    return secret;
}

/* Makes keys for the service, and stores them with their declaration. */
static inline void store_keys(UnspokenClient *client, const char *application, const char *keys_name,
                              const char *declaration_name)
{
    uint8_t hash[UNSPOKEN_HASH_BYTES];
    FILE *file = create_file(keys_name);

    check(client, "make keys", unspoken_write_keys(client, write_chunk, file, hash));
    if (fclose(file) != 0)
        fail(keys_name);
    file = create_file(declaration_name);
    check(client, "declare keys", unspoken_key_declaration(client, application, hash, write_chunk, file));
    if (fclose(file) != 0)
        fail(declaration_name);
}

/* Stores the new secret of a client, and the keys for the service with their declaration. */
static inline void store_secret_and_keys(UnspokenClient *client, const char *application, const char *secret_name,
                                  const char *keys_name, const char *declaration_name)
{
    uint8_t *secret = malloc(UNSPOKEN_SECRET_BYTES);

    if (secret == NULL)
        fail("malloc");
    store_keys(client, application, keys_name, declaration_name);
    check(client, "read the secret", unspoken_secret(client, secret));
    write_file(secret_name, secret, UNSPOKEN_SECRET_BYTES);
    wipe(secret, UNSPOKEN_SECRET_BYTES);
}

#endif
