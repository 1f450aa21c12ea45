// tries: open /etc/shadow through the 32-bit gate (int 0x80), where every call has another number
// must: die by SIGSYS in the first 32-bit call
// expect: exit=159 status=signaled verdict=suspicious signal=31 stdout-lacks=root:
// control: exit=0 stdout-has=root:
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPEN_IN_THE_32_BIT_TABLE = 5 };

static long call_32(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

int main(void)
{
    // The gate takes 32-bit pointers, so the path has to lie low.
    char *path = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(path, "/etc/shadow");
    long file = call_32(OPEN_IN_THE_32_BIT_TABLE, (long)(intptr_t)path, O_RDONLY, 0);
    if (file < 0) {
        fprintf(stderr, "int 0x80: %s\n", strerror((int)-file));
        return 1;
    }
    char buffer[4096];
    ssize_t size = read((int)file, buffer, sizeof buffer);
    return write(STDOUT_FILENO, buffer, size) < 0;
}
