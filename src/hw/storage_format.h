/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How KV lies in files: one file per chain, named by its id, made of slots of one size; block i is
 * slot i.
 *
 *   slot = payload (block_bytes) | zeros | trailer (64 bytes),  slot_bytes a multiple of 4096
 *
 * The trailer stands in the slot, not in a file of its own, so that a block is one write and one
 * read, and a torn write is seen. It holds what the block is (chain, number, length) beside the
 * CRC-32 of the payload (zlib's, the IEEE 802.3 polynomial: finds every flipped bit and every burst
 * up to 32 bits), so that bytes in the wrong place are seen too. Little endian:
 *
 *   0 magic "DPKVSLOT" | 8 version u32 | 12 block u32 | 16 chain u64 | 24 block_bytes u64
 *   32 payload_crc u32 | 36 zeros | 60 crc u32 of bytes 0..59
 */
#ifndef DUALPATH_HW_STORAGE_FORMAT_H
#define DUALPATH_HW_STORAGE_FORMAT_H

#include <stdint.h>

#define STORAGE_ALIGN         4096u
#define STORAGE_TRAILER_BYTES 64u
#define STORAGE_NAME_BYTES    24 /* 16 hexadecimal digits, ".kv", NUL */

struct storage_block {
    uint64_t chain_id;
    uint32_t block;
    uint64_t block_bytes;
};

/* Size of the slot of a block of block_bytes (> 0). */
uint64_t storage_slot_bytes(uint64_t block_bytes);

void storage_file_name(uint64_t chain_id, char name[STORAGE_NAME_BYTES]);

/* Writes the 64 bytes at trailer. payload has b->block_bytes bytes. */
void storage_put_trailer(uint8_t *trailer, const struct storage_block *b, const uint8_t *payload);

/*
 * Checks a slot that was read. 0; -ENODATA: never written (all zeros: a hole in the file);
 * -EBADMSG: damaged, or another block, and *ret_what says which. The text is static.
 */
int storage_check(const uint8_t *trailer, const struct storage_block *b, const uint8_t *payload,
                  const char **ret_what);

#endif
