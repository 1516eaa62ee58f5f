// Activity: something that a client has under way – a subscription, a publish, a channel – seen from the client's
// thread. It may last over several connections.
//
//     any thread:          start, notify ──► inbox
//     the client's thread: attend, connected, receive, completed, failed, lost, close

import Client
import Synchronization

class Activity: @unchecked Sendable {
    let core: ClientCore
    /// Its place among the activities of the client, in the order in which they came.
    final var number: UInt64 = 0
    /// The stream on the present connection. The client's thread alone.
    final var stream: StreamID?
    /// It waits for `settle` at the end of the turn. The client's thread alone.
    final var isDirty = false
    /// Over: nothing more is done for it. The client's thread alone.
    final var isOver = false
    /// It asks whether a subscription is in force, for which streams are set aside.
    var isProbe: Bool { false }
    private let isNoticed = Atomic<Bool>(false)
    private let isStarted = Atomic<Bool>(false)

    init(_ core: ClientCore) { self.core = core }

    /// Bytes that count against the client's limit.
    var bytes: Int { 0 }

    /// Hands it to the client's thread, once.
    final func start() throws(ForebayError) {
        isNoticed.store(true, ordering: .relaxed)
        isStarted.store(true, ordering: .sequentiallyConsistent)
        try core.start(self)
    }

    /// Has the client's thread look at what was asked of it. At most one notice of an activity is under way.
    final func notify() {
        // Nobody looks into the inbox of a client that has ended; what is put there would never be let go of.
        guard isStarted.load(ordering: .sequentiallyConsistent), !core.hasEnded.load(ordering: .sequentiallyConsistent),
            !isNoticed.exchange(true, ordering: .sequentiallyConsistent)
        else { return }
        core.inbox.push(.notice(self))
    }

    final func clearNotice() { isNoticed.store(false, ordering: .sequentiallyConsistent) }

    // The client's thread

    /// Something was asked of it by another thread; or it is new.
    func attend(_ loop: ClientLoop) {}
    /// There is a connection, on which it has no stream.
    func connected(_ loop: ClientLoop) {}
    /// The turn ends in which it was marked.
    func settle(_ loop: ClientLoop) {}
    func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) {}
    func acknowledged(_ told: Acknowledgement, _ loop: ClientLoop) {}
    /// The broker granted, or declined, credit on a channel.
    func creditChanged(_ loop: ClientLoop) {}
    /// The broker wants no more on a channel.
    func declined(_ loop: ClientLoop) {}
    func completed(dropped: UInt64, _ loop: ClientLoop) {}
    func failed(_ error: ClientError, _ loop: ClientLoop) {}
    /// The connection was lost; the stream is gone.
    func lost(_ loop: ClientLoop) {}
    /// The broker shuts down, and has ended the stream for that. The activity goes on with the next connection.
    func turnedAway(_ loop: ClientLoop) { lost(loop) }
    /// The client has ended, and this with it.
    func close(_ error: ForebayError) {}
}
