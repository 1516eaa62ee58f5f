// StoreCommand: the commands `forebayd store …`, as written on the command line.

import Configuration
import Core
import Replay

/// Options of `forebayd store dump`.
struct DumpOptions: Equatable, Sendable {
    enum Format: String, CaseIterable, Sendable {
        case text
        /// One object for each message, as in plain HTTP's `application/x-ndjson`.
        case json
    }

    /// The sequence of the first message to print.
    var from: UInt64 = 0
    var format = Format.text
    /// The options that were given, in order.
    private(set) var given: [String] = []

    mutating func set(_ name: String, _ value: String) throws(UsageError) {
        if given.contains(name) { throw UsageError("--\(name) is given twice; give it once") }
        given.append(name)
        if name == "from" {
            guard let sequence = UInt64(value), value.utf8.allSatisfy({ $0 >= 0x30 }) else {
                throw UsageError("--from \(shown(value)) is not a sequence number")
            }
            from = sequence
        } else {
            guard let known = Format(rawValue: value) else {
                let words = Format.allCases.map(\.rawValue).joined(separator: " or ")
                throw UsageError("--format \(shown(value)) is not \(words)")
            }
            format = known
        }
    }
}

enum StoreCommand: Equatable, Sendable {
    case info
    case check
    case dump(topic: String, DumpOptions)
    case copy(to: String)

    /// - Parameter operands: the arguments after `store`.
    static func parse(_ operands: [String], _ options: DumpOptions) throws(UsageError) -> StoreCommand {
        let (command, operand): (StoreCommand, String?) =
            switch operands.first {
            case "info": (.info, nil)
            case "check": (.check, nil)
            case "dump": (.dump(topic: operands.count > 1 ? operands[1] : "", options), "TOPIC")
            case "copy": (.copy(to: operands.count > 1 ? operands[1] : ""), "DIR")
            case let word:
                throw UsageError(
                    (word.map { "unknown command store \(shown($0))" } ?? "forebayd store needs a command")
                        + "; write store info, check, dump TOPIC or copy DIR")
            }
        let name = "forebayd store \(operands[0])"
        if let operand, operands.count < 2 || operands[1].isEmpty {
            throw UsageError("\(name) needs an argument: \(name) \(operand)")
        }
        if let extra = operands.dropFirst(operand == nil ? 1 : 2).first {
            throw UsageError("unexpected argument \"\(shown(extra))\" after \(name)")
        }
        if let option = options.given.first, operands[0] != "dump" {
            throw UsageError("--\(option) belongs to forebayd store dump")
        }
        return command
    }
}
