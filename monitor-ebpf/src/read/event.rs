//! The context that perf hands to a program: a trace event, as `/sys/kernel/tracing/events` describes it.

// Allowed, because what the macros expand to stands elsewhere.
#![allow(
    unsafe_code,
    reason = "programs by the names and in the section that the loader looks for"
)]

use aya_ebpf::EbpfContext;
use aya_ebpf::programs::TracePointContext;

use super::kernel;

/// Makes a program of perf's trace events. It answers 1: with 0 the kernel would keep the event from
/// every other program that wants it.
macro_rules! perf_program {
    ($name:ident, $body:expr) => {
        #[unsafe(no_mangle)]
        #[unsafe(link_section = "tracepoint")]
        fn $name(context: *mut core::ffi::c_void) -> u32 {
            let body: fn(&aya_ebpf::programs::TracePointContext) -> i32 = $body;
            body(&aya_ebpf::programs::TracePointContext::new(context));
            1
        }
    };
}
pub(crate) use perf_program;

/// A word of a trace event, so many bytes in.
#[inline(always)]
pub fn event<T: Copy>(context: &TracePointContext, at: u64) -> T {
    kernel(context.as_ptr() as u64 + at)
}

/// The address of a text of a trace event, so many bytes in.
#[inline(always)]
pub fn event_text(context: &TracePointContext, at: u32) -> u64 {
    context.as_ptr() as u64 + u64::from(at)
}
