//! bpf(2) on programs and links that are in the kernel already.
//!
//! aya opens and attaches them, too, but tries first what the kernel can do: it loads nine programs to see, which a start
//! that finds everything loaded pays for nothing.

#![expect(
    unsafe_code,
    reason = "programs and links that are in the kernel already"
)]

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_link_info, bpf_map_type, bpf_prog_info, bpf_prog_type,
};
use nix::errno::Errno;
use nix::libc;

/// Attach points of programs, `enum bpf_attach_type`.
pub(crate) type AttachPoint = bpf_attach_type;

/// Opens a pin in the BPF file system; `BPF_OBJ_GET`.
pub(crate) fn pinned(path: &Path) -> nix::Result<OwnedFd> {
    let path = c_string(path)?;
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_4.pathname = path.as_ptr().addr() as u64;
    descriptor(bpf_cmd::BPF_OBJ_GET, &mut attributes)
}

/// Gives a program, a map or a link a name in the BPF file system; `BPF_OBJ_PIN`.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> nix::Result<()> {
    let path = c_string(path)?;
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_4.pathname = path.as_ptr().addr() as u64;
    attributes.__bindgen_anon_4.bpf_fd = object.as_raw_fd().cast_unsigned();
    bpf(bpf_cmd::BPF_OBJ_PIN, &mut attributes).map(drop)
}

fn c_string(path: &Path) -> nix::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)
}

/// Has a control group, or a network namespace, call a program, beside others that it calls, as long as the link is open;
/// `BPF_LINK_CREATE`.
pub(crate) fn link_to(
    program: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    hook: AttachPoint,
) -> nix::Result<OwnedFd> {
    let mut attributes = no_attributes();
    attributes.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    attributes.link_create.__bindgen_anon_2.target_fd = target.as_raw_fd().cast_unsigned();
    attributes.link_create.attach_type = hook as u32;
    descriptor(bpf_cmd::BPF_LINK_CREATE, &mut attributes)
}

/// Has the tracepoint or hook that a program was verified for call it, as long as the link is open; `BPF_RAW_TRACEPOINT_OPEN`.
/// While a tracepoint calls it already, kernels before 6.10 answer `EEXIST`, and later ones call it once for each link; a hook
/// answers `EBUSY`.
pub(crate) fn link_verified(program: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let mut attributes = no_attributes();
    attributes.raw_tracepoint.prog_fd = program.as_raw_fd().cast_unsigned();
    descriptor(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attributes)
}

/// Opens a link that some process holds, by its number; `BPF_LINK_GET_FD_BY_ID`. Numbers are given anew. `None`: nobody holds such a link;
/// a process that may open no more files is told so by an error.
pub(crate) fn link_by_number(number: u32) -> nix::Result<Option<OwnedFd>> {
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_6.__bindgen_anon_1.link_id = number;
    match descriptor(bpf_cmd::BPF_LINK_GET_FD_BY_ID, &mut attributes) {
        Err(Errno::ENOENT) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The numbers of a link and of the program that it has called; `BPF_OBJ_GET_INFO_BY_FD`.
pub(crate) fn numbers_of_link(link: BorrowedFd<'_>) -> nix::Result<(u32, u32)> {
    // SAFETY: integers throughout, of which zeros are values.
    let info: bpf_link_info = unsafe { info_of(link) }?;
    Ok((info.id, info.prog_id))
}

/// The id of the control group that calls a program by this link; 0 when none does any more. `BPF_OBJ_GET_INFO_BY_FD`.
pub(crate) fn group_of_link(link: BorrowedFd<'_>) -> nix::Result<u64> {
    // SAFETY: integers throughout, of which zeros are values.
    let info: bpf_link_info = unsafe { info_of(link) }?;
    // SAFETY: integers, whatever kind of link it is.
    Ok(unsafe { info.__bindgen_anon_1.cgroup.cgroup_id })
}

/// The number of a program; `BPF_OBJ_GET_INFO_BY_FD`.
pub(crate) fn number_of_program(program: BorrowedFd<'_>) -> nix::Result<u32> {
    // SAFETY: integers throughout, of which zeros are values.
    let info: bpf_prog_info = unsafe { info_of(program) }?;
    Ok(info.id)
}

/// Opens a program that is in the kernel, by its number; `BPF_PROG_GET_FD_BY_ID`.
pub(crate) fn program_by_number(number: u32) -> nix::Result<OwnedFd> {
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_6.__bindgen_anon_1.prog_id = number;
    descriptor(bpf_cmd::BPF_PROG_GET_FD_BY_ID, &mut attributes)
}

/// The numbers of the programs that a group itself calls at a hook, the first [`MOST_PROGRAMS`]; `BPF_PROG_QUERY`.
pub(crate) fn programs_of_group(group: BorrowedFd<'_>, hook: AttachPoint) -> nix::Result<Vec<u32>> {
    // The kernel takes 64 of one group, and answers ENOSPC beyond what there is room for (BPF_CGROUP_MAX_PROGS).
    const MOST_PROGRAMS: u32 = 64;
    let mut numbers = [0; MOST_PROGRAMS as usize];
    let mut attributes = no_attributes();
    attributes.query.__bindgen_anon_1.target_fd = group.as_raw_fd().cast_unsigned();
    attributes.query.attach_type = hook as u32;
    attributes.query.prog_ids = numbers.as_mut_ptr().addr() as u64;
    attributes.query.__bindgen_anon_2.prog_cnt = MOST_PROGRAMS;
    bpf(bpf_cmd::BPF_PROG_QUERY, &mut attributes)?;
    // SAFETY: an integer, whatever the kernel has put there.
    let count = unsafe { attributes.query.__bindgen_anon_2.prog_cnt };
    Ok(numbers.into_iter().take(count as usize).collect())
}

/// The name of a program, and the numbers of the maps that it uses; `BPF_OBJ_GET_INFO_BY_FD`.
pub(crate) fn described(program: BorrowedFd<'_>) -> nix::Result<(String, Vec<u32>)> {
    // The verifier's MAX_USED_MAPS.
    const MOST_MAPS: u32 = 64;
    let mut maps = [0_u32; MOST_MAPS as usize];
    // SAFETY: integers throughout, of which zeros are values.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    info.nr_map_ids = MOST_MAPS;
    info.map_ids = maps.as_mut_ptr().addr() as u64;
    // SAFETY: the room for numbers is as long as the value says, and lasts for the call.
    let info = unsafe { info_into(program, info) }?;
    let name = info.name.iter().map(|byte| byte.cast_unsigned());
    let name: Vec<u8> = name.take_while(|byte| *byte != 0).collect();
    let used = maps.into_iter().take(info.nr_map_ids as usize);
    Ok((String::from_utf8_lossy(&name).into_owned(), used.collect()))
}

/// Runs of a program that the kernel has left out, because it ran there already; `BPF_OBJ_GET_INFO_BY_FD`. Kernels
/// before 5.12 do not count. The same as in `/proc/self/fdinfo`, for a tenth of the time.
pub(crate) fn missed_runs(program: BorrowedFd<'_>) -> nix::Result<u64> {
    // SAFETY: integers throughout, of which zeros are values.
    let info: bpf_prog_info = unsafe { info_of(program) }?;
    Ok(info.recursion_misses)
}

/// True when the kernel lets a program be attached to the entry of its function with this number in its BTF;
/// `BPF_PROG_LOAD` of one that does nothing.
pub(crate) fn takes_entries(function: u32) -> bool {
    // r0 = 0; exit
    const COUNT: u32 = 2;
    const NOTHING: [u64; COUNT as usize] = [0xb7, 0x95];
    const LICENSE: &CStr = c"GPL";
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_3.prog_type = bpf_prog_type::BPF_PROG_TYPE_TRACING as u32;
    attributes.__bindgen_anon_3.expected_attach_type = AttachPoint::BPF_TRACE_FENTRY as u32;
    attributes.__bindgen_anon_3.attach_btf_id = function;
    attributes.__bindgen_anon_3.insns = NOTHING.as_ptr().addr() as u64;
    attributes.__bindgen_anon_3.insn_cnt = COUNT;
    attributes.__bindgen_anon_3.license = LICENSE.as_ptr().addr() as u64;
    descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attributes).is_ok()
}

/// A map of so many sockets, `BPF_MAP_TYPE_SOCKMAP`; `BPF_MAP_CREATE`.
pub(crate) fn map_of_sockets(entries: u32) -> nix::Result<OwnedFd> {
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_1.map_type = bpf_map_type::BPF_MAP_TYPE_SOCKMAP as u32;
    attributes.__bindgen_anon_1.key_size = size_of_in_u32::<u32>();
    attributes.__bindgen_anon_1.value_size = size_of_in_u32::<u64>();
    attributes.__bindgen_anon_1.max_entries = entries;
    descriptor(bpf_cmd::BPF_MAP_CREATE, &mut attributes)
}

/// Puts a socket into a map of sockets; `BPF_MAP_UPDATE_ELEM`. It leaves the map when it is closed.
pub(crate) fn put_socket(
    map: BorrowedFd<'_>,
    index: u32,
    socket: BorrowedFd<'_>,
) -> nix::Result<()> {
    let value = u64::from(socket.as_raw_fd().cast_unsigned());
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_2.map_fd = map.as_raw_fd().cast_unsigned();
    attributes.__bindgen_anon_2.key = (&raw const index).addr() as u64;
    attributes.__bindgen_anon_2.__bindgen_anon_1.value = (&raw const value).addr() as u64;
    bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attributes).map(drop)
}

/// Loads a program that chooses sockets, `BPF_PROG_TYPE_SK_LOOKUP`; `BPF_PROG_LOAD`.
pub(crate) fn load_lookup(instructions: &[u64]) -> nix::Result<OwnedFd> {
    const LICENSE: &CStr = c"GPL";
    let mut attributes = no_attributes();
    attributes.__bindgen_anon_3.prog_type = bpf_prog_type::BPF_PROG_TYPE_SK_LOOKUP as u32;
    attributes.__bindgen_anon_3.expected_attach_type = AttachPoint::BPF_SK_LOOKUP as u32;
    attributes.__bindgen_anon_3.insns = instructions.as_ptr().addr() as u64;
    attributes.__bindgen_anon_3.insn_cnt =
        u32::try_from(instructions.len()).map_err(|_| Errno::E2BIG)?;
    attributes.__bindgen_anon_3.license = LICENSE.as_ptr().addr() as u64;
    descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attributes)
}

/// The kernel's description of an object; `BPF_OBJ_GET_INFO_BY_FD`.
///
/// # Safety
/// Zeros are a value of the type, and it is the one that the kernel has for this kind of object.
unsafe fn info_of<T>(object: BorrowedFd<'_>) -> nix::Result<T> {
    // SAFETY: as the caller says; zeros lead nowhere.
    unsafe { info_into(object, std::mem::zeroed()) }
}

/// The same, where the caller has filled in places for the kernel to write to.
///
/// # Safety
/// As of [`info_of`], and what the value leads to is as long as it says, for the call.
unsafe fn info_into<T>(object: BorrowedFd<'_>, mut info: T) -> nix::Result<T> {
    let mut attributes = no_attributes();
    attributes.info.bpf_fd = object.as_raw_fd().cast_unsigned();
    attributes.info.info_len = size_of_in_u32::<T>();
    attributes.info.info = (&raw mut info).addr() as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
    Ok(info)
}

fn no_attributes() -> bpf_attr {
    // SAFETY: integers throughout, of which zeros are values.
    unsafe { std::mem::zeroed() }
}

/// Both that are asked for are a few hundred bytes.
fn size_of_in_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX)
}

/// A command that answers with a descriptor.
fn descriptor(command: bpf_cmd, attributes: &mut bpf_attr) -> nix::Result<OwnedFd> {
    let made = bpf(command, attributes)?;
    let made = RawFd::try_from(made).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> nix::Result<libc::c_long> {
    // SAFETY: the kernel reads the attributes, and reads or fills what they point to, as far as they say that it is
    // long; the callers above keep all of it until the call returns.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_int,
            std::ptr::from_mut(attributes),
            size_of_in_u32::<bpf_attr>(),
        )
    };
    Errno::result(answer)
}
