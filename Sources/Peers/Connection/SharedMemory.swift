// Shared memory that a connection refers to: messages it has been handed and has not sent yet.

extension Connection {
    /// Copies unsent bytes in released regions.
    func copyUnread() {
        output.copyUnread()
        guard let http else { return }
        http.exchanges.forEach {
            $0.body.copy { region, _ in region.isUnread }
            http.weigh($0)
        }
    }

    /// Calls `body` with each shared region referred to and the number of its bytes in use; some regions more than
    /// once. Returns how many places were visited.
    func forEachShared(_ body: (Region, Int) -> Void) -> Int {
        output.forEachShared(body)
        http?.exchanges.forEach { $0.body.forEachShared(body) }
        return output.segments.count + (http?.exchanges.places ?? 0)
    }
}
