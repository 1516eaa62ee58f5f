// What must not compile: a promise fulfilled with a value that its maker continues to use.

import Streams

final class Box { var n = 0 }

func promises() -> Future<Box, Never> {
    Future { promise in
        let box = Box()
        // expected-error@+2 {{sending 'box.success' risks causing data races}}
        // expected-note@+1 {{Later uses could race}}
        promise(.success(box))
        // expected-note@+1 {{access can happen concurrently}}
        box.n += 1
    }
}
