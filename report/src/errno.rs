//! The names of the errors that the kernel answers calls with.

use nix::errno::Errno;

/// The name of a positive errno; the number where it has none.
pub fn errno_name(errno: i32) -> Option<String> {
    if errno == 0 {
        return None;
    }
    let known = INTERRUPTED.iter().find(|(number, _)| *number == errno);
    Some(match (known, Errno::from_raw(errno)) {
        (Some((_, name)), _) => (*name).to_owned(),
        (None, Errno::UnknownErrno) => format!("errno {errno}"),
        (None, named) => format!("{named:?}"),
    })
}

/// The kernel's own words for a call that a signal interrupted (linux/errno.h), which programs never see: it begins
/// again, or gives `EINTR`.
const INTERRUPTED: [(i32, &str); 4] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names_or_numbers() {
        assert_eq!(errno_name(0), None);
        assert_eq!(errno_name(libc::EROFS).as_deref(), Some("EROFS"));
        assert_eq!(errno_name(libc::ESRCH).as_deref(), Some("ESRCH"));
        assert_eq!(errno_name(512).as_deref(), Some("ERESTARTSYS"));
        assert_eq!(errno_name(4095).as_deref(), Some("errno 4095"));
    }
}
