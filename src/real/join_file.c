/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/join_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"

#define SCHEMA     "dualpath/join/1"
#define BEAT_NS    (500 * NS_PER_MS)
#define SILENCE_NS (10 * NS_PER_S)

static int allocate(struct join_file *j, uint32_t n_nodes, struct err *err)
{
    *j = (struct join_file){.n_nodes = n_nodes};
    j->keys = calloc(n_nodes, sizeof(*j->keys));
    j->guests = calloc(n_nodes, sizeof(*j->guests));
    return j->keys && j->guests ? 0 : err_nomem(err);
}

static void name_guest(struct join_file *j, uint32_t node)
{
    memcpy(j->guests[node].public_key, j->keys[node].public_key, CURVE_KEY_CHARS);
    snprintf(j->guests[node].name, sizeof(j->guests[node].name), "node%u", node);
}

int join_file_init(struct join_file *j, uint32_t n_nodes, struct err *err)
{
    int rc = allocate(j, n_nodes, err);
    rc = rc ? rc : curve_keypair_new(&j->hub, err);
    for (uint32_t i = 0; i < n_nodes && rc == 0; i++) {
        rc = curve_keypair_new(&j->keys[i], err);
        name_guest(j, i);
    }
    j->beat_ns = BEAT_NS;
    j->silence_ns = SILENCE_NS;
    if (rc) {
        join_file_done(j);
    }
    return rc;
}

void join_file_done(struct join_file *j)
{
    free(j->keys);
    free(j->guests);
    j->keys = NULL;
    j->guests = NULL;
}

static json_t *to_json(const struct join_file *j)
{
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < j->n_nodes; i++) {
        json_array_append_new(nodes, json_pack("{s:s, s:s}", "public_key", j->keys[i].public_key,
                                               "secret_key", j->keys[i].secret_key));
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o}", "schema", SCHEMA, "hub", j->hub_endpoint,
                     "hub_public_key", j->hub.public_key, "beat_ns", (json_int_t)j->beat_ns,
                     "silence_ns", (json_int_t)j->silence_ns, "nodes", nodes);
}

static int fail(struct err *err, const char *path, const char *what)
{
    int code = errno;
    err_at(err, path, 0, 0);
    return err_set(err, -code, "%s: %s", what, strerror(code));
}

int join_file_write(const struct join_file *j, const char *path, struct err *err)
{
    json_t *root = to_json(j);
    if (!root) {
        return err_nomem(err);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? fail(err, path, "cannot create the join file") : 0;
    if (rc == 0 && json_dumpfd(root, fd, JSON_INDENT(1))) {
        rc = fail(err, path, "cannot write the join file");
    }
    if (fd >= 0 && close(fd) && rc == 0) {
        rc = fail(err, path, "cannot write the join file");
    }
    json_decref(root);
    return rc;
}

static int copy_key(char *key, const char *text)
{
    if (!text || strlen(text) != CURVE_KEY_CHARS - 1) {
        return -EINVAL;
    }
    memcpy(key, text, CURVE_KEY_CHARS);
    return 0;
}

static int read_node(struct join_file *j, uint32_t i, const json_t *node, struct err *err)
{
    if (copy_key(j->keys[i].public_key, json_string_value(json_object_get(node, "public_key"))) ||
        copy_key(j->keys[i].secret_key, json_string_value(json_object_get(node, "secret_key")))) {
        err_field(err, "nodes[%u]", i);
        return err_set(err, -EINVAL,
                       "expected public_key and secret_key, 40 characters of Z85 each");
    }
    name_guest(j, i);
    return 0;
}

static int read_nodes(struct join_file *j, const json_t *nodes, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < j->n_nodes && rc == 0; i++) {
        rc = read_node(j, i, json_array_get(nodes, i), err);
    }
    return rc;
}

static int from_json(struct join_file *j, json_t *root, struct err *err)
{
    json_error_t e;
    const char *schema, *hub, *key;
    json_int_t beat, silence;
    json_t *nodes;
    if (json_unpack_ex(root, &e, JSON_STRICT, "{s:s, s:s, s:s, s:I, s:I, s:o}", "schema", &schema,
                       "hub", &hub, "hub_public_key", &key, "beat_ns", &beat, "silence_ns",
                       &silence, "nodes", &nodes)) {
        return err_set(err, -EINVAL, "%s", e.text);
    }
    size_t n = json_array_size(nodes);
    if (strcmp(schema, SCHEMA) != 0 || strlen(hub) >= sizeof(j->hub_endpoint) || beat <= 0 ||
        silence <= beat || n == 0 || n > UINT32_MAX / 2) {
        return err_set(err, -EINVAL,
                       "expected schema " SCHEMA ", a hub, 0 < beat_ns < silence_ns and nodes");
    }
    int rc = allocate(j, (uint32_t)n, err);
    if (rc == 0 && copy_key(j->hub.public_key, key)) {
        err_field(err, "hub_public_key");
        rc = err_set(err, -EINVAL, "expected 40 characters of Z85");
    }
    rc = rc ? rc : read_nodes(j, nodes, err);
    snprintf(j->hub_endpoint, sizeof(j->hub_endpoint), "%s", hub);
    j->beat_ns = (uint64_t)beat;
    j->silence_ns = (uint64_t)silence;
    if (rc) {
        join_file_done(j);
    }
    return rc;
}

static int check_private(int fd, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st)) {
        return fail(err, path, "cannot look at the join file");
    }
    if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        err_at(err, path, 0, 0);
        return err_set(err, -EACCES, "found mode %03o, expected 600: the file holds secret keys",
                       (unsigned)(st.st_mode & 0777));
    }
    return 0;
}

int join_file_read(const char *path, struct join_file *ret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(err, path, "cannot open the join file");
    }
    json_error_t e;
    int rc = check_private(fd, path, err);
    json_t *root = rc ? NULL : json_loadfd(fd, JSON_REJECT_DUPLICATES, &e);
    if (rc == 0 && !root) {
        err_at(err, path, (unsigned)(e.line > 0 ? e.line : 0),
               (unsigned)(e.column > 0 ? e.column : 0));
        rc = err_set(err, -EINVAL, "%s", e.text);
    }
    rc = rc ? rc : from_json(ret, root, err);
    if (rc) {
        err_at(err, path, 0, 0);
    }
    json_decref(root);
    close(fd);
    return rc;
}
