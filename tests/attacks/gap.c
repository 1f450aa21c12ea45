// Opens and reads a file that kills whoever opens it, at a moment when another task of the CPU
// has been interrupted in the middle of one of the monitor's programs.
//
//   gap hammer LINK SECONDS        opens LINK all the time, and gives way whenever somebody wants to
//   gap steal LINK SECRET MILLIS   the same, and after MILLIS another thread opens SECRET and prints it
//   gap alone LINK SECRET MILLIS   opens SECRET and prints it after MILLIS, and nothing else
//
// LINK leads to a file with a path as long as can be: what looks at it takes its time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8 };

static const char *busy;

static void only_the_first_cpu(void)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0)
        _exit(3);
}

static void *hammer(void *unused)
{
    (void)unused;
    struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        _exit(4);
    for (;;) {
        int file = open(busy, O_RDONLY);
        if (file < 0)
            _exit(5);
        close(file);
    }
    return NULL;
}

static void pause_for(long millis, long nanos)
{
    struct timespec pause = {millis / 1000, millis % 1000 * 1000000 + nanos};
    nanosleep(&pause, NULL);
}

static int steal(const char *path, long millis)
{
    // It runs as soon as it wakes, whoever runs then.
    pause_for(millis, 137777 * (millis % 7));
    int file = open(path, O_RDONLY);
    char secret[64];
    ssize_t length = file < 0 ? -1 : read(file, secret, sizeof secret);
    if (length > 0)
        length = write(1, secret, length);
    return length > 0 ? 0 : 6;
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    only_the_first_cpu();
    busy = arguments[2];
    int hammers = strcmp(arguments[1], "hammer") == 0;
    int alone = strcmp(arguments[1], "alone") == 0;
    for (int thread = 0; !alone && thread < THREADS; thread++) {
        pthread_t id;
        if (pthread_create(&id, NULL, hammer, NULL) != 0)
            return 7;
    }
    if (!hammers)
        return steal(arguments[3], atol(arguments[4]));
    puts("hammers");
    fflush(stdout);
    pause_for(atol(arguments[3]) * 1000, 0);
    return 0;
}
