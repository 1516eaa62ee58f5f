// StoreTool: carries out `forebayd store …`. The store is opened for reading, so a broker may be using it.

import Bytes
import Core
import Store

enum StoreTool {
    /// Returns the exit code: 1 if the store cannot be read, or has problems.
    static func run(_ command: StoreCommand, _ loaded: Loaded) throws(UsageError) -> Int32 {
        guard let directory = loaded.options.store.directory else {
            throw UsageError(
                "forebayd store needs the directory of the store: add --store DIR, or set store in the file")
        }
        for warning in loaded.warnings { Broker.complain(warning) }
        do throws(StoreError) {
            let store = try Store.open(StoreOptions(directory: directory, bytes: 0, isReadOnly: true))
            defer { store.close() }
            switch command {
            case .info: return Broker.show(try info(store))
            case .check: return check(store)
            case .dump(let topic, let options):
                var dump = StoreDump(options)
                return try dump.run(store, topic)
            case .copy(let target):
                try store.copy(to: target)
                let code = Broker.show("copied \(counted(Int(try store.info().topics), "topic")) to \(target)\n")
                let copy = try Store.open(StoreOptions(directory: target, bytes: 0, isReadOnly: true))
                defer { copy.close() }
                let problems = copy.check().problemCount
                guard problems > 0 else { return code }
                Broker.complain(
                    "the copy has \(counted(problems, "problem")), probably like the store; see forebayd store check")
                return 1
            }
        } catch {
            Broker.complain(error.description)
            return 1
        }
    }

    private static func info(_ store: Store) throws(StoreError) -> String {
        let info = try store.info()
        let topics = try store.topics()
        let state =
            info.isCopy
            ? "a copy that no broker has opened; its topics will take new epochs"
            : info.isClean ? "closed" : "in use by a broker, or left by one that did not shut down"
        // The map is the limit, a quarter of it, and 64 MiB. That of a copy does not show the limit.
        let limit = info.isCopy ? "" : " of \(size((info.map - min(info.map, 64 << 20)) / 5 * 4))"
        let rows = [
            ("directory", store.options.directory), ("state", state),
            ("topics", "\(info.topics)\(info.deleted > 0 ? ", and \(info.deleted) deleted" : "")"),
            ("messages", "\(topics.reduce(0) { $0 + $1.end - $1.first }) in \(info.batches) batches"),
            ("publishers", "\(info.publishers)"),
            ("used", "\(size(info.used))\(limit)"), ("data file", size(info.file)),
            ("crashes", "\(info.generation) since the store was created"),
        ]
        var text = rows.map { "\(padded($0.0, 12))\($0.1)\n" }.joined()
        guard !topics.isEmpty else { return text }
        text += "\n" + line("FIRST", "LAST", "EPOCH", "CLASS", "STATE", "TOPIC")
        for topic in topics.sorted(by: { $0.record.name < $1.record.name }) {
            let isEmpty = topic.first == topic.end
            let state =
                switch topic.record.end {
                case nil: "open"
                case .completed: "completed"
                case .failed: "failed"
                }
            text += line(
                isEmpty ? "-" : "\(topic.first)", topic.end == 1 ? "-" : "\(topic.end - 1)", "\(topic.record.epoch)",
                topic.record.isRelaxed ? "relaxed" : "durable", state, JSONText.escaped(topic.record.name))
        }
        return text
    }

    private static func line(
        _ first: String, _ last: String, _ epoch: String, _ kind: String, _ state: String, _ name: String
    ) -> String {
        "\(padded(first, 12))\(padded(last, 12))\(padded(epoch, 21))\(padded(kind, 8))\(padded(state, 10))\(name)\n"
    }

    private static func check(_ store: Store) -> Int32 {
        let check = store.check()
        let names = Dictionary(
            ((try? store.topics()) ?? []).map { ($0.record.id, $0.record.name) }, uniquingKeysWith: { $1 })
        var text = ""
        for problem in check.problems {
            let topic =
                names[problem.topic].map { "topic \(JSONText.escaped($0))" } ?? "topic id \(problem.topic.value)"
            text += problem.sequence.map { "\(topic), batch \($0): " } ?? (problem.topic.value == 0 ? "" : "\(topic): ")
            text += problem.text + "\n"
        }
        let rest = check.problemCount - check.problems.count
        if rest > 0 { text += "and \(counted(rest, "more problem"))\n" }
        let found = check.problemCount == 0 ? "no problems" : counted(check.problemCount, "problem")
        text += "\(counted(check.topics, "topic")), \(check.batches) batches, "
        text += "\(counted(Int(clamping: check.messages), "message")), \(size(check.bytes)): \(found)\n"
        let code = Broker.show(text)
        return check.problemCount == 0 ? code : 1
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }

    /// Bytes for people: 512 B, 1.4 KiB, 10.0 GiB.
    static func size(_ bytes: UInt64) -> String {
        if bytes < 1024 { return "\(bytes) B" }
        var tenths = bytes
        var unit = 0
        while tenths >= 1 << 20, unit < 3 {
            tenths >>= 10
            unit += 1
        }
        tenths = (tenths * 10 + 512) >> 10
        return "\(tenths / 10).\(tenths % 10) \(["KiB", "MiB", "GiB", "TiB"][unit])"
    }
}
