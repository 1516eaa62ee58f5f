// Reloading: what SIGHUP does. The file is read again, and the variables and options given at startup still override
// it. Changed settings are applied if that is possible without dropping connections; all others are reported. An
// invalid file changes nothing.

import Access
import Core
import Synchronization

/// A setting whose value was changed by a reload.
struct Change: Equatable {
    var name: String
    var former: String
    var new: String
    var origin: String
    /// Whether it has been applied; otherwise it takes effect after a restart.
    var isApplied: Bool
}

extension Loaded {
    /// Adopts changed reloadable settings from `new`. All others keep their values and origins.
    mutating func adopt(_ new: Loaded, table: [Setting] = Setting.all) -> [Change] {
        var changes: [Change] = []
        for setting in table {
            let isSame = setting.isSame(options, new.options)
            if !isSame {
                changes.append(
                    Change(
                        name: setting.name, former: setting.line(options), new: setting.line(new.options),
                        origin: new.origin(setting).description, isApplied: setting.isReloadable))
            }
            guard isSame || setting.isReloadable else { continue }
            setting.copy(new.options, &options)
            origins[setting.name] = new.origins[setting.name]
            for key in Set(lines.keys).union(new.lines.keys)
            where key == setting.name || key.hasPrefix("\(setting.name).") { lines[key] = new.lines[key] }
        }
        warnings = new.warnings
        return changes
    }
}

/// Counts reloads of the configuration. Any thread may read the counts.
final class ReloadCount: Sendable {
    private let accepted = Atomic<UInt64>(0)
    private let refused = Atomic<UInt64>(0)
    private let lastWasRefused = Atomic<Bool>(false)

    /// Whether the last reload was refused, which leaves the file different from the settings in effect.
    var isLastRefused: Bool { lastWasRefused.load(ordering: .relaxed) }

    func note(isAccepted: Bool) {
        lastWasRefused.store(!isAccepted, ordering: .relaxed)
        if isAccepted { accepted.add(1, ordering: .relaxed) } else { refused.add(1, ordering: .relaxed) }
    }

    var value: (accepted: UInt64, refused: UInt64) {
        (accepted.load(ordering: .relaxed), refused.load(ordering: .relaxed))
    }
}

/// The settings of a running broker and their sources.
struct Reloader {
    let invocation: Invocation
    /// The configuration file, if any.
    private(set) var path: String?
    private(set) var loaded: Loaded
    /// The machine's limits, determined at the start.
    let machine: MachineLimits
    /// The access settings, including the contents of key files.
    private var access: AccessSettings

    init(
        _ invocation: Invocation, path: String?, loaded: Loaded, access: AccessSettings, machine: MachineLimits
    ) {
        self.invocation = invocation
        self.path = path
        self.loaded = loaded
        self.access = access
        self.machine = machine
    }

    /// Performs the same checks as the start before anything changes.
    mutating func reload(_ server: Server, log: Log) {
        let new: Loaded
        let read: String?
        var merged = loaded
        let changes: [Change]
        let configuration: Server.Configuration
        do throws(UsageError) {
            (new, read) = try ConfigurationFile.load(invocation, former: path)
            changes = merged.adopt(new)
            configuration = try Server.Configuration(merged, path: read, machine: machine)
            do throws(StartError) {
                try server.check(configuration)
            } catch {
                throw UsageError(Broker.explain(error, merged))
            }
        } catch {
            for fault in error.faults {
                log.write(.error, "reload refused", [("cause", fault), ("in-force", "previous settings")])
            }
            server.noteReload(isAccepted: false)
            return
        }
        server.noteReload(isAccepted: true)
        log.level = merged.options.logLevel
        // Logged ahead of the effects.
        let details =
            AccessChanges.lines(from: access, to: configuration.access.settings)
            + Reloader.topicRules(from: loaded.options, to: merged.options)
        log.write(.info, all: details, timeout: 1_000_000_000)
        (loaded, path, access) = (merged, read, configuration.access.settings)
        server.reload(configuration)
        let isMore = changes.contains { $0.name == "max-connections" }
        if isMore, let shortage = machine.shortage(loaded.options, configuration) {
            log.write(.warning, "few open files", shortage)
        }
        report(changes, log)
    }

    /// Log lines for topic rules that were added, removed or reordered.
    static func topicRules(from old: Options, to new: Options) -> [AccessChanges.Line] {
        let before = old.limits.topicRules
        let after = new.limits.topicRules
        let removed = before.filter { !after.contains($0) }
        let added = after.filter { !before.contains($0) }
        if before != after, removed.isEmpty, added.isEmpty { return [("topic rules reordered", [])] }
        func line(_ message: String, _ rule: TopicRule) -> AccessChanges.Line {
            (message, [("rule", Setting.writeTopicRule(rule).joined(separator: ", "))])
        }
        return removed.map { line("topic rule removed", $0) } + added.map { line("topic rule added", $0) }
    }

    private func report(_ changes: [Change], _ log: Log) {
        for warning in loaded.warnings { log.write(.warning, "suspicious setting", [("cause", warning)]) }
        for change in changes where change.isApplied {
            // The number of elements is unchanged; other lines report the differences.
            let values: [LogField] = change.former == change.new ? [] : [("from", change.former), ("to", change.new)]
            log.write(.info, "setting changed", [("key", change.name)] + values + [("origin", change.origin)])
        }
        for change in changes where !change.isApplied {
            log.write(
                .warning, "setting needs a restart",
                [("key", change.name), ("in-force", change.former), ("to", change.new), ("origin", change.origin)])
        }
        let applied = changes.count { $0.isApplied }
        log.write(.info, "reloaded", [("file", path ?? "none"), ("changed", applied)])
    }
}
