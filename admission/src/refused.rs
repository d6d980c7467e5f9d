//! Why a session is not admitted.

/// Why a session was not admitted. It holds no slot then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The session queued for as long as it may: [`crate::Config::queue_timeout`], or its own deadline.
    #[error("no slot became free before the queue timeout")]
    Timeout,
    /// [`crate::Config::queue_limit`] sessions queue already.
    #[error("no slot is free and the queue is full")]
    QueueFull,
    /// [`crate::Canceller::cancel`] was called.
    #[error("queueing was cancelled")]
    Cancelled,
}
