// Referee: takes down the first rule that was broken. A run stops there, for what follows is no evidence of anything.

final class Referee {
    private(set) var fault: String?

    func fail(_ sentence: String) {
        if fault == nil { fault = sentence }
    }

    func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) {
        if !holds { fail(sentence()) }
    }
}
