// The log as a whole: levels, and pipes that are not read.

import Core
import EventLoop
import Glibc
import Testing

@testable import Server

struct LogTests {
    @Test func linesBelowTheLevelAreLeftOut() throws {
        let pipe = try Pipe()
        let log = try Log(level: .warning, format: .text, descriptor: pipe.input)
        log.write(.info, "not this")
        log.write(.warning, "this", [("n", "1")])
        log.write(.error, "and this")
        log.close()
        pipe.closeInput()
        let lines = pipe.readAll().split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1)[1] }
        #expect(lines == ["warn this n=1", "error and this"])
    }

    @Test func whatAnybodyCanCauseIsToldOnceASecond() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let frequent = FrequentRecords()
        let second: UInt64 = 1_000_000_000
        func refuse(_ number: Int, _ now: UInt64) {
            frequent.write(
                .loginRefused("reason \(number)", .none, over: "http", "10.0.0.\(number):99"), now: now, log: log)
        }
        refuse(1, 10 * second)
        for number in 2..<200 { refuse(number % 100, 10 * second + UInt64(number)) }
        // A report by a thread that read its clock earlier.
        frequent.report(now: 9 * second, log: log)
        frequent.report(now: 11 * second - 1, log: log)
        frequent.report(now: 11 * second, log: log)
        // Records already reported are not reported again.
        frequent.report(now: 20 * second, log: log)
        refuse(7, 30 * second)
        log.close()
        pipe.closeInput()
        let lines = pipe.readAll().split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1)[1] }
        #expect(
            lines == [
                "warn login refused attempts=1 cause=\"reason 1\" protocol=http address=10.0.0.1",
                "warn login refused attempts=198 cause=\"reason 99\" protocol=http address=10.0.0.99",
                "warn login refused attempts=1 cause=\"reason 7\" protocol=http address=10.0.0.7",
            ])
    }

    @Test func theUserWithTheMostRefusedLoginsIsNamed() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let frequent = FrequentRecords()
        var now: UInt64 = 10_000_000_000
        func refuse(_ names: [String?], _ number: Int = 1) {
            for name in names {
                let claim = name.map { LoginClaim.user($0) } ?? .unknown
                frequent.write(.loginRefused("it", claim, over: "http", "10.0.0.\(number):99"), now: now, log: log)
            }
        }
        /// The line for the records since the last line.
        func wait() {
            now += 1_000_000_000
            frequent.report(now: now, log: log)
        }
        refuse(["alice"])
        refuse(["alice", "bob", "alice", nil, "bob", "alice", "carol"], 2)
        wait()
        refuse(["bob", "bob"])
        wait()
        refuse([nil, "bob"], 3)
        wait()
        refuse((0..<1000).map { "user\($0)" } + ["user7"])
        wait()
        log.close()
        pipe.closeInput()
        let lines = pipe.readAll().split(separator: "\n").map { line in
            line.split(separator: " ").dropFirst(4).filter { !$0.hasPrefix("cause") && !$0.hasPrefix("protocol") }
        }
        #expect(
            lines.map { $0.joined(separator: " ") } == [
                "attempts=1 user=alice address=10.0.0.1",
                "attempts=7 same-user=3 user=alice address=10.0.0.2",
                "attempts=2 user=bob address=10.0.0.1",
                "attempts=2 same-user=1 user=bob address=10.0.0.3",
                "attempts=1001 same-user=2 user=user7 address=10.0.0.1",
            ])
    }

    /// Without a user, the most frequent topic is named, and the messages of all topics are counted.
    @Test func messagesOfFrequentRecordsAreSummed() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let frequent = FrequentRecords()
        let second: UInt64 = 1_000_000_000
        func drop(_ messages: Int, _ topic: String) {
            let record = LogRecord(
                level: .warning, message: "dropped", fields: [("topic", topic), ("messages", messages)],
                isFrequent: true)
            frequent.write(record, now: 10 * second, log: log)
        }
        drop(1, "a")
        drop(20, "a")
        drop(300, "b")
        drop(4000, "a")
        frequent.report(now: 11 * second, log: log)
        drop(5, "b")
        frequent.report(now: 12 * second, log: log)
        log.close()
        pipe.closeInput()
        let lines = pipe.readAll().split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1)[1] }
        #expect(
            lines == [
                "warn dropped attempts=1 topic=a messages=1",
                "warn dropped attempts=3 same-topic=2 topic=a messages=4320",
                "warn dropped attempts=1 topic=b messages=5",
            ])
    }

    @Test func kindsOfFrequentRecordsAreBounded() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let frequent = FrequentRecords()
        for kind in 0..<20 {
            let record = LogRecord(level: .info, message: "kind\(kind)", fields: [], isFrequent: true)
            for _ in 0..<2 { frequent.write(record, now: 1, log: log) }
        }
        log.close()
        pipe.closeInput()
        #expect(pipe.readAll().split(separator: "\n").count == FrequentRecords.kinds + 2 * (20 - FrequentRecords.kinds))
    }

    @Test func aPipeThatNobodyReadsBlocksNobodyAndTheLossIsTold() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let filler = String(repeating: "x", count: 1000)
        // Many times what the pipe (64 KiB) and the buffer hold; a blocking write would make the test hang.
        let written = 2000
        for number in 0..<written { log.write(.info, "line", [("n", String(number)), ("filler", filler)]) }
        let reader = try pipe.readInBackground()
        log.close(timeout: 10_000_000_000)
        pipe.closeInput()
        let lines = reader.wait().split(separator: "\n")

        var kept = 0
        var dropped = 0
        for line in lines {
            if let count = line.firstRange(of: "log lines dropped count=") {
                let digits = line[count.upperBound...].prefix { $0 != " " }
                dropped += Int(digits) ?? 0
                #expect(line.contains(" warn "))
            } else {
                #expect(line.contains("info line n="))
                kept += 1
            }
        }
        #expect(dropped > 0)
        #expect(kept + dropped == written)
        #expect(kept * 1000 <= 2 * LogWriter.limit + (128 << 10))
    }

    @Test func closingGivesUpOnAPipeThatNobodyReads() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        for _ in 0..<200 { log.write(.info, "line", [("filler", String(repeating: "x", count: 1000))]) }
        let begin = Clock.monotonic()
        #expect(!log.close(timeout: 50_000_000))
        #expect(Clock.monotonic() - begin >= 50_000_000)
        let reader = try pipe.readInBackground()
        #expect(log.close(timeout: patience))
        pipe.closeInput()
        #expect(reader.wait().split(separator: "\n").count == 200)
    }

    @Test func aNonBlockingDescriptorIsWaitedFor() throws {
        let pipe = try Pipe()
        #expect(fcntl(pipe.input, F_SETFL, O_NONBLOCK) == 0)
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        for _ in 0..<150 { log.write(.info, "line", [("filler", String(repeating: "x", count: 1000))]) }
        let reader = try pipe.readInBackground()
        log.close(timeout: 10_000_000_000)
        pipe.closeInput()
        #expect(reader.wait().split(separator: "\n").count == 150)
    }
}

/// A pipe whose read end can be drained by a thread.
final class Pipe {
    private let output: Int32
    private(set) var input: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError("cannot make a pipe", code: errno) }
        (output, input) = (ends[0], ends[1])
    }

    deinit {
        closeInput()
        close(output)
    }

    func closeInput() {
        if input >= 0 { close(input) }
        input = -1
    }

    func readAll() -> String { Pipe.drain(output) }

    func readInBackground() throws -> Reader { try Reader(output) }

    fileprivate static func drain(_ fd: Int32) -> String {
        var text: [UInt8] = []
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        while case .bytes(let count) = bytes.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
            text.append(contentsOf: bytes[..<count])
        }
        return String(decoding: text, as: UTF8.self)
    }

    final class Reader {
        private final class Box: @unchecked Sendable { var text = "" }
        private let box = Box()
        private let thread: NamedThread

        fileprivate init(_ fd: Int32) throws {
            thread = try NamedThread.start("reader") { [box] in box.text = Pipe.drain(fd) }
        }

        /// Everything read up to the end.
        func wait() -> String {
            thread.join()
            return box.text
        }
    }
}
