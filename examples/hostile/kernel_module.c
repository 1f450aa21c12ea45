// tries: load a kernel module
// must: die
// expect: exit=121 status=killed_by_policy verdict=violated rule=kernel-module/kill stdout-lacks=loaded
// control: skipped, a module that loads runs in the host's kernel
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    static char image[4096] = "\177ELF";
    if (syscall(SYS_init_module, image, sizeof image, "") != 0) {
        perror("init_module");
        return 1;
    }
    puts("loaded");
    return 0;
}
