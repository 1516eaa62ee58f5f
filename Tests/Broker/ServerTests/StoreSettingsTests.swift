// The settings of the store, which depend on each other.

import Configuration
import Core
import Testing

@testable import Server

@Suite struct StoreSettingsTests {
    private func load(_ file: String) throws(UsageError) -> Options {
        try Loader.load(
            ConfigurationText(path: "/etc/b.yaml", bytes: Array(file.utf8)), environment: [], settings: [],
            table: Setting.all
        ) { _ in }.options
    }

    @Test func patternsAreRead() throws {
        let options = try load("store: data\ndurable: [orders.>, a]\nrelaxed: [metrics.*]")
        #expect(options.store.directory == "/etc/data")
        #expect(options.limits.durable.map(\.description) == ["orders.>", "a"])
        #expect(options.limits.relaxed.map(\.description) == ["metrics.*"])
        #expect(Setting.named("durable")!.texts(options) == ["orders.>", "a"])
    }

    @Test(arguments: [
        ("durable: [a]", "durable: a (/etc/b.yaml:1) needs a directory for the messages: also set store"),
        ("relaxed: [a]", "needs a directory for the messages: also set store"),
        ("store: /s\ndurable: [a..b]", "is not a topic pattern: it has an empty token"),
        ("store: /s\nrelaxed: ['*a']", "is not a topic pattern: '*' and '>' must be whole tokens"),
        ("store: /s\ndurable: [$SYS.>]", "matches only the broker's own topics, which are not stored"),
        ("store: /s\ndurable: [a.*]\nrelaxed: [a.>]", "overlap: a.* and a.> match the same topics"),
        ("store: /s\ndurable: ['*.b']\nrelaxed: [a.*]", "overlap: *.b and a.* match the same topics"),
    ])
    func contradictionsAreReported(_ file: String, _ text: String) {
        do throws(UsageError) {
            Issue.record("was read as \(try load(file))")
        } catch {
            #expect(error.faults.count == 1 && error.faults[0].contains(text), "\(error.faults)")
        }
    }

    @Test(arguments: [
        ("a.*", "b.*", false), ("a", "a.>", false), ("a.b", "a.*.c", false), (">", "$SYS.>", false), ("a", "a", true),
        ("*", "a", true), (">", "a.b.c", true), ("a.>", "*.b.c", true), ("a.*.c", "a.b.*", true),
    ])
    func overlapsAreFound(_ one: String, _ another: String, _ isOverlapping: Bool) throws {
        let (one, another) = (try TopicPattern(parsing: one), try TopicPattern(parsing: another))
        #expect(one.overlaps(another) == isOverlapping)
        #expect(another.overlaps(one) == isOverlapping)
    }
}
