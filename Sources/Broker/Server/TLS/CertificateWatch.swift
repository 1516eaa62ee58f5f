// CertificateWatch: certificates end while brokers run on, so what is left of one is looked at once a day.

import Core
import Glibc
import TLS

struct CertificateWatch {
    /// Seconds before its end from which on a certificate is warned of.
    static let notice: Int64 = 14 * 86_400
    /// Nanoseconds between two looks.
    static let interval: UInt64 = 86_400 * 1_000_000_000

    private var due: UInt64

    /// - Parameter now: on the monotonic clock, as everywhere here. It has been looked at then.
    init(now: UInt64) { due = now + CertificateWatch.interval }

    /// Nanoseconds until `look` is to be called.
    func timeout(now: UInt64) -> UInt64 { due > now ? due - now : 0 }

    /// Whether it is time for a look, which is taken then.
    mutating func look(now: UInt64) -> Bool {
        guard due <= now else { return false }
        due = now + CertificateWatch.interval
        return true
    }

    /// Whose it is, and from when to when it is good.
    static func facts(_ validity: TLSValidity) -> [LogField] {
        [("subject", validity.subject), ("from", date(validity.begins)), ("until", date(validity.ends))]
    }

    static func hasEnded(_ validity: TLSValidity, wall: Int64) -> Bool { wall / 1_000_000_000 > validity.ends }

    /// What is wrong with it, or soon will be, as a sentence without a full stop.
    /// - Parameter wall: nanoseconds since 1970.
    static func fault(_ validity: TLSValidity, wall: Int64) -> String? {
        let now = wall / 1_000_000_000
        if now < validity.begins { return "it is not good yet: no client that looks takes it" }
        if now > validity.ends { return "it has ended: no client that looks takes it" }
        guard validity.ends - now <= notice else { return nil }
        let days = (validity.ends - now) / 86_400
        return "it ends in \(days == 0 ? "less than a day" : days == 1 ? "1 day" : "\(days) days")"
    }

    /// "2027-01-31T12:00:00Z"
    static func date(_ seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 64)
        let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
