//! Contexts that the kernel hands to the programs of the control group.

#![expect(unsafe_code, reason = "contexts that the kernel hands over")]

use aya_ebpf::bindings::{bpf_sock, bpf_sock_addr};

/// The context of a socket address hook; the verifier allows these fields only, whole words only.
#[inline(always)]
pub fn socket_address4(address: *mut bpf_sock_addr) -> (u32, u32, u32) {
    // SAFETY: the kernel hands a valid context to every run of the program.
    unsafe { ((*address).user_ip4, (*address).user_port, (*address).type_) }
}

/// As [`socket_address4`], for IPv6.
#[inline(always)]
pub fn socket_address6(address: *mut bpf_sock_addr) -> ([u32; 4], u32, u32) {
    // SAFETY: the kernel hands a valid context to every run of the program.
    unsafe {
        let ip = [
            (*address).user_ip6[0],
            (*address).user_ip6[1],
            (*address).user_ip6[2],
            (*address).user_ip6[3],
        ];
        (ip, (*address).user_port, (*address).type_)
    }
}

/// Type and protocol of a socket being made.
#[inline(always)]
pub fn socket(socket: *mut bpf_sock) -> (u32, u32) {
    // SAFETY: the kernel hands a valid context to every run of the program.
    unsafe { ((*socket).type_, (*socket).protocol) }
}
