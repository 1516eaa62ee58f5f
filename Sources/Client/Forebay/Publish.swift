// Publish: publishing one message and waiting for its acknowledgement.

import Client
import RSocket
import StreamsCore
import Synchronization

/// The broker's acknowledgement of a message.
public struct Receipt: Equatable, Sendable {
    /// The message's number in the topic.
    public var sequence: UInt64
    /// The topic's epoch; nil if the protocol does not transmit it (RSocket does not).
    public var epoch: UInt64?
}

extension Topic {
    /// Publishes one message and waits until the broker has it in the topic. If the topic has no room because a
    /// subscription with `.block` is full, this waits for room.
    ///
    /// While there is no connection, the message waits for one. If the connection is lost before the broker has
    /// answered, the message is sent again, and the topic may then contain it twice: publishing is at least once. If
    /// `ForebayOptions.repeatsPublishes` is false, this fails with `.outcomeUnknown` instead. A message that a broker
    /// refuses because it is shutting down was not accepted, and waits for the next connection in either case.
    ///
    /// Cancelling the task withdraws the message unless the broker has accepted it; which of the two happened is
    /// unknown.
    ///
    /// - Parameters:
    ///   - payload: at most as large as the broker allows, by default 1 MiB.
    ///   - contentType: the MIME type of the payload, at most 128 ASCII characters; empty for none.
    ///   - headers: at most 256; by default the broker accepts 64 KiB of them.
    /// - Throws: a ``ForebayError``: `.rejected`, `.invalid`, `.outcomeUnknown`, `.busy`, `.messageTooLarge`, or the
    ///   error that ends the client. `CancellationError` if the task is cancelled.
    @discardableResult
    public func publish(
        _ payload: [UInt8], contentType: String = "", headers: [(name: String, value: String)] = []
    ) async throws -> Receipt {
        try await publish(OutgoingMessage(payload, contentType: contentType, headers: headers))
    }

    /// Publishes a text as UTF-8.
    @discardableResult
    public func publish(
        _ text: String, contentType: String = "", headers: [(name: String, value: String)] = []
    ) async throws -> Receipt {
        try await publish(OutgoingMessage(text, contentType: contentType, headers: headers))
    }

    /// Publishes one message, like `publish(_:contentType:headers:)`.
    @discardableResult
    public func publish(_ message: OutgoingMessage) async throws -> Receipt {
        let publish = SinglePublish(self, try message.checked())
        try Task.checkCancellation()
        try publish.start()
        let result = await withTaskCancellationHandler {
            await publish.outcome.wait()
        } onCancel: {
            publish.cancel()
        }
        do { return try result.get() } catch { throw error.asThrown }
    }
}

private final class SinglePublish: Activity, @unchecked Sendable {
    let outcome = OneShot<Result<Receipt, ForebayError>>()
    private let topic: Topic
    private let item: Outgoing
    private let isCancelled = Atomic<Bool>(false)

    init(_ topic: Topic, _ item: Outgoing) {
        self.topic = topic
        self.item = item
        super.init(topic.client.core)
    }

    override var bytes: Int { item.size }

    func cancel() {
        isCancelled.store(true, ordering: .sequentiallyConsistent)
        outcome.resolve(.failure(.cancelledByUser))
        notify()
    }

    // MARK: The client's thread

    override func attend(_ loop: ClientLoop) {
        if isCancelled.load(ordering: .sequentiallyConsistent) { return loop.finish(self) }
        connected(loop)
    }

    override func connected(_ loop: ClientLoop) {
        guard stream == nil, loop.takesStreams, let connection = loop.connection else { return }
        do throws(ClientError) {
            let id = try item.withBytes { (bytes) throws(ClientError) in
                try connection.publish(topic.name, bytes, item.properties)
            }
            loop.bind(id, self)
        } catch {
            if !error.endsConnection { end(.failure(ForebayError(stream: error)), loop) }
        }
    }

    override func acknowledged(_ acknowledgement: Acknowledgement, _ loop: ClientLoop) {
        outcome.resolve(.success(Receipt(sequence: acknowledgement.sequence, epoch: acknowledgement.epoch)))
    }

    override func completed(dropped: UInt64, _ loop: ClientLoop) {
        loop.unbind(self)
        end(.failure(ForebayError(.protocolViolation, "The broker did not send the message's sequence.")), loop)
    }

    override func failed(_ error: ClientError, _ loop: ClientLoop) {
        end(.failure(ForebayError(stream: error)), loop)
    }

    /// The broker definitely refused the message, so it waits for the next connection.
    override func turnedAway(_ loop: ClientLoop) {
        if outcome.current != nil { loop.finish(self) }
    }

    override func lost(_ loop: ClientLoop) {
        if outcome.current == nil, core.options.repeatsPublishes { return }
        end(.failure(.unknownOutcome), loop)
    }

    override func close(_ error: ForebayError) {
        outcome.resolve(.failure(stream == nil || error == .closedByUser ? error : .unknownOutcome))
    }

    /// Ends the publish. Only the first outcome counts: a failure after an acknowledgement changes nothing.
    private func end(_ result: Result<Receipt, ForebayError>, _ loop: ClientLoop) {
        outcome.resolve(result)
        loop.finish(self)
    }
}

extension ForebayError {
    static let badProperties = ForebayError(
        .invalid,
        "A content type has at most 128 ASCII characters, a message has at most \(MessageProperties.mostHeaders) "
            + "headers, and a header name has at most \(CarriedMetadata.longestName) bytes.")

    /// The error that an awaited call throws: `CancellationError` if its task was cancelled.
    var asThrown: any Error { self == .cancelledByUser ? CancellationError() : self }

    static let unknownOutcome = ForebayError(
        .outcomeUnknown,
        "The connection was lost before the broker answered; the message may or may not have been published.")
}
