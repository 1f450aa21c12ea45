// tries: rewrite the path argument from a second thread after a monitor read it and before the kernel does
// must: die; the decision rests on the file the kernel opened, not on the argument
// expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
// expect: stdout-lacks=root:
// control: exit=0 stdout-has=root:
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Both names have the same length and differ in the last two bytes only, so every mixture
// that the kernel may see in between is either one of them or a file that does not exist.
static char path[] = "/etc/shadow";
static atomic_int done;

static void *flip(void *unused)
{
    volatile char *end = path + sizeof "/etc/shad" - 1;
    while (!done) {
        end[0] = 'x';
        end[1] = 'x';
        end[0] = 'o';
        end[1] = 'w';
    }
    return unused;
}

int main(void)
{
    pthread_t flipper;
    pthread_create(&flipper, NULL, flip, NULL);
    int status = 1;
    for (int attempt = 0; attempt < 1000000 && status != 0; attempt++) {
        char buffer[4096];
        int file = open(path, O_RDONLY);
        if (file < 0)
            continue;
        ssize_t size = read(file, buffer, sizeof buffer);
        status = write(STDOUT_FILENO, buffer, size) < 0;
        close(file);
    }
    done = 1;
    pthread_join(flipper, NULL);
    return status;
}
