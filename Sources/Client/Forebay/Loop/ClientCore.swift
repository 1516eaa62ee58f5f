// ClientCore: the state that a client's thread shares with all others.

import Client
import EventLoop
import StreamsCore
import Synchronization

/// Notices to a client's thread.
enum Notice: Sendable {
    case start(Activity)
    case notice(Activity)
    case dialed(DialedLink)
    case dialFailed(ClientError)
    case close
}

/// A new connection, on its way from the thread that established it.
final class DialedLink: @unchecked Sendable {
    private var link: Link?

    init(_ link: consuming Link) { self.link = consume link }

    func take() -> Link? { link.take() }
}

final class ClientCore: @unchecked Sendable {
    let brokers: Brokers
    let options: ForebayOptions
    let inbox: Inbox<Notice>
    let state = CurrentValueSubject<ConnectionState, Never>(.connecting)
    /// Nil once the first connection is established; otherwise the reason why there never was one.
    let first = OneShot<ForebayError?>()
    /// Whether the thread no longer reads the inbox.
    let hasEnded = Atomic<Bool>(false)
    /// Set once the thread has ended.
    let ended = OneShot<Void>()

    private let lock = Lock()
    private var closed: ForebayError?
    private var activities = 0
    private var bytes = 0

    init(_ brokers: Brokers, _ options: ForebayOptions) throws(ForebayError) {
        self.brokers = brokers
        self.options = options
        do throws(SystemError) {
            inbox = try Inbox()
        } catch {
            throw ForebayError(.system, "\(error)")
        }
    }

    /// Admits an activity, if the limits allow it, and hands it to the thread.
    func start(_ activity: Activity) throws(ForebayError) {
        lock.lock()
        if let closed {
            lock.unlock()
            throw closed
        }
        if let refusal = refusal(of: activity) {
            lock.unlock()
            throw refusal
        }
        activities += 1
        bytes += activity.bytes
        // Under the lock, so that nothing is queued after the end.
        inbox.push(.start(activity))
        lock.unlock()
    }

    /// The limit that rules out another activity, as an error; nil if there is none. Under the lock.
    private func refusal(of activity: Activity) -> ForebayError? {
        let most = min(options.limits.activities, ClientLimits().streams)
        guard activities < most else {
            return ForebayError(
                .busy,
                "\(activities) subscriptions and publishes are in progress on this client, and ForebayOptions.Limits."
                    + "activities allows \(most); wait until some of them have ended, or connect another client.")
        }
        let room = options.limits.publishedBytes
        guard activity.bytes <= room || activity.bytes == 0 else {
            return ForebayError(
                .messageTooLarge,
                "The message has \(activity.bytes) bytes, and ForebayOptions.Limits.publishedBytes allows \(room).")
        }
        guard activity.bytes == 0 || bytes + activity.bytes <= room else {
            return ForebayError(
                .busy,
                "Messages of \(bytes) bytes are being published on this client, and ForebayOptions.Limits."
                    + "publishedBytes allows \(room); wait until some of them are acknowledged.")
        }
        return nil
    }

    /// The number of activities.
    var activityCount: Int { lock.with { activities } }

    /// Stops counting an activity that has ended.
    func release(_ activity: Activity) {
        lock.with {
            activities -= 1
            bytes -= activity.bytes
        }
    }

    /// Refuses all activities from now on.
    func close(_ error: ForebayError) {
        lock.with { closed = closed ?? error }
    }
}
