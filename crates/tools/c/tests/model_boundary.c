/*
 * Calls of private predictions that must be refused: program DIRECTORY, with the description of a model that has the four
 * measures of an iris as input, with names, and a label and its probabilities as outputs; and that of a database.
 */
#include <math.h>

#include "exchange.h"

#define EXPECT(wanted, call) expect(__LINE__, UNSPOKEN_STATUS_##wanted, call)
#define REQUIRE(condition) require(__LINE__, condition)

enum { WIDTH = 4 };

static UnspokenClient *client;

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
    unspoken_error(client, text, sizeof text);
    fprintf(stderr, "line %d: status %d, expected %d: %s\n", line, (int)found, (int)wanted, text);
    exit(1);
}

static void expect_text(int line, const char *part)
{
    char text[512];

    unspoken_error(client, text, sizeof text);
    if (strstr(text, part) == NULL)
        fprintf(stderr, "found: %s\n", text);
    require(line, strstr(text, part) != NULL);
}

static void check_opening(void)
{
    size_t length, other_length, width;
    unsigned char *description = read_file("description", 1 << 20, &length);
    unsigned char *other = read_file("other.description", 1 << 20, &other_length);
    unsigned char secret[UNSPOKEN_SECRET_BYTES] = {1};

    REQUIRE(description != NULL && other != NULL);
    EXPECT(ARGUMENT, unspoken_model_shape(client, &width, &width, &width));
    EXPECT(NULL_POINTER, unspoken_model_open(client, NULL, length, NULL, 0));
    EXPECT(MISMATCH, unspoken_model_open(client, other, other_length, NULL, 0));
    EXPECT(MISMATCH, unspoken_model_open(client, description, length, secret, sizeof secret));
    description[length / 2] ^= 1;
    EXPECT(DAMAGED, unspoken_model_open(client, description, length, NULL, 0));
    description[length / 2] ^= 1;
    EXPECT(OK, unspoken_model_open(client, description, length, NULL, 0));
    EXPECT(ARGUMENT, unspoken_model_open(client, description, length, NULL, 0));
    free(description);
    free(other);
}

static void check_secret(void)
{
    unsigned char secret[UNSPOKEN_SECRET_BYTES], *all;
    size_t length = 0, again = 0, described = 0;
    unsigned char *description = read_file("description", 1 << 20, &described);
    UnspokenClient *other = unspoken_new();

    EXPECT(ARGUMENT, unspoken_secret(client, secret));
    expect_text(__LINE__, "unspoken_model_secret");
    EXPECT(NULL_POINTER, unspoken_model_secret(client, secret, sizeof secret, NULL));
    EXPECT(ARGUMENT, unspoken_model_secret(client, NULL, 0, &length));
    REQUIRE(length > sizeof secret);
    EXPECT(ARGUMENT, unspoken_model_secret(client, secret, sizeof secret, &again));
    EXPECT(NULL_POINTER, unspoken_model_secret(client, NULL, length, &again));
    all = malloc(length);
    EXPECT(OK, unspoken_model_secret(client, all, length, &again));
    REQUIRE(again == length);
    EXPECT(OK, unspoken_model_open(other, description, described, all, length));
    unspoken_free(other);
    wipe(all, length);
    free(description);
}

static void check_facts(void)
{
    char name[257];
    size_t inputs = 0, outputs = 0, width = 0, size = 0, rows = 9;
    double low = 0, high = 0;
    UnspokenGives gives = UNSPOKEN_GIVES_NUMBERS;

    EXPECT(OK, unspoken_model_shape(client, &inputs, &outputs, &width));
    REQUIRE(inputs == 1 && outputs == 2 && width == WIDTH);
    EXPECT(NULL_POINTER, unspoken_model_shape(client, &inputs, &outputs, NULL));
    EXPECT(OK, unspoken_model_input(client, 0, name, sizeof name, &size, &rows));
    REQUIRE(strcmp(name, "X") == 0 && size == WIDTH && rows == 0);
    EXPECT(ARGUMENT, unspoken_model_input(client, 1, name, sizeof name, &size, &rows));
    expect_text(__LINE__, "input: found 1, needed less than 1");
    EXPECT(ARGUMENT, unspoken_model_input(client, 0, name, 1, &size, &rows));
    EXPECT(NULL_POINTER, unspoken_model_input(client, 0, NULL, 9, &size, &rows));
    EXPECT(OK, unspoken_model_element(client, 0, 3, name, sizeof name, &low, &high));
    REQUIRE(strcmp(name, "petal width") == 0 && low < 0.1 && high > 2.5 && high < 9);
    EXPECT(ARGUMENT, unspoken_model_element(client, 0, WIDTH, name, sizeof name, &low, &high));
    EXPECT(ARGUMENT, unspoken_model_element(client, 1, 0, name, sizeof name, &low, &high));
    EXPECT(NULL_POINTER, unspoken_model_element(client, 0, 0, name, sizeof name, NULL, &high));
    EXPECT(OK, unspoken_model_output(client, 1, name, sizeof name, &size, &gives));
    REQUIRE(strcmp(name, "output_probability") == 0 && size == 3 && gives == UNSPOKEN_GIVES_PROBABILITIES);
    EXPECT(OK, unspoken_model_output(client, 0, name, sizeof name, &size, &gives));
    REQUIRE(size == 1 && gives == UNSPOKEN_GIVES_LABELS);
    EXPECT(ARGUMENT, unspoken_model_output(client, 2, name, sizeof name, &size, &gives));
    EXPECT(NULL_POINTER, unspoken_model_output(client, 0, name, sizeof name, &size, NULL));
}

static void check_requests(void)
{
    double row[2 * WIDTH] = {6, 3.5, 4, 1, 6, 3.5, 4, 1};
    const uint8_t *bytes, *label;
    const float *numbers;
    size_t length, others, most = 0;
    uint64_t index = 0;
    UnspokenRequest *request = NULL, *other = NULL;
    UnspokenModelPredictions *predictions = NULL;

    EXPECT(NULL_POINTER, unspoken_model_ask(client, NULL, 1, WIDTH, 0, &request));
    EXPECT(NULL_POINTER, unspoken_model_ask(client, row, 1, WIDTH, 0, NULL));
    EXPECT(ARGUMENT, unspoken_model_ask(client, row, 1, WIDTH - 1, 0, &request));
    expect_text(__LINE__, "found 3 numbers, needed 4");
    EXPECT(ARGUMENT, unspoken_model_ask(client, row, 0, WIDTH, 0, &request));
    EXPECT(ARGUMENT, unspoken_model_ask(client, row, (size_t)-1, WIDTH, 0, &request));
    row[WIDTH + 1] = 100;
    /* The service cannot see that a number is outside, or missing. */
    EXPECT(OK, unspoken_model_ask(client, row, 2, WIDTH, 0, &other));
    row[WIDTH + 1] = NAN;
    EXPECT(OK, unspoken_model_ask(client, row, 2, WIDTH, 1, &request));
    EXPECT(OK, unspoken_request_bytes(other, &bytes, &others));
    EXPECT(OK, unspoken_request_bytes(request, &bytes, &length));
    REQUIRE(length == others);
    unspoken_request_free(request);
    request = NULL;
    EXPECT(OK, unspoken_most_questions(client, &most));
    REQUIRE(most == 4 && request == NULL);
    EXPECT(ARGUMENT, unspoken_pir_ask_indices(client, &index, 1, &request));
    expect_text(__LINE__, "unspoken_model_open");
    EXPECT(OK, unspoken_model_ask(client, row, 1, WIDTH, 0, &request));
    /* The length tells nothing of the number of rows. */
    EXPECT(OK, unspoken_request_bytes(other, &bytes, &others));
    EXPECT(OK, unspoken_request_bytes(request, &bytes, &length));
    REQUIRE(length == others);
    EXPECT(DAMAGED, unspoken_check_answer(client, request, bytes, 40));
    EXPECT(DAMAGED, unspoken_model_read(client, request, bytes, 40, &predictions));
    /* A query is no answer. */
    EXPECT(UNREADABLE, unspoken_model_read(client, request, bytes, length, &predictions));
    EXPECT(NULL_POINTER, unspoken_model_read(client, NULL, bytes, length, &predictions));
    EXPECT(NULL_POINTER, unspoken_model_read(client, request, bytes, length, NULL));
    REQUIRE(predictions == NULL);
    EXPECT(NULL_POINTER, unspoken_model_predictions_numbers(NULL, 0, 0, &numbers, &length));
    EXPECT(NULL_POINTER, unspoken_model_predictions_label(NULL, 0, 0, 0, &label, &length));
    EXPECT(NULL_POINTER, unspoken_model_predictions_problem(NULL, 0, &label, &length));
    unspoken_model_predictions_free(NULL);
    unspoken_request_free(request);
    unspoken_request_free(other);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    directory = arguments[1];
    client = unspoken_new();
    check_opening();
    check_secret();
    check_facts();
    check_requests();
    unspoken_free(client);
    printf("passed\n");
    return 0;
}
