//! What the process's allocator does with memory that is let go.

/// What is larger is given back to the system when it is let go. Buffers for
/// parts and stretches are; what serves requests is not.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 256 << 10;

/// Has buffers that are let go leave the process. To be called once, at the
/// start of a process that moves one disk after another: glibc raises the size
/// from which it does so to that of the largest buffer it has seen, and then
/// keeps some for each thread that ever had one.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: a number is set in the allocator, which may be done at any
        // time; no memory is touched.
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
        if is_set != 1 {
            tracing::debug!("the allocator keeps what is let go");
        }
    }
}
