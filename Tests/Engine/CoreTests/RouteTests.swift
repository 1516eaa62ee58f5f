// Routes and their options.

import ForebayWire
import RSocket
import Replay
import Testing

@testable import Core

@Suite struct RouteTests {
    private func options(_ text: String, _ tags: [String] = []) -> String {
        do throws(Refusal) {
            let route = try Route(text, tags: tags)
            let options = try SubscribeOptions(route)
            return "\(route.name) \(options.start) \(options.buffer) \(options.overflow.name)"
                + (options.gapFails ? " gap-fails" : "") + (options.meta ? " meta" : "")
                + (options.opening ? " opening" : "") + (options.since.map { " since \($0)" } ?? "")
        } catch {
            return "\(error.code): \(error.message)"
        }
    }

    @Test(arguments: [
        ("t", "t next 1024 drop-oldest"),
        ("t?", "t next 1024 drop-oldest"),
        ("a%2Eb?replay=all", "a.b all 1024 drop-oldest"),
        ("t?replay=5&buffer=1&overflow=latest&meta=on", "t last(5) 1 latest meta"),
        ("t?from=7", "t from(7) 1024 drop-oldest gap-fails"),
        ("t?from=7&meta=on", "t from(7) 1024 drop-oldest meta"),
        ("t?from=7&meta=on&gap=fail&epoch=18446744073709551615", "t from(7) 1024 drop-oldest gap-fails meta"),
        ("t?buffer=2147483647&overflow=drop%2Dnewest", "t next 2147483647 drop-newest"),
        ("t?opening=on", "t next 1024 drop-oldest opening"), ("t?opening=off", "t next 1024 drop-oldest"),
        ("t?x-later=1&buffer=7&x-=", "t next 7 drop-oldest"),
        ("t?since=-5m", "t next 1024 drop-oldest since -5m"),
        ("t?since=2026-11-22T09:30:00Z&meta=on", "t next 1024 drop-oldest meta since 2026-11-22T09:30:00Z"),
        ("t?since=2026-11-22T10:30:00+01:00", "t next 1024 drop-oldest since 2026-11-22T09:30:00Z"),
        ("t?since=2026%2D11-22T10%3a30:00%2B01:00", "t next 1024 drop-oldest since 2026-11-22T09:30:00Z"),
        ("t?since=-5m&gap=fail", "t next 1024 drop-oldest gap-fails since -5m"),
    ])
    func taken(_ text: String, _ expected: String) {
        #expect(options(text) == expected)
    }

    @Test(arguments: [
        ("t?reply=5", "'reply' is unknown"), ("t?replay=5&replay=6", "given twice"), ("t?replay", "has no value"),
        ("t?replay=x", "neither a number nor all"), ("t?buffer=0", "1 to 2147483647"),
        ("t?buffer=2147483648", "1 to 2147483647"), ("t?buffer=-1", "1 to 2147483647"),
        ("t?overflow=drop", "use one of: drop-oldest, drop-newest, replace-newest, latest, fail, block"),
        ("t?replay=1&from=1", "exclude each other"), ("t?epoch=4", "epoch requires from"),
        ("t?from=1&gap=tell", "requires meta=on"), ("t?from=0", "1 to 18446744073709551615"),
        ("t?from=18446744073709551616", "1 to 18446744073709551615"), ("t?meta=yes", "use one of: on, off"),
        ("t?complete=true", "'complete' is unknown"), ("t%zz", "two hexadecimal digits"), ("t?a%ff=1", "valid UTF-8"),
        ("t?opening=1", "use one of: on, off"), ("t?x-a=1&x-a=1", "given twice"), ("t?x-a", "has no value"),
        ("t?X-a=1", "'X-a' is unknown"), ("t?x=1", "'x' is unknown"),
        ("t?since=5m", "neither a time such as 2026-11-22T09:30:00Z nor a duration such as -5m"),
        ("t?since=", "neither a time"), ("t?since", "has no value"), ("t?since=-5m&since=-5m", "given twice"),
        ("t?since=2026-02-29T09:30:00Z", "not in the calendar"), ("t?since=-5m&epoch=4", "epoch requires from"),
        ("t?since=-5m&replay=1", "replay and since exclude each other; give only one of them."),
        ("t?from=1&since=-5m", "from and since exclude each other; give only one of them."),
        ("t?from=1&since=-5m&replay=all", "replay and from exclude each other"),
    ])
    func refused(_ text: String, _ part: String) {
        #expect(options(text).contains(part), "\(options(text))")
        #expect(options(text).hasPrefix("invalid: "))
    }

    @Test func furtherTagsCarryOptions() {
        #expect(options("t", ["replay=3", "overflow=fail"]) == "t last(3) 1024 fail")
        #expect(options("t?replay=2", ["replay=3"]).contains("given twice"))
        #expect(options("t", (0...32).map { "x\($0)=1" }).contains("more than 32 options"))
    }

    @Test(arguments: [
        ("orders", true), ("a.b-c_D.9", true), ("", false), (".a", false), ("a.", false), ("a..b", false),
        ("a*", false),
        ("a.>", false), ("a b", false), ("ä", false), (String(repeating: "a", count: 255), true),
        (String(repeating: "a", count: 256), false), ("a/b", false), ("$SYS.x", false),
    ])
    func names(_ name: String, _ isValid: Bool) {
        #expect((TopicName.fault(name) == nil) == isValid)
    }
}
