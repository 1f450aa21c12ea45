// Makes calls whose registers hold more than the kernel takes: the number of each, and every argument that
// is an `int`, with ones in the upper half.
//
//   wide plain|wide NUMBER...    a fixed list of calls, then these numbers with arguments of no use
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define UPPER 0x5a5a5a5a00000000UL

static unsigned long upper;

static long call(long number, const long arguments[6])
{
    long result;
    register long fourth __asm__("r10") = arguments[3];
    register long fifth __asm__("r8") = arguments[4];
    register long sixth __asm__("r9") = arguments[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(fourth), "r"(fifth),
                       "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

// `ints` has a bit for each argument of which the kernel takes 32 bits.
static long make(long number, unsigned ints, const long arguments[6])
{
    long widened[6];
    for (int index = 0; index < 6; index++)
        widened[index] = ints >> index & 1 ? (long)((unsigned)arguments[index] | upper) : arguments[index];
    return call((long)((unsigned)number | upper), widened);
}

#define MAKE(number, ints, ...) make(SYS_##number, ints, (const long[6]){__VA_ARGS__})
#define TELL(number, ints, ...) printf(#number " %ld\n", MAKE(number, ints, __VA_ARGS__))
#define TEXT(text) ((long)(text))

static void files(void)
{
    struct stat about;
    struct {
        unsigned long flags, mode, resolve;
    } how = {O_RDONLY, 0, 0};
    long here = AT_FDCWD;
    TELL(open, 6, TEXT("alias"), O_RDONLY, 0);
    TELL(openat, 13, here, TEXT("alias"), O_RDONLY, 0);
    TELL(openat2, 1, here, TEXT("alias"), TEXT(&how), sizeof how);
    TELL(creat, 2, TEXT("alias"), 0600);
    TELL(open, 6, TEXT("/root/none"), O_RDONLY, 0);
    TELL(stat, 0, TEXT("secret"), TEXT(&about));
    TELL(newfstatat, 9, here, TEXT("secret"), TEXT(&about), 0);
    TELL(faccessat, 5, here, TEXT("secret"), R_OK);
    TELL(readlinkat, 9, here, TEXT("alias"), TEXT(&about), 8);
    TELL(link, 0, TEXT("secret"), TEXT("second"));
    TELL(linkat, 21, here, TEXT("secret"), here, TEXT("third"), 0);
    TELL(rename, 0, TEXT("secret"), TEXT("moved"));
    TELL(renameat, 5, here, TEXT("moved"), here, TEXT("secret"));
    TELL(renameat2, 21, here, TEXT("third"), here, TEXT("secret"), 0);
    TELL(chmod, 2, TEXT("secret"), 0600);
    TELL(fchmodat, 5, here, TEXT("secret"), 0640);
    TELL(chown, 6, TEXT("secret"), -1, -1);
    TELL(fchownat, 29, here, TEXT("secret"), -1, -1, 0);
    TELL(unlink, 0, TEXT("second"));
    TELL(unlinkat, 5, here, TEXT("secret"), 0);
    int handle = open("kept", O_RDWR);
    TELL(fchmod, 3, handle, 0600);
    TELL(fchown, 7, handle, -1, -1);
    TELL(execve, 0, TEXT("/root/none"), 0, 0);
    TELL(execveat, 17, here, TEXT("/root/none"), 0, 0, 0);
    MAKE(mmap, 16, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, handle, 0);
    MAKE(mmap, 16, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void sockets(void)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {htonl(0x08080808)}};
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/workspace/none"};
    long stream = MAKE(socket, 7, AF_INET, SOCK_STREAM, 0);
    long datagram = MAKE(socket, 7, AF_INET, SOCK_DGRAM, 0);
    long local = MAKE(socket, 7, AF_UNIX, SOCK_STREAM, 0);
    struct iovec piece = {"question", 8};
    struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &piece, .msg_iovlen = 1};
    TELL(connect, 5, stream, TEXT(&peer), sizeof peer);
    TELL(connect, 5, local, TEXT(&name), sizeof name);
    TELL(sendto, 41, datagram, TEXT("question"), 8, 0, TEXT(&peer), sizeof peer);
    TELL(sendmsg, 5, datagram, TEXT(&message), 0);
    TELL(bind, 5, datagram, TEXT(&peer), sizeof peer);
    TELL(listen, 3, stream, 5);
    TELL(socket, 7, AF_INET, SOCK_RAW, 1);
    TELL(socket, 7, AF_NETLINK, SOCK_RAW, 0);
    TELL(socketpair, 7, AF_INET, SOCK_STREAM, 0, 0);
    TELL(kill, 3, -1, 0);
}

int main(int count, char **arguments)
{
    upper = strcmp(arguments[1], "wide") == 0 ? UPPER : 0;
    if (symlink("secret", "alias") != 0)
        perror("alias");
    files();
    sockets();
    for (int index = 2; index < count; index++) {
        const long useless[6] = {-1, -1, -1, -1, -1, -1};
        printf("%s %ld\n", arguments[index], make(atol(arguments[index]), 0, useless));
    }
    return 0;
}
