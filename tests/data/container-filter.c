/* Runs a program under a filter of system calls. `container` is like the one that container engines set by default around
 * whoever lacks CAP_SYS_ADMIN: no namespace, no mount, no eBPF, and no clone3(2), whose flags a filter cannot see. `bpf` refuses
 * eBPF alone. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORD BPF_LD | BPF_W | BPF_ABS
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)
#define REFUSE(call, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), ANSWER(SECCOMP_RET_ERRNO | (error))
/* Every CLONE_NEW… of clone(2). */
#define NAMESPACES 0x7e020000

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(WORD, offsetof(struct seccomp_data, nr)),
		REFUSE(SYS_bpf, EPERM),
		/* The first of what `bpf` does without. */
		REFUSE(SYS_clone3, ENOSYS),
		REFUSE(SYS_unshare, EPERM),
		REFUSE(SYS_setns, EPERM),
		REFUSE(SYS_mount, EPERM),
		REFUSE(SYS_umount2, EPERM),
		REFUSE(SYS_pivot_root, EPERM),
		REFUSE(SYS_fsopen, EPERM),
		REFUSE(SYS_open_tree, EPERM),
		REFUSE(SYS_move_mount, EPERM),
		REFUSE(SYS_perf_event_open, EPERM),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(WORD, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
	if (argc < 3)
		return 99;
	if (!strcmp(argv[1], "bpf"))
		filter[3] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) {
		perror("seccomp");
		return 99;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 99;
}
