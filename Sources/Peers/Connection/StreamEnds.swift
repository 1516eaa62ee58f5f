// StreamEnds: ends streams, for the peer and for the subscription, publisher, list or call bound to them.

final class StreamEnds: ShardPart {
    let streams: StreamTable
    let responses: Responses
    // Above
    unowned(unsafe) var subscribing: Subscribing!
    unowned(unsafe) var patterns: PatternSubscribing!
    unowned(unsafe) var publishing: Publishing!
    unowned(unsafe) var listRequests: ListRequests!

    init(_ context: ShardContext, _ streams: StreamTable, _ responses: Responses) {
        self.streams = streams
        self.responses = responses
        super.init(context)
    }

    /// Answers a request, which ends its stream.
    func reply(_ description: Description?, to stream: BoundStream) {
        responses.sendAnswer(description, to: stream)
        drop(stream)
    }

    /// Ends a stream with an error, after the messages or rows already handed over for it.
    func fail(_ stream: BoundStream, _ refusal: Refusal) {
        guard streams[stream.handle] === stream else { return }
        switch stream.kind {
        case .subscriber:
            responses.sendFailure(refusal, to: stream)
            stream.asSubscriber.end = refusal.message
        case .pattern:
            responses.sendFailure(refusal, to: stream)
            stream.asPattern.end = refusal.message
        case .listStream: responses.sendFailure(refusal, to: stream)
        case .publisher, .call: responses.sendRefusal(refusal, on: stream.connection, stream: stream.stream)
        }
        drop(stream)
    }

    /// Like `fail`, for a publisher whose topic does not know of the end: the topic is notified that the publisher
    /// canceled.
    func revoke(_ stream: BoundStream, _ refusal: Refusal, now: Instant) {
        if stream.kind == .publisher {
            publishing.ended(stream.asPublisher, .cancelled, now: now)
        }
        fail(stream, refusal)
    }

    /// Removes a stream whose end has been reported or needs no report.
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
        case .subscriber: subscribing.discard(stream.asSubscriber)
        case .pattern: patterns.discard(stream.asPattern)
        case .publisher: publishing.discard(stream.asPublisher)
        case .listStream: listRequests.discard(stream.asListStream)
        case .call: break
        }
    }

    /// Ends the streams of an ended connection. If there are many, the rest are ended in later turns.
    func dropStreams(of connection: Connection, reason: String? = nil, now: Instant) {
        let reason = reason ?? connection.lifecycle.reason
        var count = 0
        while let stream = connection.streams.last {
            if count == Work.endings { return work.endLater(connection) }
            count += 1
            if stream.isSubscription {
                // `discard` accounts for its own cost.
                if let reason { subscribing.noteEnd(of: stream, "its connection ended: \(reason)") }
            } else {
                work.spent += Work.ending
            }
            if stream.kind == .publisher {
                publishing.ended(stream.asPublisher, .lost, now: now)
            }
            // The owner may have replied at once, which drops the stream.
            if streams[stream.handle] === stream { drop(stream) }
        }
        if connection.isClosed { giveBack(connection) }
    }

    /// Releases what a closed connection held. Nothing is written to it once all its streams have ended.
    func giveBack(_ connection: Connection) {
        connection.output.removeAll()
        guard connection.streams.isEmpty else { return }
        connection.waiters.removeAll()
    }
}
