// The configuration file, the environment and the command line. Accepted settings are the same after printing and
// reading them again.

import Configuration
import HTTP2

@testable import Server

/// Variables, one per line, up to an empty line; then the file.
func fuzzConfiguration(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    var environment: [(name: String, value: String)] = []
    while !input.isEmpty {
        let line = input.part(before: 10).asText
        if line.isEmpty { break }
        let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        environment.append((String(parts[0]), parts.count > 1 ? String(parts[1]) : ""))
    }
    let file = Array(input.rest)
    readNodes(file)
    do throws(UsageError) {
        let loaded = try load(file, environment)
        let printed = loaded.printed()
        let again: Loaded
        do throws(UsageError) {
            again = try load(Array(printed.utf8), [])
        } catch {
            // Secrets and invalid paths are not printed.
            return mustHold(printed.contains("(not shown)"), "\(error) in \(printed)")
        }
        for setting in Setting.all where !setting.isSecret && !printed.contains("(not shown)") {
            mustHold(
                setting.isSame(loaded.options, again.options),
                "\(setting.name) is read back as \(setting.line(again.options)): \(printed)")
        }
    } catch {
        mustHold(!error.faults.isEmpty && error.faults.allSatisfy { !$0.isEmpty }, "a fault without a text")
        mustHold(error.faults.count <= Loader.mostFaults + 20, "\(error.faults.count) faults")
    }
}

private func load(
    _ file: [UInt8], _ environment: [(name: String, value: String)]
) throws(UsageError) -> Loaded {
    try Loader.load(
        ConfigurationText(path: "/etc/f.yaml", bytes: file), environment: environment, settings: [],
        checkFile: { path throws(ValueFault) in
            if path.isEmpty || path.hasSuffix("/") { throw ValueFault("is a folder: name a file") }
        })
}

private func readNodes(_ file: [UInt8]) {
    do throws(Fault) {
        guard let root = try Document.parse(file) else { return }
        var count = 0
        mustHold(depth(root, &count) <= Document.deepest, "values are nested too deeply")
        mustHold(count <= Document.mostNodes, "\(count) values")
    } catch {
        mustHold(error.place.line >= 1 && error.place.column >= 1, "\(error) has no position")
    }
}

private func depth(_ node: Node, _ count: inout Int) -> Int {
    count += 1
    switch node.content {
    case .nothing, .text: return 1
    case .list(let nodes):
        var deepest = 0
        for node in nodes { deepest = max(deepest, depth(node, &count)) }
        return 1 + deepest
    case .mapping(let entries):
        var deepest = 0
        for entry in entries { deepest = max(deepest, depth(entry.value, &count)) }
        return 1 + deepest
    }
}

/// One word per line.
func fuzzFlags(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    var words = ["forebayd"]
    while !input.isEmpty {
        // The words of a command line contain no NUL.
        words.append(input.part(before: 10).prefix { $0 != 0 }.withContiguousText)
    }
    do throws(UsageError) {
        let invocation = try Invocation.parse(words)
        let settings = invocation.settings
        let loaded = try Loader.load(nil, environment: [], settings: settings) { _ throws(ValueFault) in }
        for (name, _) in settings {
            guard let setting = Setting.named(name) else { return report("\(name) is not a setting") }
            mustHold(loaded.origin(setting) == .option("--\(name)"), "\(name) comes from elsewhere")
        }
    } catch {
        mustHold(!error.faults.isEmpty && error.faults.allSatisfy { !$0.isEmpty }, "a fault without a text")
    }
}

extension Slice<UnsafeRawBufferPointer> {
    fileprivate var withContiguousText: String { UnsafeRawBufferPointer(rebasing: self).asText }
}
