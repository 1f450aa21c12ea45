// tries: open and read /etc/shadow through io_uring, whose operations pass no syscall of their own
// must: get no ring; the call is answered as if the kernel did not know it
// expect: exit=1 status=exited stdout-lacks=root: stderr-has="Function not implemented"
// control: exit=0 stdout-has=root:
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ring {
    int descriptor;
    char *queue;
    struct io_uring_sqe *entries;
    struct io_uring_params parameters;
};

static int open_ring(struct ring *ring)
{
    memset(ring, 0, sizeof *ring);
    ring->descriptor = (int)syscall(SYS_io_uring_setup, 4, &ring->parameters);
    if (ring->descriptor < 0)
        return -1;
    // Since Linux 5.4 one mapping holds both queues; a page is enough for four entries.
    ring->queue = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       ring->descriptor, IORING_OFF_SQ_RING);
    ring->entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                         ring->descriptor, IORING_OFF_SQES);
    return ring->queue == MAP_FAILED || ring->entries == MAP_FAILED ? -1 : 0;
}

// Submits entry 0 and waits for its result.
static int submit(struct ring *ring)
{
    struct io_sqring_offsets *submission = &ring->parameters.sq_off;
    struct io_cqring_offsets *completion = &ring->parameters.cq_off;
    volatile uint32_t *tail = (uint32_t *)(ring->queue + submission->tail);
    volatile uint32_t *head = (uint32_t *)(ring->queue + completion->head);
    uint32_t mask = *(uint32_t *)(ring->queue + submission->ring_mask);
    ((uint32_t *)(ring->queue + submission->array))[*tail & mask] = 0;
    __sync_synchronize();
    *tail += 1;
    if (syscall(SYS_io_uring_enter, ring->descriptor, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        return -1;
    struct io_uring_cqe *results = (struct io_uring_cqe *)(ring->queue + completion->cqes);
    int result = results[*head & *(uint32_t *)(ring->queue + completion->ring_mask)].res;
    *head += 1;
    return result;
}

int main(void)
{
    struct ring ring;
    if (open_ring(&ring) != 0) {
        perror("io_uring");
        return 1;
    }
    char buffer[4096];
    ring.entries[0] = (struct io_uring_sqe){
        .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (uintptr_t)"/etc/shadow"};
    int file = submit(&ring);
    ring.entries[0] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = file, .addr = (uintptr_t)buffer, .len = sizeof buffer};
    int size = file < 0 ? file : submit(&ring);
    if (size < 0) {
        fprintf(stderr, "io_uring: %s\n", strerror(-size));
        return 1;
    }
    return write(STDOUT_FILENO, buffer, size) < 0;
}
