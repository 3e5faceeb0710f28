/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/cards_find.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input/cards.h"
#include "input/json_file.h"

#define SUFFIX ".json"

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Fits the text into dir and says whether it is a directory of shipped files. */
static bool try_dir(char *dir, size_t size, const char *base, const char *rest)
{
    char models[1100];
    int n = snprintf(dir, size, "%s%s", base, rest);
    snprintf(models, sizeof(models), "%s/models", dir);
    return n > 0 && (size_t)n < size && is_directory(models);
}

/* PREFIX/bin/dualpath has its files in PREFIX/share/dualpath/scenarios, wherever PREFIX was moved.
 */
static bool try_beside_executable(char *dir, size_t size)
{
    char exe[1024];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0) {
        return false;
    }
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    return try_dir(dir, size, exe, "/../share/dualpath/scenarios");
}

const char *cards_data_dir(void)
{
    static char dir[1024];
    const char *env = getenv("DUALPATH_DATA");
    if (env && env[0]) {
        return try_dir(dir, sizeof(dir), env, "") ? dir : NULL;
    }
    /* An installed program must not prefer the tree it was once built in, so that comes after. */
    if (try_beside_executable(dir, sizeof(dir)) ||
        try_dir(dir, sizeof(dir), DUALPATH_SOURCE_DATADIR, "") ||
        try_dir(dir, sizeof(dir), DUALPATH_DATADIR, "") ||
        try_dir(dir, sizeof(dir), "./scenarios", "")) {
        return dir;
    }
    return NULL;
}

static int no_data_dir(struct err *err)
{
    const char *env = getenv("DUALPATH_DATA");
    if (env && env[0]) {
        err_field(err, "DUALPATH_DATA");
        return err_set(err, -ENOENT, "%.300s is not a directory of scenarios (no models/ in it)",
                       env);
    }
    return err_set(err, -ENOENT,
                   "the shipped scenarios were not found in %s, %s or ./scenarios; "
                   "set DUALPATH_DATA to their directory",
                   DUALPATH_SOURCE_DATADIR, DUALPATH_DATADIR);
}

static bool has_suffix(const char *name)
{
    size_t n = strlen(name);
    return n > strlen(SUFFIX) && strcmp(name + n - strlen(SUFFIX), SUFFIX) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends the name without its suffix to the NULL-terminated array. */
static int append_name(char ***names, size_t *n, const char *file)
{
    char **more = realloc(*names, (*n + 2) * sizeof(*more));
    if (!more) {
        return -ENOMEM;
    }
    *names = more;
    more[*n] = strndup(file, strlen(file) - strlen(SUFFIX));
    if (!more[*n]) {
        return -ENOMEM;
    }
    more[++*n] = NULL;
    return 0;
}

static int list_names(DIR *dp, char ***names, size_t *n)
{
    const struct dirent *entry;
    int ret = append_name(names, n, SUFFIX); /* makes the array, even when nothing is listed */
    if (ret < 0) {
        return ret;
    }
    free((*names)[0]);
    (*names)[0] = NULL;
    *n = 0;
    while (ret == 0 && (entry = readdir(dp))) {
        if (entry->d_name[0] != '.' && has_suffix(entry->d_name)) {
            ret = append_name(names, n, entry->d_name);
        }
    }
    return ret;
}

int cards_names(const char *kind, char ***ret_names, struct err *err)
{
    char path[1200];
    char **names = NULL;
    size_t n = 0;
    const char *dir = cards_data_dir();
    if (!dir) {
        return no_data_dir(err);
    }
    snprintf(path, sizeof(path), "%s/%s", dir, kind);
    DIR *dp = opendir(path);
    if (!dp) {
        int code = -errno;
        err_at(err, path, 0, 0);
        return err_set(err, code, "cannot list the directory: %s", strerror(-code));
    }
    int ret = list_names(dp, &names, &n);
    closedir(dp);
    if (ret < 0) {
        cards_names_free(names);
        return err_nomem(err);
    }
    qsort(names, n, sizeof(*names), compare_names);
    *ret_names = names;
    return 0;
}

void cards_names_free(char **names)
{
    for (char **name = names; name && *name; name++) {
        free(*name);
    }
    free(names);
}

static const char *kind_noun(const char *kind)
{
    return strcmp(kind, "models") == 0     ? "model"
           : strcmp(kind, "gpus") == 0     ? "GPU"
           : strcmp(kind, "storage") == 0  ? "storage profile"
           : strcmp(kind, "profiles") == 0 ? "calibration profile"
                                           : "scenario";
}

static int unknown_name(const char *kind, const char *name, struct err *err)
{
    char **names, list[400] = "";
    size_t n = 0, at = 0;
    int ret = cards_names(kind, &names, err);
    if (ret < 0) {
        return ret;
    }
    for (; names[n]; n++) {
        if (at < sizeof(list)) {
            at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", n ? ", " : "", names[n]);
        }
    }
    const char *near = nearest_word(name, (const char *const *)names, n);
    if (near) {
        ret =
            err_set(err, -ENOENT, "no %s \"%.60s\" is shipped, did you mean \"%s\"? There are: %s",
                    kind_noun(kind), name, near, list);
    } else {
        ret = err_set(err, -ENOENT,
                      "no %s \"%.60s\" is shipped; there are: %s (or give a .json file)",
                      kind_noun(kind), name, list);
    }
    cards_names_free(names);
    return ret;
}

int cards_find(const char *kind, const char *name_or_path, char *buf, size_t size, struct err *err)
{
    int n;
    bool is_path = strchr(name_or_path, '/') || has_suffix(name_or_path);
    if (is_path) {
        n = snprintf(buf, size, "%s", name_or_path);
    } else {
        const char *dir = cards_data_dir();
        if (!dir) {
            return no_data_dir(err);
        }
        n = snprintf(buf, size, "%s/%s%s%s" SUFFIX, dir, kind, kind[0] ? "/" : "", name_or_path);
    }
    if (n < 0 || (size_t)n >= size) {
        return err_set(err, -ENAMETOOLONG, "the path of \"%.60s...\" is too long", name_or_path);
    }
    if (!is_path && access(buf, R_OK) != 0 && errno == ENOENT) {
        return unknown_name(kind, name_or_path, err);
    }
    return 0;
}
