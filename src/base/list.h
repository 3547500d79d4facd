/* SPDX-License-Identifier: MIT */
/*
 * list.h - circular doubly linked lists; a link whose next is NULL is on no list.
 */
#ifndef STOOK_BASE_LIST_H
#define STOOK_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline bool list_linked(const struct list *link)
{
    return link->next != NULL;
}

static inline void list_add(struct list *head, struct list *link)
{
    link->next = head->next;
    link->prev = head;
    head->next->prev = link;
    head->next = link;
}

static inline void list_add_tail(struct list *head, struct list *link)
{
    list_add(head->prev, link);
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

#endif
