/* J07: two names that change places all the time, as fast as their owner can.
 * flip PLACE OTHER COUNT: COUNT is a file of eight bytes, in which the turns are counted.
 * Ends at SIGTERM, with PLACE what it was in the beginning. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

static volatile sig_atomic_t stop;

static void asked(int signal) {
    (void)signal;
    stop = 1;
}

int main(int count, char **argument) {
    if (count != 4 || signal(SIGTERM, asked) == SIG_ERR) return 2;
    int file = open(argument[3], O_RDWR);
    volatile uint64_t *turns =
        mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (turns == MAP_FAILED) return 3;
    while (!stop || *turns % 2 == 1) {
        if (renameat2(AT_FDCWD, argument[1], AT_FDCWD, argument[2], RENAME_EXCHANGE)) return 4;
        *turns += 1;
    }
    return 0;
}
