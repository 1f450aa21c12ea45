// Many threads on one CPU open files, each its own one, and take the CPU from one another
// wherever they are. A thread is called as its file, `denied-N` or `allowed-N`, which is behind a
// symbolic link: only where the link leads shows which of the two it is.
//
//   preempt SECONDS LINKS    LINKS is the directory with the links
//
// Half of the threads are of those that the kernel runs when nobody else wants to, and do nothing but
// open. The others sleep for about a millisecond at a time: when they wake, one of the first gives way.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 32 };

static double end;
static const char *links;
static atomic_long denied, opened, allowed, refused, given_way;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// Its own file, once.
static void attempt(const char *path, int is_denied)
{
    int file = open(path, O_RDONLY);
    if (is_denied) {
        denied++;
        opened += file >= 0;
    } else {
        allowed++;
        refused += file < 0;
    }
    if (file >= 0)
        close(file);
    else if (errno != EPERM)
        _exit(3);
}

static void *work(void *argument)
{
    long number = (long)argument;
    int is_denied = number % 2;
    int sleeps = number < THREADS / 2;
    char name[16], path[4096];
    snprintf(name, sizeof name, "%s-%02ld", is_denied ? "denied" : "allowed", number);
    snprintf(path, sizeof path, "%s/%s", links, name);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_TIMERSLACK, 1);
    struct sched_param none = {0};
    if (!sleeps && sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        _exit(4);
    // Never a multiple of one another's, so that they wake at every moment.
    struct timespec pause = {.tv_nsec = 4000000 + number * 137777};
    while (now() < end) {
        if (sleeps)
            nanosleep(&pause, NULL);
        attempt(path, is_denied);
    }
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    given_way += usage.ru_nivcsw;
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    links = arguments[2];
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0)
        return 5;
    end = now() + atoi(arguments[1]);
    pthread_t threads[THREADS];
    for (long thread = 0; thread < THREADS; thread++)
        if (pthread_create(&threads[thread], NULL, work, (void *)thread) != 0)
            return 6;
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    printf("%ld %ld %ld %ld %ld\n", denied, opened, allowed, refused, given_way);
    return 0;
}
