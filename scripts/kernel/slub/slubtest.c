// SPDX-License-Identifier: GPL-2.0
/*
 * slubtest.c - kernel threads that allocate and free objects of one cache on chosen CPUs.
 *
 * Built in, it runs before init does.  slubtest.runs lists runs, MODE:SHIFT:HOW[,...]; each has a cache of its
 * own, and its counters are then in /sys/kernel/slab/slubtest-MODE-SHIFT-HOW.  Each of 16 producers (CPUs 1, 3,
 * ... 31) allocates in bursts of 32 with up to 128 in flight, and queues each burst for a consumer.  An object
 * says whether it is out: one that is handed out twice, or freed twice, is counted as an error.
 *
 *   pairs    the consumer of the producer on CPU p is on CPU (p - 1 + SHIFT) % 32
 *   one      all consumers are on one node, on its CPUs SHIFT and SHIFT + 2
 *   random   each burst goes to a random consumer of those of `pairs`
 *   local    a producer frees its own burst
 *
 *   free     kmem_cache_free(); rcu: kfree_rcu(); bulk: kmem_cache_alloc_bulk() and kmem_cache_free_bulk()
 *
 * slubtest.per is the number of objects of each producer.  Writing to
 * /sys/module/slubtest/parameters/finish destroys the caches.
 */
#include <linux/completion.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "slubtest."

#define PAIRS 16
#define BURST 32
#define FLIGHT 128

#define RUNS 16

static char *runs = "pairs:0:free";
static unsigned int per = 30016;
module_param(runs, charp, 0444);
module_param(per, uint, 0444);

/* Of the present run */
static char mode[16], how[16];
static unsigned int shift;

struct object {
	union {
		struct llist_node queued;
		struct rcu_head rcu;
	};
	unsigned int producer;
	unsigned int out;
	char rest[232];
};

struct pair {
	struct llist_head queue;
	atomic_t flight;
	struct completion produced, consumed;
};

static struct kmem_cache *cache, *caches[RUNS];
static struct pair pairs[PAIRS];
static atomic_t errors, left;

static void object_init(void *p)
{
	((struct object *)p)->out = 0;
}

static void object_taken(struct object *o, unsigned int producer)
{
	if (xchg(&o->out, 1))
		atomic_inc(&errors);
	o->producer = producer;
}

static void object_freed(struct object *o)
{
	if (xchg(&o->out, 0) != 1)
		atomic_inc(&errors);
}

static void take(void **o, unsigned int producer)
{
	if (!strcmp(how, "bulk")) {
		while (!kmem_cache_alloc_bulk(cache, GFP_KERNEL, BURST, o))
			cond_resched();
	} else {
		for (int k = 0; k < BURST; k++) {
			o[k] = kmem_cache_alloc(cache, GFP_NOWAIT | __GFP_NOWARN);
			if (!o[k])
				o[k] = kmem_cache_alloc(cache, GFP_KERNEL | __GFP_NOFAIL);
		}
	}
	for (int k = 0; k < BURST; k++)
		object_taken(o[k], producer);
}

/* All of a batch are marked first: a freed object is another's at once. */
static void give(void **o, int n)
{
	for (int k = 0; k < n; k++)
		object_freed(o[k]);
	if (!strcmp(how, "bulk")) {
		kmem_cache_free_bulk(cache, n, o);
		return;
	}
	for (int k = 0; k < n; k++) {
		struct object *object = o[k];

		if (!strcmp(how, "rcu"))
			kfree_rcu(object, rcu);
		else
			kmem_cache_free(cache, object);
	}
}

static int produce(void *data)
{
	struct pair *p = data;
	unsigned int self = p - pairs;
	void *o[BURST];

	for (unsigned int done = 0; done < per; done += BURST) {
		struct pair *to = p;

		if (!strcmp(mode, "local")) {
			take(o, self);
			give(o, BURST);
			cond_resched();
			continue;
		}
		if (!strcmp(mode, "random"))
			to = &pairs[get_random_u32_below(PAIRS)];
		while (atomic_read(&p->flight) + BURST > FLIGHT)
			cond_resched();
		take(o, self);
		atomic_add(BURST, &p->flight);
		for (int k = 0; k < BURST; k++)
			llist_add(&((struct object *)o[k])->queued, &to->queue);
		cond_resched();
	}
	complete(&p->produced);
	return 0;
}

static int consume(void *data)
{
	struct pair *p = data;

	while (atomic_read(&left) > 0) {
		struct llist_node *list = llist_del_all(&p->queue);
		void *o[BURST];
		int n = 0;

		if (!list)
			cond_resched();
		list = list ? llist_reverse_order(list) : NULL;
		while (list) {
			struct object *object = llist_entry(list, struct object, queued);

			list = list->next;
			atomic_dec(&pairs[object->producer].flight);
			o[n++] = object;
			if (n < BURST && list)
				continue;
			give(o, n);
			atomic_sub(n, &left);
			n = 0;
		}
	}
	complete(&p->consumed);
	return 0;
}

static int consumer_cpu(int i)
{
	if (!strcmp(mode, "one"))
		return shift + i % 2 * 2;
	return (2 * i + shift) % (2 * PAIRS);
}

static int __init run(void)
{
	bool local = !strcmp(mode, "local");
	char *name = kasprintf(GFP_KERNEL, "slubtest-%s-%u-%s", mode, shift, how);

	cache = kmem_cache_create(name, sizeof(struct object), 0,
				  SLAB_HWCACHE_ALIGN | SLAB_TYPESAFE_BY_RCU | SLAB_NO_MERGE,
				  object_init);
	if (!cache)
		return -ENOMEM;
	atomic_set(&left, PAIRS * DIV_ROUND_UP(per, BURST) * BURST);
	for (int i = 0; i < PAIRS; i++) {
		init_llist_head(&pairs[i].queue);
		init_completion(&pairs[i].produced);
		init_completion(&pairs[i].consumed);
	}
	for (int i = 0; i < PAIRS; i++) {
		if (!local)
			wake_up_process(kthread_create_on_cpu(consume, &pairs[i],
							      consumer_cpu(i), "consume/%u"));
		wake_up_process(kthread_create_on_cpu(produce, &pairs[i], 2 * i + 1,
						      "produce/%u"));
	}
	for (int i = 0; i < PAIRS; i++) {
		wait_for_completion(&pairs[i].produced);
		if (!local)
			wait_for_completion(&pairs[i].consumed);
	}
	if (!strcmp(how, "rcu"))
		kvfree_rcu_barrier();
	pr_err("%s: %d objects, %d errors\n", name, PAIRS * DIV_ROUND_UP(per, BURST) * BURST,
	       atomic_xchg(&errors, 0));
	return 0;
}

static int __init slubtest(void)
{
	char *list = runs, *one;

	for (int i = 0; i < RUNS && (one = strsep(&list, ",")); i++) {
		if (sscanf(one, "%15[^:]:%u:%15s", mode, &shift, how) != 3 || run())
			pr_err("slubtest: no run '%s'\n", one);
		else
			caches[i] = cache;
	}
	return 0;
}
late_initcall(slubtest);

static int finish(const char *value, const struct kernel_param *param)
{
	for (int i = 0; i < RUNS; i++) {
		kmem_cache_destroy(caches[i]);
		caches[i] = NULL;
	}
	pr_err("slubtest: destroyed\n");
	return 0;
}

static const struct kernel_param_ops finish_ops = { .set = finish };
module_param_cb(finish, &finish_ops, NULL, 0200);
