/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Intrusive doubly linked list with a sentinel head. Nodes are owned by the structs that embed
 * them. */
#ifndef DUALPATH_BASE_LIST_H
#define DUALPATH_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_add_head(struct list *head, struct list *node)
{
    node->prev = head;
    node->next = head->next;
    head->next->prev = node;
    head->next = node;
}

/* Unlinks node and leaves it as an empty list, so that a second removal is harmless. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Moves all nodes, in their order, from one list to the empty one; from is empty then. */
static inline void list_move_all(struct list *from, struct list *to)
{
    if (list_empty(from)) {
        return;
    }
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    list_init(from);
}

/* First node, or NULL when the list is empty. */
static inline struct list *list_first(const struct list *head)
{
    return list_empty(head) ? NULL : head->next;
}

#define list_for_each(pos, head)                                                                   \
    for (struct list *pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_safe(pos, tmp, head)                                                         \
    for (struct list *pos = (head)->next, *tmp = pos->next; pos != (head);                         \
         pos = tmp, tmp = pos->next)

#endif
