// Keeps COUNT processes alive at once; the last one opens /etc/shadow.
//
//   many COUNT
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void act(void)
{
    printf("%d live\n", getpid());
    fflush(stdout);
    if (open("/etc/shadow", O_RDONLY) >= 0)
        puts("opened");
    fflush(stdout);
    _exit(0);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    long most = atol(arguments[1]);
    for (long number = 1; number <= most; number++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            if (number == most)
                act();
            pause();
        }
        if (number == most)
            waitpid(child, NULL, 0);
    }
    return 0;
}
