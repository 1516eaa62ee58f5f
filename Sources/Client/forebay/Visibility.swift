// Visibility: which of the broker's lists include other users' entries, and which permission to ask for if they do not.
// An empty table would look like an idle broker.

import Client
import ForebayWire

struct Visibility {
    private let user: String?
    /// Nil if the broker does not send this list; everything is then assumed to be visible.
    private let lists: [String]?

    /// - Parameter info: the response to `$SYS.info`.
    init(info: String) {
        let info = JSON(info) ?? .null
        user = info["user"]?.text
        if case .array(let names)? = info["sees"] { lists = names.compactMap(\.text) } else { lists = nil }
    }

    func covers(_ list: BrokerList) -> Bool { lists?.contains(list.rawValue) ?? true }

    /// Why a list is empty for a client without permission, and what to do.
    func refusal(_ list: BrokerList) -> String {
        let who = user.map { "User '\($0)'" } ?? "Anonymous clients"
        return "\(who) may not see the broker's \(list.title); ask its administrator for \(list.permission)."
    }

    /// The note for a list that shows only the client's own entries.
    func note(_ list: BrokerList) -> String {
        let whose = user.map { "the \(list.title) of user '\($0)'" } ?? "your own \(list.title)"
        return "These are only \(whose); to see others, ask the broker's administrator for "
            + "\(list.permission)."
    }
}

extension BrokerList {
    fileprivate var title: String {
        switch self {
        case .topics: "topics"
        case .subscriptions: "subscriptions"
        case .connections: "connections"
        }
    }

    /// The permission that shows the whole list.
    fileprivate var permission: String {
        switch self {
        case .topics: "permission to subscribe or publish to them, or to control them"
        case .subscriptions: "permission to control their topics"
        case .connections: "permission to control '\(rawValue)'"
        }
    }
}

extension Session {
    /// Asks the broker what this client may see; nil if a signal arrived before the response. A broker that cannot
    /// answer hides nothing.
    mutating func askVisibility() throws(ClientError) -> Visibility? {
        do throws(ClientError) {
            return try ask(.info).map { Visibility(info: $0) }
        } catch {
            if error.endsConnection { throw error }
            return Visibility(info: "")
        }
    }
}
