// Setting: describes one setting, in one place. The table of settings (Settings.swift) defines the keys of the file,
// the environment variables, the command-line options, the output of -h and --print-config, and what a reload does.

import Bytes
import Configuration
import Core

struct Setting: Sendable {
    /// The heading under which the setting is listed.
    enum Group: String, CaseIterable, Sendable {
        case listeners = "Listeners"
        case tls = "TLS"
        case access = "Users"
        case process = "Process"
        case log = "Log"
        case topics = "Topics"
        case store = "Store"
        case upstream = "Upstream"
        case limits = "Limits"
        case times = "Times"
    }

    /// How the setting is written.
    enum Shape: Equatable, Sendable {
        /// `name: VALUE` in the file, `--name VALUE`.
        case value
        /// `name: true` in the file, `--name` without a value.
        case truth
        /// A list of at most `most` elements: a YAML list, comma-separated in a variable, or a repeated option.
        case list(most: Int)
        /// A list of mappings, only in the file.
        case records
    }

    /// How the value is parsed. Text comes from any source, a node only from the file.
    enum Reading: Sendable {
        case text(@Sendable (String, inout Options) throws(ValueFault) -> Void)
        case texts(@Sendable ([String], inout Options) throws(ValueFault) -> Void)
        case node(@Sendable (Node, inout Options) throws(Fault) -> Void)
    }

    /// The key in the file. The option has the prefix `--`; the variable is in capitals with the prefix `FOREBAY_`.
    let name: String
    /// The placeholder for the value in the help: SIZE, HOST:PORT.
    let placeholder: String
    let shape: Shape
    /// The description, a phrase without a full stop.
    let about: String
    let reading: Reading
    /// The value as written in a file: one text, the elements of a list, or the lines of all records.
    let texts: @Sendable (Options) -> [String]
    let isSame: @Sendable (Options, Options) -> Bool
    /// Copies the setting from the first options to the second.
    let copy: @Sendable (Options, inout Options) -> Void
    var group = Group.process
    /// Whether SIGHUP applies a changed value.
    var isReloadable = false
    /// Whether the value is never shown.
    var isSecret = false
    /// Whether the value is the name of a readable file, relative to the folder of the configuration file that contains
    /// it.
    var isPath = false
    /// Whether the value is the name of a directory, relative in the same way. It need not exist.
    var isDirectory = false
    /// The possible values, if they are a small fixed set of words.
    var words: [String] = []

    var option: String { "--\(name)" }
    var variable: String { "FOREBAY_" + name.uppercased().split(separator: "-").joined(separator: "_") }
    var isRecords: Bool { shape == .records }

    /// The value on one line; never that of a secret.
    func line(_ options: Options) -> String {
        if isSecret { return "(not shown)" }
        let texts = texts(options)
        switch shape {
        case .value, .truth: return texts[0]
        case .list: return texts.isEmpty ? "none" : texts.joined(separator: ", ")
        case .records: return texts.isEmpty ? "none" : counted(texts.count { $0.hasPrefix("- ") }, "element")
        }
    }
}

// Kinds of settings. Each takes the key path of the option that it sets.

typealias OptionsPath<V> = WritableKeyPath<Options, V> & Sendable

extension Setting {
    /// Any single value, with functions that parse and format it.
    static func value<V: Equatable & Sendable>(
        _ name: String, _ placeholder: String, _ path: OptionsPath<V>, _ about: String, shape: Shape = .value,
        read: @escaping @Sendable (String) throws(ValueFault) -> V, write: @escaping @Sendable (V) -> String
    ) -> Setting {
        Setting(
            name: name, placeholder: placeholder, shape: shape, about: about,
            reading: .text { text, options throws(ValueFault) in options[keyPath: path] = try read(text) },
            texts: { [write($0[keyPath: path])] },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $1[keyPath: path] = $0[keyPath: path] })
    }

    static func number(
        _ name: String, _ path: OptionsPath<Int>, in range: ClosedRange<Int>, _ about: String
    ) -> Setting {
        value(name, "N", path, about) { text throws(ValueFault) in
            try Value.number(text, in: range)
        } write: {
            String($0)
        }
    }

    /// A number; `auto` derives it from the machine.
    static func number(
        _ name: String, orAuto path: OptionsPath<Int?>, in range: ClosedRange<Int>, _ about: String
    ) -> Setting {
        value(name, "N", path, about) { text throws(ValueFault) in
            try orAuto(text) { text throws(ValueFault) in try Value.number(text, in: range) }
        } write: {
            $0.map { String($0) } ?? "auto"
        }
    }

    /// Bytes.
    static func size(
        _ name: String, _ path: OptionsPath<Int>, in range: ClosedRange<Int>, _ about: String
    ) -> Setting {
        value(name, "SIZE", path, about) { text throws(ValueFault) in
            try Value.size(text, in: range)
        } write: {
            formatByteSize($0)
        }
    }

    static func size(
        _ name: String, orAuto path: OptionsPath<Int?>, in range: ClosedRange<Int>, _ about: String
    ) -> Setting {
        value(name, "SIZE", path, about) { text throws(ValueFault) in
            try orAuto(text) { text throws(ValueFault) in try Value.size(text, in: range) }
        } write: {
            $0.map { formatByteSize($0) } ?? "auto"
        }
    }

    /// A number; 0 is written `off`.
    static func number(
        _ name: String, orOff path: OptionsPath<Int>, in range: ClosedRange<Int>, _ about: String
    ) -> Setting {
        value(name, "N", path, about) { text throws(ValueFault) in
            text == "off" ? 0 : try Value.number(text, in: range)
        } write: {
            $0 == 0 ? "off" : String($0)
        }
    }

    static func size(
        _ name: String, orOff path: OptionsPath<Int>, in range: ClosedRange<Int>, _ about: String
    ) -> Setting {
        value(name, "SIZE", path, about) { text throws(ValueFault) in
            text == "off" ? 0 : try Value.size(text, in: range)
        } write: {
            $0 == 0 ? "off" : formatByteSize($0)
        }
    }

    /// Nanoseconds.
    static func time(
        _ name: String, _ path: OptionsPath<UInt64>, in range: ClosedRange<UInt64>, _ about: String
    ) -> Setting {
        value(name, "TIME", path, about) { text throws(ValueFault) in
            try Value.time(text, in: range)
        } write: {
            formatTime($0)
        }
    }

    /// Nanoseconds; 0 is written `off`.
    static func time(
        _ name: String, orOff path: OptionsPath<UInt64>, in range: ClosedRange<UInt64>, _ about: String
    ) -> Setting {
        value(name, "TIME", path, about) { text throws(ValueFault) in
            try Setting.timeOrOff(text, in: range)
        } write: {
            formatTimeOrOff($0)
        }
    }

    /// On or off: an option without a value.
    static func truth(_ name: String, _ path: OptionsPath<Bool>, _ about: String) -> Setting {
        value(name, "", path, about, shape: .truth) { text throws(ValueFault) in
            try Value.truth(text)
        } write: {
            String($0)
        }
    }

    /// One of a few words.
    static func choice<V: Equatable & Sendable>(
        _ name: String, _ placeholder: String, _ path: OptionsPath<V>, _ words: [(word: String, value: V)],
        _ about: String
    ) -> Setting {
        var setting = value(name, placeholder, path, about) { text throws(ValueFault) in
            if let found = words.first(where: { $0.word == text }) { return found.value }
            throw ValueFault("is not one of \(words.map(\.word).joined(separator: ", "))")
        } write: { value in
            words.first { $0.value == value }?.word ?? ""
        }
        setting.words = words.map(\.word)
        return setting
    }

    /// Any nonempty text.
    static func text(
        _ name: String, _ placeholder: String, _ path: OptionsPath<String?>, _ about: String
    ) -> Setting {
        value(name, placeholder, path, about) { text throws(ValueFault) in
            if text.isEmpty { throw ValueFault("is empty; leave it out") }
            return text
        } write: {
            $0 ?? ""
        }
    }

    /// The name of a readable file.
    static func file(_ name: String, _ path: OptionsPath<String?>, _ about: String) -> Setting {
        var setting = text(name, "FILE", path, about)
        setting.isPath = true
        return setting
    }

    /// A list of values. A source replaces the whole list.
    static func list<V: Equatable & Sendable>(
        _ name: String, _ placeholder: String, _ path: OptionsPath<V>, most: Int, _ about: String,
        read: @escaping @Sendable ([String]) throws(ValueFault) -> V, write: @escaping @Sendable (V) -> [String]
    ) -> Setting {
        Setting(
            name: name, placeholder: placeholder, shape: .list(most: most), about: about,
            reading: .texts { texts, options throws(ValueFault) in options[keyPath: path] = try read(texts) },
            texts: { write($0[keyPath: path]) },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $1[keyPath: path] = $0[keyPath: path] })
    }

    /// A list of at most `most` records in the file. `read` requests keys from the fields (other keys are rejected);
    /// `write` formats a record as lines of YAML, without the dash and without secrets.
    static func records<R: Equatable & Sendable>(
        _ name: String, _ path: OptionsPath<[R]>, most: Int, _ about: String,
        read: @escaping @Sendable (inout Fields) throws(Fault) -> R, write: @escaping @Sendable (R) -> [String]
    ) -> Setting {
        Setting(
            name: name, placeholder: "", shape: .records, about: about,
            reading: .node { node, options throws(Fault) in
                options[keyPath: path] = try Fields.records(node, of: name, most: most, read)
            },
            texts: { options in
                options[keyPath: path].flatMap { record in
                    write(record).enumerated().map { ($0 == 0 ? "- " : "  ") + $1 }
                }
            },
            isSame: { $0[keyPath: path] == $1[keyPath: path] },
            copy: { $1[keyPath: path] = $0[keyPath: path] })
    }

    /// The same setting, applied by SIGHUP.
    var reloadable: Setting {
        var copy = self
        copy.isReloadable = true
        return copy
    }

    /// The same setting, with a value that is never shown.
    var secret: Setting {
        var copy = self
        copy.isSecret = true
        return copy
    }

    static func timeOrOff(_ text: String, in range: ClosedRange<UInt64>) throws(ValueFault) -> UInt64 {
        if text == "off" { return 0 }
        do throws(ValueFault) {
            return try Value.time(text, in: range)
        } catch {
            throw ValueFault(error.words + ", or off")
        }
    }

    static func formatTimeOrOff(_ time: UInt64) -> String { time == 0 ? "off" : formatTime(time) }

    private static func orAuto(
        _ text: String, _ read: (String) throws(ValueFault) -> Int
    ) throws(ValueFault) -> Int? {
        if text == "auto" { return nil }
        do throws(ValueFault) {
            return try read(text)
        } catch {
            throw ValueFault(error.words + ", or auto")
        }
    }
}
