// StreamLedger: one stream of a client, as the client sees it. The kind of stream determines what may arrive.

import ForebayWire

class StreamLedger {
    unowned let client: any VirtualClient
    let stream: UInt32
    let referee: Referee
    /// The purpose of the stream, as text.
    let title: String
    /// The text of the error that ended the stream, or "" for a completion.
    private(set) var end: String?
    /// Whether the client has cancelled the stream.
    var isCancelled = false
    /// Whether the broker has read the cancellation.
    var isCancelFed = false
    /// Whether the client has made a request for 0 messages, or another mistake that ends a stream.
    var isMistaken = false

    init(_ client: any VirtualClient, _ title: String, _ referee: Referee) {
        self.client = client
        self.referee = referee
        self.title = title
        stream = client.freshStream()
        client.add(self)
    }

    var name: String { "stream \(stream) of connection \(client.wire.name) (\(title))" }
    /// Whether the stream's end is still expected.
    var isAwaited: Bool { end == nil && !isCancelled && !isMistaken && !client.isOver }
    /// Whether the stream can still be used.
    var isOpen: Bool { isAwaited }

    func item(_ metadata: [UInt8]?, _ data: [UInt8]) {}
    func granted(_ n: Int) {}

    /// - Parameter error: nil for a completion.
    func ended(_ metadata: [UInt8]?, _ error: String?) {
        referee.expect(end == nil, "\(name) was ended twice: \(end ?? ""), then \(error ?? "completed")")
        end = error ?? ""
        guard let error else { return }
        referee.expect(
            ErrorWord(beginning: error) != nil, "\(name) has an error text that does not begin with a word: \(error)")
    }

    /// Whether the error says that the connection could not assemble a message or had too much in progress. The topic
    /// knows nothing of that. Over RSocket the connection ends; over gRPC only the call fails.
    static func isOfFragments(_ error: String) -> Bool {
        [
            "bytes of unfinished messages", "fragments of a message did not arrive in time",
            "unfinished messages need more than", "unfinished requests",
        ].contains { error.contains($0) }
    }

    /// Checks that the stream was ended by an error that contains one of these texts, or had made a mistake.
    func expectError(_ error: String, among texts: [String]) {
        if isMistaken || StreamLedger.isOfFragments(error) { return }
        referee.expect(texts.contains { error.contains($0) }, "\(name) failed without cause: \(error)")
    }
}

/// A control call, which gets one response.
final class CallLedger: StreamLedger {
    private let journal: Journal
    private let call: TopicCall
    private var answers = 0

    init(_ client: any VirtualClient, _ call: TopicCall, _ topic: String, _ journal: Journal, _ referee: Referee) {
        self.journal = journal
        self.call = call
        super.init(client, "\(call) '\(topic)'", referee)
    }

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        answers += 1
        referee.expect(answers == 1, "\(name) was answered twice")
        // Over HTTP/2 the ledger does not get the answer's text.
        if let epoch = Row(data)?.number("epoch") { journal.promised(epoch, isDeleted: call == .delete) }
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        if let error { expectError(error, among: journal.refusals + ["There is no topic"]) }
    }
}

/// One of the broker's lists.
final class ListLedger: StreamLedger {
    var asked = 0
    private(set) var texts: [[UInt8]] = []

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        texts.append(data)
        referee.expect(texts.count <= asked, "\(name) sent \(texts.count) rows, but \(asked) were requested")
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        if let error { expectError(error, among: ["The connection already has"]) }
    }
}
