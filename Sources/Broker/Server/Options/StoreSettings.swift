// StoreSettings: where topics are kept on disk, and which ones.

import Configuration
import Core
import EventLoop
import Glibc

public struct StoreSettings: Equatable, Sendable {
    /// The directory of the store; nil for none.
    public var directory: String?
    /// Maximum size of all stored topics, in bytes.
    public var bytes = 10 << 30
    /// How long messages of relaxed topics may wait before they are written, in nanoseconds.
    public var interval: UInt64 = 100 * Setting.millisecond

    static let bytesRange = (16 << 20)...(1 << 44)
    static let mostPatterns = 256

    public init() {}
}

extension Options {
    /// Settings of the store that contradict each other.
    func storeFaults(_ subject: (String) -> String) -> [String] {
        var faults: [String] = []
        for (name, patterns) in [("durable", limits.durable), ("relaxed", limits.relaxed)] {
            if store.directory == nil, !patterns.isEmpty {
                faults.append("\(subject(name)) needs a directory for the messages: also set store")
            }
            if let pattern = patterns.first(where: \.isOfBroker) {
                faults.append("\(subject(name)): \(pattern) matches only the broker's own topics, which are not stored")
            }
        }
        return faults + Options.overlaps(subject("durable"), limits.durable, subject("relaxed"), limits.relaxed)
    }

    /// Pairs of patterns in two lists that match the same topics.
    static func overlaps(
        _ one: String, _ patterns: [TopicPattern], _ other: String, _ others: [TopicPattern]
    ) -> [String] {
        patterns.compactMap { pattern in
            others.first { $0.overlaps(pattern) }.map {
                "\(one) and \(other) overlap: \(pattern) and \($0) match the same topics; "
                    + "make the patterns exclude each other"
            }
        }
    }
}

extension Setting {
    static let store: [Setting] = [
        directory("store", \.store.directory, "directory in which durable and relaxed topics are stored"),
        size("store-bytes", \.store.bytes, in: StoreSettings.bytesRange, "maximum size of all stored topics"),
        time(
            "store-interval", \.store.interval, in: millisecond...10 * second,
            "how long messages of relaxed topics may wait before they are written"),
        patterns("durable", \.limits.durable, "topics that are stored before they are delivered and acknowledged"),
        patterns("relaxed", \.limits.relaxed, "topics that are stored shortly after they are delivered"),
        size(
            "resident-bytes", \.limits.resident, in: (64 << 10)...(1 << 40),
            "size of a stored topic's newest messages that stay in memory"
        ).reloadable,
        size(
            "max-uncommitted", \.limits.uncommittedBytes, in: (1 << 20)...(1 << 40),
            "messages of stored topics that wait to be written; a quarter of this per topic"
        ).reloadable,
    ]

    /// The name of a directory.
    private static func directory(_ name: String, _ path: OptionsPath<String?>, _ about: String) -> Setting {
        var setting = value(name, "DIR", path, about) { text throws(ValueFault) in
            if text.isEmpty { throw ValueFault("is empty; leave it out") }
            var status = stat()
            if stat(text, &status) == 0, status.st_mode & S_IFMT != S_IFDIR {
                throw ValueFault("is not a directory")
            }
            return text
        } write: {
            $0 ?? ""
        }
        setting.isDirectory = true
        return setting
    }

    static func patterns(_ name: String, _ path: OptionsPath<[TopicPattern]>, _ about: String) -> Setting {
        list(name, "PATTERN", path, most: StoreSettings.mostPatterns, about) { texts throws(ValueFault) in
            try texts.map { text throws(ValueFault) in
                do throws(TopicPatternError) {
                    return try TopicPattern(parsing: text)
                } catch {
                    throw ValueFault(error.words)
                }
            }
        } write: {
            $0.map(\.description)
        }.reloadable
    }
}
