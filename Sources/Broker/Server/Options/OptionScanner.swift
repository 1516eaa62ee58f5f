// OptionScanner: wraps getopt_long as a sequence of (name, value).

@preconcurrency import CLinux
import Configuration
@preconcurrency import Glibc

/// Scans a command line once. Every error is a sentence.
struct OptionScanner: ~Copyable {
    private enum Operand: Int32 { case none, needed, optional }

    /// Every setting that is not a list of records, and the options that are not settings.
    private static let table: [(name: String, letter: Character?, operand: Operand)] =
        Setting.all.filter { !$0.isRecords }.map { ($0.name, nil, $0.shape == .truth ? .optional : .needed) } + [
            ("config", "c", .needed), ("test", "t", .none), ("print-config", nil, .none),
            ("completion", nil, .needed), ("manual", nil, .needed), ("hash-password", nil, .none),
            ("from", nil, .needed), ("format", nil, .needed),
            ("version", "V", .none), ("help", "h", .none),
        ]
    /// Value of the first long option. The others follow in the order of the table. All are greater than the value of
    /// any letter.
    private static let base: Int32 = 1000

    private let count: Int
    private let words: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private let longOptions: UnsafeMutablePointer<option>
    /// Begins with a colon, so that getopt reports a missing value as such and prints nothing.
    private let shortOptions: String

    init(_ arguments: [String]) {
        count = arguments.count
        words = .allocate(capacity: arguments.count + 1)
        for (index, argument) in arguments.enumerated() { (words + index).initialize(to: strdup(argument)) }
        (words + count).initialize(to: nil)
        longOptions = .allocate(capacity: OptionScanner.table.count + 1)
        var letters = ":"
        for (index, entry) in OptionScanner.table.enumerated() {
            let place = OptionScanner.base + Int32(index)
            (longOptions + index).initialize(
                to: option(name: strdup(entry.name), has_arg: entry.operand.rawValue, flag: nil, val: place))
            if let letter = entry.letter { letters += "\(letter)\(entry.operand == .needed ? ":" : "")" }
        }
        (longOptions + OptionScanner.table.count).initialize(to: option())
        shortOptions = letters
        optind = 0  // glibc: start over
    }

    deinit {
        for index in 0..<count { free(words[index]) }
        words.deallocate()
        for index in OptionScanner.table.indices { free(UnsafeMutableRawPointer(mutating: longOptions[index].name)) }
        longOptions.deallocate()
    }

    /// The next option's long name and value ("" if it takes none, "true" if an optional value is missing); nil at the
    /// end.
    mutating func next() throws(UsageError) -> (name: String, value: String)? {
        let found = getopt_long(Int32(count), words, shortOptions, longOptions, nil)
        if found == -1 { return nil }
        // getopt has moved past the word, unless it stopped within a group of letters.
        if found == Int32(UInt8(ascii: "?")) {
            if optopt >= OptionScanner.base { throw UsageError("\(lastWord) takes no value") }
            throw UsageError("unknown option \(unknown)\(meant)")
        }
        if found == Int32(UInt8(ascii: ":")) { throw UsageError("\(lastWord) needs a value") }
        let index = OptionScanner.table.firstIndex { entry in
            entry.letter.map { Int32($0.asciiValue!) } == found
        }
        let entry = OptionScanner.table[index ?? Int(found - OptionScanner.base)]
        if entry.operand == .optional, optarg == nil { return (entry.name, "true") }
        return (entry.name, entry.operand == .none ? "" : String(cString: optarg))
    }

    /// The arguments that are not options, once `next` has returned nil. getopt has moved them to the end.
    var operands: [String] { (Int(optind)..<count).map { word($0) } }

    private var lastWord: String { word(Int(optind) - 1) }

    private var unknown: String {
        optopt == 0 ? lastWord : "-\(Character(Unicode.Scalar(UInt8(truncatingIfNeeded: optopt))))"
    }

    /// The long option that was probably meant, as the end of a sentence.
    private var meant: String {
        guard optopt == 0, lastWord.hasPrefix("--") else { return "" }
        let name = String(lastWord.dropFirst(2).prefix { $0 != "=" })
        return nearest(to: name, among: OptionScanner.table.map(\.name)).map { "; did you mean --\($0)?" } ?? ""
    }

    private func word(_ index: Int) -> String {
        guard index >= 0, index < count, let word = words[index] else { return "" }
        return String(cString: word)
    }
}
