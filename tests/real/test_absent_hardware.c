/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * dualpath run on a machine that lacks what the run needs: exit status 77, a message that names it,
 * no result. What is missing is taken away here: an RDMA device by asking for one of a name that
 * none has, io_uring by a seccomp filter as containers have it, 3FS by an ordinary directory.
 */
#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_suite.h"

#define NO_SECCOMP 125 /* exit status of a child that cannot have a filter */

static char out[4096], errors[16384];

/* The system call fails with this errno from now on, in what is executed as well. */
static int refuse(unsigned call, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void read_all(FILE *f, char *text, size_t size)
{
    rewind(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
}

/* Exit status of a real run with these settings; io_uring fails with an errno, if one is given. */
static int run_without(const char *first, const char *second, unsigned uring_errno)
{
    FILE *o = tmpfile(), *e = tmpfile();
    ck_assert(o && e);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fileno(o), 1);
        dup2(fileno(e), 2);
        if (uring_errno && refuse(SYS_io_uring_setup, uring_errno)) {
            _exit(NO_SECCOMP);
        }
        execl(getenv("DUALPATH"), "dualpath", "run", "scenarios/loopback.json", "--backend", "real",
              "--set", first, "--set", second, (char *)NULL);
        _exit(126);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    read_all(o, out, sizeof(out));
    read_all(e, errors, sizeof(errors));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void check_named(int status, const char *what)
{
    ck_assert_msg(status == 77, "exit status %d: %s", status, errors);
    ck_assert_str_eq(out, "");
    const char *last = strstr(errors, "dualpath: prefill node ");
    last = last ? last : strstr(errors, "dualpath: decode node ");
    ck_assert_msg(last && strstr(last, what), "\"%s\" is not told: %s", what, errors);
}

START_TEST(an_rdma_device)
{
    int status = run_without("hw.transport=verbs", "hw.rdma_device=none0", 0);
#ifdef HAVE_VERBS
    check_named(status, "no RDMA device none0 with an active port (found ");
#else
    check_named(status, "built without libibverbs");
#endif
}
END_TEST

START_TEST(a_3fs)
{
    int status = run_without("hw.storage=usrbio", "hw.heads=1", 0);
#ifdef HAVE_USRBIO
    check_named(status, "is not on a mounted 3FS");
#else
    check_named(status, "this program was built without 3FS USRBIO");
#endif
}
END_TEST

static const struct {
    unsigned error;
    const char *text;
} refusals[] = {
    {EPERM, "no io_uring on this machine: Operation not permitted"},
    {ENOSYS, "no io_uring on this machine: Function not implemented"},
};

START_TEST(io_uring)
{
    int status = run_without("hw.transport=tcp", "hw.heads=1", refusals[_i].error);
    if (status == NO_SECCOMP) {
        printf("io_uring: cannot be taken away, no seccomp filters here\n");
        return;
    }
    check_named(status, refusals[_i].text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("absent hardware");
    TCase *t = tcase_create("absent hardware");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, an_rdma_device);
    tcase_add_test(t, a_3fs);
    tcase_add_loop_test(t, io_uring, 0, 2);
    suite_add_tcase(s, t);
    return run_suite(s);
}
