// tries: open /etc/shadow through the x32 table, the same calls under numbers with bit 30 set
// must: die by SIGSYS, whether or not this kernel has the table
// expect: exit=159 status=signaled verdict=suspicious signal=31 stdout-lacks=root:
// control: skipped, few kernels are built with the x32 table
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { X32_BIT = 0x40000000 };

int main(void)
{
    long file = syscall(X32_BIT | SYS_openat, AT_FDCWD, "/etc/shadow", O_RDONLY);
    if (file < 0) {
        perror("x32 openat");
        return 1;
    }
    char buffer[4096];
    ssize_t size = read((int)file, buffer, sizeof buffer);
    return write(STDOUT_FILENO, buffer, size) < 0;
}
