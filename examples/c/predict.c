/*
 * Asks a model about rows, privately. Files in a directory carry the bytes.
 *
 *     predict DIRECTORY
 *
 * reads DIRECTORY/description, and DIRECTORY/rows: 64-bit floats, the numbers of all inputs for each row. Without
 * DIRECTORY/secret it makes a secret and stores it, and writes keys and declaration, as get.c does. It writes
 * DIRECTORY/request, and waits for the file DIRECTORY/answer as get.c does. It prints a line for each row: the outputs of
 * the model, with their names, or why it has none.
 */
#include "exchange.h"

enum { MOST_DESCRIBED = 1 << 26, MOST_SECRET = 1 << 20, MOST_ROWS = 1 << 26, MOST_NAME = 1 << 10 };

/* Stores the new secret. */
static void store_secret(UnspokenClient *client)
{
    size_t length = 0;
    unsigned char *secret = malloc(MOST_SECRET);

    if (secret == NULL)
        fail("malloc");
    check(client, "read the secret", unspoken_model_secret(client, secret, MOST_SECRET, &length));
    write_file("secret", secret, length);
    wipe(secret, length);
}

/* Opens a client with the stored secret, or with a new one. */
static UnspokenClient *open_client(void)
{
    size_t described = 0, length = 0;
    UnspokenClient *client = unspoken_new();
    unsigned char *description = read_file("description", MOST_DESCRIBED, &described);
    unsigned char *secret = read_file("secret", MOST_SECRET, &length);

    if (client == NULL || description == NULL)
        fail("description");
    check(client, "open", unspoken_model_open(client, description, described, secret, length));
    if (secret == NULL) {
        store_keys(client, "model/flowers", "keys", "declaration");
        store_secret(client);
    }
    wipe(secret, length);
    free(description);
    return client;
}

/* Encrypts the rows of the file. Returns how many there are. */
static size_t ask(UnspokenClient *client, UnspokenRequest **request)
{
    size_t inputs, outputs, width = 1, length = 0, count;
    unsigned char *bytes = read_file("rows", MOST_ROWS, &length);
    double *rows = malloc(length + 1);

    if (bytes == NULL || rows == NULL)
        fail("rows");
    memcpy(rows, bytes, length);
    check(client, "shape", unspoken_model_shape(client, &inputs, &outputs, &width));
    if (length % (sizeof *rows * width) != 0)
        fail("rows");
    count = length / sizeof *rows / width;
    check(client, "ask", unspoken_model_ask(client, rows, count, width, 0, request));
    wipe(bytes, length);
    wipe((unsigned char *)rows, length);
    return count;
}

/* Prints a text that the service may have chosen: it must not control the terminal. Other bytes of UTF-8 stay. */
static void print_text(const char *text, size_t length)
{
    size_t i;

    for (i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i], next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
        /* U+0080 to U+009F have two bytes. */
        const int is_long = byte == 0xc2 && next >= 0x80 && next < 0xa0;

        putchar(byte < 0x20 || byte == 0x7f || is_long ? '?' : byte);
        i += is_long;
    }
}

/* Prints an output of a row: its labels, its numbers, or both. Probabilities are in percent. */
static void print(UnspokenClient *client, const UnspokenModelPredictions *predictions, size_t row, size_t output)
{
    char name[MOST_NAME];
    const float *numbers = NULL;
    const uint8_t *label = NULL;
    size_t size = 0, count = 0, length = 0, i;
    UnspokenGives gives = UNSPOKEN_GIVES_NUMBERS;

    check(client, "output", unspoken_model_output(client, output, name, sizeof name, &size, &gives));
    check(client, "numbers", unspoken_model_predictions_numbers(predictions, row, output, &numbers, &count));
    printf("%s", output == 0 ? "" : "; ");
    print_text(name, strlen(name));
    for (i = 0; i < size; i++) {
        if (unspoken_model_predictions_label(predictions, row, output, i, &label, &length) == UNSPOKEN_STATUS_OK) {
            putchar(' ');
            print_text((const char *)label, length);
        }
        if (i < count && gives == UNSPOKEN_GIVES_PROBABILITIES)
            printf(" %.1f%%", 100 * numbers[i]);
        else if (i < count)
            printf(" %.4f", numbers[i]);
    }
}

int main(int count, char **arguments)
{
    UnspokenClient *client;
    UnspokenRequest *request = NULL;
    UnspokenModelPredictions *predictions = NULL;
    unsigned char *answer;
    const uint8_t *problem = NULL;
    size_t inputs, outputs = 0, width, length = 0, rows, row, output;

    if (count != 2) {
        fprintf(stderr, "usage: predict DIRECTORY\n");
        return 2;
    }
    directory = arguments[1];
    client = open_client();
    rows = ask(client, &request);
    answer = exchange(client, request, "request", "answer", &length);
    /* Only if this fails may a program read the description again and ask once more: it does not depend on the rows. */
    check(client, "check", unspoken_check_answer(client, request, answer, length));
    check(client, "read", unspoken_model_read(client, request, answer, length, &predictions));
    check(client, "shape", unspoken_model_shape(client, &inputs, &outputs, &width));
    for (row = 0; row < rows; row++) {
        check(client, "problem", unspoken_model_predictions_problem(predictions, row, &problem, &length));
        if (length > 0) {
            /* The service must not learn this: do not ask again. */
            printf("no answer: ");
            print_text((const char *)problem, length);
            printf("\n");
            continue;
        }
        for (output = 0; output < outputs; output++)
            print(client, predictions, row, output);
        printf("\n");
    }
    unspoken_model_predictions_free(predictions);
    unspoken_request_free(request);
    unspoken_free(client);
    free(answer);
    return 0;
}
