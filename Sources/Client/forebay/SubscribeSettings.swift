// SubscribeSettings: the settings of `sub`.

import Client
import ForebayWire
import RSocket

struct SubscribeSettings {
    /// A topic's name or a pattern.
    let topic: String
    let isPattern: Bool
    let request: UInt32?
    let once: Bool
    let count: UInt64?
    let meta: Bool
    let interactive: Bool
    let format: MessageFormat.Kind
    let options: SubscribeOptions

    init(_ arguments: Arguments) throws(UsageError) {
        topic = arguments.operands[0]
        isPattern = TopicName.isPattern(topic)
        request = arguments.number("request").map { UInt32($0) }
        once = arguments.has("once")
        count = arguments.number("count")
        interactive = arguments.has("interactive")
        meta = arguments.has("meta") || interactive
        let named = arguments.text("format").flatMap { MessageFormat.Kind(rawValue: $0) }
        let json = arguments.has("json")
        if json, let named, named != .json {
            throw UsageError("--json and --format \(named.rawValue) are mutually exclusive.")
        }
        format = named ?? (json ? .json : .text)

        if once, request == nil { throw UsageError("--once needs --request N, the number of messages to request.") }
        if interactive {
            for option in ["once", "count", "format", "json"] where arguments.has(option) {
                throw UsageError("--\(option) cannot be used with --interactive.")
            }
        }
        let positions = ["from", "replay", "since"].filter { arguments.has($0) }
        if positions.count > 1 {
            let list = positions.map { "--" + $0 }.joined(separator: " and ")
            throw UsageError("\(list) are mutually exclusive; each selects where to begin.")
        }
        for option in ["epoch", "gap"] where arguments.has(option) && !arguments.has("from") {
            throw UsageError(
                isPattern
                    ? "--\(option) cannot be used with a pattern: it belongs to --from, which needs a single topic."
                    : "--\(option) needs --from.")
        }
        if format == .raw, arguments.has("meta") {
            throw UsageError("--meta cannot be used with --format raw, which prints only payloads.")
        }
        var options = SubscribeOptions()
        if arguments.text("replay") == "all" {
            options.start = .all
        } else if let count = arguments.number("replay") {
            options.start = .last(UInt32(count))
        } else if let sequence = arguments.number("from") {
            options.start = .from(sequence, epoch: arguments.number("epoch"))
        } else if let text = arguments.text("since") {
            do throws(StartTime.Fault) {
                options.start = .since(try StartTime(text))
            } catch {
                throw UsageError("--\(error.description)")
            }
        }
        options.buffer = arguments.number("buffer").map { UInt32($0) }
        options.overflow = arguments.text("overflow").flatMap { Overflow(name: $0) }
        options.gap = arguments.text("gap").flatMap { SubscribeOptions.Gap(rawValue: $0) }
        options.meta = meta
        options.opening = arguments.has("opening")
        self.options = options
        if let command = Self.lists[topic] {
            throw UsageError("\(topic) is a list, not a topic; use 'forebay \(command)'.")
        }
        if isPattern { try Self.checkPattern(topic, arguments) } else { try Self.check(topic: topic) }
    }

    /// The broker's lists, which have no messages, and the commands that print them.
    private static let lists = ["$SYS.topics": "topics", "$SYS.subscriptions": "subs", "$SYS.connections": "conns"]

    /// Checks what may not be used with a pattern. Only the broker knows whether the pattern is valid.
    private static func checkPattern(_ pattern: String, _ arguments: Arguments) throws(UsageError) {
        guard Route(pattern).tags != nil else {
            throw UsageError("The pattern is too long; at most \(TopicName.longest) bytes are allowed.")
        }
        if arguments.has("from") {
            throw UsageError(
                "--from cannot be used with a pattern, because each topic has its own sequences; use --replay or "
                    + "--since.")
        }
        if arguments.has("opening") {
            throw UsageError("--opening cannot be used with a pattern, which has no position of its own.")
        }
        if arguments.text("overflow") == Overflow.block.name {
            throw UsageError(
                "--overflow block cannot be used with a pattern: one slow subscriber would hold back the publishers of "
                    + "every topic that matches. Use another policy, or subscribe to a single topic.")
        }
        if arguments.has("interactive") {
            throw UsageError("--interactive cannot be used with a pattern; name a single topic.")
        }
    }

    /// Checks a topic's name. System topics are not checked here: only the broker knows which ones it has.
    static func check(topic: String) throws(UsageError) {
        if TopicName.isSystem(topic) {
            if Route(topic).tags == nil {
                throw UsageError("The topic name is too long; at most \(Route.tagLimit) bytes are allowed.")
            }
        } else if let fault = TopicName.fault(topic) {
            throw UsageError(fault)
        }
    }
}
