// Activity: something that a client is doing (a subscription, a publish, a channel), as the client's thread sees it. An
// activity may span several connections.
//
//     any thread:          start, notify ──► inbox
//     the client's thread: attend, connected, receive, completed, failed, lost, close

import Client
import ForebayWire
import Synchronization

class Activity: @unchecked Sendable {
    let core: ClientCore
    /// The activity's number among those of the client, in order of creation.
    final var number: UInt64 = 0
    /// The stream on the current connection. Used only on the client's thread.
    final var stream: StreamID?
    /// Whether the activity is marked to be called at the end of the turn. Used only on the client's thread.
    final var isDirty = false
    /// Whether the activity has ended and nothing more is done for it. Used only on the client's thread.
    final var isOver = false
    private let isNoticed = Atomic<Bool>(false)
    private let isStarted = Atomic<Bool>(false)

    init(_ core: ClientCore) { self.core = core }

    /// The bytes that count against the client's limit.
    var bytes: Int { 0 }

    /// Hands the activity to the client's thread, once.
    final func start() throws(ForebayError) {
        isNoticed.store(true, ordering: .relaxed)
        isStarted.store(true, ordering: .sequentiallyConsistent)
        try core.start(self)
    }

    /// Has the client's thread look at this activity's requests. At most one notice for an activity is in the inbox.
    final func notify() {
        // Nobody reads the inbox of a client that has ended; anything put there would never be released.
        guard isStarted.load(ordering: .sequentiallyConsistent), !core.hasEnded.load(ordering: .sequentiallyConsistent),
            !isNoticed.exchange(true, ordering: .sequentiallyConsistent)
        else { return }
        core.inbox.push(.notice(self))
    }

    final func clearNotice() { isNoticed.store(false, ordering: .sequentiallyConsistent) }

    // The client's thread

    /// Another thread requested something of the activity, or the activity is new.
    func attend(_ loop: ClientLoop) {}
    /// There is a connection, on which the activity has no stream.
    func connected(_ loop: ClientLoop) {}
    /// Called at the end of the turn in which the activity was marked.
    func flush(_ loop: ClientLoop) {}
    /// A subscription has begun at this position.
    func opened(_ position: OpeningPosition, _ loop: ClientLoop) {}
    func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) {}
    func acknowledged(_ acknowledgement: Acknowledgement, _ loop: ClientLoop) {}
    /// The broker granted credit on a channel, or declined.
    func creditChanged(_ loop: ClientLoop) {}
    /// The broker accepts no more on a channel.
    func declined(_ loop: ClientLoop) {}
    func completed(dropped: UInt64, _ loop: ClientLoop) {}
    func failed(_ error: ClientError, _ loop: ClientLoop) {}
    /// The connection was lost, and with it the stream.
    func lost(_ loop: ClientLoop) {}
    /// The broker is shutting down and therefore ended the stream. The activity continues on the next connection.
    func turnedAway(_ loop: ClientLoop) { lost(loop) }
    /// The connection is gone, whether or not the activity had a stream on it. Stream ids begin again on the next one.
    func disconnected() {}
    /// The client has ended, and this activity with it.
    func close(_ error: ForebayError) {}
}
