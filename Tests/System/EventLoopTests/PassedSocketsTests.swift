// Sockets opened by another process: the variables that announce them, and what is refused.

import EventLoop
import Testing

struct PassedSocketsTests {
    private func read(_ variables: [String: String]) throws -> [PassedSockets.Entry] {
        try PassedSockets(process: 7) { variables[$0] }.entries
    }

    private func entry(_ socket: Int32, _ name: String) -> PassedSockets.Entry {
        PassedSockets.Entry(socket: socket, name: name)
    }

    @Test func namesBelongToDescriptorsFromThreeOn() throws {
        let variables = ["LISTEN_PID": "7", "LISTEN_FDS": "3", "LISTEN_FDNAMES": "http:rsocket:http"]
        #expect(try read(variables) == [entry(3, "http"), entry(4, "rsocket"), entry(5, "http")])
    }

    @Test func whatHasNoNameIsUnknown() throws {
        #expect(try read(["LISTEN_PID": "7", "LISTEN_FDS": "1"]) == [entry(3, "unknown")])
        let variables = ["LISTEN_PID": "7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "http"]
        #expect(try read(variables) == [entry(3, "http"), entry(4, "unknown")])
    }

    @Test(arguments: [
        [:], ["LISTEN_FDS": "1"], ["LISTEN_PID": "7"], ["LISTEN_PID": "8", "LISTEN_FDS": "1"],
        ["LISTEN_PID": "x", "LISTEN_FDS": "1"], ["LISTEN_PID": "7", "LISTEN_FDS": "0"],
    ])
    func withoutTheVariablesOrForAnotherProcessThereAreNone(_ variables: [String: String]) throws {
        #expect(try read(variables) == [])
    }

    @Test(arguments: ["-1", "65", "9999999999", "three", ""])
    func aCountThatIsNoneIsRefused(_ count: String) {
        #expect(throws: SystemError.self) { try read(["LISTEN_PID": "7", "LISTEN_FDS": count]) }
    }

    @Test func asManyAsAllowed() throws {
        #expect(PassedSockets.most == 64)
        #expect(try read(["LISTEN_PID": "7", "LISTEN_FDS": "64"]).count == 64)
    }
}
