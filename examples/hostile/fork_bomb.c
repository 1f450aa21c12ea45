// tries: fork without end, each child as well
// must: be ended when it passes 50 processes; none of them is left
// run: ./fork_bomb {marker}
// expect: exit=122 status=limit_exceeded verdict=suspicious within=20s survivors=none
// control: skipped, it would take the machine down
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char name[64] = "";
    if (gethostname(name, sizeof name - 1) != 0 || strcmp(name, "jail") != 0) {
        fputs("refused: this is no jail\n", stderr);
        return 64;
    }
    for (;;)
        fork();
}
