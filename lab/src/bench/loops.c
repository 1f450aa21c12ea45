// What `cargo lab bench` runs, bare and in jails: one kind of work, many times.
//
//   loops KIND COUNT [ARGUMENTS]
//
// prints how many nanoseconds one took, on average. It measures itself, so that starting it does not count.
//
//   loops floor KIND COUNT [ARGUMENTS]
//
// does the same while the kernel calls a program that does nothing at the entry and the exit of every system
// call: nobody who looks at calls there can cost less.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void sleep_until(uint64_t moment) {
    struct timespec time = {(time_t)(moment / 1000000000), (long)(moment % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
    }
}

// Always the same file.
static void open_one(char **arguments) {
    int file = open(arguments[0], O_RDONLY);
    must(file >= 0, arguments[0]);
    close(file);
}

static void stat_one(char **arguments) {
    struct stat status;
    must(stat(arguments[0], &status) == 0, arguments[0]);
}

// The cheapest call there is, so that what is added to every call shows.
static void getppid_one(char **arguments) {
    (void)arguments;
    syscall(SYS_getppid);
}

static void mmap_one(char **arguments) {
    (void)arguments;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    munmap(memory, 4096);
}

static void spawn_one(char **arguments) {
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    int status = 0;
    must(waitpid(child, &status, 0) == child, "waitpid");
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0, arguments[0]);
}

static int listener = -1;
static struct sockaddr_in address;

static void listen_on_loopback(void) {
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    must(listener >= 0, "socket");
    must(bind(listener, (struct sockaddr *)&address, length) == 0, "bind");
    must(listen(listener, 16) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
}

// Reset at the end: a connection that is closed in order keeps its port for a minute.
static void connect_one(char **arguments) {
    struct linger at_once = {1, 0};
    (void)arguments;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    must(client >= 0, "socket");
    must(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    int server = accept(listener, NULL, NULL);
    must(server >= 0, "accept");
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(client);
    close(server);
}

static int open_files;

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)place;
    if (open_files && kind == FTW_F) {
        int file = open(path, O_RDONLY);
        must(file >= 0, path);
        close(file);
    }
    return 0;
}

static void walk_one(char **arguments) {
    must(nftw(arguments[0], visit, 64, FTW_PHYS) == 0, arguments[0]);
}

// Every open names another file, so that none is a repetition; RATE of them in a second, 0 for all that go.
static uint64_t flood_alone(unsigned milliseconds, unsigned rate) {
    uint64_t start = now(), end = start + (uint64_t)milliseconds * 1000000, made = 0;
    char path[64];
    while (now() < end) {
        for (int batch = 0; batch < 32; batch++, made++) {
            snprintf(path, sizeof path, "/tmp/none-%d-%llu", getpid(), (unsigned long long)made);
            int file = open(path, O_RDONLY);
            must(file < 0, path);
        }
        if (rate > 0) {
            sleep_until(start + made * 1000000000 / rate);
        }
    }
    return made;
}

// flood MILLISECONDS RATE PROCESSES [FORBIDDEN]: says that it begins; says how many opens there were and how
// many nanoseconds they took; then opens the forbidden file.
static int flood(unsigned milliseconds, char **arguments) {
    unsigned rate = (unsigned)atoi(arguments[0]), processes = (unsigned)atoi(arguments[1]);
    uint64_t *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(made != MAP_FAILED, "mmap");
    puts("begins");
    fflush(stdout);
    uint64_t start = now();
    for (unsigned number = 0; number < processes; number++) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            made[number] = flood_alone(milliseconds, rate / processes);
            _exit(0);
        }
    }
    uint64_t sum = 0;
    for (unsigned number = 0; number < processes; number++) {
        must(wait(NULL) >= 0, "wait");
    }
    for (unsigned number = 0; number < processes; number++) {
        sum += made[number];
    }
    printf("%llu %llu\n", (unsigned long long)sum, (unsigned long long)(now() - start));
    fflush(stdout);
    if (arguments[2] != NULL) {
        open(arguments[2], O_RDONLY);
        puts("lived");
    }
    return 0;
}

// offend COUNT FORBIDDEN: the file is opened by one of COUNT processes, all of which would live long.
static int offend(unsigned count, char **arguments) {
    for (unsigned number = 1; number < count; number++) {
        if (fork() == 0) {
            sleep(60);
            _exit(0);
        }
    }
    // So that all of them sleep.
    usleep(20000);
    open(arguments[0], O_RDONLY);
    for (int call = 0; call < 1000; call++) {
        syscall(SYS_getppid);
    }
    puts("lived");
    return 0;
}

struct kind {
    const char *name;
    void (*once)(char **);
};

static const struct kind KINDS[] = {
    {"open", open_one},   {"stat", stat_one},       {"getppid", getppid_one}, {"mmap", mmap_one},
    {"spawn", spawn_one}, {"connect", connect_one}, {"walk", walk_one},       {"read", walk_one},
};

static int measure(const struct kind *kind, unsigned count, char **arguments) {
    open_files = strcmp(kind->name, "read") == 0;
    if (kind->once == connect_one) {
        listen_on_loopback();
    }
    uint64_t start = now();
    for (unsigned number = 0; number < count; number++) {
        kind->once(arguments);
    }
    printf("%.1f\n", (double)(now() - start) / count);
    return 0;
}

static int bpf(int what, union bpf_attr *about) {
    return (int)syscall(SYS_bpf, what, about, sizeof *about);
}

// Until this process ends.
static void attach_nothing(const char *tracepoint) {
    // return 0
    static const struct bpf_insn program[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr load = {0}, attach = {0};
    load.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
    load.insn_cnt = sizeof program / sizeof *program;
    load.insns = (uint64_t)(uintptr_t)program;
    load.license = (uint64_t)(uintptr_t)"GPL";
    attach.raw_tracepoint.name = (uint64_t)(uintptr_t)tracepoint;
    attach.raw_tracepoint.prog_fd = (uint32_t)bpf(BPF_PROG_LOAD, &load);
    must((int)attach.raw_tracepoint.prog_fd >= 0, "bpf");
    must(bpf(BPF_RAW_TRACEPOINT_OPEN, &attach) >= 0, tracepoint);
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "floor") == 0) {
        attach_nothing("sys_enter");
        attach_nothing("sys_exit");
        words++;
        count--;
    }
    if (count < 3) {
        fprintf(stderr, "usage: loops KIND COUNT [ARGUMENTS]\n");
        return 2;
    }
    unsigned number = (unsigned)strtoul(words[2], NULL, 10);
    if (strcmp(words[1], "flood") == 0 && count >= 5) {
        return flood(number, words + 3);
    }
    if (strcmp(words[1], "offend") == 0 && count >= 4) {
        return offend(number, words + 3);
    }
    for (size_t index = 0; index < sizeof KINDS / sizeof *KINDS; index++) {
        if (strcmp(words[1], KINDS[index].name) == 0) {
            return measure(&KINDS[index], number, words + 3);
        }
    }
    fprintf(stderr, "loops: no such kind: %s\n", words[1]);
    return 2;
}
