// tries: read a variable out of its parent's memory with process_vm_readv
// must: die; the value never comes out
// expect: exit=121 status=killed_by_policy verdict=violated rule=process-injection/kill
// expect: stdout-lacks="found 271828"
// control: exit=0 stdout-has="found 271828"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int secret = 271828;

static int read_from(pid_t parent)
{
    int copy = 0;
    struct iovec local = {&copy, sizeof copy}, remote = {&secret, sizeof secret};
    if (process_vm_readv(parent, &local, 1, &remote, 1, 0) < 0) {
        perror("process_vm_readv");
        return 1;
    }
    printf("found %d\n", copy);
    return 0;
}

int main(void)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        // From here on only the parent has it.
        secret = 0;
        int status = read_from(parent);
        fflush(stdout);
        _exit(status);
    }
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
