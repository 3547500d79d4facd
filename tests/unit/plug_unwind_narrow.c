/* SPDX-License-Identifier: MIT */
/* link: none */
/* A function that calls back; plug_unwind_wide.c is the same code with another frame. */
#ifndef PLUG_BYTES /* its instructions are as long for each multiple of 256 */
#define PLUG_BYTES 0x400
#endif

void plug_call(void (*call)(void *), void *arg);

__attribute__((noinline)) void plug_call(void (*call)(void *), void *arg)
{
    volatile char room[PLUG_BYTES];

    room[0] = 1;
    call(arg);
    (void)room[0];
}
