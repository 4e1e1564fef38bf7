/*
 * Finds the documents nearest to a vector, privately, and fetches them. Files in a directory carry the bytes.
 *
 *     search DIRECTORY K
 *
 * reads DIRECTORY/vector, 32-bit floats; DIRECTORY/search.description of the collection, and
 * DIRECTORY/documents.description of the application that unspoken_search_documents names. Without secrets it makes
 * them, and writes keys and declarations, as get.c does. Then it writes DIRECTORY/search.request and, as often as it
 * needs, DIRECTORY/documents.request, and waits each time for the file .answer as get.c does. It prints cosine, id and
 * content of each document.
 */
#include "exchange.h"

enum { MOST_FETCHED = 100, MOST_DESCRIBED = 1 << 26 };

/* Opens the two clients, with stored secrets or with new ones. */
static void open_clients(UnspokenClient *search, UnspokenClient *documents)
{
    size_t described = 0;
    char name[257];
    unsigned char *description = read_file("search.description", MOST_DESCRIBED, &described);
    unsigned char *secret = read_secret("search.secret");

    if (description == NULL)
        fail("search.description");
    check(search, "open", unspoken_search_open(search, description, described, secret));
    if (secret == NULL)
        store_secret_and_keys(search, "search/notes", "search.secret", "search.keys", "search.declaration");
    wipe(secret, UNSPOKEN_SECRET_BYTES);
    free(description);

    check(search, "name of the documents", unspoken_search_documents(search, name, sizeof name));
    description = read_file("documents.description", MOST_DESCRIBED, &described);
    secret = read_secret("documents.secret");
    if (description == NULL)
        fail("documents.description");
    check(documents, "open", unspoken_pir_open(documents, "packed", description, described, secret, NULL));
    if (secret == NULL)
        store_secret_and_keys(documents, name, "documents.secret", "documents.keys", "documents.declaration");
    wipe(secret, UNSPOKEN_SECRET_BYTES);
    free(description);
}

/* The hits of the vector in the file, and the answer that has them. */
static UnspokenSearchHits *find(UnspokenClient *search, unsigned char **answer, size_t *answer_length)
{
    UnspokenRequest *request = NULL;
    UnspokenSearchHits *hits = NULL;
    size_t width = 0, length = 0;
    unsigned char *bytes;
    float *vector;

    check(search, "width", unspoken_search_width(search, &width));
    bytes = read_file("vector", width * sizeof *vector, &length);
    vector = malloc(width * sizeof *vector);
    if (bytes == NULL || vector == NULL || length != width * sizeof *vector)
        fail("vector");
    memcpy(vector, bytes, length);
    check(search, "ask", unspoken_search_ask(search, vector, 1, width, &request));
    *answer = exchange(search, request, "search.request", "search.answer", answer_length);
    check(search, "check", unspoken_check_answer(search, request, *answer, *answer_length));
    check(search, "read", unspoken_search_read(search, request, *answer, *answer_length, &hits));
    unspoken_request_free(request);
    free(vector);
    free(bytes);
    return hits;
}

/* Prints the document in record `number`, the `rank`-th nearest, if it is there. */
static void print(const UnspokenSearchHits *hits, size_t rank, const UnspokenPirRecords *records, size_t number)
{
    const uint8_t *record = NULL, *id = NULL, *content = NULL;
    size_t length = 0, id_length = 0, content_length = 0;
    uint64_t position;
    float cosine;
    UnspokenStatus status = unspoken_search_hits_get(hits, 0, rank, &position, &cosine);

    if (status == UNSPOKEN_STATUS_OK)
        status = unspoken_pir_records_get(records, number, &record, &length);
    if (status == UNSPOKEN_STATUS_OK && record != NULL)
        status = unspoken_search_document(record, length, &id, &id_length, &content, &content_length);
    if (status == UNSPOKEN_STATUS_UNREADABLE) {
        fprintf(stderr, "an answer was decrypted, and is not sound; do not ask again\n");
        exit(1);
    }
    /* Fewer were found, or the document was removed meanwhile. */
    if (status != UNSPOKEN_STATUS_OK || content == NULL)
        return;
    printf("%.3f ", cosine);
    fwrite(id, 1, id_length, stdout);
    printf(" ");
    fwrite(content, 1, content_length, stdout);
    printf("\n");
}

int main(int count, char **arguments)
{
    UnspokenClient *search = unspoken_new(), *documents = unspoken_new();
    UnspokenRequest *requests[MOST_FETCHED] = {NULL};
    unsigned char *answers[MOST_FETCHED];
    size_t lengths[MOST_FETCHED], wanted, most = 0, first, each, part, parts = 0;
    uint64_t positions[MOST_FETCHED], version = 0;
    unsigned char *scores;
    size_t scores_length;
    UnspokenSearchHits *hits;

    wanted = count == 3 ? (size_t)atoi(arguments[2]) : 0;
    if (wanted < 1 || wanted > MOST_FETCHED) {
        fprintf(stderr, "usage: search DIRECTORY K, with K from 1 to %d\n", MOST_FETCHED);
        return 2;
    }
    if (search == NULL || documents == NULL)
        fail("unspoken_new");
    directory = arguments[1];
    open_clients(search, documents);
    hits = find(search, &scores, &scores_length);

    /* As many as always, whatever was found. */
    check(search, "positions", unspoken_search_hits_positions(hits, 0, positions, wanted));
    check(documents, "fetch", unspoken_most_questions(documents, &most));
    for (first = 0; first < wanted; first += each, parts++) {
        each = wanted - first < most ? wanted - first : most;
        check(documents, "fetch", unspoken_pir_ask_indices(documents, positions + first, each, &requests[parts]));
        answers[parts] =
            exchange(documents, requests[parts], "documents.request", "documents.answer", &lengths[parts]);
    }
    /* Nothing is read before all of it is known to be of the collection that was searched. */
    for (part = 0; part < parts; part++) {
        check(documents, "check", unspoken_check_answer(documents, requests[part], answers[part], lengths[part]));
        check(documents, "version", unspoken_pir_answer_version(answers[part], lengths[part], &version));
        check(search, "version", unspoken_search_check_version(scores, scores_length, version));
    }
    for (first = 0, part = 0; part < parts; first += most, part++) {
        UnspokenPirRecords *records = NULL;

        each = wanted - first < most ? wanted - first : most;
        check(documents, "read",
              unspoken_pir_read(documents, requests[part], answers[part], lengths[part], &records));
        for (count = 0; count < (int)each; count++)
            print(hits, first + count, records, count);
        unspoken_pir_records_free(records);
        unspoken_request_free(requests[part]);
        free(answers[part]);
    }
    unspoken_search_hits_free(hits);
    free(scores);
    unspoken_free(documents);
    unspoken_free(search);
    return 0;
}
