// A publisher, a subscriber that takes everything, and the end.

import Streams

@main
enum Feed {
    static func main() async throws {
        let numbers = (1...3).publisher
        let all = numbers.sink(
            receiveCompletion: { print($0) },
            receiveValue: { print("got \($0)") })
        all.cancel()
    }
}

// Prints:
//     got 1
//     got 2
//     got 3
//     finished
