//! The process's own resident memory, as the kernel counts it.

use std::fs;

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Now.
    pub now: u64,
    /// The most since the process started.
    pub peak: u64,
}

/// This process's; `None` where the kernel does not tell.
pub fn resident() -> Option<Resident> {
    parse(&fs::read_to_string("/proc/self/status").ok()?)
}

/// The figures in a `/proc/PID/status`, which counts in units of 1024 bytes.
fn parse(status: &str) -> Option<Resident> {
    let kibibytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Resident {
        now: kibibytes("VmRSS:")? * 1024,
        peak: kibibytes("VmHWM:")? * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_bytes_here() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(
            parse(status),
            Some(Resident {
                now: 1 << 20,
                peak: 2 << 20
            })
        );
        assert_eq!(parse("Name:\tx\n"), None);
        assert!(resident().is_some_and(|r| r.now > 0 && r.now <= r.peak));
    }
}
