// tries: swap a file for a symbolic link to /etc/shadow, again and again, while another thread opens it
// must: die at the first open that really reaches /etc/shadow
// expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
// expect: stdout-lacks=root:
// control: exit=0 stdout-has=root:
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/race-XXXXXX";
static atomic_int done;

static void *swap_names(void *unused)
{
    while (!done)
        renameat2(AT_FDCWD, "innocent", AT_FDCWD, "link", RENAME_EXCHANGE);
    return unused;
}

static int prepare(void)
{
    if (mkdtemp(directory) == NULL || chdir(directory) != 0)
        return -1;
    int file = open("innocent", O_WRONLY | O_CREAT, 0600);
    if (file < 0 || write(file, "harmless\n", 9) != 9)
        return -1;
    close(file);
    return symlink("/etc/shadow", "link");
}

int main(void)
{
    if (prepare() != 0) {
        perror("prepare");
        return 1;
    }
    pthread_t swapper;
    pthread_create(&swapper, NULL, swap_names, NULL);
    int status = 1;
    for (int attempt = 0; attempt < 1000000 && status != 0; attempt++) {
        char buffer[4096];
        int file = open("innocent", O_RDONLY);
        ssize_t size = read(file, buffer, sizeof buffer);
        if (size > 0 && memcmp(buffer, "harmless", 8) != 0)
            status = write(STDOUT_FILENO, buffer, size) < 0;
        close(file);
    }
    done = 1;
    pthread_join(swapper, NULL);
    unlink("innocent");
    unlink("link");
    rmdir(directory);
    return status;
}
