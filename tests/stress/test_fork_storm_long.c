/* SPDX-License-Identifier: MIT */
/* needs: native */
/* labels: long */
/* timeout: 1800 */
/* Five thousand children. */
#define FORKS 5000
#include "stress/test_fork_storm.c"
