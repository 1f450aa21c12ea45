// tries: open /etc/shadow with openat2, a call that older monitors do not know
// must: die as with any other open
// expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill
// expect: stdout-lacks=root:
// control: exit=0 stdout-has=root:
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_NO_MAGICLINKS};
    long file = syscall(SYS_openat2, AT_FDCWD, "/etc/shadow", &how, sizeof how);
    if (file < 0) {
        perror("openat2");
        return 1;
    }
    char buffer[4096];
    ssize_t size = read((int)file, buffer, sizeof buffer);
    return write(STDOUT_FILENO, buffer, size) < 0;
}
