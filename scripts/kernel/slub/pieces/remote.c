static struct slab_sheaf **pcs_find_remote(struct slub_percpu_sheaves *pcs,
					   int node)
{
	struct slab_sheaf **at = &pcs->remote;

	while (*at && (*at)->node != node)
		at = &(*at)->next_remote;

	return at;
}

/*
 * Free an object of another node to a percpu sheaf of that node's objects, which
 * goes to the barn of that node when it is full. So the main and spare sheaves
 * and all barns still contain only local objects.
 *
 * The object is expected to have passed slab_free_hook() already. If this returns
 * false it has to be freed to its slab.
 */
static noinline bool free_to_remote(struct kmem_cache *s, struct slab *slab,
				    void *object, bool allow_spin)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *sheaf, *next, **at;
	struct node_barn *barn;
	int node = slab_nid(slab);

	if (!IS_ENABLED(CONFIG_SLUB_REMOTE_SHEAVES) || !cache_has_sheaves(s))
		return false;

	/* a local object was sent here as its slab is pfmemalloc, or by a race */
	if (node == slab_home_node() || unlikely(slab_test_pfmemalloc(slab)))
		return false;

	barn = get_barn_node(s, node);
	if (unlikely(!barn))
		return false;

	if (!local_trylock(&s->cpu_sheaves->lock))
		return false;

	pcs = this_cpu_ptr(s->cpu_sheaves);
	at = pcs_find_remote(pcs, node);

	if (unlikely(!*at)) {
		sheaf = barn_get_empty_sheaf(barn, allow_spin);

		if (!sheaf) {
			local_unlock(&s->cpu_sheaves->lock);

			if (!allow_spin)
				return false;

			/* Don't wake up kswapd, as in __pcs_replace_full_main() */
			sheaf = alloc_empty_sheaf(s, __GFP_NOWARN,
						  SLAB_ALLOC_DEFAULT);
			if (!sheaf)
				return false;

			if (!local_trylock(&s->cpu_sheaves->lock)) {
				barn_put_empty_sheaf(barn, sheaf);
				return false;
			}

			/*
			 * We might have been migrated to a cpu that has a sheaf
			 * for the node. A second one does no harm.
			 */
			pcs = this_cpu_ptr(s->cpu_sheaves);
		}

		sheaf->node = node;
		sheaf->next_remote = pcs->remote;
		pcs->remote = sheaf;
		at = &pcs->remote;
	}

	sheaf = *at;
	sheaf->objects[sheaf->size++] = object;

	if (likely(sheaf->size < s->sheaf_capacity))
		goto out;

	/* barn_list shares its place with next_remote */
	next = sheaf->next_remote;
	*at = barn_replace_full_sheaf(barn, sheaf, allow_spin);

	if (!IS_ERR(*at)) {
		(*at)->node = node;
		(*at)->next_remote = next;
		stat(s, BARN_PUT);
		goto out;
	}

	/* neither barn_put_full_sheaf() nor a flush supports !allow_spin */
	if (unlikely(!allow_spin)) {
		*at = sheaf;
		sheaf->size--;
		local_unlock(&s->cpu_sheaves->lock);
		return false;
	}

	if (*at == ERR_PTR(-E2BIG)) {
		*at = next;
		local_unlock(&s->cpu_sheaves->lock);

		stat(s, BARN_PUT_FAIL);
		barn_refused(barn);
		sheaf_flush_unused(s, sheaf);
		barn_put_empty_sheaf(barn, sheaf);
		barn_trim(s, barn);
	} else {
		/* room but no empty sheaf, the next free will get one */
		*at = next;
		barn_put_full_sheaf(barn, sheaf);
		local_unlock(&s->cpu_sheaves->lock);

		stat(s, BARN_PUT);
	}

	stat(s, FREE_REMOTE);
	return true;

out:
	local_unlock(&s->cpu_sheaves->lock);
	stat(s, FREE_REMOTE);
	return true;
}

