// TLSStream: both sides in one process, over sockets that accept little at a time.

import EventLoop
import Glibc
import Synchronization
import TestCertificates
import Testing

@testable import TLS

/// A client and a server, each on its end of a pair of sockets.
private final class Ends {
    let client: TLSStream
    let server: TLSStream
    let clientSocket: Int32
    let serverSocket: Int32
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)

    init(
        host: String = "localhost", verification: ClientVerification = .off, shows: TestCertificate? = nil,
        trusts: TestCertificate? = nil, offers: TLSStream.Protocols = .none, buffer: Int32 = 4 << 10
    ) throws {
        let local = try TestCertificate.local.get()
        (clientSocket, serverSocket) = try #require(Socket.pair(buffer: buffer))
        let settings = TLSServerSettings(
            certificate: local.certificate, key: local.key,
            clientAuthority: verification == .off ? nil : try TestCertificate.other.get().certificate,
            verification: verification)
        server = try TLSServer(settings).accept(serverSocket, .http)
        var wishes = TLSClientSettings()
        wishes.authority = (trusts ?? local).certificate
        wishes.certificate = shows?.certificate
        wishes.key = shows?.key
        client = try TLSStream(connecting: clientSocket, to: host, TLSContext(wishes), offers)
    }

    deinit {
        close(clientSocket)
        close(serverSocket)
        scratch.deallocate()
    }

    /// Lets each side proceed in turn, until both have a result.
    func shakeHands() -> (client: TLSStream.Handshake, server: TLSStream.Handshake) {
        var states = (client: TLSStream.Handshake.wantsRead, server: TLSStream.Handshake.wantsRead)
        for _ in 0..<1000 {
            if states.client != .done, states.client != .failed { states.client = client.handshake() }
            if states.server != .done, states.server != .failed { states.server = server.handshake() }
            let over: [TLSStream.Handshake] = [.done, .failed]
            if over.contains(states.client), over.contains(states.server) { break }
        }
        // Reads the server's session ticket, after which a read ends.
        if states == (.done, .done) { _ = client.read(into: scratch) }
        return states
    }

    func write(_ pieces: [[UInt8]]) -> WriteResult {
        let raw = pieces.map { piece in
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: piece.count, alignment: 1)
            copy.copyBytes(from: piece)
            return UnsafeRawBufferPointer(copy)
        }
        defer { for piece in raw { piece.deallocate() } }
        return raw.withUnsafeBufferPointer { server.write($0, scratch: scratch) }
    }

    /// Everything that the client reads until nothing more is there for now.
    func read() -> (bytes: [UInt8], last: ReadResult) {
        var bytes: [UInt8] = []
        while true {
            let result = client.read(into: scratch)
            guard case .bytes(let count) = result else { return (bytes, result) }
            bytes += scratch[..<count]
        }
    }
}

@Suite struct TLSStreamTests {
    @Test func bothSidesAgree() throws {
        let ends = try Ends(offers: .http1)
        #expect(ends.shakeHands() == (.done, .done))
        #expect(ends.server.agreed == "http/1.1" && ends.client.agreed == "http/1.1")
        #expect(ends.client.version == "TLSv1.3" && !ends.client.cipher.isEmpty)
        #expect(ends.server.peerCertificate == nil && !ends.server.usesKernel)
    }

    /// Pieces of all sizes close to a record's, through a socket that accepts a few kilobytes at a time; also with
    /// small records now and then.
    @Test(arguments: [false, true]) func whatIsWrittenArrivesWhateverTheSocketTakes(isFullAtTimes: Bool) throws {
        let ends = try Ends()
        #expect(ends.shakeHands() == (.done, .done))
        let asked = Atomic(0)
        if isFullAtTimes {
            ends.server.gauge = TLSGauge(
                hold: { _ in }, isFull: { asked.add(1, ordering: .relaxed).newValue.isMultiple(of: 2) })
        }
        defer { ends.server.gauge = nil }
        let sizes = [1, 0, 16_383, 16_384, 16_385, 5, 5, 100_000, 3, 40_000, 0, 7]
        var rest = sizes.enumerated().map { index, size in (0..<size).map { UInt8(($0 &+ index) % 251) } }
        let all = rest.flatMap { $0 }
        var got: [UInt8] = []
        var wasHeld = 0
        while got.count < all.count {
            if ends.server.isHeld {
                wasHeld += 1
                _ = ends.server.flush()
            } else if case .bytes(var count) = ends.write(rest) {
                while count > 0 || rest.first?.isEmpty == true {
                    let part = min(count, rest[0].count)
                    rest[0].removeFirst(part)
                    count -= part
                    if rest[0].isEmpty { rest.removeFirst() }
                }
            }
            got += ends.read().bytes
        }
        let isSame = got == all
        #expect(isSame)
        #expect(wasHeld > 0)
    }

    @Test func anEndBehindBytesIsNews() throws {
        let ends = try Ends()
        #expect(ends.shakeHands() == (.done, .done))
        #expect(ends.write([[1, 2, 3]]) == .bytes(3))
        ends.server.end()
        #expect(ends.client.read(into: ends.scratch) == .bytes(3))
        #expect(ends.client.hasInput)
        #expect(ends.client.read(into: ends.scratch) == .end)
        #expect(!ends.client.hasInput)
    }

    @Test func aCutIsNoEnd() throws {
        let ends = try Ends()
        #expect(ends.shakeHands() == (.done, .done))
        Socket.shutdownWrite(ends.serverSocket)
        #expect(ends.read().last == .failed(ECONNRESET))
        #expect(ends.client.failure == "the connection was cut off without a TLS close_notify")
    }

    /// However many records there are, one read takes only a limited number.
    @Test func aReadTakesSoManyRecords() throws {
        let ends = try Ends(buffer: 256 << 10)
        #expect(ends.shakeHands() == (.done, .done))
        var sent = 0
        while sent < 2 * TLSStream.recordsPerRead, !ends.server.isHeld, case .bytes(1) = ends.write([[7]]) { sent += 1 }
        #expect(sent > TLSStream.recordsPerRead)
        #expect(ends.client.read(into: ends.scratch) == .bytes(TLSStream.recordsPerRead))
    }

    @Test func aStrangerIsNotTrusted() throws {
        let ends = try Ends(trusts: TestCertificate.other.get())
        #expect(ends.shakeHands().client == .failed)
        #expect(ends.client.cause == .distrusted("self-signed certificate"))
    }

    @Test(arguments: ["127.0.0.1", "localhost", "LOCALHOST"]) func theNameIsTheCertificates(host: String) throws {
        #expect(try Ends(host: host).shakeHands().client == .done)
    }

    @Test(arguments: ["127.0.0.2", "example.org"]) func anotherNameIsNot(host: String) throws {
        let ends = try Ends(host: host)
        #expect(ends.shakeHands().client == .failed)
        #expect(ends.client.cause == .wrongName)
    }

    @Test func aClientIsKnownByItsCertificate() throws {
        let ends = try Ends(verification: .required, shows: TestCertificate.other.get())
        #expect(ends.shakeHands() == (.done, .done))
        #expect(ends.server.peerCertificate?.user == "other")
        #expect(ends.server.peerCertificate?.subject == "CN=other,O=Tests")
    }

    @Test func aClientWithoutCertificateIsRefused() throws {
        let ends = try Ends(verification: .required)
        #expect(ends.shakeHands().server == .failed)
        #expect(ends.read().last == .failed(EPROTO))
        #expect(ends.client.cause == .certificateWanted)
    }

    @Test func filesThatCannotBeUsedAreTold() throws {
        let local = try TestCertificate.local.get()
        let other = try TestCertificate.other.get()
        func code(_ certificate: String, _ key: String) -> TLSError.Code? {
            let settings = TLSServerSettings(certificate: certificate, key: key)
            return #expect(throws: TLSError.self) { try TLSServer(settings) }?.code
        }
        #expect(code("/nowhere", local.key) == .unreadable)
        #expect(code(local.certificate, "/") == .unreadable)
        #expect(code(local.key, local.key) == .badCertificate)
        #expect(code(local.certificate, local.certificate) == .badKey)
        #expect(code(local.certificate, other.key) == .mismatch)
    }
}
