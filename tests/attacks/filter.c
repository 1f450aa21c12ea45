// Installs a long seccomp filter, which slows every later call down between the moment a tracer
// looks at its arguments and the moment the kernel does: by either call, each in a child.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 4000 };

static struct sock_filter code[LENGTH];

static int install(int by_seccomp)
{
    struct sock_fprog program = {.len = LENGTH, .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (by_seccomp)
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(void)
{
    for (int at = 0; at < LENGTH - 1; at++)
        code[at] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    code[LENGTH - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (int by_seccomp = 0; by_seccomp < 2; by_seccomp++) {
        if (fork() == 0) {
            if (install(by_seccomp) == 0)
                puts("installed");
            else
                printf("refused %d\n", errno);
            return 0;
        }
        wait(NULL);
    }
    return 0;
}
