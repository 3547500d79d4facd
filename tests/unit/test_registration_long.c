/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/* modes: own */
/* labels: long */
/* timeout: 1800 */
/* wrap: raw_call6 dlsym */
/* test_registration.c with 200,000 threads. */
#define REGISTRATION_THREADS 200000
#include "unit/test_registration.c"
