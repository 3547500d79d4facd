
/*
 * The node that a cpu's local objects are of: its own, or the nearest one with
 * memory. Where numa_mem_id() is only a wrapper to numa_node_id(), the nearest
 * one is looked up in slab_homes[], which may be out of date for a moment around
 * memory hotplug. That is harmless: an object is then merely cached for a node
 * that is not the best one.
 */
#if defined(CONFIG_SLUB_REMOTE_SHEAVES) && !defined(CONFIG_HAVE_MEMORYLESS_NODES)
static int slab_homes[MAX_NUMNODES] __read_mostly;

static inline int slab_home_node(void)
{
	return READ_ONCE(slab_homes[numa_node_id()]);
}

static void slab_update_homes(void)
{
	int node;

	for_each_online_node(node) {
		struct zoneref *z;

		z = first_zones_zonelist(node_zonelist(node, GFP_KERNEL),
					 gfp_zone(GFP_KERNEL), NULL);
		WRITE_ONCE(slab_homes[node],
			   zonelist_zone(z) ? zonelist_node_idx(z) : node);
	}
}
#else
static inline int slab_home_node(void)
{
	return numa_mem_id();
}

static inline void slab_update_homes(void) { }
#endif

/*
 * Get the barn of the current cpu's home node. It is the same as get_barn()
 * unless the cpu's node is memoryless.
 */
static inline struct node_barn *get_home_barn(struct kmem_cache *s)
{
	if (!IS_ENABLED(CONFIG_SLUB_REMOTE_SHEAVES))
		return get_barn(s);

	return get_barn_node(s, slab_home_node());
}
