// Makes one call after the other by the table that it is told, and tells what came of each: "NAME RESULT" per line. The
// numbers of the 32-bit table are those of arch/x86/entry/syscalls/syscall_32.tbl.
//
//   tables wide|narrow DIRECTORY
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CWD = AT_FDCWD, FD = 40, FIFO = S_IFIFO | 0600, NO = -1 };

// Newer than the headers of a stable system.
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static int is_narrow;
static char *memory;

static long narrow(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    // The sixth argument is in the register of the frame, and what is below the stack may be the compiler's.
    __asm__ volatile("lea -128(%%rsp), %%rsp\n push %%rbp\n mov %[f], %%rbp\n int $0x80\n pop %%rbp\n lea 128(%%rsp), %%rsp"
                     : "=a"(result)
                     : "0"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [f] "r"(f)
                     : "memory", "cc", "r8", "r9", "r10", "r11");
    return (int)result;
}

static long call(const char *name, long number, long narrow_number, const long *a)
{
    long result;
    if (is_narrow) {
        result = narrow(narrow_number, a[0], a[1], a[2], a[3], a[4], a[5]);
    } else {
        result = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (result < 0)
            result = -errno;
    }
    // Below 4 GiB addresses differ by what is there.
    printf("%s %ld\n", name, result > 4096 || result < -4095 ? 4096 : result);
    return result;
}

#define CALL(name, other, ...) call(#name, SYS_##name, other, (const long[6]){__VA_ARGS__})

static long put(const void *bytes, size_t size)
{
    char *at = memory;
    memcpy(at, bytes, size);
    memory += (size + 15) & ~15UL;
    return (long)at;
}

static long text(const char *string)
{
    return put(string, strlen(string) + 1);
}

static long path(const char *directory, const char *name)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", directory, name);
    return text(whole);
}

// The two structures below have words of the width that the table has, and take as much room with either.
static long vector(long base, long length)
{
    unsigned few[4] = {base, length};
    long many[2] = {base, length};
    return put(is_narrow ? (void *)few : many, sizeof many);
}

static long message(long name, long length, long pieces)
{
    unsigned few[18] = {name, length, pieces, 1};
    long many[9] = {name, length, pieces, 1};
    return put(is_narrow ? (void *)few : many, sizeof many);
}

static void files(const char *in)
{
    long a = path(in, "a"), b = path(in, "b"), c = path(in, "c"), none = path(in, "none/x");
    long one = path(in, "one"), two = path(in, "two"), three = path(in, "three"), four = path(in, "four");
    struct open_how how = {.flags = O_RDONLY};
    CALL(open, 5, a, O_CREAT | O_RDWR, 0600);
    CALL(creat, 8, b, 0600);
    CALL(openat, 295, CWD, c, O_CREAT | O_RDWR, 0600);
    CALL(openat2, 437, CWD, a, put(&how, sizeof how), sizeof how);
    CALL(open, 5, none, O_RDONLY);
    dup2(open((char *)c, O_RDWR), FD);
    CALL(link, 9, a, one);
    CALL(linkat, 303, CWD, a, CWD, two, 0);
    CALL(rename, 38, one, three);
    CALL(renameat, 302, CWD, two, CWD, four);
    CALL(renameat2, 353, CWD, three, CWD, four, 2);
    CALL(unlink, 10, three);
    CALL(unlinkat, 301, CWD, four, 0);
    CALL(symlink, 83, text("a"), one);
    CALL(symlinkat, 304, text("a"), CWD, two);
    CALL(mkdir, 39, three, 0700);
    CALL(mkdirat, 296, CWD, four, 0700);
    CALL(rmdir, 40, three);
    CALL(unlinkat, 301, CWD, four, AT_REMOVEDIR);
    CALL(mknod, 14, three, FIFO, 0);
    CALL(mknodat, 297, CWD, four, FIFO, 0);
    CALL(chmod, 15, a, 0640);
    CALL(fchmod, 94, FD, 0640);
    CALL(fchmodat, 306, CWD, a, 0600);
    CALL(fchmodat2, 452, CWD, a, 0644, 0);
    for (int wide = 0; wide < 2; wide++) {
        CALL(chown, wide ? 212 : 182, a, 7, 7);
        CALL(lchown, wide ? 198 : 16, one, 7, 7);
        CALL(fchown, wide ? 207 : 95, FD, 7, 7);
        CALL(truncate, wide ? 193 : 92, a, 0, 0);
        CALL(ftruncate, wide ? 194 : 93, FD, 0, 0);
    }
    CALL(fchownat, 298, CWD, a, 0, 0, 0);
    CALL(utime, 30, a, 0);
    CALL(utimes, 271, a, 0);
    CALL(futimesat, 299, CWD, a, 0);
    CALL(utimensat, 320, CWD, a, 0, 0);
    CALL(utimensat, 412, CWD, a, 0, 0);
    long name = text("user.turnkey"), value = text("v");
    CALL(setxattr, 226, a, name, value, 1, 0);
    CALL(lsetxattr, 227, a, name, value, 1, 0);
    CALL(fsetxattr, 228, FD, name, value, 1, 0);
    CALL(removexattr, 235, a, name);
    CALL(lremovexattr, 236, a, name);
    CALL(fremovexattr, 237, FD, name);
}

static void looks(const char *in)
{
    long none = path(in, "none"), a = path(in, "a"), room = (long)memory;
    memory += 512;
    CALL(stat, 106, none, room);
    CALL(stat, 195, none, room);
    CALL(lstat, 107, none, room);
    CALL(lstat, 196, none, room);
    CALL(newfstatat, 300, CWD, none, room, 0);
    CALL(statx, 383, CWD, none, 0, 0, room);
    CALL(access, 33, none, R_OK);
    CALL(faccessat, 307, CWD, none, R_OK);
    CALL(faccessat2, 439, CWD, none, R_OK, 0);
    CALL(readlink, 85, none, room, 100);
    CALL(readlinkat, 305, CWD, none, room, 100);
    CALL(chdir, 12, none);
    CALL(getxattr, 229, none, text("user.x"), 0, 0);
    CALL(listxattr, 232, none, 0, 0);
    CALL(inotify_add_watch, 292, NO, a, 1);
}

// A question for the name "a".
static const char question[] = "\1\2\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1";

static void sockets(const char *in)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in resolver = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    snprintf(local.sun_path, sizeof local.sun_path, "%s/socket", in);
    long address = put(&local, sizeof local), server = put(&resolver, sizeof resolver);
    long asked = put(question, sizeof question - 1), size = sizeof question - 1;
    long piece = vector(asked, size);
    long unix_socket = CALL(socket, 359, AF_UNIX, SOCK_DGRAM, 0);
    CALL(connect, 362, unix_socket, address, sizeof local);
    CALL(sendto, 369, unix_socket, asked, size, 0, address, sizeof local);
    CALL(sendmsg, 370, unix_socket, message(address, sizeof local, piece), 0);
    CALL(bind, 361, unix_socket, address, sizeof local);
    long stream = CALL(socket, 359, AF_INET, SOCK_STREAM, 0);
    CALL(connect, 362, stream, server, sizeof resolver);
    CALL(listen, 363, stream, 1);
    long datagram = CALL(socket, 359, AF_INET, SOCK_DGRAM, 0);
    CALL(sendto, 369, datagram, asked, size, 0, server, sizeof resolver);
    CALL(sendmsg, 370, datagram, message(server, sizeof resolver, piece), 0);
    CALL(sendmmsg, 345, datagram, message(server, sizeof resolver, piece), 1, 0);
    long connected = CALL(socket, 359, AF_INET, SOCK_DGRAM, 0);
    CALL(connect, 362, connected, server, sizeof resolver);
    CALL(write, 4, connected, asked, size);
    CALL(writev, 146, connected, piece, 1);
}

static void others(const char *in)
{
    long none = path(in, "none");
    CALL(execve, 11, none, 0, 0);
    CALL(execveat, 358, CWD, none, 0, 0, 0);
    CALL(mount, 21, none, none, 0, 0, 0);
    CALL(umount2, 52, none, 0);
    CALL(umount2, 22, none, 0);
    CALL(chroot, 61, none);
    CALL(setns, 346, NO, 0);
    CALL(unshare, 310, CLONE_NEWUTS);
    CALL(ptrace, 26, 16, 0x3fffffff, 0, 0);
    CALL(bpf, 357, 0, 0, 0);
    CALL(perf_event_open, 336, 0, 0, NO, NO, 0);
    CALL(keyctl, 288, NO, 0, 0, 0, 0);
    CALL(add_key, 286, 0, 0, 0, 0, 0);
    CALL(delete_module, 129, none, 0);
    CALL(io_uring_setup, 425, 1, 0);
    CALL(open_by_handle_at, 342, NO, 0, 0);
    CALL(setresuid, 208, NO, NO, NO);
    CALL(mprotect, 125, (long)memory & ~4095, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    CALL(mmap, 192, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, FD, 0);
    CALL(shmat, 397, NO, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CALL(kill, 37, child, 0);
    CALL(kill, 37, child, SIGURG);
    CALL(tgkill, 270, child, child, SIGURG);
    CALL(kill, 37, child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    is_narrow = strcmp(arguments[1], "narrow") == 0;
    // Where 32 bits reach, and the same place each time.
    memory = mmap((void *)0x20000000, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    files(arguments[2]);
    looks(arguments[2]);
    sockets(arguments[2]);
    others(arguments[2]);
    return 0;
}
