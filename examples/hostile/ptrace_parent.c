// tries: take over its parent as a debugger does
// must: die
// expect: exit=121 status=killed_by_policy verdict=violated rule=process-injection/kill stdout-lacks=attached
// control: exit=0 stdout-has=attached
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int attach_to(pid_t target)
{
    if (ptrace(PTRACE_ATTACH, target, NULL, NULL) != 0) {
        perror("ptrace");
        return 1;
    }
    waitpid(target, NULL, __WALL);
    printf("attached to %d\n", target);
    fflush(stdout);
    ptrace(PTRACE_DETACH, target, NULL, NULL);
    return 0;
}

int main(void)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0)
        _exit(attach_to(parent));
    int status;
    while (waitpid(child, &status, 0) < 0)
        ;
    return WEXITSTATUS(status);
}
