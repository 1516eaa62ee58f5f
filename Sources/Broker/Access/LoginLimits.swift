// LoginLimits: the bounds of what waits for the hash of a password.

/// How many logins may wait for one thread.
public enum LoginLimits {
    /// Logins and their bytes, each for addresses from which one has failed lately, and for all others.
    public static let queue = 256
    public static let queueBytes = 1 << 20
    /// Logins of one address, or /64.
    public static let perAddress = 16
}
