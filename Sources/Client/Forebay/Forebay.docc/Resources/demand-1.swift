// An endless publisher, and a subscriber that requests nothing.

import Streams

@main
enum Feed {
    static func main() async throws {
        let numbers = (1...).publisher.handleEvents(receiveOutput: { print("made \($0)") })
        let some = numbers.resumableSink(
            receiveCompletion: { print($0) },
            receiveValue: { print("got \($0)") })
        some.cancel()
    }
}
