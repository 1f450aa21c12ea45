// Locks on every other byte of files, each a piece of the kernel's memory that no control group counts.
//
//   locks PROCESSES FILES LOCKS    so many files in each process, and so many locks on each file; held for a second
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int hold(int process, int files, int locks)
{
    for (int file = 0; file < files; file++) {
        char name[64];
        snprintf(name, sizeof name, "/tmp/locked-%d-%d", process, file);
        int opened = open(name, O_RDWR | O_CREAT, 0600);
        // From behind, so that the kernel finds the place of each at once.
        for (int lock = locks; lock > 0; lock--) {
            struct flock one = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2L * lock, .l_len = 1};
            if (fcntl(opened, F_SETLK, &one) != 0)
                return 1;
        }
    }
    sleep(1);
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    int processes = atoi(arguments[1]), files = atoi(arguments[2]), locks = atoi(arguments[3]);
    for (int process = 0; process < processes; process++)
        if (fork() == 0)
            _exit(hold(process, files, locks));
    int status, failed = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    if (!failed)
        printf("%d each\n", files * locks);
    return failed;
}
