// tries: make a user namespace, to be root there and reach the kernel's rarely tested corners
// must: get none, neither by unshare nor by clone
// expect: exit=1 status=exited verdict=violated rule=nested-namespace/deny stdout-lacks=made
// control: exit=0 stdout-has="made by unshare" stdout-has="made by clone"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int by_clone(void)
{
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(0);
    if (child < 0) {
        perror("clone");
        return 0;
    }
    waitpid((pid_t)child, NULL, 0);
    puts("made by clone");
    return 1;
}

static int by_unshare(void)
{
    if (unshare(CLONE_NEWUSER) != 0) {
        perror("unshare");
        return 0;
    }
    puts("made by unshare");
    return 1;
}

int main(void)
{
    int made = by_clone();
    made += by_unshare();
    return made == 0;
}
