// Proxy: a network between a client and a broker that can be cut and restored. Data in flight when it is cut is lost.

import EventLoop
import Glibc
import Synchronization

final class Proxy: @unchecked Sendable {
    /// One direction of a connection.
    private struct Flow {
        var from: Int32
        var to: Int32
        var pending: [UInt8] = []
        var isOver = false
    }

    let port: UInt16
    private let target: UInt16
    private let listener: Int32
    private let wakeup: Wakeup
    private let isCut = Atomic<Bool>(false)
    private let isDeaf = Atomic<Bool>(false)
    private let isReset = Atomic<Bool>(false)
    private let isEmpty = Atomic<Bool>(false)
    /// Whether something from the broker has arrived that is not passed on.
    private let isHolding = Atomic<Bool>(false)
    /// Whether what is held back is to be passed on.
    private let isPassing = Atomic<Bool>(false)
    private let isStopped = Atomic<Bool>(false)
    /// The number of connections made through the proxy.
    let connections = Atomic<Int>(0)
    private var thread: NamedThread?
    // Used only by the proxy's thread
    private var flows: [Flow] = []

    init(to target: UInt16) throws {
        self.target = target
        wakeup = try Wakeup()
        listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        port = Socket.localAddress(listener)!.port
        thread = try NamedThread.start("proxy") { [unowned self] in run() }
    }

    deinit {
        isStopped.store(true, ordering: .sequentiallyConsistent)
        wakeup.signal()
        thread?.join()
        close(listener)
    }

    /// Ends all connections, and refuses new ones until `heal`. Returns when they have ended.
    func cut() async {
        isEmpty.store(false, ordering: .sequentiallyConsistent)
        isCut.store(true, ordering: .sequentiallyConsistent)
        wakeup.signal()
        while !isEmpty.load(ordering: .sequentiallyConsistent) { await Task.yield() }
    }

    /// Ends all connections; new ones can be made at once.
    func reset() {
        isReset.store(true, ordering: .sequentiallyConsistent)
        wakeup.signal()
    }

    func heal() {
        isDeaf.store(false, ordering: .sequentiallyConsistent)
        isCut.store(false, ordering: .sequentiallyConsistent)
        wakeup.signal()
    }

    /// From now on, passes nothing from the broker to clients, until `heal`.
    func deafen() {
        isDeaf.store(true, ordering: .sequentiallyConsistent)
        wakeup.signal()
    }

    /// Makes connections possible again, but passes on only so many answers of the broker, until `heal`. Returns when
    /// they have been passed on. An answer is what the broker sends before it hears from the client again.
    func heal(forAnswers count: Int) async {
        isHolding.store(false, ordering: .sequentiallyConsistent)
        deafen()
        isCut.store(false, ordering: .sequentiallyConsistent)
        for _ in 0..<count {
            while !isHolding.load(ordering: .sequentiallyConsistent) { await Task.yield() }
            isPassing.store(true, ordering: .sequentiallyConsistent)
            wakeup.signal()
            while isPassing.load(ordering: .sequentiallyConsistent) { await Task.yield() }
        }
    }

    func url(_ wire: Wire) -> String { "\(wire)://127.0.0.1:\(port)" }

    private func run() {
        while !isStopped.load(ordering: .sequentiallyConsistent) {
            if isCut.load(ordering: .sequentiallyConsistent) {
                closeAll()
                isEmpty.store(true, ordering: .sequentiallyConsistent)
            }
            if isReset.exchange(false, ordering: .sequentiallyConsistent) { closeAll() }
            var descriptors = [
                pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            if isPassing.load(ordering: .sequentiallyConsistent) {
                flows.indices.forEach(write)
                isHolding.store(false, ordering: .sequentiallyConsistent)
                isPassing.store(false, ordering: .sequentiallyConsistent)
            }
            let isDeaf = isDeaf.load(ordering: .sequentiallyConsistent)
            for (index, flow) in flows.enumerated() {
                let isHeld = isDeaf && index % 2 == 1 && !flow.pending.isEmpty
                if isHeld { isHolding.store(true, ordering: .sequentiallyConsistent) }
                let reads = flow.pending.isEmpty && !flow.isOver
                descriptors.append(pollfd(fd: reads ? flow.from : -1, events: Int16(POLLIN), revents: 0))
                descriptors.append(
                    pollfd(fd: flow.pending.isEmpty || isHeld ? -1 : flow.to, events: Int16(POLLOUT), revents: 0))
            }
            poll(&descriptors, nfds_t(descriptors.count), -1)
            wakeup.clear()
            for index in flows.indices {
                if descriptors[2 + 2 * index].revents != 0 { read(index) }
                if descriptors[3 + 2 * index].revents != 0 { write(index) }
            }
            drop()
            accept()
        }
        closeAll()
    }

    private func read(_ index: Int) {
        var buffer = [UInt8](repeating: 0, count: 32 << 10)
        switch buffer.withUnsafeMutableBytes({ Socket.read(flows[index].from, into: $0) }) {
        case .bytes(let count): flows[index].pending = Array(buffer[..<count])
        case .blocked: break
        case .end, .failed: flows[index].isOver = true
        }
        if !isDeaf.load(ordering: .sequentiallyConsistent) || index % 2 == 0 { write(index) }
    }

    private func write(_ index: Int) {
        guard !flows[index].pending.isEmpty else { return }
        switch flows[index].pending.withUnsafeBytes({ Socket.write(flows[index].to, $0) }) {
        case .bytes(let count): flows[index].pending.removeFirst(count)
        case .blocked: break
        case .failed:
            flows[index].pending = []
            flows[index].isOver = true
        }
    }

    /// Ends connections in both directions when either direction has ended.
    private func drop() {
        var kept: [Flow] = []
        for pair in stride(from: 0, to: flows.count, by: 2) {
            if flows[pair...pair + 1].contains(where: { $0.isOver && $0.pending.isEmpty }) {
                close(flows[pair].from)
                close(flows[pair].to)
            } else {
                kept += flows[pair...pair + 1]
            }
        }
        flows = kept
    }

    private func accept() {
        while let (client, _) = try? Socket.accept(listener) {
            let endpoint = Endpoint(host: "127.0.0.1", port: target)
            guard !isCut.load(ordering: .sequentiallyConsistent),
                let broker = try? Socket.connect(to: endpoint, timeout: 1_000_000_000)
            else {
                close(client)
                continue
            }
            connections.add(1, ordering: .relaxed)
            flows += [Flow(from: client, to: broker), Flow(from: broker, to: client)]
        }
    }

    private func closeAll() {
        for pair in stride(from: 0, to: flows.count, by: 2) {
            close(flows[pair].from)
            close(flows[pair].to)
        }
        flows = []
    }
}
