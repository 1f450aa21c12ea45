// A storm of processes, each of which starts itself anew, forks, and ends, so that no number stands
// for the same process for long. One of them opens /etc/shadow.
//
//   storm NAME              NAME tells these processes from others
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 8, GENERATION_OF_THE_ACT = 40 };

static void go_on(const char *name, int line, int generation)
{
    char number[2][16];
    snprintf(number[0], sizeof number[0], "%d", line);
    snprintf(number[1], sizeof number[1], "%d", generation);
    execl("/proc/self/exe", "storm", name, number[0], number[1], (char *)NULL);
    _exit(1);
}

int main(int count, char **arguments)
{
    if (count == 2) {
        for (int line = 0; line < LINES; line++)
            if (fork() == 0)
                go_on(arguments[1], line, 0);
        sleep(60);
        return 0;
    }
    int line = atoi(arguments[2]), generation = atoi(arguments[3]);
    if (line == 0 && generation == GENERATION_OF_THE_ACT && open("/etc/shadow", O_RDONLY) >= 0)
        write(STDOUT_FILENO, "opened\n", 7);
    // The child goes on; this one is gone before anybody can look.
    if (fork() == 0)
        go_on(arguments[1], line, generation + 1);
    return 0;
}
