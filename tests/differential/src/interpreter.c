// Runs a program of system calls as `encode.rs` writes it, and makes no other ones than it says but
// for those that start, join and end. No library: what runs is what the program names.
//
// interpreter STRAND: with strand 0 it waits for a byte on standard input first, until observers are
// there. Without a strand it ends at once.

typedef unsigned long u64;
typedef unsigned int u32;

// Where the program, and what its threads share, lie: `encode.rs` puts these numbers into arguments.
#define PROGRAM 0x10000000UL
#define PROGRAM_SIZE 0x400000UL
#define PROGRAM_OWN 0x200000UL
#define SHARED 0x20000000UL
#define SHARED_SIZE 0x100000UL
#define STACKS 0x30000000UL
#define STACK_SIZE 0x4000UL
#define STACK_COUNT 64UL

#define SLOTS ((volatile u64 *)SHARED)

enum { END, CALL, SPAWN, EXEC, FLIP, LAZY };

struct op {
    u32 kind;
    u32 out;
    u64 number;
    u32 slots; // Which arguments are the results of calls before.
    u32 times;
    u64 arguments[6];
};

struct header {
    u64 strands;
    u64 begins[64]; // Of each strand: its first operation, in bytes.
};

static int threads;
static u64 stacks;

static inline __attribute__((always_inline)) long call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    long result;
    register u64 r10 asm("r10") = d;
    register u64 r8 asm("r8") = e;
    register u64 r9 asm("r9") = f;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

static void run(u64 strand);

// What a spawned task does; never returns.
static __attribute__((noreturn, used)) void child(u64 strand, u64 flags) {
    if (!(flags & 0x100))
        threads = 0;
    run(strand);
    if (flags & 0x10000) {
        __atomic_fetch_sub(&threads, 1, __ATOMIC_SEQ_CST);
        for (;;)
            call(60, 0, 0, 0, 0, 0, 0);
    }
    // Both ends of a process, and codes that can be told apart.
    for (;;)
        call(strand & 1 ? 60 : 231, strand, 0, 0, 0, 0, 0);
}

// clone(2) with a stack of its own for who shares memory: the child goes on in `child`.
static long spawn(u64 flags, u64 strand) {
    u64 stack = 0;
    if (flags & 0x100) {
        u64 index = __atomic_fetch_add(&stacks, 1, __ATOMIC_SEQ_CST) % STACK_COUNT;
        stack = STACKS + (index + 1) * STACK_SIZE - 64;
    }
    long result;
    register u64 r10 asm("r10") = 0;
    register u64 r8 asm("r8") = 0;
    register u64 r12 asm("r12") = strand;
    register u64 r13 asm("r13") = flags;
    asm volatile("syscall\n"
                 "test %%eax, %%eax\n"
                 "jnz 1f\n"
                 "xor %%ebp, %%ebp\n"
                 "and $-16, %%rsp\n"
                 "mov %%r12, %%rdi\n"
                 "mov %%r13, %%rsi\n"
                 "call child\n"
                 "1:\n"
                 : "=a"(result)
                 : "a"(56), "D"(flags), "S"(stack), "d"(0), "r"(r10), "r"(r8), "r"(r12), "r"(r13)
                 : "rcx", "r11", "memory");
    return result;
}

static void digits(char *text, u64 number) {
    text[0] = '0' + number / 10 % 10;
    text[1] = '0' + number % 10;
    text[2] = 0;
}

static long become(const struct op *op) {
    char strand[3];
    digits(strand, op->arguments[5]);
    char *arguments[3] = {"i", strand, 0};
    char *environment[1] = {0};
    // By the path, or by the descriptor of a slot.
    if (op->number == 322)
        return call(322, SLOTS[op->arguments[1]], op->arguments[0], (u64)arguments, (u64)environment, op->arguments[2], 0);
    return call(op->number, op->arguments[0], (u64)arguments, (u64)environment, 0, 0, 0);
}

static u64 value(const struct op *op, int index) {
    u64 argument = op->arguments[index];
    if (!(op->slots >> index & 1))
        return argument;
    u64 result = SLOTS[argument & 63];
    u64 high = argument >> 32;
    return high ? (result & 0xffffffffUL) | high << 32 : result;
}

static void flip(const struct op *op) {
    volatile char *at = (volatile char *)op->arguments[0];
    for (u64 round = 0; round < op->arguments[3]; round++) {
        *at = round & 1 ? op->arguments[2] : op->arguments[1];
        for (volatile int pause = 0; pause < 20; pause++) {
        }
    }
}

static void run(u64 strand) {
    const struct header *header = (const struct header *)PROGRAM;
    const struct op *op = (const struct op *)(PROGRAM + header->begins[strand & 63]);
    for (; op->kind != END; op++) {
        long result = 0;
        switch (op->kind) {
        case CALL:
            for (u32 time = 0; time < op->times; time++)
                result = call(op->number, value(op, 0), value(op, 1), value(op, 2), value(op, 3), value(op, 4), value(op, 5));
            break;
        case SPAWN:
            if (op->arguments[0] & 0x10000)
                __atomic_fetch_add(&threads, 1, __ATOMIC_SEQ_CST);
            result = spawn(op->arguments[0], op->arguments[1]);
            if (result < 0 && op->arguments[0] & 0x10000)
                __atomic_fetch_sub(&threads, 1, __ATOMIC_SEQ_CST);
            break;
        case EXEC:
            result = become(op);
            break;
        case FLIP:
            flip(op);
            break;
        case LAZY:
            // A private page that was written has no other copy: it goes back to the file's, not there yet.
            result = call(28, op->arguments[0], 4096, 4, 0, 0, 0);
            break;
        }
        if (op->out < 64)
            SLOTS[op->out] = result;
    }
    // A thread's processes are waited for by who waits last.
    u64 pause[2] = {0, 500000};
    for (int round = 0; round < 4000 && strand == 0 && __atomic_load_n(&threads, __ATOMIC_SEQ_CST) > 0; round++)
        call(35, (u64)pause, 0, 0, 0, 0, 0);
}

static void handler(int signal) {
    (void)signal;
}

static __attribute__((naked, used)) void restorer(void) {
    asm volatile("mov $15, %eax\nsyscall\n");
}

// What the kernel takes: handler, flags, restorer, mask.
static void handle(int signal, u64 flags) {
    u64 action[4] = {(u64)handler, 0x04000000UL | flags, (u64)restorer, 0};
    call(13, signal, (u64)action, 0, 8, 0, 0);
}

static __attribute__((used, noreturn)) void start(u64 *stack) {
    u64 strand = 99;
    if (stack[0] >= 2) {
        const char *text = (const char *)stack[2];
        strand = text[1] ? (text[0] - '0') * 10 + text[1] - '0' : text[0] - '0';
    }
    char go;
    if (strand == 0)
        call(0, 0, (u64)&go, 1, 0, 0, 0);
    if (strand < 64) {
        handle(14, 0);          // SIGALRM
        handle(10, 0x10000000); // SIGUSR1, with SA_RESTART
        handle(13, 0x10000000); // SIGPIPE
        long file = call(257, -100, (u64) "/workspace/.program", 0, 0, 0, 0);
        call(9, PROGRAM, PROGRAM_SIZE, 3, 0x12, file, 0);
        // Pages of its own: what is written to in a large page of a file takes all the others in it away.
        for (u64 page = PROGRAM; page < PROGRAM + PROGRAM_OWN; page += 4096) {
            volatile char *byte = (volatile char *)page;
            *byte = *byte;
        }
        call(9, SHARED, SHARED_SIZE, 3, 0x31, -1, 0);
        call(9, STACKS, STACK_SIZE * STACK_COUNT, 3, 0x32, -1, 0);
        run(strand);
        // Whoever waits for ever is not waited for.
        u64 pause[2] = {0, 500000};
        for (int round = 0; round < 1000; round++) {
            long ended = call(61, -1, 0, 0x40000001, 0, 0, 0);
            if (ended < 0 && ended != -4)
                break;
            if (ended == 0)
                call(35, (u64)pause, 0, 0, 0, 0, 0);
        }
    }
    for (;;)
        call(strand & 1 ? 60 : 231, strand, 0, 0, 0, 0, 0);
}

__attribute__((naked)) void _start(void) {
    asm volatile("mov %rsp, %rdi\nand $-16, %rsp\ncall start\n");
}
