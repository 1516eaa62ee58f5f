// Referee: records the first rule that is broken. A run stops at that point, because what follows proves nothing.

final class Referee {
    private(set) var fault: String?

    func fail(_ sentence: String) {
        if fault == nil { fault = sentence }
    }

    func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) {
        if !holds { fail(sentence()) }
    }
}
