// TimerQueue: when each of many elements is due. A binary heap by time; each element knows its index, so it can be
// moved or removed in O(log n). An element without a deadline is not in the queue and costs nothing.

/// An element of a `TimerQueue`. It can be in one queue at a time.
protocol Timed: AnyObject {
    /// The element's index in the queue; -1 if it is in none. Managed by the queue.
    var timerPlace: Int { get set }
}

struct TimerQueue<Element: Timed> {
    private var entries: [(time: UInt64, element: Element)] = []

    var count: Int { entries.count }
    /// The time when the first element is due.
    var deadline: UInt64? { entries.first?.time }

    /// Makes an element due at `time`, unless it is due earlier already. `UInt64.max` means never.
    mutating func schedule(_ element: Element, by time: UInt64) {
        guard time < .max else { return }
        if element.timerPlace >= 0 {
            guard time < entries[element.timerPlace].time else { return }
            entries[element.timerPlace].time = time
        } else {
            element.timerPlace = entries.count
            entries.append((time, element))
        }
        rise(element.timerPlace)
    }

    mutating func cancel(_ element: Element) {
        let place = element.timerPlace
        guard place >= 0 else { return }
        element.timerPlace = -1
        let last = entries.removeLast()
        guard place < entries.count else { return }
        put(last, at: place)
        rise(place)
        sink(last.element.timerPlace)
    }

    /// Removes and returns the next element that is due; nil if there is none.
    mutating func takeDue(now: UInt64) -> Element? {
        guard let first = entries.first, first.time <= now else { return nil }
        cancel(first.element)
        return first.element
    }

    private mutating func put(_ entry: (time: UInt64, element: Element), at place: Int) {
        entries[place] = entry
        entry.element.timerPlace = place
    }

    private mutating func rise(_ start: Int) {
        let entry = entries[start]
        var place = start
        while place > 0, entries[(place - 1) / 2].time > entry.time {
            put(entries[(place - 1) / 2], at: place)
            place = (place - 1) / 2
        }
        put(entry, at: place)
    }

    private mutating func sink(_ start: Int) {
        let entry = entries[start]
        var place = start
        while true {
            var child = 2 * place + 1
            guard child < entries.count else { break }
            if child + 1 < entries.count, entries[child + 1].time < entries[child].time { child += 1 }
            guard entries[child].time < entry.time else { break }
            put(entries[child], at: place)
            place = child
        }
        put(entry, at: place)
    }
}
