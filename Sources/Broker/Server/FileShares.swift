// FileShares: how a broker divides the file descriptors that the process may have. The kernel gives a new descriptor
// the lowest free number, so whoever leaves the highest numbers alone leaves as many descriptors free:
//
//     0 ── connections, listeners, refused and lingering sockets ── admin.lowerBound ── the admin listener's ── limit

struct FileShares: Sendable {
    /// Numbers that only the admin listener keeps: an operator has to reach it during a flood of connections.
    let admin: Range<Int32>
    /// Sockets of refused connections that wait, and as many that linger.
    let refused: Int
    /// Sockets that may linger on each shard.
    let lingering: Int

    /// Refused connections may use so many of the admin listener's numbers while their clients read why.
    static let borrowed = 16
    private static let least = 16

    /// Without a limit that matters.
    static let unlimited = FileShares(
        admin: Int32.max..<Int32.max, refused: RefusedSockets.limit, lingering: LingerQueue.limit)

    private init(admin: Range<Int32>, refused: Int, lingering: Int) {
        self.admin = admin
        self.refused = refused
        self.lingering = lingering
    }

    /// - Parameters:
    ///   - files: the limit on open files.
    ///   - connections: how many there may be.
    init(of files: Int, connections: Int, threads: Int) {
        let kept = min(AdminLimits.files, files / 4)
        let end = Int32(clamping: files)
        admin = end - Int32(kept)..<end
        refused = min(RefusedSockets.limit, max(FileShares.least, (files - kept - connections) / 8))
        lingering = min(LingerQueue.limit, max(FileShares.least, (files - kept) / 2 / threads))
    }
}
