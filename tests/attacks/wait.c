// The argument is rewritten while its call waits in the kernel.
//
//   wait connect            to a full queue of the own loopback: the call waits for a second
//   wait open PATH OTHER    PATH leads to a pipe that nobody writes to yet
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in argument = {.sin_family = AF_INET};
static int listener;
static char path[256];
static const char *other;

static void *rewrite_address(void *unused)
{
    usleep(300000);
    argument.sin_port = htons(9);
    argument.sin_addr.s_addr = inet_addr("127.9.9.9");
    // Room for the next attempt of the kernel's.
    for (int taken = 0; taken < 2; taken++)
        accept(listener, NULL, NULL);
    return unused;
}

static void *rewrite_path(void *pipe)
{
    usleep(200000);
    strcpy(path, other);
    close(open(pipe, O_WRONLY));
    return NULL;
}

static int wait_for_connection(void)
{
    socklen_t size = sizeof argument;
    argument.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&argument, sizeof argument);
    getsockname(listener, (struct sockaddr *)&argument, &size);
    listen(listener, 0);
    // The queue takes one, and the next waits for room.
    connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&argument, size);
    int port = ntohs(argument.sin_port);
    pthread_t writer;
    pthread_create(&writer, NULL, rewrite_address, NULL);
    int result = connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&argument, size);
    printf("%d connected, port %d, says %d\n", result, port, ntohs(argument.sin_port));
    return result;
}

int main(int count, char **arguments)
{
    if (count == 2)
        return wait_for_connection();
    if (count != 4)
        return 2;
    char target[256] = {0};
    strncpy(path, arguments[2], sizeof path - 1);
    other = arguments[3];
    if (readlink(path, target, sizeof target - 1) < 0)
        return 1;
    pthread_t writer;
    pthread_create(&writer, NULL, rewrite_path, target);
    int file = open(path, O_RDONLY);
    printf("opened %d, says %s\n", file >= 0, path);
    return 0;
}
