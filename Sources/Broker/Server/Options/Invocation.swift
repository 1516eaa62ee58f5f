// Invocation: forebayd's command line, read with getopt_long.

import Synchronization

/// getopt keeps its place in global variables.
private let getopt = Mutex<Void>(())

/// A command line, environment or file that cannot be obeyed. Each fault is a sentence that tells what to write
/// instead.
public struct UsageError: Error, Equatable, CustomStringConvertible, Sendable {
    public var faults: [String]
    public var description: String { faults.joined(separator: "\n") }

    init(_ fault: String) { faults = [fault] }
    init(_ faults: [String]) { self.faults = faults }
}

/// What forebayd was told to do.
struct Invocation: Equatable, Sendable {
    enum Action: Equatable, Sendable {
        case run
        /// Check everything, and start nothing.
        case check
        /// Tell what is in force, and start nothing.
        case printConfig
        /// Print what is made from the table of settings.
        case print(String)
        /// Make the hash of a password from the standard input.
        case hashPassword
        case help
        case version
    }

    var action = Action.run
    /// The file to read, which has to be there.
    var file: String?
    /// Settings in the order of the line. One of a list may be there several times.
    var settings: [(name: String, value: String)] = []

    static func == (a: Invocation, b: Invocation) -> Bool {
        a.action == b.action && a.file == b.file && a.settings.elementsEqual(b.settings, by: ==)
    }

    /// Reads a command line, `arguments[0]` being the command's own name.
    static func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
        try getopt.withLock { _ throws(UsageError) in try read(arguments) }
    }

    private static func read(_ arguments: [String]) throws(UsageError) -> Invocation {
        var invocation = Invocation()
        var scanner = OptionScanner(arguments)
        while let (name, value) = try scanner.next() {
            switch name {
            case "help":
                invocation.action = .help
                return invocation
            case "version":
                invocation.action = .version
                return invocation
            case "completion":
                invocation.action = .print(try BrokerManual.completion(value))
                return invocation
            case "manual":
                invocation.action = .print(try BrokerManual.manual(value))
                return invocation
            case "test": invocation.action = .check
            case "print-config": invocation.action = .printConfig
            case "hash-password": invocation.action = .hashPassword
            case "config":
                if invocation.file != nil { throw UsageError("--config is given twice: give it once") }
                invocation.file = value
            default: try invocation.add(name, value)
            }
        }
        return invocation
    }

    private mutating func add(_ name: String, _ value: String) throws(UsageError) {
        if let setting = Setting.named(name), case .list = setting.shape {
            settings.append((name, value))
            return
        }
        if let former = settings.first(where: { $0.name == name }) {
            throw UsageError("--\(name) is given twice, \(former.value) and \(value): give it once")
        }
        settings.append((name, value))
    }
}
