/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "input/scenario_reading.h"

static json_t *value_json(const struct scenario_key *key, const struct scenario *sc)
{
    const void *at = (const char *)sc + key->offset;
    char digits[24];
    switch (key->type) {
    case KEY_NUMBER:
        return json_real(*(const double *)at);
    case KEY_U32:
        return json_integer(*(const uint32_t *)at);
    case KEY_U64:
        if (*(const uint64_t *)at <= INT64_MAX) {
            return json_integer((json_int_t) * (const uint64_t *)at);
        }
        /* jansson's integers are signed. */
        snprintf(digits, sizeof(digits), "%" PRIu64, *(const uint64_t *)at);
        return json_string(digits);
    case KEY_BOOL:
        return json_boolean(*(const bool *)at);
    case KEY_ENUM:
        return json_string(key->words[*(const unsigned *)at]);
    case KEY_STRING:
    case KEY_WORD:
    case KEY_NAME:
        break;
    }
    return json_string(at);
}

char *scenario_canonical(const struct scenario *sc)
{
    json_t *all = json_object();
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const struct scenario_key *key = &scenario_keys[i];
        if (key->type != KEY_NAME && !key->machine &&
            json_object_set_new(all, key->path, value_json(key, sc)) < 0) {
            json_decref(all);
            return NULL;
        }
    }
    char *text = json_dumps(all, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    return text;
}

void scenario_sha256(const char *text, char ret_hex[65])
{
    struct sha256_ctx ctx;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&ctx);
    sha256_update(&ctx, strlen(text), (const uint8_t *)text);
    sha256_digest(&ctx, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
    }
}
