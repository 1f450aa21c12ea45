// A thread opens a harmless file, and another closes the descriptor before anybody can look at it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static int next;
static atomic_int done;

static void *closer(void *unused)
{
    while (!atomic_load(&done))
        close(next);
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t other;
    // The number that the next open gets.
    next = open("/dev/null", O_RDONLY);
    close(next);
    pthread_create(&other, NULL, closer, NULL);
    for (int opens = atoi(arguments[count - 1]); opens > 0; opens--)
        close(open("harmless", O_RDONLY));
    atomic_store(&done, 1);
    pthread_join(other, NULL);
    return 0;
}
