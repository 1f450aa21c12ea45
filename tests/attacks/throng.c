// Keeps COUNT processes alive at once, as cheap as they come; the last one opens /etc/shadow.
//
//   throng COUNT
//
// Families of them share memory, files and a stack that none of them uses. Each is a process of its
// own all the same: the kernel knows it by its own number, and its parent waits for it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAMILY = 250 };
enum { SHARED = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD };

static char stack[64] __attribute__((aligned(16)));

// A process that does nothing but wait for signals.
static long idler(void)
{
    long child;
    register long fourth __asm__("r10") = 0;
    register long fifth __asm__("r8") = 0;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 2f\n"
                     "1:\tmov %[pause], %%eax\n\t"
                     "syscall\n\t"
                     "jmp 1b\n"
                     "2:"
                     : "=a"(child)
                     : "a"((long)SYS_clone), "D"((long)SHARED), "S"(stack + sizeof stack), "d"(0L),
                       "r"(fourth), "r"(fifth), [pause] "i"(SYS_pause)
                     : "rcx", "r11", "memory");
    return child;
}

static void act(void)
{
    printf("%d live\n", getpid());
    fflush(stdout);
    if (open("/etc/shadow", O_RDONLY) >= 0)
        puts("opened");
    fflush(stdout);
    _exit(0);
}

// One of the families: idlers who share all that can be shared, with their parent. A family is small
// because the kernel, when the owner of a memory dies, looks for the next one among its siblings: of
// a hundred thousand, that would be five thousand million looks.
static void family(long members)
{
    pid_t head = fork();
    if (head < 0)
        perror("fork"), _exit(1);
    if (head > 0)
        return;
    for (long number = 1; number < members; number++) {
        long child = idler();
        if (child < 0)
            fprintf(stderr, "process %ld of a family: %ld\n", number, child), _exit(1);
    }
    for (;;)
        pause();
}

// The numbers of a jail's processes go up by one: when this one has been given, the others live.
static void wait_for(long process)
{
    while (kill(process, 0) != 0)
        usleep(10000);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    long most = atol(arguments[1]);
    long own = getpid();
    for (long begun = 1; begun < most; begun += FAMILY)
        family(most - begun < FAMILY ? most - begun : FAMILY);
    wait_for(own + most - 1);
    pid_t last = fork();
    if (last == 0)
        act();
    waitpid(last, NULL, 0);
    return 0;
}
