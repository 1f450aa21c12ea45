// Tries to reach an address by every way there is, and tells of each: "WAY ERRNO", 0 for done.
//
//   reach ADDRESS PORT      an IPv4 address
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_in plain;
static struct sockaddr_in unspecified;
static struct sockaddr_in6 mapped;
static const char leak[] = "leak";

static int sent(int peer, const void *address, socklen_t size)
{
    return peer < 0 || sendto(peer, leak, sizeof leak, 0, address, size) < 0 ? -1 : 0;
}

static int connected(int peer, const void *address, socklen_t size)
{
    return peer < 0 || connect(peer, address, size) < 0 ? -1 : 0;
}

static int udp4(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static int udp6(void) { return socket(AF_INET6, SOCK_DGRAM, 0); }
static int tcp4(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int tcp6(void) { return socket(AF_INET6, SOCK_STREAM, 0); }

static int by_sendto(void) { return sent(udp4(), &plain, sizeof plain); }
static int by_sendto_unspecified(void) { return sent(udp4(), &unspecified, sizeof unspecified); }
static int by_sendto_mapped(void) { return sent(udp6(), &mapped, sizeof mapped); }
static int by_sendto_4_on_6(void) { return sent(udp6(), &plain, sizeof plain); }

static int by_sendmsg(void)
{
    struct iovec data = {(void *)leak, sizeof leak};
    struct msghdr message = {.msg_name = &plain, .msg_namelen = sizeof plain, .msg_iov = &data, .msg_iovlen = 1};
    return sendmsg(udp4(), &message, 0) < 0 ? -1 : 0;
}

static int by_sendmmsg(void)
{
    struct iovec data = {(void *)leak, sizeof leak};
    struct mmsghdr message = {.msg_hdr = {.msg_name = &plain, .msg_namelen = sizeof plain, .msg_iov = &data, .msg_iovlen = 1}};
    return sendmmsg(udp4(), &message, 1, 0) < 0 ? -1 : 0;
}

static int by_connect_and_send(void)
{
    int peer = udp4();
    return connected(peer, &plain, sizeof plain) < 0 || send(peer, leak, sizeof leak, 0) < 0 ? -1 : 0;
}

// Connects to an address of the jail's own where there is one, lets go, and connects again.
static int by_connecting_again(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = plain.sin_port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int peer = udp4();
    connected(peer, &own, sizeof own);
    connected(peer, &nobody, sizeof nobody);
    return connected(peer, &plain, sizeof plain) < 0 || send(peer, leak, sizeof leak, 0) < 0 ? -1 : 0;
}

// A datagram to somebody else on a connected socket.
static int by_sendto_elsewhere(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int peer = udp4();
    connected(peer, &own, sizeof own);
    return sent(peer, &plain, sizeof plain);
}

static int by_tcp(void) { return connected(tcp4(), &plain, sizeof plain); }
static int by_tcp_mapped(void) { return connected(tcp6(), &mapped, sizeof mapped); }

static int by_fast_open(void)
{
    return sendto(tcp4(), leak, sizeof leak, MSG_FASTOPEN, (void *)&plain, sizeof plain) < 0 ? -1 : 0;
}

static int raw(void)
{
    return sent(socket(AF_INET, SOCK_RAW, IPPROTO_UDP), &plain, sizeof plain);
}

static int ping(void)
{
    return sent(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), &plain, sizeof plain);
}

static int multipath(void)
{
    return connected(socket(AF_INET, SOCK_STREAM, 262), &plain, sizeof plain);
}

static int packet(void) { return socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)); }
static int netlink(void) { return socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT); }

static int hypervisor(void)
{
    struct sockaddr_vm host = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = 9};
    return connected(socket(AF_VSOCK, SOCK_STREAM, 0), &host, sizeof host);
}

static int abstract(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0turnkey-reach"};
    return connected(socket(AF_UNIX, SOCK_STREAM, 0), &name, sizeof(sa_family_t) + sizeof "turnkey-reach");
}

static const struct {
    const char *name;
    int (*act)(void);
} ways[] = {
    {"sendto", by_sendto},
    {"sendto-unspecified", by_sendto_unspecified},
    {"sendto-mapped", by_sendto_mapped},
    {"sendto-4-on-6", by_sendto_4_on_6},
    {"sendmsg", by_sendmsg},
    {"sendmmsg", by_sendmmsg},
    {"connect-send", by_connect_and_send},
    {"connect-again", by_connecting_again},
    {"sendto-elsewhere", by_sendto_elsewhere},
    {"tcp", by_tcp},
    {"tcp-mapped", by_tcp_mapped},
    {"fast-open", by_fast_open},
    {"raw", raw},
    {"ping", ping},
    {"multipath", multipath},
    {"packet", packet},
    {"netlink", netlink},
    {"hypervisor", hypervisor},
    {"abstract", abstract},
};

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    char text[64];
    uint16_t port = htons((uint16_t)atoi(arguments[2]));
    snprintf(text, sizeof text, "::ffff:%s", arguments[1]);
    plain.sin_family = AF_INET;
    plain.sin_port = mapped.sin6_port = port;
    inet_pton(AF_INET, arguments[1], &plain.sin_addr);
    unspecified = plain;
    unspecified.sin_family = AF_UNSPEC;
    mapped.sin6_family = AF_INET6;
    inet_pton(AF_INET6, text, &mapped.sin6_addr);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        errno = 0;
        int result = ways[way].act();
        printf("%s %d\n", ways[way].name, result < 0 ? errno : 0);
    }
    return 0;
}
