/*
 * The client of private retrieval, private search and private predictions: fetches records of a database, finds
 * documents of a collection, and asks models about rows, of a service that does not learn which.
 *
 * The library has no sockets and no files: the caller moves the bytes (crates/tools/c/README.md says where to).
 *
 * Pointers: each argument that is a pointer must be NULL or valid for what the function says; NULL is refused with
 * UNSPOKEN_STATUS_NULL_POINTER where nothing else is said. A handle is freed once, by the function for it, and not
 * used afterwards. Functions copy what they keep of their arguments, except the contexts of callbacks.
 *
 * Threads: functions may be called from any thread. A client that is in use by a call refuses others meanwhile with
 * UNSPOKEN_STATUS_BUSY, also calls from its own callbacks. Requests, records, hits and predictions are never changed,
 * so several threads may read them. A handle must not be freed while a call uses it. The library makes keys on threads
 * of its own, which stay until the process ends.
 *
 * Errors: no function lets a panic through. After UNSPOKEN_STATUS_INTERNAL the client has lost its state: free it.
 *
 * Secrets: the memory of secret keys, questions, records, hits and predictions is wiped when their handle is freed.
 */

/* Generated from src; do not edit. */

#ifndef UNSPOKEN_H
#define UNSPOKEN_H

#include <stddef.h>
#include <stdint.h>

/**
 * Bytes of the secret of a client of retrieval or search.
 */
#define UNSPOKEN_SECRET_BYTES 32

/**
 * Bytes of the BLAKE3 hash of evaluation keys.
 */
#define UNSPOKEN_HASH_BYTES 32

/**
 * The result of a call. `unspoken_error` has the text of an error.
 */
typedef enum UnspokenStatus {
  /**
   * The call did what it says.
   */
  UNSPOKEN_STATUS_OK = 0,
  /**
   * An argument that must not be NULL is NULL.
   */
  UNSPOKEN_STATUS_NULL_POINTER = 1,
  /**
   * Another call uses the client. The client's last error belongs to an earlier call.
   */
  UNSPOKEN_STATUS_BUSY = 2,
  /**
   * An argument cannot be used, or the client is not in the state for this call.
   */
  UNSPOKEN_STATUS_ARGUMENT = 3,
  /**
   * Both sides do not match: other versions or parameters, or a request or an answer of another description. This
   * follows from what the service knows, never from a decrypted answer.
   */
  UNSPOKEN_STATUS_MISMATCH = 4,
  /**
   * A message was damaged on its way. This never follows from a decrypted answer.
   */
  UNSPOKEN_STATUS_DAMAGED = 5,
  /**
   * An index of the request does not exist. The service did not learn this: do not ask again because of it.
   */
  UNSPOKEN_STATUS_NO_SUCH_INDEX = 6,
  /**
   * A callback returned an error.
   */
  UNSPOKEN_STATUS_CALLBACK = 7,
  /**
   * The system has no randomness, or this library has a bug. The client can no longer be used.
   */
  UNSPOKEN_STATUS_INTERNAL = 8,
  /**
   * The answer was decrypted, and is not one that an honest service gives to these keys: its data are damaged or
   * forged, or it computed with other keys. Do not ask again because of it, and do not let the service learn it:
   * whether an answer can be read may depend on the question.
   */
  UNSPOKEN_STATUS_UNREADABLE = 9,
} UnspokenStatus;

/**
 * What an output of a model gives.
 */
typedef enum UnspokenGives {
  /**
   * Labels of classes, and no numbers.
   */
  UNSPOKEN_GIVES_LABELS = 0,
  /**
   * A probability for each of at least two classes.
   */
  UNSPOKEN_GIVES_PROBABILITIES = 1,
  /**
   * The natural logarithm of a probability for each of at least two classes.
   */
  UNSPOKEN_GIVES_LOG_PROBABILITIES = 2,
  /**
   * Other numbers.
   */
  UNSPOKEN_GIVES_NUMBERS = 3,
} UnspokenGives;

/**
 * A client of one application of a service.
 */
typedef struct UnspokenClient UnspokenClient;

/**
 * What a model predicts for the rows of a request.
 */
typedef struct UnspokenModelPredictions UnspokenModelPredictions;

/**
 * Records from an answer.
 */
typedef struct UnspokenPirRecords UnspokenPirRecords;

/**
 * A request: questions, and the bytes to send to the service.
 */
typedef struct UnspokenRequest UnspokenRequest;

/**
 * The documents nearest to the vectors of a request, by position, or why the answer cannot be used.
 */
typedef struct UnspokenSearchHits UnspokenSearchHits;

/**
 * Receives a chunk of bytes: returns 0, or another number to stop.
 */
typedef int (*UnspokenWrite)(void *context, const uint8_t *bytes, size_t length);

/**
 * Functions that store the numbers of session queries.
 *
 * A number that is used twice reveals the difference of two questions. So a stored number must be on disk when a
 * function returns, and must never be restored from a copy; if that cannot be ruled out, use compact queries. The
 * functions are called on the thread that calls the function of the client, and return 0, or another number after a
 * failure.
 */
typedef struct UnspokenPirCounters {
  /**
   * Passed to both functions. It must be valid as long as the client, on each thread that uses the client.
   */
  void *context;
  /**
   * Stores 0 as the next number of the counter with this name of 16 bytes, which is new.
   */
  int (*start)(void *context, const uint8_t *name);
  /**
   * Writes the next number of the counter to `first`, and stores that number plus `count`, before it returns. It
   * fails if there is no such counter, since it was lost then, or if the sum is 2^32 or more. Two processes that
   * share a secret must not take the same number: lock what is stored.
   */
  int (*take)(void *context, const uint8_t *name, uint32_t count, uint32_t *first);
} UnspokenPirCounters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a client, which is not open yet. Returns NULL if that fails.
 */
struct UnspokenClient *unspoken_new(void);

/**
 * Frees a client and wipes its secret. NULL is ignored.
 *
 * # Safety
 * `client` is of `unspoken_new`, not freed yet, and not in use.
 */
void unspoken_free(struct UnspokenClient *client);

/**
 * Writes the text of the last error of a client, and a 0 at its end, to a buffer of `capacity` bytes, cut off where it
 * does not fit. Returns the length of the whole text without the 0; 0 if the last call succeeded. A buffer of no bytes
 * may be NULL.
 *
 * # Safety
 * `client` is not freed; `buffer` has room for `capacity` bytes.
 */
size_t unspoken_error(const struct UnspokenClient *client, char *buffer, size_t capacity);

/**
 * Takes up a newer description of the same application, after unspoken_check_answer or a refusal of the service has
 * told that it changed. Secret and evaluation keys stay valid; requests of before can no longer be read. A change that
 * could reveal questions, or take the tags from an encrypted database, is refused.
 *
 * # Safety
 * `client` is not freed; `description` has `length` bytes.
 */
enum UnspokenStatus unspoken_update(const struct UnspokenClient *client, const uint8_t *description, size_t length);

/**
 * Writes the UNSPOKEN_SECRET_BYTES bytes of the secret of a client of retrieval or search, to be stored: without them,
 * new evaluation keys must be made and sent. Anyone who has them can read the questions. The secret of a client of a
 * model is longer: unspoken_model_secret writes it.
 *
 * # Safety
 * `client` is not freed; `secret` has room for UNSPOKEN_SECRET_BYTES bytes.
 */
enum UnspokenStatus unspoken_secret(const struct UnspokenClient *client, uint8_t *secret);

/**
 * Writes the length of the evaluation keys in bytes to `length`.
 *
 * # Safety
 * `client` is not freed; `length` is valid.
 */
enum UnspokenStatus unspoken_key_bytes(const struct UnspokenClient *client, uint64_t *length);

/**
 * Makes evaluation keys, which the service needs for the answers: of retrieval up to 105 MB, of a model more. A client
 * that searches has none: it registers with 24 bytes. `write` receives their bytes, in chunks of at most 65536. Their
 * BLAKE3 hash of UNSPOKEN_HASH_BYTES bytes is written to `hash`. Each call makes other keys for the same secret; all
 * of them are as good.
 *
 * # Safety
 * `client` is not freed; `write` may be called with `context`; `hash` has room for the hash.
 */
enum UnspokenStatus unspoken_write_keys(const struct UnspokenClient *client,
                                        UnspokenWrite write,
                                        void *context,
                                        uint8_t *hash);

/**
 * Passes the message with which keys of this hash are declared to a service, the body of POST /v1/keys, to `write` in
 * one piece. `application` is its name at the service, for instance "pir/codes".
 *
 * # Safety
 * `client` is not freed; `application` ends with a 0; `hash` has UNSPOKEN_HASH_BYTES bytes; `write` may be called
 * with `context`.
 */
enum UnspokenStatus unspoken_key_declaration(const struct UnspokenClient *client,
                                             const char *application,
                                             const uint8_t *hash,
                                             UnspokenWrite write,
                                             void *context);

/**
 * Writes the maximum number of questions of a request to `count`.
 *
 * # Safety
 * `client` is not freed; `count` is valid.
 */
enum UnspokenStatus unspoken_most_questions(const struct UnspokenClient *client, size_t *count);

/**
 * Writes where the bytes to send are, and how many, to `bytes` and `length`. They are valid until the request is
 * freed.
 *
 * # Safety
 * `request` is not freed; `bytes` and `length` are valid.
 */
enum UnspokenStatus unspoken_request_bytes(const struct UnspokenRequest *request,
                                           const uint8_t **bytes,
                                           size_t *length);

/**
 * Writes the length of the answer in bytes to `length`. Accept no more than that from a service.
 *
 * # Safety
 * `request` is not freed; `length` is valid.
 */
enum UnspokenStatus unspoken_request_answer_bytes(const struct UnspokenRequest *request, size_t *length);

/**
 * Checks everything in the answer to a request of this client that can be checked without the secret.
 *
 * UNSPOKEN_STATUS_MISMATCH may mean that the description changed, UNSPOKEN_STATUS_DAMAGED that the answer was
 * damaged on its way: read the description again, unspoken_update, ask again. Both say nothing about the
 * questions, so the service may learn them. Have all answers of what you ask together checked before you read the
 * first of them.
 *
 * # Safety
 * `client` and `request` are not freed; `answer` has `length` bytes.
 */
enum UnspokenStatus unspoken_check_answer(const struct UnspokenClient *client,
                                          const struct UnspokenRequest *request,
                                          const uint8_t *answer,
                                          size_t length);

/**
 * Frees a request and wipes its questions. NULL is ignored.
 *
 * # Safety
 * `request` is not freed yet, and not in use.
 */
void unspoken_request_free(struct UnspokenRequest *request);

/**
 * Opens a client of a database of a service.
 *
 * `kind` is the kind of its queries: "packed", "bits", "compact" or "session". `description` is what the service tells
 * of the database. `secret` has UNSPOKEN_SECRET_BYTES bytes of unspoken_secret of an earlier client of this
 * kind, or is NULL: then a new secret is generated, for which evaluation keys must be sent. `counters` may be NULL,
 * except for session queries.
 *
 * The first description is trusted, and unspoken_update refuses later ones that could reveal questions, or that
 * take the tags from an encrypted database. So store the description with the secret; open a later client with what is
 * stored, and update it with what the service tells then.
 *
 * # Safety
 * `client` is not freed; `kind` ends with a 0; the others are valid as described; the context of `counters` is valid
 * as long as the client.
 */
enum UnspokenStatus unspoken_pir_open(const struct UnspokenClient *client,
                                      const char *kind,
                                      const uint8_t *description,
                                      size_t description_length,
                                      const uint8_t *secret,
                                      const struct UnspokenPirCounters *counters);

/**
 * Encrypts questions for the records at `count` indices, from 0. `request` receives a request, which
 * unspoken_request_free frees. An index that does not exist is no error here, so that the service does not learn
 * it: unspoken_pir_read reports it.
 *
 * # Safety
 * `client` is not freed; there are `count` numbers at `indices`; `request` is valid.
 */
enum UnspokenStatus unspoken_pir_ask_indices(const struct UnspokenClient *client,
                                             const uint64_t *indices,
                                             size_t count,
                                             struct UnspokenRequest **request);

/**
 * Encrypts questions for the records of `count` keys. Key i has `lengths[i]` bytes at `keys[i]`. `request` receives a
 * request, which unspoken_request_free frees.
 *
 * # Safety
 * `client` is not freed; there are `count` pointers at `keys`, and `count` numbers at `lengths`; each key is valid;
 * `request` is valid.
 */
enum UnspokenStatus unspoken_pir_ask_keys(const struct UnspokenClient *client,
                                          const uint8_t *const *keys,
                                          const size_t *lengths,
                                          size_t count,
                                          struct UnspokenRequest **request);

/**
 * Decrypts the answer to a request of this client, after the check of unspoken_check_answer, whose errors it
 * returns. `records` receives the records, in the order of the questions; free them with unspoken_pir_records_free.
 *
 * UNSPOKEN_STATUS_UNREADABLE tells that the decrypted answer is no sound one, UNSPOKEN_STATUS_NO_SUCH_INDEX
 * that an index of the request is out of range. Both are final: tell the person, but do not ask again because of them,
 * also not for the other records of the request, and do not let the service learn them. A service that damages half of
 * its table, or describes half of its records, would learn from your next request which half you asked for.
 *
 * # Safety
 * `client` and `request` are not freed; `answer` has `length` bytes; `records` is valid.
 */
enum UnspokenStatus unspoken_pir_read(const struct UnspokenClient *client,
                                      const struct UnspokenRequest *request,
                                      const uint8_t *answer,
                                      size_t length,
                                      struct UnspokenPirRecords **records);

/**
 * Writes where record `number` is, and how many bytes it has, to `record` and `length`. They are valid until the
 * records are freed. If there is no such record in the database, `record` is NULL; an empty record is not.
 *
 * # Safety
 * `records` is not freed; `record` and `length` are valid.
 */
enum UnspokenStatus unspoken_pir_records_get(const struct UnspokenPirRecords *records,
                                             size_t number,
                                             const uint8_t **record,
                                             size_t *length);

/**
 * Writes the version of the database, from which all records of the answer are, to `version`.
 *
 * # Safety
 * `records` is not freed; `version` is valid.
 */
enum UnspokenStatus unspoken_pir_records_version(const struct UnspokenPirRecords *records, uint64_t *version);

/**
 * Frees records and wipes them. NULL is ignored.
 *
 * # Safety
 * `records` is not freed yet, and not in use.
 */
void unspoken_pir_records_free(struct UnspokenPirRecords *records);

/**
 * Writes the version of the database from which an answer was computed, which is not encrypted, to `version`: for
 * unspoken_search_check_version, before the answer is read.
 *
 * # Safety
 * `answer` has `length` bytes; `version` is valid.
 */
enum UnspokenStatus unspoken_pir_answer_version(const uint8_t *answer, size_t length, uint64_t *version);

/**
 * Opens a client of a collection of a service.
 *
 * `description` is what the service tells of the collection. `secret` has UNSPOKEN_SECRET_BYTES bytes of
 * unspoken_secret of an earlier client, or is NULL: then the client is registered anew. Each client encrypts with a
 * key of its own, which is never stored.
 *
 * Documents are fetched by a second client, of unspoken_pir_open with packed queries, for the application that
 * unspoken_search_documents names. Open it, and send its keys, before the first search.
 *
 * # Safety
 * `client` is not freed; `description` has `description_length` bytes; `secret` is NULL or valid.
 */
enum UnspokenStatus unspoken_search_open(const struct UnspokenClient *client,
                                         const uint8_t *description,
                                         size_t description_length,
                                         const uint8_t *secret);

/**
 * Writes the number of coordinates of a vector to `width`.
 *
 * # Safety
 * `client` is not freed; `width` is valid.
 */
enum UnspokenStatus unspoken_search_width(const struct UnspokenClient *client, size_t *width);

/**
 * Writes the name of the application from which documents are fetched, and a 0 at its end, to a buffer of `capacity`
 * bytes. It is empty if there is none. The service wrote the name: it has at most 256 bytes, and may be any text.
 *
 * # Safety
 * `client` is not freed; `name` has room for `capacity` bytes.
 */
enum UnspokenStatus unspoken_search_documents(const struct UnspokenClient *client, char *name, size_t capacity);

/**
 * Writes the name of what made the vectors of the documents, as unspoken_search_documents writes a name. The vectors
 * of queries must be made by it, too. It is empty if it is not known.
 *
 * # Safety
 * `client` is not freed; `name` has room for `capacity` bytes.
 */
enum UnspokenStatus unspoken_search_embedder(const struct UnspokenClient *client, char *name, size_t capacity);

/**
 * Encrypts `count` vectors of `width` coordinates, one after the other, of any length but zero. `request` receives a
 * request, which unspoken_request_free frees.
 *
 * # Safety
 * `client` is not freed; there are `count` times `width` numbers at `vectors`; `request` is valid.
 */
enum UnspokenStatus unspoken_search_ask(const struct UnspokenClient *client,
                                        const float *vectors,
                                        size_t count,
                                        size_t width,
                                        struct UnspokenRequest **request);

/**
 * Decrypts the answer to a request of this client, after the check of unspoken_check_answer, whose errors it returns.
 * `hits` receives the documents that were found; free them with unspoken_search_hits_free.
 *
 * It succeeds whatever the answer decrypts to: unspoken_search_hits_get tells if it is no sound one. Until then, fetch
 * as many documents as always.
 *
 * # Safety
 * `client` and `request` are not freed; `answer` has `length` bytes; `hits` is valid.
 */
enum UnspokenStatus unspoken_search_read(const struct UnspokenClient *client,
                                         const struct UnspokenRequest *request,
                                         const uint8_t *answer,
                                         size_t length,
                                         struct UnspokenSearchHits **hits);

/**
 * Writes the positions of the `count` documents nearest to vector `number` to `positions`: what to fetch by
 * unspoken_pir_ask_indices. Always fetch all of them: where fewer were found, or the answer is no sound one, the rest
 * is filled with 0, so that the service does not learn it. UNSPOKEN_STATUS_ARGUMENT tells that the request has no such
 * vector.
 *
 * # Safety
 * `hits` is not freed; `positions` has room for `count` numbers.
 */
enum UnspokenStatus unspoken_search_hits_positions(const struct UnspokenSearchHits *hits,
                                                   size_t number,
                                                   uint64_t *positions,
                                                   size_t count);

/**
 * Writes position and cosine of the document that is the `rank`-th nearest to vector `number`, from 0.
 *
 * Call it when the documents have been fetched. UNSPOKEN_STATUS_ARGUMENT tells that there is no such vector, or that
 * fewer documents were found; UNSPOKEN_STATUS_UNREADABLE that the answer is no sound one. Do not ask again because of
 * either, and do not let the service learn it.
 *
 * # Safety
 * `hits` is not freed; `position` and `cosine` are valid.
 */
enum UnspokenStatus unspoken_search_hits_get(const struct UnspokenSearchHits *hits,
                                             size_t number,
                                             size_t rank,
                                             uint64_t *position,
                                             float *cosine);

/**
 * Frees what was found, and wipes it. NULL is ignored.
 *
 * # Safety
 * `hits` is not freed yet, and not in use.
 */
void unspoken_search_hits_free(struct UnspokenSearchHits *hits);

/**
 * Checks whether documents of this version, of unspoken_pir_answer_version, are those that `answer`, of a search, can
 * name. UNSPOKEN_STATUS_MISMATCH tells that the collection was changed or built again meanwhile: wait a second, update
 * both clients with what the service tells then, and search again. Check the versions of all answers before you read
 * the first of them.
 *
 * # Safety
 * `answer` has `length` bytes.
 */
enum UnspokenStatus unspoken_search_check_version(const uint8_t *answer, size_t length, uint64_t version);

/**
 * Finds id and content in a record that was fetched. They lie within the record. `id` is NULL if the document has no
 * id, and `content` is NULL if there is no document: it was removed after the search. UNSPOKEN_STATUS_UNREADABLE tells
 * that the record is no document: do not ask again because of it.
 *
 * # Safety
 * `record` has `length` bytes; the other pointers are valid.
 */
enum UnspokenStatus unspoken_search_document(const uint8_t *record,
                                             size_t length,
                                             const uint8_t **id,
                                             size_t *id_length,
                                             const uint8_t **content,
                                             size_t *content_length);

/**
 * Opens a client of a model that the owner of a service has brought.
 *
 * `description` is what the service tells of the model. `secret` has the `secret_length` bytes of
 * unspoken_model_secret of an earlier client, or is NULL: then a new secret is generated, for which evaluation keys
 * must be sent.
 *
 * # Safety
 * `client` is not freed; `description` has `description_length` bytes; `secret` is NULL or has `secret_length` bytes.
 */
enum UnspokenStatus unspoken_model_open(const struct UnspokenClient *client,
                                        const uint8_t *description,
                                        size_t description_length,
                                        const uint8_t *secret,
                                        size_t secret_length);

/**
 * Writes the secret, to be stored, to a buffer of `capacity` bytes, and its length to `length`: some kilobytes. If the
 * buffer is too short, UNSPOKEN_STATUS_ARGUMENT is returned and only the length is written; `secret` may be NULL with
 * a capacity of 0. Anyone who has the secret can read the questions. Wipe the buffer.
 *
 * # Safety
 * `client` is not freed; `secret` has room for `capacity` bytes; `length` is valid.
 */
enum UnspokenStatus unspoken_model_secret(const struct UnspokenClient *client,
                                          uint8_t *secret,
                                          size_t capacity,
                                          size_t *length);

/**
 * Writes the number of inputs of the model to `inputs`, of its outputs to `outputs`, and of the numbers of a row, of
 * all inputs together, to `width`.
 *
 * # Safety
 * `client` is not freed; the other pointers are valid.
 */
enum UnspokenStatus unspoken_model_shape(const struct UnspokenClient *client,
                                         size_t *inputs,
                                         size_t *outputs,
                                         size_t *width);

/**
 * Writes the name of input `number`, and a 0 at its end, to a buffer of `capacity` bytes, how many numbers of a row it
 * has to `size`, and to `table_rows` the number of rows of the table that it points into; 0 if its numbers are no
 * indices. The service wrote the name: it has at most 256 bytes, and may be any text.
 *
 * # Safety
 * `client` is not freed; `name` has room for `capacity` bytes; the other pointers are valid.
 */
enum UnspokenStatus unspoken_model_input(const struct UnspokenClient *client,
                                         size_t number,
                                         char *name,
                                         size_t capacity,
                                         size_t *size,
                                         size_t *table_rows);

/**
 * Writes the name of an element of input `number`, such as that of a column, as unspoken_model_input writes a name,
 * and the least and the greatest number that may be asked to `low` and `high`. The name is empty if it has none.
 *
 * # Safety
 * `client` is not freed; `name` has room for `capacity` bytes; `low` and `high` are valid.
 */
enum UnspokenStatus unspoken_model_element(const struct UnspokenClient *client,
                                           size_t number,
                                           size_t element,
                                           char *name,
                                           size_t capacity,
                                           double *low,
                                           double *high);

/**
 * Writes the name of output `number`, as unspoken_model_input writes a name, how many numbers or labels a row of it
 * has to `size`, and what they are to `gives`, as the service says. Names of outputs may be longer than 256 bytes: the
 * text of the error says how long.
 *
 * # Safety
 * `client` is not freed; `name` has room for `capacity` bytes; `size` and `gives` are valid.
 */
enum UnspokenStatus unspoken_model_output(const struct UnspokenClient *client,
                                          size_t number,
                                          char *name,
                                          size_t capacity,
                                          size_t *size,
                                          enum UnspokenGives *gives);

/**
 * Encrypts `count` rows of `width` numbers, one after the other: the numbers of each input, in their order. An index
 * is a whole number. With `clip` other than 0, numbers outside their ranges are moved into them; otherwise such a row
 * has no answer, which the service cannot see: unspoken_model_predictions_problem tells. `request` receives a request,
 * which unspoken_request_free frees. Its length tells nothing of the rows, nor how many there are.
 *
 * # Safety
 * `client` is not freed; there are `count` times `width` numbers at `rows`; `request` is valid.
 */
enum UnspokenStatus unspoken_model_ask(const struct UnspokenClient *client,
                                       const double *rows,
                                       size_t count,
                                       size_t width,
                                       int clip,
                                       struct UnspokenRequest **request);

/**
 * Decrypts the answer to a request of this client, after the check of unspoken_check_answer, whose errors it returns.
 * `predictions` receives what the model predicts; free it with unspoken_model_predictions_free. Its numbers have the
 * noise of the encryption, which depends on the secret: keep them to yourself.
 *
 * UNSPOKEN_STATUS_UNREADABLE tells that the answer was decrypted and is no sound one.
 *
 * # Safety
 * `client` and `request` are not freed; `answer` has `length` bytes; `predictions` is valid.
 */
enum UnspokenStatus unspoken_model_read(const struct UnspokenClient *client,
                                        const struct UnspokenRequest *request,
                                        const uint8_t *answer,
                                        size_t length,
                                        struct UnspokenModelPredictions **predictions);

/**
 * Writes where the text is that tells why row `row` has no answer, and how many bytes it has: 0 if the row has one. Do
 * not ask again because of it, and do not let the service learn it. It is valid until the predictions are freed.
 * UNSPOKEN_STATUS_ARGUMENT tells that there is no such row.
 *
 * # Safety
 * `predictions` is not freed; `problem` and `length` are valid.
 */
enum UnspokenStatus unspoken_model_predictions_problem(const struct UnspokenModelPredictions *predictions,
                                                       size_t row,
                                                       const uint8_t **problem,
                                                       size_t *length);

/**
 * Writes where the numbers of an output are for row `row`, and how many: 0 if the output has labels alone. They are
 * valid until the predictions are freed. UNSPOKEN_STATUS_ARGUMENT tells that there is no such row or output, or that
 * the row has no answer.
 *
 * # Safety
 * `predictions` is not freed; `numbers` and `count` are valid.
 */
enum UnspokenStatus unspoken_model_predictions_numbers(const struct UnspokenModelPredictions *predictions,
                                                       size_t row,
                                                       size_t output,
                                                       const float **numbers,
                                                       size_t *count);

/**
 * Writes where label `number` of an output is for row `row`, and how many bytes it has; an integer in its decimal
 * digits. If the output has numbers, it is the label of the number at this place. It is valid until the predictions
 * are freed. UNSPOKEN_STATUS_ARGUMENT tells that there is no such row, output or label, or that the row has no answer.
 *
 * # Safety
 * `predictions` is not freed; `label` and `length` are valid.
 */
enum UnspokenStatus unspoken_model_predictions_label(const struct UnspokenModelPredictions *predictions,
                                                     size_t row,
                                                     size_t output,
                                                     size_t number,
                                                     const uint8_t **label,
                                                     size_t *length);

/**
 * Frees predictions, and wipes them. NULL is ignored.
 *
 * # Safety
 * `predictions` is not freed yet, and not in use.
 */
void unspoken_model_predictions_free(struct UnspokenModelPredictions *predictions);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UNSPOKEN_H */
