// Makes every system call there is, each in a process of its own, with arguments that no call can
// use, and tells what came of it: "TABLE NUMBER OUTCOME VALUE" per line.
//
//   walk all            every number up to LAST, in the tables of x86_64, x32 and ia32
//   walk NUMBER...      these of x86_64
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAST = 600, X32_BIT = 0x40000000 };

enum table { X86_64, X32, IA32 };
static const char *const names[] = {"x86_64", "x32", "ia32"};

// Shared with the process that makes the call.
struct note {
    volatile int answered;
    volatile long value;
};

static long call_64(long number, long first, long others)
{
    long result;
    register long fourth __asm__("r10") = others;
    register long fifth __asm__("r8") = others;
    register long sixth __asm__("r9") = others;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(others), "d"(others), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

static long call_32(long number)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(-1L), "c"(-1L), "d"(-1L), "S"(-1L), "D"(-1L)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static long make(enum table table, long number)
{
    switch (table) {
    case X86_64:
        // Flags of -1 would ask for namespaces.
        return number == SYS_clone ? call_64(number, SIGCHLD, 0) : call_64(number, -1, -1);
    case X32:
        return call_64(X32_BIT | number, -1, -1);
    default:
        return call_32(number);
    }
}

static void in_the_child(struct note *note, enum table table, long number, int patience)
{
    struct itimerval until = {.it_value = {.tv_sec = patience}};
    setitimer(ITIMER_REAL, &until, NULL);
    note->value = make(table, number);
    note->answered = 1;
    call_64(SYS_exit_group, 0, 0);
}

static int attempt(struct note *note, enum table table, long number, int patience)
{
    note->answered = 0;
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0)
        in_the_child(note, table, number, patience);
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
    return status;
}

static void tell(struct note *note, enum table table, long number)
{
    int status = attempt(note, table, number, 1);
    // A machine under load may have let the time pass before the call: once more, with patience.
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        status = attempt(note, table, number, 3);
    printf("%s %ld ", names[table], number);
    if (note->answered)
        printf("answered %ld\n", note->value);
    else if (WIFSIGNALED(status))
        printf("killed %d\n", WTERMSIG(status));
    else
        printf("exited %d\n", WEXITSTATUS(status));
}

int main(int count, char **arguments)
{
    setvbuf(stdout, malloc(1 << 17), _IOFBF, 1 << 17);
    struct note *note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == 2 && strcmp(arguments[1], "all") == 0) {
        for (enum table table = X86_64; table <= IA32; table++)
            for (long number = 0; number <= LAST; number++)
                tell(note, table, number);
    } else {
        for (int index = 1; index < count; index++)
            tell(note, X86_64, atol(arguments[index]));
    }
    return 0;
}
