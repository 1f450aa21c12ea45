// Makes one call with its arguments on pages that are not in memory when the call begins. The
// kernel brings them in while it copies; who only looks, without a fault, sees nothing.
//
//   lazy open|openat2|exec PATH
//   lazy unmapped -             five calls with pointers that lead nowhere
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

// A mapping of these bytes in which no page has been touched.
static void *untouched(const void *bytes, size_t size)
{
    char name[] = "/tmp/page-XXXXXX";
    int file = mkstemp(name);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) {
        perror("page");
        exit(1);
    }
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return page;
}

static int lazily_opened(const char *call, const char *path)
{
    const char *name = untouched(path, strlen(path) + 1);
    if (strcmp(call, "open") == 0)
        return (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0);
    struct open_how how = {.flags = O_RDONLY};
    return (int)syscall(SYS_openat2, AT_FDCWD, name, untouched(&how, sizeof how), sizeof how);
}

static int show(int file)
{
    char buffer[4096];
    if (file < 0) {
        printf("failed %d\n", errno);
        return 1;
    }
    ssize_t size = read(file, buffer, sizeof buffer);
    return write(STDOUT_FILENO, buffer, size) < 0;
}

static void tell(long answer)
{
    printf("%d\n", answer < 0 ? errno : 0);
}

static int lead_nowhere(void)
{
    // The first bytes of a path, and no page behind them.
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + PAGE, PAGE);
    char *cut = pages + PAGE - 4;
    memcpy(cut, "/etc", 4);
    tell(syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY, 0));
    tell(syscall(SYS_openat, AT_FDCWD, cut, O_RDONLY, 0));
    tell(syscall(SYS_execve, NULL, NULL, NULL));
    tell(syscall(SYS_execve, cut, NULL, NULL));
    tell(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)(pages + PAGE), 16));
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    char *const echo[] = {"echo", "executed", NULL};
    if (strcmp(arguments[1], "unmapped") == 0)
        return lead_nowhere();
    if (strcmp(arguments[1], "exec") == 0)
        return execv(untouched(arguments[2], strlen(arguments[2]) + 1), echo);
    return show(lazily_opened(arguments[1], arguments[2]));
}
