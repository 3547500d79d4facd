static void __pcs_flush_remote(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	while (sheaf) {
		struct slab_sheaf *next = sheaf->next_remote;

		sheaf_flush_unused(s, sheaf);
		free_empty_sheaf(s, sheaf);
		sheaf = next;
	}
}

static void pcs_flush_remote(struct kmem_cache *s)
{
	struct slub_percpu_sheaves *pcs;
	struct slab_sheaf *remote;

	local_lock(&s->cpu_sheaves->lock);
	pcs = this_cpu_ptr(s->cpu_sheaves);

	remote = pcs->remote;
	pcs->remote = NULL;

	local_unlock(&s->cpu_sheaves->lock);

	__pcs_flush_remote(s, remote);
}

