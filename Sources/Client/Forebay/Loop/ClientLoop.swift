// ClientLoop: a client's thread. The thread owns the connection, or waits for the next one, and owns all activities.
//
//     dialing ──► checking ──broker answers──► connected ──lost──► pausing ──► dialing …
//        └───────────┴────────── fails ──────────────────────────────▲
//
// Names are resolved and sockets connected on a separate thread, so that this thread blocks only in its poller. A turn
// handles notices from other threads, then the broker's input, then what follows from both; it writes the output, and
// waits.

import Bytes
import Client
import EventLoop
import StreamsCore

final class ClientLoop {
    private enum Phase {
        case dialing
        /// The socket is connected, and the broker has been asked to prove that it is one.
        case checking(until: UInt64)
        case connected
        case pausing(until: UInt64)
        case ended
    }

    /// The most bytes read from the broker in one turn.
    private static let readQuantum = 128 << 10
    /// The most nanoseconds that the events of one turn may take, checked after every few events: slow subscribers must
    /// not keep this side from sending keepalives.
    private static let eventTime: UInt64 = 10_000_000
    private static let eventsBetweenLooks = 8
    private static let inboxToken: UInt64 = 0
    private static let socketToken: UInt64 = 1

    private let core: ClientCore
    private var poller: Poller
    private var link: Link?
    private var interest: Interest = .read
    private var phase = Phase.dialing
    private var attempts: ConnectionAttempts
    private var random = SystemRandomNumberGenerator()
    /// The call that finds out whether the broker accepts the credentials. Only over HTTP, where each request carries
    /// them.
    private var question: StreamID?
    /// Why the broker accepts no new streams on this connection.
    private var closing: String?

    /// All activities, by number.
    private var activities: [UInt64: Activity] = [:]
    private var lastNumber: UInt64 = 0
    /// Activities that have a stream, by its id, and the one that was looked up last.
    private(set) var streams: [UInt32: Activity] = [:]
    private var recent: Activity?
    private var dirty: [Activity] = []
    /// Activities that wait for the network to accept the queued output.
    private var held: [Activity] = []
    /// Whether some of what was read is left over for lack of time.
    private var hasBacklog = false

    init(_ core: ClientCore) throws(SystemError) {
        self.core = core
        attempts = ConnectionAttempts(core.brokers, core.options.reconnect)
        poller = try Poller()
        try poller.add(core.inbox.descriptor, token: Self.inboxToken, interest: .read)
    }

    /// Runs until the client ends.
    func run() {
        dial()
        while true {
            core.inbox.drain { take($0) }
            pump()
            flush()
            if case .ended = phase { return }
            do throws(SystemError) {
                try wait()
            } catch {
                end(ForebayError(.system, "\(error)"))
                return
            }
        }
    }

    // MARK: For activities

    /// The connection; nil while there is none to open streams on.
    var connection: (any ClientConnection)? {
        guard case .connected = phase else { return nil }
        return link?.connection
    }

    /// Whether new streams can be opened on the connection.
    var takesStreams: Bool { closing == nil }

    /// Marks the activity, so that it is called at the end of the turn.
    func mark(_ activity: Activity) {
        guard !activity.isDirty else { return }
        activity.isDirty = true
        dirty.append(activity)
    }

    /// Marks the activity once the network has accepted the queued output.
    func markLater(_ activity: Activity) {
        if !held.contains(where: { $0 === activity }) { held.append(activity) }
    }

    /// Gives the activity this stream.
    func bind(_ id: StreamID, _ activity: Activity) {
        unbind(activity)
        activity.stream = id
        streams[id.value] = activity
    }

    func unbind(_ activity: Activity) {
        guard let id = activity.stream else { return }
        streams[id.value] = nil
        activity.stream = nil
        if recent === activity { recent = nil }
    }

    /// Removes an activity that has ended. Anything that the broker still sends for it is ignored.
    func finish(_ activity: Activity) {
        guard !activity.isOver else { return }
        activity.isOver = true
        if let id = activity.stream {
            connection?.cancel(id)
            unbind(activity)
        }
        activities[activity.number] = nil
        core.release(activity)
    }

    // MARK: Notices

    private func take(_ notice: Notice) {
        switch notice {
        case .start(let activity):
            lastNumber += 1
            activity.number = lastNumber
            activities[lastNumber] = activity
            attend(activity)
        case .notice(let activity): attend(activity)
        case .dialed(let dialed): check(dialed)
        case .dialFailed(let error): lose(error)
        case .close: end(.closedByUser)
        }
    }

    private func attend(_ activity: Activity) {
        activity.clearNotice()
        if case .ended = phase { return }
        if !activity.isOver { activity.attend(self) }
    }

    // MARK: Connecting

    private func dial() {
        phase = .dialing
        let (core, broker) = (core, attempts.brokers.current)
        let (asked, time) = (ClientLimits(core.options), core.options.connectTimeout.nanoseconds)
        do throws(SystemError) {
            try NamedThread.start("forebay-dial") {
                do throws(ClientError) {
                    let dialed = DialedLink(try Link(to: broker, limits: asked, within: time))
                    // If the client has ended in the meantime, the link is closed here.
                    if !core.hasEnded.load(ordering: .sequentiallyConsistent) { core.inbox.push(.dialed(dialed)) }
                } catch {
                    core.inbox.push(.dialFailed(error))
                }
            }.detach()
        } catch {
            lose(ClientError(.notConnected, "\(error)"))
        }
    }

    /// Adopts a connected socket, and waits for the broker's response.
    private func check(_ dialed: DialedLink) {
        guard case .dialing = phase, let link = dialed.take() else { return }
        let now = Clock.monotonic()
        phase = .checking(until: now.addingClamped(core.options.connectTimeout.nanoseconds))
        let socket = link.socket
        let connection = link.connection
        self.link = consume link
        interest = .read
        do {
            try poller.add(socket, token: Self.socketToken, interest: interest)
            if attempts.brokers.current.transport == .http {
                question = try connection.call(.info)
            } else {
                try connection.ping(UnsafeRawBufferPointer(start: nil, count: 0), now: now)
            }
        } catch let error as ClientError {
            lose(error)
        } catch {
            lose(ClientError(.notConnected, "\(error)"))
        }
    }

    private func answered() {
        guard case .checking = phase else { return }
        question = nil
        phase = .connected
        attempts.answered(now: Clock.monotonic())
        core.state.send(.connected)
        core.first.resolve(nil)
        for activity in inOrder() where !activity.isOver { activity.connected(self) }
    }

    /// Handles an error in answer to a call that every client is allowed to make: `rejected` means that the client was
    /// refused, and any other failure proves that the broker responds.
    private func answered(with error: ClientError) {
        switch error.word {
        case .draining: answered()
        case .unavailable: lose(error)
        default: error.code == .rejected ? lose(ClientError(.setupRejected, error.message)) : answered()
        }
    }

    private func inOrder() -> [Activity] { activities.values.sorted { $0.number < $1.number } }

    /// Handles a connection that was lost, or that could not be established.
    private func lose(_ error: ClientError) {
        if case .ended = phase { return }
        if let socket = link?.socket { try? poller.remove(socket) }
        link = nil
        question = nil
        closing = nil
        streams.removeAll()
        recent = nil
        let now = Clock.monotonic()
        switch attempts.fail(error, now: now, using: &random) {
        case .end(let error): return end(ForebayError(connection: error))
        case .retry(let pause, let error):
            phase = .pausing(until: now.addingClamped(pause))
            for activity in inOrder() {
                activity.disconnected()
                if activity.stream.take() != nil { activity.lost(self) }
            }
            guard attempts.hasBeenConnected else { return }
            core.state.send(.reconnecting(after: .nanoseconds(Int64(clamping: pause)), ForebayError(connection: error)))
        }
    }

    /// Ends the client.
    private func end(_ error: ForebayError) {
        if case .ended = phase { return }
        core.close(error)
        core.hasEnded.store(true, ordering: .sequentiallyConsistent)
        for activity in inOrder() where !activity.isOver {
            if let id = activity.stream { link?.connection.cancel(id) }
            activity.isOver = true
            activity.close(error)
        }
        activities.removeAll()
        streams.removeAll()
        recent = nil
        link?.finish()
        link = nil
        phase = .ended
        // Activities that were pushed before the core was closed.
        core.inbox.drain { notice in
            if case .start(let activity) = notice {
                activity.isOver = true
                activity.close(error)
            }
        }
        core.first.resolve(error)
        core.state.send(.closed(error))
        core.state.send(completion: .finished)
        core.ended.resolve(())
    }

    // MARK: What the broker sends

    private func pump() {
        hasBacklog = false
        guard link != nil else { return }
        let until = Clock.monotonic().addingClamped(Self.eventTime)
        var count = 0
        do throws(ClientError) {
            while let event = try link?.next() {
                handle(event)
                count += 1
                guard count % Self.eventsBetweenLooks == 0, Clock.monotonic() >= until else { continue }
                hasBacklog = true
                return
            }
            if let closing, streams.isEmpty { throw ClientError(.connectionError, closing) }
        } catch {
            lose(error)
        }
    }

    private func handle(_ event: ClientEvent) {
        switch event {
        case .completed(question, _, _): answered()
        case .failed(question, let error): answered(with: error)
        case .opened(let id, let position): activity(id)?.opened(position, self)
        case .message(let id, let message): activity(id)?.receive(message, self)
        case .acknowledged(let id, let acknowledgement): activity(id)?.acknowledged(acknowledgement, self)
        case .granted(let id, _): activity(id)?.creditChanged(self)
        case .declined(let id): activity(id)?.declined(self)
        case .completed(let id, let dropped, _): activity(id)?.completed(dropped: dropped, self)
        case .failed(let id, let error):
            guard let activity = activity(id) else { return }
            unbind(activity)
            guard error.code == .unavailable else { return activity.failed(error, self) }
            error.isOutcomeUnknown ? activity.lost(self) : activity.turnedAway(self)
            // A broker that is shutting down finishes the other streams.
            if error.word == .unavailable { lose(error) } else { closing = closing ?? error.message }
        case .pong: answered()
        // What a program receives does not depend on the protocol, and RSocket has no such notice.
        case .topicEnded: break
        case .closing(let why): closing = why
        }
    }

    private func activity(_ id: StreamID) -> Activity? {
        if let recent, recent.stream == id { return recent }
        recent = streams[id.value]
        return recent
    }

    /// Handles what follows from this turn.
    private func flush() {
        if !held.isEmpty, !isCongested {
            for activity in held { mark(activity) }
            held = []
        }
        while !dirty.isEmpty {
            let turn = dirty
            dirty.removeAll(keepingCapacity: true)
            for activity in turn {
                activity.isDirty = false
                if !activity.isOver { activity.flush(self) }
            }
        }
    }

    // MARK: Waiting

    private func wait() throws(SystemError) {
        link?.flush()
        var now = Clock.monotonic()
        let until = deadline()
        try updateInterest()
        // Activities that wait for the network can continue at once if it has accepted everything.
        let isDue = hasBacklog || !held.isEmpty && !isCongested
        let timeout = isDue ? 0 : until.map { $0 > now ? $0 - now : 0 }
        let count = try poller.wait(timeout: timeout)
        now = Clock.monotonic()
        var readiness: Readiness = []
        for index in 0..<count {
            let event = poller[index]
            if event.token == Self.inboxToken { core.inbox.clearWake() } else { readiness = event.ready }
        }
        serve(readiness, now)
    }

    private func deadline() -> UInt64? {
        switch phase {
        case .dialing, .ended: nil
        case .pausing(let until): until
        case .checking(let until): min(until, link?.connection.deadline ?? .max)
        case .connected: link?.connection.deadline
        }
    }

    private func updateInterest() throws(SystemError) {
        guard let socket = link?.socket else { return }
        var wanted: Interest = link?.hasEnded == false ? .read : []
        if link?.wantsToWrite == true { wanted.insert(.write) }
        guard wanted != interest else { return }
        interest = wanted
        try poller.modify(socket, token: Self.socketToken, interest: wanted)
    }

    private func serve(_ ready: Readiness, _ now: UInt64) {
        switch phase {
        case .pausing(let until):
            if now >= until { dial() }
        case .checking(let until) where now >= until:
            lose(attempts.silence)
        case .checking, .connected:
            do throws(ClientError) {
                if !ready.isDisjoint(with: [.writable, .dead]) { link?.flush() }
                link?.connection.setReading(!hasBacklog, now: now)
                if !hasBacklog, !ready.isDisjoint(with: [.readable, .dead]) {
                    _ = try link?.read(atMost: Self.readQuantum, now: now)
                }
                try link?.connection.fire(now: now)
            } catch {
                lose(error)
            }
        case .dialing, .ended: break
        }
    }

    /// Whether so much output is queued that publishers have to wait.
    var isCongested: Bool { (link?.connection.queued ?? 0) > max(core.options.limits.output, 0) }
}
