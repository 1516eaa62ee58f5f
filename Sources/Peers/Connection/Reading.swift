// Reading: decides when a connection is no longer read and its input waits; the less memory there is, the sooner.

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

    /// Whether the peer's next requests must wait: it leaves too many responses unread, a topic's owner lags behind, or
    /// its login is pending.
    func mustWait(_ connection: Connection) -> Bool {
        leavesUnread(connection)
            || connection.http.map { leavesUnwritten(connection, $0) } ?? false
            || connection.input.forwarded > 0 && connection.input.forwarded > mostForwarded
            || connection.login.isPending
    }

    /// Bytes that a connection may have in flight to other shards. If all connections have much in flight, or much
    /// incomplete input, each may have one request or batch of messages at a time.
    private var mostForwarded: Int {
        forwarding.count > Work.shardMessagesInFlight || relief.isPendingFull ? 0 : limits.forwarded
    }

    @inline(__always)
    private func leavesUnread(_ connection: Connection) -> Bool {
        let unread = connection.output.unreadAnswers
        guard unread > Limits.leastControl else { return false }
        return unread > limits.controlOutput || memory.isExhausted
            || unread > Limits.shortControl && (pool.isReadingShort || memory.isPendingFull)
    }

    /// Whether responses over HTTP/2 wait for the socket. What waits for the peer's windows does not count here:
    /// reading must continue so that the peer can open them.
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

    /// Pauses reading while input already read must wait.
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

    /// Counts that no more incomplete messages of a connection can be kept. Returns the refusal.
    func refuseUnfinished() -> Refusal {
        guard let most = relief.shortReassembly else {
            reached(.reassembly)
            losses.refusedUnfinished(.tooLarge)
            return Refusal.unfinished(limit: limits.reassembly)
        }
        reached(.memory)
        losses.refusedUnfinished(.memory)
        return .limit(
            "The broker's memory is full, and a connection may have at most \(most) bytes of "
                + "unfinished messages; try again later.")
    }

    /// Counts bytes in flight to another shard. Above a limit, the connection is not read until they are processed.
    func forward(_ bytes: Int, of connection: Connection) {
        forwarding.sent(bytes, of: connection)
        updateReading(connection)
    }
}
