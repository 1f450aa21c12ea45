// tries: start threads without end in one process
// must: be ended when it passes 50 tasks; threads count like processes
// expect: exit=122 status=limit_exceeded verdict=suspicious within=20s
// control: skipped, it would take the machine down
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(void)
{
    char name[64] = "";
    if (gethostname(name, sizeof name - 1) != 0 || strcmp(name, "jail") != 0) {
        fputs("refused: this is no jail\n", stderr);
        return 64;
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (;;) {
        pthread_t thread;
        pthread_create(&thread, &small, wait_for_ever, NULL);
    }
}
