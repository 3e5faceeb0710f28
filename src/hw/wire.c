/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/wire.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A run of equal scalars of struct msg, or a text (size 1). */
struct wire_field {
    uint16_t offset;
    uint8_t size, count;
};

#define FIELD(member)                                                                              \
    {                                                                                              \
        offsetof(struct msg, u.member), sizeof(((struct msg *)0)->u.member), 1                     \
    }
#define ARRAY(member)                                                                              \
    {                                                                                              \
        offsetof(struct msg, u.member), sizeof(((struct msg *)0)->u.member[0]),                    \
            sizeof(((struct msg *)0)->u.member) / sizeof(((struct msg *)0)->u.member[0])           \
    }
#define REQUEST(r)                                                                                 \
    FIELD(r.request), FIELD(r.session), FIELD(r.turn), FIELD(r.prompt_tok), FIELD(r.hit_tok),      \
        FIELD(r.gen_tok)
#define START(s)                                                                                   \
    REQUEST(s.r), FIELD(s.prefill_node), FIELD(s.decode_node), FIELD(s.prefill_gpu),               \
        FIELD(s.decode_gpu), FIELD(s.read_on_decode), FIELD(s.decode_tok), FIELD(s.kept_tok),      \
        FIELD(s.scheduled_ns)

static const struct wire_field request_fields[] = {REQUEST(submit)};
static const struct wire_field prompt_kv_fields[] = {REQUEST(prompt_kv)};
static const struct wire_field fetch_fields[] = {
    FIELD(fetch.node),     FIELD(fetch.read_done_tok), FIELD(fetch.read_added_tok),
    ARRAY(fetch.done_tok), ARRAY(fetch.done_requests), ARRAY(fetch.done_blocks)};
static const struct wire_field start_fields[] = {START(start)};
static const struct wire_field decode_ready_fields[] = {
    START(decode_ready.start), FIELD(decode_ready.decode_offset_bytes),
    FIELD(decode_ready.alloc_ns), FIELD(decode_ready.read_ns)};
static const struct wire_field decode_read_fields[] = {FIELD(decode_read.request)};
static const struct wire_field kept_fields[] = {FIELD(kept.session), FIELD(kept.engine),
                                                FIELD(kept.n_engines), FIELD(kept.tok)};
static const struct wire_field push_fields[] = {
    FIELD(push.request),      FIELD(push.stream),           FIELD(push.first_tok),
    FIELD(push.n_tok),        FIELD(push.gpu_offset_bytes), FIELD(push.notify_at),
    FIELD(push.notify_every), FIELD(push.layers_ready)};
static const struct wire_field pushed_fields[] = {FIELD(pushed.request), FIELD(pushed.stream),
                                                  FIELD(pushed.layers)};
static const struct wire_field ep_fields[] = {FIELD(ep.group), FIELD(ep.node)};
static const struct wire_field event_fields[] = {FIELD(event.request),      FIELD(event.tok),
                                                 FIELD(event.scheduled_ns), FIELD(event.alloc_ns),
                                                 FIELD(event.read_ns),      FIELD(event.queue_ns)};
static const struct wire_field fault_fields[] = {FIELD(fault.request), FIELD(fault.status),
                                                 FIELD(fault.peer), ARRAY(fault.what)};
static const struct wire_field dead_fields[] = {FIELD(dead.node)};
static const struct wire_field clear_fields[] = {FIELD(clear.node), FIELD(clear.deaths)};
static const struct wire_field lost_fields[] = {FIELD(lost.request)};
static const struct wire_field meet_fields[] = {
    FIELD(meet.kind), FIELD(meet.side), FIELD(meet.group), FIELD(meet.phase), FIELD(meet.sum)};
static const struct wire_field over_fields[] = {FIELD(over.request), FIELD(over.prefilled)};

struct wire_body {
    const struct wire_field *fields;
    size_t n;
};

#define BODY(fields)                                                                               \
    {                                                                                              \
        fields, sizeof(fields) / sizeof(fields[0])                                                 \
    }

static const struct wire_body bodies[] = {
    [MSG_SUBMIT] = BODY(request_fields),
    [MSG_FETCH] = BODY(fetch_fields),
    [MSG_START] = BODY(start_fields),
    [MSG_DECODE_READY] = BODY(decode_ready_fields),
    [MSG_DECODE_READ] = BODY(decode_read_fields),
    [MSG_PUSH] = BODY(push_fields),
    [MSG_PUSH_FEED] = BODY(pushed_fields),
    [MSG_PUSHED] = BODY(pushed_fields),
    [MSG_PROMPT_KV] = BODY(prompt_kv_fields),
    [MSG_EP_READY] = BODY(ep_fields),
    [MSG_EP_START] = BODY(ep_fields),
    [MSG_FIRST_TOKEN] = BODY(event_fields),
    [MSG_TOKEN] = BODY(event_fields),
    [MSG_FINISHED] = BODY(event_fields),
    [MSG_PROMPT_DURABLE] = BODY(event_fields),
    [MSG_DURABLE] = BODY(event_fields),
    [MSG_KEPT] = BODY(kept_fields),
    [MSG_FAULT] = BODY(fault_fields),
    [MSG_DEAD] = BODY(dead_fields),
    [MSG_CLEAR] = BODY(clear_fields),
    [MSG_LOST] = BODY(lost_fields),
    [MSG_OVER] = BODY(over_fields),
    [MSG_MEET] = BODY(meet_fields),
};

static const struct wire_body *body_of(uint16_t type)
{
    bool known = type < sizeof(bodies) / sizeof(bodies[0]) && bodies[type].n > 0;
    return known ? &bodies[type] : NULL;
}

static size_t body_bytes(const struct wire_body *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        n += (size_t)b->fields[i].size * b->fields[i].count;
    }
    return n;
}

static void put_le(uint8_t *buf, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        buf[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t get_le(const uint8_t *buf, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) {
        value |= (uint64_t)buf[i] << 8 * i;
    }
    return value;
}

static uint64_t load(const void *at, unsigned size)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (size) {
    case 1:
        memcpy(&u8, at, 1);
        return u8;
    case 2:
        memcpy(&u16, at, 2);
        return u16;
    case 4:
        memcpy(&u32, at, 4);
        return u32;
    default:
        assert(size == 8);
        memcpy(&u64, at, 8);
        return u64;
    }
}

static void store(void *at, uint64_t value, unsigned size)
{
    uint8_t u8 = (uint8_t)value;
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    switch (size) {
    case 1:
        memcpy(at, &u8, 1);
        break;
    case 2:
        memcpy(at, &u16, 2);
        break;
    case 4:
        memcpy(at, &u32, 4);
        break;
    default:
        assert(size == 8);
        memcpy(at, &value, 8);
    }
}

void wire_put_head(uint8_t *buf, const struct wire_head *h)
{
    buf[0] = 'd';
    buf[1] = 'p';
    put_le(buf + 2, h->version, 2);
    put_le(buf + 4, h->type, 2);
    put_le(buf + 6, 0, 2);
    put_le(buf + 8, h->src, 4);
    put_le(buf + 12, h->dst, 4);
}

int wire_get_head(const uint8_t *buf, size_t len, struct wire_head *ret)
{
    if (len < 4 || buf[0] != 'd' || buf[1] != 'p') {
        return -EPROTO;
    }
    struct wire_head h = {.version = (uint16_t)get_le(buf + 2, 2)};
    if (h.version != MSG_VERSION) {
        ret->version = h.version;
        return -EPROTONOSUPPORT;
    }
    if (len < WIRE_HEAD_BYTES || get_le(buf + 6, 2) != 0) {
        return -EPROTO;
    }
    h.type = (uint16_t)get_le(buf + 4, 2);
    h.src = (uint32_t)get_le(buf + 8, 4);
    h.dst = (uint32_t)get_le(buf + 12, 4);
    *ret = h;
    return 0;
}

size_t wire_put_msg(uint8_t *buf, const struct msg *m)
{
    const struct wire_body *b = body_of(m->type);
    if (!b) {
        return 0;
    }
    wire_put_head(buf, &(struct wire_head){MSG_VERSION, m->type, m->src, m->dst});
    uint8_t *at = buf + WIRE_HEAD_BYTES;
    for (size_t i = 0; i < b->n; i++) {
        const struct wire_field *f = &b->fields[i];
        for (unsigned k = 0; k < f->count; k++, at += f->size) {
            put_le(at, load((const char *)m + f->offset + k * f->size, f->size), f->size);
        }
    }
    return (size_t)(at - buf);
}

int wire_get_msg(const uint8_t *buf, size_t len, struct msg *ret)
{
    struct wire_head h;
    int rc = wire_get_head(buf, len, &h);
    const struct wire_body *b = rc ? NULL : body_of(h.type);
    if (!b || len != WIRE_HEAD_BYTES + body_bytes(b)) {
        return rc ? rc : -EPROTO;
    }
    struct msg m;
    memset(&m, 0, sizeof(m));
    m.version = h.version;
    m.type = h.type;
    m.src = h.src;
    m.dst = h.dst;
    const uint8_t *at = buf + WIRE_HEAD_BYTES;
    for (size_t i = 0; i < b->n; i++) {
        const struct wire_field *f = &b->fields[i];
        for (unsigned k = 0; k < f->count; k++, at += f->size) {
            store((char *)&m + f->offset + k * f->size, get_le(at, f->size), f->size);
        }
    }
    if (m.type == MSG_FAULT && m.u.fault.what[sizeof(m.u.fault.what) - 1] != '\0') {
        return -EPROTO;
    }
    *ret = m;
    return 0;
}
