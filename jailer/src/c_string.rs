//! Texts as the kernel takes them.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

/// An argument, variable or path for the kernel; bytes after a zero cannot be passed and are refused
/// by the caller long before.
pub(crate) fn c_string(text: &OsStr) -> CString {
    let bytes = text.as_bytes().split(|byte| *byte == 0).next();
    CString::new(bytes.unwrap_or_default()).unwrap_or_default()
}
