// Routes, addresses and the arithmetic of credit.

import TLS
import Testing

@testable import Client
@testable import forebay

@Suite struct RefillTests {
    /// Simulates `messages` messages printed one by one, and returns every n requested.
    private func asked(_ refill: CreditWindow, messages: Int) -> [UInt32] {
        var refill = refill
        var asked = [refill.first()]
        for _ in 0..<messages {
            let n = refill.use(1)
            if n > 0 { asked.append(n) }
        }
        return asked
    }

    @Test func asksAgainWhenHalfIsUsed() {
        #expect(asked(CreditWindow(batch: 10), messages: 14) == [10, 5, 5])
        #expect(asked(CreditWindow(batch: 5), messages: 9) == [5, 3, 3, 3])
        #expect(asked(CreditWindow(batch: 2), messages: 3) == [2, 1, 1, 1])
        #expect(asked(CreditWindow(batch: 1), messages: 3) == [1, 1, 1, 1])
    }

    @Test func severalAtOnce() {
        var refill = CreditWindow(batch: 10)
        #expect(refill.first() == 10)
        #expect(refill.use(4) == 0)
        #expect(refill.use(6) == 10)
        #expect(refill.use(0) == 0)
    }

    @Test func outstandingNeverExceedsTheBatch() {
        for batch in UInt32(1)...40 {
            var refill = CreditWindow(batch: batch)
            var outstanding = UInt64(refill.first())
            for step in 0..<200 {
                let used = min(outstanding, UInt64(step * 7 % 5))
                outstanding -= used
                outstanding += UInt64(refill.use(used))
                #expect(outstanding <= UInt64(batch))
                // The subscriber never starves: below half, more was requested.
                #expect(outstanding * 2 >= UInt64(batch) - 1)
            }
        }
    }

    @Test func onceAsksOnce() {
        let refill = CreditWindow(batch: 3, once: true)
        #expect(asked(refill, messages: 3) == [3])
        #expect(refill.isSpent)
    }

    @Test func neverMoreThanTheLimitInAll() {
        #expect(asked(CreditWindow(batch: 10, limit: 13), messages: 13) == [10, 3])
        #expect(asked(CreditWindow(batch: 10, limit: 4), messages: 4) == [4])
        #expect(asked(CreditWindow(batch: nil, limit: 4), messages: 4) == [4])
    }

    @Test func unboundedIsAskedForOnce() {
        #expect(asked(CreditWindow(batch: nil), messages: 100) == [CreditWindow.unbounded])
        #expect(asked(CreditWindow(batch: CreditWindow.unbounded), messages: 100) == [CreditWindow.unbounded])
    }
}

@Suite struct FlowingDemandTests {
    @Test func growsWithThePaceAndShrinksWithIt() {
        var demand = FlowingDemand()
        #expect(demand.refill(outstanding: 0, now: 1_000_000_000) == 8)
        #expect(demand.refill(outstanding: 5, now: 1_000_000_001) == 0)
        // Half was used within a millisecond: twice as much is requested in advance.
        #expect(demand.refill(outstanding: 4, now: 1_001_000_000) == 12)
        #expect(demand.refill(outstanding: 8, now: 1_002_000_000) == 24)
        // After a slow period the demand is halved again.
        #expect(demand.refill(outstanding: 16, now: 9_000_000_000) == 0)
        #expect(demand.refill(outstanding: 0, now: 19_000_000_000) == 8)
    }

    @Test func isBounded() {
        var demand = FlowingDemand()
        var now: UInt64 = 0
        for _ in 0..<100 {
            now += 1000
            #expect(demand.refill(outstanding: 0, now: now) <= FlowingDemand.most)
        }
        #expect(demand.refill(outstanding: 0, now: now) == FlowingDemand.most)
        // A clock that seems to step back does no harm.
        #expect(demand.refill(outstanding: 0, now: 0) == FlowingDemand.most)
    }
}

@Suite struct RouteTests {
    @Test func optionsStandBehindTheName() {
        let route = Route("host.vmstat", options: [("replay", "10"), ("overflow", "drop-oldest")])
        #expect(route.tags == ["host.vmstat?replay=10&overflow=drop-oldest"])
        #expect(Route("host.vmstat").tags == ["host.vmstat"])
        #expect(Route("$SYS.topics").tags == ["$SYS.topics"])
    }

    @Test func valuesArePercentEncoded() {
        let route = Route("$SYS.topic.fail", options: [("name", "a.b"), ("message", "a&b=c? 100% ü\n+~_-")])
        #expect(
            route.tags == ["$SYS.topic.fail?name=a.b&message=a%26b%3Dc%3F%20100%25%20%C3%BC%0A%2B~_-"])
    }

    @Test func aNameCannotSmuggleOptions() {
        #expect(Route("a?replay=all&x").tags == ["a%3Freplay%3Dall%26x"])
    }

    @Test func whatDoesNotFitGoesToFurtherTags() {
        let name = String(repeating: "n", count: 240)
        let route = Route(name, options: [("replay", "10"), ("buffer", "5"), ("x", "1")])
        #expect(route.tags == [name + "?replay=10", "buffer=5", "x=1"])
        let exact = Route(String(repeating: "n", count: 251), options: [("x", "1"), ("y", "2")])
        #expect(exact.tags?.map(\.utf8.count) == [255, 3])
    }

    @Test func whatCannotBeSentIsNoRoute() {
        #expect(Route(String(repeating: "n", count: 256)).tags == nil)
        #expect(Route("").tags == nil)
        #expect(Route("a", options: [("m", String(repeating: "x", count: 254))]).tags == nil)
        #expect(Route("a", options: [("m", String(repeating: "x", count: 253))]).tags?.count == 2)
    }
}

@Suite struct BrokerAddressTests {
    @Test(
        arguments: [
            ("rsocket://127.0.0.1:7690", "127.0.0.1", 7690), ("rsocket://broker", "broker", 7690),
            ("rsocket://broker:1/", "broker", 1), ("broker:65535", "broker", 65535), ("broker", "broker", 7690),
            ("rsocket://[::1]:80", "::1", 80), ("[fe80::1]", "fe80::1", 7690), ("RSOCKET://x", "x", 7690),
        ] as [(String, String, UInt16)])
    func reads(url: String, host: String, port: UInt16) throws {
        #expect(try BrokerAddress(url: url) == BrokerAddress(host: host, port: port))
    }

    @Test(
        arguments: [
            ("http://127.0.0.1:1", "127.0.0.1", 1), ("http://broker/", "broker", 7691), ("HTTP://[::1]", "::1", 7691),
        ] as [(String, String, UInt16)])
    func readsThatOfGRPC(url: String, host: String, port: UInt16) throws {
        let address = try BrokerAddress(url: url)
        #expect(address == BrokerAddress(host: host, port: port, transport: .http))
        #expect(address != BrokerAddress(host: host, port: port))
    }

    @Test func readsThatOverTLS() throws {
        let rsocket = try BrokerAddress(url: "rsockets://x")
        #expect(rsocket.tls == TLSClientSettings() && rsocket.transport == .rsocket && rsocket.port == 7690)
        let http = try BrokerAddress(url: "https://x:1")
        #expect(http.tls?.verifies == true && http.transport == .http && http.port == 1)
    }

    @Test(arguments: [
        "https://", "http://", "http://x/topics", "rsockets://x/y", "ws://x", "wss://x", "gopher://x", "rsocket://",
        "rsocket://x:",
        "rsocket://x:0",
        "rsocket://x:65536", "rsocket://x:+1", "rsocket://x:1x", "rsocket://::1:7690", "rsocket://[::1",
        "rsocket://a/b", "rsocket://[[]", "rsocket://[::1]]", "x[", "x]:1",
        "rsocket://[::1]x", "rsocket://u@h:1", "", "rsocket://h h", "rsocket://x:١",
    ])
    func refuses(url: String) {
        let error = #expect(throws: ClientError.self) { try BrokerAddress(url: url) }
        #expect(error?.code == .badURL)
        #expect(error.map { ExitCode.of($0) } == ExitCode.usage)
    }

    @Test func printsAsItWasGiven() throws {
        #expect(try "\(BrokerAddress(url: "rsocket://[::1]:80"))" == "[::1]:80")
    }
}
