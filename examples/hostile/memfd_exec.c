// tries: run a program that never was in any directory: copy it into a memory file and execute that
// must: die; code from memory is how a second stage hides from every scanner of files
// expect: exit=121 status=killed_by_policy verdict=violated rule=memory-exec/kill stdout-lacks="ran from memory"
// control: exit=0 stdout-has="ran from memory"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

int main(void)
{
    int memory = memfd_create("stage2", MFD_CLOEXEC);
    int program = open("/bin/echo", O_RDONLY);
    if (memory < 0 || program < 0) {
        perror("prepare");
        return 1;
    }
    while (sendfile(memory, program, NULL, 1 << 20) > 0)
        ;
    char *arguments[] = {"echo", "ran from memory", NULL};
    fexecve(memory, arguments, environ);
    perror("fexecve");
    return 1;
}
