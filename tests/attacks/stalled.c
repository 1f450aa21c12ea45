/* A file system of a user's own, in namespaces of its own, whose server stops answering; and two ways to have others wait for it.
 *
 * stalled DEVICE root SOCKET TRIES: connects, and goes into namespaces whose root is an overlay over it while it is looked at.
 * stalled DEVICE dirty SOCKET COUNT: connects, queues a file there whose changes nobody takes, and hangs up. A SOCKET that begins
 * with @ is abstract, and takes streams.
 *
 * Says what the server was asked, and `ready` when all is done; stays until it is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared { volatile int stalls, asked, is_there; };
static struct shared *shared;
static int device;
static pid_t server;

/* Whoever has files there ends after the server, and not before. */
static void end(int signal) {
    (void)signal;
    kill(server, SIGKILL);
    _exit(0);
}

static void die(const char *act) {
    perror(act);
    exit(1);
}

static void reply(const struct fuse_in_header *asked, int error, const void *data, size_t length) {
    char message[4096];
    struct fuse_out_header *head = (void *)message;
    *head = (struct fuse_out_header){ .len = sizeof *head + length, .error = error, .unique = asked->unique };
    if (length) memcpy(message + sizeof *head, data, length);
    if (write(device, message, head->len) < 0 && errno != ENOENT) perror("reply");
}

static struct fuse_attr attributes(uint64_t inode) {
    return (struct fuse_attr){
        .ino = inode, .mode = inode == 1 ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = 1, .blksize = 4096
    };
}

/* Asked for attributes while it stalls, or for what was written, it does not answer. */
static void serve(void) {
    static char message[1 << 18];
    const struct fuse_in_header *asked = (void *)message;
    for (;;) {
        if (read(device, message, sizeof message) < 0) {
            if (errno == EINTR || errno == ENOENT) continue;
            exit(0);
        }
        uint64_t inode = asked->opcode == FUSE_LOOKUP ? 2 + strtoul(message + sizeof *asked + 1, 0, 10) : asked->nodeid;
        struct fuse_attr_out attribute = { .attr_valid = 1000, .attr = attributes(inode) };
        struct fuse_entry_out entry = { .nodeid = inode, .entry_valid = 1000, .attr_valid = 1000, .attr = attributes(inode) };
        struct fuse_init_out init = {
            .major = 7, .minor = 31, .max_readahead = 65536, .max_write = 65536, .max_background = 200,
            .flags = FUSE_WRITEBACK_CACHE | FUSE_BIG_WRITES
        };
        struct fuse_open_out opened = { 0 };
        struct fuse_statfs_out status = { .st = { .namelen = 255, .bsize = 4096 } };
        switch (asked->opcode) {
        case FUSE_INIT: reply(asked, 0, &init, sizeof init); break;
        case FUSE_GETATTR:
            if (shared->stalls) { shared->asked++; break; }
            attribute.attr_valid = 0;
            reply(asked, 0, &attribute, sizeof attribute);
            break;
        case FUSE_SETATTR: reply(asked, 0, &attribute, sizeof attribute); break;
        case FUSE_LOOKUP: reply(asked, 0, &entry, sizeof entry); break;
        case FUSE_OPEN: case FUSE_OPENDIR: reply(asked, 0, &opened, sizeof opened); break;
        case FUSE_STATFS: reply(asked, 0, &status, sizeof status); break;
        case FUSE_READDIR: case FUSE_RELEASE: case FUSE_RELEASEDIR: reply(asked, 0, 0, 0); break;
        case FUSE_WRITE: shared->asked++; break;
        case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
        default: reply(asked, -ENOSYS, 0, 0);
        }
    }
}

static void put(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0) die(path);
    close(file);
}

/* Mounts it in namespaces of its own; the path of the mount. */
static char *mounted(const char *node) {
    static char place[100], files[128];
    char text[300];
    int user = getuid(), group = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) die("unshare");
    device = open(node, O_RDWR);
    if (device < 0) die(node);
    put("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %d 1", user);
    put("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %d 1", group);
    put("/proc/self/gid_map", text);
    if (!getcwd(place, sizeof place - 16)) die("getcwd");
    strcat(place, "/stalled.XXXXXX");
    if (mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) || !mkdtemp(place) || mount("t", place, "tmpfs", 0, 0)) die("a place");
    snprintf(files, sizeof files, "%s/f", place);
    snprintf(text, sizeof text, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mkdir(files, 0755) || mount("fuse", files, "fuse", MS_NOSUID | MS_NODEV, text)) die("fuse");
    server = fork();
    if (!server) serve();
    /* With the last one of these it ends. */
    close(device);
    signal(SIGTERM, end);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return files;
}

/* Makes an overlay over it the root of these namespaces. */
static void be_root(const char *files) {
    char over[160], lower[160], text[400];
    snprintf(over, sizeof over, "%s/../o", files);
    snprintf(lower, sizeof lower, "%s/../l", files);
    snprintf(text, sizeof text, "lowerdir=%s:%s", files, lower);
    if (mkdir(over, 0755) || mkdir(lower, 0755) || mount("over", over, "overlay", 0, text)) die("overlay");
    if (chdir(over) || mount(".", "/", 0, MS_MOVE, 0)) die("move");
}

static int connected(const char *name) {
    int is_abstract = *name == '@';
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    if (is_abstract) address.sun_path[0] = 0;
    socklen_t length = sizeof address.sun_family + strlen(name) + !is_abstract;
    int line = socket(AF_UNIX, is_abstract ? SOCK_STREAM : SOCK_SEQPACKET, 0);
    if (connect(line, (void *)&address, length)) die("connect");
    return line;
}

static void queue(int line, int file) {
    char space[CMSG_SPACE(sizeof file)] = { 0 };
    struct iovec words = { "no packet", 9 };
    struct msghdr message = { .msg_iov = &words, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(rights), &file, sizeof file);
    sendmsg(line, &message, MSG_NOSIGNAL);
}

static void pause_microseconds(long microseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < microseconds);
}

static void leave_while_looked_at(const char *name, int tries, int helper) {
    int namespaces = syscall(SYS_pidfd_open, helper, 0);
    shared->stalls = 1;
    struct stat status;
    if (!fork()) {
        if (setns(namespaces, CLONE_NEWUSER | CLONE_NEWNS)) die("setns");
        _exit(stat("/", &status));
    }
    while (!shared->asked) usleep(1000);
    printf("the control: it does not answer\n");
    shared->asked = 0;
    for (int try = 0; try < tries; try++) {
        pid_t caller = fork();
        if (!caller) {
            connected(name);
            pause_microseconds(rand() % 400);
            if (setns(namespaces, CLONE_NEWUSER | CLONE_NEWNS)) die("setns");
            usleep(3000);
            _exit(0);
        }
        waitpid(caller, 0, 0);
    }
}

static int taken(int pair) {
    char word, space[CMSG_SPACE(sizeof(int))];
    struct iovec words = { &word, 1 };
    struct msghdr message = { .msg_iov = &words, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
    int file;
    if (recvmsg(pair, &message, 0) <= 0) die("a file");
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

/* Passes files on, and writes to each when it is asked to: not closed here, they are not written here. */
static void lend(int pair, int count, const char *files) {
    char path[160], word;
    for (int number = 0; number < count; number++) {
        snprintf(path, sizeof path, "%s/x%d", files, number);
        int file = open(path, O_WRONLY), lent = open(path, O_WRONLY);
        if (file < 0 || lent < 0) die(path);
        queue(pair, lent);
        close(lent);
        if (read(pair, &word, 1) != 1 || write(file, "dirty", 5) != 5 || write(pair, "d", 1) != 1) die("a dirty file");
    }
    pause();
}

/* The server is asked to write by whoever closes the last descriptor, which is the one that is queued. */
static void queue_dirty(const char *name, int count, int pair) {
    char word;
    for (int number = 0; number < count; number++) {
        int file = taken(pair), line = connected(name);
        /* A run's refuses at once, the service has it wait. */
        if (*name != '@') usleep(8000);
        queue(line, file);
        close(file);
        if (write(pair, "w", 1) != 1 || read(pair, &word, 1) != 1) die("a dirty file");
        close(line);
        usleep(2000);
    }
    printf("queued\n");
    while (!shared->asked) usleep(1000);
    printf("the control: nobody takes what was written\n");
}

int main(int count, char **words) {
    (void)count;
    const char *node = words[1], *way = words[2], *name = words[3];
    int times = atoi(words[4]);
    setvbuf(stdout, 0, _IOLBF, 0);
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(way, "root")) {
        pid_t helper = fork();
        if (!helper) {
            be_root(mounted(node));
            shared->is_there = 1;
            pause();
        }
        while (!shared->is_there) {
            usleep(1000);
            if (waitpid(helper, 0, WNOHANG) == helper) exit(1);
        }
        leave_while_looked_at(name, times, helper);
    } else {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) die("socketpair");
        if (!fork()) {
            close(pair[0]);
            lend(pair[1], times, mounted(node));
        }
        close(pair[1]);
        queue_dirty(name, times, pair[0]);
    }
    printf("ready\n");
    pause();
}
