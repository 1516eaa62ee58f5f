// What a connection names of memory that it shares with others: messages that it has been handed and has not sent yet.

extension Connection {
    /// Copies what is to be sent and lies in regions that were let go of.
    func copyUnread() {
        output.copyUnread()
        guard let http else { return }
        http.exchanges.forEach {
            $0.body.copy { region, _ in region.isUnread }
            http.weigh($0)
        }
    }

    /// Calls `body` with what is named of others' memory, some of it more than once, and how many bytes of it. Returns
    /// at how many places it looked.
    func forEachShared(_ body: (Region, Int) -> Void) -> Int {
        output.forEachShared(body)
        http?.exchanges.forEach { $0.body.forEachShared(body) }
        return output.segments.count + (http?.exchanges.places ?? 0)
    }
}
