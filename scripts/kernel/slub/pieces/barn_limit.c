/*
 * The limit of full sheaves in a barn follows use. What is refused goes to slabs,
 * and if the barn then misses, it would have been needed: the limit grows by one.
 * As many refusals as the limit with none taken in between halve it again.
 *
 * Limit and counts are hints. They are written without the barn's lock, by cpus
 * that are about to go to slabs; a lost update delays a step and nothing else.
 */
static inline unsigned int barn_limit(struct node_barn *barn)
{
	if (!IS_ENABLED(CONFIG_SLUB_BARN_GROWTH))
		return MAX_FULL_SHEAVES;

	return READ_ONCE(barn->limit);
}

static inline void barn_reset_limit(struct node_barn *barn)
{
	WRITE_ONCE(barn->limit, MAX_FULL_SHEAVES);
	WRITE_ONCE(barn->refused, 0);
	WRITE_ONCE(barn->bounced, false);
}

static void barn_missed(struct kmem_cache *s, struct node_barn *barn)
{
	unsigned int limit, most;

	if (!IS_ENABLED(CONFIG_SLUB_BARN_GROWTH) || !READ_ONCE(barn->bounced))
		return;

	WRITE_ONCE(barn->bounced, false);

	most = MAX_GROWN_BYTES / (s->sheaf_capacity * s->size);
	limit = barn_limit(barn);
	if (limit < MAX_GROWN_SHEAVES && limit < most) {
		WRITE_ONCE(barn->limit, limit + 1);
		stat(s, BARN_RAISE);
	}
}

static void barn_refused(struct node_barn *barn)
{
	unsigned int limit, refused;

	if (!IS_ENABLED(CONFIG_SLUB_BARN_GROWTH))
		return;

	if (!READ_ONCE(barn->bounced))
		WRITE_ONCE(barn->bounced, true);

	limit = barn_limit(barn);
	if (limit <= MAX_FULL_SHEAVES)
		return;

	refused = READ_ONCE(barn->refused) + 1;
	if (refused >= limit) {
		WRITE_ONCE(barn->limit, max(limit / 2, MAX_FULL_SHEAVES));
		refused = 0;
	}
	WRITE_ONCE(barn->refused, refused);
}

static void barn_taken(struct node_barn *barn)
{
	if (IS_ENABLED(CONFIG_SLUB_BARN_GROWTH) && READ_ONCE(barn->refused))
		WRITE_ONCE(barn->refused, 0);
}

