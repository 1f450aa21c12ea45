//! Contexts that the kernel hands to the programs of the control group.

#![expect(unsafe_code, reason = "contexts that the kernel hands over")]

use core::ffi::c_void;
use core::ptr;

use aya_ebpf::bindings::{bpf_sock, bpf_sock_addr};
use aya_ebpf::helpers::{
    bpf_get_netns_cookie, bpf_get_socket_cookie, bpf_sk_lookup_tcp, bpf_sk_lookup_udp,
    bpf_sk_release,
};

use super::{current_task, kernel, offset};

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

/// Has the packets of a socket being made bear its number, which nobody without privileges can change.
#[inline(always)]
pub fn mark(socket: *mut bpf_sock) {
    // SAFETY: the context is the kernel's, which lets this kind of program write the mark.
    unsafe { (*socket).mark = bpf_get_socket_cookie(socket.cast()) as u32 };
}

/// The number of the calling socket: that of its packets, if they bear one.
#[inline(always)]
pub fn number_of(address: *mut bpf_sock_addr) -> u32 {
    // SAFETY: the context is the kernel's.
    unsafe { bpf_get_socket_cookie(address.cast()) as u32 }
}

/// The cookie of the network namespace that the calling socket is of, when the calling task is in the same; else 0.
/// A socket that a jail was handed can be of another.
#[inline(always)]
pub fn own_network(address: *mut bpf_sock_addr) -> u64 {
    // SAFETY: the context is the kernel's.
    let cookie = unsafe { bpf_get_netns_cookie(address.cast()) };
    let of_task: u64 = kernel(network_of_task() + u64::from(offset!(net_cookie)));
    if cookie == of_task { cookie } else { 0 }
}

/// The same of a `struct sock` of the kernel's.
#[inline(always)]
pub fn network_of(sock: u64) -> u64 {
    // `possible_net_t` is a pointer, where the kernel has network namespaces at all.
    let of_socket: u64 = kernel(sock + u64::from(offset!(sock_common_skc_net)));
    if of_socket != network_of_task() {
        return 0;
    }
    kernel(of_socket + u64::from(offset!(net_cookie)))
}

/// The `struct net` of the calling task.
#[inline(always)]
fn network_of_task() -> u64 {
    let proxy: u64 = kernel(current_task() + u64::from(offset!(task_nsproxy)));
    kernel(proxy + u64::from(offset!(nsproxy_net_ns)))
}

/// The whole `struct bpf_sock_tuple` of IPv6 as words: source, destination, and both ports in the last.
pub type Tuple = [u32; 9];

/// The family of the address that a call gave, which may not be that of its socket.
#[inline(always)]
pub fn family_asked(address: *mut bpf_sock_addr) -> u32 {
    // SAFETY: the context is the kernel's.
    unsafe { (*address).user_family }
}

/// The end of the calling socket that it is bound to: its IPv4 address and the last word of its IPv6 address in network byte order, and
/// its port in host byte order; each is 0 where it is not.
#[inline(always)]
pub fn bound(address: *mut bpf_sock_addr) -> (u32, u32, u32) {
    // SAFETY: the context is the kernel's, and the verifier knows its socket for one. It allows no load at a computed place in it,
    // which the compiler would make of the choice between two.
    unsafe {
        let own = (*address).__bindgen_anon_1.sk;
        let [v4, v6, port] = [
            &raw const (*own).src_ip4,
            &raw const (*own).src_ip6[3],
            &raw const (*own).src_port,
        ];
        (v4.read_volatile(), v6.read_volatile(), port.read_volatile())
    }
}

/// True when a socket of the calling socket's own network namespace takes what is sent to the first `size` bytes of
/// `tuple`: 12 of IPv4, 36 of IPv6. bpf-helpers(7), bpf_sk_lookup_tcp and bpf_sk_lookup_udp.
#[inline(always)]
pub fn has_receiver(
    address: *mut bpf_sock_addr,
    is_stream: bool,
    (mut tuple, size): (Tuple, u32),
) -> bool {
    /// `BPF_F_CURRENT_NETNS`: of the namespace that the socket is of.
    const OWN_NAMESPACE: u64 = -1_i64 as u64;
    let (context, place) = (address.cast::<c_void>(), ptr::from_mut(&mut tuple).cast());
    // SAFETY: the context is the kernel's; the tuple is on the stack and larger than its size.
    let found = unsafe {
        if is_stream {
            bpf_sk_lookup_tcp(context, place, size, OWN_NAMESPACE, 0)
        } else {
            bpf_sk_lookup_udp(context, place, size, OWN_NAMESPACE, 0)
        }
    };
    if found.is_null() {
        return false;
    }
    // SAFETY: a socket that was just found, given back once, as the verifier asks.
    unsafe { bpf_sk_release(found.cast()) };
    true
}
