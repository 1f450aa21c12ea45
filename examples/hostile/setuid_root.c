// tries: become root, by setuid, by setresuid, and by setgid for the group
// must: stay who it is; asking is suspicious and no more, because programs do it to give rights up
// expect: exit=1 status=exited verdict=suspicious rule=change-of-user/log stdout-lacks="now root"
// expect: stderr-lacks="it had its effect"
// control: exit=0 stdout-has="now root"
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

static int report(const char *how, int result)
{
    if (result != 0) {
        perror(how);
        return 0;
    }
    printf("now root by %s\n", how);
    return 1;
}

int main(void)
{
    int succeeded = report("setuid", setuid(0));
    succeeded += report("setresuid", setresuid(0, 0, 0));
    succeeded += report("setgid", setgid(0));
    return succeeded == 0;
}
