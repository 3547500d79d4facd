/*
 * With each full sheaf that a barn refuses, one goes that it has beyond its limit,
 * since the limit was lowered.
 */
static void barn_trim(struct kmem_cache *s, struct node_barn *barn)
{
	struct slab_sheaf *sheaf = NULL;
	unsigned long flags;

	if (data_race(barn->nr_full) <= barn_limit(barn))
		return;

	spin_lock_irqsave(&barn->lock, flags);

	if (barn->nr_full > barn_limit(barn)) {
		sheaf = list_last_entry(&barn->sheaves_full, struct slab_sheaf,
					barn_list);
		list_del(&sheaf->barn_list);
		barn->nr_full--;
	}

	spin_unlock_irqrestore(&barn->lock, flags);

	if (sheaf) {
		sheaf_flush_unused(s, sheaf);
		barn_put_empty_sheaf(barn, sheaf);
	}
}

/*
 * As barn_replace_empty_sheaf(), and a cpu of a memoryless node goes on to the
 * barn of its home node.
 */
static struct slab_sheaf *
home_replace_empty_sheaf(struct node_barn *barn, struct slab_sheaf *empty,
			 bool allow_spin)
{
	struct kmem_cache *s = empty->cache;
	struct node_barn *home = get_home_barn(s);
	struct slab_sheaf *full;

	full = barn_replace_empty_sheaf(barn, empty, allow_spin);
	if (!full) {
		barn_missed(s, barn);
		if (!home || home == barn)
			return NULL;

		barn = home;
		full = barn_replace_empty_sheaf(barn, empty, allow_spin);
		if (!full) {
			barn_missed(s, barn);
			return NULL;
		}
	}

	barn_taken(barn);
	return full;
}

/*
 * As barn_replace_full_sheaf(), and what the barn of a memoryless node has no
 * room for goes on to the barn of its home node. -ENOMEM still means that there
 * is room in the given barn.
 */
static struct slab_sheaf *
home_replace_full_sheaf(struct node_barn *barn, struct slab_sheaf *full,
			bool allow_spin)
{
	struct node_barn *home = get_home_barn(full->cache);
	struct slab_sheaf *empty;

	empty = barn_replace_full_sheaf(barn, full, allow_spin);
	if (empty != ERR_PTR(-E2BIG))
		return empty;

	barn_refused(barn);
	if (!home || home == barn)
		return empty;

	empty = barn_replace_full_sheaf(home, full, allow_spin);
	if (empty == ERR_PTR(-E2BIG))
		barn_refused(home);
	if (!IS_ERR(empty) || !allow_spin)
		return empty;

	/* room there but no empty sheaf to exchange, perhaps there is one here */
	if (empty == ERR_PTR(-ENOMEM)) {
		empty = barn_get_empty_sheaf(barn, true);
		if (empty) {
			barn_put_full_sheaf(home, full);
			return empty;
		}
	}

	return ERR_PTR(-E2BIG);
}

/*
 * A full sheaf that is about to be flushed goes to the home's barn instead, if
 * that has room and only lacked an empty sheaf to exchange. Returns an empty
 * sheaf then, else the same.
 */
static struct slab_sheaf *home_put_full_sheaf(struct kmem_cache *s,
					      struct slab_sheaf *full)
{
	struct node_barn *home = get_home_barn(s);
	struct slab_sheaf *empty;

	if (!home || home == get_barn(s) ||
	    data_race(home->nr_full) >= barn_limit(home))
		return full;

	empty = alloc_empty_sheaf(s, __GFP_NOWARN, SLAB_ALLOC_DEFAULT);
	if (!empty)
		return full;

	barn_put_full_sheaf(home, full);
	stat(s, BARN_PUT);
	return empty;
}

