# SPDX-License-Identifier: MIT
"""The numbers of a trace's records: seven bits a byte, the lowest first, and 128 where more follow."""


def number(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def number_at(data, at):
    """The number that begins there, and where the next one does."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
