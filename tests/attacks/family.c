// Makes a descendant in one way, and lets it open /etc/shadow.
//
//   family WAY...
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[65536] __attribute__((aligned(16)));

// How many have acted and live, in memory of the whole family.
static volatile int *acted;

static int act(void *unused)
{
    (void)unused;
    if (open("/etc/shadow", O_RDONLY) >= 0)
        write(STDOUT_FILENO, "opened\n", 7);
    __sync_fetch_and_add(acted, 1);
    return 0;
}

// Whoever leaves first takes the others along, however long they need to come to act.
static void wait_for(int count)
{
    for (int patience = 0; *acted < count && patience < 2000; patience++)
        usleep(10000);
}

static void *act_in_thread(void *unused)
{
    act(unused);
    return unused;
}

static void by_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, act_in_thread, NULL);
    pthread_join(thread, NULL);
}

static void by_daemon(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            // Nobody is left of the family.
            usleep(50000);
            act(NULL);
        }
        _exit(0);
    }
}

static void by_vfork(void)
{
    if (vfork() == 0) {
        act(NULL);
        _exit(0);
    }
}

static void by_fork(void)
{
    if (fork() == 0) {
        act(NULL);
        _exit(0);
    }
}

// A child of the jail's init from the start.
static void by_sibling(void) { clone(act, stack + sizeof stack, CLONE_PARENT | SIGCHLD, NULL); }

// Another process in the same memory, with no signal at its end.
static void by_shared_memory(void) { clone(act, stack + sizeof stack, CLONE_VM | CLONE_FILES, NULL); }

// Straight into another group.
static void by_group(void)
{
    int group = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY);
    struct clone_args arguments = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)group};
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0) {
        act(NULL);
        _exit(0);
    }
    printf("no group: %d\n", errno);
    // Nobody will act.
    if (child < 0)
        __sync_fetch_and_add(acted, 1);
}

static const struct {
    const char *name;
    void (*make)(void);
} ways[] = {
    {"thread", by_thread},
    {"fork", by_fork},
    {"vfork", by_vfork},
    {"daemon", by_daemon},
    {"sibling", by_sibling},
    {"shared-memory", by_shared_memory},
    {"group", by_group},
};

int main(int count, char **arguments)
{
    acted = mmap(NULL, sizeof *acted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int index = 1; index < count; index++) {
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
            if (strcmp(arguments[index], ways[way].name) == 0)
                ways[way].make();
        wait_for(index);
    }
    puts("lived");
    return 0;
}
