// Invocation: forebayd's command line, parsed with getopt_long.

import Synchronization

/// getopt keeps its state in global variables.
private let getopt = Mutex<Void>(())

/// Errors in the command line, environment or file. Each is a sentence that says what to write instead.
public struct UsageError: Error, Equatable, CustomStringConvertible, Sendable {
    public var faults: [String]
    public var description: String { faults.joined(separator: "\n") }

    init(_ fault: String) { faults = [fault] }
    init(_ faults: [String]) { self.faults = faults }
}

/// A parsed command line.
struct Invocation: Equatable, Sendable {
    enum Action: Equatable, Sendable {
        case run
        /// Check the configuration and exit.
        case check
        /// Print the settings in effect and exit.
        case printConfig
        /// Print a text generated from the table of settings.
        case print(String)
        /// Hash a password from standard input.
        case hashPassword
        /// Show, check or copy the store.
        case store(StoreCommand)
        case help
        case version
    }

    var action = Action.run
    /// The configuration file, which must exist.
    var file: String?
    /// Settings in the order of the command line. A list may occur several times.
    var settings: [(name: String, value: String)] = []

    static func == (a: Invocation, b: Invocation) -> Bool {
        a.action == b.action && a.file == b.file && a.settings.elementsEqual(b.settings, by: ==)
    }

    /// Parses a command line; `arguments[0]` is the name of the command.
    static func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
        try getopt.withLock { _ throws(UsageError) in try read(arguments) }
    }

    private static func read(_ arguments: [String]) throws(UsageError) -> Invocation {
        var invocation = Invocation()
        var scanner = OptionScanner(arguments)
        var dump = DumpOptions()
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
            case "from", "format": try dump.set(name, value)
            case "config":
                if invocation.file != nil { throw UsageError("--config is given twice; give it once") }
                invocation.file = value
            default: try invocation.add(name, value)
            }
        }
        if let first = scanner.operands.first {
            guard first == "store", invocation.action == .run else {
                throw UsageError("unexpected argument \"\(first)\": forebayd takes options, or the command store")
            }
            invocation.action = .store(try StoreCommand.parse(Array(scanner.operands.dropFirst()), dump))
        } else if let option = dump.given.first {
            throw UsageError("--\(option) belongs to forebayd store dump")
        }
        return invocation
    }

    private mutating func add(_ name: String, _ value: String) throws(UsageError) {
        if let setting = Setting.named(name), case .list = setting.shape {
            settings.append((name, value))
            return
        }
        if let former = settings.first(where: { $0.name == name }) {
            throw UsageError("--\(name) is given twice, \(former.value) and \(value); give it once")
        }
        settings.append((name, value))
    }
}
