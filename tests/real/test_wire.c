/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Frames of the control plane: bytes as the header says, every field of every message there and
 * back. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "check_suite.h"
#include "hw/wire.h"

/* Bytes of each message's fields, counted by hand from message.h: what a frame holds behind its
 * header. */
static const struct {
    uint16_t type;
    size_t bytes;
} sizes[] = {
    {MSG_SUBMIT, 6 * 4},
    {MSG_FETCH, 4 + 2 * 8 + 3 * 16 * 8},
    {MSG_START, 6 * 4 + 2 * 4 + 2 * 2 + 3 * 4 + 8},
    {MSG_DECODE_READY, (6 * 4 + 2 * 4 + 2 * 2 + 3 * 4 + 8) + 3 * 8},
    {MSG_DECODE_READ, 4},
    {MSG_PUSH, 4 * 4 + 8 + 3 * 4},
    {MSG_PUSH_FEED, 3 * 4},
    {MSG_PUSHED, 3 * 4},
    {MSG_PROMPT_KV, 6 * 4},
    {MSG_EP_READY, 2 * 4},
    {MSG_EP_START, 2 * 4},
    {MSG_FIRST_TOKEN, 2 * 4 + 4 * 8},
    {MSG_TOKEN, 2 * 4 + 4 * 8},
    {MSG_FINISHED, 2 * 4 + 4 * 8},
    {MSG_PROMPT_DURABLE, 2 * 4 + 4 * 8},
    {MSG_DURABLE, 2 * 4 + 4 * 8},
    {MSG_KEPT, 4 * 4},
    {MSG_FAULT, 3 * 4 + 64},
    {MSG_DEAD, 4},
    {MSG_CLEAR, 2 * 4},
    {MSG_LOST, 4},
    {MSG_OVER, 2 * 4},
    {MSG_MEET, 3 * 4 + 2 * 8},
};
#define N_SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

START_TEST(frame_has_every_field)
{
    /* A body of bytes 0x7f: padding does not travel, everything else does. */
    struct msg m, back;
    uint8_t frame[WIRE_MSG_BYTES];
    memset(&m, 0x7f, sizeof(m));
    m.type = sizes[_i].type;
    if (m.type == MSG_FAULT) {
        m.u.fault.what[63] = '\0';
    }
    size_t len = wire_put_msg(frame, &m);
    ck_assert_uint_eq(len, WIRE_HEAD_BYTES + sizes[_i].bytes);
    ck_assert_int_eq(wire_get_msg(frame, len, &back), 0);
    ck_assert_uint_eq(back.version, MSG_VERSION);
    ck_assert_uint_eq(back.type, m.type);
    ck_assert_uint_eq(back.src, 0x7f7f7f7f);
    ck_assert_uint_eq(back.dst, 0x7f7f7f7f);
    size_t n = 0;
    const uint8_t *body = (const uint8_t *)&back.u;
    for (size_t i = 0; i < sizeof(back.u); i++) {
        ck_assert(body[i] == 0x7f || body[i] == 0);
        n += body[i] == 0x7f;
    }
    ck_assert_uint_eq(n, sizes[_i].bytes - (m.type == MSG_FAULT));
}
END_TEST

START_TEST(frame_length_must_fit)
{
    struct msg m = {.type = sizes[_i].type}, back;
    uint8_t frame[WIRE_MSG_BYTES + 1] = {0};
    size_t len = wire_put_msg(frame, &m);
    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(wire_get_msg(frame, n, &back), -EPROTO);
    }
    ck_assert_int_eq(wire_get_msg(frame, len + 1, &back), -EPROTO);
}
END_TEST

START_TEST(start_message_byte_for_byte)
{
    const struct msg m = {.type = MSG_START,
                          .src = MSG_SCHEDULER,
                          .dst = MSG_NODE(7),
                          .u.start = {.r = {0x01020304, 5, 6, 7, 8, 9},
                                      .prefill_node = 10,
                                      .decode_node = 11,
                                      .prefill_gpu = 0x0c0d,
                                      .decode_gpu = 14,
                                      .read_on_decode = 1,
                                      .decode_tok = 0x21222324,
                                      .kept_tok = 15,
                                      .scheduled_ns = 0x1112131415161718}};
    static const uint8_t expected[] = {'d',  'p', MSG_VERSION, 0,    3,    0,    0,    0,    1,
                                       0,    0,   0,           9,    0,    0,    0, /* header */
                                       4,    3,   2,           1,    5,    0,    0,    0,    6,
                                       0,    0,   0, /* request, session, turn */
                                       7,    0,   0,           0,    8,    0,    0,    0,    9,
                                       0,    0,   0, /* prompt, hit, gen */
                                       10,   0,   0,           0,    11,   0,    0,    0,    0x0d,
                                       0x0c, 14,  0, /* nodes, gpus; then the read */
                                       1,    0,   0,           0,    0x24, 0x23, 0x22, 0x21, 15,
                                       0,    0,   0,           0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
                                       0x12, 0x11};
    uint8_t frame[WIRE_MSG_BYTES];
    ck_assert_uint_eq(wire_put_msg(frame, &m), sizeof(expected));
    ck_assert_mem_eq(frame, expected, sizeof(expected));
}
END_TEST

START_TEST(negative_status_survives)
{
    struct msg m = {.type = MSG_FAULT, .u.fault = {.status = -ENOSPC, .what = "persist"}}, back;
    uint8_t frame[WIRE_MSG_BYTES];
    ck_assert_int_eq(wire_get_msg(frame, wire_put_msg(frame, &m), &back), 0);
    ck_assert_int_eq(back.u.fault.status, -ENOSPC);
    ck_assert_str_eq(back.u.fault.what, "persist");
}
END_TEST

START_TEST(bad_frames_are_refused)
{
    struct msg m = {.type = MSG_TOKEN}, back;
    struct wire_head h;
    uint8_t good[WIRE_MSG_BYTES], bad[WIRE_MSG_BYTES];
    size_t len = wire_put_msg(good, &m);
    memcpy(bad, good, len);
    bad[2] = MSG_VERSION + 1;
    ck_assert_int_eq(wire_get_msg(bad, len, &back), -EPROTONOSUPPORT);
    ck_assert_int_eq(wire_get_head(bad, 4, &h), -EPROTONOSUPPORT);
    ck_assert_uint_eq(h.version, MSG_VERSION + 1);
    memcpy(bad, good, len);
    bad[0] = 'x';
    ck_assert_int_eq(wire_get_msg(bad, len, &back), -EPROTO);
    memcpy(bad, good, len);
    bad[6] = 1;
    ck_assert_int_eq(wire_get_msg(bad, len, &back), -EPROTO);
    for (unsigned type = 0; type < 256; type++) {
        memcpy(bad, good, len);
        bad[4] = (uint8_t)type;
        int rc = wire_get_msg(bad, len, &back);
        bool good_length = type >= MSG_FIRST_TOKEN && type <= MSG_DURABLE;
        ck_assert_int_eq(rc, good_length ? 0 : -EPROTO);
    }
    m.type = MSG_FAULT;
    len = wire_put_msg(bad, &m);
    memset(bad + WIRE_HEAD_BYTES + 12, 'a', 64);
    ck_assert_int_eq(wire_get_msg(bad, len, &back), -EPROTO);
    m.type = 0;
    ck_assert_uint_eq(wire_put_msg(bad, &m), 0);
    m.type = WIRE_HELLO;
    ck_assert_uint_eq(wire_put_msg(bad, &m), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wire");
    TCase *t = tcase_create("wire");
    tcase_add_loop_test(t, frame_has_every_field, 0, N_SIZES);
    tcase_add_loop_test(t, frame_length_must_fit, 0, N_SIZES);
    tcase_add_test(t, start_message_byte_for_byte);
    tcase_add_test(t, negative_status_survives);
    tcase_add_test(t, bad_frames_are_refused);
    suite_add_tcase(s, t);
    return run_suite(s);
}
