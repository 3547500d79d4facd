/* SPDX-License-Identifier: MIT */
/* prog_late: what programs do with malloc: threads, and after them children. */
#include "surroundings/exercise.h"

enum { THREADS = 3 };

int main(void)
{
    static struct exercise e[THREADS];
    pthread_t thread[THREADS];
    int status;

    for (unsigned i = 0; i < THREADS; i++) {
        e[i].random = i + 1;
        if (pthread_create(&thread[i], NULL, exercise_thread, &e[i]))
            give_up("a thread cannot be made");
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            exercise_thread(&e[0]);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            give_up("the child did not end well: %d", status);
    }
    say("done 1\n");
    return 0;
}
