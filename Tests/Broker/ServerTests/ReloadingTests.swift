// What a reload changes, and what it does not.

import Core
import Testing

@testable import Server

@Suite struct ReloadingTests {
    private func load(_ file: String, _ settings: [(String, String)] = []) throws -> Loaded {
        let text = ConfigurationText(path: "b.yaml", bytes: Array(file.utf8))
        return try Loader.load(text, environment: [], settings: settings, checkFile: { _ in })
    }

    @Test func whatCanBeChangedIsAndTheRestIsTold() throws {
        var inForce = try load("listen: 127.0.0.1:1\nthreads: 2\nretain: 5\nlog-level: debug", [("log-level", "warn")])
        let new = try load("retain: 6\nlisten: 127.0.0.1:2\nlog-level: error\nmax-topics: 9", [("log-level", "warn")])
        let changes = inForce.adopt(new)
        #expect(
            changes == [
                Change(
                    name: "listen", former: "127.0.0.1:1", new: "127.0.0.1:2", origin: "b.yaml:2", isApplied: false),
                Change(name: "threads", former: "2", new: "auto", origin: "default", isApplied: false),
                Change(name: "retain", former: "5", new: "6", origin: "b.yaml:1", isApplied: true),
                Change(name: "max-topics", former: "100000", new: "9", origin: "b.yaml:4", isApplied: true),
            ])
        #expect(inForce.options.listen?.port == 1 && inForce.options.threads == 2)
        #expect(inForce.options.limits.retain == 6 && inForce.options.limits.topics == 9)
        #expect(inForce.options.logLevel == .warning)
        #expect(
            inForce.origins == [
                "listen": .file(path: "b.yaml", line: 1), "threads": .file(path: "b.yaml", line: 2),
                "retain": .file(path: "b.yaml", line: 1), "max-topics": .file(path: "b.yaml", line: 4),
                "log-level": .option("--log-level"),
            ])
        #expect(inForce.adopt(new).map(\.name) == ["listen", "threads"], "reported again: it needs a restart")
    }

    @Test func rulesOfTopicsThatChangeAreTold() throws {
        func reported(_ old: String, _ new: String) throws -> [String] {
            let lines = Reloader.topicRules(
                from: try load("topics: [\(old)]").options, to: try load("topics: [\(new)]").options)
            return lines.map { ([$0.message] + $0.fields.map { "\($0.value)" }).joined(separator: ": ") }
        }
        let (a, b) = ("{match: a, retain: 5}", "{match: b, retain-age: 5m}")
        #expect(try reported(a, a).isEmpty)
        #expect(
            try reported("\(a), \(b)", "\(b), {match: a, retain: 6}") == [
                "topic rule removed: match: a, retain: 5", "topic rule added: match: a, retain: 6",
            ])
        #expect(try reported("\(a), \(b)", "\(b), \(a)") == ["topic rules reordered"])
    }

    /// Every reloadable setting reaches the running broker, because `Server.reload` passes it on.
    @Test(arguments: Sample.all)
    func whatIsReloadableIsHandedOn(sample: Sample) throws {
        let setting = sample.setting
        let value = sample.texts.count > 1 ? "[\(sample.value)]" : "\"\(sample.value)\""
        let options = try load("\(sample.name): \(value)").options
        let machine = MachineLimits(openFiles: 1_000_000, cpus: 2, memory: 1 << 30)
        let was = try Server.Configuration(Options(), path: nil, machine: machine)
        let configuration = try Server.Configuration(options, path: nil, machine: machine)
        let isHandedOn =
            configuration.limits != was.limits || configuration.drainTime != was.drainTime
            || options.logLevel != .info
        #expect(setting.isReloadable == isHandedOn)
    }

    @Test func theMachineSetsWhatIsLeftToIt() throws {
        let machine = MachineLimits(openFiles: 1000, cpus: 3, memory: 1 << 30)
        let configuration = try Server.Configuration(Options(), path: nil, machine: machine)
        #expect(configuration.threads == 3 && configuration.limits.memory == 1 << 30)
        #expect(configuration.limits.connections == 1000 - MachineLimits.reservedFiles(of: 1000, threads: 3))
        #expect(
            machine.effective(Options(), configuration) == [
                "threads": "3 here", "memory": "1073741824 bytes here", "max-connections": "673, limited by open files",
            ])
        let few = MachineLimits(openFiles: 200, cpus: 2, memory: 1 << 30)
        #expect(try Server.Configuration(Options(), path: nil, machine: few).limits.connections == 50)
        #expect(few.shortage(Options(), try Server.Configuration(Options(), path: nil, machine: few)) != nil)
        var options = Options()
        (options.threads, options.memory, options.limits.connections) = (1, 16 << 20, 5)
        #expect(machine.effective(options, try Server.Configuration(options, path: nil, machine: machine)).isEmpty)
    }
}
