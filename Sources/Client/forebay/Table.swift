// Table: the broker's objects as text in aligned columns.

/// How to show a field.
enum FieldKind {
    case text
    /// A number, right-aligned.
    case count
    /// A number of bytes, with a unit.
    case bytes
    /// Milliseconds, as a duration.
    case milliseconds
    /// A list of names, of which only the first few are shown.
    case names
}

struct Column {
    let title: String
    let field: String
    var kind: FieldKind = .text
    /// Whether the column is shown only if an object has the field.
    var isOptional = false
    /// The column is shown only if an object has this field.
    var needs: String?

    func isShown(for rows: [JSON]) -> Bool {
        guard let field = needs ?? (isOptional ? field : nil) else { return true }
        return rows.contains { $0[field] != nil }
    }
}

enum Table {
    static let topics = [
        Column(title: "TOPIC", field: "name"), Column(title: "STATE", field: "state"),
        Column(title: "STORAGE", field: "storage", needs: "uncommitted"),
        Column(title: "FIRST", field: "first", kind: .count), Column(title: "NEXT", field: "next", kind: .count),
        Column(title: "RETAINED", field: "retained", kind: .count), Column(title: "SIZE", field: "bytes", kind: .bytes),
        Column(title: "SUBS", field: "subscriptions", kind: .count),
        Column(title: "PUBS", field: "publishers", kind: .count),
        Column(title: "PUBLISHED", field: "published", kind: .count),
        Column(title: "DROPPED", field: "dropped", kind: .count),
        Column(title: "UNCOMMITTED", field: "uncommitted", kind: .count, isOptional: true),
        Column(title: "PUBS WAIT FOR", field: "publishers_wait_for", isOptional: true),
    ]
    static let subscriptions = [
        Column(title: "ID", field: "id"), Column(title: "TOPIC", field: "topic"),
        Column(title: "PEER", field: "peer"), Column(title: "USER", field: "user", isOptional: true),
        Column(title: "POLICY", field: "policy"),
        Column(title: "BUFFER", field: "buffer", kind: .count),
        Column(title: "REQUESTED", field: "requested", kind: .count),
        Column(title: "LEFT", field: "outstanding", kind: .count),
        Column(title: "DELIVERED", field: "delivered", kind: .count),
        Column(title: "WAITING", field: "waiting", kind: .count),
        Column(title: "DROPPED", field: "dropped", kind: .count),
        Column(title: "MATCHED", field: "matched", kind: .count, isOptional: true),
        Column(title: "ACTIVE", field: "cursors", kind: .count, isOptional: true),
        Column(title: "SKIPPED", field: "skipped", kind: .count, isOptional: true),
    ]
    static let contexts = [
        Column(title: "NAME", field: "name"), Column(title: "USED", field: "used"), Column(title: "URL", field: "url"),
        Column(title: "USER", field: "user", isOptional: true),
        Column(title: "OPTIONS", field: "options", isOptional: true),
    ]
    static let connections = [
        Column(title: "ID", field: "id"), Column(title: "PEER", field: "peer"),
        Column(title: "USER", field: "user", isOptional: true),
        Column(title: "PROTOCOL", field: "protocol"),
        Column(title: "AGE", field: "age_ms", kind: .milliseconds),
        Column(title: "STREAMS", field: "streams", kind: .count),
        Column(title: "SUBS", field: "subscriptions", kind: .count),
        Column(title: "PUBS", field: "publishers", kind: .count),
        Column(title: "IN", field: "bytes_in", kind: .bytes), Column(title: "OUT", field: "bytes_out", kind: .bytes),
        Column(title: "WAITS FOR", field: "waits_for", isOptional: true),
        Column(title: "PUBLISHES TO", field: "publishes_to", kind: .names, isOptional: true),
    ]
    /// How many names of a list are shown.
    static let shownNames = 3
    static let wideConnections = [
        Column(title: "STATE", field: "state", isOptional: true),
        Column(title: "SHARD", field: "shard", kind: .count),
        Column(title: "QUEUED", field: "output", kind: .bytes),
        Column(title: "CONTROL", field: "control", kind: .bytes),
        Column(title: "COPIED", field: "copied", kind: .bytes),
    ]

    /// A header and one line per object; a missing field is shown as a dash.
    static func render(_ all: [Column], _ rows: [JSON]) -> String {
        let columns = all.filter { $0.isShown(for: rows) }
        let cells = rows.map { row in columns.map { show(row[$0.field], $0.kind) } }
        let widths = columns.indices.map { column in
            max(columns[column].title.count, cells.map { $0[column].count }.max() ?? 0)
        }
        func line(_ texts: [String]) -> String {
            var out = ""
            for (column, text) in texts.enumerated() {
                let pad = String(repeating: " ", count: widths[column] - text.count)
                if column > 0 { out += "  " }
                out += [.text, .names].contains(columns[column].kind) ? text + pad : pad + text
            }
            while out.last == " " { out.removeLast() }
            return out + "\n"
        }
        return line(columns.map(\.title)) + cells.map(line).joined()
    }

    /// Fields that are numbers of bytes, besides those that begin with `bytes_`.
    private static let bytes: Set = ["bytes", "resident_bytes", "uncommitted_bytes"]

    /// One object as `field  value` lines, in the broker's order.
    static func details(_ object: JSON) -> String? {
        guard case .object(let members) = object else { return nil }
        let names = members.map { SafeText.line($0.key) }
        let width = names.map(\.count).max() ?? 0
        return zip(names, members).map { name, member in
            let kind: FieldKind = bytes.contains(name) || name.hasPrefix("bytes_") ? .bytes : .text
            return name + String(repeating: " ", count: width - name.count + 2) + show(member.value, kind) + "\n"
        }.joined()
    }

    static func show(_ value: JSON?, _ kind: FieldKind) -> String {
        if case .array(let items)? = value {
            let names = items.prefix(shownNames).compactMap(\.text).map(SafeText.name)
            return names.isEmpty ? "-" : names.joined(separator: ", ") + (items.count > shownNames ? ", …" : "")
        }
        guard let text = value?.text else { return "-" }
        guard let number = value?.unsigned else { return text.isEmpty ? "-" : SafeText.line(text) }
        return switch kind {
        case .text, .count, .names: text
        case .bytes: Units.bytes(number)
        case .milliseconds: Units.duration(milliseconds: number)
        }
    }
}

enum Units {
    /// 1023 B, 1.0 KiB, 16.0 MiB
    static func bytes(_ count: UInt64) -> String {
        guard count >= 1024 else { return "\(count) B" }
        var value = Double(count) / 1024
        for unit in ["KiB", "MiB", "GiB"] {
            if value < 1023.95 { return fixed(value, 1) + " " + unit }
            value /= 1024
        }
        return fixed(value, 1) + " TiB"
    }

    /// 950 ms, 12.3 s, 4 min 05 s, 3 h 20 min, 5 d 2 h
    static func duration(milliseconds: UInt64) -> String {
        let seconds = milliseconds / 1000
        func two(_ number: UInt64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return switch seconds {
        case 0: "\(milliseconds) ms"
        case 1..<60: "\(seconds).\(milliseconds % 1000 / 100) s"
        case 60..<3600: "\(seconds / 60) min \(two(seconds % 60)) s"
        case 3600..<86400: "\(seconds / 3600) h \(two(seconds % 3600 / 60)) min"
        default: "\(seconds / 86400) d \(seconds % 86400 / 3600) h"
        }
    }

    /// 9.5/s, 1,234/s
    static func rate(_ perSecond: Double) -> String {
        perSecond < 9.95 ? fixed(perSecond, 1) + "/s" : grouped(UInt64(min(perSecond.rounded(), 1e15))) + "/s"
    }

    /// 1234567 as 1,234,567
    static func grouped(_ number: UInt64) -> String {
        var out: [Character] = []
        for (index, digit) in String(number).reversed().enumerated() {
            if index > 0, index % 3 == 0 { out.append(",") }
            out.append(digit)
        }
        return String(out.reversed())
    }

    /// 1 message, 1,234 messages
    static func counted(_ number: UInt64, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    /// `value` ≥ 0 with `digits` digits after the point.
    static func fixed(_ value: Double, _ digits: Int) -> String {
        var scale: UInt64 = 1
        for _ in 0..<digits { scale *= 10 }
        let scaled = UInt64(min((max(value, 0) * Double(scale)).rounded(), 1e18))
        guard digits > 0 else { return String(scaled) }
        let fraction = String(scaled % scale)
        return "\(scaled / scale)." + String(repeating: "0", count: digits - fraction.count) + fraction
    }
}
