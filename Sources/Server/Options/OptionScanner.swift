// OptionScanner: getopt_long as a sequence of (name, value).

@preconcurrency import CLinux
@preconcurrency import Glibc

/// Goes through a command line once. Every failure is a sentence.
struct OptionScanner: ~Copyable {
    /// Long name, short letter, whether a value follows.
    private static let table: [(name: String, letter: Character?, hasValue: Bool)] = [
        ("config", "c", true), ("test", "t", false), ("listen", nil, true), ("http", nil, true),
        ("admin", nil, true), ("threads", nil, true), ("retain", nil, true), ("retain-bytes", nil, true),
        ("host-name", nil, true), ("memory", nil, true), ("allow-origin", nil, true), ("log-level", nil, true),
        ("log-format", nil, true),
        ("version", "V", false),
        ("help", "h", false),
    ]
    /// Long options come back as this plus their place in the table, out of the way of letters.
    private static let base: Int32 = 1000

    private let count: Int
    private let words: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private let longOptions: UnsafeMutablePointer<option>
    /// A colon first: a missing value is told apart, and getopt prints nothing itself.
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
                to: option(name: strdup(entry.name), has_arg: entry.hasValue ? 1 : 0, flag: nil, val: place))
            if let letter = entry.letter { letters += "\(letter)\(entry.hasValue ? ":" : "")" }
        }
        (longOptions + OptionScanner.table.count).initialize(to: option())
        shortOptions = letters
        optind = 0  // glibc: begin anew
    }

    deinit {
        for index in 0..<count { free(words[index]) }
        words.deallocate()
        for index in OptionScanner.table.indices { free(UnsafeMutableRawPointer(mutating: longOptions[index].name)) }
        longOptions.deallocate()
    }

    /// The next option by its long name, and its value ("" if it takes none); nil at the end.
    mutating func next() throws(UsageError) -> (name: String, value: String)? {
        let found = getopt_long(Int32(count), words, shortOptions, longOptions, nil)
        if found == -1 {
            if optind < count {
                throw UsageError("there is no argument \"\(word(Int(optind)))\": forebayd takes options only")
            }
            return nil
        }
        // getopt has moved past the word, unless it stopped inside one of several letters.
        if found == Int32(UInt8(ascii: "?")) {
            throw UsageError(optopt >= OptionScanner.base ? "\(lastWord) takes no value" : "unknown option \(unknown)")
        }
        if found == Int32(UInt8(ascii: ":")) { throw UsageError("\(lastWord) needs a value") }
        let index = OptionScanner.table.firstIndex { entry in
            entry.letter.map { Int32($0.asciiValue!) } == found
        }
        let entry = OptionScanner.table[index ?? Int(found - OptionScanner.base)]
        return (entry.name, entry.hasValue ? String(cString: optarg) : "")
    }

    private var lastWord: String { word(Int(optind) - 1) }

    private var unknown: String {
        optopt == 0 ? lastWord : "-\(Character(Unicode.Scalar(UInt8(truncatingIfNeeded: optopt))))"
    }

    private func word(_ index: Int) -> String {
        guard index >= 0, index < count, let word = words[index] else { return "" }
        return String(cString: word)
    }
}
