#!/bin/bash
# SPDX-License-Identifier: MIT
# The libraries call no function of libc's that is a point of cancellation, or may be (POSIX, 2.9.5.2):
# those block, or open and write files.  src/base/raw.h has what they use instead.
set -u
points='open|open64|openat|openat64|creat|creat64|close|close_range|read|pread|pread64|readv|preadv|preadv64'
points+='|write|pwrite|pwrite64|writev|pwritev|pwritev64|fsync|fdatasync|msync|lockf|lockf64|tcdrain'
points+='|nanosleep|clock_nanosleep|usleep|sleep|pause|poll|ppoll|select|pselect|epoll_wait|epoll_pwait'
points+='|wait|wait3|wait4|waitid|waitpid|system|sigpause|sigsuspend|sigtimedwait|sigwait|sigwaitinfo'
points+='|sem_wait|sem_timedwait|sem_clockwait|mq_receive|mq_send|msgrcv|msgsnd|accept|accept4|connect'
points+='|recv|recvfrom|recvmsg|send|sendto|sendmsg|pthread_join|pthread_cond_wait|pthread_cond_timedwait'
points+='|pthread_cond_clockwait|pthread_testcancel|fopen|fopen64|fclose|fread|fwrite|fflush|fgets|fputs'
points+='|printf|puts|putchar|perror|popen|pclose|opendir|readdir|readdir64|closedir|syslog|fallocate|fallocate64'
points+='|posix_fallocate|posix_fallocate64|copy_file_range|splice|tee|vmsplice|sync_file_range'
failed=0
# malloc_stats() and malloc_info() write to a stream of the caller's, as glibc's do.
allowed='fwrite|fprintf'
found() { nm -D --undefined-only "$1" 2>/dev/null | awk '{sub(/@.*/, "", $NF); print $NF}' | grep -xE "$points"; }
# It can fail:
[ "$(found "$(command -v bash)")" ] || { echo "nothing found in bash: this test does not work"; exit 1; }
for library in "${STOOK_BUILD_DIR:?}"/lib/libstook.so "$STOOK_BUILD_DIR"/lib/libstook-malloc.so; do
    [ -e "$library" ] || continue
    for name in $(found "$library" | grep -vxE "$allowed"); do
        echo "$library calls $name, a point of cancellation"
        failed=1
    done
done
exit $failed
