// The broker's listeners: which exist, what is reported about them, and through which of them a connection came.

import Core
import EventLoop
import Glibc
import Testing

@testable import Server

struct ListenerTests {
    private static let somewhere = Endpoint(host: "127.0.0.1", port: 0)

    /// An endpoint at which nobody listens. Each caller passes an address that no other test uses, because other tests
    /// use ports of 127.0.0.1 in the meantime.
    private func free(_ host: String) throws -> Endpoint {
        let listener = try Socket.listen(on: Endpoint(host: host, port: 0).resolve()[0])
        defer { close(listener) }
        return Endpoint(host: host, port: try #require(Socket.localAddress(listener)).port)
    }

    /// A broker with a listener for each protocol in `faces`.
    private func start(_ faces: [WireProtocol], _ log: Log) throws -> Server {
        try Server(
            Server.Configuration(
                listen: faces.contains(.rsocket) ? ListenerTests.somewhere : nil,
                http: faces.contains(.http) ? ListenerTests.somewhere : nil, threads: 1), log: log)
    }

    @Test(arguments: [[WireProtocol.rsocket, .http], [.rsocket], [.http]])
    func eachIsThereAndToldUnlessTurnedOff(faces: [WireProtocol]) throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let server = try start(faces, log)
        for wireProtocol in WireProtocol.all {
            #expect(server.addresses(wireProtocol).count == (faces.contains(wireProtocol) ? 1 : 0))
            for address in server.addresses(wireProtocol) { try TestClient(port: address.port).disconnect() }
        }
        server.stop()
        #expect(server.wait())
        for address in WireProtocol.all.flatMap(server.addresses) {
            #expect(throws: SystemError.self, "the listener is closed") { try TestClient(port: address.port) }
        }
        log.close()
        pipe.closeInput()
        let reported = pipe.readAll().split(separator: "\n").filter { $0.contains(" info listening ") }
        #expect(reported.count == faces.count)
        for (line, wireProtocol) in zip(reported, faces) {
            let address = server.addresses(wireProtocol)[0]
            #expect(address.port > 0)
            #expect(line.hasSuffix(" info listening protocol=\(wireProtocol) address=\(address)"))
        }
    }

    /// The error that a broker reports if it cannot have the listeners of `options`.
    private func refusal(of options: Options) throws -> String {
        let log = try silentLog()
        defer { log.close() }
        do throws(StartError) {
            let server = try Server(
                Server.Configuration(listen: options.listen, http: options.http, threads: 1), log: log)
            server.stop()
            _ = server.wait()
            return "it started"
        } catch {
            return Broker.explain(error, loaded(options))
        }
    }

    @Test func aTakenPortIsASentenceThatTellsWhichAndWhatToDo() throws {
        let log = try silentLog()
        let server = try start([.rsocket], log)
        let port = server.addresses(.rsocket)[0].port
        var options = Options()
        options.listen = Endpoint(host: "127.0.0.1", port: port)
        options.http = ListenerTests.somewhere
        #expect(
            try refusal(of: options)
                == "port \(port) for RSocket is in use: stop the other process or set --listen 127.0.0.1:0")
        (options.listen, options.http) = (options.http, options.listen)
        let http = "port \(port) for HTTP is in use: stop the other process or set --http 127.0.0.1:0"
        #expect(try refusal(of: options) == http)
        options.listen = nil
        #expect(try refusal(of: options) == http)
        server.stop()
        #expect(server.wait())
        log.close()
    }

    @Test func aListenerIsGivenBackWhenTheOtherIsNotToBeHad() throws {
        let log = try silentLog()
        let server = try start([.http], log)
        var options = Options()
        options.listen = try free("127.77.0.2")
        options.http = Endpoint(host: "127.0.0.1", port: server.addresses(.http)[0].port)
        #expect(try refusal(of: options).hasPrefix("port \(options.http!.port) for HTTP is in use"))
        options.http = nil
        #expect(try refusal(of: options) == "it started")
        server.stop()
        #expect(server.wait())
        log.close()
    }

    @Test func twoNamesOfOnePlaceAreASentenceThatHelps() throws {
        let listen = try free("127.77.0.3")
        let port = listen.port
        var options = Options()
        options.listen = listen
        options.http = Endpoint(host: "0.0.0.0", port: port)
        #expect(
            try refusal(of: options)
                == "--listen 127.77.0.3:\(port) and --http 0.0.0.0:\(port) both use port \(port): choose "
                + "different ports")
    }

    /// One port at two addresses does not conflict with itself: another process uses it at one of them.
    @Test func onePortAtTwoAddressesIsNoRival() throws {
        let log = try silentLog()
        let server = try start([.rsocket], log)
        let port = server.addresses(.rsocket)[0].port
        var options = Options()
        options.listen = Endpoint(host: "127.77.0.4", port: port)
        options.http = Endpoint(host: "127.0.0.1", port: port)
        let sentence = "port \(port) for HTTP is in use: stop the other process or set --http 127.0.0.1:0"
        #expect(try refusal(of: options) == sentence)
        server.stop()
        #expect(server.wait())
        log.close()
    }

    @Test(arguments: [
        ("127.0.0.1", true), ("localhost", true), ("0.0.0.0", true), ("127.0.0.2", false), ("::1", false),
        ("::", false),
    ])
    func aRivalWantsTheSameAddress(host: String, isRival: Bool) {
        var options = Options()
        options.listen = Endpoint(host: host, port: 70)
        options.http = Endpoint(host: "127.0.0.1", port: 70)
        let error = StartError(listener: .http, cause: SystemError("cannot listen", code: EADDRINUSE))
        #expect(Broker.isUsage(error, options) == isRival)
    }

    private func loaded(_ options: Options) -> Loaded {
        var loaded = Loaded()
        loaded.options = options
        return loaded
    }

    /// A value from the file is quoted as it is written there, and the suggested change has the same form.
    @Test func whatIsWrongWithAnAddressOfTheFileNamesItsLine() {
        var loaded = Loaded()
        loaded.options.listen = Endpoint(host: "a", port: 70)
        loaded.origins["listen"] = .file(path: "b.yaml", line: 7)
        var error = StartError(listener: .rsocket, cause: SystemError("cannot listen", code: EACCES))
        #expect(Broker.explain(error, loaded) == "port 70 requires privileges: set listen: a:7690")
        error.cause = SystemError("cannot listen", code: ENOBUFS)
        #expect(Broker.explain(error, loaded).hasPrefix("listen: a:70 (b.yaml:7): cannot listen"))
        (error.isConfiguration, error.cause) = (true, SystemError("it would", cause: "there are no users"))
        let sentence = Broker.explain(error, loaded)
        #expect(sentence.hasSuffix("listen on 127.0.0.1, or set allow-anonymous: true") && !sentence.contains("--"))
        #expect(Broker.isUsage(error, loaded.options))
        loaded.origins["listen"] = .variable("FOREBAY_LISTEN")
        #expect(Broker.explain(error, loaded).hasSuffix("or set FOREBAY_ALLOW_ANONYMOUS=true"))
        // Another listener's default is quoted as it would be written in the file.
        loaded.origins["listen"] = .file(path: "b.yaml", line: 7)
        error = StartError(isAdmin: true, cause: SystemError("cannot listen", code: EADDRINUSE))
        #expect(
            Broker.explain(error, loaded) == "port 7692 for the admin listener is in use: stop the other process or "
                + "set admin: 127.0.0.1:0, or turn it off with admin: off")
    }

    @Test(arguments: [
        (WireProtocol.rsocket, EADDRNOTAVAIL, "this machine has no address a: set --listen 127.0.0.1:70"),
        (.http, EADDRNOTAVAIL, "this machine has no address b: set --http 127.0.0.1:80"),
        (.rsocket, EACCES, "port 70 requires privileges: set --listen a:7690"),
        (.http, EACCES, "port 80 requires privileges: set --http b:7691"),
        (.http, ENOBUFS, "--http b:80: cannot listen: No buffer space available"),
        (nil, EMFILE, "cannot listen: Too many open files"),
    ])
    func whatIsWrongWithAnAddressNamesItsOption(listener: WireProtocol?, code: Int32, sentence: String) {
        var options = Options()
        options.listen = Endpoint(host: "a", port: 70)
        options.http = Endpoint(host: "b", port: 80)
        let error = StartError(listener: listener, cause: SystemError("cannot listen", code: code))
        #expect(Broker.explain(error, loaded(options)) == sentence)
        #expect(!Broker.isUsage(error, options))
    }

    @Test func aNameThatDoesNotResolveIsToldWithItsOption() throws {
        var options = Options()
        options.listen = ListenerTests.somewhere
        // Longer than any valid name, so no name server is asked.
        let host = String(repeating: "x", count: 300)
        options.http = Endpoint(host: host, port: 1)
        #expect(try refusal(of: options).hasPrefix("--http \(host):1: cannot resolve \(host): "))
    }

    @Test func aConnectionHasTheFaceOfItsListener() throws {
        let context = LoopContext(
            limits: Limits(), memory: MemoryBudget(limit: Limits().memory), inboxes: [try Inbox()],
            acceptor: try Inbox(), connections: ConnectionCount(limit: 100), log: try silentLog())
        let listeners = try WireProtocol.all.flatMap { try Listener.open($0, on: ListenerTests.somewhere) }
        let acceptor = try NamedThread.start("acceptor") {
            _ = try? Acceptor(listeners: listeners, context: context, drainTime: 0).run()
        }
        var poller = try Poller()
        try poller.add(context.inboxes[0].descriptor, token: 0, interest: .read)
        for wireProtocol in [WireProtocol.http, .rsocket, .rsocket, .http] {
            let listener = try #require(listeners.first { $0.wireProtocol == wireProtocol })
            let client = try TestClient(port: try #require(Socket.localAddress(listener.socket)).port)
            #expect(try poller.wait(timeout: patience) == 1)
            context.inboxes[0].clearWake()
            var faces: [WireProtocol] = []
            context.inboxes[0].drain { item in
                guard case .accepted(let fd, _, let wireProtocol, _) = item else { return }
                faces.append(wireProtocol)
                close(fd)
            }
            #expect(faces == [wireProtocol])
            client.disconnect()
        }
        context.acceptor.push(.stop)
        acceptor.join()
        context.log.close()
    }
}
