// CertificateWatch: checks once a day whether a certificate has expired or is about to.

import Core
import Glibc
import TLS

struct CertificateWatch {
    /// Seconds before expiry at which warnings begin.
    static let notice: Int64 = 14 * 86_400
    /// Nanoseconds between two checks.
    static let interval: UInt64 = 86_400 * 1_000_000_000

    private var due: UInt64

    /// - Parameter now: the time of the first check, on the monotonic clock like all times here.
    init(now: UInt64) { due = now + CertificateWatch.interval }

    /// Nanoseconds until `look` is due.
    func timeout(now: UInt64) -> UInt64 { due > now ? due - now : 0 }

    /// Returns true if a check is due, and schedules the next one.
    mutating func look(now: UInt64) -> Bool {
        guard due <= now else { return false }
        due = now + CertificateWatch.interval
        return true
    }

    /// Subject and validity period, as log fields.
    static func facts(_ validity: TLSValidity) -> [LogField] {
        [("subject", validity.subject), ("from", date(validity.begins)), ("until", date(validity.ends))]
    }

    static func hasEnded(_ validity: TLSValidity, wall: Int64) -> Bool { wall / 1_000_000_000 > validity.ends }

    /// What is wrong with the certificate, or soon will be, as a sentence without a full stop.
    /// - Parameter wall: nanoseconds since 1970.
    static func fault(_ validity: TLSValidity, wall: Int64) -> String? {
        let now = wall / 1_000_000_000
        if now < validity.begins { return "it is not valid yet: clients that verify it will refuse it" }
        if now > validity.ends { return "it has expired: clients that verify it will refuse it" }
        guard validity.ends - now <= notice else { return nil }
        let days = (validity.ends - now) / 86_400
        return "it expires in \(days == 0 ? "less than a day" : days == 1 ? "1 day" : "\(days) days")"
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
