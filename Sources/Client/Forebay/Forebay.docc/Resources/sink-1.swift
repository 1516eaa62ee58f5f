// A publisher, and a subscriber that takes everything.

import Streams

@main
enum Feed {
    static func main() async throws {
        let numbers = (1...3).publisher
        let all = numbers.sink(receiveValue: { print("got \($0)") })
        all.cancel()
    }
}

// Prints:
//     got 1
//     got 2
//     got 3
