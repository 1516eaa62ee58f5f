// SinglePublish: `forebay pub TOPIC MESSAGE`, one message that the broker acknowledges.

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

    /// Publishes the message. Does not use fire-and-forget: it has no response, so neither people nor scripts would
    /// notice a lost message.
    func run() throws(ClientError) -> Int32 {
        try Session.run(addresses, signals: [SIGINT, SIGTERM, SIGHUP]) { (session) throws(ClientError) in
            let code = try publish(on: &session)
            session.finish()
            return code
        }
    }

    private func publish(on session: inout Session) throws(ClientError) -> Int32 {
        var bytes = ByteBuffer()
        bytes.append(message)
        let id = try session.connection.publish(settings.topic, bytes.readable, settings.properties, number: nil)
        var sequence: UInt64?
        let signal = try session.waitForEnd(of: id) {
            if case .acknowledged(_, let acknowledgement) = $0 { sequence = acknowledgement.sequence }
        }
        if let signal { return interrupted(by: signal) }
        guard settings.ack else { return ExitCode.done }
        guard let sequence else { throw ClientError(.badAnswer, "The broker did not send the message's sequence.") }
        var output = Output()
        output.buffer.append(settings.json ? "{\"acknowledged\":1,\"sequence\":\(sequence)}\n" : "\(sequence)\n")
        return output.finish()
    }

    private func interrupted(by signal: Int32) -> Int32 {
        notify(
            "Interrupted before the broker answered; the message may or may not have been published.",
            ["acknowledged": 0, "unknown": 1])
        return ExitCode.of(signal: signal)
    }
}
