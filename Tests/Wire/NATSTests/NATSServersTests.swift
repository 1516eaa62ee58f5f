// Addresses of servers, and the order in which they are tried, compared with a naive model.

import Testing

@testable import NATS

@Suite struct NATSServerAddressTests {
    @Test(arguments: [
        ("nats://a", "nats://a:4222", "(none)"), ("tls://a.b:1", "tls://a.b:1", "(none)"),
        ("a:65535", "nats://a:65535", "(none)"), ("NATS://10.0.0.1/", "nats://10.0.0.1:4222", "(none)"),
        ("nats://[::1]:5", "nats://[::1]:5", "(none)"), ("[fe80::1]", "nats://[fe80::1]:4222", "(none)"),
        ("nats://u:p@h", "nats://h:4222", "(password of u)"), ("nats://t@h:9", "nats://h:9", "(token)"),
        ("nats://u%40x:p%3A@h", "nats://h:4222", "(password of u@x)"),
    ])
    func urlsHaveTheirMeaning(url: String, address: String, credentials: String) throws {
        let parsed = try NATSServerAddress(parsing: url)
        #expect(parsed.description == address && "\(parsed.credentials)" == credentials)
        #expect(parsed.tlsName == parsed.host && !parsed.host.contains("["))
        #expect(try NATSServerAddress(parsing: parsed.description).description == address)
    }

    @Test(arguments: [
        "", "nats://", "http://a", "nats://a:0", "nats://a:65536", "nats://a:x", "nats://a:", "nats://::1",
        "nats://[::1",
        "nats://[a]", "nats://[]", "nats://a/b", "nats://a b", "nats://a\r\n", "nats://u:swordfish%@h", "ü",
        "nats://u:swordfish@", "nats://u:swordfish@a b",
    ])
    func malformedURLsAreRefused(url: String) {
        #expect {
            _ = try NATSServerAddress(parsing: url)
        } throws: {
            guard let error = $0 as? NATSError else { return false }
            return error.scope == .call && !error.sentence.contains("swordfish")
        }
    }

    @Test func addressesAreRecognized() throws {
        for text in ["10.0.0.1", "[::1]", "[1:2::3]"] { #expect(try NATSServerAddress(parsing: text).isIP) }
        for text in ["a", "10.0.0", "a.b"] { #expect(try !NATSServerAddress(parsing: text).isIP) }
    }

    @Test func passwordsAreNotShown() throws {
        let server = try NATSServerAddress(parsing: "nats://u:swordfish@h")
        var dumped = ""
        dump(server, to: &dumped)
        #expect(!"\(server) \(String(reflecting: server)) \(dumped)".contains("swordfish"))
        #expect(server.credentials == .password(user: "u", password: "swordfish"))
    }
}

@Suite struct NATSServersTests {
    private let second: UInt64 = 1_000_000_000

    /// Every order occurs, and the server that was tried stays last.
    @Test func untriedServersAreShuffled() throws {
        var generator = SystemRandomNumberGenerator()
        var orders: Set<[String]> = []
        for _ in 0..<1_000 {
            var servers = try NATSServers(parsing: "a,b,c,d")
            _ = servers.next(now: 0, random: 0)
            servers.shuffle(using: &generator)
            orders.insert(servers.all.map(\.host))
        }
        #expect(orders.count == 6 && orders.allSatisfy { $0.last == "a" && Set($0).count == 4 })
    }

    private func attempts(_ servers: inout NATSServers, _ count: Int, now: UInt64, random: UInt64 = 0) -> [String] {
        (0..<count).map { _ in
            let attempt = servers.next(now: now, random: random)
            return "\(attempt.server.host) \((attempt.time - now) / 1_000_000)"
        }
    }

    @Test func serversAreTriedInTurnWithGrowingWaits() throws {
        var servers = try NATSServers(parsing: "nats://a, tls://b,c:1")
        #expect(attempts(&servers, 7, now: 5) == ["a 0", "b 0", "c 0", "a 100", "b 0", "c 0", "a 200"])
        var one = try NATSServers(parsing: "a")
        #expect(
            attempts(&one, 9, now: 5)
                == ["a 0", "a 100", "a 200", "a 400", "a 800", "a 1600", "a 3200", "a 5000", "a 5000"])
        for _ in 0..<100 { #expect(attempts(&one, 1, now: .max - 1) == ["a 0"]) }
    }

    @Test func waitsVaryByHalf() throws {
        var seen: Set<UInt64> = []
        for random in 0..<1000 as Range<UInt64> {
            var servers = try NATSServers(parsing: "a")
            _ = servers.next(now: 0, random: 0)
            let wait = servers.next(now: 0, random: random &* 0x9E37_79B9_7F4A_7C15).time
            #expect(wait >= 50_000_000 && wait <= 100_000_000)
            seen.insert(wait)
        }
        #expect(seen.count > 900)
    }

    @Test func onlyAStableConnectionResetsTheWait() throws {
        var servers = try NATSServers(parsing: "a,b")
        #expect(attempts(&servers, 5, now: 0) == ["a 0", "b 0", "a 100", "b 0", "a 200"])
        servers.connected(now: 100)
        #expect(attempts(&servers, 2, now: 100 + second) == ["b 0", "a 400"])
        servers.connected(now: 100)
        #expect(attempts(&servers, 3, now: 100 + 10 * second) == ["b 0", "a 0", "b 100"])
    }

    @Test func listsAreChecked() {
        let many = (0...NATSServers.Limits.maxConfigured).map { "h\($0)" }.joined(separator: ",")
        for setting in ["", ",", "a,", "a,A", "a,nats://a:4222", "a,,b", many] {
            #expect(throws: NATSError.self) { try NATSServers(parsing: setting) }
        }
    }

    @Test func discoveredServersComeAndGo() throws {
        var servers = try NATSServers(parsing: "tls://u:p@n.example,nats://o")
        _ = servers.next(now: 0, random: 0)
        servers.discovered(["10.0.0.1:4222", "m.example:1", "N.example:4222", "bad url", "10.0.0.1:4222"])
        #expect(servers.all.map(\.host) == ["o", "10.0.0.1", "m.example", "n.example"])
        let found = servers.all[1]
        #expect(found.tlsName == "n.example" && found.requiresTLS)
        #expect(found.credentials == .password(user: "u", password: "p"))
        #expect(servers.all[2].tlsName == "m.example")
        // The name is inherited from one discovered server to the next.
        for _ in 0..<2 { _ = servers.next(now: 0, random: 0) }
        servers.discovered(["10.0.0.2:4222"])
        #expect(servers.all.map(\.host) == ["10.0.0.2", "n.example", "o"])
        #expect(servers.all[0].tlsName == "n.example")
        servers.discovered([])
        #expect(servers.all.map(\.host) == ["n.example", "o"])
    }

    @Test func anAddressHasNoNameToInherit() throws {
        var servers = try NATSServers(parsing: "tls://10.0.0.1")
        _ = servers.next(now: 0, random: 0)
        servers.discovered(["10.0.0.2:4222", "[::1]:4222"])
        #expect(servers.all.map(\.tlsName) == ["10.0.0.2", "::1", "10.0.0.1"])
    }

    @Test func discoveredServersAreLimited() throws {
        var servers = try NATSServers(parsing: "a")
        servers.discovered((0..<1000).map { "h\($0):1" })
        #expect(servers.all.count == 1 + NATSServers.Limits.maxDiscovered)
    }

    /// The model keeps, for each server, whether it has been tried in this round: every round tries each server that is
    /// known at its end once, and waits only at its beginning.
    @Test func theOrderAgreesWithAModel() throws {
        var random = SplitMix(7)
        for seed in 0..<300 {
            let configured = ["a", "b", "c"].prefix(1 + seed % 3)
            var servers = try NATSServers(parsing: configured.joined(separator: ","))
            var known = Set(configured)
            var tried: Set<String> = []
            var rounds = 0
            for step in 0..<60 {
                if Int.random(in: 0..<6, using: &random) == 0 {
                    let urls = ["d", "e", "f", "g"].filter { _ in Bool.random(using: &random) }
                    servers.discovered(urls.map { "\($0):4222" })
                    known = Set(configured).union(urls)
                    tried.formIntersection(known)
                }
                let now = UInt64(step) * second
                let attempt = servers.next(now: now, random: random.next())
                if tried == known {
                    tried = []
                    let longest = min(100_000_000 << UInt64(min(rounds, 10)), 5 * second)
                    #expect(attempt.time - now >= longest / 2 && attempt.time - now <= longest)
                    rounds += 1
                } else {
                    #expect(attempt.time == now)
                }
                #expect(known.contains(attempt.server.host))
                #expect(tried.insert(attempt.server.host).inserted, "seed \(seed), step \(step)")
            }
        }
    }
}

/// Random numbers from a seed.
private struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
