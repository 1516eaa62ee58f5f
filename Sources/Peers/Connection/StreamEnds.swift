// StreamEnds: a stream's end, as its peer is told of it, and as those have to know who stand behind it.

final class StreamEnds: ShardPart {
    let streams: StreamTable
    let responses: Responses
    // Above
    unowned(unsafe) var subscribing: Subscribing!
    unowned(unsafe) var publishing: Publishing!
    unowned(unsafe) var listings: Listings!

    init(_ context: ShardContext, _ streams: StreamTable, _ responses: Responses) {
        self.streams = streams
        self.responses = responses
        super.init(context)
    }

    /// Answers a request, and so ends its stream.
    func reply(_ description: Description?, to stream: BoundStream) {
        responses.sayAnswer(description, to: stream)
        drop(stream)
    }

    /// Ends a stream with an error, behind the messages or rows that were handed over before it.
    func fail(_ stream: BoundStream, _ refusal: Refusal) {
        guard streams[stream.handle] === stream else { return }
        switch stream.kind {
        case .subscriber:
            responses.sayFailed(refusal, to: stream)
            stream.asSubscriber.end = refusal.message
        case .listing: responses.sayFailed(refusal, to: stream)
        case .publisher, .call: responses.sayRefused(refusal, on: stream.connection, stream: stream.stream)
        }
        drop(stream)
    }

    /// The same where a publisher's topic does not know yet: it is told as if the publisher had cancelled.
    func revoke(_ stream: BoundStream, _ refusal: Refusal, now: Instant) {
        if stream.kind == .publisher {
            publishing.ended(stream.asPublisher, .cancelled, now: now)
        }
        fail(stream, refusal)
    }

    /// Forgets a stream: its end has been told, or nobody wants to know.
    func drop(_ stream: BoundStream) {
        stream.connection.close(stream: stream.stream)
        if let exchange = stream.exchange {
            exchange.bound = nil
            if stream.isLasting { exchange.connection.http?.exchanges.countLasting(-1) }
            stream.exchange = nil
        }
        stream.connection.detach(stream)
        streams.remove(stream.handle)
        switch stream.kind {
        case .subscriber: subscribing.forget(stream.asSubscriber)
        case .publisher: publishing.forget(stream.asPublisher)
        case .listing: listings.forget(stream.asListing)
        case .call: break
        }
    }

    /// Ends the streams of a connection that is over; where there are many, some of them now and the others later.
    func dropStreams(of connection: Connection, reason: String? = nil, now: Instant) {
        let reason = reason ?? connection.lifecycle.reason
        var count = 0
        while let stream = connection.streams.last {
            if count == Work.endings { return work.endLater(connection) }
            count += 1
            if stream.kind == .subscriber {
                // `forget` counts what it costs.
                if let reason { stream.asSubscriber.end = "its connection ended: \(reason)" }
            } else {
                work.spent += Work.ending
            }
            if stream.kind == .publisher {
                publishing.ended(stream.asPublisher, .lost, now: now)
            }
            // The owner may have answered at once and so have dropped it.
            if streams[stream.handle] === stream { drop(stream) }
        }
        if connection.isClosed { giveBack(connection) }
    }

    /// What a closed connection held. Once all its streams have ended nothing is written to it any more.
    func giveBack(_ connection: Connection) {
        connection.output.removeAll()
        guard connection.streams.isEmpty else { return }
        connection.waiters.removeAll()
    }
}
