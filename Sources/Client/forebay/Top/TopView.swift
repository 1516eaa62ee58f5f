// TopView: what `top` shows, as a pure function from state to lines.

enum TopView {
    private struct Cell {
        let title: String
        let width: Int
        var isLeft = false
        /// Whether the cell gets the remaining width and is truncated in the middle.
        var isName = false
        /// Cells with a higher rank are omitted first if space is short; cells with rank 0 are always shown.
        var rank = 0
    }

    private static let topicCells = [
        Cell(title: "TOPIC", width: 20, isLeft: true, isName: true), Cell(title: "IN/S", width: 9),
        Cell(title: "OUT/S", width: 9), Cell(title: "SUBS", width: 6), Cell(title: "PUBS", width: 6, rank: 4),
        Cell(title: "BLOCKED", width: 8, rank: 1), Cell(title: "RETAINED", width: 9, rank: 3),
        Cell(title: "SIZE", width: 10, rank: 2), Cell(title: "DROPPED", width: 10), Cell(title: "LOST", width: 9),
    ]
    /// An additional cell if a topic is stored or shared.
    private static let storage = Cell(title: "STORAGE", width: 8, isLeft: true, rank: 5)
    private static let subscriptionCells = [
        Cell(title: "STATE", width: 16, isLeft: true), Cell(title: "TOPIC", width: 18, isLeft: true, isName: true),
        Cell(title: "CLIENT", width: 22, isLeft: true, isName: true, rank: 2), Cell(title: "CREDIT", width: 10),
        Cell(title: "WAITING", width: 8), Cell(title: "", width: 10, isLeft: true, rank: 4),
        Cell(title: "DROPPED", width: 10), Cell(title: "BEHIND", width: 11),
        Cell(title: "POLICY", width: 14, isLeft: true, rank: 3), Cell(title: "ID", width: 7, isLeft: true, rank: 1),
    ]

    /// The lines of a screen: exactly `height` lines of at most `width` columns.
    static func render(_ state: TopState, width: Int, height: Int) -> [ViewLine] {
        guard width > 0, height > 0 else { return [] }
        var lines = [title(state, width)] + figures(state, width)
        let foot = [ViewLine(text: keys(state, width), style: .strong)]
        let rooms = rooms(state, height: height)
        let topicsAbove = above(state.topicsAbove, state.topics.count, rooms.topics)
        lines.append(place("topics", topicsAbove, rooms.topics, state.topics.count, of: state.topicCount))
        let hasStorage = state.topics.contains { $0.storage != "memory" }
        lines.append(head(hasStorage ? topicCells + [storage] : topicCells, width))
        lines += state.topics[topicsAbove...].prefix(rooms.topics).map { topic($0, width, hasStorage: hasStorage) }
        if state.topics.isEmpty { lines.append(ViewLine(text: " no topics yet", style: .faint)) }
        let subscriptionsAbove = above(state.subscriptionsAbove, state.subscriptions.count, rooms.subscriptions)
        lines.append(
            place(
                "subscriptions", subscriptionsAbove, rooms.subscriptions, state.subscriptions.count,
                of: state.subscriptionCount))
        lines.append(head(subscriptionCells, width, sorted: state))
        lines += state.subscriptions[subscriptionsAbove...].prefix(rooms.subscriptions).map { subscription($0, width) }
        lines = Array(lines.prefix(max(height - foot.count, 0)))
        lines += Array(repeating: ViewLine(text: ""), count: max(height - foot.count - lines.count, 0))
        return (lines + foot).suffix(height).map { ViewLine(text: View.clip($0.text, width), style: $0.style) }
    }

    /// How many rows of each list fit on a screen of `height` rows. Topics get a third of the space, and what the
    /// subscriptions do not need.
    static func rooms(_ state: TopState, height: Int) -> (topics: Int, subscriptions: Int) {
        // The title, the figures, a blank line and a header above each list, and the keys.
        let shown = [!state.note.isEmpty, state.loss != nil, state.isStoreFailed, state.upstream != nil]
            .filter { $0 }.count
        let notes = state.stats == nil ? 0 : shown
        let room = max(0, height - 7 - notes)
        let topics = min(max(1, state.topics.count), max(min(3, room), room / 3, room - state.subscriptions.count))
        return (topics, room - topics)
    }

    /// Rows above the screen, for a list that may have become shorter.
    private static func above(_ rows: Int, _ count: Int, _ room: Int) -> Int { max(0, min(rows, count - room)) }

    /// Which rows of a list are shown, if not all.
    private static func place(_ name: String, _ above: Int, _ room: Int, _ count: Int, of all: Int) -> ViewLine {
        guard all > room else { return ViewLine(text: "") }
        let last = min(above + room, count)
        let text = last > above ? "\(name) \(above + 1) to \(last) of \(Units.grouped(UInt64(all)))" : "\(all) \(name)"
        return ViewLine(text: " " + text, style: .faint)
    }

    private static func title(_ state: TopState, _ width: Int) -> ViewLine {
        let left = " Forebay  \(state.address)"
        let slow = "\(state.slowCount) of \(state.subscriptionCount) slow"
        let right = (state.isPaused ? "paused  " : "") + slow + " "
        let gap = max(1, width - View.columns(left) - View.columns(right))
        let text = width < View.columns(right) + 8 ? right : left + String(repeating: " ", count: gap) + right
        return ViewLine(text: text, style: .title)
    }

    private static func figures(_ state: TopState, _ width: Int) -> [ViewLine] {
        guard let stats = state.stats else {
            return [ViewLine(text: " " + (state.note.isEmpty ? "waiting for statistics" : state.note), style: .faint)]
        }
        func rate(_ field: String) -> String { Units.rate(Double(stats[field]?.unsigned ?? 0)) }
        func count(_ field: String) -> String { Units.grouped(stats[field]?.unsigned ?? 0) }
        var parts = [
            "published \(rate("published_per_s"))", "delivered \(rate("delivered_per_s"))",
            "dropped \(rate("dropped_per_s"))", "connections \(count("connections"))",
            "topics \(state.topicCount)", "memory \(TopState.memory(stats))",
        ]
        if let patterns = stats["pattern_subscriptions"]?.unsigned, patterns > 0 {
            parts.insert("to patterns \(Units.grouped(patterns))", at: 5)
        }
        // Publishes that the broker refused for lack of resources.
        if let lost = stats["lost"]?.unsigned, lost > 0 { parts.insert("lost \(Units.grouped(lost))", at: 3) }
        var text = ""
        for part in parts where View.columns(text) + View.columns(part) + 3 <= width { text += " " + part + "  " }
        let isDropping = ["dropped_per_s", "lost_per_s"].contains { (stats[$0]?.unsigned ?? 0) > 0 }
        var lines = [ViewLine(text: text, style: isDropping ? .warning : .plain)]
        if state.isStoreFailed {
            let words = " the store has failed: stored topics are read-only until the broker is restarted"
            lines.append(ViewLine(text: words, style: .warning))
        }
        if let upstream = state.upstream {
            lines.append(ViewLine(text: " " + upstream.words, style: upstream.isConnected ? .plain : .warning))
        }
        if let loss = state.loss { lines.append(ViewLine(text: " " + loss.words, style: .warning)) }
        if !state.note.isEmpty { lines.append(ViewLine(text: " " + state.note, style: .faint)) }
        return lines
    }

    // Rows

    /// The cells that fit.
    private static func fitting(_ cells: [Cell], _ width: Int) -> [Int] {
        var shown = Set(cells.indices)
        func needed() -> Int { shown.reduce(1) { $0 + cells[$1].width + 1 } }
        while needed() > width,
            let least = shown.filter({ cells[$0].rank > 0 }).max(by: { cells[$0].rank < cells[$1].rank })
        {
            shown.remove(least)
        }
        return cells.indices.filter { shown.contains($0) }
    }

    private static func line(_ cells: [Cell], _ texts: [String], _ width: Int) -> String {
        var out = ""
        let shown = fitting(cells, width)
        // Names share the remaining width.
        let names = shown.count { cells[$0].isName }
        let free = max(0, width - shown.reduce(1) { $0 + cells[$1].width + 1 }) / max(1, names)
        for index in shown {
            let cell = cells[index]
            let room = cell.width + (cell.isName ? min(free, 40) : 0)
            let text = cell.isName ? View.clipName(texts[index], room) : View.clip(texts[index], room)
            let pad = String(repeating: " ", count: max(0, room - View.columns(text)))
            out += " " + (cell.isLeft ? text + pad : pad + text)
        }
        return out
    }

    private static func head(_ cells: [Cell], _ width: Int, sorted state: TopState? = nil) -> ViewLine {
        let titles = cells.map { cell in
            guard let state, cell.title.lowercased() == state.order.name else { return cell.title }
            return cell.title + (state.isReversed ? "▲" : "▼")
        }
        return ViewLine(text: line(cells, titles, width), style: .faint)
    }

    /// What publishers wait for, if it is not a subscription.
    private static let shownReasons = ["store": " store", "upstream": " NATS"]

    private static func topic(_ topic: TopTopic, _ width: Int, hasStorage: Bool) -> ViewLine {
        let state = topic.state == "live" || topic.state.isEmpty ? "" : " (\(topic.state))"
        let blocked = Units.grouped(topic.blocked) + (TopView.shownReasons[topic.waitsFor] ?? "")
        let text = line(
            hasStorage ? topicCells + [storage] : topicCells,
            [
                SafeText.name(topic.name + state), Units.count(topic.rateIn), Units.count(topic.rateOut),
                Units.grouped(topic.subscriptions), Units.grouped(topic.publishers), blocked,
                Units.grouped(topic.retained), Units.bytes(topic.bytes), Units.grouped(topic.dropped),
                Units.grouped(topic.lost), topic.storage,
            ], width)
        let warns = topic.blocked > 0 || topic.rateLost > 0 || topic.state == "failed"
        return ViewLine(text: text, style: warns ? .warning : .plain)
    }

    private static func subscription(_ row: TopSubscription, _ width: Int) -> ViewLine {
        let text = line(
            subscriptionCells,
            [
                row.words, SafeText.name(row.title), SafeText.name(row.client),
                row.credit.map { Units.grouped($0) } ?? "∞", Units.grouped(row.waiting), bar(row),
                Units.grouped(row.dropped), row.isSlow ? Units.duration(milliseconds: row.behind) : "-",
                SafeText.name(row.policy), SafeText.name(row.id),
            ], width)
        return ViewLine(text: text, style: row.isSlow ? .warning : .plain)
    }

    /// How full the buffer is; a pattern has one for each topic.
    private static func bar(_ row: TopSubscription) -> String {
        let cells: UInt64 = 10
        guard row.buffer > 0, row.cursors == nil else { return "" }
        let full =
            row.waiting >= row.buffer
            ? cells : UInt64(Double(row.waiting) / Double(row.buffer) * Double(cells) + 0.999)
        return String(repeating: "█", count: Int(min(full, cells)))
            + String(repeating: "░", count: Int(cells - min(full, cells)))
    }

    private static func keys(_ state: TopState, _ width: Int) -> String {
        let orders = TopOrder.allCases.map { "\($0.rawValue) \($0.name)" }.joined(separator: "  ")
        let long = " sort: \(orders)  r reverse  ↑↓ scroll  tab list  space pause  q quit"
        return width > View.columns(long) ? long : " b w d c t sort  r  ↑↓ tab  space  q"
    }
}

extension Units {
    /// 0, 4.5, 1,234
    static func count(_ number: Double) -> String {
        number > 0 && number < 9.95 ? fixed(number, 1) : grouped(UInt64(min(number.rounded(), 1e15)))
    }
}
