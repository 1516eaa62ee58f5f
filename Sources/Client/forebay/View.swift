// View: what `sub --interactive` shows, as a pure function from state to lines.

/// Everything on the screen.
struct ViewState {
    enum Status: Equatable {
        case live
        /// There is no connection.
        case lost
        case completed
        case failed(String)
    }

    struct Shown: Equatable {
        var sequence: UInt64?
        var clock: String
        var text: String
        var dropped: UInt64
    }

    let topic: String
    var address: String
    var status = Status.live
    /// Outstanding credit.
    var credit: UInt64 = 0
    /// Total credit granted.
    var granted: UInt64 = 0
    var delivered: UInt64 = 0
    /// Recent messages per second.
    var rate: Double = 0
    /// Whether credit is granted automatically.
    var isFlowing = false
    /// From the broker's list of subscriptions; nil until it has been read.
    var waiting: UInt64?
    var buffer: UInt64?
    var policy: String?
    var dropped: UInt64 = 0
    /// Newest last.
    var messages: [Shown] = []
    /// The result of the last key.
    var note = ""
}

struct ViewLine: Equatable {
    enum Style {
        case plain, title, strong, faint, warning
    }
    var text: String
    var style = Style.plain
}

enum View {
    static let messageLimit = 500

    /// The lines of a screen: at most `height` lines of at most `width` columns.
    static func render(_ state: ViewState, width: Int, height: Int) -> [ViewLine] {
        guard width > 0, height > 0 else { return [] }
        let top = [title(state, width)] + figures(state, width)
        let keys = ViewLine(text: keyLine(state, width), style: .strong)
        let note = ViewLine(text: " " + state.note, style: .faint)
        // If the height is not sufficient, the note is omitted first, then the figures from the bottom; the keys always
        // remain.
        let isRoomy = height >= top.count + 6
        var lines = isRoomy ? [top[0], ViewLine(text: "")] + top.dropFirst() + [ViewLine(text: "")] : top
        let foot = height >= top.count + 3 ? [note, keys] : [keys]
        lines = Array(lines.prefix(max(height - foot.count, 0)))
        let room = height - lines.count - foot.count
        let recent = state.messages.suffix(max(room, 0)).map { message($0) }
        lines += recent + Array(repeating: ViewLine(text: ""), count: max(room - recent.count, 0)) + foot
        return lines.suffix(height).map { ViewLine(text: clip($0.text, width), style: $0.style) }
    }

    private static func title(_ state: ViewState, _ width: Int) -> ViewLine {
        let status =
            switch state.status {
            case .live: state.isFlowing ? "flowing" : state.credit == 0 ? "no credit" : "live"
            case .lost: "no connection"
            case .completed: "completed"
            case .failed: "failed"
            }
        let left = " " + SafeText.line(state.topic)
        let right = "\(state.address)  \(status) "
        let gap = width - columns(left) - columns(right)
        if gap >= 2 { return ViewLine(text: left + String(repeating: " ", count: gap) + right, style: .title) }
        let short = "\(status) "
        let shortGap = max(width - columns(left) - columns(short), 1)
        return ViewLine(text: left + String(repeating: " ", count: shortGap) + short, style: .title)
    }

    private static func figures(_ state: ViewState, _ width: Int) -> [ViewLine] {
        let grouped = Units.grouped
        let of = state.buffer.map { " of \(grouped($0))" } ?? ""
        let waiting = state.waiting.map { grouped($0) + of } ?? "not known"
        let rows: [(name: String, figure: String, more: String, warns: Bool)] = [
            ("credit", grouped(state.credit), "granted \(grouped(state.granted))", false),
            (
                "waiting", waiting,
                [bar(state, width), state.policy ?? ""].filter { !$0.isEmpty }.joined(separator: "  "), false
            ),
            ("dropped", grouped(state.dropped), lastDrop(state), state.dropped > 0),
            ("delivered", grouped(state.delivered), Units.rate(state.rate), false),
        ]
        let figureWidth = max(14, rows.map(\.figure.count).max() ?? 0)
        return rows.map { row in
            let name = row.name + String(repeating: " ", count: 10 - row.name.count)
            let figure = row.figure + String(repeating: " ", count: figureWidth - row.figure.count)
            return ViewLine(text: " \(name) \(figure)  \(row.more)", style: row.warns ? .warning : .plain)
        }
    }

    /// How full the buffer is, if there is room to show it.
    private static func bar(_ state: ViewState, _ width: Int) -> String {
        guard width >= 64, let waiting = state.waiting, let buffer = state.buffer, buffer > 0 else { return "" }
        let cells: UInt64 = 20
        // Divided first, so that no value from the broker can overflow.
        let full = waiting >= buffer ? cells : UInt64(Double(waiting) / Double(buffer) * Double(cells) + 0.999)
        return String(repeating: "█", count: Int(min(full, cells)))
            + String(repeating: "░", count: Int(cells - min(full, cells)))
    }

    private static func lastDrop(_ state: ViewState) -> String {
        guard let last = state.messages.last(where: { $0.dropped > 0 }), let sequence = last.sequence else { return "" }
        return "last: \(Units.grouped(last.dropped)) before #\(sequence)"
    }

    private static func message(_ message: ViewState.Shown) -> ViewLine {
        let sequence = message.sequence.map { "#\($0) " } ?? ""
        return ViewLine(
            text: " \(sequence)\(message.clock) \(message.text)", style: message.dropped > 0 ? .warning : .plain)
    }

    private static func keyLine(_ state: ViewState, _ width: Int) -> String {
        if state.status != .live { return " q quit" }
        let long = " 1 one more   0 ten   c hundred   a all   p pause   q quit"
        return width >= columns(long) + 1 ? long : width >= 24 ? " 1 0=10 c=100 a p q" : " 1 0 c a p q"
    }

    // MARK: Widths

    /// The number of columns that `text` takes up on a terminal.
    static func columns(_ text: String) -> Int {
        text.reduce(0) { $0 + columns($1) }
    }

    /// The part of `text` that fits into `width` columns; a truncation is marked.
    static func clip(_ text: String, _ width: Int) -> String {
        // Nearly all text is ASCII, one column per byte.
        if text.utf8.count <= width { return text }
        var out = ""
        var used = 0
        for character in text {
            let wide = columns(character)
            if used + wide > width - 1 {
                // The mark is needed only if the rest does not fit.
                let rest = text.dropFirst(out.count)
                return used + columns(String(rest.prefix(width + 1))) <= width ? out + rest : out + "…"
            }
            out.append(character)
            used += wide
        }
        return out
    }

    /// The part of a name that fits into `width` columns. Both ends distinguish a name from others, so it is truncated
    /// in the middle.
    static func clipName(_ text: String, _ width: Int) -> String {
        guard text.utf8.count > width, columns(text) > width, width > 2 else { return clip(text, width) }
        var (end, used) = ("", 0)
        for character in text.reversed() {
            used += columns(character)
            if used > (width - 1) / 2 { break }
            end.insert(character, at: end.startIndex)
        }
        var begin = ""
        used = columns(end) + 1
        for character in text {
            used += columns(character)
            if used > width { break }
            begin.append(character)
        }
        return begin + "…" + end
    }

    private static func columns(_ character: Character) -> Int {
        guard let scalar = character.unicodeScalars.first?.value else { return 0 }
        switch scalar {
        case 0x1100...0x115f, 0x2e80...0xa4cf, 0xac00...0xd7a3, 0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60,
            0xffe0...0xffe6, 0x1f300...0x1faff, 0x20000...0x3fffd:
            return 2
        default: return 1
        }
    }
}

/// Automatic credit for a person who may want to pause: credit cannot be taken back, so it is granted only as far ahead
/// as is needed to keep the messages flowing at their rate.
struct FlowingDemand {
    static let least: UInt32 = 8
    static let most: UInt32 = 4096
    private var window = least
    private var last: UInt64?

    /// The credit to grant now; 0 for none.
    mutating func refill(outstanding: UInt32, now: UInt64) -> UInt32 {
        guard outstanding <= window / 2 else { return 0 }
        if let last {
            let gone = now >= last ? now - last : 0
            if gone < 50_000_000 { window = min(window * 2, Self.most) }
            if gone > 1_000_000_000 { window = max(window / 2, Self.least) }
        }
        last = now
        return window > outstanding ? window - outstanding : 0
    }
}
