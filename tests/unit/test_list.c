/* SPDX-License-Identifier: MIT */
#include "base/list.h"
#include "support/test.h"

struct item {
    int before;
    struct list link;
    int value;
};

/* The values from the head on, as decimal digits; both directions must agree. */
static long digits(const struct list *head)
{
    long forward = 0, backward = 0, place = 1;

    for (const struct list *l = head->next; l != head; l = l->next)
        forward = forward * 10 + LIST_ENTRY(l, struct item, link)->value;
    for (const struct list *l = head->prev; l != head; l = l->prev, place *= 10)
        backward += place * LIST_ENTRY(l, struct item, link)->value;
    assert_int_equal(forward, backward);
    return forward;
}

TEST(order_of_adding)
{
    struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
    struct list head;

    list_init(&head);
    assert_true(list_empty(&head));
    list_add(&head, &a.link);
    list_add(&head, &b.link);
    list_add_tail(&head, &c.link);
    assert_false(list_empty(&head));
    assert_int_equal(digits(&head), 213);
}

TEST(removing_unlinks)
{
    struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
    struct list head;

    list_init(&head);
    assert_false(list_linked(&a.link));
    list_add_tail(&head, &a.link);
    list_add_tail(&head, &b.link);
    list_add_tail(&head, &c.link);
    assert_true(list_linked(&b.link));
    list_remove(&b.link);
    assert_false(list_linked(&b.link));
    assert_int_equal(digits(&head), 13);
    list_remove(&c.link);
    assert_int_equal(digits(&head), 1);
    list_add(&head, &b.link); /* what was removed can be added again */
    assert_int_equal(digits(&head), 21);
    list_remove(&a.link);
    list_remove(&b.link);
    assert_true(list_empty(&head));
}
