// tries: leave a message for a later run in the kernel's keyring, which no namespace splits
// must: not be able to
// expect: exit=1 status=exited verdict=suspicious rule=kernel-keyring/deny stdout-lacks=left
// control: exit=0 stdout-has=left
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESS_KEYRING = -2 };

int main(void)
{
    if (syscall(SYS_add_key, "user", "turnkey-demo", "message", 7, PROCESS_KEYRING) < 0) {
        perror("add_key");
        return 1;
    }
    puts("left a key");
    return 0;
}
