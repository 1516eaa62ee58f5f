// print and debug: events as lines of text.

extension Publisher {
    /// Prints a line for each event.
    /// - Parameters:
    ///   - prefix: printed before each line, followed by a colon.
    ///   - stream: the destination; standard output by default. Lines of one subscription are written one at a time.
    public func print(_ prefix: String = "", to stream: (any TextOutputStream & Sendable)? = nil)
        -> Publishers.Print<Self>
    {
        Publishers.Print(upstream: self, prefix: prefix, to: stream)
    }

    /// Prints a line for each event, with its position in the source code:
    ///
    ///     prices load():12 subscription PassthroughSubject
    ///     prices load():12 request max(2)
    ///     prices load():12 value 7
    ///     prices load():12 cancel
    ///
    /// and `finished` or `failure(…)` for the completion.
    /// - Parameters:
    ///   - prefix: printed before each line.
    ///   - function: printed after the prefix.
    ///   - line: printed after the function.
    ///   - stream: the destination; standard output by default.
    public func debug(
        prefix: String = "", function: String = #function, line: Int = #line,
        to stream: (any TextOutputStream & Sendable)? = nil
    ) -> Publishers.HandleEvents<Self> {
        let output = LineOutput(stream)
        let place = "\(prefix)\(prefix.isEmpty ? "" : " ")\(function):\(line) "
        return handleEvents(
            receiveSubscription: { output.write("\(place)subscription \($0)") },
            receiveOutput: { output.write("\(place)value \($0)") },
            receiveCompletion: { completion in
                switch completion {
                case .finished: output.write("\(place)finished")
                case .failure(let failure): output.write("\(place)failure(\(failure))")
                }
            },
            receiveCancel: { output.write("\(place)cancel") },
            receiveRequest: { output.write("\(place)request \($0)") })
    }
}

extension Publishers {
    /// See `Publisher.print`.
    public struct Print<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let prefix: String
        public let stream: (any TextOutputStream & Sendable)?

        public init(upstream: Upstream, prefix: String, to stream: (any TextOutputStream & Sendable)? = nil) {
            self.upstream = upstream
            self.prefix = prefix
            self.stream = stream
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(Tap(events(), name: "Print", downstream: subscriber))
        }

        private func events() -> TapEvents<Output, Failure> {
            let output = LineOutput(stream)
            let before = prefix.isEmpty ? "" : "\(prefix): "
            return TapEvents(
                subscription: { output.write("\(before)receive subscription: (\($0))") },
                output: { output.write("\(before)receive value: (\($0))") },
                completion: { completion in
                    switch completion {
                    case .finished: output.write("\(before)receive finished")
                    case .failure(let failure): output.write("\(before)receive error: (\(failure))")
                    }
                },
                cancel: { output.write("\(before)receive cancel") },
                request: { demand, isReturned in
                    let figure = demand.max.map { "max: (\($0))" } ?? "unlimited"
                    output.write("\(before)request \(figure)\(isReturned ? " (synchronous)" : "")")
                })
        }
    }
}

/// Writes lines to a stream or to standard output, one at a time for all threads. No lock is held while the stream
/// writes, because writing may itself cause further lines.
private final class LineOutput: @unchecked Sendable {
    /// The number of lines that may wait while another is being written. Lines beyond this number are dropped, counted
    /// and reported.
    private static let limit = 1024

    private let lock = Lock()
    private var waiting = Queue<String>()
    private var omitted = 0
    private var isWriting = false
    /// Used only by the thread that is writing.
    private var stream: (any TextOutputStream & Sendable)?

    init(_ stream: (any TextOutputStream & Sendable)?) { self.stream = stream }

    func write(_ line: String) {
        let isFirst = lock.with {
            if waiting.count < LineOutput.limit { waiting.append(line) } else { omitted += 1 }
            defer { isWriting = true }
            return !isWriting
        }
        guard isFirst else { return }
        while let next = takeNext() {
            if stream == nil { Swift.print(next) } else { stream?.write(next + "\n") }
        }
    }

    private func takeNext() -> String? {
        lock.with {
            if let line = waiting.popFirst() { return line }
            guard omitted > 0 else {
                isWriting = false
                return nil
            }
            defer { omitted = 0 }
            return omitted == 1 ? "1 line was omitted" : "\(omitted) lines were omitted"
        }
    }
}
