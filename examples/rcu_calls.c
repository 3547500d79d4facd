/* SPDX-License-Identifier: MIT */
/* The calls of rcu.h and urcu.h that rcu_readers.c leaves out: the other flavour, objects of any cache, and a barrier. */
#include <urcu-qsbr.h>

#include <stook/kmalloc.h>
#include <stook/rcu.h>
#include <stook/stook.h>
#include <stook/urcu.h>

int main(void)
{
    void *object;

    if (stook_urcu_use_qsbr() != 0)
        return 1;
    urcu_qsbr_register_thread();
    object = stook_kmalloc(100, 0);
    if (!object)
        return 1;
    stook_free_any_rcu(object); /* once no reader can have it */
    urcu_qsbr_quiescent_state();
    urcu_qsbr_thread_offline();
    stook_rcu_barrier(); /* all that was deferred before is free */
    urcu_qsbr_thread_online();
    urcu_qsbr_unregister_thread();
    return 0;
}
