// Sight: in which of the broker's lists one sees what is not one's own, and what to ask for where one does not. An
// empty table would look like an idle broker.

import Client
import ForebayWire

struct Sight {
    private let user: String?
    /// Nil of a broker that does not tell: it is taken to show everything.
    private let lists: [String]?

    /// - Parameter info: what `$SYS.info` answers.
    init(info: String) {
        let info = JSON(info) ?? .null
        user = info["user"]?.text
        if case .array(let names)? = info["sees"] { lists = names.compactMap(\.text) } else { lists = nil }
    }

    func covers(_ list: BrokerList) -> Bool { lists?.contains(list.rawValue) ?? true }

    /// Why a list is empty for who may not see what is in it, and what to do.
    func refusal(_ list: BrokerList) -> String {
        let who = user.map { "User '\($0)'" } ?? "Without credentials one"
        return "\(who) may not see the broker's \(list.title): ask its administrator for \(list.permission)."
    }

    /// What a list is that shows only what is one's own.
    func note(_ list: BrokerList) -> String {
        let whose = user.map { "of user '\($0)'" } ?? "of one's own"
        return "These are the \(list.title) \(whose) alone: to see others ask the broker's administrator for "
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

    /// That shows it.
    fileprivate var permission: String {
        switch self {
        case .topics: "the permission to subscribe or publish to them, or to control them"
        case .subscriptions: "the permission to control their topics"
        case .connections: "the permission to control '\(rawValue)'"
        }
    }
}

extension Session {
    /// Nil when a signal came before the broker's answer. One that cannot answer has nothing to hide.
    mutating func askSight() throws(ClientError) -> Sight? {
        do throws(ClientError) {
            return try ask(.info).map { Sight(info: $0) }
        } catch {
            if error.endsConnection { throw error }
            return Sight(info: "")
        }
    }
}
