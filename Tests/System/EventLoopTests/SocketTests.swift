// Sockets and addresses: reads, writes, listening, connecting, and the notations for an address.

import EventLoop
import Glibc
import Testing

struct SocketTests {
    @Test func readTellsBytesEndAndBlocked() throws {
        let pair = try SocketPair()
        var bytes = [UInt8](repeating: 0, count: 8)
        func read() -> ReadResult { bytes.withUnsafeMutableBytes { Socket.read(pair.near, into: $0) } }
        #expect(read() == .blocked)
        pair.send("abc")
        #expect(try isReady(pair.near, for: .read))
        #expect(read() == .bytes(3))
        Socket.shutdownWrite(pair.far)
        #expect(try isReady(pair.near, for: .read))
        #expect(read() == .end)
    }

    @Test func aResetIsAnErrorForReaderAndWriter() throws {
        let pair = try SocketPair()
        pair.resetFar()
        #expect(try isReady(pair.near, for: .read))
        var bytes = [UInt8](repeating: 0, count: 8)
        #expect(bytes.withUnsafeMutableBytes { Socket.read(pair.near, into: $0) } == .failed(ECONNRESET))
        // Without MSG_NOSIGNAL this would end the process.
        #expect(bytes.withUnsafeBytes { Socket.write(pair.near, $0) } == .failed(EPIPE))
    }

    @Test func severalPiecesGoOutInOrder() throws {
        let pair = try SocketPair()
        let parts: [[UInt8]] = [Array("one ".utf8), [], Array("two ".utf8), Array("three".utf8)]
        let pieces = parts.map { part in
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: part.count, alignment: 1)
            copy.copyBytes(from: part)
            return UnsafeRawBufferPointer(copy)
        }
        defer { for piece in pieces { piece.deallocate() } }
        #expect(pieces.withUnsafeBufferPointer { Socket.write(pair.far, $0) } == .bytes(13))
        #expect(try isReady(pair.near, for: .read))
        #expect(pair.receive(100) == "one two three")
    }

    @Test func aWriteBlocksWithinTheKernelsBuffersAndGoesOnWhenRead() throws {
        let pair = try SocketPair()
        Socket.configure(pair.near, userTimeout: 60_000)
        // The receive window is small, so the kernel accepts little more than the sender's side can hold.
        var window: Int32 = 16 << 10
        setsockopt(pair.far, SOL_SOCKET, SO_RCVBUF, &window, socklen_t(MemoryLayout<Int32>.size))
        let block = [UInt8](repeating: 7, count: 64 << 10)
        var sent = 0
        while case .bytes(let count) = block.withUnsafeBytes({ Socket.write(pair.near, $0) }) { sent += count }
        #expect(sent > 0)
        #expect(sent < 4 * Socket.sendBuffer)

        var poller = try Poller()
        try poller.add(pair.near, token: 1, interest: .write)
        #expect(try poller.wait(timeout: 0) == 0)
        var received = 0
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        while received < sent, try isReady(pair.far, for: .read) {
            guard case .bytes(let count) = bytes.withUnsafeMutableBytes({ Socket.read(pair.far, into: $0) }) else {
                break
            }
            received += count
        }
        #expect(received == sent)
        #expect(try poller.wait(timeout: 10_000_000_000) == 1)
        #expect(poller[0].ready == .writable)
    }

    @Test func acceptTellsThePeer() throws {
        let listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        defer { close(listener) }
        #expect(try Socket.accept(listener) == nil)
        let address = try #require(Socket.localAddress(listener))
        #expect(address.port != 0)
        let client = try Socket.connect(to: Endpoint(parsing: address.description), timeout: 5_000_000_000)
        defer { close(client) }
        let (fd, peer) = try #require(try Socket.accept(listener))
        defer { close(fd) }
        #expect(peer.description == Socket.localAddress(client)?.description)
        #expect(Socket.peerAddress(client)?.description == address.description)
        #expect(peer.description == "127.0.0.1:\(peer.port)")
        for descriptor in [fd, client, listener] {
            #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
            #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        }
    }

    @Test func aTakenPortAndARefusedConnectionAreErrors() throws {
        let listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        let address = try #require(Socket.localAddress(listener))
        do throws(SystemError) {
            _ = try Socket.listen(on: address)
            Issue.record("no error")
        } catch {
            #expect(error.code == EADDRINUSE)
            #expect(error.description == "cannot listen on \(address): Address already in use")
        }
        close(listener)
        do throws(SystemError) {
            _ = try Socket.connect(to: Endpoint(host: "127.0.0.1", port: address.port), timeout: 5_000_000_000)
            Issue.record("no error")
        } catch {
            #expect(error.code == ECONNREFUSED)
            #expect(error.description == "cannot connect to \(address): Connection refused")
        }
    }
}

struct EndpointTests {
    @Test(arguments: [
        ("127.0.0.1:7690", "127.0.0.1", 7690), ("localhost:0", "localhost", 0), ("[::1]:65535", "::1", 65535),
        ("[::]:1", "::", 1), ("broker.example:80", "broker.example", 80),
    ])
    func reads(text: String, host: String, port: Int) throws {
        let endpoint = try Endpoint(parsing: text)
        #expect(endpoint == Endpoint(host: host, port: UInt16(port)))
        #expect(endpoint.description == text)
    }

    @Test(arguments: [
        ("", "write HOST:PORT"), ("7690", "write HOST:PORT"), ("localhost", "write HOST:PORT"), (":7690", "the host"),
        ("[]:1", "the host"), ("::1:7690", "in brackets"), ("[::1]", "in brackets"), ("a:", "0 to 65535"),
        ("a:65536", "0 to 65535"), ("a:-1", "0 to 65535"), ("a:+1", "0 to 65535"), ("a:http", "0 to 65535"),
        (" a:1", "not have spaces"), ("[::\u{0}1]:7", "not have spaces"), ("a\u{7F}:1", "not have spaces"),
    ])
    func refuses(text: String, why: String) {
        do throws(SystemError) {
            _ = try Endpoint(parsing: text)
            Issue.record("\(text) was read")
        } catch {
            #expect(error.description.contains(why))
        }
    }

    @Test func resolvesNumbers() throws {
        #expect(try Endpoint(host: "127.0.0.1", port: 5).resolve().map(\.description) == ["127.0.0.1:5"])
        #expect(try Endpoint(host: "::1", port: 6).resolve().map(\.description) == ["[::1]:6"])
        var address = try Endpoint(host: "::1", port: 6).resolve()[0]
        address.port = 65535
        #expect(address.description == "[::1]:65535")
        #expect(address.isIPv6)
    }
}
