/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The join file: how an agent finds the hub, and the keys of all. Whoever can read it can take part
 * in the run, so it is written for its owner alone. JSON, "schema": "dualpath/join/1".
 */
#ifndef DUALPATH_REAL_JOIN_FILE_H
#define DUALPATH_REAL_JOIN_FILE_H

#include "base/err.h"
#include "hw/curve_socket.h"

struct join_file {
    char hub_endpoint[128];
    struct curve_keypair hub; /* secret_key empty: agents do not get it */
    uint32_t n_nodes;
    struct curve_keypair *keys; /* [n_nodes] */
    struct curve_guest *guests; /* [n_nodes] "node0", ...: the same public keys */
    uint64_t beat_ns, silence_ns;
};

/* Fresh keys for everybody. 0 or negative errno. */
int join_file_init(struct join_file *j, uint32_t n_nodes, struct err *err);
void join_file_done(struct join_file *j);

/* Creates path (it must not exist), mode 0600. */
int join_file_write(const struct join_file *j, const char *path, struct err *err);

/* 0 and *ret (join_file_done()), or negative errno with err naming file and field. A file that
 * others can read is refused. */
int join_file_read(const char *path, struct join_file *ret, struct err *err);

#endif
