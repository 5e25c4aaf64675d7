//! How many files and connections a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many as it is allowed to: a connection is a file, and a shell's limit is often 1,024.
/// Gives how many that is; `None` if there is no limit.
pub(crate) fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}
