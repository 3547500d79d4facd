/* SPDX-License-Identifier: MIT */
/* labels: long */
/* timeout: 1800 */
/* Forty times as much. */
#define ROUNDS 40
#include "stress/test_signals.c"
