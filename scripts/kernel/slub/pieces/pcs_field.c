	struct slab_sheaf *remote; /* other nodes' objects, one sheaf a node */
