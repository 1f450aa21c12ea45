// Netlink as getifaddrs(3) opens it, and what else is asked of it. One line for each: what, and the errno, or 0.
//
//   list         names and addresses of the interfaces
//   reach        other protocols, and requests that would change something
//   wait         joins every group, says of how many it may be, and counts what comes until its input ends
//   fill         asks without ever reading, on as many sockets as there are

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int opened(int type, int protocol) { return socket(AF_NETLINK, type | SOCK_CLOEXEC, protocol); }

static void told(const char *what, int errnum)
{
    printf("%s %d\n", what, errnum);
    fflush(stdout);
}

static int list(void)
{
    struct if_nameindex *names = if_nameindex();
    for (struct if_nameindex *one = names; one && one->if_index; one++)
        printf("name %s\n", one->if_name);
    struct ifaddrs *all = NULL;
    if (!names || getifaddrs(&all) < 0)
        return 1;
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
        char host[NI_MAXHOST];
        int family = one->ifa_addr ? one->ifa_addr->sa_family : 0;
        socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (family != AF_INET && family != AF_INET6)
            continue;
        if (!getnameinfo(one->ifa_addr, size, host, sizeof host, NULL, 0, NI_NUMERICHOST))
            printf("address %s %s\n", one->ifa_name, host);
    }
    return 0;
}

struct request {
    struct nlmsghdr head;
    union {
        struct ifinfomsg link;
        struct ifaddrmsg address;
        struct rtmsg route;
        struct ndmsg neighbour;
        char bytes[64];
    } body;
};

// The kernel's answer to a request: its errno.
static int asked(int type, const void *body, size_t size)
{
    struct request request = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof request.body),
                                       .nlmsg_type = type,
                                       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE}};
    memcpy(&request.body, body, size);
    int netlink = opened(SOCK_RAW, NETLINK_ROUTE);
    char answer[8192];
    if (netlink < 0 || send(netlink, &request, request.head.nlmsg_len, 0) < 0)
        return errno;
    if (recv(netlink, answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return -1;
    close(netlink);
    struct nlmsghdr *head = (struct nlmsghdr *)answer;
    return head->nlmsg_type == NLMSG_ERROR ? -((struct nlmsgerr *)NLMSG_DATA(head))->error : 0;
}

static int reach(void)
{
    for (int protocol = 1; protocol < 32; protocol++) {
        char name[32];
        snprintf(name, sizeof name, "protocol-%d", protocol);
        told(name, opened(SOCK_RAW, protocol) < 0 ? errno : 0);
    }
    told("stream", opened(SOCK_STREAM, NETLINK_ROUTE) < 0 ? errno : 0);
    int pair[2];
    told("pair", socketpair(AF_NETLINK, SOCK_RAW, 0, pair) < 0 ? errno : 0);
    // Down it goes, if anybody may say so.
    struct ifinfomsg down = {.ifi_index = 1, .ifi_change = IFF_UP};
    told("link-down", asked(RTM_NEWLINK, &down, sizeof down));
    told("link-gone", asked(RTM_DELLINK, &down, sizeof down));
    struct ifaddrmsg address = {.ifa_family = AF_INET, .ifa_prefixlen = 8, .ifa_index = 1};
    told("address", asked(RTM_NEWADDR, &address, sizeof address));
    struct rtmsg route = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
    told("route", asked(RTM_NEWROUTE, &route, sizeof route));
    struct ndmsg neighbour = {.ndm_family = AF_INET, .ndm_ifindex = 1};
    told("neighbour", asked(RTM_NEWNEIGH, &neighbour, sizeof neighbour));
    // What happens in all network namespaces that are known here.
    int netlink = opened(SOCK_RAW, NETLINK_ROUTE), yes = 1;
    told("every-namespace", setsockopt(netlink, 270, NETLINK_LISTEN_ALL_NSID, &yes, sizeof yes) < 0 ? errno : 0);
    // To another socket, and to a group.
    struct sockaddr_nl other = {.nl_family = AF_NETLINK, .nl_pid = 1};
    told("to-another", sendto(netlink, &yes, sizeof yes, 0, (void *)&other, sizeof other) < 0 ? errno : 0);
    struct sockaddr_nl group = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    told("to-a-group", sendto(netlink, &yes, sizeof yes, 0, (void *)&group, sizeof group) < 0 ? errno : 0);
    return 0;
}

static int wait_for_news(void)
{
    int netlink = opened(SOCK_RAW, NETLINK_ROUTE), joined = 0, came = 0;
    struct sockaddr_nl here = {.nl_family = AF_NETLINK};
    if (bind(netlink, (void *)&here, sizeof here) < 0)
        return 1;
    for (int group = 1; group < 64; group++)
        joined += !setsockopt(netlink, 270, NETLINK_ADD_MEMBERSHIP, &group, sizeof group);
    told("joined", joined);
    for (;;) {
        struct pollfd ends[2] = {{.fd = 0, .events = POLLIN}, {.fd = netlink, .events = POLLIN}};
        char bytes[8192];
        poll(ends, 2, -1);
        if (ends[1].revents && recv(netlink, bytes, sizeof bytes, 0) > 0)
            came++;
        else if (ends[0].revents && read(0, bytes, sizeof bytes) <= 0)
            break;
    }
    told("came", came);
    return 0;
}

static int fill(void)
{
    struct ifinfomsg loopback = {.ifi_index = 1};
    struct request request = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof request.body),
                                       .nlmsg_type = RTM_GETLINK,
                                       .nlmsg_flags = NLM_F_REQUEST}};
    request.body.link = loopback;
    int most = 1 << 30, sockets = 0, netlink;
    while ((netlink = opened(SOCK_RAW, NETLINK_ROUTE)) >= 0) {
        setsockopt(netlink, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
        for (int i = 0; i < 4000; i++)
            send(netlink, &request, request.head.nlmsg_len, MSG_DONTWAIT);
        sockets++;
    }
    told("filled", sockets);
    pause();
    return 0;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "list"))
        return list();
    if (!strcmp(what, "reach"))
        return reach();
    if (!strcmp(what, "wait"))
        return wait_for_news();
    return strcmp(what, "fill") ? 2 : fill();
}
