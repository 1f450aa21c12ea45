// tries: get at the host's tree with open_tree and move_mount, the calls that replace mount
// must: die
// expect: exit=121 status=killed_by_policy verdict=violated rule=mount/kill stdout-lacks=cloned
// control: exit=0 stdout-has=cloned
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLONE_THE_TREE = 1, RECURSIVE = 0x8000 };

int main(void)
{
    if (syscall(SYS_open_tree, AT_FDCWD, "/", CLONE_THE_TREE | RECURSIVE) < 0) {
        perror("open_tree");
        return 1;
    }
    puts("cloned the tree of mounts");
    return 0;
}
