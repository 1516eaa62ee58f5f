// The threads that check credentials: results reach their shard, a full queue refuses requests, and shutdown does not
// wait.

import Access
import Core
import EventLoop
import Testing

@testable import Core
@testable import Server

@Suite struct LoginServiceTests {
    private static func rules() throws -> AccessRules {
        var settings = AccessSettings()
        settings.users = [UserSettings(name: "alice", password: PasswordHash.make(of: Array("secret".utf8)))]
        return try AccessRules(settings)
    }

    private static func request(_ number: UInt64, _ password: String, from address: String) -> LoginRequest {
        LoginRequest(
            ticket: LoginTicket(
                connection: ConnectionID(index: 0, generation: 0), exchange: .max, number: number),
            credential: .password(user: "alice", Array(password.utf8)), address: address)
    }

    /// The next result in an inbox: its ticket's number, and the user.
    private static func answer(_ inbox: Inbox<InboxItem>) throws -> (number: UInt64, user: String?) {
        var poller = try Poller()
        try poller.add(inbox.descriptor, token: 0, interest: .read)
        var found: (UInt64, String?)?
        while found == nil {
            try #require(try poller.wait(timeout: 60_000_000_000) > 0, "no result arrived")
            inbox.clearWake()
            inbox.drain { item in
                guard case .authenticated(let ticket, let outcome) = item else { return }
                if case .accepted(let principal) = outcome {
                    found = (ticket.number, principal.user)
                } else {
                    found = (ticket.number, nil)
                }
            }
        }
        return found!
    }

    @Test func answersGoToTheShardThatAsked() throws {
        let inboxes = [try Inbox<InboxItem>(), try Inbox<InboxItem>()]
        let service = try LoginService(try LoginServiceTests.rules(), inboxes: inboxes, log: try silentLog())
        let now = Clock.monotonic()
        for (shard, password, user) in [(1, "secret", "alice"), (0, "secret", "alice"), (1, "wrong", nil)] {
            let number = UInt64.random(in: 0...UInt64.max)
            #expect(service.submit(LoginServiceTests.request(number, password, from: "a"), from: shard, now: now))
            let answer = try LoginServiceTests.answer(inboxes[shard])
            #expect(answer.number == number && answer.user == user)
        }
        // Other rules apply from the reload on.
        service.reload(.open)
        #expect(service.submit(LoginServiceTests.request(7, "secret", from: "a"), from: 0, now: now))
        #expect(try LoginServiceTests.answer(inboxes[0]).user == nil)
        service.stop()
    }

    @Test func aFullQueueRefusesAndIsNotWaitedFor() throws {
        let inbox = try Inbox<InboxItem>()
        let service = try LoginService(try LoginServiceTests.rules(), inboxes: [inbox], log: try silentLog())
        let now = Clock.monotonic()
        // Each request takes the time of a hash, so all of them would take many seconds.
        for number in 0..<4096 {
            let request = LoginServiceTests.request(
                UInt64(number), "wrong", from: "10.0.\(number >> 8).\(number & 255)")
            #expect(service.submit(request, from: 0, now: now))
        }
        var poller = try Poller()
        try poller.add(inbox.descriptor, token: 0, interest: .read)
        var refused = 0
        let most = 4096 - LoginService.workers * LoginLimits.queue - 500
        while refused < most {
            try #require(try poller.wait(timeout: 60_000_000_000) > 0, "no result arrived")
            inbox.clearWake()
            inbox.drain { item in
                if case .authenticated(_, .busy) = item { refused += 1 }
            }
        }
        let before = Clock.monotonic()
        service.stop()
        #expect(Clock.monotonic() - before < 4_000_000_000)
    }

    @Test func whatComesTooFastIsRefusedAtOnce() throws {
        let service = try LoginService(
            try LoginServiceTests.rules(), inboxes: [try Inbox<InboxItem>()], log: try silentLog())
        let long = String(repeating: "x", count: 4000)
        var taken = 0
        // 80 MB of passwords, from one address.
        for number in 0..<20_000 {
            let request = LoginServiceTests.request(UInt64(number), long, from: "a")
            if service.submit(request, from: 0, now: Clock.monotonic()) { taken += 1 } else { break }
        }
        #expect(taken >= LoginService.arrivals / 8192 && taken < 20_000)
        service.stop()
    }

    /// Recently accepted passwords, and tokens, do not wait for passwords that each need a hash.
    @Test func whoIsKnownPassesThoseWhoWait() throws {
        let inboxes = [try Inbox<InboxItem>(), try Inbox<InboxItem>()]
        let service = try LoginService(try LoginServiceTests.rules(), inboxes: inboxes, log: try silentLog())
        func logIn(_ number: UInt64, from address: String) throws -> String? {
            let request = LoginServiceTests.request(number, "secret", from: address)
            #expect(service.submit(request, from: 1, now: Clock.monotonic()))
            let answer = try LoginServiceTests.answer(inboxes[1])
            #expect(answer.number == number)
            return answer.user
        }
        #expect(try logIn(1, from: "a") == "alice")
        var waiting = 0
        for number in 0..<400 {
            let request = LoginServiceTests.request(UInt64(100 + number), "wrong", from: "10.0.0.\(number % 200)")
            if service.submit(request, from: 0, now: Clock.monotonic()) { waiting += 1 }
        }
        #expect(try logIn(2, from: "a") == "alice")
        #expect(try logIn(3, from: "b") == "alice", "from another address, possibly on another thread")
        var answered = 0
        inboxes[0].drain { _ in answered += 1 }
        #expect(waiting == 400 && answered < 200, "they are still waiting")
        service.stop()
    }

    @Test func whatWaitedTooLongIsRefused() throws {
        let inbox = try Inbox<InboxItem>()
        let service = try LoginService(try LoginServiceTests.rules(), inboxes: [inbox], log: try silentLog())
        let late = Clock.monotonic() - LoginService.patience
        #expect(service.submit(LoginServiceTests.request(1, "secret", from: "a"), from: 0, now: late))
        #expect(try LoginServiceTests.answer(inbox).user == nil)
        service.stop()
    }
}
