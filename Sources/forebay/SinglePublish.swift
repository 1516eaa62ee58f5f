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
        let isEnded = try session.waitForEnd(of: id) {
            if case .acknowledged(_, let told) = $0 { sequence = told.sequence }
        }
        guard isEnded else { return interrupted() }
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
            return try session.waitForEnd(of: id) { _ in } ? ExitCode.done : interrupted()
        }
        guard let answer = try session.ask(.topicInfo(settings.topic, toPublish: true)) else { return interrupted() }
        let state = JSON(answer)?["state"]?.text
        if let state, state != "live" {
            throw ClientError(.rejected, "The topic '\(settings.topic)' is \(state): it takes no more messages.")
        }
        return ExitCode.done
    }

    private func interrupted() -> Int32 {
        tell("Interrupted before the broker answered: the message may or may not have been taken.")
        return ExitCode.failure
    }
}
