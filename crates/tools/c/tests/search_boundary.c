/*
 * Calls of private search that must be refused: program DIRECTORY, with the descriptions of a collection of vectors of 8
 * coordinates and of its documents.
 */
#include <math.h>

#include "exchange.h"

#define EXPECT(wanted, call) expect(__LINE__, UNSPOKEN_STATUS_##wanted, call)
#define REQUIRE(condition) require(__LINE__, condition)

enum { WIDTH = 8 };

static UnspokenClient *search, *documents;

static void require(int line, int condition)
{
    if (condition)
        return;
    fprintf(stderr, "line %d: not as expected\n", line);
    exit(1);
}

static void expect(int line, UnspokenStatus wanted, UnspokenStatus found)
{
    char text[512];

    if (wanted == found)
        return;
    unspoken_error(search, text, sizeof text);
    fprintf(stderr, "line %d: status %d, expected %d: %s\n", line, (int)found, (int)wanted, text);
    exit(1);
}

static void expect_text(int line, const char *part)
{
    char text[512];

    unspoken_error(search, text, sizeof text);
    require(line, strstr(text, part) != NULL);
}

static void check_opening(void)
{
    size_t length, documents_length;
    unsigned char *description = read_file("search.description", 1 << 20, &length);
    unsigned char *other = read_file("documents.description", 1 << 20, &documents_length);
    unsigned char secret[UNSPOKEN_SECRET_BYTES] = {1};
    size_t width;

    REQUIRE(description != NULL && other != NULL);
    EXPECT(ARGUMENT, unspoken_search_width(search, &width));
    EXPECT(NULL_POINTER, unspoken_search_open(search, NULL, length, NULL));
    EXPECT(MISMATCH, unspoken_search_open(search, other, documents_length, NULL));
    EXPECT(MISMATCH, unspoken_search_open(search, description, length, secret));
    description[length / 2] ^= 1;
    EXPECT(DAMAGED, unspoken_search_open(search, description, length, NULL));
    description[length / 2] ^= 1;
    EXPECT(OK, unspoken_search_open(search, description, length, NULL));
    EXPECT(ARGUMENT, unspoken_search_open(search, description, length, NULL));
    EXPECT(OK, unspoken_pir_open(documents, "packed", other, documents_length, NULL, NULL));
    free(description);
    free(other);
}

static void check_facts(void)
{
    char name[257];
    size_t width = 0;

    EXPECT(OK, unspoken_search_width(search, &width));
    REQUIRE(width == WIDTH);
    EXPECT(OK, unspoken_search_documents(search, name, sizeof name));
    REQUIRE(strcmp(name, "search/notes-documents") == 0);
    EXPECT(OK, unspoken_search_embedder(search, name, 1));
    REQUIRE(name[0] == 0);
    EXPECT(ARGUMENT, unspoken_search_documents(search, name, strlen("search/notes-documents")));
    expect_text(__LINE__, "needed 23");
    EXPECT(ARGUMENT, unspoken_search_documents(search, name, 0));
    EXPECT(NULL_POINTER, unspoken_search_documents(search, NULL, 0));
}

static void check_requests(void)
{
    float vector[2 * WIDTH] = {1};
    uint64_t index = 0, version;
    const uint8_t *bytes;
    size_t length, most = 0;
    UnspokenRequest *request = NULL, *other = NULL;
    UnspokenSearchHits *hits = NULL;
    UnspokenPirRecords *records = NULL;

    EXPECT(NULL_POINTER, unspoken_search_ask(search, NULL, 1, WIDTH, &request));
    EXPECT(NULL_POINTER, unspoken_search_ask(search, vector, 1, WIDTH, NULL));
    EXPECT(ARGUMENT, unspoken_search_ask(search, vector, 1, WIDTH - 1, &request));
    expect_text(__LINE__, "found 7 coordinates");
    EXPECT(ARGUMENT, unspoken_search_ask(search, vector, 0, WIDTH, &request));
    EXPECT(ARGUMENT, unspoken_search_ask(search, vector, (size_t)-1, WIDTH, &request));
    EXPECT(ARGUMENT, unspoken_search_ask(search, vector, 2, WIDTH, &request));
    expect_text(__LINE__, "only zeros in query 1");
    vector[WIDTH] = NAN;
    EXPECT(ARGUMENT, unspoken_search_ask(search, vector, 2, WIDTH, &request));
    expect_text(__LINE__, "not finite in query 1");
    EXPECT(OK, unspoken_most_questions(search, &most));
    REQUIRE(most >= 1 && request == NULL);
    /* Functions of the other application. */
    EXPECT(ARGUMENT, unspoken_pir_ask_indices(search, &index, 1, &request));
    expect_text(__LINE__, "unspoken_pir_open");
    EXPECT(ARGUMENT, unspoken_search_ask(documents, vector, 1, WIDTH, &request));
    EXPECT(OK, unspoken_search_ask(search, vector, 1, WIDTH, &request));
    EXPECT(OK, unspoken_pir_ask_indices(documents, &index, 1, &other));
    EXPECT(OK, unspoken_request_bytes(request, &bytes, &length));
    EXPECT(MISMATCH, unspoken_check_answer(search, other, bytes, length));
    EXPECT(MISMATCH, unspoken_search_read(search, other, bytes, length, &hits));
    EXPECT(MISMATCH, unspoken_pir_read(documents, request, bytes, length, &records));
    EXPECT(DAMAGED, unspoken_search_read(search, request, bytes, length - 1, &hits));
    EXPECT(MISMATCH, unspoken_search_read(search, request, bytes, length, &hits));
    EXPECT(NULL_POINTER, unspoken_search_read(search, NULL, bytes, length, &hits));
    EXPECT(NULL_POINTER, unspoken_search_read(search, request, bytes, length, NULL));
    REQUIRE(hits == NULL && records == NULL);
    EXPECT(NULL_POINTER, unspoken_search_hits_positions(NULL, 0, &index, 1));
    EXPECT(NULL_POINTER, unspoken_search_hits_get(NULL, 0, 0, &index, vector));
    EXPECT(ARGUMENT, unspoken_pir_answer_version(bytes, 0, &version));
    EXPECT(NULL_POINTER, unspoken_pir_answer_version(NULL, 0, &version));
    unspoken_search_hits_free(NULL);
    unspoken_request_free(request);
    unspoken_request_free(other);
}

static void check_versions(void)
{
    /* Of an answer: the id of the build with the number 5, and the first and last version. */
    uint8_t answer[24] = {10};
    const uint64_t build = 5;

    answer[16] = 7;
    answer[20] = 8;
    EXPECT(OK, unspoken_search_check_version(answer, sizeof answer, build << 32 | 7));
    EXPECT(OK, unspoken_search_check_version(answer, sizeof answer, build << 32 | 9));
    EXPECT(MISMATCH, unspoken_search_check_version(answer, sizeof answer, build << 32 | 6));
    EXPECT(MISMATCH, unspoken_search_check_version(answer, sizeof answer, build << 32 | 10));
    EXPECT(MISMATCH, unspoken_search_check_version(answer, sizeof answer, (build + 1) << 32 | 7));
    EXPECT(MISMATCH, unspoken_search_check_version(answer, sizeof answer - 1, build << 32 | 7));
    EXPECT(NULL_POINTER, unspoken_search_check_version(NULL, 1, build << 32 | 7));
}

static void check_documents(void)
{
    const uint8_t named[] = {3, 0, 'i', 'd', 't'}, unnamed[] = {0, 0, 't'}, malformed[] = {9, 0, 1};
    const uint8_t *id = named, *content = named;
    size_t id_length = 9, content_length = 9;

    EXPECT(OK, unspoken_search_document(named, sizeof named, &id, &id_length, &content, &content_length));
    REQUIRE(id == named + 2 && id_length == 2 && content == named + 4 && content_length == 1);
    EXPECT(OK, unspoken_search_document(unnamed, sizeof unnamed, &id, &id_length, &content, &content_length));
    REQUIRE(id == NULL && id_length == 0 && content == unnamed + 2 && content_length == 1);
    EXPECT(OK, unspoken_search_document(unnamed, 0, &id, &id_length, &content, &content_length));
    REQUIRE(id == NULL && content == NULL && content_length == 0);
    EXPECT(UNREADABLE,
           unspoken_search_document(malformed, sizeof malformed, &id, &id_length, &content, &content_length));
    EXPECT(NULL_POINTER, unspoken_search_document(NULL, 0, &id, &id_length, &content, &content_length));
    EXPECT(NULL_POINTER, unspoken_search_document(named, sizeof named, NULL, &id_length, &content, &content_length));
    EXPECT(NULL_POINTER, unspoken_search_document(unnamed, 0, &id, &id_length, &content, NULL));
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    directory = arguments[1];
    search = unspoken_new();
    documents = unspoken_new();
    check_opening();
    check_facts();
    check_versions();
    check_requests();
    check_documents();
    unspoken_free(documents);
    unspoken_free(search);
    printf("passed\n");
    return 0;
}
