/* SPDX-License-Identifier: MIT */
/* labels: long */
/* timeout: 900 */
/* Two million forced migrations. */
#define MIGRATIONS 2000000
#include "stress/test_percpu_storm.c"
