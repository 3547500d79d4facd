/* SPDX-License-Identifier: MIT */
/* labels: long */
/* timeout: 300 */
/* A minute of it. */
#define SECONDS 60
#include "stress/test_signals.c"
