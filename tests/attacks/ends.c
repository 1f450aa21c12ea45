// Processes whose two threads end at the same moment, each by itself, as nobody else of them would end the other.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int started, running;

static void *end(void *unused)
{
    // The other one may be in the queue of this very CPU.
    atomic_fetch_add(&started, 1);
    while (atomic_load(&started) < 2)
        sched_yield();
    atomic_fetch_add(&running, 1);
    while (atomic_load(&running) < 2)
        ;
    // The thread alone: exit_group(2) would end both.
    syscall(SYS_exit, 7);
    return unused;
}

int main(int count, char **arguments)
{
    int many = count > 1 ? atoi(arguments[1]) : 1, ended = 0;
    for (int index = 0; index < many; index++) {
        if (fork() == 0) {
            pthread_t other;
            pthread_create(&other, NULL, end, NULL);
            end(NULL);
        }
        int status;
        wait(&status);
        ended += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    printf("%d ended\n", ended);
    return 0;
}
