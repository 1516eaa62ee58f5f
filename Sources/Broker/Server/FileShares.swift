// FileShares: divides the file descriptors that the process may open. The kernel assigns the lowest free number to a
// new descriptor, so descriptors are reserved by not using the highest numbers:
//
//     0 ── connections, listeners, refused and lingering sockets ── admin.lowerBound ── the admin listener's ── limit

struct FileShares: Sendable {
    /// Descriptors reserved for the admin listener: operators must be able to reach it during a flood of connections.
    let admin: Range<Int32>
    /// Maximum number of refused connections that wait, and of those that linger.
    let refused: Int
    /// Maximum number of lingering sockets per shard.
    let lingering: Int

    /// The number of the admin listener's descriptors that refused connections may use while their clients read the
    /// reason.
    static let borrowed = 16
    private static let least = 16

    /// The shares of a process without a relevant limit.
    static let unlimited = FileShares(
        admin: Int32.max..<Int32.max, refused: RefusedSockets.limit, lingering: LingerQueue.limit)

    private init(admin: Range<Int32>, refused: Int, lingering: Int) {
        self.admin = admin
        self.refused = refused
        self.lingering = lingering
    }

    /// - Parameters:
    ///   - files: the limit on open files.
    ///   - connections: maximum number of connections.
    init(of files: Int, connections: Int, threads: Int) {
        let kept = min(AdminLimits.files, files / 4)
        let end = Int32(clamping: files)
        admin = end - Int32(kept)..<end
        refused = min(RefusedSockets.limit, max(FileShares.least, (files - kept - connections) / 8))
        lingering = min(LingerQueue.limit, max(FileShares.least, (files - kept) / 2 / threads))
    }
}
