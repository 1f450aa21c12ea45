/* A start of a program with the kernel objects that a jail of turnkey's is made of, and with nothing else: no policy, no
 * proof, no report, no error that is explained. Whoever wants these objects pays at least this.
 *
 *     floor PINS WORKDIR GROUP... -- PROGRAM ARGUMENT...
 *
 * PINS is where programs are loaded for all: the jail is attached to them, and their rings are mapped; with `-` there is no
 * monitor. GROUP is a directory of a control group of which the jail gets a child: the first is of version 2, the others
 * of version 1. Whatever fails ends it, with the number of the line. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As many as `untrusted` has on an ordinary Debian. */
enum { BINDS = 25, RULES = 36, FIRST_FILTER = 336, SECOND_FILTER = 481, MOST_GROUPS = 8 };
/* The programs that guard a group's sockets, by their pins. */
enum { HOOKS = 7 };
static const struct { const char *name; enum bpf_attach_type type; } hooks[HOOKS] = {
    { "connect4", BPF_CGROUP_INET4_CONNECT }, { "connect6", BPF_CGROUP_INET6_CONNECT },
    { "bind4", BPF_CGROUP_INET4_BIND },       { "bind6", BPF_CGROUP_INET6_BIND },
    { "sendmsg4", BPF_CGROUP_UDP4_SENDMSG },  { "sendmsg6", BPF_CGROUP_UDP6_SENDMSG },
    { "sock_create", BPF_CGROUP_INET_SOCK_CREATE },
};
/* As much of a ring as is mapped at first. */
enum { WINDOW = 256 << 10 };

#define MUST(call) must((long)(call), __LINE__)

static long must(long answer, int line)
{
    if (answer < 0) {
        fprintf(stderr, "floor.c:%d: %s\n", line, strerror(errno));
        _exit(99);
    }
    return answer;
}

static char text[4096];

static const char *format(const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    return text;
}

static void put(const char *file, const char *what)
{
    int descriptor = MUST(open(file, O_WRONLY | O_CLOEXEC));
    MUST(write(descriptor, what, strlen(what)));
    close(descriptor);
}

static int pinned(const char *path)
{
    union bpf_attr what = { .pathname = (uintptr_t)path, .file_flags = 0 };
    return MUST(syscall(SYS_bpf, BPF_OBJ_GET, &what, sizeof what));
}

/* The next name in a directory. */
static struct dirent *next_of(DIR *directory)
{
    struct dirent *entry;
    do
        entry = readdir(directory);
    while (entry != NULL && entry->d_name[0] == '.');
    return entry;
}

static DIR *list(const char *path)
{
    DIR *directory = opendir(path);
    MUST(directory == NULL ? -1 : 0);
    return directory;
}

static void open_all(const char *pins, const char *kind)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", pins, kind);
    DIR *directory = list(path);
    for (struct dirent *entry; (entry = next_of(directory)) != NULL;)
        pinned(format("%s/%s", path, entry->d_name));
    closedir(directory);
}

static void map_ring(const char *path)
{
    int ring = pinned(path);
    long page = sysconf(_SC_PAGESIZE);
    MUST(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0) == MAP_FAILED ? -1 : 0);
    MUST(mmap(NULL, page, PROT_READ, MAP_SHARED, ring, page) == MAP_FAILED ? -1 : 0);
    MUST(mmap(NULL, WINDOW, PROT_READ, MAP_SHARED, ring, 2 * page) == MAP_FAILED ? -1 : 0);
}

/* As much as is asked of a map's value, in memory. */
static void map_values(const char *path)
{
    struct bpf_map_info info = { 0 };
    int map = pinned(path);
    union bpf_attr what = { .info = { .bpf_fd = map, .info_len = sizeof info, .info = (uintptr_t)&info } };
    MUST(syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &what, sizeof what));
    MUST(mmap(NULL, info.value_size, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0) == MAP_FAILED ? -1 : 0);
}

/* Has each tracepoint call its program, as long as this process lives. */
static void attach_to_tracepoints(const char *pins)
{
    char path[512];
    snprintf(path, sizeof path, "%s/programs", pins);
    DIR *directory = list(path);
    for (struct dirent *entry; (entry = next_of(directory)) != NULL;) {
        const char *name = entry->d_name;
        if (strncmp(name, "sys_", 4) != 0 && strncmp(name, "sched_", 6) != 0 && strncmp(name, "signal_", 7) != 0)
            continue;
        int program = pinned(format("%s/%s", path, name));
        union bpf_attr what = { .raw_tracepoint = { .prog_fd = program } };
        MUST(syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &what, sizeof what));
    }
    closedir(directory);
}

/* What the watcher of a jail holds: each program, link and map, the memory of a slot, and the links to tracepoints and to the jail's
 * group. */
static void watch(const char *folder, int group)
{
    char pins[256], slot[300];
    DIR *directory = list(folder);
    struct dirent *version = next_of(directory);
    MUST(version == NULL ? -1 : 0);
    snprintf(pins, sizeof pins, "%s/%.128s", folder, version->d_name);
    closedir(directory);
    open_all(pins, "maps");
    open_all(pins, "links");
    open_all(pins, "programs");
    snprintf(slot, sizeof slot, "%s/slots/0", pins);
    map_values(format("%s/data", slot));
    map_ring(format("%s/records", slot));
    map_ring(format("%s/verdicts", slot));
    attach_to_tracepoints(pins);
    for (int i = 0; i < HOOKS; i++) {
        int program = pinned(format("%s/programs/%s", pins, hooks[i].name));
        union bpf_attr what = {
            .link_create = { .prog_fd = program, .target_fd = group, .attach_type = hooks[i].type },
        };
        MUST(syscall(SYS_bpf, BPF_LINK_CREATE, &what, sizeof what));
    }
}

static void bind_read_only(const char *source, const char *target)
{
    struct mount_attr how = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
    int tree = MUST(syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
    MUST(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &how, sizeof how));
    MUST(syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH));
    close(tree);
}

/* Parts of proc that speak of the host, as far as this kernel has them: an empty file over files, an empty directory
 * over directories. */
static void cover_proc(void)
{
    static const char *const files[] = {
        "cmdline", "devices", "diskstats", "dma", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users",
        "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "locks", "mdstat", "modules", "mtrr",
        "pagetypeinfo", "partitions", "schedstat", "slabinfo", "softirqs", "swaps", "sysrq-trigger", "timer_list",
        "vmallocinfo", "vmcore",
    };
    static const char *const folders[] = { "acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "scsi" };
    close(MUST(open("/tmp/.empty", O_CREAT | O_CLOEXEC, 0444)));
    MUST(mkdir("/tmp/.cover", 0555));
    MUST(mount("cover", "/tmp/.cover", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,nr_inodes=2,mode=0555"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *target = format("/tmp/proc/%s", files[i]);
        if (access(target, F_OK) == 0)
            bind_read_only("/tmp/.empty", target);
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *target = format("/tmp/proc/%s", folders[i]);
        if (access(target, F_OK) == 0)
            bind_read_only("/tmp/.cover", target);
    }
}

/* A root of its own: the system, read-only, piece by piece; proc, temporary places, devices; the workspace with a layer
 * that takes what is written. */
static void make_root(const char *workdir)
{
    static const char *const devices[] = { "null", "zero", "full", "random", "urandom", "tty" };
    static const char *const folders[] = { "usr", "proc", "dev", "tmp", "run", "old", "workspace", "side", "parts" };
    static const char *const links[] = { "bin", "lib", "lib64", "sbin" };
    int below = MUST(open(workdir, O_PATH | O_DIRECTORY | O_CLOEXEC));
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mount("root", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1M,mode=0755"));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        MUST(mkdir(format("/tmp/%s", folders[i]), 0755));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        char target[16];
        snprintf(target, sizeof target, "usr/%s", links[i]);
        MUST(symlink(target, format("/tmp/%s", links[i])));
    }
    bind_read_only("/usr", "/tmp/usr");
    for (int i = 1; i < BINDS; i++) {
        const char *target = format("/tmp/parts/%d", i);
        MUST(mkdir(target, 0755));
        bind_read_only("/usr/bin", target);
    }
    MUST(mount("proc", "/tmp/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    cover_proc();
    MUST(mount("dev", "/tmp/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755"));
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char source[32];
        snprintf(source, sizeof source, "/dev/%s", devices[i]);
        const char *target = format("/tmp%s", source);
        close(MUST(open(target, O_CREAT | O_CLOEXEC, 0644)));
        MUST(mount(source, target, NULL, MS_BIND, NULL));
    }
    MUST(mkdir("/tmp/dev/shm", 01777));
    MUST(mount("shm", "/tmp/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=1M"));
    MUST(mount("tmp", "/tmp/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1M"));
    MUST(mount("side", "/tmp/side", "tmpfs", MS_NOSUID | MS_NODEV, "size=1M"));
    MUST(mkdir("/tmp/side/upper", 0755));
    MUST(mkdir("/tmp/side/work", 0755));
    MUST(mount("overlay", "/tmp/workspace", "overlay", MS_NOSUID | MS_NODEV,
               format("lowerdir=/proc/self/fd/%d,upperdir=/tmp/side/upper,workdir=/tmp/side/work,userxattr", below)));
    MUST(chdir("/tmp"));
    MUST(syscall(SYS_pivot_root, ".", "old"));
    MUST(umount2("old", MNT_DETACH));
    MUST(chdir("/workspace"));
}

static void restrict_files(void)
{
    struct landlock_ruleset_attr handled = { .handled_access_fs = (1 << 13) - 1 };
    int rules = MUST(syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
    for (int i = 0; i < RULES; i++) {
        struct landlock_path_beneath_attr rule = {
            .allowed_access = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
            .parent_fd = MUST(open(i < BINDS ? "/usr" : "/tmp", O_PATH | O_CLOEXEC)),
        };
        MUST(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
        close(rule.parent_fd);
    }
    MUST(syscall(SYS_landlock_restrict_self, rules, 0));
    close(rules);
}

/* A filter of that length that lets everything pass: for each number a comparison that leads to the end. */
static void restrict_calls(int length)
{
    struct sock_filter code[SECOND_FILTER];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    /* A jump goes no further than 255. */
    for (int i = 1; i < length - 1; i++) {
        int left = length - 2 - i;
        code[i] = left > 255 ? (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 0)
                             : (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 255 - left, left, 0);
    }
    code[length - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { .len = length, .filter = code };
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

static void jail(const char *workdir, int groups, const int *doors, int ready, char **program)
{
    char byte;
    MUST(read(ready, &byte, 1));
    for (int i = 1; i < groups; i++)
        MUST(write(doors[i], "0", 1));
    MUST(unshare(CLONE_NEWCGROUP));
    MUST(sethostname("jail", 4));
    make_root(workdir);
    for (int capability = 0; capability <= 40; capability++)
        MUST(prctl(PR_CAPBSET_DROP, capability));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    restrict_files();
    restrict_calls(FIRST_FILTER);
    restrict_calls(SECOND_FILTER);
    pid_t child = MUST(fork());
    if (child == 0) {
        char *const environment[] = { NULL };
        MUST(execve(program[0], program, environment));
    }
    int status;
    MUST(waitpid(child, &status, 0));
    _exit(WEXITSTATUS(status));
}

int main(int count, char **arguments)
{
    int groups = 0, doors[MOST_GROUPS], descriptor = -1, ready[2], status;
    while (groups + 3 < count && strcmp(arguments[groups + 3], "--") != 0)
        groups++;
    if (groups < 1 || groups > MOST_GROUPS || groups + 4 >= count)
        return 98;
    char *names[MOST_GROUPS];
    for (int i = 0; i < groups; i++) {
        names[i] = strdup(format("%s/turnkey-floor-%d", arguments[i + 3], getpid()));
        MUST(mkdir(names[i], 0755));
        doors[i] = MUST(open(format("%s/%s", names[i], i == 0 ? "cgroup.procs" : "tasks"), O_WRONLY | O_CLOEXEC));
    }
    descriptor = MUST(open(names[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (strcmp(arguments[1], "-") != 0)
        watch(arguments[1], descriptor);
    MUST(pipe2(ready, O_CLOEXEC));
    struct clone_args how = {
        .flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .cgroup = descriptor,
    };
    pid_t first = MUST(syscall(SYS_clone3, &how, sizeof how));
    if (first == 0)
        jail(arguments[2], groups, doors, ready[0], arguments + groups + 4);
    put(format("/proc/%d/uid_map", first), "0 0 65536\n");
    put(format("/proc/%d/gid_map", first), "0 0 65536\n");
    MUST(write(ready[1], "g", 1));
    MUST(waitpid(first, &status, 0));
    for (int i = 0; i < groups; i++)
        MUST(rmdir(names[i]));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}
