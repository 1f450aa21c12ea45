// Opens /etc/shadow with its very first instructions: no loader, no library, no start-up code.
#include <sys/syscall.h>

static long call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
}

void _start(void)
{
    if (call(SYS_open, (long)"/etc/shadow", 0, 0) >= 0)
        call(SYS_write, 1, (long)"opened\n", 7);
    call(SYS_exit_group, 0, 0, 0);
}
