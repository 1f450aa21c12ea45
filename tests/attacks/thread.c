// A thread that is not the first asks for root and becomes another program.
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *act(void *unused)
{
    // The call itself: the library would have every thread make it.
    if (syscall(SYS_setuid, 0) == 0)
        puts("became root");
    char *const echo[] = {"echo", "executed", NULL};
    execv("/usr/bin/echo", echo);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, act, NULL);
    pthread_join(thread, NULL);
    return 1;
}
