		/* only used for remote sheaves */
		struct slab_sheaf *next_remote;
