// An endless publisher, and a subscriber that requests what it can take.

import Streams

@main
enum Feed {
    static func main() async throws {
        let numbers = (1...).publisher.handleEvents(receiveOutput: { print("made \($0)") })
        let some = numbers.resumableSink(
            receiveCompletion: { print($0) },
            receiveValue: { print("got \($0)") })
        some.resume(.max(2))
        print("and now one more")
        some.resume(.max(1))
        some.cancel()
    }
}

// Prints:
//     made 1
//     got 1
//     made 2
//     got 2
//     and now one more
//     made 3
//     got 3
