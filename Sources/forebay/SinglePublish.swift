// SinglePublish: `forebay pub TOPIC MESSAGE`, fire-and-forget or acknowledged.

import Bytes
import Client
import Glibc

struct SinglePublish {
    private let settings: PublishSettings
    private let addresses: [BrokerAddress]
    private let message: [UInt8]

    init(_ settings: PublishSettings, _ addresses: [BrokerAddress]) throws(UsageError) {
        self.settings = settings
        self.addresses = addresses
        message = try settings.content()
    }

    func run() throws(ClientError) -> Int32 {
        var session = try Session(to: addresses, signals: [SIGINT, SIGTERM, SIGHUP])
        // Only what is acknowledged takes properties along.
        let isAcknowledged = settings.ack || !settings.properties.isEmpty
        let code = isAcknowledged ? try acknowledged(&session) : try fire(&session)
        session.finish()
        return code
    }

    private func acknowledged(_ session: inout Session) throws(ClientError) -> Int32 {
        var bytes = ByteBuffer()
        bytes.append(message)
        let id = try session.connection.publish(settings.topic, bytes.readable, settings.properties)
        var sequence: UInt64?
        let signal = try session.waitForEnd(of: id) {
            if case .acknowledged(_, let told) = $0 { sequence = told.sequence }
        }
        if let signal { return interrupted(by: signal) }
        guard settings.ack else { return ExitCode.done }
        guard let sequence else { throw ClientError(.badAnswer, "The broker did not tell the message's sequence.") }
        var output = Output()
        output.buffer.append(settings.json ? "{\"acknowledged\":1,\"sequence\":\(sequence)}\n" : "\(sequence)\n")
        return output.finish()
    }

    /// Nothing answers RSocket's fire-and-forget, neither a bad name nor a user who may not publish: the topic is asked
    /// about behind it. What was sent on one connection is dealt with in order, so the answer also says that the
    /// message was reached before the end of the connection.
    private func fire(_ session: inout Session) throws(ClientError) -> Int32 {
        var bytes = ByteBuffer()
        bytes.append(message)
        if let id = try session.connection.fire(settings.topic, bytes.readable) {
            return try session.waitForEnd(of: id) { _ in }.map(interrupted(by:)) ?? ExitCode.done
        }
        var state: String?
        let question = try session.connection.call(.topicInfo(settings.topic, toPublish: true))
        let signal = try session.waitForEnd(of: question) {
            if case .message(_, let message) = $0 { state = JSON(message.data)?["state"]?.text }
        }
        if let signal { return interrupted(by: signal) }
        if let state, state != "live" {
            throw ClientError(.rejected, "The topic '\(settings.topic)' is \(state): it takes no more messages.")
        }
        return ExitCode.done
    }

    private func interrupted(by signal: Int32) -> Int32 {
        tell(
            "Interrupted before the broker answered: the message may or may not have been taken.",
            ["acknowledged": 0, "unknown": 1])
        return ExitCode.of(signal: signal)
    }
}
