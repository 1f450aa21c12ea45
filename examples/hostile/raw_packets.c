// tries: open raw and packet sockets, to sniff and to forge packets
// must: get none of them
// expect: exit=1 status=exited verdict=violated rule=network-connect/deny syscall=socket stdout-lacks=opened
// control: exit=0 stdout-has="opened packet" stdout-has="opened raw"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int try_socket(const char *name, int family, int type, int protocol)
{
    int descriptor = socket(family, type, protocol);
    if (descriptor < 0) {
        perror(name);
        return 0;
    }
    printf("opened %s\n", name);
    close(descriptor);
    return 1;
}

int main(void)
{
    int opened = try_socket("packet", AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    opened += try_socket("raw", AF_INET, SOCK_RAW, IPPROTO_TCP);
    opened += try_socket("netlink", AF_NETLINK, SOCK_RAW, 0);
    opened += try_socket("vsock", AF_VSOCK, SOCK_STREAM, 0);
    return opened == 0;
}
