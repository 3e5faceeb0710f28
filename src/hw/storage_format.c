/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/storage_format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "hw/little_endian.h"

#define VERSION 1u

static const char magic[8] = {'D', 'P', 'K', 'V', 'S', 'L', 'O', 'T'};

uint64_t storage_slot_bytes(uint64_t block_bytes)
{
    return (block_bytes + STORAGE_TRAILER_BYTES + STORAGE_ALIGN - 1) / STORAGE_ALIGN *
           STORAGE_ALIGN;
}

void storage_file_name(uint64_t chain_id, char name[STORAGE_NAME_BYTES])
{
    snprintf(name, STORAGE_NAME_BYTES, "%016" PRIx64 ".kv", chain_id);
}

static uint32_t crc(const uint8_t *bytes, uint64_t len)
{
    return (uint32_t)crc32_z(0, bytes, len);
}

static void put_identity(uint8_t *trailer, const struct storage_block *b)
{
    memset(trailer, 0, STORAGE_TRAILER_BYTES);
    memcpy(trailer, magic, sizeof(magic));
    put_le(trailer + 8, VERSION, 4);
    put_le(trailer + 12, b->block, 4);
    put_le(trailer + 16, b->chain_id, 8);
    put_le(trailer + 24, b->block_bytes, 8);
}

void storage_put_trailer(uint8_t *trailer, const struct storage_block *b, const uint8_t *payload)
{
    put_identity(trailer, b);
    put_le(trailer + 32, crc(payload, b->block_bytes), 4);
    put_le(trailer + 60, crc(trailer, 60), 4);
}

int storage_check(const uint8_t *trailer, const struct storage_block *b, const uint8_t *payload,
                  const char **ret_what)
{
    static const uint8_t zeros[STORAGE_TRAILER_BYTES];
    uint8_t expected[STORAGE_TRAILER_BYTES], sum[4];
    if (memcmp(trailer, zeros, sizeof(zeros)) == 0) {
        *ret_what = "never written";
        return -ENODATA;
    }
    put_le(sum, crc(trailer, 60), 4);
    if (memcmp(trailer + 60, sum, 4) != 0) {
        *ret_what = "its trailer is damaged";
        return -EBADMSG;
    }
    put_identity(expected, b);
    if (memcmp(trailer, expected, 32) != 0) {
        *ret_what = "another block or version stands in its place";
        return -EBADMSG;
    }
    put_le(sum, crc(payload, b->block_bytes), 4);
    if (memcmp(trailer + 32, sum, 4) != 0) {
        *ret_what = "its bytes are damaged (checksum)";
        return -EBADMSG;
    }
    return 0;
}
