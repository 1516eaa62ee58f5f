// Reading: when a connection is read no more, and what it sent waits. The less memory there is, the sooner.

final class Reading: ShardPart {
    let relief: MemoryRelief
    let forwarding: Forwarding
    let losses: PublishLosses

    init(_ context: ShardContext, _ relief: MemoryRelief, _ forwarding: Forwarding, _ losses: PublishLosses) {
        self.relief = relief
        self.forwarding = forwarding
        self.losses = losses
        super.init(context)
    }

    /// The peer leaves too many answers unread, a topic's owner lags behind, or it is not known yet who the peer is: it
    /// is to ask for nothing more now.
    func mustWait(_ connection: Connection) -> Bool {
        leavesUnread(connection)
            || connection.http.map { leavesUnwritten(connection, $0) } ?? false
            || connection.input.forwarded > 0 && connection.input.forwarded > mostForwarded
            || connection.login.isPending
    }

    /// Bytes that a connection may have on their way to other shards: where there is much of all of them, or of what
    /// clients have begun, one request or batch of messages at a time.
    private var mostForwarded: Int {
        forwarding.count > Work.mailUnderWay || relief.isPendingFull ? 0 : limits.forwarded
    }

    @inline(__always)
    private func leavesUnread(_ connection: Connection) -> Bool {
        let unread = connection.output.unreadAnswers
        guard unread > Limits.leastControl else { return false }
        return unread > limits.controlOutput || memory.isExhausted
            || unread > Limits.shortControl && (pool.isReadingShort || memory.isPendingFull)
    }

    /// Answers over HTTP/2 wait for the socket. What waits for the peer's windows is not held against it here: what
    /// opens them has to be read.
    private func leavesUnwritten(_ connection: Connection, _ http: HTTPConnection) -> Bool {
        let isBlocked = connection.output.blocked
        guard isBlocked || connection.lists.isFlushing else { return false }
        if http.exchanges.unwritten > Limits.unwrittenAnswers {
            return isBlocked || pool.isReadingShort || memory.isPendingFull
        }
        if http.exchanges.unwritten > Limits.shortUnwrittenAnswers, memory.isPendingFull { return true }
        guard isBlocked else { return false }
        return http.transport.queuedFrames
            > (memory.isPendingFull ? Limits.shortUnwrittenFrames : Limits.unwrittenFrames)
    }

    /// Reading pauses while what was read must wait.
    func updateReading(_ connection: Connection) {
        if connection.output.unreadAnswers > limits.controlOutput {
            if connection.liveness.unreadSince == nil { reached(.controlOutput) }
            connection.liveness.unreadSince = connection.liveness.unreadSince ?? moment.monotonic
        } else {
            connection.liveness.unreadSince = nil
        }
        var reading = !connection.input.isHeld && !mustWait(connection)
        if case .closing = connection.phase { reading = false }
        guard reading != connection.input.isReading, !connection.isClosed, !connection.isDetached else { return }
        connection.input.isReading = reading
        effects.reading.append((connection.id, reading))
    }

    /// Counts that a connection can have no more of its unfinished messages kept. Returns why.
    func refuseUnfinished() -> Refusal {
        guard let most = relief.shortReassembly else {
            reached(.reassembly)
            losses.refusedUnfinished(.tooLarge)
            return Refusal.unfinished(limit: limits.reassembly)
        }
        reached(.memory)
        losses.refusedUnfinished(.memory)
        return .limit(
            "The broker's memory is full, and it takes no more of unfinished messages than "
                + "\(most) bytes of a connection: send it again later.")
    }

    /// Bytes on their way to another shard: past a limit the connection is read no more until they are dealt with.
    func forward(_ bytes: Int, of connection: Connection) {
        forwarding.sent(bytes, of: connection)
        updateReading(connection)
    }
}
