// LoginLimits: limits for logins that wait for a password to be hashed.

/// How many logins may wait for one worker thread.
public enum LoginLimits {
    /// Maximum number of logins in a queue, and of their bytes. There are two queues: one for addresses with a recent
    /// failure, one for the rest.
    public static let queue = 256
    public static let queueBytes = 1 << 20
    /// Maximum number of queued logins from one IPv4 address or IPv6 /64.
    public static let perAddress = 16
}
