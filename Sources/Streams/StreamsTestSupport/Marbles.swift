// Marbles: a stream drawn as a line of text.
//
//     -a-(bc)--|     nothing, a, nothing, b and c, nothing, nothing, finished
//     -a#            nothing, a, failed
//
// Each character takes one frame, and so does a group in parentheses. Spaces are ignored.

import StreamsCore

/// The events of a stream and the frames in which they occur.
public struct Marbles<Value, Failure: Error> {
    /// An event in a frame.
    public struct Mark {
        /// The frame, counted from 0.
        public var frame: Int
        /// The event.
        public var event: Subscribers.Event<Value, Failure>

        /// Creates an event in a column of the diagram, counted from 0.
        public init(frame: Int, event: Subscribers.Event<Value, Failure>) {
            self.frame = frame
            self.event = event
        }
    }

    /// The events, ordered by frame.
    public var marks: [Mark]

    /// Creates a diagram from events.
    public init(marks: [Mark]) { self.marks = marks }

    /// Parses a diagram.
    /// - Parameters:
    ///   - text: the diagram.
    ///   - failure: the failure that `#` represents.
    ///   - value: returns the value for a character; `-`, `|`, `#`, parentheses and spaces cannot represent values.
    public init(_ text: String, failure: Failure? = nil, value: (Character) -> Value?) throws(MarbleError) {
        marks = []
        var frame = 0
        var isInGroup = false
        for sign in text where sign != " " {
            if let last = marks.last, case .completion = last.event, sign != ")" || !isInGroup {
                throw MarbleError(text, "'\(sign)' follows the end of the stream; remove it.")
            }
            switch sign {
            case "(" where !isInGroup: isInGroup = true
            case ")" where isInGroup:
                isInGroup = false
                frame += 1
            case "(", ")": throw MarbleError(text, "Parentheses must be balanced and cannot be nested.")
            case "-" where isInGroup: throw MarbleError(text, "Events in parentheses take no time; remove the '-'.")
            case "-": frame += 1
            default:
                marks.append(Mark(frame: frame, event: try Self.event(sign, in: text, failure: failure, value: value)))
                if !isInGroup { frame += 1 }
            }
        }
        if isInGroup { throw MarbleError(text, "A parenthesis is not closed.") }
    }

    private static func event(
        _ sign: Character, in text: String, failure: Failure?, value: (Character) -> Value?
    ) throws(MarbleError) -> Subscribers.Event<Value, Failure> {
        switch sign {
        case "|": return .completion(.finished)
        case "#":
            guard let failure else { throw MarbleError(text, "'#' is a failure; pass the failure as an argument.") }
            return .completion(.failure(failure))
        default:
            guard let value = value(sign) else { throw MarbleError(text, "The character '\(sign)' has no value.") }
            return .value(value)
        }
    }

    /// Parses a diagram in which characters represent the given values.
    public init(_ text: String, values: [Character: Value], failure: Failure? = nil) throws(MarbleError) {
        try self.init(text, failure: failure) { values[$0] }
    }

    /// Draws the diagram.
    /// - Parameter name: returns the character for a value.
    public func text(name: (Value) -> Character) -> String {
        var text = ""
        var frame = 0
        var index = 0
        while index < marks.count {
            let inFrame = marks[index...].prefix { $0.frame == marks[index].frame }
            text += String(repeating: "-", count: marks[index].frame - frame)
            let signs = inFrame.map { mark -> Character in
                switch mark.event {
                case .value(let value): name(value)
                case .completion(.finished): "|"
                case .completion(.failure): "#"
                }
            }
            text += inFrame.count == 1 ? String(signs) : "(\(String(signs)))"
            frame = marks[index].frame + 1
            index += inFrame.count
        }
        return text
    }
}

extension Marbles where Value == String {
    /// Parses a diagram in which each character represents itself.
    public init(_ text: String, failure: Failure? = nil) throws(MarbleError) {
        try self.init(text, failure: failure) { String($0) }
    }
}

extension Marbles where Value == Int {
    /// Parses a diagram in which each digit represents its number.
    public init(_ text: String, failure: Failure? = nil) throws(MarbleError) {
        try self.init(text, failure: failure) { $0.wholeNumberValue }
    }
}

extension Marbles.Mark: Equatable where Value: Equatable, Failure: Equatable {}
extension Marbles: Equatable where Value: Equatable, Failure: Equatable {}
extension Marbles.Mark: Sendable where Value: Sendable, Failure: Sendable {}
extension Marbles: Sendable where Value: Sendable, Failure: Sendable {}

extension Marbles: CustomStringConvertible {
    /// The diagram. A value is drawn as its description if that is a single character; otherwise as `?`, and the
    /// descriptions follow the diagram.
    public var description: String {
        var others: [String] = []
        let line = text {
            let name = "\($0)"
            if name.count == 1, let sign = name.first { return sign }
            others.append(name)
            return "?"
        }
        return others.isEmpty ? line : "\(line)   ? = \(others.joined(separator: ", "))"
    }
}

/// An invalid marble diagram.
public struct MarbleError: Error, CustomStringConvertible {
    public let description: String

    init(_ text: String, _ reason: String) { description = "\"\(text)\" is not a valid diagram: \(reason)" }
}
