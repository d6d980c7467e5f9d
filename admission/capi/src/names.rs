//! Policies, kinds of wait and classes by number and by name; versions.

use std::ffi::{CStr, c_char, c_int};

use flifo_admission::{AutoState, Class, Policy, WaitKind};

use crate::status::{FLIFO_OK, Failure, flifo_status_t, guard, invalid};

/// The version of the binary interface. It is raised when a program compiled with an older header would fail with the
/// newer library.
///
/// Added functions, added statuses and structs that grew do not raise it.
pub const FLIFO_ABI_VERSION: u32 = 3;

/// Returns the library's version as text, such as "0.1.0". Never null, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no NUL"),
        };
    VERSION.as_ptr()
}

/// Checks that the loaded library fits the header that the program was compiled with.
///
/// Call `flifo_abi_check(FLIFO_ABI_VERSION)` once.
///
/// Returns `FLIFO_INVALID` if it does not fit; `flifo_last_error()` names both versions.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_abi_check(abi_version: u32) -> flifo_status_t {
    if abi_version == FLIFO_ABI_VERSION {
        return FLIFO_OK;
    }
    guard(|| {
        Err(invalid(format!(
            "compiled for version {abi_version} of the binary interface, but libflifo {} has version \
             {FLIFO_ABI_VERSION}: compile with the header of the installed library",
            env!("CARGO_PKG_VERSION")
        )))
    })
}

/// Which thread enters when the limit is reached.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum flifo_policy_t {
    /// No limit: every thread enters at once.
    FLIFO_POLICY_NONE = 0,
    /// Strict order: an exit hands its slot off to the head of the queue, and newcomers queue behind.
    FLIFO_POLICY_FIFO = 1,
    /// FIFO hand-off, but a newcomer enters at once while woken threads are still pending (published in 2009).
    FLIFO_POLICY_FLIFO = 2,
    /// Round robin with a time slice (`quantum_ns`), FLIFO for newcomers. The default.
    ///
    /// From a quantum of 1 ms on, a session that used far more CPU time than others lets them pass.
    FLIFO_POLICY_QUANTUM = 3,
}

/// What an adaptive limit does now.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum flifo_auto_state_t {
    /// The limit is not adaptive.
    FLIFO_AUTO_OFF = 0,
    /// Few threads want to run: no limit.
    FLIFO_AUTO_CALM = 1,
    /// The limit and no limit are measured in alternating blocks.
    FLIFO_AUTO_COMPARING = 2,
    /// The limit does more work, and is in force.
    FLIFO_AUTO_LIMITED = 3,
    /// No limit does as much work, and none is in force.
    FLIFO_AUTO_OPEN = 4,
}

/// The number of an adaptive limit's state.
pub(crate) fn auto_state(state: Option<AutoState>) -> flifo_auto_state_t {
    match state {
        None => flifo_auto_state_t::FLIFO_AUTO_OFF,
        Some(AutoState::Calm) => flifo_auto_state_t::FLIFO_AUTO_CALM,
        Some(AutoState::Comparing) => flifo_auto_state_t::FLIFO_AUTO_COMPARING,
        Some(AutoState::Limited) => flifo_auto_state_t::FLIFO_AUTO_LIMITED,
        Some(AutoState::Open) => flifo_auto_state_t::FLIFO_AUTO_OPEN,
    }
}

/// What a running thread waits for.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum flifo_wait_kind_t {
    /// A row lock held by another transaction.
    FLIFO_WAIT_ROW_LOCK = 0,
    /// A table or metadata lock.
    FLIFO_WAIT_TABLE_LOCK = 1,
    /// A page read from disk.
    FLIFO_WAIT_DISK = 2,
    /// A client that sends or receives.
    FLIFO_WAIT_NETWORK = 3,
    /// The redo log's write or sync.
    FLIFO_WAIT_LOG_SYNC = 4,
    /// A sleep the statement asked for.
    FLIFO_WAIT_SLEEP = 5,
    /// Anything else the embedder declares.
    FLIFO_WAIT_USER = 6,
}

/// The number of kinds of wait.
pub const FLIFO_WAIT_KINDS: usize = 7;

/// The `wait_mask` with which every kind of wait releases the slot; kind `k` has the bit `1 << k`.
pub const FLIFO_WAIT_MASK_ALL: u32 = 0x7f;

/// The order in the queue.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum flifo_class_t {
    /// All other sessions. The class of a new session.
    FLIFO_CLASS_NORMAL = 0,
    /// A session that holds locks for which others may wait: it goes before the others, so that the locks are released
    /// soon.
    FLIFO_CLASS_FIRST = 1,
}

pub(crate) fn policy_of(policy: c_int) -> Result<Policy, Failure> {
    let known = usize::try_from(policy).ok().and_then(|n| Policy::ALL.get(n).copied());
    known.ok_or_else(|| {
        invalid(format!("policy {policy} is not a FLIFO_POLICY_*: use 0 to {}", Policy::ALL.len() - 1))
    })
}

pub(crate) fn wait_kind_of(kind: c_int) -> Result<WaitKind, Failure> {
    let known = usize::try_from(kind).ok().and_then(|n| WaitKind::ALL.get(n).copied());
    known.ok_or_else(|| {
        invalid(format!("wait kind {kind} is not a FLIFO_WAIT_*: use 0 to {}", WaitKind::ALL.len() - 1))
    })
}

pub(crate) fn class_of(class: c_int) -> Result<Class, Failure> {
    match class {
        0 => Ok(Class::Normal),
        1 => Ok(Class::First),
        _ => Err(invalid(format!("class {class} is not a FLIFO_CLASS_*: use 0 or 1"))),
    }
}

/// Reads a text from the caller. `what` names the argument in the message.
///
/// # Safety
/// `text` is null or ends with NUL.
unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(invalid(format!("{what} is null")));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// Parses the name of a policy, as `flifo_policy_name` returns it.
///
/// `name`: text that ends with NUL. `policy`: receives the `flifo_policy_t`.
///
/// Returns `FLIFO_INVALID` if there is no such policy; `flifo_last_error()` lists the names.
///
/// # Safety
/// `name` is null or ends with NUL; `policy` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_policy_parse(name: *const c_char, policy: *mut c_int) -> flifo_status_t {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        let parsed = name.parse::<Policy>().map_err(invalid)?;
        // SAFETY: the caller's promise.
        unsafe { put(policy, "policy", parsed as c_int) }
    })
}

/// Stores a result at the caller's address. `what` names the argument in the message.
///
/// # Safety
/// `to` is null or can be written.
pub(crate) unsafe fn put<T>(to: *mut T, what: &str, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(invalid(format!("{what} is null")));
    }
    // SAFETY: the caller's promise; unaligned, so that the field of a packed struct will do.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

const fn policy_name(policy: Policy) -> &'static CStr {
    match policy {
        Policy::None => c"none",
        Policy::Fifo => c"fifo",
        Policy::Flifo => c"flifo",
        Policy::Quantum => c"quantum",
    }
}

const fn wait_kind_name(kind: WaitKind) -> &'static CStr {
    match kind {
        WaitKind::RowLock => c"row lock",
        WaitKind::TableLock => c"table lock",
        WaitKind::Disk => c"disk",
        WaitKind::Network => c"network",
        WaitKind::LogSync => c"log sync",
        WaitKind::Sleep => c"sleep",
        WaitKind::User => c"user",
    }
}

/// Returns the name of a `flifo_policy_t`, such as "quantum"; null if there is no such policy. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_policy_name(policy: c_int) -> *const c_char {
    let known = usize::try_from(policy).ok().and_then(|n| Policy::ALL.get(n));
    known.map_or(std::ptr::null(), |policy| policy_name(*policy).as_ptr())
}

/// Returns the name of a `flifo_wait_kind_t`, such as "row lock"; null if there is no such kind. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_wait_kind_name(kind: c_int) -> *const c_char {
    let known = usize::try_from(kind).ok().and_then(|n| WaitKind::ALL.get(n));
    known.map_or(std::ptr::null(), |kind| wait_kind_name(*kind).as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::FLIFO_INVALID;
    use flifo_admission::WaitMask;

    #[test]
    fn numbers_and_names_match_the_rust_crate() {
        use flifo_policy_t::*;
        let policies = [FLIFO_POLICY_NONE, FLIFO_POLICY_FIFO, FLIFO_POLICY_FLIFO, FLIFO_POLICY_QUANTUM];
        assert_eq!(policies.len(), Policy::ALL.len());
        for (ours, policy) in policies.into_iter().zip(Policy::ALL) {
            assert_eq!((policy_of(ours as c_int), ours as u8), (Ok(policy), policy as u8));
            assert_eq!(policy_name(policy).to_str().unwrap(), policy.name());
            assert!(format!("{ours:?}").eq_ignore_ascii_case(&format!("FLIFO_POLICY_{policy}")));
        }
        assert_eq!(FLIFO_WAIT_KINDS, WaitKind::ALL.len());
        assert_eq!(flifo_wait_kind_t::FLIFO_WAIT_USER as usize, FLIFO_WAIT_KINDS - 1);
        assert_eq!(FLIFO_WAIT_MASK_ALL, u32::from(WaitMask::ALL.bits()));
        for (n, kind) in WaitKind::ALL.into_iter().enumerate() {
            assert_eq!(wait_kind_of(n as c_int), Ok(kind));
            assert_eq!(wait_kind_name(kind).to_str().unwrap(), kind.name());
        }
        assert_eq!(class_of(flifo_class_t::FLIFO_CLASS_FIRST as c_int), Ok(Class::First));
        assert_eq!(class_of(flifo_class_t::FLIFO_CLASS_NORMAL as c_int), Ok(Class::Normal));
        for wrong in [-1, 99] {
            assert_eq!(policy_of(wrong), Err(FLIFO_INVALID));
            assert_eq!(wait_kind_of(wrong), Err(FLIFO_INVALID));
            assert_eq!(class_of(wrong), Err(FLIFO_INVALID));
            assert!(flifo_policy_name(wrong).is_null() && flifo_wait_kind_name(wrong).is_null());
        }
    }
}
