/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/tcp_wire.h"

#include <string.h>

#include "hw/little_endian.h"

#define MAGIC 0x54504c44u /* "DLPT" */

void tcp_put_hello(uint8_t *buf, const struct tcp_hello *h)
{
    buf = put_le(buf, MAGIC, 4);
    buf = put_le(buf, h->version, 2);
    buf = put_le(buf, 0, 2);
    buf = put_le(buf, h->src_node, 4);
    buf = put_le(buf, h->dst_node, 4);
    buf = put_le(buf, h->depth, 4);
    buf = put_le(buf, 0, 4);
    memcpy(buf, h->secret, TCP_SECRET_BYTES);
}

bool tcp_get_hello(const uint8_t *buf, struct tcp_hello *ret)
{
    bool ok = take_le(&buf, 4) == MAGIC;
    ret->version = (uint16_t)take_le(&buf, 2);
    buf += 2;
    ret->src_node = (uint32_t)take_le(&buf, 4);
    ret->dst_node = (uint32_t)take_le(&buf, 4);
    ret->depth = (uint32_t)take_le(&buf, 4);
    buf += 4;
    memcpy(ret->secret, buf, TCP_SECRET_BYTES);
    return ok;
}

void tcp_put_welcome(uint8_t *buf, const struct tcp_welcome *w)
{
    buf = put_le(buf, MAGIC, 4);
    buf = put_le(buf, w->version, 2);
    buf = put_le(buf, w->verdict, 2);
    put_le(buf, 0, 4);
}

bool tcp_get_welcome(const uint8_t *buf, struct tcp_welcome *ret)
{
    bool ok = take_le(&buf, 4) == MAGIC;
    ret->version = (uint16_t)take_le(&buf, 2);
    ret->verdict = (uint16_t)take_le(&buf, 2);
    return ok && ret->verdict < TCP_N_VERDICTS;
}

void tcp_put_frame(uint8_t *buf, const struct tcp_frame *f)
{
    buf = put_le(buf, f->type, 1);
    buf = put_le(buf, f->flags, 1);
    buf = put_le(buf, f->tier, 2);
    buf = put_le(buf, f->gpu, 2);
    buf = put_le(buf, 0, 2);
    buf = put_le(buf, f->slot, 4);
    buf = put_le(buf, f->serial, 4);
    buf = put_le(buf, f->offset_bytes, 8);
    buf = put_le(buf, f->len_bytes, 8);
    put_le(buf, MAGIC, 8);
}

/* Flags go from the inside out: the end of an op is the end of a part. */
bool tcp_get_frame(const uint8_t *buf, struct tcp_frame *ret)
{
    ret->type = (uint8_t)take_le(&buf, 1);
    ret->flags = (uint8_t)take_le(&buf, 1);
    ret->tier = (uint16_t)take_le(&buf, 2);
    ret->gpu = (uint16_t)take_le(&buf, 2);
    buf += 2;
    ret->slot = (uint32_t)take_le(&buf, 4);
    ret->serial = (uint32_t)take_le(&buf, 4);
    ret->offset_bytes = take_le(&buf, 8);
    ret->len_bytes = take_le(&buf, 8);
    bool ok = take_le(&buf, 8) == MAGIC;
    bool is_write =
        ret->type == TCP_WRITE && ret->len_bytes > 0 && ret->flags < 4 && ret->flags != TCP_ENDS_OP;
    bool is_cancel = ret->type == TCP_CANCEL && ret->len_bytes == 0 && ret->flags == 0;
    return ok && (is_write || is_cancel);
}

void tcp_put_ack(uint8_t *buf, const struct tcp_ack *a)
{
    buf = put_le(buf, a->slot, 4);
    buf = put_le(buf, a->serial, 4);
    buf = put_le(buf, a->parts_done, 4);
    buf = put_le(buf, a->code, 2);
    put_le(buf, a->final, 2);
}

bool tcp_get_ack(const uint8_t *buf, struct tcp_ack *ret)
{
    ret->slot = (uint32_t)take_le(&buf, 4);
    ret->serial = (uint32_t)take_le(&buf, 4);
    ret->parts_done = (uint32_t)take_le(&buf, 4);
    ret->code = (uint16_t)take_le(&buf, 2);
    unsigned final = (unsigned)take_le(&buf, 2);
    ret->final = final == 1;
    return ret->code < TCP_N_CODES && final <= 1 && (ret->final || ret->code != TCP_CANCELLED);
}

bool tcp_same_secret(const uint8_t *a, const uint8_t *b)
{
    uint8_t differ = 0;
    for (unsigned i = 0; i < TCP_SECRET_BYTES; i++) {
        differ |= a[i] ^ b[i];
    }
    return differ == 0;
}
