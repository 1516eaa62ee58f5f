// ChannelActivity: publishes a publisher on a channel, from the publisher's threads to the broker.
//
//     publishing ──all sent──► ending ──completed──► over
//         └──no channel was needed, or the publisher failed──► ending the topic by a call ──► over
//
// The publisher delivers into a mailbox, which never holds more than was requested; the client's thread empties it.

import Client
import ForebayWire
import StreamsCore
import Synchronization

final class ChannelActivity<UpstreamFailure: Error>: Activity, Subscriber, CustomStringConvertible,
    @unchecked Sendable
{
    typealias Input = OutgoingMessage
    typealias Failure = UpstreamFailure

    private enum Phase {
        case publishing
        /// Our half is complete; the broker's is not.
        case ending
        /// The topic is ended by a control call, because no channel could end it.
        case endingTopic(ControlCall, then: Result<UInt64, ForebayError>)
    }

    /// Shared by the publisher's threads and the client's thread.
    private struct Mailbox {
        var subscription: (any Subscription)?
        var arrived: [Outgoing] = []
        /// The number of values that the mailbox may still accept.
        var room: UInt64 = 0
        var end: Subscribers.Completion<UpstreamFailure>?
        /// Whether the publisher is no longer wanted, whatever the outcome of the publication.
        var isClosed = false
        /// Whether the program cancelled the publication.
        var isCancelled = false
        /// Set if the publisher broke the rules.
        var breach: ForebayError?
    }

    let progress = PublicationProgress()
    private let topic: Topic
    private let ending: PublicationEnd
    private let lock = Lock()
    private var mailbox = Mailbox()

    // Used only on the client's thread
    private var state: ChannelState
    private var phase = Phase.publishing
    /// The publisher's failure: reported when everything before it is acknowledged.
    private var upstreamFailure: ForebayError?
    /// Whether the connection was lost while the broker was being notified of the end.
    private var mayHaveEnded = false
    /// Whether the publisher's last number was asked for a second time on the current connection.
    private var hasAskedAgain = false
    /// Nil if messages are not numbered.
    private var numbers: MessageNumbers?

    var description: String { "Publication" }

    /// - Parameter id: the publisher's id, if messages are numbered.
    init(_ topic: Topic, _ ending: PublicationEnd, as id: String?) {
        self.topic = topic
        self.ending = ending
        numbers = id.map { MessageNumbers(publisher: $0, topic: topic.name) }
        // Numbered messages can always be repeated.
        state = ChannelState(repeats: id != nil || topic.client.core.options.repeatsPublishes)
        super.init(topic.client.core)
    }

    func begin() {
        do throws(ForebayError) {
            try start()
        } catch {
            close(error)
        }
    }

    // MARK: Any thread

    func receive(subscription: any Subscription) {
        let isWanted = lock.with {
            let isWanted = !mailbox.isClosed && mailbox.subscription == nil && mailbox.end == nil
            if isWanted { mailbox.subscription = subscription }
            return isWanted
        }
        if isWanted { notify() } else { subscription.cancel() }
    }

    func receive(_ input: OutgoingMessage) -> Subscribers.Demand {
        let item = Result { () throws(ForebayError) in try input.checked() }
        lock.with {
            guard mailbox.end == nil, mailbox.breach == nil, !mailbox.isClosed else { return }
            guard mailbox.room > 0 else {
                mailbox.breach = ForebayError(.upstreamFailed, "The publisher sent more values than were requested.")
                return
            }
            mailbox.room -= 1
            switch item {
            case .success(let item): mailbox.arrived.append(item)
            case .failure(let error): mailbox.breach = error
            }
        }
        notify()
        return .none
    }

    func receive(completion: Subscribers.Completion<UpstreamFailure>) {
        let released = lock.with {
            mailbox.end = mailbox.end ?? completion
            return mailbox.subscription.take()
        }
        _ = released
        notify()
    }

    func cancel() {
        lock.with { mailbox.isCancelled = true }
        stopUpstream()
        progress.resolve(.failure(.cancelledByUser.with(progress.acknowledged.load(ordering: .relaxed))))
        notify()
    }

    private func stopUpstream() {
        let subscription = lock.with {
            mailbox.isClosed = true
            mailbox.arrived = []
            return mailbox.subscription.take()
        }
        subscription?.cancel()
    }

    // MARK: The client's thread

    override func attend(_ loop: ClientLoop) {
        guard takeMailbox() else { return loop.finish(self) }
        guard stream == nil else { return loop.mark(self) }
        // Immediately, so that later requests of the program reach the broker after this one. A publisher that has its
        // first message ready delivers it during this request.
        flush(loop)
        if !isOver, takeMailbox() { flush(loop) }
    }

    /// Moves the publisher's values from the mailbox to the state.
    /// - Returns: false if the publication was cancelled.
    private func takeMailbox() -> Bool {
        lock.lock()
        let isCancelled = mailbox.isCancelled
        let (arrived, end, breach) = (mailbox.arrived, mailbox.end, mailbox.breach)
        mailbox.arrived = []
        // A publisher that breaks the rules is not asked for more.
        let broken = breach == nil ? nil : mailbox.subscription.take()
        lock.unlock()
        if isCancelled { return false }
        broken?.cancel()
        for item in arrived { _ = state.receive(item) }
        if let breach {
            upstreamFailure = upstreamFailure ?? breach
        } else if case .failure(let error) = end {
            upstreamFailure = upstreamFailure ?? ForebayError(upstream: error)
        }
        if breach != nil || end != nil { state.finish() }
        return true
    }

    override func connected(_ loop: ClientLoop) { flush(loop) }
    override func creditChanged(_ loop: ClientLoop) { loop.mark(self) }

    override func flush(_ loop: ClientLoop) {
        if let numbers, !numbers.isKnown || isAsking { return ask(loop) }
        switch phase {
        case .publishing:
            if let connection = loop.connection {
                open(connection, loop)
                sendWaiting(connection)
                complete(connection, loop)
            }
            if !isOver { askUpstream(loop) }
        case .ending:
            // If the connection was lost in the meantime, everything has to be sent again.
            if stream == nil { resume(loop) }
        case .endingTopic(let call, _):
            if stream == nil { make(call, loop) }
        }
    }

    /// Whether its stream is the question for the publisher's last number.
    private var isAsking: Bool { stream.flatMap { numbers?.isQuestion($0) } ?? false }

    /// Asks for the publisher's last number, which has to be known on each connection.
    private func ask(_ loop: ClientLoop) {
        guard stream == nil, loop.takesStreams, let connection = loop.connection else { return }
        do throws(ClientError) {
            if let id = try numbers?.ask(connection) { loop.bind(id, self) }
        } catch {
            if !error.endsConnection { fail(ForebayError(stream: error), loop) }
        }
    }

    override func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) {
        guard isAsking else { return }
        do throws(ClientError) {
            let published = try numbers?.answer(
                message.data, acknowledged: state.acknowledged, doubtful: state.doubtful)
            state.confirm(published ?? 0)
            progress.acknowledged.store(state.acknowledged, ordering: .relaxed)
        } catch {
            stopUpstream()
            let isUnknown = error.word == nil && error.code == .rejected
            let code: ForebayError.Code = isUnknown ? .outcomeUnknown : .protocolViolation
            end(.failure(ForebayError(code, error.message).with(state.acknowledged)), loop)
        }
    }

    private func open(_ connection: any ClientConnection, _ loop: ClientLoop) {
        guard stream == nil, loop.takesStreams, let first = state.next else { return }
        guard loop.hasRoom else { return fail(loop.noRoom, loop) }
        do throws(ClientError) {
            let id = try first.withBytes { (bytes) throws(ClientError) in
                try connection.openChannel(
                    topic.name, completesTopic: ending == .topic, first: bytes, first.properties, isOnly: false,
                    acknowledged: true, number: numbers?.number(at: state.place))
            }
            loop.bind(id, self)
            state.didSend()
        } catch {
            if !error.endsConnection { fail(ForebayError(stream: error), loop) }
        }
    }

    private func sendWaiting(_ connection: any ClientConnection) {
        guard let stream else { return }
        while let item = state.next,
            item.payload.withUnsafeBytes({ connection.send(stream, $0, item.properties) })
        {
            state.didSend()
        }
    }

    /// Ends the channel when the publisher has ended and everything is sent.
    private func complete(_ connection: any ClientConnection, _ loop: ClientLoop) {
        guard state.isSent, !isOver else { return }
        if let upstreamFailure {
            if state.isAcknowledged { fail(upstreamFailure, loop, upstream: true) }
        } else if let stream {
            phase = .ending
            connection.complete(stream)
        } else if ending == .topic {
            phase = .endingTopic(.completeTopic(topic.name), then: .success(state.acknowledged))
            make(.completeTopic(topic.name), loop)
        } else {
            end(.success(state.acknowledged), loop)
        }
    }

    /// Requests from the publisher what the broker has granted.
    private func askUpstream(_ loop: ClientLoop) {
        // Without a channel, the first message opens one; while output is congested nothing more is requested.
        guard let subscription = lock.with({ mailbox.subscription }) else { return }
        let credit = stream.flatMap { id in loop.connection?.credit(of: id) }
        if loop.isCongested { return loop.markLater(self) }
        let n = state.ask(credit: credit)
        guard n > 0 else { return }
        lock.with { mailbox.room += n }
        subscription.request(.max(Int(clamping: n)))
    }

    override func acknowledged(_ acknowledgement: Acknowledgement, _ loop: ClientLoop) {
        guard let accepted = acknowledgement.accepted else { return }
        state.acknowledge(accepted)
        progress.acknowledged.store(state.acknowledged, ordering: .relaxed)
        if upstreamFailure != nil { loop.mark(self) }
    }

    override func completed(dropped: UInt64, _ loop: ClientLoop) {
        if isAsking {
            loop.unbind(self)
            return loop.mark(self)
        }
        loop.unbind(self)
        switch phase {
        case .publishing:
            fail(ForebayError(.rejected, "The broker ended the channel before the publisher finished."), loop)
        case .ending:
            state.acknowledgeAll()
            progress.acknowledged.store(state.acknowledged, ordering: .relaxed)
            end(.success(state.acknowledged), loop)
        case .endingTopic(_, let result): end(result, loop)
        }
    }

    override func declined(_ loop: ClientLoop) {
        if case .publishing = phase {
            fail(
                ForebayError(
                    .rejected, "The broker accepts no more messages on the channel; the topic may have ended."), loop)
        }
    }

    override func failed(_ error: ClientError, _ loop: ClientLoop) {
        switch phase {
        case .endingTopic(_, .failure(let before)): return end(.failure(before), loop)
        // The request sent before the connection was lost had already ended the topic.
        case .endingTopic(_, .success(let count)) where mayHaveEnded && error.code == .rejected:
            return end(.success(count), loop)
        case .publishing, .ending, .endingTopic: break
        }
        if mayHaveEnded, ending == .topic, error.code == .rejected {
            if numbers != nil, !hasAskedAgain {
                // The broker may have read the last messages and the end from an earlier connection after it answered.
                hasAskedAgain = true
                numbers?.lost()
                _ = state.lost()
                loop.unbind(self)
                return resume(loop)
            }
            // This channel itself may have ended the topic, after the broker accepted everything that is being sent
            // again.
            stopUpstream()
            return end(.failure(.unknownOutcome.with(state.acknowledged)), loop)
        }
        fail(ForebayError(stream: error), loop)
    }

    override func disconnected() { numbers?.lost() }

    override func lost(_ loop: ClientLoop) {
        numbers?.lost()
        hasAskedAgain = false
        if case .publishing = phase {} else { mayHaveEnded = true }
        if case .endingTopic = phase { return loop.mark(self) }
        guard state.lost() == .resumes else {
            stopUpstream()
            return end(.failure(.unknownOutcome.with(state.acknowledged)), loop)
        }
        loop.mark(self)
    }

    /// Resumes a channel whose half here was complete when the connection was lost. Unacknowledged messages are sent
    /// again; if there are none, it is not known whether the broker received the end.
    private func resume(_ loop: ClientLoop) {
        phase = .publishing
        loop.mark(self)
    }

    override func close(_ error: ForebayError) {
        stopUpstream()
        progress.resolve(.failure(error.with(progress.acknowledged.load(ordering: .relaxed))))
    }

    /// - Parameter upstream: the publisher failed, so the topic fails too if it ends with the publisher.
    private func fail(_ error: ForebayError, _ loop: ClientLoop, upstream: Bool = false) {
        stopUpstream()
        let result: Result<UInt64, ForebayError> = .failure(error.with(state.acknowledged))
        guard upstream, ending == .topic else { return end(result, loop) }
        if case .endingTopic = phase { return }
        if let stream {
            loop.connection?.cancel(stream)
            loop.unbind(self)
        }
        phase = .endingTopic(.failTopic(topic.name, message: error.message), then: result)
        loop.mark(self)
    }

    private func make(_ call: ControlCall, _ loop: ClientLoop) {
        guard loop.takesStreams, let connection = loop.connection else { return }
        do throws(ClientError) {
            loop.bind(try connection.call(call), self)
        } catch {
            if !error.endsConnection { end(.failure(ForebayError(stream: error)), loop) }
        }
    }

    private func end(_ result: Result<UInt64, ForebayError>, _ loop: ClientLoop) {
        loop.finish(self)
        progress.resolve(result)
    }
}

extension ForebayError {
    /// The same error, with the number of messages that were accepted.
    func with(_ acknowledged: UInt64) -> ForebayError {
        var error = self
        error.acknowledged = acknowledged
        return error
    }
}
