// tries: leave the jail through the namespaces of its first process or of its parent
// must: not get a namespace to join
// expect: exit=1 status=exited verdict=violated rule=nested-namespace/deny stdout-lacks=joined
// control: exit=0 stdout-has=joined
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static int join_that_of(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", process);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0) {
        perror(path);
        // A number that is no descriptor: the call itself is the attempt.
        namespace = 1000;
    }
    if (setns(namespace, 0) != 0) {
        perror("setns");
        return 0;
    }
    printf("joined %s\n", path);
    return 1;
}

int main(void)
{
    int joined = join_that_of(1);
    joined += join_that_of(getppid());
    return joined == 0;
}
