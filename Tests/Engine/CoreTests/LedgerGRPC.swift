// The ledger's clients that use gRPC: what they see goes into the same accounts.

import Bytes
import ForebayWire
import HTTP2
import HTTP2Frames
import RSocket
import Testing

@testable import Core

final class LedgerGRPCPeer: LedgerPeer {
    let grpc: TestGRPC
    private var joined: Set<UInt32> = []
    private var ended: Set<UInt32> = []
    /// The last sequence acknowledged on each channel.
    private var acknowledged: [UInt32: UInt64] = [:]

    init(_ grpc: TestGRPC) {
        self.grpc = grpc
        super.init(grpc.client)
    }

    override var isReading: Bool { super.isReading && grpc.opensWindows && !grpc.isNarrow }

    /// The stream of the next call.
    override func freshStream() -> UInt32 { grpc.nextStream }

    override func subscribe(
        _ account: SubscriberAccount, topic: String, policy: String, buffer: Int, start: String, n: Int
    ) {
        let overflow = Overflow(name: policy)!
        let stream = grpc.call(.subscribe)
        grpc.sendMessage(
            stream,
            TestGRPC.open(
                topic, n: UInt32(n), last: start == "&replay=1" ? 1 : 0, all: start == "&replay=all",
                from: start.hasPrefix("&from=") ? UInt64(start.dropFirst(6))! : 0, buffer: UInt32(buffer),
                overflow: overflow))
    }

    override func request(_ n: Int, _ account: Account) { grpc.request(UInt32(n), account.stream) }

    override func cancel(_ account: Account) { grpc.cancel(account.stream) }

    override func publishOne(_ account: PublisherAccount, topic: String, _ text: String) {
        _ = grpc.publishOne(topic, text)
    }

    override func openChannel(_ account: PublisherAccount, route: String, _ text: String) {
        let stream = grpc.call(.publish)
        let topic = String(route.prefix { $0 != "?" })
        let open = TestGRPC.channel(topic, completes: route.contains("complete=true"))
        if text.utf8.count % 2 == 0 {
            grpc.sendMessage(stream, open, TestGRPC.item(text), end: account.isComplete)
        } else {
            grpc.sendMessage(stream, open)
            guard !grpc.client.isClosed else { return }
            grpc.sendMessage(stream, [TestGRPC.item(text)], end: account.isComplete, by: 7000)
        }
    }

    override func items(_ texts: [String], _ account: Account) {
        grpc.sendMessage(account.stream, texts.map { TestGRPC.item($0) })
    }

    override func complete(_ account: Account) { grpc.halfClose(account.stream) }

    override func stall(_ random: inout LedgerRandom) {
        switch random.next(4) {
        case 0: client.window = random.next(300)
        case 1: grpc.opensWindows = false
        default: readAll()
        }
    }

    override func readAll() {
        client.read(.max)
        grpc.read()
        grpc.widen()
        grpc.openAllWindows()
    }

    override func read() {
        grpc.read()
        for (stream, account) in accounts.sorted(by: { $0.key < $1.key }) {
            guard let call = grpc.calls[stream], !ended.contains(stream) else { continue }
            for message in call.take() { take(message, account) }
            guard call.isEnded else { continue }
            ended.insert(stream)
            if !account.isCancelled { end(call, account) }
        }
    }

    private func take(_ message: [UInt8], _ account: Account) {
        if account is SubscriberAccount {
            let response = TestResponse(message)
            // The first response only confirms the subscription.
            let isFirst = joined.insert(account.stream).inserted
            #expect(response.messages.isEmpty == isFirst && response.epoch > 0)
            for (index, item) in response.messages.enumerated() {
                account.item(
                    metadata(response.epoch, item.sequence, index == 0 ? response.dropped : 0), item.text)
            }
        } else if let publisher = account as? PublisherAccount, publisher.isChannel {
            let answer = TestGrant(message)
            account.granted(Int(answer.granted))
            guard answer.acknowledged > 0 else { return }
            if answer.granted > 0, answer.acknowledged == acknowledged[account.stream] {
                // A grant repeats the channel's position.
                #expect(Int(answer.accepted) == publisher.accepted)
                return
            }
            acknowledged[account.stream] = answer.acknowledged
            account.item(withUnsafeBytes(of: answer.accepted.bigEndian) { Array($0) }, "\(answer.acknowledged)")
        } else {
            eachField(message) { number, value, _ in if number == 1 { account.item(nil, "\(value)") } }
        }
    }

    private func end(_ call: TestCall, _ account: Account) {
        #expect(call.resetCode ?? 0 == 0 && !call.hasPart, "\(account.name): \(call.resetCode ?? 0)")
        guard let status = call.status else {
            Issue.record("\(account.name) ended without a status")
            return
        }
        if let subscriber = account as? SubscriberAccount, call.end == "credit-spent" {
            #expect(subscriber.delivered == subscriber.requested, "\(account.name) had credit left")
            return account.ended(nil, "credit-spent")
        }
        account.ended(metadata(1, 1, UInt64(call.dropped ?? "0")!), status == "0" ? nil : call.message ?? status)
    }

    /// Encoded as with RSocket.
    private func metadata(_ epoch: UInt64, _ sequence: UInt64, _ dropped: UInt64) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: MessageMetadata.entry - 32)
        for figure in [epoch, sequence, 0, dropped] { withUnsafeBytes(of: figure.bigEndian) { bytes += $0 } }
        return bytes
    }
}
