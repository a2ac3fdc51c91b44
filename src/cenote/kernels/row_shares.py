"""Cut of a product's rows among threads, so that each reads what it has written itself.

Where one step after the other is cut by rows, or pixels, a thread finds in its own caches what it reads: of the last
step's results, and of the memory that it writes to. A core takes some 15 ns for each cache line that another one wrote
last, and four to ten times less for one of constant weights, which are read ahead. Cut by columns, or filters, weights
are read once by one thread, and rows by all. Two threads, before and after, cut by columns and by rows (Emerald
Rapids), ms: DeiT-tiny 11.0 and 9.0, an audio spectrogram transformer 17.4 and 14.6, gMLP 13.3 and 11.6; Winograd's
transforms and products of 96 to 96 channels at 25x25 0.168 and 0.117, of 128 at 28x28 0.265 and 0.218. Where the
matrix is large, rows are not cut: MLP-Mixer took 11.4 instead of 8.7 so, 256 channels at 14x14 0.325 either way.
"""

from __future__ import annotations

from cenote.core.sizes import maximum, minimum, plain


def row_shares(rows: int, depth: int, columns: int, threads: int, part: int = 10) -> int:
    """Return into how many shares the rows of a product with a matrix of (depth, columns) are cut: one per thread, or
    as many as leave a share at least one `part`-th as many numbers, read and written, as the matrix has."""
    least = -(-depth * columns // (part * (depth + columns)))
    return maximum(1, minimum(threads, rows // maximum(1, least)))


def shared_by_pixels(channels: int, pixels: int) -> bool:
    """Whether threads share a step without weights, on a blocked tensor, by its rows, all channels of each, and not by
    its channels."""
    return plain(channels) < plain(pixels)
