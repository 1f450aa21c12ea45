// Reads a file or connects through io_uring, whose operations are no system calls of their own.
//
//   ring file PATH
//   ring connect PORT
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring_params parameters;
static int ring;
static char *queue;
static struct io_uring_sqe *entries;

static int set_up(void)
{
    ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        return -1;
    // One mapping holds both queues; a page is enough for four entries.
    queue = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    return queue == MAP_FAILED || entries == MAP_FAILED ? -1 : 0;
}

// Submits one entry and waits for its result.
static int submit(struct io_uring_sqe entry)
{
    volatile uint32_t *tail = (uint32_t *)(queue + parameters.sq_off.tail);
    volatile uint32_t *head = (uint32_t *)(queue + parameters.cq_off.head);
    entries[0] = entry;
    uint32_t mask = *(uint32_t *)(queue + parameters.sq_off.ring_mask);
    ((uint32_t *)(queue + parameters.sq_off.array))[*tail & mask] = 0;
    __sync_synchronize();
    *tail += 1;
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        return -errno;
    struct io_uring_cqe *results = (struct io_uring_cqe *)(queue + parameters.cq_off.cqes);
    int result = results[*head & *(uint32_t *)(queue + parameters.cq_off.ring_mask)].res;
    *head += 1;
    return result;
}

static int read_file(const char *path)
{
    char buffer[4096];
    int file = submit((struct io_uring_sqe){
        .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (uintptr_t)path});
    int size = submit((struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = file, .addr = (uintptr_t)buffer, .len = sizeof buffer});
    return size < 0 || write(STDOUT_FILENO, buffer, size) < 0;
}

static int connect_to(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int peer = submit((struct io_uring_sqe){
        .opcode = IORING_OP_SOCKET, .fd = AF_INET, .off = SOCK_STREAM});
    int result = submit((struct io_uring_sqe){
        .opcode = IORING_OP_CONNECT, .fd = peer, .addr = (uintptr_t)&address, .off = sizeof address});
    puts(result == 0 ? "connected" : strerror(-result));
    return result != 0;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    if (set_up() != 0) {
        printf("no ring: %d\n", errno);
        return 1;
    }
    return strcmp(arguments[1], "file") == 0 ? read_file(arguments[2]) : connect_to(arguments[2]);
}
