// tries: start cat through the dynamic loader, so that the program's name is never given to execve
// must: die at the start of the loader: strict allows no second program, whatever its name
// profile: strict
// expect: exit=121 status=killed_by_policy verdict=violated rule=no-exec/kill stdout-lacks=root: stdout-lacks=jail:
// control: exit=0 stdout-has=root:
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    execl("/lib64/ld-linux-x86-64.so.2", "ld.so", "/bin/cat", "/etc/passwd", (char *)NULL);
    perror("execl");
    return 1;
}
