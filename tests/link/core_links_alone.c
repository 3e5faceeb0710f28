/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Linked with the whole of base, model, datapath and sched and nothing else (meson.build), on a
 * driver of the test's own: that this program exists is the test; that the loop runs shows that its
 * only outside need is the driver table.
 */
#include <stdio.h>

#include "base/loop.h"

struct fake_driver {
    struct loop_driver driver;
    uint64_t now_ns;
};

static uint64_t fake_now_ns(struct loop_driver *d)
{
    return container_of(d, struct fake_driver, driver)->now_ns;
}

static int fake_wait(struct loop_driver *d, uint64_t deadline_ns)
{
    container_of(d, struct fake_driver, driver)->now_ns = deadline_ns;
    return 0;
}

static const struct loop_driver_ops fake_driver_ops = {fake_now_ns, fake_wait};

static unsigned n_fired;

static void count(struct loop_timer *t)
{
    (void)t;
    n_fired++;
}

int main(void)
{
    struct fake_driver fake = {.driver = {&fake_driver_ops}};
    struct loop loop;
    if (loop_init(&loop, &fake.driver, 0)) {
        return 1;
    }
    struct loop_timer timer = {.fire = count};
    loop_arm(&loop, &timer, 5 * 1000);
    int rc = loop_run(&loop);
    uint64_t end_ns = loop_now_ns(&loop);
    loop_done(&loop);
    printf("fired %u, ended at %llu ns\n", n_fired, (unsigned long long)end_ns);
    return rc == 0 && n_fired == 1 && end_ns == 5000 ? 0 : 1;
}
