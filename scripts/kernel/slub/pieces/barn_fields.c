	/* The following are hints, written without the lock */
	unsigned int limit; /* of full sheaves, see barn_limit() */
	unsigned int refused; /* full sheaves since one was taken */
	bool bounced; /* a full sheaf was refused since the last miss */
