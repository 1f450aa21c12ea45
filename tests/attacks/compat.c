// Reads a file with calls of another table than the CPU's own: ia32 through its gate, x32
// by the bit in the number.
//
//   compat ia32|x32 PATH
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IA32_READ = 3, IA32_OPEN = 5, X32_BIT = 0x40000000 };

static long ia32(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    // Where 32 bits reach.
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strncpy(page, arguments[2], 4095);
    char *buffer = page + 4096;
    long size;
    if (strcmp(arguments[1], "ia32") == 0) {
        long file = ia32(IA32_OPEN, (long)page, 0, 0);
        size = ia32(IA32_READ, file, (long)buffer, 4096);
    } else {
        long file = syscall(X32_BIT | SYS_open, page, 0, 0);
        size = syscall(X32_BIT | SYS_read, file, buffer, 4096);
    }
    return size < 0 || write(STDOUT_FILENO, buffer, size) < 0;
}
