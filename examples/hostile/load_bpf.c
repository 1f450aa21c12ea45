// tries: load a BPF program into the kernel, to unhook the watcher or to read kernel memory
// must: die
// expect: exit=121 status=killed_by_policy verdict=violated rule=kernel-instrument/kill syscall=bpf stdout-lacks=loaded
// control: exit=0 stdout-has=loaded
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    // The smallest socket filter: r0 = 0; exit.
    struct bpf_insn program[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attributes = {
        .prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
        .insns = (uintptr_t)program,
        .insn_cnt = 2,
        .license = (uintptr_t)"GPL",
    };
    if (syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes) < 0) {
        perror("bpf");
        return 1;
    }
    puts("loaded");
    return 0;
}
