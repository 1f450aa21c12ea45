// tries: mount a file system of its own over /tmp
// must: die
// expect: exit=121 status=killed_by_policy verdict=violated rule=mount/kill stdout-lacks=mounted
// control: skipped, it would hide the host's /tmp
#include <stdio.h>
#include <sys/mount.h>

int main(void)
{
    if (mount("none", "/tmp", "tmpfs", 0, NULL) != 0) {
        perror("mount");
        return 1;
    }
    puts("mounted");
    return 0;
}
