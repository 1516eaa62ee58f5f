// Revoking: ends streams when permissions are withdrawn, users removed, or tokens expire. Streams that are still
// allowed continue undisturbed.

final class AccessReview: ShardPart {
    let streams: StreamTable
    let authorization: Authorization
    let ends: StreamEnds

    init(_ context: ShardContext, _ streams: StreamTable, _ authorization: Authorization, _ ends: StreamEnds) {
        self.streams = streams
        self.authorization = authorization
        self.ends = ends
        super.init(context)
    }

    /// Reviews at most `most` of the first `count` streams of a connection, from the last one down. Returns how many
    /// remain; nil if none.
    func review(
        _ connection: Connection, _ count: Int, _ review: inout Review?, most: inout Int, now: Instant
    ) -> Int? {
        var left = Swift.min(count, connection.streams.count)
        while most > 0, left > 0 {
            most -= 1
            left -= 1
            // A stream that ends is replaced at its index by one that was already reviewed.
            if self.review(connection.streams[left], now: now) { review?.streams += 1 }
            left = Swift.min(left, connection.streams.count)
        }
        return left > 0 ? left : nil
    }

    /// Ends a stream that would no longer be allowed to open. Returns whether it did.
    private func review(_ stream: BoundStream, now: Instant) -> Bool {
        guard streams[stream.handle] === stream else { return false }
        let principal = stream.currentPrincipal
        let isGone = stream.principal.user != nil && principal === Principal.nobody
        stream.principal = principal
        do throws(Refusal) {
            switch stream.kind {
            case .subscriber where isGone, .pattern where isGone, .publisher where isGone:
                throw Refusal(.unauthenticated, "The user was removed from this broker.")
            case .subscriber:
                let subscriber = stream.asSubscriber
                try authorization.expectSubscribe(
                    to: subscriber.view.name, subscriber.options, of: principal, at: stream.connection.peer)
            case .pattern:
                try authorization.expectSubscribe(
                    to: stream.asPattern.pattern, of: principal, at: stream.connection.peer)
            case .publisher:
                try authorization.expect(
                    .publish, stream.asPublisher.name, of: principal, at: stream.connection.peer
                )
            case .listStream where principal === Principal.nobody:
                throw Refusal(.unauthenticated, "The user was removed from this broker.")
            // A list leaves out what may no longer be seen, and a call is about to be answered anyway.
            case .listStream, .call: break
            }
            return false
        } catch {
            ends.revoke(stream, error, now: now)
            return true
        }
    }
}
