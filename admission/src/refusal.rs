//! Why a session is not let in.

/// Why a session was not let in. It holds no place then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It waited for a place as long as it may: [`crate::Config::queue_timeout`], or its own deadline.
    #[error("no place was free in time: the queue timeout has passed")]
    Timeout,
    /// [`crate::Config::queue_limit`] sessions wait already.
    #[error("no place is free and the queue is full")]
    QueueFull,
    /// [`crate::Canceller::cancel`] was called.
    #[error("the wait for a place was cancelled")]
    Cancelled,
}
