// Ping: round trips to the broker, by RSocket's KEEPALIVE or a gRPC call.

import Bytes
import Client
import EventLoop
import Glibc

struct Ping {
    private let count: Int
    private let interval: UInt64
    private let json: Bool
    private let addresses: [BrokerAddress]
    /// How long to wait for a response, in nanoseconds.
    private static let patience: UInt64 = 5_000_000_000

    init(_ arguments: Arguments, _ addresses: [BrokerAddress]) {
        count = Int(arguments.number("count") ?? 4)
        interval = UInt64((arguments.decimal("interval") ?? 1) * 1e9)
        json = arguments.has("json")
        self.addresses = addresses
    }

    func run() throws(ClientError) -> Int32 {
        try Session.run(addresses, signals: [SIGINT, SIGTERM, SIGHUP]) { (session) throws(ClientError) in
            try run(on: &session)
        }
    }

    private func run(on session: inout Session) throws(ClientError) -> Int32 {
        var output = Output()
        var times: [UInt64] = []
        var next = Clock.monotonic()
        rounds: for number in 0..<count {
            while Clock.monotonic() < next {
                var wants = Session.Wants()
                wants.until = next
                if try session.wait(wants).signal != nil { break rounds }
                while try session.next() != nil {}
            }
            guard let time = try round(UInt64(number), &session) else { break }
            times.append(time)
            next += interval
            let text = Units.fixed(Double(time) / 1e6, 3)
            output.buffer.append(json ? "{\"round_trip_ms\":\(text)}\n" : "\(session.address) answered in \(text) ms\n")
            output.drain()
            if !output.isUsable { break }
        }
        session.finish()
        if !times.isEmpty { output.buffer.append(summary(times)) }
        return output.finish()
    }

    /// The time of one round trip in nanoseconds; nil if a signal arrived.
    private func round(_ number: UInt64, _ session: inout Session) throws(ClientError) -> UInt64? {
        let start = Clock.monotonic()
        try withUnsafeBytes(of: number.bigEndian) { (data) throws(ClientError) in
            try session.connection.ping(data, now: start)
        }
        var wants = Session.Wants()
        wants.until = start + Self.patience
        while true {
            let woken = try session.wait(wants)
            while let event = try session.next() {
                if case .pong(let data) = event, data.count == 8, data.bigEndian(at: 0, as: UInt64.self) == number {
                    return woken.now - start
                }
            }
            if woken.signal != nil { return nil }
            if woken.now >= start + Self.patience {
                throw ClientError(
                    .silent, "\(session.address) did not answer within \(Self.patience / 1_000_000_000) s.")
            }
        }
    }

    private func summary(_ times: [UInt64]) -> String {
        func ms(_ nanoseconds: UInt64) -> String { Units.fixed(Double(nanoseconds) / 1e6, 3) }
        let least = ms(times.min() ?? 0)
        let mean = ms(times.reduce(0, +) / UInt64(times.count))
        let most = ms(times.max() ?? 0)
        if json {
            return "{\"count\":\(times.count),\"min_ms\":\(least),\"avg_ms\":\(mean),\"max_ms\":\(most)}\n"
        }
        let trips = counted(times.count, "round trip")
        return "\(trips): minimum \(least) ms, average \(mean) ms, maximum \(most) ms\n"
    }
}
