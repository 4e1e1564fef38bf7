/*
 * Fetches the record of a key, privately. Files in a directory carry the bytes.
 *
 *     get KIND DIRECTORY KEY
 *
 * reads DIRECTORY/description and DIRECTORY/secret. Without a secret it makes one and stores it, and writes the
 * evaluation keys and the message that declares them to DIRECTORY/keys and DIRECTORY/declaration. It writes
 * DIRECTORY/request, prints a line with the length of the answer, waits for a line on standard input, and reads
 * DIRECTORY/answer. It prints the version of the database and the record.
 */
#include "exchange.h"

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

/* Opens a client with the stored secret, or with a new one. */
static UnspokenClient *open_client(const char *kind)
{
    UnspokenPirCounters counters = {NULL, start_numbers, take_numbers};
    size_t described = 0;
    UnspokenClient *client = unspoken_new();
    unsigned char *description = read_file("description", 1 << 20, &described);
    unsigned char *secret = read_secret("secret");

    if (client == NULL || description == NULL)
        fail("description");
    check(client, "open", unspoken_pir_open(client, kind, description, described, secret, &counters));
    if (secret == NULL)
        store_secret_and_keys(client, "pir/codes", "secret", "keys", "declaration");
    wipe(secret, UNSPOKEN_SECRET_BYTES);
    free(description);
    return client;
}

int main(int count, char **arguments)
{
    UnspokenClient *client;
    UnspokenRequest *request = NULL;
    UnspokenPirRecords *records = NULL;
    const uint8_t *key, *record;
    unsigned char *answer;
    size_t length = 0;
    uint64_t version = 0;

    if (count != 4) {
        fprintf(stderr, "usage: get KIND DIRECTORY KEY\n");
        return 2;
    }
    directory = arguments[2];
    client = open_client(arguments[1]);

    key = (const uint8_t *)arguments[3];
    length = strlen(arguments[3]);
    check(client, "ask", unspoken_pir_ask_keys(client, &key, &length, 1, &request));
    answer = exchange(client, request, "request", "answer", &length);
    /* Only if this fails may a program read the description again and ask once more: it does not depend on the key. */
    check(client, "check", unspoken_check_answer(client, request, answer, length));
    check(client, "read", unspoken_pir_read(client, request, answer, length, &records));
    check(client, "read", unspoken_pir_records_version(records, &version));
    check(client, "read", unspoken_pir_records_get(records, 0, &record, &length));
    printf("version %llu\n", (unsigned long long)version);
    if (record == NULL) {
        printf("absent\n");
    } else {
        printf("record ");
        fwrite(record, 1, length, stdout);
        printf("\n");
    }
    unspoken_pir_records_free(records);
    unspoken_request_free(request);
    unspoken_free(client);
    free(answer);
    return 0;
}
