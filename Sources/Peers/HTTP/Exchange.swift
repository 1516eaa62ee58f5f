// Exchange: a request over HTTP and its response, on one stream.

import Bytes
import HTTP2

/// A request and its response on one stream.
final class Exchange {
    /// Whom it is with: a client of gRPC, or any other.
    enum Form {
        case call(GRPCMethod)
        case plain(PlainExchange)
    }

    let stream: UInt32
    let handle: Handle
    unowned(unsafe) let connection: Connection
    let form: Form
    /// What a call has of a message that is not complete.
    var deframer: GRPCDeframer
    /// What is still to be sent of the response.
    var body = BodyQueue()
    /// What stands behind it in the engine, once the request has been understood. Dropped when that ends.
    var bound: BoundStream?
    /// Who makes the request, once that is known.
    var principal: Principal?
    var meter: Meter?
    /// It counts as that user's request.
    var isSpeaking = false
    /// It waits until these credentials have been looked at.
    var ticket: UInt64?
    var authorization: String?
    /// The response has begun: its head is sent.
    var isAnswered = false
    /// The response is complete but for what `body` holds.
    var isFinished = false {
        didSet { if isFinished, !oldValue { connection.http?.noteFinished() } }
    }
    /// The client sends no more.
    var isHalfClosed = false
    /// It is answered before the client has sent all, and the stream left open for a while.
    var isLingering = false
    /// Bytes of an unfinished message, of its memory, and of that of `body`, as they are counted with the connection's.
    var held = 0
    var heldMemory = 0
    var queued = 0
    /// Bytes of `body` as they are counted with the connection's, and those of them beyond the peer's windows.
    var waiting = 0
    var beyond = 0
    /// Its turn to go on once other bodies need less beyond the windows; nil if it does not wait for that.
    var crowdedTurn: TurnQueue<Exchange>.Ticket?
    /// Bytes that came are being dealt with.
    var isTaking = false
    /// Of a publishing stream: its end is the topic's.
    var completesTopic = false
    /// A message of the client's has come.
    var hasMessage = false
    /// The one message that it takes is in `backlog`, until the client half-closes.
    var awaitsEnd = false
    /// The peer's windows are closed; the session tells when they open.
    var isStalled = false
    /// When it is refused for having taken too long, on the monotonic clock.
    var deadline: UInt64?
    /// When the message of a call that has begun is to be complete, on the monotonic clock, and which one that is.
    var messageDue: (time: UInt64, number: UInt64)?
    /// The last answer of Health's Watch.
    var watched: HealthStatus?
    /// It is one of the connection's `reflections`.
    var isReflecting = false
    /// Requests that came behind one whose answer is not sent yet. Their bytes count in the peer's window and in
    /// `held`. Or what `awaitsEnd` says, which counts in `held` alone.
    var backlog = ByteBuffer()

    init(stream: UInt32, handle: Handle, connection: Connection, form: Form, limit: Int) {
        self.stream = stream
        self.handle = handle
        self.connection = connection
        self.form = form
        deframer = GRPCDeframer(limit: limit)
    }

    /// The method of a gRPC call, nil if it is none.
    var method: GRPCMethod? { if case .call(let method) = form { method } else { nil } }
    /// Nil if it is a gRPC call.
    var plain: PlainExchange? { if case .plain(let plain) = form { plain } else { nil } }

    /// How many messages its subscription lost since the last one delivered; 0 where there is none.
    var dropped: UInt64 { subscriber?.known { $0.droppedSinceDelivery } ?? 0 }

    /// Nil where it is none's.
    var subscriber: Subscriber? {
        guard let bound, bound.kind == .subscriber else { return nil }
        return bound.asSubscriber
    }
}
