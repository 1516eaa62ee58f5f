// SinglePublish: `forebay pub TOPIC MESSAGE`, fire-and-forget or acknowledged.

import Bytes
import Client
import Glibc

struct SinglePublish {
    private let settings: PublishSettings
    private let address: BrokerAddress
    private let message: String

    init(_ settings: PublishSettings, _ address: BrokerAddress) {
        self.settings = settings
        self.address = address
        message = if case .message(let text) = settings.source { text } else { "" }
    }

    func run() throws(ClientError) -> Int32 {
        var session = try Session(to: address, signals: [SIGINT, SIGTERM, SIGHUP])
        let code = settings.ack ? try acknowledged(&session) : try fire(&session)
        session.finish()
        return code
    }

    private func acknowledged(_ session: inout Session) throws(ClientError) -> Int32 {
        var bytes = ByteBuffer()
        bytes.append(message)
        let id = try session.connection.publish(settings.topic, bytes.readable)
        var sequence: UInt64?
        let isEnded = try session.waitForEnd(of: id) {
            if case .acknowledged(_, let told) = $0 { sequence = told.sequence }
        }
        guard isEnded else { return interrupted() }
        guard let sequence else { throw ClientError(.badAnswer, "The broker did not tell the message's sequence.") }
        var output = Output()
        output.buffer.append(settings.json ? "{\"sequence\":\(sequence)}\n" : "\(sequence)\n")
        output.drain()
        return ExitCode.done
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
            tell("The topic '\(settings.topic)' is \(state): it takes no more messages.")
            return ExitCode.failure
        }
        return ExitCode.done
    }

    private func interrupted() -> Int32 {
        tell("Interrupted before the broker answered: the message may or may not have been taken.")
        return ExitCode.failure
    }
}
