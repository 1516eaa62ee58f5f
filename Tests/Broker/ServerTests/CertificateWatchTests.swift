// Warnings about a certificate, and when they are issued.

import TLS
import Testing

@testable import Server

@Suite struct CertificateWatchTests {
    private let validity = TLSValidity(subject: "CN=b", begins: 100 * 86_400, ends: 200 * 86_400)

    /// Days since 1970 plus seconds, and the message at that time.
    private static let moments: [(days: Int64, seconds: Int64, words: String?)] = [
        (100, -1, "it is not valid yet: clients that verify it will refuse it"), (100, 0, nil), (186, -1, nil),
        (186, 0, "it expires in 14 days"), (198, 0, "it expires in 2 days"), (199, 0, "it expires in 1 day"),
        (199, 1, "it expires in less than a day"), (200, 0, "it expires in less than a day"),
        (200, 1, "it has expired: clients that verify it will refuse it"),
    ]

    @Test func isWarnedOf() {
        for (days, seconds, words) in CertificateWatchTests.moments {
            let wall = (days * 86_400 + seconds) * 1_000_000_000
            #expect(CertificateWatch.fault(validity, wall: wall) == words)
        }
    }

    @Test func isReported() {
        let facts = CertificateWatch.facts(validity)
        #expect(facts.map(\.key) == ["subject", "from", "until"])
        #expect(facts.map { "\($0.value)" } == ["CN=b", "1970-04-11T00:00:00Z", "1970-07-20T00:00:00Z"])
        #expect(CertificateWatch.date(253_402_300_799) == "9999-12-31T23:59:59Z")
    }

    @Test func isLookedAtOnceADay() {
        var watch = CertificateWatch(now: 5)
        let day = CertificateWatch.interval
        #expect(watch.timeout(now: 5) == day && !watch.look(now: day + 4))
        #expect(watch.timeout(now: day + 5) == 0 && watch.look(now: day + 9))
        #expect(watch.timeout(now: day + 9) == day && !watch.look(now: day + 10))
    }
}
