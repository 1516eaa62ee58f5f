// Suggestion: finds the word that was probably meant.

/// The word in `known` that is nearest to `word`, if it is near enough: at most a third of its letters, and at most
/// three, are inserted, deleted or changed.
public func nearest(to word: String, among known: [String]) -> String? {
    guard word.utf8.count <= 64 else { return nil }
    var best: (word: String, distance: Int)?
    for candidate in known {
        let allowed = min(3, max(1, candidate.utf8.count / 3))
        let distance = distance(Array(word.lowercased().utf8), Array(candidate.utf8))
        if distance <= allowed, distance < best?.distance ?? .max { best = (candidate, distance) }
    }
    return best?.word
}

/// "; did you mean retain?", or a list of the known words if none is near.
public func suggestion(for word: String, among known: [String]) -> String {
    if let meant = nearest(to: word, among: known) { return "; did you mean \(meant)?" }
    return known.count > 12 ? "" : "; known: \(known.joined(separator: ", "))"
}

/// The Levenshtein distance, row by row.
private func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
    var row = Array(0...b.count)
    for (i, x) in a.enumerated() {
        var diagonal = row[0]
        row[0] = i + 1
        for (j, y) in b.enumerated() {
            let change = diagonal + (x == y ? 0 : 1)
            diagonal = row[j + 1]
            row[j + 1] = min(change, diagonal + 1, row[j] + 1)
        }
    }
    return row[b.count]
}
